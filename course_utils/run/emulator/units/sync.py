"""Where threads meet: named barriers of a CTA, the cluster's barrier, the register pool of setmaxnreg, and
the fence that makes what threads did visible to the async proxy.

PTX ISA, "bar, barrier", "barrier.cluster", "setmaxnreg", "fence.proxy.async".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.ptx.parser import Instr
from course_utils.run.emulator.core import memory, releases
from course_utils.run.emulator.core.order import CLUSTER_SCOPE, GPU_SCOPE, SCOPES, STARTED
from course_utils.run.emulator.core.releases import Patterns
from course_utils.run.emulator.core.state import Ends
from course_utils.run.emulator.core.threads import Wait
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value
from course_utils.run.emulator.units import mbarrier

if TYPE_CHECKING:
    from course_utils.run.emulator.core.order import Order
    from course_utils.run.emulator.core.threads import CTA, Cluster, Path, Warp


@dataclass(slots=True)
class Came:
    """A path comes to a named barrier of its CTA, and gives the ``count`` of threads that meet there (None:
    all of the CTA's).
    """

    path: Path
    number: int
    count: int | None


@dataclass(slots=True)
class BarrierJoined:
    """A path has arrived at a barrier of threads, and has not gone on."""

    path: Path
    barrier: ThreadBarrier


@dataclass(slots=True)
class BarrierPassed:
    """A path goes on from a barrier of threads: it knows what all who came there had done."""

    path: Path
    barrier: ThreadBarrier


@dataclass(slots=True)
class RegistersAsked:
    """setmaxnreg: a warp asks for ``count`` registers a thread, more (``grows``) or fewer than it has."""

    path: Path
    count: int
    grows: bool


@dataclass(slots=True)
class ProxyFenced:
    """fence.proxy.async, which covers shared memory."""

    path: Path


class ThreadBarrier:
    """A named barrier of a CTA, or the barrier of a cluster: threads arrive, and all of them go on
    together.
    """

    def __init__(self, order: Order, label: str) -> None:
        self.label, self.order = label, order
        self.arrived, self.generation = 0, 0
        self.expected: int | None = None
        self.waiting: list[Path] = []
        self.whole = False  # all threads meet here, so one that ends is no longer expected
        self.votes: Any = None  # those of a barrier.red (``barrier_red.Votes``)
        self.clock = order.clock()
        self.released = order.clock()

    def add(self, path: Path, threads: int, orders: bool = True) -> None:
        """``orders``: is what came before ordered before those who wait? Else only that it runs, what a
        fence has released, and mbarriers whose initialisation one has.
        """
        self.arrived += threads
        if orders:
            self.clock.join(path.warp.clock)
        else:
            patterns, seen = path.warp.unit(Patterns), self.clock.seen
            for clock in patterns.released(CLUSTER_SCOPE):
                self.clock.join(clock)
            for agent, time in filter(None, (patterns.inits, (path.warp.agent, STARTED))):
                seen[agent] = max(seen[agent], time)
        path.machine.probe.emit(BarrierJoined(path, self))
        path.warp.tick()
        path.machine.progress += 1

    def settle(self, path: Path, needed: int) -> None:
        if not self.arrived or self.arrived < needed:
            return
        if self.arrived > needed:
            case, count = "threads at a barrier", self.arrived
            path.report("named-barrier", case, count=count, barrier=self.label, needed=needed)
        self.released.join(self.clock)
        self.arrived, self.expected = 0, None
        self.generation += 1
        if self.votes is not None:
            self.votes.give()
            self.votes = None
        waiting, self.waiting = self.waiting, []
        for other in waiting:
            self.passed(other)
            other.wake()

    def passed(self, path: Path) -> None:
        """A path goes on."""
        path.warp.clock.join(self.released)
        path.machine.probe.emit(BarrierPassed(path, self))


class NamedBarriers(Ends):
    """The named barriers of a CTA, by their number."""

    def __init__(self, cta: CTA) -> None:
        self.cta, self.by_number = cta, dict[int, ThreadBarrier]()

    def at(self, number: int) -> ThreadBarrier:
        if number not in self.by_number:
            barrier = ThreadBarrier(self.cta.cluster.order, f"barrier {number} (bar.sync)")
            self.by_number[number] = barrier
        return self.by_number[number]

    def warp_ended(self, path: Path) -> None:
        for barrier in self.by_number.values():
            if barrier.arrived and barrier.whole:
                barrier.settle(path, self.cta.threads_left())


class ClusterBarrier(Ends):
    """The barrier of a cluster, and in which generation of it each warp arrived last."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.barrier = ThreadBarrier(cluster.order, "the cluster barrier")
        self.arrived_in: dict[Warp, int] = {}
        self.arrived: dict[Warp, np.ndarray] = {}  # lanes that have arrived, and not waited

    def warp_ended(self, path: Path) -> None:
        if self.cluster.warps_left:
            self.barrier.settle(path, self.cluster.threads_left())


@dataclass(eq=False)
class ThreadWait(Wait):
    barrier: ThreadBarrier
    needed: int


def _threads(path: Path, mask: Mask) -> int:
    """How many threads a path brings: hardware counts whole warps."""
    return LANES if mask is None or (mask == path.warp.alive).all() else int(mask.sum())


def cta_barrier(instruction: Instr) -> Lowered:
    parts, operands = instruction.opcode, instruction.operands
    action = next(p for p in parts if p in ("sync", "arrive"))
    if not 1 <= len(operands) <= 2:
        raise ValueError("another number of operands")

    # PTX ISA, "bar, barrier": bar is barrier.aligned, which all threads of a warp run together
    aligned = f"{parts[0]}.{action}" if parts[0] == "bar" or "aligned" in parts else ""

    def function(p: Path, m: Mask, following: int, number: Value, count: Value = None) -> int:
        if aligned and m is not None and not np.array_equal(m, p.warp.alive):
            all_lanes(p, m, aligned)
        lane = memory.lanes_of(m)[0]
        number = memory.pick(number, lane)
        count = None if count is None else memory.pick(count, lane)
        if not 0 <= number < 16 or (count is not None and (count % LANES or not count)):
            p.halt("named-barrier", "count of a named barrier", who=p.warp, number=number, count=count)
        barrier = p.cta.unit(NamedBarriers).at(number)
        expected = count or len(p.cta.warps) * LANES
        if barrier.arrived and barrier.expected != expected:
            case, others = "counts of a named barrier differ", barrier.expected
            p.report("named-barrier", case, who=p.warp, number=number, count=expected, others=others)
        barrier.expected, barrier.whole = expected, count is None
        barrier.add(p, _threads(p, m))
        p.machine.probe.emit(Came(p, number, count))
        needed = count or p.cta.threads_left()
        if action == "sync":
            barrier.waiting.append(p)
            p.wait(following, ThreadWait(barrier, needed))
        barrier.settle(p, needed)
        return -1 if action == "sync" else following

    return Lowered("blocking", function, sources=tuple((o, 32) for o in operands), cut=True)


_NO_LANES = np.zeros(LANES, np.bool_)


def cluster_barrier(instruction: Instr) -> Lowered:
    arrives, relaxed = "arrive" in instruction.opcode, "relaxed" in instruction.opcode

    def function(p: Path, m: Mask, following: int) -> int:
        state = p.cta.cluster.unit(ClusterBarrier)
        barrier = state.barrier
        lanes, before = p.lanes(), state.arrived.get(p.warp, _NO_LANES)
        if (before & lanes).any() if arrives else (lanes & ~before).any():
            case = "arrives again at the cluster barrier" if arrives else "waits without having arrived"
            p.report("cluster-barrier", case, who=p.warp)
        state.arrived[p.warp] = before | lanes if arrives else before & ~lanes
        if arrives:
            state.arrived_in[p.warp] = barrier.generation
            barrier.add(p, _threads(p, m), not relaxed)
            barrier.settle(p, p.cta.cluster.threads_left())
            return following
        if barrier.generation > state.arrived_in.get(p.warp, 0):
            barrier.passed(p)
            return following
        barrier.waiting.append(p)
        return p.wait(following, ThreadWait(barrier, p.cta.cluster.threads_left()))

    return Lowered("blocking", function, cut=True)


# Registers


class RegisterPool:
    """The registers of a CTA that no warp holds, none at launch, and how many a thread of each warp has.
    ``ignored``: has ptxas left setmaxnreg out, as it does where the launch's registers are not known?
    """

    def __init__(self, cta: CTA) -> None:
        artifact = cta.machine.artifact
        self.given, self.free = artifact.launch_registers, 0
        self.assembled = artifact.resources.registers > 0
        self.ignored = any("setmaxnreg" in text for text in artifact.resources.warnings)
        self.waiting: list[Path] = []
        self._held: dict[Warp, int] = {}

    def held(self, warp: Warp) -> int:
        return self._held.get(warp, self.given)

    def need(self, warp: Warp, count: int) -> int:
        """How many more its threads then take."""
        return (count - self.held(warp)) * LANES

    def take(self, warp: Warp, count: int) -> None:
        self.free -= self.need(warp, count)
        self._held[warp] = count


@dataclass(eq=False)
class RegisterWait(Wait):
    wanted: int


def set_registers(instruction: Instr) -> Lowered:
    grows, count = ("dec", "inc").index(instruction.opcode[1]) == 1, instruction.operands[0].value

    def function(p: Path, m: Mask, following: int) -> int:
        pool = p.cta.unit(RegisterPool)
        if count % 8 or not 24 <= count <= 256:
            p.report("setmaxnreg-count", "registers asked for", who=p.warp, count=count)
        p.machine.probe.emit(RegistersAsked(p, count, grows))
        if pool.ignored:
            return following
        held = pool.held(p.warp)
        if pool.assembled and (count < held if grows else count > held):
            values = {"count": count, "held": held, "way": instruction.opcode[1]}
            p.report("setmaxnreg-count", "registers the other way", who=p.warp, **values)
            return following
        if grows and pool.need(p.warp, count) > pool.free:
            pool.waiting.append(p)
            return p.wait(following, RegisterWait(count))
        pool.take(p.warp, count)
        p.machine.progress += 1
        for other in list(pool.waiting):
            wanted = other.waits_for.wanted
            if pool.need(other.warp, wanted) <= pool.free:
                pool.waiting.remove(other)
                pool.take(other.warp, wanted)
                other.wake()
        return following

    return Lowered("blocking", function, cut=True)


def proxy_fence(instruction: Instr) -> Lowered:
    """One that names a state space covers only that."""
    space = instruction.opcode[-1]
    of_shared, of_global = space != "global", not space.startswith("shared")

    def function(p: Path, m: Mask) -> None:
        if of_shared:
            p.machine.probe.emit(ProxyFenced(p))
            mbarrier.fence(p)
        p.warp.fence_proxy(of_shared, of_global)

    return Lowered("warp", function, cut=True)


_LEVELS = {**SCOPES, "gl": GPU_SCOPE}


def fence(instruction: Instr) -> Lowered:
    """fence and membar: what orders through relaxed operations beside it."""
    parts = instruction.opcode
    scope = next(_LEVELS[p] for p in reversed(parts) if p in _LEVELS)
    acquires, released = "release" not in parts, "acquire" not in parts
    return Lowered("warp", lambda p, m: releases.fence(p, scope, acquires, released))


def all_lanes(path: Path, mask: Mask, what: str) -> None:
    """Raise a fault where an instruction that a whole warp must run together has only some of its lanes.
    Those that have returned do not count, those that a branch took past it do.
    """
    if mask is not None and not np.array_equal(mask, path.warp.alive | path.warp.gone):
        path.halt("aligned", "some lanes alone", who=path.warp, what=what, lanes=int(mask.sum()))
