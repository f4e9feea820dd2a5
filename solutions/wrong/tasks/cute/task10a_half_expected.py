"""Each CTA asks for one half of A, and expects that half: the pair's other half comes too."""

from course_utils.compile.load import plant

STEP = "task10a"
FAILS = "results"
OUTCOME = "race"
NEEDS_GPU = True
SAYS = "bytes"

gemm = plant(
    STEP,
    "cute",
    (
        "tile_bytes = (block_M + block_N) * block_K * 2",
        "tile_bytes = (block_M // cluster + block_N) * block_K * 2",
    ),
)
