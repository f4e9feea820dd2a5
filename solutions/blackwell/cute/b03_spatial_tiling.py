"""Blackwell, step 3: a grid. Each CTA computes its own tile of D, in the tensor memory of its
own SM.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import CopyUniversalOp, OperandMajorMode, tcgen05
from cutlass.memory import SmemAllocator

block_M, block_N, block_K = 128, 128, 64
columns = block_N  # of tensor memory: one for each column of the fp32 accumulator


def gemm(M, N, K):
    assert M % block_M == N % block_N == K % block_K == 0, "sizes must be multiples of the tile"

    @cute.kernel
    def kernel(A, B, D, layout_A, layout_B, copy, mma):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        ### BEGIN SOLUTION: m and n, the row and the column of this CTA's tile of D
        n, m, _ = cute.arch.block_idx()
        ### END SOLUTION
        smem = SmemAllocator()
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        done = smem.allocate_array(cutlass.Int64, 1)  # commit: this K tile is multiplied
        where = smem.allocate_array(cutlass.Int32, 1)  # tcgen05.alloc stores an address here

        if warp_idx == 0:  # the whole warp allocates; one thread initialises the barrier
            cute.arch.alloc_tmem(columns, where)
            cute.arch.relinquish_tmem_alloc_permit()
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(done, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()  # the barrier and the address are there

        ### BEGIN SOLUTION: the K tiles of this CTA's rows of A, and those of its rows of B
        A_tiles = cute.local_tile(A, (block_M, block_K), (m, None))  # (m, k, K tile)
        B_tiles = cute.local_tile(B, (block_N, block_K), (n, None))
        ### END SOLUTION
        my_copy = copy.get_slice(thread)
        A_src, A_dst = my_copy.partition_S(A_tiles), my_copy.partition_D(A_shared)
        B_src, B_dst = my_copy.partition_S(B_tiles), my_copy.partition_D(B_shared)
        A_regs, B_regs = cute.make_rmem_tensor_like(A_dst), cute.make_rmem_tensor_like(B_dst)

        my_mma = mma.get_slice(0)  # one CTA multiplies, so its slice is the whole tile
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        address = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, where)
        in_tmem = mma.make_fragment_C(mma.partition_shape_C((block_M, block_N)))
        acc = cute.make_tensor(address, in_tmem.layout)

        mma.set(tcgen05.Field.ACCUMULATE, False)  # the first MMA overwrites
        for k in cutlass.range(K // block_K, unroll=1):
            # 16 bytes at a time: global memory, registers, shared memory
            cute.copy(copy, A_src[None, None, None, k], A_regs)
            cute.copy(copy, B_src[None, None, None, k], B_regs)
            cute.copy(copy, A_regs, A_dst)
            cute.copy(copy, B_regs, B_dst)
            cute.arch.fence_view_async_shared()  # tcgen05.mma reads through the async proxy
            cute.arch.sync_threads()
            if warp_idx == 0:
                # one MMA multiplies 16 of the tile's K; cute.gemm elects the thread for it
                for k_block in cutlass.range_constexpr(block_K // 16):
                    at = (None, None, k_block)
                    cute.gemm(mma, acc, A_frag[at], B_frag[at], acc)
                    mma.set(tcgen05.Field.ACCUMULATE, True)
                with cute.arch.elect_one():
                    tcgen05.commit(done)
            cute.arch.mbarrier_wait(done, k & 1)  # the tiles are free, and acc is complete

        # tcgen05.ld: warp w reads lanes 32 w to 32 w + 31, so each thread has a row of D
        tile = acc[(None, None), 0, 0]
        load = tcgen05.Ld32x32bOp(tcgen05.Repetition.x128)
        to_regs = tcgen05.make_tmem_copy(cute.make_copy_atom(load, cutlass.Float32), tile)
        mine = to_regs.get_slice(thread)
        ### BEGIN SOLUTION: this CTA's tile of D, as the MMA partitions it
        my_tile = my_mma.partition_C(cute.local_tile(D, (block_M, block_N), (m, n)))
        ### END SOLUTION
        my_D = mine.partition_D(my_tile[(None, None), 0, 0])
        regs = cute.make_rmem_tensor(my_D.shape, cutlass.Float32)
        out = cute.make_rmem_tensor(my_D.shape, cutlass.Float16)
        cute.copy(to_regs, mine.partition_S(tile), regs)
        cute.arch.fence_view_async_tmem_load()  # tcgen05.wait::ld
        out.store(regs.load().to(cutlass.Float16))
        cute.autovec_copy(out, my_D)

        cute.arch.sync_threads()  # every warp has read tensor memory
        if warp_idx == 0:
            cute.arch.dealloc_tmem(address, columns)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        swizzle = tcgen05.SmemLayoutAtomKind.K_SW128
        atom = tcgen05.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K), order=(0, 1))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K), order=(0, 1))
        copy = cute.make_tiled_copy_tv(
            cute.make_copy_atom(CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128),
            cute.make_layout((16, 8), stride=(8, 1)),
            cute.make_layout((1, 8)),
        )
        fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (block_M, block_N, 16)
        one, source, k_major = (
            tcgen05.CtaGroup.ONE,
            tcgen05.OperandSource.SMEM,
            OperandMajorMode.K,
        )
        op = tcgen05.MmaF16BF16Op(fp16, fp32, shape, one, source, k_major, k_major)
        mma = cute.make_tiled_mma(op)
        kernel(A, B, D, layout_A, layout_B, copy, mma).launch(
            grid=(N // block_N, M // block_M, 1), block=(128, 1, 1)
        )

    return main
