"""Blackwell, step 4: TMA. One thread issues loads and MMAs, mbarriers tell when each is done,
and a TMA store writes D.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64


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
            A_shared = T.alloc_shared((block_M, block_K), T.float16)
            B_shared = T.alloc_shared((block_N, block_K), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_tmem((block_M, block_N), T.float32)
            regs = T.alloc_fragment((block_M, block_N), T.float32)
            ### BEGIN SOLUTION: two barriers: one for the bytes of A and B, one for commits
            full = T.alloc_barrier(1)  # TMA: the bytes of A and B have landed
            done = T.alloc_barrier(1)  # commit: this K tile is multiplied, its buffers are free
            ### END SOLUTION
            m, n = by * block_M, bx * block_N
            ms, ns = slice(m, m + block_M), slice(n, n + block_N)  # rows and columns of D

            for k in T.serial(K // block_K):
                ks = slice(k * block_K, (k + 1) * block_K)
                ### BEGIN SOLUTION: load both tiles, wait; multiply them, await the commit
                T.tma_copy(A[ms, ks], A_shared, barrier=full)
                T.tma_copy(B[ns, ks], B_shared, barrier=full)
                if T.shuffle_elect(128):
                    T.mbarrier_arrive(full)  # the one arrival; bytes are the rest of the phase
                T.mbarrier_wait_parity(full, k & 1)
                operands = A_shared, B_shared, acc
                T.tcgen05_gemm(*operands, transpose_B=True, mbar=done, clear_accum=(k == 0))
                T.mbarrier_wait_parity(done, k & 1)
                T.sync_threads()  # all warps together: nobody misses a phase
                ### END SOLUTION

            ### BEGIN SOLUTION: acc to registers to D_shared; TMA store; free nothing early
            T.copy(acc, regs)
            T.copy(regs, D_shared)
            T.fence_proxy_async()  # threads wrote D_shared; TMA reads it by the async proxy
            T.sync_threads()
            T.tma_copy(D_shared, D[ms, ns])
            T.tma_store_wait(0)
            T.sync_threads()  # TileLang frees tensor memory next: every warp has read it
            ### END SOLUTION

    return main
