"""The modes of A's tile are not grouped for tma_partition: it takes the first for the tile."""

from course_utils.compile.load import plant

STEP = "step04"
FAILS = "compiles"
# There is no kernel: nvidia-cutlass-dsl 4.8.1 refuses a K-major tile; older releases built a
# copy that hangs.
OUTCOME = "right"
NEEDS_GPU = False
SAYS = "tma_partition"

gemm = plant(
    STEP,
    "cute",
    (
        "cute.group_modes(cute.local_tile(A, (block_M, block_K), (None, None)), 0, 2)",
        "cute.local_tile(A, (block_M, block_K), (None, None))",
    ),
    ("cute.group_modes(A_shared, 0, 2)", "A_shared[None, None, 0]"),
    ("one, A_ring, A_tiles)", "one, A_ring, A_tiles[None, None, m, 0])"),
    ("A_src[None, m, k], A_dst[None, 0]", "A_src, A_dst"),
)
