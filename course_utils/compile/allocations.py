"""What a CuTe DSL kernel allocates in shared memory, from the MLIR that its trace leaves.

``SmemAllocator`` writes one ``cute.memref.alloca`` for each allocation, and the compiler places them one
after the other (nvidia-cutlass-dsl 4.8.1).
"""

from __future__ import annotations

import re
from typing import Any

from course_utils.artifact import Allocation

# of the partition of shared memory that authors allocate from: its alignment and bytes
_BYTES = re.compile(r'smem\.partition_id = 1 .*<i8, smem, align<(\d+)>, "(\d+):1">')
_PLACE = re.compile(r'\("([^"]+)":(\d+):')
_SWIZZLE = re.compile(r", S<([1-3]),4,3>>")
_FIELD = re.compile(r'"\w*:(\d+):(\d+)"')  # of a struct: bytes, offset


def of_module(module: Any) -> list[Allocation]:
    """The allocations of a traced module, in order; none where one of them cannot be placed."""
    from cutlass._mlir import ir

    found: list[tuple[str, str]] = []
    swizzles: dict[str, int] = {}  # of the views that the calls make which allocate, by their place

    # an operation's text alone: to ask for its results has the DSL write operations
    def visit(op: Any) -> Any:
        if op.name == "cute.memref.alloca" and ", smem," in (text := str(op)):
            found.append((text, str(op.location)))
        elif op.name == "cute.recast_iter" and (swizzle := _SWIZZLE.search(str(op))):
            swizzles.setdefault(str(op.location), int(swizzle[1]))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    made: list[Allocation] = []
    end = 0
    for text, location in found:
        size, place = _BYTES.search(text), _PLACE.search(location)
        if not size or not place:
            return []
        alignment, count = int(size[1]), int(size[2])
        offset = -(-end // alignment) * alignment
        end = offset + count
        where = place[1], int(place[2])
        fields = [(int(many), int(at)) for many, at in _FIELD.findall(text)]
        # which field of a struct a view is of is not told
        made += [Allocation(offset + at, many, 1, 0, *where) for many, at in fields]
        if not fields:
            made.append(Allocation(offset, count, alignment, swizzles.get(location, 0), *where))
    return made
