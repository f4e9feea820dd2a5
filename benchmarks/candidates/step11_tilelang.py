"""Step 11: a plan for each size, by a model; D leaves while the next tile is multiplied."""

from typing import NamedTuple

import tilelang.language as T

block_K, consumers = 64, 2
threads = 128 * (1 + consumers)
SHARED = 232_448  # bytes of shared memory that a CTA can have
rows_each = T.GemmWarpPolicy.FullRow  # a consumer has its share of the tile's rows


class Plan(NamedTuple):
    """What the kernel leaves open. A cluster is cluster_M x 1 tiles of D."""

    block_M: int = 128
    block_N: int = 256
    cluster_M: int = 2  # CTAs that share a tile of B
    cluster_N: int = 1  # TileLang's scheduler clusters rows alone
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
    block_M, block_N, cluster, _, num_ctas, panel, epi_N, *switches = plan
    max_stages, overlap, back, keep = switches
    legal = -(-N // 8) * 8, -(-K // 8) * 8
    assert (N, K) == legal, f"TMA needs rows of whole 16 bytes: the next N and K are {legal}"
    if M <= block_M:  # one tile has no neighbour to share with
        cluster = 1
    left = SHARED - 1024 - 2 * block_M * epi_N * 2  # less barriers, and D's two buffers
    num_stages = min(max_stages, left // ((block_M + block_N) * block_K * 2))
    # tiles at D's edge hang over it: TMA brings zeros from there, and drops stores to there
    k_tiles, chunks = T.ceildiv(K, block_K), block_N // epi_N
    work = T.ceildiv(M, block_M), T.ceildiv(N, block_N), num_ctas // cluster
    # the first K tiles: each takes a chunk of the tile before along, the last all that are left
    peel = min(chunks, k_tiles) if overlap else 1
    mask = (1 << cluster) - 1

    @T.macro
    def store(c, turn, m, n, out, D_shared, D):
        """One chunk of D: from registers to shared memory, and from there by TMA."""
        # two buffers take turns, also from tile to tile
        buffer = (c + chunks % 2 * turn) % 2
        T.tma_store_wait(1)  # all but the newest store have read their buffer
        T.sync_threads(1, 128 * consumers)
        T.copy(out[:, c * epi_N : (c + 1) * epi_N], D_shared[buffer, :, :])
        T.fence_proxy_async()
        T.sync_threads(1, 128 * consumers)
        part = slice(n + c * epi_N, n + (c + 1) * epi_N)
        T.tma_copy(D_shared[buffer, :, :], D[m : m + block_M, part], eviction_policy=keep[2])

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
        with T.ClusterKernel(num_ctas, cluster_dims=cluster, threads=threads) as cta:
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
            tiles = T.PersistentTileScheduler(
                *work, swizzle_size=panel, column_major=False, cluster_size=cluster
            )
            tiles.init(cta // cluster)

            if thread < 128:
                T.dec_max_nreg(40)
                if thread < 32:
                    while tiles.valid():
                        m, n = (tiles.m_idx * cluster + rank) * block_M, tiles.n_idx * block_N
                        ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                        for k in T.serial(k_tiles):
                            stage = it % num_stages
                            T.mbarrier_wait_parity(empty[stage], (it // num_stages) & 1 ^ 1)
                            forth = tiles.current_iter % 2 == 0 if back else True
                            j = T.if_then_else(forth, k, k_tiles - 1 - k)
                            ks = slice(j * block_K, (j + 1) * block_K)
                            T.tma_copy(
                                A[ms, ks],
                                A_shared[stage, :, :],
                                barrier=full[stage],
                                eviction_policy=keep[0],
                            )
                            T.tma_copy(
                                B[ns, ks],
                                B_shared[stage, :, :],
                                barrier=full[stage],
                                cluster_mask=mask,
                                eviction_policy=keep[1],
                            )
                            if T.shuffle_elect(32):
                                T.mbarrier_arrive(full[stage])
                            it = it + 1
                        tiles.next_tile()
            else:
                T.inc_max_nreg(232)
                while tiles.valid():
                    for k in T.unroll(peel):
                        stage = it % num_stages
                        T.mbarrier_wait_parity(full[stage], (it // num_stages) & 1)
                        operands = A_shared[stage, :, :], B_shared[stage, :, :]
                        T.wgmma_gemm(
                            *operands,
                            acc,
                            transpose_B=True,
                            clear_accum=(k == 0),
                            policy=rows_each,
                        )
                        if overlap and tiles.current_iter > 0:
                            for c in T.unroll(k, chunks if k == peel - 1 else k + 1):
                                store(
                                    c, tiles.current_iter - 1, m_last, n_last, out, D_shared, D
                                )
                        T.wait_wgmma(1)
                        if k > 0 and thread % 128 < cluster:
                            T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
                        it = it + 1
                    for k in T.serial(k_tiles - peel):
                        stage = it % num_stages
                        T.mbarrier_wait_parity(full[stage], (it // num_stages) & 1)
                        operands = A_shared[stage, :, :], B_shared[stage, :, :]
                        T.wgmma_gemm(*operands, acc, transpose_B=True, policy=rows_each)
                        T.wait_wgmma(1)
                        if thread % 128 < cluster:
                            T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
                        it = it + 1
                    T.wait_wgmma(0)
                    if thread % 128 < cluster:
                        T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
                    T.copy(acc, out)
                    m_last = (tiles.m_idx * cluster + rank) * block_M
                    n_last = tiles.n_idx * block_N
                    if not overlap:
                        for c in T.unroll(chunks):
                            store(c, tiles.current_iter, m_last, n_last, out, D_shared, D)
                    tiles.next_tile()
                if overlap and tiles.current_iter > 0:  # the last tile has none after it
                    for c in T.unroll(chunks):
                        store(c, tiles.current_iter - 1, m_last, n_last, out, D_shared, D)
                T.tma_store_wait(0)
            T.cluster_sync()

    return main
