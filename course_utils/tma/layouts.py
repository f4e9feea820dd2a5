"""Where the bytes of a TMA tile lie in shared memory, what they cost to read, and when two tensor maps move
the same bytes.

Offsets and sizes are bytes; shapes and boxes are elements, innermost dimension first, as in
``cuTensorMapEncodeTiled``; a swizzle is the driver's code: 0 none, 1 32B, 2 64B, 3 128B. Each docstring names
its source: the PTX ISA, "Tensors: Swizzling Modes"; the driver API's page of cuTensorMapEncodeTiled; the CUDA
programming guide on TMA swizzle and on shared-memory banks; or "observed on H200, driver 580"
(tests/data/tma_boxes.json).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

import numpy as np

from course_utils.artifact import (
    BOX_LIMIT,
    ELEMENT_BYTES,
    SWIZZLE_BYTES,
    SWIZZLE_PATTERN_BYTES,
    SWIZZLES,
    TMA_ALIGNMENT,
    TensorMap,
)
from course_utils.tma.rules import violations

UNIT = 16  # bytes that a swizzle moves together, and the grain of every bulk copy
BANKS, BANK_BYTES = 32, 4


class LayoutError(ValueError):
    """Two layouts that do not agree. The text says in which number."""


# Swizzled tiles


Bytes = TypeVar("Bytes", int, np.ndarray)


def swizzled(offset: Bytes, swizzle: int, base_offset: int = 0) -> Bytes:
    """Byte offset in shared memory at which the byte at ``offset`` of the unswizzled tile lies.

    ``offset`` is a number or an integer array of them. Both count from the tile's start, and the tile starts
    at a multiple of ``base_alignment``; row r, byte c of a tile is at ``r * row_pitch(row_bytes, swizzle) +
    c`` before swizzling. Swizzle 128B exchanges address bits 4 to 6 by bits 7 to 9 (exclusive or), 64B bits 4
    and 5 by 7 and 8, 32B bit 4 by bit 7; so 16 bytes stay together and each row keeps its span.
    ``base_offset`` is a wgmma descriptor's: the 128-byte line of the pattern that the tile starts in, where
    that is not the first. Source: PTX ISA, "Swizzling modes" and "Matrix descriptor format"; observed on
    H200, driver 580. Raises ValueError for a negative offset and for a code other than 0 to 3.
    """
    _check_swizzle(swizzle)
    if np.any(offset < 0):
        raise ValueError(f"an offset in a tile is 0 or more bytes, not {np.min(offset)}")
    return offset ^ ((offset >> 7) - base_offset & (1 << swizzle) - 1) << 4


def row_pitch(row_bytes: int, swizzle: int) -> int:
    """Bytes from one row of a box to the next in shared memory.

    The row itself without a swizzle; with one the whole span (32, 64 or 128 bytes), also where the row is
    narrower: observed on H200, driver 580. Raises ValueError where the row is no multiple of 16 bytes or
    wider than the span (both limits are cuTensorMapEncodeTiled's), and for a code other than 0 to 3.
    """
    _check_swizzle(swizzle)
    if row_bytes < UNIT or row_bytes % UNIT:
        raise ValueError(f"a row of a box is a multiple of {UNIT} bytes, not {row_bytes}")
    if not swizzle:
        return row_bytes
    span = SWIZZLE_BYTES[swizzle]
    if row_bytes > span:
        raise ValueError(
            f"a row of {row_bytes} bytes does not fit in the {span} bytes of swizzle {SWIZZLES[swizzle]}"
        )
    return span


def tile_bytes(rows: int, row_bytes: int, swizzle: int) -> int:
    """Bytes of shared memory that a tile has to allocate: ``rows`` times ``row_pitch``. Observed on H200,
    driver 580.

    More than the load counts (``expected_bytes``) where the row is narrower than the swizzle's span: 8 rows
    of 48 bytes with swizzle 128B take 1,024 bytes and add 384 to the mbarrier. The bytes between are not
    written. Raises ValueError as ``row_pitch`` does, and for fewer rows than one.
    """
    if rows < 1:
        raise ValueError(f"a tile has at least 1 row, not {rows}")
    return rows * row_pitch(row_bytes, swizzle)


def expected_bytes(tensor_maps: Iterable[TensorMap]) -> int:
    """Bytes that one load of each of these maps adds to an mbarrier: what ``expect_tx`` has to say.

    The sum of the maps' ``box_bytes``. The whole box counts, also the part that lies outside the tensor and
    is filled, and nothing of the gaps that a narrow tile leaves (observed on H200, driver 580); what has to
    be allocated is ``tile_bytes``, which is then more. Raises ValueError for a map whose arrays differ in
    length.
    """
    return sum(tensor_map.box_bytes for tensor_map in tensor_maps)


def base_alignment(swizzle: int) -> int:
    """Bytes of which a tile's start in shared memory has to be a multiple.

    TMA itself asks for 128 (PTX ISA, cp.async.bulk.tensor). It swizzles the address and not the offset in the
    tile, so whoever computes with offsets needs the repeat of the pattern: 256, 512 or 1,024 bytes for
    swizzle 32B, 64B, 128B (CUDA programming guide; observed on H200, driver 580: a tile that begins 128 bytes
    later has its pieces exchanged in another way). Raises ValueError for a code other than 0 to 3.
    """
    _check_swizzle(swizzle)
    return max(TMA_ALIGNMENT, SWIZZLE_PATTERN_BYTES[swizzle])


def _check_swizzle(swizzle: int) -> None:
    if swizzle not in range(len(SWIZZLE_PATTERN_BYTES)):
        raise ValueError(f"a swizzle on Hopper is 0 (none), 1 (32B), 2 (64B) or 3 (128B), not {swizzle}")


# Banks


def bank(offset: int) -> int:
    """Which of the 32 banks holds the byte at ``offset``: neighbouring 4-byte words lie in neighbouring
    banks.

    Source: CUDA programming guide, shared memory, compute capability 5.x and up. Raises ValueError for a
    negative offset.
    """
    if offset < 0:
        raise ValueError(f"an offset in shared memory is 0 or more bytes, not {offset}")
    return offset // BANK_BYTES % BANKS


def conflicts(offsets: Iterable[int]) -> int:
    """The most 4-byte words that one bank must give when up to 8 lanes read 16 bytes each, together: 1 is
    free of conflicts.

    ``offsets`` are bytes, one a lane. Eight lanes of 16 bytes take all 128 bytes that the banks give in one
    turn; so ldmatrix reads the eight rows of a matrix of halves (PTX ISA, ldmatrix). Lanes that read the same
    word share it (CUDA programming guide, shared-memory banks). Raises ValueError for no offset, for more
    than 8, and for one that is no multiple of 16.
    """
    offsets = list(offsets)
    if not 1 <= len(offsets) <= BANKS * BANK_BYTES // UNIT:
        raise ValueError(
            f"1 to {BANKS * BANK_BYTES // UNIT} lanes read 16 bytes each in one turn, not {len(offsets)}"
        )
    if wrong := [offset for offset in offsets if offset % UNIT]:
        raise ValueError(f"a piece of 16 bytes lies at a multiple of 16, not at {wrong[0]}")
    words = {word for offset in offsets for word in range(offset, offset + UNIT, BANK_BYTES)}
    banks = [bank(word) for word in words]
    return max(map(banks.count, banks))


# Three dimensions or two


def flattened(tensor_map: TensorMap) -> TensorMap:
    """A rank-3 map as the rank-2 map that moves the same bytes to the same places: its two outer dimensions
    become one.

    A box at coordinates (x, y, z) is the flattened map's at (x, y + middle extent * z), as long as it does
    not cross the edge of the middle dimension: there the rank-3 map fills (and its store leaves out) what the
    rank-2 map takes from the next slab. ``same_payload`` answers for given coordinates.

    Raises LayoutError unless the outer stride is the middle stride times the middle extent, and the box takes
    the whole middle dimension or only 1 of the outer one: otherwise its rows are not evenly spaced. Also
    where the merged box has more than 256 rows or the merged dimension more than 2^32; where the map is
    interleaved or steps over rows; where it is not legal or not of rank 3. The limits are
    cuTensorMapEncodeTiled's, the rest is arithmetic.
    """
    if broken := violations(tensor_map):
        raise LayoutError(f"the tensor map is not legal as it is: {broken[0]}")
    if tensor_map.rank != 3:
        raise LayoutError(
            f"only a rank-3 map has two outer dimensions to merge; this one has rank {tensor_map.rank}"
        )
    if tensor_map.interleave:
        raise LayoutError("an interleaved map needs a rank of 3 or more")
    if tensor_map.element_strides[1:] != (1, 1):
        raise LayoutError(
            f"element strides {tensor_map.element_strides[1:]} step over rows, each outer dimension on its "
            "own"
        )
    (columns, middle, outer), (row_stride, slab_stride) = tensor_map.dims, tensor_map.strides
    width, box_middle, box_outer = tensor_map.box
    if slab_stride != row_stride * middle:
        raise LayoutError(
            f"the outer stride is {slab_stride:,} bytes, and {middle:,} rows of {row_stride:,} bytes are "
            f"{row_stride * middle:,}: a row stride does not lead from one slab to the next"
        )
    if box_middle != middle and (box_outer != 1 or box_middle > middle):
        raise LayoutError(
            f"the box takes {box_middle} rows of {box_outer} slabs, and a slab has {middle:,}: they are not "
            "one run "
            "of rows. The box must take all rows of each slab, or some rows of one"
        )
    rows = box_middle * box_outer
    if rows > BOX_LIMIT:
        raise LayoutError(
            f"the merged box has {box_middle} x {box_outer} = {rows:,} rows, and a box has at most "
            f"{BOX_LIMIT}"
        )
    flat = replace(
        tensor_map,
        dims=(columns, middle * outer),
        strides=(row_stride,),
        box=(width, rows),
        element_strides=(tensor_map.element_strides[0], 1),
    )
    if broken := violations(flat):
        raise LayoutError(f"the flattened map is not legal: {broken[0]}")
    return flat


def same_payload(
    three_d: TensorMap, two_d: TensorMap, coordinates3: Sequence[int], coordinates2: Sequence[int]
) -> bool:
    """Do these two boxes hold the same elements in the same order?

    Coordinates are elements, innermost first. The byte offsets of all elements are counted out and compared;
    an element outside its tensor counts as fill. With the same row of the box and the same swizzle the bytes
    then also lie at the same places. Raises ValueError where coordinates do not fit the rank, LayoutError for
    an interleaved map.
    """
    offsets3, offsets2 = _element_offsets(three_d, coordinates3), _element_offsets(two_d, coordinates2)
    if ELEMENT_BYTES[three_d.data_type] != ELEMENT_BYTES[two_d.data_type] or not np.array_equal(
        offsets3, offsets2
    ):
        return False
    fills = {(m.oob_fill, m.data_type if m.oob_fill else 0) for m in (three_d, two_d)}
    return len(fills) == 1 or bool((offsets3 >= 0).all())


def _element_offsets(tensor_map: TensorMap, coordinates: Sequence[int]) -> np.ndarray:
    """Byte offset in the tensor of each element of the box, in its order; -1 outside the tensor."""
    if len(coordinates) != tensor_map.rank:
        raise ValueError(f"a box of rank {tensor_map.rank} needs as many coordinates, not {len(coordinates)}")
    if tensor_map.interleave:
        raise LayoutError("the elements of interleaved maps are not counted out")
    offsets, inside = np.zeros(1, np.int64), np.ones(1, bool)
    strides = (ELEMENT_BYTES[tensor_map.data_type], *tensor_map.strides)
    extents = zip(coordinates, tensor_map.dims, strides, tensor_map.box, tensor_map.steps, strict=True)
    for start, dim, stride, extent, step in extents:
        at = start + np.arange(0, extent, step)
        offsets = (at[:, None] * stride + offsets).reshape(-1)
        inside = (((at >= 0) & (at < dim))[:, None] & inside).reshape(-1)
    return np.where(inside, offsets, -1)


# The box, the tile, the kernel


def boxes(box: Sequence[int], tile_shape: Sequence[int]) -> int:
    """How many boxes of a tensor map, so how many TMA instructions, a tile takes.

    Both are elements, in the same order. Raises ValueError, "box against tile", where they have not as many
    dimensions, one has an extent below 1, or the box does not divide the tile: TMA moves whole boxes.
    """
    box, tile_shape = tuple(box), tuple(tile_shape)
    if len(box) != len(tile_shape):
        raise ValueError(f"box against tile: {len(box)} dimensions against {len(tile_shape)}")
    if min(box + tile_shape, default=1) < 1:
        raise ValueError(f"box against tile: an extent below 1 in {box} or {tile_shape}")
    for i, (part, whole) in enumerate(zip(box, tile_shape, strict=True)):
        if whole % part:
            raise ValueError(f"box against tile: {part} does not divide {whole} in dimension {i}")
    return prod(whole // part for part, whole in zip(box, tile_shape, strict=True))


def store_tail(elements: int, element_bytes: int) -> int:
    """Bytes past the last multiple of 16: what a 1-D bulk copy of so many elements cannot move. 0 is fine.

    Source: PTX ISA, cp.async.bulk: its size is a multiple of 16 bytes. Raises ValueError for a negative count
    and for an element of less than 1 byte.
    """
    if elements < 0 or element_bytes < 1:
        raise ValueError(f"{elements} elements of {element_bytes} bytes")
    return elements * element_bytes % UNIT
