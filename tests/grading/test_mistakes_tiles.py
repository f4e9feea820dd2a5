"""What is read and stored where: accumulators, accesses outside, tiles that nobody takes, maps of a copy; and
the line that wrong numbers are told with.
"""

from __future__ import annotations

import pytest

from course_utils.compile.load import plant
from course_utils.grading.copy import check_copy
from tests.grading.mistakes import Mistake, planted, require_said

TL, CUTE = "tilelang", "cute"
ONE = {"size": (128, 128, 64)}
LONG = {"size": (128, 128, 320)}
FEW = {"size": (256, 512, 64)}
MANY = {"size": (1792, 1280, 64)}  # 140 tiles, for 132 CTAs

STORE_BEFORE_WAIT = (
    (
        "        warpgroup.wait_group(0)\n",
        "        out = cute.make_rmem_tensor(my_D.shape, cutlass.Float16)\n"
        "        out.store(acc.load().to(cutlass.Float16))\n        warpgroup.wait_group(0)\n",
    ),
    (
        "\n        out = cute.make_rmem_tensor(my_D.shape, cutlass.Float16)\n"
        "        out.store(acc.load().to(cutlass.Float16))\n        cute.autovec",
        "\n        cute.autovec",
    ),
)
COPY_LAYOUT = "cute.make_layout((16, 8), stride=(8, 1))"
CLUSTER_LOOP = "for tile in cutlass.range(cta // cluster, tiles, clusters, unroll=1):\n"
BOTH_LOOPS = tuple(
    (text, text.replace("clusters,", "sm_count,"))
    for text in (
        f"                {CLUSTER_LOOP}                    row",
        f"            {CLUSTER_LOOP}                row",
    )
)

MISTAKES = {
    # -- nothing stored
    "01 D is never stored [the one of its kind]": Mistake(
        "step01",
        TL,
        (("            T.copy(acc, D)\n", ""),),
        "results",
        says=("wrote no element of D",),
        **ONE,
    ),
    "04 D is never stored": Mistake(
        "step04",
        TL,
        (("            T.tma_copy(D_shared, D[ms, ns])\n", ""),),
        "instructions",
        says=("TMA stores of D", "no store of D at all"),
        **FEW,
    ),
    # -- accumulators of a wgmma that may still run
    "01 wait_wgmma(1) leaves the only group [the one of its kind]": Mistake(
        "step01",
        TL,
        (("T.wait_wgmma(0)", "T.wait_wgmma(1)"),),
        "results",
        says=("reads the accumulator", "that of line 31", "the wait on line 32 leaves 1 group running"),
        never=("register", "%f", "what the compiler added"),
        line="T.copy(acc, D)",
        **ONE,
    ),
    "01 converts before it waits": Mistake(
        "step01",
        CUTE,
        STORE_BEFORE_WAIT,
        "results",
        says=("reads the accumulator", "that of line 47", "no wgmma.wait_group", "is between"),
        never=("register", "%r"),
        line="acc.load()",
        **ONE,
    ),
    "08 no drain before the epilogue": Mistake(
        "step08",
        CUTE,
        (("                warpgroup.wait_group(0)\n", ""),),
        "results",
        says=("consumer warp", "reads the accumulator", "leaves 1 group running"),
        line="acc.load()",
        **FEW,
    ),
    # -- accesses outside a tensor or shared memory
    "03 m and n mixed up, CuTe DSL [the one of its kind]": Mistake(
        "step03",
        CUTE,
        (("n, m, _ = cute.arch.block_idx()", "m, n, _ = cute.arch.block_idx()"),),
        "results",
        says=("of A (row", "are M and N, or x and y of the grid, mixed up"),
        line="A_src[",
        **FEW,
    ),
    "01 a copy's layout of 64 threads": Mistake(
        "step01",
        CUTE,
        ((COPY_LAYOUT, COPY_LAYOUT.replace("(16, 8)", "(8, 8)")),),
        "results",
        says=("of A (row", "shares of 128 threads"),
        line="cute.copy(copy, A_src",
        **ONE,
    ),
    "03 half of the threads copy twice": Mistake(
        "step03",
        CUTE,
        (("copy.get_slice(thread)", "copy.get_slice(thread % 64)"),),
        "results",
        says=("nothing has written in a part of the tile", "all threads' copies"),
        **FEW,
    ),
    "07 the consumer's slice of stmatrix by the CTA's thread": Mistake(
        "step07",
        CUTE,
        (("to_shared.get_slice(thread % 128)", "to_shared.get_slice(thread)"),),
        "results",
        says=("shared memory", "thread's number in the CTA, and not in its role"),
        line="cute.copy(to_shared",
        **FEW,
    ),
    "09 the CTA's number for its rank": Mistake(
        "step09",
        CUTE,
        (("rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())", "rank = cta"),),
        "results",
        says=("CTA's number, not its rank in the cluster of 2",),
        line="cute.copy(load_B",
        **MANY,
    ),
    "04 rows for columns at the load of A": Mistake(
        "step04",
        CUTE,
        (("A_src[None, m, k]", "A_src[None, k, m]"),),
        "results",
        says=("TMA loads lie outside A", "row 512 of 256"),
        never=("Every tile",),
        line="A_src[None, k, m]",
    ),
    # -- tiles that no CTA takes
    "09 the scheduler counts CTAs for workers [the one of its kind]": Mistake(
        "step09",
        TL,
        (("sm_count // cluster  # rows", "sm_count  # rows"),),
        "results",
        says=(
            "132 CTAs (66 clusters) took 132 of D's 140 tiles",
            "none more than 1",
            "by clusters, not by CTAs",
        ),
        line="PersistentTileScheduler",
        **MANY,
    ),
    "09 both roles go on by the number of CTAs": Mistake(
        "step09",
        CUTE,
        BOTH_LOOPS,
        "results",
        says=("132 CTAs (66 clusters) took 132 of D's 140 tiles", "by clusters, not by CTAs"),
        line="for tile in",
        **MANY,
    ),
    "06 the loop goes on by twice as many": Mistake(
        "step06",
        CUTE,
        (("tiles_N, sm_count, unroll", "tiles_N, 2 * sm_count, unroll"),),
        "results",
        says=(
            "132 CTAs took 132 of D's 140 tiles",
            "none more than 1",
            "by how many does the tile loop go on",
        ),
        line="for tile in",
        **MANY,
    ),
    "09 every CTA begins at its own tile": Mistake(
        "step09",
        TL,
        (("tiles.init(cta // cluster)", "tiles.init(cta)"),),
        "results",
        says=("both store D[", "132 CTAs in 66 clusters", "at which tile does each cluster begin"),
        line="T.tma_copy(D_shared",
        **MANY,
    ),
    "09 the rank counts columns": Mistake(
        "step09",
        CUTE,
        (
            (
                "cute.copy(store_D, D_src, D_dst[None, m, n])",
                "cute.copy(store_D, D_src, D_dst[None, m, n + rank])",
            ),
        ),
        "results",
        says=("TMA stores lie outside D", "all by CTAs of rank 1", "Which index counts the rank"),
        line="D_dst[None, m, n + rank]",
        **FEW,
    ),
    "09 the producer begins at its CTA's own tile": Mistake(
        "step09",
        CUTE,
        (
            (
                f"                {CLUSTER_LOOP}                    row",
                f"                {CLUSTER_LOOP.replace('cta // cluster', 'cta')}                    row",
            ),
        ),
        "results",
        says=("of CTA", "lacks 1 of 1 arrivals", "loads a tile", "do both roles take the same tiles"),
        size=(256, 128, 64),
    ),
    "03 tiles 64 rows apart": Mistake(
        "step03",
        TL,
        (("m, n = by * block_M", "m, n = by * 64"),),
        "results",
        says=("both store D[", "which tile has each"),
        line="T.copy(acc, D[",
        **FEW,
    ),
    # -- numbers, and the line that they are about
    "02 a slice that counts elements [the one of its kind]": Mistake(
        "step02",
        TL,
        (
            (
                "T.copy(B[:, k * block_K : (k + 1) * block_K], B_shared)",
                "T.copy(B[:, k : k + block_K], B_shared)",
            ),
        ),
        "results",
        says=("columns 64:128 of A", "columns 1:65 of B", "slice of B scaled by the tile's width"),
        line="T.copy(B[:, k :",
        **LONG,
    ),
    "02 the slice of A counts elements": Mistake(
        "step02",
        TL,
        (
            (
                "T.copy(A[:, k * block_K : (k + 1) * block_K], A_shared)",
                "T.copy(A[:, k : k + block_K], A_shared)",
            ),
        ),
        "results",
        says=("columns 64:128 of B", "columns 1:65 of A", "slice of A scaled by the tile's width"),
        line="T.copy(A[:, k :",
        **LONG,
    ),
    "04 both slices count elements": Mistake(
        "step04",
        TL,
        (("ks = slice(k * block_K, (k + 1) * block_K)", "ks = slice(k, k + block_K)"),),
        "results",
        says=("columns 68:320 of K are left out", "comes 5 times", "slice of K scaled"),
        line="T.tma_copy(A[ms, ks]",
    ),
    "01 half of the slices of K": Mistake(
        "step01",
        CUTE,
        (("block_K // 16)", "block_K // 32)"),),
        "results",
        says=("columns 0:16 and 16:32 of each 64 of K alone", "take all"),
        line="cute.gemm(",
        **ONE,
    ),
    "02 B's first tile in every round": Mistake(
        "step02",
        CUTE,
        (("B_src[None, None, None, k]", "B_src[None, None, None, 0]"),),
        "results",
        says=("does B's slice follow the loop",),
        line="B_src[None, None, None, 0]",
        **LONG,
    ),
    "02 the loop ends a round too early": Mistake(
        "step02",
        TL,
        (("for k in T.serial(K // block_K):", "for k in T.serial(K // block_K - 1):"),),
        "results",
        says=("without K tile 4: the loop ends too early",),
        line="for k in T.serial(K // block_K - 1)",
        **LONG,
    ),
    "02 every round overwrites, CuTe DSL": Mistake(
        "step02",
        CUTE,
        (
            (
                "            warpgroup.wait_group(0)\n",
                "            warpgroup.wait_group(0)\n"
                "            mma.set(warpgroup.Field.ACCUMULATE, False)\n",
            ),
        ),
        "results",
        says=("every round overwrote the sum",),
        line="cute.gemm(",
        **LONG,
    ),
    "03 B's rows by m": Mistake(
        "step03",
        TL,
        (("T.copy(B[n : n + block_N,", "T.copy(B[m : m + block_N,"),),
        "results",
        says=("rows of B belong to another tile", "Which index cuts B"),
        line="T.copy(B[m :",
        size=(256, 256, 64),
    ),
    "07 an init of 32 for one arrival": Mistake(
        "step07",
        CUTE,
        (
            (
                "producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),",
                "producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 32),",
            ),
        ),
        "results",
        says=("lacks 31 of 32 arrivals", "its init counts 32"),
        **FEW,
    ),
    "09 empty is a barrier of one CTA": Mistake(
        "step09",
        TL,
        (("T.alloc_cluster_barrier([cluster]", "T.alloc_barrier([cluster]"),),
        "compiles",
        says=("`empty` is a barrier of one CTA", "T.alloc_cluster_barrier"),
        never=("bound method",),
        line="T.mbarrier_arrive(empty",
        **FEW,
    ),
}


@pytest.mark.parametrize("mistake", planted(MISTAKES, {}))
def test_the_card_says_what_is_wrong(mistake):
    require_said(mistake)


AS_GEMM = ("    return main\n", "    return main\n\n\ngemm = copy\n")
# what it is: (case, edit, what the card has, its line)
COPIES = {
    "t2 the load's rows for its columns [the one of its kind]": (
        "t2",
        ("X_src[None, y, x, z]", "X_src[None, x, y, z]"),
        ("The loads bring 8,192 of X's 16,384 elements", "which index cuts X"),
        "X_src[None, x, y, z]",
    ),
    "t2 Y's strides swapped": (
        "t2",
        ("(d0 * d1, d2), stride=(d2, 1)", "(d0 * d1, d2), stride=(1, d0 * d1)"),
        ("The map of Y has rows of 128 bytes, 0 bytes apart", "strides of its layout swapped"),
        "Y = cute.make_tensor(Y.iterator",
    ),
    "t4 the store's map has no swizzle": (
        "t4",
        (
            "make_tiled_tma_atom(s2g, Y, layout,",
            "make_tiled_tma_atom(s2g, Y, cute.make_layout((tile, tile), stride=(tile, 1)),",
        ),
        ("The maps of X and Y disagree on swizzle", "X's has 128B and Y's has none"),
        "store_Y, Y =",
    ),
    "t4 the load's map has no swizzle": (
        "t4",
        (
            "make_tiled_tma_atom(g2s, X, layout,",
            "make_tiled_tma_atom(g2s, X, cute.make_layout((tile, tile), stride=(tile, 1)),",
        ),
        ("The maps of X and Y disagree on swizzle", "X's has none and Y's has 128B"),
        "load_X, X =",
    ),
}


@pytest.mark.parametrize("mistake", planted(COPIES, {}))
def test_the_card_of_a_copy_says_what_is_wrong(mistake):
    case, edit, says, line = mistake
    verdict = check_copy(case, plant(case, CUTE, edit, AS_GEMM), CUTE, "emulator")
    text = f"{verdict.card.text} {verdict.card.place} {verdict.card.code}"
    assert len(text.split()) <= 40, text
    assert [words for words in says if words.lower() not in text.lower()] == [], str(verdict)
    assert line in verdict.card.code, str(verdict)
