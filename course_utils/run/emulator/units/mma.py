"""mma.sync: a warp multiplies two small matrices that its registers hold.

PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions", the fragments of mma.m16n8k4 to m16n8k64 and
m8n8k4 to m8n8k64. Register i of lane 4r + c holds of A the 32-bit word c + 4 (i div m) of row
r + 8 (i mod m), where A has m blocks of 8 rows; of B the word c + 4i of column r; of C and D two neighbours
of row r, then of row r + 8. A word is one tf32, two halves, four bytes or eight 4-bit integers; of f64 all
registers and words have 64 bits (m8n8k4, and Hopper's m16n8k4 to m16n8k16).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.ptx.parser import Instr, Vec
from course_utils.run.emulator.isa.arithmetic import LANES, UNSIGNED, vector
from course_utils.run.emulator.isa.elements import ELEMENT_BITS, Decoder, decoders
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value
from course_utils.run.emulator.isa.sparse import expanded, is_broken, nibbles
from course_utils.run.emulator.units.sync import all_lanes

if TYPE_CHECKING:
    from course_utils.run.emulator.core.threads import Path

# Types of A and B that may stand together, by the type of the sums.
_ADDED = {
    "f64": ({"f64"},),
    "f32": ({"f16"}, {"bf16"}, {"tf32"}, {"e4m3", "e5m2"}),
    "f16": ({"f16"}, {"e4m3", "e5m2"}),
    "s32": ({"s8", "u8"}, {"s4", "u4"}),
}
# Of mma.sp, by the bits of A's type. Where m16n8k32 of 8 bits has its metadata is in no example.
_SPARSE = {("m16n8k16", 16), ("m16n8k32", 16), ("m16n8k8", 32), ("m16n8k16", 32), ("m16n8k64", 8)}
_NIBBLES = {"s4": True, "u4": False}  # signed?
_SHAPE = re.compile(r"m(8|16)n8k(\d+)")
_DECODERS = decoders()


def multiply(instruction: Instr) -> Lowered:
    """mma.sync.aligned.SHAPE.row.col.D.A.B.C d, a, b, c; or mma.sp with metadata and its selector behind
    them. Raises ValueError for other forms.
    """
    parts, given_operands = instruction.opcode, instruction.operands
    sparse = parts[1] != "sync"
    selector, metadata = -1, tuple[Any, ...]()
    if sparse:
        parts, selector = parts[:1] + parts[2:], given_operands[5].value
        given_operands, metadata = given_operands[:4], (given_operands[4],)
    if parts[-1] == "rn" and parts[-2] == "f64":
        parts = parts[:-1]
    shape = _SHAPE.fullmatch(parts[3])
    if parts[:3] != ("mma", "sync", "aligned") or shape is None or parts[4:6] != ("row", "col"):
        raise ValueError("another shape or layout")
    if len(parts) != 10:
        raise ValueError(f"the modifier {parts[6]}")
    added, a_kind, b_kind, start = parts[6:]
    if sparse and (parts[3], ELEMENT_BITS.get(a_kind)) not in _SPARSE:
        raise ValueError(f"a sparse {parts[3]} of {a_kind}")
    M, K = int(shape[1]), int(shape[2])
    if added != start or not any({a_kind, b_kind} <= kinds for kinds in _ADDED.get(added, ())):
        raise ValueError(f"{a_kind} by {b_kind} in {added}")
    bits = 4 if a_kind in _NIBBLES else 64 if a_kind == "f64" else ELEMENT_BITS[a_kind]
    word = max(bits, 32)
    b_words = K * bits // word  # of a column of B
    words = b_words // 2 if sparse else b_words  # of a row of A
    blocks, sums = M // 8, M // 8 * (1 if added == "f16" else 2)
    target, *given = (operand.items if isinstance(operand, Vec) else (operand,) for operand in given_operands)
    counts = [len(target), *map(len, given)]
    if words % 4 or counts != [sums, blocks * words // 4, b_words // 4, sums]:
        raise ValueError(f"{counts} registers")
    a_count, b_count, products = counts[1], counts[2], M * 8 * K
    if sparse:
        nibbles(np.zeros(LANES, np.uint32), selector, a_kind, K)  # is there such a selector?

    def function(p: Path, m: Mask, *values: Value) -> Value:
        all_lanes(p, m, "mma.sync")
        p.machine.counts["products by mma.sync"] += products
        if sparse:
            *given_values, places = values
            values = tuple(given_values)
        cells: np.ndarray = np.array([vector(v, word) for v in values], UNSIGNED[word]).reshape(-1, 8, 4)
        left = cells[:a_count].reshape(-1, blocks, 8, 4).transpose(1, 2, 0, 3).reshape(M, words)
        right = cells[a_count : a_count + b_count].transpose(1, 0, 2).reshape(8, b_words)
        A = _decoded(left, a_kind)
        if sparse:
            found = nibbles(vector(places, 32), selector, a_kind, K)
            if is_broken(found, a_kind):
                p.report("sparse-metadata", "metadata of no two places", who=p.warp)
            A = expanded(A, found, a_kind)
        D = _start(cells[a_count + b_count :], M, added) + A @ _decoded(right, b_kind).T
        return _fragment(D, blocks, added)

    sources = (*((v, word) for operand in given for v in operand), *((register, 32) for register in metadata))
    return Lowered("warp", function, target, sources, unpack=len(target) > 1)


def _decoded(words: np.ndarray, kind: str) -> np.ndarray:
    """Rows of words as rows of numbers."""
    words = np.ascontiguousarray(words)
    if kind == "f64":
        return words.view(np.float64)
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
    numbers = cells.view({"s32": np.int32, "f32": np.float32, "f64": np.float64}[added])
    return numbers.reshape(M // 8, 2, 8, 4).transpose(0, 2, 3, 1).reshape(M, 8)


def _fragment(D: np.ndarray, blocks: int, added: str) -> Value:
    """The registers of D, the inverse of ``_start``."""
    if added == "f16":
        found: list[Any] = list(D.astype(np.float16).view(np.uint32).reshape(blocks, LANES))
    else:
        numbers = D.astype(np.int64).astype(np.uint32) if added == "s32" else D
        numbers = D.astype(np.float32) if added == "f32" else numbers
        cells = np.ascontiguousarray(numbers.reshape(blocks, 8, 4, 2).transpose(0, 3, 1, 2))
        found = list(cells.view(UNSIGNED[64 if added == "f64" else 32]).reshape(2 * blocks, LANES))
    return found if len(found) > 1 else found[0]
