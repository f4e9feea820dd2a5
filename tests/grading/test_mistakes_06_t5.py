"""What learners get wrong in steps 6 to 10, in copies and in tensor maps, and what the check says of it.

A name in brackets is where a notebook tells of it: a Predict question, or a row of "What can go wrong".
"""

from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest

from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import load_factory_source, load_module, plant, solution_path
from course_utils.grading.copy import check_copy
from course_utils.grading.maps import check_maps
from tests.grading.mistakes import Mistake, planted, require_said

TL, CUTE = "tilelang", "cute"
# A persistent kernel's last CTA, which has several tiles of three K tiles
MANY = {"size": (4864, 2304, 192), "ctas": (-1,)}
EPILOGUES = {"size": (4864, 2304, 64), "ctas": (-1,)}  # one K tile between two epilogues
ROUNDS = {"size": (256, 128, 832)}  # one cluster tile of step 9, twice through its ring of six stages
ONE_TILE = {"size": (128, 256, 192)}
PAIR = {"size": (256, 128, 192)}  # one cluster tile

# -- what TileLang's kernels have

STORE_WAIT = "                T.tma_store_wait(0)  # the previous tile's store has read D_shared\n"  # step 6
WAIT_FULL = "T.mbarrier_wait_parity(full[stage], (it // num_stages) & 1)\n"
EPILOGUE_SYNC = "                    T.sync_threads(1, 128)  # named barrier 1: the consumer's threads only\n"
STORE_SYNC = "                    T.fence_proxy_async()\n                    T.sync_threads(1, 128)\n"
RELEASE = """                        if T.shuffle_elect(128):
                            T.mbarrier_arrive(empty[stage])
"""  # of step 7
FILLED = """                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(full[stage])
"""
COUNTED = "                            it = it + 1\n"
NEXT_LOADED = "                        tiles.next_tile()\n                ### END"
NEXT_USED = "                    T.tma_copy(D_shared, D[ms, ns])\n                    tiles.next_tile()\n"
LATE_RELEASE = """                        if k > 0:
                            if T.shuffle_elect(128):
                                T.mbarrier_arrive(empty[(it - 1) % num_stages])
"""  # of step 8
DRAIN = """                    T.wait_wgmma(0)
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(empty[(it - 1) % num_stages])
"""
TELL_BOTH = """                        if k > 0 and thread % 128 < cluster:  # thread i tells CTA i
                            T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
"""  # of steps 9 and 10
TELL_LAST = """                    if thread % 128 < cluster:
                        T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
"""
ROW_LOADED = "multicast, arrive\n                        m, n = (tiles.m_idx * cluster + rank)"
ROW_STORED = "for both\n                    m, n = (tiles.m_idx * cluster + rank)"
CLUSTER_END = "            T.cluster_sync()  # a CTA that left could not be told about, or written to\n"
LOAD_B = """                            T.tma_copy(
                                B[ns, ks],
                                B_shared[stage, :, :],
                                barrier=full[stage],
                                cluster_mask=0b11,
                            )
"""
BEFORE_CHUNK = "T.sync_threads(1, 128 * consumers)\n                        T.copy"  # of step 10
BEFORE_STORE = "T.sync_threads(1, 128 * consumers)\n                        part"
CHUNK = "T.copy(acc[:, c * epi_N : (c + 1) * epi_N], D_shared[c % 2, :, :])"
COLUMNS = "part = slice(n + c * epi_N, n + (c + 1) * epi_N)"

# all that step 10's learner writes, and the same where no thread comes, beside step 3's loop
ROLES = (
    solution_path("step10", TL).read_text().partition("and a common end\n")[2].partition("            ###")[0]
)
IN_A_DEAD_BRANCH = f"""            if A[0, 0] > T.float16(60000):
{textwrap.indent(ROLES, "    ")}            elif thread >= 128:
                while tiles.valid():
                    m, n = (tiles.m_idx * cluster + rank) * block_M, tiles.n_idx * block_N
                    for k in T.serial(k_tiles):
                        ks = slice(k * block_K, (k + 1) * block_K)
                        T.copy(A[m : m + block_M, ks], A_shared[0, :, :])
                        T.copy(B[n : n + block_N, ks], B_shared[0, :, :])
                        T.fence_proxy_async()
                        T.sync_threads(1, 256)
                        operands = A_shared[0, :, :], B_shared[0, :, :]
                        T.wgmma_gemm(
                            *operands, acc, transpose_B=True, clear_accum=(k == 0), policy=rows
                        )
                        T.wait_wgmma(0)
                        T.sync_threads(1, 256)
                    T.copy(acc, D[m : m + block_M, n : n + block_N])
                    tiles.next_tile()
"""

# -- what CuTe DSL's have

STATES = """        load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
        use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
"""  # of step 6
LOADS = """                        cute.copy(load_A, A_src[None, m, k], A_dst[None, s], tma_bar_ptr=full)
                        cute.copy(load_B, B_src[None, n, k], B_dst[None, s], tma_bar_ptr=full)
"""  # of step 7
FREE = """                    if k > 0:
                        pipe.consumer_release(free)
                        free.advance()
"""  # of step 8
FREE_LAST = """                pipe.consumer_release(free)
                free.advance()
                ###"""
COMMIT = "                cute.arch.cp_async_bulk_commit_group()\n"
WAIT_READ = """            if warp_idx == 0:
                cute.arch.cp_async_bulk_wait_group(1, read=True)
            cute.arch.sync_threads()
"""  # of case t5
FENCE = "            cute.arch.fence_view_async_shared()\n"


def indented(text: str) -> str:
    return textwrap.indent(text, "    ")


def at_home(text: str) -> str:
    """Only the own CTA is told."""
    return text.replace("thread % 128 < cluster:", "thread % 128 == 0:").replace(", thread % 128)", ", rank)")


def twice_at_home(text: str) -> str:
    return text.replace(", thread % 128)", ", rank)")


MISTAKES = {
    # -- step 6
    "06 done is never counted on [row: right at K = 4096]": Mistake(
        "step06",
        TL,
        (("                done = done + k_tiles\n", ""),),
        "results",
        says=("wait for full[1]", "parity 0", "phase 2"),
        never=("producer", "consumer", "empty"),
        line="T.mbarrier_wait_parity(full[stage]",
        **MANY,
    ),
    "06 the same, and K is a multiple of four K tiles [Predict: stage and parity set back]": Mistake(
        "step06",
        TL,
        (("                done = done + k_tiles\n", ""),),
        "",
        size=(4864, 2304, 256),
        ctas=(-1,),
    ),
    "06 turns are counted, not K tiles [row: never ends from the second tile]": Mistake(
        "step06",
        TL,
        (("done = done + k_tiles", "done = done + k_tiles + num_stages - 1"),),
        "results",
        says=("full[1]", "parity 0"),
        never=("producer", "consumer", "empty"),
        line="T.mbarrier_wait_parity(full[stage]",
        **MANY,
    ),
    "06 next_tile is forgotten": Mistake(
        "step06",
        TL,
        (("                tiles.next_tile()\n", ""),),
        "results",
        says=("never leaves this loop", "tiles.valid()"),
        never=("lanes", "mask", "branch", "producer", "consumer"),
        line="while tiles.valid():",
        ctas=(0,),
    ),
    "06 a while loop that takes no next tile": Mistake(
        "step06",
        CUTE,
        (
            (
                "        for tile in cutlass.range(cta, tiles_M * tiles_N, sm_count, unroll=1):\n",
                "        tile = cta\n        while tile < tiles_M * tiles_N:\n",
            ),
        ),
        "results",
        says=("never leaves this loop", "nothing in it changes `tile < tiles_M * tiles_N`"),
        never=("lanes", "mask", "branch", "producer", "consumer"),
        line="while tile < tiles_M * tiles_N:",
        ctas=(0,),
    ),
    "06 tiles of M and N exchanged in the scheduler": Mistake(
        "step06",
        TL,
        (("M // block_M, N // block_N, num_workers", "N // block_N, M // block_M, num_workers"),),
        "results",
        says=("wrote D[0:256, 0:256] alone, of 256 x 512", "M and N", "order of tiles", "cover D"),
    ),
    "06 done + k // num_stages": Mistake(
        "step06",
        TL,
        (("((done + k) // num_stages) & 1", "(done + k // num_stages) & 1"),),
        "results",
        says=("wait for full[0]", "parity 1"),
        never=("producer", "empty"),
        line="T.mbarrier_wait_parity(full[stage], (done + k // num_stag",
        **MANY,
    ),
    "06 a CTA for each tile, which loops over one [Predict: what does the check say]": Mistake(
        "step06",
        TL,
        (
            ("T.Kernel(sm_count,", "T.Kernel(M // block_M * (N // block_N),"),
            ("num_workers=sm_count", "num_workers=M // block_M * (N // block_N)"),
        ),
        "instructions",
        says=("persistent grid", "684 x 1 x 1"),
        **MANY,
    ),
    **{
        f"{step[-2:]} a grid of {ctas} CTAs, {dsl}": Mistake(
            step,
            dsl,
            (("sm_count = 132", f"sm_count = {ctas}"),),
            "instructions",
            says=("persistent grid", f"{ctas} of 132 SMs have a CTA"),
            **EPILOGUES,
        )
        for step, dsl, ctas in (
            ("step06", TL, 131),
            ("step06", CUTE, 66),
            ("step09", TL, 66),
            ("step09", CUTE, 130),
        )
    },
    "06 the sum is cleared in the CTA's first tile alone [row: sums of earlier tiles as well]": Mistake(
        "step06",
        TL,
        (("clear_accum=(k == 0)", "clear_accum=(done + k == 0)"),),
        "results",
        says=("its own sum and", "a former tile's sum was not cleared"),
        size=(2176, 1024, 64),  # 136 tiles: CTA 0 has a second one
        ctas=(0,),
    ),
    "06 the same in CuTe DSL [row: sums of earlier tiles as well]": Mistake(
        "step06",
        CUTE,
        (
            (
                "            mma.set(warpgroup.Field.ACCUMULATE, False)\n",
                "            if tile == cta:\n                mma.set(warpgroup.Field.ACCUMULATE, False)\n",
            ),
        ),
        "results",
        says=("its own sum and", "a former tile's sum was not cleared"),
        size=(2176, 1024, 64),  # 136 tiles: CTA 0 has a second one
        ctas=(0,),
    ),
    "06 fewer CTAs than the scheduler has workers [row: tiles never written, far apart]": Mistake(
        "step06",
        TL,
        (("T.Kernel(sm_count,", "T.Kernel(4,"),),
        "results",
        says=("wrote D[0:128, 0:512] alone, of 256 x 512", "tiles of all CTAs (by the grid"),
        size=(256, 512, 64),
    ),
    "06 the loop ends a tile early [row: the last tile never written]": Mistake(
        "step06",
        CUTE,
        (("range(cta, tiles_M * tiles_N, sm_count", "range(cta, tiles_M * tiles_N - 1, sm_count"),),
        "results",
        says=("16,384 of 131,072 elements were never written", "rows 128..255, columns 384..511"),
        size=(256, 512, 64),
    ),
    "07 both roles stop a K tile early [row: wrong by about one K tile's part]": Mistake(
        "step07",
        TL,
        (("k_tiles = K // block_K", "k_tiles = K // block_K - 1"),),
        "results",
        says=("without K tile 2", "the loop ends too early"),
        size=(128, 256, 192),
    ),
    "07 the same in CuTe DSL [row: wrong by about one K tile's part]": Mistake(
        "step07",
        CUTE,
        (("k_tiles = K // block_K", "k_tiles = K // block_K - 1"),),
        "results",
        says=("without K tile 2", "the loop ends too early"),
        size=(128, 256, 192),
    ),
    "08 empty counts an arrival more [row: never ends after four K tiles]": Mistake(
        "step08",
        TL,
        (("empty = T.alloc_barrier([1]", "empty = T.alloc_barrier([2]"),),
        "results",
        says=("producer warp 0 waits for empty[0]", "lacks 1 of 2 arrivals"),
        line="empty = T.alloc_barrier([2]",
        size=(128, 256, 576),
    ),
    "06 panels of 16 on a D of 14 columns of tiles": Mistake(
        "step06",
        TL,
        (("swizzle_size=4", "swizzle_size=16"),),
        "instructions",
        says=("an order of tiles for L2",),
        size=(1536, 1792, 64),
    ),
    "06 a grid of 128 CTAs, as step 10 has it": Mistake(
        "step06", TL, (("sm_count = 132", "sm_count = 128"),), "", **EPILOGUES
    ),
    "06 no more CTAs than tiles": Mistake(
        "step06",
        TL,
        (
            ("T.Kernel(sm_count,", "T.Kernel(min(sm_count, M // block_M * (N // block_N)),"),
            ("num_workers=sm_count", "num_workers=min(sm_count, M // block_M * (N // block_N))"),
        ),
        "",
    ),
    "06 the load goes to the stage of done alone": Mistake(
        "step06",
        TL,
        (("load = (done + i) % num_stages", "load = done % num_stages"),),
        "results",
        says=("fills full[0] as the 2nd stage", "wait for full[1] as the 2nd"),
        never=("producer", "consumer", "empty"),
        line="T.tma_copy(A[ms, ks], A_shared[load",
        ctas=(0,),
    ),
    "06 every CTA begins at tile 0": Mistake(
        "step06",
        TL,
        (("tiles.init(cta)", "tiles.init(0)"),),
        "results",
        says=("both store D[0:128, 0:64]", "at which tile does each begin"),
        never=("x and y",),  # the grid has one dimension
        size=(128, 256, 64),
    ),
    "06 waits for the store at once [row: the store under the next tile's loads]": Mistake(
        "step06",
        TL,
        (
            (STORE_WAIT + "                T.sync_threads()\n", ""),
            (
                "                tiles.next_tile()",
                "                T.tma_store_wait(0)\n                T.sync_threads()\n"
                "                tiles.next_tile()",
            ),
        ),
        "instructions",
        says=("under the next tile's loads", "not at once"),
        **MANY,
    ),
    "06 strides of the order that give two tiles one number": Mistake(
        "step06",
        CUTE,
        (("stride=(panel, (1, panel * tiles_M))", "stride=(panel, (1, tiles_M))"),),
        "results",
        says=("CTAs 6 and 14 both store D[", "at which tile does each begin"),
        size=(256, 1024, 64),
    ),
    "06 m and n exchanged": Mistake(
        "step06",
        CUTE,
        (("            m, n = order.get_flat_coord(tile)", "            n, m = order.get_flat_coord(tile)"),),
        "results",
        says=("wrote D[0:256, 0:256] alone, of 256 x 512", "M and N", "order of tiles", "cover D"),
    ),
    "06 warp 1 waits for the stores of warp 0": Mistake(
        "step06",
        CUTE,
        (
            (
                "warp_idx == 0:\n                cute.arch.cp_async_bulk_wait_group(0, read=True)",
                "warp_idx == 1:\n                cute.arch.cp_async_bulk_wait_group(0, read=True)",
            ),
        ),
        "results",
        says=("warp 1 waits for TMA stores here, and has issued none: warp 0 issues them",),
        never=("producer", "consumer", "wgmma"),
        line="cute.arch.cp_async_bulk_wait_group(0, read=True)",
        **EPILOGUES,
    ),
    "06 no barrier after the wait for the store [Predict 13: all 128 threads call wait_group]": Mistake(
        "step06",
        CUTE,
        (("wait_group(0, read=True)\n            cute.arch.sync_threads()\n", "wait_group(0, read=True)\n"),),
        "results",
        says=("overwrites shared memory", "store of D"),
        never=("producer", "wgmma"),
        line="cute.copy(to_shared",
        **EPILOGUES,
    ),
    "06 the store is never committed": Mistake(
        "step06",
        CUTE,
        ((COMMIT, ""),),
        "results",
        says=("overwrites shared memory", "store of D", "no cp.async.bulk.commit_group", "commit_group()"),
        never=("producer", "wgmma"),
        line="cute.copy(store_D",
        **EPILOGUES,
    ),
    "06 states made for each tile [Predict: the two lines move into the loop]": Mistake(
        "step06",
        CUTE,
        ((STATES, ""), ("            m, n = order", indented(STATES) + "            m, n = order")),
        "results",
        says=("waits for empty[1]", "parity 1", "4 of 4 arrivals"),
        never=("producer warp", "consumer"),
        line="pipe.producer_acquire(load)",
        **MANY,
    ),
    # -- step 7, TileLang
    "07 the consumer starts with parity 1 [Predict]": Mistake(
        "step07",
        TL,
        ((WAIT_FULL, WAIT_FULL.replace("& 1)", "& 1 ^ 1)")),),
        "results",
        says=("consumer warps 4-7", "full[0], phase 0", "not waited for", "its last wait asked for parity 1"),
        never=("nothing has written",),
        line="// num_stages) & 1 ^ 1)",
        ctas=(0,),
    ),
    "07 the consumer's count starts again for each tile [row: the second tile of D]": Mistake(
        "step07",
        TL,
        ((NEXT_USED, NEXT_USED + "                    it = 0\n"),),
        "results",
        says=("consumer warps 4-7 wait for full[0] as the", "producer warp 0 fills full[1] as the"),
        line="T.mbarrier_wait_parity(full[stage]",
        **MANY,
    ),
    "07 plain sync_threads in the epilogue [Predict]": Mistake(
        # TileLang narrows it to the threads of the role
        "step07",
        TL,
        (
            (EPILOGUE_SYNC, EPILOGUE_SYNC.replace("(1, 128)", "()")),
            (STORE_SYNC, STORE_SYNC.replace("(1, 128)", "()")),
        ),
        "",
        **MANY,
    ),
    "07 plain sync_threads in the epilogue, CuTe DSL [Predict]": Mistake(
        "step07",
        CUTE,
        (
            (
                "                consumers.arrive_and_wait()\n                out.store",
                "                cute.arch.sync_threads()\n                out.store",
            ),
            (
                "                consumers.arrive_and_wait()\n                if",
                "                cute.arch.sync_threads()\n                if",
            ),
        ),
        "results",
        says=("barrier 0", "128 of 160 threads", "consumer"),
        line="cute.arch.sync_threads()",
        **MANY,
    ),
    "07 the same, with a tile for each CTA [Predict: a test with one tile would not find it]": Mistake(
        "step07",
        CUTE,
        (
            (
                "                consumers.arrive_and_wait()\n                out.store",
                "                cute.arch.sync_threads()\n                out.store",
            ),
            (
                "                consumers.arrive_and_wait()\n                if",
                "                cute.arch.sync_threads()\n                if",
            ),
        ),
        "",
    ),
    "07 barrier 1 of 256 threads in one role": Mistake(
        "step07",
        TL,
        (
            (EPILOGUE_SYNC, EPILOGUE_SYNC.replace("128", "256")),
            (STORE_SYNC, STORE_SYNC.replace("128", "256")),
        ),
        "results",
        says=("consumer warps 4-7", "barrier 1", "128 of 256 threads"),
        never=("mbarrier", "full", "empty"),
        line="T.sync_threads(1, 256)",
        ctas=(0,),
    ),
    "07 barrier 0 of 256 threads in one role [row: no mbarrier is named]": Mistake(
        "step07",
        TL,
        ((EPILOGUE_SYNC, "                    T.sync_threads(0, 256)\n"),),
        "results",
        says=("consumer warps 4-7", "barrier 0", "128 of 256 threads"),
        never=("mbarrier", "full", "empty"),
        line="T.sync_threads(0, 256)",
        ctas=(0,),
    ),
    "07 the producer arrives on empty": Mistake(
        "step07",
        TL,
        ((FILLED, FILLED.replace("full", "empty")),),
        "results",
        says=("producer warp 0", "empty[0]"),
        never=("consumer",),
        line="T.mbarrier_arrive(empty[stage])",
        ctas=(0,),
    ),
    "07 all 128 threads of the consumer arrive": Mistake(
        "step07",
        TL,
        ((RELEASE, "                        T.mbarrier_arrive(empty[stage])\n"),),
        "results",
        says=("consumer warp", "32 arrivals", "on empty[0]", "init counts 1"),
        never=("producer",),
        line="T.mbarrier_arrive(empty[stage])",
        ctas=(0,),
    ),
    "07 one thread of each consumer warp arrives": Mistake(
        "step07",
        TL,
        ((RELEASE, RELEASE.replace("128", "32")),),
        "results",
        says=("4 arrivals", "on empty[0]", "consumer warps 4-7", "init counts 1"),
        line="T.mbarrier_arrive(empty[stage])",
        ctas=(0,),
    ),
    "07 empty counts 4 [row: after as many K tiles as there are stages]": Mistake(
        "step07",
        TL,
        (("empty = T.alloc_barrier([1]", "empty = T.alloc_barrier([4]"),),
        "results",
        says=("producer warp 0", "empty[0]", "3 of 4 arrivals"),
        line="empty = T.alloc_barrier([4]",
        ctas=(0,),
    ),
    "07 nobody arrives on empty [row: after as many K tiles as there are stages]": Mistake(
        "step07",
        TL,
        ((RELEASE, ""),),
        "results",
        says=("producer warp 0", "empty[0]", "1 of 1 arrivals"),
        line="T.mbarrier_wait_parity(empty[stage]",
        ctas=(0,),
    ),
    "07 full counts an arrival for A and one for B": Mistake(
        "step07",
        TL,
        (("full = T.alloc_barrier([1]", "full = T.alloc_barrier([2]"),),
        "results",
        says=("consumer warps 4-7", "full[0]", "1 of 2 arrivals"),
        line="full = T.alloc_barrier([2]",
        ctas=(0,),
    ),
    "07 nobody arrives on full": Mistake(
        "step07",
        TL,
        ((FILLED, ""),),
        "results",
        says=("consumer warps 4-7 wait for full[0]", "1 of 1 arrivals"),
        never=("for empty",),
        ctas=(0,),
    ),
    "07 all 32 lanes of the producer arrive": Mistake(
        "step07",
        TL,
        ((FILLED, "                            T.mbarrier_arrive(full[stage])\n"),),
        "results",
        says=("producer warp 0", "32 arrivals", "on full[0]", "init counts 1"),
        never=("consumer",),
        line="T.mbarrier_arrive(full[stage])",
        ctas=(0,),
    ),
    "07 arrives before it asks for the tiles": Mistake(
        "step07",
        TL,
        (
            (FILLED + COUNTED, COUNTED),
            ("                            ks = slice", FILLED + "                            ks = slice"),
        ),
        "results",
        says=("full[0]",),
        ctas=(0,),
    ),
    "07 registers taken and never given back": Mistake(
        "step07",
        TL,
        (("                T.inc_max_nreg(232)\n", ""),),
        "instructions",
        says=("setmaxnreg.inc", "found dec 40"),
    ),
    "07 a number of registers that is no multiple of 8": Mistake(
        "step07",
        TL,
        (("inc_max_nreg(232)", "inc_max_nreg(236)"),),
        "compiles",
        says=("setmaxnreg", "236", "multiple of 8"),
    ),
    "07 the roles' register numbers exchanged": Mistake(
        "step07",
        TL,
        (
            ("T.dec_max_nreg(40)", "T.inc_max_nreg(232)"),
            (
                "                T.inc_max_nreg(232)\n                while",
                "                T.dec_max_nreg(40)\n                while",
            ),
        ),
        "instructions",
        says=("setmaxnreg", "ptxas ignores"),
        never=("C7507",),
    ),
    "07 the producer never takes its next tile": Mistake(
        "step07",
        TL,
        ((NEXT_LOADED, "                ### END"),),
        "results",
        says=("producer warp 0 never leaves this loop", "tiles.valid()"),
        never=("lanes", "mask", "branch"),
        line="while tiles.valid():",
        **MANY,
    ),
    "07 the consumer never takes its next tile": Mistake(
        "step07",
        TL,
        ((NEXT_USED, NEXT_USED.replace("                    tiles.next_tile()\n", "")),),
        "results",
        says=("consumer warp", "never leaves this loop", "tiles.valid()"),
        never=("lanes", "ldmatrix", "branch"),
        line="while tiles.valid():",
        **MANY,
    ),
    "07 gives the stage back before the wgmma is over": Mistake(
        "step07",
        TL,
        (
            (
                "                        T.wait_wgmma(0)\n" + RELEASE,
                RELEASE + "                        T.wait_wgmma(0)\n",
            ),
        ),
        "results",
        says=("wgmma", "released empty[0] too early", "consumer warp"),
        line="T.mbarrier_arrive(empty[stage])",
        ctas=(0,),
    ),
    "07 nobody waits for the wgmma": Mistake(
        "step07",
        TL,
        (("                        T.wait_wgmma(0)\n", ""),),
        "results",
        says=("wgmma", "released empty[0] too early"),
        line="T.mbarrier_arrive(empty[stage])",
        ctas=(0,),
    ),
    "07 all four warps of the producer's warpgroup load": Mistake(
        "step07",
        TL,
        (("if thread < 32:", "if thread < 128:"),),
        "results",
        says=("4 arrivals a phase on full[0]", "producer warps 0-3", "its init counts 1"),
        never=("barrier[0]",),
        line="T.mbarrier_arrive(full[stage])",
        ctas=(0,),
    ),
    "07 the producer counts no K tiles": Mistake(
        "step07",
        TL,
        ((FILLED + COUNTED, FILLED),),
        "results",
        says=("producer warp 0 fills full[0] as the 2nd stage", "wait for full[1] as the 2nd"),
        line="T.tma_copy(A[ms, ks]",
        ctas=(0,),
    ),
    "07 the consumer counts no K tiles": Mistake(
        "step07",
        TL,
        ((RELEASE + "                        it = it + 1\n", RELEASE),),
        "results",
        says=("consumer warps 4-7 wait for full[0] 5 times", "never for full[1]", "does the stage go on"),
        line="T.mbarrier_wait_parity(full[",
        ctas=(0,),
    ),
    "07 the producer's parity is that of it, not of its round": Mistake(
        "step07",
        TL,
        (("(it // num_stages) & 1 ^ 1", "it & 1 ^ 1"),),
        "results",
        says=("producer warp 0", "waits for empty[1]", "parity 0"),
        line="T.mbarrier_wait_parity(empty[stage], it & 1 ^ 1)",
        ctas=(0,),
    ),
    "07 nobody waits for full [row: a wait is missing]": Mistake(
        "step07",
        TL,
        (("                        " + WAIT_FULL, ""),),
        "results",
        says=("consumer warps 4-7", "full[0]", "have not waited for"),
        line="T.wgmma_gemm(",
        ctas=(0,),
    ),
    "07 more stages than the ring has slots": Mistake(
        "step07",
        TL,
        (("num_stages, ring = 2, 4", "num_stages, ring = 5, 4"),),
        "results",
        says=("producer warp 0", "loads over", "full[0]"),
        line="T.tma_copy(A[ms, ks]",
        ctas=(0,),
    ),
    # -- step 7, CuTe DSL
    "07 no producer_acquire": Mistake(
        "step07",
        CUTE,
        (("                        pipe.producer_acquire(load)\n", ""),),
        "instructions",
        says=("expect_tx", "producer_acquire"),
    ),
    "07 the load state never advances": Mistake(
        "step07",
        CUTE,
        (("                        load.advance()\n", ""),),
        "results",
        says=("producer warp 0", "full[0]", "arrives"),
        line="pipe.producer_acquire(load)",
        ctas=(0,),
    ),
    "07 the use state never advances": Mistake(
        "step07",
        CUTE,
        (("                    use.advance()\n", ""),),
        "results",
        says=("consumer warps 4-7 wait for full[0] 5 times", "never for full[1]", "does the stage go on"),
        line="pipe.consumer_wait(use)",
        ctas=(0,),
    ),
    "07 release before the group is committed": Mistake(
        "step07",
        CUTE,
        (
            ("                    pipe.consumer_release(use)\n", ""),
            (
                "                    warpgroup.commit_group()\n",
                "                    pipe.consumer_release(use)\n"
                "                    warpgroup.commit_group()\n",
            ),
        ),
        "results",
        says=("wgmma of consumer warps 4-7 may still read", "released empty[0] too early"),
        line="pipe.consumer_release(use)",
        ctas=(0,),
    ),
    "07 no consumer_release": Mistake(
        "step07",
        CUTE,
        (("                    pipe.consumer_release(use)\n", ""),),
        "results",
        says=("producer warp 0", "empty[0]", "4 of 4 arrivals"),
        line="pipe.producer_acquire(load)",
        ctas=(0,),
    ),
    "07 the producer has a consumer's state [row: nothing was loaded]": Mistake(
        "step07",
        CUTE,
        (("PipelineUserType.Producer", "PipelineUserType.Consumer"),),
        "results",
        says=("producer warp 0", "empty[0]", "parity 0", "phase 0"),
        line="pipe.producer_acquire(load)",
        ctas=(0,),
    ),
    "07 the loads under elect_one": Mistake(
        "step07",
        CUTE,
        ((LOADS, "                        with cute.arch.elect_one():\n" + indented(LOADS)),),
        "results",
        says=("producer warp 0", "31 lanes"),
        line="cute.copy(load_A",
        ctas=(0,),
    ),
    "07 all four warps of the producer's warpgroup load, CuTe DSL": Mistake(
        "step07",
        CUTE,
        (
            (
                "            if warp_idx == 0:\n                for tile",
                "            if warp_idx < 4:\n                for tile",
            ),
        ),
        "results",
        says=("4 arrivals a phase on full[0]", "producer warps 0-3", "its init counts 1"),
        never=("consumer",),
        line="pipe.producer_acquire(load)",
        ctas=(0,),
    ),
    "07 ACCUMULATE is never set": Mistake(
        "step07",
        CUTE,
        (("                        mma.set(warpgroup.Field.ACCUMULATE, True)\n", ""),),
        "results",
        says=("last 16 columns of K", "accumulate flag was never set"),
        ctas=(0,),
    ),
    "07 no consumer_wait": Mistake(
        "step07",
        CUTE,
        (("                    pipe.consumer_wait(use)\n", ""),),
        "results",
        says=("consumer warps 4-7", "full[0]", "have not waited for"),
        line="cute.gemm(",
        ctas=(0,),
    ),
    "07 the consumer group counts both CTAs' worth of warps": Mistake(
        "step07",
        CUTE,
        (("Agent.Thread, 4)", "Agent.Thread, 8)"),),
        "results",
        says=("producer warp 0", "empty[0]", "4 of 8 arrivals"),
        line="PipelineTmaAsync.create",
        ctas=(0,),
    ),
    "07 the producer group counts a warp's 32 lanes": Mistake(
        "step07",
        CUTE,
        (("CooperativeGroup(pipeline.Agent.Thread),", "CooperativeGroup(pipeline.Agent.Thread, 32),"),),
        "results",
        says=("consumer warps 4-7", "full[0]", "31 of 32 arrivals"),
        line="PipelineTmaAsync.create",
        ctas=(0,),
    ),
}
MISTAKES |= {
    # -- step 8
    "08 a release in every round [Predict: gives back it - 1 in every round]": Mistake(
        "step08",
        TL,
        (
            (
                LATE_RELEASE,
                "                        if T.shuffle_elect(128):\n"
                "                            T.mbarrier_arrive(empty[(it - 1) % num_stages])\n",
            ),
        ),
        "results",
        says=("released empty[3] too early", "consumer warp"),
        line="T.mbarrier_arrive(empty[(it - 1) % num_stages])",
        **MANY,
    ),
    "08 the stage before is given back where it > 0 [row: a stage given back twice]": Mistake(
        "step08",
        TL,
        ((LATE_RELEASE, LATE_RELEASE.replace("k > 0", "it > 0")),),
        "results",
        says=("consumer warp", "released empty[2] too early"),
        line="T.mbarrier_arrive(empty[(it - 1) % num_stages])",
        **MANY,
    ),
    "08 the last stage is never given back [row: the second tile of D]": Mistake(
        "step08",
        TL,
        ((DRAIN, "                    T.wait_wgmma(0)\n"),),
        "results",
        says=("producer warp 0", "empty[2]", "1 of 1 arrivals", "last released empty[0]"),
        line="T.mbarrier_arrive(empty[",
        **MANY,
    ),
    "08 no wait for the last group [row: D lacks parts of the last K tile]": Mistake(
        "step08",
        TL,
        ((DRAIN, DRAIN.split("\n", 1)[1]),),
        "results",
        says=("consumer warp", "wgmma may still write"),
        never=("producer",),
        line="T.copy(acc, D_shared)",
        ctas=(0,),
    ),
    "08 gives back the stage in use [row: a few elements wrong]": Mistake(
        "step08",
        TL,
        ((LATE_RELEASE, RELEASE), (DRAIN, "                    T.wait_wgmma(0)\n")),
        "results",
        says=("wgmma", "released empty[0] too early"),
        line="T.mbarrier_arrive(empty[stage])",
        ctas=(0,),
    ),
    "08 two groups left in flight, and one stage behind": Mistake(
        "step08",
        TL,
        (("T.wait_wgmma(1)", "T.wait_wgmma(2)"),),
        "results",
        says=("wgmma", "released empty[0] too early"),
        line="T.mbarrier_arrive(empty[(it - 1) % num_stages])",
        ctas=(0,),
    ),
    "08 gives back the stage after this one": Mistake(
        "step08",
        TL,
        ((LATE_RELEASE, LATE_RELEASE.replace("it - 1", "it + 1")),),
        "results",
        says=("consumer warp", "arrives on empty[2] 2 times", "full[2] was filled once"),
        line="T.mbarrier_arrive(empty[(it + 1) % num_stages])",
        **MANY,
    ),
    "08 stage - 1, which is -1 for stage 0": Mistake(
        "step08",
        TL,
        ((LATE_RELEASE, LATE_RELEASE.replace("(it - 1) % num_stages", "stage - 1")),),
        "results",
        says=("consumer warp", "stage -1 of empty, which has 4"),
        never=("shared address",),
        line="T.mbarrier_arrive(empty[stage - 1])",
        **MANY,
    ),
    "08 the consumer counts five stages": Mistake(
        "step08",
        TL,
        (
            (
                "it % num_stages\n                        T.mbarrier_wait",
                "it % (num_stages + 1)\n                        T.mbarrier_wait",
            ),
        ),
        "results",
        says=("consumer warp", "stage 4 of full, which has 4"),
        never=("shared address",),
        line="T.mbarrier_wait_parity(full[stage]",
        ctas=(0,),
    ),
    "08 the accumulator is cleared for the first tile alone": Mistake(
        "step08",
        TL,
        (("clear_accum=(k == 0)", "clear_accum=(it == 0)"),),
        "results",
        says=("tile",),
        never=("producer",),
        **MANY,
    ),
    "08 the accumulator is never cleared": Mistake(
        "step08",
        TL,
        (("clear_accum=(k == 0)", "clear_accum=False"),),
        "results",
        says=("consumer warp", "registers that nothing has written"),
        line="T.wgmma_gemm(",
        ctas=(0,),
    ),
    "08 one stage [Predict: the smallest num_stages]": Mistake(
        "step08", TL, (("num_stages = 4", "num_stages = 1"),), "instructions", says=("mbarrier",)
    ),
    "08 two stages [Predict: the smallest num_stages]": Mistake(
        "step08", TL, (("num_stages = 4", "num_stages = 2"),), "instructions", says=("four stages", "found 4")
    ),
    "08 eight stages": Mistake(
        "step08",
        TL,
        (("num_stages = 4", "num_stages = 8"),),
        "compiles",
        says=("294,912 bytes of shared memory", "232,448"),
    ),
    "08 releases the stage in use, CuTe DSL [row: a few elements wrong]": Mistake(
        "step08",
        CUTE,
        (
            (
                FREE + "                    use",
                "                    pipe.consumer_release(use)\n                    use",
            ),
            (FREE_LAST, "                ###"),
        ),
        "results",
        says=("wgmma", "released empty[0] too early"),
        line="pipe.consumer_release(use)",
        ctas=(0,),
    ),
    "08 free never advances": Mistake(
        "step08",
        CUTE,
        ((FREE, FREE.replace("                        free.advance()\n", "")),),
        "results",
        says=("consumer warp", "arrives on empty[0]", "times, and full[0] was filled"),
        line="pipe.consumer_release(free)",
        size=(256, 512, 640),
    ),
    "08 the last stage is never given back, CuTe DSL": Mistake(
        "step08",
        CUTE,
        ((FREE_LAST, "                ###"),),
        "results",
        says=("producer warp 0", "empty[2]", "4 of 4 arrivals", "they last released empty[1]"),
        line="pipe.consumer_release(free)",
        **MANY,
    ),
    "08 a release in every round, CuTe DSL": Mistake(
        "step08",
        CUTE,
        ((FREE, "                    pipe.consumer_release(free)\n                    free.advance()\n"),),
        "results",
        says=("consumer warp", "too early"),
        line="pipe.consumer_release(free)",
        **MANY,
    ),
    "08 waits for all but one after the loop": Mistake(
        "step08",
        CUTE,
        (
            (
                "                warpgroup.wait_group(0)\n                pipe",
                "                warpgroup.wait_group(1)\n                pipe",
            ),
        ),
        "results",
        says=("consumer warp", "wgmma may still write"),
        line="out.store(acc.load()",
        ctas=(0,),
    ),
    # -- step 9, TileLang
    "09 empty counts one CTA's consumer [row: wrong numbers, different each run]": Mistake(
        "step09",
        TL,
        (("[cluster] * num_stages", "[1] * num_stages"),),
        "results",
        says=("2 arrivals", "on empty[0]", "CTAs 0-1", "init counts 1"),
        never=("cluster barrier",),
        line="empty = T.alloc_cluster_barrier([1]",
        **ROUNDS,
    ),
    "09 each consumer arrives at home alone [row: hangs in the second round]": Mistake(
        "step09",
        TL,
        ((TELL_BOTH, at_home(TELL_BOTH)), (TELL_LAST, at_home(TELL_LAST))),
        "results",
        says=("producer warp 0", "empty[0]", "1 of 2 arrivals"),
        **ROUNDS,
    ),
    "09 each consumer arrives twice at home [row: wrong numbers, different each run]": Mistake(
        "step09",
        TL,
        ((TELL_BOTH, twice_at_home(TELL_BOTH)), (TELL_LAST, twice_at_home(TELL_LAST))),
        "results",
        says=(
            "full[0] of CTA 1",
            "before anyone has used them",
            "all arrivals on empty[0] come from its own CTA, none from the other",
        ),
        line="T.mbarrier_arrive(empty[(it - 1) % num_stages], rank)",
        **ROUNDS,
    ),
    "09 rank 1 waits for its own consumer alone [Predict: does its producer need CTA 0's]": Mistake(
        "step09",
        TL,
        tuple(
            (
                text,
                text.replace("thread % 128 < cluster:", "thread % 128 < 1 + 2 * rank:").replace(
                    ", thread % 128)", ", T.min(thread % 128, 1))"
                ),
            )
            for text in (TELL_BOTH, TELL_LAST)
        ),
        "",
        **ROUNDS,
    ),
    "09 threads 0 and 1 of the CTA tell, which are the producer's": Mistake(
        "step09",
        TL,
        (
            (TELL_BOTH, TELL_BOTH.replace("thread % 128 < cluster", "thread < cluster")),
            (TELL_LAST, TELL_LAST.replace("thread % 128 < cluster", "thread < cluster")),
        ),
        "instructions",
        says=("arrival on the other CTA's barrier", "found none"),
        **ROUNDS,
    ),
    "09 all 128 threads tell": Mistake(
        "step09",
        TL,
        (
            (
                TELL_BOTH,
                "                        if k > 0:\n"
                "                            T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 2)\n",
            ),
        ),
        "results",
        says=("consumer warp", "16 arrivals", "on empty[0]", "init counts 2"),
        line="T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 2)",
        **ROUNDS,
    ),
    "09 the last stage is never given back": Mistake(
        "step09",
        TL,
        ((TELL_LAST, ""),),
        "results",
        says=("producer warp 0", "empty[2]", "2 of 2 arrivals", "they last released empty[0]"),
        never=("cluster barrier",),
        line="T.mbarrier_arrive(empty[",
        **MANY,
    ),
    "09 a mask of rank 1 alone": Mistake(
        "step09",
        TL,
        (("cluster_mask=0b11", "cluster_mask=0b10"),),
        "instructions",
        says=("multicast", "the mask names both CTAs"),
        **PAIR,
    ),
    "09 the rank is not in the tile's row [row: two rows of tiles the same, or one missing]": Mistake(
        "step09",
        TL,
        tuple((text, text.replace(" + rank", "")) for text in (ROW_LOADED, ROW_STORED)),
        "results",
        says=("both store D[", "one cluster", "count the CTA's rank"),
    ),
    "09 the rank is not in the row that is loaded [row: two rows of tiles the same]": Mistake(
        "step09",
        TL,
        ((ROW_LOADED, ROW_LOADED.replace(" + rank", "")),),
        "results",
        says=("D[128:192, 0:64] holds A[0:64] @ B[0:64]^T", "rows of A belong to another tile", "cuts A"),
    ),
    "09 A is multicast as well": Mistake(
        "step09",
        TL,
        (
            (
                "A_shared[stage, :, :], barrier=full[stage])",
                "A_shared[stage, :, :], barrier=full[stage], cluster_mask=0b11)",
            ),
        ),
        "results",
        says=("brings both CTAs of the cluster the same tiles of A and B", "(lines 55, 57)"),
        line="T.tma_copy(A[ms, ks]",
    ),
    "09 rows of pairs taken for rows of tiles": Mistake(
        "step09",
        TL,
        tuple(
            (text, text.replace("m_idx * cluster + rank", "m_idx + rank"))
            for text in (ROW_LOADED, ROW_STORED)
        ),
        "results",
        says=("both store D[128:256, 0:64]", "rank 1 of one cluster and rank 0 of another"),
        never=("x and y",),
        size=(512, 128, 320),
    ),
    "09 rank 0 alone arrives on full [row: consumers of one CTA wait for full]": Mistake(
        "step09",
        TL,
        (("if T.shuffle_elect(32):\n", "if rank == 0 and T.shuffle_elect(32):\n"),),
        "results",
        says=("consumer warps 4-7 of CTA", "full[0]", "1 of 1 arrivals"),
        never=("cluster barrier",),
        line="T.mbarrier_wait_parity(full[stage]",
    ),
    "09 rank 0 alone calls the multicast": Mistake(
        "step09",
        TL,
        ((LOAD_B, "                            if rank == 0:\n" + indented(LOAD_B)),),
        "results",
        says=("full[1] of CTA", "expects 16,384 bytes", "32,768"),
        line="T.tma_copy(B[ns, ks]",
    ),
    "09 empty is a barrier of the CTA": Mistake(
        "step09",
        TL,
        (("alloc_cluster_barrier([cluster]", "alloc_barrier([cluster]"),),
        "compiles",
        says=("is a barrier of one CTA", "T.alloc_cluster_barrier"),
        line="T.mbarrier_arrive(empty[(it - 1) % num_stages], thread %",
    ),
    "09 tells a rank that the cluster does not have [row: crash]": Mistake(
        "step09",
        TL,
        ((TELL_BOTH, TELL_BOTH.replace(", thread % 128)", ", thread % 128 + 1)")),),
        "results",
        says=("consumer warp", "cluster of 2"),
        never=("producer",),
        line="T.mbarrier_arrive(empty[(it - 1) % num_stages], thread %",
    ),
    "09 sync_threads at the end": Mistake(
        "step09",
        TL,
        (("            T.cluster_sync()", "            T.sync_threads()"),),
        "instructions",
        says=("uses the shared memory of CTA", "nothing keeps that CTA from ending before"),
    ),
    "09 back through K from one tile too far": Mistake(
        "step09",
        TL,
        (("k, k_tiles - 1 - k)", "k, k_tiles - k)"),),
        "results",
        says=("lie outside A", "from column 192 of 192"),
        **MANY,
    ),
    # -- step 9, CuTe DSL
    "09 empty counts the warps of one CTA": Mistake(
        "step09",
        CUTE,
        (("cluster * 4)", "4)"),),
        "results",
        says=("8 arrivals", "on empty[0]", "CTAs 0-1", "init counts 4"),
        never=("cluster barrier",),
        line="PipelineTmaAsync.create",
        **ROUNDS,
    ),
    "09 empty counts threads": Mistake(
        "step09",
        CUTE,
        (("cluster * 4)", "cluster * 128)"),),
        "results",
        says=("producer warp 0", "empty[0]", "248 of 256 arrivals"),
        line="PipelineTmaAsync.create",
        **ROUNDS,
    ),
    "09 full expects half of B [Predict: how many bytes of B]": Mistake(
        "step09",
        CUTE,
        (("tile_bytes = (block_M + block_N)", "tile_bytes = (block_M + block_N // 2)"),),
        "results",
        says=("full[0]", "expects 24,576 bytes", "32,768"),
        **PAIR,
    ),
    "09 a mask of the CTA itself [row: bytes that the CTA expects go elsewhere]": Mistake(
        "step09",
        CUTE,
        (("both = cutlass.Int16(0b11)", "both = cutlass.Int16(1 << rank)"),),
        "results",
        says=("consumer warps 4-7", "full[0]", "8,192 of 32,768 bytes"),
        line="pipe.consumer_wait(use)",
        **PAIR,
    ),
    "09 rank 0 alone loads its half of B": Mistake(
        "step09",
        CUTE,
        (
            (
                "                        cute.copy(load_B, B_half",
                "                        if rank == 0:\n                            cute.copy(load_B, B_half",
            ),
        ),
        "results",
        says=("consumer warps 4-7", "full[0]", "8,192 of 32,768 bytes"),
        line="pipe.consumer_wait(use)",
        **PAIR,
    ),
    "09 each CTA loads all of B for both": Mistake(
        "step09",
        CUTE,
        (("stage_B, tile_B, cluster)", "stage_B, tile_B)"),),
        "results",
        says=("full[0]",),
        line="cute.copy(load_B",
        **PAIR,
    ),
    "09 an operation that cannot multicast": Mistake(
        "step09",
        CUTE,
        (("make_tiled_tma_atom(g2s_both, B", "make_tiled_tma_atom(g2s, B"),),
        "compiles",
        says=("num_multicast", "non multicast"),
        line="make_tiled_tma_atom(g2s, B",
    ),
    "09 no mask": Mistake(
        "step09",
        CUTE,
        ((", tma_bar_ptr=full, mcast_mask=both)", ", tma_bar_ptr=full)"),),
        "compiles",
        says=("multicast mask", "mcast_mask"),
        line="cute.copy(load_B",
    ),
    "09 the pipeline does not know the cluster": Mistake(
        "step09",
        CUTE,
        (("cute.make_layout((1, cluster, 1, 1))", "cute.make_layout((1, 1, 1, 1))"),),
        "instructions",
        says=("arrival on the other CTA's barrier", "found none"),
        **PAIR,
    ),
    # -- step 10
    "10 the named barrier counts one warpgroup of two": Mistake(
        "step10",
        TL,
        tuple((text, text.replace("128 * consumers", "128")) for text in (BEFORE_CHUNK, BEFORE_STORE)),
        "results",
        says=("256 threads, consumer warps 4-11", "barrier 1, which counts 128"),
        never=("producer",),
    ),
    "10 the named barrier counts the producer [row: hangs in the first epilogue]": Mistake(
        "step10",
        TL,
        tuple((text, text.replace("128 * consumers", "threads")) for text in (BEFORE_CHUNK, BEFORE_STORE)),
        "results",
        says=("consumer warps 4-11", "barrier 1", "256 of 384 threads"),
        never=("producer", "cluster barrier"),
        line="T.sync_threads(1, threads)",
    ),
    "10 policy FullCol: 128 columns for each warpgroup [row: registers used]": Mistake(
        "step10",
        TL,
        (("T.GemmWarpPolicy.FullRow", "T.GemmWarpPolicy.FullCol"),),
        "results",
        says=("a share of the tile's columns (m64n128k16), not of its rows", "fixed registers"),
        never=("producer",),
        line="T.wgmma_gemm(",
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    "10 no policy: each warpgroup has 128 columns, and a chunk is no fixed registers": Mistake(
        "step10",
        TL,
        ((", policy=rows\n", "\n"),),
        "results",
        says=("a share of the tile's columns",),
        never=("producer",),
        line="T.wgmma_gemm(",
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    "10 a buffer for each chunk": Mistake(
        "step10",
        TL,
        ((CHUNK, CHUNK.replace("c % 2", "c")),),
        "results",
        says=("consumer warp", "of shared memory, which has 230,400"),
        line="T.copy(acc[:, c * epi_N",
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    "10 always stores buffer 0": Mistake(
        "step10",
        TL,
        (("T.tma_copy(D_shared[c % 2, :, :], D[", "T.tma_copy(D_shared[0, :, :], D["),),
        "results",
        says=("store of D",),
        never=("wgmma",),
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    "10 always the first chunk of the sums [row: chunks in the wrong columns]": Mistake(
        "step10",
        TL,
        ((CHUNK, CHUNK.replace("c * epi_N : (c + 1) * epi_N", "0:epi_N")),),
        "results",
        says=("D[0:64, 64:128] holds A[0:64] @ B[0:64]^T", "a slice of D"),
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    "10 the chunk's column is c, not c chunks": Mistake(
        "step10",
        TL,
        ((COLUMNS, "part = slice(n + c, n + c + epi_N)"),),
        "results",
        says=("D[0:64, 1:2] holds what belongs in columns 64:65", "places the store"),
        line="T.tma_copy(D_shared[c % 2, :, :], D",
        size=(256, 512, 192),
    ),
    "10 no wait before a buffer is written [row: parts of tiles wrong]": Mistake(
        "step10",
        TL,
        (
            (
                "                        T.tma_store_wait(1)  # all but the newest store have read "
                "their buffer\n",
                "",
            ),
        ),
        "instructions",
        says=("overwrites shared memory that the TMA store of D may still read",),
        line="T.copy(acc[",
        size=(256, 512, 192),
    ),
    "10 one chunk too few": Mistake(
        "step10",
        TL,
        (("T.unroll(block_N // epi_N)", "T.unroll(block_N // epi_N - 1)"),),
        "results",
        says=("never written", "columns 192:256 of each 256"),
        size=(256, 512, 192),
    ),
    "10 one consumer warpgroup tells [row: hangs in the second round]": Mistake(
        "step10",
        TL,
        (
            (TELL_BOTH, TELL_BOTH.replace("thread % 128", "thread - 128")),
            (TELL_LAST, TELL_LAST.replace("thread % 128", "thread - 128")),
        ),
        "results",
        says=("producer warp 0", "empty[0]", "2 of 4 arrivals"),
        size=(256, 256, 512),
    ),
    "10 the consumers do not take registers [row: right, but slow]": Mistake(
        "step10",
        TL,
        (("                T.inc_max_nreg(232)\n", ""),),
        "instructions",
        says=("setmaxnreg.inc", "found dec 40"),
        size=(256, 512, 192),
    ),
    "10 no cluster_sync at the end": Mistake(
        "step10",
        TL,
        ((CLUSTER_END, ""),),
        "results",
        says=("CTA", "nothing keeps that CTA"),
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    "10 the consumers' loop is for one warpgroup [row: hangs in the second round]": Mistake(
        "step10",
        CUTE,
        (("        else:  # consumer warpgroups", "        elif warp_idx < 8:  # consumer warpgroups"),),
        "results",
        says=("producer warp 0", "empty[0]", "8 of 16 arrivals"),
    ),
    "10 groups of a chunk overlap [row: chunks in the wrong columns]": Mistake(
        "step10",
        CUTE,
        (("group = c * (epi_N // 16) + i", "group = c + i"),),
        "results",
        says=("D[0:64, 64:128] holds what belongs in columns 16:80", "cuts the sums"),
        never=("a wait", "fence"),
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    "10 columns count tiles, not chunks [row: tiles and chunks are mixed up]": Mistake(
        "step10",
        CUTE,
        (("n * (block_N // epi_N) + c", "n + c"),),
        "results",
        says=("wrote D[0:256, 0:320] alone, of 256 x 512", "every slice", "places the store"),
        size=(256, 512, 192),
    ),
    "10 no barrier between the writes and the store": Mistake(
        "step10",
        CUTE,
        (
            (
                "                    consumers.arrive_and_wait()\n                    if",
                "                    if",
            ),
        ),
        "results",
        says=("TMA store (consumer warp 4", "what consumer warp", "no barrier orders"),
        line="cute.copy(store_D",
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    "10 another warp stores than the one that waits": Mistake(
        "step10",
        CUTE,
        (
            (
                "                    if warp_idx == 4:\n                        cute.copy(\n",
                "                    if warp_idx == 8:\n                        cute.copy(\n",
            ),
        ),
        "results",
        says=("consumer warp 4 waits for TMA stores here, and has issued none: consumer warp 8 issues",),
        never=("producer", "wgmma"),
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    "10 waits for all but two stores": Mistake(
        "step10",
        CUTE,
        (("wait_group(1, read=True)", "wait_group(2, read=True)"),),
        "results",
        says=("consumer warp", "overwrites shared memory", "store of D"),
        never=("producer", "wgmma"),
        line="cute.copy(to_shared",
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    "10 no producer_tail": Mistake(
        "step10",
        CUTE,
        (("                pipe.producer_tail(load)\n", ""),),
        "instructions",
        says=("uses the shared memory of CTA", "nothing keeps that CTA from ending before"),
        line="consumer_release",
        size=(256, 512, 192),
    ),
    "10 registers for 66,560 [Predict 07: each consumer asks for 240]": Mistake(
        "step10",
        CUTE,
        (("increase(232)", "increase(240)"),),
        "results",
        says=("66,560 registers", "64,512"),
        never=("mbarrier", "full", "empty"),
        line="setmaxregister_increase(240)",
        size=(256, 256, 64),
    ),
    "10 both warpgroups multiply the same rows [row: 64 rows of every tile wrong]": Mistake(
        "step10",
        CUTE,
        (("mma.get_slice(thread - 128)", "mma.get_slice(thread % 128)"),),
        "results",
        says=("D[64:128, 0:64] holds A[0:64] @ B[0:64]^T", "rows of A belong to another tile"),
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    # -- notebook t3: what a patient is first mended to
    "13A no arrival either": Mistake(
        "step04",
        TL,
        (("T.mbarrier_arrive(full)", "T.mbarrier_expect_tx(full, block_N * block_K * 2)"),),
        "results",
        says=("full", "1 of 1 arrivals", "16,384 of 49,152 bytes"),
        never=("producer", "empty"),
        line="T.mbarrier_wait_parity(full",
    ),
    "13A half of the bytes too many": Mistake(
        "step04",
        TL,
        (
            (
                "T.mbarrier_arrive(full)",
                "T.mbarrier_expect_tx(full, block_N * block_K)\n                    T.mbarrier_arrive(full)",
            ),
        ),
        "results",
        says=("full", "8,192 of 40,960 bytes", "its loads bring 32,768"),
        never=("producer", "empty"),
        line="T.mbarrier_expect_tx(full, block_N * block_K)",
    ),
    "13B the parity is that of the stage": Mistake(
        "step05",
        TL,
        (("(k // num_stages) & 1", "stage & 1"),),
        "results",
        says=("full[1]", "parity 1"),
        never=("producer", "consumer", "empty"),
        line="T.mbarrier_wait_parity(full[stage], stage & 1)",
    ),
    "13B the parity is that of the load": Mistake(
        "step05",
        TL,
        (("(k // num_stages) & 1", "(i // num_stages) & 1"),),
        "results",
        says=("full[1]", "parity 1"),
        never=("producer", "consumer", "empty"),
        line="T.mbarrier_wait_parity(full[stage], (i // num_stages) & 1)",
    ),
    "13C the fence before the writes": Mistake(
        "step04",
        CUTE,
        (
            ("        cute.arch.fence_view_async_shared()\n", ""),
            (
                "        out.store(acc.load()",
                "        cute.arch.fence_view_async_shared()\n        out.store(acc.load()",
            ),
        ),
        "results",
        says=("TMA store", "ordinary stores", "no fence.proxy.async", "fence_view_async_shared()"),
        line="cute.copy(store_D",
    ),
    # right: the fence may stand in the copy's thread after the barrier (solutions/measured/proxy_fence.json)
    "13C the barrier first, then one warp's fence": Mistake(
        "step04",
        CUTE,
        (
            (
                "        cute.arch.fence_view_async_shared()\n        cute.arch.sync_threads()\n"
                "        if warp_idx == 0:\n",
                "        cute.arch.sync_threads()\n        if warp_idx == 0:\n"
                "            cute.arch.fence_view_async_shared()\n",
            ),
        ),
        "",
    ),
    "13D waits once D_shared is written": Mistake(
        "step06",
        TL,
        (
            (STORE_WAIT + "                T.sync_threads()\n", "                T.sync_threads()\n"),
            (
                "                T.copy(acc, D_shared)\n",
                "                T.copy(acc, D_shared)\n                T.tma_store_wait(0)\n",
            ),
        ),
        "results",
        says=("overwrites shared memory", "store of D"),
        never=("producer", "wgmma"),
        line="T.copy(acc, D_shared)",
        **EPILOGUES,
    ),
    "13D waits for all stores but one": Mistake(
        "step06",
        TL,
        ((STORE_WAIT, STORE_WAIT.replace("(0)", "(1)")),),
        "results",
        says=("overwrites shared memory", "store of D"),
        never=("producer", "wgmma"),
        line="T.copy(acc, D_shared)",
        **EPILOGUES,
    ),
    "13E the parity of the count, not of its round": Mistake(
        "step06",
        TL,
        (("((done + k) // num_stages) & 1", "(done + k) & 1"),),
        "results",
        says=("full[1], phase 0", "not waited for", "its last wait asked for parity 1"),
        never=("producer", "consumer", "empty"),
        line="(done + k) & 1)",
        **MANY,
    ),
    "13F waits for every group": Mistake(
        "step08",
        TL,
        (("T.wait_wgmma(1)", "T.wait_wgmma(0)"),),
        "instructions",
        says=("wgmma.wait_group", "above 0"),
    ),
    # -- case t5
    "t5 no wait before a buffer is written [row: a later slice's numbers]": Mistake(
        "t5",
        TL,
        (("                T.tma_store_wait(1)  # all but the newest store have read their buffer\n", ""),),
        "results",
        says=("overwrites shared memory", "store of D"),
        never=("wgmma", "producer"),
        line="T.copy(acc[:, c * epi_N",
        **ONE_TILE,
    ),
    "t5 waits for all but two stores, with two buffers [Predict: three buffers]": Mistake(
        "t5",
        TL,
        (("tma_store_wait(1)", "tma_store_wait(2)"),),
        "results",
        says=("overwrites shared memory", "store of D", ": its wait leaves 2 in flight"),
        never=("wgmma", "producer"),
        line="T.copy(acc[:, c * epi_N",
        **ONE_TILE,
    ),
    "t5 three buffers, and all but two stores [Predict: three buffers]": Mistake(
        "t5",
        TL,
        (
            ("tma_store_wait(1)", "tma_store_wait(2)"),
            ("D_shared = T.alloc_shared((2,", "D_shared = T.alloc_shared((3,"),
            (CHUNK, CHUNK.replace("c % 2", "c % 3")),
            ("T.tma_copy(D_shared[c % 2", "T.tma_copy(D_shared[c % 3"),
        ),
        "",
        **ONE_TILE,
    ),
    "t5 no wait at the end [row: exit-in-flight]": Mistake(
        "t5",
        TL,
        (("            T.tma_store_wait(0)\n            ###", "            ###"),),
        "results",
        says=("ends and has not waited for its TMA store",),
        line="T.tma_copy(D_shared[c % 2",
        **ONE_TILE,
    ),
    "t5 a thread that has stored nothing waits [Predict: a thread of warp 1]": Mistake(
        "t5",
        TL,
        (
            (
                "                T.tma_store_wait(1)  # all but the newest store have read their buffer\n",
                "                if T.get_thread_binding() >= 32:\n                    T.tma_store_wait(1)\n",
            ),
        ),
        "results",
        says=("warps 1-3 wait for TMA stores here, and have issued none: warp 0 issues them",),
        **ONE_TILE,
    ),
    "t5 the store leaves the tile's column out [row: two at the same place]": Mistake(
        "t5",
        TL,
        ((COLUMNS, "part = slice(c * epi_N, (c + 1) * epi_N)"),),
        "results",
        says=("wrote D[0:128, 0:128] alone, of 128 x 256", "every slice", "places the store"),
        **ONE_TILE,
    ),
    "t5 four slices at two places [row: two at the same place]": Mistake(
        "t5",
        TL,
        ((COLUMNS, "part = slice(n + c % 2 * epi_N, n + (c % 2 + 1) * epi_N)"),),
        "results",
        says=("that belongs at another place of D", "places the store"),
        **ONE_TILE,
    ),
    "t5 three slices of four [row: fewer slices stored than the tile has]": Mistake(
        "t5",
        TL,
        (("T.unroll(block_N // epi_N)", "T.unroll(block_N // epi_N - 1)"),),
        "results",
        says=("Columns 96:128 of each 128 were never written", "all of its slices"),
        **ONE_TILE,
    ),
    "t5 a loop that is not asked to be written out": Mistake(
        "t5", TL, (("T.unroll(block_N // epi_N)", "T.serial(block_N // epi_N)"),), "", **ONE_TILE
    ),
    "t5 the full wait [row: right, and no .read found]": Mistake(
        "t5",
        TL,
        (
            ("T.tma_store_wait(1)", "T.tma_store_wait(0, read=False)"),
            (
                "            T.tma_store_wait(0)\n            ###",
                "            T.tma_store_wait(0, read=False)\n            ###",
            ),
        ),
        "instructions",
        says=("wait_group.read",),
        **ONE_TILE,
    ),
    **{
        f"t5 every store is waited for before the next slice is filled, {dsl}": Mistake(
            "t5",
            dsl,
            (edit,),
            "instructions",
            says=("stores in flight", "0 of 6 slices that follow one"),
            **ONE_TILE,
        )
        for dsl, edit in (
            (TL, ("T.tma_store_wait(1)", "T.tma_store_wait(0)")),
            (CUTE, ("cp_async_bulk_wait_group(1, read=True)", "cp_async_bulk_wait_group(0, read=True)")),
        )
    },
    "t5 the wait after the barrier [Predict; row: the same, though the wait is there]": Mistake(
        "t5",
        CUTE,
        (
            (
                WAIT_READ,
                "            cute.arch.sync_threads()\n" + WAIT_READ.rpartition("            cute")[0],
            ),
        ),
        "results",
        says=("overwrites shared memory", "store of D"),
        never=("wgmma", "producer"),
        line="cute.copy(to_shared",
        **ONE_TILE,
    ),
    "t5 warp 1 waits for warp 0's stores [Predict: a thread of warp 1]": Mistake(
        "t5",
        CUTE,
        ((WAIT_READ, WAIT_READ.replace("== 0", "== 1")),),
        "results",
        says=("warp 1 waits for TMA stores here, and has issued none: warp 0 issues them",),
        never=("wgmma", "producer"),
        line="cute.arch.cp_async_bulk_wait_group(1, read=True)",
        **ONE_TILE,
    ),
    "t5 the stores are never committed [row: an open group is not waited for]": Mistake(
        "t5",
        CUTE,
        ((COMMIT, ""),),
        "results",
        says=("overwrites shared memory", "store of D", "no cp.async.bulk.commit_group", "commit_group()"),
        line="cute.copy(store_D",
        **ONE_TILE,
    ),
    "t5 no fence [row: proxy-fence, and right numbers]": Mistake(
        "t5", CUTE, ((FENCE, ""),), "instructions", says=("fence.proxy.async",), **ONE_TILE
    ),
    # right, as 13C
    "t5 the barrier first, then one warp's fence [row: fence, then barrier]": Mistake(
        "t5",
        CUTE,
        (
            (
                FENCE + "            cute.arch.sync_threads()\n            if warp_idx == 0:\n",
                "            cute.arch.sync_threads()\n            if warp_idx == 0:\n    " + FENCE,
            ),
        ),
        "",
        **ONE_TILE,
    ),
    "t5 range, which the compiler unrolls": Mistake(
        "t5",
        CUTE,
        (("for c in cutlass.range_constexpr(block_N", "for c in cutlass.range(block_N"),),
        "",
        **ONE_TILE,
    ),
    "t5 a loop that stays a loop [row: instructions found 1 group]": Mistake(
        "t5",
        CUTE,
        (
            (
                "for c in cutlass.range_constexpr(block_N // epi_N)",
                "for c in cutlass.range(block_N // epi_N, unroll=1)",
            ),
        ),
        "instructions",
        says=("two groups of TMA stores", "found 1 group"),
        **ONE_TILE,
    ),
    "t5 the full wait, CuTe DSL [row: right, and no .read found]": Mistake(
        "t5",
        CUTE,
        (("wait_group(1, read=True)", "wait_group(1)"), ("wait_group(0, read=True)", "wait_group(0)")),
        "instructions",
        says=("wait_group.read",),
        **ONE_TILE,
    ),
    "t5 columns count tiles, not slices": Mistake(
        "t5",
        CUTE,
        (("n * (block_N // epi_N) + c", "n + c"),),
        "results",
        says=("wrote D[0:128, 0:160] alone, of 128 x 256", "every slice", "places the store"),
        **ONE_TILE,
    ),
    "t5 groups of a slice overlap": Mistake(
        "t5",
        CUTE,
        (("group = c * (epi_N // 16) + i", "group = c + i"),),
        "results",
        says=("D[0:64, 32:64] holds what belongs in columns 16:48", "cuts the sums"),
        never=("a wait", "fence", "two owners"),
        **ONE_TILE,
    ),
    # -- no full marks without the idea
    "10 its instructions in a branch that never runs, step 3's loop does the work": Mistake(
        "step10",
        TL,
        ((ROLES, IN_A_DEAD_BRANCH),),
        "instructions",
        says=("no thread ever ran it",),
        size=(256, 512, 192),
    ),
}


# fmt: off
DOUBLED = {  # by what is run instead of it
    "06 turns are counted, not K tiles [row: never ends from the second tile]":
        "06 done is never counted on [row: right at K = 4096]",
    "07 nobody arrives on empty [row: after as many K tiles as there are stages]":
        "08 the last stage is never given back [row: the second tile of D]",
    "07 the consumer starts with parity 1 [Predict]":
        "07 nobody waits for full [row: a wait is missing]",
    "08 the stage before is given back where it > 0 [row: a stage given back twice]":
        "08 a release in every round [Predict: gives back it - 1 in every round]",
    "08 gives back the stage in use [row: a few elements wrong]":
        "08 a release in every round [Predict: gives back it - 1 in every round]",
    "08 one stage [Predict: the smallest num_stages]":
        "08 two stages [Predict: the smallest num_stages]",
    "09 the rank is not in the tile's row [row: two rows of tiles the same, or one missing]":
        "06 fewer CTAs than the scheduler has workers [row: tiles never written, far apart]",
    "09 each consumer arrives at home alone [row: hangs in the second round]":
        "10 one consumer warpgroup tells [row: hangs in the second round]",
    "06 no barrier after the wait for the store [Predict 13: all 128 threads call wait_group]":
        "t5 the wait after the barrier [Predict; row: the same, though the wait is there]",
}
# fmt: on


@pytest.mark.parametrize("mistake", planted(MISTAKES, {}, DOUBLED))
def test_the_card_says_what_is_wrong(mistake):
    require_said(mistake)


# -- copies

AS_GEMM = ("    return main\n", "    return main\n\n\ngemm = copy\n")  # the name that a loaded factory has
ARRIVE = (
    "            with cute.arch.elect_one():\n                cute.arch.mbarrier_arrive_and_expect_tx(full, "
)
LOAD_12 = "            cute.copy(load_X, X_src[None, y, x, z], X_dst, tma_bar_ptr=full)\n"
LOAD_14 = "            cute.copy(load_X, load_src, load_dst, tma_bar_ptr=full)"
ROW_12 = "row_of_tiles = (z * slabs + slab) * (d1 // rows) + y"
GROUPED = [
    (f"{name}_tile = cute.group_modes({tile}, 0, 2)", f"{name}_tile = {tile}")
    for name, tile in (
        ("S", "S"),
        ("X", "cute.local_tile(X, (tile, tile), (m, n))"),
        ("Y", "cute.local_tile(Y, (tile, tile), (m, n))"),
    )
]


def of_all_lanes(arrive: str) -> str:
    """The arrival without its election."""
    return textwrap.dedent(arrive.split("\n")[1]).join(("            ", ""))


# what it is: (case, DSL, edits, the first part that fails, what the card has, its line)
COPIES = {
    "t2 T.copy is left to choose [row: plain loads and stores]": (
        "t2",
        TL,
        [
            (
                "            T.tma_copy(X[z : z + slabs, y : y + rows, x : x + columns], S, barrier=full)\n"
                "            if T.shuffle_elect(128):\n                T.mbarrier_arrive(full)\n"
                "            T.mbarrier_wait_parity(full, 0)\n",
                "            T.copy(X[z : z + slabs, y : y + rows, x : x + columns], S)\n",
            )
        ],
        "path",
        ("X, global to shared", "plain loads and stores"),
        "",
    ),
    "t2 a slab has as many rows as the tile [row: wrong from the second slab on]": (
        "t2",
        TL,
        [("row = (z + slab) * d1 + y", "row = (z + slab) * rows + y")],
        "results",
        ("CTAs 0 and 1 both store Y[16:32, 0:64]",),
        "",
    ),
    "t2 the slabs of a tile follow each other [row: wrong from the second slab on]": (
        "t2",
        TL,
        [("row = (z + slab) * d1 + y", "row = z * d1 + slab * rows + y")],
        "results",
        ("CTAs 0 and 1 both store Y[16:32, 0:64]",),
        "",
    ),
    "t2 every store to the first columns": (
        "t2",
        TL,
        [("Y[row : row + rows, x : x + columns]", "Y[row : row + rows, 0:columns]")],
        "results",
        ("CTAs 0 and 1 both store Y[0:16, 0:64]", "which tile has each"),
        "",
    ),
    "t2 nobody arrives [row: never ends]": (
        "t2",
        TL,
        [("            if T.shuffle_elect(128):\n                T.mbarrier_arrive(full)\n", "")],
        "results",
        ("full", "1 of 1 arrivals"),
        "T.mbarrier_wait_parity(full, 0)",
    ),
    "t2 the first wait has parity 1": (
        "t2",
        TL,
        [("T.mbarrier_wait_parity(full, 0)", "T.mbarrier_wait_parity(full, 1)")],
        "results",
        ("TMA store", "full, phase 0", "not waited for", "its last wait asked for parity 1"),
        "T.mbarrier_wait_parity(full, 1)",
    ),
    "t2 the bytes of one slab [row: never ends]": (
        "t2",
        CUTE,
        [("slabs * rows * columns * 2)", "rows * columns * 2)")],
        "results",
        ("full", "2,048 bytes", "4,096"),
        "",
    ),
    "t2 tiles and slabs mixed up": (
        "t2",
        CUTE,
        [(ROW_12, "row_of_tiles = (z + slab) * (d1 // rows) + y")],
        "results",
        ("CTAs 4 and 6 both store Y[96:112, 0:64]", "which tile has each"),
        "",
    ),
    "t2 rows counted, not tiles of rows": (
        "t2",
        CUTE,
        [(ROW_12, "row_of_tiles = (z * slabs + slab) * d1 + y")],
        "results",
        ("t4 TMA stores lie outside Y", "row 3,600 of 256", "they are dropped", "all of Y[1:8, 0:32, 0:64]"),
        "",
    ),
    "t2 group_modes for the view [Predict; row: rows come in another order]": (
        "t2",
        CUTE,
        [
            (
                "Y = cute.make_tensor(Y.iterator, cute.make_layout((d0 * d1, d2), stride=(d2, 1)))",
                "Y = cute.group_modes(Y, 0, 2)",
            )
        ],
        "results",
        ("The map of Y has rows of 32,768 bytes, 128 bytes apart", "strides"),
        "",
    ),
    "t2 all 32 lanes arrive": (
        "t2",
        CUTE,
        [(ARRIVE, of_all_lanes(ARRIVE))],
        "results",
        ("warp 0", "32 arrivals", "on full", "init counts 1"),
        "cute.arch.mbarrier_arrive_and_expect_tx(full",
    ),
    "t2 the load under elect_one": (
        "t2",
        CUTE,
        [(LOAD_12, "            with cute.arch.elect_one():\n" + indented(LOAD_12))],
        "results",
        ("31 lanes",),
        "cute.copy(load_X",
    ),
    "t2 nobody waits": (
        "t2",
        CUTE,
        [("            cute.arch.mbarrier_wait(full, 0)\n", "")],
        "results",
        ("TMA store", "full", "not waited for"),
        "cute.copy(store_Y",
    ),
    "t4 no mode grouped [row: stride at mode 1]": (
        "t4",
        CUTE,
        GROUPED,
        "compiles",
        ("stride at mode 1",),
        "cpasync.tma_partition(load_X",
    ),
    "t4 one side grouped [row: same size in the first rank]": (
        "t4",
        CUTE,
        GROUPED[:1],
        "compiles",
        ("same size in the first rank",),
        "cpasync.tma_partition(load_X",
    ),
    "t4 the load's sides exchanged [row: src and dst]": (
        "t4",
        CUTE,
        [("load_dst, load_src = cpasync", "load_src, load_dst = cpasync")],
        "compiles",
        ("cute.copy",),
        "cute.copy(load_X",
    ),
    "t4 the store's sides exchanged [row: src and dst]": (
        "t4",
        CUTE,
        [("store_src, store_dst = cpasync", "store_dst, store_src = cpasync")],
        "compiles",
        ("src and dst need be",),
        "cute.copy(store_Y",
    ),
    "t4 all 32 lanes arrive [row: more arrivals]": (
        "t4",
        CUTE,
        [(ARRIVE, of_all_lanes(ARRIVE))],
        "results",
        ("warp 0", "32 arrivals", "on full", "init counts 1"),
        "cute.arch.mbarrier_arrive_and_expect_tx(full",
    ),
    "t4 no bytes are expected": (
        "t4",
        CUTE,
        [(ARRIVE + "tile_bytes)\n", "")],
        "results",
        ("full", "1 of 1 arrivals", "8,192 bytes that came"),
        "cute.arch.mbarrier_wait(full, 0)",
    ),
    "t4 rows and columns exchanged [row: whole tiles of Y never written]": (
        "t4",
        CUTE,
        [
            ("local_tile(X, (tile, tile), (m, n))", "local_tile(X, (tile, tile), (n, m))"),
            ("local_tile(Y, (tile, tile), (m, n))", "local_tile(Y, (tile, tile), (n, m))"),
        ],
        "results",
        ("CTAs 0 and 1 both store Y[0:64, 0:64]",),
        "",
    ),
    "t4 the load under elect_one [row: absent lanes]": (
        "t4",
        CUTE,
        [(LOAD_14, "            with cute.arch.elect_one():\n    " + LOAD_14)],
        "results",
        ("31 lanes",),
        "cute.copy(load_X",
    ),
    "t4 stores before it waits": (
        "t4",
        CUTE,
        [
            ("            cute.arch.mbarrier_wait(full, 0)\n", ""),
            (
                "            cute.arch.cp_async_bulk_commit_group()\n",
                "            cute.arch.mbarrier_wait(full, 0)\n"
                "            cute.arch.cp_async_bulk_commit_group()\n",
            ),
        ],
        "results",
        ("TMA store", "full", "not waited for"),
        "cute.copy(store_Y",
    ),
    "t4 no wait for the store": (
        "t4",
        CUTE,
        [("            cute.arch.cp_async_bulk_wait_group(0)\n", "")],
        "results",
        ("ends and has not waited for its TMA store",),
        "cute.copy(store_Y",
    ),
    "t4 a map without the swizzle of S [row: right elements in wrong places]": (
        "t4",
        CUTE,
        [
            (
                "        store_Y, Y = cpasync",
                "        plain = cute.make_layout((tile, tile), stride=(tile, 1))\n"
                "        store_Y, Y = cpasync",
            ),
            ("make_tiled_tma_atom(s2g, Y, layout,", "make_tiled_tma_atom(s2g, Y, plain,"),
        ],
        "results",
        ("maps of X and Y disagree on swizzle", "X's has 128B and Y's has none"),
        "store_Y, Y =",
    ),
}


@pytest.mark.parametrize("mistake", planted(COPIES, {}))
def test_the_card_of_a_copy_says_what_is_wrong(mistake):
    case, dsl, edits, part, says, line = mistake
    verdict = check_copy(case, plant(case, dsl, *edits, AS_GEMM), dsl, "emulator")
    failed = [check.name for check in verdict.checks if check.passed is False]
    assert failed[:1] == [part], str(verdict)
    text = f"{verdict.card.text} {verdict.card.place} {verdict.card.code}"
    assert len(text.split()) <= 40, text
    assert [words for words in says if words.lower() not in text.lower()] == [], str(verdict)
    assert "consumer" not in text and "empty" not in text.lower()
    assert line in verdict.card.code, str(verdict)


def test_a_copy_has_no_producer():
    nobody_waits = "            cute.arch.mbarrier_wait(full, 0)\n", ""
    verdict = check_copy("t4", plant("t4", CUTE, nobody_waits, AS_GEMM), CUTE, "emulator")
    assert "producer" not in verdict.card.text.lower()


# -- tensor maps: a field changed, and legal; or another rule broken

TALL, ODD_STRIDE, ODD_ROW, NARROW_SPAN, INTEGER_NAN, FAR_STEPS, LARGE, LATER_CHIP = range(8)
MAPS = {
    "a box of 8 rows": (TALL, {"box": (64, 8)}, "its box of 1,024 bytes is small"),
    "a box of 8 x 1": (TALL, {"box": (8, 1)}, "its box of 16 bytes is small"),
    "one row too many": (TALL, {"box": (64, 257)}, "Found: boxDim[1] = 257"),
    "a stride rounded down": (ODD_STRIDE, {"strides": (2048,)}, "its rows overlap"),
    "a stride of 0": (ODD_STRIDE, {"strides": (0,)}, "its rows overlap"),
    "a smaller extent, the stride as it was": (ODD_STRIDE, {"dims": (1024, 512)}, "multiple of 16"),
    "another element type": (ODD_ROW, {"data_type": 7}, "describes another tensor"),
    "a span that is still too narrow": (NARROW_SPAN, {"swizzle": 1}, "must fit in the swizzle"),
    "no swizzle": (NARROW_SPAN, {"swizzle": 0}, "has no swizzle"),
    "floats for whole numbers": (INTEGER_NAN, {"data_type": 7}, "describes another tensor"),
    "one step too far": (FAR_STEPS, {"element_strides": (1, 9)}, "Found: elementStrides"),
    "a smaller row": (LARGE, {"box": (32, 256, 8)}, "a row of 64 bytes has a swizzle of 128 bytes"),
    "no swizzle on the later chip's map": (LATER_CHIP, {"swizzle": 0}, "has no swizzle"),
    "rows twice as far apart": (TALL, {"box": (64, 256), "strides": (16384,)}, "2 fields were changed"),
}


@pytest.mark.parametrize("name", MAPS)
def test_a_map_that_is_not_worth_its_points(name):
    number, fields, says = MAPS[name]
    right = load_module(solution_path("t1", "maps")).mend

    def mend(maps):
        mended = right(maps)
        mended[number] = replace(maps[number], **fields)
        return mended

    verdict = check_maps("t1", mend)
    assert [part.passed for part in verdict.checks].count(False) == 1
    assert verdict.checks[number].passed is False
    assert says in verdict.card.text and len(str(verdict.card).split()) <= 40


# -- what notebooks say of compilers


COPY_3D = """import tilelang.language as T


def gemm(d0, d1, d2):
    @T.prim_func
    def main(X: T.Tensor((d0, d1, d2), T.float16), Y: T.Tensor((d0, d1, d2), T.float16)):
        with T.Kernel(d0 // {slabs}, threads=128) as b:
            S = T.alloc_shared(({slabs}, {rows}, {columns}), T.float16)
            full = T.alloc_barrier(1)
            z = b * {slabs}
            {load}
            T.copy(S, Y[z : z + {slabs}, 0:{rows}, 0:{columns}])
    return main
"""
BY_TMA = "T.tma_copy(X[z : z + {slabs}, 0:{rows}, 0:{columns}], S, barrier=full)"


@pytest.mark.parametrize(
    "shape, tile, load, says",
    [
        ((8, 32, 60), (2, 16, 60), BY_TMA, "TMA is not available"),
        ((8, 304, 128), (4, 304, 64), BY_TMA, "exceeds the cap 256"),
        (
            (8, 400, 64),
            (2, 200, 64),
            "T.copy(X[z : z + {slabs}, 0:{rows}, 0:{columns}], S)",
            "Mapped indices are not independent",
        ),
    ],
)
def test_a_copy_that_has_no_kernel(shape, tile, load, says):
    """Notebook t2's rows that quote TileLang: a stride, a box, and T.copy both ways."""
    names = dict(zip(("slabs", "rows", "columns"), tile, strict=True))
    source = COPY_3D.format(load=load.format(**names), **names)
    with pytest.raises(CompileError, match=says):
        compile_factory(load_factory_source(source, "copy"), TL, shape, "copy")


def test_one_arrive_in_the_ptx_of_either_ring():
    """Notebook 7's Predict: four warps or one thread arrive, by one instruction either way."""
    for name in ("step07", "raw07"):
        ptx = compile_factory(plant(name, CUTE), CUTE, (256, 256, 320)).ptx
        assert ptx.count("mbarrier.arrive.shared") == 1
        assert ptx.count("mbarrier.arrive.expect_tx") == 1
