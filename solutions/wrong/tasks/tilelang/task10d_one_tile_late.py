"""A tile that begins where its group begins is counted to the group before."""

from course_utils.compile.load import plant

STEP = "task10d"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "the group before"

gemm = plant(STEP, "tilelang", ("if offsets[g + 1] <= m:", "if offsets[g + 1] < m:"))
