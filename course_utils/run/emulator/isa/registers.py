"""Registers under a mask: which lanes a guard leaves, and what a write by some lanes makes of a register."""

from __future__ import annotations

from typing import Any

import numpy as np

from course_utils.run.emulator.isa.arithmetic import LANES, UNSIGNED
from course_utils.run.emulator.isa.lowered import Mask, Value

_NONE = bytes(LANES)  # no lane of a mask


def both(predicate: np.ndarray, mask: Mask) -> np.ndarray | bool:
    """The lanes of ``mask`` (None: all) where a guard holds; False where there are none."""
    lanes = predicate if mask is None else predicate & mask
    return False if lanes.tobytes() == _NONE else lanes


def merge(old: Any, new: Any, mask: Mask, width: int) -> Value:
    """A register after a write by some lanes only."""
    if mask is None or old is None or old is new:
        return new
    if old.__class__ is new.__class__ and old.__class__ in (int, bool) and old == new:
        return new
    result: np.ndarray = np.empty(LANES, UNSIGNED[max(width, 16)] if width > 1 else np.bool_)
    result[:] = old
    result[mask] = new[mask] if isinstance(new, np.ndarray) else new
    return result
