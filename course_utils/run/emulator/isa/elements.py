"""The number formats of the tensor core: what the bits of an operand mean, and fp8 from wider floats.

PTX ISA, "Fundamental Types" and "Alternate Floating-Point Data Formats": e4m3 has a bias of 7, no infinity
and one NaN, 0x7f; e5m2 is IEEE's form with a bias of 15; of a tf32 register the lower 13 bits are ignored.
The rule for rounding to fp8 is cvt's: to nearest, ties to even, and with ``.satfinite`` what is too large
becomes the largest finite number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np

Decoder: TypeAlias = Callable[[np.ndarray], np.ndarray]  # bits to float32, of integers to float64

# Bits of an element, by its PTX type; a tensor core takes 32 bytes of a row at a time.
ELEMENT_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
SLICE_BYTES = 32
_FP8 = {"e4m3": (3, 7), "e5m2": (2, 15)}  # bits of the fraction, bias
_LARGEST = {"e4m3": 0x7E, "e5m2": 0x7B}


def elements_of_slice(kind: str) -> int:
    """The K of one wgmma: 16 of fp16, 32 of fp8."""
    return SLICE_BYTES * 8 // ELEMENT_BITS[kind]


def _fp8_values(kind: str) -> np.ndarray:
    """What each of the 256 bit patterns means, as float32."""
    fraction_bits, bias = _FP8[kind]
    bits = np.arange(256)
    sign = np.where(bits >> 7, -1.0, 1.0)
    exponent, fraction = bits >> fraction_bits & (127 >> fraction_bits), bits & (1 << fraction_bits) - 1
    normal = exponent > 0
    mantissa = np.where(normal, 1.0, 0.0) + fraction / (1 << fraction_bits)
    values = sign * mantissa * 2.0 ** (np.where(normal, exponent, 1) - bias)
    if kind == "e4m3":
        values[bits & 0x7F == 0x7F] = np.nan
    else:
        top = exponent == 31
        values[top] = np.where(fraction[top] == 0, sign[top] * np.inf, np.nan)
    return values.astype(np.float32)


FP8_VALUES = {kind: _fp8_values(kind) for kind in _FP8}


def to_fp8(kind: str, values: np.ndarray) -> np.ndarray:
    """Numbers to the bytes of e4m3 or e5m2, as ``cvt.rn.satfinite`` has them. NaN is 0x7f."""
    with np.errstate(invalid="ignore"):  # a NaN that signals
        wide = np.asarray(values, np.float64)
    fraction_bits, bias = _FP8[kind]
    magnitude = np.abs(wide)
    finite = FP8_VALUES[kind][: _LARGEST[kind] + 1].astype(np.float64)  # rises with the bits
    exponent = np.maximum(np.frexp(np.where(magnitude > 0, magnitude, 1.0))[1] - 1, 1 - bias)
    unit = 2.0 ** (exponent - fraction_bits)
    rounded = np.minimum(np.rint(magnitude / unit) * unit, finite[-1])
    bits = np.searchsorted(finite, np.nan_to_num(rounded)) | np.signbit(wide) << 7
    return np.where(np.isnan(wide), 0x7F, bits).astype(np.uint8)


def decode_f16(bits: np.ndarray) -> np.ndarray:
    return bits.view(np.float16).astype(np.float32)


def decode_bf16(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def decode_tf32(bits: np.ndarray) -> np.ndarray:
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def decoders(signs: np.ndarray | None = None) -> dict[str, Decoder]:
    """How operands are read, by type. ``signs`` are those of ``tags.Tags``: an fp16 or e4m3 operand is then
    read as two numbers, with an axis more.
    """
    found: dict[str, Decoder] = {
        "f16": decode_f16,
        "bf16": decode_bf16,
        "tf32": decode_tf32,
        "e4m3": FP8_VALUES["e4m3"].take,
        "e5m2": FP8_VALUES["e5m2"].take,
        "s8": lambda bits: bits.view(np.int8).astype(np.float64),
        "u8": lambda bits: bits.astype(np.float64),
    }
    if signs is not None:
        for kind, values in (
            ("f16", decode_f16(np.arange(1 << 16, dtype=np.uint16))),
            ("e4m3", FP8_VALUES["e4m3"]),
        ):
            both = np.copysign(1, signs[: len(values)].astype(np.float32)) * np.nan_to_num(values)[:, None]
            found[kind] = partial(np.take, both, axis=0)
    return found
