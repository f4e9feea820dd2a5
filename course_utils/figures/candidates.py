"""What was tried for step 11, one thing at a time: what each was worth, and why."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from course_utils.grading.steps import DSL_NAMES
from course_utils.plans import Plan
from course_utils.recordings.step11_results import Changed, Point, Recorded, Rest, Size

NOISE = 0.005  # of a share of cuBLAS: two runs of one kernel differ by that
FEWEST = 3  # candidates at a size, for it to be a column of its own


class Candidate(NamedTuple):
    """A plan, and the one that it differs from in one thing. ``why`` may name ``fours`` and ``eights``, the
    clusters of four and of eight CTAs that the GPU runs at once.
    """

    words: str
    why: str
    plan: Plan = Plan()
    rest: Rest = Rest()
    before: tuple[Plan, Rest] = (Plan(), Rest())


_TILE = "other waves: it wins where its last one is fuller, as the chooser computes"
# fmt: off
TRIED = (
    Candidate(
        "D leaves while the next tile is multiplied",
        "the tensor cores do not wait for an epilogue any more, but for that of the last tile",
        before=(Plan(), Rest(overlap=False)),
    ),
    Candidate(
        "132 CTAs", "seldom a wave less, and what is in flight is no square of D any more",
        Plan(num_ctas=132),
    ),
    Candidate(
        "no cluster, 132 CTAs", "by step 10's counters L2 moves as many bytes without multicast",
        Plan(cluster=1, num_ctas=132),
    ),
    Candidate(
        "panels of 4", "what is in flight is long and narrow, and needs more strips of A and B (not counted)",
        Plan(panel=4),
    ),
    Candidate(
        "132 CTAs, panels of 11", "11 x 6 clusters are nearly a square again (not counted)",
        Plan(num_ctas=132, panel=11),
    ),
    Candidate("panels of 16", "long and narrow the other way round (not counted)", Plan(panel=16)),
    Candidate(
        "Hilbert's curve", "tiles that are near in time are near in D at every scale (not counted)",
        rest=Rest(order="Hilbert"),
    ),
    Candidate(
        "K always forwards", "by step 10's counters more bytes come from DRAM, and DRAM has time to spare",
        rest=Rest(back=False),
    ),
    Candidate(
        "three stages", "a load may take two K tiles and not three: now and then it takes longer",
        rest=Rest(stages=3),
    ),
    Candidate(
        "L2: evict D first", "nobody reads D again, and L2 finds room for it (not counted)",
        rest=Rest(hints=("", "", "first")),
    ),
    Candidate(
        "L2: keep A and B", "the order of tiles keeps them there already (not counted)",
        rest=Rest(hints=("last", "last", "first")),
    ),
    Candidate(
        "L2: keep A alone", "B may be gone before its next use (not counted)",
        rest=Rest(hints=("last", "first", "first")),
    ),
    Candidate(
        "clusters of 4",
        "only {fours} of them run at once, and 128 CTAs are 32: two begin when others have ended",
        Plan(cluster=4),
    ),
    Candidate("clusters of 2 x 2, sharing A too", "a cluster of four again", rest=Rest(across=2)),
    Candidate("clusters of 2 x 4", "{eights} run at once, and 16 are needed", rest=Rest(across=4)),
    Candidate("clusters of 4 x 2", "the same", Plan(cluster=4), Rest(across=2)),
    Candidate(
        "256 x 128", "each wgmma is half as wide: more bytes of shared memory for a product (not counted)",
        Plan(256, 128),
    ),
    Candidate(
        "256 x 192", f"192 sums a thread leave no registers for D of the tile before; {_TILE}",
        Plan(256, 192), Rest(overlap=False),
    ),
    Candidate("256 x 192, no cluster", "the same", Plan(256, 192, 1), Rest(overlap=False)),
    Candidate(
        "256 x 192, no cluster, panels of 10", "the same; what is in flight is nearly a square",
        Plan(256, 192, 1, 128, 10), Rest(overlap=False),
    ),
    Candidate(
        "256 x 192, no cluster, 132 CTAs, panels of 10", "the same, on all SMs", Plan(256, 192, 1, 132, 10),
        Rest(overlap=False),
    ),
    Candidate(
        "256 x 192, 132 CTAs, panels of 5", "the same, in clusters", Plan(256, 192, 2, 132, 5),
        Rest(overlap=False),
    ),
    Candidate("128 x 224, 132 CTAs", _TILE, Plan(128, 224, num_ctas=132)),
    Candidate("128 x 192", _TILE, Plan(128, 192)),
    Candidate("128 x 192, 132 CTAs", _TILE, Plan(128, 192, num_ctas=132)),
    Candidate(
        "128 x 192, 132 CTAs, D in narrower chunks",
        "held against wide chunks: room for a fifth stage (not counted)", Plan(128, 192, num_ctas=132),
        Rest(narrow=True), (Plan(128, 192, num_ctas=132), Rest()),
    ),
    Candidate("128 x 160, 132 CTAs", _TILE, Plan(128, 160, num_ctas=132)),
)
# fmt: on
Place = tuple[Size, str]  # a size and a mode
# why, of the changes in candidates.json; their edits: commit bcee8cf, benchmarks/step11_edits.py
WHYS = {
    "waits that spin": "in both DSLs a wait is a try_wait with a time hint, which suspends: here it is not",
    "waits without a time hint": "try_wait suspends all the same, for as long as the hardware likes",
    "one lane of a warp polls": "a warp's lanes poll by one instruction, whether one or all",
    "one warp of a consumer polls": "the others wait at a named barrier, which is one more for each K tile",
    "idle producer warps exit at once": "those that stay poll the cluster's barrier (not counted); taken "
    "into step 11 since, so elsewhere in this table they stay",
    "idle producer warps stay to the end": "they poll the cluster's barrier until the CTA ends (not counted)",
    "the ring's stages written out": "a stage is a constant: fewer instructions for a K tile (not counted)",
    "the last tile leaves through A's ring": "its chunks leave at once: they wait for no buffer",
    "D by stmatrix": "the solution stores two numbers at a time",
    "L2 asked for 256 bytes": "two lines where one is asked for: both are needed",
    "L2 asked for no more than it must": "the lines come anyway, with the rows that follow",
    "128 x 256, 132 CTAs": "the widest tile, whose last wave is not half full there",
    "128 x 256, 132 CTAs, the last wave split along K": "its tiles are shared by all clusters, and the two "
    "CTAs of each add up their halves of K: half a wave is saved, an exchange is paid",
    "tensor maps are prefetched": "the first load does not wait for its map",
    "all that may win": "stages written out, the last tile through A's ring, and what one DSL lacks of "
    "stmatrix and prefetched maps",
}


def markup(head: list[str], rows: list[list[str]]) -> str:
    """The table as HTML: why stands below the last row of what it is about."""
    around, soft = "padding:2px 10px;text-align:left", "padding:0 10px 8px;text-align:left;opacity:0.75"
    lines = [_line("th", head[:-1], around)]
    for place, row in enumerate(rows):
        lines.append(_line("td", row[:-1], around))
        if place + 1 == len(rows) or rows[place + 1][0] != row[0]:
            why = html.escape(row[-1])
            lines.append(f"<tr><td colspan='{len(head) - 1}' style='{soft}'>{why}</td></tr>")
    return f"<table>{''.join(lines)}</table>"


def _line(tag: str, cells: list[str], style: str) -> str:
    inside = "".join(f"<{tag} style='{style}'>{html.escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inside}</tr>"


class Row(NamedTuple):
    """A candidate in one DSL: what it gains at the places where it was timed, none where it cannot be."""

    words: str
    dsl: str
    gains: dict[Place, float]
    why: str


def table(recorded: Recorded, changes: Sequence[Changed] = ()) -> tuple[list[str], list[list[str]]]:
    """The head, and a row for each candidate and DSL that is recorded beside what it differs from: by how
    much its share of cuBLAS grows at each size, what that comes to, and why. Of ``changes``, which were
    timed in turns with step 11, it is how much quicker they are.
    """
    rows = _plans(recorded) + [
        Row(one.words, one.dsl, one.gains, one.why or WHYS.get(one.words, "")) for one in changes
    ]
    often = Counter(place for place, _ in {(at, row.words) for row in rows for at in row.gains})
    kept = {at for at, count in often.items() if count >= FEWEST or at[1] == "sustained"}
    places = sorted(kept, key=lambda at: (prod(at[0]), at[1]))
    head = ["tried", "DSL", *map(_place, places), "so it", "why"]
    return head, [
        [
            *(row.words, DSL_NAMES[row.dsl]),
            *(f"{row.gains[at]:+.1%}" if at in row.gains else "" for at in places),
            *(outcome([row.gains[at] for at in places if at in row.gains]), row.why),
        ]
        for row in rows
        if kept & set(row.gains) or not row.gains
    ]


def _plans(recorded: Recorded) -> list[Row]:
    """Those of ``TRIED`` that are recorded beside what they differ from."""
    ratios: dict[tuple, dict[int, float]] = {}  # by run
    for p in recorded.points:
        ratios.setdefault((p.dsl, p.size, p.mode, p.plan, p.rest), {})[p.run] = p.ratio
    counts = {"fours": recorded.at_once.get(4, "few"), "eights": recorded.at_once.get(8, "few")}
    found = [
        Row(one.words, dsl, _gains(one, dsl, recorded.points, ratios), one.why.format(**counts))
        for one in TRIED
        for dsl in DSL_NAMES
    ]
    return [row for row in found if row.gains]


def _gains(one: Candidate, dsl: str, points: list[Point], ratios: dict) -> dict[Place, float]:
    """Where a candidate and what it differs from are both recorded in one run, and what it gains there; of
    several runs the newest counts.
    """
    found = {}
    for point in points:
        if (point.dsl, point.plan, point.rest) == (dsl, one.plan, one.rest):
            before = ratios.get((dsl, point.size, point.mode, *one.before), {})
            if point.run in before:
                found[point.size, point.mode] = point.ratio / before[point.run] - 1
    return found


def outcome(gains: list[float]) -> str:
    """In a word or two; a gain or a loss within ``NOISE`` is none, and without any it was not timed."""
    if not gains:
        return "not timed"
    won, lost = max(gains) > NOISE, min(gains) < -NOISE
    if won and lost:
        return "wins here, loses there"
    return "wins" if won else "loses" if lost else "changes nothing"


def _place(place: Place) -> str:
    (M, N, K), mode = place
    name = str(M) if M == N == K else f"{M} x {N} x {K}"
    return name if mode == "burst" else f"{name}, hot"
