"""A pair of programs for a bug report: a broken kernel, and a control that differs from it by one edit."""

from __future__ import annotations

import ast
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from course_utils.artifact import Artifact
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory
from course_utils.grading import against, words
from course_utils.run.emulator import EmulatorError
from course_utils.run.emulator.launch import emulated

LINES = 60  # statements' lines of a program that somebody reads for you
CHANGED = 3  # lines of one edit, before or after it
PACKAGES = ("tilelang", "nvidia-cutlass-dsl", "nvidia-cuda-nvrtc", "torch")
PAIR = ("control", "broken")  # functions of a file that holds both programs

Edit = tuple[list[str], list[str]]  # lines of the control, and those that the broken kernel has instead


@dataclass(frozen=True)
class Run:
    """What the emulator saw of one program. ``right``: it ended, with right outputs and without a finding,
    under every schedule; None where a compiler refused it or the emulator does not model it. ``said`` has
    what was found, a sentence each.
    """

    artifacts: tuple[Artifact, ...]
    right: bool | None
    said: tuple[str, ...]

    @property
    def words(self) -> str:
        return "; ".join(self.said)


@dataclass(frozen=True)
class Point:
    """One condition on a pair, whether it is met, and why."""

    name: str
    passed: bool
    detail: str


def run(factory: Any, dsl: str, size: tuple[int, ...], kind: str) -> Run:
    """Compile ``factory(*size)`` and emulate it under the schedules of ``against``; ``kind`` is of
    ``problems.PROBLEMS``. Raises nothing for what the factory, its compiler or its kernel does.
    """
    try:
        artifact = compile_factory(factory, dsl, size, kind)
    except CompileError as error:
        return Run((), None, (f"refused by the compiler: {error}",))
    for schedule in against.SCHEDULES:
        generator = torch.Generator().manual_seed(schedule)
        try:
            emulation, tried = emulated(artifact, generator, schedule, kind=kind, facts=False)
        except EmulatorError as error:
            return Run((artifact,), None, (f"the emulator cannot run this: {error}",))
        if not (emulation.ok and tried.found.ok):
            said = [str(finding) for finding in emulation.findings]
            if emulation.finished and not tried.found.ok:
                said.append(f"the output is wrong: {words.text(*tried.found.causes)}")
            return Run((artifact,), False, (f"schedule {schedule}", *said))
    return Run((artifact,), True, (f"right under {len(against.SCHEDULES)} schedules",))


def run_against(path: str | Path, reference: against.Reference) -> Run:
    """As ``run``, of a file's ``kernel()``, held against a reference."""
    try:
        artifacts = against.compiled(path, reference)
    except CompileError as error:
        return Run((), None, (f"refused by the compiler: {error}",))
    for schedule in against.SCHEDULES:
        try:
            outcome = against.run(artifacts, reference, schedule)
        except EmulatorError as error:
            return Run(tuple(artifacts), None, (f"the emulator cannot run this: {error}",))
        if not outcome.ok:
            said = [str(finding) for one in outcome.emulations for finding in one.findings]
            return Run(tuple(artifacts), False, (f"schedule {schedule}", *said, *outcome.wrong))
    return Run(tuple(artifacts), True, (f"right under {len(against.SCHEDULES)} schedules",))


def is_pair(source: str) -> bool:
    """Does a source define both programs?"""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return set(PAIR) <= {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}


def programs(source: str, called: str = "copy") -> dict[str, str]:
    """The two programs of a source that defines ``control`` and ``broken``, by these names: what it imports
    and assigns, and one of them, named ``called``. Each line keeps its number.

    Raises ValueError where it is no Python, lacks one of the two, or defines more than those.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, RecursionError) as error:
        raise ValueError(f"this pair is not Python: {error}") from error
    kept = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)
    made = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    for name in PAIR:
        if name not in made:
            raise ValueError(
                f"there is no {name}(rows, columns): a pair is two functions, {' and '.join(PAIR)}"
            )
    around = [one for one in tree.body if isinstance(one, kept)]
    more = [name for name in made if name not in PAIR]
    more += [one.name for one in tree.body if isinstance(one, ast.ClassDef | ast.AsyncFunctionDef)]
    more += ["a lambda" for one in around for node in ast.walk(one) if isinstance(node, ast.Lambda)]
    if more:
        raise ValueError(f"a program of a pair stands alone: write {more[0]} into control and into broken")
    lines = source.splitlines()
    found = {}
    for name in PAIR:
        blank = [""] * len(lines)
        for node in (*around, made[name]):
            first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
            last = node.end_lineno or node.lineno
            blank[first - 1 : last] = lines[first - 1 : last]
        at = made[name].lineno - 1
        blank[at] = re.sub(rf"def\s+{name}\b", f"def {called}", blank[at], count=1)
        found[name] = "\n".join(blank).rstrip() + "\n"
    return found


def statements(source: str, called: str = "") -> list[str]:
    """The lines of a program as Python itself writes them: no comment, no docstring, no line breaks of the
    author's. Its one outermost function is named ``called``, so that names of two programs do not differ.

    Raises SyntaxError.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1 and isinstance(body[0], ast.Expr):
            if isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
                del body[0]
    if called and len(tree.body) == 1 and isinstance(tree.body[0], ast.FunctionDef):
        tree.body[0].name = called
    return [line for line in ast.unparse(tree).splitlines() if line.strip()]


def edits(control: Sequence[str], broken: Sequence[str]) -> list[Edit]:
    """Where two lists of ``statements`` differ."""
    matched = SequenceMatcher(None, control, broken, autojunk=False).get_opcodes()
    return [(list(control[a:b]), list(broken[c:d])) for tag, a, b, c, d in matched if tag != "equal"]


def one_edit(control: Sequence[str], broken: Sequence[str]) -> Point:
    """Do two programs' ``statements`` differ in one place, of at most ``CHANGED`` lines?"""
    found = edits(control, broken)
    size = max((len(side) for edit in found for side in edit), default=0)
    if len(found) == 1 and size <= CHANGED:
        return Point("one edit", True, _edit(found[0]))
    what = f"{len(found)} edits, the longest of {size} lines" if found else "the programs are the same"
    if len(found) == 1:
        what = f"one edit of {size} lines"
    return Point("one edit", False, f"{what}: a pair differs by one edit of at most {CHANGED} lines")


def short(control: Sequence[str], broken: Sequence[str], limit: int = LINES) -> Point:
    """Has neither program more than ``limit`` lines of statements?"""
    longest = max(len(control), len(broken))
    detail = f"{longest} lines of statements"
    if longest > limit:
        detail += f": leave out what the fault does not need, down to {limit}"
    return Point("short", longest <= limit, detail)


def points(control: Sequence[str], broken: Sequence[str], of_control: Run, of_broken: Run) -> list[Point]:
    """The four conditions on a pair, of the programs' ``statements`` and their runs."""
    return [
        one_edit(control, broken),
        Point("the control is right", of_control.right is True, of_control.words),
        Point("the kernel shows the fault", of_broken.right is not True, of_broken.words),
        short(control, broken),
    ]


def _edit(edit: Edit) -> str:
    before, after = (" / ".join(line.strip() for line in side) or "nothing" for side in edit)
    return f"{before}  becomes  {after}"


def versions() -> dict[str, str]:
    """Of Python, and of the packages that make or launch a kernel."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
