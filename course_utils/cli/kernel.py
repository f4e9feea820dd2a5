"""``course receipt`` and ``course trace``: one compiled kernel, read or emulated."""

from __future__ import annotations

import argparse
import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from course_utils.artifact import Artifact
from course_utils.cli import BUILD, EXIT_FAILED, against
from course_utils.cli.terminal import at_work, say
from course_utils.compile import factory
from course_utils.compile.errors import CompileError
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import steps
from course_utils.problems import PROBLEMS
from course_utils.ptx import paths, receipts

if TYPE_CHECKING:
    from course_utils.run.emulator import Emulation

OWN = {**steps.STEPS, **steps.TASKS}  # what has a solution of its own


def receipt(options: argparse.Namespace, console: Console) -> int:
    """What the compiler made of a kernel, and the path of each copy."""
    step = steps.find(options.what if options.what in OWN else "step03")
    with at_work(console, f"compiling {options.what}"):
        artifact, kind = compiled(options, step.check_sizes[0])
    table = Table(
        title=f"Receipt of {options.what}, {_at(artifact, kind)}", title_justify="left", show_header=False
    )
    for row in receipts.table(receipts.read_ptx(artifact.ptx), artifact):
        table.add_row(*row)
    found = paths.copies(artifact, _source(options))
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


def _source(options: argparse.Namespace) -> str:
    """The Python that a command was given, or nothing where it was given an artifact."""
    path = solution_path(options.what, options.dsl) if options.what in OWN else Path(options.what)
    return path.read_text() if path.suffix == ".py" else ""


def compiled(options: argparse.Namespace, size: tuple[int, ...]) -> tuple[Artifact, str]:
    """What a command was given, compiled at ``size`` or at the one that the learner named: a step, a task, a
    file of either, or an artifact. With what it computes, of ``problems.PROBLEMS``.

    Raises ValueError and CompileError.
    """
    if options.what not in OWN and not options.what.endswith(".py"):
        if not Path(options.what).exists():
            raise ValueError(
                f"there is no step and no file {options.what!r}; {steps.meant(options.what)}the steps are "
                f"{', '.join(steps.STEPS)}"
            )
        return Artifact.load(options.what), "gemm"
    if options.what in OWN:
        path, kinds = solution_path(options.what, options.dsl), [steps.find(options.what).problem]
    else:
        path = Path(options.what)
        kinds = _kinds(path)
    refused = None
    for kind in kinds:
        problem = PROBLEMS[kind]
        sides = problem.takes.count(",") + 1
        at = named_size(options, sides) or (size if len(size) == sides else _size_of(kind))
        try:
            made = factory.compile_factory(load_factory(path, problem.function), options.dsl, at, kind)
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


def named_size(options: argparse.Namespace, sides: int = 3) -> tuple[int, ...] | None:
    """The --size that the learner named, or None. Raises ValueError for what is none."""
    if not options.size:
        return None
    try:
        size = tuple(int(n) for n in options.size.lower().split("x"))
    except ValueError:
        size = ()
    if len(size) != sides or min(size) <= 0:
        form = "MxNxK, for example 4096x4096x4096" if sides == 3 else "MxN, for example 4096x1024"
        raise ValueError(f"--size is {form}, not {options.size}")
    return size


def perfetto(out: Path, emulation: Emulation, console: Console) -> None:
    """Write what happened for Perfetto. Raises ValueError where nothing did, and OSError."""
    from course_utils.figures import perfetto as form

    events = form.events(emulation)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}))
    say(console, f"wrote {out}: open it at ui.perfetto.dev; a microsecond there is a warp instruction here")


def trace(options: argparse.Namespace, console: Console) -> int:
    """Emulate one launch, say what is wrong with it, and draw who waited for whom."""
    if options.against:
        return against.trace(options, console)
    with at_work(console, f"compiling {options.what}") as say_now:
        import torch

        from course_utils.run.emulator import EmulatorError
        from course_utils.run.emulator.launch import emulated

        artifact, kind = compiled(options, steps.trace_size(options.what))
        size = _at(artifact, kind)
        say_now(f"emulating {options.what} at {size}")
        try:
            generator = torch.Generator().manual_seed(options.seed)
            record = options.perfetto is not None
            emulation, tried = emulated(artifact, generator, options.seed, kind=kind, record=record)
        except EmulatorError as error:
            raise ValueError(f"the emulator cannot run this: {error}") from error
    say(
        console,
        f"{options.what}, {size}, schedule {options.seed}: {emulation.executed:,} warp "
        "instructions, "
        f"{'ended' if emulation.finished else 'did not end'}",
    )
    for finding in emulation.findings:
        say(console, str(finding))
    if emulation.printed:
        say(console, f"Printed by the kernel:\n{emulation.printed.rstrip()}")
    if emulation.finished:
        outputs = " and ".join(one.name for one in artifact.tensors[-PROBLEMS[kind].outputs :])
        said = f"{outputs} {'is' if PROBLEMS[kind].outputs == 1 else 'are'} "
        say(console, said + ("right" if tried.found.ok else f"wrong: {tried.found.diagnosis}"))
    if options.perfetto is not None:
        perfetto(Path(options.perfetto), emulation, console)
    if options.out is not None or options.perfetto is None:
        out = Path(options.out or BUILD / "trace.png")
        with at_work(console, "drawing the timeline"):
            from course_utils.figures.timeline import save_timeline

            out.parent.mkdir(parents=True, exist_ok=True)
            save_timeline(out, emulation, title=f"{options.what}, {size}, schedule {options.seed}")
        say(console, f"wrote {out}")
    return 0 if emulation.ok and tried.found.ok else EXIT_FAILED
