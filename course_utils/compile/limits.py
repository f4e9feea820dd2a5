"""Could a chip start this launch at all?"""

import math

from course_utils.chips import HOME, Chip
from course_utils.compile.errors import CompileError


def require_fits(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    cluster: tuple[int, int, int],
    shared: int,
    tiles: str = "",
    chip: Chip = HOME,
) -> None:
    """Raise CompileError where ``chip`` could not start this.

    ``shared`` is bytes a CTA; ``tiles`` says what takes them, where that is known.
    """
    threads, ctas = math.prod(block), math.prod(cluster)
    refused = ""
    if not all(1 <= extent <= limit for extent, limit in zip(grid, chip.grid, strict=True)):
        refused = (
            f"the grid is {_words(grid)}; each extent must be 1 or more, x at most {chip.grid[0]:,}, "
            f"y and z at most {chip.grid[1]:,}. Does M, N or the tile come out as 0?"
        )
    elif not 1 <= threads <= chip.threads:
        refused = f"the kernel asks for {threads} threads per CTA; {chip.family} allows {chip.threads}"
    elif ctas > chip.cluster:
        refused = f"the kernel asks for a cluster of {ctas} CTAs; {chip.family} allows {chip.cluster}"
    elif any(extent % size for extent, size in zip(grid, cluster, strict=True)):
        refused = f"the grid is {_words(grid)} and the cluster {_words(cluster)}; "
        refused += "each extent of the grid must be a multiple of the cluster's"
    elif shared > chip.shared:
        refused = (
            f"the kernel asks for {shared:,} bytes of shared memory; an SM of {chip.arch.rstrip('a')} gives "
            f"a CTA at most {chip.shared:,}. Use fewer stages or a smaller tile{f': {tiles}' * bool(tiles)}."
        )
    if refused:
        raise CompileError("limit", refused)


def _words(extents: tuple[int, int, int]) -> str:
    return " x ".join(map(str, extents))
