"""``course receipt`` and ``course trace``: one compiled kernel, read or emulated."""

from __future__ import annotations

import ast
from pathlib import Path

from rich.console import Console
from rich.table import Table

from course_utils.artifact import Artifact
from course_utils.cli import EXIT_FAILED, against
from course_utils.cli.emulated import draw_run, say_run
from course_utils.cli.terminal import at_work, say
from course_utils.compile import factory
from course_utils.compile.errors import CompileError
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import steps, words
from course_utils.problems import PROBLEMS
from course_utils.ptx import paths, receipts

OWN = {**steps.STEPS, **steps.TASKS}  # what has a solution of its own


def receipt(console: Console, what: str, dsl: str, size: str | None) -> int:
    """What the compiler made of a kernel, and the path of each copy."""
    step = steps.find(what if what in OWN else "step03")
    with at_work(console, f"compiling {what}"):
        artifact, kind = compiled(what, dsl, size, step.check_sizes[0])
    title = f"Receipt of {what}, {_at(artifact, kind)}"
    table = Table(title=title, title_justify="left", show_header=False)
    for row in receipts.table(receipts.read_ptx(artifact.ptx), artifact):
        table.add_row(*row)
    found = paths.copies(artifact, _source(what, dsl))
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
    takes = PROBLEMS[kind].takes
    sides = artifact.problem[: takes.count(",") + 1]
    return f"{takes} = {' x '.join(map(str, sides))}"


def _source(what: str, dsl: str) -> str:
    """The Python that a command was given, or nothing where it was given an artifact."""
    path = solution_path(what, dsl) if what in OWN else Path(what)
    return path.read_text() if path.suffix == ".py" else ""


def compiled(what: str, dsl: str, named: str | None, size: tuple[int, ...]) -> tuple[Artifact, str]:
    """What a command was given (a step, a task, a file of either, or an artifact), compiled at the size that
    the learner ``named`` or else at ``size``. With what it computes, of ``problems.PROBLEMS``.

    Raises ValueError and CompileError.
    """
    if what not in OWN and not what.endswith(".py"):
        require_known(what)
        return Artifact.load(what), "gemm"
    if what in OWN:
        path, kinds = solution_path(what, dsl), [steps.find(what).problem]
    else:
        path = Path(what)
        kinds = _kinds(path)
    refused = None
    for kind in kinds:
        problem = PROBLEMS[kind]
        sides = problem.takes.count(",") + 1
        at = named_size(named, sides) or (size if len(size) == sides else _size_of(kind))
        try:
            made = factory.compile_factory(load_factory(path, problem.function), dsl, at, kind)
            return made, kind
        except CompileError as error:
            refused = refused or error
            if error.stage != "signature":
                break
    assert refused is not None  # there is a kind
    raise refused


def _kinds(path: Path) -> list[str]:
    """What a file may compute: what its name says, else what takes tensors of the names that one of its
    functions takes; a GEMM where that says nothing.
    """
    task = path.stem.partition("_")[0]
    if task in steps.TASKS:
        return [steps.TASKS[task].problem]
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
    for kind in ("gemm", *dict.fromkeys(task.problem for task in steps.TASKS.values())):
        names = [tensor.name for tensor in PROBLEMS[kind].tensors(*_size_of(kind))]
        found += [kind] * (names in takes and kind not in found)
    return found or ["gemm"]


def _size_of(kind: str) -> tuple[int, ...]:
    """A size at which this is computed."""
    return next(
        (task.check_sizes[-1] for task in steps.TASKS.values() if task.problem == kind), steps.TRACE_SIZE
    )


def require_known(what: str) -> None:
    """Raises ValueError if ``what`` is no step, no task and no file."""
    if what not in OWN and not Path(what).exists():
        there = ", ".join(steps.STEPS)
        raise ValueError(f"there is no step and no file {what!r}; {steps.meant(what)}the steps are {there}")


def named_size(named: str | None, sides: int = 3) -> tuple[int, ...] | None:
    """The --size that the learner named, or None. Raises ValueError for what is none."""
    if not named:
        return None
    try:
        size = tuple(int(n) for n in named.lower().split("x"))
    except ValueError:
        size = ()
    if len(size) != sides or min(size) <= 0:
        form = "MxNxK, for example 4096x4096x4096" if sides == 3 else "MxN, for example 4096x1024"
        raise ValueError(f"--size is {form}, not {named}")
    return size


def trace(
    console: Console,
    what: str,
    dsl: str,
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

        artifact, kind = compiled(what, dsl, size, steps.trace_size(what))
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
