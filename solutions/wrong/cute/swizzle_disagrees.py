"""TMA writes A with a 64-byte swizzle into a tensor that wgmma reads with the 128-byte one."""

from course_utils.compile.load import plant

STEP = "step04"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "swizzle"

gemm = plant(
    STEP, "cute",
    ("""        load_A, A = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileG2SOp(), A, cute.select(layout_A, [0, 1]), (block_M, block_K))""",
     """        other = warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.K_SW64, cutlass.Float16)
        load_A, A = cpasync.make_tiled_tma_atom(
            cpasync.CopyBulkTensorTileG2SOp(), A, cute.tile_to_shape(other, (block_M, block_K), order=(0, 1)),
            (block_M, block_K))"""),
)
