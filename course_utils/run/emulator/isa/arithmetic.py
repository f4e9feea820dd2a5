"""What arithmetic instructions compute. PTX ISA, "Integer Arithmetic", "Floating Point", "Comparison", "Logic
and Shift".

A register holds bits. Its value is a Python int where all 32 lanes agree (a bool for a predicate), and
otherwise a NumPy array of 32 unsigned integers of the register's width. Every function here takes and returns
such values: uniform code runs on Python ints, and NumPy is paid for only where lanes differ.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from course_utils.artifact import WARP_THREADS
from course_utils.run.emulator.isa.lowered import Value

LANES = WARP_THREADS
# NumPy has no 128 bits: such lanes are Python ints
UNSIGNED = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64, 128: np.object_}
SIGNED = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}


def split_type(name: str) -> tuple[str, int]:
    """("s", 32) of "s32"; "bf16" is ("bf", 16)."""
    kind = name.rstrip("0123456789")
    return kind, int(name[len(kind) :] or 1)


def vector(value: Value, bits: int) -> np.ndarray:
    """A value as an array of 32 lanes."""
    return value if isinstance(value, np.ndarray) else np.full(LANES, value, UNSIGNED[bits])


def to_signed(value: Value, bits: int) -> Value:
    if value.__class__ is int:
        return value - (1 << bits) if value >> (bits - 1) else value
    return value.view(SIGNED[bits])


def to_bits(value: Value, bits: int) -> Value:
    """Back to unsigned after signed or wide arithmetic."""
    if value.__class__ is int:
        return value & ((1 << bits) - 1)
    return value.view(UNSIGNED[bits]) if value.dtype.itemsize * 8 == bits else value.astype(UNSIGNED[bits])


def widen(value: Value, kind: str, bits: int, to: int) -> Value:
    """Zero- or sign-extend from ``bits`` to ``to`` bits, or cut down."""
    if value.__class__ is int:
        if kind == "s":
            value = to_signed(value, bits)
        return value & ((1 << to) - 1)
    if bits >= to:
        return value.astype(UNSIGNED[to])
    if kind == "s":
        return value.view(SIGNED[bits]).astype(SIGNED[to]).view(UNSIGNED[to])
    return value.astype(UNSIGNED[to])


def lanewise(function: Callable[..., Any], bits: int) -> Callable[..., Value]:
    """A function of Python ints, applied to every lane where a value is not uniform.

    Slow; for rare instructions.
    """

    def apply(*values: Value) -> Value:
        if not any(isinstance(v, np.ndarray) for v in values):
            return function(*values)
        lanes = [v.tolist() if isinstance(v, np.ndarray) else [v] * LANES for v in values]
        return np.array([function(*lane) for lane in zip(*lanes, strict=True)], UNSIGNED[bits])

    return apply


def wrapping(function: Callable[..., Any], bits: int) -> Callable[..., Value]:
    """Addition, subtraction and the like: an int is cut to its width, an array wraps by itself."""
    mask = (1 << bits) - 1

    def apply(*values: Value) -> Value:
        result = function(*values)
        return result & mask if result.__class__ is int else result

    return apply


def signed_or_not(function: Callable[..., Any], kind: str, bits: int) -> Callable[..., Value]:
    """min, max, abs and comparisons: the function sees signed numbers where the type is signed."""
    if kind != "s":
        return function

    sign, wrap, signed = 1 << (bits - 1), 1 << bits, SIGNED[bits]

    def apply(*values: Value) -> Value:
        # ``to_signed``, inline: loops compare all the time
        return function(
            *[v.view(signed) if v.__class__ is not int else v - wrap if v >= sign else v for v in values]
        )

    return apply


def logical_not(bits: int) -> Callable[..., Value]:
    mask = (1 << bits) - 1

    def apply(a: Value) -> Value:
        if a.__class__ is bool:
            return not a
        return a ^ mask if a.__class__ is int else ~a

    return apply


def shift_left(bits: int) -> Callable[..., Value]:
    mask = (1 << bits) - 1

    def apply(a: Value, b: Value) -> Value:
        if b.__class__ is int:
            if b >= bits:
                return 0
            return (a << b) & mask if a.__class__ is int else a << b
        a = vector(a, bits)
        return np.where(b < bits, a << (b % bits).astype(a.dtype), 0).astype(a.dtype)

    return apply


def shift_right(kind: str, bits: int) -> Callable[..., Value]:
    def apply(a: Value, b: Value) -> Value:
        if b.__class__ is int:
            b = min(b, bits - 1) if kind == "s" else b
            if a.__class__ is int:
                return to_bits(to_signed(a, bits) >> b, bits) if kind == "s" else a >> b
            if kind == "s":
                return to_bits(to_signed(a, bits) >> b, bits)
            return a >> b if b < bits else np.zeros_like(a)
        a = vector(a, bits)
        if kind == "s":
            return to_bits(to_signed(a, bits) >> np.minimum(b, bits - 1).astype(SIGNED[bits]), bits)
        return np.where(b < bits, a >> (b % bits).astype(a.dtype), 0).astype(a.dtype)

    return apply


def multiply(kind: str, bits: int, part: str) -> Callable[..., Value]:
    """``part`` is "lo", "hi" or "wide"."""
    if part == "lo":
        return wrapping(operator.mul, bits)
    if part == "wide":

        def apply(a: Value, b: Value) -> Value:
            if a.__class__ is int and b.__class__ is int:
                return to_bits(to_signed(a, bits) * to_signed(b, bits), 2 * bits) if kind == "s" else a * b
            return widen(a, kind, bits, 2 * bits) * widen(b, kind, bits, 2 * bits)

        return apply
    if bits == 64:
        if kind == "s":
            return lanewise(lambda a, b: to_bits((to_signed(a, 64) * to_signed(b, 64)) >> 64, 64), 64)
        return lanewise(lambda a, b: (a * b) >> 64, 64)
    wide = multiply(kind, bits, "wide")
    return lambda a, b: to_bits(wide(a, b) >> bits, bits)


def divide(kind: str, bits: int, remainder: bool) -> Callable[..., Value]:
    """Truncating division; division by zero gives all ones, which PTX leaves open ("machine-specific")."""
    ones = (1 << bits) - 1

    def one(a: int, b: int) -> int:
        if b == 0:
            return a if remainder else ones
        if kind != "s":
            return a % b if remainder else a // b
        a, b = to_signed(a, bits), to_signed(b, bits)
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return to_bits(a - quotient * b if remainder else quotient, bits)

    slow = lanewise(one, bits)

    def apply(a: Value, b: Value) -> Value:
        if kind == "u" and a.__class__ is not int and b.__class__ is int and b:
            return a % b if remainder else a // b
        return slow(a, b)

    return apply


RELATIONS = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge},
}


def compare(relation: str, kind: str, bits: int) -> Callable[..., Value]:
    """setp's comparison of integers."""
    return signed_or_not(RELATIONS[relation], kind, bits)


def select(bits: int) -> Callable[..., Value]:
    def apply(a: Value, b: Value, p: Value) -> Value:
        if p.__class__ is bool:
            return a if p else b
        return np.where(p, vector(a, bits), vector(b, bits))

    return apply


def minimum(kind: str, bits: int, largest: bool) -> Callable[..., Value]:
    scalar, array = (max, np.maximum) if largest else (min, np.minimum)

    def apply(a: Value, b: Value) -> Value:
        if a.__class__ is int and b.__class__ is int:
            return scalar(a, b)
        return array(vector(to_bits(a, bits), bits).view(dtype), vector(to_bits(b, bits), bits).view(dtype))

    dtype = SIGNED[bits] if kind == "s" else UNSIGNED[bits]
    inner = signed_or_not(apply, kind, bits)
    return lambda a, b: to_bits(inner(a, b), bits)


def permute_bytes(a: int, b: int, control: int, mode: str = "") -> int:
    """prmt: four of eight bytes. A ``mode`` takes its selectors from the lowest two bits of ``control``."""
    source = [(a >> 8 * i) & 255 for i in range(4)] + [(b >> 8 * i) & 255 for i in range(4)]
    n = control & 3
    chosen = {
        "": [(control >> 4 * i) & 15 for i in range(4)],
        "f4e": [n, n + 1, n + 2, n + 3],
        "b4e": [n, n - 1 & 7, n - 2 & 7, n - 3 & 7],
        "rc8": [n] * 4,
        "ecl": [max(i, n) for i in range(4)],
        "ecr": [min(i, n) for i in range(4)],
        "rc16": [2 * (n & 1), 2 * (n & 1) + 1] * 2,
    }[mode]
    result = 0
    for i, pick in enumerate(chosen):
        byte = source[pick & 7]
        if pick & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << 8 * i
    return result


def clamped(function: Callable[[int, int], int], bits: int) -> Callable[..., Value]:
    """add.sat and sub.sat of signed integers: what leaves the range stops at its end."""
    high = (1 << bits - 1) - 1

    def one(a: int, b: int) -> int:
        return to_bits(min(max(function(to_signed(a, bits), to_signed(b, bits)), -high - 1), high), bits)

    return lanewise(one, bits)


def low_24(function: Callable[..., int], kind: str) -> Callable[..., Value]:
    """mul24.lo and mad24.lo: the factors are the lower 24 bits of their registers."""

    def one(a: int, b: int, *c: int) -> int:
        a, b = a & 0xFFFFFF, b & 0xFFFFFF
        if kind == "s":
            a, b = to_signed(a, 24), to_signed(b, 24)
        return function(a, b, *c) & 0xFFFFFFFF

    return lanewise(one, 32)


def bit_mask(clamp: bool) -> Callable[..., Value]:
    """bmsk: so many bits from a position on. PTX ISA, bmsk."""

    def one(position: int, width: int) -> int:
        position, width = (min(position, 32), min(width, 32)) if clamp else (position & 31, width & 31)
        return ((1 << width) - 1) << position & 0xFFFFFFFF

    return lanewise(one, 32)


def extend_from(kind: str, clamp: bool) -> Callable[..., Value]:
    """szext: the lower so many bits, sign- or zero-extended. PTX ISA, szext."""

    def one(a: int, count: int) -> int:
        count = min(count, 32) if clamp else count & 31
        field = a & (1 << count) - 1
        return to_bits(to_signed(field, count), 32) if kind == "s" and count else field

    return lanewise(one, 32)


def pack(kind: str, bits: int) -> Callable[..., Value]:
    """cvt.pack.sat: two integers that stop at the ends of ``kind`` and ``bits``, b in the lowest bits, a
    above it, and c moved up. PTX ISA, cvt.pack.
    """
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind == "s" else (0, (1 << bits) - 1)

    def one(a: int, b: int, c: int = 0) -> int:
        a, b = (min(max(to_signed(v, 32), low), high) & (1 << bits) - 1 for v in (a, b))
        return (c << 2 * bits | a << bits | b) & 0xFFFFFFFF

    return lanewise(one, 32)


def dot_product(a_kind: str, b_kind: str, part: str) -> Callable[..., int]:
    """dp4a, and dp2a where ``part`` is "lo" or "hi": which two bytes of b are taken. PTX ISA, dp2a, dp4a."""
    width, first = (16, 2 * (part == "hi")) if part else (8, 0)

    def apply(a: int, b: int, c: int) -> int:
        for i in range(32 // width):
            left, right = a >> width * i & (1 << width) - 1, b >> 8 * (first + i) & 255
            left = to_signed(left, width) if a_kind == "s" else left
            c += left * (to_signed(right, 8) if b_kind == "s" else right)
        return c & 0xFFFFFFFF

    return apply


def copy_sign(bits: int) -> Callable[..., Value]:
    """copysign d, a, b: b with the sign of a."""
    sign = 1 << bits - 1

    def apply(a: Value, b: Value) -> Value:
        if a.__class__ is int and b.__class__ is int:
            return a & sign | b & ~sign
        top = UNSIGNED[bits](sign)
        return vector(a, bits) & top | vector(b, bits) & ~top

    return apply


def lookup3(a: Value, b: Value, c: Value, table: int, mask: int) -> Value:
    """lop3: any function of three bits, by its truth table."""
    result = 0
    for i in range(8):
        if table >> i & 1:
            result |= (a if i & 4 else a ^ mask) & (b if i & 2 else b ^ mask) & (c if i & 1 else c ^ mask)
    return result


def extract_field(kind: str, bits: int) -> Callable[..., Value]:
    def one(a: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        field = (a >> position) & ((1 << length) - 1) if position < bits else 0
        if kind == "s" and length:
            sign = (a >> min(position + length - 1, bits - 1)) & 1
            if sign:
                known = min(length, max(bits - position, 0))
                field |= ((1 << bits) - 1) ^ ((1 << known) - 1)
        return field & ((1 << bits) - 1)

    return lanewise(one, bits)


def insert_field(bits: int) -> Callable[..., Value]:
    def one(a: int, b: int, position: int, length: int) -> int:
        mask = ((1 << (length & 255)) - 1) << (position & 255) & ((1 << bits) - 1)
        return (b & ~mask) | ((a << (position & 255)) & mask)

    return lanewise(one, bits)


def funnel_shift(left: bool, clamp: bool) -> Callable[..., Value]:
    def one(low: int, high: int, count: int) -> int:
        count = min(count, 32) if clamp else count & 31
        both = high << 32 | low
        return ((both << count) >> 32 if left else both >> count) & 0xFFFFFFFF

    return lanewise(one, 32)


# Registers in parts


def packed(function: Callable[..., Any], bits: int = 16) -> Callable[..., Value]:
    """A function of 16-bit values, on both halves of 32-bit registers (f16x2, bf16x2)."""

    def apply(*values: Value) -> Value:
        low = function(*[half(v, 0) for v in values])
        high = function(*[half(v, 1) for v in values])
        return join([low, high], 16)

    return apply


def half(value: Value, index: int) -> Value:
    if value.__class__ is int:
        return (value >> 16 * index) & 0xFFFF
    return value.view(np.uint16)[index::2]


def join(parts: Sequence[Value], bits: int) -> Value:
    """mov.b32 from two halves and the like: the first part is the low one."""
    total = bits * len(parts)
    if len(parts) == 2 and bits < 64:  # quicker than in a loop
        low, high = parts
        if low.__class__ is int and high.__class__ is int:
            return high << bits | low
        pairs: np.ndarray = np.empty(2 * LANES, UNSIGNED[bits])
        pairs[::2], pairs[1::2] = low, high
        return pairs.view(UNSIGNED[total])
    if all(p.__class__ is int for p in parts):
        return sum(p << bits * i for i, p in enumerate(parts))
    if total == 128:
        return lanewise(lambda *lane: sum(part << bits * i for i, part in enumerate(lane)), 128)(*parts)
    out: np.ndarray = np.empty((LANES, len(parts)), UNSIGNED[bits])
    for i, part in enumerate(parts):
        out[:, i] = part
    return out.view(UNSIGNED[total]).reshape(LANES)


def separate(value: Value, bits: int, count: int) -> tuple[Value, ...]:
    """The inverse of ``join``."""
    if value.__class__ is int:
        return tuple((value >> bits * i) & ((1 << bits) - 1) for i in range(count))
    if value.dtype == np.object_:
        return tuple(
            np.array([lane >> bits * i & (1 << bits) - 1 for lane in value], UNSIGNED[bits])
            for i in range(count)
        )
    parts: np.ndarray = np.ascontiguousarray(value).view(UNSIGNED[bits]).reshape(LANES, count)
    return tuple(np.ascontiguousarray(parts[:, i]) for i in range(count))
