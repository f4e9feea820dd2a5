"""Where the time of each step goes: tensor cores at work, the clock that it has, and its idle cycles.

    time = work / (tensor pipe active x clock x SMs x FLOP a clock and SM)

``time_parts`` draws the time as a bar of these parts, ``bound`` draws a kernel as a point, and lines join
equal speeds. Both work from ``solutions/measured/counters.json``; no GPU, torch or DSL is needed.
"""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from course_utils.chips import HOME
from course_utils.figures.ladder import LABELS, ONE_TILE, SIZES
from course_utils.figures.picture import Picture, bare, origin
from course_utils.figures.theme import AXES, DSL_TEXT, DSLS, GREEN, GREY, GRID, INK, MARKS, STYLE, WORK, tint
from course_utils.recordings.counters import CUBLAS, Parts, parts

WIDTH = 10.0  # inches
NOTHING = "Counters are not recorded yet."
ROW, TOP, BOTTOM = 0.21, 0.88, 0.72  # inches: a bar's place, and around the panels
LEFT, GAP, RIGHT = 1.75, 0.25, 0.1
PIECES = {  # of a bar, from the left
    "floor": ("tensor pipe at work, at the highest clock", GREEN),
    "slow": ("what the clock inside the launch adds", tint(GREEN, 0.4)),
    "idle": ("tensor pipe idle", WORK["wait"]),
}

# step, DSL, and the time taken apart, None where it is not recorded
Bars = list[tuple[str, str, Parts | None]]


def time_parts(recorded: dict, highlight: str | None = None) -> Figure:
    """Draw the time of steps 3 to 11 and of cuBLAS at 4096 and 8192, in the parts of the product.

    ``recorded`` is what ``measured.load("counters")`` gives; with nothing in it the picture says so.
    ``highlight`` names a step ("step05") to show in full colour, the others pale.
    """
    panels = {size: _bars(recorded, size) for size in SIZES}
    with matplotlib.rc_context(STYLE | AXES | {"ytick.color": INK}):
        if not any(found for bars in panels.values() for *_, found in bars):
            return Picture(figsize=(WIDTH, 0.6)).nothing(NOTHING)
        rows = max(len(bars) for bars in panels.values())
        height = TOP + ROW * rows + BOTTOM
        figure = Picture(figsize=(WIDTH, height))
        wide = (WIDTH - LEFT - RIGHT - GAP) / 2
        for column, (size, bars) in enumerate(panels.items()):
            x = LEFT + column * (wide + GAP)
            place = (x / WIDTH, BOTTOM / height, wide / WIDTH, ROW * rows / height)
            _panel(figure.add_axes(place), size, bars, highlight, named=column == 0)
        figure.headline("Where the time goes")
        handles = [Patch(color=colour, label=words) for words, colour in PIECES.values()]
        figure.key(handles, 0.1, 0.4)
        figure.footer(_footer(recorded["provenance"]))
    return figure


def _bars(recorded: dict, size: int) -> Bars:
    """The bars at this size from the top: each step in each DSL that is recorded anywhere, then cuBLAS."""
    found = {}
    for entry in recorded["entries"]:
        # a variant is named "step09, no multicast": its bar is not the step's
        if entry["dsl"] == CUBLAS or entry["name"] == f"{entry['step']} {entry['dsl']}":
            launches = [one for one in entry["launches"] if list(one["size"]) == [size] * 3]
            found[entry["step"], entry["dsl"]] = (
                parts(launches[0], recorded["provenance"]) if launches else None
            )
    order = [(step, dsl) for step in LABELS if step not in ONE_TILE for dsl in DSLS] + [(CUBLAS, CUBLAS)]
    return [(step, dsl, found[step, dsl]) for step, dsl in order if (step, dsl) in found]


def _panel(axes: Axes, size: int, bars: Bars, highlight: str | None, named: bool) -> None:
    """One size: a bar a kernel, and its three factors behind it."""
    axes.set_title(f"M = N = K = {size}", loc="left", size=9, weight="bold", pad=5)
    longest = max((found.seconds for *_, found in bars if found), default=1e-6) * 1e6
    axes.set_xlim(0, longest * 1.55)  # room for the words behind the longest
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.set_xlabel("us", size=8, color=GREY, labelpad=1)
    bare(axes, "x", left=False)
    axes.set_yticks(range(len(bars)), [_label(bars, place) for place in range(len(bars))] if named else [])
    for place, (step, dsl, found) in enumerate(bars):
        faint = highlight is not None and step not in (highlight, CUBLAS)
        if named:
            label = axes.get_yticklabels()[place]
            label.set_color(DSL_TEXT.get(dsl, INK))
            label.set_weight("bold" if step == highlight else "normal")
        if found is None:
            axes.text(0, place, " not recorded", size=7, color=GREY, va="center")
            continue
        begin = 0.0
        for piece, (_, colour) in PIECES.items():
            width = getattr(found, piece) * 1e6
            axes.barh(place, width, 0.7, begin, color=tint(colour, 0.35) if faint else colour)
            begin += width
        axes.plot([found.measured * 1e6] * 2, [place - 0.4, place + 0.4], color=INK, linewidth=0.8)
        words = f"{found.activity:.0%} x {found.clock / 1e9:.2f} GHz: {found.measured * 1e6:,.0f} us"
        ink = GREY if faint else INK
        axes.text(begin + longest * 0.02, place, words, size=7, color=ink, va="center")


def _label(bars: Bars, place: int) -> str:
    """ "10 multi-cons. CuTe DSL", the step once for its two DSLs."""
    step, dsl, _ = bars[place]
    if step == CUBLAS:
        return "cuBLAS"
    again = place and bars[place - 1][0] == step
    return DSLS[dsl][0] if again else f"{LABELS[step]}  {DSLS[dsl][0]}"


def _footer(where: dict) -> str:
    highest = f"highest clock {where['max_clock_mhz']:.0f} MHz, " if where.get("max_clock_mhz") else ""
    return (
        f"time = work / (tensor pipe active x clock x {where['sms']} SMs x {HOME.flop_per_clock:,} FLOP); "
        "one launch, caches cold; the upright mark is the time that ncu measured\n"
        f"{highest}{origin(where)}, ncu {where['ncu']}"
    )


# -- activity and clock

HIGH = 4.1  # inches
SPEEDS = range(200, 1000, 100)  # TFLOP/s of the lines


def bound(recorded: dict) -> Figure:
    """Draw steps 3 on and cuBLAS at 4096 and at 8192. ``recorded`` is ``measured.load("counters")``."""
    panels = {size: [bar for bar in _bars(recorded, size) if bar[2]] for size in SIZES}
    with matplotlib.rc_context(STYLE | AXES):
        figure = Picture(figsize=(WIDTH, HIGH))
        figure.headline("Tensor cores at work, and their clock")
        if not any(panels.values()):
            return figure.nothing(NOTHING)
        where = recorded["provenance"]
        for left, (size, bars) in zip((0.06, 0.5475), panels.items(), strict=True):
            _speeds(figure.add_axes((left, 0.85 / HIGH, 0.4375, 1 - 1.7 / HIGH)), size, bars, where)
        names = {dsl: name for dsl, (name, _) in DSLS.items()} | {CUBLAS: "cuBLAS"}
        handles = [Line2D([], [], label=name, **_mark(dsl)) for dsl, name in names.items()]
        figure.key(handles, WIDTH - 0.15, 0.16, loc="upper right")
        figure.footer(
            "numbers at the marks: steps; at the lines: TFLOP/s, the same all along a line; one launch, "
            f"caches cold\n{origin(where)}, ncu {where['ncu']}"
        )
    return figure


def _mark(dsl: str) -> dict:
    """cuBLAS's mark is large and empty: a step's lies inside it."""
    if dsl == CUBLAS:
        return {"ls": "", "marker": "D", "color": INK, "markerfacecolor": "none", "markersize": 9}
    return {"ls": "", "marker": MARKS[dsl], "color": DSLS[dsl][1], "markersize": 5}


def _speeds(axes: Axes, size: int, bars: Bars, where: dict) -> None:
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
    for step, dsl, found in sorted(bars, key=lambda bar: bar[:2]):
        place = found.activity, found.clock / 1e9
        axes.plot(*place, zorder=3, **_mark(dsl))
        if step != CUBLAS and step not in named:
            above = int(step[4:]) % 2 == 0  # neighbours lie near each other
            words = {"textcoords": "offset points", "size": 7.5, "ha": "center"}
            axes.annotate(str(int(step[4:])), place, (0, 7 if above else -13), **words)
            named.add(step)
    axes.set_xlabel("share of all cycles in which the tensor cores work", size=8, color=GREY)
    axes.set_ylabel("GHz inside the launch", size=8, color=GREY)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    bare(axes)
