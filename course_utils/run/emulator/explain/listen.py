"""Who listens to a launch, and to what: every explanation of the emulator registers here, by ``attach``.

An explanation is a class that takes the machine, or a warp or an mbarrier, and keeps what it has heard:
``machine.unit(Findings)`` is the one of this launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from course_utils.cause import Cause
from course_utils.run.emulator.core.loop import ClusterEnded, Deadlocked, Failed
from course_utils.run.emulator.core.threads import Hazard
from course_utils.run.emulator.explain import (
    accounts,
    barriers,
    causes,
    deadlock,
    hazards,
    overruns,
    roles,
    stages,
    undefined,
)
from course_utils.run.emulator.explain.accumulators import LastWaits
from course_utils.run.emulator.explain.facts.fills import Fills
from course_utils.run.emulator.explain.facts.launch import Facts
from course_utils.run.emulator.explain.findings import Finding, Findings
from course_utils.run.emulator.explain.maps import MapOrder
from course_utils.run.emulator.explain.owners import Owners
from course_utils.run.emulator.explain.races import Races
from course_utils.run.emulator.explain.results import Results
from course_utils.run.emulator.explain.stages import Stages
from course_utils.run.emulator.explain.tensor_memory import ColumnRaces
from course_utils.run.emulator.explain.timeline import Trace
from course_utils.run.emulator.explain.work import Work
from course_utils.run.words import safe_message

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine


@dataclass
class Explained:
    """What explains one launch."""

    machine: Machine
    findings: Findings
    facts: Facts | None
    trace: Trace | None  # None where nobody wants a timeline

    def found(self, finished: bool) -> list[Finding]:
        """All findings. What explains wrong numbers is one where nothing else was found."""
        mismatch = self.machine.unit(Stages).mismatch
        if finished and mismatch is not None and not self.findings.found:
            at, cause, barriers = mismatch
            self.findings.find(cause, at, about=barriers)
        return self.findings.all()


def attach(
    machine: Machine,
    record: bool | None = False,
    left_out: str = "",
    counts: bool = True,
    k_tiles: int | None = None,
) -> Explained:
    """Let everyone listen to a launch that has not begun. ``record`` as ``emulate`` has it, and ``counts`` as
    it has facts; ``left_out`` is a kind of finding that is not kept; ``k_tiles`` ends it as there.
    """
    findings = machine.unit(Findings)
    findings.left_out = left_out
    listen = machine.probe.listen
    # who listens first finds first: what is wrong comes before what is counted
    roles.listen(machine)
    accounts.listen(machine)
    causes.listen(machine)
    listen(Hazard, hazards.found)
    listen(Failed, undefined.failed)
    barriers.listen(machine, findings)
    waits = machine.unit(LastWaits)
    races, columns = machine.unit(Races), machine.unit(ColumnRaces)
    trace = None if record is None else machine.unit(Trace)
    if trace:
        trace.record, findings.heard = bool(record), trace.found
    machine.unit(Owners)
    machine.unit(MapOrder)
    results = machine.unit(Results)
    work, fills, rings = machine.unit(Work), machine.unit(Fills), machine.unit(Stages)
    facts = Facts(machine) if counts else None
    if facts:
        facts.k_tiles.most = k_tiles

    def ended(event: ClusterEnded) -> None:
        safe_message(partial(overruns.blame, machine, event.cluster), None)
        safe_message(partial(stages.lead, machine, event.cluster), None)
        if facts and event.alone and (event.finished or facts.k_tiles.enough):
            facts.close(event.cluster)
        if trace and (event.alone or not event.finished):  # else others go on, whose events it still has
            trace.name()
        races.clear(event.cluster, event.alone)
        for one in (
            (waits, work, fills, rings, columns, results) if event.alone else ()
        ):  # they keep what clusters have by turns
            one.clear()

    def deadlocked(event: Deadlocked) -> None:
        safe_message(partial(deadlock.describe, machine, event.cluster), None)
        if not findings.found:
            findings.find(Cause("deadlock", "nobody will do it"), -1)

    listen(Deadlocked, deadlocked)
    listen(ClusterEnded, ended)
    return Explained(machine, findings, facts, trace)
