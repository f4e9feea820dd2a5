"""The grid: clusters, their CTAs, and the special registers of their warps.

PTX ISA, "Programming Model": "Cluster of Cooperative Thread Arrays", "Special Registers".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.run.emulator.core import memory
from course_utils.run.emulator.core.order import Order
from course_utils.run.emulator.core.probe import CtaEnded, Touched, WarpEnded
from course_utils.run.emulator.core.state import Holder
from course_utils.run.emulator.core.warp import Path, Warp
from course_utils.run.emulator.isa.arithmetic import LANES

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine


class Cluster(Holder):
    """The CTAs that share a cluster barrier and see each other's shared memory, with their clocks."""

    def __init__(self, machine: Machine, origin: tuple[int, int, int]) -> None:
        super().__init__()
        artifact = machine.artifact
        cx, cy, cz = artifact.cluster
        self.machine, self.size = machine, cx * cy * cz
        warps = -(-artifact.threads // LANES)
        self.order = Order(self.size * warps)
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
            path.machine.probe.emit(Touched(path, cta, path.warp.agent, path.warp.time))
        return cta.shared, address - offset

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
            warp = Warp(self, index, own | threads)
            self.warps.append(warp)
            mask = None
            if (index + 1) * LANES > artifact.threads:
                mask = np.arange(index * LANES, (index + 1) * LANES) < artifact.threads
                warp.alive = mask.copy()
            path = Path(warp, 0, mask)
            path.slow = machine.choose(machine.schedule.slow_share)
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
