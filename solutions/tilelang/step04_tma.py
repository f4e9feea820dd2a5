"""Step 4: TMA. One thread asks for a tile, an mbarrier counts its bytes; D leaves through shared memory by TMA store."""

import tilelang.language as T

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
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            full = T.alloc_barrier(1)
            m, n = by * block_M, bx * block_N

            for k in T.serial(K // block_K):
                ### BEGIN SOLUTION: ask for both tiles of this k, arrive once, wait for the phase, multiply, synchronise
                # tma_copy elects one thread, which tells the barrier its bytes (expect_tx) and issues the load
                T.tma_copy(A[m : m + block_M, k * block_K : (k + 1) * block_K], A_shared[0, :, :], barrier=full)
                T.tma_copy(B[n : n + block_N, k * block_K : (k + 1) * block_K], B_shared[0, :, :], barrier=full)
                if T.shuffle_elect(128):
                    T.mbarrier_arrive(full)  # the one arrival; the bytes of both tiles are the rest of the phase
                T.mbarrier_wait_parity(full, k & 1)
                T.wgmma_gemm(A_shared[0, :, :], B_shared[0, :, :], acc, transpose_B=True, clear_accum=(k == 0))
                T.wait_wgmma(0)
                T.sync_threads()
                ### END SOLUTION

            ### BEGIN SOLUTION: send D out: registers to D_shared, make it visible to TMA, store, wait for the store
            T.copy(acc, D_shared)
            T.fence_proxy_async()  # threads wrote D_shared; TMA reads it through the async proxy
            T.sync_threads()
            T.tma_copy(D_shared, D[m : m + block_M, n : n + block_N])
            T.tma_store_wait(0)
            ### END SOLUTION

    return main
