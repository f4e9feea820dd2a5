"""Who moves registers with ``setmaxnreg``, and which way: a producer gives some, a consumer takes some."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from course_utils.artifact import Artifact, Origin, file_name
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
    the author's line in words. ``share`` is what each thread could have without any of them, 0 where
    all could have the most that there is.
    """

    way: str
    count: int
    role: str
    place: str
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

    def __str__(self) -> str:
        text = f"{self.way} {self.count}" + f" by the {self.role}" * bool(self.role)
        return text + f", where each thread could have {self.share} without it" * self.idle


def moves(artifact: Artifact) -> Iterator[Move]:
    """Each ``setmaxnreg`` of the kernel, in the order of its PTX; none of PTX that cannot be read."""
    try:
        found = list(authors(artifact))
    except PtxError:
        return
    body = [instruction for instruction, _ in found]
    chip = artifact.chip
    even = chip.registers // max(artifact.threads, 1) // 8 * 8
    share = even if even < chip.thread_registers else 0
    after = edges(body)
    for at, (instruction, origin) in enumerate(found):
        if family(instruction) is not Family.SETMAXNREG:
            continue
        ahead = {family(body[to]) for to in reached(at, after)}
        loads, multiplies = bool(ahead & LOADS), Family.WGMMA in ahead
        role = "" if loads == multiplies else "producer" if loads else "consumer"
        place = ""
        if origin is not None:
            place = f"{file_name(origin.file)}, line {origin.line}: {artifact.code(origin)}"
        count = next((operand.value for operand in instruction.operands if isinstance(operand, Imm)), 0)
        yield Move(instruction.opcode[1], count, role, place, share)


def told(artifact: Artifact) -> str:
    """What the kernel moves and what ptxas says of it, and below it the line of the first that is astray or
    moves nothing.
    """
    if any(UNKNOWN in warning for warning in artifact.resources.warnings) and artifact.dsl == "cute":
        text = "both ignored, for want of `min_blocks_per_mp=1` in the launch"
        return text + _launch(artifact)
    found = list(moves(artifact))
    warnings = [re.sub(r"^\(C\d+\)[^:]*: ", "", w) for w in artifact.resources.warnings if "setmaxnreg" in w]
    astray = any(move.astray for move in found)
    if not astray and any(FEW in text for text in warnings) and (few := _fewest(found, artifact)):
        who = f"by the {few.role}, whose" if few.role else "by warps whose"
        text = f"{few.way} {few.count} {who} code needs more than {few.count} registers: ptxas ignores all"
        return text + f"\n  at {few.place}" * bool(few.place)
    ignored = ["and ptxas ignores them" if FEW in text else text for text in warnings]
    texts = [*dict.fromkeys(map(str, found)), *ignored]
    place = next((move.place for move in found if (move.astray or move.idle) and move.place), "")
    return (", ".join(texts) or "none") + f"\n  at {place}" * bool(place)


def _fewest(found: list[Move], artifact: Artifact) -> Move | None:
    """The move that leaves its warps fewer registers than their code needs: one of those that take some, if
    it takes fewer than the kernel has, else one that gives too many back.
    """
    few = [move for move in found if move.way == "inc" and move.count < artifact.resources.registers]
    few += [move for move in found if move.way == "dec"]
    return next(iter(few), None)


def _launch(artifact: Artifact) -> str:
    """The line of the author's launch, below a text; "" where there is none, or several."""
    found = [
        Origin(file, number)
        for file, python in artifact.python.items()
        for number, line in enumerate(python.split("\n"), 1)
        if ".launch(" in line.partition("#")[0]
    ]
    if len(found) != 1:
        return ""
    kernel = artifact.code(found[0]).partition("(")[0]
    return f"\n  at {file_name(found[0].file)}, line {found[0].line}: {kernel}(...).launch(...)"
