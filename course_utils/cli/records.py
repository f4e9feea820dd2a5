"""``course plot``, ``bundle`` and ``import``: results, from where they are made to where they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from course_utils.cli import BUILD
from course_utils.cli.terminal import bar, say
from course_utils.compile import factory
from course_utils.compile.factory import DSLS
from course_utils.compile.faults import kernels
from course_utils.compile.load import load_factory
from course_utils.grading import ids, steps
from course_utils.grading.steps import CopyCase, Step
from course_utils.recordings import bundle as archives
from course_utils.recordings import measured, model, signing


def plot(console: Console, out: str) -> int:
    """Draw the learner's ladder, where `course climb` timed one, over the recorded one."""
    climb = BUILD / "climb.json"
    try:
        mine = model.read(climb, timed=False) if climb.exists() else {"entries": []}
    except model.MeasuredError as error:
        raise ValueError(
            f"{climb} is not what `course climb` wrote ({error}); run `course climb` again"
        ) from error
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    draw(out, measured.ladder(), mine)
    say(console, f"wrote {out}")
    return 0


def draw(path: str | Path, recorded: dict, mine: dict) -> None:
    """Write the ladder plot: ``recorded``, and ``mine`` over it where something was timed."""
    from course_utils.figures.ladder import ladder  # matplotlib takes its time

    timed = any(entry["timings"] for entry in mine["entries"])
    Path(path).write_bytes(ladder(recorded, mine if timed else None).png())


def bundle(
    console: Console, out: str, step: list[str] | None, dsl: list[str] | None, wrong: bool, key: str | None
) -> int:
    """Compile here, to run there."""
    dsls = dsl or list(DSLS)
    chosen = _wrong_kernels(step, dsls) if wrong else solution_kernels(step, dsls)
    total = sum(len(_sizes(kernel)) for kernel in chosen)
    with bar(console) as progress:
        task = progress.add_task("compiling", total=total)

        def show(item: tuple[str, tuple[int, ...]]) -> None:
            progress.update(task, advance=1, description=f"{item[0]} at {'x'.join(map(str, item[1]))}")

        archives.write(out, chosen, factory.compile_factory, show, signing.key(_key(key)))
    there = f"On the GPU machine: python {Path(out).name} --out results.json"
    say(console, f"wrote {out}: {len(chosen)} kernels. {there}")
    return 0


def _key(named: str | None) -> Path:
    return Path(named) if named else BUILD / "bundle.key"


def _sizes(kernel: dict) -> set[tuple[int, ...]]:
    return set(archives.sizes(steps.kernel_row(kernel["step"]), kernel["timed"]))


def solution_kernels(named: list[str] | None, dsls: Sequence[str]) -> list[dict]:
    """The solutions of these steps, tasks and cases, or of all steps, as ``bundle.write`` takes them. "tasks"
    are all tasks, "blackwell" all steps of that track. What asks for no speed is not timed, a step's kernel
    is.

    Raises ValueError where one has no kernel, or none in these languages.
    """
    names = _names(named)
    for name in names:
        if not set(dsls) & set(steps.languages(name)):
            ids.language(name, dsls[0])  # says which it has
    return [
        {
            "name": f"{name} {dsl}",
            "step": name,
            "dsl": dsl,
            "timed": _timed(steps.kernel_row(name)),
            "factory": load_factory(ids.solution(name, dsl), steps.function_of(name)),
        }
        for dsl in dsls
        for name in names
        if dsl in steps.languages(name)
    ]


def _timed(row: Step | CopyCase) -> bool:
    return isinstance(row, Step) and (row.problem == "gemm" or row.speed_floor is not None)


def _names(named: list[str] | None) -> list[str]:
    """The ids of these steps, tasks and cases, or of all steps. Raises ValueError where one is none."""
    several = {"tasks": tuple(steps.TASKS), "blackwell": tuple(steps.BLACKWELL_STEPS)}
    given = [one for name in named or steps.STEPS for one in several.get(name, (name,))]
    return [steps.kernel_row(f"step{int(one):02d}" if one.isdigit() else one).id for one in given]


def _wrong_kernels(named: list[str] | None, dsls: list[str]) -> list[dict]:
    """Those of these steps, or of all, that compile: the others fail here as they would there."""
    names = _names(named) if named else None
    return [
        {"name": f"{name} {dsl}", "step": wrong.step, "dsl": dsl, "timed": False, "factory": wrong.factory()}
        for dsl in dsls
        for name, wrong in kernels(dsl).items()
        if wrong.fails != "compiles" and (names is None or wrong.step in names)
    ]


def import_results(
    console: Console, results: str, name: str, key: str | None, unsigned: bool, add: bool
) -> int:
    """Record what a bundle found."""
    path = measured.record(results, name, _key(key), unsigned, add)
    say(console, f"recorded {path}")
    return 0
