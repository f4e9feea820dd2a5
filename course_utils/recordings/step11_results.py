"""All that was timed on the way to step 11: which tile, cluster and order at which size, beside cuBLAS.

``solutions/measured/step11.json`` is what ``benchmarks/step11.py`` wrote. Its older entries name everything
that was tried on the way, its newer ones the five fields of a plan: both are read into one form. Peers, where
they are recorded, are in ``peers.json``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from course_utils.plans import Plan, choose
from course_utils.recordings import measured

Size = tuple[int, int, int]
HINTS = {None: "", 1364590687093260288: "first", 1508705875169116160: "last"}  # L2: what to evict when
AS_MANY_AS_FIT = 8  # stages
UNCHANGED = "step 11"  # the name of step 11 as it is, in candidates.json


class Rest(NamedTuple):
    """What else was tried; the defaults are step 11's."""

    across: int = 1  # CTAs of a cluster side by side, which share A
    overlap: bool = True  # D leaves while the next tile is multiplied
    back: bool = True  # every other tile goes through K backwards
    stages: int = AS_MANY_AS_FIT  # at most
    narrow: bool = False  # D leaves in chunks of half the columns
    hints: tuple[str, str, str] = ("", "", "")  # of A, B and D
    order: str = ""  # of tiles, where it is no panel's


@dataclass(frozen=True)
class Point:
    """One plan, timed at one size. ``ratio`` is the share of cuBLAS, ``mode`` burst or sustained."""

    dsl: str
    size: Size
    mode: str
    name: str
    plan: Plan
    rest: Rest
    seconds: float
    tflops: float
    ratio: float
    run: int = 1  # of the recording: shares of cuBLAS are compared within one

    @property
    def work(self) -> int:
        """Floating-point operations."""
        return 2 * prod(self.size)


class Recorded(NamedTuple):
    """What is recorded: ``at_once`` says how many clusters of a size the GPU runs at once."""

    provenance: dict
    at_once: dict[int, int]
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
        at_once = {int(ctas): count for ctas, count in data.get("clusters_at_once", {}).items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise measured.MeasuredError(f"step11.json has a plan of no known form: {error!r}") from None
    return Recorded(data["provenance"], at_once, list(points.values()))


class Changed(NamedTuple):
    """Step 11 with one change in one DSL: by how much it is quicker than without, by size and mode; or why it
    was not timed.
    """

    words: str
    dsl: str
    gains: dict[tuple[Size, str], float]
    why: str


def changes() -> list[Changed]:
    """What ``candidates.json`` has of each change, in its order; nothing where nothing is recorded. Raises
    MeasuredError.
    """
    found: dict[tuple[str, str], Changed] = {}
    for entry in measured.load("candidates")["entries"]:
        key = entry["name"], entry["dsl"]
        if entry["name"] in ("", UNCHANGED):  # a run that broke off, and what the others are held against
            continue
        one = found.setdefault(key, Changed(*key, {}, ""))
        if entry["timing"]:
            one.gains[_size(entry), entry["mode"]] = entry["beside"]["ratio"] - 1
        else:
            found[key] = one._replace(why=entry["why"])
    return list(found.values())


def chosen(points: list[Point]) -> dict[tuple[str, Size], Point]:
    """(DSL, size) to the point, burst, of the plan that ``choose`` takes there: of one run where that can be,
    the newest of those that have most of these plans. Where it is not recorded, the same with another panel,
    the newest that an earlier chooser took, or else step 10's tile.
    """
    plain = [point for point in points if point.mode == "burst" and is_plain(point)]
    taken = [p for p in plain if p.plan == choose(*p.size) and not p.rest.narrow]
    runs = Counter(p.run for p in taken)
    widest = max(runs, key=lambda run: (runs[run], run), default=0)
    ranked = [
        [p for p in plain if (p.plan, p.rest) == (Plan(), Rest())],
        [p for p in plain if p.name.startswith("chosen")],
        [p for p in plain if p.plan[:4] == choose(*p.size)[:4] and not p.rest.narrow],
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
    """Is this a plan that step 11 can have? Its clusters fit, and a tile says how its D leaves."""
    overlap = point.plan.block_M == 128
    return point.plan.cluster <= 2 and point.rest._replace(narrow=False) == Rest(overlap=overlap)


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
    return point.dsl, point.size, point.mode, point.plan, point.rest, point.run


def _point(entry: dict) -> Point | None:
    """None for a plan that could not be timed."""
    timing, plan = entry["timing"], entry["plan"]
    if not timing:
        return None
    made = Plan(
        plan["block_M"],
        plan["block_N"],
        plan["cluster"] if "cluster" in plan else plan["cluster_M"],
        plan["num_ctas"],
        plan["panel"],
    )
    return Point(
        entry["dsl"],
        _size(entry),
        entry["mode"],
        entry["name"],
        made,
        _rest(plan, entry.get("order", "")),
        timing["seconds"],
        timing["tflops"],
        timing["ratio"],
        entry.get("run", 1),
    )


def _rest(plan: dict, order: str) -> Rest:
    if "cluster" in plan:  # the newer form: the tile says how D leaves
        return Rest(overlap=plan["block_M"] == 128, order=order)
    of_A, of_B, of_D = (HINTS[hint] for hint in plan["keep"])
    narrow = plan["overlap"] and plan["epi_N"] == 32 and plan["block_N"] % 64 == 0
    return Rest(
        plan["cluster_N"],
        plan["overlap"],
        plan["back"],
        plan["max_stages"],
        narrow,
        (of_A, of_B, of_D),
        order,
    )
