"""What each choice in the ladder is worth: solutions with one thing changed, as a bundle to run on a GPU
machine.

    python benchmarks/variants.py build/variants.pyz
    python variants.pyz --quick --out variants.json         # there
    course import variants.json --as variants               # here

With --solutions behind OUT.pyz the ladder's kernels come first: one archive for the counters of all.

    python counters.pyz --counters --out counters.json      # there
    course import counters.json --as counters               # here
"""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from course_utils.cli.records import solution_kernels  # noqa: E402
from course_utils.compile.factory import DSLS, compile_factory  # noqa: E402
from course_utils.compile.load import plant  # noqa: E402
from course_utils.recordings import bundle, signing  # noqa: E402

RING_1 = ("ring = 4", "ring = 1")
NO_MULTICAST = ("                                cluster_mask=0b11,\n", "")
PANELS_OF_8 = ("swizzle_size=4", "swizzle_size=8")
WHOLE_TILE_LEAVES = """                    T.tma_store_wait(0)
                    T.sync_threads(1, 128)  # named barrier 1: the consumer's threads only
                    T.copy(acc, D_shared)
                    T.fence_proxy_async()
                    T.sync_threads(1, 128)
                    T.tma_copy(D_shared, D[ms, ns])
                    tiles.next_tile()
                T.tma_store_wait(0)
"""  # the epilogue of step 8
# the coordinates written out and bounded: else tilelang 0.1.15 stores two bytes at a time, each behind a
# bounds check
STRAIGHT_OUT = """                    T.assume(0 <= tiles.m_idx)
                    T.assume(tiles.m_idx < M // block_M)
                    T.assume(0 <= tiles.n_idx)
                    T.assume(tiles.n_idx < N // block_N)
                    T.copy(acc, D[tiles.m_idx * block_M : (tiles.m_idx + 1) * block_M,
                                  tiles.n_idx * block_N : (tiles.n_idx + 1) * block_N])
                    tiles.next_tile()
"""
WAIT_AT_ONCE = """                    T.sync_threads(1, 128)
                    T.copy(acc, D_shared)
                    T.fence_proxy_async()
                    T.sync_threads(1, 128)
                    T.tma_copy(D_shared, D[ms, ns])
                    T.tma_store_wait(0, read=False)
                    tiles.next_tile()
"""
SLICES_LEAVE = """                    for c in T.unroll(block_N // 32 // {buffers}):
{slices}                    tiles.next_tile()
                T.tma_store_wait(0)
"""
SLICE = """                        {before}
                        T.sync_threads(1, 128)
                        T.copy(acc[:, {c} * 32 : ({c} + 1) * 32], part)
                        T.copy(part, D_{buffer})
                        T.fence_proxy_async()
                        T.sync_threads(1, 128)
                        T.tma_copy(D_{buffer}, D[ms, n + {c} * 32 : n + ({c} + 1) * 32])
                        {after}
"""


def slices(buffers, before="", after=""):
    """The edits that let step 8's D leave 32 columns at a time.

    Whole fragments go to whole buffers: tilelang 0.1.15 uses stmatrix, as in step 8, for no other copies.
    """
    names = range(buffers)
    indent = " " * 12
    memory = "".join(f"{indent}D_{b} = T.alloc_shared((block_M, 32), T.float16)\n" for b in names)
    copies = "".join(
        SLICE.format(before=before, after=after, c=f"(c * {buffers} + {b})", buffer=b) for b in names
    )
    return [
        (
            f"{indent}D_shared = T.alloc_shared((block_M, block_N), T.float16)\n",
            f"{memory}{indent}part = T.alloc_fragment((block_M, 32), T.float32)\n",
        ),
        (WHOLE_TILE_LEAVES, SLICES_LEAVE.format(buffers=buffers, slices=copies)),
    ]


WIDER_PANELS = ("(1, 2, 3, 4) if tiles_N", "range(1, 9) if tiles_N")
LEAVES_CUTE = """                if warp_idx == 4:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
                consumers.arrive_and_wait()
                out.store(acc.load().to(cutlass.Float16))
                cute.copy(to_shared, my_out.retile(out), my_out.partition_D(D_shared))
                cute.arch.fence_view_async_shared()
                consumers.arrive_and_wait()
                if warp_idx == 4:
                    cute.copy(store_D, D_src, D_dst[None, m, n])
                    cute.arch.cp_async_bulk_commit_group()
"""  # the epilogue of step 8, in CuTe DSL
READ_FIRST_CUTE = """                if warp_idx == 4:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
"""
AT_ONCE_CUTE = LEAVES_CUTE.removeprefix(READ_FIRST_CUTE)
AT_ONCE_CUTE += "                    cute.arch.cp_async_bulk_wait_group(0)\n"
SLICES_LEAVE_CUTE = """                out.store(acc.load().to(cutlass.Float16))
                for c in cutlass.range_constexpr(block_N // 32):
                    if warp_idx == 4:
                        {before}
                    consumers.arrive_and_wait()
                    for i in cutlass.range_constexpr(2):
                        part = out_src[(None, 2 * c + i), None, 0]
                        cute.copy(to_shared, part, out_dst[None, None, i, c % {buffers}])
                    cute.arch.fence_view_async_shared()
                    consumers.arrive_and_wait()
                    if warp_idx == 4:
                        cute.copy(
                            store_D, D_src[None, c % {buffers}], D_dst[None, m, n * (block_N // 32) + c]
                        )
                        cute.arch.cp_async_bulk_commit_group()
                        {after}
"""
STRAIGHT_OUT_CUTE = [
    ("D_shared = smem.allocate_tensor(cutlass.Float16, layout_D.outer, 1024, layout_D.inner)", "pass"),
    (
        "D_tiles = cute.group_modes(cute.local_tile(D, (block_M, block_N), (None, None)), 0, 2)",
        "D_tiles = cute.local_tile(D, (block_M, block_N), (None, None))",
    ),
    ("D_tile, one = cute.group_modes(D_shared, 0, 2), cute.make_layout(1)", "one = cute.make_layout(1)"),
    ("        D_src, D_dst = cpasync.tma_partition(store_D, 0, one, D_tile, D_tiles)\n", ""),
    (
        LEAVES_CUTE,
        "                out.store(acc.load().to(cutlass.Float16))\n"
        "                cute.autovec_copy(out, my_mma.partition_C(D_tiles[None, None, m, n]))\n",
    ),
    ("store_D, D = cpasync.make_tiled_tma_atom(s2g, D, layout_D, (block_M, block_N))", "pass"),
    ("def kernel(load_A, A, load_B, B, store_D, D,", "def kernel(load_A, A, load_B, B, D,"),
    ("        kernel(load_A, A, load_B, B, store_D, D,", "        kernel(load_A, A, load_B, B, D,"),
]


def slices_cute(buffers, before="pass", after="pass"):
    """``slices`` of step 8 in CuTe DSL."""
    return [
        (
            "cute.local_tile(D, (block_M, block_N), (None, None))",
            "cute.local_tile(D, (block_M, 32), (None, None))",
        ),
        ("make_tiled_copy_C(stmatrix, mma)", "make_tiled_copy_C_atom(stmatrix, mma)"),
        (
            "        consumers = pipeline.NamedBarrier(1, 128)",
            "        out_src, out_dst = my_out.retile(out), my_out.partition_D(D_shared)\n"
            "        consumers = pipeline.NamedBarrier(1, 128)",
        ),
        (LEAVES_CUTE, SLICES_LEAVE_CUTE.format(buffers=buffers, before=before, after=after)),
        (
            "        layout_D = cute.tile_to_shape(atom, (block_M, block_N), order=(0, 1))\n",
            "        narrow = warpgroup.SmemLayoutAtomKind.K_SW64\n"
            "        atom_D = warpgroup.make_smem_layout_atom(narrow, cutlass.Float16)\n"
            f"        layout_D = cute.tile_to_shape(atom_D, (block_M, 32, {buffers}), order=(0, 1, 2))\n",
        ),
        (
            "make_tiled_tma_atom(s2g, D, layout_D, (block_M, block_N))",
            "make_tiled_tma_atom(s2g, D, cute.select(layout_D, [0, 1]), (block_M, 32))",
        ),
    ]


NO_MULTICAST_CUTE = [
    ("tma_partition(load_B, rank, pair, B_ring, B_tiles)", "tma_partition(load_B, 0, one, B_ring, B_tiles)"),
    ("tma_bar_ptr=full, mcast_mask=both)", "tma_bar_ptr=full)"),
    (
        "make_tiled_tma_atom(g2s_both, B, stage_B, tile_B, cluster)",
        "make_tiled_tma_atom(g2s, B, stage_B, tile_B)",
    ),
]
FORWARDS_CUTE = ("k = i if forth else k_tiles - 1 - i", "k = i")
FORWARDS = ("T.if_then_else(tiles.current_iter % 2 == 0, k, k_tiles - 1 - k)", "k")

# name: the edits of its step's solution that make the variant
VARIANTS = {
    "step03, as many CTAs an SM as fit": [RING_1],
    "step04, as many CTAs an SM as fit": [RING_1],
    "step05, as many CTAs an SM as fit": [("num_stages, ring = 2, 4", "num_stages, ring = 2, 2")],
    "step06, panels of 8 tiles": [PANELS_OF_8],
    "step07, panels of 8 tiles": [PANELS_OF_8],
    "step07, four stages": [("num_stages, ring = 2, 4", "num_stages, ring = 4, 4")],
    "step08, panels of 8 tiles": [PANELS_OF_8],
    "step08, six stages, panels of 8": [("num_stages = 4", "num_stages = 6"), PANELS_OF_8],
    "step08, D straight from registers": [
        ("            D_shared = T.alloc_shared((block_M, block_N), T.float16)\n", ""),
        (WHOLE_TILE_LEAVES, STRAIGHT_OUT),
    ],
    "step08, D staged whole, waited for at once": [(WHOLE_TILE_LEAVES, WAIT_AT_ONCE)],
    "step08, D in slices, one buffer, full wait": slices(1, after="T.tma_store_wait(0, read=False)"),
    "step08, D in slices, two buffers": slices(2, before="T.tma_store_wait(1)"),
    "step08, unchanged": [],
    "step09, unchanged": [],
    "step10, unchanged": [],
    "step09, four stages": [("num_stages = 6", "num_stages = 4")],
    "step09, K always forwards": [FORWARDS],
    "step09, no multicast": [NO_MULTICAST],
    "step10, no multicast": [NO_MULTICAST],
    "step10, K always forwards": [FORWARDS],
    "step10, 132 CTAs": [("num_ctas = 128", "num_ctas = 132")],
    "step10, D staged in one buffer": [
        ("epi_N = 64", "epi_N = 128"),
        ("(2, block_M, epi_N)", "(1, block_M, epi_N)"),
        ("T.tma_store_wait(1)", "T.tma_store_wait(0)"),
        ("epi_N], D_shared[c % 2, :, :])", "epi_N], D_shared[0, :, :])"),
        ("T.tma_copy(D_shared[c % 2, :, :]", "T.tma_copy(D_shared[0, :, :]"),
    ],
}


# the same in CuTe DSL
VARIANTS_CUTE = {
    "step03, as many CTAs an SM as fit": [RING_1],
    "step04, as many CTAs an SM as fit": [RING_1],
    "step05, as many CTAs an SM as fit": [("ring = 4", "ring = 2")],
    "step06, panels of 8 tiles": [WIDER_PANELS],
    "step07, panels of 8 tiles": [WIDER_PANELS],
    "step07, four stages": [("num_stages = 2", "num_stages = 4")],
    "step08, panels of 8 tiles": [WIDER_PANELS],
    "step08, six stages, panels of 8": [("num_stages = 4", "num_stages = 6"), WIDER_PANELS],
    "step08, D straight from registers": STRAIGHT_OUT_CUTE,
    "step08, D staged whole, waited for at once": [(LEAVES_CUTE, AT_ONCE_CUTE)],
    "step08, D in slices, one buffer, full wait": slices_cute(
        1, after="cute.arch.cp_async_bulk_wait_group(0)"
    ),
    "step08, D in slices, two buffers": slices_cute(
        2, before="cute.arch.cp_async_bulk_wait_group(1, read=True)"
    ),
    "step08, unchanged": [],
    "step09, unchanged": [],
    "step10, unchanged": [],
    "step09, four stages": [("num_stages = 6", "num_stages = 4")],
    "step09, K always forwards": [FORWARDS_CUTE],
    "step09, no multicast": NO_MULTICAST_CUTE,
    "step10, no multicast": NO_MULTICAST_CUTE,
    "step10, K always forwards": [FORWARDS_CUTE],
    "step10, 132 CTAs": [("num_ctas = 128", "num_ctas = 132")],
    "step10, D staged in one buffer": [
        ("epi_N = 64", "epi_N = 128"),
        ("(block_M, epi_N, 2)", "(block_M, epi_N, 1)"),
        ("cp_async_bulk_wait_group(1, read=True)", "cp_async_bulk_wait_group(0, read=True)"),
        ("out_dst[None, 0, i, c % 2]", "out_dst[None, 0, i, 0]"),
        ("D_src[None, c % 2]", "D_src[None, 0]"),
    ],
}


def kernels() -> list[dict]:
    """The variants as ``bundle.write`` takes them."""
    return [
        {"name": name, "step": name[:6], "dsl": dsl, "timed": True, "factory": plant(name[:6], dsl, *edits)}
        for dsl, variants in (("tilelang", VARIANTS), ("cute", VARIANTS_CUTE))
        for name, edits in variants.items()
    ]


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--solutions"]):
        raise SystemExit(__doc__)
    chosen = (solution_kernels(None, DSLS) if sys.argv[2:] else []) + kernels()
    key = signing.key(Path("build/bundle.key"))  # that of `course bundle`, for `course import`
    bundle.write(sys.argv[1], chosen, compile_factory, lambda item: print(*item, flush=True), key)
