"""What compilers mean by the words that learners meet."""

from __future__ import annotations

import re

# a compiler's words, and what they ask of a learner. Seen on tilelang 0.1.15 and nvidia-cutlass-dsl 4.8.1.
MEANING = (
    (
        r"StructuralEqual check failed, caused by lhs at \S+\s+(\(.*?\))\s+and rhs at \S+\s+(\(.*?\))",
        r"the two sides of this copy have the shapes \1 and \2: slice the larger one",
    ),
    (
        r"K shape check failed: K_A = (\d+), K_B = (\d+)",
        r"K shape check failed: A's tile has \1 of K, B's \2. Is `transpose_B=True` there, and are both "
        "tiles cut alike?",
    ),
    (
        r"Selected loop range is smaller.*?src=(\w+), dst=(\w+)(?s:.*)",
        r"the two sides of this copy, \1 and \2, have other shapes: slice the matrix, and write all indices "
        "of a tile with stages.",
    ),
    (
        r"(?s:.*)Shared tile and global tile shape mismatch: \S+ = (\d+) != (\d+).*",
        r"the two sides of this copy have other shapes (\1 and \2). Write all indices of a tile with stages: "
        "`[stage, :, :]`.",
    ),
    (
        r"(?s:.*)TMA is not available for src=(\w+), dst=(\w+).*",
        r"TMA is not available from \1 to \2: it copies between global and shared memory, both of one "
        "element type, rows a multiple of 16 bytes.",
    ),
    (
        r"(?s:.*)wgmma_gemm\(\) requires Hopper WGMMA lowering(?s:.*)",
        "T.wgmma_gemm takes whole warpgroups: 128 threads for each 64 rows of the tile, or more rows, have "
        "to come to it, and no part of a warpgroup.",
    ),
    (
        r"(?s:.*)Immutable variable `(\w+)` is used outside its defining region(?s:.*)",
        r"`\1` is set inside an `if` or a loop and used outside it. Set it before, or use it inside.",
    ),
    (r"\Ano message\Z", "no message. Are rows and columns slices, such as `m : m + block_M`, not numbers?"),
    (
        r"fail to form a gemm(?s:.*)",
        "fail to form a gemm: is A's fragment before B's, and acc the share of one tile of D?",
    ),
    (
        r"invalid layout of A/B/D(?s:.*)",
        "invalid layout of A/B/D: are A and B fragments, and acc what `partition_C` gives of one tile of D?",
    ),
    (
        r"expects `coord` and shape of view are weakly congruent, but got '!cute.layout<\"(.*?):.*?\">', "
        r"'!cute.coord<\"(.*?)\">'",
        r"expects coord and shape of view are weakly congruent: the index is \2, the modes are \1. Write one "
        "for each mode; `None` keeps it.",
    ),
    (
        r"IR verification failed: 'cute.copy' op .*?src and dst need be (\w+) and (\w+)",
        r"src and dst need be \1 and \2. Are the source and the destination of this copy swapped?",
    ),
    (
        r"Expected source and destination tensors to have the same rank, but got (\d+) and (\d+)",
        r"source and destination have \1 and \2 modes, not the same rank. Is one of them not this thread's "
        "share (`partition_S`, `partition_D`, `retile`)?",
    ),
    (
        r"mbarrier must be a cluster barrier, but got <.*?of (\w+)>",
        r"`\1` is a barrier of one CTA, and this arrives on another CTA's: allocate it with "
        "`T.alloc_cluster_barrier`.",
    ),
    (
        r"`copy` currently only supports equal source and destination element type bit width",
        "`copy` needs equal element types. Convert to fp16 first: registers `out`, not `acc`.",
    ),
)


def explained(message: str) -> str:
    """A compiler's message, in words that say what to change where they are known."""
    for pattern, meaning in MEANING:
        if re.search(pattern, message):
            return re.sub(pattern, meaning, message, count=1)
    return message
