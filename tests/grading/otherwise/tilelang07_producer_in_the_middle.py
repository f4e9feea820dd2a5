import tilelang.language as T

TM, TN, TK = 128, 128, 64
HALF = TM // 2
S = 4


def gemm(M, N, K, sm_count=132):
    """Warpgroups 0 and 2 multiply 64 rows each, warpgroup 1 between them loads.

    A warp arrives on empty for itself; each consumer stores its own rows, with a barrier of its own.
    """
    assert M % TM == 0 and N % TN == 0 and K % TK == 0
    steps = K // TK

    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16), D: T.Tensor((M, N), T.float16)):
        with T.Kernel(sm_count, threads=384) as cta:
            a = T.alloc_shared((S, TM, TK), T.float16)
            b = T.alloc_shared((S, TN, TK), T.float16)
            d_top = T.alloc_shared((HALF, TN), T.float16)
            d_low = T.alloc_shared((HALF, TN), T.float16)
            sums_top = T.alloc_fragment((HALF, TN), T.float32)
            sums_low = T.alloc_fragment((HALF, TN), T.float32)
            full = T.alloc_barrier([1] * S)
            empty = T.alloc_barrier([8] * S)  # warps of both consumers
            n_done = T.alloc_var(T.int32, init=0)
            me = T.get_thread_binding()
            tiles = T.PersistentTileScheduler(
                M // TM, N // TN, num_workers=sm_count, swizzle_size=6, column_major=False
            )
            tiles.init(cta)

            if me < 128:
                T.inc_max_nreg(208)
                while tiles.valid():
                    for k in T.serial(steps):
                        T.mbarrier_wait_parity(full[n_done % S], n_done // S % 2)
                        T.wgmma_gemm(
                            a[n_done % S, 0:HALF, :],
                            b[n_done % S, :, :],
                            sums_top,
                            transpose_B=True,
                            clear_accum=(k == 0),
                        )
                        T.wait_wgmma(0)
                        if T.shuffle_elect(32):
                            T.mbarrier_arrive(empty[n_done % S])
                        n_done = n_done + 1
                    T.tma_store_wait(0)
                    T.sync_threads(1, 128)
                    T.copy(sums_top, d_top)
                    T.fence_proxy_async()
                    T.sync_threads(1, 128)
                    T.tma_copy(
                        d_top,
                        D[
                            tiles.m_idx * TM : tiles.m_idx * TM + HALF,
                            tiles.n_idx * TN : tiles.n_idx * TN + TN,
                        ],
                    )
                    tiles.next_tile()
                T.tma_store_wait(0)
            elif me < 256:
                T.dec_max_nreg(40)
                if me < 160:
                    while tiles.valid():
                        m, n = tiles.m_idx * TM, tiles.n_idx * TN
                        for k in T.serial(steps):
                            to = n_done % S
                            T.mbarrier_wait_parity(empty[to], 1 - n_done // S % 2)
                            T.tma_copy(
                                B[n : n + TN, k * TK : k * TK + TK],
                                b[to, :, :],
                                barrier=full[to],
                                leader_scope_threads=32,
                            )
                            T.tma_copy(
                                A[m : m + TM, k * TK : k * TK + TK],
                                a[to, :, :],
                                barrier=full[to],
                                leader_scope_threads=32,
                            )
                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(full[to])
                            n_done = n_done + 1
                        tiles.next_tile()
            else:
                T.inc_max_nreg(208)
                while tiles.valid():
                    for k in T.serial(steps):
                        T.mbarrier_wait_parity(full[n_done % S], n_done // S % 2)
                        T.wgmma_gemm(
                            a[n_done % S, HALF:TM, :],
                            b[n_done % S, :, :],
                            sums_low,
                            transpose_B=True,
                            clear_accum=(k == 0),
                        )
                        T.wait_wgmma(0)
                        if T.shuffle_elect(32):
                            T.mbarrier_arrive(empty[n_done % S])
                        n_done = n_done + 1
                    T.tma_store_wait(0)
                    T.sync_threads(2, 128)
                    T.copy(sums_low, d_low)
                    T.fence_proxy_async()
                    T.sync_threads(2, 128)
                    T.tma_copy(
                        d_low,
                        D[
                            tiles.m_idx * TM + HALF : tiles.m_idx * TM + TM,
                            tiles.n_idx * TN : tiles.n_idx * TN + TN,
                        ],
                    )
                    tiles.next_tile()
                T.tma_store_wait(0)

    return main
