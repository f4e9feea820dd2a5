"""wgmma starts at stage 0 again with each tile, although the loads go on from where the last
tile left them.
"""

from course_utils.compile.load import plant

STEP = "step06"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "stage"

gemm = plant(
    STEP,
    "tilelang",
    # done is missing: with an odd number of K tiles, every second tile is from the wrong stage
    (
        "operands = A_shared[stage, :, :], B_shared[stage, :, :]",
        "operands = A_shared[k % num_stages, :, :], B_shared[k % num_stages, :, :]",
    ),
)
