"""``course check`` and ``course climb``: one verdict, and the whole ladder."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table

from course_utils.cli import BUILD, EXIT_FAILED, EXIT_NOT_ALL_TRIED
from course_utils.cli.records import draw
from course_utils.cli.terminal import at_work, bar, say, show
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS
from course_utils.compile.load import code_lines, read
from course_utils.grading import ids, steps
from course_utils.grading.check_progress import OnProgress
from course_utils.grading.verdict import Verdict, interrupted
from course_utils.recordings import measured, model, progress
from course_utils.recordings.bundle import entry, provenance
from course_utils.run import backends

MARKS = {True: "[green]ok[/]", False: "[red]no[/]", None: "[dim]not run[/]"}
TABLE = {"title_justify": "left", "box": box.SIMPLE_HEAD, "pad_edge": False, "padding": (0, 1, 0, 0)}


def check(
    console: Console,
    step: str,
    dsl: str | None,
    backend: str,
    time_limit: float,
    file: str | None,
    reference: str | None,
    as_json: bool,
) -> int:
    """One step, task or case: a file of the learner's, or the solution. Or any kernel, against a reference.

    Raises ValueError for no such id or language and CompileError where there is no such file: wrong calls, no
    verdicts.
    """
    if reference:
        from course_utils.cli import against  # here, because it imports torch

        return against.check(console, step, reference, as_json)
    language = ids.language(step, dsl)
    if file:
        read(file)
    known: list[Verdict] = []
    try:
        with _live(console, f"{step} {language}", as_json, known) as on_progress:
            verdict = ids.check_file(step, file, language, backend, time_limit, on_progress)
    except KeyboardInterrupt:
        verdict = interrupted(step, language, known[-1] if known else None)
    if as_json:
        sys.stdout.write(json.dumps(verdict.to_dict(), indent=1) + "\n")
    else:
        show(console, str(verdict), verdict.card.tables if verdict.card else ())
    if file and verdict.max_points:
        _keep(verdict, None if as_json else console)
    if verdict.failed:
        return EXIT_FAILED
    return 0 if verdict.passed else EXIT_NOT_ALL_TRIED


def _keep(verdict: Verdict, console: Console | None) -> None:
    """Keep a learner's verdict as the notebooks do, where the working directory is in a checkout."""
    if progress.checkout() is None:
        return
    try:
        progress.keep(verdict, backends.find_gpu()[0] if verdict.timing else None)
    except OSError as error:  # the verdict stands, kept or not
        if console:
            say(console, f"This verdict could not be kept in {progress.of_here()} ({error}).")


@contextlib.contextmanager
def _live(console: Console, name: str, as_json: bool, known: list[Verdict]) -> Iterator[OnProgress]:
    """A line on the terminal with what the check is at, none beside JSON; ``known`` gets what is known."""
    if as_json:
        with contextlib.redirect_stdout(sys.stderr):  # what a learner's file prints is no JSON
            yield known.append
        return
    with at_work(console, f"{name}: loading") as say_now:

        def on_progress(so_far: Verdict) -> None:
            known.append(so_far)
            if so_far.doing:
                say_now(f"{name}: {so_far.doing}")

        yield on_progress


def climb(console: Console, backend: str) -> int:
    """Every solution: a table, what failed, build/climb.json and build/ladder.png."""
    verdicts = []
    rungs = [(step, dsl) for step in steps.STEPS.values() for dsl in DSLS]
    with bar(console) as progress:
        task = progress.add_task("climbing", total=len(rungs))
        for step, dsl in rungs:
            progress.update(task, description=f"{dsl} {step.id} {step.title}")
            verdicts.append(ids.check_file(step.id, None, dsl, backend))
            progress.advance(task)
    recorded = measured.ladder()
    console.print(_ladder(verdicts, recorded))
    console.print(_side_by_side())
    failed = [v for v in verdicts if v.failed]
    for verdict in failed:
        say(console, f"{verdict.step} {verdict.dsl}: {verdict.diagnosis}")
    BUILD.mkdir(exist_ok=True)
    mine = _as_results(verdicts)
    model.write(BUILD / "climb.json", mine)
    draw(BUILD / "ladder.png", recorded, mine)
    console.print(f"wrote {BUILD / 'climb.json'} and {BUILD / 'ladder.png'}")
    if words := _not_run(verdicts, recorded):
        say(console, words)
    return EXIT_FAILED if failed else 0


def _as_results(verdicts: list[Verdict]) -> dict:
    device, _ = backends.find_gpu()
    return {
        "provenance": provenance(device, {}) if device else {},
        "entries": [entry(f"{v.step} {v.dsl}", v) for v in verdicts],
    }


def _not_run(verdicts: list[Verdict], recorded: dict) -> str:
    """What could not be tried here and why, or nothing."""
    left = [part for v in verdicts for part in v.checks if part.passed is None]
    if not left:
        return ""
    names = " and ".join(sorted({part.name for part in left}))
    text, where = (
        f"Not run here: {names} ({left[0].detail.removeprefix('not run: ')}).",
        recorded["provenance"],
    )
    if where:
        text += f" TFLOP/s in brackets were recorded at 4096 on {where['gpu']}, {where['date']}."
    return text


def _ladder(verdicts: list[Verdict], recorded: dict) -> Table:
    """The ladder as a table that fits 80 columns.

    A figure that was recorded, not measured here, is in brackets.
    """
    table = Table(title="The ladder", **TABLE)
    for name in ("step", "", "dsl", "receipt", "result"):
        table.add_column(name, no_wrap=bool(name))  # only the title may wrap
    for name in ("points", "TFLOP/s", "of cuBLAS"):
        table.add_column(name, justify="right", no_wrap=True)
    for verdict in verdicts:
        parts = {part.name: part.passed for part in verdict.checks}
        built = all(parts[name] for name in ("compiles", "tensor maps", "instructions"))
        here = next(iter(verdict.timing), None)
        run = here or _recorded_run(recorded, verdict.step, verdict.dsl)
        form = "{}" if here else "[dim]({})[/]"
        first = verdict.dsl == DSLS[0]
        table.add_row(
            verdict.step.removeprefix("step").lstrip("0") if first else "",
            steps.STEPS[verdict.step].title if first else "",
            verdict.dsl,
            MARKS[built],
            MARKS[parts["results"]],
            f"{verdict.points:g}/{verdict.max_points:g}",
            form.format(f"{run['tflops']:.0f}") if run else "",
            form.format(f"{run['ratio']:.2f}") if run else "",
        )
    return table


def _side_by_side() -> Table:
    """For each step: lines of code in each DSL, and what its author decides there."""
    table = Table(title="What each DSL's author wrote", **TABLE)
    for name, justify in (("step", "left"), ("dsl", "left"), ("lines", "right"), ("new decisions", "left")):
        table.add_column(name, justify=justify)
    for step in steps.STEPS.values():
        for dsl in DSLS:
            try:
                lines = str(code_lines(ids.solution(step.id, dsl)))
            except (CompileError, OSError):
                lines = ""
            table.add_row(
                step.id.removeprefix("step").lstrip("0") if dsl == DSLS[0] else "",
                dsl,
                lines,
                step.owned[dsl],
            )
    return table


def _recorded_run(recorded: dict, step_id: str, dsl: str) -> dict | None:
    for kept in recorded["entries"]:
        if (kept["step"], kept["dsl"]) == (step_id, dsl):
            runs = (t for t in kept["timings"] if t["mode"] == "burst" and t["size"] == [4096, 4096, 4096])
            return next(runs, None)
    return None
