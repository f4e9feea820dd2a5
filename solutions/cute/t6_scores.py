"""Case t6: S = scale * Q K^T of each head, Q and K read in place by rank-4 tensor maps."""

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

block_M, block_N = 128, 64  # rows of Q and rows of K in a tile of S
num_stages = 2


def scores(batch, sequence_q, sequence_k, heads, kv_heads, D, scale=0.125, dtype="float16"):
    assert heads % kv_heads == 0, f"{heads} heads cannot share {kv_heads} heads of K evenly"
    assert D in (64, 96, 128), f"D = {D}: this kernel takes 64, 96 or 128"
    rows = min(batch * sequence_q * heads, batch * sequence_k * kv_heads)
    assert rows > 1, (
        "CuTe DSL takes a tensor of one row for a vector: give Q and K a second row"
    )
    group = heads // kv_heads  # heads of Q that share a head of K
    q_tiles, k_tiles = -(-sequence_q // block_M), -(-sequence_k // block_N)
    by_TMA = sequence_k % 8 == 0  # else a row of S is no multiple of 16 bytes: no legal map
    element = {"float16": cutlass.Float16, "bfloat16": cutlass.BFloat16}[dtype]

    @cute.kernel
    def kernel(load_Q, Q, load_K, K, store_S, S, layout_Q, layout_K, layout_S, mma):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        m, head, b = cute.arch.block_idx()
        smem = SmemAllocator()
        Q_barriers = smem.allocate_array(cutlass.Int64, 2)
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        Q_shared = smem.allocate_tensor(element, layout_Q.outer, 1024, layout_Q.inner)
        K_shared = smem.allocate_tensor(element, layout_K.outer, 1024, layout_K.inner)
        S_shared = smem.allocate_tensor(element, layout_S.outer, 1024, layout_S.inner)
        # the producer warp fills a stage; the four consumer warps release it
        roles = {
            "producer_group": pipeline.CooperativeGroup(pipeline.Agent.Thread),
            "consumer_group": pipeline.CooperativeGroup(pipeline.Agent.Thread, 4),
            "cta_layout_vmnk": cute.make_layout((1, 1, 1, 1)),
        }
        Q_pipe = pipeline.PipelineTmaAsync.create(
            num_stages=1, tx_count=block_M * D * 2, barrier_storage=Q_barriers, **roles
        )
        pipe = pipeline.PipelineTmaAsync.create(
            num_stages=num_stages, tx_count=block_N * D * 2, barrier_storage=barriers, **roles
        )

        # (tile, row of tiles, column of tiles, head, batch); a row of Q and of K is one tile
        tile_Q, tile_K, whole = (block_M, D), (block_N, D), (None,) * 4
        Q_tiles = cute.group_modes(cute.local_tile(Q, tile_Q, whole), 0, 2)
        K_tiles = cute.group_modes(cute.local_tile(K, tile_K, whole), 0, 2)
        Q_tile, K_ring = cute.group_modes(Q_shared, 0, 2), cute.group_modes(K_shared, 0, 2)
        one = cute.make_layout(1)
        Q_dst, Q_src = cpasync.tma_partition(load_Q, 0, one, Q_tile, Q_tiles)
        K_dst, K_src = cpasync.tma_partition(load_K, 0, one, K_ring, K_tiles)

        my_mma = mma.get_slice(thread % 128)
        # descriptors: wgmma reads shared memory itself
        Q_frag = mma.make_fragment_A(my_mma.partition_A(Q_shared))
        K_frag = mma.make_fragment_B(my_mma.partition_B(K_shared))
        my_shape = my_mma.partition_shape_C((block_M, block_N))
        acc = cute.make_rmem_tensor(my_shape, cutlass.Float32)
        out = cute.make_rmem_tensor(acc.shape, element)
        consumers = pipeline.NamedBarrier(1, 128)  # of the consumer's threads only

        if warp_idx < 4:  # consumer warpgroup
            use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            Q_pipe.consumer_wait(
                pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, 1)
            )
            for n in cutlass.range(k_tiles, unroll=1):
                pipe.consumer_wait(use)
                mma.set(warpgroup.Field.ACCUMULATE, False)
                warpgroup.fence()
                for k_block in cutlass.range_constexpr(D // 16):
                    at = (None, None, k_block, use.index)
                    cute.gemm(mma, acc, Q_frag[None, None, k_block], K_frag[at], acc)
                    mma.set(warpgroup.Field.ACCUMULATE, True)
                warpgroup.commit_group()
                warpgroup.wait_group(0)
                pipe.consumer_release(use)
                use.advance()
                out.store((acc.load() * scale).to(element))
                ### BEGIN SOLUTION: store S's tile: by TMA, or by threads if no map can
                if cutlass.const_expr(by_TMA):
                    stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), element)
                    to_shared = cute.make_tiled_copy_C(stmatrix, mma)
                    my_out = to_shared.get_slice(thread)
                    S_tiles = cute.local_tile(S, (block_M, block_N), (None,) * 4)
                    S_tiles = cute.group_modes(S_tiles, 0, 2)
                    S_ring = cute.group_modes(S_shared, 0, 2)
                    S_src, S_dst = cpasync.tma_partition(store_S, 0, one, S_ring, S_tiles)
                    if warp_idx == 0:  # all but the newest store have read their buffer
                        cute.arch.cp_async_bulk_wait_group(1, read=True)
                    consumers.arrive_and_wait()
                    to = my_out.partition_D(S_shared)[None, None, None, n % 2]
                    cute.copy(to_shared, my_out.retile(out), to)
                    cute.arch.fence_view_async_shared()
                    consumers.arrive_and_wait()
                    if warp_idx == 0:
                        cute.copy(store_S, S_src[None, n % 2], S_dst[None, m, n, head, b])
                        cute.arch.cp_async_bulk_commit_group()
                else:
                    places = my_mma.partition_C(cute.make_identity_tensor((block_M, block_N)))
                    for i in cutlass.range_constexpr(cute.size(out)):
                        row, column = places[i][0] + m * block_M, places[i][1] + n * block_N
                        if row < sequence_q and column < sequence_k:
                            S[row, column, head, b] = out[i]
                ### END SOLUTION
            if cutlass.const_expr(by_TMA):
                if warp_idx == 0:
                    cute.arch.cp_async_bulk_wait_group(0)
        else:  # producer warp
            load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
            Q_load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, 1)
            ### BEGIN SOLUTION: load Q's tile once, then each tile of this group's K head
            Q_pipe.producer_acquire(Q_load)
            full = Q_pipe.producer_get_barrier(Q_load)
            cute.copy(load_Q, Q_src[None, m, 0, head, b], Q_dst, tma_bar_ptr=full)
            for n in cutlass.range(k_tiles, unroll=1):
                pipe.producer_acquire(load)
                full = pipe.producer_get_barrier(load)
                cute.copy(
                    load_K,
                    K_src[None, n, 0, head // group, b],
                    K_dst[None, load.index],
                    tma_bar_ptr=full,
                )
                load.advance()
            ### END SOLUTION

    @cute.jit
    def main(Q: cute.Tensor, K: cute.Tensor, S: cute.Tensor):
        ### BEGIN SOLUTION: Q and K as they lie, by modes: row, column, head, batch
        rows_Q, rows_K = heads * D, kv_heads * D  # from a row to the next of the same head
        Q_shape, Q_stride = (sequence_q, D, heads, batch), (rows_Q, 1, D, sequence_q * rows_Q)
        K_shape, K_stride = (
            (sequence_k, D, kv_heads, batch),
            (rows_K, 1, D, sequence_k * rows_K),
        )
        Q = cute.make_tensor(Q.iterator, cute.make_layout(Q_shape, stride=Q_stride))
        K = cute.make_tensor(K.iterator, cute.make_layout(K_shape, stride=K_stride))
        ### END SOLUTION
        plane = sequence_q * sequence_k  # elements of one head of S
        S_shape, S_stride = (sequence_q, sequence_k, heads, batch), (sequence_k, 1, plane)
        S_layout = cute.make_layout(S_shape, stride=(*S_stride, heads * plane))
        S = cute.make_tensor(S.iterator, S_layout)
        ### BEGIN SOLUTION: swizzles: 96 columns are no multiple of the 64 that 128B takes
        kinds = warpgroup.SmemLayoutAtomKind
        swizzle = kinds.K_SW128 if D % 64 == 0 else kinds.K_SW64
        ### END SOLUTION
        atom = warpgroup.make_smem_layout_atom(swizzle, element)
        layout_Q = cute.tile_to_shape(atom, (block_M, D), order=(0, 1))
        layout_K = cute.tile_to_shape(atom, (block_N, D, num_stages), order=(0, 1, 2))
        wide = warpgroup.make_smem_layout_atom(kinds.K_SW128, element)
        layout_S = cute.tile_to_shape(wide, (block_M, block_N, 2), order=(0, 1, 2))
        g2s, s2g = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        stage_K, buffer_S = cute.select(layout_K, [0, 1]), cute.select(layout_S, [0, 1])
        load_Q, Q = cpasync.make_tiled_tma_atom(g2s, Q, layout_Q, (block_M, D))
        load_K, K = cpasync.make_tiled_tma_atom(g2s, K, stage_K, (block_N, D))
        store_S = None
        if cutlass.const_expr(by_TMA):
            store_S, S = cpasync.make_tiled_tma_atom(s2g, S, buffer_S, (block_M, block_N))
        source, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        shape = (64, block_N, 16)
        fp32 = cutlass.Float32
        wgmma = warpgroup.MmaF16BF16Op(element, fp32, shape, source, k_major, k_major)
        mma = cute.make_tiled_mma(wgmma)
        tma = load_Q, Q, load_K, K, store_S, S
        kernel(*tma, layout_Q, layout_K, layout_S, mma).launch(
            grid=(q_tiles, heads, batch), block=(160, 1, 1)
        )

    return main
