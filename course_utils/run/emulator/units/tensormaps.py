"""Tensor maps as 128 bytes in memory: read where a transfer names one, and changed by tensormap.replace.

PTX ISA, "Tensor Map modification": tensormap.replace, tensormap.cp_fenceproxy. The bytes are laid out as the
driver writes them (``tma.encoding``). A change is seen at once; ``explain.maps`` says where a
fence.proxy.tensormap is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from course_utils.artifact import TENSOR_MAP_BYTES, PixelMap, TensorMap
from course_utils.ptx.parser import Imm, Instr
from course_utils.run.emulator.core import addresses, memory
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value
from course_utils.run.emulator.units.access import Write
from course_utils.run.emulator.units.pixels import PixelView
from course_utils.run.emulator.units.views import TensorView
from course_utils.tma.encoding import LAYOUT, decode

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine
    from course_utils.run.emulator.core.threads import Path

# PTX's name of a field: ours, and what is stored of a value.
_FIELDS = {
    "global_address": ("address", lambda v: v // 16),
    "rank": ("rank", lambda v: v),  # which is one less than the rank already
    "box_dim": ("box", lambda v: v - 1),
    "global_dim": ("dims", lambda v: v - 1),
    "element_stride": ("element_strides", lambda v: v - 1),
    "interleave_layout": ("interleave", lambda v: v),
    "swizzle_mode": ("swizzle", lambda v: v),
    "fill_mode": ("oob_fill", lambda v: v),
    "elemtype": ("data_type", lambda v: v),
}
_LAST_ELEMENT_TYPE = 10  # bf16; those after it are tf32's


@dataclass(slots=True)
class MapReleased:
    """A warp has released its changes of maps to the proxy that reads them."""

    path: Path


@dataclass(slots=True)
class MapAcquired:
    """A warp has acquired the map at an offset of a tensor."""

    path: Path
    region: memory.Tensor
    offset: int


@dataclass(slots=True)
class MapUsed:
    """A transfer by the map at an offset of a tensor is about to be issued."""

    path: Path
    region: memory.Tensor
    offset: int


class TensorMaps:
    """The tensor maps of a launch: those among the kernel's parameters by their offset there, and those that
    lie elsewhere by their bytes.
    """

    def __init__(self, machine: Machine) -> None:
        self.read: dict[bytes, TensorView] = {}
        self.given = {
            offset: _over(one.tensor or "", one.tensor_map, machine.regions[one.tensor or ""])
            for offset, one in machine.arguments.items()
            if one.kind == "tensor_map" and one.tensor_map
        }


def _over(name: str, tensor_map: TensorMap, region: memory.Region) -> TensorView | PixelView:
    if isinstance(tensor_map, PixelMap):
        return PixelView(name, tensor_map, region)
    return TensorView(name, tensor_map, region)


def replace(instruction: Instr) -> Lowered:
    """tensormap.replace.tile.FIELD [map], {ordinal,} value. Raises ValueError for another field."""
    parts, (target, *given) = instruction.opcode, instruction.operands
    name = parts[3]
    if parts[2] != "tile" or name not in (*_FIELDS, "global_stride"):
        raise ValueError(f"the field {name}")
    ordinal = given[0].value if len(given) == 2 else 0
    value = given[-1]
    if name == "elemtype" and isinstance(value, Imm) and value.value > _LAST_ELEMENT_TYPE:
        raise ValueError("the element type tf32")
    space = next((p for p in parts[4:] if p in ("global", "shared::cta")), "generic")
    kept = LAYOUT[_FIELDS[name][0]][1] if name in _FIELDS else 0
    width = 64 if parts[-1] == "b64" else 32

    def function(p: Path, m: Mask, address: Value, new: Value) -> None:
        for lane in memory.lanes_of(m):
            data = _changed(p, memory.pick(address, lane), space)
            number = int.from_bytes(data.tobytes(), "little")
            picked = memory.pick(new, lane)
            if name == "global_stride":
                number = _set(number, "strides_low", ordinal, picked // 16 % 2**32)
                number = _set(number, "strides_high", ordinal, picked // 16 >> 32)
            else:
                field, stored = _FIELDS[name]
                number = _set(number, field, ordinal, stored(picked) % (1 << kept))
            data[:] = np.frombuffer(number.to_bytes(TENSOR_MAP_BYTES, "little"), np.uint8)
        p.machine.progress += 1

    return Lowered("warp", function, sources=((target, 64), (value, width)), cut=True)


def copy(instruction: Instr) -> Lowered:
    """tensormap.cp_fenceproxy [to in global], [from in shared], 128."""
    target, source, _ = instruction.operands

    def function(p: Path, m: Mask, to: Value, where: Value) -> None:
        lane = memory.lanes_of(m)[0]
        data = _bytes(p, memory.pick(where, lane), "shared")
        _changed(p, memory.pick(to, lane), "global")[:] = data
        p.machine.probe.emit(MapReleased(p))
        p.machine.progress += 1

    return Lowered("warp", function, sources=((target, 64), (source, 32)), cut=True)


def fence(instruction: Instr) -> Lowered:
    """fence.proxy.tensormap::generic.release.SCOPE, or .acquire.SCOPE [map], 128. Any scope reaches all."""
    if "release" in instruction.opcode:
        return Lowered("warp", lambda p, m: p.machine.probe.emit(MapReleased(p)), cut=True)
    address, size = instruction.operands
    if size.value != TENSOR_MAP_BYTES:
        raise ValueError(f"a size of {size.value}")

    def acquire(p: Path, m: Mask, where: Value) -> None:
        for lane in memory.lanes_of(m):
            region, offset = _place(p, memory.pick(where, lane), "generic")
            if isinstance(region, memory.Tensor):
                p.machine.probe.emit(MapAcquired(p, region, offset))

    return Lowered("warp", acquire, sources=((address, 64),), cut=True)


def _set(number: int, field: str, ordinal: int, stored: int) -> int:
    bit, width, _, _ = LAYOUT[field]
    bit += ordinal * width
    return number & ~((1 << width) - 1 << bit) | stored << bit


def _place(path: Path, address: int, space: str) -> tuple[memory.Region, int]:
    """Where 128 bytes at an address lie."""
    region, offset = addresses.locate(path, None, address, space, 64)
    if offset + TENSOR_MAP_BYTES > region.size:
        path.halt("out-of-bounds", "a tensor map past the end", who=path.warp, what=region.name)
    return region, offset


def _bytes(path: Path, address: int, space: str) -> np.ndarray:
    """The 128 bytes at an address, as a view."""
    region, offset = _place(path, address, space)
    return region.data[offset : offset + TENSOR_MAP_BYTES]


def _changed(path: Path, address: int, space: str) -> np.ndarray:
    """The same, of a map that is about to be written: by weak stores (PTX ISA, "tensormap.replace")."""
    region, offset = _place(path, address, space)
    if isinstance(region, memory.Tensor):
        pieces = np.arange(offset, offset + TENSOR_MAP_BYTES, 16)
        path.machine.probe.emit(Write(path, region, pieces, 16))
    return region.data[offset : offset + TENSOR_MAP_BYTES]


def view_at(path: Path, address: int) -> TensorView:
    """The tensor map that lies at a generic address. A fault where its bytes are none."""
    machine, read = path.machine, path.machine.unit(TensorMaps).read
    place, offset = _place(path, address, "generic")
    if isinstance(place, memory.Tensor):
        machine.probe.emit(MapUsed(path, place, offset))
    data = place.data[offset : offset + TENSOR_MAP_BYTES].tobytes()
    view = read.get(data)
    if view is not None:
        return view
    try:
        tensor_map, base = decode(data)
    except ValueError as error:
        path.halt("tensor-map", "no tensor map", who=path.warp, address=address, why=str(error))
    found = machine.global_region(base)
    if found is None:
        path.halt("tensor-map", "a tensor map over no tensor", address=base)
    region, start = found
    if base > start:
        region = memory.Region(region.name, region.data[base - start :])
    view = read[data] = TensorView(region.name, tensor_map, region)
    return view
