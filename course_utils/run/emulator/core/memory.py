"""Memories and their addresses. PTX ISA, "State Spaces"; bounds and alignment are checked on every access.

Addresses are numbers of the emulator's own choosing. Shared memory of the CTA of rank r in its cluster begins
at ``r << 24 | 0x400``, as on the chip, so a shared::cta address is a shared::cluster address too. A generic
address is a shared one plus ``GENERIC_SHARED``; tensors lie 2^40 apart, and the kernel's parameters behind
``PARAMETERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from course_utils.run.emulator.isa.arithmetic import LANES
from course_utils.run.emulator.isa.lowered import Mask, Value

SHARED_BASE = 0x400
RANK_SHIFT = 24
GENERIC_SHARED = 1 << 56
GENERIC_LOCAL = 1 << 57
PARAMETERS = 1 << 58
TENSOR_SHIFT = 40
# What shared memory holds that nothing has written, so that it is seen in the numbers where it counts: the
# bytes of a large negative fp16 number, and where a kernel runs again of a large positive one and of NaN
FILLERS = (0xEF, 0x6F, 0xFF)
KNOWN = 1 << 12  # accesses to shared memory that are remembered
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
        # accesses that were looked at, by id: the addresses, how they were used, the offsets. Threads use the
        # same ones again: see ``translate.Program``
        self.known: dict[int, tuple[np.ndarray, tuple[str, int], np.ndarray]] = {}
        # 16 bytes, what TMA swizzles and wgmma reads by
        self.units = self.data.view(np.uint64).reshape(-1, 2)
        self.reset()

    def reset(self) -> None:
        self.data[:] = self.filler

    def know(self, address: np.ndarray, used: tuple[str, int], offsets: np.ndarray) -> None:
        """Remember where these addresses lead."""
        if len(self.known) >= KNOWN:
            self.known.clear()
        self.known[id(address)] = address, used, offsets


def pick(value: Value, lane: int) -> int:
    """One lane of a value."""
    return int(value[lane]) if isinstance(value, np.ndarray) else value


def lanes_of(mask: Mask) -> Sequence[int]:
    """The active lanes' numbers; None is all 32."""
    if mask is None:
        return _EVERY_LANE
    lanes = mask.tobytes()
    first = lanes.find(1)
    if lanes.find(1, first + 1) < 0:  # nearly always one, that was elected
        return [first] if first >= 0 else []
    return np.flatnonzero(mask).tolist()
