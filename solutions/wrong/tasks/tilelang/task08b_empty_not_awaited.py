"""The producer asks for a stage without knowing that the consumer has left it."""

from course_utils.compile.load import plant

STEP = "task08b"
FAILS = "results"
OUTCOME = "race"
NEEDS_GPU = True
SAYS = "before anyone has used"

WAIT = "T.mbarrier_wait_parity(empty[stage], (it // num_stages) & 1 ^ 1)\n"

gemm = plant(STEP, "tilelang", (f"{' ' * 28}{WAIT}", ""), wanted="softmax")
