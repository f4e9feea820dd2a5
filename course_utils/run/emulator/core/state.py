"""What units keep: state of their own on a warp, a CTA, a cluster or the machine, which know none of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from course_utils.run.emulator.core.warp import Path

H = TypeVar("H", bound="Holder")
S = TypeVar("S")


class Unit:
    """The state of one engine on its owner. ``owner.unit(TheClass)`` makes it on first use, and gives it."""

    def warp_ended(self, path: Path) -> None:
        """A warp of the owner's, or the owner itself, has ended."""


class Holder:
    """An owner of such state: at most one object of each class, which takes its owner. What explains a launch
    keeps state in the same way, and is no ``Unit``.
    """

    def __init__(self) -> None:
        self.units: dict[Any, Any] = {}

    def unit(self: H, kind: Callable[[H], S]) -> S:
        state: S | None = self.units.get(kind)
        if state is None:
            state = self.units[kind] = kind(self)
        return state

    def warp_ended(self, path: Path) -> None:
        for state in list(self.units.values()):
            if isinstance(state, Unit):
                state.warp_ended(path)
