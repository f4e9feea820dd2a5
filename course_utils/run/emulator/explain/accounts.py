"""Accounts of mbarriers, kept as a launch runs: who arrived on each and how often, which loads signal it,
whose waits for it have passed. ``account(barrier)`` gives what is known by now.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.run.emulator.explain.places import Place, Places
from course_utils.run.emulator.explain.roles import role
from course_utils.run.emulator.units.mbarrier import (
    Arrived,
    BytesIssued,
    Expected,
    Initialised,
    MBarrier,
    PhaseCompleted,
    WaitPassed,
)
from course_utils.run.emulator.units.tma import LoadIssued

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Path, Warp
    from course_utils.run.emulator.units.tma import Load


@dataclass(slots=True)
class Arrivals:
    """One warp's arrivals on one mbarrier: ``count`` in all, ``most`` in a round, the last of those at
    instruction ``at``; ``later`` are those after its first wait for an mbarrier, ``at_once`` the most of one
    instruction.
    """

    count: int = 0
    later: int = 0
    round: int = -1
    now: int = 0
    most: int = 0
    at: int = -1
    at_once: int = 0


@dataclass(slots=True)
class Passed:
    """One warp's waits for one mbarrier that have passed: how many; the first one's parity; the last one's
    parity, the phases ended by then, its instruction.
    """

    count: int = 0
    first: int | None = None
    parity: int | None = None
    phases: int = 0
    at: int = -1


class Account:
    """What one mbarrier has seen."""

    def __init__(self, barrier: MBarrier) -> None:
        self.init_at = -1  # the instruction that made it, and the author's line of that
        self.place = Place()
        self.arrivals: dict[Warp, Arrivals] = {}
        self.waits: dict[Warp, Passed] = {}
        self.carries_bytes = False
        self.expected_by: list[int] = []  # the instructions that told the bytes of this phase
        self.loads: list[Load] = []  # those that signal it, of its last phase that has some
        # warps and how often they arrived in this phase, and in the one before
        self.this_phase: dict[Warp, int] = {}
        self.last_phase: dict[Warp, int] = {}
        # the last arrival of all: its warp and instruction; and the one that ended the last phase
        self.arrived_last: tuple[Warp, int] | None = None
        self.released_by: tuple[Warp, int] | None = None
        # phases that ended with bytes expected; the first that ended with none, and its last arrival
        self.expects = 0
        self.bare: tuple[int, Warp, int] | None = None

    def arrived(self, path: Path, count: int) -> None:
        warp, theirs = path.warp, role(path.warp)
        mine = self.arrivals.setdefault(warp, Arrivals())
        if mine.round != theirs.rounds:
            mine.round, mine.now = theirs.rounds, 0
        mine.now += count
        mine.count += count
        mine.at_once = max(mine.at_once, count)
        if mine.now > mine.most:
            mine.most, mine.at = mine.now, path.at
        if theirs.waited is not None:
            mine.later += count
        self.this_phase[warp] = self.this_phase.get(warp, 0) + count
        self.arrived_last = warp, path.at

    def passed(self, path: Path, parity: int | None, phases: int) -> None:
        mine = self.waits.setdefault(path.warp, Passed())
        mine.count += 1
        mine.first = parity if mine.count == 1 else mine.first
        mine.parity, mine.phases, mine.at = parity, phases, path.at

    def completed(self, barrier: MBarrier) -> None:
        """Its phase ends."""
        if barrier.expected or barrier.issued:
            self.expects += 1
        elif self.bare is None and self.arrived_last:
            self.bare = barrier.phase, *self.arrived_last
        self.released_by = self.arrived_last
        self.expected_by.clear()
        self.last_phase, self.this_phase = self.this_phase, {}


def account(barrier: MBarrier) -> Account:
    return barrier.unit(Account)


def all_from_one_cta(barrier: MBarrier) -> CTA | None:
    """The CTA that alone has ended a phase of an mbarrier which counts arrivals of both CTAs of a pair."""
    last = account(barrier).last_phase
    homes = {warp.cta for warp in last}
    pair = barrier.cta.cluster.size == 2 and sum(last.values()) > 1
    return homes.pop() if pair and len(homes) == 1 else None


def listen(machine: Machine) -> None:
    def initialised(event: Initialised) -> None:
        mine = account(event.barrier)
        mine.init_at, mine.place = event.path.at, machine.unit(Places).place(event.path.at)

    def expected(event: Expected) -> None:
        mine = account(event.barrier)
        mine.carries_bytes = True
        mine.expected_by.append(event.path.at)

    def bytes_issued(event: BytesIssued) -> None:
        account(event.barrier).carries_bytes = True

    def issued(event: LoadIssued) -> None:
        loads = account(event.load.barrier).loads
        if loads and loads[0].phase != event.load.phase:
            loads.clear()
        loads.append(event.load)

    def passed(event: WaitPassed) -> None:
        wait = event.wait
        account(wait.barrier).passed(event.path, wait.parity, wait.barrier.phase)

    hear = machine.probe.listen
    hear(Initialised, initialised)
    hear(Arrived, lambda event: account(event.barrier).arrived(event.path, event.count))
    hear(Expected, expected)
    hear(BytesIssued, bytes_issued)
    hear(LoadIssued, issued)
    hear(PhaseCompleted, lambda event: account(event.barrier).completed(event.barrier))
    hear(WaitPassed, passed)
