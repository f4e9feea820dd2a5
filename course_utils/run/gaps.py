"""Which columns, or rows, of D were never written, where 64 x 64 blocks say nothing of the tiles."""

from __future__ import annotations

from itertools import pairwise

import torch

from course_utils.cause import Cause

NARROW = 64  # columns: what is missing of each so few is a thread's or a warp's part


def found(unwritten: torch.Tensor) -> Cause | None:
    """The same columns of tiles of any width, or one band across D; None for any other gaps."""
    if each := _of_each(unwritten):
        begin, end, width, first, last = each
        columns, lacking = unwritten.shape[1], unwritten[:, first:last].any(0)
        whole = bool(torch.equal(lacking, unwritten[:, first:last].all(0)))
        values = {"columns": (begin, end), "width": width}
        if whole and first == 0 and columns - last <= begin:
            return Cause("unwritten", "columns-of-each", values)
        return Cause("unwritten", "columns-of-some", values | {"tiles": (first, last)})
    for axis, mask in (("columns", unwritten), ("rows", unwritten.T)):
        runs = _runs(mask.any(0))
        if len(runs) == 1 and bool(torch.equal(mask.all(0), mask.any(0))):
            return Cause("unwritten", f"band-of-{axis}", {axis: runs[0]})
    return None


def _of_each(unwritten: torch.Tensor) -> tuple[int, int, int, int, int] | None:
    """(begin, end, width, first, last): of D[:, first:last], begin:end of each ``width`` lacks something."""
    runs = _runs(unwritten.any(0))
    if len(runs) < 2:
        return None
    width, length = runs[1][0] - runs[0][0], runs[0][1] - runs[0][0]
    begin = runs[0][0] % width
    even = all(two[0] - one[0] == width for one, two in pairwise(runs))
    # the last tile may hang over D's edge
    alike = all(end - start == length for start, end in runs[:-1]) and runs[-1][1] - runs[-1][0] <= length
    if width <= NARROW or not even or not alike or begin + length > width:
        return None
    first, last = runs[0][0] - begin, min(runs[-1][0] - begin + width, unwritten.shape[1])
    return begin, begin + length, width, first, last


def _runs(hit: torch.Tensor) -> list[tuple[int, int]]:
    """(begin, end) of each run of true ones."""
    padded = torch.nn.functional.pad(hit.to(torch.int8), (1, 1))
    edges = padded.diff().nonzero().flatten().tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))
