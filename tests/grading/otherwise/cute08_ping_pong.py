"""Two consumer warpgroups take the tiles of a CTA in turn: one sends D out, the other multiplies.

One ring of four stages for both. Two named barriers hand the turn to multiply to and fro, so the
consumers go through the ring in the order in which it is filled.
"""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

TM, TN, TK = 128, 128, 64
S = 4
fp16, fp32 = cutlass.Float16, cutlass.Float32


def gemm(M, N, K, sm_count=132):
    assert M % TM == 0 and N % TN == 0 and K % TK == 0
    steps, down, across = K // TK, M // TM, N // TN
    count = down * across
    wide = max(w for w in range(1, 5) if across % w == 0)
    stage_bytes = 2 * TK * (TM + TN)

    @cute.kernel
    def ping_pong(tma_a, A, tma_b, B, tma_d, D, la, lb, ld, mma):
        tid, _, _ = cute.arch.thread_idx()
        w = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        full = smem.allocate_array(cutlass.Int64, S)
        empty = smem.allocate_array(cutlass.Int64, S)
        a_smem = smem.allocate_tensor(fp16, la.outer, 1024, la.inner)
        b_smem = smem.allocate_tensor(fp16, lb.outer, 1024, lb.inner)
        d_smem = smem.allocate_tensor(fp16, ld.outer, 1024, ld.inner)
        if tid < S:
            cute.arch.mbarrier_init(full + tid, 1)
            cute.arch.mbarrier_init(empty + tid, 4)  # the warps of the consumer whose tile it is
        cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()

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

        if w < 4:
            cute.arch.setmaxregister_decrease(40)
            if w == 0:
                it = cutlass.Int32(0)
                for tile in cutlass.range(cta, count, sm_count, unroll=1):
                    m, n = order.get_flat_coord(tile)
                    for k in cutlass.range(steps, unroll=1):
                        s = it % S
                        cute.arch.mbarrier_wait(empty + s, it // S % 2 ^ 1)
                        with cute.arch.elect_one():
                            cute.arch.mbarrier_arrive_and_expect_tx(full + s, stage_bytes)
                        cute.copy(tma_a, from_a[None, m, k], to_a[None, s], tma_bar_ptr=full + s)
                        cute.copy(tma_b, from_b[None, n, k], to_b[None, s], tma_bar_ptr=full + s)
                        it += 1
        else:
            cute.arch.setmaxregister_increase(232)
            who = w // 4 - 1  # 0 and 1
            part = mma.get_slice(tid % 128)
            a_desc = mma.make_fragment_A(part.partition_A(a_smem))
            b_desc = mma.make_fragment_B(part.partition_B(b_smem))
            sums = cute.make_rmem_tensor(part.partition_shape_C((TM, TN)), fp32)
            half = cute.make_rmem_tensor(sums.shape, fp16)
            st = cute.make_tiled_copy_C(cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), fp16), mma)
            mine = st.get_slice(tid % 128)
            d_src, d_dst = mine.retile(half), mine.partition_D(d_smem)
            # barrier 1 + who: my turn to multiply. Consumer 0 has the first turn.
            if who == 1:
                if cta < count:
                    cute.arch.barrier_arrive(barrier_id=1, number_of_threads=256)
            it = who * steps
            for tile in cutlass.range(cta + who * sm_count, count, 2 * sm_count, unroll=1):
                m, n = order.get_flat_coord(tile)
                cute.arch.barrier(barrier_id=1 + who, number_of_threads=256)
                mma.set(warpgroup.Field.ACCUMULATE, False)
                for k in cutlass.range(steps, unroll=1):
                    cute.arch.mbarrier_wait(full + it % S, it // S % 2)
                    warpgroup.fence()
                    for s in cutlass.range_constexpr(TK // 16):
                        at = (None, None, s, it % S)
                        cute.gemm(mma, sums, a_desc[at], b_desc[at], sums)
                        mma.set(warpgroup.Field.ACCUMULATE, True)
                    warpgroup.commit_group()
                    warpgroup.wait_group(1)
                    if k > 0:
                        with cute.arch.elect_one():
                            cute.arch.mbarrier_arrive(empty + (it - 1) % S)
                    it += 1
                if tile + sm_count < count:  # the other one's turn, if it has a tile left
                    cute.arch.barrier_arrive(barrier_id=2 - who, number_of_threads=256)
                warpgroup.wait_group(0)
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive(empty + (it - 1) % S)
                it += steps  # those of the other consumer's tile

                if w % 4 == 0:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
                cute.arch.barrier(barrier_id=3 + who, number_of_threads=128)
                half.store(sums.load().to(fp16))
                cute.copy(st, d_src, d_dst[None, None, None, who])
                cute.arch.fence_view_async_shared()
                cute.arch.barrier(barrier_id=3 + who, number_of_threads=128)
                if w % 4 == 0:
                    cute.copy(tma_d, from_d[None, who], to_d[None, m, n])
                    cute.arch.cp_async_bulk_commit_group()
            if w % 4 == 0:
                cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, fp16)
        la = cute.tile_to_shape(atom, (TM, TK, S), order=(0, 1, 2))
        lb = cute.tile_to_shape(atom, (TN, TK, S), order=(0, 1, 2))
        ld = cute.tile_to_shape(atom, (TM, TN, 2), order=(0, 1, 2))
        load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        tma_a, tA = cpasync.make_tiled_tma_atom(load, A, cute.select(la, [0, 1]), (TM, TK))
        tma_b, tB = cpasync.make_tiled_tma_atom(load, B, cute.select(lb, [0, 1]), (TN, TK))
        tma_d, tD = cpasync.make_tiled_tma_atom(store, D, cute.select(ld, [0, 1]), (TM, TN))
        op = warpgroup.MmaF16BF16Op(
            fp16, fp32, (64, TN, 16), warpgroup.OperandSource.SMEM, OperandMajorMode.K, OperandMajorMode.K
        )
        ping_pong(tma_a, tA, tma_b, tB, tma_d, tD, la, lb, ld, cute.make_tiled_mma(op)).launch(
            grid=(sm_count, 1, 1), block=(384, 1, 1), min_blocks_per_mp=1
        )

    return main
