"""The accumulator is fp16: every addition rounds, and the sum over K loses its last bits."""

import tilelang.language as T

STEP = "step03"
FAILS = "instructions"
OUTCOME = "wrong"
NEEDS_GPU = False
SAYS = "accumulator"

block_M, block_N, block_K = 128, 128, 64
ring = 4


def gemm(M, N, K):
    assert M % block_M == 0 and N % block_N == 0 and K % block_K == 0, "M, N and K must be multiples of the tile"

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(N // block_N, M // block_M, threads=128) as (bx, by):
            A_shared = T.alloc_shared((ring, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((ring, block_N, block_K), T.float16)
            acc = T.alloc_fragment((block_M, block_N),
                                   T.float16)  # not float32: each wgmma rounds the running sum to 11 bits
            m, n = by * block_M, bx * block_N

            for k in T.serial(K // block_K):
                T.copy(A[m : m + block_M, k * block_K : (k + 1) * block_K], A_shared[0, :, :])
                T.copy(B[n : n + block_N, k * block_K : (k + 1) * block_K], B_shared[0, :, :])
                T.fence_proxy_async()
                T.sync_threads()
                T.wgmma_gemm(A_shared[0, :, :], B_shared[0, :, :], acc, transpose_B=True, clear_accum=(k == 0))
                T.wait_wgmma(0)
                T.sync_threads()

            T.copy(acc, D[m : m + block_M, n : n + block_N])

    return main
