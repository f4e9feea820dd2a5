"""The bias goes by D's row: every row has one number of it, where every column should."""

from course_utils.compile.load import plant

STEP = "task05a"
FAILS = "results"
OUTCOME = "fault"
NEEDS_GPU = True
SAYS = "the bias of its rows"

gemm = plant(STEP, "tilelang", ("bias[n + j]", "bias[m + i]"))
