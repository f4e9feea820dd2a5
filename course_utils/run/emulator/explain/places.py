"""Where an instruction comes from: the author's file and line, found from the PTX's line or through the CUDA
that a DSL made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from course_utils.artifact import GENERATED, Origin, file_name
from course_utils.cause import Cause

if TYPE_CHECKING:
    from course_utils.run.emulator.core.machine import Machine

_MERGED = "arrive_and_expect_tx("  # what TileLang makes of an arrival after copies


@dataclass(frozen=True)
class Place:
    """Where an instruction comes from: ``file``, ``line`` and ``code`` are the author's, "" and 0 where none
    is known; ``generated`` is the line of CUDA that the DSL made of it ("kernel.cu:81: tl::tma_load(...)").

    ``added``: the compiler put the instruction there by itself, after what the author's line became.
    """

    ptx: str = ""
    file: str = ""
    line: int = 0
    code: str = ""
    added: bool = False
    generated: str = ""

    def __str__(self) -> str:
        if not self.file:
            return self.generated or self.ptx
        text = f"{self.file}, line {self.line}" + (f": {self.code}" if self.code else "")
        return f"what the compiler added after {text}" if self.added else text


def line_of(place: Place, case: str = "in a line") -> Cause | None:
    """The part of a sentence that says a place's line; None where none is known."""
    return Cause("", case, {"at": place}) if place.line else None


def note(case: str, place: object) -> Cause:
    """What else there is to say of a finding: what stands at a place."""
    return Cause("note", case, {"at": place})


class Places:
    """The places of one kernel's instructions."""

    def __init__(self, machine: Machine) -> None:
        self.kernel, self.artifact = machine.program.kernel, machine.artifact
        self.generated = self.artifact.source.splitlines()
        self._places: dict[int, Place] = {}

    def ptx(self, at: int) -> str:
        instruction = self.kernel.instructions[at]
        text = instruction.text
        if len(text) >= 160:
            text = f"{text[:110]} ... {text[-40:]}"
        return f"PTX line {instruction.line}: {text}"

    def place(self, at: int) -> Place:
        """Where the instruction of this index comes from; nowhere for -1."""
        if at not in self._places:
            self._places[at] = self._place(at) if at >= 0 else Place()
        return self._places[at]

    def _place(self, at: int) -> Place:
        ptx, source = self.ptx(at), self.kernel.instructions[at].source
        if source is None:
            return Place(ptx)
        file, line = self.kernel.files.get(source[0], f"file {source[0]}"), source[1]
        generated = ""
        if file_name(file) == GENERATED:
            text = self.generated[line - 1].strip() if 0 < line <= len(self.generated) else ""
            text = text if len(text) <= 120 else text[:117] + "..."
            generated = f"{GENERATED}:{line}" + (f": {text}" if text else "")
        origin = self.artifact.author(file, line)
        if origin is None or generated and origin.file not in self.artifact.python:
            return Place(ptx, generated=generated)
        if origin.added and _MERGED in generated:
            origin = self._merged.get(line, origin)
        code = self.artifact.code(origin)
        return Place(ptx, file_name(origin.file), origin.line, code, origin.added, generated)

    def loop_of(self, instructions: Iterable[int]) -> tuple[Origin, str] | None:
        """The author's loop that these instructions come from, and its condition: the innermost `while` about
        most of them, as a `for` has an end, or else the innermost loop.
        """
        lines: dict[str, set[int]] = {}
        for source in {self.kernel.instructions[at].source for at in instructions}:
            if source is None:
                continue
            file, line = self.kernel.files.get(source[0], ""), source[1]
            origin = self.artifact.author(file, line)
            if origin is not None and not origin.added and origin.file in self.artifact.python:
                lines.setdefault(origin.file, set()).add(origin.line)
        for file, numbers in lines.items():
            try:
                tree = ast.parse(self.artifact.python[file])
            except SyntaxError:  # a cell with a magic
                continue
            loops = [
                node
                for node in ast.walk(tree)
                if isinstance(node, ast.For | ast.While)
                and 2 * sum(node.lineno <= n <= (node.end_lineno or 0) for n in numbers) > len(numbers)
            ]
            if loops:
                loop = max(loops, key=lambda node: (isinstance(node, ast.While), node.lineno))
                test = loop.test if isinstance(loop, ast.While) else None
                condition = "" if test is None or isinstance(test, ast.Constant) else ast.unparse(test)
                return Origin(file, loop.lineno), condition
        return None

    @cached_property
    def _merged(self) -> dict[int, Origin]:
        """TileLang makes one call of an arrival and the bytes of the copies before it. Line of such a call,
        that no line of the author's is known for, to the author's arrival; none where their numbers differ.
        """
        origins = self.artifact.origins
        calls = [
            (line, origin)
            for line, (text, origin) in enumerate(zip(self.generated, origins, strict=False), 1)
            if _MERGED in text and origin is not None and origin.added
        ]
        known = {(origin.file, origin.line) for origin in origins if origin is not None and not origin.added}
        files = {origin.file for _, origin in calls}
        arrivals = [
            line
            for line in self.artifact.lines(r"mbarrier_arrive\(")
            if line.file in files and (line.file, line.line) not in known
        ]
        if len(calls) != len(arrivals):
            return {}
        return {line: arrival for (line, _), arrival in zip(calls, arrivals, strict=True)}
