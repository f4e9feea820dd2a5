"""How busy the tensor cores are, and at which clock: a kernel is a point, and lines join equal speeds.

    TFLOP/s = tensor pipe active x clock x SMs x FLOP a clock and SM

Works from ``solutions/measured/counters.json``, as ``figures.counters`` does.
"""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from course_utils.chips import HOME
from course_utils.figures.picture import Picture
from course_utils.figures.theme import CARD, DPI, DSLS, GREY, GRID, INK, STYLE
from course_utils.recordings.counters import CUBLAS, parts

SIZES = (4096, 8192)
WIDTH, HEIGHT = 10.0, 4.1  # inches
LEFT, GAP, RIGHT, TOP, BOTTOM = 0.6, 0.5, 0.15, 0.85, 0.85
AXES = {"axes.facecolor": CARD, "axes.edgecolor": GREY, "xtick.color": GREY, "ytick.color": GREY}
MARKS = {"tilelang": "o", "cute": "s", CUBLAS: "D"}
SPEEDS = range(200, 1000, 100)  # TFLOP/s of the lines
Spot = tuple[str, str, float, float]  # step, DSL, share of cycles, Hz


def bound(recorded: dict) -> Figure:
    """Draw steps 3 on and cuBLAS at 4096 and at 8192. ``recorded`` is ``measured.load("counters")``."""
    spots = {size: _spots(recorded, size) for size in SIZES}
    with matplotlib.rc_context(STYLE | AXES):
        figure = Picture(figsize=(WIDTH, HEIGHT), dpi=DPI)
        figure.headline("Tensor cores at work, and their clock")
        if not any(spots.values()):
            figure.text(0.1 / WIDTH, 0.5, "Counters are not recorded yet.", size=9, color=GREY)
            return figure
        wide, high = (WIDTH - LEFT - RIGHT - GAP) / 2, HEIGHT - TOP - BOTTOM
        where = recorded["provenance"]
        for column, (size, found) in enumerate(spots.items()):
            place = (LEFT + column * (wide + GAP)) / WIDTH, BOTTOM / HEIGHT, wide / WIDTH, high / HEIGHT
            _panel(figure.add_axes(place), size, found, where)
        names = {dsl: name for dsl, (name, _) in DSLS.items()} | {CUBLAS: "cuBLAS"}
        handles = [
            Line2D([], [], ls="", marker=MARKS[dsl], color=_colour(dsl), label=name, **_hollow(dsl))
            for dsl, name in names.items()
        ]
        figure.key(handles, WIDTH - RIGHT, 0.16, loc="upper right")
        figure.footer(_footer(where))
    return figure


def _spots(recorded: dict, size: int) -> list[Spot]:
    """Each step in each DSL, and cuBLAS; a variant is no step."""
    found = []
    for entry in recorded["entries"]:
        if entry["dsl"] != CUBLAS and entry["name"] != f"{entry['step']} {entry['dsl']}":
            continue
        for launch in entry["launches"]:
            made = parts(launch, recorded["provenance"])
            if list(launch["size"]) == [size] * 3 and made:
                found.append((entry["step"], entry["dsl"], made.activity, made.clock))
    return found


def _colour(dsl: str) -> str:
    return DSLS[dsl][1] if dsl in DSLS else INK


def _hollow(dsl: str) -> dict:
    """cuBLAS's mark is large and empty: a step's lies inside it."""
    return {"markerfacecolor": "none", "markersize": 9} if dsl == CUBLAS else {"markersize": 5}


def _panel(axes: Axes, size: int, spots: list[Spot], where: dict) -> None:
    """One size: lines of equal speed, and a mark a kernel; a step's number stands at its first mark."""
    axes.set_title(f"M = N = K = {size}", loc="left", size=9, weight="bold", pad=5)
    highest = (where.get("max_clock_mhz") or 2000) / 1e3
    axes.set_xlim(0.15, 1.03)
    axes.set_ylim(1.3, highest * 1.03)
    share = np.linspace(0.15, 1.0, 200)
    for speed in SPEEDS:
        clock = speed * 1e12 / (share * where["sms"] * HOME.flop_per_clock) / 1e9
        axes.plot(share, clock, color=GRID, linewidth=0.8, zorder=1)
        inside = np.flatnonzero((clock > 1.31) & (clock < highest * 0.99))
        if inside.size:
            at = inside[0]
            axes.text(
                share[at] + 0.008, min(clock[at], highest * 0.99), f"{speed}", size=7, color=GREY, va="top"
            )
    axes.axhline(highest, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)))
    axes.text(0.16, highest * 1.004, "the highest clock", size=7, color=GREY, va="bottom")
    named: set[str] = set()
    for step, dsl, activity, clock in sorted(spots):
        axes.plot(activity, clock / 1e9, MARKS[dsl], color=_colour(dsl), zorder=3, **_hollow(dsl))
        if step != CUBLAS and step not in named:
            above = int(step[4:]) % 2 == 0  # neighbours lie near each other
            axes.annotate(
                str(int(step[4:])),
                (activity, clock / 1e9),
                (0, 7 if above else -13),
                textcoords="offset points",
                size=7.5,
                ha="center",
            )
            named.add(step)
    axes.set_xlabel("share of all cycles in which the tensor cores work", size=8, color=GREY)
    axes.set_ylabel("GHz inside the launch", size=8, color=GREY)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(length=0)


def _footer(where: dict) -> str:
    return (
        "numbers at the marks: steps; at the lines: TFLOP/s, the same all along a line; one launch, caches "
        f"cold\nrecorded on {where['gpu']}, {where['date']}, driver {where['driver']}, ncu {where['ncu']}"
    )
