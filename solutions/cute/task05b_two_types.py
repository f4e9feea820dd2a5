"""Task 05b: D in fp32 and in bf16. One tile of sums leaves twice, each time by TMA."""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

block_M, block_N, block_K = 128, 128, 64
num_stages = 2
warps = 4


def gemm(M, N, K):
    """D_fp32 = A @ B^T, and D_bf16 the same, rounded to bf16: two outputs of one launch.

    - The host function takes A (M, K), B (N, K), D_fp32 (M, N), D_bf16 (M, N), in order.
    - A and B are fp16; D_fp32 has the sums as they are, D_bf16 is rounded once.
    - Both outputs leave by TMA. All else as in your step 5.
    """
    ### BEGIN SOLUTION: the kernel; start from your step 5
    assert M % block_M == N % block_N == K % block_K == 0, "sizes must be multiples of the tile"
    k_tiles = K // block_K
    tile_bytes = (block_M + block_N) * block_K * 2  # of A and of B in one stage

    @cute.kernel
    def kernel(
        load_A, A, load_B, B, store_wide, wide, store_short, short,
        layout_A, layout_B, layout_wide, layout_short, mma,
    ):  # fmt: skip
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        n, m, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        # PipelineTmaAsync: full, then empty
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        wide_shared = smem.allocate_tensor(
            cutlass.Float32, layout_wide.outer, 1024, layout_wide.inner
        )
        short_shared = smem.allocate_tensor(
            cutlass.BFloat16, layout_short.outer, 1024, layout_short.inner
        )
        # an elected thread of each warp says that its warp has left a stage
        pipe = pipeline.PipelineTmaAsync.create(
            num_stages=num_stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, warps),
            tx_count=tile_bytes,
            barrier_storage=barriers,
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )

        # TMA takes a tile as one mode: (tile, m or n, k) of a matrix, (tile, stage) of the ring
        A_tiles = cute.group_modes(cute.local_tile(A, (block_M, block_K), (None, None)), 0, 2)
        B_tiles = cute.group_modes(cute.local_tile(B, (block_N, block_K), (None, None)), 0, 2)
        tile_D = block_M, block_N
        wide_tiles = cute.group_modes(cute.local_tile(wide, tile_D, (None, None)), 0, 2)
        short_tiles = cute.group_modes(cute.local_tile(short, tile_D, (None, None)), 0, 2)
        A_ring, B_ring = cute.group_modes(A_shared, 0, 2), cute.group_modes(B_shared, 0, 2)
        wide_tile, short_tile = (
            cute.group_modes(wide_shared, 0, 2),
            cute.group_modes(short_shared, 0, 2),
        )
        one = cute.make_layout(1)
        A_dst, A_src = cpasync.tma_partition(load_A, 0, one, A_ring, A_tiles)
        B_dst, B_src = cpasync.tma_partition(load_B, 0, one, B_ring, B_tiles)
        wide_src, wide_dst = cpasync.tma_partition(store_wide, 0, one, wide_tile, wide_tiles)
        short_src, short_dst = cpasync.tma_partition(
            store_short, 0, one, short_tile, short_tiles
        )

        my_mma = mma.get_slice(thread)
        # descriptors: wgmma reads shared memory itself
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        my_shape = my_mma.partition_shape_C((block_M, block_N))
        acc = cute.make_rmem_tensor(my_shape, cutlass.Float32)
        out = cute.make_rmem_tensor(acc.shape, cutlass.BFloat16)
        stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), cutlass.BFloat16)
        to_short = cute.make_tiled_copy_C(stmatrix, mma)
        my_short = to_short.get_slice(thread)
        # stmatrix moves 16-bit numbers; two fp32 neighbours are a store of 64 bits
        pairs = cute.make_copy_atom(
            cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=64
        )
        to_wide = cute.make_tiled_copy_C(pairs, mma)
        my_wide = to_wide.get_slice(thread)
        # stage and phase of the next load, and of the next wgmma
        load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
        use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)

        mma.set(warpgroup.Field.ACCUMULATE, False)
        # step i loads tile i, and multiplies the one asked for num_stages - 1 steps ago
        for i in cutlass.range(k_tiles + num_stages - 1, unroll=1):
            if i < k_tiles:
                if warp_idx == 0:
                    pipe.producer_acquire(load)
                    s, full = load.index, pipe.producer_get_barrier(load)
                    cute.copy(load_A, A_src[None, m, i], A_dst[None, s], tma_bar_ptr=full)
                    cute.copy(load_B, B_src[None, n, i], B_dst[None, s], tma_bar_ptr=full)
                load.advance()
            if i >= num_stages - 1:
                pipe.consumer_wait(use)
                warpgroup.fence()
                for k_block in cutlass.range_constexpr(block_K // 16):
                    at = (None, None, k_block, use.index)
                    cute.gemm(mma, acc, A_frag[at], B_frag[at], acc)
                    mma.set(warpgroup.Field.ACCUMULATE, True)
                warpgroup.commit_group()
                warpgroup.wait_group(0)
                pipe.consumer_release(use)
                use.advance()

        cute.copy(to_wide, my_wide.retile(acc), my_wide.partition_D(wide_shared))
        out.store(acc.load().to(cutlass.BFloat16))
        cute.copy(to_short, my_short.retile(out), my_short.partition_D(short_shared))
        cute.arch.fence_view_async_shared()
        cute.arch.sync_threads()
        if warp_idx == 0:
            cute.copy(store_wide, wide_src, wide_dst[None, m, n])
            cute.copy(store_short, short_src, short_dst[None, m, n])
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D_fp32: cute.Tensor, D_bf16: cute.Tensor):
        swizzle = warpgroup.SmemLayoutAtomKind.K_SW128
        atom = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, num_stages), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, num_stages), order=(0, 1, 2))
        atom_wide = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float32)
        layout_wide = cute.tile_to_shape(atom_wide, (block_M, block_N), order=(0, 1))
        atom_short = warpgroup.make_smem_layout_atom(swizzle, cutlass.BFloat16)
        layout_short = cute.tile_to_shape(atom_short, (block_M, block_N), order=(0, 1))
        g2s, s2g = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        stage_A, stage_B = cute.select(layout_A, [0, 1]), cute.select(layout_B, [0, 1])
        load_A, A = cpasync.make_tiled_tma_atom(g2s, A, stage_A, (block_M, block_K))
        load_B, B = cpasync.make_tiled_tma_atom(g2s, B, stage_B, (block_N, block_K))
        tile_D = block_M, block_N
        store_wide, wide = cpasync.make_tiled_tma_atom(s2g, D_fp32, layout_wide, tile_D)
        store_short, short = cpasync.make_tiled_tma_atom(s2g, D_bf16, layout_short, tile_D)
        fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (64, block_N, 16)
        source, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        wgmma = warpgroup.MmaF16BF16Op(fp16, fp32, shape, source, k_major, k_major)
        mma = cute.make_tiled_mma(wgmma)
        kernel(
            load_A,
            A,
            load_B,
            B,
            store_wide,
            wide,
            store_short,
            short,
            layout_A,
            layout_B,
            layout_wide,
            layout_short,
            mma,
        ).launch(  # fmt: skip
            grid=(N // block_N, M // block_M, 1), block=(128, 1, 1)
        )

    return main
    ### END SOLUTION
