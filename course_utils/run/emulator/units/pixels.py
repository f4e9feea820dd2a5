"""What a TMA load copies in im2col mode: some channels of a run of pixels.

PTX ISA, "im2col mode": bounding box, traversal strides, im2colOffsets; cuTensorMapEncodeIm2col. A load begins
at the pixel that its coordinates name and takes ``pixelsPerColumn`` of them, W first, then H, D and N. Past
the bounding box's end of a dimension it goes on at its begin, in the next row. Each pixel is read as far away
as the offsets say, and what lies outside the tensor is filled. All 201 loads that an H200 was asked for come
out so (tests/data/tma_hardware.json.gz).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from course_utils.artifact import ELEMENT_BYTES, TMA_ALIGNMENT, PixelMap
from course_utils.run.emulator.core import memory
from course_utils.run.emulator.units.views import Coordinates, TiledView, fill_of, rounded, swizzled_units
from course_utils.tma.layouts import UNIT, tile_bytes
from course_utils.tma.rules import pixel_limits


class PixelView:
    """One im2col map of the launch over its tensor's bytes. ``Coordinates`` are those of the first pixel,
    (C, W, ..., N), and then the offsets, (W, ...).
    """

    def __init__(self, name: str, pixel_map: PixelMap, region: memory.Region) -> None:
        self.name, self.map, self.region = name, pixel_map, region
        self.swizzle, self.alignment = pixel_map.swizzle, TMA_ALIGNMENT
        self.broken = [
            f"its {argument} is not what cuTensorMapEncodeIm2col takes"
            for argument in pixel_limits(pixel_map)
        ]
        if self.broken:
            return
        m, size = pixel_map, ELEMENT_BYTES[pixel_map.data_type]
        self.element, strides = size, (size, *m.strides)
        last = sum((extent - 1) * stride for extent, stride in zip(m.dims, strides, strict=True)) + size
        if m.interleave:
            self.broken.append("interleaved tensor maps are not modelled by the emulator")
        elif last > region.size:
            self.broken.append(f"it spans {last:,} bytes, and the tensor has {region.size:,}")
        view = region.data[: region.size - region.size % size].view(f"u{size}")
        self.elements = np.lib.stride_tricks.as_strided(view, m.dims[::-1], strides[::-1])
        self.ends = tuple(dim + corner for dim, corner in zip(m.dims[1:-1], m.upper, strict=True))
        self.bytes = m.box_bytes
        self.units, self.row_units = self.bytes // UNIT, m.channels * size // UNIT
        self.extent = tile_bytes(m.pixels, self.row_units * UNIT, m.swizzle)

    def places(self, phase: int) -> np.ndarray:
        """As ``TensorView.places``: a pixel is a row."""
        return swizzled_units(self.map.pixels, self.row_units, self.swizzle, phase)

    def pixels(self, coordinates: Coordinates) -> Iterator[Coordinates | None]:
        """Where each pixel lies, (W, ..., N); None where that is outside the tensor."""
        rank, m = self.map.rank, self.map
        at, offsets = list(coordinates[1:rank]), coordinates[rank:]
        for _ in range(m.pixels):
            place = (*(p + o for p, o in zip(at[:-1], offsets, strict=True)), at[-1])
            inside = all(0 <= p < dim for p, dim in zip(place, m.dims[1:], strict=True))
            yield place if inside else None
            for i, (begin, end) in enumerate(zip(m.lower, self.ends, strict=True)):
                at[i] += m.steps[i + 1]
                if at[i] < end:
                    break
                at[i] = begin
            else:
                at[-1] += 1

    def _channels(self, coordinates: Coordinates) -> tuple[slice, slice]:
        """The channels that lie in the tensor: a slice of its own, and one of the tile's."""
        first, count = coordinates[0], self.map.channels
        low, high = max(first, 0), max(min(first + count, self.map.dims[0]), 0)
        return slice(low, max(high, low)), slice(low - first, max(high, low) - first)

    def read(self, coordinates: Coordinates) -> np.ndarray:
        """The tile's bytes as (units, 2) 64-bit words."""
        shape = self.map.pixels, self.map.channels
        tile = np.full(shape, fill_of(self.map), self.elements.dtype)
        channels, within = self._channels(coordinates)
        for row, place in zip(tile, self.pixels(coordinates), strict=True):
            if place is not None:
                row[within] = rounded(self.elements[place[::-1]][channels], self.map)
        return tile.reshape(-1).view(np.uint64).reshape(-1, 2)

    def region_at(self, coordinates: Coordinates) -> str:
        """In words: "A, 16 channels of 20 pixels from (0, -1, -1, 0)"."""
        rank = self.map.rank
        offsets = f", {coordinates[rank:]} further" if any(coordinates[rank:]) else ""
        start = f"{self.name}, {self.map.channels} channels of {self.map.pixels} pixels from "
        return f"{start}{coordinates[:rank]}{offsets}"

    def box(self, coordinates: Coordinates) -> tuple[tuple[int, int], ...]:
        """As ``TensorView.box``: of the first pixel."""
        sizes = self.map.channels, *[1] * (self.map.rank - 1)
        return tuple(zip(coordinates, sizes, strict=False))[::-1]

    def claimed(
        self, owners: np.ndarray, element: int, coordinates: Coordinates
    ) -> tuple[np.ndarray, str] | None:
        """As ``TensorView.claimed``, but a copy: a load claims nothing."""
        if self.element % element:
            return None
        m, width = self.map, self.element // element
        strides = [stride // element * owners.itemsize for stride in (self.element, *m.strides)]
        numbers = np.lib.stride_tricks.as_strided(
            owners, (*m.dims[::-1], width), (*strides[::-1], owners.itemsize)
        )
        channels, _ = self._channels(coordinates)
        read = [numbers[place[::-1]][channels] for place in self.pixels(coordinates) if place is not None]
        return (np.concatenate(read), self.region_at(coordinates)) if read else None


View: TypeAlias = TiledView | PixelView
