"""Step 4: TMA. One thread asks for a tile, an mbarrier counts its bytes; TMA stores D too."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

block_M, block_N, block_K = 128, 128, 64
ring = 4


def gemm(M, N, K):
    assert M % block_M == N % block_N == K % block_K == 0, "sizes must be multiples of the tile"
    tile_bytes = (block_M + block_N) * block_K * 2  # of A and of B in one stage

    @cute.kernel
    def kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        n, m, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        full = smem.allocate_array(cutlass.Int64, 1)
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        D_shared = smem.allocate_tensor(cutlass.Float16, layout_D.outer, 1024, layout_D.inner)

        if warp_idx == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init_fence()  # the async proxy has to see the barrier too
        cute.arch.sync_threads()

        # TMA takes a tile as one mode: (tile, m or n, k) of a matrix, (tile, stage) of the ring
        A_tiles = cute.group_modes(cute.local_tile(A, (block_M, block_K), (None, None)), 0, 2)
        B_tiles = cute.group_modes(cute.local_tile(B, (block_N, block_K), (None, None)), 0, 2)
        D_tiles = cute.group_modes(cute.local_tile(D, (block_M, block_N), (None, None)), 0, 2)
        A_ring, B_ring = cute.group_modes(A_shared, 0, 2), cute.group_modes(B_shared, 0, 2)
        D_tile, one = cute.group_modes(D_shared, 0, 2), cute.make_layout(1)
        A_dst, A_src = cpasync.tma_partition(load_A, 0, one, A_ring, A_tiles)
        B_dst, B_src = cpasync.tma_partition(load_B, 0, one, B_ring, B_tiles)
        ### BEGIN SOLUTION: the partition of D: what its store reads, and where it writes
        D_src, D_dst = cpasync.tma_partition(store_D, 0, one, D_tile, D_tiles)
        ### END SOLUTION

        my_mma = mma.get_slice(thread)
        # descriptors: wgmma reads shared memory itself
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        my_shape = my_mma.partition_shape_C((block_M, block_N))
        acc = cute.make_rmem_tensor(my_shape, cutlass.Float32)
        out = cute.make_rmem_tensor(acc.shape, cutlass.Float16)
        stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), cutlass.Float16)
        to_shared = cute.make_tiled_copy_C(stmatrix, mma)
        my_out = to_shared.get_slice(thread)

        mma.set(warpgroup.Field.ACCUMULATE, False)
        for k in cutlass.range(K // block_K, unroll=1):
            ### BEGIN SOLUTION: warp 0 says how many bytes come and asks; then everyone waits
            if warp_idx == 0:
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive_and_expect_tx(full, tile_bytes)
                # cute.copy elects its own thread: the whole warp has to come here
                cute.copy(load_A, A_src[None, m, k], A_dst[None, 0], tma_bar_ptr=full)
                cute.copy(load_B, B_src[None, n, k], B_dst[None, 0], tma_bar_ptr=full)
            cute.arch.mbarrier_wait(full, k & 1)
            ### END SOLUTION
            warpgroup.fence()
            for k_block in cutlass.range_constexpr(block_K // 16):
                at = (None, None, k_block, 0)
                cute.gemm(mma, acc, A_frag[at], B_frag[at], acc)
                mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            warpgroup.wait_group(0)
            cute.arch.sync_threads()  # all warps together; the wait alone frees the tile

        out.store(acc.load().to(cutlass.Float16))
        ### BEGIN SOLUTION: registers to D_shared, visible to TMA; one warp stores it and waits
        cute.copy(to_shared, my_out.retile(out), my_out.partition_D(D_shared))
        # threads wrote D_shared; TMA reads it through the async proxy
        cute.arch.fence_view_async_shared()
        cute.arch.sync_threads()
        if warp_idx == 0:
            cute.copy(store_D, D_src, D_dst[None, m, n])
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0)
        ### END SOLUTION

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        swizzle = warpgroup.SmemLayoutAtomKind.K_SW128
        atom = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, ring), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, ring), order=(0, 1, 2))
        layout_D = cute.tile_to_shape(atom, (block_M, block_N), order=(0, 1))
        g2s, s2g = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        stage_A, stage_B = cute.select(layout_A, [0, 1]), cute.select(layout_B, [0, 1])
        load_A, A = cpasync.make_tiled_tma_atom(g2s, A, stage_A, (block_M, block_K))
        load_B, B = cpasync.make_tiled_tma_atom(g2s, B, stage_B, (block_N, block_K))
        ### BEGIN SOLUTION: D's tensor map and store: op, matrix, layout in shared memory, tile
        store_D, D = cpasync.make_tiled_tma_atom(s2g, D, layout_D, (block_M, block_N))
        ### END SOLUTION
        fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (64, block_N, 16)
        source, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        wgmma = warpgroup.MmaF16BF16Op(fp16, fp32, shape, source, k_major, k_major)
        mma = cute.make_tiled_mma(wgmma)
        kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma).launch(
            grid=(N // block_N, M // block_M, 1), block=(128, 1, 1)
        )

    return main
