"""The consumer waits on empty and arrives on full: the two are swapped in this role alone."""

from course_utils.compile.load import plant

STEP = "step07"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(
    STEP,
    "tilelang",
    # the consumer waits for an arrival that only it could make
    ("T.mbarrier_wait_parity(full[stage]", "T.mbarrier_wait_parity(empty[stage]"),
    ("T.mbarrier_arrive(empty[stage])", "T.mbarrier_arrive(full[stage])"),
)
