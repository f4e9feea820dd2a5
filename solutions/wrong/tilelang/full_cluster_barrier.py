"""The full barriers are cluster barriers: CTA 0 expects the bytes of both CTAs and gets its
own.
"""

from course_utils.compile.load import plant

STEP = "step09"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(
    STEP,
    "tilelang",
    # tma_copy doubles the expected bytes of such a barrier in CTA 0, and expects none in CTA 1
    ("full = T.alloc_barrier(", "full = T.alloc_cluster_barrier("),
)
