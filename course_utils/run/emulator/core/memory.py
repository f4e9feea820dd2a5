"""Memories and their addresses. PTX ISA, "State Spaces"; bounds and alignment are checked on every access.

Addresses are numbers of the emulator's own choosing. Shared memory of the CTA of rank r in its cluster begins
at ``r << 24 | 0x400``, as on the chip, so a shared::cta address is a shared::cluster address too. A generic
address is a shared one plus ``GENERIC_SHARED``; tensors lie 2^40 apart, and the kernel's parameters behind
``PARAMETERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.isa.lowered import Mask, Value

if TYPE_CHECKING:
    from course_utils.run.emulator.core.warp import Path

SHARED_BASE = 0x400
RANK_SHIFT = 24
GENERIC_SHARED = 1 << 56
GENERIC_LOCAL = 1 << 57
PARAMETERS = 1 << 58
TENSOR_SHIFT = 40
# What shared memory holds that nothing has written, so that it is seen in the numbers where it counts: the
# bytes of a large negative fp16 number, and where a kernel runs again of a large positive one and of NaN
FILLERS = (0xEF, 0x6F, 0xFF)
_EVERY_LANE = list(range(LANES))


class Region:
    """Plain bytes with a name: a tensor, the parameters, a thread's local memory."""

    def __init__(self, name: str, data: np.ndarray, describe: Callable[[int], str] | None = None) -> None:
        self.name, self.data, self.size = name, data, len(data)
        whole = len(data) - len(data) % 8
        self.views = {
            8: data,
            16: data[: len(data) - len(data) % 2].view(np.uint16),
            32: data[: len(data) - len(data) % 4].view(np.uint32),
            64: data[:whole].view(np.uint64),
        }
        self.describe = describe or (lambda offset: f"byte {offset:,} of {name}, which has {self.size:,}")


class Tensor(Region):
    """A tensor in global memory, of ``element`` bytes each."""

    def __init__(
        self, name: str, data: np.ndarray, describe: Callable[[int], str] | None, element: int
    ) -> None:
        super().__init__(name, data, describe)
        self.element = element


class SharedMemory(Region):
    """One CTA's shared memory. ``filler`` is what each byte holds that nothing has written."""

    def __init__(self, size: int, filler: int) -> None:
        super().__init__("shared memory", np.zeros(-(-size // 64) * 64, np.uint8))
        self.size, self.filler = size, filler
        # 16 bytes, what TMA swizzles and wgmma reads by
        self.units = self.data.view(np.uint64).reshape(-1, 2)
        self.reset()

    def reset(self) -> None:
        self.data[:] = self.filler


def pick(value: Value, lane: int) -> int:
    """One lane of a value."""
    return int(value[lane]) if isinstance(value, np.ndarray) else value


def lanes_of(mask: Mask) -> Sequence[int]:
    """The active lanes' numbers; None is all 32."""
    return _EVERY_LANE if mask is None else np.flatnonzero(mask).tolist()


def locate(path: Path, mask: Mask, address: Value, space: str, count: int) -> tuple[Region, Value]:
    """(region, offsets) of an access of ``count`` bytes by each active lane; offsets of active lanes only.

    Offsets are an int where the address is uniform. Lanes must all fall into one region.
    """
    uniform = address.__class__ is int
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
