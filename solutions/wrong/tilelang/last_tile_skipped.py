"""The tile loop ends one tile early, so the last tile of D is never written."""

from course_utils.compile.load import plant

STEP = "step06"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "never written"

gemm = plant(
    STEP,
    "tilelang",
    # no - 1 in tiles.valid(): here the tile with the highest number belongs to nobody
    ("while tiles.valid():", "while tiles.linear_idx < (M // block_M) * (N // block_N) - 1:"),
)
