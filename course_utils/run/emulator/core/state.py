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


class _States(dict[Any, Any]):
    """An owner's states by class, each made when it is first asked for."""

    __slots__ = ("owner",)

    def __init__(self, owner: Holder) -> None:
        self.owner = owner

    def __missing__(self, kind: Any) -> Any:
        state = self[kind] = kind(self.owner)
        return state


class Holder:
    """An owner of such state: at most one object of each class, which takes its owner. What explains a launch
    keeps state in the same way, and is no ``Unit``.
    """

    def __init__(self) -> None:
        self._states = _States(self)

    def unit(self: H, kind: Callable[[H], S]) -> S:
        state: S = self._states[kind]
        return state

    def warp_ended(self, path: Path) -> None:
        for state in list(self._states.values()):
            if isinstance(state, Unit):
                state.warp_ended(path)
