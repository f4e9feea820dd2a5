"""Case t4b: a control, and the same with one edit: one lane alone comes to the load."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.memory import SmemAllocator

tile = 64


def control(rows, columns):
    ### BEGIN SOLUTION: a copy of X to Y, by TMA in and out, that is right
    @cute.kernel
    def kernel(load_X, X, store_Y, Y, layout):
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        n, m, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        full = smem.allocate_array(cutlass.Int64, 1)
        S = smem.allocate_tensor(cutlass.Float16, layout.outer, 1024, layout.inner)

        if warp_idx == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()

        one = cute.make_layout(1)
        S_tile = cute.group_modes(S, 0, 2)
        X_tile = cute.group_modes(cute.local_tile(X, (tile, tile), (m, n)), 0, 2)
        Y_tile = cute.group_modes(cute.local_tile(Y, (tile, tile), (m, n)), 0, 2)
        load_dst, load_src = cpasync.tma_partition(load_X, 0, one, S_tile, X_tile)
        store_src, store_dst = cpasync.tma_partition(store_Y, 0, one, S_tile, Y_tile)

        if warp_idx == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, tile * tile * 2)
            cute.copy(load_X, load_src, load_dst, tma_bar_ptr=full)
            cute.arch.mbarrier_wait(full, 0)
            cute.copy(store_Y, store_src, store_dst)
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0)

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
    ### END SOLUTION


def broken(rows, columns):
    ### BEGIN SOLUTION: the same, but for the one edit that shows the fault
    @cute.kernel
    def kernel(load_X, X, store_Y, Y, layout):
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        n, m, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        full = smem.allocate_array(cutlass.Int64, 1)
        S = smem.allocate_tensor(cutlass.Float16, layout.outer, 1024, layout.inner)

        if warp_idx == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()

        one = cute.make_layout(1)
        S_tile = cute.group_modes(S, 0, 2)
        X_tile = cute.group_modes(cute.local_tile(X, (tile, tile), (m, n)), 0, 2)
        Y_tile = cute.group_modes(cute.local_tile(Y, (tile, tile), (m, n)), 0, 2)
        load_dst, load_src = cpasync.tma_partition(load_X, 0, one, S_tile, X_tile)
        store_src, store_dst = cpasync.tma_partition(store_Y, 0, one, S_tile, Y_tile)

        if warp_idx == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, tile * tile * 2)
            with cute.arch.elect_one():
                cute.copy(load_X, load_src, load_dst, tma_bar_ptr=full)
            cute.arch.mbarrier_wait(full, 0)
            cute.copy(store_Y, store_src, store_dst)
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0)

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
    ### END SOLUTION
