"""Where threads meet: named barriers of a CTA, the cluster's barrier, and the register pool of setmaxnreg.

PTX ISA, "bar, barrier", "barrier.cluster", "setmaxnreg".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from course_utils.ptx.parser import Instr
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.core.warp import Wait
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import CTA
    from course_utils.run.emulator.core.order import Order
    from course_utils.run.emulator.core.warp import Path, Warp


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
        # by the instruction and the count that it gives: who has come
        self.came: dict[tuple[int, int], set[Warp]] = {}
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
            path.report(
                "named-barrier", "threads at a barrier", count=self.arrived, barrier=self.label, needed=needed
            )
        self.released.join(self.clock)
        self.arrived, self.expected = 0, None
        self.generation += 1
        waiting, self.waiting = self.waiting, []
        for other in waiting:
            other.warp.clock.join(self.released)
            other.warp.rounds += 1
            other.wake()


class ThreadWait(Wait):
    def __init__(self, barrier: ThreadBarrier, needed: int) -> None:
        self.barrier, self.needed = barrier, needed


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
        barrier = p.cta.named_barrier(number)
        expected = count or len(p.cta.warps) * LANES
        if barrier.arrived and barrier.expected != expected:
            p.report(
                "named-barrier",
                "counts of a named barrier differ",
                who=p.warp,
                number=number,
                count=expected,
                others=barrier.expected,
            )
        barrier.expected, barrier.whole = expected, count is None
        barrier.add(p, _threads(p, m))
        if count is not None:
            barrier.came.setdefault((p.at, count), set()).add(p.warp)
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
        barrier = p.cta.cluster.barrier
        if arrives:
            p.warp.cluster_generation = barrier.generation
            barrier.add(p, _threads(p, m))
            barrier.settle(p, p.cta.cluster.threads_left())
            return following
        if barrier.generation > p.warp.cluster_generation:
            p.warp.clock.join(barrier.released)
            return following
        barrier.waiting.append(p)
        return p.wait(following, ThreadWait(barrier, p.cta.cluster.threads_left()))

    return Lowered("blocking", function, cut=True)


# Registers


class RegisterWait(Wait):
    def __init__(self, wanted: int) -> None:
        self.wanted = wanted


def set_registers(instruction: Instr) -> Lowered:
    grows, count = instruction.opcode[1] == "inc", instruction.operands[0].value

    def function(p: Path, m: Mask, following: int) -> int:
        warp, cta = p.warp, p.cta
        if count % 8 or not 24 <= count <= 256:
            p.report("setmaxnreg-count", "registers asked for", who=p.warp, count=count)
        p.machine.facts.registers(p, grows)
        p.machine.trace.note("registers", p, count)
        need = (count - warp.register_count) * LANES
        if grows and need > cta.registers_free:
            cta.register_waiters.append(p)
            return p.wait(following, RegisterWait(count))
        _take(cta, warp, count)
        p.machine.progress += 1
        for other in list(cta.register_waiters):
            wanted = other.waits_for.wanted
            if (wanted - other.warp.register_count) * LANES <= cta.registers_free:
                cta.register_waiters.remove(other)
                _take(cta, other.warp, wanted)
                other.wake()
        return following

    return Lowered("blocking", function, cut=True)


def _take(cta: CTA, warp: Warp, count: int) -> None:
    cta.registers_free -= (count - warp.register_count) * LANES
    warp.register_count = count


def all_lanes(path: Path, mask: Mask, what: str) -> None:
    """Raise a fault where an instruction that a whole warp must run together has only some of its lanes."""
    if mask is not None and not np.array_equal(mask, path.warp.alive):
        path.alone("aligned", f"{path.name()} runs {what} with {int(mask.sum())} of its 32 lanes")
