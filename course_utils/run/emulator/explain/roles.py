"""What each warp does: it loads, multiplies, stores, or works at all of it. ``role(warp)`` is its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.run.emulator.core.probe import WaitBegan
from course_utils.run.emulator.explain.ahead import ahead
from course_utils.run.emulator.units.mbarrier import Arrived
from course_utils.run.emulator.units.tma import LoadBegins
from course_utils.run.emulator.units.wgmma import FirstMultiply

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.warp import Warp


class Role:
    """What one warp does: ``loads`` is how many TMA loads it has issued, ``seen_at`` where it waited or
    arrived last, or met a hazard.
    """

    def __init__(self, warp: Warp) -> None:
        self.warp = warp
        self.loads = 0
        self.seen_at: int | None = None
        self._kind: str | None = None

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

    def loads(event: LoadBegins) -> None:
        role(event.path.warp).loads += 1
        role(event.path.warp).issues(event.path.at)

    def multiplies(event: FirstMultiply) -> None:
        role(event.path.warp).issues(event.path.at)

    machine.probe.listen(Arrived, arrived)
    machine.probe.listen(WaitBegan, waits)
    machine.probe.listen(LoadBegins, loads)
    machine.probe.listen(FirstMultiply, multiplies)
