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


def kernels() -> list[dict]:
    """The variants as ``bundle.write`` takes them."""
    return [
        {
            "name": name,
            "step": name[:6],
            "dsl": "tilelang",
            "timed": True,
            "factory": plant(name[:6], "tilelang", *edits),
        }
        for name, edits in VARIANTS.items()
    ]


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--solutions"]):
        raise SystemExit(__doc__)
    chosen = (solution_kernels(None, DSLS) if sys.argv[2:] else []) + kernels()
    key = signing.key(Path("build/bundle.key"))  # that of `course bundle`, for `course import`
    bundle.write(sys.argv[1], chosen, compile_factory, lambda item: print(*item, flush=True), key)
