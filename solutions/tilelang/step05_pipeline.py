"""Step 5: a two-stage ring. The next tile is in flight while this one is multiplied; each barrier's phase flips."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
num_stages, ring = 2, 4


def gemm(M, N, K):
    assert M % block_M == 0 and N % block_N == 0 and K % block_K == 0, "M, N and K must be multiples of the tile"
    k_tiles = K // block_K

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(N // block_N, M // block_M, threads=128) as (bx, by):
            A_shared = T.alloc_shared((ring, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((ring, block_N, block_K), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            ### BEGIN SOLUTION: one full barrier for each stage of the ring
            full = T.alloc_barrier([1] * num_stages)
            ### END SOLUTION
            m, n = by * block_M, bx * block_N

            # step i loads tile i and multiplies tile i - (num_stages - 1), which was asked for that long ago
            for i in T.serial(k_tiles + num_stages - 1):
                ### BEGIN SOLUTION: load tile i, if there is one; multiply the tile asked for num_stages - 1 steps ago, if any
                if i < k_tiles:
                    load = i % num_stages
                    T.tma_copy(A[m : m + block_M, i * block_K : (i + 1) * block_K], A_shared[load, :, :], barrier=full[load])
                    T.tma_copy(B[n : n + block_N, i * block_K : (i + 1) * block_K], B_shared[load, :, :], barrier=full[load])
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(full[load])
                if i >= num_stages - 1:
                    k = i - (num_stages - 1)
                    stage = k % num_stages
                    T.mbarrier_wait_parity(full[stage], (k // num_stages) & 1)
                    T.wgmma_gemm(A_shared[stage, :, :], B_shared[stage, :, :], acc, transpose_B=True, clear_accum=(k == 0))
                    T.wait_wgmma(0)
                    T.sync_threads()  # the stage is free: the next step loads into it
                ### END SOLUTION

            T.copy(acc, D_shared)
            T.fence_proxy_async()
            T.sync_threads()
            T.tma_copy(D_shared, D[m : m + block_M, n : n + block_N])
            T.tma_store_wait(0)

    return main
