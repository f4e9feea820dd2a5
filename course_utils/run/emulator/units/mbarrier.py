"""mbarriers: arrivals, bytes and phases.

PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier", "st.async". A phase of an
mbarrier ends when its pending arrivals and its pending bytes are both 0; a wait for parity P passes once the
phase of that parity has ended, so on a new barrier parity 1 passes at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.ptx.parser import Instr, Reg, Vec
from course_utils.run.emulator.core import addresses, memory, releases
from course_utils.run.emulator.core.order import CLUSTER_SCOPE, SCOPES
from course_utils.run.emulator.core.releases import Patterns, place_of
from course_utils.run.emulator.core.state import Holder
from course_utils.run.emulator.core.threads import Touched, Wait
from course_utils.run.emulator.isa.arithmetic import split_type
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value, items_of

if TYPE_CHECKING:
    from course_utils.run.emulator.core.memory import SharedMemory
    from course_utils.run.emulator.core.order import Clock
    from course_utils.run.emulator.core.threads import CTA, Cluster, Path, Warp

MAX_COUNT, BYTES = (1 << 20) - 1, 8
COUNT_BITS = 20  # of the state that an arrival returns: arrivals that were pending; above them the phase


@dataclass(slots=True)
class Initialised:
    path: Path
    barrier: MBarrier


@dataclass(slots=True)
class Named:
    """An instruction names this mbarrier, by its address."""

    path: Path
    barrier: MBarrier


@dataclass(slots=True)
class Arrived:
    """``count`` arrivals, which do not count yet."""

    path: Path
    barrier: MBarrier
    count: int


@dataclass(slots=True)
class Expected:
    """The present phase has been told of ``count`` bytes."""

    path: Path
    barrier: MBarrier
    count: int


@dataclass(slots=True)
class BytesIssued:
    """An operation is issued that will bring the present phase ``count`` bytes."""

    path: Path
    barrier: MBarrier
    count: int


@dataclass(slots=True)
class BytesLanded:
    path: Path
    barrier: MBarrier
    count: int


@dataclass(slots=True)
class PhaseCompleted:
    """The phase that ``barrier.phase`` still counts has ended, by an act of ``path``."""

    path: Path
    barrier: MBarrier


@dataclass(slots=True)
class WaitPassed:
    path: Path
    wait: PhaseWait


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


class MBarrier(Holder):
    """One mbarrier object in shared memory.

    As an agent of Order its time is the number of phases that have ended. Of the present phase ``expected``
    are the bytes told, ``issued`` those that operations will bring, ``flying`` those of them still to land.
    """

    def __init__(self, path: Path, cta: CTA, offset: int, count: int) -> None:
        super().__init__()
        order = cta.cluster.order
        self.cta, self.offset, self.count = cta, offset, count
        self.pending, self.tx, self.phase = count, 0, 0
        self.expected = self.issued = self.flying = 0
        self.agent, self.clock, self.gathering = order.new_agent(), order.clock(), order.clock()
        inits = path.warp.unit(Inits)
        self.init = inits.agent, inits.next(path.warp)
        self.fenced = self.used = False
        self.waiting: list[Path] = []
        self.woken: list[Path] = []

    def use(self, path: Path, by_tma: bool = False, documented: bool = False) -> None:
        """Is the initialisation surely visible to this warp, or to a TMA load that it issues? ``documented``:
        libcu++ (cuda::memcpy_async, cuda::device::memcpy_async_tx) shows such a load with no fence between.
        """
        agent, time = self.init
        if path.warp.clock.seen[agent] < time:
            path.report("barrier-init-race", "mbarrier used before its init", who=path.warp, barrier=self)
        elif by_tma and not self.fenced:
            kind = "barrier-init-unfenced" if documented else "barrier-init-race"
            path.report(kind, "mbarrier signalled before a fence", barrier=self)

    def arrive(self, path: Path, count: int, scope: int = CLUSTER_SCOPE) -> None:
        """``scope`` is how far the arrival releases what came before it, 0 where it does not."""
        self.use(path)
        self.used = True
        path.machine.probe.emit(Arrived(path, self, count))
        here = path.cta is self.cta
        if scope >= CLUSTER_SCOPE or scope and here:
            self.gathering.join(path.warp.clock)
        else:
            patterns = path.warp.unit(Patterns)
            for clock in patterns.released(patterns.place.scope_to(place_of(self.cta))):
                self.gathering.join(clock)
        path.warp.tick()
        self._count(path, count)

    def arrive_later(self, path: Path, clock: Clock | None) -> None:
        """One arrival of what ``path`` has issued, which releases what ``clock`` has seen."""
        self.used = True
        path.machine.probe.emit(Arrived(path, self, 1))
        if clock is not None:
            self.gathering.join(clock)
        self._count(path, 1)

    def _count(self, path: Path, count: int) -> None:
        path.machine.progress += 1
        if count > self.pending:
            path.report(
                "barrier-overrun", "more arrivals than counted", about=(self,), barrier=self, count=count
            )
            count = self.pending
        self.pending -= count
        self.settle(path)

    def expect(self, path: Path, count: int) -> None:
        self.use(path)
        self.used = True
        self.tx += count
        self.expected += count
        if self.tx > MAX_COUNT:  # PTX ISA, "Contents of the mbarrier object": the range of the tx-count
            case = "more bytes than an mbarrier counts"
            path.report("expect-tx", case, about=(self,), barrier=self)
        path.machine.probe.emit(Expected(path, self, count))
        path.machine.progress += 1

    def load_issued(self, path: Path, count: int, documented: bool = False) -> int:
        """An operation that will signal this barrier is issued; ``documented`` as in ``use``. Returns the
        phase that its bytes belong to.
        """
        self.use(path, by_tma=True, documented=documented)
        self.used = True
        path.machine.probe.emit(BytesIssued(path, self, count))
        self.issued += count
        self.flying += count
        self._check_bytes(path, path.at)
        return self.phase

    def landed(self, path: Path, count: int, phase: int) -> None:
        """Bytes of an operation that was issued in ``phase`` have arrived (complete-tx)."""
        self.tx -= count
        path.machine.probe.emit(BytesLanded(path, self, count))
        if phase == self.phase:
            self.flying -= count
        self.settle(path)

    def _check_bytes(self, path: Path, load: int | None = None) -> None:
        """Does this phase expect all bytes that come? ``load`` is an instruction that begins to."""
        if not self.pending and self.issued > self.expected:
            case = "fewer bytes expected than come"
            path.report("expect-tx", case, about=(self,), barrier=self, load=load)

    def settle(self, path: Path) -> None:
        """End the phase if nothing is missing."""
        if self.pending:
            return
        self._check_bytes(path)
        if self.tx:
            return
        if self.flying:
            case, flying = "phase completes before its bytes", self.flying
            path.report("expect-tx", case, about=(self,), barrier=self, phase=self.phase, bytes=flying)
        for other in self.woken:
            if other.woken is self:
                values: dict[str, Any] = {"who": other.warp, "phase": self.phase - 1, "now": self.phase}
                other.report("phase-lapped", "phase not seen to end", about=(self,), barrier=self, **values)
        self.clock.join(self.gathering)
        path.machine.probe.emit(PhaseCompleted(path, self))
        self.phase += 1
        self.clock.seen[self.agent] = self.clock.fenced[self.agent] = self.phase
        self.pending, self.expected, self.issued, self.flying = self.count, 0, 0, 0
        path.machine.progress += 1
        waiting, self.waiting, self.woken = self.waiting, [], []
        for other in waiting:
            if other.waits_for.holds():
                self.woken.append(other)
                other.waits_for.grant(other)
                other.wake(self)
            else:
                self.waiting.append(other)


class Inits:
    """A warp's initialisations of mbarriers: an agent of its own, whose time they are."""

    def __init__(self, warp: Warp) -> None:
        self.agent, self.time = warp.cta.cluster.order.new_agent(), 0

    def next(self, warp: Warp) -> int:
        self.time += 1
        warp.clock.seen[self.agent] = self.time
        return self.time


class MBarriers:
    """The mbarriers of a CTA, by their offset in shared memory; and those that a warp of it has initialised,
    and not fenced since.
    """

    def __init__(self, cta: CTA) -> None:
        self.at: dict[int, MBarrier] = {}
        self.unfenced: dict[Warp, list[MBarrier]] = {}


def mbarriers(cta: CTA) -> dict[int, MBarrier]:
    """The mbarriers of a CTA, by their offset in shared memory."""
    return cta.unit(MBarriers).at


def barrier_of(cluster: Cluster, agent: int) -> MBarrier | None:
    """The mbarrier that is this agent; None where a warp is."""
    return next((b for cta in cluster.ctas for b in mbarriers(cta).values() if b.agent == agent), None)


@dataclass(eq=False)
class PhaseWait(Wait):
    """A path at mbarrier.try_wait: ``parity`` awaited, or the phase that a state names."""

    expires = True
    barrier: MBarrier
    parity: int | None = None
    phase: int | None = None
    target: Reg | None = None
    mask: Mask = None
    acquires: bool = True

    def holds(self) -> bool:
        if self.phase is not None:
            return self.barrier.phase > self.phase
        return self.barrier.phase & 1 != self.parity

    def grant(self, path: Path, result: bool = True) -> None:
        if result:
            if self.acquires:
                path.warp.clock.join(self.barrier.clock)
            else:
                releases.wait_relaxed(path, self.barrier.clock)
            path.machine.probe.emit(WaitPassed(path, self))
        if self.target is not None:
            path.write(self.target.index, result, 1, self.mask)

    def expire(self, path: Path) -> None:
        """The time limit of try_wait: it returns false, and the program goes on."""
        self.barrier.waiting.remove(path)
        self.grant(path, False)


def find_barrier(path: Path, address: int, touches: bool = True) -> MBarrier:
    """The mbarrier at an address, or a fault. ``touches``: the path's warp uses it itself."""
    cta, offset = path.cta.cluster.cta_of(path, address)
    if offset % BYTES:
        path.halt("misaligned", "mbarrier not aligned", who=path.warp, offset=offset)
    barrier = mbarriers(cta).get(offset)
    if barrier is None:
        every = mbarriers(cta).values()
        path.halt("barrier-uninitialised", "no mbarrier here", about=every, cta=cta, offset=offset)
    path.machine.probe.emit(Named(path, barrier))
    if touches and cta is not path.cta:
        cta.cluster.touch(path, cta)
    return barrier


def _init(p: Path, m: Mask, address: Value, count: Value) -> None:
    """Each lane initialises the mbarrier at its address; lanes with the same address, one."""
    asked = {memory.pick(address, lane): memory.pick(count, lane) for lane in memory.lanes_of(m)}
    for at, arrivals in asked.items():
        cta, offset = p.cta.cluster.cta_of(p, at)
        if offset % BYTES or offset + BYTES > cta.shared.size:
            p.halt("misaligned", "init of an mbarrier not aligned", who=p.warp, offset=offset)
        if not 1 <= arrivals <= MAX_COUNT:
            p.halt("barrier-init-count", "arrivals of an init", who=p.warp, count=arrivals)
        barriers = mbarriers(cta)
        if (former := barriers.get(offset)) and (former.used or former.init[0] == p.warp.unit(Inits).agent):
            p.halt("barrier-init-again", "init of an mbarrier again", about=(former,), barrier=former)
        barrier = barriers[offset] = MBarrier(p, cta, offset, arrivals)
        p.cta.unit(MBarriers).unfenced.setdefault(p.warp, []).append(barrier)
        p.machine.probe.emit(Initialised(p, barrier))
        p.machine.progress += 1


def fence(p: Path) -> None:
    """Initialisations before this point become visible to TMA and, with a barrier, to the cluster."""
    for barrier in p.cta.unit(MBarriers).unfenced.pop(p.warp, ()):
        barrier.fenced = True
        p.warp.unit(Patterns).inits = barrier.init


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
            mbarriers(p.cta).pop(find_barrier(p, memory.pick(address, memory.lanes_of(m)[0])).offset)

        return Lowered("warp", invalidate, sources=((operands[0], 32),))
    if action in ("expect_tx", "complete_tx"):

        def bytes_only(p: Path, m: Mask, address: Value, count: Value) -> None:
            if action == "expect_tx":
                _each(p, m, address, count, lambda barrier, n: barrier.expect(p, n))
            else:
                _each(p, m, address, count, lambda barrier, n: barrier.landed(p, n, -1))

        return Lowered("warp", bytes_only, sources=((operands[0], 32), (operands[1], 32)), cut=True)
    if action == "pending_count":
        target, state = operands
        return Lowered("value", _pending_count, (target,), ((state, 64),))
    if action in ("arrive", "arrive_drop"):
        return _arrive(parts, operands)
    if action in ("try_wait", "test_wait"):
        return _wait(parts, operands)
    raise ValueError(f"mbarrier.{action}")


def _pending_count(state: Value) -> Value:
    """The arrivals that were pending before the one that returned this state."""
    return state & MAX_COUNT if state.__class__ is int else (state & np.uint64(MAX_COUNT)).astype(np.uint32)


def _arrive(parts: tuple[str, ...], operands: tuple[Any, ...]) -> Lowered:
    target, address, *rest = operands if len(operands) > 1 else (None, *operands)
    if len(rest) > 1:
        raise ValueError("another number of operands")
    expects, drops = "expect_tx" in parts, parts[1] == "arrive_drop"
    # PTX ISA, "mbarrier.arrive": without a scope it is .cta, and everybody arrives on other CTAs' so
    scope = next((SCOPES[p] for p in parts if p in SCOPES), CLUSTER_SCOPE)
    scope = 0 if "relaxed" in parts else scope

    def function(p: Path, m: Mask, a: Value, count: Value = 1) -> Any:
        state = []

        def one(barrier: MBarrier, n: int) -> None:
            lanes = len(memory.lanes_of(m)) if a.__class__ is int and count.__class__ is int else 1
            state.append(barrier.phase << COUNT_BITS | barrier.pending)
            if expects:
                barrier.expect(p, n)
                n = lanes
            if drops:
                barrier.count -= n
            barrier.arrive(p, n, scope)

        _each(p, m, a, count, one)
        return state[0]

    targets = () if target is None else (target,)
    return Lowered("warp", function, targets, ((address, 32), *((r, 32) for r in rest)), cut=True)


def _wait(parts: tuple[str, ...], operands: tuple[Any, ...]) -> Lowered:
    target, address, state, *_ = operands
    if isinstance(target, Vec):
        raise ValueError("a wait with two results")
    by_parity, polls, acquires = "parity" in parts, parts[1] == "test_wait", "relaxed" not in parts

    def function(p: Path, m: Mask, following: int, a: Value, value: Value) -> Any:
        lane = memory.lanes_of(m)[0]
        if a.__class__ is not int and ((a if m is None else a[m]) != a[lane]).any():
            p.halt("barrier-uninitialised", "lanes wait for different mbarriers", who=p.warp)
        barrier, value = find_barrier(p, memory.pick(a, lane)), memory.pick(value, lane)
        barrier.use(p)
        barrier.used = True
        parity, phase = (value & 1, None) if by_parity else (None, value >> COUNT_BITS)
        reason = PhaseWait(barrier, parity, phase, target, m, acquires)
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

    sources = (address, 32), (state, 32 if by_parity else 64)
    return Lowered("blocking", function, sources=sources, cut=True, hidden_writes=(target.index,))


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
            phase = target.load_issued(p, count)
            home, offset = p.cta.cluster.cta_of(p, memory.pick(a, lane))
            addresses.require_inside(p, home.shared, offset, count)
            for i, item in enumerate(v):
                home.shared.views[bits][offset // (bits // 8) + i] = memory.pick(item, lane)
            p.machine.probe.emit(StoredAsync(home.shared, offset, count, target, phase))
            for cta in dict.fromkeys((target.cta, home)):
                if cta is not p.cta:
                    p.machine.probe.emit(Touched(p, cta, target.agent, phase + 1))
            target.landed(p, count, phase)

    return Lowered(
        "warp", function, sources=((address, 32), (barrier, 32), *((v, bits) for v in values)), cut=True
    )
