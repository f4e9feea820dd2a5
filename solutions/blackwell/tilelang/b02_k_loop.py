"""Blackwell, step 2: K loop. The first MMA overwrites the accumulator, the later ones add to
it; the commit's barrier completes one phase per K tile.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64


def gemm(M, N, K):
    assert (M, N) == (block_M, block_N), "step 2 computes one 128 x 128 tile of D"
    assert K % block_K == 0, "K must be a multiple of 64"

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            B_shared = T.alloc_shared((block_N, block_K), T.float16)
            acc = T.alloc_tmem((block_M, block_N), T.float32)  # 128 lanes x 128 columns
            regs = T.alloc_fragment((block_M, block_N), T.float32)
            done = T.alloc_barrier(1)  # commit: this K tile is multiplied, its buffers are free

            for k in T.serial(K // block_K):
                ks = slice(k * block_K, (k + 1) * block_K)
                ### BEGIN SOLUTION: copy K tile k, make it visible, multiply, await its commit
                T.copy(A[:, ks], A_shared)
                T.copy(B[:, ks], B_shared)
                T.fence_proxy_async()  # tcgen05.mma reads through the async proxy
                T.sync_threads()
                operands = A_shared, B_shared, acc
                T.tcgen05_gemm(*operands, transpose_B=True, mbar=done, clear_accum=(k == 0))
                T.mbarrier_wait_parity(done, k & 1)
                ### END SOLUTION

            ### BEGIN SOLUTION: acc to registers to D; all threads meet before acc is freed
            T.copy(acc, regs)  # tcgen05.ld: warp w reads lanes 32 w to 32 w + 31
            T.copy(regs, D)
            T.sync_threads()  # TileLang frees tensor memory next: every warp has read it
            ### END SOLUTION

    return main
