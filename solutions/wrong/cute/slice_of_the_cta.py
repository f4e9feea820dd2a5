"""The epilogue's slice is taken by the thread's number in the CTA, not in the consumers."""

from course_utils.compile.load import plant

STEP = "step10"
FAILS = "results"
OUTCOME = "fault"
NEEDS_GPU = True
SAYS = "not its own"

gemm = plant(
    STEP,
    "cute",
    ("my_out = to_shared.get_slice(thread - 128)", "my_out = to_shared.get_slice(thread)"),
)
