"""Boxes of tensors that TMA copies: how much of one lies in its tensor, and where it leaves it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING

from course_utils.run.emulator.units.tma import Store
from course_utils.run.emulator.units.views import TensorView

if TYPE_CHECKING:
    from course_utils.run.emulator.core.threads import CTA
    from course_utils.run.emulator.units.views import Coordinates


def elements(view: TensorView, coordinates: Coordinates) -> int:
    """How many elements of its tensor a box has."""
    inside = view.slices(coordinates)
    return 0 if inside is None else prod(extent.stop - extent.start for extent in inside[1])


def any_stored(stores: Iterable[Iterable[Store]]) -> bool:
    """Does one of these stores write something? A box may lie outside its tensor."""
    return any(
        not isinstance(store.view, TensorView) or elements(store.view, store.coordinates)
        for some in stores
        for store in some
    )


def leaves(counts: Counter[str], kind: str, view: TensorView, coordinates: Coordinates, cta: CTA) -> None:
    """Count a box that leaves its tensor, by axis and by the CTA's rank, and keep where the farthest begins.
    ``kind`` is "loads" or "stores".
    """
    box = zip(coordinates, view.map.dims, view.map.steps, view.map.extents, strict=True)
    for axis, (at, dim, step, count) in enumerate(box):
        last = at + (count - 1) * step
        if kind == "stores" and axis == 1 and at < dim <= last + 1:
            counts["stores of the last row"] += 1
            counts["stores of the last row that TMA cuts"] += dim <= last
        if at < 0 or last >= dim:
            name = f"{kind} outside {view.name}, axis {axis}"
            counts[name] += 1
            counts[f"{name}, at"] = max(counts[f"{name}, at"], at, key=abs)
            counts[f"{name}, of"] = dim
            counts[f"{name}, rank {cta.rank}"] += 1
