"""What a run shows of order: which loads were under way while which tile was multiplied, who stored D, what
ran.

A fact is a count, and most come in pairs: how often a thing could show, and how often it did. Order is
causality order (``order``) and not the order of this run, so every schedule gives the same counts: a load is
under way while a tile is multiplied if the multiplying warps need not have waited for it, and it need not
have waited until they were done.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from course_utils.ptx.families import Family, expects_bytes, family
from course_utils.ptx.parser import Instr
from course_utils.run.emulator.explain.facts.fills import Fills
from course_utils.run.emulator.explain.facts.k_tiles import KTiles
from course_utils.run.emulator.explain.facts.registers import Registers
from course_utils.run.emulator.explain.facts.releases import Releases
from course_utils.run.emulator.explain.facts.rings import Rings
from course_utils.run.emulator.explain.facts.roles import Roles
from course_utils.run.emulator.explain.facts.rows import Rows
from course_utils.run.emulator.explain.facts.shares import Shares
from course_utils.run.emulator.explain.facts.stores import Stores
from course_utils.run.emulator.explain.work import Work
from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.units.mbarrier import mbarriers

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Cluster

# families whose instructions are counted as they run
COUNTED = {
    Family.TENSOR_LOAD,
    Family.MULTICAST_LOAD,
    Family.TENSOR_STORE,
    Family.TENSOR_REDUCE,
    Family.BULK_LOAD,
    Family.BULK_STORE,
    Family.BULK_WAIT,
    Family.CP_ASYNC,
    Family.GLOBAL_LOAD,
    Family.GLOBAL_STORE,
    Family.WGMMA,
    Family.WGMMA_WAIT,
    Family.TCGEN05_MMA,
    Family.TCGEN05_COMMIT,
    Family.TMEM_ALLOC,
    Family.TMEM_LOAD,
    Family.PROXY_FENCE,
    Family.REMOTE_ARRIVE,
    Family.CLUSTER_BARRIER,
    Family.SETMAXNREG,
    Family.MBARRIER_INIT,
}


# products of a lane in one instruction that multiplies floats
PRODUCTS = {"f16": 1, "bf16": 1, "f32": 1, "f64": 1, "f16x2": 2, "bf16x2": 2, "f32x2": 2}


def counted(instruction: Instr) -> str:
    """The counter that an instruction adds to as it runs, "" for none."""
    kind, opcode = family(instruction), instruction.opcode
    if opcode[0] in ("fma", "mul", "mad") and opcode[-1] in PRODUCTS:
        return f"multiplied {PRODUCTS[opcode[-1]]} a lane"
    if expects_bytes(instruction):
        return "ran EXPECT_TX"
    return f"ran {kind.name}" if kind in COUNTED else ""


class Facts:
    """Counts of one launch: each part of the story has a room that listens for itself."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.fills, self.k_tiles = machine.unit(Fills), machine.unit(KTiles)
        self.rings, self.releases = machine.unit(Rings), machine.unit(Releases)
        self.stores, self.rows = machine.unit(Stores), machine.unit(Rows)
        self.shares, self.registers = machine.unit(Shares), machine.unit(Registers)
        self.roles = machine.unit(Roles)
        kept = self.k_tiles, self.rings, self.releases, self.stores, self.rows, self.registers, self.roles
        self._of_cluster, self._rooms = kept, (self.fills, *kept, self.shares)
        self._mbarriers = 0  # of the CTA that has the most

    def close(self, cluster: Cluster) -> None:
        """A cluster has ended."""
        self.k_tiles.drop_small()
        self.fills.close()
        self.rows.close()
        self.releases.close()
        self.k_tiles.close(cluster.size)
        for cta in cluster.ctas:
            self._mbarriers = max(self._mbarriers, len(mbarriers(cta)))
            self.rings.close(cta)
            self.k_tiles.rows_multiplied(cta)
            self.stores.close(cta)
            self.roles.close(cta)
            self.shares.close(cta)
            if self.k_tiles.of(cta):
                self.registers.close(cta)
        for room in self._of_cluster:
            room.clear()

    def end(self) -> dict[str, int]:
        """The counts, once all clusters have run."""
        self.stores.end()
        self.shares.end()
        counts = Counter(self.machine.counts)
        for room in self._rooms:
            counts.update(room.counts)
        fetches = self.machine.unit(Work).fetches
        multiplied = self.machine.artifact.tensors[:2]  # beside them a bias, say
        others = counts["ran CP_ASYNC"] or any(fetches[tensor.name] for tensor in multiplied)
        through = 0 if others else counts["operands in registers"]  # of tiles that ldmatrix read
        counts["operands by TMA alone"] = counts["operands by TMA"] + through
        by_threads = LANES * (counts["multiplied 1 a lane"] + 2 * counts["multiplied 2 a lane"])
        counts["products otherwise"] = counts["products by mma.sync"] + by_threads
        # How often did TMA load, and how often did a warp read the first tensor instead? Of a product it is
        # seen where its operands come from.
        loads = counts["ran TENSOR_LOAD"] + counts["ran MULTICAST_LOAD"]
        counts["reads by TMA"] = counts["reads"] = loads
        if loads and not counts["products multiplied"]:
            counts["reads"] += fetches[self.machine.artifact.tensors[0].name]
        counts["runs"], counts["mbarriers of a CTA"] = 1, self._mbarriers
        return dict(counts)
