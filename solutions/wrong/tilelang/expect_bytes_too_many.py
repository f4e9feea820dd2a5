"""The barrier expects more bytes than the two loads bring: its first phase never completes."""

from course_utils.compile.load import plant

STEP = "step04"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(
    STEP,
    "tilelang",
    # tma_copy has expected these bytes already: 16,384 of them never come, and nobody goes on
    (
        "                if T.shuffle_elect(128):\n",
        """\
                if T.shuffle_elect(128):
                    T.mbarrier_expect_tx(full, block_N * block_K * 2)
""",
    ),
)
