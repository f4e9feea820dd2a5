"""What could still make step 11 quicker, each thing alone: edits of its solutions."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from course_utils.artifact import L2_PROMOTIONS, Artifact
from course_utils.plans import Plan

Edits = list[tuple[str, str]]


class Change(NamedTuple):
    """One thing that differs from step 11, as edits by DSL; a text instead of edits says why a language has
    none. ``promotion`` is what A's and B's tensor maps ask of L2, where it is not 128 bytes: no language
    says it, so it is changed in the artifact. ``plan``, instead of the chosen one, is for sizes whose last
    wave fills half of the clusters or less.
    """

    tilelang: Edits | str
    cute: Edits | str
    promotion: int | None = None
    plan: Plan | None = None
    stages: bool = False  # only where K tiles are a multiple of the stages
    overlap: bool = False  # only where D leaves under the next tile

    def of(self, artifact: Artifact) -> Artifact:
        """The artifact with what its tensor maps ask of L2."""
        if self.promotion is None:
            return artifact
        asked = [
            replace(p, tensor_map=replace(p.tensor_map, l2_promotion=self.promotion))
            if p.tensor_map and p.tensor in ("A", "B")
            else p
            for p in artifact.parameters
        ]
        return replace(artifact, parameters=tuple(asked))


# waits: both solutions' are `mbarrier.try_wait` with a time hint of ten million, in a loop
HEAD = "import tilelang.language as T\n"
WAIT = "        T.mbarrier_wait_parity(full[stage], parity)\n"
KERNEL = "        with T.ClusterKernel(num_ctas, cluster_dims=cluster, threads=threads) as cta:\n"
POLL = '''
POLL = """
__device__ __forceinline__ void poll(Barrier &bar, int parity) {{
  while (!bar.{ask}(parity)) {{
  }}
}}
"""
'''
WAIT_CUTE = """                    pipe.consumer_wait(use)
                    multiply(use.index, {add}, *operands)
"""
MULTIPLY_CUTE = "    @cute.jit\n    def multiply("
ASK_CUTE = """    @cute.jit
    def wait(full, phase, warp_idx):
        done = cute.arch.mbarrier_{ask}(full, phase)
        while not done:
            done = cute.arch.mbarrier_{ask}(full, phase)

"""
LANE_CUTE = """    @cute.jit
    def wait(full, phase, warp_idx):
        if cute.arch.lane_idx() == 0:
            cute.arch.mbarrier_wait(full, phase)
        cute.arch.sync_warp()

"""
WARP_CUTE = """    @cute.jit
    def wait(full, phase, warp_idx):
        if warp_idx % 4 == 0:
            cute.arch.mbarrier_wait(full, phase)
        pipeline.NamedBarrier(1 + warp_idx // 4, 128).arrive_and_wait()

"""


def asks(ask: str) -> Edits:
    """TileLang's consumers wait by another instruction, through C++ of their own."""
    return [
        (HEAD, HEAD + POLL.format(ask=ask)),
        (KERNEL, KERNEL + "            T.import_source(POLL)\n"),
        (WAIT, '        T.call_extern("handle", "poll", full[stage], parity)\n'),
    ]


def waits_cute(function: str) -> Edits:
    """The consumers wait by ``function``."""
    found = [(MULTIPLY_CUTE, function + MULTIPLY_CUTE)]
    for add in ("k > 0", "True"):
        text = WAIT_CUTE.format(add=add)
        call = "wait(barriers + use.index, use.phase, warp_idx)"
        found.append((text, text.replace("pipe.consumer_wait(use)", call)))
    return found


LOOP = """                    for k in T.serial(k_tiles - peel):
                        multiply(it % num_stages, it // num_stages & 1, False, *operands)
                        T.wait_wgmma(1)
                        if thread % 128 < cluster:
                            T.mbarrier_arrive(empty[(it - 1) % num_stages], thread % 128)
                        it = it + 1
"""
LOOP_OF_STAGES = """                    for turn in T.serial((k_tiles - peel) // num_stages):
                        for s in T.unroll(num_stages):
                            multiply(s, it // num_stages & 1, False, *operands)
                            T.wait_wgmma(1)
                            if thread % 128 < cluster:
                                before = (s + num_stages - 1) % num_stages
                                T.mbarrier_arrive(empty[before], thread % 128)
                        it = it + num_stages
"""
LOOP_CUTE = """                for k in cutlass.range(peel, k_tiles, unroll=1):
                    pipe.consumer_wait(use)
                    multiply(use.index, True, *operands)
                    use.advance()
                    warpgroup.wait_group(1)
                    pipe.consumer_release(free)
                    free.advance()
"""
LOOP_OF_STAGES_CUTE = """                for turn in cutlass.range((k_tiles - peel) // num_stages, unroll=1):
                    for s in cutlass.range_constexpr(num_stages):
                        pipe.consumer_wait(at(s, use))
                        multiply(s, True, *operands)
                        warpgroup.wait_group(1)
                        pipe.consumer_release(at((s - 1) % num_stages, free))
                    use.advance(num_stages)
                    free.advance(num_stages)
"""
AT_CUTE = """    def at(s, state):
        return pipeline.PipelineState(num_stages, state.count, cutlass.Int32(s), state.phase)

"""
LAST = """                if overlap and tiles.current_iter > 0:  # the last tile has none after it
                    for c in T.unroll(chunks):
                        store(c, tiles.current_iter - 1, m_last, n_last, *way)
"""
LAST_BY_RING = """                if overlap and tiles.current_iter > 0:
                    for c in T.unroll(chunks):
                        T.copy(out[:, c * epi_N : (c + 1) * epi_N], A_shared[c, :, :])
                    T.fence_proxy_async()
                    T.sync_threads(1, 128 * consumers)
                    for c in T.unroll(chunks):
                        T.tma_copy(A_shared[c, :, :], D[m_last : m_last + block_M,
                                   n_last + c * epi_N : n_last + (c + 1) * epi_N])
"""
LAST_CUTE = """                if not overlap or tile + clusters >= tiles:
                    for c in cutlass.range_constexpr(chunks):
                        store(c, tile, rank, *way)
"""
LAST_BY_RING_CUTE = """                if tile + clusters >= tiles:
                    leave(tile, rank, *by_ring)
"""
LEAVE_CUTE = """    @cute.jit
    def leave(tile, rank, warp_idx, team, to_shared, out_src, out_dst, store_D, D, A_shared):
        # chunks of D are as large as stages of A; a consumer writes where only it has read
        for c in cutlass.range_constexpr(chunks):
            for i in cutlass.range_constexpr(epi_N // 16):
                group = out_src[(None, c * (epi_N // 16) + i), 0, 0]
                cute.copy(to_shared, group, out_dst[None, 0, i, c])
        cute.arch.fence_view_async_shared()
        team.arrive_and_wait()
        if warp_idx == 4:
            row, column = panels(tile, rows, columns, panel)
            for c in cutlass.range_constexpr(chunks):
                corner = (row * cluster + rank) * block_M, column * block_N + c * epi_N
                box = cute.local_tile(cute.domain_offset(corner, D), (block_M, epi_N), (0, 0))
                D_tile, one = cute.group_modes(A_shared, 0, 2), cute.make_layout(1)
                D_src, D_dst = cpasync.tma_partition(
                    store_D, 0, one, D_tile, cute.group_modes(box, 0, 2)
                )
                cute.copy(store_D, D_src[None, c], D_dst)
            cute.arch.cp_async_bulk_commit_group()

"""
STMATRIX = [
    (
        "            D_shared = T.alloc_shared((2, block_M, epi_N), T.float16)\n",
        "            D_0 = T.alloc_shared((block_M, epi_N), T.float16)\n"
        "            D_1 = T.alloc_shared((block_M, epi_N), T.float16)\n"
        "            part = T.alloc_fragment((block_M, epi_N), T.float16)\n",
    ),
    ("def store(c, turn, m, n, out, D_shared, D):", "def store(c, turn, m, n, out, part, D_0, D_1, D):"),
    ("(out, D_shared, D)", "(out, part, D_0, D_1, D)"),
    (
        """        T.copy(out[:, first : first + epi_N], D_shared[buffer, :, :])
        T.fence_proxy_async()
        T.sync_threads(1, 128 * consumers)
        ms, ns = slice(m, m + block_M), slice(n + first, n + first + epi_N)
        T.tma_copy(D_shared[buffer, :, :], D[ms, ns])
""",
        """        T.copy(out[:, first : first + epi_N], part)
        ms, ns = slice(m, m + block_M), slice(n + first, n + first + epi_N)
        if buffer == 0:
            T.copy(part, D_0)
            T.fence_proxy_async()
            T.sync_threads(1, 128 * consumers)
            T.tma_copy(D_0, D[ms, ns])
        else:
            T.copy(part, D_1)
            T.fence_proxy_async()
            T.sync_threads(1, 128 * consumers)
            T.tma_copy(D_1, D[ms, ns])
""",
    ),
]
# stream-K in its smallest form: where the last wave has tiles for half of the clusters or less, each of its
# tiles gets a cluster, and each CTA of it has half of K
SPLIT_CUTE = [
    (
        "    tile_bytes = (block_M",
        """    # of the last wave, where it fills half of the clusters or less: all of them share its tiles
    rest = tiles % clusters if cluster == 2 and overlap and 2 * (tiles % clusters) <= clusters else 0
    tiles, half_k = tiles - rest, -(-k_tiles // 2)
    tile_bytes = (block_M""",
    ),
    (
        MULTIPLY_CUTE,
        """    @cute.jit
    def trade(acc, half, thread, peer, A_shared):
        \"\"\"The sums of the peer's columns go there, through A's ring, and its sums of mine are added.\"\"\"
        near = A_shared.iterator.toint() + (thread - 128) * 4
        far = cute.arch.inline_ptx(
            "mapa.shared::cluster.u32 {$w0}, {$r0}, {$r1};",
            write_only_types=[cutlass.Int32],
            read_only_args=[near, peer],
        )
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()  # nobody reads the rings any more
        for i in cutlass.range_constexpr(64):
            cute.arch.inline_ptx(
                "st.shared::cluster.f32 [{$r0}], {$r1};",
                read_only_args=[far + i * 1024, acc[(1 - half) * 64 + i]],
            )
        cute.arch.cluster_arrive()
        cute.arch.cluster_wait()
        for i in cutlass.range_constexpr(64):
            acc[half * 64 + i] += cute.arch.inline_ptx(
                "ld.shared.f32 {$w0}, [{$r0}];",
                write_only_types=[cutlass.Float32],
                read_only_args=[near + i * 1024],
            )

"""
        + MULTIPLY_CUTE,
    ),
    (
        "                pipe.producer_tail(load)\n",
        """                if cutlass.const_expr(rest > 0):
                    if cta // cluster < 2 * rest:
                        row, n = panels(tiles + cta // cluster // 2, rows, columns, panel)
                        m = row * cluster + cta // cluster % 2
                        alone = cutlass.Int16(1) << cutlass.Int16(rank)
                        lower = cpasync.tma_partition(load_B, 0, share, B_ring, B_tiles)
                        upper = cpasync.tma_partition(load_B, 1, share, B_ring, B_tiles)
                        for i in cutlass.range(half_k, unroll=1):
                            k = rank * half_k + i  # beyond the last of an odd number are zeros
                            pipe.producer_acquire(load)
                            s, full = load.index, pipe.producer_get_barrier(load)
                            cute.copy(load_A, A_src[None, m, k], A_dst[None, s], tma_bar_ptr=full)
                            for slot, source in (lower, upper):
                                part, to = source[None, n, k], slot[None, s]
                                cute.copy(load_B, part, to, tma_bar_ptr=full, mcast_mask=alone)
                            load.advance()
                pipe.producer_tail(load)
""",
    ),
    (
        "            if warp_idx == 4:\n                cute.arch.cp_async_bulk_wait_group(0)\n",
        """            if cutlass.const_expr(rest > 0):
                if cta // cluster < 2 * rest:
                    fp16, fp32, shape = cutlass.Float16, cutlass.Float32, (64, block_N, 16)
                    source, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
                    wgmma = warpgroup.MmaF16BF16Op(fp16, fp32, shape, source, k_major, k_major)
                    half_mma = cute.make_tiled_mma(wgmma, (consumers, 1, 1))
                    pipe.consumer_wait(use)
                    multiply(use.index, False, half_mma, acc, A_frag, B_frag)
                    use.advance()
                    for k in cutlass.range(1, half_k, unroll=1):
                        pipe.consumer_wait(use)
                        multiply(use.index, True, half_mma, acc, A_frag, B_frag)
                        use.advance()
                        warpgroup.wait_group(1)
                        pipe.consumer_release(free)
                        free.advance()
                    warpgroup.wait_group(0)
                    pipe.consumer_release(free)
                    free.advance()
                    last, below = tiles + cta // cluster // 2, cta // cluster % 2
                    if rank == 0:
                        trade(acc, 0, thread, 1, A_shared)
                        out.store(acc.load().to(cutlass.Float16))
                        store(0, last, below, *way)
                        store(1, last, below, *way)
                    else:
                        trade(acc, 1, thread, 0, A_shared)
                        out.store(acc.load().to(cutlass.Float16))
                        store(2, last, below, *way)
                        store(3, last, below, *way)
            if warp_idx == 4:
                cute.arch.cp_async_bulk_wait_group(0)
""",
    ),
]
NO_SPLIT = (
    "T.copy_cluster takes shared memory to shared memory, and 64 KB of sums beside the ring find no room: no "
    "copy of a fragment goes to another CTA"
)
END_CUTE = """                cute.arch.cp_async_bulk_wait_group(0)
            ### END SOLUTION
"""
# tried, and refused or spoilt by the assembler
ONE_WARP = (
    "nine warps get as many registers as twelve, 168: the sums and D of the tile before spill 248 bytes "
    "(TileLang) and 392 (CuTe DSL)"
)
THREE = (
    "ptxas refuses a wgmma of 240 columns in a CTA of 512 threads: it needs 146 registers, and a launch has "
    "128 for each, whatever setmaxnreg says"
)


UNEDITED = Change([], [])
CHANGES: dict[str, Change] = {
    "waits that spin": Change(asks("test_wait"), waits_cute(ASK_CUTE.format(ask="test_wait"))),
    "waits without a time hint": Change(asks("try_wait"), waits_cute(ASK_CUTE.format(ask="try_wait"))),
    "one lane of a warp polls": Change(
        [
            (WAIT, "        if thread % 32 == 0:\n    " + WAIT + "        T.sync_warp()\n"),
            ("first, acc, A_shared, B_shared, full):", "first, thread, acc, A_shared, B_shared, full):"),
            ("operands, way = (acc,", "operands, way = (thread, acc,"),
        ],
        waits_cute(LANE_CUTE),
    ),
    "one warp of a consumer polls": Change(
        [
            (
                WAIT,
                """        if thread % 128 < 32:
            T.mbarrier_wait_parity(full[stage], parity)
        if thread < 256:
            T.sync_threads(4, 128)
        else:
            T.sync_threads(5, 128)
""",
            ),
            ("first, acc, A_shared, B_shared, full):", "first, thread, acc, A_shared, B_shared, full):"),
            ("operands, way = (acc,", "operands, way = (thread, acc,"),
        ],
        waits_cute(WARP_CUTE),
    ),
    "idle producer warps stay to the end": Change(
        [
            (
                "                else:  # idle warps would poll the cluster's barrier to the kernel's end\n"
                '                    T.call_extern("handle", "leave")\n',
                "",
            )
        ],
        [(END_CUTE, END_CUTE + "        cute.arch.cluster_arrive()\n        cute.arch.cluster_wait()\n")],
    ),
    "a producer of one warp, no setmaxnreg": Change(ONE_WARP, ONE_WARP),
    "the ring's stages written out": Change(
        [(LOOP, LOOP_OF_STAGES)],
        [(LOOP_CUTE, LOOP_OF_STAGES_CUTE), (MULTIPLY_CUTE, AT_CUTE + MULTIPLY_CUTE)],
        stages=True,
        overlap=True,
    ),
    "the last tile leaves through A's ring": Change(
        [(LAST, LAST_BY_RING)],
        [
            (MULTIPLY_CUTE, LEAVE_CUTE + MULTIPLY_CUTE),
            (LAST_CUTE, LAST_BY_RING_CUTE),
            (
                "        way = warp_idx, team, *copies, store_D, D, D_shared\n",
                "        way = warp_idx, team, *copies, store_D, D, D_shared\n"
                "        by_ring = to_shared, my_out.retile(out), my_out.partition_D(A_shared)\n"
                "        by_ring = warp_idx, team, *by_ring, store_D, D, A_shared\n",
            ),
        ],
        overlap=True,
    ),
    "D by stmatrix": Change(STMATRIX, "it does in step 11"),
    "192 x 240, three consumers": Change(THREE, THREE),
    "L2 asked for 256 bytes": Change([], [], promotion=L2_PROMOTIONS.index("256B")),
    "L2 asked for no more than it must": Change([], [], promotion=L2_PROMOTIONS.index("none")),
    "128 x 256, 132 CTAs": Change([], [], plan=Plan(num_ctas=132)),
    "128 x 256, 132 CTAs, the last wave split along K": Change(NO_SPLIT, SPLIT_CUTE, plan=Plan(num_ctas=132)),
    "tensor maps are prefetched": Change(
        "TileLang does it in every kernel",
        [
            (
                "        smem = SmemAllocator()\n",
                "        if warp_idx == 0:\n            for load in (load_A, load_B, store_D):\n"
                "                cpasync.prefetch_descriptor(load)\n        smem = SmemAllocator()\n",
            )
        ],
    ),
}

# those that are not told apart by what they cost, in one kernel
_ALL = "the ring's stages written out", "the last tile leaves through A's ring"
CHANGES["all that may win"] = Change(
    [*CHANGES[_ALL[0]].tilelang, *CHANGES[_ALL[1]].tilelang, *STMATRIX],
    [*CHANGES[_ALL[0]].cute, *CHANGES[_ALL[1]].cute, *CHANGES["tensor maps are prefetched"].cute],
    stages=True,
    overlap=True,
)
