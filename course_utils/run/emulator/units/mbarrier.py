"""mbarriers: arrivals, bytes and phases.

PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier", "st.async". A phase of an
mbarrier ends when its pending arrivals and its pending bytes are both 0; a wait for parity P passes once the
phase of that parity has ended, so on a new barrier parity 1 passes at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_utils.artifact import Allocation, Origin
from course_utils.ptx.parser import Instr, Reg, Vec
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.core.probe import Touched
from course_utils.run.emulator.core.warp import Wait
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.isa.arithmetic import split_type
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value, items_of

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import CTA
    from course_utils.run.emulator.core.memory import SharedMemory
    from course_utils.run.emulator.core.warp import Path, Warp
    from course_utils.run.emulator.units.tma import Load

CLUSTER_BARRIER = "T.alloc_cluster_barrier"
MAX_COUNT, BYTES = (1 << 20) - 1, 8


@dataclass(slots=True)
class Initialised:
    """An mbarrier was initialised."""

    path: Path
    barrier: MBarrier


@dataclass(slots=True)
class StoredAsync:
    """A remote store has written ``count`` bytes at an offset of shared memory. It is done once this phase of
    the mbarrier that it signals is.
    """

    region: SharedMemory
    offset: int
    count: int
    barrier: MBarrier
    phase: int


class MBarrier:
    """One mbarrier object in shared memory.

    As an agent of Order its time is the number of phases that have ended.
    """

    def __init__(self, path: Path, cta: CTA, offset: int, count: int) -> None:
        order = cta.cluster.order
        self.cta, self.offset, self.count = cta, offset, count
        self.pending, self.tx, self.phase = count, 0, 0
        self.expected = self.issued = self.flying = (
            0  # bytes of this phase: told, asked for, and not yet landed
        )
        self.expected_by: list[int] = []  # the instructions that told the bytes of this phase
        self.agent, self.clock, self.gathering = order.new_agent(), order.clock(), order.clock()
        self.init = path.warp.agent, path.warp.time
        self.init_at = path.at
        place = path.machine.findings.place(path.at)
        self.line = place.file, place.line, place.code  # of the author's, that initialises it
        self.fenced = False
        self.waiting: list[Path] = []
        self.woken: list[Path] = []
        self.carries_bytes = False
        self.loads: list[Load] = []  # those that signal it, of its last phase that has some
        from course_utils.run.emulator.explain.ledger import Account

        self.account = Account()
        # warps and how often they arrived in this phase, and in the one before
        self.this_phase: dict[Warp, int] = {}
        self.last_phase: dict[Warp, int] = {}
        # the last arrival of all: its warp and instruction; and the one that ended the last phase
        self.arrived_last: tuple[Warp, int] | None = None
        self.released_by: tuple[Warp, int] | None = None
        # phases that ended with bytes expected; the first that ended with none, and its last arrival
        self.expects = 0
        self.bare: tuple[int, Warp, int] | None = None

    @property
    def used(self) -> bool:
        """Has anyone arrived on it, told it of bytes, or waited for it?"""
        account = self.account
        return bool(self.phase or self.carries_bytes or self.waiting or account.arrivals or account.waits)

    def name(self) -> str:
        return names.of_barrier(self)

    def array(self) -> str:
        return names.array_of(self)

    def _from(self, path: Path) -> str:
        """Its name, and its CTA where that is not the path's."""
        return self.name() + ("" if self.cta is path.cta else f" of CTA {self.cta.number}")

    def use(self, path: Path, by_tma: bool = False) -> None:
        """Is the initialisation surely visible to this warp, or to a TMA load that it issues?"""
        agent, time = self.init
        if path.warp.clock.seen[agent] < time:
            path.find(
                "barrier-init-race",
                lambda: f"{path.name()} uses {self.name()}, and nothing orders its initialisation before",
            )
        elif by_tma and not self.fenced:
            path.find(
                "barrier-init-race",
                lambda: f"TMA signals {self.name()}, whose initialisation no fence has made visible to it",
            )

    def arrive(self, path: Path, count: int) -> None:
        self.use(path)
        warp = path.warp
        warp.seen_at = path.at
        self.account.arrived(path, count)
        self.this_phase[warp] = self.this_phase.get(warp, 0) + count
        self.arrived_last = warp, path.at
        self.gathering.join(warp.clock)
        warp.tick()
        path.machine.progress += 1
        path.machine.trace.arrived(path, self, count)
        if count > self.pending:
            path.find("barrier-overrun", lambda: self._too_many(path, count), barriers=(self,))
            count = self.pending
        self.pending -= count
        self.settle(path)

    def _too_many(self, path: Path, count: int) -> str:
        if count > self.count:
            name = self.name()
            return f"{path.name()} makes {count} arrivals a phase on {name}, and its init counts {self.count}"
        if told := self._filled_again(path):
            return told
        return (
            f"{path.name()} arrives on {self.name()}, whose phase {self.phase} has all its "
            f"{self.count} arrivals already"
        )

    def _filled_again(self, path: Path) -> str:
        """What to say of a warp that has gone round its loop and fills the same phase again."""
        mine = self.account.arrivals[path.warp]
        if not self.carries_bytes or mine.now == self.this_phase[path.warp]:
            return ""
        text = f"{path.name()} arrives on {self.name()} again, whose phase {self.phase} has all its "
        text += f"{self.count} arrivals already"
        barrier, _ = path.warp.waited or (self, -1)
        if barrier is self:
            return f"{text}: does its stage go on?"
        return f"{text}: its wait for {barrier.name()} passed again; does its stage go on, or begin anew?"

    def expect(self, path: Path, count: int) -> None:
        self.use(path)
        self.carries_bytes = True
        self.tx += count
        self.expected += count
        self.expected_by.append(path.at)
        path.machine.trace.note("expect", path, self, count)
        path.machine.progress += 1

    def asked(self, path: Path, count: int) -> int:
        """A TMA load that will signal this barrier is issued. Returns the phase that its bytes belong to."""
        self.use(path, by_tma=True)
        self.carries_bytes = True
        self.issued += count
        self.flying += count
        self.check_bytes(path, path.at)
        return self.phase

    def landed(self, path: Path, count: int, phase: int) -> None:
        """Bytes of a load that was issued in ``phase`` have arrived (complete-tx)."""
        self.tx -= count
        path.machine.trace.note("bytes", path, self, count)
        if phase == self.phase:
            self.flying -= count
        self.settle(path)

    def check_bytes(self, path: Path, load: int | None = None) -> None:
        """Does this phase expect the bytes of all its loads? ``load`` is one that begins."""
        if self.pending or self.issued <= self.expected:
            return
        findings, told = path.machine.findings, self.told_bytes(path)
        mine = [one for one in self.loads if one.phase == self.phase]
        now = [] if load is None else [(path.warp, load)]
        lines = [(one.path.warp, one.at) for one in mine] + now
        more = [f"a load: {place}" for place in dict.fromkeys(str(findings.place(at)) for _, at in lines)]
        at = told
        if told is not None and len(set(lines)) < len(lines):
            # one line loads twice for this phase: it may be that load's barrier that is wrong
            at = None
            more.insert(0, f"its bytes: {findings.place(told)}")
        elif not self.expected_by and self.arrived_last:
            at = self.arrived_last[1]
        if told is not None and re.search(r"producer_acquire|\.create\(", findings.place(told).code):
            more.insert(0, findings.line_with("tx_count="))
        pair = CLUSTER_BARRIER in self.line[2]
        path.find(
            "expect-tx",
            lambda: (
                f"phase {self.phase} of {self._from(path)} expects {self.expected:,} bytes, but loads of "
                f"{self.issued:,} bytes signal it"
                + f": `{CLUSTER_BARRIER}` has rank 0 alone told; TMA's is each CTA's own, `T.alloc_barrier`"
                * pair
            ),
            (self,),
            tuple(filter(None, more)),
            self.init_at if pair else at,
        )

    def told_bytes(self, path: Path) -> int | None:
        """The author's call that told the bytes of this phase, of a pipeline the one that made it; None where
        the compiler counted them.
        """
        findings = path.machine.findings
        code = {at: findings.place(at).code for at in self.expected_by}
        own = ("expect_tx", "producer_acquire")
        told = next((at for at in code if any(call in code[at] for call in own)), None)
        made = told is not None and "producer_acquire" in code[told]
        return self.init_at if made and ".create(" in findings.place(self.init_at).code else told

    def settle(self, path: Path) -> None:
        """End the phase if nothing is missing."""
        if self.pending:
            return
        self.check_bytes(path)
        if self.tx:
            return
        if self.flying:
            path.find(
                "expect-tx",
                lambda: (
                    f"phase {self.phase} of {self._from(path)} ends while {self.flying:,} bytes of its loads "
                    "are still on their way"
                ),
                barriers=(self,),
            )
        for other in self.woken:
            if other.woken is self:
                other.find(
                    "phase-lapped",
                    f"{other.name()} has not seen phase {self.phase - 1} of {self.name()} end, and phase "
                    f"{self.phase} ends too",
                    barriers=(self,),
                )
        self.clock.join(self.gathering)
        if self.expected or self.issued:
            self.expects += 1
        elif self.bare is None and self.arrived_last:
            self.bare = self.phase, *self.arrived_last
        self.released_by = self.arrived_last
        path.machine.trace.note("flip", path, self, self.phase)
        self.phase += 1
        self.clock.seen[self.agent] = self.clock.fenced[self.agent] = self.phase
        self.pending, self.expected, self.issued, self.flying = self.count, 0, 0, 0
        self.expected_by.clear()
        self.last_phase, self.this_phase = self.this_phase, {}
        path.machine.progress += 1
        waiting, self.waiting, self.woken = self.waiting, [], []
        for other in waiting:
            if other.waits_for.holds():
                self.woken.append(other)
                other.woken = self
                other.waits_for.grant(other)
                other.wake()
            else:
                self.waiting.append(other)


class PhaseWait(Wait):
    """A path at mbarrier.try_wait: ``parity`` awaited, or the phase that a state names."""

    expires = True

    def __init__(
        self,
        barrier: MBarrier,
        parity: int | None = None,
        phase: int | None = None,
        target: Reg | None = None,
        mask: Mask = None,
    ) -> None:
        self.barrier, self.parity, self.phase, self.target, self.mask = barrier, parity, phase, target, mask

    def holds(self) -> bool:
        if self.phase is not None:
            return self.barrier.phase > self.phase
        return self.barrier.phase & 1 != self.parity

    def grant(self, path: Path, result: bool = True) -> None:
        if result:
            path.warp.clock.join(self.barrier.clock)
            path.warp.waited = self.barrier, path.at
            path.warp.takes.append(path.warp.waited)
            path.warp.rounds += 1
            self.barrier.account.passed(path, self.parity, self.barrier.phase)
            path.machine.trace.note("pass", path, self)
        if self.target is not None:
            path.write(self.target.index, result, 1, self.mask)

    def expire(self, path: Path) -> None:
        """The time limit of try_wait: it returns false, and the program goes on."""
        self.barrier.waiting.remove(path)
        self.grant(path, False)


def find_barrier(path: Path, address: int, touches: bool = True) -> MBarrier:
    """The mbarrier at an address, or a fault. ``touches``: the path's warp uses it itself."""
    cta, offset = path.cta.cluster.cta_of(path, address)
    if offset % 8:
        path.fault(
            "misaligned", f"{path.name()} uses shared address {offset:,} as an mbarrier; 8 does not divide it"
        )
    barrier = cta.mbarriers.get(offset)
    if barrier is None:
        outside = names.outside(cta, path.at, offset)
        what = outside or f"shared address {offset:,} as an mbarrier, which no init has made one"
        if not outside and (at := _init_ahead(cta, path)) is not None:
            place = path.machine.findings.place(at)
            line = f", line {place.line}," * bool(place.line)
            who = path.name()
            text = f"{who} uses an mbarrier, whose init{line} may be still to come: no barrier is between"
            path.fault("barrier-init-race", text, more=(f"the init: {place}",))
        path.fault("barrier-uninitialised", f"{path.name()} uses {what}", cta.mbarriers.values())
    seen = path.machine.barriers_used
    if (path.at, offset) not in seen:
        seen.add((path.at, offset))
        if what := names.strayed(barrier, path.at):
            path.find("barrier-uninitialised", f"{path.name()} uses {what}", cta.mbarriers.values())
    if touches and cta is not path.cta:
        path.machine.probe.emit(Touched(path, cta, path.warp.agent, path.warp.time))
    return barrier


def _init_ahead(cta: CTA, path: Path) -> int | None:
    """An initialisation of an mbarrier that another warp of this CTA may still come to."""
    machine = path.machine
    for other in (*machine.ready, *machine.waiting):
        if other.cta is cta and other.warp is not path.warp:
            for at in machine.program.reached(other.pc):
                if machine.program.kernel.instructions[at].opcode[:2] == ("mbarrier", "init"):
                    return at
    return None


def _init(p: Path, m: Mask, address: Value, count: Value) -> None:
    lane = memory.lanes_of(m)[-1]
    cta, offset = p.cta.cluster.cta_of(p, memory.pick(address, lane))
    count = memory.pick(count, lane)
    if offset % 8 or offset + 8 > cta.shared.size:
        p.fault(
            "misaligned",
            f"{p.name()} initialises an mbarrier at shared address {offset:,}; 8 does not divide it",
        )
    if not 1 <= count <= MAX_COUNT:
        p.fault("barrier-init-count", f"{p.name()} initialises an mbarrier for {count:,} arrivals")
    if (former := cta.mbarriers.get(offset)) and (former.used or former.init[0] == p.warp.agent):
        p.fault(
            "barrier-init-again",
            f"{p.name()} initialises {former.name()} again: what it has counted is lost",
            (former,),
            (f"its first init: {p.machine.findings.place(former.init_at)}",),
        )
    _require_allocated(p, offset)
    barrier = cta.mbarriers[offset] = MBarrier(p, cta, offset, count)
    p.machine.probe.emit(Initialised(p, barrier))
    p.warp.unfenced_barriers.append(barrier)
    p.machine.trace.note("init", p, barrier, count)
    p.machine.progress += 1


def _require_allocated(p: Path, offset: int) -> None:
    """Find an mbarrier that lies behind what the author allocated for it, or in the buffer of a tile."""
    artifact, findings = p.machine.artifact, p.machine.findings
    around = next((one for one in artifact.allocations if one.offset <= offset < one.end), None)
    if around is not None:
        if around.swizzle or offset + BYTES > around.end:
            text = f"{p.name()} initialises an mbarrier in {artifact.name_of(around)}, which holds a tile"
            if not around.swizzle:
                text = f"{p.name()} initialises an mbarrier of which {artifact.name_of(around)} holds a part"
            p.find("barrier-outside", text)
        return
    before = max((one for one in artifact.allocations if one.end <= offset), default=None, key=_end)
    if before is not None:
        room = before.size // BYTES
        text = (
            f"{p.name()} initialises an mbarrier behind the end of `{artifact.name_of(before)}`, which has "
            f"room for {room} ({before.size} bytes)"
        )
        origin = Origin(before.file, before.line)
        more = (f"an init: {findings.place(p.at)}",)
        findings.add("barrier-outside", p.at, text, more=more, origin=origin)


def _end(allocation: Allocation) -> int:
    return allocation.end


def fence_init(p: Path, m: Mask) -> None:
    """fence.mbarrier_init: initialisations before it become visible to TMA and, with a barrier, to the
    cluster.
    """
    for barrier in p.warp.unfenced_barriers:
        barrier.fenced = True
    p.warp.unfenced_barriers.clear()


def _each(p: Path, m: Mask, address: Value, count: Value, act: Callable[[MBarrier, int], None]) -> None:
    """act(barrier, count) for each active lane; lanes with one address together."""
    lanes = memory.lanes_of(m)
    if address.__class__ is int and count.__class__ is int:
        act(find_barrier(p, address), count * len(lanes))
        return
    for lane in lanes:
        act(find_barrier(p, memory.pick(address, lane)), memory.pick(count, lane))


def mbarrier(instruction: Instr) -> Lowered:
    parts, operands = instruction.opcode, instruction.operands
    action = parts[1]
    if action == "init":
        return Lowered("warp", _init, sources=((operands[0], 32), (operands[1], 32)))
    if action == "inval":

        def invalidate(p: Path, m: Mask, address: Value) -> None:
            p.cta.mbarriers.pop(find_barrier(p, memory.pick(address, memory.lanes_of(m)[0])).offset)

        return Lowered("warp", invalidate, sources=((operands[0], 32),))
    if action in ("expect_tx", "complete_tx"):

        def bytes_only(p: Path, m: Mask, address: Value, count: Value) -> None:
            if action == "expect_tx":
                _each(p, m, address, count, lambda barrier, n: barrier.expect(p, n))
            else:
                _each(p, m, address, count, lambda barrier, n: barrier.landed(p, n, -1))

        return Lowered("warp", bytes_only, sources=((operands[0], 32), (operands[1], 32)), cut=True)
    if action in ("arrive", "arrive_drop"):
        return _arrive(parts, operands)
    if action in ("try_wait", "test_wait"):
        return _wait(parts, operands)
    raise ValueError(f"mbarrier.{action}")


def _arrive(parts: tuple[str, ...], operands: tuple[Any, ...]) -> Lowered:
    target, address, *rest = (
        operands if len(operands) > 1 or parts[-1] == "b64" and len(operands) == 2 else (None, *operands)
    )
    if "noComplete" in parts:
        raise ValueError("noComplete")
    expects, drops = "expect_tx" in parts, parts[1] == "arrive_drop"

    def function(p: Path, m: Mask, a: Value, count: Value = 1) -> Any:
        state = []

        def one(barrier: MBarrier, n: int) -> None:
            lanes = len(memory.lanes_of(m)) if a.__class__ is int and count.__class__ is int else 1
            state.append(barrier.phase)
            if expects:
                barrier.expect(p, n)
                n = lanes
            if drops:
                barrier.count -= n
            barrier.arrive(p, n)

        _each(p, m, a, count, one)
        return state[0]

    return Lowered(
        "warp",
        function,
        (target,) if target is not None else (),
        ((address, 32), *((r, 32) for r in rest)),
        cut=True,
    )


def _wait(parts: tuple[str, ...], operands: tuple[Any, ...]) -> Lowered:
    target, address, state, *_ = operands
    if isinstance(target, Vec):
        raise ValueError("a wait with two results")
    by_parity, polls = "parity" in parts, parts[1] == "test_wait"

    def function(p: Path, m: Mask, following: int, a: Value, value: Value) -> Any:
        lane = memory.lanes_of(m)[0]
        if (
            a.__class__ is not int and (a != a[lane]).any()
            if m is None
            else a.__class__ is not int and (a[m] != a[lane]).any()
        ):
            p.fault(
                "barrier-uninitialised",
                f"lanes of {p.name()} wait for different mbarriers at once, which is not modelled",
            )
        barrier, value = find_barrier(p, memory.pick(a, lane)), memory.pick(value, lane)
        barrier.use(p)
        reason = (
            PhaseWait(barrier, value & 1, None, target, m)
            if by_parity
            else PhaseWait(barrier, None, value, target, m)
        )
        if reason.holds():
            reason.grant(p)
            return following
        if p.stamp == p.machine.progress and polls:
            pass  # a poll in a loop: nothing has changed since the last one, so wait as try_wait would
        elif polls or p.machine.choose(0.1):
            p.stamp = p.machine.progress
            reason.grant(p, False)
            p.pc = following
            p.machine.ready.append(p)
            return -1
        barrier.waiting.append(p)
        return p.wait(following, reason)

    return Lowered(
        "blocking", function, sources=((address, 32), (state, 32)), cut=True, hidden_writes=(target.index,)
    )


def store_async(instruction: Instr) -> Lowered:
    """st.async: a remote store that signals an mbarrier with its bytes.

    It is done where the phase ends, as a TMA load is: who has waited for that may leave the cluster. PTX ISA,
    "st.async": the complete-tx has release semantics at cluster scope.
    """
    address, value, barrier = instruction.operands
    _, bits = split_type(instruction.opcode[-1])
    values = items_of(value)

    def function(p: Path, m: Mask, a: Value, b: Value, *v: Value) -> None:
        for lane in memory.lanes_of(m):
            target = find_barrier(p, memory.pick(b, lane), touches=False)
            count = bits // 8 * len(v)
            phase = target.asked(p, count)
            home, offset = p.cta.cluster.cta_of(p, memory.pick(a, lane))
            memory.require_inside(p, home.shared, offset, count)
            for i, item in enumerate(v):
                home.shared.views[bits][offset // (bits // 8) + i] = memory.pick(item, lane)
            p.machine.probe.emit(StoredAsync(home.shared, offset, count, target, phase))
            for cta in dict.fromkeys((target.cta, home)):
                if cta is p.cta:
                    continue
                p.machine.probe.emit(Touched(p, cta, target.agent, phase + 1))
            target.landed(p, count, phase)

    return Lowered(
        "warp", function, sources=((address, 32), (barrier, 32), *((v, bits) for v in values)), cut=True
    )
