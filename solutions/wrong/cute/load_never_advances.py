"""The producer's state is not advanced: every load goes into the first stage."""

from course_utils.compile.load import plant

STEP = "step05"
FAILS = "results"
OUTCOME = "fault"
NEEDS_GPU = True
SAYS = "overrun"

gemm = plant(
    STEP,
    "cute",
    (
        """                load.advance()
""",
        "",
    ),
)
