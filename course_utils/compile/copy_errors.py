"""The two sides of a tile copy of TileLang's that it refuses: their shapes, element types and memories.

TileLang 0.1.15 names one extent of each, or two buffers and no reason.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

MEMORIES = {"global": "global memory", "shared": "shared memory", "shared.dyn": "shared memory"}


@dataclass(frozen=True)
class Side:
    """What a copy takes of the buffer ``name``: so many elements of each axis, 0 where that is no constant;
    ``whole``: all of its axes, of which none is written.
    """

    name: str
    extents: tuple[int, ...]
    dtype: str
    memory: str
    whole: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Without axes of one element."""
        return tuple(extent for extent in self.extents if extent != 1) or (1,)

    def __str__(self) -> str:
        return " x ".join(map(str, self.shape))


def explained(copy: Any, message: str) -> str:
    """What is wrong with the two sides of ``copy``, a call of TileLang's IR, which the compiler refuses with
    this message; "" where it says something else, or the call cannot be read.
    """
    shapes = re.search(r"Selected loop range is smaller|Shared tile and global tile shape mismatch", message)
    if not shapes and "TMA is not available" not in message:
        return ""
    try:
        source, target = (_side(region) for region in list(copy.args)[:2])
    except (AttributeError, IndexError, TypeError, ValueError):
        return ""
    return _shapes(source, target) if shapes else _no_tma(source, target)


def _side(region: Any) -> Side:
    first, _, *extents = region.args
    buffer = first.buffer
    taken = tuple(int(extent) if hasattr(extent, "value") else 0 for extent in extents)
    shape = tuple(int(extent) if hasattr(extent, "value") else 0 for extent in buffer.shape)
    scope = str(buffer.scope())
    return Side(str(buffer.name), taken, str(buffer.dtype), MEMORIES.get(scope, "registers"), taken == shape)


def _shapes(source: Side, target: Side) -> str:
    if source.shape == target.shape or 0 in source.shape + target.shape:
        return ""
    told = (
        f"the two sides of this copy have different shapes: {source.name}'s is {source}, {target.name}'s "
        f"{target}"
    )
    for side, other in ((source, target), (target, source)):
        if side.whole and side.memory != "global memory" and len(side.shape) > len(other.shape):
            free = ", ".join(":" for _ in side.extents[1:])
            return f"{told}. Write all indices of a tile with stages: `{side.name}[stage, {free}]`."
    for side in (source, target):
        if side.whole and side.memory == "global memory":
            return f"{told}. Slice {side.name}."
    return f"{told}. Slice both in the same way."


def _no_tma(source: Side, target: Side) -> str:
    told = f"TMA is not available from {source.name} to {target.name}: "
    if {source.memory, target.memory} != {"global memory", "shared memory"}:
        where = f"{source.name} is in {source.memory}, {target.name} in {target.memory}"
        return f"{told}it copies between global and shared memory, and {where}."
    if source.dtype != target.dtype:
        types = f"{source.name} is {source.dtype}, {target.name} {target.dtype}"
        return f"{told}{types}, and it converts no element type."
    return f"{told}rows, and what lies between them, have to be a multiple of 16 bytes."
