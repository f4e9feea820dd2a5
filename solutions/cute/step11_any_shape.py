"""Step 11: any shape, by a plan for it; D leaves while the next tile is multiplied."""

import cutlass
import cutlass.cute as cute
from course_utils.plans import choose, fitting, holds_two, require_addressable, stages
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

block_K = 64


def panels(tile, rows, columns, panel):
    """Row and column of the tile that comes at this place of the order."""
    first = tile // (panel * columns) * panel
    height = cutlass.min(panel, rows - first)
    inside = tile % (panel * columns)
    return first + inside % height, inside // height


def gemm(M, N, K, plan=None, sm_count=132):
    require_addressable(M, N, K)
    assert M > 1, "CuTe DSL takes a matrix of one row for a vector: give it a second row"
    plan = fitting(plan or choose(M, N, K, sm_count))
    block_M, block_N, cluster, num_ctas, panel, swapped, across = plan
    if swapped:  # D^T = B A^T: what follows has B's rows for A's, and D's columns for rows
        M, N = N, M
    if (N <= block_N) if across else (M <= block_M):  # one tile has no neighbour to share with
        cluster = 1
    # CTAs of a cluster that lie below one another share B, and those side by side A
    down, beside = (1, cluster) if across else (cluster, 1)
    consumers = 3 if block_M == 192 else 2  # of 64 rows each, or of 128
    registers = (32, 160) if consumers == 3 else (24, 240)  # of producer and consumers
    tile_bytes = (block_M + block_N) * block_K * 2  # of A and of B in one stage
    num_stages, epi_N = stages(plan)  # columns of D that leave at a time, of two buffers
    ### BEGIN SOLUTION: rows of clusters, columns, K tiles; the chunks of a tile
    # those at an edge hang over it: TMA brings zeros from there, and drops stores to there
    rows, columns = -(-M // (block_M * down)), -(-N // (block_N * beside))
    k_tiles, chunks = -(-K // block_K), -(-block_N // epi_N)
    ### END SOLUTION
    tiles, clusters = rows * columns, num_ctas // cluster
    # each CTA loads its part of B's tile, of whole groups of 8 rows; or they take turns
    parts = down if block_N % (8 * down) == 0 else 1
    # a tile's D leaves under the next one, where there is one and registers hold both
    overlap = tiles > clusters and holds_two(plan)
    # the first K tiles: each takes a chunk of the tile before along, the last all that are left
    peel = min(chunks, k_tiles, 6) if overlap else 1

    def place(row, column, rank):
        """Row and column of a CTA's tile in its cluster's."""
        return (row, column * cluster + rank) if across else (row * cluster + rank, column)

    @cute.jit
    def multiply(stage, add, mma, acc, A_frag, B_frag):
        warpgroup.fence()
        for k_block in cutlass.range_constexpr(block_K // 16):
            mma.set(warpgroup.Field.ACCUMULATE, add or k_block > 0)
            at = (None, None, k_block, stage)
            cute.gemm(mma, acc, A_frag[at], B_frag[at], acc)
        warpgroup.commit_group()

    @cute.jit
    def store(c, tile, rank, warp_idx, team, to_shared, out, out_dst, store_D, D, D_shared):
        """One chunk of D: from registers to shared memory, and from there by TMA."""
        # two buffers take turns, also from tile to tile
        buffer = (c + chunks * (tile // clusters)) % 2
        if warp_idx == 4:  # all but the newest store have read their buffer
            cute.arch.cp_async_bulk_wait_group(1, read=True)
        team.arrive_and_wait()
        first = min(c * epi_N, block_N - epi_N)  # the last chunk may lie over the one before
        for i in cutlass.range_constexpr(epi_N // 16):
            for j in cutlass.range_constexpr(block_M // (64 * consumers)):
                # a thread has two registers for 8 columns, and one wgmma's rows after another's
                at = j * block_N // 2 + (first + 16 * i) // 2
                group = cute.make_tensor(out.iterator + at, cute.make_layout(8))
                cute.copy(to_shared, group, out_dst[None, j, i, buffer])
        cute.arch.fence_view_async_shared()
        team.arrive_and_wait()
        if warp_idx == 4:
            row, column = panels(tile, rows, columns, panel)
            m, n = place(row, column, rank)
            corner = m * block_M, n * block_N + first
            box = cute.local_tile(cute.domain_offset(corner, D), (block_M, epi_N), (0, 0))
            D_tile, one = cute.group_modes(D_shared, 0, 2), cute.make_layout(1)
            D_src, D_dst = cpasync.tma_partition(
                store_D, 0, one, D_tile, cute.group_modes(box, 0, 2)
            )
            cute.copy(store_D, D_src[None, buffer], D_dst)
            cute.arch.cp_async_bulk_commit_group()

    @cute.kernel
    def kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma, mma_chunk):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        smem = SmemAllocator()
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        D_shared = smem.allocate_tensor(cutlass.Float16, layout_D.outer, 1024, layout_D.inner)
        # a stage is free when the consumer warps of all CTAs have left it
        leaving = pipeline.CooperativeGroup(pipeline.Agent.Thread, cluster * consumers * 4)
        pipe = pipeline.PipelineTmaAsync.create(
            num_stages=num_stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=leaving,
            tx_count=tile_bytes,
            barrier_storage=barriers,
            cta_layout_vmnk=cute.make_layout((1, down, beside, 1)),
        )
        A_tiles = cute.group_modes(cute.local_tile(A, (block_M, block_K), (None, None)), 0, 2)
        B_tiles = cute.group_modes(cute.local_tile(B, (block_N, block_K), (None, None)), 0, 2)
        A_ring, B_ring = cute.group_modes(A_shared, 0, 2), cute.group_modes(B_shared, 0, 2)
        # this CTA's part of what is shared is multicast to all
        of_A, of_B = cute.make_layout(beside), cute.make_layout(parts)
        A_dst, A_src = cpasync.tma_partition(
            load_A, rank if beside > 1 else 0, of_A, A_ring, A_tiles
        )
        B_dst, B_src = cpasync.tma_partition(
            load_B, rank if parts > 1 else 0, of_B, B_ring, B_tiles
        )

        my_mma = mma.get_slice(thread - 128)
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        my_shape = my_mma.partition_shape_C((block_M, block_N))
        acc = cute.make_rmem_tensor(my_shape, cutlass.Float32)
        out = cute.make_rmem_tensor(acc.shape, cutlass.Float16)
        stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(swapped, 4), cutlass.Float16)
        to_shared = cute.make_tiled_copy_C_atom(stmatrix, mma_chunk)
        my_out = to_shared.get_slice(thread - 128)
        team = pipeline.NamedBarrier(1, 128 * consumers)
        operands = mma, acc, A_frag, B_frag
        copies = to_shared, out, my_out.partition_D(D_shared)
        way = warp_idx, team, *copies, store_D, D, D_shared

        if warp_idx < 4:
            cute.arch.setmaxregister_decrease(registers[0])
            load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
            if warp_idx == 0:
                both = {"mcast_mask": cutlass.Int16(0b11)}
                to_A, to_B = both if beside > 1 else {}, both if down > 1 else {}
                forth = cutlass.Boolean(True)
                for tile in cutlass.range(cta // cluster, tiles, clusters, unroll=1):
                    m, n = place(*panels(tile, rows, columns, panel), rank)
                    for i in cutlass.range(k_tiles, unroll=1):
                        k = i if forth else k_tiles - 1 - i
                        pipe.producer_acquire(load)
                        s, full = load.index, pipe.producer_get_barrier(load)
                        A_part, A_slot = A_src[None, m, k], A_dst[None, s]
                        cute.copy(load_A, A_part, A_slot, tma_bar_ptr=full, **to_A)
                        B_part, B_slot = B_src[None, n, k], B_dst[None, s]
                        if parts == down or i % cluster == rank:
                            cute.copy(load_B, B_part, B_slot, tma_bar_ptr=full, **to_B)
                        load.advance()
                    forth = not forth
                pipe.producer_tail(load)
        else:
            cute.arch.setmaxregister_increase(registers[1])
            use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            free = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            ### BEGIN SOLUTION: the consumers: K tiles, which take the tile before along
            for tile in cutlass.range(cta // cluster, tiles, clusters, unroll=1):
                for k in cutlass.range_constexpr(peel):
                    pipe.consumer_wait(use)
                    multiply(use.index, k > 0, *operands)
                    use.advance()
                    if cutlass.const_expr(overlap):
                        if tile >= clusters:
                            last = (k + 1) * chunks // peel
                            for c in cutlass.range_constexpr(k * chunks // peel, last):
                                store(c, tile - clusters, rank, *way)
                    # all but the newest group are done: the stage before this one is free
                    warpgroup.wait_group(1)
                    if cutlass.const_expr(k > 0):
                        pipe.consumer_release(free)
                        free.advance()
                for k in cutlass.range(peel, k_tiles, unroll=1):
                    pipe.consumer_wait(use)
                    multiply(use.index, True, *operands)
                    use.advance()
                    warpgroup.wait_group(1)
                    pipe.consumer_release(free)
                    free.advance()
                warpgroup.wait_group(0)
                pipe.consumer_release(free)
                free.advance()
                out.store(acc.load().to(cutlass.Float16))
                # the last tile has none after it
                if not overlap or tile + clusters >= tiles:
                    for c in cutlass.range_constexpr(chunks):
                        store(c, tile, rank, *way)
            if warp_idx == 4:
                cute.arch.cp_async_bulk_wait_group(0)
            ### END SOLUTION

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        if cutlass.const_expr(swapped):
            A, B = B, A
            D = cute.make_tensor(D.iterator, cute.make_layout((M, N), stride=(1, M)))
        kinds = warpgroup.SmemLayoutAtomKind
        atom = warpgroup.make_smem_layout_atom(kinds.K_SW128, cutlass.Float16)
        by_row = {64: kinds.K_SW128, 32: kinds.K_SW64, 16: kinds.K_SW32}[epi_N]
        of_D, order = (kinds.MN_SW128, (1, 0, 2)) if swapped else (by_row, (0, 1, 2))
        atom_D = warpgroup.make_smem_layout_atom(of_D, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, num_stages), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, num_stages), order=(0, 1, 2))
        layout_D = cute.tile_to_shape(atom_D, (block_M, epi_N, 2), order=order)
        one, many = cpasync.CopyBulkTensorTileG2SOp, cpasync.CopyBulkTensorTileG2SMulticastOp
        op_A, op_B = (many if beside > 1 else one)(), (many if down > 1 else one)()
        stage_A, stage_B = cute.select(layout_A, [0, 1]), cute.select(layout_B, [0, 1])
        tile_A, tile_B = (block_M, block_K), (block_N, block_K)
        load_A, A = cpasync.make_tiled_tma_atom(op_A, A, stage_A, tile_A, beside)
        load_B, B = cpasync.make_tiled_tma_atom(op_B, B, stage_B, tile_B, parts)
        s2g, stage_D = cpasync.CopyBulkTensorTileS2GOp(), cute.select(layout_D, [0, 1])
        store_D, D = cpasync.make_tiled_tma_atom(s2g, D, stage_D, (block_M, epi_N))
        fp16, fp32, source = cutlass.Float16, cutlass.Float32, warpgroup.OperandSource.SMEM
        rest = source, OperandMajorMode.K, OperandMajorMode.K
        # the second says where a chunk of D lies in registers
        mma, mma_chunk = [
            cute.make_tiled_mma(
                warpgroup.MmaF16BF16Op(fp16, fp32, (64, n, 16), *rest), (consumers, 1, 1)
            )
            for n in (block_N, epi_N)
        ]
        layouts = layout_A, layout_B, layout_D
        kernel(load_A, A, load_B, B, store_D, D, *layouts, mma, mma_chunk).launch(
            grid=(num_ctas, 1, 1),
            block=(128 * (1 + consumers), 1, 1),
            cluster=(cluster, 1, 1),
            min_blocks_per_mp=1,
        )

    return main
