"""The pipeline expects fp32 bytes of fp16 tiles: twice as many as come."""

from course_utils.compile.load import plant

STEP = "step05"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(STEP, "cute", ("tx_count=tile_bytes", "tx_count=2 * tile_bytes"))
