"""Right kernels that are not written as the course's solutions are keep their marks: other tiles, stages,
roles, barriers, orders and helpers, and no card.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from course_utils.compile.factory import compile_factory
from course_utils.compile.load import load_factory, plant
from course_utils.grading import steps
from course_utils.grading.gemm import check_gemm, judge
from course_utils.grading.verdict import Verdict
from course_utils.run.backends import Emulator, Launch
from tests.grading.mistakes import SIZE
from tests.grading.otherwise.cutlass_example import EXAMPLE, adapted

FOLDER = Path(__file__).parent / "otherwise"
ORDER = (1536, 1792, 64)  # 168 tiles of 128 x 128: more than an H200 has SMs
TILE = "block_M, block_N, block_K = 128, 128, 64"
RING = "num_stages, ring = 2, 4"


@dataclass(frozen=True)
class Kernel:
    """``made`` are edits of the solution of ``step``, as ``plant`` has them, or the name of a file here."""

    step: str
    dsl: str
    made: tuple[tuple[str, str], ...] | str
    size: tuple[int, int, int] = SIZE

    def gemm(self) -> Callable:
        if isinstance(self.made, str):
            return load_factory(FOLDER / self.made)
        return plant(self.step, self.dsl, *self.made)


def tile(M: int, N: int, K: int) -> tuple[str, str]:
    return TILE, f"block_M, block_N, block_K = {M}, {N}, {K}"


PAST_THE_END = (" and K % block_K == 0", ""), ("T.serial(K // block_K)", "T.serial(T.ceildiv(K, block_K))")
CHUNKS = (
    ("T.alloc_shared((block_M, block_N), T.float16)", "T.alloc_shared((block_M, 32), T.float16)"),
    (
        "            T.copy(acc, D_shared)\n",
        "            for c in T.unroll(block_N // 32):\n"
        "                T.tma_store_wait(0)\n                T.sync_threads()\n"
        "                T.copy(acc[:, c * 32 : (c + 1) * 32], D_shared)\n",
    ),
    (
        "            T.fence_proxy_async()  # threads wrote D_shared; TMA reads it by the async proxy\n"
        "            T.sync_threads()\n            T.tma_copy(D_shared, D[ms, ns])\n",
        "                T.fence_proxy_async()\n                T.sync_threads()\n"
        "                T.tma_copy(D_shared, D[ms, n + c * 32 : n + c * 32 + 32])\n",
    ),
)
NEEDLESS = (
    (
        "                T.wait_wgmma(0)\n",
        "                T.wait_wgmma(0)\n                T.fence_proxy_async()\n"
        "                T.sync_threads()\n",
    ),
    (
        "            T.copy(acc, D_shared)\n",
        "            T.sync_threads()\n            T.copy(acc, D_shared)\n",
    ),
)
FLIPS = (
    (
        "            m, n = by",
        "            flips = T.alloc_local((num_stages,), T.int32)\n"
        "            for s in T.unroll(num_stages):\n                flips[s] = 0\n            m, n = by",
    ),
    ("(k // num_stages) & 1)", "flips[stage])\n                    flips[stage] = flips[stage] ^ 1"),
)
MACRO = (
    (
        "    @T.prim_func\n",
        "    @T.macro\n    def fetch(source, rows, k, target, stage, barriers):\n"
        "        ks = slice(k * block_K, (k + 1) * block_K)\n"
        "        T.tma_copy(source[rows, ks], target[stage, :, :], barrier=barriers[stage])\n\n"
        "    @T.prim_func\n",
    ),
    ("                            ks = slice(k * block_K, (k + 1) * block_K)\n", ""),
    (
        "T.tma_copy(A[ms, ks], A_shared[stage, :, :], barrier=full[stage])",
        "fetch(A, ms, k, A_shared, stage, full)",
    ),
    (
        "T.tma_copy(B[ns, ks], B_shared[stage, :, :], barrier=full[stage])",
        "fetch(B, ns, k, B_shared, stage, full)",
    ),
)
EVERY_THREAD_ARRIVES = (
    ("empty = T.alloc_barrier([1]", "empty = T.alloc_barrier([128]"),
    (
        "                        if T.shuffle_elect(128):\n                            T.mbarrier_arrive(e",
        "                        T.mbarrier_arrive(e",
    ),
)
LAST_WARP_LOADS = (
    ("if thread < 32:", "if thread >= 96:"),
    ("full = T.alloc_barrier([1]", "full = T.alloc_barrier([32]"),
    (
        "                            if T.shuffle_elect(32):\n"
        "                                T.mbarrier_arrive(f",
        "                            T.mbarrier_arrive(f",
    ),
)
A_IN_REGISTERS = (
    (
        "            full = ",
        "            a = T.alloc_fragment((block_M, block_K), T.float16)\n            full = ",
    ),
    ("empty = T.alloc_barrier([1]", "empty = T.alloc_barrier([128]"),
    (
        "                        operands = A_shared[stage, :, :], B_shared[stage, :, :]\n"
        "                        T.wgmma_gemm(*operands,",
        "                        T.copy(A_shared[stage, :, :], a)\n"
        "                        T.wgmma_gemm(a, B_shared[stage, :, :],",
    ),
    (
        "                        if T.shuffle_elect(128):\n                            T.mbarrier_arrive(e",
        "                        T.fence_proxy_async()  # threads read A, TMA writes there next\n"
        "                        T.mbarrier_arrive(e",
    ),
)
SHORT_RING = (
    ("num_stages = 4\n", ""),
    ("k_tiles = K // block_K\n", "k_tiles = K // block_K\n    num_stages = min(5, k_tiles)\n"),
)
TWO_IN_FLIGHT = (
    ("T.wait_wgmma(1)", "T.wait_wgmma(2)"),
    ("if k > 0:", "if k > 1:"),
    (
        "(it - 1) % num_stages])\n                        it",
        "(it - 2) % num_stages])\n                        it",
    ),
    (
        "                    T.wait_wgmma(0)\n                    if",
        "                    T.wait_wgmma(0)\n                    if k_tiles > 1:\n"
        "                        if T.shuffle_elect(128):\n"
        "                            T.mbarrier_arrive(empty[(it - 2) % num_stages])\n                    if",
    ),
)
A_FOR_BOTH = (
    ("M // block_M, N // block_N, sm_count", "N // block_N, M // block_M, sm_count"),
    (
        "M % (cluster * block_M) == 0 and N % block_N == 0",
        "M % block_M == 0 and N % (cluster * block_N) == 0",
    ),
    (
        "forth or back: wait, load, multicast, arrive\n"
        "                        m, n = (tiles.m_idx * cluster + rank) * block_M, tiles.n_idx * block_N",
        "forth or back\n"
        "                        m, n = tiles.n_idx * block_M, (tiles.m_idx * cluster + rank) * block_N",
    ),
    (
        "a group in flight; free stages for both\n"
        "                    m, n = (tiles.m_idx * cluster + rank) * block_M, tiles.n_idx * block_N",
        "a group in flight\n"
        "                    m, n = tiles.n_idx * block_M, (tiles.m_idx * cluster + rank) * block_N",
    ),
    ("T.tma_copy(A[ms, ks], A_shared[stage, :, :],", "T.tma_copy(B[ns, ks], B_shared[stage, :, :],"),
    (
        "B[ns, ks],\n                                B_shared[stage, :, :],",
        "A[ms, ks],\n                                A_shared[stage, :, :],",
    ),
)  # step 9's cluster along N
EVERY_THREAD_TELLS_BOTH = (
    ("T.alloc_cluster_barrier([cluster]", "T.alloc_cluster_barrier([cluster * 128]"),
    (
        "                        if k > 0 and thread % 128 < cluster:  # thread i tells CTA i\n"
        "                            T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)\n",
        "                        if k > 0:\n"
        "                            T.mbarrier_arrive(empty[(it - 1) % num_stages], 0)\n"
        "                            T.mbarrier_arrive(empty[(it - 1) % num_stages], 1)\n",
    ),
    (
        "                    if thread % 128 < cluster:\n"
        "                        T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)\n",
        "                    T.mbarrier_arrive(empty[(it - 1) % num_stages], 0)\n"
        "                    T.mbarrier_arrive(empty[(it - 1) % num_stages], 1)\n",
    ),
)
THREE_CONSUMERS = (
    ("block_M, block_N, block_K = 128, 256, 64", "block_M, block_N, block_K = 192, 128, 64"),
    ("num_stages, consumers = 4, 2", "num_stages, consumers = 4, 3"),
    ("M % (cluster * block_M) == 0 and ", ""),
    ("M // block_M, N", "-(-M // (cluster * block_M)) * cluster, N"),
    ("T.inc_max_nreg(232)", "T.inc_max_nreg(152)"),
    ("T.dec_max_nreg(40)", "T.dec_max_nreg(32)"),
)  # 192 rows, which no M is a multiple of: TMA cuts off what is outside

RAW_BARRIERS = (
    (
        "barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)",
        "full = smem.allocate_array(cutlass.Int64, num_stages)",
    ),
    (
        """        pipe = pipeline.PipelineTmaAsync.create(
            num_stages=num_stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, warps),
            tx_count=tile_bytes,
            barrier_storage=barriers,
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )
""",
        """        if thread == 0:
            for stage in cutlass.range_constexpr(num_stages):
                cute.arch.mbarrier_init(full + stage, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
""",
    ),
    (
        """        load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
        use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
""",
        "",
    ),
    (
        """                    pipe.producer_acquire(load)
                    s, full = load.index, pipe.producer_get_barrier(load)
                    cute.copy(load_A, A_src[None, m, i], A_dst[None, s], tma_bar_ptr=full)
                    cute.copy(load_B, B_src[None, n, i], B_dst[None, s], tma_bar_ptr=full)
                load.advance()
""",
        """                    s = i % num_stages
                    bar = full + s
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive_and_expect_tx(bar, tile_bytes)
                    cute.copy(load_A, A_src[None, m, i], A_dst[None, s], tma_bar_ptr=bar)
                    cute.copy(load_B, B_src[None, n, i], B_dst[None, s], tma_bar_ptr=bar)
""",
    ),
    (
        "                pipe.consumer_wait(use)\n",
        """                k = i - (num_stages - 1)
                slot = k % num_stages
                cute.arch.mbarrier_wait(full + slot, (k // num_stages) & 1)
""",
    ),
    ("k_block, use.index)", "k_block, slot)"),
    (
        "                pipe.consumer_release(use)\n                use.advance()\n",
        "                cute.arch.sync_threads()\n",
    ),
)
PANELS_OF_ROWS = (
    (
        "panel = max(width for width in (1, 2, 3, 4) if tiles_N % width == 0)",
        "panel = max(height for height in range(1, 7) if tiles_M % height == 0)",
    ),
    ("shape = (tiles_M, (panel, tiles_N // panel))", "shape = ((panel, tiles_M // panel), tiles_N)"),
    ("stride=(panel, (1, panel * tiles_M))", "stride=((1, panel * tiles_N), panel)"),
)
CONSUMER_FIRST = (
    ("if warp_idx < 4:  #", "if warp_idx >= 4:  #"),
    (
        "            if warp_idx == 0:\n                for tile",
        "            if warp_idx == 6:\n                for tile",
    ),
    (
        "                if warp_idx == 4:\n                    cute.arch.cp_async_bulk_wait_group(0, r",
        "                if warp_idx == 3:\n                    cute.arch.cp_async_bulk_wait_group(0, r",
    ),
    (
        "                if warp_idx == 4:\n                    cute.copy(store_D",
        "                if warp_idx == 3:\n                    cute.copy(store_D",
    ),
    (
        "            if warp_idx == 4:\n                cute.arch.cp_async_bulk_wait_group(0)\n",
        "            if warp_idx == 3:\n                cute.arch.cp_async_bulk_wait_group(0)\n",
    ),
)
HELPER_AND_WHILE = (
    (
        "    @cute.kernel\n",
        """    @cute.jit
    def fetch(atom, src, dst, row, k, pipe, state):
        bar = pipe.producer_get_barrier(state)
        cute.copy(atom, src[None, row, k], dst[None, state.index], tma_bar_ptr=bar)

    @cute.kernel
""",
    ),
    ("                        s, full = load.index, pipe.producer_get_barrier(load)\n", ""),
    (
        "cute.copy(load_A, A_src[None, m, k], A_dst[None, s], tma_bar_ptr=full)",
        "fetch(load_A, A_src, A_dst, m, k, pipe, load)",
    ),
    (
        "cute.copy(load_B, B_src[None, n, k], B_dst[None, s], tma_bar_ptr=full)",
        "fetch(load_B, B_src, B_dst, n, k, pipe, load)",
    ),
    (
        "                for tile in cutlass.range(cta, tiles_M * tiles_N, sm_count, unroll=1):\n"
        "                    m, n = order",
        "                tile = cta\n                while tile < tiles_M * tiles_N:\n"
        "                    m, n = order",
    ),
    (
        "                        load.advance()\n",
        "                        load.advance()\n                    tile += sm_count\n",
    ),
)
TWO_GROUPS = (
    ("num_stages = 4", "num_stages = 6"),
    ("wait_group(1)", "wait_group(2)"),
    ("if k > 0:", "if k > 1:"),
    (
        "                warpgroup.wait_group(0)\n",
        "                warpgroup.wait_group(0)\n"
        "                if cutlass.const_expr(k_tiles > 1):\n"
        "                    pipe.consumer_release(free)\n                    free.advance()\n",
    ),
)
A_SHARED_BY_TWO = (
    (
        "M % (cluster * block_M), N % block_N, K % block_K",
        "M % block_M, N % (cluster * block_N), K % block_K",
    ),
    (
        "rows, tiles_N = M // block_M // cluster, N // block_N",
        "rows, tiles_N = N // block_N // cluster, M // block_M",
    ),
    ("make_layout((1, cluster, 1, 1))", "make_layout((1, 1, cluster, 1))"),
    (
        "A_dst, A_src = cpasync.tma_partition(load_A, 0, one, A_ring, A_tiles)",
        "B_dst, B_src = cpasync.tma_partition(load_B, 0, one, B_ring, B_tiles)",
    ),
    (
        "B_dst, B_src = cpasync.tma_partition(load_B, rank, pair, B_ring, B_tiles)",
        "A_dst, A_src = cpasync.tma_partition(load_A, rank, pair, A_ring, A_tiles)",
    ),
    (
        "                    row, n = order.get_flat_coord(tile)\n                    m = row",
        "                    row, m = order.get_flat_coord(tile)\n                    n = row",
    ),
    (
        "unroll=1):\n                row, n = order.get_flat_coord(tile)\n                m = row",
        "unroll=1):\n                row, m = order.get_flat_coord(tile)\n                n = row",
    ),
    (
        "cute.copy(load_A, A_src[None, m, k], A_dst[None, s], tma_bar_ptr=full)",
        "cute.copy(load_B, B_src[None, n, k], B_dst[None, s], tma_bar_ptr=full)",
    ),
    (
        "B_half, B_slot = B_src[None, n, k], B_dst[None, s]",
        "A_half, A_slot = A_src[None, m, k], A_dst[None, s]",
    ),
    ("cute.copy(load_B, B_half, B_slot,", "cute.copy(load_A, A_half, A_slot,"),
    (
        "load_A, A = cpasync.make_tiled_tma_atom(g2s, A, stage_A, (block_M, block_K))",
        "load_B, B = cpasync.make_tiled_tma_atom(g2s, B, stage_B, (block_N, block_K))",
    ),
    ("tile_B = block_N, block_K", "tile_A = block_M, block_K"),
    (
        "load_B, B = cpasync.make_tiled_tma_atom(g2s_both, B, stage_B, tile_B, cluster)",
        "load_A, A = cpasync.make_tiled_tma_atom(g2s_both, A, stage_A, tile_A, cluster)",
    ),
)  # step 9's cluster along N
OWN_ROWS = (
    (
        "NamedBarrier(1, 256)  # of the consumers' threads",
        "NamedBarrier(thread // 128, 128)  # of its threads",
    ),
    ("cute.local_tile(D, (block_M, epi_N), (None, None))", "cute.local_tile(D, (64, epi_N), (None, None))"),
    (
        "        D_tile, one = cute.group_modes(D_shared, 0, 2)",
        "        rows_of_mine = cute.local_tile(D_shared, (64, epi_N, 2), (thread // 128 - 1, 0, 0))\n"
        "        D_tile, one = cute.group_modes(rows_of_mine, 0, 2)",
    ),
    (
        "if warp_idx == 4:\n                        cute.arch.cp_async_bulk_wait_group(1",
        "if warp_idx % 4 == 0:\n                        cute.arch.cp_async_bulk_wait_group(1",
    ),
    (
        "if warp_idx == 4:\n                        cute.copy(\n",
        "if warp_idx % 4 == 0:\n                        cute.copy(\n",
    ),
    (
        "if warp_idx == 4:\n                cute.arch.cp_async_bulk_wait_group(0)",
        "if warp_idx % 4 == 0:\n                cute.arch.cp_async_bulk_wait_group(0)",
    ),
    ("D_dst[None, m, n", "D_dst[None, 2 * m + thread // 128 - 1, n"),
    (
        "s2g, D, cute.select(layout_D, [0, 1]), (block_M, epi_N)",
        "s2g, D, cute.tile_to_shape(atom, (64, epi_N), order=(0, 1)), (64, epi_N)",
    ),
)
NARROW = (  # rows of 64 bytes in shared memory, and copies of four threads a row
    tile(64, 128, 32),
    ("K_SW128", "K_SW64"),
    ("cute.make_layout((16, 8), stride=(8, 1))", "cute.make_layout((32, 4), stride=(4, 1))"),
)

# fmt: off
KERNELS = {
    "a tile of 128 x 256": Kernel("step03", "tilelang", (tile(128, 256, 64),)),
    "a tile of 64 x 128 x 32": Kernel("step03", "tilelang", (tile(64, 128, 32),)),
    "a tile of 64 x 128 x 32 in CuTe": Kernel("step03", "cute", NARROW),
    "K tiles of 128, the last half outside":
        Kernel("step04", "tilelang", (tile(128, 128, 128), *PAST_THE_END, ("ring = 4", "ring = 1"))),
    "D in chunks": Kernel("step04", "tilelang", CHUNKS),
    "a needless fence and barriers": Kernel("step04", "tilelang", NEEDLESS),
    "six stages": Kernel("step05", "tilelang", ((RING, "num_stages, ring = 6, 6"),)),
    "parity in a variable": Kernel("step05", "tilelang", FLIPS),
    "raw mbarriers": Kernel("step05", "cute", RAW_BARRIERS),
    "five stages": Kernel("step05", "cute", (("num_stages = 2", "num_stages = 5"), ("ring = 4", "ring = 5"))),
    "a tile of 64 x 256":
        Kernel("step06", "tilelang", (tile(64, 256, 64), (RING, "num_stages, ring = 4, 4"))),
    "panels of eight rows":
        Kernel("step06", "tilelang", (("swizzle_size=4", "swizzle_size=8, column_major=False"),), ORDER),
    "the producer last, its own names": Kernel("step07", "tilelang", "tilelang07_producer_last.py"),
    "a macro for the load": Kernel("step07", "tilelang", MACRO),
    "every thread arrives, the last warp loads":
        Kernel("step07", "tilelang", (*EVERY_THREAD_ARRIVES, *LAST_WARP_LOADS)),
    "A from registers": Kernel("step07", "tilelang", A_IN_REGISTERS),
    "A from registers in CuTe": Kernel("step07", "cute", "cute07_a_from_registers.py"),
    "the consumer first": Kernel("step07", "cute", CONSUMER_FIRST),
    "a helper for the load, in a while loop": Kernel("step07", "cute", HELPER_AND_WHILE),
    "two groups in flight": Kernel("step08", "tilelang", TWO_IN_FLIGHT),
    "two groups in flight in CuTe": Kernel("step08", "cute", TWO_GROUPS),
    "a cluster along N": Kernel("step09", "tilelang", A_FOR_BOTH),
    "a cluster along N in CuTe": Kernel("step09", "cute", A_SHARED_BY_TWO),
    "every thread tells both CTAs": Kernel("step09", "tilelang", EVERY_THREAD_TELLS_BOTH),
    "three consumers": Kernel("step10", "tilelang", THREE_CONSUMERS),
    "consumers that store their own rows": Kernel("step10", "cute", OWN_ROWS),
    "D in chunks of 32": Kernel("step10", "tilelang", (("epi_N = 64", "epi_N = 32"),)),
    "a thread for each mbarrier's init": Kernel("step05", "cute", "cute05_unrolled_by_two.py"),
    "A in registers, in a ring of its own": Kernel("step08", "cute", "cute08_a_registers_rings_apart.py"),
    "zeros beyond K": Kernel("step08", "cute", "cute08_wide_k_tiles_with_peeks.py"),
}  # judged at one size

WHOLE = {
    "T.Pipelined": Kernel("step05", "tilelang", "tilelang05_pipelined.py"),
    "panels of rows": Kernel("step06", "cute", PANELS_OF_ROWS),
    "no more stages than K has tiles": Kernel("step08", "tilelang", SHORT_RING),
    "CUTLASS's scheduler and store pipeline": Kernel("step08", "cute", "cute08_tile_scheduler.py"),
    "consumers that take turns": Kernel("step10", "cute", "cute10_take_turns.py"),
    # by somebody who had not seen what a check asks for
    "each warp stores its rows": Kernel("step06", "cute", "cute06_each_warp_stores_its_rows.py"),
    "oblong tiles": Kernel("step06", "tilelang", "tilelang06_oblong_tiles.py"),
    "a warp that stores": Kernel("step07", "cute", "cute07_store_warp.py"),
    "consumers that share K": Kernel("step07", "cute", "cute07_k_shared_by_consumers.py"),
    "a producer in the middle": Kernel("step07", "tilelang", "tilelang07_producer_in_the_middle.py"),
    "tiles in turn": Kernel("step08", "cute", "cute08_ping_pong.py"),
    "two accumulators in turn": Kernel("step08", "tilelang", "tilelang08_two_accumulators_in_turn.py"),
    "CTAs that load B in turn": Kernel("step09", "cute", "cute09_loader_alternates.py"),
    "consumers that never meet": Kernel("step10", "tilelang", "tilelang10_consumers_of_their_own.py"),
}  # judged by the whole check
# fmt: on


def require_all(verdict: Verdict) -> None:
    """All points but speed's, and nothing to look at."""
    assert verdict.card is None, str(verdict)
    lost = [part.name for part in verdict.checks if part.name != "speed" and part.points != part.max_points]
    assert not lost, str(verdict)


@pytest.mark.parametrize("name", KERNELS)
def test_a_right_kernel_keeps_its_marks(name: str) -> None:
    kernel = KERNELS[name]
    step = steps.find(kernel.step)
    artifact = compile_factory(kernel.gemm(), kernel.dsl, kernel.size)
    machine = Emulator()
    require_all(
        judge(step, kernel.dsl, machine, list(machine.run([Launch(kernel.size, artifact, sums=True)])))
    )


@pytest.mark.thorough
@pytest.mark.parametrize("name", WHOLE)
def test_it_keeps_them_in_the_whole_check(name: str) -> None:
    kernel = WHOLE[name]
    require_all(check_gemm(kernel.step, kernel.gemm(), kernel.dsl, "emulator"))


@pytest.mark.thorough
def test_the_fence_and_barrier_of_step_4_are_not_left_to_pipelined() -> None:
    """Step 5 may leave its ring to T.Pipelined; the lesson before it may not go with it."""
    kernel = WHOLE["T.Pipelined"]
    artifact = compile_factory(kernel.gemm(), kernel.dsl, SIZE)
    answered = Emulator().run([Launch(SIZE, artifact)])
    verdict = judge(replace(steps.find("step04"), emulated=((SIZE, None),)), kernel.dsl, Emulator(), answered)
    assert verdict.card is not None and "that your code leaves out here" in verdict.card.text


@pytest.mark.skipif(EXAMPLE not in os.environ, reason=f"{EXAMPLE} names no file")
@pytest.mark.parametrize(
    "step, tile, cluster",
    [
        ("step06", (128, 64), (1, 1)),
        ("step07", (64, 128), (1, 1)),
        ("step08", (128, 128), (1, 1)),
        ("step09", (128, 128), (1, 2)),
        ("step10", (128, 256), (2, 1)),
    ],
)
def test_the_persistent_example_of_cutlass_keeps_its_marks(
    step: str, tile: tuple[int, int], cluster: tuple[int, int]
) -> None:
    require_all(check_gemm(step, adapted(tile, cluster), "cute", "emulator"))
