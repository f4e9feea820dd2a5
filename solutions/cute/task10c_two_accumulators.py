"""Task 10c: fp8 with two accumulators. Sums of 128 products are scaled, then added up."""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

block_M, block_N, block_K = 128, 128, 128  # a row of 128 fp8 numbers is 128 bytes
num_stages = 4


# sm_count: SMs of an H100 SXM and an H200; a check passes those of the GPU that it runs on
def gemm(M, N, K, sm_count=132):
    """D = A @ B^T of fp8 numbers with scales: each 128 of K have their own.

    - The host function takes A (M, K), B (N, K), scale_A (M, K / 128), scale_B (N / 128,
      K / 128) and D (M, N), in this order: A and B are Float8E4M3FN, the scales fp32, D is
      bf16.
    - D[m, n] is the sum over k of A[m, k] * B[n, k] * scale_A[m, k // 128]
      * scale_B[n // 128, k // 128]. M, N and K are multiples of 128.
    - wgmma multiplies fp8, and adds up no more than 128 products. Add its scaled sums up in a
      second fp32 accumulator.
    - All else as in your step 8, with two consumer warpgroups. Speed counts here.
    """
    ### BEGIN SOLUTION: the kernel; start from your step 8, with step 10's consumers
    assert M % block_M == N % block_N == K % block_K == 0, "sizes must be multiples of the tile"
    k_tiles, rows, columns = K // block_K, M // block_M, N // block_N
    panel = max(width for width in range(1, 9) if rows % width == 0)
    tile_bytes = (block_M + block_N) * block_K  # of A and of B in one stage

    @cute.kernel
    def kernel(
        load_A, A, load_B, B, scale_A, scale_B, store_D, D, layout_A, layout_B, layout_D, mma
    ):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        # PipelineTmaAsync: full, then empty
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        fp8, bf16 = cutlass.Float8E4M3FN, cutlass.BFloat16
        A_shared = smem.allocate_tensor(fp8, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(fp8, layout_B.outer, 1024, layout_B.inner)
        D_shared = smem.allocate_tensor(bf16, layout_D.outer, 1024, layout_D.inner)
        # an elected thread of each of the 8 consumer warps says that its warp has left a stage
        pipe = pipeline.PipelineTmaAsync.create(
            num_stages=num_stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 8),
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
        D_src, D_dst = cpasync.tma_partition(store_D, 0, one, D_tile, D_tiles)

        my_mma = mma.get_slice(thread - 128)
        # descriptors: wgmma reads shared memory itself
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        my_shape = my_mma.partition_shape_C((block_M, block_N))
        part = cute.make_rmem_tensor(my_shape, cutlass.Float32)  # of one K tile
        acc = cute.make_rmem_tensor(my_shape, cutlass.Float32)  # ((2, 2, block_N / 8), 1, 1)
        out = cute.make_rmem_tensor(acc.shape, bf16)
        # scale_A as tiles of M x block_N whose columns are all the same: they have stride 0
        spread = cute.make_layout(
            (block_M, block_N, rows, k_tiles), stride=(k_tiles, 0, block_M * k_tiles, 1)
        )
        scale_tiles = cute.make_tensor(scale_A.iterator, spread)
        my_scales = my_mma.partition_C(scale_tiles)  # ((2, 2, block_N / 8), 1, 1, m, k)
        stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), bf16)
        to_shared = cute.make_tiled_copy_C(stmatrix, mma)
        my_out = to_shared.get_slice(thread - 128)
        order = cute.make_layout(
            ((panel, rows // panel), columns), stride=((1, panel * columns), panel)
        )
        consumers = pipeline.NamedBarrier(1, 256)  # of the consumers' threads only

        if warp_idx < 4:  # producer warpgroup, of which one warp works
            cute.arch.setmaxregister_decrease(40)
            load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
            if warp_idx == 0:
                for tile in cutlass.range(cta, rows * columns, sm_count, unroll=1):
                    m, n = order.get_flat_coord(tile)
                    for k in cutlass.range(k_tiles, unroll=1):
                        pipe.producer_acquire(load)
                        s, full = load.index, pipe.producer_get_barrier(load)
                        cute.copy(load_A, A_src[None, m, k], A_dst[None, s], tma_bar_ptr=full)
                        cute.copy(load_B, B_src[None, n, k], B_dst[None, s], tma_bar_ptr=full)
                        load.advance()
        else:  # consumer warpgroups: 64 rows of the tile each
            cute.arch.setmaxregister_increase(232)
            use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            for tile in cutlass.range(cta, rows * columns, sm_count, unroll=1):
                m, n = order.get_flat_coord(tile)
                acc.fill(0.0)
                for k in cutlass.range(k_tiles, unroll=1):
                    # a thread has two rows
                    above = my_scales[(0, 0, 0), 0, 0, m, k] * scale_B[n, k]
                    below = my_scales[(0, 1, 0), 0, 0, m, k] * scale_B[n, k]
                    pipe.consumer_wait(use)
                    warpgroup.fence()
                    mma.set(warpgroup.Field.ACCUMULATE, False)
                    for k_block in cutlass.range_constexpr(block_K // 32):
                        at = (None, None, k_block, use.index)
                        cute.gemm(mma, part, A_frag[at], B_frag[at], part)
                        mma.set(warpgroup.Field.ACCUMULATE, True)
                    warpgroup.commit_group()
                    # nothing may stay in flight: part is read now
                    warpgroup.wait_group(0)
                    pipe.consumer_release(use)
                    use.advance()
                    for row, scale in ((0, above), (1, below)):
                        mine = (None, row, None), 0, 0
                        acc[mine].store(acc[mine].load() + part[mine].load() * scale)

                if warp_idx == 4:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
                consumers.arrive_and_wait()
                out.store(acc.load().to(bf16))
                cute.copy(to_shared, my_out.retile(out), my_out.partition_D(D_shared))
                cute.arch.fence_view_async_shared()
                consumers.arrive_and_wait()
                if warp_idx == 4:
                    cute.copy(store_D, D_src, D_dst[None, m, n])
                    cute.arch.cp_async_bulk_commit_group()
            if warp_idx == 4:
                cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(
        A: cute.Tensor,
        B: cute.Tensor,
        scale_A: cute.Tensor,
        scale_B: cute.Tensor,
        D: cute.Tensor,
    ):
        fp8, bf16, fp32 = cutlass.Float8E4M3FN, cutlass.BFloat16, cutlass.Float32
        swizzle = warpgroup.SmemLayoutAtomKind.K_SW128
        atom = warpgroup.make_smem_layout_atom(swizzle, fp8)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, num_stages), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, num_stages), order=(0, 1, 2))
        atom_D = warpgroup.make_smem_layout_atom(swizzle, bf16)
        layout_D = cute.tile_to_shape(atom_D, (block_M, block_N), order=(0, 1))
        g2s, s2g = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        stage_A, stage_B = cute.select(layout_A, [0, 1]), cute.select(layout_B, [0, 1])
        load_A, A = cpasync.make_tiled_tma_atom(g2s, A, stage_A, (block_M, block_K))
        load_B, B = cpasync.make_tiled_tma_atom(g2s, B, stage_B, (block_N, block_K))
        store_D, D = cpasync.make_tiled_tma_atom(s2g, D, layout_D, (block_M, block_N))
        source, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        wgmma = warpgroup.MmaF8Op(fp8, fp8, fp32, (64, block_N, 32), source, k_major, k_major)
        mma = cute.make_tiled_mma(wgmma, (2, 1, 1))
        tensors = load_A, A, load_B, B, scale_A, scale_B, store_D, D
        kernel(*tensors, layout_A, layout_B, layout_D, mma).launch(
            grid=(sm_count, 1, 1), block=(384, 1, 1), min_blocks_per_mp=1
        )

    return main
    ### END SOLUTION
