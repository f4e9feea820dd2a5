"""The consumer waits for parity 0 of every round: from the second round on it does not wait at all."""

from course_utils.compile.load import plant

STEP = "step07"
FAILS = "results"
OUTCOME = "fault"
NEEDS_GPU = True
SAYS = "parity"

gemm = plant(
    STEP, "cute",
    ("cute.arch.mbarrier_wait(full + stage, (it // num_stages) & 1)",
     "cute.arch.mbarrier_wait(full + stage, 0)"),
)
