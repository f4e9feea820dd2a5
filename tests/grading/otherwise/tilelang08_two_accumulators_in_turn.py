import tilelang.language as T

TM, TN, TK = 128, 128, 64
TOP = TM // 2
S = 4


def gemm(M, N, K, sm_count=132):
    """The consumer keeps two sums of 64 rows. While one half's products run, it issues the other's."""
    assert M % TM == 0 and N % TN == 0 and K % TK == 0
    steps = K // TK

    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16), D: T.Tensor((M, N), T.float16)):
        with T.Kernel(sm_count, threads=256) as cta:
            a = T.alloc_shared((S, TM, TK), T.float16)
            b = T.alloc_shared((S, TN, TK), T.float16)
            d = T.alloc_shared((2, TOP, TN), T.float16)
            upper = T.alloc_fragment((TOP, TN), T.float32)
            lower = T.alloc_fragment((TOP, TN), T.float32)
            full = T.alloc_barrier([1] * S)
            empty = T.alloc_barrier([1] * S)
            it = T.alloc_var(T.int32, init=0)
            me = T.get_thread_binding()
            tiles = T.PersistentTileScheduler(M // TM, N // TN, num_workers=sm_count, swizzle_size=5)
            tiles.init(cta)

            if me < 128:
                T.dec_max_nreg(24)
                if me < 32:
                    while tiles.valid():
                        m, n = tiles.m_idx * TM, tiles.n_idx * TN
                        for k in T.serial(steps):
                            T.mbarrier_wait_parity(empty[it % S], (it // S + 1) % 2)
                            ks = slice(k * TK, k * TK + TK)
                            T.tma_copy(A[m : m + TM, ks], a[it % S, :, :], barrier=full[it % S])
                            T.tma_copy(B[n : n + TN, ks], b[it % S, :, :], barrier=full[it % S])
                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(full[it % S])
                            it = it + 1
                        tiles.next_tile()
            else:
                T.inc_max_nreg(240)
                while tiles.valid():
                    m, n = tiles.m_idx * TM, tiles.n_idx * TN
                    for k in T.serial(steps):
                        T.mbarrier_wait_parity(full[it % S], it // S % 2)
                        T.wgmma_gemm(
                            a[it % S, 0:TOP, :],
                            b[it % S, :, :],
                            upper,
                            transpose_B=True,
                            clear_accum=(k == 0),
                        )
                        # only this one may run: the lower half of K tile k - 1 is over
                        T.wait_wgmma(1)
                        if k > 0:
                            if T.shuffle_elect(128):
                                T.mbarrier_arrive(empty[(it - 1) % S])
                        T.wgmma_gemm(
                            a[it % S, TOP:TM, :],
                            b[it % S, :, :],
                            lower,
                            transpose_B=True,
                            clear_accum=(k == 0),
                        )
                        it = it + 1
                    # the upper half leaves while the last products of the lower half run
                    T.wait_wgmma(1)
                    T.tma_store_wait(1)
                    T.sync_threads(1, 128)
                    T.copy(upper, d[0, :, :])
                    T.fence_proxy_async()
                    T.sync_threads(1, 128)
                    T.tma_copy(d[0, :, :], D[m : m + TOP, n : n + TN])
                    T.wait_wgmma(0)
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(empty[(it - 1) % S])
                    T.tma_store_wait(1)
                    T.sync_threads(1, 128)
                    T.copy(lower, d[1, :, :])
                    T.fence_proxy_async()
                    T.sync_threads(1, 128)
                    T.tma_copy(d[1, :, :], D[m + TOP : m + TM, n : n + TN])
                    tiles.next_tile()
                T.tma_store_wait(0)

    return main
