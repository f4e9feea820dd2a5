"""Both CTAs load the first half of B's tile: the partition is given CTA 0 for both."""

from course_utils.compile.load import plant

STEP = "step09"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "before it was loaded"

gemm = plant(
    STEP,
    "cute",
    ("cpasync.tma_partition(load_B, rank, pair,", "cpasync.tma_partition(load_B, 0, pair,"),
)
