"""TMA writes A with a 64-byte swizzle into a tensor that wgmma reads with the 128-byte one."""

from course_utils.compile.load import plant

STEP = "step04"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "swizzle"

gemm = plant(
    STEP,
    "cute",
    (
        "        load_A, A = cpasync",
        "        other = warpgroup.SmemLayoutAtomKind.K_SW64\n"
        "        other_atom = warpgroup.make_smem_layout_atom(other, cutlass.Float16)\n"
        "        stage_A = cute.tile_to_shape(other_atom, (block_M, block_K), order=(0, 1))\n"
        "        load_A, A = cpasync",
    ),
)
