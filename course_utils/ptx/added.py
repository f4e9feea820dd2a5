"""Barriers and proxy fences that the compiler put in by itself, and the kernel without them.

TileLang 0.1.15 puts CTA barriers and ``fence.proxy.async`` where its analysis asks for them, whether the
author wrote any or not. CuTe DSL adds none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from course_utils.artifact import Artifact, Origin
from course_utils.ptx.families import Family, family
from course_utils.ptx.parser import Instr, parse

BARRIERS = (Family.CTA_BARRIER, Family.NAMED_BARRIER)
FENCES = (Family.PROXY_FENCE,)


def authors(artifact: Artifact) -> Iterator[tuple[Instr, Origin | None]]:
    """Each instruction of the kernel, and the author's line that it comes from, None where nobody knows."""
    kernel = parse(artifact.ptx, artifact.kernel)
    for instruction in kernel.instructions:
        place = instruction.source
        yield instruction, place and artifact.author(kernel.files.get(place[0], ""), place[1])


def counts(artifact: Artifact, families: tuple[Family, ...]) -> tuple[int, int]:
    """How many lines with instructions of these families are the author's, and how many the compiler's own.

    What a loop unrolls is one line of the generated code.
    """
    return _counts(authors(artifact), families)


def _counts(found: Iterable[tuple[Instr, Origin | None]], families: tuple[Family, ...]) -> tuple[int, int]:
    lines = {i.source: origin is not None and origin.added for i, origin in found if family(i) in families}
    return list(lines.values()).count(False), list(lines.values()).count(True)


def without(artifact: Artifact) -> Artifact | None:
    """The kernel without them; None where there are none. Its PTX alone is right: the cubin still has them.

    What opens the kernel stays: it orders the initialisation of mbarriers, which TileLang writes by itself.
    """
    lines, source = artifact.ptx.split("\n"), artifact.source.split("\n")
    gone = False
    for instruction, origin in authors(artifact):
        if origin is None or not origin.added or family(instruction) not in (*BARRIERS, *FENCES):
            continue
        assert instruction.source is not None  # it has an origin
        line = instruction.source[1]
        if line > 1 and "fence_barrier_init" in source[line - 2]:
            continue
        lines[instruction.line - 1] = ""
        gone = True
    return replace(artifact, ptx="\n".join(lines)) if gone else None


def told(artifact: Artifact) -> str:
    """Who wrote the barriers and fences, in words; "" for a DSL that adds none."""
    if not artifact.origins:
        return ""
    found = list(authors(artifact))
    yours, others = zip(_counts(found, BARRIERS), _counts(found, FENCES), strict=True)
    return f"{_number(*yours)} by you; {_number(*others)} by the compiler"


def _number(barriers: int, fences: int) -> str:
    return f"{barriers} barrier{'s' * (barriers != 1)}, {fences} proxy fence{'s' * (fences != 1)}"
