"""What is wrong with waits and loads although its harm shows elsewhere: it leads over what it leads to.

All of it is read from the accounts of the mbarriers once a cluster has ended, or cannot go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from course_utils.cause import Cause
from course_utils.ptx.parser import Imm
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.explain.accounts import account
from course_utils.run.emulator.explain.ahead import ahead
from course_utils.run.emulator.explain.findings import Finding, Findings
from course_utils.run.emulator.explain.places import Places, line_of, note
from course_utils.run.emulator.explain.races import Races
from course_utils.run.emulator.explain.results import issued
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.units.mbarrier import MBarrier, mbarriers
from course_utils.run.emulator.units.sync import Came

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import CTA, Cluster, Warp

# Findings that a load may lead to that nobody waits for.
LEFT = {"exit-in-flight", "write-unordered"}
# ... and a wait for the wrong barrier, or for one phase over and over.
WAITED_WRONG = {
    *("overwrite-while-read", "overwrite-before-use", "read-before-load", "deadlock", "barrier-overrun"),
    *("phase-lapped", "expect-tx"),
}
# ... and a phase that ends before its bytes are expected.
BARE = {
    *("read-before-load", "overwrite-before-use", "overwrite-while-read", "phase-lapped", "deadlock"),
    "barrier-overrun",
}
# ... and warps that go on from a barrier where they should have met others.
UNMET = {
    *("uninitialised-read", "read-before-write", "overwrite-while-read", "write-unordered", "deadlock"),
    *("proxy-fence", "stale-store"),
}
# ... and a wait or a commit for TMA stores in a warp that has issued none.
UNSTORED = {"overwrite-while-read", "exit-in-flight"}


def lead(machine: Machine, cluster: Cluster) -> None:
    """Put the first of these causes before what was found, where that is what it leads to."""
    if _of(machine) in UNMET and _too_many_meet(machine, cluster):
        return
    if _of(machine) in LEFT | WAITED_WRONG | BARE | UNMET and _signals_its_own_wait(machine, cluster):
        return
    if _of(machine) in LEFT | WAITED_WRONG | BARE:
        _arrived_wrong(machine, cluster) or _waits_for_its_own(machine, cluster)
    _not_waited_for(machine, cluster)
    if _of(machine) in UNSTORED and _waited_elsewhere(machine, cluster):
        return
    first = machine.unit(Findings).first
    if first is not None and first.kind == "overwrite-while-read":
        if not _stored_by_several(machine, cluster) and not _stored_other(machine) and not first.why:
            first.why = _waited_too_little(machine, cluster, first)


def _waited_elsewhere(machine: Machine, cluster: Cluster) -> bool:
    """A commit_group or wait_group runs in warps that have issued no TMA store, and in none that has."""
    for cta in cluster.ctas:
        shared = machine.unit(Races).of(cta.shared)
        stores = {warp: at for warps in shared.stored.values() for warp, at in warps.items()}
        for calls, case in (
            (shared.store_commits, "commits stores of others"),
            (shared.store_waits, "waits for stores of others"),
        ):
            for at, warps in calls.items() if stores else ():
                if warps & stores.keys():
                    continue
                line = line_of(machine.unit(Places).place(min(stores.values())))
                values = {"who": names.who(warps, cta), "others": names.who(stores, cta), "line": line}
                machine.unit(Findings).find(Cause("store-wait-elsewhere", case, values), at, first=True)
                return True
    return False


def _stored_by_several(machine: Machine, cluster: Cluster) -> bool:
    """Several warps of a CTA store one box: only one of them can be the one that is waited for."""
    for cta in cluster.ctas:
        shadow = machine.unit(Races).of(cta.shared)
        written = {read.store for read in shadow.overwritten}
        for box, warps in shadow.stored.items():
            if len(warps) > 1 and written & warps.keys():
                who = names.who(sorted(warps, key=lambda warp: warp.index), cta)
                cause = Cause("overwrite-while-read", "several store one box", {"who": who, "box": box})
                at = max(warps.values())
                machine.unit(Findings).find(cause, at, advice="stored by several", first=True)
                return True
    return False


def _stored_other(machine: Machine) -> bool:
    """Threads write one buffer and the store reads another: then the one written may still be read."""
    found = machine.unit(Findings).found.values()
    stale = next((finding for finding in found if finding.kind == "stale-store"), None)
    if stale is not None:
        machine.unit(Findings).lead(stale)
    return stale is not None


def _waited_too_little(machine: Machine, cluster: Cluster, first: Finding) -> Cause | None:
    """Threads write over a TMA store: its warp waits for it, and a barrier is missing; or the wait leaves as
    many stores in flight as there are buffers, so one that reads the next.
    """
    shadows = [(cta, machine.unit(Races).of(cta.shared)) for cta in cluster.ctas]
    over = [(*one, read) for one in shadows for read in one[1].overwritten if read.over is first]
    for cta, shadow, read in over:
        assert read.store is not None
        if read is over[0][2] and read.done and not read.unwaited:
            who = names.who([read.store], cta)
            return Cause(first.kind, "waits for its store, and no barrier follows", {"who": who})
        buffers = {key[-1] for key in shadow.async_reads if key[:2] == ("store", read.store.agent)}
        for at, warps in shadow.store_waits.items():
            operand = machine.program.kernel.instructions[at].operands[0]
            left = operand.value if isinstance(operand, Imm) else 0
            if read.store in warps and left >= len(buffers):
                return Cause(first.kind, "its wait leaves stores", {"count": left})
    return None


def _of(machine: Machine) -> str:
    """The kind of what leads now."""
    first = machine.unit(Findings).first
    return first.kind if first else ""


def _arrays(cta: CTA) -> dict[str, list[MBarrier]]:
    """A CTA's mbarriers by the array that they are in."""
    arrays: dict[str, list[MBarrier]] = {}
    kinds = cache(names.kinds_of)
    for barrier in names.ordered(cta):
        arrays.setdefault(names.array_of(barrier, kinds), []).append(barrier)
    return arrays


class Meetings:
    """Who has come to the named barriers of a CTA: by the barrier, the instruction and the count that it
    gives.
    """

    def __init__(self, cta: CTA) -> None:
        self.came: dict[tuple[int, int, int], set[Warp]] = {}


def listen(machine: Machine) -> None:
    def came(event: Came) -> None:
        path = event.path
        if event.count is not None:
            key = event.number, path.at, event.count
            path.cta.unit(Meetings).came.setdefault(key, set()).add(path.warp)

    machine.probe.listen(Came, came)


def _too_many_meet(machine: Machine, cluster: Cluster) -> bool:
    """More threads come to one call of a named barrier than it counts, so they go on by halves."""
    for cta in cluster.ctas:
        for (number, at, count), warps in cta.unit(Meetings).came.items():
            if len(warps) * LANES > count:
                who = names.who(sorted(warps, key=lambda warp: warp.index), cta)
                values = {"threads": len(warps) * LANES, "who": who, "number": number, "count": count}
                machine.unit(Findings).find(Cause("named-barrier", "too many come", values), at, first=True)
                return True
    return False


def _arrived_wrong(machine: Machine, cluster: Cluster) -> bool:
    """An mbarrier that counts bytes gets arrivals of more warps than it counts, or one before its bytes are
    expected, which ends a phase.
    """
    if _of(machine) not in BARE:
        return False
    findings = machine.unit(Findings)
    overrun = any(finding.kind == "barrier-overrun" for finding in findings.found.values())
    for cta in cluster.ctas:
        for barrier in mbarriers(cta).values():
            seen = account(barrier)
            arrivals = seen.arrivals
            if not seen.carries_bytes or not arrivals or not (overrun or seen.bare):
                continue
            init = note("its init", findings.place(seen.init_at))
            total = sum(mine.most for mine in arrivals.values())
            values = {"barrier": names.plain(barrier), "count": barrier.count, "total": total}
            if max(mine.at_once for mine in arrivals.values()) > barrier.count:
                return False  # found as it came
            if len(arrivals) > 1 and total > barrier.count:
                everyone = sorted(arrivals, key=lambda w: (w.cta.number, w.index))
                values["who"] = names.who(everyone, cta)
                cause = Cause("barrier-overrun", "too many arrivals", values)
                at = next(iter(arrivals.values())).at
                findings.find(cause, at, subject="all", notes=(init,), about=(barrier,), first=True)
                return True
            if seen.bare is not None and seen.expects:
                phase, warp, at = seen.bare
                values = {"who": names.who([warp], cta), "barrier": names.plain(barrier), "phase": phase}
                cause = Cause("expect-tx", "arrives with no bytes expected", values)
                findings.find(cause, at, notes=(init,), about=(barrier,), first=True)
                return True
    return False


def _waits_for_its_own(machine: Machine, cluster: Cluster) -> bool:
    """A producer waits for the barrier that its own loads end, and nobody for the one that consumers
    arrive on.
    """
    if _of(machine) not in WAITED_WRONG or not ahead(machine.program).has_roles:
        return False
    for cta in cluster.ctas:
        arrays = _arrays(cta)
        unwaited = (
            name
            for name, barriers in arrays.items()
            if not any(account(b).carries_bytes or account(b).waits or b.waiting for b in barriers)
            and any(account(b).arrivals for b in barriers)
        )
        idle = next(unwaited, "")
        for barrier in mbarriers(cta).values() if idle else ():
            seen = account(barrier)
            for warp, passed in seen.waits.items():
                own = warp.cta is cta and warp in seen.arrivals
                if seen.carries_bytes and own and names.of_role(warp) == "producer":
                    who = names.who([warp], cta)
                    values = {"who": who, "barrier": names.plain(barrier), "idle": idle}
                    cause = Cause("overwrite-before-use", "waits for its own loads", values)
                    about = (barrier, arrays[idle][0])
                    machine.unit(Findings).find(cause, passed.at, about=about, first=True)
                    return True
    return False


def _signals_its_own_wait(machine: Machine, cluster: Cluster) -> bool:
    """A load signals a barrier that its own role waits for, and not the one that consumers wait for."""
    if not ahead(machine.program).has_roles:
        return False
    for cta in cluster.ctas:
        waits: dict[str, dict[Warp, MBarrier]] = {}
        for name, barriers in _arrays(cta).items():
            for one in barriers:
                for warp in (*account(one).waits, *(path.warp for path in one.waiting)):
                    waits.setdefault(name, {}).setdefault(warp, one)
        for name, barriers in _arrays(cta).items():
            mine = [warp for warp in waits.get(name, {}) if names.of_role(warp) == "producer"]
            loads = [one for one in barriers for load in account(one).loads[:1] if load.path.warp in mine]
            if not loads or len(mine) < len(waits[name]):
                continue
            for other, theirs in waits.items():
                takers = [warp for warp in theirs if issued(warp)]
                if other == name or not takers or len(takers) < len(theirs):
                    continue
                load, full = account(loads[0]).loads[0], theirs[takers[0]]
                who, signalled = names.who([load.path.warp], cta), names.plain(loads[0])
                values = {"who": who, "tensor": load.view.name, "barrier": signalled}
                values |= {"takers": names.who(takers, cta), "full": names.plain(full)}
                cause = Cause("load-unwaited", "signals its own wait", values)
                machine.unit(Findings).find(cause, load.at, about=(loads[0], full), first=True)
                return True
    return False


def _not_waited_for(machine: Machine, cluster: Cluster) -> None:
    """A load that nobody waits for: by the time all have ended, or while those who should wait for another
    phase again and again.
    """
    for cta in cluster.ctas:
        for name, barriers in _arrays(cta).items():
            left = [b for b in barriers if account(b).loads and not _taken(b) and not b.waiting]
            again = next(_again(left, barriers), None)
            if again is not None:
                leads = _of(machine) in LEFT | WAITED_WRONG | {""}
                _tell_again(machine, *again, leads)
            elif left and not cluster.warps_left:
                _tell_left(machine, name, barriers, left[0], _of(machine) in LEFT | {""})
            else:
                continue
            return


def _again(left: list[MBarrier], barriers: list[MBarrier]) -> Iterator[tuple[MBarrier, Warp, MBarrier]]:
    """Who waits for a barrier more often than it was filled, and never for another one of its array that was
    left.
    """
    for barrier in barriers:
        for warp, passed in account(barrier).waits.items():
            if passed.count > barrier.phase:
                yield from ((barrier, warp, one) for one in left if not account(one).waits)


def _taken(barrier: MBarrier) -> bool:
    """Has anyone waited for the last phase that has loads?"""
    last = account(barrier).loads[0].phase
    return any(passed.phases > last for passed in account(barrier).waits.values())


def _tell_again(machine: Machine, again: MBarrier, warp: Warp, barrier: MBarrier, leads: bool) -> None:
    waits = account(again).waits
    passed = waits[warp]
    alike = [w for w, p in waits.items() if (p.count, p.at) == (passed.count, passed.at)]
    times, fills = names.times(passed.count), names.times(again.phase)
    values = {"who": names.who(alike, again.cta), "again": names.plain(again), "times": times}
    values |= {"fills": fills, "barrier": names.plain(barrier)}
    load = machine.unit(Places).place(account(barrier).loads[0].at)
    notes = (note("a load that nobody waits for", load),)
    cause = Cause("load-unwaited", "waits again", values)
    machine.unit(Findings).find(cause, passed.at, notes=notes, about=(again, barrier), first=leads)


def _tell_left(machine: Machine, name: str, barriers: list[MBarrier], barrier: MBarrier, leads: bool) -> None:
    load = account(barrier).loads[0]
    waits: dict[Warp, int] = {}
    for one in barriers:
        for warp, passed in account(one).waits.items():
            waits[warp] = waits.get(warp, 0) + passed.count
    fills, why = sum(load.phase + 1 for one in barriers for load in account(one).loads[:1]), None
    if not any(issued(warp) for cta in barrier.cta.cluster.ctas for warp in cta.warps):
        why = Cause("load-unwaited", "and", {"what": nobody_multiplies(machine)})
    elif waits and (most := max(waits.values())) < fills:
        who = names.who([warp for warp, count in waits.items() if count == most], barrier.cta)
        of = None if name == "full" else Cause("load-unwaited", "of an array", {"array": name})
        fewer = {"who": who, "count": most, "fills": fills, "of": of}
        why = Cause("load-unwaited", "fewer waits than fills", fewer)
    values = {"load": load.view.region_at(load.coordinates), "barrier": names.plain(barrier)}
    values |= {"phase": load.phase, "why": why}
    cause = Cause("load-unwaited", "nobody waits for a load", values)
    machine.unit(Findings).find(cause, load.at, about=(barrier,), first=leads)


def nobody_multiplies(machine: Machine) -> Cause:
    """What to say where no warp of a kernel does what its consumers are for."""
    return Cause("deadlock", "nobody multiplies", {"threads": machine.artifact.threads})
