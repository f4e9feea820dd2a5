"""Questions on what a tile's path is worth, answered by what was recorded (``solutions/measured``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from random import Random

from course_utils.drills.question import Question, Row, choice
from course_utils.recordings.measured import FOLDER

NAMES = {  # of each way, as the recording calls it
    "TMA box": "TMA boxes",
    "cp.async": "cp.async",
    "blocking loads": "blocking loads",
    "bulk copy for each row": "bulk copies of one row each",
}
LESS, SAME, MORE, FAR = (
    "fewer",
    "about as many, within a tenth",
    "up to twice as many",
    "more than twice as many",
)
ENDS = {LESS: (0.0, 0.9), SAME: (0.9, 1.1), MORE: (1.1, 2.0), FAR: (2.0, float("inf"))}
CLEAR = 0.02  # a ratio so near to an end is no question: launches differ by as much
# two ways that are compared: why each answer is wrong where it is, and why the right one is right
WHYS: dict[tuple[str, str], tuple[Mapping[str, str], str]] = {
    ("TMA box", "cp.async"): (
        {
            LESS: "One instruction brings a box; cp.async takes one for each 16 bytes.",
            SAME: "Data come soon from L2, so the instructions that issue them count.",
            MORE: "Both keep a ring of tiles in flight, and that sets the rate here.",
            FAR: "cp.async does not block: it keeps as many tiles in flight.",
        },
        "Both keep a ring of tiles in flight; only who issues the loads differs",
    ),
    ("TMA box", "blocking loads"): (
        {
            LESS: "Blocking loads wait for each tile.",
            SAME: "Blocking loads leave memory idle while threads add up a tile.",
            MORE: "A load takes long beside the work on a tile, and a ring hides that.",
            FAR: "L2 answers sooner than DRAM, so a ring has less to hide.",
        },
        "Blocking loads keep one tile in flight, and none while threads add it up",
    ),
    ("bulk copy for each row", "blocking loads"): (
        {
            LESS: "Rows as wide as this are worth a request each.",
            SAME: "One is bound by requests, the other by latency: they differ here.",
            MORE: "Each row is a request of its own, and the number of requests is the limit.",
            FAR: "To be asynchronous does not help where the number of requests is the limit.",
        },
        "A bulk copy costs about the same for a narrow row and for a wide one",
    ),
}


@cache
def _recorded() -> dict:
    return json.loads((FOLDER / "tma_pays.json").read_text())


def _answer(ratio: float) -> str:
    return next(answer for answer, (low, high) in ENDS.items() if low <= ratio < high)


def when_it_pays(rng: Random) -> Question:
    rates = {(r["matrix"], r["way"], r["rows"], r["bytes"]): r["gb_per_second"] for r in _recorded()["rows"]}
    while True:
        one, other = rng.choice(list(WHYS))
        place, _, rows, width = rng.choice(list(rates))
        here, there = (rates[place, way, rows, width] for way in (one, other))
        if all(abs(here / there / end - 1) > CLEAR for ends in ENDS.values() for end in ends if end):
            break
    right = _answer(here / there)
    mistakes, why = WHYS[one, other]
    return choice(
        f"Tiles of {rows} rows x {width} bytes stream from {place}, on an {_recorded()['gpu'].split()[-1]}. "
        f"How many bytes per second do {NAMES[one]} bring, beside {NAMES[other]}?",
        right,
        {answer: words for answer, words in mistakes.items() if answer != right},
        f"{why}: {here:,.0f} against {there:,.0f} GB/s.",
        lambda answer: (
            Row.one(one, f"{here:,.0f} GB/s", "load"),
            Row.one(other, f"{there:,.0f} GB/s"),
            Row.one("so", answer, "fault" * (answer != right), True),
        ),
        rng,
    )
