"""Words in memory by which threads order each other: who released what, and who acquires it.

PTX ISA, "Memory Consistency Model": "Morally strong operations", "Release and Acquire Patterns",
"Synchronizes". A release pattern is a release, or a fence and a strong write after it; an acquire pattern is
an acquire, or a strong read and a fence after it. They synchronise where the read takes what that write left,
or what atomic operations made of it, and where each reaches the other's thread by its scope.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from course_utils.run.emulator.core.memory import SharedMemory
from course_utils.run.emulator.core.order import CLUSTER_SCOPE, CTA_SCOPE, GPU_SCOPE, Clock

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.memory import Region
    from course_utils.run.emulator.core.threads import CTA, Cluster, Path, Warp


@dataclass(slots=True, frozen=True)
class Place:
    """Where a thread runs: its CTA and its cluster, by number."""

    cta: int
    cluster: int

    def scope_to(self, other: Place) -> int:
        """The least scope that has both."""
        if self.cluster != other.cluster:
            return GPU_SCOPE
        return CTA_SCOPE if self.cta == other.cta else CLUSTER_SCOPE


@dataclass(slots=True, eq=False)
class Release:
    """A release pattern: what was ordered before it, how far it reaches, and where from."""

    clock: Clock
    scope: int
    place: Place


@dataclass(slots=True)
class Written:
    """The last strong write of a word, and the release patterns that it continues."""

    place: Place
    scope: int
    releases: tuple[Release, ...]


class Words:
    """The strong words of a cluster's shared memories, or of the launch's global memory."""

    def __init__(self, owner: Cluster | Machine) -> None:
        self.at: dict[tuple[Region, int], Written] = {}


class Polls:
    """The words of global memory that strong reads have read since the present cluster came to run."""

    def __init__(self, machine: Machine) -> None:
        self.at: dict[tuple[Region, int], None] = {}


class Awaited:
    """The words of global memory that clusters poll which are set aside."""

    def __init__(self, machine: Machine) -> None:
        self.words: set[tuple[Region, int]] = set()


class Patterns:
    """A warp's fences, by their scope, and what it has read that a fence would acquire; and the mbarriers
    whose initialisation it has fenced.
    """

    def __init__(self, warp: Warp) -> None:
        self.place = place_of(warp.cta)
        self.fences: dict[int, Clock] = {}
        self.read: dict[Release, int] = {}  # with the scope that reaches both
        self.acquired: dict[tuple[Region, int, int], tuple[Release, ...]] = {}  # by word and scope, the last
        self.inits: tuple[int, int] | None = None  # an agent and its time

    def released(self, scope: int) -> list[Clock]:
        """What a relaxed operation releases to threads of this scope: what a fence before it has."""
        return [clock for fence, clock in self.fences.items() if fence >= scope]


def place_of(cta: CTA) -> Place:
    return Place(cta.number, cta.cluster.order.number)


def _words(path: Path, region: Region) -> Words:
    owner = path.cta.cluster if isinstance(region, SharedMemory) else path.machine
    return owner.unit(Words)


def fence(path: Path, scope: int, acquires: bool = True, releases: bool = True) -> None:
    """fence and membar."""
    warp, patterns = path.warp, path.warp.unit(Patterns)
    if acquires:
        for release, needed in list(patterns.read.items()):
            if scope >= needed:
                warp.clock.acquire(patterns.place.cluster, release.clock, release.place.cluster)
                del patterns.read[release]
        if scope == GPU_SCOPE:
            warp.clock.raise_to("hoped", "polled")
    if releases:
        if scope == GPU_SCOPE:
            warp.clock.raise_to("pushed")
        weaker = {other: clock for other, clock in patterns.fences.items() if other > scope}
        patterns.fences = {**weaker, scope: warp.clock.copy()}
        warp.tick()


def read(path: Path, region: Region, offset: int, scope: int, acquires: bool, changes: bool = False) -> None:
    """A strong read of a word, or (``changes``) an atomic operation's."""
    if not isinstance(region, SharedMemory):
        path.machine.unit(Polls).at[region, offset] = None
    written = _words(path, region).at.get((region, offset))
    if written is None or not written.releases:
        return
    warp, patterns = path.warp, path.warp.unit(Patterns)
    here = patterns.place
    if min(scope, written.scope) < here.scope_to(written.place):
        return
    if acquires:
        if patterns.acquired.get((region, offset, scope)) is written.releases:  # a poll
            return
        patterns.acquired[region, offset, scope] = written.releases
    for release in written.releases:
        needed = here.scope_to(release.place)
        if release.scope < needed:
            continue
        if acquires and scope >= needed:
            warp.clock.acquire(here.cluster, release.clock, release.place.cluster)
        elif release not in patterns.read:
            patterns.read[release] = needed
            row = "hoped" if changes else "polled"
            warp.clock.note(here.cluster, release.clock, release.place.cluster, row)


def wait_relaxed(path: Path, clock: Clock) -> None:
    """A wait that acquires nothing: a fence after it does."""
    patterns = path.warp.unit(Patterns)
    patterns.read[Release(clock.copy(), GPU_SCOPE, patterns.place)] = CTA_SCOPE


def _hoped(fence: Clock, now: Clock) -> Clock:
    """What a fence releases, and what other threads have fenced that its thread knows of by now."""
    clock = fence.copy()
    clock.raise_to("hoped", "seen")
    np.maximum(clock.hoped, now.pushed[: len(clock.hoped)], out=clock.hoped)
    return clock


def write(path: Path, region: Region, offset: int, scope: int, releases: bool, changes: bool = False) -> None:
    """A strong write of a word, or (``changes``) an atomic operation's, which continues what it has read."""
    words, warp, patterns = _words(path, region), path.warp, path.warp.unit(Patterns)
    machine = path.machine
    if (region, offset) in machine.unit(Awaited).words:  # who polls it may go on before this one does
        machine.gives_way = machine.choose(0.5)
    here, former = patterns.place, words.at.get((region, offset))
    kept: list[Release] = []
    if changes and former and min(scope, former.scope) >= here.scope_to(former.place):
        kept = list(former.releases)
    if releases:
        new = [Release(warp.clock.copy(), scope, here)]
        warp.tick()
    else:
        new = [
            Release(_hoped(clock, warp.clock) if reach == GPU_SCOPE else clock, min(scope, reach), here)
            for reach, clock in patterns.fences.items()
        ]
    if kept and any(
        release.scope == GPU_SCOPE for release in new
    ):  # many in a row: one for all that reach far
        far = [release for release in (*kept, *new) if release.scope == GPU_SCOPE]
        clock = far.pop().clock.copy()
        for release in far:
            clock.acquire(here.cluster, release.clock, release.place.cluster)
        near = [release for release in (*kept, *new) if release.scope != GPU_SCOPE]
        kept, new = near, [Release(clock, GPU_SCOPE, here)]
    if kept or new or former:
        words.at[region, offset] = Written(here, scope, (*kept, *new))
