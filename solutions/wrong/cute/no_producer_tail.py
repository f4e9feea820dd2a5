"""No producer_tail in a cluster: a CTA may be gone when the other still arrives there."""

from course_utils.compile.load import plant

STEP = "step09"
FAILS = "instructions"
OUTCOME = "race"
NEEDS_GPU = False
SAYS = "cluster"

gemm = plant(
    STEP,
    "cute",
    (
        "                # until both CTAs have left every stage: "
        "nobody arrives at a CTA that is gone\n"
        "                pipe.producer_tail(load)\n",
        "",
    ),
)
