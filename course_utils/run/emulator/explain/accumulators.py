"""Why a warp may not touch registers of wgmma yet: which wgmma uses them, and which wait leaves it so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from course_utils.cause import Cause
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.explain.places import Places, line_of
from course_utils.run.emulator.units.wgmma import Awaited, Issued, Pending

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Hazard, Path, Warp
    from course_utils.run.emulator.explain.findings import Finding, Findings
    from course_utils.run.emulator.units.wgmma import Accumulator, Operation

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

    def still_uses(self, path: Path, uses: Callable[[Operation], bool], case: str) -> Cause:
        """What to say of registers that a wgmma may still use; ``case`` is how."""
        warp, issued = path.warp, path.warp.unit(Issued)
        operations = issued.group.operations
        left = [n for numbers in (*issued.groups, issued.open) for n in numbers]
        mine = [n for n in left if uses(operations[n])]
        if not mine:
            return Cause("", case, {"line": None, "why": None})
        place, wait = path.machine.unit(Places).place, self.of(warp)
        line = line_of(place(operations[mine[-1]].at), "that of a line")
        if wait.uncommitted:
            why = Cause("", "in no group", {"instruction": COMMIT})
        elif wait.issued <= mine[-1]:
            why = Cause("", "no wait is between")
        else:
            on = line_of(place(wait.at), "on a line")
            why = Cause("", "the wait leaves groups", {"on": on, "count": wait.leaves})
        return Cause("", case, {"line": line, "why": why})

    def still_writes(self, path: Path, accumulator: Accumulator) -> Cause:
        """The same of an accumulator."""
        return self.still_uses(path, lambda op: op.accumulator is accumulator, "a wgmma may still write it")


def touched(findings: Findings, hazard: Hazard) -> Finding:
    """A thread writes an accumulator, or touches registers of A, while a wgmma may still use them."""
    path, register = hazard.path, hazard.values["register"]
    waits, held = path.machine.unit(LastWaits), path.warp.registers[register]
    if held.__class__ is Pending:
        state = waits.still_writes(path, held.accumulator)
    else:
        state = waits.still_uses(path, lambda op: register in op.sources, "a wgmma may still read it")
    cause = Cause(hazard.kind, hazard.case, {"who": names.who([path.warp], path.cta), "state": state})
    name = path.machine.program.kernel.register_names[register]
    return findings.find(cause, hazard.at, notes=[Cause("note", "the register", {"name": name})])
