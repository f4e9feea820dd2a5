"""The ledger of mbarriers: who arrived on each and how often, what came, who waits; who arrives too often.

A *round* of a warp is what lies between two of its waits: a warp that keeps its turn arrives on a barrier as
often in each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING

from course_utils.run.emulator.explain import causes, names

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import Cluster
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.warp import Path, Warp
    from course_utils.run.emulator.explain.findings import Finding, Findings
    from course_utils.run.emulator.units.mbarrier import MBarrier

ROWS = 12  # of a table
SLIPS = {"deadlock", "barrier-overrun", "phase-lapped"}  # what one that waits in vain, or is lapped, shows
CAUSES = {"phase-lapped": "barrier-overrun", "read-before-load": "expect-tx"}
# Findings that one arrival too many may be the cause of.
SUFFER = {
    *("deadlock", "expect-tx", "barrier-overrun", "phase-lapped", "cluster-exit"),
    *("overwrite-while-read", "overwrite-before-use", "read-before-load"),
}


@dataclass(slots=True)
class Arrivals:
    """One warp's arrivals on one mbarrier: ``most`` in a round, the last of those at instruction ``at``;
    ``later`` are those after its first wait for an mbarrier, ``at_once`` the most of one instruction.
    """

    later: int = 0
    round: int = -1
    now: int = 0
    most: int = 0
    at: int = -1
    at_once: int = 0


@dataclass(slots=True)
class Passed:
    """One warp's waits for one mbarrier that have passed: how many; the last one's parity, the phases ended
    by then, its instruction.
    """

    count: int = 0
    parity: int | None = None
    phases: int = 0
    at: int = -1


@dataclass(slots=True)
class Account:
    """What one mbarrier has seen."""

    arrivals: dict[Warp, Arrivals] = field(default_factory=dict)
    waits: dict[Warp, Passed] = field(default_factory=dict)

    def arrived(self, path: Path, count: int) -> None:
        warp = path.warp
        mine = self.arrivals.setdefault(warp, Arrivals())
        if mine.round != warp.rounds:
            mine.round, mine.now = warp.rounds, 0
        mine.now += count
        mine.at_once = max(mine.at_once, count)
        if mine.now > mine.most:
            mine.most, mine.at = mine.now, path.at
        if warp.waited is not None:
            mine.later += count

    def passed(self, path: Path, parity: int | None, phases: int) -> None:
        mine = self.waits.setdefault(path.warp, Passed())
        mine.count += 1
        mine.parity, mine.phases, mine.at = parity, phases, path.at


@dataclass(frozen=True, slots=True)
class Row:
    """One mbarrier in words, as a finding carries it."""

    barrier: str
    init: str
    ended: str
    arrivals: str
    bytes: str
    waiting: str


HEAD = Row("mbarrier", "counts", "phases ended", "arrivals of this phase", "bytes of this phase", "who waits")


def rows(barriers: Iterable[MBarrier]) -> tuple[Row, ...]:
    """The state of some mbarriers, in the order of their CTAs and addresses."""
    ordered = sorted(dict.fromkeys(barriers), key=lambda b: (b.cta.number, b.offset))
    several = len({b.cta for b in ordered}) > 1
    return tuple(_row(barrier, several) for barrier in ordered[:ROWS])


def _row(barrier: MBarrier, several: bool) -> Row:
    came = max(barrier.count - barrier.pending, sum(barrier.this_phase.values()))
    arrived = f"{came} of {barrier.count}"
    if barrier.this_phase:
        arrived += f", by {names.of_warps(barrier.this_phase, barrier.cta)}"
    if barrier.last_phase:
        by = names.of_warps(barrier.last_phase, barrier.cta)
        arrived += f"; {sum(barrier.last_phase.values())} in the one before, by {by}"
    landed = (
        "none" if not barrier.carries_bytes else f"{barrier.expected - barrier.tx:,} of {barrier.expected:,}"
    )
    waits: dict[str, list[Warp]] = {}
    for path in barrier.waiting:
        wait = path.waits_for
        text = f"for parity {wait.parity}" if wait.parity is not None else f"for phase {wait.phase}"
        waits.setdefault(text, []).append(path.warp)
    waiting = "; ".join(f"{names.of_warps(warps, barrier.cta)} {text}" for text, warps in waits.items())
    where = f" of CTA {barrier.cta.number}" if several else ""
    return Row(
        barrier.name() + where, str(barrier.count), str(barrier.phase), arrived, landed, waiting or "nobody"
    )


def table(found: Iterable[Row]) -> str:
    """Rows as aligned text, with a head; nothing of none."""
    cells = [astuple(row) for row in found]
    if not cells:
        return ""
    cells.insert(0, astuple(HEAD))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)


def blame(machine: Machine, cluster: Cluster) -> None:
    """What is wrong with mbarriers comes before what that leads to."""
    _overrun(machine, cluster)
    causes.lead(machine, cluster)
    _unordered(machine.findings)


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
    found = machine.findings.found.values()
    if not any(finding.kind in SUFFER for finding in found):
        return
    _lead(machine.findings)
    if any(finding.apart for finding in found):  # what is read with no wait at all is given back too often
        return
    slips = next(iter(found)).kind in SLIPS
    for cta in cluster.ctas:
        barriers = sorted(cta.mbarriers.values(), key=lambda b: b.offset)
        full = [b for b in barriers if b.carries_bytes]
        # the i-th of those that are only arrived on frees what the i-th of the others fills
        pair = len(barriers) == 2 * len(full)
        for i, barrier in enumerate(b for b in barriers if not b.carries_bytes):
            fills = full[i].phase if pair else max((b.phase for b in full), default=0)
            told = _too_often(barrier, fills)
            if slips and pair and told is None:
                told = _more_than_fills(barrier, full[i])
            if told:
                text, at, others = told
                machine.findings.add(
                    "barrier-overrun", at, text, more=others, barriers=(barrier,), first=True
                )
                return


def _lead(findings: Findings) -> None:
    """What the mbarriers of an array got too many of leads over what that did to those who wait for them."""
    first = next(iter(findings.found.values()))
    for cause in findings.found.values():
        if cause.kind == CAUSES.get(first.kind) and _arrays(cause) & _arrays(first):
            findings.lead(cause)
            return


def _arrays(finding: Finding) -> set[str]:
    return {row.barrier.partition("[")[0] for row in finding.ledger}


def _more_than_fills(empty: MBarrier, full: MBarrier) -> tuple[str, int, tuple[str, ...]] | None:
    """A warp of this CTA that gives a stage back in more rounds than the stage was filled."""
    for warp, mine in empty.account.arrivals.items():
        if warp.cta is empty.cta and mine.later > mine.most * full.phase:
            who, times = (
                names.of_warps([warp], empty.cta),
                "once" if full.phase == 1 else f"{full.phase} times",
            )
            text = f"{who} arrives on {empty.name()} {mine.later} times, and {full.name()} was filled {times}"
            wait = full.account.waits.get(warp)
            return (
                text,
                mine.at,
                (f"its last wait: {full.cta.machine.findings.place(wait.at)}",) if wait else (),
            )
    return None


def _too_often(barrier: MBarrier, fills: int) -> tuple[str, int, tuple[str, ...]] | None:
    """(what is to say, at which instruction, what else) where an mbarrier gets more arrivals in a round than
    its init counts.
    """
    account, count, name = barrier.account, barrier.count, barrier.name()
    arrivals, findings = account.arrivals, barrier.cta.machine.findings
    counts = f"its init counts {count}"
    init = f"its init: {findings.place(barrier.init_at)}"
    total = sum(mine.most for mine in arrivals.values() if mine.later)
    for warp, mine in arrivals.items():
        who = names.of_warps([warp], barrier.cta)
        waits = names.of_role(warp) == "producer" and warp in account.waits and warp.cta is barrier.cta
        if waits and total > count:  # a scheduler's warp may take what it makes, and is counted then
            text = (
                f"{who} arrives on {name}, which it waits for itself: {total} arrivals a phase, and {counts}"
            )
            return text, mine.at, (init,)
        if mine.at_once > count or mine.later and mine.most > count:
            return f"{who} makes {mine.most} arrivals a phase on {name}, and {counts}", mine.at, (init,)
    who = names.of_warps(sorted(arrivals, key=lambda warp: (warp.cta.number, warp.index)), barrier.cta)
    last = next(iter(arrivals.values()), Arrivals())
    others = f"the arrivals: {findings.place(last.at)}"
    if total <= count:
        if barrier.phase <= fills or any(warp.cta is barrier.cta for warp in arrivals):
            return None
        text = f"{total} arrivals from {who} alone end a phase of {name}, and {counts}"
        return text, barrier.init_at, (others,)
    if sum(mine.later for mine in arrivals.values()) <= count * fills:
        return None
    text = f"{total} arrivals a phase on {name} come from {who}, and {counts}"
    double = next((mine for mine in arrivals.values() if mine.most > mine.at_once), None)
    if double is not None:
        return text, double.at, (init,)
    # too many from this CTA alone, each by a call of the author's: it is the call that is to blame
    own = sum(mine.most for warp, mine in arrivals.items() if warp.cta is barrier.cta)
    if own > count and "consumer_release" not in findings.place(last.at).code:
        return text, last.at, (init,)
    return text, barrier.init_at, (others,)
