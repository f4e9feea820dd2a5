"""Mistakes on the host's side in CuTe DSL: D's map and partition, layouts in shared memory, the MMA."""

from __future__ import annotations

import pytest

from tests.grading.mistakes import Mistake, planted, require_said

CUTE = "cute"
ATOM = "store_D, D = cpasync.make_tiled_tma_atom(s2g, D, layout_D, (block_M, block_N))"
SPLIT = "D_src, D_dst = cpasync.tma_partition(store_D, 0, one, D_tile, D_tiles)"
RING_A, RING_B = (
    f"layout_{one} = cute.tile_to_shape(atom, (block_{side}, block_K, num_stages), order=(0, 1, 2))"
    for one, side in (("A", "M"), ("B", "N"))
)
SLICES = "layout_D = cute.tile_to_shape(atom, (block_M, epi_N, 2), order=(0, 1, 2))"
MMA = "mma = cute.make_tiled_mma(wgmma, (2, 1, 1))"
SMALL, TALL = (128, 256, 64), (128, 256, 192)
WIDE = (256, 256, 64)  # one cluster of step 10
MISLED = ("which tile", "barriers", "which index", "which wait")


def atom(text: str, instead: str, **fields: object) -> Mistake:
    """A mistake in the tensor map of D, or its partition."""
    line = ATOM if text in ATOM else SPLIT
    fields = {"part": "compiles", "line": "store_D", "size": SMALL, "never": MISLED} | fields
    return Mistake("step04", CUTE, ((line, line.replace(text, instead)),), **fields)


def rings(text: str, instead: str, **fields: object) -> Mistake:
    """A mistake in the layouts of both rings of step 8."""
    edits = tuple((one, one.replace(text, instead)) for one in (RING_A, RING_B))
    return Mistake("step08", CUTE, edits, **({"part": "compiles", "size": TALL} | fields))


def slices(text: str, instead: str, **fields: object) -> Mistake:
    """A mistake in the layout of D in step 10."""
    return Mistake("step10", CUTE, ((SLICES, SLICES.replace(text, instead)),), **({"size": WIDE} | fields))


def swizzled(layout: str, its: str, **fields: object) -> Mistake:
    said = f"stores with swizzle {its} what threads write with 128B"
    return atom("layout_D", layout, part="results", says=(said,), line="make_tiled_tma_a", **fields)


MISTAKES = {
    "04 the op of a load [04: D's map]": atom("s2g", "g2s", says=("via the tma_bar_ptr", "S2GOp")),
    "04 the box of A [04: D's map]": atom(
        "(block_M, block_N)", "(block_M, block_K)", says=("layout of 128 x 128", "tile of 128 x 64")
    ),
    "04 the slot of A [04: D's map]": atom("layout_D", "stage_A", says=("layout of 128 x 64",)),
    "04 the matrix of B [04: D's map]": atom("s2g, D,", "s2g, B,", says=("has a tensor map already",)),
    "04 one name [04: D's map]": atom("store_D, D =", "store_D =", says=("returns two things",)),
    "04 the names swapped [04: D's map]": atom(
        "store_D, D =", "D, store_D =", says=("`local_tile` takes a tensor",), line="local_tile(D"
    ),
    "04 no swizzle [04: D's map]": swizzled("layout_D.outer", "none"),
    "04 columns first": swizzled("cute.make_layout((block_M, block_N))", "none", size=(256, 256, 64)),
    "04 rows first": swizzled(
        "cute.make_layout((block_M, block_N), stride=(block_N, 1))", "none", size=(256, 256, 64)
    ),
    "04 half the swizzle": Mistake(
        "step04",
        CUTE,
        (
            (
                ATOM,
                "half = warpgroup.SmemLayoutAtomKind.K_SW64\n"
                "        half = warpgroup.make_smem_layout_atom(half, cutlass.Float16)\n"
                "        half = cute.tile_to_shape(half, (block_M, block_N), order=(0, 1))\n"
                f"        {ATOM.replace('layout_D', 'half')}",
            ),
        ),
        "results",
        says=("stores with swizzle 64B what threads write with 128B",),
        never=MISLED,
        line="half, (block_M",
        size=(256, 256, 64),
    ),
    "04 the results swapped [04: D's partition]": atom(
        "D_src, D_dst", "D_dst, D_src", says=("weakly congruent", "results swapped")
    ),
    "04 the arguments swapped [04: D's partition]": atom(
        "D_tile, D_tiles", "D_tiles, D_tile", says=("shared memory first", "swapped")
    ),
    "04 the tiles of A [04: D's partition]": atom(
        "D_tiles", "A_tiles", says=("group one tile of one tensor",)
    ),
    "04 a tile that is not grouped [04: D's partition]": atom(
        "D_tile, ", "D_shared, ", says=("group one tile of one tensor",)
    ),
    # -- step 8
    "08 two slots for four stages": rings(
        "num_stages", "2", part="results", says=("has the ring of A as many slots?",), line="cute.copy(load_A"
    ),
    "08 no stages [08: layouts]": rings(
        ", num_stages), order=(0, 1, 2)", "), order=(0, 1)", says=("no stages",), line="cute.copy(load_A"
    ),
    "08 too many stages": rings("num_stages", "8", says=("A_shared 131,072", "fewer stages")),
    "08 the stage first [08: layouts]": Mistake(
        "step08",
        CUTE,
        tuple(
            (one, one.replace(f"(block_{side}, block_K, num_stages)", f"(num_stages, block_{side}, block_K)"))
            for one, side in ((RING_A, "M"), (RING_B, "N"))
        ),
        "compiles",
        says=("this map has a layout of 8 x 128", "tile of 128 x 64"),
        size=TALL,
    ),
    "08 rows and columns swapped [08: layouts]": Mistake(
        "step08",
        CUTE,
        ((RING_A, RING_A.replace("block_M, block_K", "block_K, block_M")),),
        "compiles",
        says=("layout of 64 x 128", "tile of 128 x 64"),
        line="make_tiled_tma_atom(g2s, A",
        size=TALL,
    ),
    "08 a plain layout [08: layouts]": Mistake(
        "step08",
        CUTE,
        ((RING_A, "layout_A = cute.make_layout((block_M, block_K, num_stages))"),),
        "compiles",
        says=("this layout has no swizzle",),
        line="layout_A.outer",
        size=TALL,
    ),
    "08 rows contiguous along M": Mistake(
        "step08", CUTE, (("K_SW128", "MN_SW128"),), "compiles", says=("a row is not contiguous",), size=TALL
    ),
    "08 a tile of D with stages [08: layouts]": Mistake(
        "step08",
        CUTE,
        (
            (
                "layout_D = cute.tile_to_shape(atom, (block_M, block_N), order=(0, 1))",
                "layout_D = cute.tile_to_shape(atom, (block_M, block_N, num_stages), order=(0, 1, 2))",
            ),
        ),
        "compiles",
        says=("a tile with stages",),
        line="cute.copy(to_shared",
        size=TALL,
    ),
    # -- step 10
    "10 warpgroups side by side [10: the MMA]": Mistake(
        "step10",
        CUTE,
        ((MMA, MMA.replace("(2, 1, 1)", "(1, 2, 1)")),),
        "results",
        says=("write the same part of the tile", "64 rows"),
        line="make_tiled_mma(wgmma, (1, 2, 1))",
        size=WIDE,
        ctas=(0,),
    ),
    "10 an MMA of one warpgroup": Mistake(
        "step10",
        CUTE,
        ((MMA, MMA.replace(", (2, 1, 1)", "")),),
        "results",
        says=("multiply the same rows", "64 rows"),
        never=("which index",),
        line="make_tiled_mma(wgmma)",
        size=WIDE,
    ),
    "10 a chunk of D transposed [10: D's layout]": slices(
        "block_M, epi_N", "epi_N, block_M", part="compiles", says=("layout of 64 x 128", "tile of 128 x 64")
    ),
    "10 the whole tile of D [10: D's layout]": slices(
        "epi_N, 2", "block_N, 2", part="compiles", says=("layout of 128 x 256", "tile of 128 x 64")
    ),
    "10 as many buffers as stages": slices(
        "epi_N, 2", "epi_N, num_stages", part="compiles", says=("D_shared 65,536",)
    ),
    "10 one buffer of D": slices(
        "epi_N, 2",
        "epi_N, 1",
        part="results",
        says=("leaves 1 in flight", "D_shared is one buffer"),
        ctas=(0,),
    ),
}


@pytest.mark.parametrize("mistake", planted(MISTAKES, {}))
def test_a_mistake_gets_a_card_that_names_it(mistake: Mistake) -> None:
    require_said(mistake)
