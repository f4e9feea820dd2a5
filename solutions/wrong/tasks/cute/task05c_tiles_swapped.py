"""B's tile is named as B is stored, K tile first; its tensor map was turned to N x K before."""

from course_utils.compile.load import plant

STEP = "task05c"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "Which index cuts B"

gemm = plant(STEP, "cute", ("B_src[None, n, i]", "B_src[None, i, n]"))
