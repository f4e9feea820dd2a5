"""ReLU before the bias is added: a negative sum counts as 0, and D is never below the bias."""

from course_utils.compile.load import plant

STEP = "task05a"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "ReLU came before the bias"

gemm = plant(
    STEP,
    "cute",
    (
        "cute.arch.fmax(acc[i] + my_bias[i].to(cutlass.Float32), 0.0)",
        "cute.arch.fmax(acc[i], 0.0) + my_bias[i].to(cutlass.Float32)",
    ),
)
