import tilelang.language as T

TM, TN, TK = 128, 256, 64
MINE = TN // 2  # columns of a consumer
CHUNK = 32
S = 4
CTAS = 2


def gemm(M, N, K, sm_count=132):
    """Two consumers that never meet: each has its columns, its buffers and its named barrier."""
    assert M % (CTAS * TM) == 0 and N % TN == 0 and K % TK == 0
    ctas = min(128, sm_count)
    steps = K // TK

    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16), D: T.Tensor((M, N), T.float16)):
        with T.ClusterKernel(ctas, cluster_dims=CTAS, threads=384) as cta:
            a = T.alloc_shared((S, TM, TK), T.float16)
            b = T.alloc_shared((S, TN, TK), T.float16)
            d_west = T.alloc_shared((2, TM, CHUNK), T.float16)
            d_east = T.alloc_shared((2, TM, CHUNK), T.float16)
            west = T.alloc_fragment((TM, MINE), T.float32)
            east = T.alloc_fragment((TM, MINE), T.float32)
            full = T.alloc_barrier([1] * S)
            empty = T.alloc_cluster_barrier([CTAS * 2] * S)
            it = T.alloc_var(T.int32, init=0)
            me, rank = T.get_thread_binding(), T.block_rank_in_cluster()
            tiles = T.PersistentTileScheduler(
                M // TM, N // TN, ctas // CTAS, swizzle_size=4, cluster_size=CTAS
            )
            tiles.init(cta // CTAS)

            if me < 128:
                T.inc_max_nreg(232)
                while tiles.valid():
                    m, n = (tiles.m_idx * CTAS + rank) * TM, tiles.n_idx * TN
                    for k in T.serial(steps):
                        T.mbarrier_wait_parity(full[it % S], it // S % 2)
                        T.wgmma_gemm(
                            a[it % S, :, :],
                            b[it % S, 0:MINE, :],
                            west,
                            transpose_B=True,
                            clear_accum=(k == 0),
                        )
                        T.wait_wgmma(1)
                        if k > 0:
                            if me < CTAS:
                                T.mbarrier_arrive(empty[(it - 1) % S], me)
                        it = it + 1
                    T.wait_wgmma(0)
                    if me < CTAS:
                        T.mbarrier_arrive(empty[(it - 1) % S], me)
                    for c in T.unroll(MINE // CHUNK):
                        T.tma_store_wait(1)
                        T.sync_threads(1, 128)
                        T.copy(west[:, c * CHUNK : c * CHUNK + CHUNK], d_west[c % 2, :, :])
                        T.fence_proxy_async()
                        T.sync_threads(1, 128)
                        T.tma_copy(d_west[c % 2, :, :], D[m : m + TM, n + c * CHUNK : n + c * CHUNK + CHUNK])
                    tiles.next_tile()
                T.tma_store_wait(0)
            elif me < 256:
                T.inc_max_nreg(232)
                while tiles.valid():
                    m, n = (tiles.m_idx * CTAS + rank) * TM, tiles.n_idx * TN + MINE
                    for k in T.serial(steps):
                        T.mbarrier_wait_parity(full[it % S], it // S % 2)
                        T.wgmma_gemm(
                            a[it % S, :, :],
                            b[it % S, MINE:TN, :],
                            east,
                            transpose_B=True,
                            clear_accum=(k == 0),
                        )
                        T.wait_wgmma(1)
                        if k > 0:
                            if me - 128 < CTAS:
                                T.mbarrier_arrive(empty[(it - 1) % S], me - 128)
                        it = it + 1
                    T.wait_wgmma(0)
                    if me - 128 < CTAS:
                        T.mbarrier_arrive(empty[(it - 1) % S], me - 128)
                    for c in T.unroll(MINE // CHUNK):
                        T.tma_store_wait(1)
                        T.sync_threads(2, 128)
                        T.copy(east[:, c * CHUNK : c * CHUNK + CHUNK], d_east[c % 2, :, :])
                        T.fence_proxy_async()
                        T.sync_threads(2, 128)
                        T.tma_copy(d_east[c % 2, :, :], D[m : m + TM, n + c * CHUNK : n + c * CHUNK + CHUNK])
                    tiles.next_tile()
                T.tma_store_wait(0)
            else:
                T.dec_max_nreg(40)
                if me < 288:
                    while tiles.valid():
                        m, n = (tiles.m_idx * CTAS + rank) * TM, tiles.n_idx * TN
                        for k in T.serial(steps):
                            to = it % S
                            T.mbarrier_wait_parity(empty[to], 1 - it // S % 2)
                            T.tma_copy(
                                A[m : m + TM, k * TK : k * TK + TK],
                                a[to, :, :],
                                barrier=full[to],
                                leader_scope_threads=32,
                            )
                            T.tma_copy(
                                B[n : n + TN, k * TK : k * TK + TK],
                                b[to, :, :],
                                barrier=full[to],
                                leader_scope_threads=32,
                                cluster_mask=0b11,
                            )
                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(full[to])
                            it = it + 1
                        tiles.next_tile()
            T.cluster_sync()

    return main
