"""The contract past the tensor map: what one TMA instruction may ask for, of a map that is legal.

No call of the driver checks any of it. A transfer that breaks a rule ends the launch with an error, which the
rule names. Sources: the PTX ISA's pages of the instructions, and launches on an H200
(tests/data/tma_hardware.json.gz). A rule's source counts the launches that broke this rule alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from course_utils.artifact import DATA_TYPES, ELEMENT_BYTES, TMA_ALIGNMENT, TensorMap
from course_utils.tma.layouts import UNIT, base_alignment

Kind = Literal["load", "store", "reduce", "prefetch"]

# What cp.reduce.async.bulk.tensor takes, by operation: launched on an H200, all 8 operations and 13 types
_WHOLE = ("uint32", "int32", "uint64")
_ORDERED = (*_WHOLE, "int64", "float16", "bfloat16")
_FLOATS = ("float16", "float32", "float64", "bfloat16", "float32_ftz", "tfloat32", "tfloat32_ftz")
REDUCTIONS: dict[str, tuple[str, ...]] = {
    "add": (*_WHOLE, *_FLOATS),
    "min": _ORDERED,
    "max": _ORDERED,
    "inc": ("uint32",),
    "dec": ("uint32",),
    "and": _WHOLE,
    "or": _WHOLE,
    "xor": _WHOLE,
}


class TransferRule(NamedTuple):
    """A rule in a sentence, where it comes from, and how a launch that breaks it ends."""

    sentence: str
    source: str
    ends: str


RULES = {
    "tile-alignment": TransferRule(
        f"A tile in shared memory begins at a multiple of {TMA_ALIGNMENT} bytes, with every swizzle.",
        "PTX ISA, cp.async.bulk.tensor; 52 launches",
        "CUDA_ERROR_MISALIGNED_ADDRESS",
    ),
    "coordinate-count": TransferRule(
        "There is one coordinate for each dimension of the map.",
        "PTX ISA, cp.async.bulk.tensor",
        "not launched",
    ),
    "coordinate-range": TransferRule(
        "Each coordinate is a 32-bit number.", "PTX ISA, cp.async.bulk.tensor", "not launched"
    ),
    "inner-coordinate": TransferRule(
        f"Without interleave, the first coordinate x element size is a multiple of {UNIT} bytes.",
        "not on a page; 273 launches",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    ),
    "store-coordinate": TransferRule(
        "A store and a reduction begin inside the tensor or past its end: no coordinate is negative.",
        "not on a page; 46 launches",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    ),
    "reduction": TransferRule(
        "A reduction's operation and the map's type go together (REDUCTIONS).",
        "PTX ISA, cp.reduce.async.bulk.tensor; 71 launches",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
    ),
    "multicast": TransferRule(
        "Only a load is multicast, and its mask names CTAs of the cluster, one or more.",
        "PTX ISA, cp.async.bulk.tensor",
        "not launched",
    ),
}


@dataclass(frozen=True)
class Transfer:
    """One TMA instruction of the tiled mode. ``at`` is the tile's address in shared memory, ``mask`` of a
    multicast, in a cluster of ``cluster`` CTAs.

    A prefetch to L2 has no tile, and a cache hint changes nothing here: neither has a rule of its own.
    """

    kind: Kind
    coordinates: tuple[int, ...]
    at: int = 0
    operation: str = ""
    mask: int | None = None
    cluster: int = 1


def broken(tensor_map: TensorMap, transfer: Transfer) -> list[str]:
    """The ids of the ``RULES`` that a transfer over a legal map breaks, in that order."""
    t, writes = transfer, transfer.kind in ("store", "reduce")
    size, first = ELEMENT_BYTES[tensor_map.data_type], transfer.coordinates[:1]
    taken = REDUCTIONS.get(t.operation, ())
    wrong = {
        "tile-alignment": t.kind != "prefetch" and t.at % TMA_ALIGNMENT != 0,
        "coordinate-count": len(t.coordinates) != tensor_map.rank,
        "coordinate-range": any(not -(2**31) <= c < 2**31 for c in t.coordinates),
        "inner-coordinate": not tensor_map.interleave and any(c * size % UNIT for c in first),
        "store-coordinate": writes and any(c < 0 for c in t.coordinates),
        "reduction": t.kind == "reduce" and DATA_TYPES[tensor_map.data_type] not in taken,
        "multicast": t.mask is not None and (t.kind != "load" or not 0 < t.mask < 1 << t.cluster),
    }
    return [rule for rule in RULES if wrong[rule]]


def reader_alignment(tensor_map: TensorMap) -> int:
    """Bytes of which a tile's start is to be a multiple where its readers count from that start."""
    return base_alignment(tensor_map.swizzle)


def reductions_of(data_type: int) -> Sequence[str]:
    """The operations that a reduction over a map of this type can have."""
    return [operation for operation, types in REDUCTIONS.items() if DATA_TYPES[data_type] in types]
