"""The timeline of an emulated launch: who worked, who waited, and for whom; of a deadlock, the circle that
never opens.

The axis counts warp instructions executed by the whole machine. It is an order of events, not a time on the
chip.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import matplotlib
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Patch

from course_utils.figures.picture import Picture
from course_utils.figures.theme import CARD, GREY, INK, LANE, RED, STYLE, WORK
from course_utils.run.emulator.explain.timeline import COLUMNS, COPY, MMA, UNITS

if TYPE_CHECKING:
    from course_utils.run.emulator import Emulation
    from course_utils.run.emulator.explain.timeline import Span

COLOURS = {COPY: WORK["TMA load"], **WORK, MMA: WORK["wgmma"], COLUMNS: GREY}
# of a lane, from below
ROWS = {"wait": 0, "epilogue": 1, "wgmma": 1, "TMA load": 2, COPY: 2, "TMA store": 2, MMA: 1, COLUMNS: 1}
ROW = 0.26  # its height in lanes,
BAR = 0.86 * ROW  # and that of what is drawn in it
EDGES = 80  # waits whose arrivals are drawn; more would hide each other


@dataclass(frozen=True)
class Lane:
    """One role of one CTA: the producer warp, or a warpgroup of consumers; or one of its units."""

    cta: int
    warpgroup: int
    role: str

    def __str__(self) -> str:
        if self.role in UNITS:
            return f"CTA {self.cta}, {self.role}"
        return (
            f"CTA {self.cta}, {self.role or 'warps'} ({'warp' if self.role == 'producer' else 'warpgroup'} "
            f"{self.warpgroup if self.role != 'producer' else self.warpgroup * 4})"
        )


Lanes = dict[Lane, int]  # to their places, from below


def timeline(emulation: Emulation, ctas: Sequence[int] | None = None, title: str = "") -> Picture:
    """Draw the spans and arrivals of an ``Emulation``, one lane a role, for ``ctas`` (default: the first two
    that work).

    Raises ValueError where those CTAs did nothing.
    """
    spans = _named([s for s in emulation.spans if s.role])
    working = sorted({s.cta for s in spans if s.kind != "wait"} | {row["cta"] for row in _stuck(emulation)})
    ctas = list(ctas) if ctas is not None else _first_cluster(emulation, working)
    spans = [s for s in spans if s.cta in ctas]
    if not spans and not _stuck(emulation):
        raise ValueError(
            f"CTA {', '.join(map(str, ctas))} did nothing to draw; the CTAs that worked are {working[:20]}"
        )
    lanes = _lanes(emulation, spans, ctas)
    begin = min((s.begin for s in spans if s.kind != "wait"), default=0)
    end = max([s.end for s in spans] + ([emulation.executed] if _stuck(emulation) else []) + [begin + 1])
    with matplotlib.rc_context({**STYLE, "xtick.color": GREY}):
        figure = Picture(figsize=(11, 1.5 + 0.85 * len(lanes)))
        axes = figure.add_axes((0.19, 0.62 / figure.get_figheight(), 0.79, 1 - 1.25 / figure.get_figheight()))
        told = [span.role for span in emulation.spans] + [row["role"] for row in _stuck(emulation)]
        _draw_lanes(axes, lanes, "producer" in told)
        for span in spans:
            _draw_span(axes, span, lanes, begin)
        _draw_edges(axes, emulation, spans, lanes, begin)
        _draw_stuck(axes, emulation, lanes, begin, end)
        axes.set_xlim(begin - 0.01 * (end - begin), end + 0.01 * (end - begin))
        axes.set_xlabel("warp instructions executed so far: an order, not a time")
        kinds = [k for k in COLOURS if any(s.kind == k for s in spans)]
        handles = [Patch(color=COLOURS[k], label="waits" if k == "wait" else k) for k in kinds]
        handles += [Patch(color=RED, label="waits forever")] if _stuck(emulation) else []
        place = {"loc": "lower left", "bbox_to_anchor": (-0.01, 1.0)}
        axes.legend(handles=handles, ncol=len(handles), frameon=False, **place)
        top = 1 - 0.28 / figure.get_figheight()
        figure.text(0.01, top, title or "Emulated order", fontsize=11, weight="bold")
    return figure


def _named(spans: list[Span]) -> list[Span]:
    """The spans, with what threads write between two wgmmas of a kernel without TMA loads as the copy of the
    next tile that it is: the emulator takes all that a warp writes once it has multiplied for its epilogue.
    """
    if any(s.kind == "TMA load" for s in spans):
        return spans
    last: dict[tuple[int, int], int] = {}
    for s in spans:
        if s.kind == "wgmma":
            group = s.cta, s.warp // 4
            last[group] = max(s.begin, last.get(group, 0))
    return [
        replace(s, kind=COPY) if s.kind == "epilogue" and s.begin < last.get((s.cta, s.warp // 4), 0) else s
        for s in spans
    ]


def _stuck(emulation: Emulation) -> list[dict]:
    """The waiting groups of a deadlock, or nothing."""
    return [row for finding in emulation.findings for row in finding.waiting]


def _first_cluster(emulation: Emulation, working: list[int]) -> list[int]:
    """The first CTAs that work together: those that arrive on each other's barriers, else one."""
    stuck = sorted({row["cta"] for row in _stuck(emulation)})
    first = (stuck or working or [0])[0]
    partners = {a.by_cta for a in emulation.arrivals if a.cta == first} | {
        a.cta for a in emulation.arrivals if a.by_cta == first
    }
    return sorted(partners | {first} | set(stuck[:2]))[:2]


def _lanes(emulation: Emulation, spans: list[Span], ctas: Sequence[int]) -> Lanes:
    """Lanes from top to bottom: producers above their consumers."""
    found = {_lane(s.cta, s.warp, s.role) for s in spans}
    found |= {
        _lane(row["cta"], row["warps"][0], row["role"])
        for row in _stuck(emulation)
        if row["cta"] in ctas and row["role"]
    }
    order = ["producer", "", *UNITS]  # any other role is like none
    ordered = sorted(
        found,
        key=lambda lane: (lane.cta, order.index(lane.role if lane.role in order else ""), lane.warpgroup),
    )
    return {lane: len(ordered) - 1 - place for place, lane in enumerate(ordered)}


def _lane_of(row: dict, lanes: Lanes) -> Lane | None:
    """The lane of a waiting group. Where no warp is a producer, its role has no name."""
    lane = _lane(row["cta"], row["warps"][0], row["role"])
    same = [other for other in lanes if (other.cta, other.warpgroup) == (lane.cta, lane.warpgroup)]
    return lane if lane in lanes else next(iter(same), None)


def _lane(cta: int, warp: int, role: str) -> Lane:
    return Lane(cta, warp // 4, role)


def _draw_lanes(axes: Axes, lanes: Lanes, roles: bool) -> None:
    """``roles``: there are producers, so each lane has a role to be named by."""
    for y in lanes.values():
        axes.axhspan(y + 0.04, y + 0.96, color=LANE, lw=0, zorder=0)
    axes.set_ylim(0, max(len(lanes), 1))
    names = [
        str(lane) if roles or lane.role in UNITS else f"CTA {lane.cta}, warpgroup {lane.warpgroup}"
        for lane in lanes
    ]
    axes.set_yticks([y + 0.5 for y in lanes.values()], names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _draw_span(axes: Axes, span: Span, lanes: Lanes, begin: int) -> None:
    y = lanes[_lane(span.cta, span.warp, span.role)] + 0.1 + ROW * ROWS[span.kind]
    left, width = max(span.begin, begin), max(span.end - max(span.begin, begin), 0)
    if span.end < begin:
        return
    colour, strong = COLOURS[span.kind], span.kind == "epilogue"
    axes.barh(y, width, BAR, left, align="edge", color=colour, lw=0, alpha=0.9 if strong else 0.45, zorder=2)
    # work overlaps, or is as short as a burst of stores: where each span begins tells them apart
    if span.kind != "wait":
        axes.plot([left, left], [y, y + BAR], color=colour, lw=2 if strong else 1, zorder=3)


def _draw_edges(axes: Axes, emulation: Emulation, spans: list[Span], lanes: Lanes, begin: int) -> None:
    """From the last arrival of each lane to the wait of the same barrier and phase that it let go."""
    by_warp = {(lane.cta, lane.warpgroup): y for lane, y in lanes.items()}
    last: dict[tuple, dict[int, int]] = {}
    for a in emulation.arrivals:
        if (start := by_warp.get((a.by_cta, a.by_warp // 4))) is not None and a.time >= begin:
            last.setdefault((a.cta, a.barrier, a.phase), {})[start] = a.time
    drawn = set()
    for span in spans:
        stop = lanes[_lane(span.cta, span.warp, span.role)]
        key = span.cta, span.label, span.phase
        if span.kind != "wait" or span.phase is None or (key, stop) in drawn:
            continue
        drawn.add((key, stop))
        for start, time in last.get(key, {}).items():
            if start != stop and time <= span.end and len(drawn) <= EDGES:
                axes.plot([time, span.end], [start + 0.5, stop + 0.2], color=INK, lw=0.6, alpha=0.5, zorder=4)


def _draw_stuck(axes: Axes, emulation: Emulation, lanes: Lanes, begin: int, end: int) -> None:
    places = []
    for number, row in enumerate(_stuck(emulation)):
        lane = _lane_of(row, lanes)
        if lane is None:
            continue
        y = lanes[lane]
        last = max((s.end for s in emulation.spans if _lane(s.cta, s.warp, s.role) == lane), default=begin)
        left = min(last, end - 0.12 * (end - begin))
        axes.barh(y + 0.1, end - left, BAR, left, align="edge", color=RED, alpha=0.75, lw=0, zorder=5)
        words = "waits " + row["text"].split(": ")[0] + (", for bytes" if _lacks_bytes_alone(row) else "")
        ground = {"facecolor": CARD, "alpha": 0.8, "lw": 0, "pad": 1}
        look = {"ha": "right", "va": "bottom", "color": RED, "fontsize": 7.5, "zorder": 7, "bbox": ground}
        axes.text(end, y + 0.43, words, **look)
        places.append((row, lane, number))
    for row, lane, number in places:
        for supplier in sorted(_suppliers(emulation, row, lanes) - {lane}, key=lanes.__getitem__):
            x = end - (0.03 + 0.025 * (number % 4)) * (end - begin)
            bend = f"arc3,rad={0.25 if number % 2 else -0.25}"
            look = {"arrowstyle": "-|>", "color": RED, "lw": 1.6, "mutation_scale": 11, "zorder": 6}
            ends = (x, lanes[lane] + 0.2), (x, lanes[supplier] + 0.2)
            axes.add_patch(FancyArrowPatch(*ends, connectionstyle=bend, shrinkA=2, shrinkB=2, **look))


def _lacks_bytes_alone(row: dict) -> bool:
    return bool(row.get("bytes_missing")) and not row.get("arrivals_missing")


def _suppliers(emulation: Emulation, row: dict, lanes: Lanes) -> set[Lane]:
    """The lanes whose arrivals a stuck row waits for: those that arrived on its barrier before, else those of
    the other role. Nobody's where bytes alone are missing: no role waits for the other.
    """
    if not row.get("barrier") or _lacks_bytes_alone(row):
        return set()
    warps = {
        (a.by_cta, a.by_warp // 4)
        for a in emulation.arrivals
        if (a.cta, a.barrier) == (row["cta"], row["barrier"])
    }
    found = {lane for lane in lanes if (lane.cta, lane.warpgroup) in warps}
    wanted = "producer" if row["barrier"].startswith("full") else "consumer"
    return found or {lane for lane in lanes if lane.cta == row["cta"] and lane.role.startswith(wanted)}
