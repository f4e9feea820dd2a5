"""The fence comes between the two tiles: TMA may read the second before its numbers arrive."""

from course_utils.compile.load import plant

STEP = "task05b"
FAILS = "results"
OUTCOME = "race"
NEEDS_GPU = True
SAYS = "fence"

gemm = plant(
    STEP,
    "cute",
    ("        cute.arch.fence_view_async_shared()\n", ""),
    (
        "        out.store(acc.load()",
        "        cute.arch.fence_view_async_shared()\n        out.store(acc.load()",
    ),
)
