"""Tensor memory: where tcgen05.mma accumulates, 128 lanes x 512 columns of 32 bits for each CTA.

PTX ISA, "TensorCore 5th Generation Family Instructions": Tensor Memory (addressing, allocation), access
restrictions, tcgen05.alloc, .dealloc, .relinquish_alloc_permit, .ld, .st, .wait. An address has the lane in
its upper 16 bits and the column in its lower 16. Nothing of this has run on a Blackwell by us: it follows the
ISA, and its layouts agree with those that CuTe DSL computes.

A warp reaches the 32 lanes of its number in the warpgroup. The ISA does not say what lane an address must
have then: TileLang passes 0 for every warp, and CuTe DSL the first lane of the warp's 32. Both are taken.
Where an allocation begins is the schedule's choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.ptx.parser import Instr, PtxError
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.core.threads import Wait
from course_utils.run.emulator.isa.arithmetic import LANES, vector
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value
from course_utils.run.emulator.units.access import write_lanes
from course_utils.run.emulator.units.sync import all_lanes

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Cluster, Path, Warp

QUARTERS = 4  # of the lanes: warp w of a warpgroup reaches quarter w
LEAST = 32  # columns of an allocation, a power of two
UNWRITTEN = 0xFFFFDEAD  # NaN as a float: what is read too early shows in the numbers
COLUMN = 0xFFFF  # the part of an address that is the column


@dataclass(slots=True)
class Allocated:
    """A warp has columns of its CTA's tensor memory."""

    path: Path
    memory: TensorMemory


@dataclass(slots=True)
class Freed:
    """A warp is about to free columns ``low`` to ``high`` of its CTA's tensor memory."""

    path: Path
    memory: TensorMemory
    low: int
    high: int


@dataclass(slots=True)
class Loaded:
    """A warp is about to read columns ``low`` to ``high`` in its quarter of the lanes."""

    path: Path
    memory: TensorMemory
    quarter: int
    low: int
    high: int


@dataclass(slots=True)
class Stored:
    """A warp is about to write columns ``low`` to ``high`` in its quarter of the lanes."""

    path: Path
    memory: TensorMemory
    quarter: int
    low: int
    high: int


@dataclass(slots=True)
class Awaited:
    """A warp has waited for its own tcgen05.ld, or (``stores``) tcgen05.st."""

    path: Path
    stores: bool


@dataclass(slots=True)
class Allocation:
    """Columns from ``low`` on, by a warp's instruction ``at``; shared byte ``kept_at`` has the address."""

    low: int
    count: int
    at: int
    kept_at: int
    warp: Warp


class TensorMemory:
    """One CTA's tensor memory: ``cells`` by lane and column, and the allocations by their first column.

    Raises PtxError where the chip that the kernel was compiled for has none.
    """

    def __init__(self, cta: CTA) -> None:
        chip = cta.machine.artifact.chip
        lanes, self.columns = chip.tensor_memory
        if not lanes:
            raise PtxError(f"{chip.name} has no tensor memory; this kernel is for a chip that has")
        self.cta = cta
        self.cells: np.ndarray = np.full((lanes, self.columns), UNWRITTEN, np.uint32)
        self.allocations: dict[int, Allocation] = {}
        self.relinquished = False
        self.most = self.columns  # columns that the next allocation may have
        self.waiting: list[AllocWait] = []

    def starts(self, count: int) -> list[int]:
        """Where so many columns are free, at multiples of their number."""
        taken = np.zeros(self.columns, np.bool_)
        for one in self.allocations.values():
            taken[one.low : one.low + one.count] = True
        return [low for low in range(0, self.columns, count) if not taken[low : low + count].any()]

    def holds(self, low: int, high: int) -> bool:
        """Do columns ``low`` to ``high`` lie in allocations?"""
        while low < high:
            one = next((a for a in self.allocations.values() if a.low <= low < a.low + a.count), None)
            if one is None:
                return False
            low = one.low + one.count
        return True

    @property
    def free(self) -> int:
        return self.columns - sum(one.count for one in self.allocations.values())


def tensor_memory(cta: CTA) -> TensorMemory:
    return cta.unit(TensorMemory)


@dataclass(eq=False)
class AllocWait(Wait):
    """Paths at tcgen05.alloc: until all ``needed`` CTAs of the pair have come to it, and each has ``count``
    free columns at one address. ``asking`` is each path, and where it wants the address.
    """

    count: int
    needed: int
    asking: list[tuple[Path, int]] = field(default_factory=list)

    def settle(self) -> bool:
        """Allocate if it can be done. Says whether it was."""
        if len(self.asking) < self.needed:
            return False
        memories = [tensor_memory(path.cta) for path, _ in self.asking]
        starts = [
            low
            for low in memories[0].starts(self.count)
            if all(low in m.starts(self.count) for m in memories)
        ]
        if not starts:
            return False
        low = self.asking[0][0].machine.schedule.random.choice(starts)
        for (path, address), mine in zip(self.asking, memories, strict=True):
            cta, offset = path.cta.cluster.cta_of(path, address)
            former = next((a for a in mine.allocations.values() if a.kept_at == offset), None)
            if former is not None and cta is path.cta:
                count, by = self.count, former.warp
                path.report("tmem-alloc", "allocates over an address", who=path.warp, count=count, former=by)
            mine.allocations[low] = Allocation(low, self.count, path.at, offset, path.warp)
            mine.most = self.count
            path.machine.probe.emit(Allocated(path, mine))
            write_lanes(path, None, address, "shared::cta", 32, [low])
        return True


class PairAllocations:
    """The allocations of CTA pairs that wait for the other CTA, by the pair's number in the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.waiting: dict[int, AllocWait] = {}


def is_pair(opcode: Sequence[str]) -> bool:
    """Does an instruction work for both CTAs of a pair?"""
    return "cta_group::2" in opcode


class CtaGroup:
    """Of what group the first tcgen05 instruction of a launch was. PTX ISA, "CTA pair": all of a kernel have
    the same.
    """

    def __init__(self, machine: Machine) -> None:
        self.pair: bool | None = None

    def hold(self, path: Path, pair: bool) -> None:
        """A finding where this instruction is of another group than the first."""
        if self.pair is None:
            self.pair = pair
        elif self.pair != pair:
            before = 1 + self.pair
            path.report("cta-group", "two CTA groups", who=path.warp, now=1 + pair, before=before)


def may_be_allocated(count: int, most: int) -> bool:
    """Is ``count`` a number of columns that an allocation may have, on a chip with ``most`` of them? PTX ISA,
    tcgen05.alloc: a power of two, at least 32.
    """
    return count & (count - 1) == 0 and LEAST <= count <= most


def alloc(instruction: Instr) -> Lowered:
    """tcgen05.alloc: by one whole warp, of a pair by one in each CTA."""
    pair = is_pair(instruction.opcode)
    address, count = instruction.operands

    def function(p: Path, m: Mask, following: int, address: Value, count: Value) -> int:
        all_lanes(p, m, "tcgen05.alloc")
        p.machine.unit(CtaGroup).hold(p, pair)
        mine, columns = tensor_memory(p.cta), memory.pick(count, 0)
        values: dict[str, Any] = {"who": p.warp, "count": columns}
        if not may_be_allocated(columns, mine.columns):
            p.halt("tmem-alloc", "columns of an allocation", most=mine.columns, **values)
        if mine.relinquished:
            p.halt("tmem-alloc", "allocates after relinquishing", **values)
        if columns > mine.most:
            p.report("tmem-alloc", "allocates more than before", former=mine.most, **values)
        request = AllocWait(columns, 1)
        if pair:
            if p.cta.cluster.size < 2:
                p.halt("tmem-alloc", "a pair of one CTA", **values)
            pairs = p.cta.cluster.unit(PairAllocations).waiting
            request = pairs.get(p.cta.rank // 2) or AllocWait(columns, 2)
            if request.asking and request.asking[0][0].cta is p.cta:
                request = AllocWait(columns, 2)  # a second one of this CTA: its peer is yet to come
            if request.count != columns:
                p.halt("tmem-alloc", "a pair's other count", other=request.count, **values)
            pairs[p.cta.rank // 2] = request
        request.asking.append((p, memory.pick(address, 0)))
        if len(request.asking) == request.needed and pair:
            del pairs[p.cta.rank // 2]
        p.machine.progress += 1
        if request.settle():
            for other, _ in request.asking[:-1]:
                other.wake()
            return following
        if len(request.asking) == request.needed:
            for path, _ in request.asking:
                tensor_memory(path.cta).waiting.append(request)
        return p.wait(following, request)

    return Lowered("blocking", function, sources=((address, 32), (count, 32)), cut=True)


def dealloc(instruction: Instr) -> Lowered:
    """tcgen05.dealloc: by one whole warp. Of a pair each CTA's columns are free once its own warp is here."""
    address, count = instruction.operands

    def function(p: Path, m: Mask, address: Value, count: Value) -> None:
        all_lanes(p, m, "tcgen05.dealloc")
        mine, low = tensor_memory(p.cta), memory.pick(address, 0) & COLUMN
        columns = memory.pick(count, 0)
        held = mine.allocations.get(low)
        if held is None or held.count != columns:
            values = {"who": p.warp, "low": low, "high": low + columns}
            p.halt("tmem-unallocated", "frees what is not allocated", **values)
        p.machine.probe.emit(Freed(p, mine, low, low + columns))
        del mine.allocations[low]
        p.machine.progress += 1
        for request in list(mine.waiting):
            if request.settle():
                for path, _ in request.asking:
                    tensor_memory(path.cta).waiting.remove(request)
                    path.wake()

    return Lowered("warp", function, sources=((address, 32), (count, 32)), cut=True)


def relinquish(instruction: Instr) -> Lowered:
    def function(p: Path, m: Mask) -> None:
        all_lanes(p, m, "tcgen05.relinquish_alloc_permit")
        tensor_memory(p.cta).relinquished = True

    return Lowered("warp", function, cut=True)


_LANE = np.arange(LANES)
_PAIR = 2 * (_LANE % 4)
# By shape, of one repetition: the lane and the column of each register of each thread, [register, thread],
# and how many columns it has.
_SHAPES: dict[str, tuple[np.ndarray, np.ndarray, int]] = {
    "32x32b": (_LANE[None], np.zeros((1, LANES), np.int64), 1),
    "16x64b": ((_LANE // 4 + 8 * (_LANE % 2))[None], (_LANE // 2 % 2)[None], 2),
    "16x128b": (np.stack([_LANE // 4, _LANE // 4 + 8]), np.stack([_LANE % 4] * 2), 4),
    "16x256b": (np.stack([_LANE // 4] * 2 + [_LANE // 4 + 8] * 2), np.stack([_PAIR, _PAIR + 1] * 2), 8),
}


def fragment(shape: str, repetitions: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Which lane and column, from the address on, each register of each thread of a warp holds: two arrays
    [register, thread]; and how many columns that are. PTX ISA, tcgen05.ld and .st, "Data Movement Shape".
    """
    rows, columns, width = _SHAPES[shape]
    return (
        np.concatenate([rows] * repetitions),
        np.concatenate([columns + width * one for one in range(repetitions)]),
        width * repetitions,
    )


def _form(instruction: Instr, registers: int) -> tuple[np.ndarray, np.ndarray, int]:
    """``fragment`` of a load or store. Raises ValueError for a form that is not modelled."""
    shape, repetitions = instruction.opcode[4:6]
    rows, columns, width = fragment(shape, int(repetitions[1:]))
    if len(rows) != registers:
        raise ValueError("another number of registers than its shape has")
    return rows, columns, width


def _place(p: Path, address: Value, width: int, rows: int) -> tuple[TensorMemory, int, int, int]:
    """Of an access: the memory, the quarter that the warp reaches, its first lane and column. A fault where
    the address is another warp's, or the columns are not allocated.
    """
    bits = memory.pick(address, 0)
    lane, column, quarter = bits >> 16, bits & COLUMN, p.warp.index % QUARTERS
    mine = tensor_memory(p.cta)
    if (
        lane % LANES + rows > LANES
        or lane % LANES not in (0, LANES // 2)
        or lane // LANES not in (0, quarter)
    ):
        reach = {"first": quarter * LANES, "last": quarter * LANES + LANES - 1}
        p.halt("tmem-lanes", "another warp's lanes", who=p.warp, lane=lane, **reach)
    if not mine.holds(column, column + width):
        values = {"who": p.warp, "low": column, "high": column + width}
        p.halt("tmem-unallocated", "accesses what is not allocated", **values)
    return mine, quarter, quarter * LANES + lane % LANES, column


def load(instruction: Instr) -> Lowered:
    """tcgen05.ld. Registers have their values at once: an instruction that takes one waits for it. What
    needs tcgen05.wait::ld is whoever writes the same columns afterwards.
    """
    target, address = instruction.operands
    rows, columns, width = _form(instruction, len(target.items))
    deep = int(rows.max()) + 1

    def function(p: Path, m: Mask, address: Value) -> list[np.ndarray]:
        all_lanes(p, m, "tcgen05.ld")
        mine, quarter, lane, column = _place(p, address, width, deep)
        p.machine.probe.emit(Loaded(p, mine, quarter, column, column + width))
        return list(mine.cells[lane + rows, column + columns])

    return Lowered("warp", function, target.items, ((address, 32),), unpack=True, cut=True)


def store(instruction: Instr) -> Lowered:
    """tcgen05.st."""
    address, source = instruction.operands
    rows, columns, width = _form(instruction, len(source.items))
    deep = int(rows.max()) + 1

    def function(p: Path, m: Mask, address: Value, *values: Value) -> None:
        all_lanes(p, m, "tcgen05.st")
        mine, quarter, lane, column = _place(p, address, width, deep)
        p.machine.probe.emit(Stored(p, mine, quarter, column, column + width))
        mine.cells[lane + rows, column + columns] = [vector(value, 32) for value in values]
        p.machine.progress += 1

    sources = (address, 32), *((one, 32) for one in source.items)
    return Lowered("warp", function, sources=sources, cut=True)


def wait(instruction: Instr) -> Lowered:
    """tcgen05.wait::ld and ::st."""
    stores = instruction.opcode[1] == "wait::st"

    def function(p: Path, m: Mask) -> None:
        all_lanes(p, m, f"tcgen05.{instruction.opcode[1]}")
        p.machine.probe.emit(Awaited(p, stores))

    return Lowered("warp", function, cut=True)
