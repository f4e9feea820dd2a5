"""Each CTA has a quarter of the K tiles, rounded down: what remains of K belongs to nobody."""

from course_utils.compile.load import plant

STEP = "task10b"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "without K tile 8"

gemm = plant(
    STEP,
    "tilelang",
    (
        "first, end = bz * k_tiles // splits, (bz + 1) * k_tiles // splits",
        "first, end = bz * (k_tiles // splits), (bz + 1) * (k_tiles // splits)",
    ),
)
