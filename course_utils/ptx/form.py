"""The normal form of a kernel: what it does, without the names and the order in which that was written.

An instruction counts with its opcode, modifiers, guard, constants and special registers. Registers, labels
and symbols have no names here, and independent instructions no order: the form is how often each instruction
is there. Two kernels of one form come from one design; what a compiler makes equal is equal here too.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from typing import Any

from course_utils.ptx.parser import Imm, Instr, Mem, Not, Reg, Sym, Vec, parse

LIMIT = 100_000  # instructions that are looked at; the longest kernel of the course has 1,100


def form(ptx: str, kernel: str = "") -> str:
    """The normal form of a kernel and the functions of its module, as a digest. Raises PtxError."""
    parsed = parse(ptx, kernel)
    bodies = (parsed.instructions, *parsed.functions)
    counts = Counter(_instruction(i) for body in bodies for i in body[:LIMIT])
    text = "\n".join(f"{count} {name}" for name, count in sorted(counts.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _instruction(i: Instr) -> str:
    guard = "" if i.guard is None else "@! " if i.guard[1] else "@ "
    return f"{guard}{i.name} {_all(i.operands)}"


def _all(operands: Iterable[Any]) -> str:
    return ",".join(map(_operand, operands))


def _operand(operand: Any) -> str:
    match operand:
        case Reg(width=width):
            return f"r{width}"
        case Imm(value=value):
            return str(value)
        case Sym(name=name, offset=offset):
            return f"{name if name.startswith('%') else 's'}+{offset}"
        case Vec(items=items):
            return f"{{{_all(items)}}}"
        case Mem(base=base, offset=offset, coordinates=coordinates):
            return f"[{_operand(base)}+{offset},{_all(coordinates)}]"
        case Not(item=item):
            return f"!{_operand(item)}"
    return "_"
