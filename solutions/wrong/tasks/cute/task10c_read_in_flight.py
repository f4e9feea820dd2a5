"""A group stays in flight, as in step 8: its sums are read while wgmma still writes them."""

from course_utils.compile.load import plant

STEP = "task10c"
FAILS = "results"
OUTCOME = "race"
NEEDS_GPU = True
SAYS = "which a wgmma may still write"

gemm = plant(STEP, "cute", ("warpgroup.wait_group(0)", "warpgroup.wait_group(1)"))
