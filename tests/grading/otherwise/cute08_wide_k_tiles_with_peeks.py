"""K tiles of 128, two TMA boxes an operand; K need not be a multiple: TMA fills up with zeros.

Both roles peek at the next barrier before they need it (try_wait), as large GEMMs do.
"""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

TM, TN, TK = 128, 64, 128
S = 4
fp16, fp32 = cutlass.Float16, cutlass.Float32


def gemm(M, N, K, sm_count=132):
    assert M % TM == 0 and N % TN == 0 and K % 8 == 0
    steps, down, across = -(-K // TK), M // TM, N // TN
    count = down * across
    wide = max(w for w in range(1, 9) if across % w == 0)

    @cute.kernel
    def roles(tma_a, A, tma_b, B, tma_d, D, la, lb, ld, mma):
        tid, _, _ = cute.arch.thread_idx()
        w = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        if w == 0:
            cpasync.prefetch_descriptor(tma_a)
            cpasync.prefetch_descriptor(tma_b)
            cpasync.prefetch_descriptor(tma_d)
        smem = SmemAllocator()
        a_smem = smem.allocate_tensor(fp16, la.outer, 1024, la.inner)
        b_smem = smem.allocate_tensor(fp16, lb.outer, 1024, lb.inner)
        d_smem = smem.allocate_tensor(fp16, ld.outer, 1024, ld.inner)
        ring = pipeline.PipelineTmaAsync.create(
            num_stages=S,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 4),
            tx_count=2 * TK * (TM + TN),
            barrier_storage=smem.allocate_array(cutlass.Int64, 2 * S),
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
            tma_d, 0, one, g(d_smem, 0, 2), g(cute.local_tile(D, (TM, TN), (None, None)), 0, 2)
        )
        order = cute.make_layout((down, (wide, across // wide)), stride=(wide, (1, wide * down)))
        mates = pipeline.NamedBarrier(1, 128)

        if w >= 4:
            cute.arch.setmaxregister_decrease(40)
            if w == 4:
                put = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, S)
                for tile in cutlass.range(cta, count, sm_count, unroll=1):
                    m, n = order.get_flat_coord(tile)
                    token = ring.producer_try_acquire(put)
                    for k in cutlass.range(steps, unroll=1):
                        ring.producer_acquire(put, token)
                        full = ring.producer_get_barrier(put)
                        cute.copy(tma_a, from_a[None, m, k], to_a[None, put.index], tma_bar_ptr=full)
                        cute.copy(tma_b, from_b[None, n, k], to_b[None, put.index], tma_bar_ptr=full)
                        put.advance()
                        token = cutlass.Boolean(True)
                        if k + 1 < steps:
                            token = ring.producer_try_acquire(put)
        else:
            cute.arch.setmaxregister_increase(232)
            part = mma.get_slice(tid)
            a_desc = mma.make_fragment_A(part.partition_A(a_smem))
            b_desc = mma.make_fragment_B(part.partition_B(b_smem))
            sums = cute.make_rmem_tensor(part.partition_shape_C((TM, TN)), fp32)
            half = cute.make_rmem_tensor(sums.shape, fp16)
            st = cute.make_tiled_copy_C(cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), fp16), mma)
            mine = st.get_slice(tid)
            d_src, d_dst = mine.retile(half), mine.partition_D(d_smem)
            get = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, S)
            back = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, S)
            for tile in cutlass.range(cta, count, sm_count, unroll=1):
                m, n = order.get_flat_coord(tile)
                mma.set(warpgroup.Field.ACCUMULATE, False)
                token = ring.consumer_try_wait(get)
                for k in cutlass.range(steps, unroll=1):
                    ring.consumer_wait(get, token)
                    warpgroup.fence()
                    for s in cutlass.range_constexpr(TK // 16):
                        at = (None, None, s, get.index)
                        cute.gemm(mma, sums, a_desc[at], b_desc[at], sums)
                        mma.set(warpgroup.Field.ACCUMULATE, True)
                    warpgroup.commit_group()
                    get.advance()
                    token = cutlass.Boolean(True)
                    if k + 1 < steps:
                        token = ring.consumer_try_wait(get)
                    if k > 0:
                        warpgroup.wait_group(1)
                        ring.consumer_release(back)
                        back.advance()
                warpgroup.wait_group(0)
                ring.consumer_release(back)
                back.advance()

                if w == 0:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
                mates.arrive_and_wait()
                half.store(sums.load().to(fp16))
                cute.copy(st, d_src, d_dst)
                cute.arch.fence_view_async_shared()
                mates.arrive_and_wait()
                if w == 0:
                    cute.copy(tma_d, from_d, to_d[None, m, n])
                    cute.arch.cp_async_bulk_commit_group()
            if w == 0:
                cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, fp16)
        la = cute.tile_to_shape(atom, (TM, TK, S), order=(0, 1, 2))
        lb = cute.tile_to_shape(atom, (TN, TK, S), order=(0, 1, 2))
        ld = cute.tile_to_shape(atom, (TM, TN), order=(0, 1))
        load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        tma_a, tA = cpasync.make_tiled_tma_atom(load, A, cute.select(la, [0, 1]), (TM, TK))
        tma_b, tB = cpasync.make_tiled_tma_atom(load, B, cute.select(lb, [0, 1]), (TN, TK))
        tma_d, tD = cpasync.make_tiled_tma_atom(store, D, ld, (TM, TN))
        op = warpgroup.MmaF16BF16Op(
            fp16, fp32, (64, TN, 16), warpgroup.OperandSource.SMEM, OperandMajorMode.K, OperandMajorMode.K
        )
        roles(tma_a, tA, tma_b, tB, tma_d, tD, la, lb, ld, cute.make_tiled_mma(op)).launch(
            grid=(sm_count, 1, 1), block=(256, 1, 1), min_blocks_per_mp=1
        )

    return main
