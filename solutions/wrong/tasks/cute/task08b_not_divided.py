"""The exponentials leave as they are: nobody divides them by their sum."""

from course_utils.compile.load import plant

STEP = "task08b"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "without the division"

gemm = plant(STEP, "cute", ("(x[j] / total)", "x[j]"), wanted="softmax")
