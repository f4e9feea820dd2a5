"""The consumer waits for parity 0 of every round: from the second round on it does not wait."""

from course_utils.compile.load import plant

STEP = "step07"
FAILS = "results"
OUTCOME = "fault"
NEEDS_GPU = True
SAYS = "parity"

gemm = plant(
    STEP,
    "cute",
    (
        "                    pipe.consumer_wait(use)\n",
        """                    # its stage goes on, and its phase does not
                    phase_0 = pipeline.PipelineState(num_stages, use.count, use.index, 0)
                    pipe.consumer_wait(phase_0)
""",
    ),
)
