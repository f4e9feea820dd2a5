"""The consumer group counts 128 threads, but one thread of each of the four warps releases a stage."""

from course_utils.compile.load import plant

STEP = "step08"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(
    STEP, "cute",
    ("CooperativeGroup(Agent.Thread, 4)",
     "CooperativeGroup(Agent.Thread, 128)"),
)
