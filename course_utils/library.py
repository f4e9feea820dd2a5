"""The plan of cuBLAS's kernel, read from the name that a profiler shows; and a plan's waves and bytes.

cuBLAS's Hopper kernels name their plan: ``nvjet_sm90_hsh_176x192_64x4_2x1_v_bz_coopB_TNN``. A library that
counts columns first computes D transposed, so the first number is columns of the course's D and the second
rows; of a cluster too. Read so, the tiles' counts fit: 4104 x 4104 has 24 x 22 = 528 tiles of 192 x 176.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from course_utils.chips import HOME
from course_utils.plans import Plan, cluster_shape, covered

NAME = re.compile(
    r"nvjet_sm90_(?P<types>[a-z]+)_(?P<columns>\d+)x(?P<rows>\d+)_(?P<k>\d+)x(?P<stages>\d+)"
    r"_(?P<across>\d+)x(?P<down>\d+)_(?P<order>[hv])_(?P<rest>\w+)"
)


class LibraryPlan(NamedTuple):
    """A tile of D in elements, and so many CTAs of a cluster down and across."""

    block_M: int
    block_N: int
    block_K: int
    num_stages: int
    cluster_M: int
    cluster_N: int
    order: str  # "h" or "v", as it stands in the name
    shared: str  # "coopA" or "coopB": how two consumers share a tile; "" where the name has neither
    split_k: bool


class Cost(NamedTuple):
    """What a plan makes of D: tiles, waves, and what is in the last wave, as a share of a full one; bytes
    that a CTA asks for, per FLOP.
    """

    tiles: int
    waves: int
    last: float
    bytes_per_flop: float


def read(kernel: str) -> LibraryPlan | None:
    """The plan in a kernel's name; None where the name is of another family."""
    found = NAME.search(kernel)
    if found is None:
        return None
    sides = [int(found[name]) for name in ("rows", "columns", "k", "stages", "down", "across")]
    if not all(sides):
        return None
    parts = found["rest"].split("_")
    shared = next((part for part in parts if part.startswith("coop")), "")
    return LibraryPlan(*sides, found["order"], shared, "splitK" in parts)


def cost(M: int, N: int, plan: LibraryPlan | Plan, num_ctas: int = HOME.sms) -> Cost:
    """Count a plan's tiles and waves at a size; ``num_ctas`` work at once where the plan does not say how
    many. What hangs over D's edge is a tile, and a cluster takes as many tiles at once as it has CTAs.
    """
    if isinstance(plan, Plan):
        M, N = covered(M, N, plan)
        (down, across), num_ctas = cluster_shape(plan), plan.num_ctas
    else:
        down, across = plan.cluster_M, plan.cluster_N
    rows, columns = -(-M // (plan.block_M * down)), -(-N // (plan.block_N * across))
    at_once = max(num_ctas // (down * across), 1)
    full, rest = divmod(rows * columns, at_once)
    # CTAs side by side share A, and those below one another share B
    elements = plan.block_M / across + plan.block_N / down
    per_flop = 2 * elements / (2 * plan.block_M * plan.block_N)
    last = rest / at_once if rest else 1.0
    return Cost(rows * columns * down * across, full + (rest > 0), last, per_flop)


# of a table of plans; "ring" is columns of a K tile x stages, "last" how full the last wave is
HEAD = ("", "tile", "ring", "cluster", "tiles", "waves", "last", "B / kFLOP")


def row(name: str, M: int, N: int, plan: LibraryPlan | Plan, num_ctas: int = HOME.sms) -> list[str]:
    """A plan's row of a table under ``HEAD``."""
    made = cost(M, N, plan, num_ctas)
    if isinstance(plan, Plan):
        rows, columns = covered(plan.block_M, plan.block_N, plan)
        down, across = covered(*cluster_shape(plan), plan)
        ring = ""
    else:
        rows, columns, down, across = plan.block_M, plan.block_N, plan.cluster_M, plan.cluster_N
        ring = f"{plan.block_K} x {plan.num_stages}"
    figures = f"{made.tiles:,}", str(made.waves), f"{made.last:.0%}", f"{1000 * made.bytes_per_flop:.2f}"
    return [name, f"{rows} x {columns}", ring, f"{down} x {across}", *figures]
