"""Which path each copy between global and shared memory took, tensor by tensor, against what its source asked
for.

The path is read from the PTX: an address is followed back to the kernel parameter that it came from. "It
compiled" does not say that a copy asked of TMA is done by TMA; this does.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from course_utils.artifact import TENSOR_MAP_ALIGNMENT, TENSOR_MAP_BYTES, Artifact
from course_utils.ptx.families import TENSOR_COPIES, Family, accesses_memory, family, reads_parameter
from course_utils.ptx.parser import Instr, Kernel, Mem, PtxError, Reg, Sym, Vec, parse

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
# What crosses between global memory and the SM: direction, path, and which operand is the global address.
_CROSSINGS = {
    Family.TENSOR_LOAD: (LOAD, TENSOR, 1),
    Family.MULTICAST_LOAD: (LOAD, MULTICAST, 1),
    Family.TENSOR_STORE: (STORE, TENSOR, 0),
    Family.BULK_LOAD: (LOAD, BULK, 1),
    Family.BULK_STORE: (STORE, BULK, 0),
    Family.CP_ASYNC: (LOAD, CP_ASYNC, 1),
    Family.GLOBAL_LOAD: (LOAD, THREADS, 1),
    Family.GLOBAL_STORE: (STORE, THREADS, 0),
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
        enough = {MULTICAST: {MULTICAST}, TENSOR: {TENSOR, MULTICAST}}.get(self.asked)
        if enough is None or enough & set(self.paths):
            return ""
        found = " and ".join(WORDS[path] for path in self.paths) or "no copy at all"
        asks = f"{self.tensor}, {self.direction}: the source asks for {WORDS[self.asked]}"
        return f"{asks}, and the compiler made {found}"

    def __str__(self) -> str:
        ranked = dict.fromkeys((TENSOR, MULTICAST), f", rank {self.rank}" if self.rank else "")
        parts = (f"{WORDS[path]}{ranked.get(path, '')}: {count}" for path, count in self.paths.items())
        return "; ".join(parts) or "none"


def crossings(kernel: Kernel, artifact: Artifact) -> dict[tuple[str, str], list[int]]:
    """The instructions that cross, by their index: of each direction and tensor."""
    tensors = {
        variable.name: parameter.tensor
        for variable, parameter in zip(kernel.parameters, artifact.parameters, strict=False)
        if parameter.tensor
    }
    known = origins(kernel.instructions, tensors)
    found: dict[tuple[str, str], list[int]] = {}
    for at, instruction in enumerate(kernel.instructions):
        if (crossing := _CROSSINGS.get(family(instruction))) is None:
            continue
        direction, _, place = crossing
        for tensor in tensors_of(_operand(instruction, place), known, tensors) or {"?"}:
            found.setdefault((direction, tensor), []).append(at)
    return found


def copies(artifact: Artifact, source: str = "") -> list[Copy]:
    """Every tensor's copies, loads before stores. ``source`` is the author's Python; "" where it is not
    known.

    Copies in functions that the kernel calls are not followed. Raises PtxError where the PTX cannot be read.
    """
    kernel = parse(artifact.ptx, artifact.kernel)
    ranks = {p.tensor: p.tensor_map.rank for p in artifact.parameters if p.tensor_map}
    found = {
        key: Counter(_CROSSINGS[family(kernel.instructions[at])][1] for at in instructions)
        for key, instructions in crossings(kernel, artifact).items()
    }
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


def passed_by_value(artifact: Artifact) -> list[str]:
    """A sentence for each tensor map that the kernel does not use as a ``__grid_constant__`` parameter; none
    is fine.

    TMA reads the map through its address, and only ``const __grid_constant__`` makes the address of a
    parameter that of the parameter itself (CUDA programming guide). Without it the compiler copies the map
    into the local memory of each thread and passes the copy's address: seen with NVRTC 13.0. In the PTX the
    map of every tensor copy must come from the address of a ``.param`` of 128 bytes aligned to 64. Raises
    PtxError where the PTX cannot be read or has other parameters than the launch.
    """
    kernel = parse(artifact.ptx, artifact.kernel)
    if len(kernel.parameters) != len(artifact.parameters):
        raise PtxError(
            f"the kernel has {len(kernel.parameters)} parameters, its launch {len(artifact.parameters)}"
        )
    maps = {
        variable.name: (variable, parameter.tensor)
        for variable, parameter in zip(kernel.parameters, artifact.parameters, strict=True)
        if parameter.kind == "tensor_map"
    }
    locals_ = {v.name for v in kernel.variables if v.space == "local"}
    names = {name: name for name in (*maps, *locals_)}
    addresses = origins([i for i in kernel.instructions if i.opcode[0] != "ld"], names)
    values = origins(kernel.instructions, names)
    used: set[str] = set()
    copied: set[str] = set()
    for instruction in kernel.instructions:
        if (kind := family(instruction)) in TENSOR_COPIES:
            address = next((o for o in instruction.operands if isinstance(o, Mem) and o.coordinates), None)
            used |= tensors_of(address, addresses, names)
        elif kind is Family.LOCAL_STORE:
            copied |= tensors_of(_operand(instruction, 1), values, names)
    found = []
    for name, (variable, tensor) in maps.items():
        if variable.size != TENSOR_MAP_BYTES or variable.align % TENSOR_MAP_ALIGNMENT:
            found.append(
                f"the parameter for {tensor}'s tensor map has {variable.size} bytes, aligned to "
                f"{variable.align}; "
                f"a tensor map has {TENSOR_MAP_BYTES}, aligned to {TENSOR_MAP_ALIGNMENT}"
            )
        elif name in copied and used & locals_:
            found.append(
                f"TMA is given the address of a copy of {tensor}'s tensor map in local memory, one a thread: "
                "declare the "
                "parameter `const __grid_constant__` and pass on its own address"
            )
        elif name not in used:
            found.append(f"no tensor copy takes its map from the parameter that holds {tensor}'s tensor map")
    return found


def _operand(instruction: Instr, place: int) -> Any:
    """None where the parser could not read the operands."""
    return instruction.operands[place] if place < len(instruction.operands) else None


def origins(instructions: list[Instr], tensors: dict[str, str]) -> dict[int, set[str]]:
    """Register to the tensors whose parameter its value may come from, over all paths of the kernel."""
    flows: list[tuple[list[int], tuple[Any, ...]]] = []  # registers written, what their value comes from
    for instruction in instructions:
        written, sources = instruction.operands[:1], instruction.operands[1:]
        # a value that was loaded has left its address behind; a parameter's value is what the parameter holds
        if not written or accesses_memory(instruction) and not reads_parameter(instruction):
            continue
        flows.append((list(_registers(written[0])), sources))
    origins: dict[int, set[str]] = {}
    changed = True
    while changed:
        changed = False
        for registers, origin in flows:
            tensors_there = set().union(*(tensors_of(operand, origins, tensors) for operand in origin))
            for register in registers:
                before = origins.setdefault(register, set())
                changed |= not tensors_there <= before
                before |= tensors_there
    return origins


def tensors_of(operand: Any, origins: dict[int, set[str]], tensors: dict[str, str]) -> set[str]:
    """The tensors that an operand's value or address may come from, by the ``origins`` of registers."""
    if isinstance(operand, Mem):
        return tensors_of(operand.base, origins, tensors)
    if isinstance(operand, Sym):
        return {tensors[operand.name]} if operand.name in tensors else set()
    return set().union(*(origins.get(register, set()) for register in _registers(operand)), set())


def _registers(operand: Any) -> Iterator[int]:
    if isinstance(operand, Reg):
        yield operand.index
    elif isinstance(operand, Vec):
        for item in operand.items:
            yield from _registers(item)


def asked(source: str, tensors: list[str]) -> dict[tuple[str, str], str]:
    """What the calls of a TileLang or CuTe DSL source ask for: (direction, tensor) to ``TENSOR`` or
    ``MULTICAST``.

    Read from the calls' names and arguments; a tensor that goes by another name in the source is not
    recognised. An operation may have a name of its own: ``load = CopyBulkTensorTileG2SOp()``.
    """
    wanted: dict[tuple[str, str], str] = {}
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return wanted
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    values = _named_values(tree)
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
            operation = values.get(operation, operation)
            direction = STORE if "S2G" in operation else LOAD
            wanted[direction, _base(call.args[1])] = MULTICAST if "Multicast" in operation else TENSOR
    return wanted


def _named_values(tree: ast.AST) -> dict[str, str]:
    """What each name is set to, as source: of ``a = x`` and of ``a, b = x, y``; the last one counts."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        found |= {name.id: ast.unparse(what) for name, what in pairs if isinstance(name, ast.Name)}
    return found


def _base(node: ast.expr) -> str:
    """The name at the bottom of ``A[i, j]``, ``A.x`` or ``A``."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
