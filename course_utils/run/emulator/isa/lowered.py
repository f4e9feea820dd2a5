"""``Lowered``: how one instruction runs. What the builders make, and ``translate`` generates code from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from course_utils.ptx.parser import Instr, Mem, Not, Reg, Vec

# What a register holds: a Python int where all 32 lanes agree (a bool for a predicate), else an array of 32
# unsigned integers. A union would have to be narrowed at every use, and `value.__class__ is int`, the
# cheapest way to ask, narrows one side only; so it is Any to a type checker.
Value: TypeAlias = Any
Mask: TypeAlias = np.ndarray | None  # a path's active lanes; None is all 32
Source: TypeAlias = tuple[Any, int]  # an operand, and the width of its immediates
Builder: TypeAlias = Callable[[Instr], "Lowered"]


class InFlight:
    """What a register holds while an asynchronous instruction may still write it: such a value can be moved,
    and nothing else.
    """

    __slots__ = ()
    __array_ufunc__ = None


@dataclass(slots=True)
class Lowered:
    """How one instruction runs: a Python function and what it reads and writes.

    Functions of ``kind`` "value" and "copy" see values only; "warp" ones also get the path and its active
    lanes; "blocking" ones the next instruction too, and may stop the path there. "branch", "exit" and
    "nothing" have none. ``sources`` pairs operands with the width of their immediates.
    """

    kind: str
    function: Callable[..., Any] | None = None
    targets: tuple[Reg | None, ...] = ()
    sources: tuple[Source, ...] = ()
    unpack: bool = False  # the function returns one value for each target
    cut: bool = False  # another warp may run after it
    hidden_reads: tuple[int, ...] = ()
    hidden_writes: tuple[int, ...] = ()

    def writes(self) -> list[int]:
        return [r.index for r in self.targets if r is not None] + list(self.hidden_writes)

    def reads(self, instruction: Instr) -> list[int]:
        found = list(self.hidden_reads)
        if instruction.guard:
            found.append(instruction.guard[0].index)
            found += self.writes()  # a guarded write keeps the old value where the guard is false
        stack = [operand for operand, _ in self.sources]
        while stack:
            item = stack.pop()
            if isinstance(item, Reg):
                found.append(item.index)
            elif isinstance(item, Not):
                stack.append(item.item)
            elif isinstance(item, Vec):
                stack += item.items
            elif isinstance(item, Mem):
                stack += [item.base, *item.coordinates]
        return found


def items_of(operand: Any) -> tuple[Any, ...]:
    """The parts of a vector operand, or the one operand that it is."""
    return operand.items if isinstance(operand, Vec) else (operand,)


_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "param", "const")


def space_of(opcode: tuple[str, ...]) -> str:
    """The state space that an opcode names; generic where it names none."""
    space = next((p for p in opcode if p in _SPACES or p.startswith("param")), "generic")
    return "param" if space.startswith("param") else "global" if space == "const" else space
