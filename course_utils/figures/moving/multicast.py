"""Two CTAs of a cluster, one K tile: who loads what, where it lands, who counts it, who frees it."""

from __future__ import annotations

from course_utils.figures.moving.phases import State
from course_utils.figures.moving.still import Cell, Row

KIB = 1024
A, B = 16 * KIB, 16 * KIB  # bytes of a 128 x 64 tile of halves
CTAS, HALVES = (0, 1), (0, 1)
BY: dict[str, dict[int, tuple[int, ...]]] = {  # who asks for which halves of B
    "each half": {0: (0,), 1: (1,)},
    "rank 0": {0: (0, 1), 1: ()},
}
NOTHING, ASKED, LANDED, READ = range(4)
PARTS = ("A", "B0", "B1")  # the upper and the lower half of B's tile


class Cluster:
    """What both CTAs hold, and their barriers; ``steps`` keeps a picture after each event."""

    def __init__(self) -> None:
        self.parts = {(cta, part): NOTHING for cta in CTAS for part in PARTS}
        self.full = [State(0, 1, 0)] * 2
        self.empty = [State(0, len(CTAS), 0)] * 2
        self.steps: list[dict] = []

    def keep(self, text: str, *arrows: tuple[str, int, str, int]) -> None:
        """Keep a step. An arrow goes from a place of a CTA to a place of a CTA."""
        self.steps.append(
            {
                "says": text,
                "parts": [[self.parts[cta, part] for part in PARTS] for cta in CTAS],
                "full": [(one.phase, one.pending, one.bytes) for one in self.full],
                "empty": [(one.phase, one.pending) for one in self.empty],
                "arrows": arrows,
            }
        )

    def asks(self, cta: int, halves: tuple[int, ...]) -> None:
        """A producer tells its own full all that will land at home, and issues its loads."""
        self.full[cta] = self.full[cta].after(1, expected=A + B).after(1, arrivals=1)
        self.parts[cta, "A"] = max(self.parts[cta, "A"], ASKED)
        for half in halves:
            for other in CTAS:
                self.parts[other, f"B{half}"] = ASKED
        loads = f"multicasts {_halves(halves)} to both" if halves else "loads nothing of B"
        arrows = [("memory", cta, "A", cta)]
        arrows += [("memory", cta, f"B{half}", other) for half in halves for other in CTAS]
        self.keep(
            f"Producer {cta}: its wait on empty passes. It expects {A + B:,} bytes on its own full, "
            f"loads its A, {loads}, and arrives.",
            *arrows,
        )

    def lands(self, half: int) -> None:
        """A half of B lands in both CTAs, and each full counts it."""
        size = B // len(HALVES)
        early = [cta for cta in CTAS if self.full[cta].bytes < size]
        for cta in CTAS:
            self.parts[cta, f"B{half}"] = LANDED
            self.full[cta] = self.full[cta].after(1, landed=size)
        text = (
            f"{_halves((half,)).capitalize()} of B lands in both CTAs: each full counts {size:,} bytes, "
            "whichever CTA issued the load."
        )
        if early:
            text += (
                f" CTA {early[0]} has not expected its bytes yet: their count falls below zero, and the "
                "phase cannot complete without its producer's arrival."
            )
        self.keep(text, *((f"B{half}", cta, "full", cta) for cta in CTAS))

    def lands_a(self, cta: int) -> None:
        """A CTA's own tile of A lands."""
        self.parts[cta, "A"] = LANDED
        self.full[cta] = self.full[cta].after(1, landed=A)
        self.keep(
            f"A of CTA {cta} lands in its own CTA only. Its full is at zero and zero: phase 0 completes.",
            ("A", cta, "full", cta),
        )

    def reads(self) -> None:
        """Both consumers multiply."""
        for spot in self.parts:
            self.parts[spot] = READ
        self.keep(
            "Each consumer waits on its own full, and multiplies. It does not matter which CTA loaded B.",
            *(("full", cta, "consumer", cta) for cta in CTAS),
        )

    def frees(self, cta: int) -> None:
        """A consumer arrives at the empty of every CTA that writes into its stage."""
        self.empty = [one.after(len(CTAS), arrivals=1) for one in self.empty]
        for part in PARTS:
            self.parts[cta, part] = NOTHING
        over = self.empty[0].phase
        text = f"Consumer {cta} has left the stage and arrives at empty of both CTAs. "
        text += (
            "Both arrivals are there: each producer may fill the stage again, in both CTAs."
            if over
            else f"One of two: consumer {1 - cta} still reads, and a multicast would overwrite what it reads."
        )
        self.keep(text, *(("consumer", cta, "empty", other) for other in CTAS))


def _halves(halves: tuple[int, ...]) -> str:
    names = ("the upper half", "the lower half")
    return names[halves[0]] if len(halves) == 1 else "both halves of B"


def steps(by: str) -> list[dict]:
    """One K tile in a cluster where ``by`` shares the loads of B."""
    cluster = Cluster()
    cluster.keep("One stage in each of two CTAs. Both are free: both empties are new, and so are both fulls.")
    for cta in CTAS:
        cluster.asks(cta, BY[by][cta])
        for half in BY[by][cta]:
            cluster.lands(half)
    for cta in CTAS:
        cluster.lands_a(cta)
    cluster.reads()
    for cta in CTAS:
        cluster.frees(cta)
    return cluster.steps


def rows(seen: list[dict]) -> list[Row]:
    """What each full still needs, and how many have arrived at each empty."""
    made = []
    for cta in CTAS:
        cells = [
            Cell(i, i + 1, f"{one['full'][cta][2] / KIB:g}", ("even", "odd")[one["full"][cta][0] & 1])
            for i, one in enumerate(seen)
        ]
        made.append(Row(f"full {cta}: KiB to come", tuple(cells)))
    for cta in CTAS:
        cells = [
            Cell(i, i + 1, str(one["empty"][cta][1]), ("even", "odd")[one["empty"][cta][0] & 1])
            for i, one in enumerate(seen)
        ]
        made.append(Row(f"empty {cta}: to come", tuple(cells)))
    return made


def figure(by: str = "each half") -> dict:
    """One K tile of a cluster of two; ``by`` is "each half" (CuTe DSL's step 9) or "rank 0" (TileLang's)."""
    if by not in BY:
        raise ValueError(f"by is one of {', '.join(map(repr, BY))}, not {by!r}")
    runs = {name: steps(name) for name in BY}
    return {
        "title": "One K tile, two CTAs",
        "words": "Bytes to come on each full and arrivals to come on each empty, step by step. B lands in "
        "both CTAs and each counts it on its own full; both consumers arrive on both empties.",
        "rows": rows(runs[by]),
        "controls": [{"name": "B is loaded by", "kind": "choice", "value": by, "of": list(BY)}],
        "runs": {name: {"rows": rows(seen), "frames": seen} for name, seen in runs.items()},
        "steps": len(runs[by]),
    }
