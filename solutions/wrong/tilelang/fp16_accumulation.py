"""The accumulator is fp16: every addition rounds, and the sum over K loses its last bits."""

from course_utils.compile.load import plant

STEP = "step03"
FAILS = "instructions"
OUTCOME = "wrong"
NEEDS_GPU = False
SAYS = "accumulator"

gemm = plant(
    STEP,
    "tilelang",
    (
        "acc = T.alloc_fragment((block_M, block_N), T.float32)",
        "acc = T.alloc_fragment((block_M, block_N), T.float16)  # not float32: sums of 11 bits",
    ),
)
