"""Blackwell, step 1: one tile. 128 threads copy A and B in, and one thread issues tcgen05.mma.
The accumulator goes from tensor memory through registers to D.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64


def gemm(M, N, K):
    assert (M, N, K) == (block_M, block_N, block_K), (
        "step 1 computes exactly one 128 x 128 x 64 tile"
    )

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            B_shared = T.alloc_shared((block_N, block_K), T.float16)
            regs = T.alloc_fragment((block_M, block_N), T.float32)
            ### BEGIN SOLUTION: acc, in tensor memory, and done, the barrier of the commit
            acc = T.alloc_tmem((block_M, block_N), T.float32)  # 128 lanes x 128 columns
            done = T.alloc_barrier(1)  # the commit arrives once acc is complete
            ### END SOLUTION

            T.copy(A, A_shared)
            T.copy(B, B_shared)
            T.fence_proxy_async()  # tcgen05.mma reads shared memory through the async proxy
            T.sync_threads()
            ### BEGIN SOLUTION: multiply both tiles from zero, commit to done, wait for it
            # one elected thread issues four MMAs, then commits them to done
            operands = A_shared, B_shared, acc
            T.tcgen05_gemm(*operands, transpose_B=True, mbar=done, clear_accum=True)
            T.mbarrier_wait_parity(done, 0)
            ### END SOLUTION

            ### BEGIN SOLUTION: acc to registers to D; all threads meet before acc is freed
            T.copy(acc, regs)  # tcgen05.ld: warp w reads lanes 32 w to 32 w + 31
            T.copy(regs, D)
            T.sync_threads()  # TileLang frees tensor memory next: every warp has read it
            ### END SOLUTION

    return main
