"""Case t4b: a control, and the same with one edit: bytes are expected that never come."""

import tilelang.language as T

tile = 64


def control(rows, columns):
    ### BEGIN SOLUTION: a copy of X to Y, by TMA in and out, that is right
    @T.prim_func
    def main(X: T.Tensor((rows, columns), T.float16), Y: T.Tensor((rows, columns), T.float16)):
        with T.Kernel(columns // tile, rows // tile, threads=128) as (n, m):
            S = T.alloc_shared((tile, tile), T.float16)
            full = T.alloc_barrier(1)
            y, x = m * tile, n * tile
            T.tma_copy(X[y : y + tile, x : x + tile], S, barrier=full)
            if T.shuffle_elect(128):
                T.mbarrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.tma_copy(S, Y[y : y + tile, x : x + tile])
            T.tma_store_wait(0)

    return main
    ### END SOLUTION


def broken(rows, columns):
    ### BEGIN SOLUTION: the same, but for the one edit that shows the fault
    @T.prim_func
    def main(X: T.Tensor((rows, columns), T.float16), Y: T.Tensor((rows, columns), T.float16)):
        with T.Kernel(columns // tile, rows // tile, threads=128) as (n, m):
            S = T.alloc_shared((tile, tile), T.float16)
            full = T.alloc_barrier(1)
            y, x = m * tile, n * tile
            T.tma_copy(X[y : y + tile, x : x + tile], S, barrier=full)
            if T.shuffle_elect(128):
                T.mbarrier_expect_tx(full, tile * tile * 2)
                T.mbarrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.tma_copy(S, Y[y : y + tile, x : x + tile])
            T.tma_store_wait(0)

    return main
    ### END SOLUTION
