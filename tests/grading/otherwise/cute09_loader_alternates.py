"""B's whole tile is loaded by the two CTAs in turn, K tile by K tile, for both; mbarriers by hand."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

TM, TN, TK = 128, 128, 64
S = 5
CTAS = 2
fp16, fp32 = cutlass.Float16, cutlass.Float32


def gemm(M, N, K, sm_count=132):
    assert M % (CTAS * TM) == 0 and N % TN == 0 and K % TK == 0
    steps, pairs, across = K // TK, M // TM // CTAS, N // TN
    wide = max(w for w in range(1, 9) if across % w == 0)
    stage_bytes = 2 * TK * (TM + TN)

    @cute.kernel
    def clustered(tma_a, A, tma_b, B, tma_d, D, la, lb, ld, mma):
        tid, _, _ = cute.arch.thread_idx()
        w = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        smem = SmemAllocator()
        a_smem = smem.allocate_tensor(fp16, la.outer, 1024, la.inner)
        b_smem = smem.allocate_tensor(fp16, lb.outer, 1024, lb.inner)
        d_smem = smem.allocate_tensor(fp16, ld.outer, 1024, ld.inner)
        full = smem.allocate_array(cutlass.Int64, S)
        empty = smem.allocate_array(cutlass.Int64, S)
        if w == 0:
            with cute.arch.elect_one():
                for s in cutlass.range_constexpr(S):
                    cute.arch.mbarrier_init(full + s, 1)
                    cute.arch.mbarrier_init(empty + s, CTAS)  # one thread of each consumer
            cute.arch.mbarrier_init_fence()
        cute.arch.cluster_arrive_relaxed()
        cute.arch.cluster_wait()

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
        order = cute.make_layout((pairs, (wide, across // wide)), stride=(wide, (1, wide * pairs)))
        both = cutlass.Int16(0b11)

        if w < 4:  # consumer
            cute.arch.setmaxregister_increase(240)
            part = mma.get_slice(tid)
            a_desc = mma.make_fragment_A(part.partition_A(a_smem))
            b_desc = mma.make_fragment_B(part.partition_B(b_smem))
            sums = cute.make_rmem_tensor(part.partition_shape_C((TM, TN)), fp32)
            half = cute.make_rmem_tensor(sums.shape, fp16)
            st = cute.make_tiled_copy_C(cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), fp16), mma)
            mine = st.get_slice(tid)
            d_src, d_dst = mine.retile(half), mine.partition_D(d_smem)
            slot, parity, last = cutlass.Int32(0), cutlass.Int32(0), cutlass.Int32(0)
            for work in cutlass.range(cta // CTAS, pairs * across, sm_count // CTAS, unroll=1):
                pair, n = order.get_flat_coord(work)
                mma.set(warpgroup.Field.ACCUMULATE, False)
                for k in cutlass.range(steps, unroll=1):
                    cute.arch.mbarrier_wait(full + slot, parity)
                    warpgroup.fence()
                    for s in cutlass.range_constexpr(TK // 16):
                        at = (None, None, s, slot)
                        cute.gemm(mma, sums, a_desc[at], b_desc[at], sums)
                        mma.set(warpgroup.Field.ACCUMULATE, True)
                    warpgroup.commit_group()
                    warpgroup.wait_group(1)
                    if k > 0:
                        if tid < CTAS:  # thread r tells rank r
                            cute.arch.mbarrier_arrive(empty + last, tid)
                    last = slot
                    slot += 1
                    if slot == S:
                        slot = cutlass.Int32(0)
                        parity ^= 1
                warpgroup.wait_group(0)
                if tid < CTAS:
                    cute.arch.mbarrier_arrive(empty + last, tid)

                if w == 0:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
                cute.arch.barrier(barrier_id=1, number_of_threads=128)
                half.store(sums.load().to(fp16))
                cute.copy(st, d_src, d_dst)
                cute.arch.fence_view_async_shared()
                cute.arch.barrier(barrier_id=1, number_of_threads=128)
                if w == 0:
                    cute.copy(tma_d, from_d, to_d[None, pair * CTAS + rank, n])
                    cute.arch.cp_async_bulk_commit_group()
            if w == 0:
                cute.arch.cp_async_bulk_wait_group(0)
        else:
            cute.arch.setmaxregister_decrease(40)
            if w == 4:
                slot, parity = cutlass.Int32(0), cutlass.Int32(1)
                for work in cutlass.range(cta // CTAS, pairs * across, sm_count // CTAS, unroll=1):
                    pair, n = order.get_flat_coord(work)
                    for k in cutlass.range(steps, unroll=1):
                        cute.arch.mbarrier_wait(empty + slot, parity)
                        here = full + slot
                        with cute.arch.elect_one():
                            cute.arch.mbarrier_arrive_and_expect_tx(here, stage_bytes)
                        cute.copy(
                            tma_a, from_a[None, pair * CTAS + rank, k], to_a[None, slot], tma_bar_ptr=here
                        )
                        if k % CTAS == rank:  # my turn to bring B
                            cute.copy(
                                tma_b, from_b[None, n, k], to_b[None, slot], tma_bar_ptr=here, mcast_mask=both
                            )
                        slot += 1
                        if slot == S:
                            slot = cutlass.Int32(0)
                            parity ^= 1
        # nobody leaves while the other CTA may still arrive here, or write here
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, fp16)
        la = cute.tile_to_shape(atom, (TM, TK, S), order=(0, 1, 2))
        lb = cute.tile_to_shape(atom, (TN, TK, S), order=(0, 1, 2))
        ld = cute.tile_to_shape(atom, (TM, TN), order=(0, 1))
        load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        to_all = cpasync.CopyBulkTensorTileG2SMulticastOp()
        tma_a, tA = cpasync.make_tiled_tma_atom(load, A, cute.select(la, [0, 1]), (TM, TK))
        tma_b, tB = cpasync.make_tiled_tma_atom(to_all, B, cute.select(lb, [0, 1]), (TN, TK))
        tma_d, tD = cpasync.make_tiled_tma_atom(store, D, ld, (TM, TN))
        op = warpgroup.MmaF16BF16Op(
            fp16, fp32, (64, TN, 16), warpgroup.OperandSource.SMEM, OperandMajorMode.K, OperandMajorMode.K
        )
        clustered(tma_a, tA, tma_b, tB, tma_d, tD, la, lb, ld, cute.make_tiled_mma(op)).launch(
            grid=(sm_count, 1, 1), block=(256, 1, 1), cluster=(CTAS, 1, 1), min_blocks_per_mp=1
        )

    return main
