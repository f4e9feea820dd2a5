"""The consumer group counts one arrival: the first warp to leave a stage frees it for all."""

from course_utils.compile.load import plant

STEP = "step08"
FAILS = "results"
OUTCOME = "fault"
NEEDS_GPU = True
SAYS = "overrun"

gemm = plant(STEP, "cute", ("pipeline.Agent.Thread, 4)", "pipeline.Agent.Thread, 1)"))
