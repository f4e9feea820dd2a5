"""The multicast mask names three CTAs, but the cluster has two."""

from course_utils.compile.load import plant

STEP = "step09"
FAILS = "results"
OUTCOME = "fault"
NEEDS_GPU = True
SAYS = "multicast"

gemm = plant(
    STEP,
    "tilelang",
    # bit 2 names a CTA that the cluster does not have
    ("cluster_mask=0b11", "cluster_mask=0b111"),
)
