"""Clusters, their CTAs and warps, and the paths that a warp splits into where its lanes disagree.

PTX ISA, "Programming Model": "Cluster of Cooperative Thread Arrays", "Special Registers", "SIMT
Architecture", "Independent Thread Scheduling". A warp begins as one path with all lanes. A branch on which
lanes differ suspends the path and makes two, which are scheduled on their own and end where the branch's
immediate postdominator begins; then the suspended path goes on there. So one lane may wait for what another
lane of its warp does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from course_utils.run.emulator.core import memory
from course_utils.run.emulator.core.machine import Machine
from course_utils.run.emulator.core.memory import Region
from course_utils.run.emulator.core.order import AGENT_BITS, STARTED, Order
from course_utils.run.emulator.core.probe import StopEmulation
from course_utils.run.emulator.core.state import Holder
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.isa.lowered import Mask, Value
from course_utils.run.emulator.isa.registers import merge
from course_utils.run.emulator.isa.translate import FIXED

STOP = -1  # what a segment returns in place of a next instruction: the path waits, or has ended
_ALL = b"\1" * LANES
_NONE = b"\0" * LANES


@dataclass(slots=True)
class Hazard:
    """What a unit must not pass over: a fault of the program, of a ``kind`` and ``case``, met by ``path`` at
    instruction ``at`` (-1: none). ``values`` are numbers, texts, warps, mbarriers and ``At``; ``about`` are
    the mbarriers that it concerns; ``notes`` are further cases with their values, a sentence each.
    """

    path: Path
    kind: str
    case: str
    at: int
    values: dict[str, Any]
    about: tuple[Any, ...] = ()
    notes: tuple[tuple[str, dict[str, Any]], ...] = ()


@dataclass(slots=True)
class WaitBegan:
    """A path stops and waits for ``reason``; it stands at the instruction to go on at."""

    path: Path
    reason: Wait


@dataclass(slots=True)
class WaitEnded:
    """A path that waited goes on; ``path.began`` says since when it stood."""

    path: Path
    reason: Wait


@dataclass(slots=True)
class WarpEnded:
    """The last path of a warp has ended."""

    path: Path


@dataclass(slots=True)
class CtaEnded:
    """The last warp of a CTA has ended, with ``path``: its shared memory is no more."""

    path: Path
    cta: CTA


@dataclass(slots=True)
class Touched:
    """A path uses the shared memory of ``cta``, another one of its cluster. ``agent`` and its ``time`` are
    who must be seen to be done before that CTA may end: the path's warp, or the mbarrier that is signalled.
    """

    path: Path
    cta: CTA
    agent: int
    time: int


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
        self.time = STARTED
        self.tick()
        self.alive = _EVERY.copy()
        self.gone = np.zeros(LANES, np.bool_)  # lanes that a branch took to the end
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

    def fence_proxy(self, of_shared: bool = True, of_global: bool = True) -> None:
        """Everything ordered before this point becomes visible to the async proxy ("fence.proxy.async")."""
        clock = self.clock
        if of_shared:
            clock.fenced[:] = clock.seen
        if of_global:
            clock.raise_to("fenced_global")
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
        "held",
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
        self.stamp, self.began, self.slow, self.held = -1, 0, False, False
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
            child.slow, child.held, child.parted = self.slow, self.held, branch
            if start == meet:
                child.met()
            else:
                machine.ready.append(child)
        return STOP

    def met(self) -> None:
        """This path has reached its reconvergence point. Where that is the end, its lanes are there, and
        nobody waits for them.
        """
        if self.reconverge in self.machine.program.exits:
            self.at = self.reconverge
            self.warp.gone |= self.lanes()
            self.exit(None)
        else:
            self.rejoin()

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


class Cluster(Holder):
    """The CTAs that share a cluster barrier and see each other's shared memory, with their clocks."""

    def __init__(self, machine: Machine, origin: tuple[int, int, int]) -> None:
        super().__init__()
        artifact = machine.artifact
        cx, cy, cz = artifact.cluster
        self.machine, self.size = machine, cx * cy * cz
        warps = -(-artifact.threads // LANES)
        gx, gy, _ = artifact.grid
        self.order = Order(self.size * warps, origin[0] + gx * (origin[1] + gy * origin[2]))
        self.warps_left = self.warps_end = self.size * warps
        places = [(x, y, z) for z in range(cz) for y in range(cy) for x in range(cx)]
        self.ctas = [CTA(machine, self, rank, origin, place) for rank, place in enumerate(places)]
        for cta in self.ctas:
            cta.start()

    def cta_of(self, path: Path, address: int) -> tuple[CTA, int]:
        """(CTA, byte offset) of a shared::cluster address.

        A fault where there is no such CTA, or it has ended.
        """
        if address >= memory.GENERIC_SHARED:
            address -= memory.GENERIC_SHARED
        rank, offset = address >> memory.RANK_SHIFT, (address & 0xFFFFFF) - memory.SHARED_BASE
        if rank >= self.size:
            path.halt(
                "cluster-rank",
                "no CTA of this rank",
                who=path.warp,
                address=f"{address:#x}",
                rank=rank,
                size=self.size,
            )
        cta = self.ctas[rank]
        if cta.exited:
            path.halt("cluster-exit", "CTA has ended", who=path.warp, cta=cta.number)
        return cta, offset

    def shared_of(self, path: Path, address: int) -> tuple[memory.SharedMemory, int]:
        cta, offset = self.cta_of(path, address)
        if cta is not path.cta:
            self.touch(path, cta)
        return cta.shared, address - offset

    def touch(self, path: Path, cta: CTA) -> None:
        """A path uses the shared memory of another CTA, which must run by then. PTX ISA, "Cluster of
        Cooperative Thread Arrays".
        """
        seen = path.warp.clock.seen
        if not any(seen[warp.agent] for warp in cta.warps):
            path.report("cluster-start", "a CTA may not run yet", who=path.warp, cta=cta.number)
        path.machine.probe.emit(Touched(path, cta, path.warp.agent, path.warp.time))

    def threads_left(self) -> int:
        return self.warps_left * LANES


class Specials:
    """Special registers and addresses that are the same in all CTAs of a launch, and those of each warp."""

    def __init__(self, machine: Machine) -> None:
        artifact = machine.artifact
        cluster, (bx, by, bz) = artifact.cluster, artifact.block
        self.launch: dict[str, Any] = {
            "%cluster_nctarank": cluster[0] * cluster[1] * cluster[2],
            "%dynamic_smem_size": artifact.dynamic_shared,
            "%total_smem_size": machine.shared_size,
            "%nsmid": artifact.chip.sms,
            "%nwarpid": 64,
            "%gridid": 0,
            "%is_explicit_cluster": cluster[0] * cluster[1] * cluster[2] > 1,
            **_LANE_SPECIALS,
        }
        for axis, name in enumerate("xyz"):
            self.launch[f"%nctaid.{name}"] = artifact.grid[axis]
            self.launch[f"%ntid.{name}"] = artifact.block[axis]
            self.launch[f"%nclusterid.{name}"] = artifact.grid[axis] // cluster[axis]
            self.launch[f"%cluster_nctaid.{name}"] = cluster[axis]
        self.shared: dict[str, int] = {}  # where each shared variable begins in its CTA's memory
        for name, value in machine.symbols.items():
            if isinstance(value, int):
                self.launch[name] = value
            else:
                self.shared[name] = value[1]
        # what fixed registers hold, by the CTA's rank and the warp's number (``translate.Program``)
        self.fixed: dict[tuple[int, int], dict[int, Any]] = {}
        self.warps: list[dict[str, Any]] = []
        for index in range(-(-artifact.threads // LANES)):
            thread = np.arange(index * LANES, (index + 1) * LANES, dtype=np.uint32)
            self.warps.append(
                {
                    "%warpid": index,
                    "%tid.x": thread % np.uint32(bx) if by * bz > 1 else thread,
                    "%tid.y": thread // np.uint32(bx) % np.uint32(by) if by > 1 else 0,
                    "%tid.z": thread // np.uint32(bx * by) if bz > 1 else 0,
                }
            )


class CTA(Holder):
    def __init__(
        self,
        machine: Machine,
        cluster: Cluster,
        rank: int,
        origin: tuple[int, int, int],
        place: tuple[int, int, int],
    ) -> None:
        super().__init__()
        self.machine, self.cluster, self.rank = machine, cluster, rank
        self.place = tuple(o + p for o, p in zip(origin, place, strict=True))
        self.place_in_cluster = place
        gx, gy, _ = machine.artifact.grid
        self.number = self.place[0] + gx * (self.place[1] + gy * self.place[2])
        self.shared = machine.shared_memory(rank)
        self.warps: list[Warp] = []
        self.exited = False
        self.left = -(-machine.artifact.threads // LANES)

    def start(self) -> None:
        """Make the warps, with their special registers."""
        machine, artifact = self.machine, self.machine.artifact
        specials = machine.unit(Specials)
        own = specials.launch | {"%cluster_ctarank": self.rank, "%smid": self.number % artifact.chip.sms}
        for axis, (name, place, c) in enumerate(zip("xyz", self.place, artifact.cluster, strict=True)):
            own[f"%ctaid.{name}"] = place
            own[f"%clusterid.{name}"] = place // c
            own[f"%cluster_ctaid.{name}"] = self.place_in_cluster[axis]
        window = self.rank << memory.RANK_SHIFT | memory.SHARED_BASE
        for name, offset in specials.shared.items():
            own[name] = offset + window
        for index, threads in enumerate(specials.warps):
            fixed = specials.fixed.setdefault((self.rank, index), {})
            warp = Warp(self, index, own | threads | {FIXED: fixed})
            self.warps.append(warp)
            mask = None
            if (index + 1) * LANES > artifact.threads:
                mask = np.arange(index * LANES, (index + 1) * LANES) < artifact.threads
                warp.alive = mask.copy()
            path = Path(warp, 0, mask)
            path.slow = machine.choose(machine.schedule.slow_share)
            path.held = machine.schedule.holds(self.rank, self.cluster.size, index, len(specials.warps))
            machine.ready.append(path)

    def threads_left(self) -> int:
        return self.left * LANES

    def ended(self, path: Path) -> None:
        """The last path of a warp of this CTA has ended."""
        warp = path.warp
        self.left -= 1
        self.cluster.warps_left -= 1
        self.machine.progress += 1
        warp.warp_ended(path)
        self.machine.probe.emit(WarpEnded(path))
        if self.left == 0:
            self._end(path)
        self.warp_ended(path)
        self.cluster.warp_ended(path)

    def _end(self, path: Path) -> None:
        self.exited = True
        self.machine.probe.emit(CtaEnded(path, self))


_lane = np.arange(LANES, dtype=np.uint32)
_LANE_SPECIALS = {
    "%laneid": _lane,
    "%lanemask_eq": np.uint32(1) << _lane,
    "%lanemask_lt": (np.uint32(1) << _lane) - np.uint32(1),
    "%lanemask_le": (np.uint32(2) << _lane) - np.uint32(1),
}
_LANE_SPECIALS["%lanemask_ge"] = ~_LANE_SPECIALS["%lanemask_lt"]
_LANE_SPECIALS["%lanemask_gt"] = ~_LANE_SPECIALS["%lanemask_le"]
