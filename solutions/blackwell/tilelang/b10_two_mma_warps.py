"""Blackwell, step 10: two MMA warps. Each multiplies 128 rows of A in each CTA by the same B:
256 x 256 of D per CTA, 512 x 256 per pair, in all 512 columns of tensor memory.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import tilelang.language as T

block_M, block_N, block_K = 128, 256, 64  # of one MMA warp in each CTA
epi_N = 64  # columns of D stored at a time
num_stages = 4
pair, consumers = 2, 2


# sm_count: SMs of a B200; a check passes those of the chip that it is for
def gemm(M, N, K, sm_count=148):
    rows = pair * consumers * block_M  # of a pair's tile
    assert M % rows == 0 and N % block_N == 0 and K % block_K == 0, (
        "sizes must be multiples of the pair's tile"
    )
    k_tiles = K // block_K
    half_N = block_N // pair  # rows of B that each CTA loads
    work = M // rows * pair, N // block_N, sm_count // pair  # rows, columns of tiles; workers

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.ClusterKernel(sm_count, cluster_dims=pair, threads=352) as cta:
            A_shared = T.alloc_shared((num_stages, consumers, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((num_stages, half_N, block_K), T.float16)
            D_shared = T.alloc_shared((consumers, block_M, epi_N), T.float16)
            acc = T.alloc_tmem((consumers, block_M, block_N), T.float32)  # all 512 columns
            ### BEGIN SOLUTION: full, empty, acc_full, acc_empty: how many arrivals
            # CTA 0 multiplies: its full has the bytes of both CTAs, and one arrival
            full = T.alloc_cluster_barrier([1] * num_stages)
            # both MMA warps read a stage: their commits free it, in both CTAs
            empty = T.alloc_cluster_barrier([consumers] * num_stages)
            acc_full = T.alloc_cluster_barrier([1] * consumers)  # commit: sums are complete
            acc_empty = T.alloc_cluster_barrier([pair * 128] * consumers)  # both epilogues
            ### END SOLUTION
            it = T.alloc_var(T.int32, init=0)  # K tiles so far; each role counts its own
            t = T.alloc_var(T.int32, init=0)  # tiles of D so far; each role counts its own
            thread, rank = T.get_thread_binding(), T.block_rank_in_cluster()
            tiles = T.PersistentTileScheduler(
                *work, swizzle_size=8, column_major=False, cluster_size=pair
            )
            tiles.init(cta // pair)

            if thread < 256:
                for w in (0, 1):  # a tuple: TileLang writes the body out for each w
                    if 128 * w <= thread < 128 * (w + 1):  # epilogue of consumer w: a warpgroup
                        regs = T.alloc_fragment((block_M, epi_N), T.float32)
                        while tiles.valid():
                            ### BEGIN SOLUTION: m, n: where in D; wait for the sums
                            m = tiles.m_idx * rows + (w * pair + rank) * block_M
                            n = tiles.n_idx * block_N
                            T.mbarrier_wait_parity(acc_full[w], t & 1)
                            ### END SOLUTION
                            for c in T.unroll(block_N // epi_N):
                                T.copy(acc[w, :, c * epi_N : (c + 1) * epi_N], regs)
                                T.tma_store_wait(0)  # the store before has read D_shared
                                T.sync_threads(1 + w, 128)  # a named barrier of this warpgroup
                                T.copy(regs, D_shared[w, :, :])
                                T.fence_proxy_async()
                                T.sync_threads(1 + w, 128)
                                part = slice(n + c * epi_N, n + (c + 1) * epi_N)
                                T.tma_copy(D_shared[w, :, :], D[m : m + block_M, part])
                            ### BEGIN SOLUTION: this accumulator is read
                            T.mbarrier_arrive(acc_empty[w], 0)  # tell CTA 0, which multiplies
                            ### END SOLUTION
                            t = t + 1
                            tiles.next_tile()
                        T.tma_store_wait(0)
            elif thread < 288:  # warp 8 loads this CTA's rows of A and half of B
                while tiles.valid():
                    ### BEGIN SOLUTION: load this CTA's part: A for both MMA warps, B
                    m = tiles.m_idx * rows + rank * block_M
                    n = tiles.n_idx * block_N + rank * half_N
                    ns = slice(n, n + half_N)
                    for k in T.serial(k_tiles):
                        stage = it % num_stages
                        # a new barrier has parity 1 behind it: round 0 does not wait
                        T.mbarrier_wait_parity(empty[stage], (it // num_stages) & 1 ^ 1)
                        ks = slice(k * block_K, (k + 1) * block_K)
                        # both CTAs' bytes arrive on CTA 0's full, which expects all of them
                        for w in (0, 1):
                            first = m + w * pair * block_M
                            ms = slice(first, first + block_M)
                            T.tma_copy(A[ms, ks], A_shared[stage, w, :, :], barrier=full[stage])
                        T.tma_copy(B[ns, ks], B_shared[stage, :, :], barrier=full[stage])
                        if T.shuffle_elect(32) and rank == 0:
                            T.mbarrier_arrive(full[stage])
                        it = it + 1
                    ### END SOLUTION
                    tiles.next_tile()
                for _ in T.serial(num_stages):  # stay until every commit has arrived here
                    T.mbarrier_wait_parity(empty[it % num_stages], (it // num_stages) & 1 ^ 1)
                    it = it + 1
            elif rank == 0:
                for w in (0, 1):  # warps 9 and 10 of CTA 0 issue the MMAs of the pair
                    if 288 + 32 * w <= thread < 320 + 32 * w:
                        while tiles.valid():
                            ### BEGIN SOLUTION: multiply the rows of MMA warp w; commit
                            T.mbarrier_wait_parity(acc_empty[w], t & 1 ^ 1)
                            for k in T.serial(k_tiles):
                                stage = it % num_stages
                                T.mbarrier_wait_parity(full[stage], (it // num_stages) & 1)
                                operands = A_shared[stage, w, :, :], B_shared[stage, :, :]
                                T.tcgen05_gemm(
                                    *operands,
                                    acc[w, :, :],
                                    transpose_B=True,
                                    mbar=empty[stage],
                                    clear_accum=(k == 0),
                                    use_2cta=True,
                                )
                                it = it + 1
                            T.tcgen05_mma_arrive(acc_full[w], arrive_2cta=True)
                            ### END SOLUTION
                            t = t + 1
                            tiles.next_tile()
            # TileLang ends a pair with a cluster barrier, and frees tensor memory after it

    return main
