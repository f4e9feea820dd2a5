"""The threads copy A and B themselves: the numbers are right, but no TMA load and no byte count
is left.
"""

from course_utils.compile.load import plant

STEP = "step04"
FAILS = "instructions"
OUTCOME = "right"
NEEDS_GPU = False
SAYS = "cp.async.bulk.tensor"

gemm = plant(
    STEP,
    "tilelang",
    ("            full = T.alloc_barrier(1)\n", ""),
    # T.copy, not T.tma_copy: 128 threads load and store every element, as in step 3
    (
        """\
                T.tma_copy(A[ms, ks], A_shared[0, :, :], barrier=full)
                T.tma_copy(B[ns, ks], B_shared[0, :, :], barrier=full)
                if T.shuffle_elect(128):
                    T.mbarrier_arrive(full)  # the one arrival; bytes are the rest of the phase
                T.mbarrier_wait_parity(full, k & 1)
""",
        """\
                T.copy(A[ms, ks], A_shared[0, :, :])
                T.copy(B[ns, ks], B_shared[0, :, :])
                T.fence_proxy_async()
                T.sync_threads()
""",
    ),
)
