"""Plans of step 11: what its kernel leaves open, a model of what a plan costs, and the choice by it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from course_utils.artifact import SM_COUNT

RECORDED = Path(__file__).parents[1] / "solutions" / "measured" / "step11.json"

BLOCK_K = 64
FLOP_A_CYCLE = 4096  # of an SM's tensor cores, fp16
LINE_BYTES = 128
# Fitted to 136 recorded times of an H200 (benchmarks/step11_fit.py): 1.8% off by root mean square, 7% at
# most. Above ``MOST`` the power limit lowers the clock, and adds up to 11%.
CLOCK = 1.63e9  # Hz inside a launch
LAUNCH = 9900  # cycles: of a launch,
TURN = 955  # between two tiles,
ROW = 0.23  # and for a line of 128 bytes that TMA loads;
LINES = 2  # a row of a K tile lies on so many of them, where rows do not begin with a line
L2 = 77  # bytes a cycle that L2 brings to an SM
MOST = 1.5e12  # FLOP
NEAR = 1.015  # plans whose times differ by less are as good: the model is not better than that


class Plan(NamedTuple):
    """One way to cut D. Tiles in elements; a cluster's CTAs lie one below another and share B."""

    block_M: int = 128  # or 256, whose accumulators leave no room for D of the tile before
    block_N: int = 256  # a multiple of 16
    cluster: int = 2
    num_ctas: int = 128
    panel: int = 8  # rows of clusters' tiles that are walked through N together


def plans() -> list[Plan]:
    """All that ``choose`` chooses from, the widest tiles first."""
    tiles = [(128, n) for n in range(256, 127, -16)] + [(256, 192), (256, 176)]
    return [Plan(*tile, cluster, n) for tile in tiles for cluster in (2, 1) for n in (128, SM_COUNT)]


def seconds(M: int, N: int, K: int, plan: Plan) -> float:
    """What a launch takes by the model: waves, each as long as a tile of D takes.

    A K tile is multiplied while the next one is loaded, and takes as long as the slower of the two.
    """
    clusters = -(-M // (plan.block_M * plan.cluster)) * -(-N // plan.block_N)
    waves = -(-clusters // (plan.num_ctas // plan.cluster))
    lines = (plan.block_M + plan.block_N / plan.cluster) * (LINES if K % BLOCK_K else 1)
    multiply = 2 * plan.block_M * plan.block_N * BLOCK_K / FLOP_A_CYCLE
    k_tile = max(multiply, lines * LINE_BYTES / L2) + lines * ROW
    return (LAUNCH + waves * (-(-K // BLOCK_K) * k_tile + TURN)) / CLOCK


def choose(M: int, N: int, K: int) -> Plan:
    """The widest of the plans that are, within the model's error, the quickest."""
    times = {plan: seconds(M, N, K, plan) for plan in plans()}
    best = min(times.values())
    return next(plan for plan, time in times.items() if time < NEAR * best)


class Timed(NamedTuple):
    """The time of a plan at a size M, N, K, of the quickest of its recorded kernels."""

    size: tuple[int, int, int]
    plan: Plan
    seconds: float


def recorded(path: Path = RECORDED) -> list[Timed]:
    """What was recorded of the plans that ``plans`` has, whatever their panel, below ``MOST`` FLOP.

    Raises OSError, and ValueError or KeyError where the file is not what benchmarks/step11.py writes.
    """
    tiles = {plan[:4] for plan in plans()}
    found: dict[tuple, float] = {}
    for entry in json.loads(path.read_text())["entries"]:
        size, plan = tuple(entry["size"]), plan_of(entry)
        if plan is None or plan[:4] not in tiles or 2 * size[0] * size[1] * size[2] >= MOST:
            continue
        key, time = (size, plan), entry["timing"]["seconds"]
        found[key] = min(time, found.get(key, time))
    return [Timed(size, plan, time) for (size, plan), time in found.items()]


def plan_of(entry: dict) -> Plan | None:
    """The plan of a recorded burst; None where it was not timed, or is of another kernel than step 11's: one
    with hints for L2, another order of tiles, clusters side by side, or D that leaves at another time.
    """
    fields = entry["plan"]
    other = entry.get("order") or any(fields.get("keep") or ()) or fields.get("cluster_N", 1) > 1
    other = other or not fields.get("back", True) or fields.get("max_stages", 8) < 5
    other = other or fields.get("overlap", fields["block_M"] == 128) != (fields["block_M"] == 128)
    if other or not entry["timing"] or entry["mode"] != "burst":
        return None
    cluster = fields.get("cluster") or fields["cluster_M"]
    return Plan(fields["block_M"], fields["block_N"], cluster, fields["num_ctas"], fields["panel"])


def number(time: object) -> object:
    """A time of numpy's or torch's as Python's; anything else as it is."""
    item = getattr(time, "item", None)
    return item() if callable(item) else time


def require_addressable(M: int, N: int, K: int) -> None:
    """Raise ValueError where a tensor map cannot have rows of N or K elements, with the nearest legal
    stride.
    """
    for names, length in (("A and B", K), ("D", N)):
        legal = -(-length // 8) * 8
        if length != legal:
            raise ValueError(
                f"TMA cannot address {names}: rows of {length} fp16 elements are {2 * length} bytes apart, "
                f"and strides are multiples of 16 bytes. The nearest one is {2 * legal} bytes: pad rows to "
                f"{legal} elements"
            )
