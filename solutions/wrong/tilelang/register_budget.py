"""The consumers ask for more registers than the producer gives back, so one of them waits for
ever.
"""

from course_utils.compile.load import plant

STEP = "step10"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "64,512"

gemm = plant(
    STEP,
    "tilelang",
    (
        "T.inc_max_nreg(232)",
        "T.inc_max_nreg(240)  # 128 x 40 + 256 x 240 = 66,560 registers, and an SM has 65,536",
    ),
)
