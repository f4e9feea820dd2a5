"""The consumer group counts 128 threads, but one thread of each warp releases a stage."""

from course_utils.compile.load import plant

STEP = "step08"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(STEP, "cute", ("pipeline.Agent.Thread, 4)", "pipeline.Agent.Thread, 128)"))
