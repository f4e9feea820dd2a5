"""Who arrives on an mbarrier too often, and what else about mbarriers comes before what it leads to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeAlias

from course_utils.cause import Cause
from course_utils.run.emulator.explain import causes, names
from course_utils.run.emulator.explain.accounts import Arrivals, account
from course_utils.run.emulator.explain.findings import Finding, Findings
from course_utils.run.emulator.explain.places import Places, note
from course_utils.run.emulator.units.mbarrier import MBarrier

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Cluster, Warp

# What is found, at which instruction, and what else there is to say
Slip: TypeAlias = tuple[Cause, int, tuple[Cause, ...]]

SLIPS = {"deadlock", "barrier-overrun", "phase-lapped"}  # what one that waits in vain, or is lapped, shows
CAUSES = {
    **{"phase-lapped": "barrier-overrun", "expect-tx": "barrier-overrun"},
    "read-before-load": "expect-tx",
}
# Findings that one arrival too many may be the cause of.
SUFFER = {
    *("deadlock", "expect-tx", "barrier-overrun", "phase-lapped", "cluster-exit"),
    *("overwrite-while-read", "overwrite-before-use", "read-before-load"),
}


def blame(machine: Machine, cluster: Cluster) -> None:
    """What is wrong with mbarriers comes before what that leads to."""
    _overrun(machine, cluster)
    causes.lead(machine, cluster)
    _unordered(machine.unit(Findings))


def _unordered(findings: Findings) -> None:
    """Where no barrier orders a read after its write, that some schedule reads before it comes of this."""
    found = list(findings.found.values())
    if found and found[0].kind == "uninitialised-read":
        for other in found[1:]:
            if other.kind == "read-before-write" and other.place == found[0].place:
                findings.lead(other)
                return


def _overrun(machine: Machine, cluster: Cluster) -> None:
    """Where something is wrong with barriers, and one gets more arrivals than it counts, or than there are
    rounds, that comes first. Others where bytes count too are found as they come.
    """
    found = machine.unit(Findings).found.values()
    if not any(finding.kind in SUFFER for finding in found):
        return
    _lead(machine.unit(Findings))
    if any(finding.apart for finding in found):  # what is read with no wait at all is given back too often
        return
    slips = next(iter(found)).kind in SLIPS
    for cta in cluster.ctas:
        barriers = names.ordered(cta)
        full = [b for b in barriers if account(b).carries_bytes]
        # the i-th of those that are only arrived on frees what the i-th of the others fills
        pair = len(barriers) == 2 * len(full)
        for i, barrier in enumerate(b for b in barriers if not account(b).carries_bytes):
            fills = full[i].phase if pair else max((b.phase for b in full), default=None)
            slip = _too_often(barrier, fills)
            if slips and pair and slip is None:
                slip = _more_than_fills(barrier, full[i])
            if slip:
                cause, at, notes = slip
                machine.unit(Findings).find(cause, at, notes=notes, about=(barrier,), first=True)
                return


def _lead(findings: Findings) -> None:
    """What the mbarriers of an array got too many of leads over what that did to those who wait for them."""

    def arrays(finding: Finding) -> set[str]:
        return {row.barrier.partition("[")[0] for row in finding.ledger}

    first, *others = findings.found.values()
    for cause in others:
        if cause.kind == CAUSES.get(first.kind) and arrays(cause) & arrays(first):
            findings.lead(cause)
            return


def _more_than_fills(empty: MBarrier, full: MBarrier) -> Slip | None:
    """A warp of this CTA that gives a stage back in more rounds than the stage was filled."""
    for warp, mine in account(empty).arrivals.items():
        if warp.cta is empty.cta and mine.later > mine.most * full.phase:
            values = {"who": names.who([warp], empty.cta), "barrier": names.plain(empty), "count": mine.later}
            values |= {"full": names.plain(full), "fills": names.times(full.phase)}
            wait = account(full).waits.get(warp)
            place = full.cta.machine.unit(Places).place
            notes = (note("its last wait", place(wait.at)),) if wait else ()
            return Cause("barrier-overrun", "more arrivals than fills", values), mine.at, notes
    return None


def _too_often(barrier: MBarrier, fills: int | None) -> Slip | None:
    """An mbarrier gets more arrivals in a round than its init counts. ``fills`` is how often what it frees
    was filled; None where no mbarrier counts bytes, so that nothing says how many rounds there are.
    """
    mine, count, cta = account(barrier), barrier.count, barrier.cta
    arrivals, place = mine.arrivals, cta.machine.unit(Places).place
    init = (note("its init", place(mine.init_at)),)
    total = sum(one.most for one in arrivals.values() if one.later)
    values = {"barrier": names.plain(barrier), "count": count, "total": total}

    def slip(case: str, who: Iterable[Warp], **more: int) -> Cause:
        return Cause("barrier-overrun", case, values | {"who": names.who(who, cta), **more})

    for warp, one in arrivals.items():
        waits = names.of_role(warp) == "producer" and warp in mine.waits and warp.cta is cta
        if waits and total > count:  # a scheduler's warp may take what it makes, and is counted then
            return slip("arrives on its own wait", [warp]), one.at, init
        if one.at_once > count or one.later and one.most > count:
            return slip("too many arrivals of one", [warp], most=one.most), one.at, init
    if fills is None or not total:
        return None
    everyone = sorted(arrivals, key=lambda warp: (warp.cta.number, warp.index))
    last = next(iter(arrivals.values()), Arrivals())
    others = (note("the arrivals", place(last.at)),)
    if total <= count:
        if barrier.phase <= fills or any(warp.cta is cta for warp in arrivals):
            return None
        return slip("others alone end a phase", everyone), mine.init_at, others
    # parts of them that each end a phase may take turns; where no such parts make up the whole, a phase that
    # ends before anyone has arrived again ended without some of them
    turns = total % count == 0 or barrier.phase <= max(one.count // one.most for one in arrivals.values())
    if turns and sum(one.later for one in arrivals.values()) <= count * fills:
        return None
    cause = slip("too many arrivals", everyone)
    double = next((one for one in arrivals.values() if one.most > one.at_once), None)
    if double is not None:
        return cause, double.at, init
    # too many from this CTA alone, each by a call of the author's: it is the call that is to blame
    own = sum(one.most for warp, one in arrivals.items() if warp.cta is cta)
    if own > count and "consumer_release" not in place(last.at).code:
        return cause, last.at, init
    return cause, mine.init_at, others
