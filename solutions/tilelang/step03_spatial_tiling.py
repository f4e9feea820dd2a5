"""Step 3: a 2-D grid. Each CTA computes its own 128 x 128 tile of D."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
# room for the ring to come; it also holds every step at one CTA an SM, so that steps compare
ring = 4


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
            A_shared = T.alloc_shared((ring, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((ring, block_N, block_K), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            ### BEGIN SOLUTION: m and n, the first row and column of this CTA's tile of D
            m, n = by * block_M, bx * block_N
            ### END SOLUTION

            for k in T.serial(K // block_K):
                ### BEGIN SOLUTION: copy tile k of this CTA's rows of A and of B into slot 0
                T.copy(A[m : m + block_M, k * block_K : (k + 1) * block_K], A_shared[0, :, :])
                T.copy(B[n : n + block_N, k * block_K : (k + 1) * block_K], B_shared[0, :, :])
                ### END SOLUTION
                T.fence_proxy_async()
                T.sync_threads()
                operands = A_shared[0, :, :], B_shared[0, :, :]
                T.wgmma_gemm(*operands, acc, transpose_B=True, clear_accum=(k == 0))
                T.wait_wgmma(0)
                T.sync_threads()  # all warps together; the wait alone frees the tile

            ### BEGIN SOLUTION: write acc to this CTA's place in D
            T.copy(acc, D[m : m + block_M, n : n + block_N])
            ### END SOLUTION

    return main
