"""No fence between the threads' writes of D_shared and the TMA store, which is async proxy."""

from course_utils.compile.load import plant

STEP = "step04"
FAILS = "instructions"
OUTCOME = "race"
NEEDS_GPU = False
SAYS = "proxy"

gemm = plant(
    STEP,
    "cute",
    (
        """        # threads wrote D_shared; TMA reads it through the async proxy
        cute.arch.fence_view_async_shared()
""",
        "",
    ),
)
