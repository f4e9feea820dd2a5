"""What a step requires and forbids of a receipt and its launch, and what of that a kernel lacks.

A condition is read from the PTX; what it demands must also have run, where there was a run to see.
``properties`` has what a step requires of the run itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from course_utils.artifact import (
    DATA_TYPES,
    ELEMENT_BYTES,
    SWIZZLE_PATTERN_BYTES,
    WARPGROUP_THREADS,
    Artifact,
    Origin,
    Place,
)
from course_utils.cause import Cause
from course_utils.chips import Chip
from course_utils.grading import lines
from course_utils.grading.found import Found, found
from course_utils.grading.properties import LOADS, PROPERTIES, STORES, Facts
from course_utils.problems import PROBLEMS
from course_utils.ptx import registers
from course_utils.ptx.added import authors
from course_utils.ptx.families import Family, family
from course_utils.ptx.parser import PtxError
from course_utils.ptx.receipts import Receipt, read_ptx
from course_utils.run.backends import Launch
from course_utils.run.protocol import Answer

# Required of a run of the kernel without what its compiler added (``ptx.added``): it must be as right.
OWN = "own barriers and fences"

LARGEST_TILE = 256 * 256  # elements of D; no CTA of this course holds a larger accumulator
LAUNCH = r"T\.\w*Kernel\(|\.launch\("  # in either DSL
BLOCK_K = 64  # of the course's tiles
STRIDE_BYTES = 16  # each stride of a tensor map is a multiple of it (cuTensorMapEncodeTiled)

PRODUCT = "product by wgmma"
ONCE = "D once"  # all of it by TMA
MBARRIERS = "mbarriers of a CTA"  # a fact

Instead = tuple[Cause, Place | None]  # what a kernel has instead, and where


@dataclass(frozen=True)
class Condition:
    """Something a step requires or forbids, ``needs`` in words. ``instead`` is what the kernel has.

    ``families`` are the instructions that it asks for: one of them must run. It is asked for where K has at
    least ``k_tiles`` tiles: a shorter K needs no ring, and its compiler removes what never runs; where
    ``of_cluster``, of CTAs that are launched in clusters. ``call`` is a pattern of what the author writes to
    have one of ``families``: where nothing came of it, that line is to blame. Else the line of the first of
    ``near`` is the nearest, what the missing one belongs to. ``harm`` are kinds of findings that say better
    what comes of it. ``numbers`` are those of a chip that ``needs`` names in braces. ``run`` is the property
    that the instructions are there for: they may run, and D not depend on them.
    """

    needs: str
    holds: Callable[[Receipt, Artifact], bool]
    instead: Callable[[Receipt, Artifact], Instead]
    families: tuple[Family, ...] = ()
    k_tiles: int = 1
    of_cluster: bool = False
    of_stores: bool = False
    call: str = ""
    near: tuple[Family, ...] = ()
    harm: tuple[str, ...] = ()
    numbers: Callable[[Chip], dict[str, object]] = lambda chip: {}
    run: str = ""

    def applies_to(self, artifact: Artifact) -> bool:
        alone = math.prod(artifact.cluster) == 1
        if self.of_stores and stored_by_threads(artifact):
            return False
        return artifact.problem[2] >= self.k_tiles * BLOCK_K and not (self.of_cluster and alone)

    def ran(self, facts: Facts) -> bool:
        return not self.families or any(facts.get(f"ran {family.name}", 0) for family in self.families)


def _is(case: str, place: Place | None = None, /, **values: object) -> Instead:
    return Cause("found", case, values), place


def _ctas(artifact: Artifact) -> int:
    return math.prod(artifact.grid)


def tile_of_a_cta(artifact: Artifact) -> float:
    """Elements of D per CTA: one tile where the grid covers D, many where each CTA loops over tiles; NaN for
    no CTA.
    """
    M, N, _ = artifact.problem
    return M * N / _ctas(artifact) if _ctas(artifact) else math.nan


def _few_tiles(artifact: Artifact) -> bool:
    """Whether D is so small that even a grid of one tile a CTA would be none too many."""
    M, N, _ = artifact.problem
    return M * N <= artifact.chip.sms * LARGEST_TILE


def _grid(r: Receipt, a: Artifact) -> Instead:
    return _is("grid", lines.one(LAUNCH, a), grid=a.grid, M=a.problem[0], N=a.problem[1])


def _persistent_grids(chip: Chip) -> dict[str, object]:
    *even, sms = chip.persistent_grids
    return {"sms": sms, "even": even[0] if even else None}


def _persistent(r: Receipt, a: Artifact) -> Instead:
    if not 0 < _ctas(a) < a.chip.sms:
        return _grid(r, a)
    return _is("idle-sms", lines.one(LAUNCH, a), grid=a.grid, ctas=_ctas(a), of_sms=a.chip.sms)


def _misplaced(a: Artifact) -> Instead | None:
    """The first tile whose allocation asks for less than its swizzle's pattern."""
    for one in a.allocations:
        needs = SWIZZLE_PATTERN_BYTES[one.swizzle] if 0 < one.swizzle < len(SWIZZLE_PATTERN_BYTES) else 0
        if one.alignment < needs:
            place = a.place(Origin(one.file, one.line))
            return _is("alignment", place, buffer=a.name_of(one), alignment=one.alignment, wanted=needs)
    return None


def _other_map(a: Artifact) -> Instead | None:
    """The first map of a matrix that has another size than the matrix."""
    maps = {p.tensor: p.tensor_map for p in a.parameters if p.tensor_map is not None}
    for tensor in a.tensors:
        mine = maps.get(tensor.name)
        if mine is not None and len(mine.dims) == 2 and mine.dims != tensor.shape[::-1]:
            sizes = {"mapped": list(mine.dims[::-1]), "matrix": list(tensor.shape)}
            return _is("other-map", lines.of_map(tensor.name, a), tensor=tensor.name, **sizes)
    return None


def _other_layout(a: Artifact) -> Instead | None:
    """The first map of a tensor of more than two dimensions that has other sizes than the tensor, or another
    stride for one of them. Their order is free, and a size of 1 may be left out.
    """
    for parameter in a.parameters:
        tensor, made = next((t for t in a.tensors if t.name == parameter.tensor), None), parameter.tensor_map
        if tensor is None or made is None or len(tensor.shape) < 3:
            continue
        output = tensor is a.tensors[-1]
        place = lines.of_map(tensor.name, a) or (
            lines.of_families(a, Family.TENSOR_STORE) if output else None
        )
        element = ELEMENT_BYTES[DATA_TYPES.index(tensor.dtype)]
        strides = [element * math.prod(tensor.shape[axis + 1 :]) for axis in range(len(tensor.shape))]
        mapped = sorted(one for one in zip(made.dims, (element, *made.strides), strict=True) if one[0] > 1)
        whole = sorted(one for one in zip(tensor.shape, strides, strict=True) if one[0] > 1)
        if [size for size, _ in mapped] != [size for size, _ in whole]:
            sizes = {"mapped": list(made.dims[::-1]), "matrix": list(tensor.shape)}
            return _is("merged-map", place, tensor=tensor.name, **sizes)
        for (size, stride), (_, wanted) in zip(mapped, whole, strict=True):
            if stride != wanted:
                values = {"size": size, "stride": stride, "wanted": wanted}
                return _is("other-strides", place, tensor=tensor.name, **values)
    return None


def stored_by_threads(artifact: Artifact) -> bool:
    """Can no tensor map describe the output? A row that is no multiple of 16 bytes is such a one."""
    out = artifact.tensors[-1]
    return out.shape[-1] * ELEMENT_BYTES[DATA_TYPES.index(out.dtype)] % STRIDE_BYTES != 0


def _pipeline(a: Artifact) -> bool:
    return any("PipelineTma" in text for text in a.python.values())


def _wgmma(r: Receipt, a: Artifact) -> Instead:
    if r.wgmma:
        return _is("shapes", shapes=list(r.wgmma))
    if r.setmaxnreg and a.threads <= WARPGROUP_THREADS:  # it has roles
        return _is("no-consumer", threads=a.threads)
    return _is("no-wgmma")


def _loads(r: Receipt) -> int:
    return sum(r.tensor_loads.values()) + sum(r.multicast_loads.values())


def _other_loads(r: Receipt, a: Artifact) -> Instead:
    others = {"1-D bulk copies": r.bulk_1d, "`cp.async`": r.cp_async, "plain `ld.global`": r.global_loads}
    ways = {name: count for name, count in others.items() if count}
    case = "other-loads" if ways else "no-loads"
    return _is(case, lines.of_families(a, *LOADS), count=_loads(r), **({"ways": ways} if ways else {}))


def _other_stores(r: Receipt, a: Artifact) -> Instead:
    place = lines.of_families(a, *STORES)
    if r.global_stores:
        return _is("plain-stores", place, count=r.global_stores)
    return _is("bulk-stores", place, count=r.bulk_1d) if r.bulk_1d else _is("no-stores", place)


def _none(r: Receipt, a: Artifact) -> Instead:
    return _is("none")


def _barriers(r: Receipt, a: Artifact) -> Instead:
    return _is("barriers", count=r.mbarrier_inits)


def _waits_for_all(r: Receipt) -> bool:
    """A wait for each stage, unrolled, beside the producer's and the consumer's own; half of the mbarriers
    are `empty`.
    """
    return r.mbarrier_waits >= 2 + r.mbarrier_inits // 2


CONDITIONS = {
    "wgmma": Condition(
        "`wgmma.mma_async` with an fp32 accumulator",
        lambda r, a: any(".f32." in shape for shape in r.wgmma),
        _wgmma,
        (Family.WGMMA,),
        call=r"T\.wgmma_gemm\(|cute\.gemm\(",
        near=(Family.WGMMA,),
        run=PRODUCT,
    ),
    "tcgen05.mma": Condition(
        "`tcgen05.mma` with an fp32 accumulator in tensor memory",
        lambda r, a: bool(r.tcgen05_mma),
        lambda r, a: _is("no-mma"),
        (Family.TCGEN05_MMA,),
        call=r"T\.tcgen05_gemm\(|cute\.gemm\(",
        near=(Family.TCGEN05_MMA,),
        run="product by tcgen05",
    ),
    "tensor memory": Condition(
        "tensor memory that is allocated, read (`tcgen05.ld`) and freed again",
        lambda r, a: r.tmem_allocs > 0 and r.tmem_frees > 0 and bool(r.tmem_loads),
        lambda r, a: _is(
            "tensor-memory", alloc=r.tmem_allocs, free=r.tmem_frees, ld=sum(r.tmem_loads.values())
        ),
        (Family.TMEM_LOAD,),
        near=(Family.TMEM_ALLOC, Family.TCGEN05_MMA),
        harm=("tmem-leak",),
    ),
    "MMA of a pair": Condition(
        "`tcgen05.mma.cta_group::2`<, of a pair of CTAs>",
        lambda r, a: any("cta_group::2" in kind for kind in r.tcgen05_mma),
        _none,
        (Family.TCGEN05_MMA,),
        near=(Family.TCGEN05_MMA,),
    ),
    "multicast commit": Condition(
        "a commit that arrives in both CTAs, `tcgen05.commit` with `.multicast::cluster`",
        lambda r, a: r.multicast_commits > 0,
        _none,
        (Family.TCGEN05_COMMIT,),
        near=(Family.TCGEN05_COMMIT,),
    ),
    "wgmma of fp8": Condition(
        "`wgmma.mma_async` of e4m3 numbers<, as they are stored>",
        lambda r, a: bool(r.wgmma) and all(shape.endswith(".e4m3.e4m3") for shape in r.wgmma),
        lambda r, a: _is("shapes", shapes=list(r.wgmma)) if r.wgmma else _is("no-wgmma"),
        (Family.WGMMA,),
    ),
    "aligned tiles": Condition(
        "each swizzled tile at a multiple of its pattern<, 1,024 bytes for 128B, 512 for 64B>",
        lambda r, a: not _misplaced(a),
        lambda r, a: _misplaced(a) or _is("none"),
    ),
    "one CTA": Condition("a grid of one CTA", lambda r, a: _ctas(a) == 1, _grid),
    "grid grows": Condition(
        "a grid that covers D, one tile per CTA",
        lambda r, a: tile_of_a_cta(a) <= LARGEST_TILE,
        _grid,
        run="a tile for each CTA",
    ),
    "fixed grid": Condition(
        "a persistent grid<: {sms} CTAs, one for each SM<{even}>, whatever M and N are>",
        lambda r, a: _ctas(a) in a.chip.persistent_grids or 0 < _ctas(a) and _few_tiles(a),
        _persistent,
        numbers=_persistent_grids,
        run="CTAs with a share",
    ),
    "tensor loads": Condition(
        "TMA loads, `cp.async.bulk.tensor` from global to shared",
        lambda r, a: _loads(r) > 0,
        _other_loads,
        (Family.TENSOR_LOAD, Family.MULTICAST_LOAD),
        run="read by TMA",
    ),
    "tensor stores": Condition(
        "TMA stores of D, `cp.async.bulk.tensor` from shared to global",
        lambda r, a: sum(r.tensor_stores.values()) > 0,
        _other_stores,
        (Family.TENSOR_STORE,),
        near=(Family.STMATRIX, Family.WGMMA_WAIT),
        of_stores=True,
    ),
    "tensor adds": Condition(
        "TMA stores that add, `cp.reduce.async.bulk.tensor` from shared to global",
        lambda r, a: "cp.reduce.async.bulk.tensor" in a.ptx,
        _none,
        (Family.TENSOR_REDUCE,),
        near=(Family.TENSOR_STORE, *STORES, Family.STMATRIX),
        run="sums of several CTAs",
    ),
    "expect-tx": Condition(
        "an mbarrier that expects the bytes of its loads, `expect_tx`",
        lambda r, a: r.expect_tx > 0,
        lambda r, a: _is("no-acquire") if _pipeline(a) else _is("none"),
        (Family.EXPECT_TX,),
        call=r"expect_tx\(",
        harm=("expect-tx",),
        near=(Family.TENSOR_LOAD, Family.MULTICAST_LOAD),
    ),
    "proxy fence": Condition(
        "a `fence.proxy.async` between threads' writes to shared memory and TMA's read of them",
        lambda r, a: r.proxy_fences > 0,
        _none,
        (Family.PROXY_FENCE,),
        call=r"fence_proxy_async\(|fence_view_async_shared\(",
        harm=("proxy-fence", "proxy-fence-overwrite"),
        near=(Family.TENSOR_STORE, Family.TENSOR_REDUCE),
        of_stores=True,
    ),
    "store wait": Condition(
        "a `cp.async.bulk.wait_group` for the TMA stores, inside the loop if there is one, before their "
        "buffer is written again",
        lambda r, a: r.bulk_waits > 0 and r.unawaited_store_loops == 0,
        lambda r, a: _is("not-in-the-loop") if r.bulk_waits else _is("none"),
        (Family.BULK_WAIT,),
        call=r"tma_store_wait\(|cp_async_bulk_wait_group\(",
        harm=("overwrite-while-read", "exit-in-flight", "store-wait-elsewhere"),
        near=(Family.TENSOR_STORE, Family.TENSOR_REDUCE),
        of_stores=True,
    ),
    "slices": Condition(
        "D in slices<: two groups of TMA stores or more for a tile, each with its own commit>",
        # stores in no group at all are another fault, which the run tells
        lambda r, a: sum(r.tensor_stores.values()) >= 2 and r.bulk_commits != 1,
        lambda r, a: _is("groups", count=r.bulk_commits),
        near=(Family.TENSOR_STORE,),
    ),
    "read wait": Condition(
        "a `cp.async.bulk.wait_group.read`<: a staging buffer is written again once it has been read>",
        lambda r, a: r.bulk_read_waits > 0,
        lambda r, a: _is("no-read-wait") if r.bulk_waits else _is("none"),
        near=(Family.BULK_WAIT, Family.TENSOR_STORE),
    ),
    "two full barriers": Condition(
        "at least two mbarriers, one for each stage of the ring",
        lambda r, a: r.mbarrier_inits >= 2,
        _barriers,
        (Family.MBARRIER_INIT,),
        k_tiles=2,
        near=(Family.MBARRIER_INIT,),
    ),
    "empty barriers": Condition(
        "a full and an empty mbarrier for each stage<: four for two stages>",
        lambda r, a: r.mbarrier_inits >= 4,
        _barriers,
        (Family.MBARRIER_INIT,),
        k_tiles=2,
        near=(Family.MBARRIER_INIT,),
        run="stages released",
    ),
    "four stages": Condition(
        "four stages<: eight mbarriers, four full and four empty>",
        lambda r, a: r.mbarrier_inits >= 8,
        _barriers,
        (Family.MBARRIER_INIT,),
        k_tiles=4,
        near=(Family.MBARRIER_INIT,),
        run="loads three ahead",
    ),
    "setmaxnreg": Condition(
        "register reallocation both ways, `setmaxnreg.dec` and `setmaxnreg.inc`, obeyed by ptxas",
        lambda r, a: (
            {v.split()[0] for v in r.setmaxnreg} == {"dec", "inc"}
            and not any("setmaxnreg" in w for w in a.resources.warnings)
            and not any(move.astray or move.idle for move in registers.moves(a))
        ),
        lambda r, a: registers.reallocated(a),
        call=r"_max_nreg\(|setmaxregister_\w+\(",
        near=(Family.SETMAXNREG, Family.TENSOR_LOAD),
        run="producer",
    ),
    "wgmma in flight": Condition(
        "a `wgmma.wait_group` above 0, so that one group stays in flight",
        lambda r, a: any(n > 0 for n in r.wgmma_waits),
        lambda r, a: _is("waits", waits=sorted(r.wgmma_waits)) if r.wgmma_waits else _is("none"),
        k_tiles=2,
        near=(Family.WGMMA_WAIT,),
    ),
    "multicast": Condition(
        "TMA multicast, `.multicast::cluster`",
        lambda r, a: sum(r.multicast_loads.values()) > 0,
        _none,
        (Family.MULTICAST_LOAD,),
        near=(Family.TENSOR_LOAD,),
        run="K tiles by multicast",
    ),
    "remote arrive": Condition(
        "an arrival on the other CTA's barrier, `mbarrier.arrive.shared::cluster`",
        lambda r, a: r.remote_arrives > 0,
        _none,
        (Family.REMOTE_ARRIVE,),
        call=r"\.mbarrier_arrive\([^#]*,",
        near=(Family.ARRIVE,),
        run="stages released by both CTAs",
    ),
    "cluster barrier": Condition(
        "two `barrier.cluster`<: after the barriers are initialised, and before a CTA exits>. Instead of "
        "the second, the producer may wait once more for every `empty`< (`producer_tail`)>",
        lambda r, a: r.cluster_barriers >= 2 or r.cluster_barriers == 1 and _waits_for_all(r),
        lambda r, a: _is("cluster-barriers", count=r.cluster_barriers),
        (Family.CLUSTER_BARRIER,),
        near=(Family.CLUSTER_BARRIER, Family.MBARRIER_INIT),
        harm=("cluster-exit", "barrier-init-race"),
    ),
    "cluster of two": Condition(
        "a cluster of two CTAs",
        lambda r, a: math.prod(a.cluster) == 2,
        lambda r, a: _is("cluster", lines.one(LAUNCH, a), cluster=list(a.cluster)),
    ),
    "three warpgroups": Condition(
        "three warpgroups or more<: a producer and two consumers>",
        lambda r, a: a.threads >= 384,
        lambda r, a: _is("threads", lines.one(LAUNCH, a), threads=a.threads),
        run="sums of two consumers",
    ),
    "exact maps": Condition(
        "tensor maps as large as A, B and D<: TMA clips a tile where its map ends, and nowhere else>",
        lambda r, a: not _other_map(a),
        lambda r, a: _other_map(a) or _is("none"),
    ),
}
CONDITIONS |= {
    f"{name} of a cluster": replace(CONDITIONS[name], of_cluster=True)
    for name in ("multicast", "remote arrive", "cluster barrier")
}

CONDITIONS |= {
    f"rank-{rank} maps": Condition(
        f"rank-{rank} tensor maps, a size and a stride for each dimension<: merged dimensions lose the edge "
        "between them>",
        lambda r, a: not _other_layout(a),
        lambda r, a: _other_layout(a) or _is("none"),
    )
    for rank in (3, 4)
}
CONDITIONS["four stages of MMAs"] = replace(CONDITIONS["four stages"], run="loads three ahead of MMAs")

NOTHING = {"none", "no-wgmma", "no-mma", "no-consumer", "no-acquire"}  # cases of what a kernel has instead


def near(name: str, a: Artifact) -> Place | None:
    """The line of what a missing instruction belongs to; None where nobody knows one."""
    row = PROPERTIES.get(name) or CONDITIONS.get(name)
    kinds = row.near if row else ()
    return lines.of_families(a, *kinds, last=kinds[:1] in ((Family.TENSOR_LOAD,), (Family.ARRIVE,)))


def shown_by(name: str, kind: str) -> bool:
    """Does a finding of this kind say what comes of what is missing?"""
    return name in CONDITIONS and kind in CONDITIONS[name].harm


def _dead_call(condition: Condition, a: Artifact) -> Place | None:
    """Of an instruction that the PTX lacks: the author's call of it, which the compiler has left out; None
    where the author wrote none.
    """
    try:
        there = {family(instruction) for instruction, _ in authors(a)}
    except PtxError:
        return None
    if not condition.call or there.intersection(condition.families):
        return None
    return lines.first(condition.call, a)


def asks_for_own(requires: Iterable[str], artifact: Artifact) -> bool:
    """Must the kernel be right without what its compiler added? Not where the author left the ring to
    ``T.Pipelined``: the barriers and fences are a part of that. What comes before rings asks all the same.
    """
    return OWN in requires and not (artifact.pipelined and "two full barriers" in requires)


def lacking(
    requires: Sequence[str],
    forbids: Sequence[str],
    answered: Sequence[tuple[Launch, Answer]],
    read: Artifact,
    strict: bool,
) -> tuple[dict[str, Found], dict[str, Found]]:
    """What is required and the kernel lacks, at any size, and what was not seen to run, where ``strict`` asks
    for it. ``read`` is one of the kernels: the size that shows most.

    That tells first. Of another one with wrong results nothing is asked: they say more.
    """
    lacks: dict[str, Found] = {}
    for launch, answer in sorted(answered, key=lambda run: run[0].artifact is not read):
        first, made = launch.artifact is read, launch.artifact
        if first or answer.ok:
            facts = answer.facts if answer.ok else None
            mine = unmet(read_ptx(made.ptx, made.kernel), made, requires, forbids, facts)
            lacks = {name: one if first else seen_at(one, launch) for name, one in mine.items()} | lacks
    # what an instruction did for D comes after the instructions: it may be what follows from a missing one
    by_row = [name for name in (*requires, *forbids) if name in lacks]
    by_row.sort(key=lambda name: name in CONDITIONS and _requirement(lacks[name]) == CONDITIONS[name].run)
    ordered = {name: lacks[name] for name in by_row}
    seen = [(launch.artifact, answer.facts or {}) for launch, answer in answered]
    right = all(answer.ok for _, answer in answered) and any(launch.sums for launch, _ in answered)
    return ordered, unseen(requires, seen, right) if strict else {}


def _requirement(one: Found) -> object:
    return one.cause.values.get("requirement")


def seen_at(one: Found, launch: Launch) -> Found:
    """What is lacking, at a size that is not the first one to look at."""
    at: dict[str, Any] = {"takes": PROBLEMS[launch.kind].takes, "size": list(launch.size)}
    at["one_k_tile"] = launch.artifact.problem[2] <= BLOCK_K
    return replace(one, cause=replace(one.cause, values={**one.cause.values, "at": at}))


def unmet(
    receipt: Receipt,
    artifact: Artifact,
    requires: Iterable[str],
    forbids: Iterable[str] = (),
    facts: Facts | None = None,
    mbarriers: int = 0,
) -> dict[str, Found]:
    """By name: each condition or property that does not hold, or holds and should not.

    Without ``facts`` there was no run to see, and properties are not asked for. ``mbarriers`` are those of a
    CTA in a run of the same plan: one instruction can initialise several.
    """
    most = max(receipt.mbarrier_inits, mbarriers, (facts or {}).get(MBARRIERS, 0))
    with_all = replace(receipt, mbarrier_inits=most)
    lacks: dict[str, Found] = {}
    for name in requires:
        if name == OWN:
            continue  # asked for once, of the kernel without what its compiler added
        if name in PROPERTIES:
            if name == ONCE and stored_by_threads(artifact):
                continue
            if facts and (violated := PROPERTIES[name].violation(name, facts, artifact)):
                lacks[name] = violated
            continue
        condition = CONDITIONS[name]
        if not condition.applies_to(artifact):
            continue
        numbers = condition.numbers(artifact.chip)
        read = with_all if Family.MBARRIER_INIT in condition.families else receipt
        if not condition.holds(read, artifact):
            instead, place = condition.instead(read, artifact)
            case = "condition"
            if instead.case in NOTHING and (call := _dead_call(condition, artifact)):
                case, place = "condition" if instead.case == "no-consumer" else "dead-call", call
            lacks[name] = found("missing", case, place, requirement=name, instead=instead, **numbers)
        elif facts and not condition.ran(facts):
            place = lines.of_families(artifact, *condition.families)
            lacks[name] = found("missing", "not-run", place, requirement=name, **numbers)
        elif facts and condition.run:
            if violated := PROPERTIES[condition.run].violation(condition.run, facts, artifact):
                lacks[name] = violated
    for name in forbids:
        if CONDITIONS[name].holds(receipt, artifact):
            lacks[name] = found(
                "missing", "forbidden", requirement=name, **CONDITIONS[name].numbers(artifact.chip)
            )
    return lacks


def unseen(
    requires: Iterable[str], runs: Sequence[tuple[Artifact, Facts]], right: bool = False
) -> dict[str, Found]:
    """By name: each condition whose instructions did not run in each of ``runs``, and each property that none
    of them gave a chance to show. Where all are ``right``, and were looked at whole, also a property that a
    condition is there for.
    """

    def no_chance(name: str) -> bool:
        return not any(facts.get(PROPERTIES[name].chances, 0) for _, facts in runs)

    multiplies = right and any(facts.get("products multiplied", 0) for _, facts in runs)

    lacks: dict[str, Found] = {}
    for name in requires:
        if name in PROPERTIES:
            if no_chance(name):
                lacks[name] = found("missing", "property-not-seen", requirement=name)
        elif name in CONDITIONS:
            condition = CONDITIONS[name]
            asked = [facts for artifact, facts in runs if condition.applies_to(artifact)]
            if multiplies and asked and condition.run and no_chance(condition.run):
                lacks[name] = found("missing", "property-not-seen", requirement=condition.run)
            elif not all(map(condition.ran, asked)):
                lacks[name] = found(
                    "missing", "not-seen-to-run", requirement=name, **condition.numbers(runs[0][0].chip)
                )
    return lacks


def idle(requires: Iterable[str], runs: Sequence[Facts]) -> bool:
    """Has none of the instructions that are asked for run, in any of ``runs``, or does D not come out of
    ``wgmma`` where that is asked for?
    """
    asked = [CONDITIONS[name] for name in requires if name in CONDITIONS and CONDITIONS[name].families]
    multiplies = "wgmma" in requires or "tcgen05.mma" in requires
    if multiplies and any(PROPERTIES[PRODUCT].is_violated(facts) for facts in runs):
        return True
    return not any(condition.ran(facts) for facts in runs for condition in asked)
