"""The accumulator is cleared for a CTA's first tile only: each later tile is added to the one
before.
"""

from course_utils.compile.load import plant

STEP = "step06"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "accumulator"

gemm = plant(STEP, "tilelang", ("clear_accum=(k == 0)", "clear_accum=(done + k == 0)"))
