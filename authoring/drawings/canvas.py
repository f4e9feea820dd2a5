"""Boxes, arrows and words on a sheet, in the course's colours.

Coordinates are inches from the lower left corner.
"""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from course_utils.figures.theme import FONT, GREY, INK, Picture, tint


def sheet(width: float, height: float) -> tuple[Figure, object]:
    """An empty white figure of this size in inches, and its axes, one unit an inch, nothing drawn."""
    figure = Picture(figsize=(width, height), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(0, height)
    axes.axis("off")
    return figure, axes


def box(axes, x, y, width, height, text="", colour=GREY, size=9, fill=None, dashed=False, **words) -> None:
    """A rounded box with its lower left corner at (x, y) and centred text."""
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.06",
            lw=1.2,
            edgecolor=colour,
            facecolor=tint(colour) if fill is None else fill,
            ls="--" if dashed else "-",
            zorder=2,
        )
    )
    if text:
        label(axes, x + width / 2, y + height / 2, text, size=size, **words)


def label(axes, x, y, text, size=9, colour=INK, ha="center", va="center", **words) -> None:
    """Words at (x, y)."""
    axes.text(
        x, y, text, size=size, color=colour, ha=ha, va=va, zorder=6, linespacing=1.25, family=FONT, **words
    )


def arrow(
    axes,
    start,
    end,
    text="",
    colour=INK,
    bend=0.0,
    size=8,
    dashed=False,
    offset=(0, 0.12),
    both=False,
    width=1.4,
) -> None:
    """An arrow from (x, y) to (x, y), its words at the middle plus ``offset``; ``bend`` curves it."""
    axes.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="<|-|>" if both else "-|>",
            mutation_scale=11,
            lw=width,
            color=colour,
            ls="--" if dashed else "-",
            connectionstyle=f"arc3,rad={bend}",
            shrinkA=1,
            shrinkB=1,
            zorder=4,
        )
    )
    if text:
        label(
            axes,
            (start[0] + end[0]) / 2 + offset[0],
            (start[1] + end[1]) / 2 + offset[1],
            text,
            size=size,
            colour=colour,
        )
