"""Step 10: two consumer warpgroups share a 128 x 256 tile, 64 rows each: each A tile that arrives meets twice the columns."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator
from cutlass.pipeline import Agent, CooperativeGroup, NamedBarrier, PipelineTmaAsync, PipelineUserType, make_pipeline_state

block_M, block_N, block_K = 128, 256, 64
epi_N = 64  # columns of D staged at a time, in two buffers: TMA stores one while threads fill the other
num_stages = 4
cluster = 2
num_ctas = 128  # of 132 SMs: 64 clusters work through D in squares of 8 x 8 cluster tiles


def gemm(M, N, K):
    assert M % (cluster * block_M) == 0 and N % block_N == 0 and K % block_K == 0, (
        "sizes must be multiples of the cluster's tile")
    k_tiles = K // block_K
    rows, tiles_N = M // block_M // cluster, N // block_N  # a row of cluster tiles is two rows of tiles
    panel = max(width for width in range(1, 9) if rows % width == 0)
    tile_bytes = (block_M + block_N) * block_K * 2  # of A and of B in one stage

    @cute.kernel
    def kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        smem = SmemAllocator()
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)  # PipelineTmaAsync: full, then empty
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        D_shared = smem.allocate_tensor(cutlass.Float16, layout_D.outer, 1024, layout_D.inner)
        # a stage is written for both CTAs, so it is free when the 8 consumer warps of each have left it
        pipe = PipelineTmaAsync.create(
            num_stages=num_stages, producer_group=CooperativeGroup(Agent.Thread),
            consumer_group=CooperativeGroup(Agent.Thread, cluster * 8), tx_count=tile_bytes, barrier_storage=barriers,
            cta_layout_vmnk=cute.make_layout((1, cluster, 1, 1)))

        # TMA takes a tile as one mode: (tile, m or n, k) in global memory, (tile, stage) in shared memory
        A_tiles = cute.group_modes(cute.local_tile(A, (block_M, block_K), (None, None)), 0, 2)
        B_tiles = cute.group_modes(cute.local_tile(B, (block_N, block_K), (None, None)), 0, 2)
        D_tiles = cute.group_modes(cute.local_tile(D, (block_M, epi_N), (None, None)), 0, 2)
        one = cute.make_layout(1)
        A_dst, A_src = cpasync.tma_partition(load_A, 0, one, cute.group_modes(A_shared, 0, 2), A_tiles)
        # B's tile is cut in two: each CTA loads its half and multicasts it to both
        pair = cute.make_layout(cluster)
        B_dst, B_src = cpasync.tma_partition(load_B, rank, pair, cute.group_modes(B_shared, 0, 2), B_tiles)
        D_src, D_dst = cpasync.tma_partition(store_D, 0, one, cute.group_modes(D_shared, 0, 2), D_tiles)

        my_mma = mma.get_slice(thread - 128)
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))  # descriptors: wgmma reads shared memory itself
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        acc = cute.make_rmem_tensor(my_mma.partition_shape_C((block_M, block_N)), cutlass.Float32)
        out = cute.make_rmem_tensor(acc.shape, cutlass.Float16)
        to_shared = cute.make_tiled_copy_C_atom(cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), cutlass.Float16), mma)
        my_out = to_shared.get_slice(thread - 128)
        out_src = my_out.retile(out)  # ((8, block_N / 16), 1, 1): eight numbers a thread for every 16 columns
        out_dst = my_out.partition_D(D_shared)  # (8, 1, epi_N / 16, buffer)
        order = cute.make_layout(((panel, rows // panel), tiles_N), stride=((1, panel * tiles_N), panel))
        consumers = NamedBarrier(1, 256)  # of the consumers' threads only

        ### BEGIN SOLUTION: the kernel: one producer warp, and two consumer warpgroups
        if warp_idx < 4:  # producer warpgroup, of which one warp works
            cute.arch.setmaxregister_decrease(40)
            if warp_idx == 0:
                load = make_pipeline_state(PipelineUserType.Producer, num_stages)
                forth = cutlass.Boolean(True)
                for tile in cutlass.range(cta // cluster, rows * tiles_N, num_ctas // cluster, unroll=1):
                    row, n = order.get_flat_coord(tile)
                    m = row * cluster + rank
                    for k in cutlass.range(k_tiles, unroll=1):
                        # every other tile goes through K backwards: what the last tile left in L2 comes first
                        k_load = k if forth else k_tiles - 1 - k
                        pipe.producer_acquire(load)
                        full = pipe.producer_get_barrier(load)
                        cute.copy(load_A, A_src[None, m, k_load], A_dst[None, load.index], tma_bar_ptr=full)
                        cute.copy(load_B, B_src[None, n, k_load], B_dst[None, load.index], tma_bar_ptr=full,
                                  mcast_mask=cutlass.Int16(0b11))
                        load.advance()
                    forth = not forth
                pipe.producer_tail(load)  # stay until both CTAs have left every stage: nobody arrives at a CTA that is gone
        else:  # consumer warpgroups: 64 rows of the tile each
            cute.arch.setmaxregister_increase(232)
            use = make_pipeline_state(PipelineUserType.Consumer, num_stages)
            free = make_pipeline_state(PipelineUserType.Consumer, num_stages)  # the oldest stage not yet given back
            for tile in cutlass.range(cta // cluster, rows * tiles_N, num_ctas // cluster, unroll=1):
                row, n = order.get_flat_coord(tile)
                m = row * cluster + rank
                mma.set(warpgroup.Field.ACCUMULATE, False)
                for k in cutlass.range(k_tiles, unroll=1):
                    pipe.consumer_wait(use)
                    warpgroup.fence()
                    for i in cutlass.range_constexpr(block_K // 16):
                        cute.gemm(mma, acc, A_frag[None, None, i, use.index], B_frag[None, None, i, use.index], acc)
                        mma.set(warpgroup.Field.ACCUMULATE, True)
                    warpgroup.commit_group()
                    warpgroup.wait_group(1)  # all but the newest group are done: the stage before this one is free
                    if k > 0:
                        pipe.consumer_release(free)
                        free.advance()
                    use.advance()
                warpgroup.wait_group(0)
                pipe.consumer_release(free)
                free.advance()

                out.store(acc.load().to(cutlass.Float16))
                for c in cutlass.range_constexpr(block_N // epi_N):
                    if warp_idx == 4:
                        cute.arch.cp_async_bulk_wait_group(1, read=True)  # all but the newest store have read their buffer
                    consumers.arrive_and_wait()
                    for i in cutlass.range_constexpr(epi_N // 16):
                        cute.copy(to_shared, out_src[(None, c * (epi_N // 16) + i), 0, 0], out_dst[None, 0, i, c % 2])
                    cute.arch.fence_view_async_shared()
                    consumers.arrive_and_wait()
                    if warp_idx == 4:
                        cute.copy(store_D, D_src[None, c % 2], D_dst[None, m, n * (block_N // epi_N) + c])
                        cute.arch.cp_async_bulk_commit_group()
            if warp_idx == 4:
                cute.arch.cp_async_bulk_wait_group(0)
        ### END SOLUTION

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, num_stages), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, num_stages), order=(0, 1, 2))
        layout_D = cute.tile_to_shape(atom, (block_M, epi_N, 2), order=(0, 1, 2))
        load_A, A = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileG2SOp(), A, cute.select(layout_A, [0, 1]), (block_M, block_K))
        load_B, B = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileG2SMulticastOp(), B, cute.select(layout_B, [0, 1]), (block_N, block_K), cluster)
        store_D, D = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileS2GOp(), D, cute.select(layout_D, [0, 1]), (block_M, epi_N))
        mma = cute.make_tiled_mma(warpgroup.MmaF16BF16Op(
            cutlass.Float16, cutlass.Float32, (64, block_N, 16), warpgroup.OperandSource.SMEM,
            OperandMajorMode.K, OperandMajorMode.K), (2, 1, 1))
        kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma).launch(
            grid=(num_ctas, 1, 1), block=(384, 1, 1), cluster=(cluster, 1, 1), min_blocks_per_mp=1)

    return main
