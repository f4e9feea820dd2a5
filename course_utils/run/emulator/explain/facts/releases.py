"""Stages that are released: what tells whoever loads over a tile that its wgmmas, or MMAs, are done.

Arrivals on an mbarrier release a stage. Where barriers of threads, or words that threads poll, tell the same,
roles go in step, and the mbarrier holds nobody back.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from course_utils.ptx.parser import Instr
from course_utils.run.emulator.explain.facts.fills import Fill, Fills, Issue
from course_utils.run.emulator.explain.facts.k_tiles import KTiles
from course_utils.run.emulator.explain.facts.moments import Moment, Moments
from course_utils.run.emulator.units.access import Atomic, Read, Write, scope_of
from course_utils.run.emulator.units.mbarrier import Arrived
from course_utils.run.emulator.units.sync import BarrierJoined, BarrierPassed, ThreadBarrier
from course_utils.run.emulator.units.tcgen05 import CommitIssued
from course_utils.run.emulator.units.tma import LoadsIssued

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.memory import Region
    from course_utils.run.emulator.core.order import Clock
    from course_utils.run.emulator.core.threads import CTA, Cluster, Path, Warp


class Releases:
    """Arrivals on the mbarriers of a cluster that no load signals, by mbarrier and its phase, and what each
    warp knows without them: of each agent the number of the last moment (``Moments``) that barriers of
    threads have told it, and words that it has read strongly.
    """

    def __init__(self, machine: Machine) -> None:
        self.counts = Counter[str]()
        self._fills, self._k_tiles = machine.unit(Fills), machine.unit(KTiles)
        self._moments = machine.unit(Moments)
        self._arrivals: dict[int, dict[int, list[tuple[CTA | None, Moment]]]] = {}
        self._told: dict[Warp | ThreadBarrier, Clock] = {}
        self._told_at: dict[int, np.ndarray] = {}  # by the number of a load's moment
        self._words: dict[tuple[Cluster, Region, int], Clock] = {}
        if any(map(_orders, machine.program.kernel.instructions)):
            machine.probe.listen(Read, self._read)
            machine.probe.listen(Write, self._wrote)
            machine.probe.listen(Atomic, self._changed)
        machine.probe.listen(Arrived, self._arrived)
        machine.probe.listen(CommitIssued, self._committed)
        machine.probe.listen(BarrierJoined, self._joined)
        machine.probe.listen(BarrierPassed, self._passed)
        machine.probe.listen(LoadsIssued, self._load_issued)

    def clear(self) -> None:
        """A cluster has ended."""
        self._arrivals.clear()
        self._told.clear()
        self._told_at.clear()
        self._words.clear()

    def close(self) -> None:
        """Where a load writes over what wgmma has read: did arrivals on an mbarrier tell whoever issued it
        that those wgmmas were done? And where that was in another CTA, arrivals of that CTA's?
        """
        before: dict[tuple[CTA, int], Fill] = {}  # what was loaded to a place before
        for issue in self._fills.issues:
            for fill, low, high in issue.targets:
                former = before.get((fill.cta, low))
                before[fill.cta, low] = fill
                if former is None or former is fill or not former.reads(low, high):
                    continue
                released = self._released(issue, former) and not self._in_step(issue, former)
                self.counts["loads over a read stage"] += 1
                self.counts["loads over a stage that was released"] += released
                if fill.cta is not issue.warp.cta:
                    self.counts["loads over another CTA's read stage"] += 1
                    self.counts["loads over a stage that the other CTA released"] += released

    def _arrived(self, event: Arrived) -> None:
        """Arrivals on an mbarrier that no load signals in this phase: one that releases a stage."""
        if not (event.barrier.expected or event.barrier.issued):
            phases = self._arrivals.setdefault(event.barrier.agent, {})
            moment = self._moments.of(event.path, seen=True)
            phases.setdefault(event.barrier.phase, []).append((event.path.cta, moment))

    def _committed(self, event: CommitIssued) -> None:
        """A commit will arrive once the MMAs of its thread have run, whose CTA ever they read from."""
        issuer, known = event.issuer, event.issuer.done()
        if known is None:
            return
        moment = Moment(issuer.agent, issuer.time, issuer.time + 1, known.seen)
        for barrier in event.barriers:
            phases = self._arrivals.setdefault(barrier.agent, {})
            phases.setdefault(barrier.phase, []).append((None, moment))

    def _released(self, issue: Issue, fill: Fill) -> bool:
        """Had each warpgroup that multiplied of ``fill`` arrived on mbarriers, or had others of its CTA that
        knew it was done, before the load's issuer went on from them?
        """
        seen = issue.moment.seen
        assert seen is not None
        arrivals = [
            moment
            for agent, phases in self._arrivals.items()
            for cta, moment in phases.get(int(seen[agent]) - 1, ())
            if cta in (None, fill.cta)
        ]
        return all(
            any(
                arrival.after(moment)
                for arrival in arrivals
                for moment in self._k_tiles.read_until(group, fill.code)
            )
            for group in fill.readers
        )

    def _in_step(self, issue: Issue, fill: Fill) -> bool:
        """Did anything else tell the load's issuer that a warpgroup had multiplied of ``fill``?"""
        told = self._told_at.get(issue.moment.now)
        return told is not None and any(
            told[moment.agent] >= moment.now
            for group in fill.readers
            for moment in self._k_tiles.read_until(group, fill.code)
        )

    def _told_of(self, who: Warp | ThreadBarrier, cluster: Cluster) -> Clock:
        if who not in self._told:
            self._told[who] = cluster.order.clock()
        return self._told[who]

    def _told_by(self, path: Path) -> Clock:
        """What this warp knows so, and what it has done itself."""
        mine = self._told_of(path.warp, path.cta.cluster)
        mine.seen[path.warp.agent] = self._moments.of(path).now
        return mine

    def _joined(self, event: BarrierJoined) -> None:
        self._told_of(event.barrier, event.path.cta.cluster).join(self._told_by(event.path))

    def _passed(self, event: BarrierPassed) -> None:
        cluster = event.path.cta.cluster
        self._told_of(event.path.warp, cluster).join(self._told_of(event.barrier, cluster))

    def _read(self, event: Read | Atomic) -> None:
        for word in _words(event):
            if told := self._words.get(word):
                self._told_of(event.path.warp, event.path.cta.cluster).join(told)

    def _wrote(self, event: Write | Atomic) -> None:
        if words := _words(event):
            self._words |= dict.fromkeys(words, self._told_by(event.path).copy())

    def _changed(self, event: Atomic) -> None:
        self._read(event)
        self._wrote(event)

    def _load_issued(self, event: LoadsIssued) -> None:
        """Listens after ``Fills``, whose issue is the last one."""
        if (told := self._told.get(event.path.warp)) and self._fills.issues:
            self._told_at[self._fills.issues[-1].moment.now] = told.seen.copy()


def _orders(instruction: Instr) -> bool:
    """Can it read or write a word strongly?"""
    kind = instruction.opcode[0]
    return kind in ("atom", "red") or kind in ("ld", "st") and scope_of(instruction) > 0


def _words(event: Read | Write | Atomic) -> list[tuple[Cluster, Region, int]]:
    """The words of a strong access, as the threads of its cluster know them; none of a weak one."""
    if not event.scope:
        return []
    offsets = [event.offsets] if event.offsets.__class__ is int else np.unique(event.offsets).tolist()
    return [(event.path.cta.cluster, event.region, offset) for offset in offsets]
