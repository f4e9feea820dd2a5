"""The producer's first wait is for parity 0, a phase that only the consumer could end, so
nobody begins.
"""

from course_utils.compile.load import plant

STEP = "step07"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(
    STEP,
    "tilelang",
    # round 0 waits until stages that were never filled have been emptied
    ("& 1 ^ 1", "& 1"),
)
