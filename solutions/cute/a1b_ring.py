"""Case a1b: attention with a producer: K and V come to two consumers by rings."""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

block_M, block_N = 128, 128  # queries of a CTA, keys of a tile
num_stages, consumers = 2, 2  # of K and of V each; warpgroups, of 64 queries each
minus_infinity = -cutlass.Float32.inf


def attention(batch, sequence_q, sequence_k, heads, kv_heads, D, causal=False, dtype="float16"):
    assert heads % kv_heads == 0, f"{heads} heads cannot share {kv_heads} heads of K evenly"
    assert D in (64, 96, 128), f"D = {D}: this kernel takes 64, 96 or 128"
    rows = min(batch * sequence_q * heads, batch * sequence_k * kv_heads)
    assert rows > 1, "CuTe DSL takes a tensor of one row for a vector: give it a second row"
    group = heads // kv_heads  # heads of Q that share a head of K and V
    q_tiles, k_tiles = -(-sequence_q // block_M), -(-sequence_k // block_N)
    later = sequence_k - sequence_q  # query i sees key j if j <= i + later, where causal
    to_log2 = D**-0.5 * 1.4426950408889634  # of softmax, and log2(e), so that exp2 gives exp
    element = {"float16": cutlass.Float16, "bfloat16": cutlass.BFloat16}[dtype]

    @cute.kernel
    def kernel(load_Q, Q, load_K, K, load_V, V, store_O, O, layout_Q, layout_K, mma_S, mma_O):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        m, head, b = cute.arch.block_idx()
        smem = SmemAllocator()
        Q_barriers = smem.allocate_array(cutlass.Int64, 2)
        K_barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        V_barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        Q_shared = smem.allocate_tensor(element, layout_Q.outer, 1024, layout_Q.inner)
        K_shared = smem.allocate_tensor(element, layout_K.outer, 1024, layout_K.inner)
        V_shared = smem.allocate_tensor(element, layout_K.outer, 1024, layout_K.inner)
        # wgmma takes B as (column, k): V's rows are k of the second product
        V_by_columns = cute.make_tensor(
            V_shared.iterator, cute.select(V_shared.layout, [1, 0, 2])
        )
        # the producer warp fills a stage; the consumers' warps release it
        roles = {
            "producer_group": pipeline.CooperativeGroup(pipeline.Agent.Thread),
            "consumer_group": pipeline.CooperativeGroup(pipeline.Agent.Thread, 4 * consumers),
            "cta_layout_vmnk": cute.make_layout((1, 1, 1, 1)),
        }
        Q_pipe = pipeline.PipelineTmaAsync.create(
            num_stages=1, tx_count=block_M * D * 2, barrier_storage=Q_barriers, **roles
        )
        ring = {"num_stages": num_stages, "tx_count": block_N * D * 2, **roles}
        K_pipe = pipeline.PipelineTmaAsync.create(barrier_storage=K_barriers, **ring)
        V_pipe = pipeline.PipelineTmaAsync.create(barrier_storage=V_barriers, **ring)

        # (tile, row of tiles, column of tiles, head, batch); a row is one tile wide
        whole, one = (None,) * 4, cute.make_layout(1)
        Q_tiles = cute.group_modes(cute.local_tile(Q, (block_M, D), whole), 0, 2)
        K_tiles = cute.group_modes(cute.local_tile(K, (block_N, D), whole), 0, 2)
        V_tiles = cute.group_modes(cute.local_tile(V, (block_N, D), whole), 0, 2)
        O_tiles = cute.group_modes(cute.local_tile(O, (64, D), whole), 0, 2)
        Q_tile = cute.group_modes(Q_shared, 0, 2)
        K_ring, V_ring = cute.group_modes(K_shared, 0, 2), cute.group_modes(V_shared, 0, 2)
        # O leaves from where Q was: each consumer has its own 64 rows
        O_parts = cute.group_modes(cute.local_tile(Q_shared, (64, D), (None, 0)), 0, 2)
        Q_dst, Q_src = cpasync.tma_partition(load_Q, 0, one, Q_tile, Q_tiles)
        K_dst, K_src = cpasync.tma_partition(load_K, 0, one, K_ring, K_tiles)
        V_dst, V_src = cpasync.tma_partition(load_V, 0, one, V_ring, V_tiles)
        O_src, O_dst = cpasync.tma_partition(store_O, 0, one, O_parts, O_tiles)

        my_S, my_O = mma_S.get_slice(thread - 128), mma_O.get_slice(thread - 128)
        Q_frag = mma_S.make_fragment_A(my_S.partition_A(Q_shared))
        K_frag = mma_S.make_fragment_B(my_S.partition_B(K_shared))
        V_frag = mma_O.make_fragment_B(my_O.partition_B(V_by_columns))
        S = cute.make_rmem_tensor(my_S.partition_shape_C((block_M, block_N)), cutlass.Float32)
        acc = cute.make_rmem_tensor(my_O.partition_shape_C((block_M, D)), cutlass.Float32)
        # a thread's part of S is ((2, row, block_N / 8), 1, 1), and of A ((2, row, 2), 1, k)
        P = cute.make_rmem_tensor(S.layout, element)
        of_A = cute.make_layout(((2, 2, 2), 1, block_N // 16), stride=((1, 2, 4), 0, 8))
        P_frag = cute.make_tensor(P.iterator, of_A)
        places = my_S.partition_C(cute.make_identity_tensor((block_M, block_N)))
        top = cute.make_rmem_tensor(2, cutlass.Float32)  # of each row so far
        total = cute.make_rmem_tensor(2, cutlass.Float32)  # of this lane's columns

        if warp_idx < 4:  # producer warpgroup, of which one warp works
            cute.arch.setmaxregister_decrease(24)
            if warp_idx == 0:
                kind = pipeline.PipelineUserType.Producer
                Q_load = pipeline.make_pipeline_state(kind, 1)
                load = pipeline.make_pipeline_state(kind, num_stages)
                ### BEGIN SOLUTION: Q, then K and V by turns, each by its own ring
                Q_pipe.producer_acquire(Q_load)
                bar = Q_pipe.producer_get_barrier(Q_load)
                cute.copy(load_Q, Q_src[None, m, 0, head, b], Q_dst, tma_bar_ptr=bar)
                for n in cutlass.range(k_tiles, unroll=1):
                    at, stage = (None, n, 0, head // group, b), (None, load.index)
                    K_pipe.producer_acquire(load)
                    bar = K_pipe.producer_get_barrier(load)
                    cute.copy(load_K, K_src[at], K_dst[stage], tma_bar_ptr=bar)
                    V_pipe.producer_acquire(load)
                    bar = V_pipe.producer_get_barrier(load)
                    cute.copy(load_V, V_src[at], V_dst[stage], tma_bar_ptr=bar)
                    load.advance()
                ### END SOLUTION
        else:  # consumer warpgroups: 64 queries each
            cute.arch.setmaxregister_increase(240)
            kind = pipeline.PipelineUserType.Consumer
            use = pipeline.make_pipeline_state(kind, num_stages)
            acc.fill(0.0)
            total.fill(0.0)
            top.fill(minus_infinity)
            Q_pipe.consumer_wait(pipeline.make_pipeline_state(kind, 1))
            for n in cutlass.range(k_tiles, unroll=1):
                ### BEGIN SOLUTION: wait for K, S = Q K^T, release K's stage
                K_pipe.consumer_wait(use)
                warpgroup.fence()
                mma_S.set(warpgroup.Field.ACCUMULATE, False)
                for k_block in cutlass.range_constexpr(D // 16):
                    at = None, None, k_block, use.index
                    cute.gemm(mma_S, S, Q_frag[None, None, k_block], K_frag[at], S)
                    mma_S.set(warpgroup.Field.ACCUMULATE, True)
                warpgroup.commit_group()
                warpgroup.wait_group(0)
                K_pipe.consumer_release(use)
                ### END SOLUTION
                for i in cutlass.range_constexpr(cute.size(S)):
                    query, key = m * block_M + places[i][0], n * block_N + places[i][1]
                    seen = key < sequence_k
                    if cutlass.const_expr(causal):
                        seen = seen and key <= query + later
                    S[i] = S[i] if seen else minus_infinity

                for row in cutlass.range_constexpr(2):
                    mine = (None, row, None), 0, 0
                    scores = S[mine].load()
                    new = scores.reduce(cute.ReductionOp.MAX, top[row], 0)
                    new = cute.arch.warp_reduction_max(new, threads_in_group=4)
                    # a row that has seen no key yet: -inf less -inf would be NaN
                    base = 0.0 if new == minus_infinity else new * to_log2
                    scale = cute.math.exp2(top[row] * to_log2 - base, fastmath=True)
                    weights = cute.math.exp2(scores * to_log2 - base, fastmath=True)
                    total[row] = weights.reduce(cute.ReductionOp.ADD, total[row] * scale, 0)
                    top[row] = new
                    S[mine].store(weights)
                    acc[mine].store(acc[mine].load() * scale)
                P.store(S.load().to(element))
                ### BEGIN SOLUTION: wait for V, acc += P V, release V's stage
                V_pipe.consumer_wait(use)
                warpgroup.fence()
                mma_O.set(warpgroup.Field.ACCUMULATE, True)
                for k_block in cutlass.range_constexpr(block_N // 16):
                    at = None, None, k_block, use.index
                    cute.gemm(mma_O, acc, P_frag[None, None, k_block], V_frag[at], acc)
                warpgroup.commit_group()
                warpgroup.wait_group(0)
                V_pipe.consumer_release(use)
                use.advance()
                ### END SOLUTION

            for row in cutlass.range_constexpr(2):
                mine = (None, row, None), 0, 0
                # a row has its columns in four lanes
                of_row = cute.arch.warp_reduction_sum(total[row], threads_in_group=4)
                acc[mine].store(acc[mine].load() * (0.0 if of_row == 0.0 else 1.0 / of_row))
            out = cute.make_rmem_tensor(acc.shape, element)
            out.store(acc.load().to(element))
            stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), element)
            to_shared = cute.make_tiled_copy_C(stmatrix, mma_O)
            my_out = to_shared.get_slice(thread - 128)
            cute.copy(to_shared, my_out.retile(out), my_out.partition_D(Q_shared))
            cute.arch.fence_view_async_shared()
            part = warp_idx // 4 - 1
            cute.arch.barrier(barrier_id=1 + part, number_of_threads=128)
            tile = m * consumers + part
            # a mode of one tile has stride 0: its tile 1 would be tile 0 once more
            if warp_idx % 4 == 0 and tile * 64 < sequence_q:
                to = None, tile, 0, head, b
                cute.copy(store_O, O_src[None, part], O_dst[to])
                cute.arch.cp_async_bulk_commit_group()
                cute.arch.cp_async_bulk_wait_group(0)

    def by_heads(tensor, length, count):
        """The tensor as it lies, by modes: row, column, head, batch."""
        row = count * D  # from a row to the next of the same head
        strides = (row, 1, D, length * row)
        layout = cute.make_layout((length, D, count, batch), stride=strides)
        return cute.make_tensor(tensor.iterator, layout)

    @cute.jit
    def main(Q: cute.Tensor, K: cute.Tensor, V: cute.Tensor, O: cute.Tensor):
        Q, O = by_heads(Q, sequence_q, heads), by_heads(O, sequence_q, heads)
        K, V = by_heads(K, sequence_k, kv_heads), by_heads(V, sequence_k, kv_heads)
        kinds = warpgroup.SmemLayoutAtomKind
        # 96 columns are no multiple of the 64 that 128B takes
        swizzle = kinds.K_SW128 if D % 64 == 0 else kinds.K_SW64
        atom = warpgroup.make_smem_layout_atom(swizzle, element)
        layout_Q = cute.tile_to_shape(atom, (block_M, D), order=(0, 1))
        layout_K = cute.tile_to_shape(atom, (block_N, D, num_stages), order=(0, 1, 2))
        layout_O = cute.tile_to_shape(atom, (64, D), order=(0, 1))
        stage = cute.select(layout_K, [0, 1])
        g2s, s2g = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        load_Q, Q = cpasync.make_tiled_tma_atom(g2s, Q, layout_Q, (block_M, D))
        load_K, K = cpasync.make_tiled_tma_atom(g2s, K, stage, (block_N, D))
        load_V, V = cpasync.make_tiled_tma_atom(g2s, V, stage, (block_N, D))
        store_O, O = cpasync.make_tiled_tma_atom(s2g, O, layout_O, (64, D))
        shared, registers = warpgroup.OperandSource.SMEM, warpgroup.OperandSource.RMEM
        k_major, mn_major = OperandMajorMode.K, OperandMajorMode.MN
        wgmma, fp32 = warpgroup.MmaF16BF16Op, cutlass.Float32
        op_S = wgmma(element, fp32, (64, block_N, 16), shared, k_major, k_major)
        op_O = wgmma(element, fp32, (64, D, 16), registers, k_major, mn_major)
        rows_each = consumers, 1, 1
        mma_S = cute.make_tiled_mma(op_S, rows_each)
        mma_O = cute.make_tiled_mma(op_O, rows_each)
        tma = load_Q, Q, load_K, K, load_V, V, store_O, O
        kernel(*tma, layout_Q, layout_K, mma_S, mma_O).launch(
            grid=(q_tiles, heads, batch),
            block=(128 * (1 + consumers), 1, 1),
            min_blocks_per_mp=1,
        )

    return main
