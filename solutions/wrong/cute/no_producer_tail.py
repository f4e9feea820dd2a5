"""No producer_tail in a cluster: a CTA may be gone when the other still arrives at its barriers."""

from course_utils.compile.load import plant

STEP = "step09"
FAILS = "instructions"
OUTCOME = "race"
NEEDS_GPU = False
SAYS = "cluster"

gemm = plant(
    STEP, "cute",
    ("""                pipe.producer_tail(load)  # stay until both CTAs have left every stage: nobody arrives at a CTA that is gone
""",
     ""),
)
