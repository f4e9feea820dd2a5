"""What a step requires of a compiled kernel and what it forbids, read from its receipt and its launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from course_utils.artifact import Artifact
from course_utils.ptx.receipts import Receipt

LARGEST_TILE = 256 * 256  # elements of D; no CTA of this course holds a larger accumulator


@dataclass(frozen=True)
class Condition:
    """Something a step requires or forbids. ``found`` says in words what the kernel has instead."""

    sentence: str
    holds: Callable[[Receipt, Artifact], bool]
    found: Callable[[Receipt, Artifact], str]


def _ctas(artifact: Artifact) -> int:
    x, y, z = artifact.grid
    return x * y * z


def _tile_of_a_cta(artifact: Artifact) -> float:
    """Elements of D per CTA: one tile where the grid covers D, many where each CTA loops over tiles; NaN for
    no CTA.
    """
    M, N, _ = artifact.problem
    return M * N / _ctas(artifact) if _ctas(artifact) else math.nan


def _grid(r: Receipt, a: Artifact) -> str:
    return f"a grid of {' x '.join(map(str, a.grid))} for M, N = {a.problem[0]}, {a.problem[1]}"


def _loads(r: Receipt) -> int:
    return sum(r.tensor_loads.values()) + sum(r.multicast_loads.values())


CONDITIONS = {
    "wgmma": Condition(
        "`wgmma.mma_async` with an fp32 accumulator",
        lambda r, a: any(".f32." in shape for shape in r.wgmma),
        lambda r, a: ", ".join(r.wgmma) or "no wgmma",
    ),
    "one CTA": Condition("a grid of one CTA", lambda r, a: _ctas(a) == 1, _grid),
    "grid grows": Condition(
        "a grid that covers D, one tile a CTA", lambda r, a: _tile_of_a_cta(a) <= LARGEST_TILE, _grid
    ),
    "fixed grid": Condition(
        "a persistent grid: its size does not depend on M and N",
        lambda r, a: _tile_of_a_cta(a) > LARGEST_TILE,
        _grid,
    ),
    "tensor loads": Condition(
        "TMA loads, `cp.async.bulk.tensor` from global to shared",
        lambda r, a: _loads(r) > 0,
        lambda r, a: f"{_loads(r)} of them, {_other_loads(r)}",
    ),
    "tensor stores": Condition(
        "TMA stores of D, `cp.async.bulk.tensor` from shared to global",
        lambda r, a: sum(r.tensor_stores.values()) > 0,
        lambda r, a: f"none, but {r.global_stores} plain `st.global`",
    ),
    "expect-tx": Condition(
        "an mbarrier told how many bytes to expect, `expect_tx`",
        lambda r, a: r.expect_tx > 0,
        lambda r, a: "none",
    ),
    "proxy fence": Condition(
        "a `fence.proxy.async` between threads' writes to shared memory and TMA's read of them",
        lambda r, a: r.proxy_fences > 0,
        lambda r, a: "none",
    ),
    "store wait": Condition(
        "a `cp.async.bulk.wait_group` for the TMA stores, inside the loop where there is one, before "
        "their buffer is written again",
        lambda r, a: r.bulk_waits > 0 and r.unawaited_store_loops == 0,
        lambda r, a: "none" if not r.bulk_waits else "none in the loop that stores",
    ),
    "four stores": Condition(
        "D in slices: four TMA stores or more for a tile",
        lambda r, a: sum(r.tensor_stores.values()) >= 4,
        lambda r, a: str(sum(r.tensor_stores.values())),
    ),
    "read wait": Condition(
        "a `cp.async.bulk.wait_group.read`: a staging buffer is written again once it has been read",
        lambda r, a: r.bulk_read_waits > 0,
        lambda r, a: "none" if not r.bulk_waits else "none with .read",
    ),
    "two full barriers": Condition(
        "at least two mbarriers, one for each stage of the ring",
        lambda r, a: r.mbarrier_inits >= 2,
        lambda r, a: f"{r.mbarrier_inits} `mbarrier.init`",
    ),
    "empty barriers": Condition(
        "a full and an empty mbarrier for each stage: four for two stages",
        lambda r, a: r.mbarrier_inits >= 4,
        lambda r, a: f"{r.mbarrier_inits} `mbarrier.init`",
    ),
    "four stages": Condition(
        "four stages: eight mbarriers, four full and four empty",
        lambda r, a: r.mbarrier_inits >= 8,
        lambda r, a: f"{r.mbarrier_inits} `mbarrier.init`",
    ),
    "setmaxnreg": Condition(
        "register reallocation both ways, `setmaxnreg.dec` and `setmaxnreg.inc`, obeyed by ptxas",
        lambda r, a: (
            {v.split()[0] for v in r.setmaxnreg} == {"dec", "inc"}
            and not any("setmaxnreg" in w for w in a.resources.warnings)
        ),
        lambda r, a: (
            ", ".join([*r.setmaxnreg, *(w for w in a.resources.warnings if "setmaxnreg" in w)]) or "none"
        ),
    ),
    "wgmma in flight": Condition(
        "a `wgmma.wait_group` above 0, so that one group stays in flight",
        lambda r, a: any(n > 0 for n in r.wgmma_waits),
        lambda r, a: (
            f"`wgmma.wait_group` {', '.join(map(str, sorted(r.wgmma_waits)))} only"
            if r.wgmma_waits
            else "none"
        ),
    ),
    "multicast": Condition(
        "TMA multicast, `.multicast::cluster`",
        lambda r, a: sum(r.multicast_loads.values()) > 0,
        lambda r, a: "none",
    ),
    "remote arrive": Condition(
        "an arrival on the other CTA's barrier, `mbarrier.arrive.shared::cluster`",
        lambda r, a: r.remote_arrives > 0,
        lambda r, a: "none",
    ),
    "cluster barrier": Condition(
        "two `barrier.cluster`: after the barriers are initialised, and before a CTA exits. Instead of "
        "the second, the producer may wait once more for every `empty` (`producer_tail`)",
        lambda r, a: r.cluster_barriers >= 2 or r.cluster_barriers == 1 and _waits_for_all(r),
        lambda r, a: f"{r.cluster_barriers}, and no wait for every `empty`",
    ),
    "cluster of two": Condition(
        "a cluster of two CTAs",
        lambda r, a: a.cluster[0] * a.cluster[1] * a.cluster[2] == 2,
        lambda r, a: f"a cluster of {' x '.join(map(str, a.cluster))}",
    ),
    "three warpgroups": Condition(
        "three warpgroups or more: a producer and two consumers",
        lambda r, a: a.threads >= 384,
        lambda r, a: f"{a.threads} threads",
    ),
}


def _waits_for_all(r: Receipt) -> bool:
    """A wait for each stage, unrolled, beside the producer's and the consumer's own; half of the mbarriers
    are `empty`.
    """
    return r.mbarrier_waits >= 2 + r.mbarrier_inits // 2


def _other_loads(r: Receipt) -> str:
    others = {"1-D bulk copies": r.bulk_1d, "`cp.async`": r.cp_async, "plain `ld.global`": r.global_loads}
    found = ", ".join(f"{n} {name}" for name, n in others.items() if n)
    return f"but {found}" if found else "and no other copies"


def unmet(
    receipt: Receipt, artifact: Artifact, requires: Iterable[str], forbids: Iterable[str] = ()
) -> list[str]:
    """One sentence for each condition that does not hold, or holds and should not."""
    sentences = []
    for name in requires:
        condition = CONDITIONS[name]
        if not condition.holds(receipt, artifact):
            sentences.append(f"needs {condition.sentence}; found {condition.found(receipt, artifact)}")
    for name in forbids:
        if CONDITIONS[name].holds(receipt, artifact):
            sentences.append(
                f"must do without {CONDITIONS[name].sentence}: this step is about what it costs not to have "
                "them"
            )
    return sentences
