"""Blackwell, step 6: persistent kernel. One CTA per SM takes tile after tile, in an order for
L2, and allocates tensor memory once.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
num_stages = 2


# sm_count: SMs of a B200; a check passes those of the chip that it is for
def gemm(M, N, K, sm_count=148):
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
        with T.Kernel(sm_count, threads=128) as cta:
            A_shared = T.alloc_shared((num_stages, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((num_stages, block_N, block_K), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_tmem((block_M, block_N), T.float32)
            regs = T.alloc_fragment((block_M, block_N), T.float32)
            full = T.alloc_barrier([1] * num_stages)  # TMA: the bytes of A and B have landed
            done = T.alloc_barrier(1)  # commit: this K tile is multiplied, its stage is free
            ### BEGIN SOLUTION: a count of K tiles that outlives a tile; the scheduler, started
            it = T.alloc_var(T.int32, init=0)  # K tiles of the tiles before this one
            tiles = T.PersistentTileScheduler(
                M // block_M, N // block_N, num_workers=sm_count, swizzle_size=4
            )
            tiles.init(cta)
            ### END SOLUTION

            while tiles.valid():
                m, n = tiles.m_idx * block_M, tiles.n_idx * block_N
                ms, ns = slice(m, m + block_M), slice(n, n + block_N)  # rows and columns of D
                # step i loads tile i and multiplies the one loaded num_stages - 1 steps ago
                for i in T.serial(k_tiles + num_stages - 1):
                    if i < k_tiles:
                        ### BEGIN SOLUTION: the stage that this load goes to
                        load = (it + i) % num_stages
                        ### END SOLUTION
                        ks = slice(i * block_K, (i + 1) * block_K)
                        T.tma_copy(A[ms, ks], A_shared[load, :, :], barrier=full[load])
                        T.tma_copy(B[ns, ks], B_shared[load, :, :], barrier=full[load])
                        if T.shuffle_elect(128):
                            T.mbarrier_arrive(full[load])  # the one arrival, beside the bytes
                    if i >= num_stages - 1:
                        k = i - (num_stages - 1)
                        ### BEGIN SOLUTION: multiply K tile k: its stage, two parities
                        stage = (it + k) % num_stages
                        T.mbarrier_wait_parity(full[stage], ((it + k) // num_stages) & 1)
                        operands = A_shared[stage, :, :], B_shared[stage, :, :], acc
                        T.tcgen05_gemm(
                            *operands, transpose_B=True, mbar=done, clear_accum=(k == 0)
                        )
                        T.mbarrier_wait_parity(done, (it + k) & 1)
                        T.sync_threads()  # all warps together: nobody misses a phase
                        ### END SOLUTION
                ### BEGIN SOLUTION: count on; store D once the last store has read; next tile
                it = it + k_tiles

                T.tma_store_wait(0)  # the previous tile's store has read D_shared
                T.sync_threads()
                T.copy(acc, regs)
                T.copy(regs, D_shared)
                T.fence_proxy_async()  # threads wrote D_shared; TMA reads it by the async proxy
                T.sync_threads()  # and every warp has read acc: the next tile may overwrite it
                T.tma_copy(D_shared, D[ms, ns])
                tiles.next_tile()
                ### END SOLUTION
            T.tma_store_wait(0)
            T.sync_threads()  # TileLang frees tensor memory next: every warp has read it

    return main
