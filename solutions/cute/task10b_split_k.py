"""Task 10b: split-K. Four CTAs have a part of K each, and TMA adds up their sums."""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.memory import SmemAllocator

block_M, block_N, block_K = 128, 128, 64
num_stages = 2
warps = 4
splits = 4  # CTAs that share a tile of D


def gemm(M, N, K):
    """D = A @ B^T, D in fp32, for few tiles and a long K: several CTAs share one tile of D.

    - The host function takes A (M, K), B (N, K), both fp16, and D (M, N), fp32, in this order.
    - D is zeros when the kernel begins. Each CTA adds its sums, by a TMA store that adds.
    - K is at least 8 K tiles long; their number need not divide evenly.
    - Loads as in your step 5 or later: by TMA, through a ring.
    """
    ### BEGIN SOLUTION: the kernel; start from your step 5
    assert M % block_M == N % block_N == K % block_K == 0, "sizes must be multiples of the tile"
    k_tiles = K // block_K
    tile_bytes = (block_M + block_N) * block_K * 2  # of A and of B in one stage

    @cute.kernel
    def kernel(load_A, A, load_B, B, add_D, D, layout_A, layout_B, layout_D, mma):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        n, m, share = cute.arch.block_idx()
        # this CTA's K tiles: neighbours meet at the same number, whether it divides or not
        first, end = share * k_tiles // splits, (share + 1) * k_tiles // splits
        mine = end - first
        smem = SmemAllocator()
        # PipelineTmaAsync: full, then empty
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        D_shared = smem.allocate_tensor(cutlass.Float32, layout_D.outer, 1024, layout_D.inner)
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
        D_tiles = cute.group_modes(cute.local_tile(D, (block_M, block_N), (None, None)), 0, 2)
        A_ring, B_ring = cute.group_modes(A_shared, 0, 2), cute.group_modes(B_shared, 0, 2)
        D_tile, one = cute.group_modes(D_shared, 0, 2), cute.make_layout(1)
        A_dst, A_src = cpasync.tma_partition(load_A, 0, one, A_ring, A_tiles)
        B_dst, B_src = cpasync.tma_partition(load_B, 0, one, B_ring, B_tiles)
        D_src, D_dst = cpasync.tma_partition(add_D, 0, one, D_tile, D_tiles)

        my_mma = mma.get_slice(thread)
        # descriptors: wgmma reads shared memory itself
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        my_shape = my_mma.partition_shape_C((block_M, block_N))
        acc = cute.make_rmem_tensor(my_shape, cutlass.Float32)
        pairs = cute.make_copy_atom(
            cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=64
        )
        to_shared = cute.make_tiled_copy_C(pairs, mma)
        my_out = to_shared.get_slice(thread)
        # stage and phase of the next load, and of the next wgmma
        load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
        use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)

        mma.set(warpgroup.Field.ACCUMULATE, False)
        # step i loads tile i, and multiplies the one asked for num_stages - 1 steps ago
        for i in cutlass.range(mine + num_stages - 1, unroll=1):
            if i < mine:
                if warp_idx == 0:
                    pipe.producer_acquire(load)
                    s, full = load.index, pipe.producer_get_barrier(load)
                    k = first + i
                    cute.copy(load_A, A_src[None, m, k], A_dst[None, s], tma_bar_ptr=full)
                    cute.copy(load_B, B_src[None, n, k], B_dst[None, s], tma_bar_ptr=full)
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

        cute.copy(to_shared, my_out.retile(acc), my_out.partition_D(D_shared))
        cute.arch.fence_view_async_shared()
        cute.arch.sync_threads()
        if warp_idx == 0:
            cute.copy(add_D, D_src, D_dst[None, m, n])
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        swizzle = warpgroup.SmemLayoutAtomKind.K_SW128
        atom = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, num_stages), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, num_stages), order=(0, 1, 2))
        atom_D = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float32)
        layout_D = cute.tile_to_shape(atom_D, (block_M, block_N), order=(0, 1))
        g2s = cpasync.CopyBulkTensorTileG2SOp()
        add = cpasync.CopyReduceBulkTensorTileS2GOp(cpasync.ReductionKind.ADD)
        stage_A, stage_B = cute.select(layout_A, [0, 1]), cute.select(layout_B, [0, 1])
        load_A, A = cpasync.make_tiled_tma_atom(g2s, A, stage_A, (block_M, block_K))
        load_B, B = cpasync.make_tiled_tma_atom(g2s, B, stage_B, (block_N, block_K))
        add_D, D = cpasync.make_tiled_tma_atom(add, D, layout_D, (block_M, block_N))
        fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (64, block_N, 16)
        source, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        wgmma = warpgroup.MmaF16BF16Op(fp16, fp32, shape, source, k_major, k_major)
        mma = cute.make_tiled_mma(wgmma)
        kernel(load_A, A, load_B, B, add_D, D, layout_A, layout_B, layout_D, mma).launch(
            grid=(N // block_N, M // block_M, splits), block=(128, 1, 1)
        )

    return main
    ### END SOLUTION
