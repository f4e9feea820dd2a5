"""Blackwell, step 5: software pipeline. A ring of two stages: one K tile is multiplied while
TMA loads the next.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
num_stages = 2


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
            A_shared = T.alloc_shared((num_stages, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((num_stages, block_N, block_K), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_tmem((block_M, block_N), T.float32)
            regs = T.alloc_fragment((block_M, block_N), T.float32)
            ### BEGIN SOLUTION: a full barrier for each stage, and done for the commits
            full = T.alloc_barrier([1] * num_stages)  # TMA: the bytes of A and B have landed
            done = T.alloc_barrier(1)  # commit: this K tile is multiplied, its stage is free
            ### END SOLUTION
            m, n = by * block_M, bx * block_N
            ms, ns = slice(m, m + block_M), slice(n, n + block_N)  # rows and columns of D

            # step i loads tile i and multiplies the one loaded num_stages - 1 steps ago
            for i in T.serial(k_tiles + num_stages - 1):
                ### BEGIN SOLUTION: load tile i, and multiply the earlier one, if there is one
                if i < k_tiles:
                    load = i % num_stages
                    ks = slice(i * block_K, (i + 1) * block_K)
                    T.tma_copy(A[ms, ks], A_shared[load, :, :], barrier=full[load])
                    T.tma_copy(B[ns, ks], B_shared[load, :, :], barrier=full[load])
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(full[load])  # the one arrival, beside the bytes
                if i >= num_stages - 1:
                    k = i - (num_stages - 1)
                    stage = k % num_stages
                    T.mbarrier_wait_parity(full[stage], (k // num_stages) & 1)
                    operands = A_shared[stage, :, :], B_shared[stage, :, :], acc
                    T.tcgen05_gemm(*operands, transpose_B=True, mbar=done, clear_accum=(k == 0))
                    T.mbarrier_wait_parity(done, k & 1)
                    T.sync_threads()  # all warps together: nobody misses a phase
                ### END SOLUTION

            T.copy(acc, regs)
            T.copy(regs, D_shared)
            T.fence_proxy_async()  # threads wrote D_shared; TMA reads it by the async proxy
            T.sync_threads()
            T.tma_copy(D_shared, D[ms, ns])
            T.tma_store_wait(0)
            T.sync_threads()  # TileLang frees tensor memory next: every warp has read it

    return main
