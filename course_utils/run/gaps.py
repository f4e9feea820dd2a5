"""Which columns, or rows, of D were never written, where 64 x 64 blocks say nothing of the tiles."""

from __future__ import annotations

from itertools import pairwise

import torch

NARROW = 64  # columns: what is missing of each so few is a thread's or a warp's part
SLICES = "does the store take all of a tile, with all of its slices?"
BAND = "which tile does each store take?"


def told(unwritten: torch.Tensor) -> str:
    """In words: the same columns of tiles of any width, or one band across D; "" for any other gaps."""
    if found := _of_each(unwritten):
        begin, end, width, first, last = found
        columns, lacking = unwritten.shape[1], unwritten[:, first:last].any(0)
        whole = bool(torch.equal(lacking, unwritten[:, first:last].all(0)))
        every = whole and first == 0 and columns - last <= begin
        where = "" if every else f", in tiles of columns {first}:{last} of D"
        return f"Columns {begin}:{end} of each {width} were never written{where}: {SLICES}"
    for name, mask in (("Columns", unwritten), ("Rows", unwritten.T)):
        runs = _runs(mask.any(0))
        if len(runs) == 1 and bool(torch.equal(mask.all(0), mask.any(0))):
            [(begin, end)] = runs
            return f"{name} {begin}:{end} of D were never written, and all others were: {BAND}"
    return ""


def _of_each(unwritten: torch.Tensor) -> tuple[int, int, int, int, int] | None:
    """(begin, end, width, first, last): the columns begin:end of each ``width`` lack something, in the tiles
    of D[:, first:last].
    """
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
