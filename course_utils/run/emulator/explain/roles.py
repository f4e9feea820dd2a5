"""What each warp does: it loads, multiplies, stores, or works at all of it; and which waits it has behind it.
``role(warp)`` is its record.

A *round* of a warp is what lies between two of its waits: a warp that keeps its turn arrives on a barrier as
often in each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.run.emulator.core.threads import WaitBegan, WaitEnded
from course_utils.run.emulator.explain.ahead import ahead
from course_utils.run.emulator.units.mbarrier import Arrived, WaitPassed
from course_utils.run.emulator.units.sync import ThreadWait
from course_utils.run.emulator.units.tma import LoadBegins
from course_utils.run.emulator.units.wgmma import FirstMultiply

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Warp
    from course_utils.run.emulator.units.mbarrier import MBarrier


class Role:
    """What one warp does: ``loads`` is how many TMA loads it has issued, ``seen_at`` where it waited or
    arrived last, or met a hazard. Of its waits that have passed: ``waited`` is the last one for an mbarrier,
    with its instruction, ``takes`` all of those, ``rounds`` how many there were for mbarriers and threads.
    """

    def __init__(self, warp: Warp) -> None:
        self.warp = warp
        self.loads = 0
        self.seen_at: int | None = None
        self.takes: list[tuple[MBarrier, int]] = []
        self.rounds = 0
        self._kind: str | None = None

    @property
    def waited(self) -> tuple[MBarrier, int] | None:
        return self.takes[-1] if self.takes else None

    def name(self) -> str:
        """By what it has issued, or else by what it can still reach from where it was last seen."""
        if self._kind is None:
            return "" if self.seen_at is None else self._reached(self.seen_at)
        return self._kind

    def issues(self, at: int) -> None:
        """Its first TMA load or wgmma says what its role is: both lie in one loop unless the roles are
        split.
        """
        if self._kind is None:
            self._kind = self._reached(at)

    def _reached(self, pc: int) -> str:
        abilities = ahead(self.warp.cta.machine.program).abilities(pc)
        if "wgmma" in abilities:
            return "worker" if "load" in abilities else "consumer"
        return "producer" if "load" in abilities else "storing" if "store" in abilities else ""


def role(warp: Warp) -> Role:
    return warp.unit(Role)


def listen(machine: Machine) -> None:
    def arrived(event: Arrived) -> None:
        role(event.path.warp).seen_at = event.path.at

    def waits(event: WaitBegan) -> None:
        role(event.path.warp).seen_at = event.path.pc

    def passed(event: WaitPassed) -> None:
        mine = role(event.path.warp)
        mine.takes.append((event.wait.barrier, event.path.at))
        mine.rounds += 1

    def went_on(event: WaitEnded) -> None:
        if event.reason.__class__ is ThreadWait:
            role(event.path.warp).rounds += 1

    def loads(event: LoadBegins) -> None:
        mine = role(event.path.warp)
        mine.loads += 1
        mine.issues(event.path.at)

    def multiplies(event: FirstMultiply) -> None:
        role(event.path.warp).issues(event.path.at)

    hear = machine.probe.listen
    hear(Arrived, arrived)
    hear(WaitBegan, waits)
    hear(WaitPassed, passed)
    hear(WaitEnded, went_on)
    hear(LoadBegins, loads)
    hear(FirstMultiply, multiplies)
