"""The counts of tiles round down: what does not fill a tile has no owner."""

from course_utils.compile.load import plant

STEP = "step11"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "tiles at the edge are left out"

gemm = plant(
    STEP,
    "cute",
    (
        "-(-M // (block_M * cluster)), -(-N // block_N)",
        "M // (block_M * cluster), N // block_N",
    ),
)
