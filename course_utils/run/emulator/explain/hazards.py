"""From a hazard that a unit has met to a finding: what people call its warps, mbarriers and lines, and its
sentence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from course_utils.cause import Cause
from course_utils.run.emulator.core.probe import At, Hazard
from course_utils.run.emulator.core.warp import Warp
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.units.mbarrier import MBarrier
from course_utils.run.words import told

if TYPE_CHECKING:
    from course_utils.artifact import Origin
    from course_utils.run.emulator.core.warp import Path
    from course_utils.run.emulator.explain.findings import Finding, Findings


def found(hazard: Hazard) -> Finding:
    """The finding of a hazard."""
    kind, case = hazard.kind, hazard.case
    return find(hazard.path, kind, case, hazard.values, hazard.at, about=hazard.about, notes=hazard.notes)


def find(
    path: Path,
    kind: str,
    case: str,
    values: dict[str, Any],
    at: int | None = None,
    *,
    about: Iterable[MBarrier] = (),
    notes: Iterable[tuple[str, dict[str, Any]]] = (),
    advice: str = "",
    first: bool = False,
    origin: Origin | None = None,
) -> Finding:
    """A finding of what ``path`` does, from the machine's own objects: see ``Hazard`` and ``Findings.find``.
    ``at`` is where the path is, where it is not given.
    """
    findings: Findings = path.machine.findings
    at = path.at if at is None else at
    path.warp.seen_at = path.pc
    if former := findings.again(kind, at, origin=origin):
        return former
    wordless = Cause(kind, "no words", {"kind": kind.replace("-", " ")})
    cause = told(lambda: _cause(path, kind, case, values), wordless)
    more = [_cause(path, kind, note, of) for note, of in notes]
    return findings.find(cause, at, about=about, notes=more, advice=advice, first=first, origin=origin)


def _cause(path: Path, kind: str, case: str, values: Mapping[str, Any]) -> Cause:
    return Cause(kind, case, {name: named(value, path) for name, value in values.items()})


def named(value: Any, path: Path) -> Any:
    """A value of a hazard as people call it: warps, mbarriers, and the author's place of an instruction."""
    if isinstance(value, Warp):
        return names.who([value], path.cta)
    if isinstance(value, list | tuple | set) and value and all(isinstance(one, Warp) for one in value):
        return names.who(value, path.cta)
    if isinstance(value, MBarrier):
        return names.Barrier(value.name(), None if value.cta is path.cta else value.cta.number)
    if isinstance(value, Cause):
        return _cause(path, value.kind, value.case, value.values)
    return path.machine.findings.place(value.index) if isinstance(value, At) else value
