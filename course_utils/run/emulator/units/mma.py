"""mma.sync: a warp multiplies two small matrices that its registers hold.

PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions", the fragments of mma.m16n8k4 to m16n8k64 and
m8n8k16 to m8n8k64. Register i of lane 4r + c holds of A the 32-bit word c + 4 (i div m) of row
r + 8 (i mod m), where A has m blocks of 8 rows; of B the word c + 4i of column r; of C and D two neighbours
of row r, then of row r + 8. A word is one tf32, two halves, four bytes or eight 4-bit integers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.ptx.parser import Instr, Vec
from course_utils.run.emulator.isa.arithmetic import LANES, UNSIGNED, vector
from course_utils.run.emulator.isa.elements import ELEMENT_BITS, Decoder, decoders
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value
from course_utils.run.emulator.units.sync import all_lanes

if TYPE_CHECKING:
    from course_utils.run.emulator.core.threads import Path

# Types of A and B that may stand together, by the type of the sums.
_ADDED = {
    "f32": ({"f16"}, {"bf16"}, {"tf32"}, {"e4m3", "e5m2"}),
    "f16": ({"f16"}, {"e4m3", "e5m2"}),
    "s32": ({"s8", "u8"}, {"s4", "u4"}),
}
_NIBBLES = {"s4": True, "u4": False}  # signed?
_SHAPE = re.compile(r"m(8|16)n8k(\d+)")
_DECODERS = decoders()


def multiply(instruction: Instr) -> Lowered:
    """mma.sync.aligned.SHAPE.row.col.D.A.B.C d, a, b, c. Raises ValueError for other forms."""
    parts = instruction.opcode
    shape = _SHAPE.fullmatch(parts[3])
    if parts[:3] != ("mma", "sync", "aligned") or shape is None or parts[4:6] != ("row", "col"):
        raise ValueError("a sparse multiplication, or another shape or layout")
    if len(parts) != 10:
        raise ValueError(f"the modifier {parts[6]}")
    added, a_kind, b_kind, start = parts[6:]
    M, K = int(shape[1]), int(shape[2])
    if added != start or not any({a_kind, b_kind} <= kinds for kinds in _ADDED.get(added, ())):
        raise ValueError(f"{a_kind} by {b_kind} in {added}")
    bits = 4 if a_kind in _NIBBLES else ELEMENT_BITS[a_kind]
    words = K * bits // 32  # of a row of A
    blocks, sums = M // 8, M // 8 * (1 if added == "f16" else 2)
    target, *given = (
        operand.items if isinstance(operand, Vec) else (operand,) for operand in instruction.operands
    )
    counts = [len(target), *map(len, given)]
    if words % 4 or counts != [sums, blocks * words // 4, words // 4, sums]:
        raise ValueError(f"{counts} registers")
    a_count, b_count = counts[1], counts[2]

    def function(p: Path, m: Mask, *values: Value) -> Value:
        all_lanes(p, m, "mma.sync")
        cells = np.array([vector(v, 32) for v in values], np.uint32).reshape(-1, 8, 4)
        left = cells[:a_count].reshape(-1, blocks, 8, 4).transpose(1, 2, 0, 3).reshape(M, words)
        right = cells[a_count : a_count + b_count].transpose(1, 0, 2).reshape(8, words)
        D = _start(cells[a_count + b_count :], M, added) + _decoded(left, a_kind) @ _decoded(right, b_kind).T
        return _fragment(D, blocks, added)

    return Lowered(
        "warp", function, target, tuple((v, 32) for operand in given for v in operand), unpack=len(target) > 1
    )


def _decoded(words: np.ndarray, kind: str) -> np.ndarray:
    """Rows of words as rows of numbers."""
    words = np.ascontiguousarray(words)
    if kind in _NIBBLES:
        nibbles = words[:, :, None] >> np.arange(0, 32, 4, dtype=np.uint32) & np.uint32(15)
        numbers = nibbles.reshape(len(words), -1).astype(np.float64)
        return np.where(numbers > 7, numbers - 16, numbers) if _NIBBLES[kind] else numbers
    decode: Decoder = _DECODERS[kind]
    return decode(words.view(UNSIGNED[ELEMENT_BITS[kind]]))


def _start(cells: np.ndarray, M: int, added: str) -> np.ndarray:
    """C, M x 8, from its registers."""
    if added == "f16":
        return np.ascontiguousarray(cells).view(np.float16).reshape(M, 8).astype(np.float32)
    numbers = cells.view(np.int32 if added == "s32" else np.float32)
    return numbers.reshape(M // 8, 2, 8, 4).transpose(0, 2, 3, 1).reshape(M, 8)


def _fragment(D: np.ndarray, blocks: int, added: str) -> Value:
    """The registers of D, the inverse of ``_start``."""
    if added == "f16":
        found: list[Any] = list(D.astype(np.float16).view(np.uint32).reshape(blocks, LANES))
    else:
        numbers = D.astype(np.int64).astype(np.uint32) if added == "s32" else D.astype(np.float32)
        cells = numbers.reshape(blocks, 8, 4, 2).transpose(0, 3, 1, 2)
        found = list(np.ascontiguousarray(cells).view(np.uint32).reshape(2 * blocks, LANES))
    return found if len(found) > 1 else found[0]
