"""The table of planted faults that ``find_the_bug`` draws from; ``faults`` says what is done with them."""

from __future__ import annotations

from dataclasses import dataclass

TILELANG, CUTE = "tilelang", "cute"
SIZE = (256, 512, 320)  # several tiles, five K tiles


@dataclass(frozen=True)
class Fault:
    """A fault of ``step``'s solution in one language.

    ``edits`` are of the bare solution: each (text that is there once, text instead). ``outcome`` is what a
    GPU does with it: one of ``bugs.OUTCOMES``. ``size`` and ``ctas`` are what is emulated of it.
    ``spread`` is for a statement that is missing and may stand in several places: texts of the first and the
    last line after which it may, "" for the line at fault itself. They are those nearest to that line.
    """

    name: str
    step: str
    dsl: str
    outcome: str
    edits: tuple[tuple[str, str], ...]
    size: tuple[int, int, int] = SIZE
    ctas: tuple[int, ...] | None = None
    spread: tuple[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.step} {self.dsl} {self.name}"


FAULTS = (
    Fault(
        "init_counts_the_threads", "step04", TILELANG, "hang", (("T.alloc_barrier(1", "T.alloc_barrier(128"),)
    ),
    Fault(
        "no_wait_for_the_multiplication",
        "step04",
        TILELANG,
        "race",
        (("                T.wait_wgmma(0)\n", ""),),
    ),
    Fault(
        "x_and_y_mixed_up",
        "step04",
        TILELANG,
        "wrong",
        (("by * block_M, bx", "bx * block_M, by"),),
        size=(256, 512, 64),
    ),
    Fault(
        "d_shared_is_not_filled", "step04", TILELANG, "wrong", (("            T.copy(acc, D_shared)\n", ""),)
    ),
    Fault(
        "t_copy_of_the_sums_stores_by_threads",
        "step04",
        TILELANG,
        "right",
        (("T.tma_copy(D_shared", "T.copy(acc"),),
        size=(256, 256, 128),
    ),
    Fault("b_goes_to_the_buffer_of_a", "step04", TILELANG, "wrong", (("ks], B_shared", "ks], A_shared"),)),
    Fault(
        "the_bytes_of_a_alone", "step04", CUTE, "hang", (("full, tile_bytes", "full, block_M * block_K * 2"),)
    ),
    Fault(
        "no_synchronisation_before_the_store",
        "step04",
        CUTE,
        "race",
        (
            (
                "cute.arch.fence_view_async_shared()\n        cute.arch.sync_threads()",
                "cute.arch.fence_view_async_shared()",
            ),
        ),
    ),
    Fault(
        "x_and_y_mixed_up",
        "step04",
        CUTE,
        "wrong",
        (("n, m, _ = cute", "m, n, _ = cute"),),
        size=(256, 512, 64),
    ),
    Fault(
        "no_wait_for_the_multiplication",
        "step04",
        CUTE,
        "race",
        (("            warpgroup.wait_group(0)\n", ""),),
        size=(128, 128, 128),
    ),
    Fault(
        "nobody_arrives",
        "step04",
        CUTE,
        "hang",
        (("cute.arch.mbarrier_arrive_and_expect_tx", "cute.arch.mbarrier_expect_tx"),),
        size=(128, 128, 128),
    ),
    Fault("d_coordinates_swapped", "step04", CUTE, "wrong", (("D_dst[None, m, n", "D_dst[None, n, m"),)),
    Fault(
        "every_warp_stores",
        "step04",
        CUTE,
        "right",
        (
            (
                "cute.arch.sync_threads()\n        if warp_idx == 0:",
                "cute.arch.sync_threads()\n        if warp_idx < 4:",
            ),
        ),
    ),
    Fault(
        "wgmma_reads_stage_0_in_every_step",
        "step05",
        TILELANG,
        "wrong",
        (("A_shared[stage, :, :], B_shared[stage", "A_shared[0, :, :], B_shared[0"),),
    ),
    Fault(
        "the_loop_ends_a_step_early", "step05", TILELANG, "wrong", (("k_tiles + num_stages - 1", "k_tiles"),)
    ),
    Fault(
        "clear_accum_follows_the_load", "step05", TILELANG, "wrong", (("clear_accum=(k", "clear_accum=(i"),)
    ),
    Fault(
        "a_barrier_counts_the_stages",
        "step05",
        TILELANG,
        "hang",
        (("T.alloc_barrier([1", "T.alloc_barrier([num_stages"),),
    ),
    Fault(
        "two_stages_in_turns",
        "step05",
        TILELANG,
        "right",
        (
            ("for i in T.serial(k_tiles + num_stages - 1):", "for i in T.serial(k_tiles):"),
            (
                "if i >= num_stages - 1:\n                    k = i - (num_stages - 1)",
                "if i >= 0:\n                    k = i",
            ),
        ),
    ),
    Fault(
        "b_goes_to_the_other_stage",
        "step05",
        TILELANG,
        "wrong",
        (("B_shared[load", "B_shared[(load + 1) % num_stages"),),
        ctas=(0,),
    ),
    Fault("no_release", "step05", CUTE, "hang", (("                pipe.consumer_release(use)\n", ""),)),
    Fault(
        "the_tile_of_a_is_one_behind",
        "step05",
        CUTE,
        "wrong",
        (("A_src[None, m, i", "A_src[None, m, i - 1"),),
    ),
    Fault(
        "warp_0_releases_for_all",
        "step05",
        CUTE,
        "hang",
        (
            (
                "pipe.consumer_release(use)",
                "if warp_idx == 0:\n                    pipe.consumer_release(use)",
            ),
        ),
    ),
    Fault(
        "no_wait_for_the_multiplication",
        "step05",
        CUTE,
        "race",
        (("                warpgroup.wait_group(0)\n", ""),),
        size=(128, 128, 320),
    ),
    Fault(
        "the_loop_ends_a_step_early",
        "step05",
        CUTE,
        "wrong",
        (("+ num_stages - 1", "+ num_stages - 2"),),
        size=(128, 128, 320),
    ),
    Fault(
        "done_is_never_counted_on",
        "step06",
        TILELANG,
        "hang",
        (("                done = done + k_tiles\n", ""),),
        size=(4864, 2304, 192),
        ctas=(-1,),
        spread=("", "tiles.next_tile()"),
    ),
    Fault(
        "the_sum_is_cleared_in_the_first_tile_of_a_cta_alone",
        "step06",
        TILELANG,
        "wrong",
        (("clear_accum=(", "clear_accum=(done + "),),
        size=(2176, 1024, 64),
        ctas=(0,),
    ),
    Fault(
        "waits_for_the_store_at_once",
        "step06",
        TILELANG,
        "right",
        (
            ("                T.tma_store_wait(0)\n                T.sync_threads()\n", ""),
            (
                "T.tma_copy(D_shared, D[ms, ns])",
                (
                    "T.tma_copy(D_shared, D[ms, ns])\n"
                    "                T.tma_store_wait(0)\n"
                    "                T.sync_threads()"
                ),
            ),
        ),
        size=(4864, 2304, 192),
        ctas=(-1,),
    ),
    Fault(
        "waits_for_all_stores_but_one",
        "step06",
        TILELANG,
        "race",
        (("                T.tma_store_wait(0)", "                T.tma_store_wait(1)"),),
        size=(4864, 2304, 64),
        ctas=(-1,),
    ),
    Fault(
        "next_tile_is_forgotten",
        "step06",
        TILELANG,
        "hang",
        (("                tiles.next_tile()\n", ""),),
        ctas=(0,),
    ),
    Fault(
        "tiles_of_m_and_n_exchanged_in_the_scheduler",
        "step06",
        TILELANG,
        "wrong",
        (("M // block_M, N // block_N,", "N // block_N, M // block_M,"),),
    ),
    Fault(
        "the_loop_ends_a_tile_early",
        "step06",
        CUTE,
        "wrong",
        (("tiles_M * tiles_N", "tiles_M * tiles_N - 1"),),
        size=(256, 512, 64),
    ),
    Fault(
        "no_barrier_after_the_wait_for_the_store",
        "step06",
        CUTE,
        "race",
        (
            (
                ("cute.arch.cp_async_bulk_wait_group(0, read=True)\n            cute.arch.sync_threads()"),
                "cute.arch.cp_async_bulk_wait_group(0, read=True)",
            ),
        ),
        size=(4864, 2304, 64),
        ctas=(-1,),
        spread=("", "out.store("),
    ),
    Fault(
        "the_store_is_never_committed",
        "step06",
        CUTE,
        "race",
        (("                cute.arch.cp_async_bulk_commit_group()\n", ""),),
        size=(4864, 2304, 64),
        ctas=(-1,),
    ),
    Fault(
        "m_and_n_exchanged",
        "step06",
        CUTE,
        "wrong",
        (("m, n = order.get_flat_coord", "n, m = order.get_flat_coord"),),
    ),
    Fault(
        "a_while_loop_that_takes_no_next_tile",
        "step06",
        CUTE,
        "hang",
        (
            (
                "for tile in cutlass.range(cta, tiles_M * tiles_N, sm_count, unroll=1):",
                "tile = cta\n        while tile < tiles_M * tiles_N:",
            ),
        ),
        ctas=(0,),
        spread=("m, n = order.get_flat_coord(tile)", "cute.arch.cp_async_bulk_commit_group()"),
    ),
    Fault(
        "the_store_is_waited_for_at_once",
        "step06",
        CUTE,
        "right",
        (
            (
                "cute.arch.cp_async_bulk_commit_group()",
                (
                    "cute.arch.cp_async_bulk_commit_group()\n"
                    "                cute.arch.cp_async_bulk_wait_group(0)"
                ),
            ),
        ),
        size=(1536, 1792, 64),
        ctas=(0,),
    ),
    Fault(
        "nobody_arrives_on_empty",
        "step07",
        TILELANG,
        "hang",
        (
            (
                (
                    "                        if T.shuffle_elect(128):\n"
                    "                            T.mbarrier_arrive(empty[stage])\n"
                ),
                "",
            ),
        ),
        ctas=(0,),
    ),
    Fault(
        "gives_the_stage_back_before_the_wgmma_is_over",
        "step07",
        TILELANG,
        "race",
        (
            ("                        T.wait_wgmma(0)\n", ""),
            (
                "T.mbarrier_arrive(empty[stage])",
                ("T.mbarrier_arrive(empty[stage])\n                        T.wait_wgmma(0)"),
            ),
        ),
        ctas=(0,),
    ),
    Fault(
        "both_roles_stop_a_k_tile_early",
        "step07",
        TILELANG,
        "wrong",
        (("= K // block_K", "= K // block_K - 1"),),
        size=(128, 256, 192),
    ),
    Fault(
        "no_wait_for_the_last_store",
        "step07",
        TILELANG,
        "race",
        (("tiles.next_tile()\n                T.tma_store_wait(0)", "tiles.next_tile()"),),
    ),
    Fault(
        "wgmma_takes_b_of_stage_0_alone",
        "step07",
        TILELANG,
        "wrong",
        ((":], B_shared[stage", ":], B_shared[0"),),
        size=(1536, 1792, 64),
        ctas=(0, 1),
    ),
    Fault(
        "full_counts_an_arrival_for_a_and_one_for_b",
        "step07",
        TILELANG,
        "hang",
        (("full = T.alloc_barrier([1", "full = T.alloc_barrier([2"),),
        ctas=(0,),
    ),
    Fault(
        "the_consumer_never_takes_its_next_tile",
        "step07",
        TILELANG,
        "hang",
        (
            (
                "T.tma_copy(D_shared, D[ms, ns])\n                    tiles.next_tile()",
                "T.tma_copy(D_shared, D[ms, ns])",
            ),
        ),
        size=(4864, 2304, 192),
        ctas=(-1,),
    ),
    Fault(
        "the_load_never_advances",
        "step07",
        CUTE,
        "fault",
        (("                        load.advance()\n", ""),),
        ctas=(0,),
        spread=("s, full = load.index", ""),
    ),
    Fault(
        "accumulate_is_never_set",
        "step07",
        CUTE,
        "wrong",
        (("                        mma.set(warpgroup.Field.ACCUMULATE, True)\n", ""),),
        ctas=(0,),
    ),
    Fault(
        "no_consumer_release",
        "step07",
        CUTE,
        "hang",
        (("                    pipe.consumer_release(use)\n", ""),),
        ctas=(0,),
    ),
    Fault(
        "release_before_the_group_is_committed",
        "step07",
        CUTE,
        "race",
        (
            (
                (
                    "warpgroup.commit_group()\n"
                    "                    warpgroup.wait_group(0)\n"
                    "                    pipe.consumer_release(use)"
                ),
                (
                    "pipe.consumer_release(use)\n"
                    "                    warpgroup.commit_group()\n"
                    "                    warpgroup.wait_group(0)"
                ),
            ),
        ),
        ctas=(0,),
    ),
    Fault(
        "both_roles_stop_a_k_tile_early",
        "step07",
        CUTE,
        "wrong",
        (("= K // block_K", "= K // block_K - 1"),),
        size=(128, 256, 192),
    ),
    Fault(
        "the_producer_has_the_state_of_a_consumer",
        "step07",
        CUTE,
        "hang",
        (("pipeline.PipelineUserType.Producer", "pipeline.PipelineUserType.Consumer"),),
        ctas=(0,),
    ),
    Fault(
        "another_warp_waits_for_the_store_at_the_end",
        "step07",
        CUTE,
        "race",
        (
            (
                "cute.arch.cp_async_bulk_commit_group()\n            if warp_idx == 4:",
                "cute.arch.cp_async_bulk_commit_group()\n            if warp_idx == 5:",
            ),
        ),
        size=(256, 256, 128),
    ),
    Fault(
        "the_producer_waits_for_no_empty_stage",
        "step08",
        TILELANG,
        "fault",
        (
            (
                "                            T.mbarrier_wait_parity(empty[stage]"
                ", (it // num_stages) & 1 ^ 1)\n",
                "",
            ),
        ),
        ctas=(0,),
    ),
    Fault(
        "empty_counts_an_arrival_more",
        "step08",
        TILELANG,
        "hang",
        (("empty = T.alloc_barrier([1", "empty = T.alloc_barrier([2"),),
        size=(128, 256, 576),
    ),
    Fault(
        "the_last_stage_is_never_given_back",
        "step08",
        TILELANG,
        "hang",
        (
            (
                (
                    "                    if T.shuffle_elect(128):\n"
                    "                        T.mbarrier_arrive(empty[(it - 1) % num_stages])\n"
                ),
                "",
            ),
        ),
        size=(4864, 2304, 192),
        ctas=(-1,),
        spread=("", "tiles.next_tile()"),
    ),
    Fault(
        "no_wait_for_the_last_group",
        "step08",
        TILELANG,
        "race",
        (("                    T.wait_wgmma(0)\n", ""),),
        ctas=(0,),
    ),
    Fault("two_stages", "step08", TILELANG, "right", (("num_stages = 4", "num_stages = 2"),)),
    Fault(
        "the_accumulator_is_cleared_for_the_first_tile_alone",
        "step08",
        TILELANG,
        "wrong",
        (("clear_accum=(k", "clear_accum=(it"),),
        size=(2176, 1024, 64),
        ctas=(0,),
    ),
    Fault(
        "the_last_stage_is_never_given_back",
        "step08",
        CUTE,
        "hang",
        ((("                pipe.consumer_release(free)\n                free.advance()\n"), ""),),
        size=(4864, 2304, 192),
        ctas=(-1,),
        spread=("", "cute.arch.cp_async_bulk_commit_group()"),
    ),
    Fault(
        "waits_for_all_but_one_after_the_loop",
        "step08",
        CUTE,
        "race",
        (("warpgroup.wait_group(0", "warpgroup.wait_group(1"),),
        ctas=(0,),
    ),
    Fault(
        "releases_the_stage_in_use",
        "step08",
        CUTE,
        "race",
        (
            (
                (
                    "if k > 0:\n"
                    "                        pipe.consumer_release(free)\n"
                    "                        free.advance()"
                ),
                "pipe.consumer_release(use)",
            ),
            (("                pipe.consumer_release(free)\n                free.advance()\n"), ""),
        ),
        ctas=(0,),
    ),
    Fault(
        "no_min_blocks_per_mp",
        "step08",
        CUTE,
        "right",
        (("1), min_blocks_per_mp=1", "1)"),),
        size=(256, 256, 128),
    ),
    Fault(
        "both_roles_stop_a_k_tile_early",
        "step08",
        CUTE,
        "wrong",
        (("= K // block_K", "= K // block_K - 1"),),
        size=(128, 256, 192),
    ),
    Fault(
        "each_consumer_arrives_at_home_alone",
        "step09",
        TILELANG,
        "hang",
        (
            (
                (
                    "if k > 0 and thread % 128 < cluster:\n"
                    "                            T.mbarrier_arrive(empty[(it - 1) % num_stages]"
                    ", thread % 128)"
                ),
                (
                    "if k > 0 and thread % 128 == 0:\n"
                    "                            T.mbarrier_arrive(empty[(it - 1) % num_stages]"
                    ", rank)"
                ),
            ),
            (
                (
                    "if thread % 128 < cluster:\n"
                    "                        T.mbarrier_arrive(empty[(it - 1) % num_stages]"
                    ", thread % 128)"
                ),
                (
                    "if thread % 128 == 0:\n"
                    "                        T.mbarrier_arrive(empty[(it - 1) % num_stages]"
                    ", rank)"
                ),
            ),
        ),
        size=(256, 128, 832),
    ),
    Fault(
        "the_rank_is_not_in_the_row_that_is_loaded",
        "step09",
        TILELANG,
        "wrong",
        (
            (
                "                        m, n = (tiles.m_idx * cluster + rank) * block_M",
                "                        m, n = (tiles.m_idx * cluster) * block_M",
            ),
        ),
    ),
    Fault("sync_threads_at_the_end", "step09", TILELANG, "race", (("T.cluster_sync", "T.sync_threads"),)),
    Fault(
        "the_last_stage_is_never_given_back",
        "step09",
        TILELANG,
        "hang",
        (
            (
                (
                    "                    if thread % 128 < cluster:\n"
                    "                        T.mbarrier_arrive(empty[(it - 1) % num_stages]"
                    ", thread % 128)\n"
                ),
                "",
            ),
        ),
        size=(4864, 2304, 192),
        ctas=(-1,),
        spread=("", "tiles.next_tile()"),
    ),
    Fault(
        "a_grid_of_66_ctas",
        "step09",
        TILELANG,
        "right",
        (("sm_count = 132", "sm_count = 66"),),
        size=(4864, 2304, 64),
        ctas=(-1,),
    ),
    Fault(
        "rank_0_alone_arrives_on_full",
        "step09",
        TILELANG,
        "hang",
        (("if T.shuffle_elect", "if rank == 0 and T.shuffle_elect"),),
    ),
    Fault(
        "full_expects_half_of_b",
        "step09",
        CUTE,
        "hang",
        (("block_M + block_N", "block_M + block_N // 2"),),
        size=(256, 128, 192),
    ),
    Fault(
        "the_rank_is_not_in_the_row_that_is_loaded",
        "step09",
        CUTE,
        "wrong",
        (("                    m = row * cluster + rank", "                    m = row * cluster"),),
        size=(512, 768, 64),
    ),
    Fault(
        "no_producer_tail",
        "step09",
        CUTE,
        "race",
        (("                pipe.producer_tail(load)\n", ""),),
        size=(256, 768, 576),
    ),
    Fault(
        "the_consumer_row_without_the_rank",
        "step09",
        CUTE,
        "wrong",
        (
            (
                ("row, n = order.get_flat_coord(tile)\n                m = row * cluster + rank"),
                "row, n = order.get_flat_coord(tile)\n                m = row * cluster",
            ),
        ),
        size=(256, 768, 64),
    ),
    Fault(
        "empty_counts_twice_the_warps",
        "step09",
        CUTE,
        "hang",
        (("pipeline.Agent.Thread, cluster * 4", "pipeline.Agent.Thread, cluster * 8"),),
        size=(256, 768, 576),
    ),
    Fault(
        "a_grid_of_130_ctas",
        "step09",
        CUTE,
        "right",
        (("sm_count = 132", "sm_count = 130"),),
        size=(4864, 2304, 64),
        ctas=(-1,),
    ),
    Fault(
        "the_mask_names_three_ctas",
        "step10",
        TILELANG,
        "fault",
        (("cluster_mask=0b11", "cluster_mask=0b111"),),
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    Fault(
        "always_the_first_chunk_of_the_sums",
        "step10",
        TILELANG,
        "wrong",
        (("c * epi_N : (c + 1) * ", "0:"),),
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    Fault(
        "no_wait_before_a_buffer_is_written",
        "step10",
        TILELANG,
        "race",
        (("                        T.tma_store_wait(1)\n", ""),),
        size=(256, 512, 192),
    ),
    Fault(
        "one_chunk_too_few",
        "step10",
        TILELANG,
        "wrong",
        (("block_N // epi_N", "block_N // epi_N - 1"),),
        size=(256, 512, 192),
    ),
    Fault(
        "one_consumer_warpgroup_tells",
        "step10",
        TILELANG,
        "hang",
        (
            (
                (
                    "if k > 0 and thread % 128 < cluster:\n"
                    "                            T.mbarrier_arrive(empty[(it - 1) % num_stages]"
                    ", thread % 128)"
                ),
                (
                    "if k > 0 and thread - 128 < cluster:\n"
                    "                            T.mbarrier_arrive(empty[(it - 1) % num_stages]"
                    ", thread - 128)"
                ),
            ),
            (
                (
                    "if thread % 128 < cluster:\n"
                    "                        T.mbarrier_arrive(empty[(it - 1) % num_stages]"
                    ", thread % 128)"
                ),
                (
                    "if thread - 128 < cluster:\n"
                    "                        T.mbarrier_arrive(empty[(it - 1) % num_stages]"
                    ", thread - 128)"
                ),
            ),
        ),
        size=(256, 256, 512),
    ),
    Fault(
        "waits_for_every_store",
        "step10",
        TILELANG,
        "right",
        (("T.tma_store_wait(1", "T.tma_store_wait(0"),),
        size=(256, 512, 64),
    ),
    Fault(
        "the_named_barrier_counts_the_producer",
        "step10",
        TILELANG,
        "hang",
        (
            (
                ("T.tma_store_wait(1)\n                        T.sync_threads(1, 128 * consumers)"),
                ("T.tma_store_wait(1)\n                        T.sync_threads(1, threads)"),
            ),
            (
                ("T.fence_proxy_async()\n                        T.sync_threads(1, 128 * consumers)"),
                ("T.fence_proxy_async()\n                        T.sync_threads(1, threads)"),
            ),
        ),
    ),
    Fault(
        "the_consumers_loop_is_for_one_warpgroup", "step10", CUTE, "hang", (("else:", "elif warp_idx < 8:"),)
    ),
    Fault(
        "groups_of_a_chunk_overlap",
        "step10",
        CUTE,
        "wrong",
        (("* (epi_N // 16) ", ""),),
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    Fault(
        "both_warpgroups_multiply_the_same_rows",
        "step10",
        CUTE,
        "wrong",
        (("mma.get_slice(thread -", "mma.get_slice(thread %"),),
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    Fault(
        "no_barrier_between_the_writes_and_the_store",
        "step10",
        CUTE,
        "race",
        (
            (
                ("cute.arch.fence_view_async_shared()\n                    consumers.arrive_and_wait()"),
                "cute.arch.fence_view_async_shared()",
            ),
        ),
        size=(256, 512, 192),
        ctas=(0, 1),
    ),
    Fault(
        "waits_for_every_store",
        "step10",
        CUTE,
        "right",
        (("cute.arch.cp_async_bulk_wait_group(1", "cute.arch.cp_async_bulk_wait_group(0"),),
        size=(256, 512, 64),
    ),
    Fault(
        "empty_counts_twice_the_warps",
        "step10",
        CUTE,
        "hang",
        (("pipeline.Agent.Thread, cluster * 8", "pipeline.Agent.Thread, cluster * 16"),),
    ),
)
