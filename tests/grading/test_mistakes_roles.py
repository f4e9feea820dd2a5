"""Who waits for what, and who gives what back: loads that nobody waits for, the wrong role's barrier,
releases that go elsewhere, and threads that meet in the wrong number. What the check says.
"""

from __future__ import annotations

import pytest

from tests.grading.mistakes import Mistake, planted, require_said

TL, CUTE = "tilelang", "cute"
WIDE = {"size": (1536, 1792, 64), "ctas": (0, 1)}  # a CTA has two tiles of one K tile each
CLUSTER = {"size": (256, 768, 576)}
SHORT = {"size": (256, 768, 64)}

WAIT = "                        T.mbarrier_wait_parity(full[stage], (it // num_stages) & 1)\n"
RELEASE = """                        if T.shuffle_elect(128):
                            T.mbarrier_arrive(empty[stage])
"""  # of step 7
LATE_RELEASE = (
    "                                T.mbarrier_arrive(empty[(it - 1) % num_stages])\n"  # of step 8
)
STATE = "pipeline.make_pipeline_state(pipeline.PipelineUserType."
MMA_SET = "            mma.set(warpgroup.Field.ACCUMULATE, False)\n"
CONSUMER_LOOP = (
    f"            use = {STATE}Consumer, num_stages)\n"
    "            for tile in cutlass.range(cta, tiles_M * tiles_N, sm_count, unroll=1):"
)
COPIES = "            T.copy(A, A_shared)\n            T.copy(B, B_shared)\n"
SYNC = "            T.sync_threads()\n"
INIT_FENCE = "            cute.arch.mbarrier_init_fence()  # the async proxy has to see the barrier too\n"
ARRIVAL = """                if T.shuffle_elect(128):
                    T.mbarrier_arrive(full)  # the one arrival; bytes are the rest of the phase
"""

READ_WAIT = """            if warp_idx == 0:
                cute.arch.cp_async_bulk_wait_group(0, read=True)
"""
IN_LOOP = "                            T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)\n"
AFTER_LOOP = """                    if thread % 128 < cluster:
                        T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
"""
A_LOAD = "T.tma_copy(A[ms, ks], A_shared[stage, :, :], barrier=full[stage])"

MISTAKES = {
    # -- a load that nobody waits for
    "07 the consumer keeps its turn [07: it]": Mistake(
        "step07",
        TL,
        ((RELEASE + "                        it = it + 1\n", RELEASE),),
        "results",
        says=("consumer warps 4-7 wait for full[0] twice", "filled once", "never for full[1]", "stage go on"),
        line="T.mbarrier_wait_parity(full[stage]",
        **WIDE,
    ),
    "07 the consumer takes every second tile": Mistake(
        "step07",
        CUTE,
        ((CONSUMER_LOOP, CONSUMER_LOOP.replace("sm_count", "2 * sm_count")),),
        "results",
        says=(
            "nobody waits for the load of A[",
            "(full[1], phase 0)",
            "consumer warps 4-7 wait for 1 of 2 fills",
        ),
        line="cute.copy(load_A",
        **WIDE,
    ),
    "07 a launch of 128 threads": Mistake(
        "step07",
        CUTE,
        (("block=(256, 1, 1)", "block=(128, 1, 1)"),),
        "results",
        says=("nobody waits for the load of A[", "no warp of the launch's 128 threads multiplies", "branch"),
        line="cute.copy(load_A",
        **WIDE,
    ),
    "07 a launch of 128 threads, and many K tiles": Mistake(
        "step07",
        CUTE,
        (("block=(256, 1, 1)", "block=(128, 1, 1)"),),
        "results",
        says=("waits for empty[0]", "no warp of the launch's 128 threads multiplies", "branch"),
        ctas=(0,),
    ),
    "07 a launch of 128 threads, TileLang": Mistake(
        "step07",
        TL,
        (("threads=256", "threads=128"),),
        "instructions",
        says=("found no wgmma", "any of the launch's 128 threads take the consumer's branch"),
        **WIDE,
    ),
    # -- a wait for the wrong barrier, or none
    "07 the producer waits for full": Mistake(
        "step07",
        TL,
        (("T.mbarrier_wait_parity(empty[stage]", "T.mbarrier_wait_parity(full[stage]"),),
        "results",
        says=("producer warp 0 waits for full[0]", "its own loads", "nobody waits for empty"),
        line="T.mbarrier_wait_parity(full[stage]",
        ctas=(0,),
    ),
    "07 one wait for full a tile": Mistake(
        "step07",
        TL,
        ((WAIT, "                        if k == 0:\n    " + WAIT),),
        "results",
        says=("as loaded for full[1]", "the wait before it", "is for full[0]"),
        never=("3 arrivals",),
        line="T.wgmma_gemm(",
        ctas=(0,),
    ),
    "07 both roles begin at the second round": Mistake(
        "step07",
        TL,
        (("init=0", "init=num_stages"),),
        "results",
        says=("its wait for full[0] asked for parity 1, which a new barrier has passed",),
        line="T.mbarrier_wait_parity(full[stage]",
        ctas=(0,),
    ),
    "06 the states begin anew with each tile": Mistake(
        "step06",
        CUTE,
        (
            (
                MMA_SET,
                f"{MMA_SET}            load = {STATE}Producer, num_stages)\n"
                f"            use = {STATE}Consumer, num_stages)\n",
            ),
        ),
        "results",
        says=("warp 0 waits for empty[0]", "again, and never for empty[1]", "begin anew"),
        never=("nobody arrives",),
        line="pipe.producer_acquire(load)",
        **WIDE,
    ),
    # -- arrivals
    "04 the arrival before the copies": Mistake(
        "step04",
        TL,
        ((ARRIVAL, ""), ("                # tma_copy elects", f"{ARRIVAL}                # tma_copy elects")),
        "results",
        says=("warp 0 arrives on full with no bytes expected", "ends phase 0"),
        line="T.mbarrier_arrive(full)",
        ctas=(0,),
    ),
    "07 all four warps of the producer load": Mistake(
        "step07",
        TL,
        (("                if thread < 32:\n", "                if thread < 128:\n"),),
        "results",
        says=("4 arrivals a phase on full[0]", "producer warps 0-3", "init counts 1"),
        line="T.mbarrier_arrive(full[stage])",
        ctas=(0,),
    ),
    # -- releases that go elsewhere
    "08 the release of this round's stage": Mistake(
        "step08",
        TL,
        ((LATE_RELEASE, LATE_RELEASE.replace("(it - 1) % num_stages", "stage")),),
        "results",
        says=("empty[0]", "nobody arrives on it after consumer warps 4-7", "last released empty[3]"),
        line="T.mbarrier_arrive(empty[stage])",
        ctas=(0,),
    ),
    "08 the release of this round's stage, CuTe DSL": Mistake(
        "step08",
        CUTE,
        (
            (
                "                    if k > 0:\n                        pipe.consumer_release(free)\n",
                "                    if k > 0:\n                        pipe.consumer_release(use)\n",
            ),
        ),
        "results",
        says=("empty[0]", "nobody arrives on it after consumer warps 4-7", "last released empty[3]"),
        line="pipe.consumer_release(use)",
        ctas=(0,),
    ),
    "07 an election that elects no consumer": Mistake(
        "step07",
        TL,
        ((RELEASE, RELEASE.replace("(128)", "(256)")),),
        "results",
        says=("nobody arrives on it after consumer warps 4-7", "none of them ran the release"),
        line="T.mbarrier_arrive(empty[stage])",
        ctas=(0,),
    ),
    "09 a multicast to one CTA": Mistake(
        "step09",
        CUTE,
        (("cutlass.Int16(0b11)", "cutlass.Int16(0b01)"),),
        "results",
        says=("wait for full[0]", "lacks 16,384 of 32,768 bytes", "multicast of B goes to CTA 0 alone"),
        line="cute.copy(load_B",
        size=(256, 768, 64),
        ctas=(0,),
    ),
    # -- threads that meet, or do not
    "04 no barrier after the init": Mistake(
        "step04",
        CUTE,
        ((INIT_FENCE + "        cute.arch.sync_threads()\n", INIT_FENCE),),
        "results",
        says=("uses an mbarrier", "whose init", "no barrier is between"),
        never=("shared address",),
        ctas=(0,),
    ),
    "10 a named barrier of 128": Mistake(
        "step10",
        CUTE,
        (("pipeline.NamedBarrier(1, 256)", "pipeline.NamedBarrier(1, 128)"),),
        "results",
        says=("256 threads, consumer warps 4-11, come to barrier 1", "counts 128"),
        line="consumers.arrive_and_wait()",
        ctas=(0,),
        **SHORT,
    ),
    "10 both warpgroups write the same rows": Mistake(
        "step10",
        CUTE,
        (("to_shared.get_slice(thread - 128)", "to_shared.get_slice(thread % 128)"),),
        "results",
        says=("reads shared memory that nothing has written", "write to the same place"),
        line="cute.copy(to_shared",
        ctas=(0,),
        **SHORT,
    ),
    **{
        f"{step[-2:]} no barrier before the buffer is written again{more}": Mistake(
            step,
            CUTE,
            ((wait + barrier, wait),),
            "results",
            says=(
                "overwrites shared memory",
                "store of D may still read",
                f"{waits} waits for it",
                "no barrier",
            ),
            never=("not waited for",),
            line="cute.copy(to_shared",
            **size,
        )
        for step, wait, barrier, waits, size, more in (
            ("step06", READ_WAIT, "            cute.arch.sync_threads()\n", "warp 0", WIDE, ""),
            (
                "step10",
                "                        cute.arch.cp_async_bulk_wait_group(1, read=True)\n",
                "                    consumers.arrive_and_wait()\n",
                "warp 4",
                {"size": (256, 768, 64), "ctas": (0,)},
                ", of two",
            ),
        )
    },
    "10 both consumers store": Mistake(
        "step10",
        CUTE,
        (
            (
                "                    if warp_idx == 4:\n                        cute.copy(\n",
                "                    if warp_idx % 4 == 0:\n                        cute.copy(\n",
            ),
        ),
        "results",
        says=("consumer warps 4, 8 each store D[", "one warp issues the store"),
        line="cute.copy(store_D",
        ctas=(0,),
        **SHORT,
    ),
    # -- a pair of CTAs
    "09 both arrivals at the own rank": Mistake(
        "step09",
        TL,
        tuple((text, text.replace("thread % 128)\n", "rank)\n")) for text in (IN_LOOP, AFTER_LOOP)),
        "results",
        says=("all arrivals on empty[0]", "come from its own CTA, none from the other"),
        never=("too early",),
        line="T.mbarrier_arrive(empty[",
        ctas=(0,),
        **CLUSTER,
    ),
    "09 A by multicast, too": Mistake(
        "step09",
        TL,
        ((A_LOAD, A_LOAD.replace("full[stage])", "full[stage], cluster_mask=0b11)")),),
        "results",
        says=("both CTAs of the cluster the same tiles of A and B", "(lines 55, 57)", "of its own"),
        line="T.tma_copy(A[ms, ks]",
        ctas=(0,),
        **SHORT,
    ),
    # -- a first wait
    "05 the load's state is a consumer's": Mistake(
        "step05",
        CUTE,
        ((f"load = {STATE}Producer", f"load = {STATE}Consumer"),),
        "results",
        says=("empty[0], parity 0", "on a new barrier a wait for parity 1 passes at once"),
        line="pipe.producer_acquire(load)",
    ),
    # -- what the values tell
    "01 multiplied twice": Mistake(
        "step01",
        TL,
        (
            (
                "            T.wait_wgmma(0)\n",
                "            T.wait_wgmma(0)\n"
                "            T.wgmma_gemm(A_shared, B_shared, acc, transpose_B=True)\n"
                "            T.wait_wgmma(0)\n",
            ),
        ),
        "results",
        says=("twice its own product",),
        never=("former tile",),
        size=(128, 128, 64),
    ),
    "01 the fence and the barrier before the copies": Mistake(
        "step01",
        TL,
        ((COPIES, ""), (SYNC, SYNC + COPIES)),
        "instructions",
        says=("your code lacks here", "TileLang put back"),
        never=("left out",),
        size=(128, 128, 64),
    ),
    "10 one slice too few": Mistake(
        "step10",
        TL,
        (("T.unroll(block_N // epi_N)", "T.unroll(block_N // epi_N - 1)"),),
        "results",
        says=("columns 192:256 of each 256 were never written", "slices"),
        **SHORT,
    ),
    "03 tiles 64 rows apart": Mistake(
        "step03",
        TL,
        (("m, n = by * block_M", "m, n = by * 64"),),
        "results",
        says=("both store D[", "which tile has each"),
        line="T.copy(acc, D[",
    ),
    "09 the consumer's row without the rank": Mistake(
        "step09",
        CUTE,
        (
            (
                "                m = row * cluster + rank\n                mma",
                "                m = row * cluster\n                mma",
            ),
        ),
        "results",
        says=("both store D[", "one cluster", "count the CTA's rank"),
        line="m = row * cluster",
        **SHORT,
    ),
}


@pytest.mark.parametrize("mistake", planted(MISTAKES, {}))
def test_the_card_of_a_mistake(mistake):
    require_said(mistake)
