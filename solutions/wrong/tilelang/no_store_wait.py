"""Nobody waits until the last tile's store has read D_shared before the next tile is written
there.
"""

from course_utils.compile.load import plant

STEP = "step06"
FAILS = "instructions"
OUTCOME = "race"
NEEDS_GPU = False
SAYS = "wait_group"

gemm = plant(
    STEP,
    "tilelang",
    # the last store may still read what the next copy overwrites
    (
        "                T.tma_store_wait(0)  # the previous tile's store has read D_shared\n",
        "",
    ),
)
