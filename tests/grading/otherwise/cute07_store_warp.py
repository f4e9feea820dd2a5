"""Three roles: one warp loads, one warpgroup multiplies, and one more warp stores D.

The consumer hands a finished tile to the storing warp by an mbarrier, and goes on.
"""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

TM, TN, TK = 128, 128, 64
S = 3
OUT = 2  # buffers of D
LOADER, STORER = 5, 7
fp16, fp32 = cutlass.Float16, cutlass.Float32


def gemm(M, N, K, sm_count=132):
    assert M % TM == 0 and N % TN == 0 and K % TK == 0
    steps, down, across = K // TK, M // TM, N // TN
    count = down * across
    high = max(h for h in range(1, 7) if down % h == 0)
    stage_bytes = 2 * TK * (TM + TN)

    @cute.kernel
    def roles(tma_a, A, tma_b, B, tma_d, D, la, lb, ld, mma):
        tid, _, _ = cute.arch.thread_idx()
        w = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        a_smem = smem.allocate_tensor(fp16, la.outer, 1024, la.inner)
        b_smem = smem.allocate_tensor(fp16, lb.outer, 1024, lb.inner)
        d_smem = smem.allocate_tensor(fp16, ld.outer, 1024, ld.inner)
        full = smem.allocate_array(cutlass.Int64, S)
        empty = smem.allocate_array(cutlass.Int64, S)
        written = smem.allocate_array(cutlass.Int64, OUT)  # D is in this buffer
        drained = smem.allocate_array(cutlass.Int64, OUT)  # TMA has read this buffer
        if tid == 0:
            for s in cutlass.range_constexpr(S):
                cute.arch.mbarrier_init(full + s, 1)
                cute.arch.mbarrier_init(empty + s, 1)
            for o in cutlass.range_constexpr(OUT):
                cute.arch.mbarrier_init(written + o, 128)
                cute.arch.mbarrier_init(drained + o, 1)
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
        order = cute.make_layout(((high, down // high), across), stride=((1, high * across), high))

        if w >= 4:
            cute.arch.setmaxregister_decrease(40)
            if w == LOADER:
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
            if w == STORER:
                sent = cutlass.Int32(0)
                for tile in cutlass.range(cta, count, sm_count, unroll=1):
                    m, n = order.get_flat_coord(tile)
                    o = sent % OUT
                    cute.arch.mbarrier_wait(written + o, sent // OUT % 2)
                    cute.copy(tma_d, from_d[None, o], to_d[None, m, n])
                    cute.arch.cp_async_bulk_commit_group()
                    if sent > 0:  # the store before this one has read its buffer
                        cute.arch.cp_async_bulk_wait_group(1, read=True)
                        with cute.arch.elect_one():
                            cute.arch.mbarrier_arrive(drained + (sent - 1) % OUT)
                    sent += 1
                cute.arch.cp_async_bulk_wait_group(0)
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
            it, made = cutlass.Int32(0), cutlass.Int32(0)
            for _ in cutlass.range(cta, count, sm_count, unroll=1):
                mma.set(warpgroup.Field.ACCUMULATE, False)
                for _ in cutlass.range(steps, unroll=1):
                    cute.arch.mbarrier_wait(full + it % S, it // S % 2)
                    warpgroup.fence()
                    for s in cutlass.range_constexpr(TK // 16):
                        at = (None, None, s, it % S)
                        cute.gemm(mma, sums, a_desc[at], b_desc[at], sums)
                        mma.set(warpgroup.Field.ACCUMULATE, True)
                    warpgroup.commit_group()
                    warpgroup.wait_group(0)
                    if tid == 0:
                        cute.arch.mbarrier_arrive(empty + it % S)
                    it += 1
                o = made % OUT
                cute.arch.mbarrier_wait(drained + o, made // OUT % 2 ^ 1)
                half.store(sums.load().to(fp16))
                cute.copy(st, d_src, d_dst[None, None, None, o])
                cute.arch.fence_view_async_shared()
                cute.arch.mbarrier_arrive(written + o)
                made += 1

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, fp16)
        la = cute.tile_to_shape(atom, (TM, TK, S), order=(0, 1, 2))
        lb = cute.tile_to_shape(atom, (TN, TK, S), order=(0, 1, 2))
        ld = cute.tile_to_shape(atom, (TM, TN, OUT), order=(0, 1, 2))
        load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        tma_a, tA = cpasync.make_tiled_tma_atom(load, A, cute.select(la, [0, 1]), (TM, TK))
        tma_b, tB = cpasync.make_tiled_tma_atom(load, B, cute.select(lb, [0, 1]), (TN, TK))
        tma_d, tD = cpasync.make_tiled_tma_atom(store, D, cute.select(ld, [0, 1]), (TM, TN))
        op = warpgroup.MmaF16BF16Op(
            fp16, fp32, (64, TN, 16), warpgroup.OperandSource.SMEM, OperandMajorMode.K, OperandMajorMode.K
        )
        roles(tma_a, tA, tma_b, tB, tma_d, tD, la, lb, ld, cute.make_tiled_mma(op)).launch(
            grid=(sm_count, 1, 1), block=(256, 1, 1), min_blocks_per_mp=1
        )

    return main
