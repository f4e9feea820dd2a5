"""Case t2: two slabs come by one rank-3 box and leave by two boxes of a flattened map."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.memory import SmemAllocator

slabs, rows, columns = 2, 16, 64


def copy(d0, d1, d2):
    assert d0 % slabs == 0 and d1 % rows == 0, "d0 and d1 must be multiples of the tile"

    @cute.kernel
    def kernel(load_X, X, store_Y, Y, layout):
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        x, y, z = cute.arch.block_idx()
        smem = SmemAllocator()
        full = smem.allocate_array(cutlass.Int64, 1)
        # (rows, columns, slabs)
        S = smem.allocate_tensor(cutlass.Float16, layout.outer, 1024, layout.inner)

        if warp_idx == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init_fence()  # the async proxy has to see the barrier too
        cute.arch.sync_threads()

        # the whole S is one box of X: (tile, y, x, z)
        X_tiles = cute.local_tile(X, (rows, columns, slabs), (None, None, None))
        X_tiles = cute.group_modes(X_tiles, 0, 3)
        # each slab of S is one box of Y: (tile, row of tiles, x)
        Y_tiles = cute.group_modes(cute.local_tile(Y, (rows, columns), (None, None)), 0, 2)
        S_whole, S_slabs = cute.group_modes(S, 0, 3), cute.group_modes(S, 0, 2)
        one = cute.make_layout(1)
        X_dst, X_src = cpasync.tma_partition(load_X, 0, one, S_whole, X_tiles)
        Y_src, Y_dst = cpasync.tma_partition(store_Y, 0, one, S_slabs, Y_tiles)

        if warp_idx == 0:
            ### BEGIN SOLUTION: how many bytes come; ask for the tile of X, and wait for it
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, slabs * rows * columns * 2)
            cute.copy(load_X, X_src[None, y, x, z], X_dst, tma_bar_ptr=full)
            cute.arch.mbarrier_wait(full, 0)
            ### END SOLUTION
            for slab in cutlass.range_constexpr(slabs):
                ### BEGIN SOLUTION: store this slab of S to its tile of the flattened Y
                row_of_tiles = (z * slabs + slab) * (d1 // rows) + y
                cute.copy(store_Y, Y_src[None, slab], Y_dst[None, row_of_tiles, x])
                ### END SOLUTION
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(X: cute.Tensor, Y: cute.Tensor):
        # the same bytes, rows and columns first, as the swizzle's atom has them
        rows_first = cute.make_layout((d1, d2, d0), stride=(d2, 1, d1 * d2))
        X = cute.make_tensor(X.iterator, rows_first)
        ### BEGIN SOLUTION: let Y be the same bytes as one run of rows, (d0 * d1, d2)
        Y = cute.make_tensor(Y.iterator, cute.make_layout((d0 * d1, d2), stride=(d2, 1)))
        ### END SOLUTION
        swizzle = warpgroup.SmemLayoutAtomKind.K_SW128
        atom = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout = cute.tile_to_shape(atom, (rows, columns, slabs), order=(0, 1, 2))
        load_X, X = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileG2SOp(), X, layout, (rows, columns, slabs)
        )
        store_Y, Y = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileS2GOp(), Y, cute.select(layout, [0, 1]), (rows, columns)
        )
        kernel(load_X, X, store_Y, Y, layout).launch(
            grid=(cute.ceil_div(d2, columns), d1 // rows, d0 // slabs), block=(32, 1, 1)
        )

    return main
