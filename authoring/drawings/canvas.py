"""Boxes, arrows and words on a card, in the course's colours.

Coordinates are inches from the lower left corner. A sheet is 9.6 inches wide, so words of ``SMALL`` points
are 12 pixels high in a notebook that is 800 wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from course_utils.figures.picture import Picture
from course_utils.figures.theme import CARD, FONT, GREY, GRID, INK, TEXT, tint

SMALL, HEAD = 10.5, 11.5
WIDTH = 9.6


def sheet(height: float) -> tuple[Figure, Axes]:
    """An empty card ``WIDTH`` and ``height`` inches large, and its axes, one unit an inch."""
    figure = Picture(figsize=(WIDTH, height), facecolor="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(0, height)
    axes.axis("off")
    card(figure)
    return figure, axes


def card(figure: Figure) -> None:
    """The ground of a whole figure: it goes dark with the words on it, whatever the page around it does."""
    width, height = figure.get_size_inches()
    look = {"boxstyle": "round,pad=0,rounding_size=0.1", "lw": 0.8, "edgecolor": GRID, "facecolor": CARD}
    place = {"zorder": -5, "transform": figure.dpi_scale_trans}
    figure.add_artist(FancyBboxPatch((0.02, 0.02), width - 0.04, height - 0.04, **look, **place))


def box(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    text: str = "",
    colour: str = GREY,
    share: float | None = 0.22,
    dashed: bool = False,
    lw: float = 1.2,
    **words: Any,
) -> None:
    """A rounded box with its lower left corner at (x, y), filled with ``share`` of its colour, and centred
    text; ``share`` None leaves it empty.
    """
    look = {"boxstyle": "round,pad=0,rounding_size=0.06", "edgecolor": colour, "zorder": 2}
    look |= {"lw": lw, "ls": "--" if dashed else "-"}
    fill = "none" if share is None else tint(colour, share)
    axes.add_patch(FancyBboxPatch((x, y), width, height, facecolor=fill, **look))
    if text:
        label(axes, x + width / 2, y + height / 2, text, **words)


def cell(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    text: str = "",
    colour: str = GREY,
    share: float = 0.22,
    lw: float = 0.7,
    zorder: float = 2,
    **words: Any,
) -> None:
    """A square-cornered cell, for grids that touch."""
    look = {"lw": lw, "edgecolor": colour, "facecolor": tint(colour, share), "zorder": zorder}
    axes.add_patch(Rectangle((x, y), width, height, **look))
    if text:
        label(axes, x + width / 2, y + height / 2, text, **words)


def label(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    colour: str = INK,
    size: float = SMALL,
    ha: str = "center",
    va: str = "center",
    **words: Any,
) -> None:
    """Words at (x, y), in a tone of ``colour`` that is dark enough to read."""
    ink = TEXT[colour][0] if colour in TEXT else colour
    axes.text(x, y, text, size=size, color=ink, ha=ha, va=va, zorder=6, linespacing=1.2, family=FONT, **words)


def head(axes: Axes, x: float, y: float, text: str, ha: str = "left", **words: Any) -> None:
    """A heading at (x, y)."""
    label(axes, x, y, text, size=HEAD, ha=ha, weight="bold", **words)


def arrow(
    axes: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    text: str = "",
    colour: str = INK,
    via: Sequence[tuple[float, float]] = (),
    dashed: bool = False,
    offset: tuple[float, float] = (0, 0.14),
    both: bool = False,
    width: float = 1.4,
) -> None:
    """An arrow from (x, y) to (x, y), round the corners ``via``; its words at the middle plus ``offset``."""
    style = "--" if dashed else "-"
    if via:
        corners = [start, *via]
        axes.plot(*zip(*corners, strict=True), color=colour, lw=width, ls=style, zorder=4)
    look = {"mutation_scale": 11, "lw": width, "ls": style, "shrinkA": 0 if via else 1, "shrinkB": 1}
    _pointer(axes, via[-1] if via else start, end, both, colour, look)
    if text:
        x, y = (start[0] + end[0]) / 2 + offset[0], (start[1] + end[1]) / 2 + offset[1]
        label(axes, x, y, text, colour=colour)


def measure(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str = INK, both: bool = True
) -> None:
    """A thin arrow that says how far or which way: an extent, or an axis."""
    look = {"mutation_scale": 10, "lw": 1, "gid": "measure", "shrinkA": 0, "shrinkB": 0}
    _pointer(axes, start, end, both, colour, look)


def _pointer(axes: Axes, start: tuple, end: tuple, both: bool, colour: str, look: dict) -> None:
    style = "<|-|>" if both else "-|>"
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle=style, color=colour, zorder=4, **look))


def time(axes: Axes, left: float, right: float, y: float) -> None:
    """The axis of time below a picture's lanes."""
    measure(axes, (left, y), (right, y), GREY, both=False)
    label(axes, left - 0.12, y, "time", GREY, ha="right")
