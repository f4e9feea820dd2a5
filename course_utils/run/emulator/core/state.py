"""What units keep: state of their own on a warp, a CTA, a cluster or the machine, which know none of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

H = TypeVar("H", bound="Holder")
S = TypeVar("S")


class Ends:
    """The state of an engine that has something to do when a warp ends: one of its owner's, or the owner
    itself.
    """

    def warp_ended(self, path: Any) -> None:
        raise NotImplementedError


class _States(dict[Any, Any]):
    """An owner's states by class, each made when it is first asked for."""

    __slots__ = ("owner",)

    def __init__(self, owner: Holder) -> None:
        self.owner = owner

    def __missing__(self, kind: Any) -> Any:
        state = self[kind] = kind(self.owner)
        if isinstance(state, Ends):
            self.owner.ending = (*self.owner.ending, state)
        return state


class Holder:
    """An owner of such state: at most one object of each class, which takes its owner and is made on first
    use. What explains a launch keeps state in the same way.
    """

    if TYPE_CHECKING:

        def unit(self: H, kind: Callable[[H], S]) -> S: ...

    def __init__(self) -> None:
        # ``unit`` itself, as a look-up in C: states are asked for all the time
        setattr(self, "unit", _States(self).__getitem__)  # noqa: B010
        self.ending: tuple[Ends, ...] = ()

    def warp_ended(self, path: Any) -> None:
        for state in self.ending:
            state.warp_ended(path)
