"""What lies at an address: the memory and the offset of an access, with bounds and alignment checked."""

from __future__ import annotations

from typing import NoReturn

import numpy as np

from course_utils.run.emulator.core.memory import (
    GENERIC_LOCAL,
    GENERIC_SHARED,
    PARAMETERS,
    Region,
    SharedMemory,
)
from course_utils.run.emulator.core.threads import Path
from course_utils.run.emulator.isa.lowered import Mask, Value


def locate(path: Path, mask: Mask, address: Value, space: str, count: int) -> tuple[Region, Value]:
    """(region, offsets) of an access of ``count`` bytes by each active lane; offsets of active lanes only.

    Offsets are an int where the address is uniform. Lanes must all fall into one region.
    """
    uniform = address.__class__ is int
    shared = path.cta.shared
    if not uniform and mask is None:
        known = shared.known.get(id(address))
        if known is not None and known[0] is address and known[1] == (space, count):
            return shared, known[2]
    if not uniform and mask is not None:
        address = address[mask]
    first = address if uniform else int(address[0])
    region, base = _region(path, first, space, mask)
    if uniform:
        offsets = first - base
        require_inside(path, region, offsets, count)
        return region, offsets
    offsets = address.astype(np.int64) - base
    bits = int(np.bitwise_or.reduce(offsets))  # at least the largest offset, and negative if any is
    if bits >= 0 and not bits & (count - 1) and bits + count <= region.size:
        if region is shared and mask is None:
            shared.know(address, (space, count), offsets)
        return region, offsets
    wrong = (offsets.view(np.uint64) > max(region.size - count, 0)) | ((offsets & (count - 1)) != 0)
    if wrong.any():
        off = offsets[wrong]
        misaligned = off[(off & (count - 1)) != 0]
        if len(misaligned):
            not_aligned(path, int(misaligned[0]), count)
        _out_of_bounds(path, region, int(off[0]))
    return region, offsets


def locate_shared(
    path: Path, mask: Mask, address: Value, space: str, count: int
) -> tuple[SharedMemory, Value]:
    """``locate`` of an address that can only be shared memory's."""
    region, offsets = locate(path, mask, address, space, count)
    assert isinstance(region, SharedMemory)
    return region, offsets


def _region(path: Path, address: int, space: str, mask: Mask) -> tuple[Region, int]:
    if space == "generic":
        if address >= PARAMETERS:
            space = "param"
        elif address >= GENERIC_LOCAL:
            space, address = "local", address - GENERIC_LOCAL
            region, base = _region(path, address, space, mask)
            return region, base + GENERIC_LOCAL
        elif address >= GENERIC_SHARED:
            region, base = _region(path, address - GENERIC_SHARED, "shared::cluster", mask)
            return region, base + GENERIC_SHARED
        else:
            space = "global"
    if space == "global":
        found = path.machine.global_region(address)
        if found is None:
            path.halt("out-of-bounds", "no tensor at the address", who=path.warp, address=address)
        return found
    if space in ("shared", "shared::cta", "shared::cluster"):
        return path.cta.cluster.shared_of(path, address)
    if space == "param":
        return path.machine.parameters, PARAMETERS
    if space == "local":
        return path.warp.local_memory(), 0
    raise AssertionError(space)


def require_inside(path: Path, region: Region, offset: int, count: int) -> None:
    """A fault where ``count`` bytes at an offset leave a region, or do not divide the offset."""
    if offset < 0 or offset + count > region.size:
        _out_of_bounds(path, region, offset)
    if offset % count:
        not_aligned(path, offset, count)


def _out_of_bounds(path: Path, region: Region, offset: int) -> NoReturn:
    path.halt("out-of-bounds", "an access", region=region, offset=offset)


def not_aligned(path: Path, offset: int, count: int) -> NoReturn:
    """An access of ``count`` bytes at an offset that they do not divide."""
    path.halt("misaligned", "misaligned access", who=path.warp, count=count, offset=offset)
