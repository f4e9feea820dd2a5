"""The loads have a cursor of their own, two K tiles ahead, which goes on into the next tile of D.

Each warp sends its own rows of D out, 16 x 64 a store: no thread waits for another warp's.
"""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

TM, TN, TK = 128, 128, 64
SLOTS, AHEAD = 3, 2
LOADER = 1
fp16, fp32 = cutlass.Float16, cutlass.Float32


def gemm(M, N, K, sm_count=132):
    assert M % TM == 0 and N % TN == 0 and K % TK == 0
    steps, down, across = K // TK, M // TM, N // TN
    count = down * across
    high = max(h for h in range(1, 9) if down % h == 0)  # rows of a panel

    @cute.kernel
    def persistent(tma_a, A, tma_b, B, tma_d, D, la, lb, ld, mma):
        tid, _, _ = cute.arch.thread_idx()
        w = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        a_smem = smem.allocate_tensor(fp16, la.outer, 1024, la.inner)
        b_smem = smem.allocate_tensor(fp16, lb.outer, 1024, lb.inner)
        d_smem = smem.allocate_tensor(fp16, ld.outer, 1024, ld.inner)
        group = pipeline.CooperativeGroup
        ring = pipeline.PipelineTmaAsync.create(
            num_stages=SLOTS,
            producer_group=group(pipeline.Agent.Thread),
            consumer_group=group(pipeline.Agent.Thread, 4),
            tx_count=2 * TK * (TM + TN),
            barrier_storage=smem.allocate_array(cutlass.Int64, 2 * SLOTS),
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
        )
        one, g = cute.make_layout(1), cute.group_modes
        to_a, from_a = cpasync.tma_partition(
            tma_a, 0, one, g(a_smem, 0, 2), g(cute.local_tile(A, (TM, TK), (None, None)), 0, 2)
        )
        to_b, from_b = cpasync.tma_partition(
            tma_b, 0, one, g(b_smem, 0, 2), g(cute.local_tile(B, (TN, TK), (None, None)), 0, 2)
        )
        from_d, to_d = cpasync.tma_partition(
            tma_d,
            0,
            one,
            g(cute.local_tile(d_smem, (16, 64), (None, None)), 0, 2),
            g(cute.local_tile(D, (16, 64), (None, None)), 0, 2),
        )

        part = mma.get_slice(tid)
        a_desc = mma.make_fragment_A(part.partition_A(a_smem))
        b_desc = mma.make_fragment_B(part.partition_B(b_smem))
        sums = cute.make_rmem_tensor(part.partition_shape_C((TM, TN)), fp32)
        half = cute.make_rmem_tensor(sums.shape, fp16)
        st = cute.make_tiled_copy_C(cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), fp16), mma)
        mine = st.get_slice(tid)
        d_src, d_dst = mine.retile(half), mine.partition_D(d_smem)

        # panels of rows: column after column within a panel
        order = cute.make_layout(((high, down // high), across), stride=((1, high * across), high))
        asked = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, SLOTS)
        used = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, SLOTS)
        ask_tile, ask_k = cutlass.Int32(cta), cutlass.Int32(0)

        for _ in cutlass.range(AHEAD, unroll=1):
            if ask_tile < count:
                if w == LOADER:
                    m, n = order.get_flat_coord(ask_tile)
                    ring.producer_acquire(asked)
                    full = ring.producer_get_barrier(asked)
                    cute.copy(tma_b, from_b[None, n, ask_k], to_b[None, asked.index], tma_bar_ptr=full)
                    cute.copy(tma_a, from_a[None, m, ask_k], to_a[None, asked.index], tma_bar_ptr=full)
                asked.advance()
                ask_k += 1
                if ask_k == steps:
                    ask_k = cutlass.Int32(0)
                    ask_tile += sm_count

        for tile in cutlass.range(cta, count, sm_count, unroll=1):
            mma.set(warpgroup.Field.ACCUMULATE, False)
            for _k in cutlass.range(steps, unroll=1):
                if ask_tile < count:
                    if w == LOADER:
                        m, n = order.get_flat_coord(ask_tile)
                        ring.producer_acquire(asked)
                        full = ring.producer_get_barrier(asked)
                        cute.copy(tma_b, from_b[None, n, ask_k], to_b[None, asked.index], tma_bar_ptr=full)
                        cute.copy(tma_a, from_a[None, m, ask_k], to_a[None, asked.index], tma_bar_ptr=full)
                    asked.advance()
                    ask_k += 1
                    if ask_k == steps:
                        ask_k = cutlass.Int32(0)
                        ask_tile += sm_count
                ring.consumer_wait(used)
                warpgroup.fence()
                for s in cutlass.range_constexpr(TK // 16):
                    at = (None, None, s, used.index)
                    cute.gemm(mma, sums, a_desc[at], b_desc[at], sums)
                    mma.set(warpgroup.Field.ACCUMULATE, True)
                warpgroup.commit_group()
                warpgroup.wait_group(0)
                ring.consumer_release(used)
                used.advance()

            half.store(sums.load().to(fp16))
            # a warp holds rows 16 w to 16 w + 15 of each half of the tile
            cute.arch.cp_async_bulk_wait_group(0, read=True)
            cute.arch.sync_warp()
            cute.copy(st, d_src, d_dst)
            cute.arch.fence_view_async_shared()
            cute.arch.sync_warp()
            row, col = order.get_flat_coord(tile)
            for i in cutlass.range_constexpr(TM // 64):
                for j in cutlass.range_constexpr(TN // 64):
                    cute.copy(
                        tma_d,
                        from_d[None, 4 * i + w, j],
                        to_d[None, row * (TM // 16) + 4 * i + w, col * (TN // 64) + j],
                    )
            cute.arch.cp_async_bulk_commit_group()
        cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, fp16)
        la = cute.tile_to_shape(atom, (TM, TK, SLOTS), order=(0, 1, 2))
        lb = cute.tile_to_shape(atom, (TN, TK, SLOTS), order=(0, 1, 2))
        ld = cute.tile_to_shape(atom, (TM, TN), order=(0, 1))
        piece = cute.tile_to_shape(atom, (16, 64), order=(0, 1))
        load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        tma_a, tA = cpasync.make_tiled_tma_atom(load, A, cute.select(la, [0, 1]), (TM, TK))
        tma_b, tB = cpasync.make_tiled_tma_atom(load, B, cute.select(lb, [0, 1]), (TN, TK))
        tma_d, tD = cpasync.make_tiled_tma_atom(store, D, piece, (16, 64))
        op = warpgroup.MmaF16BF16Op(
            fp16, fp32, (64, TN, 16), warpgroup.OperandSource.SMEM, OperandMajorMode.K, OperandMajorMode.K
        )
        persistent(tma_a, tA, tma_b, tB, tma_d, tD, la, lb, ld, cute.make_tiled_mma(op)).launch(
            grid=(sm_count, 1, 1), block=(128, 1, 1)
        )

    return main
