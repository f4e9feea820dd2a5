"""The counts of tiles round down: what does not fill a tile has no owner."""

from course_utils.compile.load import plant

STEP = "step11"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "tiles at the edge are left out"

gemm = plant(
    STEP,
    "tilelang",
    ("-(-M // block_M), -(-N // block_N), -(-K", "M // block_M, N // block_N, -(-K"),
)
