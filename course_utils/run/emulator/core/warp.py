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
from course_utils.run.emulator.explain import names
from course_utils.run.emulator.isa.arithmetic import LANES, UNSIGNED
from course_utils.run.emulator.isa.lowered import Mask, Value

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import CTA
    from course_utils.run.emulator.explain.findings import Detail, Finding
    from course_utils.run.emulator.units.mbarrier import MBarrier

STOP = -1  # what a segment returns in place of a next instruction: the path waits, or has ended
_ALL = b"\1" * LANES
_NONE = b"\0" * LANES


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
        self.alive = np.ones(LANES, np.bool_)
        self.running = 1  # paths of this warp that have not ended
        self.register_count = cta.machine.registers
        self.loads = 0  # TMA loads issued
        self.cluster_generation = 0
        self.unfenced_barriers: list[MBarrier] = []
        self.kind: str | None = None
        self.seen_at: int | None = None  # where a path of it waited last, or was named
        self.waited: tuple[MBarrier, int] | None = None  # its last wait that passed, and the instruction
        self.takes: list[tuple[MBarrier, int]] = []  # all of those
        self.rounds = 0  # its waits that have passed, for mbarriers and other threads
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
        for barrier in self.unfenced_barriers:
            barrier.fenced = True
        self.unfenced_barriers.clear()
        self.tick()

    def local_memory(self) -> Region:
        if self._local is None:
            self._local = Region("local memory", np.zeros(self.local_size * LANES, np.uint8))
        return self._local

    def role(self) -> str:
        """What this warp does: by what it has issued, or else by what it can still reach from where it was
        last seen.
        """
        if self.kind is None:
            return "" if self.seen_at is None else self._kind(self.seen_at)
        return self.kind

    def issues(self, at: int) -> None:
        """The warp's first TMA load or wgmma says what its role is: both lie in one loop unless the roles are
        split.
        """
        if self.kind is None:
            self.kind = self._kind(at)

    def _kind(self, pc: int) -> str:
        ahead = self.cta.machine.program.abilities(pc)
        if "wgmma" in ahead:
            return "worker" if "load" in ahead else "consumer"
        return "producer" if "load" in ahead else "storing" if "store" in ahead else ""


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
        self.woken: MBarrier | None = None  # whose phase's end has set it going, until it runs
        self.stamp, self.began, self.slow = -1, 0, False
        self.parted = -1  # the branch at which these lanes left the others

    def name(self) -> str:
        self.warp.seen_at = self.pc
        return names.of_warps([self.warp], self.cta)

    def names(self, warps: Iterable[Warp]) -> str:
        """Warps beside this one, as ``name`` calls one."""
        self.warp.seen_at = self.pc
        return names.of_warps(warps, self.cta)

    def report(
        self,
        kind: str,
        case: str,
        at: int | None = None,
        about: Iterable[MBarrier] = (),
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

    def find(
        self,
        kind: str,
        detail: Detail,
        barriers: Iterable[MBarrier] = (),
        more: tuple[str, ...] = (),
        at: int | None = None,
        plain: str = "",
    ) -> Finding:
        return self.machine.findings.add(
            kind, self.at if at is None else at, detail, barriers=barriers, more=more, plain=plain
        )

    def fault(
        self, kind: str, detail: Detail, barriers: Iterable[MBarrier] = (), more: tuple[str, ...] = ()
    ) -> NoReturn:
        """A finding after which the hardware would not go on."""
        self.find(kind, detail, barriers, more)
        raise StopEmulation

    def alone(self, kind: str, detail: str) -> NoReturn:
        """A fault of lanes that run without the others what all have to run together; the branch where they
        parted is to blame where the compiler added the instruction.
        """
        findings = self.machine.findings
        branch, here = findings.place(self.parted), findings.place(self.at)
        if self.parted >= 0 and here.added and not branch.added and branch.line:
            self.at, text = self.parted, f"what they run alone: {here}"
        else:
            text = f"the lanes part at {branch}" if self.parted >= 0 else ""
        self.fault(kind, detail, more=(text,) if text else ())

    def endless(self) -> NoReturn:
        """This path comes to code that no end of the kernel can be reached from."""
        self.pc, findings = self.at, self.machine.findings
        loop = findings.loop_of(self.machine.program.reached(self.at))
        if loop is None:
            self.fault("livelock", f"{self.name()} comes to a loop that nothing ends")
        origin, condition = loop
        changes = f"nothing in it changes `{condition}`" if condition else "nothing in it ends it"
        text = f"{self.name()} never leaves this loop: {changes}"
        findings.add("livelock", self.at, text, origin=origin)
        raise StopEmulation

    def lanes(self) -> np.ndarray:
        return np.ones(LANES, np.bool_) if self.mask is None else self.mask

    def write(self, register: int, value: Value, width: int, mask: Mask) -> None:
        """A register write from outside generated code, merged under the path's mask."""
        registers = self.warp.registers
        registers[register] = value if mask is None else merge(registers[register], value, mask, width)

    def wait(self, resume: int, reason: Wait) -> int:
        """Stop here until ``reason`` holds; the machine sets the path going again at ``resume``."""
        self.pc, self.waits_for, self.began = resume, reason, self.machine.executed
        self.warp.seen_at = resume
        self.machine.waiting[self] = None
        self.machine.probe.emit(WaitBegan(self, reason))
        return STOP

    def wake(self) -> None:
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
            if not no.any():
                return taken
            if not yes.any():
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
            if not alive.all():
                parent.mask = alive & parent.lanes()
                if parent.protect is None:
                    parent.protect = self.machine.program.register_set(parent.protected)
            if parent.mask is not None and not parent.mask.any() or parent.pc < 0:
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


def both(predicate: np.ndarray, mask: Mask) -> np.ndarray | bool:
    """The lanes of ``mask`` (None: all) where a guard holds; False where there are none."""
    lanes = predicate if mask is None else predicate & mask
    return lanes if lanes.any() else False


def merge(old: Any, new: Any, mask: Mask, width: int) -> Value:
    """A register after a write by some lanes only."""
    if mask is None or old is None or old is new:
        return new
    if old.__class__ is new.__class__ and old.__class__ in (int, bool) and old == new:
        return new
    result: np.ndarray = np.empty(LANES, UNSIGNED[max(width, 16)] if width > 1 else np.bool_)
    result[:] = old
    result[mask] = new[mask] if isinstance(new, np.ndarray) else new
    return result
