"""Every wgmma is waited for before the next is queued: the numbers are right, but nothing stays
in flight.
"""

from course_utils.compile.load import plant

STEP = "step08"
FAILS = "instructions"
OUTCOME = "right"
NEEDS_GPU = False
SAYS = "wait_group"

gemm = plant(
    STEP,
    "tilelang",
    (
        "T.wait_wgmma(1)  # all but the newest group are done: a stage is free",
        "T.wait_wgmma(0)  # 0, not 1: the tensor core idles between two K tiles",
    ),
)
