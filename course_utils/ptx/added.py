"""Barriers and proxy fences that the compiler put in by itself, and the kernel without them.

TileLang 0.1.15 puts CTA barriers and ``fence.proxy.async`` where its analysis asks for them, whether the
author wrote any or not. CuTe DSL adds none.
"""

from __future__ import annotations

from dataclasses import replace

from course_utils.artifact import Artifact
from course_utils.ptx.families import Family, family
from course_utils.ptx.parser import Instr, Kernel, parse

BARRIERS = (Family.CTA_BARRIER, Family.NAMED_BARRIER)
FENCES = (Family.PROXY_FENCE,)


def counts(artifact: Artifact, families: tuple[Family, ...]) -> tuple[int, int]:
    """How many lines with instructions of these families are the author's, and how many the compiler's own.

    What a loop unrolls is one line of the generated code.
    """
    kernel = parse(artifact.ptx, artifact.kernel)
    found = {i.source: _added(artifact, kernel, i) for i in kernel.instructions if family(i) in families}
    return list(found.values()).count(False), list(found.values()).count(True)


def without(artifact: Artifact) -> Artifact | None:
    """The kernel without them; None where there are none. Its PTX alone is right: the cubin still has them.

    What opens the kernel stays: it orders the initialisation of mbarriers, which TileLang writes by itself.
    """
    kernel = parse(artifact.ptx, artifact.kernel)
    lines = artifact.ptx.split("\n")
    gone = False
    for instruction in kernel.instructions:
        if family(instruction) not in (*BARRIERS, *FENCES) or _opens(artifact, instruction):
            continue
        if _added(artifact, kernel, instruction):
            lines[instruction.line - 1] = ""
            gone = True
    return replace(artifact, ptx="\n".join(lines)) if gone else None


def _added(artifact: Artifact, kernel: Kernel, instruction: Instr) -> bool:
    """Did the compiler put it in by itself?"""
    if instruction.source is None:
        return False
    file, line = kernel.files.get(instruction.source[0], ""), instruction.source[1]
    origin = artifact.author(file, line)
    return origin is not None and origin.added


def _opens(artifact: Artifact, instruction: Instr) -> bool:
    """Does it follow the fence after mbarrier.init?"""
    line = instruction.source[1] if instruction.source else 0
    return line > 1 and "fence_barrier_init" in "".join(artifact.source.split("\n")[line - 2 : line - 1])


def told(artifact: Artifact) -> str:
    """Who wrote the barriers and fences, in words; "" for a DSL that adds none."""
    if not artifact.origins:
        return ""
    yours, others = zip(counts(artifact, BARRIERS), counts(artifact, FENCES), strict=True)
    return f"{_number(*yours)} by you; {_number(*others)} by the compiler"


def _number(barriers: int, fences: int) -> str:
    return f"{barriers} barrier{'s' * (barriers != 1)}, {fences} proxy fence{'s' * (fences != 1)}"
