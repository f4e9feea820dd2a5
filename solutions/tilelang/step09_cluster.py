"""Step 9: a cluster of two CTAs, one above the other. One load multicasts B's tile to both."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
num_stages = 6  # a stage is free only after a message from the other SM: two more cover that
cluster = 2


# sm_count: SMs of an H100 SXM and an H200; a check passes those of the GPU that it runs on
def gemm(M, N, K, sm_count=132):
    assert M % (cluster * block_M) == 0 and N % block_N == 0 and K % block_K == 0, (
        "sizes must be multiples of the cluster's tile"
    )
    k_tiles = K // block_K
    work = M // block_M, N // block_N, sm_count // cluster  # rows, columns of tiles; workers

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.ClusterKernel(sm_count, cluster_dims=cluster, threads=256) as cta:
            A_shared = T.alloc_shared((num_stages, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((num_stages, block_N, block_K), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            full = T.alloc_barrier([1] * num_stages)  # one arrival by the producer, and bytes
            ### BEGIN SOLUTION: empty barriers for both CTAs; how many arrivals free a stage?
            # a stage is written for both CTAs: it is free when the consumers of both left it
            empty = T.alloc_cluster_barrier([cluster] * num_stages)
            ### END SOLUTION
            it = T.alloc_var(T.int32, init=0)  # K tiles so far; each role counts its own
            thread, rank = T.get_thread_binding(), T.block_rank_in_cluster()
            tiles = T.PersistentTileScheduler(
                *work, swizzle_size=8, column_major=False, cluster_size=cluster
            )
            tiles.init(cta // cluster)

            if thread < 128:  # producer warpgroup, of which one warp works
                T.dec_max_nreg(40)
                if thread < 32:
                    while tiles.valid():
                        ### BEGIN SOLUTION: m, n; K forth or back: wait, load, multicast, arrive
                        m, n = (tiles.m_idx * cluster + rank) * block_M, tiles.n_idx * block_N
                        ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                        for k in T.serial(k_tiles):
                            stage = it % num_stages
                            # a new barrier has parity 1 behind it: round 0 does not wait
                            T.mbarrier_wait_parity(empty[stage], (it // num_stages) & 1 ^ 1)
                            # every other tile goes back through K: what L2 has comes first
                            j = T.if_then_else(tiles.current_iter % 2 == 0, k, k_tiles - 1 - k)
                            ks = slice(j * block_K, (j + 1) * block_K)
                            T.tma_copy(A[ms, ks], A_shared[stage, :, :], barrier=full[stage])
                            # each CTA expects B's bytes on its own full; rank 0 loads for both
                            T.tma_copy(
                                B[ns, ks],
                                B_shared[stage, :, :],
                                barrier=full[stage],
                                cluster_mask=0b11,
                            )
                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(full[stage])
                            it = it + 1
                        ### END SOLUTION
                        tiles.next_tile()
            else:  # consumer warpgroup
                T.inc_max_nreg(232)
                while tiles.valid():
                    ### BEGIN SOLUTION: m, n; multiply, a group in flight; free stages for both
                    m, n = (tiles.m_idx * cluster + rank) * block_M, tiles.n_idx * block_N
                    ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                    for k in T.serial(k_tiles):
                        stage = it % num_stages
                        T.mbarrier_wait_parity(full[stage], (it // num_stages) & 1)
                        operands = A_shared[stage, :, :], B_shared[stage, :, :]
                        T.wgmma_gemm(*operands, acc, transpose_B=True, clear_accum=(k == 0))
                        T.wait_wgmma(1)  # all but the newest group are done: a stage is free
                        if k > 0 and thread % 128 < cluster:  # thread i tells CTA i
                            T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
                        it = it + 1
                    T.wait_wgmma(0)
                    if thread % 128 < cluster:
                        T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
                    ### END SOLUTION

                    T.tma_store_wait(0)
                    T.sync_threads(1, 128)  # named barrier 1: the consumer's threads only
                    T.copy(acc, D_shared)
                    T.fence_proxy_async()
                    T.sync_threads(1, 128)
                    T.tma_copy(D_shared, D[ms, ns])
                    tiles.next_tile()
                T.tma_store_wait(0)
            ### BEGIN SOLUTION: keep both CTAs here until neither can touch the other any more
            T.cluster_sync()  # a CTA that left could not be told about, or written to
            ### END SOLUTION

    return main
