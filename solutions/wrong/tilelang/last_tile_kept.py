"""D leaves under the next tile, and nothing stores the tile that has none after it."""

from course_utils.compile.load import plant

STEP = "step11"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "wrote no element of d"

gemm = plant(
    STEP,
    "tilelang",
    (
        "                if overlap and tiles.current_iter > 0:"
        "  # the last tile has none after it\n"
        "                    for c in T.unroll(chunks):\n"
        "                        store(c, tiles.current_iter - 1, m_last, n_last, *way)\n",
        "",
    ),
)
