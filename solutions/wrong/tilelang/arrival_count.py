"""The empty barriers count 128 arrivals, but one thread of the consumer warpgroup arrives."""

from course_utils.compile.load import plant

STEP = "step07"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(
    STEP,
    "tilelang",
    (
        "empty = T.alloc_barrier([1] * num_stages)  # one arrival by the consumer warpgroup",
        "empty = T.alloc_barrier([128] * num_stages)  # one arrives: round 2 never starts",
    ),
)
