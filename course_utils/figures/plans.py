"""Pictures of step 11's recorded plans: a model's times beside the recorded ones, and every shape beside
cuBLAS.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Callable, Mapping

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from course_utils.figures.picture import Picture, bare, origin
from course_utils.figures.theme import AXES, BLUE, CARD, DSLS, GREY, GRID, INK, MARKS, PURPLE, STYLE, TEAL
from course_utils.plans import MOST, Plan
from course_utils.recordings.step11_results import Peers, Point, Recorded, Size, chosen, is_plain, spread

Seconds = Callable[[int, int, int, Plan], float]
WIDTH = 10.0  # inches
LOOK = STYLE | AXES | {"ytick.color": INK}
PEER_MARKS = ("^", "v", "P", "X", "*")
PEER_COLOURS = (BLUE, PURPLE, TEAL, INK, GREY)
NOTHING = "No plans are recorded yet."


def predicted(recorded: Recorded, seconds: Seconds) -> Figure:
    """Draw the times of ``seconds(M, N, K, plan)`` over the recorded ones, and by how much they are off.

    Clusters of more than two are drawn empty, and do not count. A learner's model knows neither swapped roles
    nor clusters that share A: they are left out. Whatever ``seconds`` raises goes on.
    """
    points = [
        p
        for p in recorded.points
        if p.mode == "burst" and not {"cluster_N", "keep"} & {*dict(p.changed)}
        if not p.plan.swapped and not p.plan.across
    ]
    told = [(point, seconds(*point.size, point.plan)) for point in points]
    counted = [(point, said / point.seconds - 1) for point, said in told if is_plain(point)]
    with matplotlib.rc_context(LOOK):
        figure = _figure(4.0, "A model's times, and the recorded ones")
        if not counted:
            return figure.nothing(NOTHING)
        _times(figure.add_axes((0.07, 0.2, 0.38, 0.6)), told)
        _errors(figure.add_axes((0.54, 0.2, 0.44, 0.6)), counted)
        figure.footer(f"{_off(counted)}\n{origin(recorded.provenance)}")
    return figure


def _off(counted: list[tuple[Point, float]]) -> str:
    """How far the model is off, below and above ``MOST``."""
    parts = []
    for words, some in (
        ("up to 1.5 TFLOP of work", [error for point, error in counted if point.work < MOST]),
        ("above it, where the power limit lowers the clock", [e for p, e in counted if p.work >= MOST]),
    ):
        if some:
            square = statistics.fmean(error**2 for error in some) ** 0.5
            worst = max(map(abs, some))
            parts.append(
                f"{words}: {len(some)} points, {square:.1%} off by root mean square, {worst:.1%} at most"
            )
    return "; ".join(parts)


def _times(axes: Axes, told: list[tuple[Point, float]]) -> None:
    """Model over record, on logarithmic axes; on the line they agree."""
    ends = [point.seconds * 1e6 for point, _ in told]
    line = [min(ends) / 1.3, max(ends) * 1.3]
    axes.plot(line, line, color=GREY, linewidth=0.8)
    for point, said in told:
        colour = DSLS[point.dsl][1]
        face = colour if is_plain(point) else "none"
        look = {"color": colour, "markerfacecolor": face, "markersize": 4}
        axes.plot(point.seconds * 1e6, said * 1e6, MARKS[point.dsl], **look)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("recorded, us", size=8, color=GREY)
    axes.set_ylabel("model, us", size=8, color=GREY)
    axes.set_title("empty: more than two CTAs in a cluster", loc="left", size=8, color=GREY)
    bare(axes)
    axes.legend(handles=_dsls("{}"), loc="lower right", frameon=False)


def _errors(axes: Axes, counted: list[tuple[Point, float]]) -> None:
    """By how much the model is off, over the work."""
    axes.axhline(0, color=GREY, linewidth=0.8)
    axes.axvline(MOST, color=GREY, linewidth=0.8, linestyle=(0, (4, 2)))
    for point, error in counted:
        axes.plot(point.work, error, MARKS[point.dsl], color=DSLS[point.dsl][1], markersize=4)
    axes.set_xscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:+.0%}")
    axes.set_xlabel("work, FLOP", size=8, color=GREY)
    axes.set_ylabel("model / recorded - 1", size=8, color=GREY)
    axes.set_title("above 0 the model is too slow", loc="left", size=8, color=GREY)
    bare(axes, "y")


# -- every shape


def shapes(recorded: Recorded, peers: Peers) -> Figure:
    """Draw each shape's share of cuBLAS: step 11's, with step 10's tile, and peers'."""
    here = chosen(recorded.points)
    sizes = sorted({size for _, size in here}, key=_kind)
    plain = {(dsl, size): _with_step_10s_tile(point, recorded.points) for (dsl, size), point in here.items()}
    also = textwrap.wrap(f"peers: {'; '.join(peers.said)}", 150) if peers.said else []
    runs = _runs(here, plain, peers, recorded.points)
    lines = [*filter(None, [_means(here)]), *also, *runs, origin(recorded.provenance)]
    below = 0.45 + 0.14 * len(lines)  # inches, of words
    height = 0.7 + below + 0.22 * max(len(sizes), 2)
    with matplotlib.rc_context(LOOK):
        figure = _figure(height, "Every shape beside cuBLAS")
        if not sizes:
            return figure.nothing(NOTHING)
        wide = 2.45 / WIDTH
        axes = figure.add_axes((wide, below / height, 0.985 - wide, 1 - (below + 0.65) / height))
        axes.set_yticks(range(len(sizes)), [_label(size, peers.names) for size in sizes])
        axes.set_ylim(len(sizes) - 0.4, -0.6)
        axes.axvline(1, color=INK, linewidth=0.9)
        for row, size in enumerate(sizes):
            _row(axes, row, size, here, plain)
        farthest = max([axes.dataLim.x1, *(r for found in peers.ratios.values() for r in found.values())])
        axes.set_xlim(axes.dataLim.x0 - 0.04, farthest + 0.02)
        for row, size in enumerate(sizes):
            _peers(axes, row, size, peers.ratios)
        axes.set_xlabel("share of cuBLAS, burst", size=8, color=GREY)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:.2f}")
        bare(axes, "x")
        _key(figure, list(peers.ratios))
        figure.footer("\n".join(lines))
    return figure


def _kind(size: Size) -> tuple:
    """Squares first, ragged ones last, and by their work."""
    M, N, K = size
    return any(side % 64 for side in size), not M == N == K, M * N * K


def _label(size: Size, names: Mapping[Size, str]) -> str:
    text = " x ".join(map(str, size))
    return f"{names[size]}  {text}" if names.get(size) else text


def _with_step_10s_tile(point: Point, points: list[Point]) -> Point | None:
    """Step 10's tile at a point's size: in its run, else in the newest that has it."""
    found = [
        p
        for p in points
        if (p.dsl, p.size, p.mode, p.plan, p.changed) == (point.dsl, point.size, "burst", Plan(), ())
    ]
    return max(found, key=lambda p: (p.run == point.run, p.run), default=None)


def _runs(
    here: dict[tuple[str, Size], Point],
    plain: dict[tuple[str, Size], Point | None],
    peers: Peers,
    points: list[Point],
) -> list[str]:
    """A line that says which marks are of other runs, if any are."""
    parts = {
        "some of step 11": len({point.run for point in here.values()}) > 1,
        "some with step 10's tile": any(p and p.run != here[at].run for at, p in plain.items()),
        "peers": bool(peers.ratios),
    }
    others = ", ".join(words for words, there in parts.items() if there)
    differ = f"a plan's share differs from run to run by up to {spread(points):.1%}"
    return [f"of other runs than the rest: {others}; {differ}"] if others else []


def _row(
    axes: Axes,
    row: int,
    size: Size,
    here: dict[tuple[str, Size], Point],
    plain: dict[tuple[str, Size], Point | None],
) -> None:
    """A shape: the two DSLs a little apart, and a line from step 10's tile to step 11's plan."""
    axes.axhspan(row - 0.5, row + 0.5, color=GRID, alpha=0.35 * (row % 2), linewidth=0)
    for dsl, shift in (("tilelang", -0.17), ("cute", 0.17)):
        colour = DSLS[dsl][1]
        point, before = here.get((dsl, size)), plain.get((dsl, size))
        if point is None:
            continue
        if before and point.plan != Plan():
            axes.plot([before.ratio, point.ratio], [row + shift] * 2, color=colour, linewidth=0.9)
            axes.plot(before.ratio, row + shift, MARKS[dsl], color=colour, markerfacecolor=CARD, markersize=4)
        axes.plot(point.ratio, row + shift, MARKS[dsl], color=colour, markersize=5)


def _peers(axes: Axes, row: int, size: Size, peers: Mapping[str, Mapping[Size, float]]) -> None:
    """Peers' marks; of those that lie farther left than the panel the figures, at its edge."""
    left, far = axes.get_xlim()[0], 0
    for index, (_, found) in enumerate(sorted(peers.items())):
        colour, ratio = PEER_COLOURS[index % 5], found.get(size)
        if ratio and ratio > left:
            axes.plot(ratio, row, PEER_MARKS[index % 5], color=colour, markersize=4.5, alpha=0.8)
        elif ratio:
            place = (4 + 24 * far, 0)
            text = {"size": 6.5, "color": colour, "va": "center", "textcoords": "offset points"}
            axes.annotate(f"{ratio:.2f}", (left, row), place, **text)
            far += 1


def _means(here: dict[tuple[str, Size], Point]) -> str:
    """The geometric mean of each DSL, and its worst shape."""
    words = []
    for dsl, (name, _) in DSLS.items():
        found = [point for (one, _), point in here.items() if one == dsl]
        if found:
            mean, worst = statistics.geometric_mean(p.ratio for p in found), min(found, key=lambda p: p.ratio)
            at = " x ".join(map(str, worst.size))
            words.append(
                f"{name}: {len(found)} shapes, geometric mean {mean:.3f}, least {worst.ratio:.3f} at {at}"
            )
    return "; ".join(words)


def _key(figure: Picture, peers: list[str]) -> None:
    handles = _dsls("step 11, {}")
    empty = {"ls": "", "marker": "o", "color": GREY, "markerfacecolor": CARD}
    handles.append(Line2D([], [], **empty, label="with step 10's tile"))
    for index, name in enumerate(sorted(peers)):
        mark = {"ls": "", "marker": PEER_MARKS[index % 5], "color": PEER_COLOURS[index % 5]}
        handles.append(Line2D([], [], **mark, label=name))
    figure.key(handles, 0.1, 0.38)


def _figure(height: float, title: str) -> Picture:
    figure = Picture(figsize=(WIDTH, height))
    figure.headline(title)
    return figure


def _dsls(words: str) -> list[Line2D]:
    """Each DSL's mark and its name in ``words``."""
    return [
        Line2D([], [], ls="", marker=MARKS[dsl], color=colour, label=words.format(name))
        for dsl, (name, colour) in DSLS.items()
    ]
