"""The TMA store covers the left half of each tile, so the right half of it is never written."""

from course_utils.compile.load import plant

STEP = "step04"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "never written"

gemm = plant(
    STEP,
    "tilelang",
    # 64 of each tile's 128 columns stay as they were
    (
        "T.tma_copy(D_shared, D[ms, ns])",
        "T.tma_copy(D_shared[:, : block_N // 2], D[ms, n : n + block_N // 2])",
    ),
)
