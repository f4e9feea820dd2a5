"""What a TMA operation copies: boxes of a tensor map, or a run of bytes.

PTX ISA, "Tensors" (bounding boxes, out-of-bounds access, swizzling modes).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np

from course_utils.artifact import DATA_TYPES, ELEMENT_BYTES, FIRST_FLOAT_TYPE, TMA_ALIGNMENT, TensorMap
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.isa.arithmetic import UNSIGNED
from course_utils.run.emulator.isa.floats import convert_tf32
from course_utils.run.emulator.units.reductions import NUMBERS, reduced
from course_utils.tma.layouts import UNIT, row_pitch, swizzled, tile_bytes
from course_utils.tma.rules import violations

Coordinates: TypeAlias = tuple[int, ...]  # of a box, innermost first; () where there is no map
Slices: TypeAlias = tuple[slice, ...]
_TF32 = convert_tf32(("rna",))


@lru_cache(maxsize=256)
def swizzled_units(rows: int, row_units: int, swizzle: int, phase: int) -> np.ndarray:
    """Where each 16-byte unit of a box lands, relative to the 1,024-byte line that the tile starts in.

    The box has ``rows`` rows of ``row_units``; ``phase`` is the tile's first unit within that line (0 to 63).
    """
    row_starts = np.arange(rows)[:, None] * row_pitch(row_units * UNIT, swizzle)
    offsets = phase * UNIT + row_starts + np.arange(row_units) * UNIT
    return swizzled(offsets.reshape(-1), swizzle) // UNIT


def fill_of(m: TensorMap) -> int:
    """The bits of an element that lies outside the tensor."""
    if m.oob_fill == 1 and m.data_type >= FIRST_FLOAT_TYPE:
        size = ELEMENT_BYTES[m.data_type]
        return int("7FF7" * (size // 2), 16)  # observed on H200 (tests/data/tma_hardware.json.gz)
    return 0


def rounded(elements: np.ndarray, m: TensorMap) -> np.ndarray:
    """What a load makes of elements. It rounds tfloat32 to 10 bits of fraction, to the nearest; stores keep
    all bits. The recorded loads hold no tie, so ties are a guess: away from zero, as cvt.rna.
    """
    found = np.ascontiguousarray(elements)
    return _TF32(found).reshape(found.shape) if DATA_TYPES[m.data_type].startswith("tfloat32") else found


class TensorView:
    """One tensor map of the launch over its tensor's bytes."""

    def __init__(self, name: str, tensor_map: TensorMap, region: memory.Region) -> None:
        self.name, self.map, self.region = name, tensor_map, region
        self.swizzle, self.alignment = tensor_map.swizzle, TMA_ALIGNMENT
        self.broken = [str(v) for v in violations(tensor_map)]
        if self.broken:
            return
        if tensor_map.interleave:
            self.broken.append("interleaved tensor maps are not modelled by the emulator")
            return
        t, size = tensor_map, ELEMENT_BYTES[tensor_map.data_type]
        self.element = size
        strides = (size, *t.strides)
        last = sum((extent - 1) * stride for extent, stride in zip(t.dims, strides, strict=True)) + size
        if last > region.size:
            self.broken.append(f"it spans {last:,} bytes, and the tensor has {region.size:,}")
            return
        view = region.data[: region.size - region.size % size].view(f"u{size}")
        self.elements = np.lib.stride_tricks.as_strided(view, t.dims[::-1], strides[::-1])
        # Stores and reductions write whole 16-byte pieces, also past the last column (observed on H200)
        self.stored = (-(-t.dims[0] * size // UNIT) * UNIT // size, *t.dims[1:])
        self.spilled = max(last + (self.stored[0] - t.dims[0]) * size - region.size, 0)
        self.pieces = self.elements
        if not self.spilled:
            self.pieces = np.lib.stride_tricks.as_strided(view, self.stored[::-1], strides[::-1])
        self.shape = t.extents[::-1]
        self.bytes = t.box_bytes
        self.units = self.bytes // UNIT
        self.row_units = t.extents[0] * size // UNIT
        # what the tile takes of shared memory: whole swizzle spans
        self.extent = tile_bytes(self.units // self.row_units, self.row_units * UNIT, t.swizzle)
        self.fill = fill_of(t)

    def places(self, phase: int) -> np.ndarray:
        """Where the box's units lie, swizzled: see ``swizzled_units``."""
        return swizzled_units(self.units // self.row_units, self.row_units, self.map.swizzle, phase)

    def slices(self, coordinates: Coordinates, dims: Coordinates = ()) -> tuple[Slices, Slices] | None:
        """The part of the box at these coordinates (innermost first) that lies inside, by default inside the
        map's ``dims``: slices of tensor and of box.
        """
        inside, within = [], []
        extents = zip(coordinates, dims or self.map.dims, self.map.steps, self.map.extents, strict=True)
        for start, dim, step, count in extents:
            first = max(0, -(start // step)) if start < 0 else 0
            stop = min(count, -(-(dim - start) // step)) if dim > start else 0
            if stop <= first:
                return None
            inside.append(slice(start + first * step, start + (stop - 1) * step + 1, step))
            within.append(slice(first, stop))
        return tuple(inside[::-1]), tuple(within[::-1])

    def read(self, coordinates: Coordinates) -> np.ndarray:
        """The box's bytes as (units, 2) 64-bit words, filled where the box leaves the tensor."""
        found = self.slices(coordinates)
        if found and all(w.stop - w.start == n for w, n in zip(found[1], self.shape, strict=True)):
            box = self._loaded(found[0])
        else:
            box = np.full(self.shape, self.fill, self.elements.dtype)
            if found:
                inside, within = found
                box[within] = self._loaded(inside)
        return box.reshape(-1).view(np.uint64).reshape(-1, 2)

    def _loaded(self, inside: Slices) -> np.ndarray:
        return rounded(self.elements[inside], self.map)

    def write(self, coordinates: Coordinates, units: np.ndarray) -> None:
        if found := self.slices(coordinates, self.pieces.shape[::-1]):
            inside, within = found
            self.pieces[inside] = units.reshape(-1).view(self.elements.dtype).reshape(self.shape)[within]

    def leaves_end(self, coordinates: Coordinates) -> bool:
        """Does a store or reduction of this box write a piece past the end of the tensor's memory?"""
        found = self.slices(coordinates, self.stored) if self.spilled else None
        return found is not None and all(
            s.stop == d for s, d in zip(found[0], self.stored[::-1], strict=True)
        )

    def reduce(self, coordinates: Coordinates, units: np.ndarray, operation: str, type_name: str) -> None:
        """Reduce the box into what the tensor holds there (cp.reduce.async.bulk.tensor)."""
        if found := self.slices(coordinates, self.pieces.shape[::-1]):
            inside, within = found
            box = np.ascontiguousarray(units.reshape(-1)).view(self.elements.dtype).reshape(self.shape)
            held = np.ascontiguousarray(self.pieces[inside])
            self.pieces[inside] = reduced(operation, type_name, held, np.ascontiguousarray(box[within]))

    def region_at(self, coordinates: Coordinates) -> str:
        """The box at these coordinates as an index: "A[0:128, 64:128]"."""
        t = self.map
        ranges = [f"{c}:{c + n * s}" for c, n, s in zip(coordinates, t.extents, t.steps, strict=True)][::-1]
        outside = ", which lies outside it" if self.slices(coordinates) is None else ""
        return f"{self.name}[{', '.join(ranges)}]{outside}"

    def box(self, coordinates: Coordinates) -> tuple[tuple[int, int], ...]:
        """The box at these coordinates: where it starts and its size, by axis, outermost first."""
        t = self.map
        return tuple((c, n * s) for c, n, s in zip(coordinates, t.extents, t.steps, strict=True))[::-1]

    def claimed(
        self, owners: np.ndarray, element: int, coordinates: Coordinates
    ) -> tuple[np.ndarray, str] | None:
        """Of an array with a number for each ``element`` bytes of the tensor: the part that this box has, as
        a view; and what it is, in words. None where the box lies outside, or has smaller elements.
        """
        t, size = self.map, ELEMENT_BYTES[self.map.data_type]
        found = self.slices(coordinates)
        if found is None or size % element:
            return None
        strides = element, size, *t.strides
        dims = (size // element, *t.dims)
        steps = [stride // element * owners.itemsize for stride in strides]
        numbers = np.lib.stride_tricks.as_strided(owners, dims[::-1], steps[::-1])
        ranges = ", ".join(f"{s.start}:{s.stop}" for s in found[0])
        return numbers[found[0]], f"{self.name}[{ranges}]"


class PlainView:
    """Bytes of a bulk copy without a tensor map."""

    def __init__(self, region: memory.Region, offset: int, count: int) -> None:
        self.name, self.region, self.offset = region.name, region, offset
        self.bytes, self.extent, self.units = count, count, count // UNIT
        self.swizzle, self.alignment = 0, UNIT

    def read(self, coordinates: Coordinates) -> np.ndarray:
        return self.region.data[self.offset : self.offset + self.bytes].copy().view(np.uint64).reshape(-1, 2)

    def region_at(self, coordinates: Coordinates) -> str:
        """Its bytes in words."""
        return f"bytes {self.offset:,} to {self.offset + self.bytes:,} of {self.name}"

    def box(self, coordinates: Coordinates) -> tuple[tuple[int, int], ...]:
        """Its bytes, as ``TensorView.box``."""
        return ((self.offset, self.bytes),)

    def claimed(
        self, owners: np.ndarray, element: int, coordinates: Coordinates
    ) -> tuple[np.ndarray, str] | None:
        """Its elements, as ``TensorView.claimed``."""
        low, high = self.offset // element, (self.offset + self.bytes) // element
        return owners[low:high], f"elements {low:,} to {high:,} of {self.name}"

    def write(self, coordinates: Coordinates, units: np.ndarray) -> None:
        self.region.data[self.offset : self.offset + self.bytes] = units.reshape(-1).view(np.uint8)

    def reduce(self, coordinates: Coordinates, units: np.ndarray, operation: str, type_name: str) -> None:
        """As ``TensorView.reduce`` (cp.reduce.async.bulk)."""
        numbers = UNSIGNED[np.dtype(NUMBERS[type_name]).itemsize * 8]
        held: np.ndarray = self.region.data[self.offset : self.offset + self.bytes].copy().view(numbers)
        given: np.ndarray = np.ascontiguousarray(units.reshape(-1)).view(numbers)
        made = reduced(operation, type_name, held, given)
        self.region.data[self.offset : self.offset + self.bytes] = made.view(np.uint8)


TiledView: TypeAlias = TensorView | PlainView  # what stores may name, too
