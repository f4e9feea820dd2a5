"""The multicast mask names CTA 0 alone: the other one waits for halves of B that never come."""

from course_utils.compile.load import plant

STEP = "step09"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(STEP, "cute", ("both = cutlass.Int16(0b11)", "both = cutlass.Int16(0b01)"))
