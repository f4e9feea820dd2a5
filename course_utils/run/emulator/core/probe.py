"""The probe: hands what happens in a launch on to whoever listens. What runs knows nobody of them.

An event is a small data class of the file that emits it: an engine's in ``units``, those of warps, CTAs and
memory here. It holds the machine's own objects, and no words. Whoever explains listens by the event's class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from course_utils.run.emulator.core.warp import Path

E = TypeVar("E")


class Probe:
    """Who listens to which events. Events are emitted per asynchronous operation, wait and access to shared
    memory, and not per instruction.
    """

    def __init__(self) -> None:
        self._listeners: dict[type, list[Callable[[Any], object]]] = {}

    def listen(self, event: type[E], listener: Callable[[E], object]) -> None:
        self._listeners.setdefault(event, []).append(listener)

    def emit(self, event: object) -> None:
        for listener in self._listeners.get(event.__class__, ()):
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
