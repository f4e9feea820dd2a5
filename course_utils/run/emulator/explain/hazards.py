"""From a hazard that a unit has met to a finding: what people call its warps, mbarriers and lines, and which
line is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from course_utils.cause import Cause
from course_utils.run.emulator.core.probe import At, CtaEnded, Hazard
from course_utils.run.emulator.core.warp import Warp
from course_utils.run.emulator.explain import barriers, names
from course_utils.run.emulator.units.mbarrier import MBarrier
from course_utils.run.emulator.units.tma import Load
from course_utils.run.words import told

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.warp import Path
    from course_utils.run.emulator.explain.findings import Finding, Findings


def found(findings: Findings, hazard: Hazard) -> None:
    """Find what a hazard shows. Its words may fail, and it is found all the same."""
    wordless = Cause(hazard.kind, "no words", {"kind": hazard.kind.replace("-", " ")})
    if hazard.case in THOUGHT:
        if not told(lambda: THOUGHT[hazard.case](findings, hazard), None):
            findings.find(wordless, hazard.at)
        return
    if findings.again(hazard.kind, hazard.at):
        return
    cause = told(lambda: _cause(hazard.path, hazard.kind, hazard.case, hazard.values), wordless)
    notes = [_cause(hazard.path, hazard.kind, case, values) for case, values in hazard.notes]
    findings.find(cause, hazard.at, about=hazard.about, notes=notes)


def _cause(path: Path, kind: str, case: str, values: dict[str, Any]) -> Cause:
    return Cause(kind, case, {name: named(value, path) for name, value in values.items()})


def named(value: Any, path: Path) -> Any:
    """A value of a hazard as people call it: warps, mbarriers, and the author's place of an instruction."""
    if isinstance(value, Warp):
        return names.who([value], path.cta)
    if isinstance(value, list | tuple | set) and value and all(isinstance(one, Warp) for one in value):
        return names.who(value, path.cta)
    if isinstance(value, MBarrier):
        return names.barrier(value, path.cta)
    return path.machine.findings.place(value.index) if isinstance(value, At) else value


def _alone(findings: Findings, hazard: Hazard) -> Finding:
    """Lanes run without the others what all have to run together: the branch where they parted is to blame
    where the compiler added the instruction.
    """
    path, at = hazard.path, hazard.at
    branch, here = findings.place(path.parted), findings.place(at)
    notes = []
    if path.parted >= 0 and here.added and not branch.added and branch.line:
        at, notes = path.parted, [Cause(hazard.kind, "what they run alone", {"place": here})]
    elif path.parted >= 0:
        notes = [Cause(hazard.kind, "where the lanes part", {"place": branch})]
    return findings.find(_cause(path, hazard.kind, hazard.case, hazard.values), at, notes=notes)


def _endless(findings: Findings, hazard: Hazard) -> Finding:
    """A path comes to code without an end: which loop of the author's is it, and what does not change?"""
    path = hazard.path
    who = names.who([path.warp], path.cta)
    loop = findings.places.loop_of(path.machine.program.reached(hazard.at))
    if loop is None:
        return findings.find(Cause(hazard.kind, "loop without an end", {"who": who}), hazard.at)
    origin, condition = loop
    case = "condition that never changes" if condition else "loop never left"
    cause = Cause(hazard.kind, case, {"who": who, "condition": condition})
    return findings.find(cause, hazard.at, origin=origin)


# Hazards whose finding takes thought, by case.
THOUGHT: Mapping[str, Callable[[Findings, Hazard], Finding]] = {
    "some lanes alone": _alone,
    "absent lanes": _alone,
    "endless loop": _endless,
    "more arrivals than counted": barriers.overrun,
    "fewer bytes expected than come": barriers.too_few_expected,
    "no mbarrier here": barriers.no_mbarrier,
    "init of an mbarrier again": barriers.initialised_again,
}


def listen(machine: Machine, findings: Findings) -> None:
    def ended(event: CtaEnded) -> None:
        """A CTA ends: is a TMA load on its way into it?"""
        into = (what for what, _, _ in machine.flying if isinstance(what, Load) and what.cta is event.cta)
        load = next(into, None)
        if load is not None:
            values = {"cta": event.cta.number, "tensor": load.view.name}
            findings.find(Cause("exit-in-flight", "load still in flight", values), load.at)

    machine.probe.listen(Hazard, partial(found, findings))
    machine.probe.listen(CtaEnded, ended)
