"""The consumer group counts one arrival: the first warp to leave a stage frees it for all four."""

from course_utils.compile.load import plant

STEP = "step08"
FAILS = "results"
OUTCOME = "fault"
NEEDS_GPU = True
SAYS = "overrun"

gemm = plant(
    STEP, "cute",
    ("CooperativeGroup(Agent.Thread, 4)",
     "CooperativeGroup(Agent.Thread, 1)"),
)
