"""The pair lies side by side, and the multicast is still B's, whose rows it does not share."""

from course_utils.compile.load import plant

STEP = "task10a"
FAILS = "results"
OUTCOME = "wrong"
NEEDS_GPU = True
SAYS = "Which index cuts B"

gemm = plant(
    STEP,
    "tilelang",
    (
        """\
                            T.tma_copy(
                                A[ms, ks],
                                A_shared[stage, :, :],
                                barrier=full[stage],
                                cluster_mask=0b11,
                            )
                            T.tma_copy(B[ns, ks], B_shared[stage, :, :], barrier=full[stage])
""",
        """\
                            T.tma_copy(A[ms, ks], A_shared[stage, :, :], barrier=full[stage])
                            T.tma_copy(
                                B[ns, ks],
                                B_shared[stage, :, :],
                                barrier=full[stage],
                                cluster_mask=0b11,
                            )
""",
    ),
)
