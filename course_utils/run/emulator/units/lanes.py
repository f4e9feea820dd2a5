"""Instructions of a warp's own lanes together: shuffles, votes, elect, redux and movmatrix.

PTX ISA, "Data Movement and Conversion Instructions", "Parallel Synchronization and Communication
Instructions", "Warp-level matrix transpose".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from course_utils.ptx.parser import Instr, PtxError
from course_utils.run.emulator.core.threads import Wait
from course_utils.run.emulator.isa.arithmetic import LANES, split_type, to_signed, vector
from course_utils.run.emulator.isa.lowered import Lowered, Mask, Value, items_of
from course_utils.run.emulator.units.sync import all_lanes

if TYPE_CHECKING:
    from course_utils.run.emulator.core.threads import Path, Warp

_EVERYONE = 0xFFFFFFFF
_BIT = np.uint32(1) << np.arange(LANES, dtype=np.uint32)


def shuffle(instruction: Instr) -> Lowered:
    mode = instruction.opcode[2]
    target, value, index, clamp, members = instruction.operands
    targets = items_of(target)
    own = np.arange(LANES)
    if mode not in ("up", "down", "bfly", "idx"):
        raise ValueError(f"the mode {mode}")

    def function(p: Path, m: Mask, a: Value, b: Value, c: Value, members: Value) -> Any:
        if m is not None or members.__class__ is not int or members != _EVERYONE:
            _ballot(p, m, True, members)
        if mode == "idx" and a.__class__ is int:
            return (a, True) if len(targets) > 1 else a
        b, c = (np.asarray(v, np.int64) for v in (b, c))
        segment, limit = (c >> 8) & 31, c & 31
        low, high = own & segment, (own & segment) | (limit & ~segment)
        b = b & 31
        source, valid = {
            "up": (own - b, own - b >= high),
            "down": (own + b, own + b <= high),
            "bfly": (own ^ b, (own ^ b) <= high),
            "idx": (low | (b & ~segment), (low | (b & ~segment)) <= high),
        }[mode]
        source = np.where(valid, source, own)
        result: Value = vector(a, 32)[source]
        if mode == "idx" and (source == source[0]).all():
            result = int(result[0])
        return (result, valid) if len(targets) > 1 else result

    sources = tuple((operand, 32) for operand in (value, index, clamp, members))
    return Lowered("warp", _by_masks(function, len(targets)), targets, sources, unpack=len(targets) > 1)


def _ballot(p: Path, m: Mask, predicate: Value, members: Value) -> tuple[np.ndarray, np.ndarray]:
    """Lanes that say yes, and lanes that are asked.

    A .sync instruction waits for every lane that its mask names, and is undefined in one that it does not.
    """
    lanes = p.lanes() if m is None else m
    member = _in_mask(p, lanes, _named(lanes, members))
    absent = int((member & ~lanes & p.warp.alive).sum())
    if absent:
        p.halt("absent-lanes", "absent lanes", who=p.warp, count=absent)
    if ended := int((member & p.warp.gone).sum()):
        p.report("ended-lanes", "lanes that have ended", who=p.warp, count=ended)
    asked = lanes & member
    return asked & predicate, asked


def _named(lanes: np.ndarray, members: Value) -> int:
    """The mask that these lanes name, all the same one."""
    return members if members.__class__ is int else int(members[lanes][0])


def _by_masks(function: Callable[..., Any], targets: int = 1) -> Callable[..., Any]:
    """``function``, where lanes may name masks of their own: once for those that name each, groups of a warp
    that exchange something at once. ``targets`` is how many results it has.
    """

    def whole(p: Path, m: Mask, *given: Any) -> Any:
        *values, members = given
        lanes = p.lanes() if m is None else m
        if members.__class__ is int or (members[lanes] == members[lanes][0]).all():
            return function(p, m, *given)
        found: list[Any] = [None] * targets
        for mask in np.unique(members[lanes]):
            group = lanes & (members == mask)
            made = function(p, group, *values, int(mask))
            for n, one in enumerate(made if targets > 1 else (made,)):
                kind = np.asarray(one).dtype if isinstance(one, np.ndarray | bool) else np.uint32
                one = np.broadcast_to(np.asarray(one, kind), LANES)
                found[n] = one if found[n] is None else np.where(group, one, found[n])
        return found if targets > 1 else found[0]

    return whole


def _in_mask(p: Path, lanes: np.ndarray, members: int) -> np.ndarray:
    """The lanes that a mask names: these lanes must be among them."""
    member = np.full(LANES, True) if members == _EVERYONE else (_BIT & np.uint32(members)) != 0
    if strays := int((lanes & ~member).sum()):
        p.halt("lane-mask", "lanes not in the mask", who=p.warp, count=strays)
    return member


def vote(instruction: Instr) -> Lowered:
    mode = instruction.opcode[2]
    if mode not in ("ballot", "any", "all", "uni"):
        raise ValueError(f"the mode {mode}")
    target, predicate, members = instruction.operands

    def function(p: Path, m: Mask, value: Value, members: Value) -> Any:
        yes, asked = _ballot(p, m, value, members)
        if mode == "ballot":
            return int(_BIT[yes].sum())
        return {
            "any": bool(yes.any()),
            "all": bool((yes == asked).all()),
            "uni": bool((yes == asked).all() or not yes.any()),
        }[mode]

    return Lowered("warp", _by_masks(function), (target,), ((predicate, 1), (members, 32)))


def match(instruction: Instr) -> Lowered:
    """match.any and match.all: who has the same value, and whether all have."""
    _, bits = split_type(instruction.opcode[-1])
    target, value, members = instruction.operands
    targets, every = items_of(target), instruction.opcode[1] == "all"
    if len(targets) > 1 + every:
        raise ValueError("a predicate, which match.all has alone")

    def function(p: Path, m: Mask, value: Value, members: Value) -> Any:
        _, asked = _ballot(p, m, True, members)
        value = vector(value, bits)
        if every:
            alike = bool((value[asked] == value[asked][0]).all())
            found = int(_BIT[asked].sum()) if alike else 0
            return (found, alike) if len(targets) > 1 else found
        return np.array([int(_BIT[asked & (value == value[lane])].sum()) for lane in range(LANES)], np.uint32)

    sources = (value, bits), (members, 32)
    return Lowered("warp", _by_masks(function, len(targets)), targets, sources, unpack=len(targets) > 1)


class WarpBarriers:
    """bar.warp.sync in a warp whose lanes have parted: who waits, and where each goes on, by the mask that
    they name.
    """

    def __init__(self, warp: Warp) -> None:
        self.waiting: dict[int, list[tuple[Path, int]]] = {}


@dataclass(eq=False)
class LanesWait(Wait):
    """A path at bar.warp.sync that lanes ``absent`` (a mask) of its warp have not come to."""

    expires = True  # it looks again: lanes that have ended are not waited for
    absent: int

    def expire(self, path: Path) -> None:
        """The path stands at the instruction still."""


def _meet_in_groups(p: Path, m: np.ndarray, members: np.ndarray, following: int) -> int:
    """Lanes with masks of their own come to bar.warp.sync: each group has to be here already."""
    for mask in np.unique(members[m]).tolist():
        group = m & (members == mask)
        if (_in_mask(p, group, mask) & p.warp.alive & ~group).any():
            i = p.machine.program.kernel.instructions[p.at]
            what = f"`{i.name}` by groups of lanes that have parted is not modelled by the emulator"
            raise PtxError(f"PTX line {i.line}: {what}: {i.text[:160]}")
    return following


def barrier(instruction: Instr) -> Lowered:
    """bar.warp.sync: lanes of a warp wait for each other, where they stand. PTX ISA, "bar.warp.sync"."""
    (members,) = instruction.operands

    def function(p: Path, m: Mask, following: int, members: Value) -> int:
        if m is None and members.__class__ is int and members == _EVERYONE:
            return following
        m = p.lanes() if m is None else m
        if members.__class__ is not int and (members[m] != members[m][0]).any():
            return _meet_in_groups(p, m, members, following)
        named = _named(m, members)
        member = _in_mask(p, m, named)
        waiting = p.warp.unit(WarpBarriers).waiting
        others = [(other, after) for other, after in waiting.pop(named, ()) if other is not p]
        here = m.copy()
        for other, _ in others:
            here |= other.lanes()
        absent = int(_BIT[member & p.warp.alive & ~here].sum())
        if absent:
            waiting[named] = [*others, (p, following)]
            return p.wait(p.at, LanesWait(absent))
        for other, after in others:
            other.pc = after
            if other.waits_for is not None:
                other.wake()
        p.machine.progress += 1
        return following

    return Lowered("blocking", function, sources=((members, 32),), cut=True)


def active_mask(instruction: Instr) -> Lowered:
    def function(p: Path, m: Mask) -> Any:
        return 0xFFFFFFFF if m is None else int(_BIT[m].sum())

    (target,) = instruction.operands
    return Lowered("warp", function, (target,))


_LEADERS = [np.arange(LANES) == lane for lane in range(LANES)]


def elect(instruction: Instr) -> Lowered:
    """elect.sync: the lowest active lane of the mask leads."""
    target, members = instruction.operands

    def function(p: Path, m: Mask, members: Value) -> Any:
        if m is None and members == 0xFFFFFFFF:
            return 0, _LEADERS[0]
        _, asked = _ballot(p, m, True, members)
        leader = int(np.flatnonzero(asked)[0])
        return leader, _LEADERS[leader]

    return Lowered("warp", _by_masks(function, 2), target.items, ((members, 32),), unpack=True)


def reduce(instruction: Instr) -> Lowered:
    operation, type_name = instruction.opcode[2], instruction.opcode[-1]
    kind, bits = split_type(type_name)
    target, value, members = instruction.operands
    chosen = {"add": np.add, "min": np.minimum, "max": np.maximum}
    join = (chosen | {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor})[operation]

    def function(p: Path, m: Mask, value: Value, members: Value) -> Any:
        _, asked = _ballot(p, m, True, members)
        values = vector(value, bits)[asked]
        values = to_signed(values, bits) if kind == "s" else values
        return int(join.reduce(values)) & 0xFFFFFFFF

    return Lowered("warp", _by_masks(function), (target,), ((value, 32), (members, 32)))


def transpose_matrix(instruction: Instr) -> Lowered:
    """movmatrix: an 8 x 8 matrix of halves that the warp holds, transposed."""
    if "m8n8" not in instruction.opcode or "trans" not in instruction.opcode:
        raise ValueError("another shape than m8n8.trans")
    target, source = instruction.operands

    def function(p: Path, m: Mask, a: Value) -> np.ndarray:
        all_lanes(p, m, "movmatrix")
        halves = np.ascontiguousarray(vector(a, 32)).view(np.uint16).reshape(8, 8)
        return np.ascontiguousarray(halves.T).view(np.uint32).reshape(LANES)

    return Lowered("warp", function, (target,), ((source, 32),))
