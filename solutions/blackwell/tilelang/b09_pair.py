"""Blackwell, step 9: a pair of CTAs. One thread multiplies 256 x 256 for both: each CTA gives
128 rows of A and 128 rows of B, and keeps its 128 rows of the accumulator.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import tilelang.language as T

block_M, block_N, block_K = 128, 256, 64  # 128 rows of D in each CTA of the pair
# columns of D staged at a time, in two buffers: TMA stores one while threads fill the other
epi_N = 64
num_stages, num_accs = 4, 2
pair = 2


# sm_count: SMs of a B200; a check passes those of the chip that it is for
def gemm(M, N, K, sm_count=148):
    assert M % (pair * block_M) == 0 and N % block_N == 0 and K % block_K == 0, (
        "sizes must be multiples of the pair's tile"
    )
    k_tiles = K // block_K
    half_N = block_N // pair  # rows of B that each CTA loads
    work = M // block_M, N // block_N, sm_count // pair  # rows, columns of tiles; workers

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.ClusterKernel(sm_count, cluster_dims=pair, threads=192) as cta:
            A_shared = T.alloc_shared((num_stages, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((num_stages, half_N, block_K), T.float16)
            D_shared = T.alloc_shared((2, block_M, epi_N), T.float16)
            acc = T.alloc_tmem((num_accs, block_M, block_N), T.float32)  # all 512 columns
            regs = T.alloc_fragment((block_M, epi_N), T.float32)
            ### BEGIN SOLUTION: full, empty, acc_full, acc_empty: how many arrivals
            # CTA 0 multiplies: its full has the bytes of both CTAs, and one arrival
            full = T.alloc_cluster_barrier([1] * num_stages)
            # multicast commits arrive in both CTAs: on empty and on acc_full
            empty = T.alloc_cluster_barrier([1] * num_stages)
            acc_full = T.alloc_cluster_barrier([1] * num_accs)
            acc_empty = T.alloc_cluster_barrier([pair * 128] * num_accs)  # both epilogues
            ### END SOLUTION
            it = T.alloc_var(T.int32, init=0)  # K tiles so far; each role counts its own
            t = T.alloc_var(T.int32, init=0)  # tiles of D so far; each role counts its own
            thread, rank = T.get_thread_binding(), T.block_rank_in_cluster()
            tiles = T.PersistentTileScheduler(
                *work, swizzle_size=8, column_major=False, cluster_size=pair
            )
            tiles.init(cta // pair)

            if thread < 128:  # epilogue: warps 0 to 3, each reads its own 32 lanes
                while tiles.valid():
                    ### BEGIN SOLUTION: m, n: the first row and column of D of this CTA's tile
                    m, n = (tiles.m_idx * pair + rank) * block_M, tiles.n_idx * block_N
                    ### END SOLUTION
                    a = t % num_accs
                    T.mbarrier_wait_parity(acc_full[a], (t // num_accs) & 1)
                    for c in T.unroll(block_N // epi_N):
                        T.copy(acc[a, :, c * epi_N : (c + 1) * epi_N], regs)
                        T.tma_store_wait(1)  # all but the newest store have read their buffer
                        T.sync_threads(1, 128)  # named barrier 1: the epilogue's threads only
                        T.copy(regs, D_shared[c % 2, :, :])
                        T.fence_proxy_async()
                        T.sync_threads(1, 128)
                        part = slice(n + c * epi_N, n + (c + 1) * epi_N)
                        T.tma_copy(D_shared[c % 2, :, :], D[m : m + block_M, part])
                    ### BEGIN SOLUTION: this accumulator is read
                    T.mbarrier_arrive(acc_empty[a], 0)  # tell CTA 0, which multiplies
                    ### END SOLUTION
                    t = t + 1
                    tiles.next_tile()
                T.tma_store_wait(0)
            elif thread < 160:  # warp 4 loads this CTA's half of A and of B
                while tiles.valid():
                    ### BEGIN SOLUTION: load this CTA's part; make the arrival
                    m = (tiles.m_idx * pair + rank) * block_M
                    n = tiles.n_idx * block_N + rank * half_N
                    ms, ns = slice(m, m + block_M), slice(n, n + half_N)
                    for k in T.serial(k_tiles):
                        stage = it % num_stages
                        # a new barrier has parity 1 behind it: round 0 does not wait
                        T.mbarrier_wait_parity(empty[stage], (it // num_stages) & 1 ^ 1)
                        ks = slice(k * block_K, (k + 1) * block_K)
                        # both CTAs' bytes arrive on CTA 0's full, which expects all of them
                        T.tma_copy(A[ms, ks], A_shared[stage, :, :], barrier=full[stage])
                        T.tma_copy(B[ns, ks], B_shared[stage, :, :], barrier=full[stage])
                        if T.shuffle_elect(32) and rank == 0:
                            T.mbarrier_arrive(full[stage])
                        it = it + 1
                    ### END SOLUTION
                    tiles.next_tile()
                ### BEGIN SOLUTION: stay until every commit has arrived here
                for _ in T.serial(num_stages):  # stay until every commit has arrived here
                    T.mbarrier_wait_parity(empty[it % num_stages], (it // num_stages) & 1 ^ 1)
                    it = it + 1
                ### END SOLUTION
            elif rank == 0:  # warp 5 of CTA 0 issues the MMAs of the pair
                while tiles.valid():
                    ### BEGIN SOLUTION: multiply the pair's tile; two kinds of commit
                    a = t % num_accs
                    T.mbarrier_wait_parity(acc_empty[a], (t // num_accs) & 1 ^ 1)
                    for k in T.serial(k_tiles):
                        stage = it % num_stages
                        T.mbarrier_wait_parity(full[stage], (it // num_stages) & 1)
                        operands = A_shared[stage, :, :], B_shared[stage, :, :], acc[a, :, :]
                        T.tcgen05_gemm(
                            *operands,
                            transpose_B=True,
                            mbar=empty[stage],
                            clear_accum=(k == 0),
                            use_2cta=True,
                        )
                        it = it + 1
                    T.tcgen05_mma_arrive(acc_full[a], arrive_2cta=True)
                    ### END SOLUTION
                    t = t + 1
                    tiles.next_tile()
            # TileLang ends a pair with a cluster barrier, and frees tensor memory after it

    return main
