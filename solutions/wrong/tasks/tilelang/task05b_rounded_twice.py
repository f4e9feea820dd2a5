"""The sums go through the bf16 tile on their way to fp32: D_fp32 has bf16's eight bits."""

from course_utils.compile.load import plant

STEP = "task05b"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "rounded on their way to D_fp32"

gemm = plant(
    STEP,
    "tilelang",
    (
        """\
            T.copy(acc, wide_shared)
            T.copy(acc, short_shared)
""",
        """\
            T.copy(acc, short_shared)
            T.sync_threads()
            T.copy(short_shared, acc)
            T.copy(acc, wide_shared)
""",
    ),
)
