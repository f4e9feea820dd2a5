"""Step 1: one tile. 128 threads copy A and B in, one warpgroup multiplies, registers go out."""

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
            acc = T.alloc_fragment((block_M, block_N), T.float32)

            T.copy(A, A_shared)
            T.copy(B, B_shared)
            ### BEGIN SOLUTION: make what the threads wrote visible to wgmma; wait for them all
            T.fence_proxy_async()  # wgmma reads shared memory through the async proxy
            T.sync_threads()
            ### END SOLUTION
            ### BEGIN SOLUTION: multiply both tiles into acc, from zero; wait until it is there
            T.wgmma_gemm(A_shared, B_shared, acc, transpose_B=True, clear_accum=True)
            T.wait_wgmma(0)
            ### END SOLUTION

            T.copy(acc, D)

    return main
