"""Case t5: D leaves in slices, by two buffers: TMA stores one while threads fill the other."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
epi_N = 32  # columns of D staged at a time
num_stages, ring = 2, 4


def gemm(M, N, K):
    assert M % block_M == 0 and N % block_N == 0 and K % block_K == 0, (
        "M, N and K must be multiples of the tile"
    )
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
            D_shared = T.alloc_shared((2, block_M, epi_N), T.float16)
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

            ### BEGIN SOLUTION: D in slices, by both buffers; stay until the last store has read
            for c in T.unroll(block_N // epi_N):
                T.tma_store_wait(1)  # all but the newest store have read their buffer
                T.sync_threads()
                T.copy(acc[:, c * epi_N : (c + 1) * epi_N], D_shared[c % 2, :, :])
                T.fence_proxy_async()
                T.sync_threads()
                part = slice(n + c * epi_N, n + (c + 1) * epi_N)
                T.tma_copy(D_shared[c % 2, :, :], D[ms, part])
            T.tma_store_wait(0)
            ### END SOLUTION

    return main
