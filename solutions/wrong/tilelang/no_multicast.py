"""Each CTA of the cluster loads B for itself: the numbers are right, but no load is shared."""

from course_utils.compile.load import plant

STEP = "step09"
FAILS = "instructions"
OUTCOME = "right"
NEEDS_GPU = False
SAYS = "multicast"

gemm = plant(
    STEP,
    "tilelang",
    # the tile that both CTAs need is fetched twice
    ("                                cluster_mask=0b11,\n", ""),
)
