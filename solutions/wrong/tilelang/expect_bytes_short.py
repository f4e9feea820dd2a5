"""The barrier expects the bytes of A alone, although B's arrive on it too."""

from course_utils.compile.load import plant

STEP = "step04"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(
    STEP,
    "tilelang",
    (
        "            full = T.alloc_barrier(1)\n",
        """\
            full = T.alloc_barrier(1)
            B_map = T.create_tma_descriptor(
                6, 2, B.data, K, N, 2, 2 * K, block_K, block_N, 1, 1, 0, 3, 2, 0
            )
""",
    ),
    # B's load is issued bare and nobody expects its 16,384 bytes: the first phase ends half
    # loaded, later ones begin with bytes too many, and a count below 0 never comes back to 0
    (
        """\
                T.tma_copy(B[ns, ks], B_shared[0, :, :], barrier=full)
                if T.shuffle_elect(128):
""",
        """\
                if T.shuffle_elect(128):
                    T.tma_load(
                        B_map, full[0], T.address_of(B_shared[0, 0, 0]), k * block_K, n, 0
                    )
""",
    ),
)
