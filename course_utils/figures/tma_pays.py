"""When TMA pays: GB/s of tiles by blocking loads, cp.async, TMA boxes and bulk copies, by tile size.

Works from ``solutions/measured/tma_pays.json``; no GPU, torch or DSL is needed to draw it.
"""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from course_utils.figures.picture import Picture, bare
from course_utils.figures.theme import AXES, BLUE, CARD, GREY, INK, ORANGE, STYLE

WIDTH, HEIGHT = 10.0, 4.6  # inches
LEFT, RIGHT, TOP, BOTTOM, GAP = 0.62, 0.15, 0.95, 0.82, 0.35  # inches around and between the panels
LOOKS = {  # of each way, as the recording calls it: colour, mark, line
    "TMA box": (BLUE, "o", "-"),
    "cp.async": (ORANGE, "^", "-"),
    "blocking loads": (GREY, "v", "-"),
    "bulk copy for each row": (BLUE, "s", "--"),
}
PLACES = {"DRAM": "the matrix lies in DRAM", "L2": "the matrix lies in L2"}
TALL = 128  # rows of the tiles that a line joins; the others have hollow marks
KIB = 1024


def rates(recorded: dict, matrix: str, way: str, rows: int) -> list[tuple[int, float]]:
    """(bytes of a tile, GB/s) of tiles of so many rows, the smallest first; ``matrix`` is of ``PLACES``."""
    found = [
        one for one in recorded["rows"] if (one["matrix"], one["way"], one["rows"]) == (matrix, way, rows)
    ]
    return sorted((one["rows"] * one["bytes"], one["gb_per_second"]) for one in found)


def when_tma_pays(recorded: dict) -> Picture:
    """Draw GB/s by tile size, a panel for each of ``PLACES`` and a line for each of ``LOOKS``. ``recorded``
    is what ``benchmarks/when_tma_pays.py run`` wrote; KeyError for a file that is another.
    """
    with matplotlib.rc_context(STYLE | AXES):
        figure = Picture(figsize=(WIDTH, HEIGHT))
        wide = (WIDTH - LEFT - RIGHT - GAP) / 2
        top = max(one["gb_per_second"] for one in recorded["rows"]) * 1.08
        for column, place in enumerate(PLACES):
            x = LEFT + column * (wide + GAP)
            box = (x / WIDTH, BOTTOM / HEIGHT, wide / WIDTH, (HEIGHT - TOP - BOTTOM) / HEIGHT)
            _panel(figure.add_axes(box), recorded, place, top, named=column == 0)
        figure.headline("When TMA pays")
        figure.key(_key(recorded), 0.1, 0.42)
        figure.footer(_footer(recorded))
    return figure


def _panel(axes: Axes, recorded: dict, place: str, top: float, named: bool) -> None:
    axes.set_title(PLACES[place], loc="left", size=9, weight="bold", pad=5)
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, top)
    bare(axes, "y")
    heights = sorted({one["rows"] for one in recorded["rows"]})
    for way, (colour, mark, line) in LOOKS.items():
        for rows in heights:
            points = rates(recorded, place, way, rows)
            look = {"linestyle": line} if rows == TALL else {"linestyle": "", "markerfacecolor": CARD}
            axes.plot(
                *zip(*points, strict=True), color=colour, marker=mark, markersize=5, linewidth=1.5, **look
            )
    sizes = sorted({one["rows"] * one["bytes"] for one in recorded["rows"]})
    axes.set_xticks(sizes, [f"{size // KIB}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("KiB of a tile", size=8, labelpad=2)
    if named:
        axes.set_ylabel("GB/s", size=8)
    else:
        axes.set_yticklabels([])


def _key(recorded: dict) -> list[Line2D]:
    handles = [
        Line2D([], [], color=colour, marker=mark, linestyle=line, markersize=5, linewidth=1.5, label=way)
        for way, (colour, mark, line) in LOOKS.items()
    ]
    low = min(one["rows"] for one in recorded["rows"])
    empty = {"linestyle": "", "marker": "o", "color": INK, "markerfacecolor": CARD, "markersize": 5}
    return [*handles, Line2D([], [], **empty, label=f"hollow: tiles of {low} rows, else {TALL}")]


def _footer(recorded: dict) -> str:
    widths = [f"{width}" for width in sorted({one["bytes"] for one in recorded["rows"]})]
    return (
        f"{recorded['gpu']}, {recorded['recorded']}, commit {recorded['commit']}. {recorded['ctas']} CTAs of "
        f"{recorded['threads']} threads add up the words of every tile. Rows of {', '.join(widths)} bytes, "
        f"{recorded['pitch']:,} bytes apart.\nBlocking loads have one tile in shared memory, the others a "
        f"ring of {recorded['stages']}. Median of {recorded['samples']} launches."
    )
