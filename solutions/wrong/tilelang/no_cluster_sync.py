"""The CTAs of a cluster do not wait for each other at the end, so one can leave while the other
still signals it.
"""

from course_utils.compile.load import plant

STEP = "step09"
FAILS = "instructions"
OUTCOME = "race"
NEEDS_GPU = False
SAYS = "cluster"

gemm = plant(
    STEP,
    "tilelang",
    # the other's last arrive on empty may reach a CTA that is gone
    (
        """\
            T.cluster_sync()  # a CTA that left could not be told about, or written to
""",
        "",
    ),
)
