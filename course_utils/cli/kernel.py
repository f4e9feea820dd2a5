"""``course receipt`` and ``course trace``: one compiled kernel, read or emulated."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from course_utils.artifact import Artifact
from course_utils.chips import BLACKWELL, HOME, Chip
from course_utils.cli import EXIT_FAILED, against
from course_utils.cli.emulated import draw_run, say_run
from course_utils.cli.parser import is_id
from course_utils.cli.terminal import at_work, say
from course_utils.compile import factory
from course_utils.compile.errors import CompileError
from course_utils.compile.load import load_factory, read
from course_utils.grading import ids, steps, words
from course_utils.problems import PROBLEMS, Problem
from course_utils.ptx import paths, receipts

# what only a kernel for Blackwell calls, in either DSL
_BLACKWELL = r"T\.alloc_tmem\(|T\.tcgen05_gemm\(|import [^#\n]*\btcgen05\b|\btcgen05\.\w+\("


def receipt(console: Console, what: str, dsl: str | None, size: str | None) -> int:
    """What the compiler made of a kernel, and the path of each copy."""
    own = steps.sizes_of(steps.program_row(what if is_id(what) else "step03"))
    with at_work(console, f"compiling {what}"):
        artifact, kind, source = compiled(what, dsl, size, own[0])
    title = f"Receipt of {what}, {_at(artifact, kind)}"
    table = Table(title=title, title_justify="left", show_header=False)
    for row in receipts.table(receipts.read_ptx(artifact.ptx), artifact):
        table.add_row(*row)
    found = paths.copies(artifact, source)
    for copy in found:
        table.add_row(
            f"{copy.tensor}, {copy.direction}",
            str(copy) + (f" (asked for: {copy.asked})" if copy.asked else ""),
        )
    console.print(table)
    for copy in found:
        if copy.finding:
            say(console, f"Not what was asked for: {copy.finding}")
    return 0


def _at(artifact: Artifact, kind: str) -> str:
    """The size with its letters: "M, N, K = 256 x 256 x 320"."""
    problem = PROBLEMS[kind]
    takes, sides = problem.takes, artifact.problem[: problem.takes.count(",") + 1]
    if problem.any_shape:
        takes, sides = "X", artifact.tensors[0].shape
    return f"{takes} = {' x '.join(map(str, sides))}"


def compiled(
    what: str, dsl: str | None, named: str | None, size: tuple[int, ...]
) -> tuple[Artifact, str, str]:
    """What a command was given (an id, a file, or an artifact), compiled at the size that the learner
    ``named`` or else at ``size``; of a pair, the broken kernel. With what it computes, of
    ``problems.PROBLEMS``, and its Python, "" of an artifact. Where ``dsl`` is None, an id is compiled in the
    first of its languages, a file in TileLang.

    Raises ValueError and CompileError.
    """
    if is_id(what):
        kinds, dsl = [steps.program_row(what).problem], ids.language(what, dsl)
        path = ids.solution(what, dsl)
    elif what.endswith(".py"):
        path, dsl = Path(what), dsl or factory.DSLS[0]
        kinds = _kinds(path)
    else:
        return Artifact.load(what), "gemm", ""
    refused = None
    for kind in kinds:
        try:
            wanted = steps.function_of(what) if is_id(what) else PROBLEMS[kind].function
            function = load_factory(path, wanted)
            at = _size(named, PROBLEMS[kind], size, function)
            chip = _chip(what, path)
            return factory.compile_factory(function, dsl, at, kind, chip), kind, path.read_text()
        except CompileError as error:
            refused = refused or error
            if error.stage != "signature":
                break
    assert refused is not None  # there is a kind
    raise refused


def _chip(what: str, path: Path) -> Chip:
    """The chip of an id, or of a file: of the step that it is named for, else the one whose tensor memory
    its source uses.
    """
    if is_id(what):
        return steps.chip_of(what)
    named = path.stem.partition("_")[0] in steps.BLACKWELL_STEPS
    return BLACKWELL if named or re.search(_BLACKWELL, path.read_text()) else HOME


@dataclass(frozen=True)
class KernelFile:
    """A kernel of a file that nothing has compiled: its function, the size it is made for, what it computes
    (of ``problems.PROBLEMS``), and its language.
    """

    function: str
    size: tuple[int, ...]
    kind: str
    dsl: str
    factory: Any


def kernel_file(file: str, dsl: str | None, named: str | None) -> KernelFile:
    """The kernel of a Python file, at the size that was ``named`` or that of ``course trace``. The language
    is ``dsl``, or the one whose package the file imports. Raises ValueError and CompileError.
    """
    source, path = read(file), Path(file)
    kind = _kinds(path)[0]
    made = load_factory(path, PROBLEMS[kind].function)
    at = _size(named, PROBLEMS[kind], steps.TRACE_SIZE, made)
    language = dsl or imported_dsl(source)
    return KernelFile(PROBLEMS[kind].function, at, kind, language, made)


def imported_dsl(source: str) -> str:
    """The DSL whose package a Python source imports, TileLang where it imports none."""
    return "cute" if re.search(r"^\s*(import|from) cutlass\b", source, re.M) else "tilelang"


def _size(named: str | None, problem: Problem, size: tuple[int, ...], function: Callable) -> tuple[int, ...]:
    """The size that a learner ``named``, else ``size`` where the problem has as many sides, else one at which
    it is computed; of a copy, a shape with as many extents as its factory takes. Raises ValueError.
    """
    if not problem.any_shape:
        sides = problem.takes.count(",") + 1
        return named_size(named, sides) or (size if len(size) == sides else _size_of(problem.name))
    if named:
        return named_size(named, None) or size
    try:
        count = len(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # compiling it says what is wrong
        return size
    shapes = [size, *(case.shapes[0] for case in steps.COPY_CASES.values())]
    return next((shape for shape in shapes if len(shape) == count), size)


def _kinds(path: Path) -> list[str]:
    """What a file may compute: what its name says, else what takes tensors of the names that one of its
    functions takes; a GEMM where that says nothing.
    """
    name = path.stem.partition("_")[0]
    if name in steps.TASKS | steps.COPY_CASES:
        return [steps.kernel_row(name).problem]
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):  # loading it says so
        return ["gemm"]
    takes = [
        [argument.arg for argument in node.args.args]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]
    found = []
    for kind in ("gemm", "copy", *dict.fromkeys(task.problem for task in steps.TASKS.values())):
        names = [tensor.name for tensor in PROBLEMS[kind].tensors(*_size_of(kind))]
        found += [kind] * (names in takes and kind not in found)
    return found or ["gemm"]


def _size_of(kind: str) -> tuple[int, ...]:
    """A size at which this is computed."""
    return next(
        (task.check_sizes[-1] for task in steps.TASKS.values() if task.problem == kind), steps.TRACE_SIZE
    )


def named_size(named: str | None, sides: int | None = 3) -> tuple[int, ...] | None:
    """The --size that the learner named, or None; ``sides`` is None where it may have any number of them.
    Raises ValueError for what is none.
    """
    if not named:
        return None
    try:
        size = tuple(int(n) for n in named.lower().split("x"))
    except ValueError:
        size = ()
    if len(size) != (sides or len(size)) or min(size, default=0) <= 0:
        form = {3: "MxNxK, for example 4096x4096x4096", 2: "MxN, for example 4096x1024"}
        raise ValueError(f"--size is {form.get(sides or 0, 'a shape, for example 8x32x64')}, not {named}")
    return size


def trace(
    console: Console,
    what: str,
    dsl: str | None,
    size: str | None,
    seed: int,
    out: str | None,
    perfetto: str | None,
    reference: str | None,
) -> int:
    """Emulate one launch, say what is wrong with it, and draw who waited for whom."""
    if reference:
        return against.trace(console, what, reference, seed, out, perfetto)
    with at_work(console, f"compiling {what}") as say_now:
        import torch

        from course_utils.run.emulator import EmulatorError
        from course_utils.run.emulator.launch import emulated

        artifact, kind, _ = compiled(what, dsl, size, steps.trace_size(what))
        at = _at(artifact, kind)
        say_now(f"emulating {what} at {at}")
        try:
            generator = torch.Generator().manual_seed(seed)
            record = perfetto is not None
            emulation, tried = emulated(artifact, generator, seed, kind=kind, record=record, facts=False)
        except EmulatorError as error:
            raise ValueError(f"the emulator cannot run this: {error}") from error
    title = f"{what}, {at}, schedule {seed}"
    say_run(console, emulation, title)
    if emulation.finished:
        outputs = " and ".join(one.name for one in artifact.tensors[-PROBLEMS[kind].outputs :])
        said = f"{outputs} {'is' if PROBLEMS[kind].outputs == 1 else 'are'} "
        say(console, said + ("right" if tried.found.ok else f"wrong: {words.text(*tried.found.causes)}"))
    draw_run(console, emulation, title, out, perfetto)
    return 0 if emulation.ok and tried.found.ok else EXIT_FAILED
