"""Two slots, two mbarriers by hand, the loop written out for both; the last warp loads."""

import cutlass
import cutlass.cute as cute
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

TM, TN, TK = 128, 128, 64
LOADER = 3
fp16, fp32 = cutlass.Float16, cutlass.Float32


def ask(a_way, b_way, full, slot, k, slot_bytes):
    """By one warp: K tile k of both operands to this slot."""
    with cute.arch.elect_one():
        cute.arch.mbarrier_arrive_and_expect_tx(full + slot, slot_bytes)
    for atom, source, target in (a_way, b_way):
        cute.copy(atom, source[None, k], target[None, slot], tma_bar_ptr=full + slot)


def multiply(mma, tensors, full, slot, parity):
    """By all: the K tile in this slot, when it has landed; afterwards the slot is free."""
    sums, a_desc, b_desc = tensors
    cute.arch.mbarrier_wait(full + slot, parity)
    warpgroup.fence()
    for s in range(TK // 16):
        cute.gemm(mma, sums, a_desc[None, None, s, slot], b_desc[None, None, s, slot], sums)
    warpgroup.commit_group()
    warpgroup.wait_group(0)
    cute.arch.sync_threads()


def gemm(M, N, K):
    assert M % TM == 0 and N % TN == 0 and K % TK == 0
    steps = K // TK
    pairs, odd = divmod(steps, 2)
    slot_bytes = 2 * TK * (TM + TN)

    @cute.kernel
    def two_slots(tma_a, A, tma_b, B, tma_d, D, la, lb, ld, mma):
        tid, _, _ = cute.arch.thread_idx()
        w = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        n, m, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        a_smem = smem.allocate_tensor(fp16, la.outer, 1024, la.inner)
        b_smem = smem.allocate_tensor(fp16, lb.outer, 1024, lb.inner)
        d_smem = smem.allocate_tensor(fp16, ld.outer, 1024, ld.inner)
        full = smem.allocate_array(cutlass.Int64, 2)
        if tid < 2:  # a thread for each
            cute.arch.mbarrier_init(full + tid, 1)
        cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()

        one = cute.make_layout(1)
        g = cute.group_modes
        to_a, from_a = cpasync.tma_partition(
            tma_a, 0, one, g(a_smem, 0, 2), g(cute.local_tile(A, (TM, TK), (m, None)), 0, 2)
        )
        to_b, from_b = cpasync.tma_partition(
            tma_b, 0, one, g(b_smem, 0, 2), g(cute.local_tile(B, (TN, TK), (n, None)), 0, 2)
        )
        from_d, to_d = cpasync.tma_partition(
            tma_d, 0, one, g(d_smem, 0, 2), g(cute.local_tile(D, (TM, TN), (m, n)), 0, 2)
        )

        part = mma.get_slice(tid)
        a_desc = mma.make_fragment_A(part.partition_A(a_smem))
        b_desc = mma.make_fragment_B(part.partition_B(b_smem))
        sums = cute.make_rmem_tensor(part.partition_shape_C((TM, TN)), fp32)

        a_way, b_way = (tma_a, from_a, to_a), (tma_b, from_b, to_b)
        tensors = sums, a_desc, b_desc
        sums.fill(0.0)
        mma.set(warpgroup.Field.ACCUMULATE, True)  # from zero, every product is added
        if w == LOADER:
            ask(a_way, b_way, full, 0, 0, slot_bytes)
        for p in cutlass.range(pairs, unroll=1):
            if w == LOADER:
                ask(a_way, b_way, full, 1, 2 * p + 1, slot_bytes)
            multiply(mma, tensors, full, 0, p & 1)
            if w == LOADER:
                if 2 * p + 2 < steps:
                    ask(a_way, b_way, full, 0, 2 * p + 2, slot_bytes)
            multiply(mma, tensors, full, 1, p & 1)
        if cutlass.const_expr(odd):
            multiply(mma, tensors, full, 0, pairs & 1)

        half = cute.make_rmem_tensor(sums.shape, fp16)
        half.store(sums.load().to(fp16))
        st = cute.make_tiled_copy_C(cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), fp16), mma)
        mine = st.get_slice(tid)
        cute.copy(st, mine.retile(half), mine.partition_D(d_smem))
        cute.arch.fence_view_async_shared()
        cute.arch.sync_threads()
        if w == LOADER:
            cute.copy(tma_d, from_d, to_d)
            cute.arch.cp_async_bulk_commit_group()
            cute.arch.cp_async_bulk_wait_group(0)

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        atom = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW128, fp16)
        la = cute.tile_to_shape(atom, (TM, TK, 2), order=(0, 1, 2))
        lb = cute.tile_to_shape(atom, (TN, TK, 2), order=(0, 1, 2))
        ld = cute.tile_to_shape(atom, (TM, TN), order=(0, 1))
        load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        tma_a, tA = cpasync.make_tiled_tma_atom(load, A, cute.select(la, [0, 1]), (TM, TK))
        tma_b, tB = cpasync.make_tiled_tma_atom(load, B, cute.select(lb, [0, 1]), (TN, TK))
        tma_d, tD = cpasync.make_tiled_tma_atom(store, D, ld, (TM, TN))
        op = warpgroup.MmaF16BF16Op(
            fp16, fp32, (64, TN, 16), warpgroup.OperandSource.SMEM, OperandMajorMode.K, OperandMajorMode.K
        )
        two_slots(tma_a, tA, tma_b, tB, tma_d, tD, la, lb, ld, cute.make_tiled_mma(op)).launch(
            grid=(N // TN, M // TM, 1), block=(128, 1, 1)
        )

    return main
