"""Blackwell, step 8: deeper pipeline. Four stages: the load warp runs up to four K tiles
ahead, and the MMA warp issues what has landed without waiting for what it issued before.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
num_stages, num_accs = 4, 2


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
        with T.Kernel(sm_count, threads=192) as cta:
            A_shared = T.alloc_shared((num_stages, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((num_stages, block_N, block_K), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_tmem((num_accs, block_M, block_N), T.float32)  # 256 columns
            regs = T.alloc_fragment((block_M, block_N), T.float32)
            full = T.alloc_barrier([1] * num_stages)  # one arrival by the load warp, and bytes
            empty = T.alloc_barrier([1] * num_stages)  # commit: a stage's K tile is multiplied
            acc_full = T.alloc_barrier([1] * num_accs)  # commit: an accumulator is complete
            acc_empty = T.alloc_barrier([128] * num_accs)  # the epilogue's threads have read it
            it = T.alloc_var(T.int32, init=0)  # K tiles so far; each role counts its own
            t = T.alloc_var(T.int32, init=0)  # tiles of D so far; each role counts its own
            thread = T.get_thread_binding()
            tiles = T.PersistentTileScheduler(
                M // block_M, N // block_N, num_workers=sm_count, swizzle_size=4
            )
            tiles.init(cta)

            if thread < 128:  # epilogue: warps 0 to 3, each reads its own 32 lanes
                while tiles.valid():
                    m, n = tiles.m_idx * block_M, tiles.n_idx * block_N
                    ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                    a = t % num_accs
                    T.mbarrier_wait_parity(acc_full[a], (t // num_accs) & 1)
                    T.copy(acc[a, :, :], regs)
                    T.mbarrier_arrive(acc_empty[a])  # a later tile may overwrite it
                    T.tma_store_wait(0)  # the previous tile's store has read D_shared
                    T.sync_threads(1, 128)  # named barrier 1: the epilogue's threads only
                    T.copy(regs, D_shared)
                    T.fence_proxy_async()
                    T.sync_threads(1, 128)
                    T.tma_copy(D_shared, D[ms, ns])
                    t = t + 1
                    tiles.next_tile()
                T.tma_store_wait(0)
            elif thread < 160:  # warp 4 loads
                while tiles.valid():
                    m, n = tiles.m_idx * block_M, tiles.n_idx * block_N
                    ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                    ### BEGIN SOLUTION: load every K tile into an empty stage
                    for k in T.serial(k_tiles):
                        stage = it % num_stages
                        # a new barrier has parity 1 behind it: round 0 does not wait
                        T.mbarrier_wait_parity(empty[stage], (it // num_stages) & 1 ^ 1)
                        ks = slice(k * block_K, (k + 1) * block_K)
                        T.tma_copy(A[ms, ks], A_shared[stage, :, :], barrier=full[stage])
                        T.tma_copy(B[ns, ks], B_shared[stage, :, :], barrier=full[stage])
                        if T.shuffle_elect(32):
                            T.mbarrier_arrive(full[stage])
                        it = it + 1
                    ### END SOLUTION
                    tiles.next_tile()
            else:  # warp 5 issues MMAs, of which it waits for none
                while tiles.valid():
                    a = t % num_accs
                    T.mbarrier_wait_parity(acc_empty[a], (t // num_accs) & 1 ^ 1)
                    ### BEGIN SOLUTION: issue what has landed, wait for none; commit the tile
                    for k in T.serial(k_tiles):
                        stage = it % num_stages
                        T.mbarrier_wait_parity(full[stage], (it // num_stages) & 1)
                        operands = A_shared[stage, :, :], B_shared[stage, :, :], acc[a, :, :]
                        T.tcgen05_gemm(
                            *operands, transpose_B=True, mbar=empty[stage], clear_accum=(k == 0)
                        )
                        it = it + 1
                    T.tcgen05_mma_arrive(acc_full[a])  # another commit: of the whole tile
                    ### END SOLUTION
                    t = t + 1
                    tiles.next_tile()
            T.sync_threads()  # TileLang frees tensor memory next: every role is done with it

    return main
