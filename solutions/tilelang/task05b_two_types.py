"""Task 05b: D in fp32 and in bf16. One tile of sums leaves twice, each time by TMA."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
num_stages, ring = 2, 4


def gemm(M, N, K):
    """D_fp32 = A @ B^T, and D_bf16 the same, rounded to bf16: two outputs of one launch.

    - The kernel takes A (M, K), B (N, K), D_fp32 (M, N) and D_bf16 (M, N), in this order.
    - A and B are fp16; D_fp32 has the sums as they are, D_bf16 is rounded once.
    - Both outputs leave by TMA. All else as in your step 5.
    """
    ### BEGIN SOLUTION: the kernel; start from your step 5
    assert M % block_M == 0 and N % block_N == 0 and K % block_K == 0, (
        "M, N and K must be multiples of the tile"
    )
    k_tiles = K // block_K

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D_fp32: T.Tensor((M, N), T.float32),
        D_bf16: T.Tensor((M, N), T.bfloat16),
    ):
        with T.Kernel(N // block_N, M // block_M, threads=128) as (bx, by):
            A_shared = T.alloc_shared((ring, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((ring, block_N, block_K), T.float16)
            wide_shared = T.alloc_shared((block_M, block_N), T.float32)
            short_shared = T.alloc_shared((block_M, block_N), T.bfloat16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            full = T.alloc_barrier([1] * num_stages)
            m, n = by * block_M, bx * block_N
            ms, ns = slice(m, m + block_M), slice(n, n + block_N)  # rows and columns of D

            # step i loads tile i and multiplies the one asked for num_stages - 1 steps ago
            for i in T.serial(k_tiles + num_stages - 1):
                if i < k_tiles:
                    load = i % num_stages
                    ks = slice(i * block_K, (i + 1) * block_K)
                    T.tma_copy(A[ms, ks], A_shared[load, :, :], barrier=full[load])
                    T.tma_copy(B[ns, ks], B_shared[load, :, :], barrier=full[load])
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(full[load])
                if i >= num_stages - 1:
                    k = i - (num_stages - 1)
                    stage = k % num_stages
                    T.mbarrier_wait_parity(full[stage], (k // num_stages) & 1)
                    operands = A_shared[stage, :, :], B_shared[stage, :, :]
                    T.wgmma_gemm(*operands, acc, transpose_B=True, clear_accum=(k == 0))
                    T.wait_wgmma(0)
                    T.sync_threads()  # all warps together; the wait alone frees the stage

            T.copy(acc, wide_shared)
            T.copy(acc, short_shared)
            T.fence_proxy_async()
            T.sync_threads()
            T.tma_copy(wide_shared, D_fp32[ms, ns])
            T.tma_copy(short_shared, D_bf16[ms, ns])
            T.tma_store_wait(0)

    return main
    ### END SOLUTION
