"""From a hazard that a unit has met to a finding: what people call its warps, mbarriers and lines, and its
sentence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from course_utils.cause import Cause
from course_utils.run.emulator.core.probe import At, Hazard
from course_utils.run.emulator.core.warp import Warp
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.units.mbarrier import MBarrier
from course_utils.run.words import told

if TYPE_CHECKING:
    from course_utils.run.emulator.core.warp import Path
    from course_utils.run.emulator.explain.findings import Finding, Findings


def found(findings: Findings, hazard: Hazard) -> Finding:
    """The finding of a hazard."""
    hazard.path.warp.seen_at = hazard.path.pc
    if former := findings.again(hazard.kind, hazard.at):
        return former
    wordless = Cause(hazard.kind, "no words", {"kind": hazard.kind.replace("-", " ")})
    cause = told(lambda: _cause(hazard.path, hazard.kind, hazard.case, hazard.values), wordless)
    notes = [_cause(hazard.path, hazard.kind, case, values) for case, values in hazard.notes]
    return findings.find(cause, hazard.at, about=hazard.about, notes=notes)


def _cause(path: Path, kind: str, case: str, values: dict[str, Any]) -> Cause:
    return Cause(kind, case, {name: named(value, path) for name, value in values.items()})


def named(value: Any, path: Path) -> Any:
    """A value of a hazard as people call it: warps, mbarriers, and the author's place of an instruction."""
    if isinstance(value, Warp):
        return names.who([value], path.cta)
    if isinstance(value, list | tuple | set) and value and all(isinstance(one, Warp) for one in value):
        return names.who(value, path.cta)
    if isinstance(value, MBarrier):
        return names.Barrier(value.name(), None if value.cta is path.cta else value.cta.number)
    return path.machine.findings.place(value.index) if isinstance(value, At) else value
