"""Barriers and proxy fences that the compiler put in by itself, and the kernel without them.

TileLang 0.1.15 puts CTA barriers and ``fence.proxy.async`` where its analysis asks for them, whether the
author wrote any or not. CuTe DSL adds none.
"""

from __future__ import annotations

import re
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
    So does a barrier between accesses of different buffers: TileLang has laid one over the other.
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
        if family(instruction) in BARRIERS and _of_overlay(source, line - 1):
            continue
        lines[instruction.line - 1] = ""
        gone = True
    return replace(artifact, ptx="\n".join(lines)) if gone else None


def _of_overlay(source: list[str], at: int) -> bool:
    """Does no shared buffer that is used before this barrier come again after it, up to the next barriers? It
    then keeps apart what the compiler has put into the same bytes. A wait uses what it waits for.
    """
    declared = (re.search(r"void\* (\w+) = .*\bbuf_dyn_shmem\b", line) for line in source)
    buffers = {found[1] for found in declared if found}
    blocks = _blocks(source)
    reads = {
        word: " ".join(line for line in source if call in line)
        for word, call in (
            ("wgmma", "initialize_wgmma_descriptor"),
            ("tma_store_wait", "tma_store("),
            (".wait(", "tma_load"),
        )
    }

    def used(lines: Iterable[int]) -> tuple[set[str], bool]:
        """The buffers on these lines, up to a barrier that all must pass; and whether there is one."""
        names: set[str] = set()
        for n in lines:
            if "__sync" in source[n] and blocks[n] == blocks[at][: len(blocks[n])]:
                return names, True
            text = " ".join([source[n], *(lines for word, lines in reads.items() if word in source[n])])
            if "buf_dyn_shmem" not in source[n]:  # a declaration uses nothing
                names |= buffers.intersection(re.findall(r"\w+", text))
        return names, False

    sides: list[set[str]] = [set(), set()]
    for side, step in zip(sides, (1, -1), strict=True):
        end = {1: len(source), -1: -1}[step]
        begin = at + step
        for opened in [*reversed(blocks[at]), -1]:
            first, last = (opened, _closed(blocks, opened)) if opened >= 0 else (0, len(source) - 1)
            names, met = used(range(begin, {1: last + 1, -1: first - 1}[step], step))
            side |= names
            if met:
                break
            if opened >= 0 and re.match(r"\s*(for|while)\b", source[opened]):  # the next round, or the last
                side |= used(range({1: first, -1: last}[step], at, step))[0]
            begin = {1: last + 1, -1: first - 1}[step]
            if begin == end:
                break
    return bool(buffers) and not sides[0] & sides[1]


def _blocks(source: list[str]) -> list[tuple[int, ...]]:
    """For each line the lines that open the blocks around it, the outermost first."""
    found: list[tuple[int, ...]] = []
    around: list[int] = []
    for n, line in enumerate(source):
        text = line.strip()
        if text.startswith("}") and around:
            around.pop()
        found.append(tuple(around))
        if text.endswith("{"):
            around.append(n)
    return found


def _closed(blocks: list[tuple[int, ...]], opened: int) -> int:
    """The last line inside a block."""
    return max(n for n, around in enumerate(blocks) if opened in around or n == opened)


def summary(artifact: Artifact) -> str:
    """Who wrote the barriers and fences, in words; "" for a DSL that adds none."""
    if not artifact.origins:
        return ""
    found = list(authors(artifact))
    yours, others = zip(_counts(found, BARRIERS), _counts(found, FENCES), strict=True)
    return f"{_number(*yours)} by you; {_number(*others)} by the compiler"


def _number(barriers: int, fences: int) -> str:
    return f"{barriers} barrier{'s' * (barriers != 1)}, {fences} proxy fence{'s' * (fences != 1)}"
