"""``course receipt`` and ``course trace``: one compiled kernel, read or emulated."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from course_utils.artifact import Artifact
from course_utils.cli import BUILD, EXIT_FAILED, against
from course_utils.cli.terminal import at_work, say
from course_utils.compile import factory
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import steps
from course_utils.ptx import paths, receipts

if TYPE_CHECKING:
    from course_utils.run.emulator import Emulation


def receipt(options: argparse.Namespace, console: Console) -> int:
    """What the compiler made of a kernel, and the path of each copy."""
    step = steps.find(options.what if options.what in steps.STEPS else "step03")
    with at_work(console, f"compiling {options.what}"):
        artifact = compiled(options, step.check_sizes[0])
    table = Table(
        title=f"Receipt of {options.what}, M, N, K = {' x '.join(map(str, artifact.problem))}",
        title_justify="left",
        show_header=False,
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


def _source(options: argparse.Namespace) -> str:
    """The Python that a command was given, or nothing where it was given an artifact."""
    path = solution_path(options.what, options.dsl) if options.what in steps.STEPS else Path(options.what)
    return path.read_text() if path.suffix == ".py" else ""


def compiled(options: argparse.Namespace, size: tuple[int, int, int]) -> Artifact:
    """What a command was given, compiled at ``size`` or at the one that the learner named: a step, a file, or
    an artifact.
    """
    if options.what not in steps.STEPS and not options.what.endswith(".py"):
        if not Path(options.what).exists():
            raise ValueError(
                f"there is no step and no file {options.what!r}; the steps are {', '.join(steps.STEPS)}"
            )
        return Artifact.load(options.what)
    size = named_size(options) or size
    path = solution_path(options.what, options.dsl) if options.what in steps.STEPS else options.what
    return factory.compile_factory(load_factory(path), options.dsl, size)


def named_size(options: argparse.Namespace) -> tuple[int, int, int] | None:
    """The --size that the learner named, or None. Raises ValueError for what is none."""
    if not options.size:
        return None
    try:
        size = tuple(int(n) for n in options.size.lower().split("x"))
    except ValueError:
        size = ()
    if len(size) != 3 or min(size) <= 0:
        raise ValueError(f"--size is MxNxK, for example 4096x4096x4096, not {options.size}")
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

        artifact = compiled(options, steps.trace_size(options.what))
        size = " x ".join(map(str, artifact.problem))
        say_now(f"emulating {options.what} at {size}")
        try:
            generator = torch.Generator().manual_seed(options.seed)
            record = options.perfetto is not None
            emulation, tried = emulated(artifact, generator, options.seed, record=record)
        except EmulatorError as error:
            raise ValueError(f"the emulator cannot run this: {error}") from error
    say(
        console,
        f"{options.what}, M, N, K = {size}, schedule {options.seed}: {emulation.executed:,} warp "
        "instructions, "
        f"{'ended' if emulation.finished else 'did not end'}",
    )
    for finding in emulation.findings:
        say(console, str(finding))
    if emulation.printed:
        say(console, f"Printed by the kernel:\n{emulation.printed.rstrip()}")
    if emulation.finished:
        say(console, "D is right" if tried.found.ok else f"D is wrong: {tried.found.diagnosis}")
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
