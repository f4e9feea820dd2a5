"""No min_blocks_per_mp at the launch: the DSL drops both setmaxregister without a word."""

from course_utils.compile.load import plant

STEP = "step07"
FAILS = "instructions"
OUTCOME = "right"
NEEDS_GPU = False
SAYS = "setmaxnreg"

gemm = plant(STEP, "cute", ("block=(256, 1, 1), min_blocks_per_mp=1", "block=(256, 1, 1)"))
