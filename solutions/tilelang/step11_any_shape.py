"""Step 11: any shape, by a plan for it; D leaves while the next tile is multiplied."""

import tilelang.language as T
from course_utils.plans import choose, fitting, holds_two, require_addressable, stages

block_K = 64
rows_each = T.GemmWarpPolicy.FullRow  # a consumer has its share of the tile's rows


def gemm(M, N, K, plan=None, sm_count=132):
    require_addressable(M, N, K)
    plan = fitting(plan or choose(M, N, K, sm_count, "tilelang"), 16)
    block_M, block_N, cluster, num_ctas, panel, _, across = plan
    if (N <= block_N) if across else (M <= block_M):  # one tile has no neighbour to share with
        cluster = 1
    # CTAs of a cluster that lie below one another share B, and those side by side A
    down, beside = (1, cluster) if across else (cluster, 1)
    consumers = 3 if block_M == 192 else 2  # of 64 rows each, or of 128
    threads, registers = 128 * (1 + consumers), (32, 160) if consumers == 3 else (24, 240)
    num_stages, epi_N = stages(plan)  # columns of D that leave at a time, of two buffers
    ### BEGIN SOLUTION: rows, columns, K tiles; the chunks of a tile
    # those at an edge hang over it: TMA brings zeros from there, and drops stores to there
    rows, columns = -(-M // (block_M * down)), -(-N // (block_N * beside))
    k_tiles, chunks = -(-K // block_K), -(-block_N // epi_N)
    ### END SOLUTION
    work = rows, columns, num_ctas // cluster
    # a tile's D leaves under the next one, where there is one and registers hold both
    overlap = (
        rows * columns > num_ctas // cluster and holds_two(plan) and plan[:2] != (192, 192)
    )
    # the first K tiles: each takes a chunk of the tile before along, the last all that are left
    peel = min(chunks, k_tiles, 6) if overlap else 1
    of_A, of_B = {}, {}  # who gets what is loaded: all of a cluster, where they share it
    (of_A if across else of_B)["cluster_mask"] = (1 << cluster) - 1

    @T.macro
    def load(stage, m, n, k, A, B, A_shared, B_shared, full):
        """A's tile, and B's. What is shared is loaded by the first CTA, for all."""
        ms, ns = slice(m, m + block_M), slice(n, n + block_N)
        ks = slice(k * block_K, (k + 1) * block_K)
        T.tma_copy(A[ms, ks], A_shared[stage, :, :], barrier=full[stage], **of_A)
        T.tma_copy(B[ns, ks], B_shared[stage, :, :], barrier=full[stage], **of_B)
        if T.shuffle_elect(32):
            T.mbarrier_arrive(full[stage])

    @T.macro
    def multiply(stage, parity, first, acc, A_shared, B_shared, full):
        T.mbarrier_wait_parity(full[stage], parity)
        operands = A_shared[stage, :, :], B_shared[stage, :, :], acc
        T.wgmma_gemm(*operands, transpose_B=True, clear_accum=first, policy=rows_each)

    @T.macro
    def store(c, turn, m, n, out, D_shared, D):
        """One chunk of D: from registers to shared memory, and from there by TMA."""
        # two buffers take turns, also from tile to tile
        buffer = (c + chunks % 2 * turn) % 2
        first = T.min(c * epi_N, block_N - epi_N)  # the last may lie over the one before
        T.tma_store_wait(1)  # all but the newest store have read their buffer
        T.sync_threads(1, 128 * consumers)
        T.copy(out[:, first : first + epi_N], D_shared[buffer, :, :])
        T.fence_proxy_async()
        T.sync_threads(1, 128 * consumers)
        ms, ns = slice(m, m + block_M), slice(n + first, n + first + epi_N)
        T.tma_copy(D_shared[buffer, :, :], D[ms, ns])

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.ClusterKernel(num_ctas, cluster_dims=cluster, threads=threads) as cta:
            T.import_source('__device__ inline void leave() { asm volatile("exit;"); }\n')
            A_shared = T.alloc_shared((num_stages, block_M, block_K), T.float16)
            B_shared = T.alloc_shared((num_stages, block_N, block_K), T.float16)
            D_shared = T.alloc_shared((2, block_M, epi_N), T.float16)
            acc = T.alloc_fragment((block_M, block_N), T.float32)
            out = T.alloc_fragment((block_M, block_N), T.float16)
            full = T.alloc_barrier([1] * num_stages)
            empty = T.alloc_cluster_barrier([cluster * consumers] * num_stages)
            it = T.alloc_var(T.int32, init=0)
            m_last = T.alloc_var(T.int32, init=0)  # the tile before, which is still to leave
            n_last = T.alloc_var(T.int32, init=0)
            thread, rank = T.get_thread_binding(), T.block_rank_in_cluster()
            tiles = T.PersistentTileScheduler(*work, swizzle_size=panel, column_major=False)
            tiles.init(cta // cluster)
            operands, way = (acc, A_shared, B_shared, full), (out, D_shared, D)

            if thread < 128:
                T.dec_max_nreg(registers[0])
                if thread < 32:
                    while tiles.valid():
                        m = (tiles.m_idx * down + rank % down) * block_M
                        n = (tiles.n_idx * beside + rank % beside) * block_N
                        for k in T.serial(k_tiles):
                            stage = it % num_stages
                            T.mbarrier_wait_parity(empty[stage], (it // num_stages) & 1 ^ 1)
                            j = T.if_then_else(tiles.current_iter % 2 == 0, k, k_tiles - 1 - k)
                            load(stage, m, n, j, A, B, A_shared, B_shared, full)
                            it = it + 1
                        tiles.next_tile()
                else:  # idle warps would poll the cluster's barrier to the kernel's end
                    T.call_extern("handle", "leave")
            else:
                T.inc_max_nreg(registers[1])
                ### BEGIN SOLUTION: the consumers: K tiles, which take the tile before along
                while tiles.valid():
                    for k in T.unroll(peel):
                        multiply(it % num_stages, it // num_stages & 1, k == 0, *operands)
                        if overlap and tiles.current_iter > 0:
                            for c in T.unroll(k * chunks // peel, (k + 1) * chunks // peel):
                                store(c, tiles.current_iter - 1, m_last, n_last, *way)
                        T.wait_wgmma(1)  # all but the newest group are done: a stage is free
                        if k > 0 and thread % 128 < cluster:
                            T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
                        it = it + 1
                    for k in T.serial(k_tiles - peel):
                        multiply(it % num_stages, it // num_stages & 1, False, *operands)
                        T.wait_wgmma(1)
                        if thread % 128 < cluster:
                            T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
                        it = it + 1
                    T.wait_wgmma(0)
                    if thread % 128 < cluster:
                        T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
                    T.copy(acc, out)
                    m_last = (tiles.m_idx * down + rank % down) * block_M
                    n_last = (tiles.n_idx * beside + rank % beside) * block_N
                    if not overlap:
                        for c in T.unroll(chunks):
                            store(c, tiles.current_iter, m_last, n_last, *way)
                    tiles.next_tile()
                if overlap and tiles.current_iter > 0:  # the last tile has none after it
                    for c in T.unroll(chunks):
                        store(c, tiles.current_iter - 1, m_last, n_last, *way)
                T.tma_store_wait(0)
                ### END SOLUTION
            T.cluster_sync()

    return main
