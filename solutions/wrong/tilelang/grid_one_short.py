"""The grid has one CTA fewer than the tile scheduler has workers, so one worker's tiles are
never written.
"""

from course_utils.compile.load import plant

STEP = "step06"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "never written"

gemm = plant(
    STEP,
    "tilelang",
    # worker 131 never comes
    (
        "T.Kernel(sm_count, threads=128) as cta:",
        "T.Kernel(sm_count - 1, threads=128) as cta:  # the scheduler strides by sm_count",
    ),
)
