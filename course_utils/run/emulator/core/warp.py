"""Warps, and the paths that a warp splits into where its lanes disagree on a branch.

PTX ISA, "SIMT Architecture" and "Independent Thread Scheduling". A warp begins as one path with all lanes. A
branch on which lanes differ suspends the path and makes two, which are scheduled on their own and end where
the branch's immediate postdominator begins; then the suspended path goes on there. So one lane may wait for
what another lane of its warp does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from course_utils.run.emulator.core.memory import Region
from course_utils.run.emulator.core.order import AGENT_BITS
from course_utils.run.emulator.core.probe import Hazard, StopEmulation, WaitBegan, WaitEnded
from course_utils.run.emulator.core.state import Holder
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.isa.lowered import Mask, Value
from course_utils.run.emulator.isa.registers import merge

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import CTA

STOP = -1  # what a segment returns in place of a next instruction: the path waits, or has ended
_ALL = b"\1" * LANES
_NONE = b"\0" * LANES
_EVERY = np.ones(LANES, np.bool_)


class Wait:
    """What a path waits for; the unit whose it is wakes the path. ``expires``: may the wait also end in vain,
    as try_wait does? Then ``expire`` tells the program so.
    """

    expires = False

    def expire(self, path: Path) -> None:
        raise NotImplementedError


class Warp(Holder):
    """32 lanes: registers, the warp's clock, and what of its asynchronous work is not waited for yet."""

    def __init__(self, cta: CTA, index: int, special: dict) -> None:
        super().__init__()
        program = cta.machine.program
        self.cta, self.index, self.special = cta, index, special
        self.registers: list[Any] = [None] * len(program.kernel.widths)
        # of a register computed from one that nothing has written: that one, and who used it first
        self.undefined: dict[int, tuple[int, int]] = {}
        self.agent = cta.cluster.order.new_agent()
        self.clock = cta.cluster.order.clock()
        self.time = 0
        self.tick()
        self.alive = _EVERY.copy()
        self.running = 1  # paths of this warp that have not ended
        self.local_size = program.local_size
        self._local: Region | None = None

    def tick(self) -> None:
        """The warp's clock goes on: what it does from here on is not covered by what it has released so
        far.
        """
        self.time += 1
        self.clock.seen[self.agent] = self.time
        self.code = self.time << AGENT_BITS | self.agent

    def fence_proxy(self) -> None:
        """Everything ordered before this point becomes visible to the async proxy ("fence.proxy.async")."""
        self.clock.fenced[:] = self.clock.seen
        self.tick()

    def local_memory(self) -> Region:
        if self._local is None:
            self._local = Region("local memory", np.zeros(self.local_size * LANES, np.uint8))
        return self._local


class Path:
    """Lanes of one warp that run together. ``mask`` is None where they are all 32."""

    # fmt: off
    __slots__ = (
        "warp", "cta", "machine", "mask", "pc", "at", "parent", "children", "reconverge", "protect",
        "protected", "waits_for", "stamp", "woken", "began", "slow", "parted",
    )
    # fmt: on

    def __init__(
        self,
        warp: Warp,
        pc: int,
        mask: Mask = None,
        parent: Path | None = None,
        reconverge: int = -2,
        protected: int = 0,
    ) -> None:
        self.warp, self.cta, self.machine = warp, warp.cta, warp.cta.machine
        self.pc, self.at, self.mask, self.parent, self.reconverge = pc, pc, mask, parent, reconverge
        self.children, self.protected = 0, protected
        self.protect = self.machine.program.register_set(protected) if mask is not None else None
        self.waits_for: Any = None  # a Wait
        self.woken: object = None  # what has set it going, until it runs
        self.stamp, self.began, self.slow = -1, 0, False
        self.parted = -1  # the branch at which these lanes left the others

    def report(
        self,
        kind: str,
        case: str,
        at: int | None = None,
        about: Iterable[Any] = (),
        notes: Iterable[tuple[str, dict[str, Any]]] = (),
        **values: Any,
    ) -> None:
        """Emit a ``Hazard`` that this path has met: see there."""
        where = self.at if at is None else at
        self.machine.probe.emit(Hazard(self, kind, case, where, values, tuple(about), tuple(notes)))

    def halt(self, kind: str, case: str, **details: Any) -> NoReturn:
        """The same of one after which the hardware would not go on. Raises StopEmulation."""
        self.report(kind, case, **details)
        raise StopEmulation

    def endless(self) -> NoReturn:
        """This path comes to code that no end of the kernel can be reached from."""
        self.pc = self.at
        self.halt("livelock", "endless loop", who=self.warp)

    def lanes(self) -> np.ndarray:
        return _EVERY if self.mask is None else self.mask

    def write(self, register: int, value: Value, width: int, mask: Mask) -> None:
        """A register write from outside generated code, merged under the path's mask."""
        registers = self.warp.registers
        registers[register] = value if mask is None else merge(registers[register], value, mask, width)

    def wait(self, resume: int, reason: Wait) -> int:
        """Stop here until ``reason`` holds; the machine sets the path going again at ``resume``."""
        self.pc, self.waits_for, self.began = resume, reason, self.machine.executed
        self.machine.waiting[self] = None
        self.machine.probe.emit(WaitBegan(self, reason))
        return STOP

    def wake(self, by: object = None) -> None:
        """Its wait is over, through ``by``."""
        self.woken = by
        self.machine.waiting.pop(self, None)
        self.machine.probe.emit(WaitEnded(self, self.waits_for))
        self.waits_for = None
        self.machine.ready.append(self)

    def branch(self, predicate: np.ndarray, taken: int, other: int, branch: int) -> int:
        """A branch on a predicate whose lanes may differ.

        Returns the next instruction, or STOP after a split.
        """
        if self.mask is None:
            lanes = predicate.tobytes()
            if lanes == _ALL:
                return taken
            if lanes == _NONE:
                return other
            yes, no = predicate, ~predicate
        else:
            yes, no = predicate & self.mask, ~predicate & self.mask
            if no.tobytes() == _NONE:
                return taken
            if yes.tobytes() == _NONE:
                return other
        machine = self.machine
        meet, protect_yes, protect_no = machine.program.divergence(branch, taken, other)
        self.pc, self.children = meet, 2
        self.warp.running += 1
        for mask, start, protect in ((yes, taken, protect_yes), (no, other, protect_no)):
            child = Path(self.warp, start, mask, self, meet, self.protected | protect)
            child.slow, child.parted = self.slow, branch
            if start == meet:
                child.rejoin()
            else:
                machine.ready.append(child)
        return STOP

    def rejoin(self) -> None:
        """This path has reached its reconvergence point, or all its lanes have exited."""
        parent = self.parent
        assert parent is not None  # only a branch sets a point to meet at
        parent.children -= 1
        self.warp.running -= 1
        if parent.children == 0:
            self.warp.running += 1
            alive = self.warp.alive
            if alive.tobytes() != _ALL:
                parent.mask = alive & parent.lanes()
                if parent.protect is None:
                    parent.protect = self.machine.program.register_set(parent.protected)
            if parent.mask is not None and parent.mask.tobytes() == _NONE or parent.pc < 0:
                parent.end()
            elif parent.pc == parent.reconverge:
                parent.rejoin()
            else:
                self.machine.ready.append(parent)

    def end(self) -> int:
        """The path is over: nothing of it goes on."""
        if self.parent is not None:
            self.rejoin()
        else:
            self.warp.running -= 1
            self.cta.ended(self)
        return STOP

    def exit(self, mask: Mask) -> int:
        """ret and exit of all lanes of this path."""
        self.warp.alive &= ~self.lanes()
        return self.end()

    def exit_some(self, predicate: np.ndarray, following: int) -> int:
        """A guarded exit on which lanes differ."""
        gone = predicate & self.lanes()
        self.warp.alive &= ~gone
        self.mask = self.lanes() & ~gone
        if self.protect is None:
            self.protect = self.machine.program.register_set(self.protected)
        if not self.mask.any():
            return self.end()
        self.pc = following
        self.machine.ready.append(self)
        return STOP
