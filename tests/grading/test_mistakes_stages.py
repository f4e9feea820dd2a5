"""Tiles, stages, bytes, buffers and registers that two want, or nobody gives back: what the check says."""

from __future__ import annotations

import pytest

from tests.grading.mistakes import Mistake, planted, require_said

TL, CUTE = "tilelang", "cute"
MANY = {"size": (4864, 2304, 192), "ctas": (-1,)}
COUSINS = {"size": (4864, 2304, 64), "ctas": (0, 131)}

TILE_LOOP = "cutlass.range(cta, tiles_M * tiles_N, sm_count, unroll=1)"
CLUSTER_LOOP = "for tile in cutlass.range(cta // cluster, tiles, clusters, unroll=1):\n"
RELEASE = """                        if T.shuffle_elect(128):
                            T.mbarrier_arrive(empty[stage])
"""  # of step 7
FREE_LAST = """                pipe.consumer_release(free)
                free.advance()
                ###"""  # of step 8
AGAIN = "                            T.tma_copy(B[ns, ks], B_shared[stage, :, :], barrier=full[stage])\n"
HALF = "tile_bytes = (block_M + block_N) * block_K * 2"


def shifted(text: str) -> tuple[tuple[str, str], ...]:
    """Both roles of step 9 go on by one cluster too few."""
    first = f"                {CLUSTER_LOOP}                    row"
    second = f"            {CLUSTER_LOOP}                row"
    return tuple((t, t.replace("clusters,", text)) for t in (first, second))


USE = "        use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)"
TURN = """                                T.mbarrier_arrive(full[stage])
                            it = it + 1
"""  # of step 7
WIDE = {"size": (1536, 1792, 64), "ctas": (0, 1)}  # a CTA has two tiles of one K tile each

MISTAKES = {
    # -- two CTAs compute one tile
    "06 the loop goes on by 131": Mistake(
        "step06",
        CUTE,
        ((TILE_LOOP, TILE_LOOP.replace("sm_count", "sm_count - 1")),),
        "results",
        says=("CTAs 0 and 131 both store D[", "grid has 132 CTAs", "by how many does it go on"),
        never=("who issues",),
        line="cute.copy(store_D",
        **COUSINS,
    ),
    "06 the scheduler knows 131 workers": Mistake(
        "step06",
        TL,
        (("num_workers=sm_count,", "num_workers=sm_count - 1,"),),
        "results",
        says=("CTAs 0 and 131 both store D[", "grid has 132 CTAs", "by how many does it go on"),
        never=("who issues",),
        line="T.tma_copy(D_shared",
        **COUSINS,
    ),
    "06 a grid of 264, and 132 workers": Mistake(
        "step06",
        TL,
        (("T.Kernel(sm_count,", "T.Kernel(2 * sm_count,"),),
        "results",
        says=("both store D[", "grid has 264 CTAs", "by how many does it go on"),
        line="T.tma_copy(D_shared",
        size=(1536, 1792, 64),
        ctas=(0, 132),
    ),
    "06 every CTA begins at tile 0, CuTe DSL": Mistake(
        "step06",
        CUTE,
        ((TILE_LOOP, TILE_LOOP.replace("cta,", "0,")),),
        "results",
        says=("CTAs 0 and 1 both store D[0:128, 0:64]", "at which tile does each begin"),
        size=(128, 256, 64),
        ctas=(0, 1),
    ),
    "09 the loop goes on by 65 clusters": Mistake(
        "step09",
        CUTE,
        shifted("clusters - 1,"),
        "results",
        says=("both store D[", "grid has 132 CTAs", "by how many does it go on"),
        size=(4864, 2304, 64),
        ctas=(0, 131),
    ),
    "03 two CTAs for each tile [the one of its kind]": Mistake(
        "step03",
        TL,
        (("T.Kernel(N // block_N,", "T.Kernel(2 * N // block_N,"), ("bx * block_N", "bx // 2 * block_N")),
        "results",
        says=("both store D[", "grid has 4 x 2 CTAs", "which tile has each"),
        line="T.copy(acc, D[",
        size=(256, 256, 64),
    ),
    # -- two loads of one stage in one round
    "09 B by multicast and by each CTA": Mistake(
        "step09",
        TL,
        (
            (
                "                            if T.shuffle_elect(32):",
                f"{AGAIN}                            if T.shuffle_elect(32):",
            ),
        ),
        "results",
        says=("two loads of one phase of full[0]", "same bytes", "B by CTA", "line 57", "line 63", "by rank"),
        never=("before anyone",),
        line="T.tma_copy(B[ns, ks]",
    ),
    "09 both CTAs multicast the same half": Mistake(
        "step09",
        CUTE,
        (("tma_partition(load_B, rank, pair,", "tma_partition(load_B, 0, pair,"),),
        "results",
        says=("two loads of one phase of full[0]", "B by CTA", "does each bring its half, by rank"),
        never=("before anyone",),
        line="cute.copy(load_B",
    ),
    "07 every load goes to slot 0": Mistake(
        "step07",
        TL,
        (("A_shared[stage, :, :], barrier", "A_shared[0, :, :], barrier"),),
        "results",
        says=("this load of A is for full[1]", "the same place", "which stage index"),
        never=("before anyone",),
        line="T.tma_copy(A[ms, ks], A_shared[0",
        ctas=(0,),
    ),
    "07 every load goes to slot 0, CuTe DSL": Mistake(
        "step07",
        CUTE,
        (("A_dst[None, s]", "A_dst[None, 0]"),),
        "results",
        says=("this load of A is for full[1]", "the same place", "which stage index"),
        never=("before anyone",),
        line="cute.copy(load_A",
        ctas=(0,),
    ),
    "04 B goes to A's buffer": Mistake(
        "step04",
        TL,
        (("B_shared[0, :, :], barrier=full)", "A_shared[0, :, :], barrier=full)"),),
        "results",
        says=("two loads of one phase of full", "A by warp 0", "B by warp 0", "which buffer has each"),
        line="T.tma_copy(B[ns, ks], A_shared",
    ),
    "04 B goes to A's buffer, CuTe DSL [the one of its kind]": Mistake(
        "step04",
        CUTE,
        (("B_dst[None, 0], tma_bar_ptr=full)", "A_dst[None, 0], tma_bar_ptr=full)"),),
        "results",
        says=("two loads of one phase of full", "A by warp 0", "B by warp 0", "which buffer has each"),
        line="cute.copy(load_B",
    ),
    "05 A is loaded twice": Mistake(
        "step05",
        TL,
        (
            (
                "                    T.tma_copy(A[ms, ks]",
                "                    T.tma_copy(A[ms, ks], A_shared[load, :, :], barrier=full[load])\n"
                "                    T.tma_copy(A[ms, ks]",
            ),
        ),
        "results",
        says=("two loads of one phase of full[0]", "line 38", "line 39", "one too many"),
        line="T.tma_copy(A[ms, ks]",
    ),
    # -- more stages than slots
    "05 five stages, four slots [the one of its kind]": Mistake(
        "step05",
        TL,
        (("num_stages, ring = 2, 4", "num_stages, ring = 5, 4"),),
        "results",
        says=("for full[4]", "full has 5 stages", "has the ring of A as many slots"),
        line="T.tma_copy(A[ms, ks]",
    ),
    "05 five stages, four slots, CuTe DSL": Mistake(
        "step05",
        CUTE,
        (("num_stages = 2", "num_stages = 5"),),
        "results",
        says=("for full[4]", "full has 5 stages", "has the ring of A as many slots"),
        line="cute.copy(load_A",
    ),
    "08 a slot too few for A": Mistake(
        "step08",
        TL,
        (("A_shared = T.alloc_shared((num_stages,", "A_shared = T.alloc_shared((num_stages - 1,"),),
        "results",
        says=("for full[3]", "full has 4 stages", "has the ring of A as many slots"),
        line="T.tma_copy(A[ms, ks]",
        ctas=(0,),
    ),
    "08 a slot too few for A, CuTe DSL": Mistake(
        "step08",
        CUTE,
        (
            (
                "layout_A = cute.tile_to_shape(atom, (block_M, block_K, num_stages)",
                "layout_A = cute.tile_to_shape(atom, (block_M, block_K, num_stages - 1)",
            ),
        ),
        "results",
        says=("for full[3]", "full has 4 stages", "has the ring of A as many slots"),
        line="cute.copy(load_A",
        ctas=(0,),
    ),
    # -- other bytes than the loads bring
    "04 the bytes of A alone": Mistake(
        "step04",
        CUTE,
        (("_expect_tx(full, tile_bytes)", "_expect_tx(full, block_M * block_K * 2)"),),
        "results",
        says=("expects 16,384 bytes", "loads of 32,768 bytes"),
        line="mbarrier_arrive_and_expect_tx(full, block_M",
    ),
    "07 a pipeline that counts the bytes of A alone": Mistake(
        "step07",
        CUTE,
        ((HALF, "tile_bytes = block_M * block_K * 2"),),
        "results",
        says=("expects 16,384 bytes", "loads of 32,768 bytes"),
        line="PipelineTmaAsync.create(",
        ctas=(0,),
    ),
    "04 twice the bytes": Mistake(
        "step04",
        CUTE,
        (("_expect_tx(full, tile_bytes)", "_expect_tx(full, 2 * tile_bytes)"),),
        "results",
        says=("lacks 32,768 of 65,536 bytes", "its loads bring 32,768"),
        line="mbarrier_arrive_and_expect_tx(full, 2",
    ),
    "04 bytes that no load brings": Mistake(
        "step04",
        TL,
        (
            (
                "                T.tma_copy(A[ms, ks], A_shared[0, :, :], barrier=full)\n",
                "                if T.shuffle_elect(128):\n"
                "                    T.mbarrier_expect_tx(full, 16384)\n"
                "                T.tma_copy(A[ms, ks], A_shared[0, :, :], barrier=full)\n",
            ),
        ),
        "results",
        says=("lacks 16,384 of 49,152 bytes", "its loads bring 32,768"),
        line="T.mbarrier_expect_tx(full, 16384)",
    ),
    # -- stages that are never given back
    "07 one stage of two is given back": Mistake(
        "step07",
        TL,
        ((RELEASE, RELEASE.replace("(128):", "(128) and stage == 0:")),),
        "results",
        says=(
            "empty[1]",
            "nobody arrives on it after consumer warps 4-7 read the stage",
            "released empty[0]",
        ),
        line="T.mbarrier_arrive(empty[stage])",
        ctas=(0,),
    ),
    "07 one stage of two is given back, CuTe DSL": Mistake(
        "step07",
        CUTE,
        (
            (
                "                    pipe.consumer_release(use)\n",
                "                    if use.index == 0:\n"
                "                        pipe.consumer_release(use)\n",
            ),
        ),
        "results",
        says=(
            "empty[1]",
            "nobody arrives on it after consumer warps 4-7 read the stage",
            "released empty[0]",
        ),
        line="pipe.consumer_release(use)",
        ctas=(0,),
    ),
    "08 the last stage of a tile is kept, CuTe DSL": Mistake(
        "step08",
        CUTE,
        ((FREE_LAST, "                ###"),),
        "results",
        says=("empty[2]", "nobody arrives on it after consumer warps 4-7 read the stage"),
        **MANY,
    ),
    "10 one consumer warpgroup gives stages back": Mistake(
        "step10",
        TL,
        (("if k > 0 and thread % 128 < cluster:", "if k > 0 and thread < 256 and thread % 128 < cluster:"),),
        "results",
        says=("empty[0]", "2 of 4 arrivals", "consumer warps 8-11", "have read the stage", "do not arrive"),
        never=("warps 4-",),
        ctas=(0,),
    ),
    "05 nobody gives a stage back": Mistake(
        "step05",
        CUTE,
        (("                pipe.consumer_release(use)\n", ""),),
        "results",
        says=("empty[0]", "nobody arrives on it after warps 0-3 read the stage"),
    ),
    "05 warp 0 alone gives stages back": Mistake(
        "step05",
        CUTE,
        (
            (
                "                pipe.consumer_release(use)\n",
                "                if warp_idx == 0:\n                    pipe.consumer_release(use)\n",
            ),
        ),
        "results",
        says=("empty[0]", "lacks 3 of 4 arrivals", "warps 1-3 have read the stage and do not arrive"),
        never=("init counts",),
        line="pipe.consumer_release(use)",
    ),
    "07 a full barrier that counts 32": Mistake(
        "step07",
        CUTE,
        (
            (
                "producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread)",
                "producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 32)",
            ),
        ),
        "results",
        says=("full[0]", "lacks 31 of 32 arrivals", "producer warp 0", "its init counts 32"),
        line="PipelineTmaAsync.create(",
        **WIDE,
    ),
    # -- two sides that take other stages
    "05 the wait counts from the loop's first step": Mistake(
        "step05",
        TL,
        (("stage = k % num_stages", "stage = i % num_stages"),),
        "results",
        says=("warps 0-3 wait for full[1] as the first stage", "fills full[0] as the first (line 38)"),
        never=("before anyone",),
        line="T.mbarrier_wait_parity(full[stage]",
    ),
    "05 the consumer's state is one ahead": Mistake(
        "step05",
        CUTE,
        ((f"{USE}\n", f"{USE}\n        use.advance()\n"),),
        "results",
        says=("warps 0-3 wait for full[1] as the first stage", "fills full[0] as the first"),
        line="pipe.consumer_wait(use)",
    ),
    "06 the load's stage begins anew with each tile": Mistake(
        "step06",
        TL,
        (("load = (done + i) % num_stages", "load = i % num_stages"),),
        "results",
        says=("warp 0 fills full[0] as the 2nd stage", "warps 0-3 wait for full[1] as the 2nd (line 54)"),
        line="T.tma_copy(A[ms, ks]",
        **WIDE,
    ),
    "07 the producer keeps its turn": Mistake(
        "step07",
        TL,
        ((TURN, TURN.partition("\n")[0] + "\n"),),
        "results",
        says=("producer warp 0 fills full[0] as the 2nd stage", "wait for full[1] as the 2nd"),
        never=("before anyone",),
        line="T.tma_copy(A[ms, ks]",
        **WIDE,
    ),
    "07 the producer keeps its turn, CuTe DSL": Mistake(
        "step07",
        CUTE,
        (("                        load.advance()\n", ""),),
        "results",
        says=("producer warp 0 arrives on full[0] again", "wait for empty[0] passed again", "stage go on"),
        never=("who arrives",),
        line="pipe.producer_acquire(load)",
        ctas=(0,),
    ),
    "05 B goes to the other stage": Mistake(
        "step05",
        TL,
        (("B_shared[load, :, :], barrier", "B_shared[(load + 1) % num_stages, :, :], barrier"),),
        "results",
        says=("loads B for full[1] into slot 0", "wgmma (line 47) reads slot 1", "which stage index"),
        line="T.tma_copy(B[ns, ks]",
        ctas=(0,),
    ),
    "08 wgmma reads the next stage of B": Mistake(
        "step08",
        TL,
        (("B_shared[stage, :, :]\n", "B_shared[(it + 1) % num_stages, :, :]\n"),),
        "results",
        says=("wgmma reads B as loaded for full[1] (line 48)", "the wait before it (line 61) is for full[0]"),
        line="T.wgmma_gemm(",
        ctas=(0,),
    ),
    "05 wgmma reads the load's stage": Mistake(
        "step05",
        CUTE,
        (("k_block, use.index)", "k_block, load.index)"),),
        "results",
        says=("wgmma reads A as loaded for full[", "the wait before it", "which stage index has each"),
        never=("too early, too late",),
        line="cute.gemm(",
        size=(256, 512, 384),
    ),
    # -- a store of the other buffer
    **{
        f"{step[-2:]} stores the other buffer{', CuTe DSL' * (dsl == CUTE)}": Mistake(
            step,
            dsl,
            ((index, index.replace("c % 2", other)),),
            "results",
            says=("store of D reads shared bytes", "threads have just written", "same index"),
            line=index[:10],
            ctas=(0,),
        )
        for step, other in (("step10", "0"), ("t5", "(c + 1) % 2"))
        for dsl, index in ((TL, "T.tma_copy(D_shared[c % 2, :, :]"), (CUTE, "D_src[None, c % 2]"))
    },
    "t5 writes two slices to one buffer": Mistake(
        "t5",
        CUTE,
        (("out_dst[None, None, i, c % 2]", "out_dst[None, None, i, c // 2]"),),
        "results",
        says=("store of D reads shared bytes", "threads have just written", "same index"),
        never=("may still read",),
        line="store_D, D_src",
        ctas=(0,),
    ),
    # -- registers in the wrong role
    "07 registers taken by the producer, too [the one of its kind]": Mistake(
        "step07",
        TL,
        (("dec_max_nreg(40)", "inc_max_nreg(232)"),),
        "instructions",
        says=("inc 232 by the producer",),
        line="T.inc_max_nreg(232)",
        ctas=(0,),
    ),
    "07 registers given by the consumer, too, CuTe DSL": Mistake(
        "step07",
        CUTE,
        (("setmaxregister_increase(232)", "setmaxregister_decrease(40)"),),
        "instructions",
        says=("dec 40 by the consumer",),
        line="cute.arch.setmaxregister_decrease(40)",
        ctas=(0,),
    ),
    "07 the roles' registers exchanged, CuTe DSL": Mistake(
        "step07",
        CUTE,
        (
            ("setmaxregister_decrease(40)", "setmaxregister_increase(232)"),
            (
                "            cute.arch.setmaxregister_increase(232)\n            use",
                "            cute.arch.setmaxregister_decrease(40)\n            use",
            ),
        ),
        "instructions",
        says=("inc 232 by the producer, dec 40 by the consumer",),
        line="cute.arch.setmaxregister_increase(232)",
        ctas=(0,),
    ),
}


@pytest.mark.parametrize("mistake", planted(MISTAKES, {}))
def test_the_card_of_a_mistake(mistake):
    require_said(mistake)
