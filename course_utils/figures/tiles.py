"""The order in which a persistent kernel takes its tiles, as notebook 6 and its pictures show it."""

from __future__ import annotations


def order(tile: int, tiles_M: int, tiles_N: int, panel: int) -> tuple[int, int]:
    """(m, n) of a tile's number: panels of ``panel`` columns, the last one narrower, row after row within
    each.

    The order of both solutions; ``panel`` = ``tiles_N`` is the plain order, row after row over the whole of
    D.
    """
    group, inside = divmod(tile, tiles_M * panel)
    width = min(panel, tiles_N - group * panel)
    return inside // width, group * panel + inside % width
