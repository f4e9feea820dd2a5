"""Step 10 with consumers that take turns: each has every other tile of D for itself."""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

block_M, block_N, block_K = 128, 128, 64
num_stages = 5
cluster = 2
consumers = 2
sm_count = 132  # H100 SXM and H200


def gemm(M, N, K):
    rest = M % (cluster * block_M), N % block_N, K % block_K
    assert rest == (0, 0, 0), "sizes must be multiples of the cluster's tile"
    k_tiles = K // block_K
    # a row of cluster tiles is two rows of tiles
    rows, tiles_N = M // block_M // cluster, N // block_N
    tiles, clusters = rows * tiles_N, sm_count // cluster
    panel = max(width for width in range(1, 9) if rows % width == 0)
    tile_bytes = (block_M + block_N) * block_K * 2  # of A and of B in one stage

    @cute.kernel
    def kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        smem = SmemAllocator()
        # PipelineTmaAsync: full, then empty
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        D_shared = smem.allocate_tensor(cutlass.Float16, layout_D.outer, 1024, layout_D.inner)
        # a stage is written for both CTAs: 4 consumer warps of each have to leave it
        pipe = pipeline.PipelineTmaAsync.create(
            num_stages=num_stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, cluster * 4),
            tx_count=tile_bytes,
            barrier_storage=barriers,
            cta_layout_vmnk=cute.make_layout((1, cluster, 1, 1)),
        )

        # TMA takes a tile as one mode: (tile, m or n, k) of a matrix, (tile, stage) of the ring
        A_tiles = cute.group_modes(cute.local_tile(A, (block_M, block_K), (None, None)), 0, 2)
        B_tiles = cute.group_modes(cute.local_tile(B, (block_N, block_K), (None, None)), 0, 2)
        D_tiles = cute.group_modes(cute.local_tile(D, (block_M, block_N), (None, None)), 0, 2)
        A_ring, B_ring = cute.group_modes(A_shared, 0, 2), cute.group_modes(B_shared, 0, 2)
        D_tile, one = cute.group_modes(D_shared, 0, 2), cute.make_layout(1)
        A_dst, A_src = cpasync.tma_partition(load_A, 0, one, A_ring, A_tiles)
        # B's tile is cut in two: each CTA loads its half and multicasts it to both
        pair = cute.make_layout(cluster)
        B_dst, B_src = cpasync.tma_partition(load_B, rank, pair, B_ring, B_tiles)
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
        shape = ((panel, rows // panel), tiles_N)
        order = cute.make_layout(shape, stride=((1, panel * tiles_N), panel))
        mine = thread // 128 - 1  # consumer 0 or 1
        own = pipeline.NamedBarrier(1 + mine, 128)
        my_turn, your_turn = (pipeline.NamedBarrier(3 + who, 256) for who in (mine, 1 - mine))

        if warp_idx < 4:  # producer warpgroup, of which one warp works
            cute.arch.setmaxregister_decrease(40)
            load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
            if warp_idx == 0:
                forth = cutlass.Boolean(True)
                for tile in cutlass.range(cta // cluster, tiles, clusters, unroll=1):
                    row, n = order.get_flat_coord(tile)
                    m = row * cluster + rank
                    for i in cutlass.range(k_tiles, unroll=1):
                        # every other tile goes through K backwards: first what is still in L2
                        k = i if forth else k_tiles - 1 - i
                        pipe.producer_acquire(load)
                        s, full = load.index, pipe.producer_get_barrier(load)
                        cute.copy(load_A, A_src[None, m, k], A_dst[None, s], tma_bar_ptr=full)
                        B_half, B_slot = B_src[None, n, k], B_dst[None, s]
                        both = cutlass.Int16(0b11)
                        cute.copy(load_B, B_half, B_slot, tma_bar_ptr=full, mcast_mask=both)
                        load.advance()
                    forth = not forth
                # until both CTAs have left every stage: nobody arrives at a CTA that is gone
                pipe.producer_tail(load)
        else:  # consumer warpgroup
            cute.arch.setmaxregister_increase(232)
            use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            # the oldest stage not yet given back
            free = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            turn = cutlass.Int32(0)
            if mine == 1:
                your_turn.arrive()
            for tile in cutlass.range(cta // cluster, tiles, clusters, unroll=1):
                if turn % consumers == mine:
                    row, n = order.get_flat_coord(tile)
                    m = row * cluster + rank
                    mma.set(warpgroup.Field.ACCUMULATE, False)
                    # the other one has passed all full barriers before mine: none is two phases ahead
                    my_turn.arrive_and_wait()
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
                    your_turn.arrive()
                    warpgroup.wait_group(0)
                    pipe.consumer_release(free)
                    free.advance()

                    if warp_idx % 4 == 0:
                        cute.arch.cp_async_bulk_wait_group(0, read=True)
                    own.arrive_and_wait()
                    out.store(acc.load().to(cutlass.Float16))
                    cute.copy(
                        to_shared, my_out.retile(out), my_out.partition_D(D_shared)[None, None, None, mine]
                    )
                    cute.arch.fence_view_async_shared()
                    own.arrive_and_wait()
                    if warp_idx % 4 == 0:
                        cute.copy(store_D, D_src[None, mine], D_dst[None, m, n])
                        cute.arch.cp_async_bulk_commit_group()
                else:
                    for _ in cutlass.range(k_tiles, unroll=1):
                        use.advance()
                        free.advance()
                turn += 1
            if warp_idx % 4 == 0:
                cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        swizzle = warpgroup.SmemLayoutAtomKind.K_SW128
        atom = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, num_stages), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, num_stages), order=(0, 1, 2))
        layout_D = cute.tile_to_shape(atom, (block_M, block_N, consumers), order=(0, 1, 2))
        g2s, s2g = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        stage_A, stage_B = cute.select(layout_A, [0, 1]), cute.select(layout_B, [0, 1])
        load_A, A = cpasync.make_tiled_tma_atom(g2s, A, stage_A, (block_M, block_K))
        g2s_both = cpasync.CopyBulkTensorTileG2SMulticastOp()
        tile_B = block_N, block_K
        load_B, B = cpasync.make_tiled_tma_atom(g2s_both, B, stage_B, tile_B, cluster)
        store_D, D = cpasync.make_tiled_tma_atom(s2g, D, cute.select(layout_D, [0, 1]), (block_M, block_N))
        fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (64, block_N, 16)
        source, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        wgmma = warpgroup.MmaF16BF16Op(fp16, fp32, shape, source, k_major, k_major)
        mma = cute.make_tiled_mma(wgmma)
        kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma).launch(
            grid=(sm_count, 1, 1), block=(384, 1, 1), cluster=(cluster, 1, 1), min_blocks_per_mp=1
        )

    return main
