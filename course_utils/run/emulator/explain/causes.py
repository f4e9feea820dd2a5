"""What is wrong with waits and loads although its harm shows elsewhere: it leads over what it leads to.

All of it is read from the accounts of the mbarriers once a cluster has ended, or cannot go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from course_utils.cause import Cause
from course_utils.ptx.parser import Imm
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.explain.races import Races
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.units.wgmma import Issued

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import CTA, Cluster
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.warp import Warp
    from course_utils.run.emulator.explain.findings import Finding
    from course_utils.run.emulator.units.mbarrier import MBarrier

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
    if machine.findings.found and _of(machine) in LEFT | WAITED_WRONG | BARE:
        _arrived_wrong(machine, cluster) or _waits_for_its_own(machine, cluster)
    _not_waited_for(machine, cluster)
    if _of(machine) in UNSTORED and _waited_elsewhere(machine, cluster):
        return
    if _of(machine) == "overwrite-while-read":
        if not _stored_by_several(machine, cluster) and not _stored_other(machine):
            _not_met(machine, cluster) or _leaves_a_reader(machine, cluster)


def _waited_elsewhere(machine: Machine, cluster: Cluster) -> bool:
    """A commit_group or wait_group runs in warps that have issued no TMA store, and in none that has."""
    for cta in cluster.ctas:
        shared = machine.unit(Races).of(cta.shared)
        stores = {warp: at for warps in shared.stored.values() for warp, at in warps.items()}
        for calls, what, does in (
            (shared.store_commits, "commit", "commits"),
            (shared.store_waits, "wait for", "waits for"),
        ):
            for at, warps in calls.items() if stores else ():
                if warps & stores.keys():
                    continue
                line = machine.findings.place(min(stores.values())).line
                one = len(warps) == 1
                text = (
                    f"{names.of_warps(warps, cta)} {does if one else what} TMA stores here, and "
                    f"{'has' if one else 'have'} issued none: {names.of_warps(stores, cta)} "
                    f"issue{'s' * (len(stores) == 1)} them" + f" (line {line})" * bool(line)
                )
                machine.findings.add("store-wait-elsewhere", at, text, first=True)
                return True
    return False


def _stored_by_several(machine: Machine, cluster: Cluster) -> bool:
    """Several warps of a CTA store one box: only one of them can be the one that is waited for."""
    for cta in cluster.ctas:
        shadow = machine.unit(Races).of(cta.shared)
        written = {read.store for read in shadow.overwritten}
        for box, warps in shadow.stored.items():
            if len(warps) > 1 and written & warps.keys():
                who = names.of_warps(sorted(warps, key=lambda warp: warp.index), cta)
                text = f"{who} each store {box}: one warp issues the store, and waits for it"
                findings = machine.findings
                findings.add(
                    "overwrite-while-read", max(warps.values()), text, advice="stored by several", first=True
                )
                return True
    return False


def _stored_other(machine: Machine) -> bool:
    """Threads write one buffer and the store reads another: then the one written may still be read."""
    found = machine.findings.found.values()
    stale = next((finding for finding in found if finding.kind == "stale-store"), None)
    if stale is not None:
        machine.findings.lead(stale)
    return stale is not None


def _leaves_a_reader(machine: Machine, cluster: Cluster) -> bool:
    """A wait for TMA stores leaves as many in flight as there are buffers, so one that reads the next."""
    first: Finding = next(iter(machine.findings.found.values()))
    for cta in cluster.ctas:
        shadow = machine.unit(Races).of(cta.shared)
        for read in shadow.overwritten:
            if read.over is not first or read.store is None or first.why:
                continue
            buffers = {key[-1] for key in shadow.async_reads if key[:2] == ("store", read.store.agent)}
            for at, warps in shadow.store_waits.items():
                operand = machine.program.kernel.instructions[at].operands[0]
                left = operand.value if isinstance(operand, Imm) else 0
                if read.store in warps and left >= len(buffers):
                    first.why = Cause(first.kind, "its wait leaves stores", {"count": left})
                    return True
    return False


def _not_met(machine: Machine, cluster: Cluster) -> bool:
    """What threads write over too soon is a TMA store whose warp does wait for it: a barrier is missing."""
    first: Finding = next(iter(machine.findings.found.values()))
    for cta in cluster.ctas:
        for read in machine.unit(Races).of(cta.shared).overwritten:
            if read.over is not first:
                continue
            assert read.store is not None
            if read.done and not read.unwaited and not first.why:
                who = names.who([read.store], cta)
                first.why = Cause(first.kind, "waits for its store, and no barrier follows", {"who": who})
                return True
            return False
    return False


def _of(machine: Machine) -> str:
    """The kind of what leads now."""
    first: Finding | None = next(iter(machine.findings.found.values()), None)
    return first.kind if first else ""


def _arrays(cta: CTA) -> dict[str, list[MBarrier]]:
    """A CTA's mbarriers by the array that they are in."""
    arrays: dict[str, list[MBarrier]] = {}
    for barrier in sorted(cta.mbarriers.values(), key=lambda b: b.offset):
        arrays.setdefault(barrier.array(), []).append(barrier)
    return arrays


def _too_many_meet(machine: Machine, cluster: Cluster) -> bool:
    """More threads come to one call of a named barrier than it counts, so they go on by halves."""
    for cta in cluster.ctas:
        for number, barrier in cta.named.items():
            for (at, count), warps in barrier.came.items():
                if len(warps) * LANES > count:
                    who = names.of_warps(sorted(warps, key=lambda warp: warp.index), cta)
                    text = (
                        f"{len(warps) * LANES} threads, {who}, come to barrier {number}, which counts {count}"
                    )
                    machine.findings.add("named-barrier", at, text, first=True)
                    return True
    return False


def _arrived_wrong(machine: Machine, cluster: Cluster) -> bool:
    """An mbarrier that counts bytes gets arrivals of more warps than it counts, or one before its bytes are
    expected, which ends a phase.
    """
    if _of(machine) not in BARE:
        return False
    findings = machine.findings
    overrun = any(finding.kind == "barrier-overrun" for finding in findings.found.values())
    for cta in cluster.ctas:
        for barrier in cta.mbarriers.values():
            arrivals, name = barrier.account.arrivals, barrier.name()
            if not barrier.carries_bytes or not arrivals or not (overrun or barrier.bare):
                continue
            init = f"its init: {findings.place(barrier.init_at)}"
            total = sum(mine.most for mine in arrivals.values())
            if max(mine.at_once for mine in arrivals.values()) > barrier.count:
                return False  # found as it came
            if len(arrivals) > 1 and total > barrier.count:
                who = names.of_warps(sorted(arrivals, key=lambda w: (w.cta.number, w.index)), cta)
                text = (
                    f"{total} arrivals a phase on {name} come from {who}, and its init counts {barrier.count}"
                )
                at = next(iter(arrivals.values())).at
                about = (barrier,)
                findings.add("barrier-overrun", at, text, "all", more=(init,), barriers=about, first=True)
                return True
            if barrier.bare is not None and barrier.expects:
                phase, warp, at = barrier.bare
                who = names.of_warps([warp], cta)
                text = (
                    f"{who} arrives on {name} with no bytes expected, which ends phase {phase} before its "
                    "loads: expect the bytes, or issue the copies, before the arrival"
                )
                findings.add("expect-tx", at, text, more=(init,), barriers=(barrier,), first=True)
                return True
    return False


def _waits_for_its_own(machine: Machine, cluster: Cluster) -> bool:
    """A producer waits for the barrier that its own loads end, and nobody for the one that consumers
    arrive on.
    """
    if _of(machine) not in WAITED_WRONG or not machine.program.has_roles:
        return False
    for cta in cluster.ctas:
        arrays = _arrays(cta)
        idle = next(
            (
                name
                for name, barriers in arrays.items()
                if not any(b.carries_bytes or b.account.waits or b.waiting for b in barriers)
                and any(b.account.arrivals for b in barriers)
            ),
            "",
        )
        for barrier in cta.mbarriers.values() if idle else ():
            for warp, passed in barrier.account.waits.items():
                own = warp.cta is cta and warp in barrier.account.arrivals
                if barrier.carries_bytes and own and names.of_role(warp) == "producer":
                    who = names.of_warps([warp], cta)
                    text = f"{who} waits for {barrier.name()}, which its own loads end"
                    text += f", and nobody waits for {idle}"
                    machine.findings.add(
                        "overwrite-before-use",
                        passed.at,
                        text,
                        barriers=(barrier, arrays[idle][0]),
                        first=True,
                    )
                    return True
    return False


def _signals_its_own_wait(machine: Machine, cluster: Cluster) -> bool:
    """A load signals a barrier that its own role waits for, and not the one that consumers wait for."""
    if not machine.program.has_roles:
        return False
    for cta in cluster.ctas:
        waits: dict[str, dict[Warp, MBarrier]] = {}
        for name, barriers in _arrays(cta).items():
            for one in barriers:
                for warp in (*one.account.waits, *(path.warp for path in one.waiting)):
                    waits.setdefault(name, {}).setdefault(warp, one)
        for name, barriers in _arrays(cta).items():
            mine = [warp for warp in waits.get(name, {}) if names.of_role(warp) == "producer"]
            loads = [one for one in barriers if one.loads and one.loads[0].path.warp in mine]
            if not loads or len(mine) < len(waits[name]):
                continue
            for other, theirs in waits.items():
                takers = [warp for warp in theirs if warp.unit(Issued).count]
                if other == name or not takers or len(takers) < len(theirs):
                    continue
                load, full = loads[0].loads[0], theirs[takers[0]]
                text = (
                    f"{names.of_warps([load.path.warp], cta)} loads {load.view.name} for {loads[0].name()}, "
                    f"which it waits for itself, and {names.of_warps(takers, cta)} wait for {full.name()}: "
                    "which barrier does this load signal?"
                )
                about = (loads[0], full)
                machine.findings.add("load-unwaited", load.at, text, barriers=about, first=True)
                return True
    return False


def _not_waited_for(machine: Machine, cluster: Cluster) -> None:
    """A load that nobody waits for: by the time all have ended, or while those who should wait for another
    phase again and again.
    """
    for cta in cluster.ctas:
        for name, barriers in _arrays(cta).items():
            left = [b for b in barriers if b.loads and not _taken(b) and not b.waiting]
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
        for warp, passed in barrier.account.waits.items():
            if passed.count > barrier.phase:
                yield from ((barrier, warp, one) for one in left if not one.account.waits)


def _taken(barrier: MBarrier) -> bool:
    """Has anyone waited for the last phase that has loads?"""
    last = barrier.loads[0].phase
    return any(passed.phases > last for passed in barrier.account.waits.values())


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _tell_again(machine: Machine, again: MBarrier, warp: Warp, barrier: MBarrier, leads: bool) -> None:
    passed = again.account.waits[warp]
    alike = [w for w, p in again.account.waits.items() if (p.count, p.at) == (passed.count, passed.at)]
    text = (
        f"{names.of_warps(alike, again.cta)} wait{'s' * (len(alike) == 1)} for {again.name()} "
        f"{_times(passed.count)}, which was filled {_times(again.phase)}, and never for {barrier.name()}: "
        "does the stage go on?"
    )
    load = f"a load that nobody waits for: {machine.findings.place(barrier.loads[0].at)}"
    machine.findings.add(
        "load-unwaited", passed.at, text, more=(load,), barriers=(again, barrier), first=leads
    )


def _tell_left(machine: Machine, name: str, barriers: list[MBarrier], barrier: MBarrier, leads: bool) -> None:
    load = barrier.loads[0]
    where = load.view.region_at(load.coordinates)
    text = f"nobody waits for the load of {where} ({barrier.name()}, phase {load.phase})"
    waits: dict[Warp, int] = {}
    for one in barriers:
        for warp, passed in one.account.waits.items():
            waits[warp] = waits.get(warp, 0) + passed.count
    ctas = barrier.cta.cluster.ctas
    if not any(warp.unit(Issued).count for cta in ctas for warp in cta.warps):
        text += "; " + nobody_multiplies(machine)
    elif waits and (most := max(waits.values())) < (
        fills := sum(b.loads[0].phase + 1 for b in barriers if b.loads)
    ):
        who = names.of_warps([warp for warp, count in waits.items() if count == most], barrier.cta)
        each = "fill" if name == "full" else f"fill of {name}"
        text += f"; {who} wait for {most} of {fills} {each}s"
    machine.findings.add("load-unwaited", load.at, text, barriers=(barrier,), first=leads)


def nobody_multiplies(machine: Machine) -> str:
    """What to say where no warp of a kernel does what its consumers are for."""
    threads = machine.artifact.threads
    return f"no warp of the launch's {threads} threads multiplies: does any take the consumer's branch?"
