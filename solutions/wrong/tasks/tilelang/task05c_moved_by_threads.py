"""Threads turn B's tile around on its way: right numbers, and B comes without TMA."""

from course_utils.compile.load import plant

STEP = "task05c"
FAILS = "instructions"
OUTCOME = "right"
NEEDS_GPU = True
SAYS = "by TMA alone"

gemm = plant(
    STEP,
    "tilelang",
    ("(ring, block_K, block_N)", "(ring, block_N, block_K)"),
    (
        "                    T.tma_copy(B[ks, ns], B_shared[load, :, :], barrier=full[load])\n",
        """\
                    for c, r in T.Parallel(block_N, block_K):
                        B_shared[load, c, r] = B[i * block_K + r, n + c]
                    T.fence_proxy_async()
                    T.sync_threads()
""",
    ),
    ("acc, clear", "acc, transpose_B=True, clear"),
)
