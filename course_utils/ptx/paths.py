"""Which path each copy between global and shared memory took, tensor by tensor, against what its source asked
for.

The path is read from the PTX: an address is followed back to the kernel parameter that it came from. "It
compiled" does not say that a copy asked of TMA is done by TMA; this does.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass

from course_utils.artifact import Artifact
from course_utils.ptx.parser import Instr, Mem, Reg, Sym, Vec, parse

LOAD, STORE = "global to shared", "shared to global"
TENSOR, MULTICAST, BULK, CP_ASYNC, THREADS = (
    "tensor TMA",
    "tensor TMA, multicast",
    "1-D bulk",
    "cp.async",
    "threads",
)
WORDS = {
    TENSOR: "tensor TMA",
    MULTICAST: "tensor TMA with multicast",
    BULK: "1-D bulk copy, without a tensor map",
    CP_ASYNC: "cp.async, 4 to 16 bytes a thread",
    THREADS: "plain loads and stores, through registers",
}


@dataclass(frozen=True)
class Copy:
    """How one tensor crosses between global and shared memory (or registers, for ``THREADS``), one way.

    ``paths`` maps a path to its number of instructions, ``rank`` is the tensor map's (0 without one),
    ``asked`` what the source asked for: ``TENSOR``, ``MULTICAST``, or "" where it left the choice to the
    compiler or is not known.
    """

    tensor: str
    direction: str
    paths: dict[str, int]
    rank: int = 0
    asked: str = ""

    @property
    def finding(self) -> str:
        """What the source asked for and did not get, in a sentence; empty where it got it."""
        got = set(self.paths)
        if (
            self.asked == MULTICAST
            and MULTICAST not in got
            or self.asked == TENSOR
            and not got & {TENSOR, MULTICAST}
        ):
            found = " and ".join(WORDS[path] for path in self.paths) or "no copy at all"
            return (
                f"{self.tensor}, {self.direction}: the source asks for {WORDS[self.asked]}, and the compiler "
                f"made {found}"
            )
        return ""

    def __str__(self) -> str:
        rank = f", rank {self.rank}" if self.rank else ""
        return (
            "; ".join(
                f"{WORDS[path]}{rank if path in (TENSOR, MULTICAST) else ''}: {count}"
                for path, count in self.paths.items()
            )
            or "none"
        )


def copies(artifact: Artifact, source: str = "") -> list[Copy]:
    """Every tensor's copies, loads before stores. ``source`` is the author's Python; "" where it is not
    known.

    Raises PtxError where the PTX cannot be read.
    """
    kernel = parse(artifact.ptx, artifact.kernel)
    tensors = {
        variable.name: parameter.tensor
        for variable, parameter in zip(kernel.parameters, artifact.parameters, strict=False)
        if parameter.tensor
    }
    ranks = {p.tensor: p.tensor_map.rank for p in artifact.parameters if p.kind == "tensor_map"}
    known = origins(kernel.instructions, tensors)
    found: dict[tuple[str, str], Counter] = {}
    for instruction in kernel.instructions:
        if (crossing := _crossing(instruction)) is None:
            continue
        direction, path, address = crossing
        for tensor in tensors_of(address, known, tensors) or {"?"}:
            found.setdefault((direction, tensor), Counter())[path] += 1
    wanted = asked(source, [t.name for t in artifact.tensors])
    keys = sorted(set(found) | set(wanted))
    return [
        Copy(
            tensor,
            direction,
            dict(found.get((direction, tensor), {})),
            ranks.get(tensor, 0),
            wanted.get((direction, tensor), ""),
        )
        for direction, tensor in keys
    ]


def _crossing(instruction: Instr) -> tuple[str, str, object] | None:
    """Direction, path and global address of an instruction that crosses between global memory and the SM, or
    None.
    """
    name, operands = instruction.name, instruction.operands
    if "prefetch" in name:
        return None
    if name.startswith("cp.async.bulk.tensor"):
        if ".global.shared" in name:
            return STORE, TENSOR, operands[0]
        return LOAD, MULTICAST if "multicast" in name else TENSOR, operands[1]
    if name.startswith(("cp.async.bulk.shared", "cp.async.bulk.global")):
        return (
            (STORE, BULK, operands[0])
            if name.startswith("cp.async.bulk.global")
            else (LOAD, BULK, operands[1])
        )
    if name.startswith(("cp.async.ca", "cp.async.cg")):
        return LOAD, CP_ASYNC, operands[1]
    if name.startswith("ld.global"):
        return LOAD, THREADS, operands[1]
    if name.startswith("st.global"):
        return STORE, THREADS, operands[0]
    return None


def origins(instructions: list[Instr], tensors: dict[str, str]) -> dict[int, set[str]]:
    """Register to the tensors whose parameter its value may come from, over all paths of the kernel."""
    flows = []  # (registers written, what their value comes from)
    for instruction in instructions:
        written, sources = instruction.operands[:1], instruction.operands[1:]
        # a value that was loaded has left its address behind; a parameter's value is what the parameter holds
        if (
            not written
            or instruction.name.startswith(("st", "ld", "cp", "red", "atom"))
            and "param" not in instruction.opcode
        ):
            continue
        flows.append((list(_registers(written[0])), sources))
    origins: dict[int, set[str]] = {}
    changed = True
    while changed:
        changed = False
        for written, sources in flows:
            tensors_there = set().union(*(tensors_of(source, origins, tensors) for source in sources), set())
            for register in written:
                before = origins.setdefault(register, set())
                changed |= not tensors_there <= before
                before |= tensors_there
    return origins


def tensors_of(operand, origins: dict[int, set[str]], tensors: dict[str, str]) -> set[str]:
    """The tensors that an operand's value or address may come from; ``origins`` as the function of that name
    gives them.
    """
    if isinstance(operand, Mem):
        return tensors_of(operand.base, origins, tensors)
    if isinstance(operand, Sym):
        return {tensors[operand.name]} if operand.name in tensors else set()
    return set().union(*(origins.get(register, set()) for register in _registers(operand)), set())


def _registers(operand):
    if isinstance(operand, Reg):
        yield operand.index
    elif isinstance(operand, Vec):
        for item in operand.items:
            yield from _registers(item)


def asked(source: str, tensors: list[str]) -> dict[tuple[str, str], str]:
    """What the calls of a TileLang or CuTe DSL source ask for: (direction, tensor) to ``TENSOR`` or
    ``MULTICAST``.

    Read from the calls' names and arguments; a tensor that goes by another name in the source is not
    recognised.
    """
    wanted: dict[tuple[str, str], str] = {}
    try:
        calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    except SyntaxError:
        return wanted
    for call in calls:
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        keywords = {k.arg: k.value for k in call.keywords}
        if (
            name == "tma_copy"
            or name == "copy"
            and getattr(keywords.get("prefer_instruction"), "value", "") == "tma"
        ):
            kind = MULTICAST if "cluster_mask" in keywords else TENSOR
            for direction, operand in zip((LOAD, STORE), call.args, strict=False):
                if (tensor := _base(operand)) in tensors:
                    wanted[direction, tensor] = kind
        elif name == "make_tiled_tma_atom" and len(call.args) > 1 and _base(call.args[1]) in tensors:
            operation = ast.unparse(call.args[0])
            direction = STORE if "S2G" in operation else LOAD
            wanted[direction, _base(call.args[1])] = MULTICAST if "Multicast" in operation else TENSOR
    return wanted


def _base(node) -> str:
    """The name at the bottom of ``A[i, j]``, ``A.x`` or ``A``."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
