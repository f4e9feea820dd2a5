"""Could a Hopper chip start this launch at all?"""

import math

from course_utils.artifact import CLUSTER_LIMIT, GRID_LIMITS, SHARED_LIMIT, THREAD_LIMIT
from course_utils.compile.errors import CompileError


def require_fits(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
    shared: int,
    tiles: str = "",
) -> None:
    """Raise CompileError where no GPU of compute capability 9.0 could start this.

    ``shared`` is bytes a CTA; ``tiles`` says what takes them, where that is known.
    """
    threads, ctas = math.prod(block), math.prod(cluster)
    if not all(1 <= extent <= limit for extent, limit in zip(grid, GRID_LIMITS, strict=True)):
        raise CompileError(
            "limit",
            f"the grid is {_words(grid)}; each extent must be 1 or more, x at most {GRID_LIMITS[0]:,}, "
            f"y and z at most {GRID_LIMITS[1]:,}. Does M, N or the tile come out as 0?",
        )
    if not 1 <= threads <= THREAD_LIMIT:
        raise CompileError(
            "limit", f"the kernel asks for {threads} threads a CTA; Hopper allows {THREAD_LIMIT}"
        )
    if ctas > CLUSTER_LIMIT:
        raise CompileError(
            "limit", f"the kernel asks for a cluster of {ctas} CTAs; Hopper allows {CLUSTER_LIMIT}"
        )
    if any(extent % size for extent, size in zip(grid, cluster, strict=True)):
        raise CompileError(
            "limit",
            f"the grid is {_words(grid)} and the cluster {_words(cluster)}; each extent of the grid must "
            "be a multiple of the cluster's",
        )
    if shared > SHARED_LIMIT:
        raise CompileError(
            "limit",
            f"the kernel asks for {shared:,} bytes of shared memory; an SM of sm_90 gives a CTA at "
            f"most {SHARED_LIMIT:,}. Use fewer stages or a smaller tile{f': {tiles}' * bool(tiles)}.",
        )


def _words(extents: tuple[int, int, int]) -> str:
    return " x ".join(map(str, extents))
