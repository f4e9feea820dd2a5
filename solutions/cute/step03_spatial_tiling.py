"""Step 3: spatial tiling. A 2-D grid covers D; each CTA is step 2 at its own place."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import CopyUniversalOp, OperandMajorMode, warpgroup
from cutlass.memory import SmemAllocator

block_M, block_N, block_K = 128, 128, 64
# Tiles of A and B in shared memory. One is used here; with four, as in step 8, a CTA has an SM
# to itself.
ring = 4


def gemm(M, N, K):
    assert M % block_M == N % block_N == K % block_K == 0, "sizes must be multiples of the tile"

    @cute.kernel
    def kernel(A, B, D, layout_A, layout_B, copy, mma):
        thread, _, _ = cute.arch.thread_idx()
        ### BEGIN SOLUTION: m and n, the row and the column of this CTA's tile of D
        n, m, _ = cute.arch.block_idx()
        ### END SOLUTION
        smem = SmemAllocator()
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)

        ### BEGIN SOLUTION: the K tiles of this CTA's rows of A, and those of its rows of B
        A_tiles = cute.local_tile(A, (block_M, block_K), (m, None))  # (block_M, block_K, k)
        B_tiles = cute.local_tile(B, (block_N, block_K), (n, None))
        ### END SOLUTION
        my_copy = copy.get_slice(thread)
        A_slot, B_slot = A_shared[None, None, 0], B_shared[None, None, 0]
        A_src, A_dst = my_copy.partition_S(A_tiles), my_copy.partition_D(A_slot)
        B_src, B_dst = my_copy.partition_S(B_tiles), my_copy.partition_D(B_slot)
        A_regs, B_regs = cute.make_rmem_tensor_like(A_dst), cute.make_rmem_tensor_like(B_dst)
        my_mma = mma.get_slice(thread)
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        ### BEGIN SOLUTION: what this thread holds of this CTA's tile of D
        my_D = my_mma.partition_C(cute.local_tile(D, (block_M, block_N), (m, n)))
        ### END SOLUTION
        acc = cute.make_rmem_tensor(my_D.shape, cutlass.Float32)

        mma.set(warpgroup.Field.ACCUMULATE, False)
        for k in cutlass.range(K // block_K, unroll=1):
            cute.copy(copy, A_src[None, None, None, k], A_regs)
            cute.copy(copy, B_src[None, None, None, k], B_regs)
            cute.arch.sync_threads()  # all warps together; the wait alone frees the tile
            cute.copy(copy, A_regs, A_dst)
            cute.copy(copy, B_regs, B_dst)
            cute.arch.fence_view_async_shared()
            cute.arch.sync_threads()
            warpgroup.fence()
            # one wgmma multiplies 16 of the tile's K
            for k_block in cutlass.range_constexpr(block_K // 16):
                at = (None, None, k_block, 0)
                cute.gemm(mma, acc, A_frag[at], B_frag[at], acc)
                mma.set(warpgroup.Field.ACCUMULATE, True)
            warpgroup.commit_group()
            warpgroup.wait_group(0)

        out = cute.make_rmem_tensor(my_D.shape, cutlass.Float16)
        out.store(acc.load().to(cutlass.Float16))
        cute.autovec_copy(out, my_D)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        swizzle = warpgroup.SmemLayoutAtomKind.K_SW128
        atom = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, ring), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, ring), order=(0, 1, 2))
        copy = cute.make_tiled_copy_tv(
            cute.make_copy_atom(CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128),
            cute.make_layout((16, 8), stride=(8, 1)),
            cute.make_layout((1, 8)),
        )
        fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (64, block_N, 16)
        source, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        wgmma = warpgroup.MmaF16BF16Op(fp16, fp32, shape, source, k_major, k_major)
        mma = cute.make_tiled_mma(wgmma)
        kernel(A, B, D, layout_A, layout_B, copy, mma).launch(
            grid=(N // block_N, M // block_M, 1), block=(128, 1, 1)
        )

    return main
