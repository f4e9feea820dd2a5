"""cp.async: each thread copies 4 to 16 bytes from global to shared memory, and waits for its groups of
copies.

PTX ISA, "Data Movement and Conversion Instructions: Asynchronous Copy, Non-bulk copy". The bytes land when
they are waited for, no sooner. They are written through the generic proxy, so wgmma needs a proxy fence after
the wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from course_utils.ptx.parser import Imm, Instr
from course_utils.run.emulator.core import addresses, memory
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value
from course_utils.run.emulator.units.access import Read
from course_utils.run.emulator.units.mbarrier import find_barrier

if TYPE_CHECKING:
    from course_utils.run.emulator.core.memory import SharedMemory
    from course_utils.run.emulator.core.threads import Path, Warp

# The copies of a warp, or of one group: (shared memory, offsets, bytes)
CopyGroup: TypeAlias = list[tuple[memory.SharedMemory, np.ndarray, np.ndarray]]


@dataclass(slots=True)
class CopyIssued:
    """Threads begin to copy ``count`` bytes each to ``offsets`` of shared memory."""

    path: Path
    region: SharedMemory
    offsets: np.ndarray
    count: int


@dataclass(slots=True)
class CopyLanded:
    """A wait covers such a copy, and its bytes are in shared memory."""

    path: Path
    region: SharedMemory
    offsets: np.ndarray
    count: int


class Copies:
    """A warp's copies: those not committed, and the groups committed and not waited for."""

    def __init__(self, warp: Warp) -> None:
        self.open: CopyGroup = []
        self.groups: list[CopyGroup] = []

    def commit(self) -> None:
        self.groups.append(self.open)
        self.open = []


def waited_for(groups: list, left: int) -> list:
    """What a wait_group N covers: all groups but the newest ``left``."""
    return groups[: max(len(groups) - left, 0)]


def copy(instruction: Instr) -> Lowered:
    """cp.async: each thread's own number of bytes, or none where its predicate says to ignore the source; the
    rest of the ``cp-size`` bytes is zero.
    """
    operands = list(instruction.operands)
    if any("cache_hint" in p for p in instruction.opcode):
        operands.pop()
    target, source, size, *rest = operands
    if not isinstance(size, Imm) or len(rest) > 1:
        raise ValueError("a copy of a size that is not constant")
    count = size.value
    ignores = bool(rest) and getattr(rest[0], "width", 32) == 1

    def function(p: Path, m: Mask, to: Value, where: Value, limit: Value = count) -> None:
        region, offsets = addresses.locate_shared(p, m, to, "shared", count)
        cells = np.atleast_1d(offsets)
        p.machine.probe.emit(CopyIssued(p, region, cells, count))
        if ignores:
            limit = (0 if limit else count) if limit.__class__ is bool else np.where(limit, 0, count)
        data = _fetched(p, m, where, limit, count, len(cells))
        p.warp.unit(Copies).open.append((region, cells, data))
        p.machine.progress += 1

    sources = ((target, 32), (source, 64), *((r, 1 if ignores else 32) for r in rest))
    return Lowered("warp", function, sources=sources)


def _fetched(p: Path, m: Mask, where: Value, limit: Value, count: int, copies: int) -> np.ndarray:
    """What each active lane copies, its first ``limit`` bytes of ``count``. An address of which nothing is
    read may be any.
    """
    data = np.zeros((copies, count), np.uint8)
    if limit.__class__ is int and limit >= count:
        origin, positions = addresses.locate(p, m, where, "global", count)
        p.machine.probe.emit(Read(p, origin, positions, count))
        data[:] = origin.data[np.atleast_1d(positions)[:, None] + np.arange(count)]
        return data
    for row, lane in enumerate(memory.lanes_of(m)[:copies]):
        if kept := min(memory.pick(limit, lane), count):
            address = memory.pick(where, lane)
            origin, first = addresses.locate(p, None, address, "global", count if kept == count else 1)
            if first % count:
                addresses.not_aligned(p, first, count)
            addresses.locate(p, None, address + kept - 1, "global", 1)
            if kept == count:
                p.machine.probe.emit(Read(p, origin, first, count))
            data[row, :kept] = origin.data[first : first + kept]
    return data


def _land(p: Path, groups: list[CopyGroup]) -> None:
    """Bytes land at a time of their own, apart from what the warp stores before and after."""
    p.warp.tick()
    for group in groups:
        for region, cells, data in group:
            region.data[cells[:, None] + np.arange(data.shape[1])] = data
            p.machine.probe.emit(CopyLanded(p, region, cells, data.shape[1]))
    p.warp.tick()


def commit(instruction: Instr) -> Lowered:
    return Lowered("warp", lambda p, m: p.warp.unit(Copies).commit())


def wait(instruction: Instr) -> Lowered:
    everything = instruction.opcode[2] == "wait_all"
    left = 0 if everything else instruction.operands[0].value

    def function(p: Path, m: Mask) -> None:
        copies = p.warp.unit(Copies)
        if everything:
            copies.commit()
        done = waited_for(copies.groups, left)
        copies.groups = copies.groups[len(done) :]
        _land(p, done)

    return Lowered("warp", function)


def arrive(instruction: Instr) -> Lowered:
    """cp.async.mbarrier.arrive: an arrival once this thread's copies so far have landed; here they land
    now.
    """
    keeps_count = "noinc" in instruction.opcode

    def function(p: Path, m: Mask, address: Value) -> None:
        copies = p.warp.unit(Copies)
        _land(p, [*copies.groups, copies.open])
        copies.groups, copies.open = [], []
        for lane in memory.lanes_of(m):
            barrier = find_barrier(p, memory.pick(address, lane))
            if not keeps_count:
                barrier.pending += 1
            barrier.arrive(p, 1)

    return Lowered("warp", function, sources=((instruction.operands[0], 32),), cut=True)
