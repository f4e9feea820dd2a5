"""All that was timed on the way to step 11: which tile, cluster and order at which size, beside cuBLAS.

The study is finished: benchmarks/step11.py, last of commit 6bbfabb, wrote ``solutions/measured/step11.json``.
Its older entries name everything that was tried on the way, its newer ones the five fields of a plan: both
are read into one form. Peers, where they are recorded, are in ``peers.json``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from course_utils.plans import Plan, choose, had_overlap, holds_two, of_fields
from course_utils.recordings import measured

Size = tuple[int, int, int]
# fields of the older entries, as step 11 has them: so many CTAs side by side share A, every other tile goes
# through K backwards, stages at most, hints to L2 for A, B and D
STEP_11 = {"cluster_N": 1, "back": True, "max_stages": 8, "keep": [None] * 3}
NARROW = ("narrow", True)  # D leaves in chunks of half the columns


@dataclass(frozen=True)
class Point:
    """One plan, timed at one size. ``ratio`` is the share of cuBLAS, ``mode`` burst or sustained.

    ``changed`` are the fields in which the kernel was another one than step 11's, with their values.
    """

    dsl: str
    size: Size
    mode: str
    name: str
    plan: Plan
    changed: tuple[tuple[str, object], ...]
    seconds: float
    tflops: float
    ratio: float
    run: int = 1  # of the recording: shares of cuBLAS are compared within one

    @property
    def work(self) -> int:
        """Floating-point operations."""
        return 2 * prod(self.size)


class Recorded(NamedTuple):
    """What is recorded."""

    provenance: dict
    points: list[Point]


def load() -> Recorded:
    """The recorded plans, the oldest first; none where none were recorded. Of two of one plan and run the
    later counts.

    Raises MeasuredError.
    """
    data = measured.load("step11")
    try:
        points: dict[tuple, Point] = {}
        for point in filter(None, map(_point, data["entries"])):
            points.pop(_key(point), None)
            points[_key(point)] = point
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise measured.MeasuredError(f"step11.json has a plan of no known form: {error!r}") from None
    return Recorded(data["provenance"], list(points.values()))


def chosen(points: list[Point]) -> dict[tuple[str, Size], Point]:
    """(DSL, size) to the point, burst, of the plan that ``choose`` takes there: of one run where that can be,
    the newest of those that have most of these plans. Where it is not recorded, the same with another panel,
    the newest that an earlier chooser took, or else step 10's tile.
    """
    plain = [point for point in points if point.mode == "burst" and is_plain(point)]
    taken = [p for p in plain if p.plan == choose(*p.size, dsl=p.dsl) and not p.changed]
    runs = Counter(p.run for p in taken)
    widest = max(runs, key=lambda run: (runs[run], run), default=0)
    ranked = [
        [p for p in plain if (p.plan, p.changed) == (Plan(), ())],
        [p for p in plain if p.name.startswith("chosen")],
        [p for p in plain if p.plan[:4] == choose(*p.size, dsl=p.dsl)[:4] and not p.changed],
        taken,
        [p for p in taken if p.run == widest],
    ]
    return {(point.dsl, point.size): point for some in ranked for point in some}


def spread(points: list[Point]) -> float:
    """By how much the shares of cuBLAS of one plan at one size, burst, differ from run to run at most."""
    shares: dict[tuple, list[float]] = {}
    for point in points:
        if point.mode == "burst":
            shares.setdefault(_key(point)[:-1], []).append(point.ratio)
    return max((max(found) / min(found) - 1 for found in shares.values()), default=0.0)


def is_plain(point: Point) -> bool:
    """Is this a plan that step 11 can have? Its clusters fit, and no more than the chunks of D are others."""
    return point.plan.cluster <= 2 and point.changed in ((), (NARROW,))


class Peers(NamedTuple):
    """Each peer's share of cuBLAS by size, what the sizes are called, and a sentence on each peer."""

    ratios: dict[str, dict[Size, float]]
    names: dict[Size, str]
    said: list[str]


def peers() -> Peers:
    """What is recorded of other libraries, burst; nothing where nothing is. Raises MeasuredError."""
    found = Peers({}, {}, [])
    for path in sorted(measured.FOLDER.glob("peers*.json")):
        data = measured.load(path.stem)
        said = data.get("peers", {})
        for entry in data["entries"]:
            peer = said.get(entry["peer"], entry["peer"])
            if peer not in found.said:
                found.said.append(peer)
            found.names[_size(entry)] = entry.get("shape", "")
            if entry["timing"] and entry["timing"]["mode"] == "burst":
                found.ratios.setdefault(peer.partition(",")[0], {})[_size(entry)] = entry["timing"]["ratio"]
    return found


def _size(entry: dict) -> Size:
    M, N, K = entry["size"]
    return M, N, K


def _key(point: Point) -> tuple:
    return point.dsl, point.size, point.mode, point.plan, point.changed, point.run


def _point(entry: dict) -> Point | None:
    """None for a plan that could not be timed."""
    timing, plan = entry["timing"], entry["plan"]
    if not timing:
        return None
    took = timing["seconds"], timing["tflops"], timing["ratio"]
    named = entry["dsl"], _size(entry), entry["mode"], entry["name"]
    return Point(*named, of_fields(plan), _changed(plan, entry.get("order", "")), *took, entry.get("run", 1))


def _changed(plan: dict, order: str) -> tuple[tuple[str, object], ...]:
    """What another kernel than step 11's had. In step 11 the tile says whether D leaves under the next."""
    step_11 = STEP_11 | {"overlap": holds_two(of_fields(plan))}
    plan = plan | {"overlap": had_overlap(plan)}
    other = {name: plan[name] for name in step_11 if plan.get(name, step_11[name]) != step_11[name]}
    narrow = plan["overlap"] and plan.get("epi_N") == 32 and plan["block_N"] % 64 == 0
    other |= {"narrow": True} if narrow else {}
    other |= {"order": order} if order else {}
    return tuple((name, tuple(value) if name == "keep" else value) for name, value in other.items())
