"""Step 4: TMA. One thread asks for a tile, an mbarrier counts bytes; D leaves by TMA store."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
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
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            full = T.alloc_barrier(1)
            m, n = by * block_M, bx * block_N
            ms, ns = slice(m, m + block_M), slice(n, n + block_N)  # rows and columns of D

            for k in T.serial(K // block_K):
                ### BEGIN SOLUTION: ask for both tiles, arrive once, wait, multiply, synchronise
                ks = slice(k * block_K, (k + 1) * block_K)
                # tma_copy elects a thread: it tells full its bytes (expect_tx), issues the load
                T.tma_copy(A[ms, ks], A_shared[0, :, :], barrier=full)
                T.tma_copy(B[ns, ks], B_shared[0, :, :], barrier=full)
                if T.shuffle_elect(128):
                    T.mbarrier_arrive(full)  # the one arrival; bytes are the rest of the phase
                T.mbarrier_wait_parity(full, k & 1)
                operands = A_shared[0, :, :], B_shared[0, :, :]
                T.wgmma_gemm(*operands, acc, transpose_B=True, clear_accum=(k == 0))
                T.wait_wgmma(0)
                T.sync_threads()  # all warps together; the wait alone frees the tile
                ### END SOLUTION

            ### BEGIN SOLUTION: D out: registers to D_shared, made visible to TMA, store, wait
            T.copy(acc, D_shared)
            T.fence_proxy_async()  # threads wrote D_shared; TMA reads it by the async proxy
            T.sync_threads()
            T.tma_copy(D_shared, D[ms, ns])
            T.tma_store_wait(0)
            ### END SOLUTION

    return main
