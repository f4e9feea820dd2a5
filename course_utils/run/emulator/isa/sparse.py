"""Sparse matrices of the tensor core: half of each row of A is zero, and metadata says which half.

PTX ISA, "Sparse matrix storage" and the metadata of wgmma.mma_async.sp and mma.sp. Of four elements two are
stored, with two bits each for their places; of two tf32 elements one, with four bits.
"""

from __future__ import annotations

import numpy as np

from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.isa.elements import ELEMENT_BITS

_LANE = np.arange(LANES)
_ROW, _QUAD = _LANE // 4, _LANE % 4
ROWS = 16  # of a warp's A


def nibbles(metadata: np.ndarray, selector: int, kind: str, K: int) -> np.ndarray:
    """The four bits of each chunk of a warp's A, 16 rows of them, from the register of its 32 lanes.

    ``selector`` says which lanes of each four have them: of 8-bit types all, else a pair, or one lane where
    that is enough. Raises ValueError for a selector that there is not.
    """
    chunks = K // (2 if kind == "tf32" else 4)
    words = np.asarray(metadata, np.uint32)[:, None] >> np.arange(0, 32, 4, dtype=np.uint32) & np.uint32(15)
    found = np.zeros((ROWS, chunks), np.uint8)
    if ELEMENT_BITS[kind] == 8:  # a lane has 32 columns of one row
        if selector:
            raise ValueError(f"the sparsity selector {selector}")
        for lane in _LANE:
            begin = 8 * (_QUAD[lane] // 2)
            found[_ROW[lane] + 8 * (_QUAD[lane] % 2), begin : begin + 8] = words[lane]
        return found
    lanes = chunks // 4  # of each four; a lane has four chunks of a row, and four of the row 8 below
    if selector not in range(4 // lanes):
        raise ValueError(f"the sparsity selector {selector}")
    for lane in _LANE[_QUAD // lanes == selector]:
        begin = 4 * (_QUAD[lane] % lanes)
        found[_ROW[lane], begin : begin + 4] = words[lane, :4]
        found[_ROW[lane] + 8, begin : begin + 4] = words[lane, 4:]
    return found


def is_broken(found: np.ndarray, kind: str) -> bool:
    """Does metadata name one place twice, or a part of a tf32 element? The result is undefined then."""
    if kind == "tf32":
        return not np.isin(found, (0b0100, 0b1110)).all()
    return bool((found & 3 == found >> 2).any())


def expanded(stored: np.ndarray, found: np.ndarray, kind: str) -> np.ndarray:
    """The rows of A with their zeros. ``stored`` has half as many columns, or a multiple of that many."""
    rows, chunks = found.shape
    whole, kept = (2, 1) if kind == "tf32" else (4, 2)
    parts = stored.reshape(rows, chunks, kept, -1)
    made = np.zeros((rows, chunks, whole, parts.shape[-1]), stored.dtype)
    row, chunk = np.indices(found.shape)
    for i in range(kept):
        place = (found >> 3 if kind == "tf32" else found >> 2 * i) & 3
        made[row, chunk, place] = parts[:, :, i]
    return made.reshape(rows, -1)
