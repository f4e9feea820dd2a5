"""Both roles stop one K tile early: the sum is exact, but without the last K tile."""

from course_utils.compile.load import plant

STEP = "step07"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "without k tile"

gemm = plant(
    STEP,
    "tilelang",
    (
        "k_tiles = K // block_K",
        "k_tiles = K // block_K - 1  # the roles agree: nothing hangs, a tile is missing",
    ),
)
