"""Clusters that wait for each other through words in global memory, and which are on the chip together.

A cluster whose warps poll such a word, and change nothing, is set aside until the word changes. Others run
meanwhile, as many as the chip has room for at once. PTX promises no order in which clusters begin; where one
waits, the others begin in that of their numbers, as chips do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course_utils.run.emulator.core.releases import Polls
from course_utils.run.emulator.core.schedule import Flying
from course_utils.run.emulator.isa.arithmetic import LANES

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.memory import Region
    from course_utils.run.emulator.core.threads import Cluster, Path

# Warp instructions that change nothing: before what is held back runs too; before a cluster that polls gives
# way to others; and where no other can go on, of all clusters together
PATIENCE, CLUSTER_PATIENCE, LAST_PATIENCE = 400, 800, 100_000
_SM_THREADS, _SM_CTAS = 2048, 32


class Elsewhere(Exception):
    """A cluster cannot go on until another one has changed a word that ``path`` polls."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path


@dataclass
class Aside:
    """A cluster that was set aside: who of it can run, waits or is on its way, and what it has polled. One
    that ``gives_way`` waits for nothing: it has changed a word that others poll.
    """

    cluster: Cluster
    path: Path
    ready: list[Any]
    waiting: dict[Any, None]
    flying: list[Flying]
    polled: dict[tuple[Region, int], bytes]
    tried: bool  # with the last patience
    gives_way: bool

    def is_due(self) -> bool:
        """Has any of the words changed?"""
        return self.gives_way or any(_bytes(*word) != held for word, held in self.polled.items())


def _bytes(region: Region, offset: int) -> bytes:
    return region.data[offset : offset + 8].tobytes()


class Unstarted:
    """The clusters that have not begun, in the order of their numbers, and those that another one has
    cancelled (clusterlaunchcontrol). As many as the chip has room for begin by themselves.
    """

    def __init__(self, machine: Machine) -> None:
        self.origins: list[tuple[int, int, int]] = []
        self.cancelled: set[tuple[int, int, int]] = set()
        self.first: set[tuple[int, int, int]] = set()
        self.most = 0  # that may be cancelled

    def begin(self, machine: Machine, origins: list[tuple[int, int, int]]) -> None:
        self.origins, held = origins, room(machine)
        self.first = set(origins[:held])
        # of a launch of which only some clusters run, these have their share of the others' places
        share = -(-len(origins) // held) - 1
        self.most = len(origins) if machine.only is None else share * len(machine.only)

    def cancel(self) -> tuple[int, int, int] | None:
        """The next one, which will not begin any more; None where all have begun."""
        found = next((one for one in self.origins if one not in self.first), None)
        if found is None or len(self.cancelled) >= self.most:
            return None
        self.origins.remove(found)
        self.cancelled.add(found)
        return found


class Patience:
    """How long the cluster that runs may poll in vain."""

    def __init__(self, machine: Machine) -> None:
        self.limit = CLUSTER_PATIENCE


def set_aside(machine: Machine, cluster: Cluster, path: Path) -> Aside:
    polled = {word: _bytes(*word) for word in machine.unit(Polls).at}
    tried = machine.unit(Patience).limit > CLUSTER_PATIENCE
    left = machine.ready, machine.waiting, machine.flying
    one = Aside(cluster, path, *left, polled, tried, machine.gives_way)
    machine.ready, machine.waiting, machine.flying = [], {}, []
    return one


def resume(machine: Machine, one: Aside, of: int = 0) -> Cluster:
    """Let a cluster go on: for the last time, where it is one ``of`` so many that all wait in vain."""
    machine.unit(Patience).limit = max(LAST_PATIENCE // of, 2 * CLUSTER_PATIENCE) if of else CLUSTER_PATIENCE
    machine.ready, machine.waiting, machine.flying = one.ready, one.waiting, one.flying
    return one.cluster


def polls_in_vain(machine: Machine) -> bool:
    """Has nothing changed for a while, in which words of global memory were polled?"""
    idle = machine.executed - machine.last_progress[1]
    return idle > CLUSTER_PATIENCE and idle > machine.unit(Patience).limit and bool(machine.unit(Polls).at)


def room(machine: Machine) -> int:
    """How many clusters the chip holds at once."""
    artifact = machine.artifact
    chip, warps = artifact.chip, -(-artifact.threads // LANES)
    registers = -(-max(artifact.resources.registers if artifact.resources else 0, 8) // 8) * 8
    each = min(
        _SM_THREADS // (warps * LANES),
        _SM_CTAS,
        chip.registers // (registers * warps * LANES),
        chip.sm_shared // (machine.shared_size + chip.reserved_shared),
    )
    x, y, z = artifact.cluster
    return max(chip.sms * max(each, 1) // (x * y * z), 1)
