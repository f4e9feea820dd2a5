"""Step 7 with the consumer first: three stages, 128 arrivals free one, slot and parity are variables."""

import tilelang.language as T

tile_m, tile_n, tile_k = 128, 128, 64
depth = 3
grid = 132


def gemm(M, N, K):
    assert M % tile_m == 0 and N % tile_n == 0 and K % tile_k == 0
    rounds = K // tile_k
    cols = N // tile_n
    tiles = (M // tile_m) * cols
    group = 8  # rows of tiles, walked column by column

    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16), D: T.Tensor((M, N), T.float16)):
        with T.Kernel(grid, threads=256) as cta:
            a = T.alloc_shared((depth, tile_m, tile_k), T.float16)
            b = T.alloc_shared((depth, tile_n, tile_k), T.float16)
            staging = T.alloc_shared((tile_m, tile_n), T.float16)
            sums = T.alloc_fragment((tile_m, tile_n), T.float32)
            landed = T.alloc_barrier([1] * depth)
            used = T.alloc_barrier([128] * depth)
            me = T.get_thread_binding()
            tile = T.alloc_var(T.int32, init=cta)
            slot = T.alloc_var(T.int32, init=0)
            parity = T.alloc_var(T.int32, init=0)

            if me < 128:
                T.inc_max_nreg(240)
                while tile < tiles:
                    first = tile // (group * cols) * group
                    rows = T.min(M // tile_m - first, group)
                    m = (first + tile % (group * cols) % rows) * tile_m
                    n = tile % (group * cols) // rows * tile_n
                    for k in T.serial(rounds):
                        T.mbarrier_wait_parity(landed[slot], parity)
                        T.wgmma_gemm(a[slot, :, :], b[slot, :, :], sums, transpose_B=True, clear_accum=k == 0)
                        T.wait_wgmma(0)
                        T.mbarrier_arrive(used[slot])
                        slot = slot + 1
                        if slot == depth:
                            slot = 0
                            parity = parity ^ 1
                    T.tma_store_wait(0)
                    T.sync_threads(2, 128)
                    T.copy(sums, staging)
                    T.fence_proxy_async()
                    T.sync_threads(2, 128)
                    T.tma_copy(staging, D[m : m + tile_m, n : n + tile_n])
                    tile = tile + grid
                T.tma_store_wait(0)
            else:
                T.dec_max_nreg(24)
                if me < 160:
                    while tile < tiles:
                        first = tile // (group * cols) * group
                        rows = T.min(M // tile_m - first, group)
                        m = (first + tile % (group * cols) % rows) * tile_m
                        n = tile % (group * cols) // rows * tile_n
                        for k in T.serial(rounds):
                            T.mbarrier_wait_parity(used[slot], parity ^ 1)
                            ks = slice(k * tile_k, (k + 1) * tile_k)
                            T.tma_copy(B[n : n + tile_n, ks], b[slot, :, :], barrier=landed[slot])
                            T.tma_copy(A[m : m + tile_m, ks], a[slot, :, :], barrier=landed[slot])
                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(landed[slot])
                            slot = slot + 1
                            if slot == depth:
                                slot = 0
                                parity = parity ^ 1
                        tile = tile + grid

    return main
