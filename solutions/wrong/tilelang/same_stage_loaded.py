"""Every tile of B is loaded into stage 0, while wgmma reads the two stages in turn."""

from course_utils.compile.load import plant

STEP = "step05"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "before it was loaded"

gemm = plant(
    STEP,
    "tilelang",
    # stage 1 is never filled, and stage 0 is overwritten a step too early
    ("B_shared[load, :, :]", "B_shared[0, :, :]"),
)
