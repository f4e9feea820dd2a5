"""The step table: the only place that says what a step is worth, at which sizes it is tried, and what it must
show.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TypeAlias

from course_utils.artifact import TensorMap
from course_utils.chips import BLACKWELL, HOME, Chip
from course_utils.problems import PROBLEMS

DSL_NAMES = {"tilelang": "TileLang", "cute": "CuTe DSL"}  # as people write them

# parts of a verdict and their share of a step's points, in tenths
PARTS = {"compiles": 1, "tensor maps": 1, "instructions": 3, "results": 4, "speed": 1}

# The levels of a step's exercise, from the easiest, and the share of its points that each is worth
LEVELS = {"order": 0.6, "write": 1.0, "blank": 1.0}

COPY_PARTS = {"compiles": 1, "tensor maps": 2, "path": 4, "results": 3}  # the same for a copy of COPY_CASES
PAIR_PARTS = {"control": 2, "fault": 3, "one edit": 3, "short": 2}  # the same for a pair of PAIR_CASES

# Correctness sizes (M, N, K): all different, no power of two, multiples of 256 in M and N and of 64 in K, so
# that any sensible tile divides them. The first has many more tiles than an H200 has SMs and an odd number of
# K tiles: what a persistent kernel carries from tile to tile shows there, and the receipt is taken from it.
# The third has an even number of them, as the timed sizes have. The last, with its K of 64, makes epilogues
# follow each other so closely that a missing wait between them shows.
CHECK_SIZES = ((9728, 7680, 320), (768, 1280, 576), (1792, 768, 384), (1280, 2304, 1088), (4864, 3840, 64))
# What the emulator runs: a size, and which CTAs of it (None: all). Somewhere among a step's sizes a thread
# comes to each wait, arrival and store at least three times: the first is special, the second follows it, and
# the third reuses what the second has left. The receipt is taken from the first size, which has several tiles
# for each SM of an H200 and an odd number of K tiles; its first and its last cluster are enough for what one
# tile leaves to the next. The second has an even number of K tiles, as the timed sizes
# have. No N is a tile's width: TileLang would store whole rows of D, by bulk copies without a map.
MANY_TILES, FIRST_AND_LAST = (4864, 2304, 192), (0, -1)
EMULATED = ((MANY_TILES, FIRST_AND_LAST), ((256, 768, 384), None), ((256, 512, 64), None))
# For a ring, in place of the second: a K that is longer than any ring, so that it has to come round; no
# shared memory holds all of it. For persistent kernels, in place of the last: more tiles than CTAs, or
# clusters of two, and all of them, so that a forgotten one shows.
RING = (EMULATED[0], ((256, 512, 1152), None), EMULATED[2])
PERSISTENT = (*RING[:2], ((1536, 1792, 64), None))
# of a CTA, the next and the eighth after it: their tiles are near in each round, and not in a row
NEIGHBOURS = ((MANY_TILES, (0, 1, 8, -1)), *PERSISTENT[1:])
CLUSTER = (*RING[:2], ((1792, 1280, 64), None))
# On ten SMs the CTAs of a persistent kernel have two or three tiles each of this size, in a sixth of the time
# that a whole chip takes for as many; and at the other sizes few CTAs have none. Not for step 6: it is about
# the tiles of more CTAs than these.
TEN_SMS = (512, 768, 64), 10
# Clusters with tiles of 256 columns have fewer of them: a longer K fills each stage three times there too.
MULTI_CONSUMER = (((4864, 2304, 320), FIRST_AND_LAST), ((256, 512, 1024), None), ((1024, 4352, 64), None))
# Of step 11: multiples of 8 and not of a tile, each with its own plan. In the first, which has four tiles of
# 128 rows for a cluster, D leaves under the next tile, three times; the second has a deep K; the third fewer
# K tiles than stages, and all its CTAs run. Taller tiles are chosen at a longer K alone: the fourth has three
# tiles of 256 rows for a cluster, the fifth two of 192 (benchmarks/step11_sizes.py).
ANY_SHAPE = (
    ((3016, 5576, 264), FIRST_AND_LAST),
    ((136, 392, 1032), None),
    ((2312, 1552, 72), None),
    ((3656, 3672, 2056), (0,)),
    ((1800, 4744, 1480), FIRST_AND_LAST),
)
RAGGED = ((5000, 3000, 2000), (264, 520, 1160), (1001, 1288, 584), (8552, 1160, 520), (2312, 1552, 72))
TRACE_SIZE = (256, 256, 320)  # a tile or two for each CTA, and more K tiles than stages
TIMED_SIZES = ((4096, 4096, 4096), (8192, 8192, 8192), (8192, 2304, 5120))


@dataclass(frozen=True)
class Step:
    """One step. ``requires`` and ``forbids`` name conditions and properties of ``conditions``.

    ``label`` stands where there is little room. ``speed_floor`` is the least share of cuBLAS's TFLOP/s at
    4096, burst; None where one CTA computes one tile, or speed is not the point. ``whole`` kernels give no
    points while any part fails: a kernel to repair would have some as it is given. ``problem`` is of
    ``problems.PROBLEMS``: what it computes. ``owned`` says what the
    author of each DSL decides anew; what the other one's author does not name, its compiler decides.
    ``fewer_sms`` is a number of SMs, on which a check first runs the sizes of all CTAs, with another size in
    place of the largest; only where anything is wrong with the kernel there, it runs them on a whole chip.
    ``chip`` is what its kernels are compiled for; another than the course's own runs in the emulator alone.
    """

    id: str
    title: str
    points: int
    requires: tuple[str, ...]
    forbids: tuple[str, ...] = ()
    label: str = ""
    check_sizes: tuple[tuple[int, ...], ...] = CHECK_SIZES
    timed_sizes: tuple[tuple[int, ...], ...] = TIMED_SIZES
    emulated: tuple[tuple[tuple[int, ...], tuple[int, ...] | None], ...] = EMULATED
    fewer_sms: tuple[tuple[int, ...], int] | None = None
    speed_floor: float | None = None
    whole: bool = False
    problem: str = "gemm"
    owned: dict[str, str] = field(default_factory=dict, hash=False)
    chip: Chip = HOME

    @property
    def on_fewer_sms(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...] | None], ...]:
        """``emulated`` with the size for fewer SMs in place of the largest of all CTAs."""
        assert self.fewer_sms
        whole = (size for size, ctas in self.emulated if ctas is None)
        largest = max(whole, key=lambda size: size[0] * size[1], default=None)
        return tuple((self.fewer_sms[0] if size == largest else size, ctas) for size, ctas in self.emulated)

    @property
    def real_size(self) -> tuple[int, ...]:
        """The size at which a GPU times it, or the largest that it checks: compiled also where none is."""
        timed = [size for size in self.timed_sizes[:1] if len(size) == len(self.check_sizes[0])]
        return max([*timed, *self.check_sizes], key=math.prod)


# What a step's PTX shows, then what its run shows: the rows of ``properties.PROPERTIES``, the step's idea.
# Most conditions on PTX name such a row too (``Condition.run``): only what D depends on counts.
_FIRST = ("wgmma", "own barriers and fences", "aligned tiles")
_TMA = (
    *(*_FIRST, "tensor loads", "tensor stores", "expect-tx", "proxy fence", "store wait"),
    *("operands by TMA", "D once"),
)
_RING = (*_TMA, "two full barriers", "stage barriers", "two stages used", "loads ahead", "products once")
_ROLES = (
    *(*_RING, "fixed grid", "a share for each CTA", "empty barriers", "setmaxnreg"),
    *("registers by warpgroup", "loads in the epilogue"),
)
_DEEP = (*_ROLES, "four stages", "wgmma in flight", "four stages used", "group in flight")
# of any plan: one with tiles of 256 rows has three stages, and not every one has a cluster
_PLANNED: tuple[str, ...] = (
    *(*_ROLES, "wgmma in flight", "group in flight", "three warpgroups", "two consumers", "stores in flight"),
    *("multicast of a cluster", "remote arrive of a cluster", "cluster barrier of a cluster", "exact maps"),
)
_PLANNED = tuple(name for name in _PLANNED if name != "products once")  # its last K tile may hang over K
_CLUSTER = (*(*_DEEP, "multicast", "remote arrive", "cluster barrier", "cluster of two"), "multicast shared")

# fmt: off
STEPS = {step.id: step for step in (
    Step("step01", "single tile, synchronous", 5, (*_FIRST, "one CTA"), ("tensor loads",), "single tile",
         check_sizes=((128, 128, 64),), timed_sizes=((128, 128, 64),), emulated=(((128, 128, 64), None),),
         owned={"tilelang": "the tile, the order of copy, fence and wgmma",
                "cute": "the same, and swizzles, copy layout, MMA atom, fragments, fp16 conversion"}),
    Step("step02", "K loop", 5, (*_FIRST, "one CTA", "sums go on"), ("tensor loads",), "K loop",
         check_sizes=((128, 128, 320), (128, 128, 64), (128, 128, 384), (128, 128, 1088)),
         timed_sizes=((128, 128, 4096),),
         emulated=(((128, 128, 320), None), ((128, 128, 384), None), ((128, 128, 64), None)),
         owned={"tilelang": "when to clear the accumulator",
                "cute": "the accumulate field, one wgmma for every 16 of K"}),
    Step("step03", "spatial tiling", 10, (*_FIRST, "grid grows"), ("tensor loads",), "tiling",
         speed_floor=0.20,
         owned={"tilelang": "the slice of each CTA", "cute": "local tiles and what a thread takes of them"}),
    Step("step04", "TMA load and TMA store", 10, (*_TMA, "grid grows"), (), "TMA", speed_floor=0.22,
         owned={"tilelang": "a barrier, one arrival, fence and store",
                "cute": "TMA atoms, partitions, expected bytes, who is elected, stmatrix"}),
    Step("step05", "software pipeline", 10, (*_RING, "grid grows"), (), "pipeline", emulated=RING,
         speed_floor=0.40,
         owned={"tilelang": "stage and parity of each load and wait",
                "cute": "a pipeline object, its arrival counts, its two states"}),
    Step("step06", "persistent kernel", 10,
         (*_RING, "fixed grid", "a share for each CTA", "tile order", "tile order in each round",
          "store under loads"), (), "persistent", emulated=NEIGHBOURS, speed_floor=0.42,
         owned={"tilelang": "the scheduler's panel, stage and parity across tiles",
                "cute": "the order of tiles, as a layout"}),
    Step("step07", "warp specialization", 15, _ROLES, (), "warp spec.", emulated=PERSISTENT,
         fewer_sms=TEN_SMS, speed_floor=0.45,
         owned={"tilelang": "roles, arrival counts, initial parity, registers",
                "cute": "the same, and min_blocks_per_mp, without which registers stay as they are"}),
    Step("step08", "deeper pipeline", 5, _DEEP, (), "deeper", emulated=PERSISTENT,
         fewer_sms=TEN_SMS, speed_floor=0.75,
         owned={"tilelang": "which stage is free while one group runs",
                "cute": "the same, as a third pipeline state"}),
    Step("step09", "two-CTA cluster", 15, _CLUSTER, (), "cluster", emulated=CLUSTER,
         fewer_sms=TEN_SMS, speed_floor=0.78,
         owned={"tilelang": "mask, remote arrivals, cluster_sync at the end",
                "cute": "mask, each CTA's half of B, the cluster's layout, producer_tail"}),
    Step("step10", "multi-consumer", 15,
         (*_CLUSTER, "three warpgroups", "two consumers", "stores in flight"), (), "multi-cons.",
         emulated=MULTI_CONSUMER, fewer_sms=TEN_SMS, speed_floor=0.90,
         owned={"tilelang": "rows to warpgroups by a policy, D in chunks",
                "cute": "rows to warpgroups by the MMA's layout, each chunk's registers and stores"}),
    Step("step11", "any shape", 15, _PLANNED, (), "any shape", check_sizes=RAGGED, emulated=ANY_SHAPE,
         fewer_sms=((520, 776, 72), 10), timed_sizes=(*TIMED_SIZES, (8200, 2312, 5128)), speed_floor=0.90,
         owned={"tilelang": "a plan for M, N, K; tiles at the edge; D a tile later",
                "cute": "the same, and the order of tiles and the corner of each store"}),
)}
# fmt: on

# The notebooks on TMA legality. GEMM kernels first: a planted fault of solutions/wrong to repair, under the
# conditions of the step that it was planted in, and an epilogue to write.
# fmt: off
_REPAIRED = {  # the case, the fault, its DSL, the step
    "t3a": ("expect_bytes_too_many", "tilelang", "step04"),
    "t3b": ("no_phase_flip", "tilelang", "step05"),
    "t3c": ("no_proxy_fence", "cute", "step04"),
    "t3d": ("no_store_wait", "tilelang", "step06"),
    "t3e": ("phase_restarts", "tilelang", "step06"),
    "t3f": ("early_release", "tilelang", "step08"),
}
# fmt: on
REPAIRS = {name: (fault, dsl) for name, (fault, dsl, _) in _REPAIRED.items()}
GEMM_CASES = {
    name: replace(
        STEPS[step],
        id=name,
        title=f"repair {fault}",
        label="",
        points=5,
        speed_floor=None,
        whole=True,
        owned={},
    )
    for name, (fault, _, step) in _REPAIRED.items()
}
GEMM_CASES["t5"] = Step(
    "t5", "TMA epilogue", 10, (*_TMA, "grid grows", "slices", "read wait", "stores in flight")
)
# batch, sequence_q, sequence_k, heads, kv_heads, D: all differ, and no length is of whole tiles. TMA stores S
# at the first two emulated sizes; a row of 203 is no multiple of 16 bytes, so threads store the third
GEMM_CASES["t6"] = Step(
    "t6",
    "scores of heads",
    10,
    (
        *("wgmma", "own barriers and fences", "aligned tiles", "tensor loads", "tensor stores", "expect-tx"),
        *("proxy fence", "store wait", "operands by TMA", "D once", "stage barriers", "rank-4 maps"),
        *("loads in the epilogue", "stores in flight"),
    ),
    check_sizes=(
        (2, 1000, 1544, 8, 2, 128),
        (3, 333, 777, 6, 3, 96),
        (4, 520, 264, 5, 1, 64),
        (1, 129, 2049, 4, 4, 96),
        (5, 1, 72, 6, 2, 128),
    ),
    emulated=(
        ((2, 216, 328, 4, 2, 128), FIRST_AND_LAST),
        ((3, 150, 88, 4, 2, 64), None),
        ((2, 77, 203, 6, 3, 96), None),
    ),
    problem="scores of heads",
)


# Attention: batch, sequence_q, sequence_k, heads, kv_heads, D. No length is of whole tiles. K and V go round
# a ring of two stages three times; causal queries see no key of some tiles, and all of others
_PLAIN = (
    *("wgmma", "own barriers and fences", "aligned tiles", "tensor loads", "tensor stores", "expect-tx"),
    *("proxy fence", "store wait", "operands by TMA", "D once", "rank-4 maps"),
)
_FED = (*_PLAIN, "two full barriers", "stage barriers", "empty barriers", "setmaxnreg", "three warpgroups")
_ATTENTION_SIZES = (
    *((2, 1000, 1544, 8, 2, 128), (3, 333, 777, 6, 3, 96), (4, 520, 264, 5, 1, 64), (1, 129, 2049, 4, 4, 96)),
    *((5, 1, 72, 6, 2, 128), (1, 2048, 2048, 4, 1, 128)),
)
_ATTENDED = ((1, 150, 813, 2, 1, 128), None), ((2, 70, 200, 2, 2, 96), None), ((1, 300, 130, 4, 2, 64), None)
ATTENTION = {
    case.id: case
    for case in (
        Step("a1", "attention", 10, _PLAIN, problem="attention"),
        Step("a1b", "attention with a producer", 10, _FED, problem="attention"),
        Step("a2", "attention in ping-pong", 10, _FED, problem="causal attention"),
        Step("a2b", "softmax under products", 10, (*_FED, "wgmma in flight"), problem="causal attention"),
        Step(
            "a2c",
            "attention on a persistent grid",
            10,
            (*_FED, "wgmma in flight", "fixed grid", "loads in the epilogue"),
            problem="causal attention",
        ),
    )
}
ATTENTION = {
    name: replace(case, check_sizes=_ATTENTION_SIZES, emulated=_ATTENDED) for name, case in ATTENTION.items()
}


# Tasks that no text has solved, after the notebooks of the ladder: their points are their own.
# fmt: off
_RAGGED = ((4805, 2304, 192), FIRST_AND_LAST), ((459, 512, 1152), None), ((1490, 1792, 64), None)
TASKS: dict[str, Step] = {task.id: task for task in (
    Step("task05a", "bias and ReLU in the epilogue", 10, (*_RING, "grid grows"), problem="bias and relu"),
    Step("task05b", "D in fp32 and in bf16", 10, (*_RING, "grid grows"), problem="D in two types"),
    Step("task05c", "B stored K x N", 10, (*_RING, "grid grows"), problem="B K x N"),
    Step("task08a", "a ragged M", 10, (*_DEEP, "cut by TMA"), emulated=_RAGGED,
         fewer_sms=((490, 768, 64), 10),
         check_sizes=((9601, 7680, 320), (717, 1280, 576), (1790, 768, 384), (1291, 2304, 1088),
                      (4805, 3840, 64))),
    Step("task08b", "a row softmax over a TMA ring", 10,
         ("own barriers and fences", "aligned tiles", "tensor loads", "tensor stores", "expect-tx",
          "proxy fence", "store wait", "D once", "fixed grid", "empty barriers", "four stages",
          "stage barriers", "rows ahead"),
         check_sizes=((9728, 512), (4864, 1024), (1280, 768), (528, 256)),
         # the first CTA's share comes round the ring three times; the last one's is seen at the last size
         emulated=(((23360, 256), (0,)), ((48, 768), None), ((2240, 256), FIRST_AND_LAST)),
         problem="softmax of rows"),
    Step("task10a", "a 256 x 128 tile", 10,
         (*_CLUSTER, "three warpgroups", "two consumers", "stores in flight", "256 x 128"),
         emulated=MULTI_CONSUMER, fewer_sms=TEN_SMS, speed_floor=0.88),
    Step("task10b", "split-K with a reduction", 10,
         (*_FIRST, "tensor loads", "expect-tx", "proxy fence", "operands by TMA", "two full barriers",
          "stage barriers", "two stages used", "loads ahead", "products once", "tensor adds",
          "K shared"),
         check_sizes=((256, 1280, 4160), (128, 384, 8192), (1280, 256, 1088), (384, 768, 576)),
         emulated=(((256, 384, 1152), None), ((128, 256, 2112), None), ((384, 256, 576), None)),
         problem="sums added up"),
    Step("task10c", "fp8 with two accumulators", 10,
         (*_ROLES, "four stages", "four stages used", "three warpgroups", "two consumers", "wgmma of fp8",
          "sums of one K block"),
         check_sizes=((9728, 7680, 384), (768, 1280, 640), (1792, 768, 256), (1280, 2304, 1152),
                      (4864, 3840, 128)),
         emulated=(((4864, 2304, 384), FIRST_AND_LAST), ((256, 512, 1152), None), ((1536, 1792, 128), None)),
         fewer_sms=((512, 768, 128), 10),
         timed_sizes=((4096, 4096, 4096), (8192, 8192, 8192)), speed_floor=0.55, problem="fp8 with scales"),
    Step("task10d", "a grouped GEMM", 10, _DEEP, emulated=PERSISTENT, fewer_sms=TEN_SMS,
         timed_sizes=((4096, 4096, 4096),), speed_floor=0.72, problem="groups"),
    Step("task10e", "a batched GEMM", 10, (*_DEEP, "rank-3 maps"), problem="batch",
         check_sizes=((5, 1900, 3840, 320), (3, 300, 1280, 576), (4, 459, 768, 384), (2, 129, 2304, 1088),
                      (7, 640, 1536, 64)),
         emulated=(((4, 1220, 2304, 192), FIRST_AND_LAST), ((3, 200, 256, 1152), None),
                   ((5, 290, 768, 64), None)),
         fewer_sms=((4, 140, 384, 64), 10), timed_sizes=((8, 2048, 2048, 2048),), speed_floor=0.72),
)}
# fmt: on


# The same ladder on Blackwell, of solutions/blackwell. Nothing of it has run on one by us: it is compiled and
# emulated, and no speed is asked for.
_MMA = ("tcgen05.mma", "tensor memory", "own barriers and fences", "aligned tiles")
_MMA_TMA = (
    *(*_MMA, "tensor loads", "tensor stores", "expect-tx", "proxy fence", "store wait"),
    *("operands of tcgen05 by TMA", "D once"),
)
_MMA_RING = (
    *(*_MMA_TMA, "two full barriers", "stage barriers", "two stages used", "loads ahead of MMAs"),
    "MMA products once",
)
_MMA_PERSISTENT = (*_MMA_RING, "fixed grid", "a share for each CTA")
_MMA_ROLES = (
    *(*_MMA_PERSISTENT, "empty barriers", "three roles", "loads in the epilogue", "accumulator ring"),
    "MMAs queued",
)
_MMA_DEEP = (*_MMA_ROLES, "four stages of MMAs", "four stages used")
_PAIR = (
    *(*_MMA_DEEP, "MMA of a pair", "multicast commit", "cluster barrier", "cluster of two"),
    *("products of pairs", "stores in flight"),
)
_TWO_MMAS = tuple(name for name in _PAIR if name not in ("accumulator ring", "stores in flight"))
# fmt: off
_PAIRS = (*RING[:2], ((2560, 2048, 64), None))
_ROWS_OF_512 = (((10240, 2304, 192), FIRST_AND_LAST), ((512, 768, 1152), None), ((4096, 2560, 64), None))
BLACKWELL_STEPS = {step.id: replace(step, chip=BLACKWELL, timed_sizes=()) for step in (
    Step("b01", "Blackwell: single tile", 5, (*_MMA, "one CTA"), ("tensor loads",), "single tile",
         check_sizes=((128, 128, 64),), emulated=(((128, 128, 64), None),)),
    Step("b02", "Blackwell: K loop", 5, (*_MMA, "one CTA"), ("tensor loads",), "K loop",
         check_sizes=STEPS["step02"].check_sizes, emulated=STEPS["step02"].emulated),
    Step("b03", "Blackwell: spatial tiling", 10, (*_MMA, "grid grows"), ("tensor loads",), "tiling"),
    Step("b04", "Blackwell: TMA load and TMA store", 10, (*_MMA_TMA, "grid grows"), (), "TMA"),
    Step("b05", "Blackwell: software pipeline", 10, (*_MMA_RING, "grid grows"), (), "pipeline",
         emulated=RING),
    Step("b06", "Blackwell: persistent kernel", 10,
         (*_MMA_PERSISTENT, "tile order", "tile order in each round", "store under loads"), (),
         "persistent", emulated=NEIGHBOURS),
    Step("b07", "Blackwell: warp specialization", 15, _MMA_ROLES, (), "warp spec.", emulated=PERSISTENT,
         fewer_sms=TEN_SMS),
    Step("b08", "Blackwell: deeper pipeline", 5, _MMA_DEEP, (), "deeper", emulated=PERSISTENT,
         fewer_sms=TEN_SMS),
    Step("b09", "Blackwell: a pair of CTAs", 15, _PAIR, (), "pair", emulated=_PAIRS,
         fewer_sms=((1024, 1280, 64), 10)),
    Step("b10", "Blackwell: two MMA warps", 15, (*_TWO_MMAS, "two MMA warps", "512 columns"), (), "two MMAs",
         check_sizes=((10240, 2304, 320), (1024, 1280, 576), (2048, 768, 384)),
         emulated=_ROWS_OF_512, fewer_sms=((2048, 1280, 64), 10)),
)}
# fmt: on


@dataclass(frozen=True)
class CopyCase:
    """A kernel that copies X to Y through shared memory.

    ``shapes`` are tried; ``load`` and ``store`` are paths of ``copies``. ``one_load``: a tile of X comes
    by one load.
    """

    id: str
    title: str
    points: int
    shapes: tuple[tuple[int, ...], ...]
    load: str = "tensor TMA"
    store: str = "tensor TMA"
    one_load: bool = False
    problem: str = "copy"


COPY_CASES = {
    case.id: case
    for case in (
        CopyCase("t2", "a 3-D tile by TMA", 10, ((8, 32, 64), (4, 48, 96)), one_load=True),
        CopyCase("t4", "modes grouped into a tile", 10, ((128, 64), (256, 128))),
    )
}


@dataclass(frozen=True)
class PairCase:
    """A pair of programs for a bug report: ``control(rows, columns)``, a copy that is right, and ``broken``,
    the same but for one edit, which shows the fault that a larger kernel has.

    By DSL: ``faults`` names that kernel, of solutions/wrong; ``shows`` is the kind of the emulator's finding,
    and a case that is among its causes; ``lines`` are the lines of statements that a program may have.
    ``shape`` is X's, for one CTA.
    """

    id: str
    title: str
    points: int
    faults: dict[str, str] = field(hash=False)
    shows: dict[str, tuple[str, str]] = field(hash=False)
    lines: dict[str, int] = field(hash=False)
    shape: tuple[int, ...] = (64, 64)
    problem: str = "copy"


PAIR_CASES = {
    case.id: case
    for case in (
        PairCase(
            "t4b",
            "a pair for a bug report",
            10,
            {"tilelang": "expect_bytes_too_many", "cute": "nested_elect"},
            {"tilelang": ("deadlock", "bytes missing"), "cute": ("absent-lanes", "absent lanes")},
            {"tilelang": 25, "cute": 55},
        ),
    )
}


@dataclass(frozen=True)
class MapCase:
    """Illegal tensor maps, each to be made legal by changing one field.

    ``given`` has the tile that a kernel asks for in place of its box. ``boxes`` are those worth having, for
    each: the tile where another field is at fault, else the largest legal boxes that divide it, and where
    none does the smallest that holds it.
    """

    id: str
    title: str
    points: int
    given: tuple[TensorMap, ...]
    boxes: tuple[tuple[tuple[int, ...], ...], ...]


MAP_CASES = {
    case.id: case
    for case in (
        MapCase(
            "t1",
            "maps that the driver refuses",
            10,
            (
                TensorMap(6, (4096, 4096), (8192,), (64, 512), (1, 1), swizzle=3),
                TensorMap(6, (1028, 512), (2056,), (64, 128), (1, 1), swizzle=3),
                TensorMap(6, (4096, 4096), (8192,), (60, 128), (1, 1)),
                TensorMap(6, (4096, 4096), (8192,), (64, 128), (1, 1), swizzle=2),
                TensorMap(3, (1024, 1024), (4096,), (32, 64), (1, 1), swizzle=3, oob_fill=1),
                TensorMap(6, (4096, 4096), (8192,), (64, 128), (1, 16), swizzle=3),
                TensorMap(6, (64, 4096, 64), (128, 524288), (64, 256, 8), (1, 1, 1), swizzle=3),
                TensorMap(6, (4096, 4096), (8192,), (64, 128), (1, 1), swizzle=4),
            ),
            (
                ((64, 256),),
                ((64, 128),),
                ((64, 128),),
                ((64, 128),),
                ((32, 64),),
                ((64, 128),),
                ((64, 256, 4), (64, 128, 8)),
                ((64, 128),),
            ),
        ),
    )
}


@dataclass(frozen=True)
class PlanCase:
    """A model of what a launch takes, held against recorded times."""

    id: str
    title: str
    points: int


PLAN_CASES = {case.id: case for case in (PlanCase("plan11", "a model that chooses the plan", 10),)}


@dataclass(frozen=True)
class PathCase:
    """A prediction of the path that a tile takes, held against what the compilers made of it."""

    id: str
    title: str
    points: int


PATH_CASES = {case.id: case for case in (PathCase("t2b", "the path of a tile, predicted", 10),)}

# what cases were called while the notebooks on TMA were 11 to 15 and that of step 11 was 16
FORMERLY = {
    **{"case11": "t1", "case12": "t2", "case14": "t4", "case15": "t5", "case16": "plan11"},
    **{f"case13{letter}": f"t3{letter}" for letter in "abcdef"},
}

# what has points of its own, beside the 100 for each DSL of the steps before
PAST = ("step11", *PLAN_CASES)

# what has levels: each ladder, its steps in order
LADDERS: tuple[dict[str, Step], ...] = (STEPS, BLACKWELL_STEPS, ATTENTION)
LEVELLED = {name: step for ladder in LADDERS for name, step in ladder.items()}

# by the ids of their cells
EXERCISES = (
    *(f"{name}-{dsl}" for name in STEPS for dsl in DSL_NAMES),
    *(f"{name}-maps" for name in MAP_CASES),
    *("t2-tilelang", "t2-cute"),
    *(f"{name}-paths" for name in PATH_CASES),
    *(f"{name}-{dsl}" for name, (_, dsl) in REPAIRS.items()),
    "t4-cute",
    *(f"{name}-{dsl}" for name in PAIR_CASES for dsl in DSL_NAMES),
    *("t5-tilelang", "t5-cute", "t6-tilelang", "t6-cute"),
    *(f"{name}-plan" for name in PLAN_CASES),
    *(f"{name}-{dsl}" for name in ATTENTION for dsl in DSL_NAMES),
    *(f"{name}-{dsl}" for name in TASKS for dsl in DSL_NAMES),
    *(f"{name}-{dsl}" for name in BLACKWELL_STEPS for dsl in DSL_NAMES),
)


def notebook_of(name: str) -> str:
    """The number of the notebook that a step, a case or a task stands in: "05" of step05, "05b" of
    task05a, "t3" of t3a, "11b" of plan11.
    """
    number = re.sub(r"^(step|task|plan)|(?<=\d)[a-f]$", "", name)
    return f"{number}b" if name in TASKS or name in PLAN_CASES else number


Row: TypeAlias = Step | CopyCase | PairCase | MapCase | PlanCase | PathCase


def groups() -> dict[str, dict[str, Row]]:
    """All rows there are, by what they are called together, then by id."""
    return {
        "steps": {**STEPS},
        "tasks": {**TASKS},
        "Blackwell steps": {**BLACKWELL_STEPS},
        "TMA cases": dict(sorted((MAP_CASES | COPY_CASES | PAIR_CASES | GEMM_CASES | PATH_CASES).items())),
        "attention cases": {**ATTENTION},
        "model": {**PLAN_CASES},
    }


def row(name: str) -> Row:
    """The row of a step, a case or a task. Raises ValueError, naming all that there are."""
    there = {one: found for group in groups().values() for one, found in group.items()}
    if name not in there:
        raise ValueError(f"there is no step {name!r}; {meant(name) or listed()}")
    return there[name]


def find(step_id: str) -> Step:
    """The step of this id, the case with a GEMM kernel, or the task. Raises ValueError, also for a case of
    copies, maps or plans.
    """
    found = row(step_id)
    if not isinstance(found, Step):
        raise ValueError(
            f"{step_id} is no GEMM: the cell below it in notebook {notebook_of(step_id)} checks it"
        )
    return found


def kernel_row(name: str) -> Step | CopyCase:
    """The row of an id whose exercise is a kernel. Raises ValueError for any other."""
    found = program_row(name)
    if isinstance(found, PairCase):
        raise ValueError(f"{name} is a pair of kernels, with a function broken: course check {name}")
    return found


def program_row(name: str) -> Step | CopyCase | PairCase:
    """The row of an id with a kernel; of a pair, the broken one is meant. Raises ValueError for any other."""
    found = row(name)
    if not isinstance(found, Step | CopyCase | PairCase):
        raise ValueError(f"{name} has no kernel, only a function {function_of(name)}: course check {name}")
    return found


def listed() -> str:
    """All ids in a sentence, by group."""
    return "; ".join(f"the {name} {_are(ids)} {', '.join(ids)}" for name, ids in groups().items())


def _are(ids: dict[str, Row]) -> str:
    return "are" if len(ids) > 1 else "is"


def named(text: str) -> str:
    """The id that a person means by "5", "05", "step5", "Step05", "10b" or "T4"; ``text`` itself if none."""
    there = {one for group in groups().values() for one in group}
    word = str(text).strip().lower()
    number = re.fullmatch(r"(?:step|task|plan)?[ _-]?0*(\d{1,2})([a-z]?)", word)
    kinds = [f"{kind}{int(number[1]):02d}{number[2]}" for kind in ("step", "task")] if number else []
    return next((one for one in (word, *kinds) if one in there), text)


def meant(name: str) -> str:
    """ "did you mean step05?" of "stpe05", "case15 is now t5" of a former name; "" if nothing is close."""
    if name in FORMERLY:
        return f"{name} is now {FORMERLY[name]}"
    if re.fullmatch(r"(step|task|plan|t)\d+[a-z]?", str(name)):
        return ""  # well spelled, and there is no such number
    there = [one for group in groups().values() for one in group]
    close = get_close_matches(str(name).lower(), there, 1, 0.8)
    return f"did you mean {close[0]}?" if close else ""


def languages(name: str) -> tuple[str, ...]:
    """The languages in which an id is an exercise; "maps", "paths" or "plan" of one that has no kernel."""
    return tuple(one.partition("-")[2] for one in EXERCISES if one.partition("-")[0] == name)


def solved_by(name: str) -> str:
    """The id in whose name a solution is kept: the step of a kernel to repair, else the id itself."""
    return _REPAIRED[name][2] if name in _REPAIRED else name


def points_of(name: str) -> int:
    """What a step, a case or a task is worth. Raises ValueError."""
    return row(name).points


def parts_of(step: Step | CopyCase | PairCase) -> dict[str, float]:
    """The parts of a verdict on this step, copy or pair, and what each is worth."""
    parts = {CopyCase: COPY_PARTS, PairCase: PAIR_PARTS}.get(type(step), PARTS)
    return {name: step.points * tenths / 10 for name, tenths in parts.items()}


def part_points(step: Step, part: str) -> float:
    """Points of one part of a step."""
    return parts_of(step)[part]


def function_of(name: str) -> str:
    """The name of the function that an exercise on this step, case or task defines. Raises ValueError."""
    found = row(name)
    if isinstance(found, Step | CopyCase):
        return PROBLEMS[found.problem].function
    return {MapCase: "mend", PathCase: "predict", PlanCase: "seconds", PairCase: "broken"}[type(found)]


def trace_size(name: str) -> tuple[int, ...]:
    """The size at which one launch is traced: a copy's first shape, a pair's, a one-tile step's own, that of
    a task on rows, ``TRACE_SIZE`` for any other step or file.
    """
    if name in PAIR_CASES:
        return PAIR_CASES[name].shape
    if name in COPY_CASES:
        return COPY_CASES[name].shapes[0]
    if name in TASKS and len(TASKS[name].check_sizes[-1]) != len(TRACE_SIZE):
        return TASKS[name].check_sizes[-1]
    case = (GEMM_CASES | ATTENTION).get(name)
    if case and len(case.emulated[0][0]) != len(TRACE_SIZE):
        return min((size for size, _ in case.emulated), key=math.prod)
    step = (STEPS | BLACKWELL_STEPS).get(name)
    if step is not None and "512 columns" in step.requires:
        return 512, 512, 320
    if step is None or "one CTA" not in step.requires:
        return TRACE_SIZE
    M, N, K = step.emulated[0][0]
    return M, N, K


def chip_of(name: str) -> Chip:
    """The chip that the kernels of an id are compiled for. Raises ValueError."""
    found = row(name)
    return found.chip if isinstance(found, Step) else HOME


def sizes_of(row: Step | CopyCase | PairCase) -> tuple[tuple[int, ...], ...]:
    """The sizes, or shapes, at which a kernel is checked."""
    if isinstance(row, PairCase):
        return (row.shape,)
    return row.shapes if isinstance(row, CopyCase) else row.check_sizes
