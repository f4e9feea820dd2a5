"""Why a warp may not touch an accumulator yet: which wgmma writes it, and which wait leaves that running."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.cause import Cause
from course_utils.run.emulator.explain.places import Places, line_of
from course_utils.run.emulator.units.wgmma import Awaited, Issued

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Path, Warp
    from course_utils.run.emulator.units.wgmma import Accumulator

COMMIT = "wgmma.commit_group"


@dataclass(slots=True)
class LastWait:
    """A warp's last wait_group: where, how many wgmmas it had issued by then, how many groups that leaves,
    and whether some wgmmas were in no group.
    """

    at: int = -1
    issued: int = 0
    leaves: int = 0
    uncommitted: bool = False


class LastWaits:
    """Each warp's last wait_group of wgmma."""

    def __init__(self, machine: Machine) -> None:
        self._of: dict[Warp, LastWait] = {}
        machine.probe.listen(Awaited, self._awaited)

    def clear(self) -> None:
        """A cluster has ended."""
        self._of.clear()

    def of(self, warp: Warp) -> LastWait:
        return self._of.get(warp) or LastWait()

    def _awaited(self, event: Awaited) -> None:
        warp = event.path.warp
        issued = warp.unit(Issued).count
        self._of[warp] = LastWait(event.path.at, issued, event.groups, bool(event.open))

    def still_writes(self, path: Path, accumulator: Accumulator) -> Cause:
        """What to say of an accumulator that a wgmma may still write."""
        warp, issued = path.warp, path.warp.unit(Issued)
        operations = issued.group.operations
        left = [n for numbers in (*issued.groups, issued.open) for n in numbers]
        mine = [n for n in left if operations[n].accumulator is accumulator]
        if not mine:
            return Cause("", "a wgmma may still write it", {"line": None, "why": None})
        place, wait = path.machine.unit(Places).place, self.of(warp)
        line = line_of(place(operations[mine[-1]].at), "that of a line")
        if wait.uncommitted:
            why = Cause("", "in no group", {"instruction": COMMIT})
        elif wait.issued <= mine[-1]:
            why = Cause("", "no wait is between")
        else:
            on = line_of(place(wait.at), "on a line")
            why = Cause("", "the wait leaves groups", {"on": on, "count": wait.leaves})
        return Cause("", "a wgmma may still write it", {"line": line, "why": why})
