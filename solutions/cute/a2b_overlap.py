"""Case a2b: attention whose softmax runs under products, its own and the other consumer's."""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass._mlir.dialects import llvm
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

num_stages = 2  # of K and of V each
L2_BYTES = 32 << 20  # of K and V that CTAs read at a time, where causal
minus_infinity = -cutlass.Float32.inf


def tile(D, causal):
    """block_M, block_N, registers of the producer and of consumers of 64 queries each."""
    if D == 64:
        return 192, 128, (32, 160)
    if D == 96:
        return 128, 128 if causal else 160, (24, 240)
    return 128, 128 if causal else 160, (24, 240)


def attention(
    batch, sequence_q, sequence_k, heads, kv_heads, D, causal=False, dtype="float16", plan=None
):
    assert heads % kv_heads == 0, f"{heads} heads cannot share {kv_heads} heads of K evenly"
    assert D in (64, 96, 128), f"D = {D}: this kernel takes 64, 96 or 128"
    rows = min(batch * sequence_q * heads, batch * sequence_k * kv_heads)
    assert rows > 1, "CuTe DSL takes a tensor of one row for a vector: give it a second row"
    block_M, block_N, registers = plan or tile(D, causal)
    consumers = block_M // 64
    group = heads // kv_heads  # heads of Q that share a head of K and V
    q_tiles, k_tiles = -(-sequence_q // block_M), -(-sequence_k // block_N)
    later = sequence_k - sequence_q  # query i sees key j if j <= i + later, where causal
    to_log2 = D**-0.5 * 1.4426950408889634  # of softmax, and log2(e), so that exp2 gives exp
    element = {"float16": cutlass.Float16, "bfloat16": cutlass.BFloat16}[dtype]
    convert = {"float16": "cvt.rn.f16x2.f32", "bfloat16": "cvt.rn.bf16x2.f32"}[dtype]
    # CTAs begin in this order: the longest tiles first, of as many heads as L2 holds
    section = max(1, L2_BYTES * group // (4 * sequence_k * D)) if causal else 1
    section = min(section, heads * batch)

    def place(cta):
        """Tile of queries, head and batch of a CTA."""
        first = cta // (section * q_tiles) * section
        count = cutlass.min(section, heads * batch - first)
        inside = cta - first * q_tiles
        head = first + inside % count
        return q_tiles - 1 - inside // count, head % heads, head // heads

    def visible(m):
        """Tiles of keys that some query of tile m sees, one at least; those that all see."""
        if not causal:
            return k_tiles, sequence_k // block_N
        end = cutlass.min((m + 1) * block_M + later, sequence_k)
        whole = cutlass.min(m * block_M + later + 1, sequence_k)
        some = cutlass.max((cutlass.max(end, 0) + block_N - 1) // block_N, 1)
        return some, cutlass.max(whole, 0) // block_N

    @cute.jit
    def multiply(mma, acc, A, B, stage, add: cutlass.Constexpr):
        """Issue acc = A @ B^T, or acc += it; the group is committed and in flight."""
        # its own atom: a field that is set inside a loop is unknown behind the loop
        atom = cute.make_mma_atom(mma.op)
        for k_block in cutlass.range_constexpr(cute.size(A, mode=[2])):
            atom.set(warpgroup.Field.ACCUMULATE, add or k_block > 0)
            cute.gemm(atom, acc, A[None, None, k_block], B[None, None, k_block, stage], acc)
        warpgroup.commit_group()

    @cute.jit
    def mask(S, places, m, n):
        """-inf for keys behind the last one, and for those that a query does not see."""
        for i in cutlass.range_constexpr(cute.size(S)):
            key = n * block_N + places[i][1]
            seen = key < sequence_k
            if cutlass.const_expr(causal):
                seen = seen and key <= m * block_M + places[i][0] + later
            S[i] = S[i] if seen else minus_infinity

    @cute.jit
    def softmax(S, top, total, scale, masked: cutlass.Constexpr):
        """S to weights; what older weights, and so acc, have to be multiplied by."""
        for row in cutlass.range_constexpr(2):
            mine = (None, row, None), 0, 0
            scores = S[mine].load()
            new = scores.reduce(cute.ReductionOp.MAX, top[row], 0)
            new = cute.arch.warp_reduction_max(new, threads_in_group=4)
            base = new * to_log2
            if cutlass.const_expr(masked):
                # a row that has seen no key yet: -inf less -inf would be NaN
                base = 0.0 if new == minus_infinity else base
            scale[row] = cute.math.exp2(top[row] * to_log2 - base, fastmath=True)
            weights = cute.math.exp2(scores * to_log2 - base, fastmath=True)
            total[row] = weights.reduce(cute.ReductionOp.ADD, total[row] * scale[row], 0)
            top[row] = new
            S[mine].store(weights)

    @cute.jit
    def rounded(S, P):
        """P = S in 16 bits. By assembly: LLVM would move a conversion of its own to the next
        product, behind the fence of that, and keep S until then."""
        pairs = cute.recast_tensor(P, cutlass.Int32)
        for i in cutlass.range_constexpr(cute.size(pairs)):
            high, low = S[2 * i + 1].ir_value(), S[2 * i].ir_value()
            word = llvm.inline_asm(
                cutlass.Int32.mlir_type, [high, low], f"{convert} $0, $1, $2;", "=r,f,f"
            )
            pairs[i] = cutlass.Int32(word)

    @cute.jit
    def scaled(acc, scale):
        for row in cutlass.range_constexpr(2):
            mine = (None, row, None), 0, 0
            acc[mine].store(acc[mine].load() * scale[row])

    @cute.kernel
    def kernel(load_Q, Q, load_K, K, load_V, V, store_O, O, layout_Q, layout_K, mma_S, mma_O):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        m, head, b = place(cta)
        some, whole = visible(m)
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
        all_tiles, one = (None,) * 4, cute.make_layout(1)
        Q_tiles = cute.group_modes(cute.local_tile(Q, (block_M, D), all_tiles), 0, 2)
        K_tiles = cute.group_modes(cute.local_tile(K, (block_N, D), all_tiles), 0, 2)
        V_tiles = cute.group_modes(cute.local_tile(V, (block_N, D), all_tiles), 0, 2)
        O_tiles = cute.group_modes(cute.local_tile(O, (64, D), all_tiles), 0, 2)
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
        scale = cute.make_rmem_tensor(2, cutlass.Float32)

        if warp_idx < 4:  # producer warpgroup, of which one warp works
            cute.arch.setmaxregister_decrease(registers[0])
            if warp_idx == 0:
                kind = pipeline.PipelineUserType.Producer
                Q_load = pipeline.make_pipeline_state(kind, 1)
                load = pipeline.make_pipeline_state(kind, num_stages)
                Q_pipe.producer_acquire(Q_load)
                bar = Q_pipe.producer_get_barrier(Q_load)
                cute.copy(load_Q, Q_src[None, m, 0, head, b], Q_dst, tma_bar_ptr=bar)
                for i in cutlass.range(some, unroll=1):
                    at, stage = (None, some - 1 - i, 0, head // group, b), (None, load.index)
                    K_pipe.producer_acquire(load)
                    bar = K_pipe.producer_get_barrier(load)
                    cute.copy(load_K, K_src[at], K_dst[stage], tma_bar_ptr=bar)
                    V_pipe.producer_acquire(load)
                    bar = V_pipe.producer_get_barrier(load)
                    cute.copy(load_V, V_src[at], V_dst[stage], tma_bar_ptr=bar)
                    load.advance()
        else:  # consumer warpgroups: 64 queries each
            cute.arch.setmaxregister_increase(registers[1])
            me = warp_idx // 4 - 1
            # named barrier 1 + i: it is consumer i's turn to issue products
            mine, next_one = 1 + me, 1 + (me + 1) % consumers
            kind = pipeline.PipelineUserType.Consumer
            K_use = pipeline.make_pipeline_state(kind, num_stages)
            V_use = pipeline.make_pipeline_state(kind, num_stages)
            acc.fill(0.0)
            total.fill(0.0)
            top.fill(minus_infinity)
            Q_pipe.consumer_wait(pipeline.make_pipeline_state(kind, 1))
            # the last keys come first: what is masked lies there
            K_pipe.consumer_wait(K_use)
            warpgroup.fence()
            multiply(mma_S, S, Q_frag, K_frag, K_use.index, False)
            warpgroup.wait_group(0)
            K_pipe.consumer_release(K_use)
            K_use.advance()
            mask(S, places, m, some - 1)
            softmax(S, top, total, scale, True)
            rounded(S, P)
            if me == consumers - 1:
                cute.arch.barrier_arrive(barrier_id=1, number_of_threads=256)

            for masked in cutlass.range_constexpr(2):
                begin, end = (some - 2, whole - 1) if masked == 0 else (0, -1)
                if cutlass.const_expr(masked == 1):
                    begin = cutlass.min(some - 1, whole) - 1
                for n in cutlass.range(begin, end, -1, unroll=1):
                    ### BEGIN SOLUTION: one turn: S, then acc += P V of the tile before
                    K_pipe.consumer_wait(K_use)
                    cute.arch.barrier(barrier_id=mine, number_of_threads=256)
                    warpgroup.fence()
                    multiply(mma_S, S, Q_frag, K_frag, K_use.index, False)
                    V_pipe.consumer_wait(V_use)
                    warpgroup.fence()
                    multiply(mma_O, acc, P_frag, V_frag, V_use.index, True)
                    cute.arch.barrier_arrive(barrier_id=next_one, number_of_threads=256)
                    ### END SOLUTION
                    ### BEGIN SOLUTION: S is over: release K, mask, softmax
                    warpgroup.wait_group(1)  # all but the newest group: S is there
                    K_pipe.consumer_release(K_use)
                    K_use.advance()
                    if cutlass.const_expr(masked == 0):
                        mask(S, places, m, n)
                    softmax(S, top, total, scale, masked == 0)
                    ### END SOLUTION
                    ### BEGIN SOLUTION: P V is over: release V, rescale acc, next P
                    warpgroup.wait_group(0)
                    V_pipe.consumer_release(V_use)
                    V_use.advance()
                    scaled(acc, scale)
                    rounded(S, P)
                    ### END SOLUTION

            ### BEGIN SOLUTION: acc += P V of the last tile
            V_pipe.consumer_wait(V_use)
            warpgroup.fence()
            multiply(mma_O, acc, P_frag, V_frag, V_use.index, True)
            ### END SOLUTION
            for row in cutlass.range_constexpr(2):
                # a row has its columns in four lanes
                of_row = cute.arch.warp_reduction_sum(total[row], threads_in_group=4)
                scale[row] = 0.0 if of_row == 0.0 else cute.arch.rcp_approx(of_row)
            warpgroup.wait_group(0)
            scaled(acc, scale)
            out = cute.make_rmem_tensor(acc.shape, element)
            out.store(acc.load().to(element))
            stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), element)
            to_shared = cute.make_tiled_copy_C(stmatrix, mma_O)
            my_out = to_shared.get_slice(thread - 128)
            cute.copy(to_shared, my_out.retile(out), my_out.partition_D(Q_shared))
            cute.arch.fence_view_async_shared()
            cute.arch.barrier(barrier_id=1 + consumers + me, number_of_threads=128)
            # a mode of one tile has stride 0: its tile 1 would be tile 0 once more
            O_row = m * consumers + me
            if warp_idx % 4 == 0 and O_row * 64 < sequence_q:
                cute.copy(store_O, O_src[None, me], O_dst[None, O_row, 0, head, b])
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
        shared, by_register = warpgroup.OperandSource.SMEM, warpgroup.OperandSource.RMEM
        k_major, mn_major = OperandMajorMode.K, OperandMajorMode.MN
        wgmma, fp32 = warpgroup.MmaF16BF16Op, cutlass.Float32
        op_S = wgmma(element, fp32, (64, block_N, 16), shared, k_major, k_major)
        op_O = wgmma(element, fp32, (64, D, 16), by_register, k_major, mn_major)
        rows_each = consumers, 1, 1
        mma_S = cute.make_tiled_mma(op_S, rows_each)
        mma_O = cute.make_tiled_mma(op_O, rows_each)
        tma = load_Q, Q, load_K, K, load_V, V, store_O, O
        kernel(*tma, layout_Q, layout_K, mma_S, mma_O).launch(
            grid=(q_tiles * heads * batch, 1, 1),
            block=(128 * (1 + consumers), 1, 1),
            min_blocks_per_mp=1,
        )

    return main
