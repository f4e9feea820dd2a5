"""The count of K tiles rounds down: the last columns of A and B are never loaded."""

from course_utils.compile.load import plant

STEP = "step11"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "the last k tile is short"

gemm = plant(STEP, "cute", ("-(-K // block_K)", "K // block_K"))
