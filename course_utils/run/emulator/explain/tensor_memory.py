"""Races in tensor memory: who may read, write or free which columns, held against what happens before what
(``order``). As ``races`` has it of shared memory, a race is found on any schedule.

A tcgen05.mma is over for whoever has waited for a commit that covers it, tcgen05.ld and .st for whoever comes
after them; where only tcgen05.wait is missing, that is a warning for loads (public kernels leave it out, see
NVIDIA/cutlass issue 2525) and an error for stores. PTX ISA, "Memory Consistency Model" of tcgen05.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.run.emulator.core.probe import At
from course_utils.run.emulator.core.threads import CtaEnded
from course_utils.run.emulator.explain.hazards import find
from course_utils.run.emulator.units import tcgen05, tmem
from course_utils.run.emulator.units.tcgen05 import Issuers
from course_utils.run.emulator.units.tmem import QUARTERS

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Path, Warp
    from course_utils.run.emulator.units.tcgen05 import Accumulator, Issuer, Operation
    from course_utils.run.emulator.units.tmem import TensorMemory


@dataclass(slots=True, eq=False)
class Sums:
    """MMAs of one thread into one accumulator, ``time`` the last one's number, at instruction ``at``."""

    issuer: Issuer
    accumulator: Accumulator
    time: int
    at: int

    def is_over(self, seen: np.ndarray) -> bool:
        return bool(seen[self.issuer.agent] >= self.time)


@dataclass(slots=True, eq=False)
class Access:
    """A tcgen05.ld or .st of a warp, in its ``quarter`` of the lanes, or an MMA that reads A in all of them
    (-1): over once ``agent`` is seen at ``time``. ``waited`` is the warp's time at its tcgen05.wait, -1
    before; an MMA needs none. ``early``: it has read what nothing had written by then.
    """

    agent: int
    time: int
    at: int
    warp: Warp
    quarter: int
    waited: int = -1
    early: bool = False

    def is_over(self, seen: np.ndarray) -> bool:
        return bool(seen[self.agent] >= self.time)

    def is_waited_for(self, seen: np.ndarray) -> bool:
        return 0 <= self.waited <= seen[self.agent]


class Columns:
    """What is known of one CTA's tensor memory: who wrote each quarter of the lanes of a column last, as an
    index of ``writers``, 0 for nobody; and who has read some columns since they were written.
    """

    def __init__(self, memory: TensorMemory) -> None:
        self.written = np.zeros((QUARTERS, memory.columns), np.int32)
        self.writers: list[Sums | Access | None] = [None]
        self.read: dict[tuple[int, int, int], Access] = {}  # by agent, from and to

    def write(self, quarters: int | slice, low: int, high: int, by: Sums | Access) -> None:
        self.writers.append(by)
        self.written[quarters, low:high] = len(self.writers) - 1

    def writers_of(self, quarters: int | slice, low: int, high: int) -> list[Sums | Access | None]:
        return [self.writers[n] for n in np.unique(self.written[quarters, low:high])]

    def readers_of(self, low: int, high: int, quarter: int = -1) -> list[Access]:
        """Who has read some of these columns, in this quarter or (-1) in any."""
        found = (one for (_, first, last), one in self.read.items() if first < high and low < last)
        return [one for one in found if -1 in (quarter, one.quarter) or quarter == one.quarter]

    def forget_readers(self, low: int, high: int) -> None:
        """What has been written or freed as a whole has no reader."""
        self.read = {key: one for key, one in self.read.items() if key[1] < low or high < key[2]}


class ColumnRaces:
    """The columns of a cluster's tensor memories, and the findings that they lead to."""

    def __init__(self, machine: Machine) -> None:
        self._columns: dict[TensorMemory, Columns] = {}
        self._open: dict[tuple[Warp, bool], list[Access]] = {}  # not waited for: loads, and stores
        listen = machine.probe.listen
        listen(tmem.Allocated, lambda event: self.of(event.memory))
        listen(tmem.Loaded, self._loaded)
        listen(tmem.Stored, self._stored)
        listen(tmem.Awaited, self._awaited)
        listen(tmem.Freed, self._freed)
        listen(tcgen05.Issued, self._issued)
        listen(tcgen05.CommitIssued, self._commit_issued)
        listen(CtaEnded, self._cta_ended)

    def clear(self) -> None:
        """A cluster has ended."""
        self._columns.clear()
        self._open.clear()

    def of(self, memory: TensorMemory) -> Columns:
        if memory not in self._columns:
            self._columns[memory] = Columns(memory)
        return self._columns[memory]

    def _access(self, path: Path, stores: bool) -> Access:
        access = Access(path.warp.agent, path.warp.time, path.at, path.warp, path.warp.index % QUARTERS)
        self._open.setdefault((path.warp, stores), []).append(access)
        return access

    def _awaited(self, event: tmem.Awaited) -> None:
        warp = event.path.warp
        for access in self._open.pop((warp, event.stores), ()):
            access.waited = warp.time

    def _loaded(self, event: tmem.Loaded) -> None:
        columns, path = self.of(event.memory), event.path
        access = self._access(path, False)
        access.early = None in columns.writers_of(event.quarter, event.low, event.high)
        self._reads(path, columns, event.quarter, event.low, event.high, "tcgen05.ld")
        columns.read[path.warp.agent, event.low, event.high] = access

    def _stored(self, event: tmem.Stored) -> None:
        columns, path = self.of(event.memory), event.path
        self._overwrites(path, columns, event.quarter, event.low, event.high, None)
        columns.write(event.quarter, event.low, event.high, self._access(path, True))

    def _issued(self, event: tcgen05.Issued) -> None:
        path, op = event.path, event.operation
        low, high = op.written
        every = slice(None)
        for cta in op.ctas:
            columns = self.of(tmem.tensor_memory(cta))
            if op.a_columns:
                self._reads(path, columns, every, *op.a_columns, "operand A of tcgen05.mma", op)
                reader = Access(op.issuer.agent, op.number, path.at, path.warp, -1, op.number)
                columns.read[op.issuer.agent, *op.a_columns] = reader
            if op.accumulates:
                self._reads(path, columns, every, low, high, "tcgen05.mma", op)
            self._overwrites(path, columns, every, low, high, op)
            columns.forget_readers(low, high)
            self._sum(columns, op)

    def _sum(self, columns: Columns, op: Operation) -> None:
        """An MMA writes its accumulator: it joins those before it there, or is the first."""
        low, high = op.written
        writers = columns.writers_of(slice(None), low, high)
        before = writers[0] if len(writers) == 1 else None
        if _is_the_same(before, op):
            assert isinstance(before, Sums)
            before.time, before.at = op.number, op.at
        else:
            columns.write(slice(None), low, high, Sums(op.issuer, op.accumulator, op.number, op.at))

    def _reads(
        self,
        path: Path,
        columns: Columns,
        quarters: int | slice,
        low: int,
        high: int,
        reader: str,
        op: Operation | None = None,
    ) -> None:
        """Columns are read: has all of it been written, and is whoever wrote it done? ``op``: by an MMA."""
        seen = path.warp.clock.seen
        values: dict[str, Any] = {"who": path.warp, "reader": reader, "low": low, "high": high}
        for writer in columns.writers_of(quarters, low, high):
            if writer is None:
                if op is not None:  # what a load finds so may be written yet: see ``_early``
                    find(path, "tmem-uninitialised", "reads columns that nothing has written", values)
            elif isinstance(writer, Sums):
                mine = op is not None and _is_the_same(writer, op)
                if not mine and not writer.is_over(seen):
                    notes = [("the MMA", {"at": At(writer.at)})]
                    find(path, "accumulator-before-commit", "reads before the commit", values, notes=notes)
            elif not writer.is_over(seen):
                values |= {"writer": writer.warp}
                notes = [("the store", {"at": At(writer.at)})]
                find(path, "tmem-read-before-write", "nothing orders a store", values, notes=notes)
            elif not writer.is_waited_for(seen):
                values |= {"writer": writer.warp}
                notes = [("the store", {"at": At(writer.at)})]
                find(path, "tmem-read-before-write", "no wait::st", values, notes=notes)

    def _overwrites(
        self, path: Path, columns: Columns, quarters: int | slice, low: int, high: int, op: Operation | None
    ) -> None:
        """Columns are written: is whoever reads or writes them done?"""
        seen = path.warp.clock.seen
        what = "tcgen05.st" if op is None else "tcgen05.mma"
        values: dict[str, Any] = {"who": path.warp, "writer": what, "low": low, "high": high}
        quarter = quarters if isinstance(quarters, int) else -1
        for reader in columns.readers_of(low, high, quarter):
            self._after_a_reader(path, reader, values)
        for writer in columns.writers_of(quarters, low, high):
            if writer is None or writer.is_over(seen) or op is not None and _is_the_same(writer, op):
                continue
            if isinstance(writer, Access) and writer.warp is path.warp:
                continue  # its own tcgen05.st before
            notes = [("the other write", {"at": At(writer.at)})]
            find(path, "tmem-overwrite", "writes over a write", values, notes=notes)

    def _after_a_reader(self, path: Path, reader: Access, values: dict[str, Any]) -> None:
        """Something follows a read of the same columns that they must not meet."""
        seen = path.warp.clock.seen
        values = values | {"reader": reader.warp}
        notes = [("the read", {"at": At(reader.at)})]
        if reader.early and not reader.is_over(seen):
            case, notes = "reads before the MMA", [("the other write", {"at": At(path.at)})]
            find(path, "accumulator-before-commit", case, values, reader.at, notes=notes)
        elif reader.early:
            self._early(path, reader, values)
        elif not reader.is_over(seen):
            find(path, "tmem-overwrite", "writes over a read", values, notes=notes)
        elif not reader.is_waited_for(seen):
            find(
                path,
                "tmem-wait",
                "no wait::ld",
                values,
                reader.at,
                notes=[("the write", {"at": At(path.at)})],
            )

    def _early(self, path: Path, reader: Access, values: dict[str, Any]) -> None:
        """A load has read what nothing had written, and nothing is written there that it should have had."""
        values = values | {"who": reader.warp, "reader": "tcgen05.ld"}
        find(path, "tmem-uninitialised", "reads columns that nothing has written", values, reader.at)

    def _freed(self, event: tmem.Freed) -> None:
        path, columns, low, high = event.path, self.of(event.memory), event.low, event.high
        seen = path.warp.clock.seen
        values: dict[str, Any] = {"who": path.warp, "low": low, "high": high}
        for reader in columns.readers_of(low, high):
            notes = [("the read", {"at": At(reader.at)})]
            if reader.early:
                self._early(path, reader, values)
            if not reader.is_over(seen):
                values |= {"reader": reader.warp}
                find(path, "tmem-freed-early", "frees what is read", values, notes=notes)
            elif not reader.is_waited_for(seen):
                more = {"writer": "tcgen05.dealloc", "reader": reader.warp}
                find(path, "tmem-wait", "no wait::ld", values | more, reader.at)
        for writer in columns.writers_of(slice(None), low, high):
            if writer is not None and not writer.is_over(seen):
                notes = [("the other write", {"at": At(writer.at)})]
                find(path, "tmem-freed-early", "frees what is written", values, notes=notes)
        columns.written[:, low:high] = 0
        columns.forget_readers(low, high)

    def _commit_issued(self, event: tcgen05.CommitIssued) -> None:
        """A commit says nothing where its own thread has issued nothing: others' MMAs are not covered."""
        path = event.path
        if not event.issuer.time:
            values = {"who": path.warp, "barrier": event.barriers[0]}
            find(path, "commit-covers-nothing", "commits nothing", values, about=event.barriers)

    def _cta_ended(self, event: CtaEnded) -> None:
        path, cta = event.path, event.cta
        memory = next((one for one in self._columns if one.cta is cta), None)
        if memory is None:
            return
        seen = np.max([warp.clock.seen for warp in cta.warps], axis=0)
        for issuer in (one for warp in cta.warps for one in warp.unit(Issuers).by_lane.values()):
            if issuer.time and seen[issuer.agent] < issuer.time:
                values = {"who": issuer.warp, "cta": cta.number}
                find(path, "exit-in-flight", "a CTA ends while an MMA runs", values, issuer.at)
        for (_, low, high), reader in self.of(memory).read.items():
            if reader.early:
                self._early(path, reader, {"low": low, "high": high})
        for one in memory.allocations.values():
            values = {"who": one.warp, "count": one.count, "cta": cta.number}
            find(path, "tmem-leak", "tensor memory is not freed", values, one.at)


def _is_the_same(writer: Sums | Access | None, op: Operation) -> bool:
    """Does an MMA follow these in the order of its own thread: one accumulator, one shape?"""
    return isinstance(writer, Sums) and (writer.issuer, writer.accumulator) == (op.issuer, op.accumulator)
