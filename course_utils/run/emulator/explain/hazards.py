"""From a hazard that a unit has met to a finding: what people call its warps, mbarriers and lines, and which
line is to blame.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from course_utils.cause import Cause
from course_utils.run.emulator.core.probe import At
from course_utils.run.emulator.core.threads import Hazard, Warp
from course_utils.run.emulator.explain import accumulators, barriers, bounds, names
from course_utils.run.emulator.explain.findings import Finding, Findings
from course_utils.run.emulator.explain.places import Places, note
from course_utils.run.emulator.explain.roles import role
from course_utils.run.emulator.units.mbarrier import MBarrier
from course_utils.run.words import safe_message

if TYPE_CHECKING:
    from course_utils.artifact import Origin
    from course_utils.run.emulator.core.threads import Path


Note: TypeAlias = tuple[str, dict[str, Any]]  # what else there is to say: a case, and its values


def found(hazard: Hazard) -> Finding:
    """The finding of a hazard. Its words may fail, and it is found all the same."""
    path, kind, case = hazard.path, hazard.kind, hazard.case
    role(path.warp).seen_at = path.pc
    if thought := THOUGHT.get(case):
        findings: Findings = path.machine.unit(Findings)
        wordless = Cause(kind, "no words", {"kind": kind.replace("-", " ")})
        return safe_message(lambda: thought(findings, hazard), None) or findings.find(wordless, hazard.at)
    about, notes = hazard.about, hazard.notes
    return find(path, kind, case, hazard.values, hazard.at, about=about, notes=notes, advice=case)


def find(
    path: Path,
    kind: str,
    case: str,
    values: dict[str, Any],
    at: int | None = None,
    *,
    about: Iterable[MBarrier] = (),
    notes: Iterable[Note] = (),
    advice: str = "",
    first: bool = False,
    origin: Origin | None = None,
) -> Finding:
    """A finding of what ``path`` does, from the machine's own objects: see ``Hazard`` and ``Findings.find``.
    ``at`` is where the path is, where it is not given.
    """
    findings: Findings = path.machine.unit(Findings)
    at = path.at if at is None else at
    role(path.warp).seen_at = path.pc
    if former := findings.again(kind, at, origin=origin):
        return former
    wordless = Cause(kind, "no words", {"kind": kind.replace("-", " ")})
    cause = safe_message(lambda: _cause(path, kind, case, values), wordless)
    more = [_cause(path, kind, one, of) for one, of in notes]
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
        return names.barrier(value, path.cta)
    if isinstance(value, Cause):
        return _cause(path, value.kind, value.case, value.values)
    return path.machine.unit(Places).place(value.index) if isinstance(value, At) else value


def _alone(findings: Findings, hazard: Hazard) -> Finding:
    """Lanes run without the others what all have to run together: the branch where they parted is to blame
    where the compiler added the instruction.
    """
    path, at = hazard.path, hazard.at
    branch, here = findings.place(path.parted), findings.place(at)
    notes = []
    if path.parted >= 0 and here.added and not branch.added and branch.line:
        at, notes = path.parted, [note("what they run alone", here)]
    elif path.parted >= 0:
        notes = [note("where the lanes part", branch)]
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
    "lanes not in the mask": _alone,
    "more bytes than an mbarrier counts": barriers.too_many_bytes,
    "endless loop": _endless,
    **dict.fromkeys(("writes the accumulator", "writes A", "reads A"), accumulators.touched),
    "an access": bounds.outside,
    "a TMA transfer outside": bounds.tile_outside,
    "a descriptor leads outside": bounds.descriptor_outside,
    "more arrivals than counted": barriers.overrun,
    "fewer bytes expected than come": barriers.too_few_expected,
    "no mbarrier here": barriers.no_mbarrier,
    "init of an mbarrier again": barriers.initialised_again,
}
