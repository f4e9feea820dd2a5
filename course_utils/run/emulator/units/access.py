"""Accesses of threads to memory: loads and stores, atomics, mapa, ldmatrix and stmatrix.

PTX ISA, "Data Movement and Conversion Instructions", "Parallel Synchronization and Communication
Instructions: atom, red", "Warp-level matrix load/store".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.ptx.parser import WIDTHS, Instr
from course_utils.run.emulator.core import addresses, memory
from course_utils.run.emulator.core import releases as words
from course_utils.run.emulator.core.addresses import locate
from course_utils.run.emulator.core.memory import PARAMETERS, lanes_of
from course_utils.run.emulator.core.order import GPU_SCOPE, SCOPES
from course_utils.run.emulator.isa.arithmetic import (
    LANES,
    UNSIGNED,
    join,
    separate,
    split_type,
    to_signed,
    vector,
    widen,
)
from course_utils.run.emulator.isa.floats import float_adder, float_loader, round_to
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value, items_of, space_of
from course_utils.run.emulator.units.sync import all_lanes

if TYPE_CHECKING:
    from course_utils.run.emulator.core.memory import Region
    from course_utils.run.emulator.core.threads import Path


@dataclass(slots=True)
class Read:
    """Threads are about to read ``count`` bytes at each of ``offsets`` (an int where there is one) of a
    region. A strong access, volatile or with a memory order, has a ``scope``.
    """

    path: Path
    region: Region
    offsets: Value
    count: int
    scope: int = 0


@dataclass(slots=True)
class Write:
    """Threads are about to write: as ``Read``. ``values`` are what the lanes of ``mask`` write, beside each
    other; () where that is not told.
    """

    path: Path
    region: Region
    offsets: Value
    count: int
    scope: int = 0
    values: Sequence[Value] = ()
    mask: Mask = None

    def changes(self) -> np.ndarray:
        """Of each offset: does memory hold anything else yet than what is written?"""
        offsets = np.atleast_1d(self.offsets)
        if not self.values:
            return np.ones(len(offsets), np.bool_)
        bits = self.count * 8 // len(self.values)
        view, first = self.region.views[bits], offsets // (bits // 8)
        changed = np.zeros(len(offsets), np.bool_)
        for i, value in enumerate(self.values):
            lanes = vector(value, bits)[list(lanes_of(self.mask))]
            differs = view[first + i] != lanes
            changed |= differs.any() if len(offsets) == 1 else differs
        return changed


@dataclass(slots=True)
class Atomic:
    """Lanes have changed ``count`` bytes at each of ``offsets`` of a region by an atomic operation."""

    path: Path
    region: Region
    offsets: Value
    count: int
    scope: int = GPU_SCOPE


_STRONG = {"volatile", "acquire", "release", "relaxed", "acq_rel", "mmio"}


def scope_of(instruction: Instr, default: int = GPU_SCOPE) -> int:
    """How far a strong access reaches, volatile ones all threads; 0 of a weak one."""
    if _STRONG.isdisjoint(instruction.opcode):
        return 0
    return next((SCOPES[p] for p in instruction.opcode if p in SCOPES), default)


def _shape(instruction: Instr) -> tuple[str, str, int, int, int]:
    """(space, kind, bits, vector length, scope) of a load or store: of at most 128 bits, and of 256 in global
    memory (PTX ISA, "ld", "st": from sm_100 on).
    """
    kind, bits = split_type(instruction.opcode[-1])
    length = next((int(p[1:]) for p in instruction.opcode if p in ("v2", "v4", "v8")), 1)
    space = space_of(instruction.opcode)
    if bits * length > (256 if space == "global" and 32 <= bits <= 64 else 128):
        raise ValueError("more bits than one access has")
    return space, kind, bits, length, scope_of(instruction)


def load(instruction: Instr) -> Lowered:
    space, kind, bits, length, scope = _shape(instruction)
    acquires = "acquire" in instruction.opcode
    target, address = instruction.operands
    targets = items_of(target)
    if len(targets) != length:
        raise ValueError("a vector of another length than the opcode says")
    wide = [t.width if t else bits for t in targets]
    extend = any(w > bits for w in wide)

    def whole(p: Path, m: Mask, a: Value) -> Value:
        return join(read_lanes(p, m, a, space, 64, 2, scope, acquires), 64)

    def function(p: Path, m: Mask, a: Value) -> Any:
        values = read_lanes(p, m, a, space, bits, length, scope, acquires)
        if extend:
            values = [widen(v, kind, bits, w) for v, w in zip(values, wide, strict=True)]
        return values if length > 1 else values[0]

    chosen = whole if bits == 128 else function
    return Lowered("warp", chosen, targets, ((address, 64),), unpack=length > 1, cut=scope > 0)


def store(instruction: Instr) -> Lowered:
    space, kind, bits, length, scope = _shape(instruction)
    releases = "release" in instruction.opcode
    address, value = instruction.operands
    values = items_of(value)
    if len(values) != length:
        raise ValueError("a vector of another length than the opcode says")

    def function(p: Path, m: Mask, a: Value, *v: Value) -> None:
        write_lanes(p, m, a, space, bits, v, scope, releases)

    def spilled(p: Path, m: Mask, a: Value, *v: Value) -> None:
        """A thread's own memory holds what has no value as a register does: to store it is no use of it."""
        for i, value in enumerate(v):
            if value is not None:
                write_lanes(p, m, a + i * (bits // 8), space, bits, (value,), scope)

    def whole(p: Path, m: Mask, a: Value, v: Value) -> None:
        write_lanes(p, m, a, space, 64, separate(v, 64, 2), scope, releases)

    function = whole if bits == 128 else spilled if space in ("local", "param") else function
    return Lowered("warp", function, sources=((address, 64), *((v, bits) for v in values)), cut=scope > 0)


_ATOMICS = ("add", "exch", "cas", "min", "max", "inc", "dec", "and", "or", "xor")


def combine(operation: str, type_name: str) -> Callable[[int, int, int], int]:
    """What an atomic operation stores where ``old`` was, of one element."""
    kind, bits = split_type(type_name)
    if type_name in ("f16x2", "bf16x2") and operation in ("add", "min", "max"):
        half = combine(operation, type_name[:-2])
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
    change = combine(operation, type_name)
    returns = int(opcode[0] == "atom")
    targets, (address, given, *rest) = instruction.operands[:returns], instruction.operands[returns:]
    hinted = int(any("cache_hint" in p for p in opcode))
    values, others = items_of(given), rest[: len(rest) - hinted]
    if len(values) != length or len(others) != (operation == "cas"):
        raise ValueError("other operands than its opcode says")
    add = float_adder(type_name) if operation == "add" else None
    scope = scope_of(instruction) or GPU_SCOPE  # relaxed, and .gpu where it says nothing
    acquires = not {"acquire", "acq_rel"}.isdisjoint(opcode)
    releases = not {"release", "acq_rel"}.isdisjoint(opcode)

    def function(p: Path, m: Mask, address: Value, *given: Value) -> Any:
        results: np.ndarray = np.zeros((length, LANES), UNSIGNED[bits])
        if add is not None and length * bits >= 32 and address.__class__ is not int:
            if _together(p, m, address, given, add, results):
                p.machine.progress += 1
                return list(results) if length > 1 else results[0]
        for lane in memory.lanes_of(m):
            region, offset = addresses.locate(p, None, memory.pick(address, lane), space, bits // 8 * length)
            view, first = region.views[bits], offset // (bits // 8)
            other = memory.pick(given[length], lane) if others else 0
            words.read(p, region, offset, scope, acquires, changes=True)
            for i in range(length):
                old = int(view[first + i])
                new = change(old, memory.pick(given[i], lane), other)
                if new != old:  # a spin that changes nothing is no progress
                    view[first + i] = new
                    p.machine.progress += 1
                results[i, lane] = old
            p.machine.probe.emit(Atomic(p, region, offset, bits // 8 * length, scope))
            if operation != "cas" or int(results[0, lane]) == memory.pick(given[0], lane):
                words.write(p, region, offset, scope, releases, changes=True)
        return list(results) if length > 1 else results[0]

    def _together(
        p: Path, m: Mask, address: Value, given: Sequence[Value], add: Callable[..., Any], results: np.ndarray
    ) -> bool:
        """All lanes at once, where they add to places of their own in one tensor. Says whether it was so."""
        size = bits // 8 * length
        chosen = address if m is None else address[m]
        if np.unique(chosen).size != chosen.size:
            return False
        region, offsets = addresses.locate(p, m, address, space, size)
        if isinstance(region, memory.SharedMemory) or offsets.__class__ is int:
            return False
        view, lanes = region.views[bits], memory.lanes_of(m)
        for i in range(length):
            places = offsets // (bits // 8) + i
            old = view[places]
            view[places] = add(old, vector(given[i], bits)[lanes])
            results[i, lanes] = old
        p.machine.probe.emit(Atomic(p, region, offsets, size, scope))
        return True

    items = items_of(targets[0]) if returns else ()
    if returns and len(items) != length and targets[0] is not None:
        raise ValueError("a vector of another length than the opcode says")
    sources = (address, 64), *((v, bits) for v in (*values, *others))
    return Lowered("warp", function, items, sources, unpack=len(items) > 1, cut=True)


def map_address(instruction: Instr) -> Lowered:
    """mapa: the address of the same variable in another CTA of the cluster."""
    target, address, rank = instruction.operands
    generic = "shared::cluster" not in instruction.opcode
    _, bits = split_type(instruction.opcode[-1])

    def function(a: Value, r: Value) -> Any:
        base = memory.GENERIC_SHARED if generic else 0
        if a.__class__ is int and r.__class__ is int:
            return ((a - base) & 0xFFFFFF | r << memory.RANK_SHIFT) + base
        number = UNSIGNED[bits]
        a, r = vector(a, bits), vector(r, 32).astype(number)
        return ((a & number(0xFFFFFF)) | (r << number(memory.RANK_SHIFT))) + number(base)

    return Lowered("value", function, (target,), ((address, bits), (rank, 32)))


def cta_rank_of(instruction: Instr) -> Lowered:
    target, address = instruction.operands

    def function(a: Value) -> Any:
        if a.__class__ is int:
            return a >> memory.RANK_SHIFT & 0xFF
        return ((a >> a.dtype.type(memory.RANK_SHIFT)) & a.dtype.type(255)).astype(np.uint32)

    return Lowered("value", function, (target,), ((address, 64),))


def read_lanes(
    path: Path,
    mask: Mask,
    address: Value,
    space: str,
    bits: int,
    vector: int,
    scope: int = 0,
    acquires: bool = False,
) -> list[Value]:
    """``vector`` values of ``bits`` bits for each active lane; inactive lanes get 0."""
    count = bits // 8 * vector
    region, offsets = _located(path, mask, address, space, count)
    path.machine.probe.emit(Read(path, region, offsets, count, scope))
    if scope:
        for offset in {int(one) for one in np.atleast_1d(offsets)}:
            words.read(path, region, offset, scope, acquires)
    view = region.views[bits]
    if offsets.__class__ is int:
        first = offsets // (bits // 8)
        return [int(view[first + i]) for i in range(vector)]
    index = offsets // (bits // 8)
    values = []
    for i in range(vector):
        if mask is None:
            values.append(view[index + i if i else index])
        else:
            value: np.ndarray = np.zeros(LANES, UNSIGNED[bits])
            value[mask] = view[index + i]
            values.append(value)
    return values


def write_lanes(
    path: Path,
    mask: Mask,
    address: Value,
    space: str,
    bits: int,
    values: Sequence[Value],
    scope: int = 0,
    releases: bool = False,
) -> None:
    count = bits // 8 * len(values)
    region, offsets = _located(path, mask, address, space, count)
    if region is path.machine.parameters:
        path.halt("out-of-bounds", "a write to the parameters", who=path.warp)
    path.machine.probe.emit(Write(path, region, offsets, count, scope, values, mask))
    if scope:
        for offset in {int(one) for one in np.atleast_1d(offsets)}:
            words.write(path, region, offset, scope, releases)
    path.machine.progress += 1
    view = region.views[bits]
    uniform = offsets.__class__ is int
    index = offsets // (bits // 8)
    for i, value in enumerate(values):
        if value.__class__ is int:
            view[index + i] = value & ((1 << bits) - 1)
        elif uniform:
            view[index + i] = value[lanes_of(mask)[-1]] & UNSIGNED[bits]((1 << bits) - 1)
        else:
            view[index + i if i else index] = value if mask is None else value[mask]


def _located(path: Path, mask: Mask, address: Value, space: str, count: int) -> tuple[Region, Value]:
    """``locate``, where local memory is a thread's own: lane i's copy follows lane i - 1's. What a call is
    given, and gives back, is in local memory here.
    """
    called = space == "param" and address.__class__ is int and address < PARAMETERS
    if space != "local" and not called:
        return locate(path, mask, address, space, count)
    if not path.warp.local_size:
        path.halt("out-of-bounds", "no local memory", who=path.warp)
    own = np.arange(LANES, dtype=np.uint64) * np.uint64(path.warp.local_size)
    return locate(path, mask, own + np.asarray(address, np.uint64), "local", count)


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
    region, offsets = addresses.locate(p, None, vector(address, 64)[: 8 * count], space, 16)
    return region, np.asarray(offsets)


def load_matrix(instruction: Instr) -> Lowered:
    count, transposed, space = _matrix(instruction)
    target, address = instruction.operands
    targets = items_of(target)
    if len(targets) != count:
        raise ValueError(f"{len(targets)} registers for {count} matrices")

    def function(p: Path, m: Mask, a: Value) -> Any:
        region, rows = _matrix_rows(p, m, a, space, count, "ldmatrix")
        p.machine.probe.emit(Read(p, region, rows, 16))
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


def store_matrix(instruction: Instr) -> Lowered:
    count, transposed, space = _matrix(instruction)
    address, value = instruction.operands
    values = items_of(value)
    if len(values) != count:
        raise ValueError(f"{len(values)} registers for {count} matrices")

    def function(p: Path, m: Mask, a: Value, *v: Value) -> None:
        region, rows = _matrix_rows(p, m, a, space, count, "stmatrix")
        p.machine.probe.emit(Write(p, region, rows, 16))
        p.machine.progress += 1
        data: np.ndarray = np.empty((count, LANES), np.uint32)
        for i, value in enumerate(v):
            data[i] = value
        if transposed:
            halves = data.view(np.uint16).reshape(count, 8, 8).transpose(0, 2, 1).reshape(-1, 8)
            region.views[16][(rows[:, None] >> 1) + _HALVES] = halves
        else:
            region.views[32][(rows[:, None] >> 2) + _WORDS] = data.reshape(-1, 4)

    return Lowered("warp", function, sources=((address, 32), *((v, 32) for v in values)))
