"""Case t5: D leaves in four slices of 32 columns: TMA stores one while threads fill another."""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

block_M, block_N, block_K = 128, 128, 64
epi_N = 32  # columns of D staged at a time
num_stages = 2
ring = 4
warps = 4


def gemm(M, N, K):
    assert M % block_M == N % block_N == K % block_K == 0, "sizes must be multiples of the tile"
    k_tiles = K // block_K
    tile_bytes = (block_M + block_N) * block_K * 2  # of A and of B in one stage

    @cute.kernel
    def kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        n, m, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        # PipelineTmaAsync: full, then empty
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        D_shared = smem.allocate_tensor(cutlass.Float16, layout_D.outer, 1024, layout_D.inner)
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
        D_tiles = cute.group_modes(cute.local_tile(D, (block_M, epi_N), (None, None)), 0, 2)
        A_ring, B_ring = cute.group_modes(A_shared, 0, 2), cute.group_modes(B_shared, 0, 2)
        D_tile, one = cute.group_modes(D_shared, 0, 2), cute.make_layout(1)
        A_dst, A_src = cpasync.tma_partition(load_A, 0, one, A_ring, A_tiles)
        B_dst, B_src = cpasync.tma_partition(load_B, 0, one, B_ring, B_tiles)
        D_src, D_dst = cpasync.tma_partition(store_D, 0, one, D_tile, D_tiles)

        my_mma = mma.get_slice(thread)
        # descriptors: wgmma reads shared memory itself
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        my_shape = my_mma.partition_shape_C((block_M, block_N))
        acc = cute.make_rmem_tensor(my_shape, cutlass.Float32)
        out = cute.make_rmem_tensor(acc.shape, cutlass.Float16)
        stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), cutlass.Float16)
        to_shared = cute.make_tiled_copy_C_atom(stmatrix, mma)
        my_out = to_shared.get_slice(thread)
        # ((8, block_N / 16), 2, 1): a group for every 16 columns
        out_src = my_out.retile(out)
        out_dst = my_out.partition_D(D_shared)  # (8, 2, epi_N / 16, buffer)
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

        out.store(acc.load().to(cutlass.Float16))
        ### BEGIN SOLUTION: D in slices through two buffers; leave when the last store has read
        for c in cutlass.range_constexpr(block_N // epi_N):
            # all but the newest store have read their buffer
            if warp_idx == 0:
                cute.arch.cp_async_bulk_wait_group(1, read=True)
            cute.arch.sync_threads()
            for i in cutlass.range_constexpr(epi_N // 16):
                group = c * (epi_N // 16) + i
                cute.copy(
                    to_shared, out_src[(None, group), None, 0], out_dst[None, None, i, c % 2]
                )
            cute.arch.fence_view_async_shared()
            cute.arch.sync_threads()
            if warp_idx == 0:
                cute.copy(
                    store_D, D_src[None, c % 2], D_dst[None, m, n * (block_N // epi_N) + c]
                )
                cute.arch.cp_async_bulk_commit_group()
        if warp_idx == 0:
            cute.arch.cp_async_bulk_wait_group(0, read=True)
        ### END SOLUTION

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        swizzle = warpgroup.SmemLayoutAtomKind.K_SW128
        atom = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, ring), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, ring), order=(0, 1, 2))
        # a row of a buffer is 32 columns, 64 bytes
        narrow_swizzle = warpgroup.SmemLayoutAtomKind.K_SW64
        narrow = warpgroup.make_smem_layout_atom(narrow_swizzle, cutlass.Float16)
        layout_D = cute.tile_to_shape(narrow, (block_M, epi_N, 2), order=(0, 1, 2))
        g2s, s2g = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        stage_A, stage_B = cute.select(layout_A, [0, 1]), cute.select(layout_B, [0, 1])
        load_A, A = cpasync.make_tiled_tma_atom(g2s, A, stage_A, (block_M, block_K))
        load_B, B = cpasync.make_tiled_tma_atom(g2s, B, stage_B, (block_N, block_K))
        store_D, D = cpasync.make_tiled_tma_atom(
            s2g, D, cute.select(layout_D, [0, 1]), (block_M, epi_N)
        )
        fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (64, block_N, 16)
        source, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        wgmma = warpgroup.MmaF16BF16Op(fp16, fp32, shape, source, k_major, k_major)
        mma = cute.make_tiled_mma(wgmma)
        kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma).launch(
            grid=(N // block_N, M // block_M, 1), block=(128, 1, 1)
        )

    return main
