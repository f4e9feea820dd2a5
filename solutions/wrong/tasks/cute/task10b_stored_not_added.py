"""Each CTA stores its sums: the last one writes over what the others had."""

from course_utils.compile.load import plant

STEP = "task10b"
FAILS = "instructions"
OUTCOME = "wrong"
NEEDS_GPU = False
SAYS = "TMA stores that add"

gemm = plant(
    STEP,
    "cute",
    (
        "cpasync.CopyReduceBulkTensorTileS2GOp(cpasync.ReductionKind.ADD)",
        "cpasync.CopyBulkTensorTileS2GOp()",
    ),
)
