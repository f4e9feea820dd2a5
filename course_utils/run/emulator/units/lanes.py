"""Instructions of a warp's own lanes: loads and stores, atomics, shuffles, votes, elect, ldmatrix and
stmatrix.

PTX ISA, "Data Movement and Conversion Instructions", "Parallel Synchronization and Communication
Instructions", "Warp-level matrix load/store".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.ptx.parser import WIDTHS, Instr, Vec
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.isa.arithmetic import LANES, UNSIGNED, split_type, to_signed, vector, widen
from course_utils.run.emulator.isa.floats import float_adder, float_loader, round_to
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value, items_of
from course_utils.run.emulator.units.sync import all_lanes

if TYPE_CHECKING:
    from course_utils.run.emulator.core.memory import Region
    from course_utils.run.emulator.core.warp import Path

_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "param", "const")
_BIT = np.uint32(1) << np.arange(LANES, dtype=np.uint32)


def space_of(opcode: tuple[str, ...]) -> str:
    """The state space that an opcode names; generic where it names none."""
    space = next((p for p in opcode if p in _SPACES or p.startswith("param")), "generic")
    return "param" if space.startswith("param") else "global" if space == "const" else space


def _shape(instruction: Instr) -> tuple[str, str, int, int, bool]:
    """(space, kind, bits, vector length, checked) of a load or store."""
    kind, bits = split_type(instruction.opcode[-1])
    length = next((int(p[1:]) for p in instruction.opcode if p in ("v2", "v4", "v8")), 1)
    synchronising = any(
        p in ("volatile", "acquire", "release", "relaxed", "mmio") for p in instruction.opcode
    )
    return space_of(instruction.opcode), kind, bits, length, not synchronising


def load(instruction: Instr) -> Lowered:
    space, kind, bits, length, checked = _shape(instruction)
    target, address = instruction.operands
    targets = items_of(target)
    if len(targets) != length:
        raise ValueError("a vector of another length than the opcode says")
    wide = [t.width if t else bits for t in targets]
    extend = any(w > bits for w in wide)

    def function(p: Path, m: Mask, a: Value) -> Any:
        values = memory.load(p, m, a, space, bits, length, checked)
        if extend:
            values = [widen(v, kind, bits, w) for v, w in zip(values, wide, strict=True)]
        return values if length > 1 else values[0]

    return Lowered("warp", function, targets, ((address, 64),), unpack=length > 1, cut=not checked)


def store(instruction: Instr) -> Lowered:
    space, kind, bits, length, checked = _shape(instruction)
    address, value = instruction.operands
    values = items_of(value)
    if len(values) != length:
        raise ValueError("a vector of another length than the opcode says")

    def function(p: Path, m: Mask, a: Value, *v: Value) -> None:
        memory.store(p, m, a, space, bits, v, checked)

    def spilled(p: Path, m: Mask, a: Value, *v: Value) -> None:
        """A thread's own memory holds what has no value as a register does: to store it is no use of it."""
        for i, value in enumerate(v):
            if value is not None:
                memory.store(p, m, a + i * (bits // 8), space, bits, (value,), checked)

    function = spilled if space in ("local", "param") else function
    return Lowered("warp", function, sources=((address, 64), *((v, bits) for v in values)), cut=not checked)


_ATOMICS = ("add", "exch", "cas", "min", "max", "inc", "dec", "and", "or", "xor")


def _combine(operation: str, type_name: str) -> Callable[[int, int, int], int]:
    """What an atomic operation stores where ``old`` was, of one element."""
    kind, bits = split_type(type_name)
    if type_name in ("f16x2", "bf16x2") and operation in ("add", "min", "max"):
        half = _combine(operation, type_name[:-2])
        return lambda old, value, other: (
            half(old & 0xFFFF, value & 0xFFFF, 0) | half(old >> 16, value >> 16, 0) << 16
        )
    full = (1 << bits) - 1
    simple: dict[str, Callable[[int, int, int], int]] = {
        "exch": lambda old, value, other: value,
        "cas": lambda old, value, other: other if old == value else old,
        "and": lambda old, value, other: old & value,
        "or": lambda old, value, other: old | value,
        "xor": lambda old, value, other: old ^ value,
        "inc": lambda old, value, other: 0 if old >= value else old + 1,
        "dec": lambda old, value, other: value if old == 0 or old > value else old - 1,
    }
    if operation in simple:
        return simple[operation]
    chosen: dict[str, Callable[[Any, Any], Any]] = {"add": operator.add, "min": min, "max": max}
    choose = chosen[operation]
    if kind in ("f", "bf"):
        read, save = float_loader(type_name), round_to(type_name)
        return lambda old, value, other: save(choose(read(old), read(value)))
    if kind == "s":
        return lambda old, value, other: choose(to_signed(old, bits), to_signed(value, bits)) & full
    return lambda old, value, other: choose(old, value) & full


def atomic(instruction: Instr) -> Lowered:
    """atom and red: lane by lane, in lane order; of a vector each element by itself."""
    opcode = instruction.opcode
    operation = next(p for p in opcode[1:] if p in _ATOMICS)
    type_name = next(p for p in reversed(opcode) if p in WIDTHS)
    length = next((int(p[1:]) for p in opcode if p in ("v2", "v4", "v8")), 1)
    space, bits = space_of(opcode), WIDTHS[type_name]
    combine = _combine(operation, type_name)
    returns = int(opcode[0] == "atom")
    targets, (address, given, *rest) = instruction.operands[:returns], instruction.operands[returns:]
    hinted = int(any("cache_hint" in p for p in opcode))
    values, others = items_of(given), rest[: len(rest) - hinted]
    if len(values) != length or len(others) != (operation == "cas"):
        raise ValueError("other operands than its opcode says")
    add = float_adder(type_name) if operation == "add" else None

    def function(p: Path, m: Mask, address: Value, *given: Value) -> Any:
        results: np.ndarray = np.zeros((length, LANES), UNSIGNED[bits])
        p.machine.progress += 1
        if add is not None and length * bits >= 32 and address.__class__ is not int:
            if _together(p, m, address, given, add, results):
                return list(results) if length > 1 else results[0]
        for lane in memory.lanes_of(m):
            region, offset = memory.locate(p, None, memory.pick(address, lane), space, bits // 8 * length)
            view, first = region.views[bits], offset // (bits // 8)
            other = memory.pick(given[length], lane) if others else 0
            for i in range(length):
                old = int(view[first + i])
                view[first + i] = combine(old, memory.pick(given[i], lane), other)
                results[i, lane] = old
            if isinstance(region, memory.SharedMemory):
                region.written[offset >> 2 : (offset + bits // 8 * length + 3) >> 2] = p.warp.code
        return list(results) if length > 1 else results[0]

    def _together(
        p: Path, m: Mask, address: Value, given: Sequence[Value], add: Callable[..., Any], results: np.ndarray
    ) -> bool:
        """All lanes at once, where they add to places of their own in one tensor. Says whether it was so."""
        size = bits // 8 * length
        chosen = address if m is None else address[m]
        if np.unique(chosen).size != chosen.size:
            return False
        region, offsets = memory.locate(p, m, address, space, size)
        if isinstance(region, memory.SharedMemory) or offsets.__class__ is int:
            return False
        view, lanes = region.views[bits], memory.lanes_of(m)
        for i in range(length):
            places = offsets // (bits // 8) + i
            old = view[places]
            view[places] = add(old, vector(given[i], bits)[lanes])
            results[i, lanes] = old
        return True

    items = items_of(targets[0]) if returns else ()
    if returns and len(items) != length and not isinstance(targets[0], Vec):
        raise ValueError("a vector of another length than the opcode says")
    return Lowered(
        "warp",
        function,
        items,
        ((address, 64), *((v, bits) for v in (*values, *others))),
        unpack=len(items) > 1,
        cut=True,
    )


def map_address(instruction: Instr) -> Lowered:
    """mapa: the address of the same variable in another CTA of the cluster."""
    target, address, rank = instruction.operands
    generic = "shared::cluster" not in instruction.opcode
    _, bits = split_type(instruction.opcode[-1])

    def function(a: Value, r: Value) -> Any:
        base = memory.GENERIC_SHARED if generic else 0
        if a.__class__ is int and r.__class__ is int:
            return ((a - base) & 0xFFFFFF | r << memory.RANK_SHIFT) + base
        a, r = vector(a, bits), vector(r, 32).astype(UNSIGNED[bits])
        return ((a & UNSIGNED[bits](0xFFFFFF)) | (r << UNSIGNED[bits](memory.RANK_SHIFT))) + UNSIGNED[bits](
            base
        )

    return Lowered("value", function, (target,), ((address, bits), (rank, 32)))


def cta_rank_of(instruction: Instr) -> Lowered:
    target, address = instruction.operands

    def function(a: Value) -> Any:
        rank: Value = (
            a >> memory.RANK_SHIFT & 0xFF
            if a.__class__ is int
            else (a >> a.dtype.type(memory.RANK_SHIFT)) & a.dtype.type(255)
        )
        return rank if rank.__class__ is int else rank.astype(np.uint32)

    return Lowered("value", function, (target,), ((address, 64),))


# Lanes together


def shuffle(instruction: Instr) -> Lowered:
    mode = instruction.opcode[2]
    target, value, index, clamp, members = instruction.operands
    targets = items_of(target)
    own = np.arange(LANES)

    def function(p: Path, m: Mask, a: Value, b: Value, c: Value, members: Value) -> Any:
        if m is not None:
            _ballot(p, m, True, members)
        if mode == "idx" and a.__class__ is int:
            return (a, True) if len(targets) > 1 else a
        b, c = (np.asarray(v, np.int64) for v in (b, c))
        segment, limit = (c >> 8) & 31, c & 31
        low, high = own & segment, (own & segment) | (limit & ~segment)
        b = b & 31
        source, valid = {
            "up": (own - b, own - b >= high),
            "down": (own + b, own + b <= high),
            "bfly": (own ^ b, (own ^ b) <= high),
            "idx": (low | (b & ~segment), (low | (b & ~segment)) <= high),
        }[mode]
        source = np.where(valid, source, own)
        result: Value = vector(a, 32)[source]
        if mode == "idx" and (source == source[0]).all():
            result = int(result[0])
        return (result, valid) if len(targets) > 1 else result

    return Lowered(
        "warp",
        function,
        targets,
        ((value, 32), (index, 32), (clamp, 32), (members, 32)),
        unpack=len(targets) > 1,
    )


def _ballot(p: Path, m: Mask, predicate: Value, members: Value) -> tuple[np.ndarray, np.ndarray]:
    """Lanes that say yes, and lanes that are asked.

    A .sync instruction waits for every lane that its mask names.
    """
    lanes = p.lanes() if m is None else m
    member = np.full(LANES, True) if members == 0xFFFFFFFF else (_BIT & np.uint32(members)) != 0
    absent = int((member & ~lanes & p.warp.alive).sum())
    if absent:
        p.halt("absent-lanes", "absent lanes", who=p.warp, count=absent)
    return lanes & member & (
        predicate if isinstance(predicate, np.ndarray) else np.full(LANES, predicate)
    ), lanes & member


def vote(instruction: Instr) -> Lowered:
    mode = instruction.opcode[2]
    target, predicate, members = instruction.operands

    def function(p: Path, m: Mask, value: Value, members: Value) -> Any:
        yes, asked = _ballot(p, m, value, members)
        if mode == "ballot":
            return int(_BIT[yes].sum())
        return {
            "any": bool(yes.any()),
            "all": bool((yes == asked).all()),
            "uni": bool((yes == asked).all() or not yes.any()),
        }[mode]

    return Lowered("warp", function, (target,), ((predicate, 1), (members, 32)))


def match(instruction: Instr) -> Lowered:
    if instruction.opcode[1] != "any":
        raise ValueError("match.all")
    target, value, members = instruction.operands

    def function(p: Path, m: Mask, value: Value, members: Value) -> Any:
        _, asked = _ballot(p, m, True, members)
        value = vector(value, 32)
        return np.array([int(_BIT[asked & (value == value[lane])].sum()) for lane in range(LANES)], np.uint32)

    return Lowered("warp", function, (target,), ((value, 32), (members, 32)))


def active_mask(instruction: Instr) -> Lowered:
    def function(p: Path, m: Mask) -> Any:
        return 0xFFFFFFFF if m is None else int(_BIT[m].sum())

    return Lowered("warp", function, instruction.operands)


_LEADERS = [np.arange(LANES) == lane for lane in range(LANES)]


def elect(instruction: Instr) -> Lowered:
    """elect.sync: the lowest active lane of the mask leads."""
    target, members = instruction.operands

    def function(p: Path, m: Mask, members: Value) -> Any:
        if m is None and members == 0xFFFFFFFF:
            return 0, _LEADERS[0]
        _, asked = _ballot(p, m, True, members)
        leader = int(np.flatnonzero(asked)[0])
        return leader, _LEADERS[leader]

    return Lowered("warp", function, target.items, ((members, 32),), unpack=True)


def reduce(instruction: Instr) -> Lowered:
    operation, type_name = instruction.opcode[2], instruction.opcode[-1]
    kind, bits = split_type(type_name)
    target, value, members = instruction.operands
    functions = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }

    def function(p: Path, m: Mask, value: Value, members: Value) -> Any:
        _, asked = _ballot(p, m, True, members)
        values = vector(value, bits)[asked]
        return (
            int(functions[operation].reduce(to_signed(values, bits) if kind == "s" else values)) & 0xFFFFFFFF
        )

    return Lowered("warp", function, (target,), ((value, 32), (members, 32)))


# Matrices of 8 x 8 halves: lane i gives the address of row i, lane 4r + c holds elements 2c and 2c + 1 of row
# r


def _matrix(instruction: Instr) -> tuple[int, bool, str]:
    count = next(int(p[1:]) for p in instruction.opcode if p in ("x1", "x2", "x4"))
    if instruction.opcode[-1] != "b16" or "m8n8" not in instruction.opcode:
        raise ValueError("another shape than m8n8 of b16")
    return count, "trans" in instruction.opcode, space_of(instruction.opcode)


_ROW, _COLUMN = np.arange(LANES) // 4, np.arange(LANES) % 4
_WORDS, _HALVES = np.arange(4), np.arange(8)  # of a row


def _matrix_rows(
    p: Path, m: Mask, address: Value, space: str, count: int, what: str
) -> tuple[Region, np.ndarray]:
    """(region, offsets of the 8 * count rows). A row is 16 bytes."""
    all_lanes(p, m, what)
    region, offsets = memory.locate(p, None, vector(address, 32)[: 8 * count], space, 16)
    return region, np.asarray(offsets)


def load_matrix(instruction: Instr) -> Lowered:
    count, transposed, space = _matrix(instruction)
    target, address = instruction.operands
    targets = items_of(target)

    def function(p: Path, m: Mask, a: Value) -> Any:
        region, rows = _matrix_rows(p, m, a, space, count, "ldmatrix")
        region.before_read(p, rows, 16)
        values = []
        for i in range(count):
            row = rows[8 * i : 8 * i + 8]
            if transposed:
                halves = region.views[16][(row[:, None] >> 1) + np.arange(8)].T.copy()
                values.append(halves.view(np.uint32)[_ROW, _COLUMN])
            else:
                values.append(region.views[32][(row[_ROW] >> 2) + _COLUMN])
        return values if len(targets) > 1 else values[0]

    return Lowered("warp", function, targets, ((address, 32),), unpack=len(targets) > 1)


def transpose_matrix(instruction: Instr) -> Lowered:
    """movmatrix: an 8 x 8 matrix of halves that the warp holds, transposed."""
    if "m8n8" not in instruction.opcode or "trans" not in instruction.opcode:
        raise ValueError("another shape than m8n8.trans")
    target, source = instruction.operands

    def function(p: Path, m: Mask, a: Value) -> np.ndarray:
        all_lanes(p, m, "movmatrix")
        halves = np.ascontiguousarray(vector(a, 32)).view(np.uint16).reshape(8, 8)
        return np.ascontiguousarray(halves.T).view(np.uint32).reshape(LANES)

    return Lowered("warp", function, (target,), ((source, 32),))


def store_matrix(instruction: Instr) -> Lowered:
    count, transposed, space = _matrix(instruction)
    address, value = instruction.operands
    values = items_of(value)

    def function(p: Path, m: Mask, a: Value, *v: Value) -> None:
        region, rows = _matrix_rows(p, m, a, space, count, "stmatrix")
        region.before_write(p, rows, 16)
        p.machine.progress += 1
        p.machine.trace.writes(p)
        data: np.ndarray = np.empty((count, LANES), np.uint32)
        for i, value in enumerate(v):
            data[i] = value
        if transposed:
            halves = data.view(np.uint16).reshape(count, 8, 8).transpose(0, 2, 1).reshape(-1, 8)
            region.views[16][(rows[:, None] >> 1) + _HALVES] = halves
        else:
            region.views[32][(rows[:, None] >> 2) + _WORDS] = data.reshape(-1, 4)

    return Lowered("warp", function, sources=((address, 32), *((v, 32) for v in values)))
