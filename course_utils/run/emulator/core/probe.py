"""The probe: hands what happens in a launch on to whoever listens. What runs knows nobody of them.

An event is a small data class of the file that emits it: an engine's in ``units``, those of warps, CTAs and
clusters here. It holds the machine's own objects, and no words. Whoever explains listens by the event's
class, and hears it at once, before what runs goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from course_utils.run.emulator.core.grid import CTA, Cluster
    from course_utils.run.emulator.core.warp import Path, Wait

E = TypeVar("E")


class StopEmulation(Exception):
    """The program cannot go on: the hardware would have faulted, or would never end."""


class Probe:
    """Who listens to which events. Events are emitted per asynchronous operation, wait and access to shared
    memory, and not per instruction.
    """

    def __init__(self) -> None:
        self._listeners: dict[type, list[Callable[[Any], object]]] = defaultdict(list)

    def listen(self, event: type[E], listener: Callable[[E], object]) -> None:
        """Call ``listener`` with each event of this class, after those that listen to it already."""
        self._listeners[event].append(listener)

    def emit(self, event: object) -> None:
        for listener in self._listeners[event.__class__]:
            listener(event)


@dataclass(frozen=True, slots=True)
class At:
    """An instruction by its index: in a sentence, the author's line of it."""

    index: int


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
class ClusterEnded:
    """A cluster has ended, or cannot go on (not ``finished``)."""

    cluster: Cluster
    finished: bool


@dataclass(slots=True)
class Deadlocked:
    """All that is left of a cluster waits, and nothing is on its way."""

    cluster: Cluster


@dataclass(slots=True)
class Failed:
    """Instruction ``at`` takes the value of registers that have none that counts: in flight, or
    (``unwritten``) never written. The path ends.
    """

    path: Path
    at: int
    unwritten: list[int]


@dataclass(slots=True)
class Touched:
    """A path uses the shared memory of ``cta``, another one of its cluster. ``agent`` and its ``time`` are
    who must be seen to be done before that CTA may end: the path's warp, or the mbarrier that is signalled.
    """

    path: Path
    cta: CTA
    agent: int
    time: int
