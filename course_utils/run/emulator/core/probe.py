"""The probe: hands what happens in a launch on to whoever listens. What runs knows nobody of them.

An event is a small data class of the file that emits it, in ``core`` as in ``units``. It holds the machine's
own objects, and no words. Whoever explains listens by the event's class, and hears it at once, before what
runs goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

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
