"""Case t2: a tile comes by one box of a rank-3 tensor map, leaves by two of a flattened one."""

import tilelang.language as T

slabs, rows, columns = 2, 16, 64


def copy(d0, d1, d2):
    assert d0 % slabs == 0 and d1 % rows == 0, "d0 and d1 must be multiples of the tile"
    grid = T.ceildiv(d2, columns), d1 // rows, d0 // slabs

    @T.prim_func
    def main(
        X: T.Tensor((d0, d1, d2), T.float16),
        # the bytes of a (d0, d1, d2), seen as one run of rows
        Y: T.Tensor((d0 * d1, d2), T.float16),
    ):
        with T.Kernel(*grid, threads=128) as (bx, by, bz):
            S = T.alloc_shared((slabs, rows, columns), T.float16)
            full = T.alloc_barrier(1)
            # first element of the tile in each dimension of X
            x, y, z = bx * columns, by * rows, bz * slabs

            ### BEGIN SOLUTION: bring the tile of X to S by one rank-3 TMA load, and wait for it
            T.tma_copy(X[z : z + slabs, y : y + rows, x : x + columns], S, barrier=full)
            if T.shuffle_elect(128):
                T.mbarrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            ### END SOLUTION

            for slab in T.unroll(slabs):
                ### BEGIN SOLUTION: store this slab of S to its rows of the flattened Y, by TMA
                row = (z + slab) * d1 + y
                T.tma_copy(S[slab, :, :], Y[row : row + rows, x : x + columns])
                ### END SOLUTION
            T.tma_store_wait(0)

    return main
