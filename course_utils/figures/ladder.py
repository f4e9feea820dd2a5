"""The ladder plot: TFLOP/s of every step beside cuBLAS, recorded once or measured on the learner's own GPU.

Works from what a results file holds (see ``recordings.model``); no GPU, torch or DSL is needed to draw it.
"""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.text import Text

from course_utils.chips import CHIPS
from course_utils.figures.picture import Picture, bare
from course_utils.figures.theme import AXES, CARD, DSL_TEXT, DSLS, GREY, INK, ON_HUE, STYLE, tint
from course_utils.grading import steps
from course_utils.recordings.model import Entry, Provenance, Timing, usable

SIZES = (4096, 8192)
LABELS = {step.id: f"{number} {step.label}" for number, step in enumerate(steps.STEPS.values(), 1)}
ONE_TILE = tuple(step.id for step in steps.STEPS.values() if "one CTA" in step.requires)  # whatever the panel

# other libraries, by what benchmarks/peers calls them, with a mark of their own
PEERS = {
    "cublaslt": ("cublasLt's best", "^"),
    "cutlass_dsl": ("CUTLASS", "s"),
    "triton_persistent": ("Triton", "v"),
    "tileops_gemm": ("TileOPs", "P"),
}

WIDTH, HEIGHT = 10.0, 7.8  # inches: 1600 x 1248 pixels
LEFT, RIGHT, TOP, GAP = 0.62, 1.45, 0.9, 0.78  # inches around and between the panels
PEER_LOOK = {"markersize": 5.5, "color": INK, "markeredgecolor": "white", "markeredgewidth": 0.8, "zorder": 4}
DIAMOND = {"linestyle": "", "marker": "D", "markersize": 6, "markeredgecolor": "white"}
VALUE_POINTS = 7.5  # largest font size of the values on the bars


@dataclass(frozen=True)
class Source:
    """What of a results file has a place on the ladder; ``others`` names the entries that have none.

    ``peers`` are timings of other libraries, ``also`` says where what other files hold comes from.
    """

    provenance: Provenance | None
    entries: list[Entry]
    others: list[str]
    peers: tuple[tuple[str, Timing], ...] = ()
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bar:
    """One step of one DSL at one size, TFLOP/s; None where it was not timed. ``share`` is the ratio to
    cuBLAS.
    """

    burst: float | None
    quartiles: tuple[float, float] | None
    share: float | None
    sustained: float | None


@dataclass(frozen=True)
class Scale:
    """A panel's units: ``point`` is the TFLOP/s a typographic point high, ``text`` the font size of the
    values.
    """

    point: float
    text: float

    def lines(self, count: int) -> float:
        """The height of ``count`` lines of a value, TFLOP/s."""
        return count * self.text * 1.3 * self.point


def ladder(
    recorded: dict, measured: dict | None = None, highlight: str | None = None, sizes: Sequence[int] = SIZES
) -> Picture:
    """Draw the ladder, a panel for each of ``sizes``: 4096, 8192 or both.

    ``recorded``, of ``measured.ladder()``, is drawn solid, or as outlines where ``measured`` (a results file)
    is given and solid.
    ``highlight`` names a step ("step05") to show in full colour, earlier ones muted and later ones faint; a
    name that is no step is ignored. An entry that is no entry of a results file, or of no step, is named
    below the panels and not drawn. Raises TypeError or ValueError where either dictionary has no list of
    entries.
    """
    old = _source(recorded, "recorded")
    new = None if measured is None else _source(measured, "measured")
    highlight = highlight if highlight in list(LABELS) else None
    with matplotlib.rc_context(STYLE | AXES | {"xtick.color": INK}):
        footer = _footer(old, new)
        bottom = 0.66 + 0.15 * footer.count("\n")
        height = (HEIGHT - TOP - GAP - bottom) / 2
        tall = TOP + bottom + height * len(sizes) + GAP * (len(sizes) - 1)
        figure = Picture(figsize=(WIDTH, tall))
        places, dsls = _present(old, new)
        for below, size in zip(reversed(range(len(sizes))), sizes, strict=True):
            y = bottom + (height + GAP) * below
            axes = figure.add_axes((LEFT / WIDTH, y / tall, (WIDTH - LEFT - RIGHT) / WIDTH, height / tall))
            _panel(axes, height, size, places, dsls, old, new, highlight)
        title = f"The ladder, step {LABELS[highlight].replace(' ', ': ', 1)}" if highlight else "The ladder"
        figure.headline(f"{title}  (fp16 GEMM, fp32 accumulate)", LEFT)
        handles = _legend(old, new, dsls)
        if handles:
            spacing = {"columnspacing": 1.6, "handletextpad": 0.6}
            figure.key(handles, LEFT, 0.42, labelcolor=INK, **spacing)
        figure.footer(footer, LEFT)
    return figure


# -- reading the data


def _source(data: dict, name: str) -> Source:
    if not isinstance(data, dict):
        raise TypeError(f'{name} must be a dict with "entries", not {type(data).__name__}')
    if not isinstance(data.get("entries"), (list, tuple)):
        raise ValueError(f'{name} must hold a list under "entries", as solutions/measured/ladder.json does')
    entries, others = [], []
    for raw in data["entries"]:
        entry = usable(raw, Entry)
        if entry and entry.step in LABELS and entry.dsl in DSLS:
            entries.append(entry)
        else:
            others.append(f"{raw.get('step')} {raw.get('dsl')}" if isinstance(raw, dict) else repr(raw)[:20])
    peers = [
        (raw["peer"], timing)
        for raw in data.get("peers", ())
        if raw["peer"] in PEERS and (timing := usable(raw, Timing))
    ]
    where = usable(data.get("provenance"), Provenance)
    return Source(where, entries, others, tuple(peers), tuple(data.get("also", ())))


def _peers(source: Source, size: int) -> dict[str, float]:
    """Peers to their burst TFLOP/s at ``size``."""
    return {peer: t.tflops for peer, t in source.peers if (t.size, t.mode) == ((size,) * 3, "burst")}


def _bars(source: Source | None, size: int) -> dict[tuple[str, str], Bar]:
    """(step, dsl) to its Bar at ``size``; of two entries for one bar the later counts."""
    bars = {}
    for entry in source.entries if source else ():
        runs = {t.mode: t for t in entry.timings if entry.step in ONE_TILE or t.size == (size,) * 3}
        burst, sustained = runs.get("burst"), runs.get("sustained")
        spread = burst.tflops_quartiles if burst else None
        if runs:
            bars[entry.step, entry.dsl] = Bar(
                burst.tflops if burst else None,
                (min(spread[0], burst.tflops), max(spread[1], burst.tflops)) if spread else None,
                burst.ratio if burst else None,
                sustained.tflops if sustained else None,
            )
    return bars


def _peak(source: Source | None) -> float:
    """The data sheet's dense fp16 TFLOP/s of a source's GPU; 0 where they are not known."""
    chip = CHIPS.get(source.provenance.gpu) if source and source.provenance else None
    return chip.peak_tflops if chip else 0.0


def _cublas(source: Source | None, size: int, mode: str) -> float | None:
    """Median TFLOP/s of cuBLAS over all timings at ``size`` in ``mode``."""
    timings = [t for entry in source.entries for t in entry.timings] if source else []
    values = [t.cublas_tflops for t in timings if (t.size, t.mode) == ((size,) * 3, mode)]
    return statistics.median(values) if values else None


def _present(*sources: Source | None) -> tuple[list[str], list[str]]:
    """The steps to give a place on the axis (3 to 10, and 1 and 2 where drawn), and the DSLs drawn."""
    drawn = {key for source in sources for size in SIZES for key in _bars(source, size)}
    places = [step for step in LABELS if step not in ONE_TILE or step in {s for s, _ in drawn}]
    return places, [dsl for dsl in DSLS if dsl in {d for _, d in drawn}]


def _climbed(bars: dict[tuple[str, str], Bar]) -> bool:
    """Is a step beyond the one-tile ones among them?"""
    return any(step not in ONE_TILE for step, _ in bars)


def _footer(recorded: Source, measured: Source | None) -> str:
    """Where the numbers come from, a paragraph for each source, and what the marks mean, wrapped to the
    figure's width.
    """
    paragraphs = []
    for verb, source in (("measured", measured), ("recorded", recorded)):
        if source is not None:
            text = _origin(verb, source) if source.entries or source.others else f"nothing {verb} yet"
            paragraphs.append(textwrap.shorten(text.encode("utf-8", "replace").decode(), 600))
    if any(_bars(source, size) for source in (recorded, measured) for size in SIZES):
        paragraphs.append("bars: burst median with quartiles, diamonds: sustained")
    if any(_climbed(_bars(measured, size)) for size in SIZES):
        paragraphs[-1] += "; cuBLAS: as measured here"
    return "\n".join(line for text in paragraphs for line in textwrap.wrap(text, 150))


def _origin(verb: str, source: Source) -> str:
    """ "recorded on NVIDIA H200, 2026-11-20, ...", and the entries that the plot has no place for."""
    parts, where = [f"{verb} on an unnamed GPU", "no date"], source.provenance
    if where:
        parts = [f"{verb} on {where.gpu}", where.date]
        parts += [f"driver {where.driver}"] if where.driver else []
        parts += [f"{name} {version}" for name, version in where.versions.items()]
    text = ", ".join(parts) + "".join(f"; {where}" for where in source.also)
    return text + (f"; not drawn: {', '.join(source.others)}" if source.others else "")


# -- drawing


def _strength(step: str, highlight: str | None) -> float:
    if highlight is None or step == highlight:
        return 1.0
    return 0.55 if step < highlight else 0.18


def _ink_on(colour: tuple[float, float, float], strength: float) -> str:
    if strength < 0.3:
        return GREY
    luminance = 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]
    if luminance < 0.5:
        return "white"
    return ON_HUE[0] if strength == 1 else INK


def _panel(
    axes: Axes,
    height: float,
    size: int,
    places: list[str],
    dsls: list[str],
    recorded: Source,
    measured: Source | None,
    highlight: str | None,
) -> None:
    """One size: bars, markers, values, and cuBLAS and peak as labelled lines. ``height`` is the panel's, in
    inches; ``places`` are the steps on its axis.
    """
    old, new = _bars(recorded, size), _bars(measured, size)
    climbed = _climbed(new)
    source = measured if climbed else recorded  # whose GPU the lines are drawn for
    lines = [
        (_cublas(source, size, "burst"), "cuBLAS burst {:.0f}", "-", GREY),
        (_cublas(source, size, "sustained"), "cuBLAS sustained {:.0f}", (0, (4, 2)), GREY),
        (_peak(source), "fp16 peak {:g}", ":", INK),
    ]
    lines = [line for line in lines if line[0]]
    bars = [*old.values(), *new.values()]
    tallest = [v for b in bars for v in (b.burst, b.sustained, *(b.quartiles or ())) if v]
    top = 1.08 * max([100.0, *tallest, *(line[0] for line in lines)])
    empty = " (nothing measured here yet)" if measured is not None and old and not climbed else ""
    axes.set_title(f"M = N = K = {size}{empty}", loc="left", size=9, weight="bold", pad=5)
    _frame(axes, places, highlight, top, bool(recorded.peers))
    if not bars:
        how = {"transform": axes.transAxes, "ha": "center", "va": "center", "size": 12, "color": GREY}
        axes.text(0.5, 0.5, "nothing recorded yet", **how)
        axes.set_yticks([])
        axes.set_ylabel("")
        return
    pitch = 0.92 / len(dsls) if len(dsls) > 1 else 0.66  # of a step's place, from bar to bar
    width = pitch * (0.92 if measured is None else 0.87)
    # points; "102%" is 2.9 font sizes wide
    across = width * (WIDTH - LEFT - RIGHT) * 72 / (len(places) + bool(recorded.peers)) - 3
    scale = Scale(top / (height * 72), min(VALUE_POINTS, across / 2.9))
    _lines(axes, lines, 11 * scale.point)
    _marks(axes, len(places), _peers(recorded, size))
    for place, step in enumerate(places):
        strength, foot = _strength(step, highlight), 5 * scale.point
        low = foot
        for index, dsl in enumerate(dsls):
            x = place + (index - (len(dsls) - 1) / 2) * pitch
            before, now = old.get((step, dsl)), new.get((step, dsl))
            shown = before if measured is None else now
            if step in ONE_TILE:
                bar, outlined = shown or before, shown is None
                low += _sliver(axes, place, x, width, low, dsl, bar, outlined, strength, scale)
                continue
            if before and before.burst and measured is not None:
                edge = tint(DSLS[dsl][1], 0.5 * strength + 0.1)
                axes.bar(
                    x, before.burst, pitch * 0.97, facecolor="none", edgecolor=edge, linewidth=1.0, zorder=2
                )
            if shown:
                _solid(axes, x, width, shown, DSLS[dsl][1], strength, scale)
            elif before and before.burst:
                _value(axes, x, before, GREY, scale)
        if low > foot:
            _words(axes, place, low, "one tile", GREY, scale, gid="note")


def _marks(axes: Axes, place: int, found: dict[str, float]) -> None:
    """The peers, side by side at their place."""
    for index, (peer, (_, mark)) in enumerate(PEERS.items()):
        if peer in found:
            x = place + (index - (len(PEERS) - 1) / 2) * 0.2
            axes.plot([x], [found[peer]], mark, **PEER_LOOK)


def _frame(axes: Axes, places: list[str], highlight: str | None, top: float, peers: bool) -> None:
    """Limits, grid, and the steps below the bars, the highlighted one in bold; last the peers."""
    axes.set_xlim(-0.55, len(places) - 0.45 + peers)
    axes.set_ylim(0, top)
    axes.set_ylabel("TFLOP/s", size=8)
    labels = [LABELS[step].replace(" ", "\n", 1) for step in places] + ["peers"] * peers
    axes.set_xticks(range(len(labels)), labels, size=8.5 if len(labels) < 12 else 7.8)
    for step, label in zip(places, axes.get_xticklabels(), strict=False):
        label.set_weight("bold" if step == highlight else "normal")
    bare(axes, "y", left=False)


def _lines(axes: Axes, lines: list[tuple], spacing: float) -> None:
    """Horizontal lines, each named in the right margin; names keep ``spacing`` TFLOP/s between them."""
    free = 0.0
    how = {"textcoords": "offset points", "va": "center", "size": 8, "annotation_clip": False}
    for value, label, style, colour in sorted(lines, key=lambda line: line[0]):
        axes.axhline(value, color=colour, linestyle=style, linewidth=1.1, zorder=1.5)
        at = max(value, free)
        axes.annotate(label.format(value), (1, at), (4, 0), axes.get_yaxis_transform(), color=colour, **how)
        free = at + spacing


def _sliver(
    axes: Axes,
    place: int,
    x: float,
    width: float,
    low: float,
    dsl: str,
    bar: Bar | None,
    outlined: bool,
    strength: float,
    scale: Scale,
) -> float:
    """The bar of a one-tile step, never thinner than the eye sees, and its value at ``low``; the height
    taken, TFLOP/s.
    """
    if bar is None or not bar.burst:
        return 0.0
    fill = tint(DSLS[dsl][1], strength)
    look = {"zorder": 2.2, "linewidth": 0.8, "edgecolor": [fill], "facecolor": CARD if outlined else fill}
    axes.bar(x, max(bar.burst, 1.5 * scale.point), width, **look)
    ink = GREY if outlined or strength < 0.3 else DSL_TEXT[dsl]
    _words(axes, place, low, _tflops_text(bar.burst), ink, scale)
    return scale.lines(1)


def _words(axes: Axes, x: float, y: float, text: str, ink: str, scale: Scale, **how: object) -> Text:
    """A value, or what stands in its place, above (x, y)."""
    look = {"ha": "center", "va": "bottom", "size": scale.text, "color": ink, "gid": "value"}
    return axes.text(x, y, text, **look | how)


def _solid(axes: Axes, x: float, width: float, bar: Bar, colour: str, strength: float, scale: Scale) -> None:
    """The bar with its quartiles, sustained diamond and value."""
    fill = tint(colour, strength)
    dark = tint(INK, max(strength, 0.3))
    if bar.burst:
        axes.bar(x, bar.burst, width, color=[fill], linewidth=0, zorder=2.2)
        if bar.quartiles:
            low, high = bar.quartiles
            whiskers = {"color": dark, "elinewidth": 1.0, "capsize": 5, "capthick": 1.0, "zorder": 3}
            axes.errorbar(x, bar.burst, [[bar.burst - low], [high - bar.burst]], **whiskers)
        _value(axes, x, bar, _ink_on(fill, strength), scale)
    if bar.sustained:
        axes.plot([x], [bar.sustained], markerfacecolor=dark, markeredgewidth=1.0, zorder=4, **DIAMOND)


def _tflops_text(tflops: float) -> str:
    return f"{tflops:.0f}" if tflops >= 10 else f"{tflops:.2g}"


def _value(axes: Axes, x: float, bar: Bar, ink: str, scale: Scale) -> None:
    """The bar's TFLOP/s and share of cuBLAS: at its foot, all in one row, or above it where it is too
    short.
    """
    text = _tflops_text(bar.burst) + (f"\n{bar.share:.0%}" if bar.share else "")
    marks = [bar.burst, *(bar.quartiles or ())] + ([bar.sustained] if bar.sustained else [])
    inside = min(marks) > scale.lines(2) + 10 * scale.point
    at = 4 * scale.point if inside else max(marks) + 5 * scale.point
    drawn = _words(axes, x, at, text, ink, scale, linespacing=1.2, zorder=5)
    if not inside:
        drawn.set_color(GREY if ink == GREY else INK)
        drawn.set_path_effects([withStroke(linewidth=2.5, foreground=CARD)])


def _legend(recorded: Source, measured: Source | None, dsls: list[str]) -> list:
    """Handles for what is drawn, and nothing else."""
    old, new = ([bar for size in SIZES for bar in _bars(one, size).items()] for one in (recorded, measured))
    handles = []
    for dsl in dsls:
        name, colour = DSLS[dsl]
        if measured is None:
            handles.append(Patch(facecolor=colour, label=name))
            continue
        if dsl in {d for (_, d), _ in new}:
            handles.append(Patch(facecolor=colour, label=f"{name}, measured here"))
        if dsl in {d for (_, d), _ in old}:
            handles.append(Patch(facecolor=CARD, edgecolor=tint(colour, 0.6), label=f"{name}, recorded"))
    if any(bar.sustained and step not in ONE_TILE for (step, _), bar in (old if measured is None else new)):
        handles.append(Line2D([], [], markerfacecolor=INK, label="sustained", **DIAMOND))
    drawn = {peer for size in SIZES for peer in _peers(recorded, size)}
    for peer, (name, mark) in PEERS.items():
        if peer in drawn:
            handles.append(Line2D([], [], linestyle="", marker=mark, label=name, **PEER_LOOK))
    return handles
