"""Step 2: a loop over K. The first wgmma overwrites the accumulator, the others add to it."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64


def gemm(M, N, K):
    assert (M, N) == (block_M, block_N) and K % block_K == 0, (
        "step 2 computes one 128 x 128 tile, K a multiple of 64"
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
            acc = T.alloc_fragment((block_M, block_N), T.float32)

            for k in T.serial(K // block_K):
                ### BEGIN SOLUTION: fill A_shared and B_shared with the columns of this k
                T.copy(A[:, k * block_K : (k + 1) * block_K], A_shared)
                T.copy(B[:, k * block_K : (k + 1) * block_K], B_shared)
                ### END SOLUTION
                T.fence_proxy_async()
                T.sync_threads()
                ### BEGIN SOLUTION: multiply, from zero in round 0 only; wait; no early refill
                T.wgmma_gemm(A_shared, B_shared, acc, transpose_B=True, clear_accum=(k == 0))
                T.wait_wgmma(0)
                T.sync_threads()  # all warps together; the wait alone frees the tile
                ### END SOLUTION

            T.copy(acc, D)

    return main
