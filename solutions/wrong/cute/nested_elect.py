"""elect_one around cute.copy, which elects its own thread: an elect inside an elect."""

from course_utils.compile.load import plant

STEP = "step04"
FAILS = "results"
OUTCOME = "hang"
NEEDS_GPU = True
SAYS = "never ended"

gemm = plant(
    STEP,
    "cute",
    (
        """cute.copy(load_A, A_src[None, m, k], A_dst[None, 0], tma_bar_ptr=full)
                cute.copy(load_B, B_src[None, n, k], B_dst[None, 0], tma_bar_ptr=full)
""",
        """with cute.arch.elect_one():
                    cute.copy(load_A, A_src[None, m, k], A_dst[None, 0], tma_bar_ptr=full)
                    cute.copy(load_B, B_src[None, n, k], B_dst[None, 0], tma_bar_ptr=full)
""",
    ),
)
