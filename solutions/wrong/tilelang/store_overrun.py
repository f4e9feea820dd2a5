"""The epilogue waits for one store too few: it writes into a buffer of D_shared that TMA still
reads.
"""

from course_utils.compile.load import plant

STEP = "step10"
FAILS = "results"
OUTCOME = "race"
NEEDS_GPU = True
SAYS = "same bytes"

gemm = plant(
    STEP,
    "tilelang",
    (
        "T.tma_store_wait(1)  # all but the newest store have read their buffer",
        "T.tma_store_wait(2)  # two stores may still be reading, and there are two buffers",
    ),
)
