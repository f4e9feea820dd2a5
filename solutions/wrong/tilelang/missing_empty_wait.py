"""The producer never waits for an empty stage: it loads over tiles that nobody has multiplied
yet.
"""

from course_utils.compile.load import plant

STEP = "step07"
FAILS = "results"
OUTCOME = "fault"
NEEDS_GPU = True
SAYS = "empty"

gemm = plant(
    STEP,
    "tilelang",
    # rounds of the ring fall together in one phase of full: the consumer waits for phases that
    # never come
    (
        """\
                            # a new barrier has parity 1 behind it: round 0 does not wait
                            T.mbarrier_wait_parity(empty[stage], (it // num_stages) & 1 ^ 1)
""",
        "",
    ),
)
