"""Blackwell, step 3: a grid. Each CTA computes its own tile of D, in the tensor memory of its
own SM.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64


def gemm(M, N, K):
    assert M % block_M == 0 and N % block_N == 0 and K % block_K == 0, (
        "M, N and K must be multiples of the tile"
    )

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(N // block_N, M // block_M, threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            B_shared = T.alloc_shared((block_N, block_K), T.float16)
            acc = T.alloc_tmem((block_M, block_N), T.float32)
            regs = T.alloc_fragment((block_M, block_N), T.float32)
            done = T.alloc_barrier(1)  # commit: this K tile is multiplied, its buffers are free
            ### BEGIN SOLUTION: ms and ns, the rows and the columns of this CTA's tile of D
            m, n = by * block_M, bx * block_N
            ms, ns = slice(m, m + block_M), slice(n, n + block_N)  # rows and columns of D
            ### END SOLUTION

            for k in T.serial(K // block_K):
                ks = slice(k * block_K, (k + 1) * block_K)
                ### BEGIN SOLUTION: copy K tile k of this CTA's rows of A and of B
                T.copy(A[ms, ks], A_shared)
                T.copy(B[ns, ks], B_shared)
                ### END SOLUTION
                T.fence_proxy_async()  # tcgen05.mma reads through the async proxy
                T.sync_threads()
                operands = A_shared, B_shared, acc
                T.tcgen05_gemm(*operands, transpose_B=True, mbar=done, clear_accum=(k == 0))
                T.mbarrier_wait_parity(done, k & 1)

            ### BEGIN SOLUTION: acc to registers to this CTA's tile of D; meet before the end
            T.copy(acc, regs)
            T.copy(regs, D[ms, ns])
            T.sync_threads()  # TileLang frees tensor memory next: every warp has read it
            ### END SOLUTION

    return main
