"""The consumer gives a stage back before the wgmma that reads it has ended."""

from course_utils.compile.load import plant

STEP = "step08"
FAILS = "results"
OUTCOME = "race"
NEEDS_GPU = True
SAYS = "same bytes"

gemm = plant(
    STEP,
    "tilelang",
    # before the wait, and this stage, not the last one: the next load may land under the wgmma
    (
        """\
                        T.wait_wgmma(1)  # all but the newest group are done: a stage is free
                        if k > 0:
                            if T.shuffle_elect(128):
                                T.mbarrier_arrive(empty[(it - 1) % num_stages])
""",
        """\
                        if T.shuffle_elect(128):
                            T.mbarrier_arrive(empty[stage])
                        T.wait_wgmma(1)
""",
    ),
    (
        """\
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(empty[(it - 1) % num_stages])
""",
        "",
    ),
)
