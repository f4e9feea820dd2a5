"""``course plot``, ``bundle`` and ``import``: results, from where they are made to where they are kept."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from course_utils.cli import BUILD
from course_utils.cli.terminal import bar, say
from course_utils.compile import factory
from course_utils.compile.factory import DSLS
from course_utils.compile.faults import kernels
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import steps
from course_utils.recordings import bundle as archives
from course_utils.recordings import measured, model, signing


def plot(options: argparse.Namespace, console: Console) -> int:
    """Draw the learner's ladder, where `course climb` timed one, over the recorded one."""
    climb = BUILD / "climb.json"
    try:
        mine = model.read(climb, timed=False) if climb.exists() else {"entries": []}
    except model.MeasuredError as error:
        raise ValueError(
            f"{climb} is not what `course climb` wrote ({error}); run `course climb` again"
        ) from error
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    draw(options.out, measured.ladder(), mine)
    say(console, f"wrote {options.out}")
    return 0


def draw(path: str | Path, recorded: dict, mine: dict) -> None:
    """Write the ladder plot: ``recorded``, and ``mine`` over it where something was timed."""
    from course_utils.figures.ladder import save_ladder  # matplotlib takes its time

    timed = any(entry["timings"] for entry in mine["entries"])
    save_ladder(path, recorded, mine if timed else None)


def bundle(options: argparse.Namespace, console: Console) -> int:
    """Compile here, to run there."""
    dsls = options.dsl or list(DSLS)
    kernels = _wrong_kernels(options.step, dsls) if options.wrong else solution_kernels(options.step, dsls)
    total = sum(len(_sizes(kernel)) for kernel in kernels)
    with bar(console) as progress:
        task = progress.add_task("compiling", total=total)

        def show(item: tuple[str, tuple[int, ...]]) -> None:
            progress.update(task, advance=1, description=f"{item[0]} at {'x'.join(map(str, item[1]))}")

        key = signing.key(_key(options))
        archives.write(options.out, kernels, factory.compile_factory, show, key)
    say(
        console,
        f"wrote {options.out}: {len(kernels)} kernels. On the GPU machine: python {Path(options.out).name} "
        "--out results.json",
    )
    return 0


def _key(options: argparse.Namespace) -> Path:
    return Path(options.key) if options.key else BUILD / "bundle.key"


def _sizes(kernel: dict) -> set[tuple[int, int, int]]:
    step = steps.find(kernel["step"])
    return {*step.check_sizes, *(step.timed_sizes if kernel["timed"] else ())}


def solution_kernels(named: list[str] | None, dsls: Sequence[str]) -> list[dict]:
    """The solutions of these steps and tasks, or of all steps, as ``bundle.write`` takes them. "tasks" are
    all tasks. A task that asks for no speed is not timed.
    """
    names = _names(named)
    return [
        {
            "name": f"{steps.find(name).id} {dsl}",
            "step": name,
            "dsl": dsl,
            "timed": steps.find(name).problem == "gemm" or steps.find(name).speed_floor is not None,
            "factory": load_factory(solution_path(name, dsl), steps.function_of(name)),
        }
        for dsl in dsls
        for name in names
        if f"{name}-{dsl}" in steps.EXERCISES
    ]


def _names(named: list[str] | None) -> list[str]:
    """The ids of these steps and tasks, or of all steps. Raises ValueError where one is none."""
    given = [one for name in named or steps.STEPS for one in (steps.TASKS if name == "tasks" else (name,))]
    return [steps.find(f"step{int(one):02d}" if one.isdigit() else one).id for one in given]


def _wrong_kernels(named: list[str] | None, dsls: list[str]) -> list[dict]:
    """Those of these steps, or of all, that compile: the others fail here as they would there."""
    names = _names(named) if named else None
    return [
        {"name": f"{name} {dsl}", "step": wrong.step, "dsl": dsl, "timed": False, "factory": wrong.factory()}
        for dsl in dsls
        for name, wrong in kernels(dsl).items()
        if wrong.fails != "compiles" and (names is None or wrong.step in names)
    ]


def import_results(options: argparse.Namespace, console: Console) -> int:
    """Record what a bundle found."""
    path = measured.record(options.results, options.name, _key(options), options.unsigned, options.add)
    say(console, f"recorded {path}")
    return 0
