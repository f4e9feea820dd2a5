"""Task 10e: a batched GEMM. One more coordinate, and each matrix ends where its map says."""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

block_M, block_N, block_K = 128, 128, 64
num_stages = 4


# sm_count: SMs of an H100 SXM and an H200; a check passes those of the GPU that it runs on
def gemm(batch, M, N, K, sm_count=132):
    """D[b] = A[b] @ B[b]^T for each b below batch, all in one launch.

    - The host function takes A (batch, M, K), B (batch, N, K) and D (batch, M, N), in this
      order. All are fp16.
    - N and K are multiples of the tile. M is not: behind D[b]'s last row D[b + 1] begins.
    - All else as in your step 8 or later: persistent, roles, four stages. Speed counts here.
    """
    ### BEGIN SOLUTION: the kernel; start from your step 8 or later
    assert N % block_N == K % block_K == 0, "N and K must be multiples of the tile"
    k_tiles = K // block_K
    tiles_M, tiles_N = -(-M // block_M), N // block_N
    tiles = batch * tiles_M * tiles_N
    panel = max(width for width in (1, 2, 3, 4) if tiles_N % width == 0)
    tile_bytes = (block_M + block_N) * block_K * 2  # of A and of B in one stage

    @cute.kernel
    def kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        # PipelineTmaAsync: full, then empty
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        D_shared = smem.allocate_tensor(cutlass.Float16, layout_D.outer, 1024, layout_D.inner)
        # the producer warp fills a stage; the four consumer warps say when they have left it
        pipe = pipeline.PipelineTmaAsync.create(
            num_stages=num_stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 4),
            tx_count=tile_bytes,
            barrier_storage=barriers,
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )

        # TMA takes a tile as one mode: of the ring (tile, stage), of the matrices (tile, ...);
        # the batch is a mode behind: (tile, m or n, k, batch), and of D (tile, m, n, batch)
        every = (None, None, None)
        A_tiles = cute.group_modes(cute.local_tile(A, (block_M, block_K), every), 0, 2)
        B_tiles = cute.group_modes(cute.local_tile(B, (block_N, block_K), every), 0, 2)
        D_tiles = cute.group_modes(cute.local_tile(D, (block_M, block_N), every), 0, 2)
        A_ring, B_ring = cute.group_modes(A_shared, 0, 2), cute.group_modes(B_shared, 0, 2)
        D_tile, one = cute.group_modes(D_shared, 0, 2), cute.make_layout(1)
        A_dst, A_src = cpasync.tma_partition(load_A, 0, one, A_ring, A_tiles)
        B_dst, B_src = cpasync.tma_partition(load_B, 0, one, B_ring, B_tiles)
        D_src, D_dst = cpasync.tma_partition(store_D, 0, one, D_tile, D_tiles)

        my_mma = mma.get_slice(thread % 128)
        # descriptors: wgmma reads shared memory itself
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        my_shape = my_mma.partition_shape_C((block_M, block_N))
        acc = cute.make_rmem_tensor(my_shape, cutlass.Float32)
        out = cute.make_rmem_tensor(acc.shape, cutlass.Float16)
        stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), cutlass.Float16)
        to_shared = cute.make_tiled_copy_C(stmatrix, mma)
        my_out = to_shared.get_slice(thread % 128)
        # panels of up to 4 columns, row after row within a panel: A and B stay in L2
        shape = (tiles_M, (panel, tiles_N // panel), batch)
        strides = (panel, (1, panel * tiles_M), tiles_M * tiles_N)
        order = cute.make_layout(shape, stride=strides)
        consumers = pipeline.NamedBarrier(1, 128)  # of the consumer's threads only

        if warp_idx < 4:  # producer warpgroup, of which one warp works
            cute.arch.setmaxregister_decrease(40)
            load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
            if warp_idx == 0:
                for tile in cutlass.range(cta, tiles, sm_count, unroll=1):
                    m, n, b = order.get_flat_coord(tile)
                    for k in cutlass.range(k_tiles, unroll=1):
                        pipe.producer_acquire(load)
                        s, full = load.index, pipe.producer_get_barrier(load)
                        A_tile, B_tile = A_src[None, m, k, b], B_src[None, n, k, b]
                        cute.copy(load_A, A_tile, A_dst[None, s], tma_bar_ptr=full)
                        cute.copy(load_B, B_tile, B_dst[None, s], tma_bar_ptr=full)
                        load.advance()
        else:  # consumer warpgroup
            cute.arch.setmaxregister_increase(232)
            use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            # the oldest stage not yet given back
            free = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            for tile in cutlass.range(cta, tiles, sm_count, unroll=1):
                m, n, b = order.get_flat_coord(tile)
                mma.set(warpgroup.Field.ACCUMULATE, False)
                for k in cutlass.range(k_tiles, unroll=1):
                    pipe.consumer_wait(use)
                    warpgroup.fence()
                    for k_block in cutlass.range_constexpr(block_K // 16):
                        at = (None, None, k_block, use.index)
                        cute.gemm(mma, acc, A_frag[at], B_frag[at], acc)
                        mma.set(warpgroup.Field.ACCUMULATE, True)
                    warpgroup.commit_group()
                    # all but the newest group are done: the stage before this one is free
                    warpgroup.wait_group(1)
                    if k > 0:
                        pipe.consumer_release(free)
                        free.advance()
                    use.advance()
                warpgroup.wait_group(0)
                pipe.consumer_release(free)
                free.advance()

                if warp_idx == 4:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
                consumers.arrive_and_wait()
                out.store(acc.load().to(cutlass.Float16))
                cute.copy(to_shared, my_out.retile(out), my_out.partition_D(D_shared))
                cute.arch.fence_view_async_shared()
                consumers.arrive_and_wait()
                if warp_idx == 4:
                    cute.copy(store_D, D_src, D_dst[None, m, n, b])
                    cute.arch.cp_async_bulk_commit_group()
            if warp_idx == 4:
                cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        swizzle = warpgroup.SmemLayoutAtomKind.K_SW128
        atom = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, num_stages), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, num_stages), order=(0, 1, 2))
        layout_D = cute.tile_to_shape(atom, (block_M, block_N), order=(0, 1))
        g2s, s2g = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        stage_A, stage_B = cute.select(layout_A, [0, 1]), cute.select(layout_B, [0, 1])
        # the tile's modes first, and the batch behind them
        by_batch = [cute.select(X.layout, [1, 2, 0]) for X in (A, B, D)]
        iterators = A.iterator, B.iterator, D.iterator
        A, B, D = map(cute.make_tensor, iterators, by_batch)
        load_A, A = cpasync.make_tiled_tma_atom(g2s, A, stage_A, (block_M, block_K))
        load_B, B = cpasync.make_tiled_tma_atom(g2s, B, stage_B, (block_N, block_K))
        store_D, D = cpasync.make_tiled_tma_atom(s2g, D, layout_D, (block_M, block_N))
        fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (64, block_N, 16)
        source, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        wgmma = warpgroup.MmaF16BF16Op(fp16, fp32, shape, source, k_major, k_major)
        mma = cute.make_tiled_mma(wgmma)
        kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma).launch(
            grid=(sm_count, 1, 1), block=(256, 1, 1), min_blocks_per_mp=1
        )

    return main
    ### END SOLUTION
