"""What each warp does: it loads, multiplies, stores, or works at all of it. ``role(warp)`` is its record."""

from __future__ import annotations

from typing import TYPE_CHECKING

from course_utils.run.emulator.core.probe import Hazard, WaitBegan
from course_utils.run.emulator.explain.ahead import ahead
from course_utils.run.emulator.units.mbarrier import Arrived

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.warp import Warp


class Role:
    """What one warp has issued: TMA ``loads`` and ``stores``, wgmmas (``multiplies``). ``seen_at`` is where
    it waited or arrived last, or met a hazard.
    """

    def __init__(self, warp: Warp) -> None:
        self.warp = warp
        self.loads = self.stores = self.multiplies = 0
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

    def stands(event: WaitBegan | Hazard) -> None:
        role(event.path.warp).seen_at = event.path.pc

    machine.probe.listen(Arrived, arrived)
    machine.probe.listen(WaitBegan, stands)
    machine.probe.listen(Hazard, stands)
