"""Where a GEMM's time goes, from counters: tensor pipe at work, the clock that it has, and its idle cycles.

    time = work / (tensor pipe active x clock x SMs x FLOP a clock and SM)

Works from ``solutions/measured/counters.json``; no GPU, torch or DSL is needed to draw it.
"""

from __future__ import annotations

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from course_utils.chips import HOME
from course_utils.figures.ladder import LABELS, ONE_TILE, SIZES
from course_utils.figures.picture import Picture
from course_utils.figures.theme import CARD, DPI, DSL_TEXT, DSLS, GREEN, GREY, GRID, INK, STYLE, WORK, tint
from course_utils.recordings.counters import CUBLAS, Parts, parts

WIDTH, ROW, TOP, BOTTOM = (
    10.0,
    0.21,
    0.88,
    0.72,
)  # inches: of the figure, a bar's place, and around the panels
LEFT, GAP, RIGHT = 1.75, 0.25, 0.1
AXES = {"axes.facecolor": CARD, "axes.edgecolor": GREY, "xtick.color": GREY, "ytick.color": INK}
PIECES = {  # of a bar, from the left
    "floor": ("tensor pipe at work, at the highest clock", GREEN),
    "slow": ("what the clock inside the launch adds", tint(GREEN, 0.4)),
    "idle": ("tensor pipe idle", WORK["wait"]),
}

Bars = list[
    tuple[str, str, Parts | None]
]  # step, DSL, and the time taken apart, None where it is not recorded


def time_parts(recorded: dict, highlight: str | None = None) -> Figure:
    """Draw the time of steps 3 to 11 and of cuBLAS at 4096 and 8192, in the parts of the product.

    ``recorded`` is what ``measured.load("counters")`` gives; with nothing in it the picture says so.
    ``highlight`` names a step ("step05") to show in full colour, the others pale.
    """
    panels = {size: _bars(recorded, size) for size in SIZES}
    with matplotlib.rc_context(STYLE | AXES):
        if not any(found for bars in panels.values() for *_, found in bars):
            return _nothing()
        rows = max(len(bars) for bars in panels.values())
        height = TOP + ROW * rows + BOTTOM
        figure = Picture(figsize=(WIDTH, height), dpi=DPI)
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


def _nothing() -> Figure:
    figure = Picture(figsize=(WIDTH, 0.6), dpi=DPI)
    figure.text(0.1 / WIDTH, 0.5, "Counters are not recorded yet.", size=9, color=GREY, va="center")
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
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
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
        axes.text(
            begin + longest * 0.02,
            place,
            f"{found.activity:.0%} x {found.clock / 1e9:.2f} GHz: {found.measured * 1e6:,.0f} us",
            size=7,
            color=GREY if faint else INK,
            va="center",
        )


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
        f"{highest}recorded on {where['gpu']}, {where['date']}, driver {where['driver']}, ncu {where['ncu']}"
    )
