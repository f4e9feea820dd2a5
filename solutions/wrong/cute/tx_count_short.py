"""The pipeline expects the bytes of A alone, although B's arrive on the same barrier."""

from course_utils.compile.load import plant

STEP = "step05"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(STEP, "cute", ("tx_count=tile_bytes", "tx_count=block_M * block_K * 2"))
