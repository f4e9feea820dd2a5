"""Plans of step 11: what its kernel leaves open, a model of what a plan costs, and the choice by it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple

from course_utils.chips import HOME

RECORDED = Path(__file__).parents[1] / "solutions" / "measured" / "step11.json"

BLOCK_K = 64  # columns of a K tile, in every step
SHARED = 232_448 - 1024  # bytes of shared memory that a CTA can have, less barriers
FLOP_PER_CLOCK = HOME.flop_per_clock  # of an SM's tensor cores, fp16
LINE_BYTES = 128
# Fitted to 242 recorded times of H200s (benchmarks/step11_fit.py): 1.5% off by root mean square, 7% at
# most. Above ``MOST`` the power limit lowers the clock, and adds up to 12%.
FITTED = 5  # the last run of step11.json that ``seconds`` is fitted to
CLOCK = 1.64e9  # Hz inside a launch
LAUNCH = 10_000  # cycles: of a launch,
TURN = 1130  # between two tiles,
ROW = 0.25  # and for a line of 128 bytes that TMA loads;
LINES = 2  # a row of a K tile lies on so many of them, where rows do not begin with a line
L2 = 78  # bytes a cycle that L2 brings to an SM
MOST = 1.5e12  # FLOP
# Of ``powered``, fitted to recorded times, those above ``MOST`` and of ragged shapes too
# (benchmarks/step11_fit.py says to how many, and how far it is off).
BUSY_CLOCK = 1.79e9  # Hz that multiplying alone leaves
BEGIN = 6.55e-6  # s
BETWEEN = 7.67e-7  # s from a tile to the next one
# A row of a K tile lies in 4 sectors of 32 bytes, on one line or on two; or in 5 where rows begin amid one.
# Bytes a cycle that L2 brings to an SM, and seconds for a byte, by which of the three:
L2_SPEED = 78, 51, 38
L2_BYTE = 1.42e-14  # s, or 12 pJ at 700 W, as counters say
SPLIT_BYTE = 1.86e-14
SECTOR_BYTE = 2.39e-14
DRAM_BYTE = 4.59e-14  # s, or 32 pJ, as counters say
STORED = 2.88e-11  # s that an SM stands still for an element of D that leaves between two tiles
NARROW = 3.62e-11  # s more where its rows leave by 32 bytes
LONG_FLOP = 8.13e-17  # s more for each FLOP above ``MOST``,
LONG_CLUSTER = 3.66e-17  # and in clusters of two
THIN = 1.05  # times a K tile takes with three stages, where its rows do not begin with a line
NEAR = 1.004  # plans whose times differ by less are as good: the model is not better than that


class Plan(NamedTuple):
    """One way to cut D. Tiles in elements. A cluster's CTAs lie one below another and share B, or side by
    side and share A.
    """

    block_M: int = 128  # or 192 by three consumers, or 256 by two
    block_N: int = 256  # a multiple of 8; of 16 in TileLang
    cluster: int = 2
    num_ctas: int = 128
    panel: int = 8  # rows of clusters' tiles that are walked through N together
    swapped: bool = False  # the tile is of D^T = B A^T: block_M counts columns of D, and block_N rows
    across: bool = False  # a cluster's CTAs lie side by side, and share A


def plans(sm_count: int = HOME.sms, dsl: str = "cute") -> list[Plan]:
    """All that ``choose`` chooses from in a DSL on a chip of so many SMs, the widest tiles first. Panels make
    what is in flight about square.

    Two CTAs share what a tile of 128 rows loads; a taller one needs no neighbour. TileLang's compiler has
    wgmmas of 16 columns more each, and turns no tile of D^T: it has neither other widths nor swapped roles.
    """
    grids = replace(HOME, sms=sm_count).persistent_grids
    every, found = 8 if dsl == "cute" else 16, []
    for m, least, most, panel in ((128, 112, 256, 16), (256, 144, 192, 10), (192, 128, 192, 12)):
        one = 8 if m == 128 else panel
        for n, ctas in product(range(most, least - 1, -every), grids):
            of = [Plan(m, n, 2, ctas, panel // 2), Plan(m, n, 1, ctas, one)]
            found += of if m == 128 else of[::-1]
            found.append(Plan(m, n, 2, ctas, panel, across=True))
    return found + [plan._replace(swapped=True) for plan in found] * (dsl == "cute")


def seconds(M: int, N: int, K: int, plan: Plan) -> float:
    """What a launch takes by the model: waves, each as long as a tile of D takes.

    A K tile is multiplied while the next one is loaded, and takes as long as the slower of the two.
    """
    lines = _lines(K, plan)
    k_tile = max(_multiply(plan), lines * LINE_BYTES / L2) + lines * ROW
    return (LAUNCH + waves(M, N, plan) * (-(-K // BLOCK_K) * k_tile + TURN)) / CLOCK


def powered(M: int, N: int, K: int, plan: Plan) -> float:
    """What a launch takes by a model of energy, in seconds: it knows bytes too, and sizes above ``MOST``.

    A launch runs at the power limit, and the clock is what energy leaves. So a byte that L2 or DRAM brings
    takes time wherever it comes in time, and a wave that is not full takes less than one that is.
    """
    kind, turns = alignment(K), waves(M, N, plan)
    later = max(0.0, 2.0 * M * N * K - MOST) * (LONG_FLOP + LONG_CLUSTER * (plan.cluster - 1))
    loaded, fetched = traffic(M, N, K, plan)
    bytes_take = loaded * (L2_BYTE, SPLIT_BYTE, SECTOR_BYTE)[kind] + fetched * DRAM_BYTE
    stored = stored_between(plan) * STORED + stored_narrowly(plan) * NARROW
    between = (turns - 1) * BETWEEN + turns * stored
    return BEGIN + busy_cycles(M, N, K, plan) / BUSY_CLOCK + bytes_take + between + later


def waves(M: int, N: int, plan: Plan) -> int:
    """How many tiles the busiest CTA computes."""
    rows, columns = _clusters(*covered(M, N, plan), plan)
    return -(-rows * columns // (plan.num_ctas // plan.cluster))


def busy_cycles(M: int, N: int, K: int, plan: Plan) -> float:
    """Cycles of the busiest CTA's K tiles: each is multiplied, or loaded where that takes longer."""
    kind = alignment(K)
    load = _rows(plan) * LINE_BYTES / L2_SPEED[kind]
    waits = THIN if kind and stages(plan)[0] <= 3 else 1
    return waves(M, N, plan) * -(-K // BLOCK_K) * max(_multiply(plan), load) * waits


def alignment(K: int) -> int:
    """How rows of K elements begin: 0 with a line, 1 with a sector of 32 bytes, 2 amid one."""
    return (K % BLOCK_K > 0) + (K % (BLOCK_K // 4) > 0)


def stored_between(plan: Plan) -> int:
    """Elements of a tile of D that leave before the next tile is begun: all, where registers hold no two."""
    return 0 if holds_two(plan) else plan.block_M * plan.block_N


def stored_narrowly(plan: Plan) -> int:
    """Elements of a tile of D that leave in rows of 32 bytes: those of D itself in chunks of 16 columns. Of
    D^T, such a chunk has long rows.
    """
    narrow = stages(plan)[1] == 16 and not plan.swapped
    return plan.block_M * plan.block_N if narrow else 0


def traffic(M: int, N: int, K: int, plan: Plan) -> tuple[float, float]:
    """Bytes that L2 brings to SMs, and DRAM to L2, in a launch.

    Rows of B that neighbours ask for at once come once, as the counters say, with a cluster or without; not
    where they do not begin with a line. What is in flight is a rectangle of tiles, and its rows of A and of B
    come from DRAM anew for each.
    """
    M, N = covered(M, N, plan)
    rows, columns = _clusters(M, N, plan)
    at_once = plan.num_ctas // plan.cluster
    shared = plan if K % BLOCK_K else plan._replace(cluster=2)
    tiles = rows * columns * plan.cluster
    loaded = tiles * -(-K // BLOCK_K) * _rows(shared) * LINE_BYTES
    wide = min(at_once / min(plan.panel, rows), columns)
    high = min(at_once / wide, rows)
    down, beside = cluster_shape(plan)
    sides = high * down * plan.block_M + wide * beside * plan.block_N
    fetched = max(rows * columns / at_once * sides, M + N) * 2 * K
    return loaded, fetched + 2 * M * N


def cluster_shape(plan: Plan) -> tuple[int, int]:
    """How many CTAs of a cluster lie below one another, and how many side by side."""
    return (1, plan.cluster) if plan.across else (plan.cluster, 1)


def _clusters(M: int, N: int, plan: Plan) -> tuple[int, int]:
    """Rows and columns of clusters' tiles, of what a plan's tiles cover."""
    down, beside = cluster_shape(plan)
    return -(-M // (plan.block_M * down)), -(-N // (plan.block_N * beside))


def _multiply(plan: Plan) -> float:
    """Cycles of a K tile's operations."""
    return 2 * plan.block_M * plan.block_N * BLOCK_K / FLOP_PER_CLOCK


def _lines(K: int, plan: Plan) -> float:
    """Lines that a CTA asks for, of a K tile."""
    return _rows(plan) * (LINES if K % BLOCK_K else 1)


def _rows(plan: Plan) -> float:
    """Rows of A and of B that a CTA loads of a K tile."""
    down, beside = cluster_shape(plan)
    return plan.block_M / beside + plan.block_N / down


def covered(M: int, N: int, plan: Plan) -> tuple[int, int]:
    """Rows and columns of what a plan's tiles cover: of D, or of D^T where roles are swapped."""
    return (N, M) if plan.swapped else (M, N)


def choose(M: int, N: int, K: int, sm_count: int = HOME.sms, dsl: str = "cute") -> Plan:
    """The widest of a DSL's plans that are, within the model's error, the quickest. The model is fitted to
    H200s; of a chip with another number of SMs it knows that number alone.
    """
    times = {plan: powered(M, N, K, plan) for plan in plans(sm_count, dsl)}
    best = min(times.values())
    return next(plan for plan, time in times.items() if time < NEAR * best)


class Timed(NamedTuple):
    """The time of a plan at a size M, N, K, of the quickest of its recorded kernels."""

    size: tuple[int, int, int]
    plan: Plan
    seconds: float


def recorded(path: Path = RECORDED) -> list[Timed]:
    """What was recorded of the plans that ``plans`` has, whatever their panel, below ``MOST`` FLOP, in the
    runs that ``seconds`` is fitted to. Swapped roles and clusters that share A are left out: the model that a
    learner writes knows neither.

    Raises OSError, and ValueError or KeyError where the file is no record of plans.
    """
    tiles = {plan[:4] for plan in plans()}
    found: dict[tuple, float] = {}
    for entry in json.loads(path.read_text())["entries"]:
        size, plan = tuple(entry["size"]), plan_of(entry)
        if plan is None or plan[:4] not in tiles or plan.swapped or plan.across:
            continue
        if entry.get("run", 1) > FITTED:
            continue
        if 2 * size[0] * size[1] * size[2] >= MOST:
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
    if other or not entry["timing"] or entry["mode"] != "burst":
        return None
    plan = of_fields(fields)
    # chunks of D were wider, so that tiles of 256 rows had three stages
    fewer = "across" not in fields and plan.block_M == 256 and stages(plan)[0] > 3
    return plan if had_overlap(fields) == holds_two(plan) and not fewer else None


def of_fields(fields: dict) -> Plan:
    """The plan of an entry's fields, old or new; its kernel may have been another than step 11's."""
    cluster = fields.get("cluster") or fields["cluster_M"]
    new = fields.get("swapped", False), fields.get("across", False)
    return Plan(fields["block_M"], fields["block_N"], cluster, fields["num_ctas"], fields["panel"], *new)


def had_overlap(fields: dict) -> bool:
    """Did D leave under the next tile? Entries without ``swapped`` are of kernels that did so at 128 rows
    alone, or say whether they did.
    """
    new = "swapped" in fields and holds_two(of_fields(fields))
    return fields.get("overlap", fields["block_M"] == 128 or new)


def number(time: object) -> object:
    """A time of numpy's or torch's as Python's; anything else as it is."""
    item = getattr(time, "item", None)
    return item() if callable(item) else time


# columns of a tile at most, by its rows: a consumer's registers hold so many columns' accumulators, and up to
# the second number D of the tile before too
WIDEST = {128: (256, 256), 192: (192, 192), 256: (192, 152)}


def holds_two(plan: Plan) -> bool:
    """Do registers hold D of the tile before beside the accumulators? Then it leaves under the next tile."""
    return plan.block_N <= WIDEST[plan.block_M][1]


def stages(plan: Plan, shared: int = SHARED) -> tuple[int, int]:
    """Stages that fit in so many bytes of shared memory beside two chunks of D, and columns of a chunk: 64 or
    32 of 128 rows, 32 or 16 of more. It is the widest that leaves the most stages.
    """
    tile = (plan.block_M + plan.block_N) * BLOCK_K * 2
    widths = (64, 32) if plan.block_M == 128 else (32, 16)
    return max(((shared - 2 * plan.block_M * wide * 2) // tile, wide) for wide in widths)


def fitting(plan: Plan, every: int = 8) -> Plan:
    """The plan itself; its columns are a multiple of ``every``. Raises ValueError where step 11's kernel
    cannot have it, with the nearest one that it can have.
    """
    block_M, block_N, cluster, num_ctas, panel, swapped, across = plan = Plan(*plan)
    rows = min(WIDEST, key=lambda rows: (abs(rows - block_M), rows))
    columns = min(max(every, -(-block_N // every) * every), WIDEST[rows][0])
    share = min(max(cluster, 1), 2)
    swapped = swapped and every == 8
    nearest = Plan(rows, columns, share, max(num_ctas // share, 1) * share, max(panel, 1), swapped, across)
    if nearest != plan:
        raise ValueError(
            f"step 11 has no plan {tuple(plan)}: registers hold tiles of 128 x 256, 192 x 192 or 256 x 192 "
            f"at most, columns are a multiple of {every}, a cluster has 1 or 2 CTAs, and all of them are in "
            f"one{'' if every == 8 else '; roles are not swapped'}. The nearest plan is {tuple(nearest)}"
        )
    return nearest


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
