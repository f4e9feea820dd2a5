"""Rows of the notebooks' *What can go wrong* and of the symptom map, and answers of Predict, that no other
planted mistake holds in this DSL: what the check says.

A name in brackets is the row that nothing else holds at all; the others are the twin of one in the other DSL.
"""

from __future__ import annotations

import pytest

from tests.grading.mistakes import Mistake, planted, require_said

TWO, FIVE, FEW = (128, 128, 128), (128, 128, 320), (256, 256, 128)  # FEW: four tiles, by TMA in both DSLs
WIDE, SQUARE = (256, 512, 64), (256, 256, 64)
CLUSTER = (256, 768, 576)
SECOND = {"size": (1536, 1792, 64), "ctas": (0, 1)}  # a CTA has two tiles of one K tile each

INIT = """        if warp_idx == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(full, 1)
"""
INIT_FENCE = "            cute.arch.mbarrier_init_fence()  # the async proxy has to see the barrier too\n"
EXPECT = "                    cute.arch.mbarrier_arrive_and_expect_tx(full, tile_bytes)\n"
ELECTED = f"""            if warp_idx == 0:
                with cute.arch.elect_one():
{EXPECT}"""
ARRIVE = "                    T.mbarrier_arrive(full)  # the one arrival; bytes are the rest of the phase\n"
T_GEMM = "                        T.wgmma_gemm(*operands, acc, transpose_B=True, clear_accum=(k == 0))\n"
C_GEMM = "                        cute.gemm(mma, acc, A_frag[at], B_frag[at], acc)\n"
C_STORE = "        cute.autovec_copy(out, my_D)\n"
A_LOAD = "            cute.copy(copy, A_src[None, None, None, k], A_regs)\n"
C_LOOP = "cutlass.range(K // block_K, unroll=1)"
FULL_RANGE = "cutlass.range(k_tiles + num_stages - 1, unroll=1)"
OUT_FENCE = (
    "            T.fence_proxy_async()  # threads wrote D_shared; TMA reads it by the async proxy\n"  # step 4
)
USE = "            use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)\n"
TILES = "            for tile in cutlass.range(cta, tiles_M * tiles_N, sm_count, unroll=1):\n"
A_MAP = "        load_A, A = cpasync"
SWIZZLE_64 = f"""        narrow = warpgroup.SmemLayoutAtomKind.K_SW64
        narrow = warpgroup.make_smem_layout_atom(narrow, cutlass.Float16)
        stage_A = cute.tile_to_shape(narrow, (block_M, block_K), order=(0, 1))
{A_MAP}"""
ENDS_EARLY = "without K tile 4: the loop ends too early"
READS_ACC = "reads the accumulator, which a wgmma may still write"
MAY_READ = "overwrites shared memory that wgmma of warps 0-3 may still read"
OUT_WAIT = "                cute.arch.cp_async_bulk_wait_group(0, read=True)\n"
MIXED = "alone, of 256 x 512: are x and y of the grid mixed up, or M and N?"


def tilelang(step: str, part: str, *edits: tuple[str, str], **said: object) -> Mistake:
    return Mistake(step, "tilelang", edits, part, **said)


def cute(step: str, part: str, *edits: tuple[str, str], **said: object) -> Mistake:
    return Mistake(step, "cute", edits, part, **said)


NEVER_ENDS = {
    "04 the init in a warp that there is not [map: barrier-uninitialised]": cute(
        "step04",
        "results",
        (INIT, INIT.replace("warp_idx == 0", "warp_idx == 4")),
        size=TWO,
        says=("as an mbarrier, which no init has made one",),
        line="cute.arch.mbarrier_wait(full",
    ),
    "04 no fence after the init [map: barrier-init-race]": cute(
        "step04",
        "results",
        (INIT_FENCE, ""),
        size=TWO,
        says=("TMA signals full", "whose initialisation no fence has made visible"),
        line="cute.copy(load_A",
    ),
    "04 a count of 0 [map: barrier-init-count]": cute(
        "step04",
        "results",
        ("mbarrier_init(full, 1)", "mbarrier_init(full, ring // 8)"),
        size=TWO,
        says=("initialises an mbarrier for 0 arrivals",),
        line="mbarrier_init(full, ring // 8)",
    ),
    "04 a count of 0, TileLang": tilelang(
        "step04",
        "compiles",
        ("T.alloc_barrier(1)", "T.alloc_barrier(1 // 2)"),
        size=FEW,
        says=("arrive_count must be at least 1",),
        line="T.alloc_barrier(1 // 2)",
    ),
    "04 the CTA's barrier in an elected branch [map: it stands where 1 lane came]": cute(
        "step04",
        "results",
        (EXPECT, f"{EXPECT}                    cute.arch.sync_threads()\n"),
        size=TWO,
        says=("warp 0 waits at barrier 0", "1 of 128 threads", "it stands where 1 lane of the warp came"),
        line="cute.arch.sync_threads()",
    ),
    "04 the CTA's barrier in an elected branch, TileLang": tilelang(
        "step04",
        "results",
        (ARRIVE, f"{ARRIVE}                    T.sync_threads()\n"),
        size=FEW,
        says=("warp 0 waits at barrier 0", "1 of 128 threads", "it stands where 1 lane of the warp came"),
        line="T.sync_threads()",
    ),
    "07 three warps of four multiply [map: a wgmma that 3 of the 4 warps have issued]": cute(
        "step07",
        "results",
        (C_GEMM, f"                        if warp_idx != 5:\n    {C_GEMM}"),
        says=(
            "for a wgmma that 3 of the 4 warps",
            "of its warpgroup have issued; consumer warp 5 went on without it",
        ),
        never=("empty",),
        line="cute.gemm(",
    ),
    "07 three warps of four multiply, TileLang [map: takes whole warpgroups]": tilelang(
        "step07",
        "compiles",
        (T_GEMM, f"                        if thread >= 160:\n    {T_GEMM}"),
        says=("T.wgmma_gemm takes whole warpgroups", "128 threads"),
        line="T.wgmma_gemm(",
    ),
    "10 each consumer asks for 240 registers": cute(
        "step10",
        "results",
        ("setmaxregister_increase(232)", "setmaxregister_increase(240)"),
        says=("asks for 66,560 registers in all, and a CTA has 64,512",),
        line="setmaxregister_increase(240)",
    ),
    "07 a number of registers that is no multiple of 8, CuTe DSL [map: setmaxnreg-count]": cute(
        "step07",
        "compiles",
        ("setmaxregister_increase(232)", "setmaxregister_increase(236)"),
        says=("setmaxnreg takes a multiple of 8 from 24 to 256",),
        line="setmaxregister_increase(236)",
    ),
    "10 a named barrier of all three warpgroups": cute(
        "step10",
        "results",
        ("NamedBarrier(1, 256)", "NamedBarrier(1, 384)"),
        size=WIDE,
        says=("where 256 of 384 threads are, and no other warp comes to it",),
        line="consumers.arrive_and_wait()",
    ),
    "04 nobody arrives": cute(
        "step04",
        "results",
        ("mbarrier_arrive_and_expect_tx(full", "mbarrier_expect_tx(full"),
        size=TWO,
        says=("full, parity 0: its phase 0 lacks 1 of 1 arrivals",),
        never=("bytes",),
        line="mbarrier_wait(full",
    ),
    "04 one thread of each warp arrives [04: 4 arrivals a phase]": cute(
        "step04",
        "results",
        (ELECTED, f"            with cute.arch.elect_one():\n{EXPECT[4:]}            if warp_idx == 0:\n"),
        size=TWO,
        says=("4 arrivals a phase on full come from warps 0-3", "its init counts 1"),
        line="mbarrier_arrive_and_expect_tx(",
    ),
    "07 the consumer's state is made for each tile": cute(
        "step07",
        "results",
        (USE + TILES, TILES + "    " + USE),
        says=("wait for full[0] twice, which was filled once, and never for full[1]: does the stage go on?",),
        line="pipe.consumer_wait(use)",
        **SECOND,
    ),
    "05 the load's state does not advance [05: whether both states advance]": cute(
        "step05",
        "results",
        ("                load.advance()\n", ""),
        size=FIVE,
        says=("arrives on full[0] again", "does its stage go on, or begin anew?"),
        line="pipe.producer_acquire(load)",
    ),
    "08 the consumers' group counts threads": cute(
        "step08",
        "results",
        ("Agent.Thread, 4)", "Agent.Thread, 128)"),
        says=("empty[0], parity 0: its phase 0 lacks 124 of 128 arrivals", "its init counts 128"),
    ),
    "09 empty counts twice the warps": cute(
        "step09",
        "results",
        ("Agent.Thread, cluster * 4", "Agent.Thread, cluster * 8"),
        size=CLUSTER,
        says=("empty[0], parity 0: its phase 0 lacks 8 of 16 arrivals", "its init counts 16"),
    ),
    "10 empty counts twice the warps": cute(
        "step10",
        "results",
        ("Agent.Thread, cluster * 8", "Agent.Thread, cluster * 16"),
        says=("empty[0], parity 0: its phase 0 lacks 16 of 32 arrivals", "its init counts 32"),
    ),
}

WRONG = {
    "01 D is never stored, CuTe DSL": cute(
        "step01", "results", (C_STORE, ""), size=(128, 128, 64), says=("the kernel wrote no element of D",)
    ),
    "03 half of the threads store [map: Parts of tiles are missing]": cute(
        "step03",
        "results",
        (C_STORE, f"        if thread < 64:\n    {C_STORE}"),
        size=WIDE,
        says=("65,536 of 131,072 elements were never written",),
        line="cute.autovec_copy(out, my_D)",
    ),
    "01 A copied twice": cute(
        "step01",
        "results",
        ("cute.copy(copy, B_src, B_regs)", "cute.copy(copy, A_src, B_regs)"),
        size=(128, 128, 64),
        says=("A's tile lies where B's belongs",),
    ),
    "02 fp16 sums": cute(
        "step02",
        "instructions",
        ("MmaF16BF16Op(fp16, fp32,", "MmaF16BF16Op(fp16, fp16,"),
        ("(my_D.shape, cutlass.Float32)", "(my_D.shape, cutlass.Float16)"),
        size=FIVE,
        says=("`wgmma.mma_async` with an fp32 accumulator",),
    ),
    "03 D goes to A [map: changed its input]": tilelang(
        "step03",
        "results",
        (
            "T.copy(acc, D[m : m + block_M, n : n + block_N])",
            "T.copy(acc, A[m : m + block_M, n : n + block_N])",
        ),
        size=SQUARE,
        says=("the kernel changed its input A; the kernel wrote no element of D",),
    ),
    "02 the first round adds": cute(
        "step02",
        "results",
        ("mma.set(warpgroup.Field.ACCUMULATE, False)", "mma.set(warpgroup.Field.ACCUMULATE, True)"),
        size=FIVE,
        says=("adds to registers that nothing has written",),
        line="cute.gemm(",
    ),
    "02 the same columns in every round": cute(
        "step02",
        "results",
        ("A_src[None, None, None, k]", "A_src[None, None, None, 0]"),
        ("B_src[None, None, None, k]", "B_src[None, None, None, 0]"),
        size=FIVE,
        says=("with K tile 0 (5 times): every round multiplied the same columns of K",),
    ),
    "02 the loop ends one round early": cute(
        "step02",
        "results",
        (C_LOOP, C_LOOP.replace("block_K,", "block_K - 1,")),
        size=FIVE,
        says=(ENDS_EARLY,),
        line="for k in",
    ),
    "03 A cut by n": cute(
        "step03",
        "results",
        ("local_tile(A, (block_M, block_K), (m, None))", "local_tile(A, (block_M, block_K), (n, None))"),
        size=(512, 256, 64),
        says=("these rows of A belong to another tile",),
        line="A_src[None, None, None, k]",
    ),
    "03 x and y mixed up, and a square D": cute(
        "step03", "", ("n, m, _ = cute.arch.block_idx()", "m, n, _ = cute.arch.block_idx()"), size=SQUARE
    ),
    "03 rows and columns of the store, and a square D [map: mirror place]": tilelang(
        "step03",
        "results",
        ("D[m : m + block_M, n : n + block_N]", "D[n : n + block_N, m : m + block_M]"),
        size=SQUARE,
        says=("D's tile is stored at its mirror place",),
        line="T.copy(acc, D[n",
    ),
    "03 rows and columns of the store, and a square D, CuTe DSL": cute(
        "step03",
        "results",
        ("(block_M, block_N), (m, n))", "(block_M, block_N), (n, m))"),
        size=SQUARE,
        says=("D's tile is stored at its mirror place",),
        line="cute.autovec_copy(out, my_D)",
    ),
    "04 x and y mixed up [map: TMA goes past no edge]": tilelang(
        "step04",
        "results",
        ("m, n = by * block_M, bx * block_N", "m, n = bx * block_M, by * block_N"),
        size=WIDE,
        says=("The kernel wrote D[0:256, 0:256]", MIXED),
    ),
    "04 x and y mixed up, CuTe DSL": cute(
        "step04",
        "results",
        ("n, m, _ = cute.arch.block_idx()", "m, n, _ = cute.arch.block_idx()"),
        size=WIDE,
        says=("The kernel wrote D[0:256, 0:256]", MIXED),
    ),
    "04 A's map has another swizzle [map: swizzle-mismatch]": cute(
        "step04",
        "results",
        (A_MAP, SWIZZLE_64),
        size=FEW,
        says=("TMA loads A with swizzle 64B, and wgmma", "reads it with 128B", "take one layout?"),
        line="cute.copy(load_A",
    ),
    "06 a grid of 7": cute(
        "step06",
        "results",
        ("grid=(sm_count, 1, 1)", "grid=(7, 1, 1)"),
        says=("7 CTAs took 7 of D's 8 tiles",),
        line="for tile in",
    ),
    "09 the rank is not in the row that is loaded, CuTe DSL": cute(
        "step09",
        "results",
        (
            "                    m = row * cluster + rank\n                    for i",
            "                    m = row * cluster\n                    for i",
        ),
        size=(512, 768, 64),
        says=("these rows of A belong to another tile",),
        line="cute.copy(load_A",
    ),
    "07 A by the next stage, TileLang": tilelang(
        "step07",
        "results",
        ("operands = A_shared[stage, :, :]", "operands = A_shared[(stage + 1) % num_stages, :, :]"),
        says=(
            "reads A as loaded for full[1]",
            "the wait before it",
            "is for full[0]: which stage index has each?",
        ),
        line="T.wgmma_gemm(",
    ),
}

RACES = {
    "02 no wait for the multiplication": cute(
        "step02",
        "results",
        ("            warpgroup.wait_group(0)\n", ""),
        size=FIVE,
        says=(MAY_READ,),
        line="cute.copy(copy, A_regs, A_dst)",
    ),
    "04 no wait for the multiplication": cute(
        "step04",
        "results",
        ("            warpgroup.wait_group(0)\n", ""),
        size=TWO,
        says=(MAY_READ,),
        line="cute.copy(load_A",
    ),
    "05 no wait for the multiplication": cute(
        "step05",
        "results",
        ("                warpgroup.wait_group(0)\n", ""),
        size=FIVE,
        says=(MAY_READ, "released empty[0] too early"),
        line="pipe.consumer_release(use)",
    ),
    "07 no wait for the multiplication": tilelang(
        "step07",
        "results",
        ("                        T.wait_wgmma(0)\n", ""),
        says=("wgmma of consumer warps 4-7 may still read", "released empty[0] too early"),
        line="T.mbarrier_arrive(empty[stage])",
    ),
    "04 no fence on the way out [04, map: that your code lacks here]": tilelang(
        "step04",
        "instructions",
        (OUT_FENCE, ""),
        size=FEW,
        says=("a fence that your code lacks here and TileLang put back", "a TMA store (warp 0) reads"),
        line="T.tma_copy(D_shared",
    ),
    "04 no fence on the way out, CuTe DSL": cute(
        "step04",
        "instructions",
        ("        cute.arch.fence_view_async_shared()\n", ""),
        size=TWO,
        says=("reads what warp 0 wrote with ordinary stores", "no fence.proxy.async"),
    ),
    "05 the loop ends a step early": cute(
        "step05",
        "results",
        (FULL_RANGE, FULL_RANGE.replace("- 1", "- 2")),
        size=FIVE,
        says=("Nobody waits for the load of A[0:128, 256:320]", "4 of 5 fills"),
        line="cute.copy(load_A",
    ),
    "05 a load too many": cute(
        "step05",
        "results",
        ("            if i < k_tiles:\n", "            if i < k_tiles + 1:\n"),
        size=FIVE,
        says=("Nobody waits for the load of A[0:128, 320:384], which lies outside it", "5 of 6 fills"),
        line="cute.copy(load_A",
    ),
    "07 the consumer takes a K tile less": cute(
        "step07",
        "results",
        (
            "for k in cutlass.range(k_tiles, unroll=1):\n                    pipe.consumer_wait(use)",
            "for k in cutlass.range(k_tiles - 1, unroll=1):\n                    pipe.consumer_wait(use)",
        ),
        says=("Nobody waits for the load of A[0:128, 256:320]", "4 of 5 fills"),
        line="cute.copy(load_A",
    ),
    "07 no wait for the last store": tilelang(
        "step07",
        "results",
        (
            "tiles.next_tile()\n                T.tma_store_wait(0)\n                ### END",
            "tiles.next_tile()\n                ### END",
        ),
        says=("consumer warp 4 ends and has not waited for its TMA store",),
        line="T.tma_copy(D_shared",
    ),
    "10 always writes buffer 0": cute(
        "step10",
        "results",
        ("out_dst[None, 0, i, c % 2]", "out_dst[None, 0, i, 0]"),
        size=WIDE,
        says=(
            "TMA store of D reads shared bytes",
            "but threads have just written",
            "have both the same index?",
        ),
        line="cute.copy(store_D",
    ),
    "09 both CTAs load the same half of B [09: every second block of columns]": cute(
        "step09",
        "results",
        ("cpasync.tma_partition(load_B, rank, pair", "cpasync.tma_partition(load_B, 0, pair"),
        size=CLUSTER,
        says=("two loads of one phase of full[0] write the same bytes", "does each bring its half, by rank?"),
        line="cute.copy(load_B",
    ),
}

MISSING = {
    "06 no wait for the store, CuTe DSL": cute(
        "step06",
        "instructions",
        (f"            if warp_idx == 0:\n{OUT_WAIT}", ""),
        says=("overwrites shared memory that the TMA store of D may still read",),
        **SECOND,
    ),
    "08 waits for every group": cute(
        "step08",
        "instructions",
        ("warpgroup.wait_group(1)", "warpgroup.wait_group(0)"),
        says=("a `wgmma.wait_group` above 0", "found `wgmma.wait_group` 0 only"),
    ),
    "03 one CTA for all of D": cute(
        "step03",
        "instructions",
        ("grid=(N // block_N, M // block_M, 1)", "grid=(1, 1, 1)"),
        size=WIDE,
        says=("a grid that covers D, one tile a CTA; found a grid of 1 x 1 x 1",),
    ),
    "10 waits for every store": tilelang(
        "step10",
        "instructions",
        ("T.tma_store_wait(1)", "T.tma_store_wait(0)"),
        size=WIDE,
        says=("stores in flight", "found it in 0 of 12 slices"),
    ),
    "10 waits for every store, CuTe DSL": cute(
        "step10",
        "instructions",
        ("cp_async_bulk_wait_group(1, read=True)", "cp_async_bulk_wait_group(0, read=True)"),
        size=WIDE,
        says=("stores in flight", "found it in 0 of 12 slices"),
    ),
    "09 no producer_tail": cute(
        "step09",
        "instructions",
        ("                pipe.producer_tail(load)\n", ""),
        size=CLUSTER,
        says=("uses the shared memory of CTA", "nothing keeps that CTA from ending before"),
    ),
}

COMPILES = {
    "04 an index too few [map: 3-dimensional]": tilelang(
        "step04",
        "compiles",
        ("A_shared[0, :, :], barrier=full", "A_shared[0], barrier=full"),
        size=FEW,
        says=("Buffer A_shared is 3-dimensional", "but 1 index(es) were provided"),
        line="A_shared[0], barrier=full",
    ),
    "06 for, with a condition [map: not iterable]": tilelang(
        "step06",
        "compiles",
        ("while tiles.valid():", "for _ in tiles.valid():"),
        says=("a TIR expression or buffer is not iterable",),
        line="for _ in tiles.valid()",
    ),
    "06 T.serial of a condition [map: scalar integer as the loop_var]": tilelang(
        "step06",
        "compiles",
        ("while tiles.valid():", "for _ in T.serial(tiles.valid()):"),
        says=("For nodes require a scalar integer as the loop_var",),
        line="T.serial(tiles.valid())",
    ),
    "04 B's copy names no barrier [map: a barrier argument]": tilelang(
        "step04",
        "compiles",
        ("B_shared[0, :, :], barrier=full)", "B_shared[0, :, :])"),
        size=FEW,
        says=("requires a barrier argument",),
        line="B_shared[0, :, :])",
    ),
    "04 2,048 threads [map: Hopper allows 1024]": tilelang(
        "step04",
        "compiles",
        ("threads=128", "threads=2048"),
        size=FEW,
        says=("the kernel asks for 2048 threads a CTA; Hopper allows 1024",),
    ),
    "04 2,048 threads, CuTe DSL [map: too few registers]": cute(
        "step04",
        "compiles",
        ("block=(128, 1, 1)", "block=(2048, 1, 1)"),
        size=TWO,
        says=("registers a thread do not hold this kernel", "at most 1,024 threads"),
    ),
    "09 131 CTAs in pairs [map: a multiple of the cluster's]": tilelang(
        "step09",
        "compiles",
        ("sm_count = 132", "sm_count = 131"),
        size=CLUSTER,
        says=("each extent of the grid must be a multiple of the cluster's",),
    ),
    "09 131 CTAs in pairs, CuTe DSL": cute(
        "step09",
        "compiles",
        ("sm_count = 132", "sm_count = 131"),
        size=CLUSTER,
        says=("each extent of the grid must be a multiple of the cluster's",),
    ),
    "07 eight slots": tilelang(
        "step07",
        "compiles",
        ("ring = 2, 4", "ring = 2, 8"),
        says=("bytes of shared memory; an SM of sm_90 gives a CTA at most 232,448",),
    ),
    "07 eight slots, CuTe DSL": cute(
        "step07",
        "compiles",
        ("ring = 4", "ring = 8"),
        says=("bytes of shared memory; an SM of sm_90 gives a CTA at most 232,448",),
    ),
    "04 the fp32 registers into the fp16 ones [map: Type mismatch]": cute(
        "step04",
        "compiles",
        ("acc.load().to(cutlass.Float16)", "acc.load()"),
        size=TWO,
        says=("Type mismatch, store Float32", "to Tensor with element type Float16"),
        line="out.store(acc.load())",
    ),
    "06 break [map: Early exit]": cute(
        "step06",
        "compiles",
        (
            "                if i < k_tiles:\n",
            "                if i == 9:\n                    break\n                if i < k_tiles:\n",
        ),
        says=("Early exit (break) is not allowed",),
        line="break",
    ),
    "02 a name of one branch [map: staged control flow]": cute(
        "step02",
        "compiles",
        (A_LOAD, "            if k > 0:\n                j = k\n" + A_LOAD.replace("None, k]", "None, j]")),
        size=FIVE,
        says=("name 'j' is not defined", "Variables used inside staged control flow"),
    ),
    "04 A's modes are not grouped [map: same size in the first rank]": cute(
        "step04",
        "compiles",
        (
            "cute.group_modes(cute.local_tile(A, (block_M, block_K), (None, None)), 0, 2)",
            "cute.local_tile(A, (block_M, block_K), (None, None))",
        ),
        size=FEW,
        says=("expects smem and gmem have the same size in the first rank",),
        line="cpasync.tma_partition(load_A",
    ),
}
MISTAKES = NEVER_ENDS | WRONG | RACES | MISSING | COMPILES


@pytest.mark.parametrize("mistake", planted(MISTAKES, {}))
def test_what_the_check_says(mistake: Mistake) -> None:
    require_said(mistake)
