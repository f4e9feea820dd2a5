"""What learners get wrong in steps 1 to 5, and what the check says of it.

A name in brackets is the text that promises it: "01" to "05" the table *What can go wrong* of that notebook,
"Predict" a question's answer there, "map" a row of the symptom map.
"""

import json
from pathlib import Path

import pytest

from course_utils.compile.factory import NotYet
from course_utils.compile.load import edited, load_factory_source, plant
from course_utils.grading.gemm import check_gemm
from tests.grading.mistakes import Mistake, planted, require_said

ONE, FIVE = (128, 128, 64), (128, 128, 320)  # of the steps that compute one tile
ROLES = ("producer", "consumer", "empty")  # words of step 7


def tilelang(step, part, *edits, never=ROLES, **said):
    return Mistake(step, "tilelang", edits, part, never=never, **said)


def cute(step, part, *edits, never=ROLES, **said):
    return Mistake(step, "cute", edits, part, never=never, **said)


# -- step 1

T_GEMM = "T.wgmma_gemm(A_shared, B_shared, acc, transpose_B=True, clear_accum=True)"
C_GEMM = "            cute.gemm(mma, acc, A_frag[at], B_frag[at], acc)\n"
C_SET = "            mma.set(warpgroup.Field.ACCUMULATE, True)\n"
C_FENCE = "        cute.arch.fence_view_async_shared()  # wgmma reads shared memory through the async proxy\n"
STEP_1 = {
    "operands swapped": tilelang(
        "step01",
        "results",
        ("(A_shared, B_shared, acc", "(B_shared, A_shared, acc"),
        size=ONE,
        says=("its own product, transposed", "operands", "swapped"),
    ),
    "transpose_B is missing [01]": tilelang(
        "step01",
        "compiles",
        (T_GEMM, "T.wgmma_gemm(A_shared, B_shared, acc, clear_accum=True)"),
        size=ONE,
        says=("K shape check failed", "transpose_B"),
        line="T.wgmma_gemm(",
    ),
    "clear_accum is missing [01, map: accumulator-uninitialised]": tilelang(
        "step01",
        "results",
        (", clear_accum=True", ""),
        size=ONE,
        says=("adds to registers that nothing has written",),
        line="T.wgmma_gemm(",
    ),
    "no wait [01, Predict, map: accumulator-before-wait]": tilelang(
        "step01",
        "results",
        ("            T.wait_wgmma(0)\n", ""),
        size=ONE,
        says=("which a wgmma may still write",),
        line="T.copy(acc, D)",
    ),
    "no fence [01 Predict: the compiler puts it back]": tilelang(
        "step01",
        "instructions",
        ("            T.fence_proxy_async()  # wgmma reads shared memory through the async proxy\n", ""),
        size=ONE,
        says=("fence that your code lacks here", "TileLang put back", "operand A", "ordinary stores"),
        line="T.wgmma_gemm(",
    ),
    "no multiplication at all": tilelang(
        "step01",
        "instructions",
        (f"            {T_GEMM}\n            T.wait_wgmma(0)\n", ""),
        size=ONE,
        says=("wgmma", "found no wgmma"),
    ),
    "a call that TileLang has not": tilelang(
        "step01",
        "compiles",
        ("T.fence_proxy_async()", "T.fence_proxy()"),
        size=ONE,
        says=("has no attribute 'fence_proxy'",),
        line="T.fence_proxy()",
    ),
    "a name that nobody defined": tilelang(
        "step01",
        "compiles",
        ("(A_shared, B_shared, acc, t", "(As, B_shared, acc, t"),
        size=ONE,
        says=("name 'As' is not defined",),
        line="T.wgmma_gemm(As",
    ),
    "no return [map: returned NoneType]": tilelang(
        "step01",
        "compiles",
        ("\n    return main\n", "\n"),
        size=ONE,
        says=("returned NoneType", "return main"),
    ),
    "A copied twice": tilelang(
        "step01",
        "results",
        ("T.copy(B, B_shared)", "T.copy(A, B_shared)"),
        size=ONE,
        says=("A[0:64] @ A[0:64]^T", "A's tile lies where B's belongs"),
    ),
    "C: no fence [01, Predict, map: proxy-fence]": cute(
        "step01",
        "results",
        (C_FENCE, ""),
        size=ONE,
        says=("operand A", "ordinary stores", "no fence.proxy.async", "fence_view_async_shared()"),
        line="cute.gemm(",
    ),
    "C: no barrier [01, Predict, map: read-before-write]": cute(
        "step01",
        "results",
        ("        cute.arch.sync_threads()\n", ""),
        size=ONE,
        says=("operand A", "no barrier orders"),
        line="cute.gemm(",
    ),
    "C: ACCUMULATE is never set [01 Predict]": cute(
        "step01",
        "results",
        (C_SET, ""),
        size=ONE,
        says=("last 16 columns of K alone", "accumulate flag was never set"),
    ),
    "C: ACCUMULATE from the start [01]": cute(
        "step01",
        "results",
        ("ACCUMULATE, False", "ACCUMULATE, True"),
        size=ONE,
        says=("adds to registers that nothing has written",),
        line="cute.gemm(",
    ),
    "C: one slice used four times [01]": cute(
        "step01",
        "results",
        ("at = (None, None, k_block)", "at = (None, None, 0)"),
        size=ONE,
        says=("the same 16 columns of K, 0:16, 4 times", "index"),
    ),
    "C: B's slice does not follow the loop": cute(
        "step01",
        "results",
        ("B_frag[at], acc)", "B_frag[None, None, 0], acc)"),
        size=ONE,
        says=("columns 16:32 of A", "columns 0:16 of B"),
    ),
    "C: an index too few [map: weakly congruent]": cute(
        "step01",
        "compiles",
        ("at = (None, None, k_block)", "at = (None, k_block)"),
        size=ONE,
        says=("weakly congruent", "one for each mode"),
        line="cute.gemm(",
    ),
    "C: no wait [01, Predict]": cute(
        "step01",
        "results",
        ("        warpgroup.wait_group(0)\n", ""),
        size=ONE,
        says=("which a wgmma may still write",),
        line="acc.load()",
    ),
    "C: operands swapped": cute(
        "step01",
        "compiles",
        ("A_frag[at], B_frag[at], acc)", "B_frag[at], A_frag[at], acc)"),
        size=ONE,
        says=("A's fragment before B's",),
        line="cute.gemm(",
    ),
    "C: an argument is missing": cute(
        "step01",
        "compiles",
        ("B_frag[at], acc)", "B_frag[at])"),
        size=ONE,
        says=("missing 1 required positional argument",),
        line="cute.gemm(",
    ),
    "C: TileLang's name for the fence": cute(
        "step01",
        "compiles",
        ("fence_view_async_shared", "fence_proxy_async"),
        size=ONE,
        says=("has no attribute 'fence_proxy_async'",),
        line="fence_proxy_async",
    ),
    "C: no return [map: returned NoneType]": cute(
        "step01",
        "compiles",
        ("\n    return main\n", "\n"),
        size=ONE,
        says=("returned NoneType", "return main"),
    ),
}

# -- step 2

T_A2 = "T.copy(A[:, k * block_K : (k + 1) * block_K], A_shared)"
T_B2 = "T.copy(B[:, k * block_K : (k + 1) * block_K], B_shared)"
C_A2 = "            cute.copy(copy, A_src[None, None, None, k], A_regs)\n"
STEP_2 = {
    "every round overwrites [02, Predict, map]": tilelang(
        "step02",
        "results",
        ("clear_accum=(k == 0)", "clear_accum=True"),
        size=FIVE,
        says=("the exact sum of its 5 K tiles of 64, without K tiles 0 to 3", "overwrote"),
        never=(*ROLES, "stage"),
    ),
    "right at K = 64 all the same [02, Predict]": tilelang(
        "step02", "", ("clear_accum=(k == 0)", "clear_accum=True"), size=ONE
    ),
    "the first round adds [02, map]": tilelang(
        "step02",
        "results",
        ("clear_accum=(k == 0)", "clear_accum=False"),
        size=FIVE,
        says=("adds to registers that nothing has written",),
        line="T.wgmma_gemm(",
    ),
    "the same columns in every round [02]": tilelang(
        "step02",
        "results",
        (T_A2, "T.copy(A[:, 0:block_K], A_shared)"),
        (T_B2, "T.copy(B[:, 0:block_K], B_shared)"),
        size=FIVE,
        says=("K tile 0 (5 times)", "the same columns of K"),
        never=(*ROLES, "stage"),
    ),
    "only B's columns stand still [02]": tilelang(
        "step02",
        "results",
        (T_B2, "T.copy(B[:, 0:block_K], B_shared)"),
        size=FIVE,
        says=("columns 64:128 of A", "columns 0:64 of B"),
    ),
    "A is a round ahead of B [02]": tilelang(
        "step02",
        "results",
        (T_A2, "T.copy(A[:, (k + 1) * block_K : (k + 2) * block_K], A_shared)"),
        size=FIVE,
        says=("columns 64:128 of A", "columns 0:64 of B"),
    ),
    "slices begin at k, not at k tiles [02]": tilelang(
        "step02",
        "results",
        (T_A2, "T.copy(A[:, k : k + block_K], A_shared)"),
        (T_B2, "T.copy(B[:, k : k + block_K], B_shared)"),
        size=FIVE,
        says=("columns 68:320 of K are left out", "comes 5 times", "slice of K scaled"),
    ),
    "no slice": tilelang(
        "step02",
        "compiles",
        (T_A2, "T.copy(A, A_shared)"),
        size=FIVE,
        says=("two sides of this copy", "(128, 320)", "(128, 64)"),
        line="T.copy(A, A_shared)",
    ),
    "rows cut instead of columns": tilelang(
        "step02",
        "compiles",
        (T_A2, "T.copy(A[k * block_K : (k + 1) * block_K, :], A_shared)"),
        size=FIVE,
        says=("two sides of this copy", "A's is 64 x 320, A_shared's 128 x 64"),
        line="T.copy(A[k",
    ),
    "the loop ends one round early [02, map]": tilelang(
        "step02",
        "results",
        ("T.serial(K // block_K)", "T.serial(K // block_K - 1)"),
        size=FIVE,
        says=("is the exact sum of its 5 K tiles of 64, without K tile 4", "loop ends too early"),
    ),
    "no wait for the multiplication [02]": tilelang(
        "step02",
        "results",
        ("                T.wait_wgmma(0)\n", ""),
        size=FIVE,
        says=("overwrites shared memory that wgmma", "may still read"),
        line="T.copy(A[",
    ),
    "no second barrier [02 Predict: the compiler puts it back]": tilelang(
        "step02",
        "",
        ("                T.sync_threads()  # all warps together; the wait alone frees the tile\n", ""),
        size=FIVE,
    ),
    "an fp16 accumulator [02, map]": tilelang(
        "step02",
        "instructions",
        ("(block_M, block_N), T.float32)", "(block_M, block_N), T.float16)"),
        size=FIVE,
        says=("fp32 accumulator", "f16.f16.f16"),
    ),
    "C: the flag is set to False in the loop [02, Predict]": cute(
        "step02",
        "results",
        (C_A2, "            mma.set(warpgroup.Field.ACCUMULATE, False)\n" + C_A2),
        size=FIVE,
        says=("without K tiles 0 to 3", "overwrote"),
    ),
    "C: no barrier before wgmma [02]": cute(
        "step02",
        "results",
        ("async_shared()\n            cute.arch.sync_threads()\n", "async_shared()\n"),
        size=FIVE,
        says=("operand A", "no barrier orders"),
        line="cute.gemm(",
    ),
    "C: no barrier before the refill [02 Predict: one warp's wait is enough]": cute(
        "step02",
        "",
        ("            cute.arch.sync_threads()  # all warps together; the wait alone frees the tile\n", ""),
        size=FIVE,
    ),
    "C: no fence [02]": cute(
        "step02",
        "results",
        ("            cute.arch.fence_view_async_shared()\n", ""),
        size=FIVE,
        says=("operand A", "no fence.proxy.async", "fence_view_async_shared()"),
        line="cute.gemm(",
    ),
    "C: B's tile does not follow k [02]": cute(
        "step02",
        "results",
        ("B_src[None, None, None, k]", "B_src[None, None, None, 0]"),
        size=FIVE,
        says=("columns 64:128 of A", "columns 0:64 of B"),
    ),
    "C: tile k + 1": cute(
        "step02",
        "results",
        ("A_src[None, None, None, k]", "A_src[None, None, None, k + 1]"),
        ("B_src[None, None, None, k]", "B_src[None, None, None, k + 1]"),
        size=FIVE,
        says=("row 128", "which has the shape 128 x 320"),
        line="cute.copy(copy, A_src[",
    ),
    "C: A's registers to B's tile": cute(
        "step02",
        "results",
        ("cute.copy(copy, B_regs, B_dst)", "cute.copy(copy, A_regs, B_dst)"),
        size=FIVE,
        says=("A[0:64] @ A[0:64]^T", "B's was never copied"),
    ),
    "C: B's registers never reach shared memory": cute(
        "step02",
        "results",
        ("            cute.copy(copy, B_regs, B_dst)\n", ""),
        size=FIVE,
        says=("operand B", "nothing has written"),
        line="cute.gemm(",
    ),
    "C: an index too few": cute(
        "step02",
        "compiles",
        ("A_src[None, None, None, k]", "A_src[None, None, k]"),
        size=FIVE,
        says=("weakly congruent", "one for each mode"),
        line="A_src[None, None, k]",
    ),
}

# -- step 3

T_A3 = "A[m : m + block_M, k * block_K : (k + 1) * block_K]"
T_B3 = "B[n : n + block_N, k * block_K : (k + 1) * block_K]"
T_D3 = "D[m : m + block_M, n : n + block_N]"
T_MN = "m, n = by * block_M, bx * block_N"
C_MN = "n, m, _ = cute.arch.block_idx()"
C_D3 = "(block_M, block_N), (m, n)))"
ONE_TILE = ("leaves to the next", "former tile", "stage", *ROLES)  # a CTA has one tile
STEP_3 = {
    "B cut by m [03: the diagonal is right]": tilelang(
        "step03",
        "results",
        (T_B3, T_B3.replace("n :", "m :").replace("n +", "m +")),
        says=("D[0:64, 128:192] holds A[0:64] @ B[0:64]^T", "rows of B belong to another tile"),
        never=ONE_TILE,
    ),
    "A cut by n [03]": tilelang(
        "step03",
        "results",
        (T_A3, T_A3.replace("m :", "n :").replace("m +", "n +")),
        says=("D[0:64, 128:192] holds A[128:192] @ B[128:192]^T", "rows of A belong"),
        never=ONE_TILE,
    ),
    "x and y mixed up [03, Predict, map: never written]": tilelang(
        "step03",
        "results",
        (T_MN, "m, n = bx * block_M, by * block_N"),
        says=("D[0:256, 0:256] alone, of 256 x 512", "x and y"),
        never=ONE_TILE,
    ),
    "x and y mixed up, and a square D [03, Predict]": tilelang(
        "step03", "", (T_MN, "m, n = bx * block_M, by * block_N"), size=(256, 256, 64)
    ),
    "m and n count tiles [03 Hint 1]": tilelang(
        "step03",
        "results",
        (T_MN, "m, n = by, bx"),
        says=("alone, of 256 x 512", "slices count elements"),
        never=ONE_TILE,
    ),
    "every CTA writes to one place [03]": tilelang(
        "step03",
        "results",
        (T_D3, "D[0:block_M, 0:block_N]"),
        says=("D[0:128, 0:128] alone, of 256 x 512", "its own place"),
        never=ONE_TILE,
    ),
    "D's rows and columns swapped": tilelang(
        "step03",
        "results",
        (T_D3, "D[n : n + block_N, m : m + block_M]"),
        says=("D[0:64, 128:192] holds A[128:192] @ B[0:64]^T", "mirror place"),
        never=ONE_TILE,
    ),
    "acc to all of D": tilelang(
        "step03",
        "compiles",
        (f"T.copy(acc, {T_D3})", "T.copy(acc, D)"),
        says=("two sides of this copy", "(128, 128)", "(256, 512)"),
        line="T.copy(acc, D)",
    ),
    "A into slot 1": tilelang(
        "step03",
        "results",
        ("(k + 1) * block_K], A_shared[0, :, :])", "(k + 1) * block_K], A_shared[1, :, :])"),
        says=("operand A", "nothing has written"),
        line="T.wgmma_gemm(",
    ),
    "no slot": tilelang(
        "step03",
        "compiles",
        ("(k + 1) * block_K], A_shared[0, :, :])", "(k + 1) * block_K], A_shared)"),
        says=("two sides of this copy", "A's is 128 x 64, A_shared's 4 x 128 x 64"),
        line="T.copy(A[m",
    ),
    "a slot of its own for each of A's tiles": tilelang(
        "step03",
        "results",
        ("(k + 1) * block_K], A_shared[0, :, :])", "(k + 1) * block_K], A_shared[k % ring, :, :])"),
        says=("columns 0:64 of A", "columns 64:128 of B"),
        never=ROLES,
    ),
    "the columns of B's tile by m [03: A and B disagree]": tilelang(
        "step03",
        "results",
        (T_B3, "B[n : n + block_N, m : m + block_K]"),
        says=("columns 64:128 of A", "columns 0:64 of B"),
    ),
    "one CTA for all of D [03, map: a grid that covers D]": tilelang(
        "step03",
        "instructions",
        ("T.Kernel(N // block_N, M // block_M, threads", "T.Kernel(1, 1, threads"),
        says=("a grid that covers D", "1 x 1 x 1"),
    ),
    "C: x and y mixed up [03, Predict, map: out-of-bounds]": cute(
        "step03",
        "results",
        (C_MN, "m, n, _ = cute.arch.block_idx()"),
        says=("element 84,480 of A (row", "which has the shape 256 x 320"),
        line="cute.copy(copy, A_src[",
    ),
    "C: B cut by m [03]": cute(
        "step03",
        "results",
        ("(block_N, block_K), (n, None))", "(block_N, block_K), (m, None))"),
        says=("D[0:64, 128:192] holds A[0:64] @ B[0:64]^T", "rows of B"),
        never=ONE_TILE,
    ),
    "C: D's coordinates swapped [03: M and N mixed up]": cute(
        "step03",
        "results",
        (C_D3, "(block_M, block_N), (n, m)))"),
        says=("of D (row", "which has the shape 256 x 512"),
        line="autovec_copy(out, my_D)",
    ),
    "C: every CTA writes to one place [03]": cute(
        "step03",
        "results",
        (C_D3, "(block_M, block_N), (0, 0)))"),
        says=("D[0:128, 0:128] alone, of 256 x 512", "its own place"),
        never=ONE_TILE,
    ),
    "C: elements where tiles are meant [03]": cute(
        "step03",
        "results",
        (C_MN, C_MN + "\n        m, n = m * block_M, n * block_N"),
        says=("which has the shape",),
        line="cute.copy(copy, ",
    ),
    "C: row and column of the tile swapped": cute(
        "step03",
        "results",
        ("(block_M, block_K), (m, None))", "(block_M, block_K), (None, m))"),
        says=("of A (row", "256 x 320"),
        line="cute.copy(copy, A_src[",
    ),
    "C: partition_C of all of D": cute(
        "step03", "compiles", (f"cute.local_tile(D, {C_D3}", "D)"), says=("one tile of D",), line="cute.gemm("
    ),
    "C: no partition_C": cute(
        "step03",
        "compiles",
        (f"my_mma.partition_C(cute.local_tile(D, {C_D3}", f"cute.local_tile(D, {C_D3[:-1]}"),
        says=("partition_C",),
        line="cute.gemm(",
    ),
    "C: two of the three numbers": cute(
        "step03",
        "compiles",
        (C_MN, "n, m = cute.arch.block_idx()"),
        says=("too many values to unpack",),
        line="n, m = cute.arch.block_idx()",
    ),
}

# -- step 4

T_LA = "                T.tma_copy(A[ms, ks], A_shared[0, :, :], barrier=full)\n"
T_LB = "                T.tma_copy(B[ns, ks], B_shared[0, :, :], barrier=full)\n"
T_ARRIVE = (
    "                if T.shuffle_elect(128):\n"
    "                    T.mbarrier_arrive(full)  # the one arrival; bytes are the rest of the phase\n"
)
T_WAIT = "                T.mbarrier_wait_parity(full, k & 1)\n"
T_OUT = "            T.tma_copy(D_shared, D[ms, ns])\n"
T_STORED = "            T.tma_store_wait(0)\n"
C_EXPECT = "cute.arch.mbarrier_arrive_and_expect_tx(full, tile_bytes)\n"
C_ELECT = "                with cute.arch.elect_one():\n                    "
C_LA = "                cute.copy(load_A, A_src[None, m, k], A_dst[None, 0], tma_bar_ptr=full)\n"
C_LB = "                cute.copy(load_B, B_src[None, n, k], B_dst[None, 0], tma_bar_ptr=full)\n"
C_WAIT = "            cute.arch.mbarrier_wait(full, k & 1)\n"
C_OUT = "            cute.copy(store_D, D_src, D_dst[None, m, n])\n"
C_COMMIT = "            cute.arch.cp_async_bulk_commit_group()\n"
C_STORED = "            cute.arch.cp_async_bulk_wait_group(0)\n"
NOT_WAITED = ("full", "not waited for")
STEP_4 = {
    "B's rows by m, past its end": tilelang(
        "step04",
        "results",
        ("T.tma_copy(B[ns, ks]", "T.tma_copy(B[ms, ks]"),
        says=("TMA loads lie outside B", "row 384 of 256", "zeros"),
        never=("ends too early",),
        size=(512, 256, 192),
        ctas=(-1,),
    ),
    "columns twice as far as k says": tilelang(
        "step04",
        "results",
        ("ks = slice(k * block_K, (k + 1) * block_K)", "ks = slice(2 * k * block_K, (2 * k + 1) * block_K)"),
        says=("TMA loads lie outside A", "column 512 of 320", "zeros"),
        never=("ends too early",),
    ),
    "nobody arrives [04, Predict, map]": tilelang(
        "step04",
        "results",
        (T_ARRIVE, ""),
        says=("wait for full", "parity 0", "lacks 1 of 1 arrivals"),
        line="T.mbarrier_wait_parity(",
    ),
    "all 128 threads arrive [04]": tilelang(
        "step04",
        "results",
        (T_ARRIVE, "                T.mbarrier_arrive(full)\n"),
        says=("makes 32 arrivals a phase on full", "its init counts 1"),
        line="T.mbarrier_arrive(full)",
    ),
    "init counts the threads [map: 127 of 128]": tilelang(
        "step04",
        "results",
        ("T.alloc_barrier(1)", "T.alloc_barrier(128)"),
        says=("full", "lacks 127 of 128 arrivals", "init counts 128"),
        line="T.alloc_barrier(128)",
    ),
    "an arrival for each copy": tilelang(
        "step04",
        "results",
        (T_LA, T_LA + T_ARRIVE.replace("  # the one arrival; bytes are the rest of the phase", "")),
        says=("arrives on full", "all its 1 arrivals already"),
        line="T.mbarrier_arrive(full)",
    ),
    "one thread of each warp arrives": tilelang(
        "step04",
        "results",
        ("T.shuffle_elect(128)", "T.shuffle_elect(32)"),
        says=("4 arrivals a phase on full", "from warps 0-3", "init counts 1"),
        line="T.mbarrier_arrive(full)",
    ),
    "the barrier's parity never changes [04]": tilelang(
        "step04",
        "results",
        ("full, k & 1", "full, 0"),
        says=("full", "phase 1", "not waited"),
        line="T.mbarrier_wait_parity(full, 0)",
    ),
    "the parity is inverted": tilelang(
        "step04",
        "results",
        ("full, k & 1", "full, (k + 1) & 1"),
        says=("full", "phase 0", "not waited"),
        line="T.mbarrier_wait_parity(",
    ),
    "nobody waits": tilelang("step04", "results", (T_WAIT, ""), says=NOT_WAITED, line="T.wgmma_gemm("),
    "the wait comes first": tilelang(
        "step04",
        "results",
        (T_LA + T_LB + T_ARRIVE + T_WAIT, T_WAIT + T_LA + T_LB + T_ARRIVE),
        says=("wait for full", "parity 0", "lacks 1 of 1 arrivals"),
        line="T.mbarrier_wait_parity(",
    ),
    "B's copy names no barrier": tilelang(
        "step04",
        "compiles",
        (T_LB, T_LB.replace(", barrier=full", "")),
        says=("requires a barrier argument",),
        line="T.tma_copy(B[ns, ks], B_shared[0, :, :])",
    ),
    "B is not asked for": tilelang(
        "step04", "results", (T_LB, ""), says=("operand B", "nothing has written"), line="T.wgmma_gemm("
    ),
    "a tile without its slot": tilelang(
        "step04",
        "compiles",
        ("A_shared[0, :, :], barrier", "A_shared, barrier"),
        says=("two sides of this copy", "A's is 128 x 64, A_shared's 4 x 128 x 64"),
        line="T.tma_copy(A[ms, ks], A_shared,",
    ),
    "numbers where slices are meant": tilelang(
        "step04",
        "compiles",
        ("T.tma_copy(A[ms, ks]", "T.tma_copy(A[m, k * block_K]"),
        says=("slices",),
        line="T.tma_copy(A[m,",
    ),
    "no wait for the multiplication [map: overwrite-while-read]": tilelang(
        "step04",
        "results",
        ("                T.wait_wgmma(0)\n", ""),
        says=("overwrites shared memory that wgmma", "may still read"),
        line="T.tma_copy(A[ms, ks]",
    ),
    "no wait for the store [map: exit-in-flight]": tilelang(
        "step04", "instructions", (T_STORED, ""), says=("ends and has not waited for its TMA store",)
    ),
    "D by plain stores": tilelang(
        "step04",
        "instructions",
        ("            T.copy(acc, D_shared)\n", "            T.copy(acc, D[ms, ns])\n"),
        (
            "            T.fence_proxy_async()  # threads wrote D_shared; TMA reads it by the async proxy\n",
            "",
        ),
        ("            T.sync_threads()\n" + T_OUT + T_STORED, ""),
        says=("TMA stores of D", "st.global"),
    ),
    "D_shared is not filled": tilelang(
        "step04",
        "results",
        ("            T.copy(acc, D_shared)\n", ""),
        says=("TMA store", "nothing has written"),
        line="T.tma_copy(D_shared",
    ),
    "a TMA store of registers [map: TMA is not available]": tilelang(
        "step04",
        "compiles",
        ("T.tma_copy(D_shared, D[", "T.tma_copy(acc, D["),
        says=("TMA is not available from acc to D",),
        line="T.tma_copy(acc, D[",
    ),
    "D_shared is fp32": tilelang(
        "step04",
        "compiles",
        ("(block_M, block_N), T.float16)", "(block_M, block_N), T.float32)"),
        says=("TMA is not available from D_shared to D", "element type"),
        line="T.tma_copy(D_shared, D[",
    ),
    "C: A's rows by n, past its end": cute(
        "step04",
        "results",
        ("A_src[None, m, k]", "A_src[None, n, k]"),
        says=("TMA loads lie outside A", "row 384 of 256", "zeros"),
        never=("ends too early",),
        size=(256, 512, 192),
        ctas=(-1,),
    ),
    "C: B's rows by m, past its end": cute(
        "step04",
        "results",
        ("B_src[None, n, k]", "B_src[None, m, k]"),
        says=("TMA loads lie outside B", "row 384 of 256", "zeros"),
        never=("ends too early",),
        size=(512, 256, 192),
        ctas=(-1,),
    ),
    "C: nobody is elected": cute(
        "step04",
        "results",
        (C_ELECT + C_EXPECT, "                " + C_EXPECT),
        says=("32 arrivals", "full", "init counts 1"),
        line="mbarrier_arrive_and_expect_tx",
    ),
    "C: every warp asks": cute(
        "step04",
        "results",
        ("            if warp_idx == 0:\n" + C_ELECT, "            if warp_idx < 4:\n" + C_ELECT),
        says=("4 arrivals a phase on full", "from warps 0-3", "init counts 1"),
        line="mbarrier_arrive_and_expect_tx",
    ),
    "C: the bytes of A alone [map: an expect-tx for n bytes]": cute(
        "step04",
        "results",
        ("(full, tile_bytes)", "(full, block_M * block_K * 2)"),
        says=("phase 0 of full", "expects 16,384 bytes", "32,768"),
        line="cute.arch.mbarrier_arrive_and_expect_tx(full, block_M",
    ),
    "C: fp32 bytes [04, map: n of m bytes]": cute(
        "step04",
        "results",
        ("(full, tile_bytes)", "(full, 2 * tile_bytes)"),
        says=("wait for full", "parity 0", "lacks 32,768 of 65,536 bytes"),
        line="cute.arch.mbarrier_arrive_and_expect_tx(full, 2",
    ),
    "C: an arrival without bytes": cute(
        "step04",
        "instructions",
        (C_EXPECT, "cute.arch.mbarrier_arrive(full)\n"),
        says=("expects 0 bytes", "loads of 32,768 bytes signal it"),
        line="mbarrier_arrive(full)",
    ),
    "C: the parity never changes [04]": cute(
        "step04",
        "results",
        ("(full, k & 1)", "(full, 0)"),
        says=("full", "phase 1", "not waited"),
        line="mbarrier_wait(full, 0)",
    ),
    "C: nobody waits": cute("step04", "results", (C_WAIT, ""), says=NOT_WAITED, line="cute.gemm("),
    "C: only warp 0 waits": cute(
        "step04",
        "results",
        (C_WAIT, "    " + C_WAIT),
        says=("(warps 1-3)", "full", "these warps have not waited"),
        line="cute.gemm(",
    ),
    "C: B's copy names no barrier [map: tma_bar_ptr]": cute(
        "step04",
        "compiles",
        (C_LB, C_LB.replace(", tma_bar_ptr=full", "")),
        says=("tma_bar_ptr",),
        line="load_B",
    ),
    "C: source and destination swapped": cute(
        "step04",
        "compiles",
        ("A_src[None, m, k], A_dst[None, 0]", "A_dst[None, 0], A_src[None, m, k]"),
        says=("source and the destination of this copy swapped",),
        line="cute.copy(load_A",
    ),
    "C: no retile": cute(
        "step04",
        "compiles",
        ("my_out.retile(out)", "out"),
        says=("crashed",),
        line="cute.copy(to_shared, out,",
    ),
    "C: no partition_D": cute(
        "step04",
        "compiles",
        ("my_out.partition_D(D_shared)", "D_shared"),
        says=("partition_D",),
        line="D_shared)",
    ),
    "C: the fp32 registers stored [map: Type mismatch]": cute(
        "step04",
        "compiles",
        ("my_out.retile(out)", "my_out.retile(acc)"),
        says=("fp16", "out"),
        line="retile(acc)",
    ),
    "C: no synchronisation before the store [04]": cute(
        "step04",
        "results",
        ("async_shared()\n        cute.arch.sync_threads()\n", "async_shared()\n"),
        says=("TMA store", "no barrier orders"),
        line="cute.copy(store_D",
    ),
    "C: no commit": cute(
        "step04",
        "results",
        (C_COMMIT, ""),
        says=("has not waited for its TMA store", "no cp.async.bulk.commit_group", "commit_group()"),
        line="cute.copy(store_D",
    ),
    "C: no wait for the store": cute(
        "step04", "instructions", (C_STORED, ""), says=("ends and has not waited for its TMA store",)
    ),
    "C: every warp stores": cute(
        "step04",
        "instructions",
        ("        if warp_idx == 0:\n" + C_OUT, "        if warp_idx < 4:\n" + C_OUT),
        says=("each element stored once", "who issues the store"),
        line="cute.copy(store_D",
    ),
    "C: D's coordinates swapped": cute(
        "step04",
        "results",
        ("D_dst[None, m, n]", "D_dst[None, n, m]"),
        says=("mirror place",),
        never=ONE_TILE,
    ),
    "C: all of it under elect_one [04, Predict, map: absent-lanes]": cute(
        "step04",
        "results",
        (
            "            if warp_idx == 0:\n                with cute.arch.elect_one():\n",
            "            with cute.arch.elect_one():\n                if warp_idx == 0:\n",
        ),
        says=("31 lanes",),
        line="cute.copy(load_A",
    ),
}

# -- step 5

T_PARITY = "(k // num_stages) & 1"
T_LOAD_IF = "if i < k_tiles:"
C_ACQUIRE = "                    pipe.producer_acquire(load)\n"
C_RELEASE = "                pipe.consumer_release(use)\n"
STEP_5 = {
    "the parity of step 4 [05 Predict]": tilelang(
        "step05",
        "results",
        (T_PARITY, "k & 1"),
        says=("full[1], parity 1", "lacks 1 of 1 arrivals"),
        line="T.mbarrier_wait_parity(",
    ),
    "the parity is inverted [map: a first wait that passes]": tilelang(
        "step05",
        "results",
        (T_PARITY, "(k // num_stages + 1) & 1"),
        says=("full[0]", "phase 0", "not waited"),
    ),
    "one barrier for two stages [05 Predict]": tilelang(
        "step05",
        "instructions",
        ("T.alloc_barrier([1] * num_stages)", "T.alloc_barrier(1)"),
        ("A_shared[load, :, :], barrier=full[load]", "A_shared[load, :, :], barrier=full"),
        ("B_shared[load, :, :], barrier=full[load]", "B_shared[load, :, :], barrier=full"),
        ("mbarrier_arrive(full[load])", "mbarrier_arrive(full)"),
        (f"full[stage], {T_PARITY}", "full, k & 1"),
        says=("at least two mbarriers", "found 1"),
    ),
    "two stages in turns [05 Predict, 05: no faster than step 4]": tilelang(
        "step05",
        "instructions",
        ("T.serial(k_tiles + num_stages - 1)", "T.serial(k_tiles)"),
        ("if i >= num_stages - 1:", "if i >= 0:"),
        ("k = i - (num_stages - 1)", "k = i"),
        says=("needs loads ahead",),
    ),
    "two arrivals where a barrier for each stage is meant": tilelang(
        "step05",
        "instructions",
        ("T.alloc_barrier([1] * num_stages)", "T.alloc_barrier(num_stages)"),
        says=("at least two mbarriers", "found 1"),
    ),
    "a barrier counts the stages": tilelang(
        "step05",
        "results",
        ("[1] * num_stages", "[num_stages] * num_stages"),
        says=("full[0]", "lacks 1 of 2 arrivals", "init counts 2"),
        line="T.alloc_barrier(",
    ),
    "every arrival on the first barrier": tilelang(
        "step05",
        "results",
        ("T.mbarrier_arrive(full[load])", "T.mbarrier_arrive(full[0])"),
        says=("arrives on full[0]", "all its 1 arrivals already"),
        line="T.mbarrier_arrive(full[0])",
    ),
    "clear_accum follows the load": tilelang(
        "step05",
        "results",
        ("clear_accum=(k == 0)", "clear_accum=(i == 0)"),
        says=("adds to registers that nothing has written",),
        line="T.wgmma_gemm(",
    ),
    "a load too many [05: one too many]": tilelang(
        "step05",
        "results",
        (T_LOAD_IF, "if i <= k_tiles:"),
        says=("nobody waits for the load of A[", "320:384]", "lies outside", "5 of 6 fills"),
        line="T.tma_copy(A[ms, ks]",
    ),
    "the multiplication begins a step late": tilelang(
        "step05",
        "results",
        ("if i >= num_stages - 1:", "if i >= num_stages:"),
        says=("warps 0-3 wait for full[1] as the first stage", "fills full[0] as the first"),
        line="T.mbarrier_wait_parity(full[stage]",
    ),
    "the loop ends a step early [05, map: the last K tile]": tilelang(
        "step05",
        "results",
        ("T.serial(k_tiles + num_stages - 1)", "T.serial(k_tiles)"),
        says=("nobody waits for the load of A[", "256:320]", "4 of 5 fills"),
        line="T.tma_copy(A[ms, ks]",
    ),
    "loads take all four slots [05: a stage past the ring]": tilelang(
        "step05",
        "results",
        ("load = i % num_stages", "load = i % ring"),
        says=("stage 2 of full, which has 2",),
        never=(*ROLES, "shared address"),
        line="T.tma_copy(A[ms, ks]",
    ),
    "wgmma reads stage 0 in every step [05]": tilelang(
        "step05",
        "results",
        ("A_shared[stage, :, :], B_shared[stage, :, :]", "A_shared[0, :, :], B_shared[0, :, :]"),
        says=("wgmma reads A as loaded for full[0]", "the wait before it (line 45) is for full[1]"),
        line="T.wgmma_gemm(",
    ),
    "the load's stage used outside its branch": tilelang(
        "step05",
        "compiles",
        ("A_shared[stage, :, :], B_shared[stage, :, :]", "A_shared[load, :, :], B_shared[load, :, :]"),
        says=("`load` is set inside an `if`",),
        line="operands = A_shared[load",
    ),
    "C: use is not advanced [05: whether both states advance]": cute(
        "step05",
        "results",
        ("                use.advance()\n", ""),
        never=(),
        says=("for full[0] 3 times", "filled twice", "never for full[1]", "does the stage go on"),
        line="pipe.consumer_wait(use)",
    ),
    "C: no release": cute(
        "step05",
        "results",
        (C_RELEASE, ""),
        never=("consumer warp",),
        says=("empty[0], parity 0", "lacks 4 of 4 arrivals"),
        line="pipe.producer_acquire(load)",
    ),
    "C: the multiplications are never committed": cute(
        "step05",
        "results",
        ("                warpgroup.commit_group()\n", ""),
        says=("overwrites shared memory", "wgmma of warps 0-3", "no wgmma.commit_group", "commit_group()"),
        line="cute.gemm(",
    ),
    "C: no consumer_wait": cute(
        "step05",
        "results",
        ("                pipe.consumer_wait(use)\n", ""),
        never=(),
        says=NOT_WAITED,
        line="cute.gemm(",
    ),
    "C: no producer_acquire": cute(
        "step05", "instructions", (C_ACQUIRE, ""), never=("consumer warp",), says=("expect_tx", "found none")
    ),
    "C: both states are a producer's": cute(
        "step05",
        "results",
        ("PipelineUserType.Consumer", "PipelineUserType.Producer"),
        never=(),
        says=NOT_WAITED,
        line="pipe.consumer_wait(use)",
    ),
    "C: both states are a consumer's": cute(
        "step05",
        "results",
        ("PipelineUserType.Producer", "PipelineUserType.Consumer"),
        never=("barrier[",),
        says=("waits for empty[0], parity 0", "lacks 4 of 4 arrivals"),
        line="pipe.producer_acquire(load)",
    ),
    "C: the consumers' group counts the threads [05, map: 124 of 128]": cute(
        "step05",
        "results",
        ("pipeline.Agent.Thread, warps)", "pipeline.Agent.Thread, 128)"),
        never=("consumer warp",),
        says=("empty[0], parity 0", "lacks 124 of 128 arrivals"),
        line="PipelineTmaAsync.create(",
    ),
    "C: the producers' group counts a warp": cute(
        "step05",
        "results",
        ("CooperativeGroup(pipeline.Agent.Thread),", "CooperativeGroup(pipeline.Agent.Thread, 32),"),
        never=("consumer warp",),
        says=("full[0], parity 0", "lacks 31 of 32 arrivals"),
        line="PipelineTmaAsync.create(",
    ),
    "C: tx_count is the ring's [05, map: n of m bytes]": cute(
        "step05",
        "results",
        ("tx_count=tile_bytes", "tx_count=num_stages * tile_bytes"),
        never=("consumer warp",),
        says=("full[0], parity 0", "lacks 32,768 of 65,536 bytes", "its loads bring 32,768"),
        line="PipelineTmaAsync.create(",
    ),
    "C: wgmma reads stage 0 in every step [05]": cute(
        "step05",
        "results",
        ("k_block, use.index)", "k_block, 0)"),
        never=(),
        says=("wgmma reads A as loaded for full[0]", "the wait before it (line 81) is for full[1]"),
        line="cute.gemm(",
    ),
    "C: wgmma reads the load's stage [05]": cute(
        "step05",
        "results",
        ("k_block, use.index)", "k_block, load.index)"),
        says=("wgmma reads A as loaded for full[1]", "the wait before it (line 81) is for full[0]"),
        never=(),
        line="cute.gemm(",
    ),
    "C: A's load goes to stage 0 [05]": cute(
        "step05",
        "results",
        ("A_dst[None, s]", "A_dst[None, 0]"),
        never=("does the producer wait",),
        says=("full[0]", "is for full[1]", "the same place", "which stage index"),
        line="cute.copy(load_A",
    ),
    "C: A's tile is one behind": cute(
        "step05",
        "results",
        ("A_src[None, m, i]", "A_src[None, m, i - 1]"),
        says=("columns 0:64 of A", "columns 64:128 of B"),
    ),
    "C: every warp loads": cute(
        "step05",
        "results",
        ("                if warp_idx == 0:\n" + C_ACQUIRE, "                if warp_idx < 4:\n" + C_ACQUIRE),
        never=("consumer warp",),
        says=("4 arrivals a phase on full[0]", "from warps 0-3", "init counts 1"),
        line="pipe.producer_acquire(load)",
    ),
    "C: producer_acquire under elect_one": cute(
        "step05",
        "results",
        (C_ACQUIRE, "                    with cute.arch.elect_one():\n    " + C_ACQUIRE),
        never=(),
        says=("31 lanes",),
        line="pipe.producer_acquire(load)",
    ),
    "C: warp 0 releases for all": cute(
        "step05",
        "results",
        (C_RELEASE, "                if warp_idx == 0:\n    " + C_RELEASE),
        never=("consumer warp",),
        says=("empty[0], parity 0", "lacks 3 of 4 arrivals", "warps 1-3 have read the stage"),
        line="pipe.consumer_release(use)",
    ),
    "C: released before the wait [05]": cute(
        "step05",
        "results",
        ("                warpgroup.wait_group(0)\n" + C_RELEASE, C_RELEASE),
        never=(),
        says=("may still read", "released empty[0] too early"),
        line="pipe.consumer_release(use)",
    ),
    # right all the same: warp 0, which loads, waits for the warpgroup's wgmma itself before its next load
    "C: released before the group is committed": cute(
        "step05",
        "",
        (C_RELEASE, ""),
        (
            "                warpgroup.commit_group()\n",
            C_RELEASE + "                warpgroup.commit_group()\n",
        ),
    ),
    "C: released between commit and wait": cute(
        "step05",
        "",
        (C_RELEASE, ""),
        (
            "                warpgroup.wait_group(0)\n",
            C_RELEASE + "                warpgroup.wait_group(0)\n",
        ),
    ),
    "C: the states go round all four slots": cute(
        "step05",
        "results",
        ("PipelineUserType.Producer, num_stages", "PipelineUserType.Producer, ring"),
        says=("stage 2 of empty, which has 2",),
        never=("shared address",),
        line="pipe.producer_acquire(load)",
    ),
    "C: a load tells the other state's barrier": cute(
        "step05",
        "results",
        ("pipe.producer_get_barrier(load)", "pipe.producer_get_barrier(use)"),
        never=(),
        says=("full[0] expects 32,768 bytes",),
        line="cute.copy(load_A",
    ),
    "C: a name that the module has not": cute(
        "step05",
        "compiles",
        ("pipeline.PipelineUserType.Producer", "pipeline.UserType.Producer"),
        never=(),
        says=("has no attribute 'UserType'",),
        line="make_pipeline_state(pipeline.UserType",
    ),
}

# -- the factory itself

FACTORY = {
    "M and N swapped in the signature": tilelang(
        "step03",
        "compiles",
        ("def gemm(M, N, K):", "def gemm(N, M, K):"),
        says=("A has shape (512, 320)", "(256, 320)"),
    ),
    "B is K x N": tilelang(
        "step03",
        "compiles",
        ("B: T.Tensor((N, K)", "B: T.Tensor((K, N)"),
        says=("B has shape (320, 512)", "(512, 320)"),
    ),
    "D is fp32": tilelang(
        "step03",
        "compiles",
        ("D: T.Tensor((M, N), T.float16)", "D: T.Tensor((M, N), T.float32)"),
        says=("D is float32", "must be float16"),
    ),
    "a Python error in the factory": tilelang(
        "step03",
        "compiles",
        ("    @T.prim_func\n", "    tiles = M / 0\n\n    @T.prim_func\n"),
        says=("ZeroDivisionError", "division by zero"),
        line="tiles = M / 0",
    ),
    "a typing error": tilelang(
        "step03", "compiles", ("    return main\n", "    return main)\n"), says=("line", "unmatched ')'")
    ),
    "exit() in the factory": cute(
        "step03",
        "compiles",
        ("    @cute.kernel\n", "    exit()\n\n    @cute.kernel\n"),
        says=("called sys.exit() or exit()",),
        line="exit()",
    ),
    "C: D first": cute(
        "step03",
        "results",
        (
            "def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor)",
            "def main(D: cute.Tensor, A: cute.Tensor, B: cute.Tensor)",
        ),
        says=("of D (row", "which has the shape 256 x 512"),
        line="cute.copy(copy, B_src[",
    ),
    "C: two tensors": cute(
        "step03",
        "compiles",
        (
            "def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor)",
            "def main(A: cute.Tensor, D: cute.Tensor)",
        ),
        says=("main takes", "three tensors, A, B and D"),
    ),
    "C: gemm under another name": cute(
        "step03", "compiles", ("def gemm(M, N, K):", "def gem(M, N, K):"), says=("defines no gemm",)
    ),
}

MISTAKES = {
    f"{step} {name}": mistake
    for step, table in (
        ("1", STEP_1),
        ("2", STEP_2),
        ("3", STEP_3),
        ("4", STEP_4),
        ("5", STEP_5),
        ("0", FACTORY),
    )
    for name, mistake in table.items()
}


# fmt: off
DOUBLED = {  # by what is run instead of it
    "2 the first round adds [02, map]":
        "1 clear_accum is missing [01, map: accumulator-uninitialised]",
    "2 A is a round ahead of B [02]":
        "2 only B's columns stand still [02]",
    "2 C: no barrier before wgmma [02]":
        "1 C: no barrier [01, Predict, map: read-before-write]",
    "3 the columns of B's tile by m [03: A and B disagree]":
        "2 only B's columns stand still [02]",
    "3 C: elements where tiles are meant [03]":
        "3 C: x and y mixed up [03, Predict, map: out-of-bounds]",
    "4 no wait for the multiplication [map: overwrite-while-read]":
        "2 no wait for the multiplication [02]",
    "4 the barrier's parity never changes [04]":
        "5 the parity is inverted [map: a first wait that passes]",
    "4 C: the parity never changes [04]":
        "5 C: use is not advanced [05: whether both states advance]",
    "4 C: fp32 bytes [04, map: n of m bytes]":
        "5 C: tx_count is the ring's [05, map: n of m bytes]",
    "5 C: wgmma reads stage 0 in every step [05]":
        "5 C: wgmma reads the load's stage [05]",
    "5 a load too many [05: one too many]":
        "5 the loop ends a step early [05, map: the last K tile]",
}
# fmt: on


@pytest.mark.parametrize("mistake", planted(MISTAKES, {}, DOUBLED))
def test_the_card_says_what_is_wrong(mistake):
    require_said(mistake)


FIRST = Path(__file__).parents[2] / "notebooks" / "00_start_here.ipynb"


@pytest.mark.parametrize(
    "line, says",
    [
        ("            T.copy(A, A_shared)\n", "Operand A of wgmma"),
        ("            T.copy(B, B_shared)\n", "A[0:64] @ A[0:64]^T"),
    ],
)
def test_the_first_kernel_without_a_copy_fails_results_alone(line, says):
    """The Predict question of notebook 00, and what it asks for next."""
    cells = json.loads(FIRST.read_text())["cells"]
    source = next("".join(cell["source"]) for cell in cells if "def gemm(" in "".join(cell["source"]))
    factory = load_factory_source(edited(source, (line, "")), "first")
    verdict = check_gemm("step01", factory, backend="emulator")
    states = {part.name: part.state for part in verdict.checks}
    assert [name for name, state in states.items() if state == "failed"] == ["results"], str(verdict)
    assert states["speed"] == "not reached" and says in verdict.card.text, str(verdict)


@pytest.mark.parametrize("dsl, other", [("tilelang", "cute"), ("cute", "tilelang")])
def test_the_other_cells_gemm_is_called_by_its_name(dsl, other):
    """A second cell defines `gemm` anew, and the first cell's check runs once more."""
    verdict = check_gemm("step03", plant("step03", other), dsl, backend="emulator")
    names = {"tilelang": "TileLang's", "cute": "CuTe DSL's"}
    said = f"Gemm is {names[other]}, and this checks {names[dsl]}. Run {names[dsl]} cell, then this one."
    assert verdict.card.text.lower() == said.lower()


@pytest.mark.parametrize("dsl", ["tilelang", "cute"])
def test_a_check_before_its_cell_says_so(dsl):
    verdict = check_gemm("step01", NotYet("gemm"), dsl, backend="emulator")
    assert verdict.open and "the cell that defines gemm has not run yet" in str(verdict)


@pytest.mark.parametrize("dsl", ["tilelang", "cute"])
def test_what_the_factory_prints_is_shown(dsl):
    factory = plant(
        "step01", dsl, ("def gemm(M, N, K):\n", "def gemm(M, N, K):\n    print('tile', M, N, K)\n")
    )
    assert "tile 128 128 64" in str(check_gemm("step01", factory, dsl, backend="compile"))
