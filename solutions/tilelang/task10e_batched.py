"""Task 10e: a batched GEMM. One more coordinate, and each matrix ends where its map says."""

import tilelang.language as T

block_M, block_N, block_K = 128, 128, 64
num_stages = 4


# sm_count: SMs of an H100 SXM and an H200; a check passes those of the GPU that it runs on
def gemm(batch, M, N, K, sm_count=132):
    """D[b] = A[b] @ B[b]^T for each b below batch, all in one launch.

    - The kernel takes A (batch, M, K), B (batch, N, K) and D (batch, M, N), in this order. All
      are fp16.
    - N and K are multiples of the tile. M is not: behind D[b]'s last row D[b + 1] begins.
    - All else as in your step 8 or later: persistent, roles, four stages. Speed counts here.
    """
    ### BEGIN SOLUTION: the kernel; start from your step 8 or later
    assert N % block_N == 0 and K % block_K == 0, "N and K must be multiples of the tile"
    tiles_M, k_tiles = T.ceildiv(M, block_M), K // block_K

    @T.prim_func
    def main(
        A: T.Tensor((batch, M, K), T.float16),
        B: T.Tensor((batch, N, K), T.float16),
        D: T.Tensor((batch, M, N), T.float16),
    ):
        with T.Kernel(sm_count, threads=256) as cta:
            A_shared = T.alloc_shared((num_stages, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((num_stages, block_N, block_K), T.float16)
            D_shared = T.alloc_shared((block_M, block_N), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            full = T.alloc_barrier([1] * num_stages)  # one arrival by the producer, and bytes
            empty = T.alloc_barrier([1] * num_stages)  # one arrival by the consumer warpgroup
            it = T.alloc_var(T.int32, init=0)  # K tiles so far; each role counts its own
            thread = T.get_thread_binding()
            tiles = T.PersistentTileScheduler(
                batch * tiles_M, N // block_N, num_workers=sm_count, swizzle_size=4
            )
            tiles.init(cta)

            if thread < 128:  # producer warpgroup, of which one warp works
                T.dec_max_nreg(40)
                if thread < 32:
                    while tiles.valid():
                        # rows of tiles of all matrices, below each other
                        b, m = tiles.m_idx // tiles_M, tiles.m_idx % tiles_M * block_M
                        n = tiles.n_idx * block_N
                        ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                        for k in T.serial(k_tiles):
                            stage = it % num_stages
                            # a new barrier has parity 1 behind it: round 0 does not wait
                            T.mbarrier_wait_parity(empty[stage], (it // num_stages) & 1 ^ 1)
                            ks = slice(k * block_K, (k + 1) * block_K)
                            T.tma_copy(A[b, ms, ks], A_shared[stage, :, :], barrier=full[stage])
                            T.tma_copy(B[b, ns, ks], B_shared[stage, :, :], barrier=full[stage])
                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(full[stage])
                            it = it + 1
                        tiles.next_tile()
            else:  # consumer warpgroup
                T.inc_max_nreg(232)
                while tiles.valid():
                    b, m = tiles.m_idx // tiles_M, tiles.m_idx % tiles_M * block_M
                    n = tiles.n_idx * block_N
                    ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                    for k in T.serial(k_tiles):
                        stage = it % num_stages
                        T.mbarrier_wait_parity(full[stage], (it // num_stages) & 1)
                        operands = A_shared[stage, :, :], B_shared[stage, :, :]
                        T.wgmma_gemm(*operands, acc, transpose_B=True, clear_accum=(k == 0))
                        T.wait_wgmma(1)  # all but the newest group are done: a stage is free
                        if k > 0:
                            if T.shuffle_elect(128):
                                T.mbarrier_arrive(empty[(it - 1) % num_stages])
                        it = it + 1
                    T.wait_wgmma(0)
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(empty[(it - 1) % num_stages])

                    T.tma_store_wait(0)
                    T.sync_threads(1, 128)  # named barrier 1: the consumer's threads only
                    T.copy(acc, D_shared)
                    T.fence_proxy_async()
                    T.sync_threads(1, 128)
                    T.tma_copy(D_shared, D[b, ms, ns])
                    tiles.next_tile()
                T.tma_store_wait(0)

    return main
    ### END SOLUTION
