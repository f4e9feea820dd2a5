"""What a step requires and forbids: conditions on the receipt and the launch, properties of the emulated run.

A condition is read from the PTX; what it demands must also have run, where there was a run to see. A property
is the idea of a step: it holds or not by the facts of a run (``explain.facts``), and is not held against a
kernel where no run could show it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from course_utils.artifact import SWIZZLE_PATTERN_BYTES, WARPGROUP_THREADS, Artifact, Origin, file_name
from course_utils.chips import HOME, Chip
from course_utils.grading import diagnosis, lines
from course_utils.ptx import registers
from course_utils.ptx.added import authors
from course_utils.ptx.families import Family, family
from course_utils.ptx.parser import PtxError
from course_utils.ptx.receipts import Receipt
from course_utils.run.protocol import Answer

Facts: TypeAlias = dict[str, int]  # see the emulator's explain/facts

# Required of a run of the kernel without what its compiler added (``ptx.added``): it must be as right.
OWN = "own barriers and fences"

# How a diagnosis begins that has found no cause.
GUESS = "(?:Every tile is|Some tiles are wholly) wrong"
LARGEST_SIDE = 2 * 256  # of a cluster's tile
LARGEST_TILE = 256 * 256  # elements of D; no CTA of this course holds a larger accumulator
# of a launch and of an order of tiles, in either DSL
LAUNCH, ORDER = r"T\.\w*Kernel\(|\.launch\(", r"TileScheduler\(|^\s*order ="
MOVED = "registers by warpgroup"
LOADS = Family.GLOBAL_LOAD, Family.CP_ASYNC, Family.BULK_LOAD  # that are not of a tensor map
STORES = Family.GLOBAL_STORE, Family.BULK_STORE
BLOCK_K = 64  # of the course's tiles
_GRID = "are x and y of the grid mixed up, or M and N?"  # before another question
_PAIR = "they are one cluster"
_FORMER = "a former tile's sum was not cleared."
_SAME_PLACE = r"nothing has written, and consumer warps (\d+), (\d+) write to the same place"


@dataclass(frozen=True)
class Condition:
    """Something a step requires or forbids. ``found`` says in words what the kernel has instead.

    ``families`` are the instructions that it asks for: one of them must run. It is asked for where K has at
    least ``k_tiles`` tiles: a shorter K needs no ring, and its compiler removes what never runs; where
    ``of_cluster``, of CTAs that are launched in clusters. ``call`` is a pattern of what the author writes to
    have one of ``families``: where nothing came of it, that line is to blame. Else the line of the first of
    ``near`` is the nearest, what the missing one belongs to. ``harm`` are kinds of findings that say better
    what comes of it. ``of_chip`` makes the sentence where it names numbers of a chip; ``sentence`` is then
    that of the course's own.
    """

    sentence: str
    holds: Callable[[Receipt, Artifact], bool]
    found: Callable[[Receipt, Artifact], str]
    families: tuple[Family, ...] = ()
    k_tiles: int = 1
    of_cluster: bool = False
    call: str = ""
    near: tuple[Family, ...] = ()
    harm: tuple[str, ...] = ()
    of_chip: Callable[[Chip], str] | None = None

    def asks(self, artifact: Artifact) -> str:
        """The sentence, as it is for the chip that the kernel was made for."""
        return self.of_chip(artifact.chip) if self.of_chip else self.sentence

    def asked(self, artifact: Artifact) -> bool:
        alone = math.prod(artifact.cluster) == 1
        return artifact.problem[2] >= self.k_tiles * BLOCK_K and not (self.of_cluster and alone)

    def ran(self, facts: Facts) -> bool:
        return not self.families or any(facts.get(f"ran {family.name}", 0) for family in self.families)


@dataclass(frozen=True)
class Property:
    """Something that a step requires of a run: ``shown`` in at least a share ``least`` of ``chances``, both
    facts.

    ``found`` says in words what was seen instead. The first instruction of ``families`` is what is to blame:
    its line is quoted; or the one line with the text ``call``. ``near`` is as in a Condition.
    """

    sentence: str
    shown: str
    chances: str
    found: Callable[[Facts], str]
    least: float = 1.0
    families: tuple[Family, ...] = ()
    call: str = ""
    near: tuple[Family, ...] = ()

    def lacks(self, facts: Facts) -> bool:
        chances = facts.get(self.chances, 0)
        return chances > 0 and facts.get(self.shown, 0) < self.least * chances


def _ctas(artifact: Artifact) -> int:
    x, y, z = artifact.grid
    return x * y * z


def _tile_of_a_cta(artifact: Artifact) -> float:
    """Elements of D per CTA: one tile where the grid covers D, many where each CTA loops over tiles; NaN for
    no CTA.
    """
    M, N, _ = artifact.problem
    return M * N / _ctas(artifact) if _ctas(artifact) else math.nan


def _few_tiles(artifact: Artifact) -> bool:
    """Whether D is so small that even a grid of one tile a CTA would be none too many."""
    M, N, _ = artifact.problem
    return M * N <= artifact.chip.sms * LARGEST_TILE


def _grid(r: Receipt, a: Artifact) -> str:
    grid = " x ".join(map(str, a.grid))
    return f"a grid of {grid} for M, N = {a.problem[0]}, {a.problem[1]}" + lines.below(LAUNCH, a)


def _persistent_grid(chip: Chip) -> str:
    *even, sms = chip.persistent_grids
    other = f" (or {even[0]})" if even else ""
    return f"a persistent grid: {sms} CTAs, one for each SM{other}, whatever M and N are"


def _persistent(r: Receipt, a: Artifact) -> str:
    if not 0 < _ctas(a) < a.chip.sms:
        return _grid(r, a)
    grid = " x ".join(map(str, a.grid))
    return f"a grid of {grid}: {_ctas(a)} of {a.chip.sms} SMs have a CTA" + lines.below(LAUNCH, a)


def _misplaced(a: Artifact) -> str:
    """The first tile whose allocation asks for less than its swizzle's pattern, and its line; "" for none."""
    for one in a.allocations:
        needs = SWIZZLE_PATTERN_BYTES[one.swizzle] if 0 < one.swizzle < len(SWIZZLE_PATTERN_BYTES) else 0
        if one.alignment < needs:
            text = f"{a.name_of(one)} with an alignment of {one.alignment}, where it needs {needs:,}"
            code = a.code(Origin(one.file, one.line))
            return f"{text}\n  at {file_name(one.file)}, line {one.line}: {code}"
    return ""


def _other_map(a: Artifact) -> str:
    """The first map of a matrix that has another size than the matrix, and its line; "" for none."""
    maps = {p.tensor: p.tensor_map for p in a.parameters if p.tensor_map is not None}
    for tensor in a.tensors:
        mine = maps.get(tensor.name)
        if mine is not None and len(mine.dims) == 2 and mine.dims != tensor.shape[::-1]:
            rows, columns = mine.dims[::-1]
            text = f"a map of {tensor.name} with {rows:,} x {columns:,} elements"
            text += f", where it has {tensor.shape[0]:,} x {tensor.shape[1]:,}"
            return text + (f"\n  at {at}" if (at := lines.of_map(tensor.name, a)) else "")
    return ""


def _pipeline(a: Artifact) -> bool:
    return any("PipelineTma" in text for text in a.python.values())


def _no_wgmma(r: Receipt, a: Artifact) -> str:
    if r.setmaxnreg and a.threads <= WARPGROUP_THREADS:  # it has roles
        return f"no wgmma: does any of the launch's {a.threads} threads take the consumer's branch?"
    return "no wgmma"


def _loads(r: Receipt) -> int:
    return sum(r.tensor_loads.values()) + sum(r.multicast_loads.values())


CONDITIONS = {
    "wgmma": Condition(
        "`wgmma.mma_async` with an fp32 accumulator",
        lambda r, a: any(".f32." in shape for shape in r.wgmma),
        lambda r, a: ", ".join(r.wgmma) or _no_wgmma(r, a),
        (Family.WGMMA,),
        call=r"T\.wgmma_gemm\(|cute\.gemm\(",
        near=(Family.WGMMA,),
    ),
    "wgmma of fp8": Condition(
        "`wgmma.mma_async` of e4m3 numbers, as they are stored",
        lambda r, a: bool(r.wgmma) and all(shape.endswith(".e4m3.e4m3") for shape in r.wgmma),
        lambda r, a: ", ".join(r.wgmma) or "no wgmma",
        (Family.WGMMA,),
    ),
    "aligned tiles": Condition(
        "each swizzled tile at a multiple of its pattern, 1,024 bytes for 128B, 512 for 64B",
        lambda r, a: not _misplaced(a),
        lambda r, a: _misplaced(a),
    ),
    "one CTA": Condition("a grid of one CTA", lambda r, a: _ctas(a) == 1, _grid),
    "grid grows": Condition(
        "a grid that covers D, one tile a CTA", lambda r, a: _tile_of_a_cta(a) <= LARGEST_TILE, _grid
    ),
    "fixed grid": Condition(
        _persistent_grid(HOME),
        lambda r, a: _ctas(a) in a.chip.persistent_grids or 0 < _ctas(a) and _few_tiles(a),
        _persistent,
        of_chip=_persistent_grid,
    ),
    "tensor loads": Condition(
        "TMA loads, `cp.async.bulk.tensor` from global to shared",
        lambda r, a: _loads(r) > 0,
        lambda r, a: f"{_loads(r)} of them, {_other_loads(r)}" + _line(a, *LOADS),
        (Family.TENSOR_LOAD, Family.MULTICAST_LOAD),
    ),
    "tensor stores": Condition(
        "TMA stores of D, `cp.async.bulk.tensor` from shared to global",
        lambda r, a: sum(r.tensor_stores.values()) > 0,
        lambda r, a: _other_stores(r) + _line(a, *STORES),
        (Family.TENSOR_STORE,),
        near=(Family.STMATRIX, Family.WGMMA_WAIT),
    ),
    "tensor adds": Condition(
        "TMA stores that add, `cp.reduce.async.bulk.tensor` from shared to global",
        lambda r, a: "cp.reduce.async.bulk.tensor" in a.ptx,
        lambda r, a: "none",
        (Family.TENSOR_REDUCE,),
        near=(Family.TENSOR_STORE, *STORES, Family.STMATRIX),
    ),
    "expect-tx": Condition(
        "an mbarrier told how many bytes to expect, `expect_tx`",
        lambda r, a: r.expect_tx > 0,
        lambda r, a: "none" + " (a `producer_acquire` tells it)" * _pipeline(a),
        (Family.EXPECT_TX,),
        call=r"expect_tx\(",
        harm=("expect-tx",),
        near=(Family.TENSOR_LOAD, Family.MULTICAST_LOAD),
    ),
    "proxy fence": Condition(
        "a `fence.proxy.async` between threads' writes to shared memory and TMA's read of them",
        lambda r, a: r.proxy_fences > 0,
        lambda r, a: "none",
        (Family.PROXY_FENCE,),
        call=r"fence_proxy_async\(|fence_view_async_shared\(",
        harm=("proxy-fence", "proxy-fence-overwrite"),
        near=(Family.TENSOR_STORE, Family.TENSOR_REDUCE),
    ),
    "store wait": Condition(
        "a `cp.async.bulk.wait_group` for the TMA stores, inside the loop where there is one, before "
        "their buffer is written again",
        lambda r, a: r.bulk_waits > 0 and r.unawaited_store_loops == 0,
        lambda r, a: "none" if not r.bulk_waits else "none in the loop that stores",
        (Family.BULK_WAIT,),
        call=r"tma_store_wait\(|cp_async_bulk_wait_group\(",
        harm=("overwrite-while-read", "exit-in-flight", "store-wait-elsewhere"),
        near=(Family.TENSOR_STORE, Family.TENSOR_REDUCE),
    ),
    "slices": Condition(
        "D in slices: two groups of TMA stores or more for a tile, each with its own commit",
        # stores in no group at all are another fault, which the run tells
        lambda r, a: sum(r.tensor_stores.values()) >= 2 and r.bulk_commits != 1,
        lambda r, a: f"{r.bulk_commits} group{'s' * (r.bulk_commits != 1)}",
        near=(Family.TENSOR_STORE,),
    ),
    "read wait": Condition(
        "a `cp.async.bulk.wait_group.read`: a staging buffer is written again once it has been read",
        lambda r, a: r.bulk_read_waits > 0,
        lambda r, a: "none" if not r.bulk_waits else "none with .read",
        near=(Family.BULK_WAIT, Family.TENSOR_STORE),
    ),
    "two full barriers": Condition(
        "at least two mbarriers, one for each stage of the ring",
        lambda r, a: r.mbarrier_inits >= 2,
        lambda r, a: f"{r.mbarrier_inits} `mbarrier.init`",
        k_tiles=2,
        near=(Family.MBARRIER_INIT,),
    ),
    "empty barriers": Condition(
        "a full and an empty mbarrier for each stage: four for two stages",
        lambda r, a: r.mbarrier_inits >= 4,
        lambda r, a: f"{r.mbarrier_inits} `mbarrier.init`",
        k_tiles=2,
        near=(Family.MBARRIER_INIT,),
    ),
    "four stages": Condition(
        "four stages: eight mbarriers, four full and four empty",
        lambda r, a: r.mbarrier_inits >= 8,
        lambda r, a: f"{r.mbarrier_inits} `mbarrier.init`",
        k_tiles=4,
        near=(Family.MBARRIER_INIT,),
    ),
    "setmaxnreg": Condition(
        "register reallocation both ways, `setmaxnreg.dec` and `setmaxnreg.inc`, obeyed by ptxas",
        lambda r, a: (
            {v.split()[0] for v in r.setmaxnreg} == {"dec", "inc"}
            and not any("setmaxnreg" in w for w in a.resources.warnings)
            and not any(move.astray or move.idle for move in registers.moves(a))
        ),
        lambda r, a: registers.told(a),
        call=r"_max_nreg\(|setmaxregister_\w+\(",
        near=(Family.SETMAXNREG, Family.TENSOR_LOAD),
    ),
    "wgmma in flight": Condition(
        "a `wgmma.wait_group` above 0, so that one group stays in flight",
        lambda r, a: any(n > 0 for n in r.wgmma_waits),
        lambda r, a: (
            f"`wgmma.wait_group` {', '.join(map(str, sorted(r.wgmma_waits)))} only"
            if r.wgmma_waits
            else "none"
        ),
        k_tiles=2,
        near=(Family.WGMMA_WAIT,),
    ),
    "multicast": Condition(
        "TMA multicast, `.multicast::cluster`",
        lambda r, a: sum(r.multicast_loads.values()) > 0,
        lambda r, a: "none",
        (Family.MULTICAST_LOAD,),
        near=(Family.TENSOR_LOAD,),
    ),
    "remote arrive": Condition(
        "an arrival on the other CTA's barrier, `mbarrier.arrive.shared::cluster`",
        lambda r, a: r.remote_arrives > 0,
        lambda r, a: "none",
        (Family.REMOTE_ARRIVE,),
        call=r"\.mbarrier_arrive\([^#]*,",
        near=(Family.ARRIVE,),
    ),
    "cluster barrier": Condition(
        "two `barrier.cluster`: after the barriers are initialised, and before a CTA exits. Instead of "
        "the second, the producer may wait once more for every `empty` (`producer_tail`)",
        lambda r, a: r.cluster_barriers >= 2 or r.cluster_barriers == 1 and _waits_for_all(r),
        lambda r, a: f"{r.cluster_barriers}, and no wait for every `empty`",
        (Family.CLUSTER_BARRIER,),
        near=(Family.CLUSTER_BARRIER, Family.MBARRIER_INIT),
        harm=("cluster-exit", "barrier-init-race"),
    ),
    "cluster of two": Condition(
        "a cluster of two CTAs",
        lambda r, a: a.cluster[0] * a.cluster[1] * a.cluster[2] == 2,
        lambda r, a: f"a cluster of {' x '.join(map(str, a.cluster))}" + lines.below(LAUNCH, a),
    ),
    "three warpgroups": Condition(
        "three warpgroups or more: a producer and two consumers",
        lambda r, a: a.threads >= 384,
        lambda r, a: f"{a.threads} threads" + lines.below(LAUNCH, a),
    ),
    "exact maps": Condition(
        "tensor maps as large as A, B and D: TMA clips a tile where its map ends, and nowhere else",
        lambda r, a: not _other_map(a),
        lambda r, a: _other_map(a),
    ),
}
CONDITIONS |= {
    f"{name} of a cluster": replace(CONDITIONS[name], of_cluster=True)
    for name in ("multicast", "remote arrive", "cluster barrier")
}


def _line(a: Artifact, *families: Family, last: bool = False) -> str:
    """The author's line of the kernel's first instruction of these families, which come in their order; of
    waits for stores, the one that follows a store most closely. "" where it has none, or nobody knows.
    ``last``: the last of them.
    """
    try:
        found = [(family(instruction), origin) for instruction, origin in authors(a)]
    except PtxError:
        return ""
    for kind in families:
        mine = [(at, origin) for at, (one, origin) in enumerate(found) if one is kind and origin]
        if kind is Family.BULK_WAIT:
            stores = [at for at, (one, _) in enumerate(found) if one is Family.TENSOR_STORE]
            mine.sort(key=lambda one: min((one[0] - at for at in stores if at < one[0]), default=len(found)))
        for _, origin in mine[-1:] if last else mine[:1]:
            return f"\n  at {file_name(origin.file)}, line {origin.line}: {a.code(origin)}"
    return ""


def near(name: str, a: Artifact) -> str:
    """The line, below a text, of what a missing instruction belongs to; "" where nobody knows one."""
    kinds = (PROPERTIES[name] if name in PROPERTIES else CONDITIONS[name]).near if name != OWN else ()
    return _line(a, *kinds, last=kinds[:1] in ((Family.TENSOR_LOAD,), (Family.ARRIVE,)))


def shown_by(name: str, kind: str) -> bool:
    """Does a finding of this kind say what comes of what is missing?"""
    return name in CONDITIONS and kind in CONDITIONS[name].harm


def _nothing_came(condition: Condition, a: Artifact) -> str:
    """Of an instruction that the PTX lacks: the author's call of it, which the compiler has left out; ""
    where the author wrote none.
    """
    try:
        there = {family(instruction) for instruction, _ in authors(a)}
    except PtxError:
        return ""
    if not condition.call or there.intersection(condition.families):
        return ""
    return lines.first(condition.call, a)


def _waits_for_all(r: Receipt) -> bool:
    """A wait for each stage, unrolled, beside the producer's and the consumer's own; half of the mbarriers
    are `empty`.
    """
    return r.mbarrier_waits >= 2 + r.mbarrier_inits // 2


def _other_loads(r: Receipt) -> str:
    others = {"1-D bulk copies": r.bulk_1d, "`cp.async`": r.cp_async, "plain `ld.global`": r.global_loads}
    found = ", ".join(f"{n} {name}" for name, n in others.items() if n)
    return f"but {found}" if found else "and no other copies"


def _other_stores(r: Receipt) -> str:
    if r.global_stores:
        return f"none, but {r.global_stores} plain `st.global`"
    return f"none, but {r.bulk_1d} 1-D bulk copies" if r.bulk_1d else "no store of D at all"


def _operands(f: Facts) -> str:
    others = {
        "`ld.global`": "ran GLOBAL_LOAD",
        "`cp.async`": "ran CP_ASYNC",
        "1-D bulk copies": "ran BULK_LOAD",
    }
    ran = ", ".join(words for words, name in others.items() if f.get(name))
    found = f"{_once(f, 'operands by TMA'):,} of {_once(f, 'operands'):,} that came so"
    return f"{found}, and {ran} in the run" if ran else found


def _stores(f: Facts) -> str:
    stored, once, wanted = (
        _once(f, name) for name in ("elements stored by TMA", "elements of D by TMA", "elements stored")
    )
    if stored > once:
        return f"{stored:,} elements stored by TMA where {once:,} would do: who issues the store?"
    return f"plain stores of up to {wanted - stored:,} elements beside them"


def _registers(f: Facts) -> str:
    ways = {"dec": "given back", "inc": "taken"}
    found = (
        f"`{word}` by {_once(f, f'registers {name}, whole warpgroups')} whole warpgroups of "
        f"{_once(f, f'registers {name}, warpgroups')}"
        for word, name in ways.items()
    )
    return ", ".join(found)


def _panels(f: Facts) -> str:
    mean = f["rows and columns of theirs"] / f["neighbouring CTAs"]
    return f"{mean:.1f} rows and columns of tiles for 16 CTAs; panels of 4 make 10"


def _rounds(f: Facts) -> str:
    busiest, even = _once(f, "rounds"), _once(f, "rounds of all SMs")
    with_one, ctas = _once(f, "CTAs with a tile"), _once(f, "CTAs")
    return (
        f"{busiest} tiles for the busiest CTA, where {even} would do; {with_one} of {ctas} CTAs have a tile"
    )


def _stages(f: Facts, count: int) -> str:
    used = f.get(f"stages of rings of {count}", 0) / f[f"rings of {count} wanted"]
    return f"{used:.2g} in use"


def _once(f: Facts, name: str) -> int:
    """A fact of one run; ``f`` adds up several that are alike."""
    return f.get(name, 0) // f.get("runs", 1)


def _of(shown: str, chances: str, things: str) -> Callable[[Facts], str]:
    def found(f: Facts) -> str:
        ctas = f", in {_once(f, 'CTAs')} CTAs" if things != "CTAs" and "CTAs" in f else ""
        return f"it in {_once(f, shown):,} of {_once(f, chances):,} {things}{ctas}"

    return found


PROPERTIES = {
    "operands by TMA": Property(
        "A and B by TMA alone: every tile that `wgmma` reads was brought by a tensor load (`T.tma_copy`, or "
        "`cute.copy` with a TMA atom)",
        "operands by TMA alone",
        "operands",
        _operands,
        families=LOADS,
    ),
    "D once": Property(
        "all of D by TMA, each element stored once: one warp or thread stores a tile, not all of them",
        "elements of D by TMA",
        "elements stored",
        _stores,
        families=(*STORES, Family.TENSOR_STORE),
    ),
    "stage barriers": Property(
        "a full barrier of its own for each stage: two stages that share one could not be told apart",
        "fills of their barrier's stage",
        "fills",
        _of("fills of their barrier's stage", "fills", "loads of a stage"),
        near=(Family.TENSOR_LOAD,),
    ),
    "two stages used": Property(
        "a ring of two stages or more in use",
        "rings of 2",
        "rings of 2 wanted",
        lambda f: _stages(f, 2),
        near=(Family.TENSOR_LOAD,),
    ),
    "four stages used": Property(
        "a ring of four stages or more in use",
        "rings of 4",
        "rings of 4 wanted",
        lambda f: _stages(f, 4),
        near=(Family.TENSOR_LOAD,),
    ),
    "loads ahead": Property(
        "loads ahead: while `wgmma` multiplies K tile k, the load of a later tile is under way. Ask for it "
        "before you wait for tile k, and wait for it after you multiplied",
        "K tiles with a load ahead",
        "K tiles followed",
        _of("K tiles with a load ahead", "K tiles followed", "K tiles"),
        0.5,
        near=(Family.TENSOR_LOAD,),
    ),
    "tile order": Property(
        "an order of tiles for L2: CTAs that run at one time share rows of A and of B. Walk D in panels of "
        "2 to 8 tiles (`swizzle_size`, or a layout of panels): not row by row, nor in panels as wide as D",
        "neighbouring CTAs that share",
        "neighbouring CTAs",
        _panels,
        0.5,
        call=ORDER,
    ),
    "a share for each CTA": Property(
        "even shares: CTAs take turns, and none takes more tiles than with one CTA for each SM",
        "rounds of all SMs",
        "rounds",
        _rounds,
    ),
    MOVED: Property(
        "`setmaxnreg` both ways, by all four warps of a warpgroup (`T.dec_max_nreg`, "
        "`cute.arch.setmaxregister_decrease` before any branch that one warp takes)",
        "registers moved by whole warpgroups",
        "registers moved",
        _registers,
        families=(Family.SETMAXNREG,),
    ),
    "loads in the epilogue": Property(
        "loads during the epilogue: the producer asks for the next tile of D's operands while consumers "
        "write this one",
        "epilogues with loads",
        "epilogues",
        _of("epilogues with loads", "epilogues", "epilogues that another tile follows"),
        0.5,
        near=(Family.TENSOR_LOAD,),
    ),
    "group in flight": Property(
        "one wgmma group in flight: the next K tile's `wgmma` is issued before the last one was waited for "
        "(`T.wait_wgmma(1)`, `warpgroup.wait_group(1)`)",
        "K tiles followed, one queued",
        "K tiles followed",
        _of("K tiles followed, one queued", "K tiles followed", "K tiles"),
        0.5,
        near=(Family.WGMMA_WAIT,),
    ),
    "multicast shared": Property(
        "multicast that shares: the mask names both CTAs, and both multiply what the load brings",
        "multicast loads shared",
        "multicast loads",
        _of("multicast loads shared", "multicast loads", "multicast loads"),
        near=(Family.MULTICAST_LOAD,),
    ),
    "stores in flight": Property(
        "stores in flight: the next slice of D is written while TMA still stores this one "
        "(`T.tma_store_wait(1)`, `cp_async_bulk_wait_group(1, ...)`)",
        "slices filled while a store flies",
        "slices after another",
        _of("slices filled while a store flies", "slices after another", "slices that follow one"),
        0.5,
        (Family.BULK_WAIT,),
    ),
    "store under loads": Property(
        "the store of a tile under the next tile's loads: wait for it before its buffer is written again, "
        "not at once",
        "stores under the next tile",
        "stores that a tile follows",
        _of("stores under the next tile", "stores that a tile follows", "tiles that another follows"),
        0.5,
        (Family.BULK_WAIT,),
    ),
    "cut by TMA": Property(
        "the last rows of D in a tile like all others: TMA leaves out what lies past the last row, and no "
        "tile is moved up over its neighbour",
        "stores of the last row that TMA cuts",
        "stores of the last row",
        _of("stores of the last row that TMA cuts", "stores of the last row", "stores of the last row"),
        near=(Family.TENSOR_STORE,),
    ),
    "K shared": Property(
        "split-K: several CTAs have a part of K each, and add their sums to the same tile of D",
        "boxes added to by several CTAs",
        "boxes added to",
        _of("boxes added to by several CTAs", "boxes added to", "boxes of D"),
        near=(Family.TENSOR_REDUCE,),
    ),
    "rows ahead": Property(
        "loads ahead: while rows are computed and stored, the load of later rows is under way, and need not "
        "wait for that store",
        "results stored with a load ahead",
        "results stored",
        _of("results stored with a load ahead", "results stored", "stores that later rows follow"),
        0.5,
        near=(Family.TENSOR_LOAD,),
    ),
    "256 x 128": Property(
        "a tile of 256 x 128: each stage has 256 rows of A and 128 of B",
        "K tiles of 256 and 128 rows",
        "K tiles of A and B",
        _of("K tiles of 256 and 128 rows", "K tiles of A and B", "K tiles"),
    ),
    "sums of one K block": Property(
        "an accumulator that begins anew with each K tile: its sum goes to the second one before the next "
        "tile's",
        "K tiles begun anew",
        "K tiles",
        _of("K tiles begun anew", "K tiles", "K tiles"),
        families=(Family.WGMMA,),
    ),
    "two consumers": Property(
        "two consumer warpgroups that multiply in every CTA",
        "CTAs with two consumers",
        "CTAs that multiply",
        _of("CTAs with two consumers", "CTAs that multiply", "CTAs"),
    ),
}


def outside(facts: Facts) -> str:
    """Sentences on TMA loads and stores that left their tensors, with the farthest; "" where none did."""
    told = []
    for name in facts:
        if not (found := re.fullmatch(r"(loads|stores) outside (\w+), axis (\d)", name)):
            continue
        kind, tensor, axis = found.groups()
        where = {"0": "column", "1": "row"}.get(axis, f"coordinate {axis} =")
        count, at, dim = (_once(facts, name + what) for what in ("", ", at", ", of"))
        if count == 1:
            said, lost = f"1 TMA {kind[:-1]} lies", ("it brings zeros", "it is dropped")
        else:
            said, lost = f"{count:,} TMA {kind} lie", ("they bring zeros", "they are dropped")
        ranks = [rank for rank in range(HOME.cluster) if facts.get(f"{name}, rank {rank}")]
        told.append(
            f"{said} outside {tensor}, one from {where} {at:,} of {dim:,}"
            + (f", all by CTAs of rank {ranks[0]}" if ranks and ranks[0] else "")
            + f": {lost[kind == 'stores']}."
            + " Which index counts the rank?" * bool(ranks and ranks[0])
        )
    return " ".join(told)


def left_over(answer: Answer, artifact: Artifact) -> Answer:
    """A wrong answer whose diagnosis begins with how many tiles the CTAs of a persistent grid took, where no
    CTA took as many as it had to, and that is all that is wrong.
    """
    facts = answer.facts or {}
    taken = _once(facts, "tiles taken")
    if (
        answer.findings
        or answer.diagnosis.startswith("The kernel wrote")
        or not taken
        or not answer.unwritten
        or answer.wrong != answer.unwritten
    ):
        return answer
    M, N, _ = artifact.problem
    tile, rest = divmod(M * N - answer.unwritten, taken)
    (x, y, z), size, rounds = artifact.grid, math.prod(artifact.cluster), _once(facts, "rounds")
    if (
        rest
        or not tile
        or answer.unwritten % tile
        or y * z > 1
        or outside(facts)
        or rounds * x >= M * N // tile
    ):
        return answer
    told = f"{x} CTAs" + (f" ({x // size} clusters)" if size > 1 else "")
    told += f" took {taken} of D's {M * N // tile} tiles, none more than {rounds}"
    ask = "by how many does the tile loop go on"
    if size > 1:
        ask = "does the tile loop go on by clusters, not by CTAs"
    return replace(answer, diagnosis=f"{told}: {ask}? {answer.diagnosis}")


def not_loaded(answer: Answer, artifact: Artifact) -> Answer:
    """A wrong copy whose diagnosis begins with how much of X its TMA loads leave out, where they do."""
    if answer.findings or not answer.finished or not answer.facts:
        return answer
    x = artifact.tensors[0]
    loaded, count = _once(answer.facts, f"elements of {x.name} loaded"), math.prod(x.shape)
    if not 0 < loaded < count:
        return answer
    told = f"The loads bring {loaded:,} of {x.name}'s {count:,} elements: which index cuts {x.name}?"
    return replace(answer, diagnosis=told, remarks=(*answer.remarks, answer.diagnosis))


def guesses(answer: Answer) -> bool:
    """Has a wrong answer's diagnosis no cause to tell, only counts and where to look?"""
    return not answer.findings and bool(answer.diagnosis) and diagnosis.vague(answer.diagnosis)


def located(answer: Answer) -> Answer:
    """A wrong answer whose diagnosis begins with what lay outside, where that explains it."""
    if answer.findings or not answer.finished or not (told := outside(answer.facts or {})):
        return answer
    said, guesses = re.subn(rf"^{GUESS}[^.]*\. ", "", answer.diagnosis)
    explains = guesses or any(words in said for words in ("zeros", "K tile", "never written"))
    # those that ask for x and y, M and N
    explains = explains and not said.startswith("The kernel wrote") and "mirror place" not in said
    both = (told, said) if explains else (said, told)
    return replace(answer, diagnosis=" ".join(both))


def at_the_edge(answer: Answer, artifact: Artifact) -> Answer:
    """A wrong answer of a kernel whose tiles may hang over D's edge, with what leaves a part of it out: TMA
    that brings zeros from outside, and drops what is stored there, is then as it should be.
    """
    if answer.findings or not answer.finished:
        return answer
    facts = answer.facts or {}
    if not facts:  # a GPU's answer: what its values tell
        return last_left_out(answer, artifact, LARGEST_SIDE)
    (M, _, K), told = artifact.problem, _never_stored(answer, artifact)
    a = artifact.tensors[0].name
    columns, left = divmod(_once(facts, f"elements of {a} loaded"), M)
    busy = _once(facts, "CTAs with a tile")
    idle = busy - _once(facts, "CTAs that store")
    if told:
        pass
    elif idle > 0:
        told = (
            f"{idle} of {busy} CTAs multiply a tile of D and store nothing: where no tile follows that takes "
            "it along, what stores the last one?"
        )
    elif not left and K - BLOCK_K < columns < K:
        told = (
            f"The loads bring {columns:,} of {a}'s {K:,} columns: the last K tile is short, and is left out. "
            "Does the count of K tiles round up?"
        ) + _rounded_down("K", artifact)
    else:
        return last_left_out(answer, artifact, LARGEST_SIDE)
    return _caused(answer, told)


def added_up(answer: Answer, artifact: Artifact) -> Answer:
    """A wrong answer whose sums hold another tile's, where that is no former one: a CTA has a single tile, or
    stores add.
    """
    adds = "cp.reduce.async.bulk.tensor" in artifact.ptx
    if _FORMER not in answer.diagnosis or not (adds or _once(answer.facts or {}, "sums of a warp") == 1):
        return answer
    what = "is added there: which tile does each store take?" if adds else "is in its accumulator too."
    return replace(answer, diagnosis=answer.diagnosis.replace(_FORMER, f"another tile's sum {what}"))


def _caused(answer: Answer, told: str) -> Answer:
    """The answer with the cause ``told``; what its values say of how many and where stands below."""
    counts = diagnosis.counted(answer.diagnosis)
    return replace(answer, diagnosis=told, remarks=(*answer.remarks, *([counts] if counts else [])))


def last_left_out(answer: Answer, artifact: Artifact, most: int = 0) -> Answer:
    """A wrong answer of a kernel that wrote all of D but for tiles at its edge that are not whole. ``most``:
    so much may be missing where a side is of whole tiles too.
    """
    wrote = re.match(r"The kernel wrote D\[0:(\d+), 0:(\d+)\] alone", answer.diagnosis)
    if not wrote or answer.findings:
        return answer
    M, N, _ = artifact.problem
    short = {axis: full - int(end) for axis, full, end in zip("MN", (M, N), wrote.groups(), strict=True)}
    partial = {"M": M % BLOCK_K, "N": N % BLOCK_K}
    for axis, lost in short.items():
        if lost and lost >= most and not (partial[axis] and lost % BLOCK_K == partial[axis]):
            return answer
    if max(short.values()) >= LARGEST_SIDE:
        return answer
    cut = [axis for axis, lost in short.items() if lost]
    told = (
        f"{wrote[0]}, of {M} x {N}: tiles at the edge are left "
        "out. Does their count round up where the last one is not whole?"
    ) + _rounded_down(cut[0], artifact)
    return _caused(answer, told)


def _rounded_down(axis: str, artifact: Artifact) -> str:
    """The one line, below a text, that divides this side of the problem and does not round up."""
    return lines.below(rf"(?<![-\w]){axis}\s*//", artifact)


def _never_stored(answer: Answer, artifact: Artifact) -> str:
    """Which chunks of a tile, or which tiles, a kernel that stores tiles in chunks leaves out; "" where it is
    something else.
    """
    if found := re.match(r"Columns (\d+):(\d+) of each (\d+) were never written", answer.diagnosis):
        begin, end, width = map(int, found.groups())
        maps = {p.tensor: p.tensor_map for p in artifact.parameters if p.tensor_map is not None}
        of_d = maps.get(artifact.tensors[-1].name)
        box = of_d.box[0] if of_d is not None else 0
        if not 0 < box < width:
            return ""
        which, most = (begin // box, (end - 1) // box), -(-width // box) - 1
        one = which[0] == which[1]
        told = f"Chunk {which[0]}" if one else f"Chunks {which[0]} to {which[1]}"
        told += (
            f" of a tile's chunks 0 to {most} {'is' if one else 'are'} never stored (columns {begin}:{end}"
        )
        told += f" of its {width})"
        where = answer.diagnosis[found.end() :].partition(":")
        every = not where[0]
        if not every:
            told += ", but for the last tile of each CTA" * (_once(answer.facts or {}, "rounds") > 1)
        line, calls = lines.of_stores(artifact, every)
        return f"{told}: how many does each call store?{calls}{line}"
    band = re.match(
        r"(?:Columns|Rows) \d+:\d+ of D were never written, and all others were", answer.diagnosis
    )
    if band and _once(answer.facts or {}, "rounds") > 1:
        line, calls = lines.of_stores(artifact, False)
        told = f"{band[0].replace('written', 'stored')}: does the store of each CTA's earlier tiles take "
        return f"{told}the later one's place?{calls}{line}"
    return ""


def order_of_tiles(answer: Answer, artifact: Artifact) -> Answer:
    """A wrong answer of a persistent grid that left a part of D out: it has no x and y but an order of tiles,
    and stores outside D say that M and N are mixed up there.
    """
    (x, y, z), facts = artifact.grid, answer.facts or {}
    persistent = x in artifact.chip.persistent_grids or any(
        lines.SCHEDULER in text for text in artifact.python.values()
    )
    if answer.findings or _GRID not in answer.diagnosis or y * z > 1 or not persistent:
        return answer
    told, _, rest = answer.diagnosis.partition(_GRID)
    cover, _, counts = rest.partition("? ")
    ask = f"do{cover.removeprefix(' Do')}?"
    left = [name for name in facts if re.fullmatch(r"stores outside \w+, axis \d", name)]
    if any(_once(facts, f"{name}, at") >= max(artifact.problem[:2]) for name in left):
        # farther than M and N mixed up would take it
        lost = outside({name: held for name, held in facts.items() if name.startswith("stores outside")})
        ask = "does its index count tiles of another size than the store's?"
        return replace(answer, diagnosis=f"{lost.partition(': ')[0]}: {ask} {told.rstrip(': ')}. {counts}")
    if left:
        ask = "are M and N mixed up in the order of tiles, which has to cover D? Rows of tiles come first."
    return replace(answer, diagnosis=f"{told}{ask} {counts}")


def rank_left_out(answer: Answer, artifact: Artifact) -> Answer:
    """A wrong answer of a cluster whose CTAs store one place, with the line that makes its row or column
    without the rank: the store takes what it is given.
    """
    if not answer.findings or _PAIR not in answer.findings[0]["text"]:
        return answer
    first, *others = answer.findings
    file, line, code = lines.without_rank(artifact, first["line"])
    if not line or line == first["line"]:
        return answer
    more = (f"the store: {first['where']}", *first["more"])
    mended = {**first, "file": file, "line": line, "code": code, "where": f"{file}, line {line}: {code}"}
    return replace(answer, findings=({**mended, "more": more, "generated": "", "ptx": ""}, *others))


def shared_rows(answer: Answer, artifact: Artifact) -> Answer:
    """A wrong answer whose cause is the MMA's layout, in CuTe DSL: two warpgroups multiply the same rows, or
    write the same part of D. Where the layout has two of them below each other it is not.
    """
    line = lines.below(r"make_tiled_mma\(", artifact)
    if artifact.threads <= 2 * WARPGROUP_THREADS or not line or re.search(r"\(2,\s*1,\s*1\)", line):
        return answer
    first = answer.findings[0] if answer.findings else None
    if first is None and (found := re.search(r"D\[64:128, .*? holds A\[0:64\]", answer.diagnosis)):
        text = f"Both consumer warpgroups multiply the same rows ({found[0]}...)"
        told = answer.diagnosis
    elif first is not None and (found := re.search(_SAME_PLACE, first["text"])):
        if int(found[1]) // 4 == int(found[2]) // 4:
            return answer
        text = "Two warpgroups write the same part of the tile, and none writes the rest"
        told = f"{first['text']} ({first['where']})"
    else:
        return answer
    text += f": how many 64 rows of it does the MMA give to each?{line}"
    return replace(answer, findings=(), diagnosis=text, remarks=(*answer.remarks, told))


def asks_for_own(requires: Iterable[str], artifact: Artifact) -> bool:
    """Must the kernel be right without what its compiler added? Not where the author left the ring to
    ``T.Pipelined``: the barriers and fences are a part of that. What comes before rings asks all the same.
    """
    return OWN in requires and not (artifact.pipelined and "two full barriers" in requires)


def told(
    receipt: Receipt,
    artifact: Artifact,
    requires: Iterable[str],
    forbids: Iterable[str] = (),
    facts: Facts | None = None,
) -> dict[str, str]:
    """By name: a sentence for each condition or property that does not hold, or holds and should not.

    Without ``facts`` there was no run to see, and properties are not asked for.
    """
    sentences = {}
    for name in requires:
        if name == OWN:
            continue  # asked for once, of the kernel without what its compiler added
        if name in PROPERTIES:
            if facts and PROPERTIES[name].lacks(facts):
                own = PROPERTIES[name]
                line = _line(artifact, *own.families) if own.families else lines.below(own.call, artifact)
                if name == MOVED and facts.get("registers given back, whole warpgroups"):
                    line = _line(artifact, Family.SETMAXNREG, last=True)
                said, found = own.sentence, own.found(facts)
                if "T.copy(" in line and Family.BULK_WAIT in own.families:
                    said, _, _ = said.partition(":")
                    found = "`T.copy`, which waits for its store at once; `T.tma_copy` does not"
                sentences[name] = f"needs {said}; found {found}{line}"
            continue
        condition = CONDITIONS[name]
        if not condition.asked(artifact):
            continue
        if not condition.holds(receipt, artifact):
            found = condition.found(receipt, artifact)
            if found.startswith("no") and (place := _nothing_came(condition, artifact)):
                found += ": nothing came of this line. Can any thread reach it?" * ("?" not in found) + place
            sentences[name] = f"needs {condition.asks(artifact)}; found {found}"
        elif facts and not condition.ran(facts):
            line = _line(artifact, *condition.families)
            sentences[name] = (
                f"needs {condition.asks(artifact)}; found it in the PTX, and no thread ever ran it{line}"
            )
    for name in forbids:
        if CONDITIONS[name].holds(receipt, artifact):
            sentences[name] = (
                f"must do without {CONDITIONS[name].sentence}: this step is about what it costs not to have "
                "them"
            )
    return sentences


def unseen(requires: Iterable[str], runs: Sequence[tuple[Artifact, Facts]]) -> dict[str, str]:
    """By name: a sentence for each condition whose instructions did not run in each of ``runs``, and for each
    property that none of them gave a chance to show.
    """
    sentences = {}
    for name in requires:
        if name in PROPERTIES:
            own = PROPERTIES[name]
            if not any(facts.get(own.chances, 0) for _, facts in runs):
                sentences[name] = f"needs {own.sentence}; nothing of it was seen in a run"
        elif name in CONDITIONS:
            asked = [facts for artifact, facts in runs if CONDITIONS[name].asked(artifact)]
            if not all(map(CONDITIONS[name].ran, asked)):
                sentences[name] = f"needs {CONDITIONS[name].sentence}; no thread was seen to run it"
    return sentences


def idle(requires: Iterable[str], runs: Iterable[Facts]) -> bool:
    """Has none of the instructions that are asked for run, in any of ``runs``?"""
    asked = [CONDITIONS[name] for name in requires if name in CONDITIONS and CONDITIONS[name].families]
    return not any(condition.ran(facts) for facts in runs for condition in asked)
