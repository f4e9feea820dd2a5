"""The multicast mask names CTA 0 alone: the other one waits for halves of B that never come."""

from course_utils.compile.load import plant

STEP = "step09"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(
    STEP, "cute",
    ("mcast_mask=cutlass.Int16(0b11)",
     "mcast_mask=cutlass.Int16(0b01)"),
)
