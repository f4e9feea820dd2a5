"""ACCUMULATE is set to False once and for all: a CTA's later tiles add to the one before."""

from course_utils.compile.load import plant

STEP = "step06"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "accumulator"

gemm = plant(
    STEP,
    "cute",
    (
        """            mma.set(warpgroup.Field.ACCUMULATE, False)
""",
        "",
    ),
    (
        "        for tile in cutlass.range(",
        """        mma.set(warpgroup.Field.ACCUMULATE, False)
        for tile in cutlass.range(""",
    ),
)
