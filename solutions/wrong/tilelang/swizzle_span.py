"""B's tensor map is made by hand, and one row of its box is twice as long as its 128B swizzle
allows.
"""

from course_utils.compile.load import plant

STEP = "step04"
FAILS = "tensor maps"
OUTCOME = "refused"
NEEDS_GPU = False
SAYS = "swizzle"

gemm = plant(
    STEP,
    "tilelang",
    # box 2 * block_K wide: 256 bytes a row, where swizzle 3 (128B) allows 128: refused
    (
        "            full = T.alloc_barrier(1)\n",
        """\
            full = T.alloc_barrier(1)
            B_map = T.create_tma_descriptor(
                6, 2, B.data, K, N, 2, 2 * K, 2 * block_K, block_N, 1, 1, 0, 3, 2, 0
            )
""",
    ),
    (
        """\
                T.tma_copy(B[ns, ks], B_shared[0, :, :], barrier=full)
                if T.shuffle_elect(128):
""",
        """\
                if T.shuffle_elect(128):
                    T.mbarrier_expect_tx(full, 2 * block_K * block_N * 2)
                    T.tma_load(
                        B_map, full[0], T.address_of(B_shared[0, 0, 0]), k * block_K, n, 0
                    )
""",
    ),
)
