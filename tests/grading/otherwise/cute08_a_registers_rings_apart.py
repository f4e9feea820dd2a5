"""A and B have rings of their own. A's stage is given back once ldmatrix has read it, B's once its
products are over. Two sets of A registers, so that one wgmma group can stay in flight."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

TM, TN, TK = 128, 128, 64
SA, SB = 4, 5  # stages of A, of B
fp16, fp32 = cutlass.Float16, cutlass.Float32


def gemm(M, N, K, sm_count=132):
    assert M % TM == 0 and N % TN == 0 and K % TK == 0
    steps, down, across = K // TK, M // TM, N // TN
    count = down * across
    wide = max(w for w in range(1, 9) if across % w == 0)

    @cute.kernel
    def apart(tma_a, A, tma_b, B, tma_d, D, la, lb, ld, mma):
        tid, _, _ = cute.arch.thread_idx()
        w = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        a_smem = smem.allocate_tensor(fp16, la.outer, 1024, la.inner)
        b_smem = smem.allocate_tensor(fp16, lb.outer, 1024, lb.inner)
        d_smem = smem.allocate_tensor(fp16, ld.outer, 1024, ld.inner)
        a_full = smem.allocate_array(cutlass.Int64, SA)
        a_free = smem.allocate_array(cutlass.Int64, SA)
        b_full = smem.allocate_array(cutlass.Int64, SB)
        b_free = smem.allocate_array(cutlass.Int64, SB)
        if tid < SA:
            cute.arch.mbarrier_init(a_full + tid, 1)
            cute.arch.mbarrier_init(a_free + tid, 4)
        if tid < SB:
            cute.arch.mbarrier_init(b_full + tid, 1)
            cute.arch.mbarrier_init(b_free + tid, 4)
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

        if w >= 4:
            cute.arch.setmaxregister_decrease(40)
            if w == 4:  # A's warp
                it = cutlass.Int32(0)
                for tile in cutlass.range(cta, count, sm_count, unroll=1):
                    m, n = order.get_flat_coord(tile)
                    for k in cutlass.range(steps, unroll=1):
                        s = it % SA
                        cute.arch.mbarrier_wait(a_free + s, it // SA % 2 ^ 1)
                        with cute.arch.elect_one():
                            cute.arch.mbarrier_arrive_and_expect_tx(a_full + s, 2 * TM * TK)
                        cute.copy(tma_a, from_a[None, m, k], to_a[None, s], tma_bar_ptr=a_full + s)
                        it += 1
            if w == 5:  # B's warp
                it = cutlass.Int32(0)
                for tile in cutlass.range(cta, count, sm_count, unroll=1):
                    m, n = order.get_flat_coord(tile)
                    for k in cutlass.range(steps, unroll=1):
                        s = it % SB
                        cute.arch.mbarrier_wait(b_free + s, it // SB % 2 ^ 1)
                        with cute.arch.elect_one():
                            cute.arch.mbarrier_arrive_and_expect_tx(b_full + s, 2 * TN * TK)
                        cute.copy(tma_b, from_b[None, n, k], to_b[None, s], tma_bar_ptr=b_full + s)
                        it += 1
        else:
            cute.arch.setmaxregister_increase(240)
            part = mma.get_slice(tid)
            b_desc = mma.make_fragment_B(part.partition_B(b_smem))
            sums = cute.make_rmem_tensor(part.partition_shape_C((TM, TN)), fp32)
            half = cute.make_rmem_tensor(sums.shape, fp16)
            ld_a = cute.make_tiled_copy_A(cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), fp16), mma)
            my_ld = ld_a.get_slice(tid)
            a_src = my_ld.partition_S(a_smem)
            a_regs = [mma.make_fragment_A(mma.partition_shape_A((TM, TK))) for _ in range(2)]
            a_even, a_odd = a_regs
            st = cute.make_tiled_copy_C(cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), fp16), mma)
            mine = st.get_slice(tid)
            d_src, d_dst = mine.retile(half), mine.partition_D(d_smem)
            it = cutlass.Int32(0)
            for tile in cutlass.range(cta, count, sm_count, unroll=1):
                m, n = order.get_flat_coord(tile)
                mma.set(warpgroup.Field.ACCUMULATE, False)
                for pair in cutlass.range((steps + 1) // 2, unroll=1):
                    for h in cutlass.range_constexpr(2):
                        if 2 * pair + h < steps:
                            mine_now = a_even if cutlass.const_expr(h == 0) else a_odd
                            sa, sb = it % SA, it % SB
                            cute.arch.mbarrier_wait(a_full + sa, it // SA % 2)
                            cute.copy(ld_a, a_src[None, None, None, sa], my_ld.retile(mine_now))
                            cute.arch.fence_view_async_shared()  # TMA writes over what was read
                            cute.arch.sync_warp()
                            with cute.arch.elect_one():
                                cute.arch.mbarrier_arrive(a_free + sa)
                            cute.arch.mbarrier_wait(b_full + sb, it // SB % 2)
                            warpgroup.fence()
                            for s in cutlass.range_constexpr(TK // 16):
                                cute.gemm(mma, sums, mine_now[None, None, s], b_desc[None, None, s, sb], sums)
                                mma.set(warpgroup.Field.ACCUMULATE, True)
                            warpgroup.commit_group()
                            warpgroup.wait_group(1)
                            if 2 * pair + h > 0:
                                with cute.arch.elect_one():
                                    cute.arch.mbarrier_arrive(b_free + (it - 1) % SB)
                            it += 1
                warpgroup.wait_group(0)
                with cute.arch.elect_one():
                    cute.arch.mbarrier_arrive(b_free + (it - 1) % SB)

                if w == 0:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
                cute.arch.barrier(barrier_id=1, number_of_threads=128)
                half.store(sums.load().to(fp16))
                cute.copy(st, d_src, d_dst)
                cute.arch.fence_view_async_shared()
                cute.arch.barrier(barrier_id=1, number_of_threads=128)
                if w == 0:
                    cute.copy(tma_d, from_d, to_d[None, m, n])
                    cute.arch.cp_async_bulk_commit_group()
            if w == 0:
                cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, fp16)
        la = cute.tile_to_shape(atom, (TM, TK, SA), order=(0, 1, 2))
        lb = cute.tile_to_shape(atom, (TN, TK, SB), order=(0, 1, 2))
        ld = cute.tile_to_shape(atom, (TM, TN), order=(0, 1))
        load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        tma_a, tA = cpasync.make_tiled_tma_atom(load, A, cute.select(la, [0, 1]), (TM, TK))
        tma_b, tB = cpasync.make_tiled_tma_atom(load, B, cute.select(lb, [0, 1]), (TN, TK))
        tma_d, tD = cpasync.make_tiled_tma_atom(store, D, ld, (TM, TN))
        op = warpgroup.MmaF16BF16Op(
            fp16, fp32, (64, TN, 16), warpgroup.OperandSource.RMEM, OperandMajorMode.K, OperandMajorMode.K
        )
        apart(tma_a, tA, tma_b, tB, tma_d, tD, la, lb, ld, cute.make_tiled_mma(op)).launch(
            grid=(sm_count, 1, 1), block=(256, 1, 1), min_blocks_per_mp=1
        )

    return main
