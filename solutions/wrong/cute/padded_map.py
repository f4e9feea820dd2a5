"""The map of D ends where its last tile does: TMA stores past D's edge, into the next row."""

from course_utils.compile.load import plant

STEP = "step11"
FAILS = "instructions"
OUTCOME = "wrong"
NEEDS_GPU = False
SAYS = "tensor maps as large as a, b and d"

gemm = plant(
    STEP,
    "cute",
    (
        "        store_D, D = cpasync.make_tiled_tma_atom(",
        "        whole = cute.make_layout((M, columns * block_N), stride=(N, 1))\n"
        "        D = cute.make_tensor(D.iterator, whole)\n"
        "        store_D, D = cpasync.make_tiled_tma_atom(",
    ),
)
