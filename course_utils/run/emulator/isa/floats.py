"""Floats: bits to numbers and back, rounding, arithmetic and conversions. PTX ISA, "Floating Point
Instructions", "cvt".

Values are as in ``arithmetic``: ints where lanes agree, arrays of unsigned integers where they differ.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from course_utils.run.emulator.isa.arithmetic import (
    LANES,
    RELATIONS,
    UNSIGNED,
    join,
    lanewise,
    split_type,
    to_signed,
    vector,
    widen,
)
from course_utils.run.emulator.isa.elements import FP8_VALUES, to_fp8
from course_utils.run.emulator.isa.lowered import Value

_STRUCT = {"f16": ("<e", "<H"), "f32": ("<f", "<I"), "f64": ("<d", "<Q")}
_FLOAT = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
_LARGEST_BF16 = 2.0**127 * (2 - 2**-7)
FP8_PAIRS = {"e4m3x2", "e5m2x2"}
CONVERTED = FP8_PAIRS | {"f16x2", "bf16x2", "tf32"}  # what cvt has beside single numbers


def compare(relation: str, type_name: str) -> Callable[..., Value]:
    """setp's comparison of floats: ordered (false on NaN), unordered (equ ... geu), num and nan."""
    load = float_loader(type_name)

    def apply(a: Value, b: Value) -> Any:
        a, b = load(a), load(b)
        nan = (a != a) | (b != b)
        if relation in ("num", "nan"):
            result = nan if relation == "nan" else nan ^ True
        elif relation.endswith("u") and len(relation) == 3:
            result = RELATIONS[relation[:2]](a, b) | nan
        else:
            result = RELATIONS[relation](a, b) & (nan ^ True)
        return result if isinstance(result, np.ndarray) else bool(result)

    return apply


def test_property(wanted: str, type_name: str) -> Callable[..., Value]:
    """testp.finite, infinite, number, notanumber, normal, subnormal."""
    load = float_loader(type_name)
    smallest = {"f32": 2.0**-126, "f64": 2.0**-1022}[type_name]
    tests: dict[str, Callable[[Any], Any]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda v: ~np.isnan(v),
        "notanumber": np.isnan,
        "normal": lambda v: np.isfinite(v) & (np.abs(v) >= smallest),
        "subnormal": lambda v: (np.abs(v) < smallest) & (v != 0),
    }
    test = tests[wanted]

    def apply(a: Value) -> Any:
        result = np.asarray(test(np.asarray(load(a))))
        return bool(result) if result.ndim == 0 else result

    return apply


def float_loader(type_name: str) -> Callable[..., Any]:
    """Bits to Python floats or to a NumPy array of the type. bf16 is read as f32."""
    if type_name == "bf16":
        to_f32 = float_loader("f32")
        return lambda v: to_f32(v << 16 if v.__class__ is int else v.astype(np.uint32) << np.uint32(16))
    float_code, bits_code = _STRUCT[type_name]
    dtype = _FLOAT[type_name]

    def apply(value: Value) -> Any:
        if value.__class__ is int:
            return struct.unpack(float_code, struct.pack(bits_code, value))[0]
        return value.view(dtype)

    return apply


def round_to(type_name: str, mode: str = "rn") -> Callable[..., Value]:
    """f32 or f64 numbers (float or array) to the bits of a narrower float."""

    def to_bf16(value: Value) -> Value:
        bits = np.asarray(value, np.float32).view(np.uint32)
        nan = (bits & 0x7FFFFFFF) > 0x7F800000
        if mode == "rn":
            bits = bits + (0x7FFF + ((bits >> 16) & 1))
        bits = np.where(nan, 0x7FFF, bits >> 16)
        return int(bits) if bits.ndim == 0 else bits.astype(np.uint16)

    def apply(value: Value) -> Any:
        wide = np.asarray(value)
        result = wide.astype(_FLOAT[type_name])
        if mode != "rn":
            back = result.astype(np.float64)
            beyond = {"rz": np.abs(back) > np.abs(wide), "rm": back > wide, "rp": back < wide}
            toward = np.array({"rz": 0.0, "rm": -math.inf, "rp": math.inf}[mode], result.dtype)
            result = np.where(beyond[mode], np.nextafter(result, toward), result)
        bits = result.view({2: np.uint16, 4: np.uint32, 8: np.uint64}[result.dtype.itemsize])
        return int(bits) if bits.ndim == 0 else bits

    return to_bf16 if type_name == "bf16" else apply


def float_function(
    function: Callable[..., Any], type_name: str, words: tuple[str, ...] = ()
) -> Callable[..., Value]:
    """A function of floats as a function of bits. ``words`` are modifiers of the opcode: a rounding, sat,
    relu.

    Arithmetic is in the type itself; fma, and what rounds in one direction, in a wider one.
    """
    load, mode = float_loader(type_name), _rounding(words)
    store, limit = round_to(type_name, mode), _limit(words)
    dtype = _FLOAT.get(type_name, np.float32)

    def apply(*values: Value) -> Any:
        return store(function(*[dtype(load(v)) if v.__class__ is int else load(v) for v in values]))

    def limited(*values: Value) -> Any:
        wide = dtype if mode == "rn" else np.longdouble
        return store(limit(np.asarray(function(*[np.asarray(load(v), wide) for v in values]))))

    return apply if mode == "rn" and limit is _as_it_is else limited


def fused(type_name: str, words: tuple[str, ...] = ()) -> Callable[..., Value]:
    """fma: one rounding. The product is exact in the wider type, the sum nearly so. ``words`` as in
    ``float_function``.
    """
    load, mode, limit = float_loader(type_name), _rounding(words), _limit(words)
    store, wide = round_to(type_name, mode), np.longdouble if type_name == "f64" else np.float64

    def apply(a: Value, b: Value, c: Value) -> Any:
        a, b, c = (np.asarray(load(v), wide) for v in (a, b, c))
        made = limit(a * b + c)
        return store(made.astype(np.float64) if type_name == "f64" and mode == "rn" else made)

    return apply


def _rounding(words: tuple[str, ...]) -> str:
    return next((word for word in words if word in ("rn", "rz", "rm", "rp")), "rn")


def _as_it_is(number: Any) -> Any:
    return number


def _limit(words: tuple[str, ...]) -> Callable[[Any], Any]:
    """What .sat and .relu make of a result. NaN becomes 0 with .sat, and stays with .relu."""
    if "sat" in words:
        return lambda number: np.clip(np.nan_to_num(number, nan=0.0), 0.0, 1.0)
    return (lambda number: np.maximum(number, 0)) if "relu" in words else _as_it_is


def float_adder(type_name: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """Bits plus bits, element by element of arrays; None where the type is no float of 32 bits."""
    if type_name != "f32":
        return None
    return lambda a, b: (a.view(np.float32) + b.view(np.float32)).view(np.uint32)


def convert(to: str, source: str, modifiers: tuple[str, ...]) -> Callable[..., Value]:
    """cvt between integer and float types. Modifiers: rounding (rn, rni, rz, rzi ...), sat, ftz, relu."""
    (to_kind, to_bits_), (kind, bits) = split_type(to), split_type(source)
    saturate = "sat" in modifiers
    if to_kind in "usb" and kind in "usb":
        if not saturate:
            return lambda a: widen(a, kind, bits, to_bits_)
        low = -(1 << to_bits_ - 1) if to_kind == "s" else 0
        high = (1 << to_bits_ - (to_kind == "s")) - 1

        def clamp(a: int) -> int:
            a = to_signed(a, bits) if kind == "s" else a
            return min(max(a, low), high) & ((1 << to_bits_) - 1)

        return lanewise(clamp, to_bits_)
    rounding = next((m for m in modifiers if m in ("rn", "rz", "rm", "rp")), "rn")
    if to_kind in "usb":
        load = float_loader(source)
        whole = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[
            next((m for m in modifiers if m.endswith("i")), "rzi")
        ]
        lowest = float(-(1 << to_bits_ - 1) if to_kind == "s" else 0)
        high = (1 << to_bits_ - (to_kind == "s")) - 1

        def to_integer(a: Value) -> Value:
            value = np.asarray(load(a), np.float64)
            clipped = np.nan_to_num(np.clip(whole(value), lowest, float(high)), nan=0.0)
            cells = [min(int(v), high) & ((1 << to_bits_) - 1) for v in np.atleast_1d(clipped)]
            return cells[0] if value.ndim == 0 else np.array(cells, UNSIGNED[to_bits_])

        return to_integer
    store = round_to(to, rounding)
    largest = {"f16": 65504.0, "bf16": _LARGEST_BF16}.get(to, math.inf)
    if kind in "usb":

        def from_integer(a: Value) -> Value:
            a = to_signed(a, bits) if kind == "s" else a
            return store(float(a) if a.__class__ is int else a.astype(np.float64))

        return from_integer
    load = float_loader(source)

    def between_floats(a: Value) -> Value:
        value = load(a)
        if saturate:
            value = np.clip(np.nan_to_num(value, nan=0.0), 0.0, 1.0)
        if "relu" in modifiers:
            value = np.maximum(value, 0.0)
        if "satfinite" in modifiers:
            value = np.clip(value, -largest, largest)
        return store(value)

    return between_floats


def convert_pair(to: str, modifiers: tuple[str, ...]) -> Callable[..., Value]:
    """cvt.rn.f16x2.f32 d, a, b: a goes to the upper half, b to the lower."""
    narrow = convert(to[:-2], "f32", modifiers)

    def apply(a: Value, b: Value) -> Any:
        if to == "f16x2" and a.__class__ is not int and b.__class__ is not int and modifiers == ("rn",):
            out = np.empty(2 * LANES, np.float16)
            out[::2], out[1::2] = b.view(np.float32), a.view(np.float32)
            return out.view(np.uint32)
        return join([narrow(b), narrow(a)], 16)

    return apply


def convert_fp8(to: str, source: str, modifiers: tuple[str, ...]) -> Callable[..., Value]:
    """cvt.rn.satfinite.e4m3x2.f32 d, a, b: a goes to the upper byte; or from or to a pair of halves."""
    if set(modifiers) - {"rn", "satfinite", "relu"}:
        raise ValueError(f"cvt.{'.'.join(modifiers)} with fp8")
    relu = "relu" in modifiers

    def narrow(numbers: np.ndarray) -> Value:
        """(2, 1 or 32) numbers, the lower first."""
        made = to_fp8(to[:-2], np.where(relu & (numbers < 0), 0, numbers))
        pairs = np.ascontiguousarray(made.T).view(np.uint16).reshape(-1)
        return pairs if len(pairs) > 1 else int(pairs[0])

    def from_floats(a: Value, b: Value) -> Value:
        uniform = a.__class__ is int and b.__class__ is int
        cells = [vector(v, 32)[: 1 if uniform else LANES].view(np.float32) for v in (b, a)]
        return narrow(np.stack(cells))

    def from_halves(a: Value) -> Value:
        cells = vector(a, 32)[: 1 if a.__class__ is int else LANES]
        return narrow(cells.view(np.float16).reshape(-1, 2).T)

    def to_halves(a: Value) -> Value:
        cells = np.ascontiguousarray(vector(a, 16)[: 1 if a.__class__ is int else LANES]).view(np.uint8)
        numbers = FP8_VALUES[source[:-2]].take(cells)
        made = np.where(relu & (numbers < 0), 0, numbers).astype(np.float16).view(np.uint32)
        return made if len(made) > 1 else int(made[0])

    if source in FP8_PAIRS:
        if to != "f16x2":
            raise ValueError(f"cvt from {source} to {to}")
        return to_halves
    if source == "f32":
        return from_floats
    if source == "f16x2":
        return from_halves
    raise ValueError(f"cvt from {source} to {to}")


def convert_tf32(modifiers: tuple[str, ...]) -> Callable[..., Value]:
    """cvt.rna.tf32.f32 and cvt.rn: 10 bits of fraction, ties away from zero or to even."""
    mode = next(m for m in modifiers if m in ("rna", "rn", "rz"))
    if set(modifiers) - {mode}:
        raise ValueError(f"cvt.{'.'.join(modifiers)} to tf32")

    def apply(a: Value) -> Value:
        bits = np.asarray(a, np.uint32)
        added = {"rna": 0x1000, "rn": 0x0FFF + (bits >> 13 & 1), "rz": 0}[mode]
        special = bits & 0x7F800000 == 0x7F800000
        made = np.where(special, bits, bits + np.asarray(added, np.uint32)) & np.uint32(0xFFFFE000)
        return int(made) if made.ndim == 0 else made.astype(np.uint32)

    return apply
