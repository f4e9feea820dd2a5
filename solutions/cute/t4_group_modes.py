"""Case t4: a tile in and out by TMA, its two modes grouped so that one instruction moves it."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.memory import SmemAllocator

tile = 64
tile_bytes = tile * tile * 2


def copy(rows, columns):
    assert rows % tile == columns % tile == 0, "rows and columns must be multiples of the tile"

    @cute.kernel
    def kernel(load_X, X, store_Y, Y, layout):
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        n, m, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        full = smem.allocate_array(cutlass.Int64, 1)
        # with the swizzle that both maps have
        S = smem.allocate_tensor(cutlass.Float16, layout.outer, 1024, layout.inner)

        if warp_idx == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()

        ### BEGIN SOLUTION: tile (m, n) of X and of Y, and S, as one mode each; partition them
        one = cute.make_layout(1)
        S_tile = cute.group_modes(S, 0, 2)
        X_tile = cute.group_modes(cute.local_tile(X, (tile, tile), (m, n)), 0, 2)
        Y_tile = cute.group_modes(cute.local_tile(Y, (tile, tile), (m, n)), 0, 2)
        load_dst, load_src = cpasync.tma_partition(load_X, 0, one, S_tile, X_tile)
        store_src, store_dst = cpasync.tma_partition(store_Y, 0, one, S_tile, Y_tile)
        ### END SOLUTION

        if warp_idx == 0:
            ### BEGIN SOLUTION: how many bytes come; load, wait; then store, wait for the store
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, tile_bytes)
            cute.copy(load_X, load_src, load_dst, tma_bar_ptr=full)  # elects its own thread
            cute.arch.mbarrier_wait(full, 0)
            # TMA wrote S and TMA reads it: no fence between the proxies
            cute.copy(store_Y, store_src, store_dst)
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0)
            ### END SOLUTION

    @cute.jit
    def main(X: cute.Tensor, Y: cute.Tensor):
        swizzle = warpgroup.SmemLayoutAtomKind.K_SW128
        atom = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout = cute.tile_to_shape(atom, (tile, tile), order=(0, 1))
        g2s, s2g = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        load_X, X = cpasync.make_tiled_tma_atom(g2s, X, layout, (tile, tile))
        store_Y, Y = cpasync.make_tiled_tma_atom(s2g, Y, layout, (tile, tile))
        kernel(load_X, X, store_Y, Y, layout).launch(
            grid=(columns // tile, rows // tile, 1), block=(128, 1, 1)
        )

    return main
