"""Blackwell, step 7: warp specialization. One warp loads, one issues MMAs, and a warpgroup
stores D. Two accumulators form a ring: one is multiplied while the other is stored.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import CopyUniversalOp, OperandMajorMode, cpasync, tcgen05
from cutlass.memory import SmemAllocator

block_M, block_N, block_K = 128, 128, 64
num_stages, num_accs = 2, 2
columns = num_accs * block_N  # of tensor memory


# sm_count: SMs of a B200; a check passes those of the chip that it is for
def gemm(M, N, K, sm_count=148):
    assert M % block_M == N % block_N == K % block_K == 0, "sizes must be multiples of the tile"
    k_tiles = K // block_K
    tiles_M, tiles_N = M // block_M, N // block_N
    panel = max(width for width in (1, 2, 3, 4) if tiles_N % width == 0)
    tile_bytes = (block_M + block_N) * block_K * 2  # of A and of B in one stage

    @cute.kernel
    def kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)  # full, then empty
        acc_barriers = smem.allocate_array(cutlass.Int64, 2 * num_accs)  # the same of accs
        where = smem.allocate_array(cutlass.Int32, 1)  # tcgen05.alloc stores an address here
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        D_shared = smem.allocate_tensor(cutlass.Float16, layout_D.outer, 1024, layout_D.inner)

        if warp_idx == 0:  # the whole warp allocates
            cute.arch.alloc_tmem(columns, where)
            cute.arch.relinquish_tmem_alloc_permit()
        # full: one arrival and the bytes of A and B; empty: a commit. All threads meet in it
        pipe = pipeline.PipelineTmaUmma.create(
            num_stages=num_stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            tx_count=tile_bytes,
            barrier_storage=barriers,
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )
        ### BEGIN SOLUTION: a pipeline of accumulators: who arrives, and how often
        # full: a commit; empty: the epilogue's threads have read the accumulator
        accs = pipeline.PipelineUmmaAsync.create(
            num_stages=num_accs,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 128),
            barrier_storage=acc_barriers,
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )
        ### END SOLUTION

        # TMA takes a tile as one mode: (tile, m or n, k) of a matrix, (tile, stage) of the ring
        A_tiles = cute.group_modes(cute.local_tile(A, (block_M, block_K), (None, None)), 0, 2)
        B_tiles = cute.group_modes(cute.local_tile(B, (block_N, block_K), (None, None)), 0, 2)
        D_tiles = cute.group_modes(cute.local_tile(D, (block_M, block_N), (None, None)), 0, 2)
        A_ring, B_ring = cute.group_modes(A_shared, 0, 2), cute.group_modes(B_shared, 0, 2)
        D_tile, one = cute.group_modes(D_shared, 0, 2), cute.make_layout(1)
        A_dst, A_src = cpasync.tma_partition(load_A, 0, one, A_ring, A_tiles)
        B_dst, B_src = cpasync.tma_partition(load_B, 0, one, B_ring, B_tiles)
        D_src, D_dst = cpasync.tma_partition(store_D, 0, one, D_tile, D_tiles)

        my_mma = mma.get_slice(0)  # one CTA multiplies, so its slice is the whole tile
        # descriptors: tcgen05.mma reads shared memory itself
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        address = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, where)
        acc_shape = cute.append(mma.partition_shape_C((block_M, block_N)), num_accs)
        in_tmem = mma.make_fragment_C(acc_shape)
        acc = cute.make_tensor(address, in_tmem.layout)

        # tcgen05.ld: warp w reads lanes 32 w to 32 w + 31, so each thread has a row of D
        tile_acc = acc[(None, None), 0, 0, None]
        ld = tcgen05.Ld32x32bOp(tcgen05.Repetition.x128)
        to_regs = tcgen05.make_tmem_copy(
            cute.make_copy_atom(ld, cutlass.Float32), tile_acc[None, None, 0]
        )
        mine = to_regs.get_slice(thread % 128)
        my_acc = mine.partition_S(tile_acc)
        regs = cute.make_rmem_tensor(mine.partition_D(D_shared).shape, cutlass.Float32)
        out = cute.make_rmem_tensor(regs.shape, cutlass.Float16)
        store = cute.make_copy_atom(CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128)
        to_shared = cute.make_tiled_copy_D(store, to_regs)
        my_out = to_shared.get_slice(thread % 128)
        # panels of up to 4 columns, row after row within a panel: A and B stay in L2
        shape = (tiles_M, (panel, tiles_N // panel))
        order = cute.make_layout(shape, stride=(panel, (1, panel * tiles_M)))
        epilogue = pipeline.NamedBarrier(1, 128)  # of the epilogue's threads only

        if warp_idx < 4:  # epilogue: warps 0 to 3, each reads its own 32 lanes
            read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_accs)
            for tile in cutlass.range(cta, tiles_M * tiles_N, sm_count, unroll=1):
                m, n = order.get_flat_coord(tile)
                ### BEGIN SOLUTION: wait for an accumulator, read it into regs, release it
                accs.consumer_wait(read)
                cute.copy(to_regs, my_acc[None, None, None, read.index], regs)
                cute.arch.fence_view_async_tmem_load()  # tcgen05.wait::ld
                accs.consumer_release(read)  # a later tile may overwrite it
                read.advance()
                ### END SOLUTION
                # the previous tile's store has read D_shared
                if warp_idx == 0:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
                epilogue.arrive_and_wait()
                out.store(regs.load().to(cutlass.Float16))
                cute.copy(to_shared, my_out.retile(out), my_out.partition_D(D_shared))
                # threads wrote D_shared; TMA reads it through the async proxy
                cute.arch.fence_view_async_shared()
                epilogue.arrive_and_wait()
                if warp_idx == 0:
                    cute.copy(store_D, D_src, D_dst[None, m, n])
                    cute.arch.cp_async_bulk_commit_group()
            if warp_idx == 0:
                cute.arch.cp_async_bulk_wait_group(0)
        elif warp_idx == 4:  # loads
            load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
            for tile in cutlass.range(cta, tiles_M * tiles_N, sm_count, unroll=1):
                m, n = order.get_flat_coord(tile)
                for k in cutlass.range(k_tiles, unroll=1):
                    ### BEGIN SOLUTION: load K tile k into an empty stage
                    pipe.producer_acquire(load)  # the MMAs that read this stage are done
                    s, full = load.index, pipe.producer_get_barrier(load)
                    # cute.copy elects its own thread: the whole warp has to come here
                    cute.copy(load_A, A_src[None, m, k], A_dst[None, s], tma_bar_ptr=full)
                    cute.copy(load_B, B_src[None, n, k], B_dst[None, s], tma_bar_ptr=full)
                    load.advance()
                    ### END SOLUTION
        else:  # issues MMAs, of which it waits for none
            use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            make = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_accs)
            for tile in cutlass.range(cta, tiles_M * tiles_N, sm_count, unroll=1):
                ### BEGIN SOLUTION: an empty accumulator; every K tile; two kinds of commits
                accs.producer_acquire(make)  # the epilogue has read this accumulator
                acc_tile = acc[None, None, None, make.index]
                mma.set(tcgen05.Field.ACCUMULATE, False)
                for k in cutlass.range(k_tiles, unroll=1):
                    pipe.consumer_wait(use)
                    for k_block in cutlass.range_constexpr(block_K // 16):
                        at = (None, None, k_block, use.index)
                        cute.gemm(mma, acc_tile, A_frag[at], B_frag[at], acc_tile)
                        mma.set(tcgen05.Field.ACCUMULATE, True)
                    pipe.consumer_release(use)  # a commit: empty, once these MMAs are done
                    use.advance()
                accs.producer_commit(make)  # another commit: of the whole tile
                make.advance()
                ### END SOLUTION

        cute.arch.sync_threads()  # every role is done with tensor memory
        if warp_idx == 0:
            cute.arch.dealloc_tmem(address, columns)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        swizzle = tcgen05.SmemLayoutAtomKind.K_SW128
        atom = tcgen05.make_smem_layout_atom(swizzle, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, num_stages), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, num_stages), order=(0, 1, 2))
        layout_D = cute.tile_to_shape(atom, (block_M, block_N), order=(0, 1))
        g2s, s2g = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        stage_A, stage_B = cute.select(layout_A, [0, 1]), cute.select(layout_B, [0, 1])
        load_A, A = cpasync.make_tiled_tma_atom(g2s, A, stage_A, (block_M, block_K))
        load_B, B = cpasync.make_tiled_tma_atom(g2s, B, stage_B, (block_N, block_K))
        store_D, D = cpasync.make_tiled_tma_atom(s2g, D, layout_D, (block_M, block_N))
        fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (block_M, block_N, 16)
        one, source, k_major = (
            tcgen05.CtaGroup.ONE,
            tcgen05.OperandSource.SMEM,
            OperandMajorMode.K,
        )
        op = tcgen05.MmaF16BF16Op(fp16, fp32, shape, one, source, k_major, k_major)
        mma = cute.make_tiled_mma(op)
        kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma).launch(
            grid=(sm_count, 1, 1), block=(192, 1, 1)
        )

    return main
