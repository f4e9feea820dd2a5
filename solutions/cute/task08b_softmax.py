"""Task 08b: a row softmax over a TMA ring. The roles of step 8, and a warp for each row."""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.memory import SmemAllocator

rows = 16  # of X in a stage
num_stages = 4


# sm_count: SMs of an H100 SXM and an H200; a check passes those of the GPU that it runs on
def softmax(M, N, sm_count=132):
    """Y[i, j] = exp(X[i, j]) / sum over j of exp(X[i, j]): each row of Y adds up to 1.

    - The host function takes X (M, N) and Y (M, N), in this order, fp16; compute in fp32.
    - M is a multiple of 16 and N of 256, up to 1,024. Subtract a row's largest number first.
    - A producer brings rows by TMA through four stages; consumers compute; Y leaves by TMA.
    - A grid of 132 CTAs, each with a share of the rows.
    """
    ### BEGIN SOLUTION: the kernel; start from your step 8
    assert M % rows == N % 64 == 0, "M and N must be multiples of a box"
    blocks, mine = M // rows, N // 32  # numbers of a row that a lane has

    @cute.kernel
    def kernel(load_X, X, store_Y, Y, layout_X, layout_Y):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        X_shared = smem.allocate_tensor(cutlass.Float16, layout_X.outer, 1024, layout_X.inner)
        Y_shared = smem.allocate_tensor(cutlass.Float16, layout_Y.outer, 1024, layout_Y.inner)
        pipe = pipeline.PipelineTmaAsync.create(
            num_stages=num_stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 4),
            tx_count=rows * N * 2,
            barrier_storage=barriers,
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )
        X_tiles = cute.group_modes(cute.local_tile(X, (rows, N), (None, 0)), 0, 2)
        Y_tiles = cute.group_modes(cute.local_tile(Y, (rows, N), (None, 0)), 0, 2)
        X_ring, Y_tile = cute.group_modes(X_shared, 0, 2), cute.group_modes(Y_shared, 0, 2)
        one = cute.make_layout(1)
        X_dst, X_src = cpasync.tma_partition(load_X, 0, one, X_ring, X_tiles)
        Y_src, Y_dst = cpasync.tma_partition(store_Y, 0, one, Y_tile, Y_tiles)
        consumers = pipeline.NamedBarrier(1, 128)  # of the consumer's threads only
        x = cute.make_rmem_tensor((mine,), cutlass.Float32)

        if warp_idx < 4:  # producer warpgroup, of which one warp works
            cute.arch.setmaxregister_decrease(40)
            load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
            if warp_idx == 0:
                for block in cutlass.range(cta, blocks, sm_count, unroll=1):
                    pipe.producer_acquire(load)
                    s, full = load.index, pipe.producer_get_barrier(load)
                    cute.copy(load_X, X_src[None, block], X_dst[None, s], tma_bar_ptr=full)
                    load.advance()
        else:  # consumer warpgroup: each warp has four of the rows
            cute.arch.setmaxregister_increase(232)
            use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            lane = thread % 32
            for block in cutlass.range(cta, blocks, sm_count, unroll=1):
                pipe.consumer_wait(use)
                if warp_idx == 4:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
                consumers.arrive_and_wait()  # Y_shared is free
                for r in cutlass.range(rows // 4, unroll=1):
                    row = r * 4 + warp_idx - 4
                    most = -cutlass.Float32.inf
                    for j in cutlass.range_constexpr(mine):
                        x[j] = X_shared[row, j * 32 + lane, use.index].to(cutlass.Float32)
                        most = cute.arch.fmax(most, x[j])
                    most = cute.arch.warp_reduction_max(most)
                    total = cutlass.Float32(0.0)
                    for j in cutlass.range_constexpr(mine):
                        x[j] = cute.math.exp(x[j] - most)
                        total = total + x[j]
                    total = cute.arch.warp_reduction_sum(total)
                    for j in cutlass.range_constexpr(mine):
                        Y_shared[row, j * 32 + lane] = (x[j] / total).to(cutlass.Float16)
                # before TMA reads Y_shared, or writes this stage
                cute.arch.fence_view_async_shared()
                cute.arch.sync_warp()
                pipe.consumer_release(use)
                use.advance()
                consumers.arrive_and_wait()
                if warp_idx == 4:
                    cute.copy(store_Y, Y_src, Y_dst[None, block])
                    cute.arch.cp_async_bulk_commit_group()
            if warp_idx == 4:
                cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(X: cute.Tensor, Y: cute.Tensor):
        swizzle = warpgroup.SmemLayoutAtomKind.K_SW128
        atom = warpgroup.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout_X = cute.tile_to_shape(atom, (rows, N, num_stages), order=(0, 1, 2))
        layout_Y = cute.tile_to_shape(atom, (rows, N), order=(0, 1))
        g2s, s2g = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        stage_X = cute.select(layout_X, [0, 1])
        load_X, X = cpasync.make_tiled_tma_atom(g2s, X, stage_X, (rows, N))
        store_Y, Y = cpasync.make_tiled_tma_atom(s2g, Y, layout_Y, (rows, N))
        kernel(load_X, X, store_Y, Y, layout_X, layout_Y).launch(
            grid=(sm_count, 1, 1), block=(256, 1, 1), min_blocks_per_mp=1
        )

    return main
    ### END SOLUTION
