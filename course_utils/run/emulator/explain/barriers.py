"""What goes wrong with an mbarrier, as its author looks at it: which line is to blame, whose stage and whose
bytes they are.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from course_utils.artifact import Origin
from course_utils.cause import Cause
from course_utils.run.emulator.core.threads import Hazard
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.explain.accounts import account
from course_utils.run.emulator.explain.findings import Finding, Findings
from course_utils.run.emulator.explain.places import line_of, note
from course_utils.run.emulator.explain.roles import role
from course_utils.run.emulator.units.mbarrier import BYTES, MAX_COUNT, Initialised, Named

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Path
    from course_utils.run.emulator.units.mbarrier import MBarrier

CLUSTER_BARRIER = "T.alloc_cluster_barrier"  # TileLang's: signalled in rank 0 alone of bytes


def overrun(findings: Findings, hazard: Hazard) -> Finding:
    """A phase gets more arrivals than are missing: too many at once, by a warp that fills it again, or by
    others.
    """
    path, barrier, count = hazard.path, hazard.values["barrier"], hazard.values["count"]
    who, name = names.who([path.warp], path.cta), names.plain(barrier)
    values = {"who": who, "barrier": name, "phase": barrier.phase, "count": barrier.count}
    case, mine = "all arrivals are there", account(barrier).arrivals[path.warp]
    if count > barrier.count:
        case, values = "too many arrivals of one", values | {"most": count}
    elif account(barrier).carries_bytes and mine.now != account(barrier).this_phase[path.warp]:
        case = "filled again"
        waited, _ = role(path.warp).waited or (barrier, -1)
        if waited is not barrier:
            case, values = "filled again after a wait", values | {"waited": names.plain(waited)}
    return findings.find(Cause(hazard.kind, case, values), hazard.at, about=hazard.about)


def too_few_expected(findings: Findings, hazard: Hazard) -> Finding:
    """A phase expects fewer bytes than its loads bring: the line that told the bytes is to blame, or the load
    that signals the wrong mbarrier.
    """
    path, load = hazard.path, hazard.values["load"]
    barrier: MBarrier = hazard.values["barrier"]
    mine = account(barrier)
    told = told_bytes(barrier)
    now = [] if load is None else [(path.warp, load)]
    lines = [(one.path.warp, one.at) for one in mine.loads if one.phase == barrier.phase] + now
    places = (findings.place(at) for _, at in lines)
    notes = [note("a load", place) for place in {str(place): place for place in places}.values()]
    at = hazard.at if told is None else told
    if told is not None and len(set(lines)) < len(lines):
        # one line loads twice for this phase: it may be that load's barrier that is wrong
        at = hazard.at
        notes.insert(0, note("its bytes", findings.place(told)))
    elif told is None and not mine.expected_by and mine.arrived_last:
        at = mine.arrived_last[1]
    if told is not None and re.search(r"producer_acquire|\.create\(", findings.place(told).code):
        if (line := findings.artifact.line("tx_count=")) is not None:
            notes.insert(0, note("a line", findings.artifact.place(line)))
    pair = CLUSTER_BARRIER in findings.place(mine.init_at).code
    values: dict[str, Any] = {"phase": barrier.phase, "expected": barrier.expected, "issued": barrier.issued}
    values["barrier"] = names.barrier(barrier, path.cta)
    values["why"] = Cause(hazard.kind, "signalled in rank 0 alone") if pair else None
    cause = Cause(hazard.kind, hazard.case, values)
    return findings.find(cause, mine.init_at if pair else at, about=hazard.about, notes=notes)


def too_many_bytes(findings: Findings, hazard: Hazard) -> Finding:
    """A phase expects more bytes than an mbarrier can count."""
    path, barrier = hazard.path, hazard.values["barrier"]
    values = {"who": names.who([path.warp], path.cta), "barrier": names.barrier(barrier, path.cta)}
    values |= {"bytes": barrier.tx, "most": MAX_COUNT}
    cause, advice = Cause(hazard.kind, hazard.case, values), "fewer bytes at once"
    return findings.find(cause, hazard.at, about=hazard.about, advice=advice)


def told_bytes(barrier: MBarrier) -> int | None:
    """The author's call that told the bytes of this phase, of a pipeline the one that made it; None where
    the compiler counted them.
    """
    mine, findings = account(barrier), barrier.cta.machine.unit(Findings)
    code = {at: findings.place(at).code for at in mine.expected_by}
    own = ("expect_tx", "producer_acquire")
    told = next((at for at in code if any(call in code[at] for call in own)), None)
    made = told is not None and "producer_acquire" in code[told]
    return mine.init_at if made and ".create(" in findings.place(mine.init_at).code else told


def no_mbarrier(findings: Findings, hazard: Hazard) -> Finding:
    """An address at which no mbarrier is: a stage that its array has not, or an init that may still come."""
    path, cta, offset = hazard.path, hazard.values["cta"], hazard.values["offset"]
    who = names.who([path.warp], path.cta)
    kind, case, values, notes = hazard.kind, "no mbarrier here", {"who": who, "offset": offset}, []
    about = hazard.about
    if stage := names.outside(cta, hazard.at, offset):
        case, values = "no such stage", {"who": who, "stage": stage}
    elif (at := _init_ahead(cta, path)) is not None:
        place = findings.place(at)
        values = {"who": who, "line": line_of(place, ", of a line,")}
        kind, case, about, notes = "barrier-init-race", "init still to come", (), [note("the init", place)]
    return findings.find(Cause(kind, case, values), hazard.at, about=about, notes=notes)


def initialised_again(findings: Findings, hazard: Hazard) -> Finding:
    """An mbarrier in use is initialised again."""
    path, former = hazard.path, hazard.values["barrier"]
    values = {"who": names.who([path.warp], path.cta), "barrier": names.plain(former)}
    cause = Cause(hazard.kind, hazard.case, values)
    first = note("its first init", findings.place(account(former).init_at))
    return findings.find(cause, hazard.at, about=hazard.about, notes=[first])


def _init_ahead(cta: CTA, path: Path) -> int | None:
    """An initialisation of an mbarrier that another warp of this CTA may still come to."""
    machine = path.machine
    for other in (*machine.ready, *machine.waiting):
        if other.cta is cta and other.warp is not path.warp:
            for at in machine.program.reached(other.pc):
                if machine.program.kernel.instructions[at].opcode[:2] == ("mbarrier", "init"):
                    return at
    return None


def listen(machine: Machine, findings: Findings) -> None:
    seen: set[tuple[int, int]] = set()  # by which instruction, at which offset

    def named(event: Named) -> None:
        path, barrier = event.path, event.barrier
        if (path.at, barrier.offset) in seen:
            return
        seen.add((path.at, barrier.offset))
        if stage := names.strayed(barrier, path.at):
            values = {"who": names.who([path.warp], path.cta), "stage": stage}
            about = names.mbarriers(barrier.cta).values()
            findings.find(Cause("barrier-uninitialised", "no such stage", values), path.at, about=about)

    def initialised(event: Initialised) -> None:
        """Find an mbarrier that lies behind what the author allocated for it, or in the buffer of a tile."""
        path, offset, artifact = event.path, event.barrier.offset, machine.artifact
        before = [one for one in artifact.allocations if one.offset <= offset]
        if not before:
            return
        last = max(before, key=lambda one: one.end)
        values: dict[str, Any] = {"who": names.who([path.warp], path.cta), "buffer": artifact.name_of(last)}
        if offset >= last.end:
            values |= {"room": last.size // BYTES, "bytes": last.size}
            cause = Cause("barrier-outside", "mbarrier behind its buffer", values)
            origin = Origin(last.file, last.line)
            findings.find(cause, path.at, notes=[note("an init", findings.place(path.at))], origin=origin)
        elif last.swizzle or offset + BYTES > last.end:
            case = "mbarrier in a tile" if last.swizzle else "mbarrier partly allocated"
            findings.find(Cause("barrier-outside", case, values), path.at)

    machine.probe.listen(Named, named)
    machine.probe.listen(Initialised, initialised)
