"""The last tile is moved up until it fits: two CTAs write the rows that both have."""

from course_utils.compile.load import plant

STEP = "task08a"
FAILS = "results"
OUTCOME = "race"
NEEDS_GPU = True
SAYS = "both store"

gemm = plant(
    STEP,
    "tilelang",
    # both roles count the rows from it
    (
        "            thread = T.get_thread_binding()\n",
        """\
            thread = T.get_thread_binding()
            first_row = T.alloc_var(T.int32, init=0)
""",
    ),
    (
        """\
                    while tiles.valid():
                        m, n = tiles.m_idx * block_M, tiles.n_idx * block_N
                        ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                        for k""",
        """\
                    while tiles.valid():
                        first_row = T.min(tiles.m_idx * block_M, M - block_M)
                        m, n = first_row, tiles.n_idx * block_N
                        ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                        for k""",
    ),
    (
        """\
                while tiles.valid():
                    m, n = tiles.m_idx * block_M, tiles.n_idx * block_N
                    ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                    for k""",
        """\
                while tiles.valid():
                    first_row = T.min(tiles.m_idx * block_M, M - block_M)
                    m, n = first_row, tiles.n_idx * block_N
                    ms, ns = slice(m, m + block_M), slice(n, n + block_N)
                    for k""",
    ),
)
