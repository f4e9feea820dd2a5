"""Step 11: a plan for each size, by a model; D leaves while the next tile is multiplied."""

from typing import NamedTuple

import cutlass
import cutlass.cute as cute
from cutlass import pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warp, warpgroup
from cutlass.memory import SmemAllocator

block_K, consumers = 64, 2
SHARED = 232_448  # bytes of shared memory that a CTA can have


class Plan(NamedTuple):
    """What the kernel leaves open. A cluster is cluster_M x cluster_N tiles of D."""

    block_M: int = 128
    block_N: int = 256
    cluster_M: int = 2  # CTAs that share a tile of B
    cluster_N: int = 1  # CTAs that share a tile of A
    num_ctas: int = 128
    panel: int = 8  # cluster tiles, in M, that are walked through N together
    epi_N: int = 64  # columns of D that leave at a time
    max_stages: int = 8  # as many as fit, and no more than this
    overlap: bool = True  # D leaves while the next tile is multiplied
    back: bool = True  # every other tile goes through K backwards
    keep: tuple = (None, None, None)  # L2 policies of A, B and D


TILES = (128, 256), (128, 224), (128, 192), (128, 160), (128, 128), (256, 128)
CLOCK, POWER = 1.62e9, 700  # Hz inside a launch, and watts
LAUNCH, TURN = 6000, 800  # cycles: of a launch, and between two tiles
FLOP_J, BYTE_J = 0.74e-12, 18e-12  # joules: of a FLOP, and of a byte from L2


def seconds(M, N, K, plan):
    """What a launch takes by the model: waves of tiles, and bytes that come from L2."""
    height = plan.block_M * plan.cluster_M
    clusters = -(-M // height) * -(-N // plan.block_N)
    waves = -(-clusters // (plan.num_ctas // plan.cluster_M))
    deep = -(-K // block_K) * block_K
    tile_flop = 2 * plan.block_M * plan.block_N * deep
    cycles = LAUNCH + waves * (tile_flop / 4096 + TURN)  # an SM does 4096 FLOP a cycle
    bytes_moved = clusters * (height + plan.block_N) * deep * 2
    joules = FLOP_J * clusters * plan.cluster_M * tile_flop + BYTE_J * bytes_moved
    return max(cycles / CLOCK, joules / POWER)


def choose(M, N, K, widest=2):
    """The plan that takes least by the model, with clusters of up to ``widest`` CTAs."""
    plans = []
    for block_M, block_N in TILES:
        epi_N = 64 if block_N % 64 == 0 else 32
        for cluster_M in [size for size in (2, 1, 4) if size <= widest]:
            # a GPC of 16 or 18 SMs has room for four clusters of 4
            for num_ctas in (128, 132) if cluster_M < 4 else (128,):
                plans.append(Plan(block_M, block_N, cluster_M, 1, num_ctas, epi_N=epi_N))
    return min(plans, key=lambda plan: seconds(M, N, K, plan))


def gemm(M, N, K, plan=None):
    plan = plan or choose(M, N, K)
    block_M, block_N, cluster_M, cluster_N, num_ctas, panel, epi_N, *switches = plan
    max_stages, overlap, back, keep = switches
    legal = -(-N // 8) * 8, -(-K // 8) * 8
    assert (N, K) == legal, f"TMA needs rows of whole 16 bytes: the next N and K are {legal}"
    if M <= block_M:  # one tile has no neighbour to share with
        cluster_M = 1
    if N <= block_N:
        cluster_N = 1
    cluster = cluster_M * cluster_N
    # in clusters' tiles; the last of a row or column may hang over D's edge: TMA brings zeros
    # from there, and drops what is stored there
    rows, columns = -(-M // (block_M * cluster_M)), -(-N // (block_N * cluster_N))
    tiles, clusters, k_tiles = rows * columns, num_ctas // cluster, -(-K // block_K)
    tile_bytes = (block_M + block_N) * block_K * 2  # of A and of B in one stage
    left = SHARED - 1024 - 2 * block_M * epi_N * 2  # less barriers, and D's two buffers
    num_stages = min(max_stages, left // tile_bytes)
    chunks = block_N // epi_N
    # the first K tiles: each takes a chunk of the tile before along, the last all that are left
    peel = min(chunks, k_tiles) if overlap else 1

    @cute.jit
    def place(tile, rank):
        """Row and column, in tiles, of a CTA's share of a cluster's tile."""
        first = tile // (panel * columns) * panel
        width = cutlass.min(panel, rows - first)
        inside = tile % (panel * columns)
        m = (first + inside % width) * cluster_M + rank % cluster_M
        return m, inside // width * cluster_N + rank // cluster_M

    @cute.jit
    def multiply(stage, add, mma, acc, A_frag, B_frag):
        warpgroup.fence()
        for k_block in cutlass.range_constexpr(block_K // 16):
            mma.set(warpgroup.Field.ACCUMULATE, add or k_block > 0)
            at = (None, None, k_block, stage)
            cute.gemm(mma, acc, A_frag[at], B_frag[at], acc)
        warpgroup.commit_group()

    @cute.jit
    def store(
        c, tile, rank, warp_idx, team, to_shared, out_src, out_dst, store_D, D_src, D_dst
    ):
        """One chunk of D: from registers to shared memory, and from there by TMA."""
        m, n = place(tile, rank)
        # two buffers take turns, also from tile to tile
        buffer = (c + chunks * (tile // clusters)) % 2
        if warp_idx == 4:  # all but the newest store have read their buffer
            cute.arch.cp_async_bulk_wait_group(1, read=True)
        team.arrive_and_wait()
        width = epi_N // 16
        for i in cutlass.range_constexpr(width):
            group = c * width + i
            for j in cutlass.range_constexpr(cute.size(out_src, mode=[1])):
                cute.copy(to_shared, out_src[(None, group), j, 0], out_dst[None, j, i, buffer])
        cute.arch.fence_view_async_shared()
        team.arrive_and_wait()
        if warp_idx == 4:
            chunk = n * chunks + c
            # D of one chunk alone has no second one: its place would be that of the first
            if chunk * epi_N < N:
                hint = {"cache_policy": cutlass.Int64(keep[2])} if keep[2] else {}
                cute.copy(store_D, D_src[None, buffer], D_dst[None, m, chunk], **hint)
            cute.arch.cp_async_bulk_commit_group()

    @cute.kernel
    def kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma):
        thread, _, _ = cute.arch.thread_idx()
        warp_idx = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        cta, _, _ = cute.arch.block_idx()
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        smem = SmemAllocator()
        barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)
        A_shared = smem.allocate_tensor(cutlass.Float16, layout_A.outer, 1024, layout_A.inner)
        B_shared = smem.allocate_tensor(cutlass.Float16, layout_B.outer, 1024, layout_B.inner)
        D_shared = smem.allocate_tensor(cutlass.Float16, layout_D.outer, 1024, layout_D.inner)
        # a stage is free when all have left it that its loads are shared with
        sharing = cluster_M + cluster_N - 1
        pipe = pipeline.PipelineTmaAsync.create(
            num_stages=num_stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(
                pipeline.Agent.Thread, sharing * consumers * 4
            ),
            tx_count=tile_bytes,
            barrier_storage=barriers,
            cta_layout_vmnk=cute.make_layout((1, cluster_M, cluster_N, 1)),
        )

        A_tiles = cute.group_modes(cute.local_tile(A, (block_M, block_K), (None, None)), 0, 2)
        B_tiles = cute.group_modes(cute.local_tile(B, (block_N, block_K), (None, None)), 0, 2)
        D_tiles = cute.group_modes(cute.local_tile(D, (block_M, epi_N), (None, None)), 0, 2)
        A_ring, B_ring = cute.group_modes(A_shared, 0, 2), cute.group_modes(B_shared, 0, 2)
        D_tile, one = cute.group_modes(D_shared, 0, 2), cute.make_layout(1)
        # a shared tile is cut: each CTA loads its part and multicasts it to all that share it
        i, j = rank % cluster_M, rank // cluster_M
        share_A, share_B = cute.make_layout(cluster_N), cute.make_layout(cluster_M)
        A_dst, A_src = cpasync.tma_partition(load_A, j, share_A, A_ring, A_tiles)
        B_dst, B_src = cpasync.tma_partition(load_B, i, share_B, B_ring, B_tiles)
        D_src, D_dst = cpasync.tma_partition(store_D, 0, one, D_tile, D_tiles)

        my_mma = mma.get_slice(thread - 128)
        A_frag = mma.make_fragment_A(my_mma.partition_A(A_shared))
        B_frag = mma.make_fragment_B(my_mma.partition_B(B_shared))
        my_shape = my_mma.partition_shape_C((block_M, block_N))
        acc = cute.make_rmem_tensor(my_shape, cutlass.Float32)
        out = cute.make_rmem_tensor(acc.shape, cutlass.Float16)
        stmatrix = cute.make_copy_atom(warp.StMatrix8x8x16bOp(False, 4), cutlass.Float16)
        to_shared = cute.make_tiled_copy_C_atom(stmatrix, mma)
        my_out = to_shared.get_slice(thread - 128)
        out_src = my_out.retile(out)
        out_dst = my_out.partition_D(D_shared)
        team = pipeline.NamedBarrier(1, 128 * consumers)
        operands = mma, acc, A_frag, B_frag
        way = warp_idx, team, to_shared, out_src, out_dst, store_D, D_src, D_dst

        ### BEGIN SOLUTION: the kernel: the producer, and consumers whose D leaves a tile later
        if warp_idx < 4:
            cute.arch.setmaxregister_decrease(40)
            load = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, num_stages)
            if warp_idx == 0:
                how_A, how_B = {}, {}
                if cutlass.const_expr(cluster_N > 1):
                    lanes = sum(1 << cluster_M * other for other in range(cluster_N))
                    how_A["mcast_mask"] = cutlass.Int16(lanes << i)
                if cutlass.const_expr(cluster_M > 1):
                    lanes = (1 << cluster_M) - 1
                    how_B["mcast_mask"] = cutlass.Int16(lanes << j * cluster_M)
                if cutlass.const_expr(keep[0] is not None):
                    how_A["cache_policy"] = cutlass.Int64(keep[0])
                if cutlass.const_expr(keep[1] is not None):
                    how_B["cache_policy"] = cutlass.Int64(keep[1])
                forth = cutlass.Boolean(True)
                for tile in cutlass.range(cta // cluster, tiles, clusters, unroll=1):
                    m, n = place(tile, rank)
                    for step in cutlass.range(k_tiles, unroll=1):
                        k = step if forth else k_tiles - 1 - step
                        pipe.producer_acquire(load)
                        s, full = load.index, pipe.producer_get_barrier(load)
                        cute.copy(
                            load_A, A_src[None, m, k], A_dst[None, s], tma_bar_ptr=full, **how_A
                        )
                        cute.copy(
                            load_B, B_src[None, n, k], B_dst[None, s], tma_bar_ptr=full, **how_B
                        )
                        load.advance()
                    if cutlass.const_expr(back):
                        forth = not forth
                pipe.producer_tail(load)
        else:
            cute.arch.setmaxregister_increase(232)
            use = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            free = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, num_stages)
            for tile in cutlass.range(cta // cluster, tiles, clusters, unroll=1):
                for k in cutlass.range_constexpr(peel):
                    pipe.consumer_wait(use)
                    multiply(use.index, k > 0, *operands)
                    use.advance()
                    if cutlass.const_expr(overlap):
                        if tile >= clusters:
                            last = chunks if cutlass.const_expr(k == peel - 1) else k + 1
                            for c in cutlass.range_constexpr(k, last):
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
                if cutlass.const_expr(not overlap):
                    for c in cutlass.range_constexpr(chunks):
                        store(c, tile, rank, *way)
            if cutlass.const_expr(overlap):
                first = cta // cluster
                if first < tiles:  # the last tile has none after it
                    tile = first + (tiles - 1 - first) // clusters * clusters
                    for c in cutlass.range_constexpr(chunks):
                        store(c, tile, rank, *way)
            if warp_idx == 4:
                cute.arch.cp_async_bulk_wait_group(0)
        ### END SOLUTION

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        kinds = warpgroup.SmemLayoutAtomKind
        atom = warpgroup.make_smem_layout_atom(kinds.K_SW128, cutlass.Float16)
        of_D = kinds.K_SW128 if epi_N == 64 else kinds.K_SW64
        atom_D = warpgroup.make_smem_layout_atom(of_D, cutlass.Float16)
        layout_A = cute.tile_to_shape(atom, (block_M, block_K, num_stages), order=(0, 1, 2))
        layout_B = cute.tile_to_shape(atom, (block_N, block_K, num_stages), order=(0, 1, 2))
        layout_D = cute.tile_to_shape(atom_D, (block_M, epi_N, 2), order=(0, 1, 2))
        one, many = cpasync.CopyBulkTensorTileG2SOp, cpasync.CopyBulkTensorTileG2SMulticastOp
        stage_A, stage_B = cute.select(layout_A, [0, 1]), cute.select(layout_B, [0, 1])
        op_A, op_B = (many if cluster_N > 1 else one)(), (many if cluster_M > 1 else one)()
        tile_A, tile_B = (block_M, block_K), (block_N, block_K)
        load_A, A = cpasync.make_tiled_tma_atom(op_A, A, stage_A, tile_A, cluster_N)
        load_B, B = cpasync.make_tiled_tma_atom(op_B, B, stage_B, tile_B, cluster_M)
        store_D, D = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileS2GOp(),
            D,
            cute.select(layout_D, [0, 1]),
            (block_M, epi_N),
        )
        fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (64, block_N, 16)
        source, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        wgmma = warpgroup.MmaF16BF16Op(fp16, fp32, shape, source, k_major, k_major)
        mma = cute.make_tiled_mma(wgmma, (consumers, 1, 1))
        kernel(load_A, A, load_B, B, store_D, D, layout_A, layout_B, layout_D, mma).launch(
            grid=(num_ctas, 1, 1),
            block=(128 * (1 + consumers), 1, 1),
            cluster=(cluster, 1, 1),
            min_blocks_per_mp=1,
        )

    return main
