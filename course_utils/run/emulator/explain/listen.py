"""Who listens to a launch, and to what: every explanation of the emulator registers here, by ``attach``.

An explanation is a class that takes the machine, and keeps what it has heard: ``machine.unit(Findings)`` is
the one of this launch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from course_utils.cause import Cause
from course_utils.run.emulator.core.probe import ClusterEnded, Deadlocked, Failed, WaitBegan, WaitEnded
from course_utils.run.emulator.explain import (
    accounts,
    barriers,
    causes,
    deadlock,
    hazards,
    ledger,
    roles,
    stages,
    undefined,
)
from course_utils.run.emulator.explain.facts import Facts
from course_utils.run.emulator.explain.findings import Finding, Findings
from course_utils.run.emulator.explain.timeline import Trace
from course_utils.run.emulator.units.mbarrier import (
    Arrived,
    BytesLanded,
    Expected,
    Initialised,
    PhaseCompleted,
    WaitPassed,
)
from course_utils.run.emulator.units.sync import ProxyFenced, RegistersAsked
from course_utils.run.words import told

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine


@dataclass
class Explained:
    """What explains one launch."""

    machine: Machine
    findings: Findings
    facts: Facts
    trace: Trace

    def found(self, finished: bool) -> list[Finding]:
        """All findings. What explains wrong numbers is one where nothing else was found."""
        mismatch = self.machine.mismatch
        if finished and mismatch is not None and not self.findings.found:
            kind, (at, text, barriers) = mismatch
            self.findings.add(kind, at, text, barriers=barriers)
        return self.findings.all()


def attach(machine: Machine, record: bool = False, left_out: str = "") -> Explained:
    """Let everyone listen to a launch that has not begun. ``record`` as ``emulate`` has it; ``left_out`` is a
    kind of finding that is not kept.
    """
    roles.listen(machine)
    accounts.listen(machine)
    findings = machine.findings = machine.unit(Findings)
    findings.left_out = left_out
    facts, trace = machine.facts, machine.trace = Facts(machine), Trace(machine, record)
    findings.heard = trace.found
    machine.mismatch = None
    hazards.listen(machine, findings)
    barriers.listen(machine, findings)
    causes.listen(machine)

    def ended(event: ClusterEnded) -> None:
        told(partial(ledger.blame, machine, event.cluster), None)
        told(partial(stages.lead, machine, event.cluster), None)
        if event.finished:
            facts.close(event.cluster)
        trace.name()

    def deadlocked(event: Deadlocked) -> None:
        told(partial(deadlock.describe, machine, event.cluster), None)
        if not findings.found:
            findings.find(Cause("deadlock", "nobody will do it"), -1)

    def wait_passed(event: WaitPassed) -> None:
        trace.note("pass", event.path, event.wait)

    def registers(event: RegistersAsked) -> None:
        facts.registers(event.path, event.grows)
        trace.note("registers", event.path, event.count)

    listen = machine.probe.listen
    listen(Failed, undefined.failed)
    listen(WaitBegan, lambda event: trace.note("wait", event.path, event.reason))
    listen(WaitEnded, lambda event: trace.waited(event.path, event.reason))
    listen(Initialised, lambda event: trace.note("init", event.path, event.barrier, event.barrier.count))
    listen(Arrived, lambda event: trace.arrived(event.path, event.barrier, event.count))
    listen(Expected, lambda event: trace.note("expect", event.path, event.barrier, event.count))
    listen(BytesLanded, lambda event: trace.note("bytes", event.path, event.barrier, event.count))
    listen(PhaseCompleted, lambda event: trace.note("flip", event.path, event.barrier, event.barrier.phase))
    listen(WaitPassed, wait_passed)
    listen(ProxyFenced, lambda event: trace.note("fence", event.path, "fence.proxy.async"))
    listen(RegistersAsked, registers)
    listen(Deadlocked, deadlocked)
    listen(ClusterEnded, ended)
    return Explained(machine, findings, facts, trace)
