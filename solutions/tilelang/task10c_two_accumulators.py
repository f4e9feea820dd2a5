"""Task 10c: fp8 with two accumulators. Sums of 128 products are scaled, then added up."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 128  # a row of 128 fp8 numbers is 128 bytes
num_stages, consumers = 4, 2
threads = 128 * (1 + consumers)
rows = T.GemmWarpPolicy.FullRow  # 64 rows of the tile for each consumer


# sm_count: SMs of an H100 SXM and an H200; a check passes those of the GPU that it runs on
def gemm(M, N, K, sm_count=132):
    """D = A @ B^T of fp8 numbers with scales: each 128 of K have their own.

    - The kernel takes A (M, K), B (N, K), scale_A (M, K / 128), scale_B (N / 128, K / 128) and
      D (M, N), in this order: A and B are float8_e4m3fn, the scales fp32, D is bf16.
    - D[m, n] is the sum over k of A[m, k] * B[n, k] * scale_A[m, k // 128]
      * scale_B[n // 128, k // 128]. M, N and K are multiples of 128.
    - wgmma multiplies fp8, and adds up no more than 128 products. Add its scaled sums up in a
      second fp32 accumulator.
    - All else as in your step 8, with two consumer warpgroups. Speed counts here.
    """
    ### BEGIN SOLUTION: the kernel; start from your step 8, with step 10's consumers
    assert M % block_M == 0 and N % block_N == 0 and K % block_K == 0, (
        "M, N and K must be multiples of the tile"
    )
    k_tiles = K // block_K

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float8_e4m3fn),
        B: T.Tensor((N, K), T.float8_e4m3fn),
        scale_A: T.Tensor((M, k_tiles), T.float32),
        scale_B: T.Tensor((N // block_N, k_tiles), T.float32),
        D: T.Tensor((M, N), T.bfloat16),
    ):
        with T.Kernel(sm_count, threads=threads) as cta:
            A_shared = T.alloc_shared((num_stages, block_M, block_K), T.float8_e4m3fn)
            B_shared = T.alloc_shared((num_stages, block_N, block_K), T.float8_e4m3fn)
            D_shared = T.alloc_shared((block_M, block_N), T.bfloat16)
            part = T.alloc_fragment((block_M, block_N), T.float32)  # of one K tile
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            scale = T.alloc_fragment((block_M,), T.float32)  # of part's rows
            full = T.alloc_barrier([1] * num_stages)  # one arrival by the producer, and bytes
            empty = T.alloc_barrier([consumers] * num_stages)  # one by each consumer
            it = T.alloc_var(T.int32, init=0)  # K tiles so far; each role counts its own
            thread = T.get_thread_binding()
            tiles = T.PersistentTileScheduler(
                M // block_M, N // block_N, num_workers=sm_count, swizzle_size=8
            )
            tiles.init(cta)

            if thread < 128:  # producer warpgroup, of which one warp works
                T.dec_max_nreg(40)
                if thread < 32:
                    while tiles.valid():
                        m, n = tiles.m_idx * block_M, tiles.n_idx * block_N
                        ms, ns = slice(m, m + block_M), slice(n, n + block_N)
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
                        tiles.next_tile()
            else:  # consumer warpgroups: 64 rows of the tile each
                T.inc_max_nreg(232)
                while tiles.valid():
                    m, n = tiles.m_idx * block_M, tiles.n_idx * block_N
                    T.clear(acc)
                    for k in T.serial(k_tiles):
                        stage = it % num_stages
                        for i in T.Parallel(block_M):
                            scale[i] = scale_A[m + i, k] * scale_B[tiles.n_idx, k]
                        T.mbarrier_wait_parity(full[stage], (it // num_stages) & 1)
                        operands = A_shared[stage, :, :], B_shared[stage, :, :]
                        T.wgmma_gemm(
                            *operands, part, transpose_B=True, clear_accum=True, policy=rows
                        )
                        # nothing may stay in flight: part is read now
                        T.wait_wgmma(0)
                        if T.shuffle_elect(128):
                            T.mbarrier_arrive(empty[stage])
                        for i, j in T.Parallel(block_M, block_N):
                            acc[i, j] += part[i, j] * scale[i]
                        it = it + 1

                    T.tma_store_wait(0)
                    T.sync_threads(1, 128 * consumers)  # of the consumers' threads only
                    T.copy(acc, D_shared)
                    T.fence_proxy_async()
                    T.sync_threads(1, 128 * consumers)
                    T.tma_copy(D_shared, D[m : m + block_M, n : n + block_N])
                    tiles.next_tile()
                T.tma_store_wait(0)

    return main
    ### END SOLUTION
