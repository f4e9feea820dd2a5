"""Where threads meet: named barriers of a CTA, the cluster's barrier, the register pool of setmaxnreg, and
the fence that makes what threads did visible to the async proxy.

PTX ISA, "bar, barrier", "barrier.cluster", "setmaxnreg", "fence.proxy.async".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from course_utils.ptx.parser import Instr
from course_utils.run.emulator.core import memory
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
        self.clock = order.clock()
        self.released = order.clock()

    def add(self, path: Path, threads: int) -> None:
        self.arrived += threads
        self.clock.join(path.warp.clock)
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
        waiting, self.waiting = self.waiting, []
        for other in waiting:
            other.warp.clock.join(self.released)
            other.wake()


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
    action = next((p for p in parts if p in ("sync", "arrive", "red")), None)
    if action not in ("sync", "arrive"):
        raise ValueError("bar.red")

    def function(p: Path, m: Mask, following: int, number: Value, count: Value = None) -> int:
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


def cluster_barrier(instruction: Instr) -> Lowered:
    arrives = "arrive" in instruction.opcode

    def function(p: Path, m: Mask, following: int) -> int:
        state = p.cta.cluster.unit(ClusterBarrier)
        barrier = state.barrier
        if arrives:
            state.arrived_in[p.warp] = barrier.generation
            barrier.add(p, _threads(p, m))
            barrier.settle(p, p.cta.cluster.threads_left())
            return following
        if barrier.generation > state.arrived_in.get(p.warp, 0):
            p.warp.clock.join(barrier.released)
            return following
        barrier.waiting.append(p)
        return p.wait(following, ThreadWait(barrier, p.cta.cluster.threads_left()))

    return Lowered("blocking", function, cut=True)


# Registers


class RegisterPool:
    """The registers of a CTA that no warp holds, and how many a thread of each warp has."""

    def __init__(self, cta: CTA) -> None:
        artifact = cta.machine.artifact
        given = artifact.resources.registers if artifact.resources else 0
        self.given = -(-max(given, 8) // 8) * 8
        self.free = artifact.chip.cta_registers - self.given * artifact.threads
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
    grows, count = instruction.opcode[1] == "inc", instruction.operands[0].value

    def function(p: Path, m: Mask, following: int) -> int:
        pool = p.cta.unit(RegisterPool)
        if count % 8 or not 24 <= count <= 256:
            p.report("setmaxnreg-count", "registers asked for", who=p.warp, count=count)
        p.machine.probe.emit(RegistersAsked(p, count, grows))
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
    """Only fences that cover shared memory count; one of global memory alone orders nothing that is tracked
    here.
    """
    if instruction.opcode[-1] == "global":
        return Lowered("nothing")

    def function(p: Path, m: Mask) -> None:
        p.machine.probe.emit(ProxyFenced(p))
        mbarrier.fence(p)
        p.warp.fence_proxy()

    return Lowered("warp", function, cut=True)


def all_lanes(path: Path, mask: Mask, what: str) -> None:
    """Raise a fault where an instruction that a whole warp must run together has only some of its lanes."""
    if mask is not None and not np.array_equal(mask, path.warp.alive):
        path.halt("aligned", "some lanes alone", who=path.warp, what=what, lanes=int(mask.sum()))
