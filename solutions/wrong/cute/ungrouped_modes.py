"""The two modes of A's tile are not grouped into one before tma_partition, so the first alone is taken for the tile."""

from course_utils.compile.load import plant

STEP = "step04"
FAILS = "compiles"
OUTCOME = "right"  # there is no kernel: nvidia-cutlass-dsl 4.8.1 refuses a K-major tile; older releases built a copy that hangs
NEEDS_GPU = False
SAYS = "tma_partition"

gemm = plant(
    STEP, "cute",
    ("A_tiles = cute.group_modes(cute.local_tile(A, (block_M, block_K), (None, None)), 0, 2)",
     "A_tiles = cute.local_tile(A, (block_M, block_K), (None, None))"),
    ("load_A, 0, one, cute.group_modes(A_shared, 0, 2), A_tiles)",
     "load_A, 0, one, A_shared[None, None, 0], A_tiles[None, None, m, 0])"),
    ("A_src[None, m, k], A_dst[None, 0]",
     "A_src, A_dst"),
)
