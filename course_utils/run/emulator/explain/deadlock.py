"""Why nothing goes on: each waiting warp, what it waits for, what that lacks, and who could still have
supplied it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from course_utils.cause import Cause, Warps, Who, sentence, spans
from course_utils.ptx.families import expects_bytes
from course_utils.run.emulator.core.threads import Wait
from course_utils.run.emulator.explain import causes, names
from course_utils.run.emulator.explain.accounts import account
from course_utils.run.emulator.explain.ahead import ahead
from course_utils.run.emulator.explain.barriers import told_bytes
from course_utils.run.emulator.explain.findings import Findings
from course_utils.run.emulator.explain.places import Places, line_of
from course_utils.run.emulator.explain.races import Races
from course_utils.run.emulator.explain.results import issued
from course_utils.run.emulator.explain.roles import role
from course_utils.run.emulator.explain.words import SENTENCES
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.units.lanes import LanesWait
from course_utils.run.emulator.units.mbarrier import PhaseWait, mbarriers
from course_utils.run.emulator.units.sync import NamedBarriers, RegisterPool, RegisterWait, ThreadWait
from course_utils.run.emulator.units.tmem import AllocWait, tensor_memory
from course_utils.run.emulator.units.wgmma import WgmmaWait

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Cluster, Path, Warp
    from course_utils.run.emulator.explain.places import Place
    from course_utils.run.emulator.units.mbarrier import MBarrier
    from course_utils.run.emulator.units.sync import ThreadBarrier
    from course_utils.run.emulator.units.tma import Load
    from course_utils.run.emulator.units.wgmma import Warpgroup

Tail: TypeAlias = tuple[Cause, ...]  # clauses that go on a sentence

AHEAD = 2  # phases that a stage's full barrier may be ahead of its empty one
ROWS = 6  # groups of waiting warps that the text names; Finding.waiting has them all


def _cause(case: str, **values: Any) -> Cause:
    return Cause("deadlock", case, values)


@dataclass
class Row:
    """Warps that wait alike: for ``what``, since which ``late`` clauses say why in vain, and ``could`` who
    could still have supplied it. ``blame`` is the instruction to blame, as far as can be told, ``why`` says
    so where it is not the wait; ``read`` where they read what they do not give back. ``lacks`` is 3 or more:
    what nobody can bring, 2: bytes that no load brings, 1: arrivals beyond those that came. It ``follows``
    where all who could supply it are held up by something else.
    """

    path: Path
    warps: list[int]
    place: Place
    blame: int
    what: Cause = field(default_factory=lambda: _cause("in vain"))
    lacks: int = 0
    follows: bool = False
    could: Cause | None = None
    why: Cause | None = None
    read: Place | None = None
    more: dict[str, Any] = field(default_factory=dict)  # of an mbarrier, its state

    def data(self) -> dict[str, Any]:
        """As ``Finding.waiting`` has it."""
        cta, line = self.path.cta.number, str(self.place)
        made = {"role": names.of_role(self.path.warp), "warps": self.warps, "cta": cta, "line": line}
        return made | {"text": self.text(), "barrier": "", **self.more}

    def text(self) -> str:
        return sentence(self.what, SENTENCES)


def describe(machine: Machine, cluster: Cluster) -> None:
    """Record the finding: "register-budget" where a warpgroup waits for registers, else "deadlock"."""
    rank = {kind: i for i, kind in enumerate(WAITS)}
    paths = sorted(
        machine.waiting, key=lambda p: (rank.get(type(p.waits_for), len(rank)), p.cta.number, p.warp.index)
    )
    alike: dict[tuple, Row] = {}
    for path in paths:
        row = Row(path, [path.warp.index], machine.unit(Places).place(path.at), path.at)
        if explained := WAITS.get(type(path.waits_for)):
            explained(path.waits_for, path, row)
        key = path.cta.number, names.of_role(path.warp), row.text(), str(row.place)
        if key in alike:
            alike[key].warps.append(path.warp.index)
        else:
            alike[key] = row
    rows = sorted(
        alike.values(), key=lambda row: (-row.lacks, row.follows)
    )  # first who lacks what nobody brings
    told = _told(rows, cluster.size)
    lines = tuple(_cause("and where", what=one, at=place) for one, place in told)
    others = lines[1:ROWS]
    if len(lines) > ROWS:
        others += (_cause("more groups wait", count=len(lines) - ROWS),)
    waiting = [row.data() for row in rows]
    hungry = [p for p in paths if isinstance(p.waits_for, RegisterWait)]
    if hungry:
        cta = hungry[0].cta
        pool = cta.unit(RegisterPool)
        asking = {p.warp: p.waits_for.wanted for p in hungry if p.cta is cta}
        total = sum(asking.get(w, pool.held(w)) * LANES for w in cta.warps)
        values = {"total": total, "limit": machine.artifact.register_pool, "each": pool.given}
        cause = Cause("register-budget", "registers in all", values | {"threads": len(cta.warps) * LANES})
        machine.unit(Findings).find(cause, hungry[0].at, waiting=waiting, notes=lines[:ROWS])
        return
    if not rows:
        machine.unit(Findings).find(_cause("no warp waits"), -1)
        return
    first, (text, _) = rows[0], told[0]
    notes = [first.could] if first.could else []
    if first.blame != first.path.at:
        text = _cause("waits because", wait=text, why=first.why)
        notes.append(_cause("the wait", at=first.place))
    if first.read and str(first.read):
        notes.insert(0, _cause("the read", at=first.read))
    barriers = [path.waits_for.barrier for path in paths if isinstance(path.waits_for, PhaseWait)]
    machine.unit(Findings).find(text, first.blame, waiting=waiting, notes=(*notes, *others), about=barriers)


def _told(rows: list[Row], ctas: int) -> list[tuple[Cause, Place]]:
    """What to say of each group of waiting warps, and its line. A CTA is named where the ``ctas`` of the
    cluster do not all wait alike.
    """
    alike: dict[tuple, list[Row]] = {}
    for row in rows:
        key = names.of_role(row.path.warp), tuple(row.warps), row.text(), str(row.place)
        alike.setdefault(key, []).append(row)
    told: dict[str, tuple[Cause, Place]] = {}
    for (name, warps, _, _), group in alike.items():
        where = tuple(row.path.cta.number for row in group)
        who = Who((Warps(name, warps, where if len(where) < ctas else ()),))
        cause = _cause("waits", who=who, what=group[0].what)
        told[sentence(cause, SENTENCES)] = cause, group[0].place
    return list(told.values())


def _threads(reason: ThreadWait, path: Path, row: Row) -> None:
    barrier, vain = reason.barrier, not _met(path, reason.barrier)
    why = _cause("no other warp comes") if vain else None
    row.lacks = 3 * vain
    if path.mask is not None and 0 < (lanes := int(path.mask.sum())) < int(path.warp.alive.sum()):
        why, row.lacks = _cause("some lanes came", lanes=lanes), 4
    row.more, count = {"barrier": barrier.label}, barrier.arrived
    row.what = _cause("for threads", barrier=barrier.label, count=count, needed=reason.needed, why=why)


def _lanes(reason: LanesWait, path: Path, row: Row) -> None:
    absent = [lane for lane in range(LANES) if reason.absent >> lane & 1]
    row.what, row.lacks = _cause("for lanes", lanes=spans(absent)), 4


def _registers(reason: RegisterWait, path: Path, row: Row) -> None:
    pool = path.cta.unit(RegisterPool)
    row.what = _cause("for registers", count=reason.wanted, held=pool.held(path.warp), free=pool.free)


def _tensor_memory(reason: AllocWait, path: Path, row: Row) -> None:
    """Who waits for columns waits for those who have them, or for the other CTA of its pair."""
    row.lacks = 4
    if len(reason.asking) < reason.needed:
        row.what = _cause("for its pair", count=reason.count)
        return
    memory = tensor_memory(path.cta)
    holders = [one.warp for one in memory.allocations.values()]
    who = names.who(holders, path.cta)
    row.what = _cause("for columns", count=reason.count, free=memory.free, most=memory.columns, who=who)


def _wgmma(reason: WgmmaWait, path: Path, row: Row) -> None:
    operation = reason.group.operations[reason.count - 1]
    why = None
    if late := _went_on(reason.group, path):
        why = _cause("went on without it", who=names.who(late, path.cta))
        row.blame, row.lacks = operation.at, 4
    row.what = _cause("for a wgmma", count=operation.joined, why=why)


def _went_on(group: Warpgroup, path: Path) -> list[Warp]:
    """Warps of a warpgroup that have waited for as many loads as this one has, and do not wait for the
    wgmma that it waits for.
    """

    def loads(warp: Warp) -> int:
        return sum(account(barrier).carries_bytes for barrier, _ in role(warp).takes)

    waiting = {other.warp for other in path.machine.waiting if isinstance(other.waits_for, WgmmaWait)}
    warps = path.cta.warps[group.number * 4 : group.number * 4 + 4]
    return [warp for warp in warps if warp not in waiting and loads(warp) >= loads(path.warp) > 0]


def _met(path: Path, barrier: ThreadBarrier) -> bool:
    """May a warp that is not at this barrier of threads still come to it?"""
    named, code = path.cta.unit(NamedBarriers).by_number, ahead(path.machine.program)
    number = next((n for n, one in named.items() if one is barrier), None)
    near = [p for p in path.machine.waiting if number is None or p.cta is path.cta]
    others = [p for p in near if getattr(p.waits_for, "barrier", None) is not barrier]
    return any(code.comes_to(p.pc, number) for p in others)


def _phase(reason: PhaseWait, path: Path, row: Row) -> None:
    barrier = reason.barrier
    seen = account(barrier)
    missing = []
    if barrier.pending:
        only = barrier.count == 1
        missing.append(
            _cause("only arrival missing")
            if only
            else _cause("arrivals missing", missing=barrier.pending, count=barrier.count)
        )
    if barrier.tx > 0:
        missing.append(_cause("bytes missing", missing=barrier.tx, count=barrier.expected))
    elif barrier.tx < 0:
        missing.append(_cause("expect-tx missing", count=-barrier.tx))
    asked = _cause("parity", parity=reason.parity)
    if reason.parity is None:
        asked = _cause("phase", phase=reason.phase)
    partial = 0 < barrier.pending < barrier.count
    busy = {other.warp for other in path.machine.waiting}
    could, hopeless, new, states = _could(barrier, path)
    unloaded = hopeless and not seen.arrivals and _nobody_loads(barrier)
    if unloaded:
        del missing[1:]
    lacking = _cause("lacks both", one=missing[0], other=missing[1]) if len(missing) > 1 else None
    # who loads has arrived in every phase, and is done
    ended = hopeless and seen.carries_bytes and len(seen.arrivals) == 1
    late: Tail = _lapped(reason, path) or _out_of_step(reason, path) or _began_again(barrier, path)
    kept, read, release = ((), None, None) if late else _kept(barrier, path)
    if kept:
        late = kept
    elif _nobody_multiplies(path):
        late = (_cause("and", what=causes.nobody_multiplies(path.machine)),)
    elif hopeless and seen.arrivals:
        late += (_cause("and", what=states),)
    elif unloaded:
        late = (_cause("nobody loads", cta=barrier.cta.number),)
    elif hopeless and new:
        late += (_cause("and", what=_cause("passes at once")),)
    lacking = lacking or (missing[0] if missing else _cause("nothing"))
    name = names.barrier(barrier, path.cta)
    row.what = _cause(
        "for a phase", barrier=name, asked=asked, phase=barrier.phase, lacking=lacking, late=late
    )
    row.could, row.read = could, read
    counted = partial and not kept and (ended or seen.arrivals.keys() <= busy)
    row.blame, row.why = _blame(barrier, path, counted)
    if release is not None:
        row.blame = release
    row.lacks = 3 if hopeless or late else 2 if barrier.pending == 0 else int(partial)
    row.follows = bool(barrier.pending) and not seen.arrivals and _held_elsewhere(barrier, path)
    row.more = {"barrier": names.of_barrier(barrier), "parity": reason.parity, "phase": barrier.phase}
    row.more |= {"arrivals_missing": barrier.pending, "bytes_missing": barrier.tx}


def _nobody_multiplies(path: Path) -> bool:
    """Has no warp multiplied, and can none of those that are left, while the kernel has roles?"""
    machine = path.machine
    code = ahead(machine.program)
    return (
        code.has_roles
        and not any(issued(warp) for cta in path.cta.cluster.ctas for warp in cta.warps)
        and not any("wgmma" in code.abilities(p.pc) for p in machine.waiting)
    )


def _nobody_loads(barrier: MBarrier) -> bool:
    """Has no warp of the barrier's CTA issued a TMA load by now, where others wait for one?"""
    program = barrier.cta.machine.program
    loads = any(role(warp).loads for warp in barrier.cta.warps)
    return ahead(program).has_roles and names.array_of(barrier) == "full" and not loads


def _blame(barrier: MBarrier, path: Path, counted: bool) -> tuple[int, Cause | None]:
    """The instruction to blame, and why: the init where its count is wrong (all who arrive wait for what this
    wait holds up: ``counted``), or the author's number of bytes where it is more than the loads bring.
    """
    if counted:
        return account(barrier).init_at, _cause("its init counts", count=barrier.count)
    if not barrier.pending and barrier.tx > 0 and barrier.issued and path.cta.cluster.size == 1:
        told = told_bytes(barrier)
        if told is not None:
            return told, _cause("its loads bring", bytes=barrier.issued)
    if not barrier.pending and barrier.tx > 0 and (missed := _multicast_elsewhere(barrier)):
        load, ctas = missed
        return load.at, _cause("multicast goes elsewhere", tensor=load.view.name, ctas=ctas)
    return path.at, None


def _multicast_elsewhere(barrier: MBarrier) -> tuple[Load, str] | None:
    """A multicast that signals this barrier of other CTAs of the cluster and not of this one; and which."""
    instructions, reached = barrier.cta.machine.program.kernel.instructions, [barrier.cta]
    found: Load | None = None
    for cta in barrier.cta.cluster.ctas:
        other = mbarriers(cta).get(barrier.offset)
        for load in account(other).loads if other is not None else ():
            if "multicast::cluster" in instructions[load.at].opcode and load.phase == barrier.phase:
                if cta is barrier.cta:
                    return None
                found = found or load
                reached.append(cta)
    if found is None:
        return None
    numbers = {cta.number for cta in reached[1:]}
    return found, f"CTA{'s' * (len(numbers) > 1)} {spans(numbers)}"


def _kept(barrier: MBarrier, path: Path) -> tuple[Tail, Place | None, int | None]:
    """Who has read the stage that this barrier frees and not arrived on it since; where they read; and the
    release that went elsewhere, or that they have not run.
    """
    _, stage, count = names.stage_of(barrier)
    mine = account(barrier)
    alike = (b for b in mbarriers(barrier.cta).values() if names.stage_of(b)[1:] == (stage, count))
    full = next((b for b in alike if account(b).carries_bytes), None)
    if full is None or mine.carries_bytes or not barrier.pending:
        return (), None, None
    if full.phase > barrier.phase + AHEAD:  # of another ring, as that of accumulators is
        return (), None, None
    arrived = {(warp.cta, warp.index // 4) for warp in mine.this_phase}
    all_mbarriers = [mbarriers(cta) for cta in path.cta.cluster.ctas]
    filled = [of_cta[full.offset] for of_cta in all_mbarriers if full.offset in of_cta]
    took = [
        warp
        for one in filled
        for warp, passed in account(one).waits.items()
        if passed.count > barrier.phase and warp not in mine.this_phase
    ]
    readers = [warp for warp in took if (warp.cta, warp.index // 4) not in arrived]
    if not readers and len(took) == barrier.pending and _each_arrives(barrier):
        readers = took
    if not readers:
        return (), None, None
    who = names.who(sorted(readers, key=lambda warp: (warp.cta.number, warp.index)), path.cta)
    waits = account(full).waits
    at = waits[readers[0]].at if readers[0] in waits else -1
    for load in account(full).loads:
        for key, read in path.machine.unit(Races).of(full.cta.shared).async_reads.items():
            if key[0] == "wgmma" and read.low < load.offset + load.view.extent and load.offset < read.high:
                at = read.at
    place = path.machine.unit(Places).place(at)
    line = line_of(place)
    if arrived:  # the others' release is quoted
        release = mine.arrived_last[1] if mine.arrived_last else None
        return (_cause("read and do not arrive", who=who),), place, release
    told, release = _release(barrier, readers)
    if release is not None:  # its line is quoted, and there is room for no other
        line = None
        who = names.who([warp for warp in readers if warp.cta is path.cta] or readers, path.cta)
    return (_cause("nobody arrives after the read", who=who, line=line), *told), place, release


def _each_arrives(barrier: MBarrier) -> bool:
    """Is the last arrival a pipeline's, which counts the warps that call it?"""
    findings, last = barrier.cta.machine.unit(Findings), account(barrier).arrived_last
    return last is not None and "release(" in findings.place(last[1]).code


def _release(barrier: MBarrier, readers: list[Warp]) -> tuple[Tail, int | None]:
    """Where the last release of those who have read a stage went, or that they have run none; and its
    instruction, where it can be told.
    """
    array, cta = names.array_of(barrier), barrier.cta
    groups = {(warp.cta, warp.index // 4) for warp in readers}
    others = [
        (mine.round, names.of_barrier(one), mine.at)
        for home in cta.cluster.ctas
        for one in mbarriers(home).values()
        if names.array_of(one) == array and not account(one).carries_bytes
        for warp, mine in account(one).arrivals.items()
        if (warp.cta, warp.index // 4) in groups
    ]
    if others:
        _, name, at = max(others)
        if name == names.of_barrier(barrier):
            return (), None
        return (_cause("last released", barrier=names.Barrier(name)),), at
    machine = cta.machine
    static = {
        at
        for at in ahead(machine.program).arrivals(0)
        if names.array_meant(cta, at) == array and not expects_bytes(machine.program.kernel.instructions[at])
    }
    if len({str(machine.unit(Places).place(at)) for at in static}) != 1:
        return (), None
    return (_cause("ran no release"),), static.pop()


def _lapped(reason: PhaseWait, path: Path) -> Tail:
    """The phase that this wait is for has ended, and the one after it too. A warp's waits for a barrier are
    for one phase after the other; those that begin with parity 1 on a barrier without bytes pass once first.
    """
    barrier = reason.barrier
    passed = account(barrier).waits.get(path.warp)
    count, first = (passed.count, passed.first) if passed else (0, reason.parity)
    if reason.parity is None or first is None or first and account(barrier).carries_bytes:
        return ()
    meant = count - first
    if reason.parity != meant & 1 or barrier.phase <= meant + 1:
        return ()
    values = {"who": names.who([path.warp], path.cta), "meant": meant, "next": meant + 1}
    return (_cause("was lapped" if meant >= 0 else "was lapped at first", **values),)


def _out_of_step(reason: PhaseWait, path: Path) -> Tail:
    """A first wait for loaded bytes asks for parity 0, the next for 1: said where this turn has passed."""
    barrier = reason.barrier
    passed = account(barrier).waits.get(path.warp)
    count = passed.count if passed else 0
    turned = reason.parity in (None, count & 1) or barrier.phase <= count
    if not account(barrier).carries_bytes or turned:
        return ()
    return (_cause("turn has passed", nth=names.nth(count), phase=count, parity=count & 1),)


def _began_again(barrier: MBarrier, path: Path) -> Tail:
    """A warp that goes round a ring waits for a stage again, and has left another out."""

    def passes(one: MBarrier) -> int:
        passed = account(one).waits.get(path.warp)
        return passed.count if passed else 0

    array, mine = names.array_of(barrier), passes(barrier)
    left = [b for b in names.ordered(barrier.cta) if names.array_of(b) == array and passes(b) < mine]
    if barrier.cta is not path.cta or not left or account(barrier).carries_bytes:
        return ()
    never = _cause("less often" if passes(left[0]) else "never")
    return (_cause("stage begins anew", count=mine, never=never, barrier=names.plain(left[0])),)


def _could(barrier: MBarrier, path: Path) -> tuple[Cause, bool, bool, Cause | None]:
    """Who has arrived before, or else who has an arrive on it still ahead, and what they do now; whether this
    wait can be told to be the one that is in vain; whether it may be the first for a new barrier; and what
    those who arrived before do.
    """
    if barrier.pending == 0:
        return _cause("no load in flight"), False, False, None
    busy = {p.warp: p for p in path.machine.waiting}
    seen = account(barrier)
    arrived = list(seen.arrivals)
    if arrived:
        gone = not busy.keys() & set(arrived)
        # the missing ones are another's, who waits for something else
        other = any(p.warp not in seen.this_phase and _arrives(p, barrier) for p in path.machine.waiting)
        could = _cause("arrivals came from", states=_states(arrived, busy, path))
        return could, gone and not other, False, _states(arrived, busy, path, before=True)
    reached = {p.warp: _arrives(p, barrier) for p in path.machine.waiting}
    able = [warp for warp, can in reached.items() if can]
    for_phases = [busy[warp].waits_for for warp in able if isinstance(busy[warp].waits_for, PhaseWait)]
    if able and not for_phases:
        states = _states(able, busy, path)
        return _cause("arrivals could come from", states=states, why=None), False, False, None
    if able and all(wait.barrier is barrier for wait in for_phases):
        could = _cause("only these could arrive", who=names.who(able, path.cta))
        return could, path.warp in able, False, None
    if able:
        states = _states(able, busy, path)
        first = barrier.phase == 0 and path.warp not in seen.waits
        if not first or seen.carries_bytes or path.waits_for.parity != 0:
            return _cause("arrivals could come from", states=states, why=None), False, False, None
        vain = names.of_role(path.warp) == "producer" or names.array_of(barrier) == "empty"
        why = _cause("and", what=_cause("passes at once"))
        return _cause("arrivals could come from", states=states, why=why), vain, True, None
    if None in reached.values():
        return _cause("nobody has arrived yet"), False, False, None
    return _cause("nobody can arrive"), True, False, None


def _arrives(path: Path, barrier: MBarrier) -> bool | None:
    """Does the code ahead of a warp arrive on this mbarrier? None where that cannot be told."""
    program, unknown = path.machine.program, False
    array, full = names.array_of(barrier), account(barrier).carries_bytes
    for at in ahead(program).arrivals(path.pc):
        meant = names.array_meant(barrier.cta, at)
        if meant == array:
            return True
        # what expects bytes and what does not are two kinds, once it is known which are which
        expects = expects_bytes(program.kernel.instructions[at])
        unknown |= not meant and (expects == full or array not in ("full", "empty"))
    return None if unknown else False


def _held_elsewhere(barrier: MBarrier, path: Path) -> bool:
    """Does each warp with an arrive on this mbarrier ahead of it wait for something that is no phase?"""
    able = [one for one in path.machine.waiting if _arrives(one, barrier)]
    return bool(able) and not any(isinstance(one.waits_for, PhaseWait) for one in able)


def _states(warps: list[Warp], busy: dict[Warp, Path], path: Path, before: bool = False) -> Cause:
    """Warps, and what they do now; ``before``: they have arrived in a phase before."""
    parts, told = [], _cause("arrived before") if before else None
    for waits, case in ((True, "wait too"), (False, "have ended")):
        some = [warp for warp in warps if (warp in busy) == waits]
        if some:
            parts.append(_cause(case, who=names.who(some, path.cta), before=told))
    if len(parts) == 1:
        return parts[0]
    return _cause("these and those", these=parts[0], those=parts[1])


# What to tell of each kind of wait: the first kinds lead.
WAITS: dict[type[Wait], Callable[[Any, Path, Row], None]] = {
    RegisterWait: _registers,
    PhaseWait: _phase,
    WgmmaWait: _wgmma,
    AllocWait: _tensor_memory,
    ThreadWait: _threads,
    LanesWait: _lanes,
}
