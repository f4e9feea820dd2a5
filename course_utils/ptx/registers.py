"""Who moves registers with ``setmaxnreg``, and which way: a producer gives some, a consumer takes some."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from course_utils.artifact import Artifact, Place
from course_utils.cause import Cause
from course_utils.ptx.added import authors
from course_utils.ptx.families import Family, family
from course_utils.ptx.parser import Imm, PtxError
from course_utils.ptx.receipts import edges, reached

FEW = "minimum register requirements"  # the same
UNKNOWN = "unable to determine register count at entry"  # ptxas, of a setmaxnreg that it ignores
LOADS = {Family.TENSOR_LOAD, Family.MULTICAST_LOAD, Family.BULK_LOAD}


@dataclass(frozen=True)
class Move:
    """One ``setmaxnreg``: ``way`` is inc or dec, ``role`` "" where it stands before the roles part, ``place``
    the author's line. ``share`` is what each thread could have without any of them, 0 where
    all could have the most that there is.
    """

    way: str
    count: int
    role: str
    place: Place | None
    share: int = 0

    @property
    def astray(self) -> bool:
        """Does a producer take registers, or a consumer give some back?"""
        return (self.role, self.way) in (("producer", "inc"), ("consumer", "dec"))

    @property
    def idle(self) -> bool:
        """Does it ask for no more than a thread could have without it, or give none of that back?"""
        return self.share > 0 and (
            self.count <= self.share if self.way == "inc" else self.count >= self.share
        )


def moves(artifact: Artifact) -> Iterator[Move]:
    """Each ``setmaxnreg`` of the kernel, in the order of its PTX; none of PTX that cannot be read."""
    try:
        found = list(authors(artifact))
    except PtxError:
        return
    body = [instruction for instruction, _ in found]
    chip = artifact.chip
    even = chip.even_registers(artifact.threads)
    share = even if even < chip.thread_registers else 0
    after = edges(body)
    for at, (instruction, origin) in enumerate(found):
        if family(instruction) is not Family.SETMAXNREG:
            continue
        ahead = {family(body[to]) for to in reached(at, after)}
        loads, multiplies = bool(ahead & LOADS), Family.WGMMA in ahead
        role = "" if loads == multiplies else "producer" if loads else "consumer"
        place = None if origin is None else artifact.place(origin)
        count = next((operand.value for operand in instruction.operands if isinstance(operand, Imm)), 0)
        yield Move(instruction.opcode[1], count, role, place, share)


def reallocated(artifact: Artifact) -> tuple[Cause, Place | None]:
    """What the kernel moves, what ptxas says of it, and the line of the first move that is no use."""
    if any(UNKNOWN in warning for warning in artifact.resources.warnings) and artifact.dsl == "cute":
        launch = artifact.line(r"\.launch\(")
        place = None
        if launch is not None:  # its operands are long, and none of them is why
            place = artifact.place(launch)
            place = replace(place, code=f"{place.code.partition('(')[0]}(...).launch(...)")
        return Cause("found", "no-register-bound"), place
    found = list(moves(artifact))
    warnings = [re.sub(r"^\(C\d+\)[^:]*: ", "", w) for w in artifact.resources.warnings if "setmaxnreg" in w]
    astray = any(move.astray for move in found)
    if not astray and any(FEW in text for text in warnings) and (few := _fewest(found, artifact)):
        values = {"way": few.way, "count": few.count, "role": few.role}
        return Cause("found", "too-few-registers", values), few.place
    ignored = ["and ptxas ignores them" if FEW in text else text for text in warnings]
    moved = [
        {"way": move.way, "count": move.count, "role": move.role, "idle_share": move.share * move.idle}
        for move in found
    ]
    if not moved and not ignored:
        return Cause("found", "none"), None
    place = next((move.place for move in found if (move.astray or move.idle) and move.place), None)
    return Cause("found", "registers-moved", {"moves": moved, "ptxas": ignored}), place


def _fewest(found: list[Move], artifact: Artifact) -> Move | None:
    """The move that leaves its warps fewer registers than their code needs: one of those that take some, if
    it takes fewer than the kernel has, else one that gives too many back.
    """
    few = [move for move in found if move.way == "inc" and move.count < artifact.resources.registers]
    few += [move for move in found if move.way == "dec"]
    return next(iter(few), None)
