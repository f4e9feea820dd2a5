"""Why nothing goes on: each waiting warp, what it waits for, what that lacks, and who could still have
supplied it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from course_utils.artifact import REGISTER_LIMIT
from course_utils.cause import spans
from course_utils.ptx.families import expects_bytes
from course_utils.run.emulator.explain import causes, names
from course_utils.run.emulator.explain.races import Races
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.units.mbarrier import PhaseWait
from course_utils.run.emulator.units.sync import RegisterWait, ThreadWait
from course_utils.run.emulator.units.wgmma import Issued, WgmmaWait

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import Cluster
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.warp import Path, Warp
    from course_utils.run.emulator.units.mbarrier import MBarrier
    from course_utils.run.emulator.units.sync import ThreadBarrier
    from course_utils.run.emulator.units.tma import Load
    from course_utils.run.emulator.units.wgmma import Warpgroup


def describe(machine: Machine, cluster: Cluster) -> None:
    """Record the finding: "register-budget" where a warpgroup waits for registers, else "deadlock"."""
    paths = sorted(
        machine.waiting, key=lambda p: (_RANK.get(type(p.waits_for), 9), p.cta.number, p.warp.index)
    )
    alike: dict[tuple, dict[str, Any]] = {}
    for path in paths:
        row = _row(path)
        key = row["cta"], row["role"], row["text"], row["line"]
        if key in alike:
            alike[key]["warps"].append(path.warp.index)
        else:
            alike[key] = row
    rows = sorted(alike.values(), key=lambda row: -row["lacks"])  # first who lacks what nobody can bring
    told = _told(rows, cluster.size)
    text = next(iter(told), "no warp waits, and none can run")
    lines = tuple(f"{one}: {line}" for one, line in told.items())
    others = lines[1:ROWS]
    if len(lines) > ROWS:
        others += (f"{len(lines) - ROWS} more groups of warps wait",)
    at = rows[0]["blame"] if rows else -1
    barriers = [path.waits_for.barrier for path in paths if isinstance(path.waits_for, PhaseWait)]
    hungry = [p for p in paths if isinstance(p.waits_for, RegisterWait)]
    if hungry:
        cta = hungry[0].cta
        asking = {p.warp: p.waits_for.wanted for p in hungry if p.cta is cta}
        total = sum(asking.get(w, w.register_count) * LANES for w in cta.warps)
        machine.findings.add(
            "register-budget",
            hungry[0].at,
            f"setmaxnreg asks for {total:,} registers in all, and a CTA has {REGISTER_LIMIT:,}",
            waiting=rows,
            more=lines[:ROWS],
        )
        return
    more = [rows[0]["could"]] if rows and rows[0]["could"] else []
    if rows and at != rows[0]["at"]:
        text += rows[0]["why"]
        more.append(f"the wait: {rows[0]['line']}")
    if rows and rows[0]["read"]:
        more.insert(0, f"the read: {rows[0]['read']}")
    machine.findings.add("deadlock", at, text, waiting=rows, more=(*more, *others), barriers=barriers)


NEW = "on a new barrier a wait for parity 1 passes at once"
ROWS = 6  # groups of waiting warps that the text names; Finding.waiting has them all
_RANK = {RegisterWait: 0, PhaseWait: 1, WgmmaWait: 2, ThreadWait: 3}


def _told(rows: list[dict], ctas: int) -> dict[str, str]:
    """What to say of each group of waiting warps, and its line. A CTA is named where the ``ctas`` of the
    cluster do not all wait alike.
    """
    alike: dict[tuple, list[int]] = {}
    for row in rows:
        alike.setdefault((row["role"], tuple(row["warps"]), row["text"], row["line"]), []).append(row["cta"])
    told = {}
    for (role, warps, text, line), where in alike.items():
        of = f" of CTA {spans(where)}" if len(where) < ctas else ""
        who = f"{role} warp{'s' * (len(warps) > 1)} {spans(warps)}{of}".lstrip()
        told[f"{who} wait{'s' * (len(warps) == 1)} {text}"] = line
    return told


def _row(path: Path) -> dict:
    reason = path.waits_for
    row = {
        "role": names.of_role(path.warp),
        "warps": [path.warp.index],
        "cta": path.cta.number,
        "line": str(path.machine.findings.place(path.at)),
        "at": path.at,
        "blame": path.at,  # the instruction that is to blame, as far as can be told
        # 3: what nobody can bring; 2: bytes that no load brings; 1: arrivals beyond those that came
        "lacks": 0,
        "barrier": "",
        "parity": None,
        "could": "",
        "text": "",
        "why": "",  # of the blame, where that is another instruction
        "read": "",  # where they read what they do not give back
    }
    if isinstance(reason, PhaseWait):
        row.update(_phase(reason, path))
    elif isinstance(reason, ThreadWait):
        barrier, vain = reason.barrier, not _met(path, reason.barrier)
        alone = ""
        if path.mask is not None and 0 < (lanes := int(path.mask.sum())) < int(path.warp.alive.sum()):
            alone = f": it stands where {lanes} lane{'s' * (lanes > 1)} of the warp came"
        row.update(
            barrier=barrier.label,
            text=f"at {barrier.label}, where {barrier.arrived} of {reason.needed} threads are"
            + (alone or ", and no other warp comes to it" * vain),
            lacks=4 if alone else 3 * vain,
        )
    elif isinstance(reason, RegisterWait):
        row["text"] = (
            f"for {reason.wanted} registers a thread, holding {path.warp.register_count}; "
            f"{path.cta.registers_free:,} of the CTA's are free"
        )
    elif isinstance(reason, WgmmaWait):
        operation = reason.group.operations[reason.count - 1]
        row["text"] = f"for a wgmma that {operation.joined} of the 4 warps of its warpgroup have issued"
        if late := _went_on(reason.group, path):
            who = names.of_warps(late, path.cta)
            row.update(text=f"{row['text']}; {who} went on without it", blame=operation.at, lacks=4)
    return row


def _went_on(group: Warpgroup, path: Path) -> list[Warp]:
    """Warps of a warpgroup that have waited for as many loads as this one has, and do not wait for the
    wgmma that it waits for.
    """

    def loads(warp: Warp) -> int:
        return sum(barrier.carries_bytes for barrier, _ in warp.takes)

    waiting = {other.warp for other in path.machine.waiting if isinstance(other.waits_for, WgmmaWait)}
    warps = path.cta.warps[group.number * 4 : group.number * 4 + 4]
    return [warp for warp in warps if warp not in waiting and loads(warp) >= loads(path.warp) > 0]


def _met(path: Path, barrier: ThreadBarrier) -> bool:
    """May a warp that is not at this barrier of threads still come to it?"""
    number = next((n for n, named in path.cta.named.items() if named is barrier), None)
    others = [
        p
        for p in path.machine.waiting
        if (number is None or p.cta is path.cta) and getattr(p.waits_for, "barrier", None) is not barrier
    ]
    return any(path.machine.program.comes_to(p.pc, number) for p in others)


def _phase(reason: PhaseWait, path: Path) -> dict:
    barrier = reason.barrier
    missing = []
    if barrier.pending:
        missing.append(f"{barrier.pending} of {barrier.count} arrivals")
    if barrier.tx > 0:
        missing.append(f"{barrier.tx:,} of {barrier.expected:,} bytes")
    elif barrier.tx < 0:
        missing.append(f"an expect-tx for {-barrier.tx:,} bytes that came")
    parity = f"parity {reason.parity}" if reason.parity is not None else f"phase {reason.phase}"
    where = "" if barrier.cta is path.cta else f" of CTA {barrier.cta.number}"
    partial = 0 < barrier.pending < barrier.count
    busy = {other.warp for other in path.machine.waiting}
    could, hopeless = _could(barrier, path)
    unloaded = hopeless and not barrier.account.arrivals and _nobody_loads(barrier)
    lacking = " and ".join(missing[:1] if unloaded else missing) or "nothing"
    text = f"for {barrier.name()}{where}, {parity}: its phase {barrier.phase} lacks {lacking}"
    # who loads has arrived in every phase, and is done
    ended = hopeless and barrier.carries_bytes and len(barrier.account.arrivals) == 1
    late = _out_of_step(reason, path) or _began_again(barrier, path)
    kept, read, release = ("", "", None) if late else _kept(barrier, path)
    if kept:
        late = kept
    elif _nobody_multiplies(path):
        late = "; " + causes.nobody_multiplies(path.machine)
    elif hopeless and barrier.account.arrivals:
        late += "; " + could.removeprefix("arrivals came from ").replace(", which", ", which arrived before,")
    elif unloaded:
        late = f"; no warp of CTA {barrier.cta.number} loads a tile: do both roles take the same tiles?"
    elif hopeless and NEW in could:
        late += f"; {NEW}"
    return {
        "barrier": barrier.name(),
        "parity": reason.parity,
        "phase": barrier.phase,
        "arrivals_missing": barrier.pending,
        "bytes_missing": barrier.tx,
        "text": text + late,
        "could": could,
        "read": read,
        **_blame(barrier, path, partial and not kept and (ended or barrier.account.arrivals.keys() <= busy)),
        **({} if release is None else {"blame": release}),
        "lacks": 3 if hopeless or late else 2 if barrier.pending == 0 else int(partial),
    }


def _nobody_multiplies(path: Path) -> bool:
    """Has no warp multiplied, and can none of those that are left, while the kernel has roles?"""
    machine = path.machine
    return (
        machine.program.has_roles
        and not any(warp.unit(Issued).count for cta in path.cta.cluster.ctas for warp in cta.warps)
        and not any("wgmma" in machine.program.abilities(p.pc) for p in machine.waiting)
    )


def _nobody_loads(barrier: MBarrier) -> bool:
    """Has no warp of the barrier's CTA issued a TMA load by now, where others wait for one?"""
    machine = barrier.cta.machine
    loads = any(warp.loads for warp in barrier.cta.warps)
    return machine.program.has_roles and barrier.array() == "full" and not loads


def _blame(barrier: MBarrier, path: Path, counted: bool) -> dict:
    """The instruction to blame, and why: the init where its count is wrong (all who arrive wait for what this
    wait holds up: ``counted``), or the author's number of bytes where it is more than the loads bring.
    """
    if counted:
        return {"blame": barrier.init_at, "why": f", and its init counts {barrier.count}"}
    if not barrier.pending and barrier.tx > 0 and barrier.issued and path.cta.cluster.size == 1:
        told = barrier.told_bytes(path)
        if told is not None:
            return {"blame": told, "why": f"; its loads bring {barrier.issued:,}"}
    if not barrier.pending and barrier.tx > 0 and (missed := _multicast_elsewhere(barrier)):
        load, ctas = missed
        return {"blame": load.at, "why": f"; this multicast of {load.view.name} goes to {ctas} alone"}
    return {"blame": path.at}


def _multicast_elsewhere(barrier: MBarrier) -> tuple[Load, str] | None:
    """A multicast that signals this barrier of other CTAs of the cluster and not of this one; and which."""
    instructions, reached = barrier.cta.machine.program.kernel.instructions, [barrier.cta]
    found: Load | None = None
    for cta in barrier.cta.cluster.ctas:
        other = cta.mbarriers.get(barrier.offset)
        for load in other.loads if other is not None else ():
            if "multicast::cluster" in instructions[load.at].opcode and load.phase == barrier.phase:
                if cta is barrier.cta:
                    return None
                found = found or load
                reached.append(cta)
    if found is None:
        return None
    numbers = {cta.number for cta in reached[1:]}
    return found, f"CTA{'s' * (len(numbers) > 1)} {spans(numbers)}"


def _kept(barrier: MBarrier, path: Path) -> tuple[str, str, int | None]:
    """Who has read the stage that this barrier frees and not arrived on it since; where they read; and the
    release that went elsewhere, or that they have not run.
    """
    _, stage, count = names.stage_of(barrier)
    full = next(
        (
            b
            for b in barrier.cta.mbarriers.values()
            if b.carries_bytes and names.stage_of(b)[1:] == (stage, count)
        ),
        None,
    )
    if full is None or barrier.carries_bytes or not barrier.pending:
        return "", "", None
    arrived = {(warp.cta, warp.index // 4) for warp in barrier.this_phase}
    filled = [cta.mbarriers[full.offset] for cta in path.cta.cluster.ctas if full.offset in cta.mbarriers]
    took = [
        warp
        for one in filled
        for warp, passed in one.account.waits.items()
        if passed.count > barrier.phase and warp not in barrier.this_phase
    ]
    readers = [warp for warp in took if (warp.cta, warp.index // 4) not in arrived]
    if not readers and len(took) == barrier.pending and _each_arrives(barrier):
        readers = took
    if not readers:
        return "", "", None
    who = names.of_warps(sorted(readers, key=lambda warp: (warp.cta.number, warp.index)), path.cta)
    at = full.account.waits[readers[0]].at if readers[0] in full.account.waits else -1
    for load in full.loads:
        for key, read in path.machine.unit(Races).of(full.cta.shared).async_reads.items():
            if key[0] == "wgmma" and read.low < load.offset + load.view.extent and load.offset < read.high:
                at = read.at
    place = path.machine.findings.place(at)
    line = f" (line {place.line})" * (place.line > 0)
    if arrived:  # the others' release is quoted
        release = barrier.arrived_last[1] if barrier.arrived_last else None
        return f"; {who} have read the stage and do not arrive", str(place), release
    told, release = _release(barrier, readers)
    if release is not None:  # its line is quoted, and there is room for no other
        line = ""
        who = names.of_warps([warp for warp in readers if warp.cta is path.cta] or readers, path.cta)
    return f"; nobody arrives on it after {who} read the stage{line}{told}", str(place), release


def _each_arrives(barrier: MBarrier) -> bool:
    """Is the last arrival a pipeline's, which counts the warps that call it?"""
    findings = barrier.cta.machine.findings
    return barrier.arrived_last is not None and "release(" in findings.place(barrier.arrived_last[1]).code


def _release(barrier: MBarrier, readers: list[Warp]) -> tuple[str, int | None]:
    """Where the last release of those who have read a stage went, or that they have run none; and its
    instruction, where it can be told.
    """
    array, cta = barrier.array(), barrier.cta
    groups = {(warp.cta, warp.index // 4) for warp in readers}
    others = [
        (mine.round, one.name(), mine.at)
        for home in cta.cluster.ctas
        for one in home.mbarriers.values()
        if one.array() == array and not one.carries_bytes
        for warp, mine in one.account.arrivals.items()
        if (warp.cta, warp.index // 4) in groups
    ]
    if others:
        _, name, at = max(others)
        return (f"; they last released {name}", at) if name != barrier.name() else ("", None)
    machine = cta.machine
    static = {
        at
        for at in machine.program.arrivals(0)
        if names.array_meant(cta, at) == array and not expects_bytes(machine.program.kernel.instructions[at])
    }
    if len({str(machine.findings.place(at)) for at in static}) != 1:
        return "", None
    return "; none of them ran the release", static.pop()


def _out_of_step(reason: PhaseWait, path: Path) -> str:
    """A first wait for loaded bytes asks for parity 0, the next for 1: said where this turn has passed."""
    barrier = reason.barrier
    passed = barrier.account.waits.get(path.warp)
    count = passed.count if passed else 0
    if not barrier.carries_bytes or reason.parity in (None, count & 1) or barrier.phase <= count:
        return ""
    nth = {0: "first", 1: "2nd", 2: "3rd"}.get(count, f"{count + 1}th")
    return f"; this {nth} wait's turn is phase {count}, parity {count & 1}"


def _began_again(barrier: MBarrier, path: Path) -> str:
    """A warp that goes round a ring waits for a stage again, and has left another out."""

    def passes(one: MBarrier) -> int:
        passed = one.account.waits.get(path.warp)
        return passed.count if passed else 0

    array, mine = barrier.array(), passes(barrier)
    ring = sorted(barrier.cta.mbarriers.values(), key=lambda b: b.offset)
    left = [one for one in ring if one.array() == array and passes(one) < mine]
    if barrier.cta is not path.cta or not left or barrier.carries_bytes:
        return ""
    never = "never" if not passes(left[0]) else "less often"
    again = "again" if mine == 1 else "over and over"
    return f"; it waits for this one {again}, and {never} for {left[0].name()}: does its stage begin anew?"


def _could(barrier: MBarrier, path: Path) -> tuple[str, bool]:
    """Who has arrived before, or else who has an arrive on it still ahead, and what they do now; and whether
    this wait can be told to be the one that is in vain.
    """
    if barrier.pending == 0:
        return "no load that signals it is in flight", False
    busy = {p.warp: p for p in path.machine.waiting}
    arrived = list(barrier.account.arrivals)
    if arrived:
        gone = not busy.keys() & set(arrived)
        # the missing ones are another's, who waits for something else
        other = any(p.warp not in barrier.this_phase and _arrives(p, barrier) for p in path.machine.waiting)
        return f"arrivals came from {_states(arrived, busy, path)}", gone and not other
    ahead = {p.warp: _arrives(p, barrier) for p in path.machine.waiting}
    able = [warp for warp, can in ahead.items() if can]
    if able and all(p.waits_for.barrier is barrier for p in map(busy.__getitem__, able) if _for_phase(p)):
        who = names.of_warps(able, path.cta)
        return f"only {who} could arrive on it, and wait{'s' * (len(able) == 1)} for it", path.warp in able
    if able:
        text = f"arrivals could come from {_states(able, busy, path)}"
        first = barrier.phase == 0 and path.warp not in barrier.account.waits
        if not first or barrier.carries_bytes or path.waits_for.parity != 0:
            return text, False
        vain = names.of_role(path.warp) == "producer" or barrier.array() == "empty"
        return f"{text}; {NEW}", vain
    if None in ahead.values():
        return "nobody has arrived on it yet", False
    return "nobody has arrived on it, and no code ahead of any warp does", True


def _for_phase(path: Path) -> bool:
    return isinstance(path.waits_for, PhaseWait)


def _arrives(path: Path, barrier: MBarrier) -> bool | None:
    """Does the code ahead of a warp arrive on this mbarrier? None where that cannot be told."""
    program, unknown = path.machine.program, False
    array, full = barrier.array(), barrier.carries_bytes
    for at in program.arrivals(path.pc):
        meant = names.array_meant(barrier.cta, at)
        if meant == array:
            return True
        # what expects bytes and what does not are two kinds, once it is known which are which
        expects = expects_bytes(program.kernel.instructions[at])
        unknown |= not meant and (expects == full or array not in ("full", "empty"))
    return None if unknown else False


def _states(warps: list[Warp], busy: dict[Warp, Path], path: Path) -> str:
    """Warps, and what they do now."""
    texts = []
    for waits, one, more in ((True, "waits too", "wait too"), (False, "has ended", "have ended")):
        some = [warp for warp in warps if (warp in busy) == waits]
        if some:
            texts.append(f"{names.of_warps(some, path.cta)}, which {one if len(some) == 1 else more}")
    return ", ".join(texts)
