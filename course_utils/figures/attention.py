"""Attention in pictures: the recorded ladder beside cuDNN and FlashAttention-2, and how long an SM needs for
a tile's products and exponentials.

Works from ``solutions/measured/attention.json``; no GPU, torch or DSL is needed to draw it.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from course_utils.attention import HEAD_SIZES, cycles
from course_utils.chips import HOME, Chip
from course_utils.figures.picture import Picture, bare
from course_utils.figures.theme import AXES, DSLS, GREEN, GREY, INK, ORANGE, STYLE, tint

RUNGS = {  # a case, to what stands below its bars
    "a1": "plain",
    "a1b": "ring",
    "a2": "ping-pong",
    "a2b": "overlap",
    "a2c": "persistent",
}
PEERS = {"cuDNN": "cuDNN", "flash": "Flash-\nAttention-2"}
SHAPES = "D 128", "D 128, causal"
WIDTH, HEIGHT = 10.0, 4.3  # inches
LEFT, RIGHT, TOP, BOTTOM, GAP = 0.62, 1.2, 0.95, 0.72, 1.35  # inches around and between the panels
QUERIES, KEYS = 128, 128  # of the tile whose cycles are counted


def figures(recorded: dict, shape: str) -> dict[tuple[str, str], float]:
    """TFLOP/s by case and DSL, and of each peer by its name and "". KeyError for a file that is another."""
    found = {}
    for entry in recorded["entries"]:
        if entry["shape"] == shape and entry.get("tflops") and not entry.get("why"):
            rung = entry["rung"]
            name = rung if rung in PEERS else rung.partition("_")[0]
            found[name, entry["dsl"]] = entry["tflops"]
    return found


def ladder(recorded: dict, highlight: str | None = None, shapes: Sequence[str] = SHAPES) -> Picture:
    """Draw TFLOP/s of each rung in both languages, a panel for each of two ``shapes``, with lines for peers.

    ``highlight`` is a case ("a1b") to show in full colour, later ones faint. Raises KeyError for a file that
    is another, ValueError where a shape was not recorded.
    """
    with matplotlib.rc_context(STYLE | AXES | {"xtick.color": INK}):
        figure = Picture(figsize=(WIDTH, HEIGHT))
        wide = (WIDTH - LEFT - RIGHT - GAP) / 2
        found = [figures(recorded, shape) for shape in shapes]
        if empty := [shape for shape, one in zip(shapes, found, strict=True) if not one]:
            raise ValueError(f"nothing is recorded for {empty[0]!r}")
        top = 1.1 * max(value for one in found for value in one.values())
        for column, (shape, one) in enumerate(zip(shapes, found, strict=True)):
            x = LEFT + column * (wide + GAP)
            place = (x / WIDTH, BOTTOM / HEIGHT, wide / WIDTH, (HEIGHT - TOP - BOTTOM) / HEIGHT)
            _panel(figure.add_axes(place), _title(recorded, shape), one, top, highlight)
        figure.headline("The ladder of attention")
        figure.key([Patch(color=colour, label=name) for name, colour in DSLS.values()], LEFT, 0.42)
        figure.footer(f"TFLOP/s, burst; a causal product counts half. {_source(recorded)}")
    return figure


def _title(recorded: dict, shape: str) -> str:
    at = next(entry["at"] for entry in recorded["entries"] if entry["shape"] == shape)
    batch, queries, _, heads, _, D = at
    causal = ", causal" if "causal" in shape else ""
    return f"{batch} x {heads} heads x {queries:,}, D = {D}{causal}"


def _panel(
    axes: Axes, title: str, found: dict[tuple[str, str], float], top: float, highlight: str | None
) -> None:
    axes.set_title(title, loc="left", size=9, weight="bold", pad=5)
    axes.set_ylim(0, top)
    axes.set_xlim(-0.55, len(RUNGS) - 0.45)
    axes.set_ylabel("TFLOP/s", size=8)
    rungs = list(RUNGS)
    axes.set_xticks(range(len(rungs)), [f"{one}\n{RUNGS[one]}" for one in rungs], size=7.8)
    for one, words in zip(rungs, axes.get_xticklabels(), strict=True):
        words.set_weight("bold" if one == highlight else "normal")
    bare(axes, "y", left=False)
    place = {rung: number for number, rung in enumerate(rungs)}
    for (rung, dsl), value in found.items():
        if rung not in place:
            continue
        strength = _strength(rungs, rung, highlight)
        x = place[rung] + (list(DSLS).index(dsl) - 0.5) * 0.44
        axes.bar(x, value, 0.41, color=tint(DSLS[dsl][1], strength), zorder=2)
        axes.text(x, value + top * 0.012, f"{value:.0f}", ha="center", size=7, color=INK, zorder=3)
    how = {"textcoords": "offset points", "va": "center", "size": 8, "annotation_clip": False}
    for name, words in PEERS.items():
        if value := found.get((name, "")):
            axes.axhline(value, color=GREY, linewidth=1.1, linestyle=(0, (4, 2)), zorder=1.5)
            axes.annotate(
                f"{words}\n{value:.0f}", (1, value), (4, 0), axes.get_yaxis_transform(), color=GREY, **how
            )


def _strength(rungs: list[str], rung: str, highlight: str | None) -> float:
    if highlight not in rungs or rung == highlight:
        return 1.0
    return 0.55 if rungs.index(rung) < rungs.index(highlight) else 0.25


def _source(recorded: dict) -> str:
    where = recorded["provenance"]
    return f"Recorded on {where['gpu']}, {where['date']}, torch {where['torch']}, driver {where['driver']}."


# -- the exponentials' own bound


def share(products: float, exponentials: float, overlapped: bool) -> float:
    """The share of the tensor cores' peak that is left at best."""
    return products / (max(products, exponentials) if overlapped else products + exponentials)


def exponentials(chip: Chip = HOME) -> Picture:
    """Draw the cycles of a tile by D: both products beside the exponentials, and what is left of the peak
    where they never overlap, and where they overlap perfectly. Raises ValueError as ``cycles`` does.
    """
    with matplotlib.rc_context(STYLE | AXES | {"ytick.color": INK}):
        figure = Picture(figsize=(WIDTH, 2.75))
        axes = figure.add_axes((0.075, 0.24, 0.56, 0.52))
        bare(axes, "x")
        ends = []
        for place, D in enumerate(HEAD_SIZES):
            products, exps = cycles(QUERIES, KEYS, D, chip)
            ends.append(products + exps)
            for begin, length, colour in ((0, products, GREEN), (products, exps, ORANGE)):
                axes.barh(place, length, 0.62, left=begin, color=colour, zorder=2)
                axes.text(begin + length / 2, place, f"{length:,.0f}", ha="center", va="center",
                          size=8, color="#1c1c1c", zorder=3)  # fmt: skip
            apart, together = (share(products, exps, way) for way in (False, True))
            words = f"at most {apart:.0%} of the peak apart, {together:.0%} overlapped"
            axes.annotate(words, (1, place), (8, 0), axes.get_yaxis_transform(), color=INK, size=8,
                          textcoords="offset points", va="center", annotation_clip=False)  # fmt: skip
        axes.set_xlim(0, max(ends))
        axes.set_ylim(len(HEAD_SIZES) - 0.5, -0.5)
        axes.set_yticks(range(len(HEAD_SIZES)), [f"D = {D}" for D in HEAD_SIZES], size=8.5)
        axes.set_xlabel("cycles of an SM", size=8, labelpad=2)
        figure.headline(f"One tile of {QUERIES} x {KEYS} scores")
        keys = [Patch(color=GREEN, label="both products"), Patch(color=ORANGE, label="exponentials")]
        figure.key(keys, 0.62, 0.42)
        figure.footer(
            f"{chip.family}: {chip.flop_per_clock:,} FLOP of wgmma per clock and SM (H100 white paper), "
            f"{chip.exp2_per_clock} ex2 (CUDA C++ Programming Guide, Throughput of Native Arithmetic "
            "Instructions). Computed, not measured."
        )
    return figure
