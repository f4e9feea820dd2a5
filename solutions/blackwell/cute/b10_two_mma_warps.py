"""Blackwell, step 10: two MMA warps. Each multiplies 128 rows of A in each CTA by the same B:
256 x 256 of D per CTA, 512 x 256 per pair, in all 512 columns of tensor memory.

Compiled for sm_100a and emulated. Nothing of it has run on a Blackwell by us.
"""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import (
    CopyUniversalOp,
    OperandMajorMode,
    cpasync,
    make_tiled_tma_atom_A,
    make_tiled_tma_atom_B,
    tcgen05,
)
from cutlass.memory import SmemAllocator

block_M, block_N, block_K = 128, 256, 64  # of one MMA warp in each CTA
epi_N = 64  # columns of D stored at a time
num_stages = 4
pair, consumers = 2, 2
columns = consumers * block_N  # of tensor memory: all 512


# sm_count: SMs of a B200; a check passes those of the chip that it is for
def gemm(M, N, K, sm_count=148):
    pair_M = pair * block_M  # rows of D of one MMA
    rest = M % (consumers * pair_M), N % block_N, K % block_K
    assert rest == (0, 0, 0), "sizes must be multiples of the pair's tile"
    k_tiles = K // block_K
    rows, tiles_N = M // (consumers * pair_M), N // block_N
    tiles, pairs = rows * tiles_N, sm_count // pair
    panel = max(width for width in range(1, 9) if rows % width == 0)
    ### BEGIN SOLUTION: pair_bytes: what full of CTA 0 expects in one stage
    # of A and of B in one stage, of both CTAs: each loads half of B's tile
    pair_bytes = (consumers * pair_M + block_N) * block_K * 2
    ### END SOLUTION

    @cute.kernel
    def kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        smem = SmemAllocator()
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)  # full, then empty
        acc_barriers = smem.allocate_array(cutlass.Int64, 2 * consumers)  # the same of accs
        where = smem.allocate_array(cutlass.Int32, 1)  # tcgen05.alloc stores an address here
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        D_shared = smem.allocate_tensor(cutlass.Float16, layout_D.outer, 1024, layout_D.inner)
        ### BEGIN SOLUTION: pipe: a ring for both MMA warps; accs: one for each
        # CTA 0 multiplies: its full has the bytes of both CTAs; two commits free a stage
        pipe = pipeline.PipelineTmaUmma.create(
            num_stages=num_stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, consumers),
            tx_count=pair_bytes,
            barrier_storage=barriers,
            cta_layout_vmnk=cute.make_layout((pair, 1, 1, 1)),
        )
        # full: a commit, in both CTAs; empty, in CTA 0: both epilogues have read it
        accs = [
            pipeline.PipelineUmmaAsync.create(
                num_stages=1,
                producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
                consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, pair * 128),
                barrier_storage=acc_barriers + 2 * w,
                cta_layout_vmnk=cute.make_layout((pair, 1, 1, 1)),
            )
            for w in range(consumers)
        ]
        ### END SOLUTION
        if warp_idx == 0:  # a whole warp of each CTA allocates: the pair does it together
            cute.arch.alloc_tmem(columns, where, is_two_cta=True)
            cute.arch.relinquish_tmem_alloc_permit(is_two_cta=True)
        cute.arch.sync_threads()  # the address is there

        my_mma = mma.get_slice(rank)  # this CTA's rows of A and D, and rows of B
        # TMA takes a tile as one mode: (tile, m or n, k) of a matrix, (tile, stage) of the ring
        A_tiles = my_mma.partition_A(cute.local_tile(A, (pair_M, block_K), (None, None)))
        B_tiles = my_mma.partition_B(cute.local_tile(B, (block_N, block_K), (None, None)))
        D_tiles = cute.group_modes(cute.local_tile(D, (block_M, epi_N), (None, None)), 0, 2)
        A_tiles, B_tiles = cute.group_modes(A_tiles, 0, 3), cute.group_modes(B_tiles, 0, 3)
        A_ring, B_ring = cute.group_modes(A_shared, 0, 3), cute.group_modes(B_shared, 0, 3)
        D_tile, one = cute.group_modes(D_shared, 0, 2), cute.make_layout(1)
        A_dst, A_src = cpasync.tma_partition(load_A, 0, one, A_ring, A_tiles)
        B_dst, B_src = cpasync.tma_partition(load_B, 0, one, B_ring, B_tiles)
        D_src, D_dst = cpasync.tma_partition(store_D, 0, one, D_tile, D_tiles)

        # descriptors: tcgen05.mma reads the shared memory of both CTAs, at the same offsets
        A_frag, B_frag = mma.make_fragment_A(A_shared), mma.make_fragment_B(B_shared)
        address = cute.arch.retrieve_tmem_ptr(cutlass.Float32, 16, where)
        acc_shape = cute.append(mma.partition_shape_C((pair_M, block_N)), consumers)
        acc = cute.make_tensor(address, mma.make_fragment_C(acc_shape).layout)

        # tcgen05.ld: warp w reads lanes 32 w to 32 w + 31, so each thread has a row of D
        acc_parts = cute.flat_divide(acc[(None, None), 0, 0, None], (block_M, epi_N))
        ld = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), cutlass.Float32)
        to_regs = tcgen05.make_tmem_copy(ld, acc_parts[None, None, 0, 0, 0])
        mine = to_regs.get_slice(thread % 128)
        my_acc = mine.partition_S(acc_parts)  # (32 lanes x columns, 1, 1, 1, part, w)
        my_shape = mine.partition_D(D_shared[None, None, 0]).shape
        regs = cute.make_rmem_tensor(my_shape, cutlass.Float32)
        out = cute.make_rmem_tensor(my_shape, cutlass.Float16)
        store = cute.make_copy_atom(CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128)
        to_shared = cute.make_tiled_copy_D(store, to_regs)
        my_out = to_shared.get_slice(thread % 128)
        out_dst = my_out.partition_D(D_shared)
        shape = ((panel, rows // panel), tiles_N)
        order = cute.make_layout(shape, stride=((1, panel * tiles_N), panel))

        for w in cutlass.range_constexpr(consumers):  # written out for each w
            if warp_idx // 4 == w:  # epilogue of consumer w: a warpgroup
                epilogue = pipeline.NamedBarrier(1 + w, 128)  # of its threads only
                read = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 1)
                for tile in cutlass.range(cta // pair, tiles, pairs, unroll=1):
                    row, n = order.get_flat_coord(tile)
                    ### BEGIN SOLUTION: m: which 128 rows of D this is
                    m = (row * consumers + w) * pair + rank
                    ### END SOLUTION
                    accs[w].consumer_wait(read)
                    for c in cutlass.range_constexpr(block_N // epi_N):
                        cute.copy(to_regs, my_acc[None, None, None, 0, c, w], regs)
                        cute.arch.fence_view_async_tmem_load()  # tcgen05.wait::ld
                        out.store(regs.load().to(cutlass.Float16))
                        # the store before has read D_shared
                        if warp_idx == 4 * w:
                            cute.arch.cp_async_bulk_wait_group(0, read=True)
                        epilogue.arrive_and_wait()
                        cute.copy(to_shared, my_out.retile(out), out_dst[None, None, None, w])
                        # threads wrote D_shared; TMA reads it through the async proxy
                        cute.arch.fence_view_async_shared()
                        epilogue.arrive_and_wait()
                        if warp_idx == 4 * w:
                            part = n * (block_N // epi_N) + c
                            cute.copy(store_D, D_src[None, w], D_dst[None, m, part])
                            cute.arch.cp_async_bulk_commit_group()
                    accs[w].consumer_release(read)  # tell CTA 0, which multiplies
                    read.advance()
                if warp_idx == 4 * w:
                    cute.arch.cp_async_bulk_wait_group(0)
        if warp_idx == 8:  # loads this CTA's rows of A and half of B
            load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
            for tile in cutlass.range(cta // pair, tiles, pairs, unroll=1):
                row, n = order.get_flat_coord(tile)
                for k in cutlass.range(k_tiles, unroll=1):
                    ### BEGIN SOLUTION: load this CTA's part of K tile k
                    # CTA 0 expects the bytes of both, which arrive on its full
                    pipe.producer_acquire(load)
                    s, full = load.index, pipe.producer_get_barrier(load)
                    for w in cutlass.range_constexpr(consumers):
                        A_part, A_slot = A_src[None, row * consumers + w, k], A_dst[None, w, s]
                        cute.copy(load_A, A_part, A_slot, tma_bar_ptr=full)
                    cute.copy(load_B, B_src[None, n, k], B_dst[None, s], tma_bar_ptr=full)
                    load.advance()
                    ### END SOLUTION
            pipe.producer_tail(load)  # stay until every commit has arrived here
        for w in cutlass.range_constexpr(consumers):  # warps 9 and 10 of CTA 0 issue the MMAs
            if warp_idx == 9 + w and rank == 0:
                use = pipeline.make_pipeline_state(
                    pipeline.PipelineUserType.Consumer, num_stages
                )
                make = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 1)
                acc_tile = acc[None, None, None, w]
                for tile in cutlass.range(cta // pair, tiles, pairs, unroll=1):
                    ### BEGIN SOLUTION: multiply the rows of MMA warp w; commit
                    accs[w].producer_acquire(make)  # both epilogues have read this accumulator
                    mma.set(tcgen05.Field.ACCUMULATE, False)
                    for k in cutlass.range(k_tiles, unroll=1):
                        pipe.consumer_wait(use)
                        for k_block in cutlass.range_constexpr(block_K // 16):
                            a, b = (
                                (None, None, k_block, w, use.index),
                                (None, None, k_block, use.index),
                            )
                            cute.gemm(mma, acc_tile, A_frag[a], B_frag[b], acc_tile)
                            mma.set(tcgen05.Field.ACCUMULATE, True)
                        pipe.consumer_release(use)  # a commit, multicast: one of two for empty
                        use.advance()
                    accs[w].producer_commit(make)  # another commit, multicast: of the tile
                    make.advance()
                    ### END SOLUTION

        # neither CTA leaves, or frees tensor memory, while the other may still use it
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
        if warp_idx == 0:
            cute.arch.dealloc_tmem(address, columns, is_two_cta=True)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (pair_M, block_N, 16)
        two, source, k_major = (
            tcgen05.CtaGroup.TWO,
            tcgen05.OperandSource.SMEM,
            OperandMajorMode.K,
        )
        op = tcgen05.MmaF16BF16Op(fp16, fp32, shape, two, source, k_major, k_major)
        mma = cute.make_tiled_mma(op)
        swizzle = tcgen05.SmemLayoutAtomKind.K_SW128
        atom = tcgen05.make_smem_layout_atom(swizzle, cutlass.Float16)
        # what one CTA of the pair holds: 128 rows of A for each MMA warp, and 128 of B
        part_A = cute.append(mma.partition_shape_A((pair_M, block_K)), consumers)
        part_A = cute.append(part_A, num_stages)
        part_B = cute.append(mma.partition_shape_B((block_N, block_K)), num_stages)
        layout_A = tcgen05.tile_to_mma_shape(atom, part_A, order=(1, 2, 3, 4))
        layout_B = tcgen05.tile_to_mma_shape(atom, part_B, order=(1, 2, 3))
        layout_D = cute.tile_to_shape(atom, (block_M, epi_N, consumers), order=(0, 1, 2))
        g2s = cpasync.CopyBulkTensorTileG2SOp(tcgen05.CtaGroup.TWO)
        s2g = cpasync.CopyBulkTensorTileS2GOp()
        stage_A, stage_B = cute.select(layout_A, [0, 1, 2]), cute.select(layout_B, [0, 1, 2])
        tile = pair_M, block_N, block_K
        load_A, A = make_tiled_tma_atom_A(g2s, A, stage_A, tile, mma, (pair, 1, 1, 1))
        load_B, B = make_tiled_tma_atom_B(g2s, B, stage_B, tile, mma, (pair, 1, 1, 1))
        store_D, D = cpasync.make_tiled_tma_atom(
            s2g, D, cute.select(layout_D, [0, 1]), (block_M, epi_N)
        )
        kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma).launch(
            grid=(sm_count, 1, 1), block=(352, 1, 1), cluster=(pair, 1, 1)
        )

    return main
