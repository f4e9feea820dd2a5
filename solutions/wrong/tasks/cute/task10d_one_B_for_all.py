"""Nobody looks up the group: every tile is multiplied by the first B."""

from course_utils.compile.load import plant

STEP = "task10d"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "first group's B"

gemm = plant(STEP, "cute", ("group = cutlass.Int32(g)", "group = cutlass.Int32(0)"))
