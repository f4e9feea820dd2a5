"""Value instructions: what they make of the values of their sources, and nothing besides. ``VALUES`` has them
by opcode, each with its builder.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from course_utils.ptx.parser import Instr, Reg, Vec
from course_utils.run.emulator.isa import arithmetic as ar
from course_utils.run.emulator.isa import floats as fl
from course_utils.run.emulator.isa.lowered import Builder, InFlight, Lowered, Source, Value, items_of


def value(
    function: Callable[..., Any] | None, instruction: Instr, *widths: int, copy: bool = False
) -> Lowered:
    target, *sources = instruction.operands
    if len(sources) != len(widths):
        raise ValueError(f"{len(sources)} sources, not {len(widths)}")
    kind, given = "copy" if copy else "value", tuple(zip(sources, widths, strict=True))
    return Lowered(kind, function, items_of(target), given, isinstance(target, Vec))


def _typed(make: Callable[[str, int], Callable[..., Any]], *widths: int) -> Builder:
    """A builder for instructions that compute ``make(kind, bits)`` of the opcode's type. ``widths`` are those
    of the sources, 0 where it is the type's.
    """

    def build(i: Instr) -> Lowered:
        kind, bits = ar.split_type(i.opcode[-1])
        return value(make(kind, bits), i, *(width or bits for width in widths))

    return build


def _arithmetic(function: Callable[..., Any], name: str, count: int = 2) -> Builder:
    """add, sub and the like: integers wrap, floats round, pairs of halves go half by half."""

    def build(i: Instr) -> Lowered:
        type_name, words = i.opcode[-1], i.opcode[1:-1]
        kind, bits = ar.split_type(type_name)
        real = function
        if "NaN" in words:  # else a number goes before NaN
            real = np.minimum if name == "min" else np.maximum
        if type_name in ("f16x2", "bf16x2"):
            return value(ar.packed(fl.float_function(real, type_name[:-2], words)), i, *[32] * count)
        if type_name in ("u16x2", "s16x2"):
            half = ar.wrapping(function, 16)
            if name in ("min", "max"):
                half = _extreme(name, kind[0], 16, words)
            if "sat" in words:
                raise ValueError("pairs that saturate")
            return value(ar.packed(half), i, 32, 32)
        if kind in ("f", "bf"):
            return value(fl.float_function(real, type_name, words), i, *[bits] * count)
        if kind not in ("u", "s", "b"):
            raise ValueError(f"the type {type_name}")
        if "sat" in words:
            return value(ar.clamped(function, bits), i, bits, bits)
        if name in ("min", "max"):
            return value(_extreme(name, kind, bits, words), i, bits, bits)
        if name == "abs":
            return value(ar.wrapping(ar.signed_or_not(abs, kind, bits), bits), i, bits)
        return value(ar.wrapping(function, bits), i, *[bits] * count)

    return build


def _extreme(name: str, kind: str, bits: int, words: tuple[str, ...]) -> Callable[..., Value]:
    """min and max of integers; .relu takes what is below 0 for 0."""
    chosen, above = ar.minimum(kind, bits, name == "max"), ar.minimum(kind, bits, True)
    if "relu" not in words:
        return chosen
    if kind != "s":
        raise ValueError("relu of an unsigned type")
    return lambda a, b: above(chosen(a, b), 0)


def _multiply(i: Instr) -> Lowered:
    type_name = i.opcode[-1]
    kind, bits = ar.split_type(type_name)
    if type_name in ("f16x2", "bf16x2") or kind in ("f", "bf"):
        return _arithmetic(operator.mul, "mul")(i)
    return value(ar.multiply(kind, bits, i.opcode[1]), i, bits, bits)


def _multiply_add(i: Instr) -> Lowered:
    type_name = i.opcode[-1]
    kind, bits = ar.split_type(type_name)
    words = i.opcode[1:-1]
    if type_name in ("f16x2", "bf16x2"):
        return value(ar.packed(fl.fused(type_name[:-2], words)), i, 32, 32, 32)
    if kind in ("f", "bf"):
        return value(fl.fused(type_name, words), i, bits, bits, bits)
    product, total = ar.multiply(kind, bits, i.opcode[1]), bits * (2 if i.opcode[1] == "wide" else 1)
    add = ar.wrapping(operator.add, total)
    return value(lambda a, b, c: add(product(a, b), c), i, bits, bits, total)


def _dot_product(i: Instr) -> Lowered:
    """dp4a, dp2a: four bytes by four, or two halves by the low or high two bytes, added to c."""
    a_kind, b_kind = (ar.split_type(name)[0] for name in i.opcode[-2:])
    part = i.opcode[1] if i.opcode[0] == "dp2a" else ""
    return value(ar.lanewise(ar.dot_product(a_kind, b_kind, part), 32), i, 32, 32, 32)


def _set_predicate(i: Instr) -> Lowered:
    kind, bits = ar.split_type(i.opcode[-1])
    relation, real = i.opcode[1], kind in ("f", "bf")
    test = fl.compare(relation, i.opcode[-1]) if real else ar.compare(relation, kind, bits)
    targets = items_of(i.operands[0])
    combine = next((c for c in i.opcode[2:-1] if c in ("and", "or", "xor")), None)
    sources: list[Source] = [(i.operands[1], bits), (i.operands[2], bits)]
    function = test
    if combine:
        join = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}[combine]
        sources.append((i.operands[3], 1))
        if len(targets) == 2:
            invert = ar.logical_not(1)

            def function(a: Value, b: Value, c: Value) -> Any:
                first = test(a, b)
                return join(first, c), join(invert(first), c)
        else:

            def function(a: Value, b: Value, c: Value) -> Any:
                return join(test(a, b), c)
    elif len(targets) == 2:
        invert = ar.logical_not(1)

        def function(a: Value, b: Value) -> Any:
            first = test(a, b)
            return first, invert(first)

    return Lowered("value", function, targets, tuple(sources), len(targets) == 2)


def _joined(parts: tuple[Value, ...], bits: int) -> Value:
    """A register from its parts. A compiler fills a half that nobody reads with a register never written."""
    try:
        return ar.join(parts, bits)
    except TypeError:
        known = [part for part in parts if part is not None]
        if not known or any(isinstance(part, InFlight) for part in known):
            raise
        return ar.join([0 if part is None else part for part in parts], bits)


def _move(i: Instr) -> Lowered:
    _, bits = ar.split_type(i.opcode[-1])  # "pred" has no number: 1
    target, source = i.operands
    if isinstance(source, Vec):
        part = bits // len(source.items)
        sources = tuple((item, part) for item in source.items)
        return Lowered("value", lambda *parts: _joined(parts, part), (target,), sources)
    if isinstance(target, Vec):
        count = len(target.items)
        part = bits // count
        return Lowered("value", lambda v: ar.separate(v, part, count), target.items, ((source, bits),), True)
    return value(None, i, bits, copy=True)


def _convert(i: Instr) -> Lowered:
    types = [p for p in i.opcode[1:] if p in fl.CONVERTED or (p[0] in "usfb" and p[-1].isdigit())]
    modifiers = tuple(p for p in i.opcode[1:] if p not in types)
    if "tf32" in types:
        return value(fl.convert_tf32(modifiers), i, 32)
    if fl.FP8_PAIRS & set(types):
        sources = (16 if types[1] in fl.FP8_PAIRS else 32,) * (len(i.operands) - 1)
        return value(fl.convert_fp8(types[0], types[1], modifiers), i, *sources)
    if types[0] in ("f16x2", "bf16x2"):
        return value(fl.convert_pair(types[0], modifiers), i, 32, 32)
    (_, to_bits), (_, bits) = ar.split_type(types[0]), ar.split_type(types[1])
    function = fl.convert(types[0], types[1], modifiers)
    target, source = i.operands
    if isinstance(source, Reg) and source.width > bits:
        narrow = function

        def function(a: Value) -> Any:
            return narrow(ar.widen(a, "u", source.width, bits))

    if target.width > to_bits:  # an 8-bit result in a wider register
        short, to_kind = function, ar.split_type(types[0])[0]

        def function(a: Value) -> Any:
            return ar.widen(short(a), to_kind, to_bits, target.width)

    return value(function, i, bits)


def _logic(function: Callable[..., Any]) -> Builder:
    return _typed(lambda kind, bits: function, 0, 0)


def _unary_float(function: Callable[..., Any]) -> Builder:
    def build(i: Instr) -> Lowered:
        type_name, words = i.opcode[-1], i.opcode[1:-1]
        if type_name in ("f16x2", "bf16x2"):
            return value(ar.packed(fl.float_function(function, type_name[:-2], words)), i, 32)
        return value(fl.float_function(function, type_name, words), i, ar.split_type(type_name)[1])

    return build


def _count(function: Callable[[int, str, int], int]) -> Builder:
    """popc, clz: a count out of one integer."""
    return _typed(lambda kind, bits: ar.lanewise(lambda a: function(a, kind, bits), 32), 0)


def _find_bit(a: int, kind: str, bits: int) -> int:
    if kind == "s" and a >> bits - 1:
        a ^= (1 << bits) - 1
    return a.bit_length() - 1 if a else 0xFFFFFFFF


def _find_first(i: Instr) -> Lowered:
    """bfind: the highest bit that counts; with .shiftamt how far it is from the top."""
    kind, bits = ar.split_type(i.opcode[-1])
    shift = "shiftamt" in i.opcode

    def one(a: int) -> int:
        found = _find_bit(a, kind, bits)
        return bits - 1 - found if shift and found < bits else found

    return value(ar.lanewise(one, 32), i, bits)


def _set(i: Instr) -> Lowered:
    """set: a comparison that gives a number: all ones or 1.0 where it holds. PTX ISA, set."""
    relation, to, source = i.opcode[1], i.opcode[-2], i.opcode[-1]
    kind, bits = ar.split_type(source.removesuffix("x2"))
    test = (
        fl.compare(relation, source.removesuffix("x2"))
        if kind in ("f", "bf")
        else ar.compare(relation, kind, bits)
    )
    if source.endswith("x2"):
        one = 0xFFFF if to in ("u32", "s32") else {"f16x2": 0x3C00, "bf16x2": 0x3F80}[to]
        chosen = ar.select(16)
        return value(ar.packed(lambda a, b: chosen(one, 0, test(a, b))), i, 32, 32)
    yes = {
        "u32": 0xFFFFFFFF,
        "s32": 0xFFFFFFFF,
        "f32": 0x3F800000,
        "u16": 0xFFFF,
        "s16": 0xFFFF,
        "f16": 0x3C00,
    }[to]
    pick = ar.select(ar.split_type(to)[1])
    return value(lambda a, b: pick(yes, 0, test(a, b)), i, bits, bits)


def _select_by_sign(i: Instr) -> Lowered:
    """slct: a where c is 0 or more, else b."""
    (_, bits), chooser = ar.split_type(i.opcode[-2]), i.opcode[-1]
    test = fl.compare("ge", "f32") if chooser == "f32" else ar.compare("ge", "s", 32)
    pick = ar.select(bits)
    return value(lambda a, b, c: pick(a, b, test(c, 0)), i, bits, bits, 32)


def _mul24(i: Instr) -> Lowered:
    kind, _ = ar.split_type(i.opcode[-1])
    if i.opcode[0] == "mad24":
        return value(ar.low_24(lambda a, b, c: a * b + c, kind), i, 32, 32, 32)
    return value(ar.low_24(operator.mul, kind), i, 32, 32)


def _absolute_difference(i: Instr) -> Lowered:
    """sad: c and how far a is from b."""
    kind, bits = ar.split_type(i.opcode[-1])

    def one(a: int, b: int, c: int) -> int:
        a, b = (ar.to_signed(v, bits) if kind == "s" else v for v in (a, b))
        return (c + abs(a - b)) & (1 << bits) - 1

    return value(ar.lanewise(one, bits), i, bits, bits, bits)


def _pack(i: Instr) -> Lowered:
    """cvt.pack.sat.TYPE.s32{.b32} d, a, b{, c}."""
    kind, bits = ar.split_type(i.opcode[3])
    if i.opcode[2] != "sat" or i.opcode[4] != "s32" or len(i.operands) != 3 + (i.opcode[5:] == ("b32",)):
        raise ValueError("other types or operands")
    if len(i.operands) == 3 and bits != 16:
        raise ValueError("other types or operands")
    return value(ar.pack(kind, bits), i, *[32] * (len(i.operands) - 1))


def _lop3(i: Instr) -> Lowered:
    if isinstance(i.operands[0], Vec):
        raise ValueError("the predicate form")
    target, *sources, table = i.operands
    function = partial(ar.lookup3, table=table.value, mask=0xFFFFFFFF)
    return Lowered("value", function, (target,), tuple((s, 32) for s in sources))


def _reverse(kind: str, bits: int) -> Callable[..., Value]:
    return ar.lanewise(lambda a: int(format(a, f"0{bits}b")[::-1], 2), bits)


def _permute(i: Instr) -> Lowered:
    mode = "".join(i.opcode[2:])
    return value(ar.lanewise(partial(ar.permute_bytes, mode=mode), 32), i, 32, 32, 32)


def _divide(i: Instr) -> Lowered:
    if i.opcode[-1][0] == "f":
        return _arithmetic(np.divide, "div")(i)
    return _typed(lambda kind, bits: ar.divide(kind, bits, False), 0, 0)(i)


def _funnel_shift(i: Instr) -> Lowered:
    return value(ar.funnel_shift(i.opcode[1] == "l", i.opcode[2] == "clamp"), i, 32, 32, 32)


VALUES: dict[str, Builder] = {
    # Integer Arithmetic Instructions; Floating Point Instructions; Half Precision Floating Point Instructions
    "add": _arithmetic(operator.add, "add"),
    "sub": _arithmetic(operator.sub, "sub"),
    "mul": _multiply,
    "mul24": _mul24,
    "mad24": _mul24,
    "sad": _absolute_difference,
    "mad": _multiply_add,
    "fma": _multiply_add,
    "div": _divide,
    "rem": _typed(lambda kind, bits: ar.divide(kind, bits, True), 0, 0),
    "min": _arithmetic(np.fmin, "min"),
    "max": _arithmetic(np.fmax, "max"),
    "abs": _arithmetic(np.abs, "abs", 1),
    "neg": _arithmetic(operator.neg, "neg", 1),
    "rcp": _unary_float(lambda a: np.divide(1, a)),
    "sqrt": _unary_float(np.sqrt),
    "rsqrt": _unary_float(lambda a: 1 / np.sqrt(a)),
    "ex2": _unary_float(np.exp2),
    "lg2": _unary_float(np.log2),
    "sin": _unary_float(np.sin),
    "cos": _unary_float(np.cos),
    "tanh": _unary_float(np.tanh),
    "dp4a": _dot_product,
    "dp2a": _dot_product,
    "copysign": _typed(lambda kind, bits: ar.copy_sign(bits), 0, 0),
    "testp": lambda i: value(fl.test_property(i.opcode[1], i.opcode[-1]), i, ar.split_type(i.opcode[-1])[1]),
    "popc": _count(lambda a, kind, bits: bin(a).count("1")),
    "clz": _count(lambda a, kind, bits: bits - a.bit_length()),
    "bfind": _find_first,
    "bmsk": lambda i: value(ar.bit_mask(i.opcode[1] == "clamp"), i, 32, 32),
    "szext": lambda i: value(ar.extend_from(i.opcode[-1][0], i.opcode[1] == "clamp"), i, 32, 32),
    "brev": _typed(_reverse, 0),
    "bfe": _typed(ar.extract_field, 0, 32, 32),
    "bfi": _typed(lambda kind, bits: ar.insert_field(bits), 0, 0, 32, 32),
    # Comparison and Selection Instructions
    "setp": _set_predicate,
    "set": _set,
    "slct": _select_by_sign,
    "selp": _typed(lambda kind, bits: ar.select(bits), 0, 0, 1),
    # Logic and Shift Instructions
    "and": _logic(operator.and_),
    "or": _logic(operator.or_),
    "xor": _logic(operator.xor),
    "not": _typed(lambda kind, bits: ar.logical_not(bits), 0),
    "cnot": _typed(lambda kind, bits: ar.lanewise(lambda a: int(a == 0), bits), 0),
    "lop3": _lop3,
    "shl": _typed(lambda kind, bits: ar.shift_left(bits), 0, 32),
    "shr": _typed(ar.shift_right, 0, 32),
    "shf": _funnel_shift,
    # Data Movement and Conversion Instructions
    "mov": _move,
    "cvt": _convert,
    "cvt.pack": _pack,
    "prmt": _permute,
}
