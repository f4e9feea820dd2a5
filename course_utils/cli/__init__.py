"""The ``course`` command: doctor, check, climb, receipt, trace, plot, tensormap, sync, bundle, import."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from course_utils.artifact import Artifact
from course_utils.compile.errors import CompileError
from course_utils.compile.load import code_lines, load_factory, load_planted, planted, solution_path
from course_utils.grading import checker, steps
from course_utils.grading.verdict import Verdict
from course_utils.ptx import receipts
from course_utils.recordings import measured

BUILD = Path("build")
MARKS = {True: "[green]ok[/]", False: "[red]no[/]", None: "[dim]not run[/]"}
EXIT_FAILED, EXIT_USAGE, EXIT_NOT_ALL_TRIED = 1, 2, 3


def main(argv: list[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 fine, 1 something failed, 2 wrong usage, 3 not everything
    could be tried.
    """
    options = _parser().parse_args(argv)
    console = Console(highlight=False)
    try:
        return options.run(options, console)
    except (CompileError, measured.MeasuredError, ValueError, OSError) as error:
        Console(stderr=True, highlight=False).print(
            f"course {options.command}: {error}", markup=False, soft_wrap=True
        )
        return EXIT_USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="course", description="Hopper GEMM, step by step: check, climb, look."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, run, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    command("doctor", _doctor, "what this machine can do, and what is missing")
    sub = command("check", _check, "check one step, a file of yours or the solution")
    sub.add_argument("step", metavar="STEP", help="step01 ... step10")
    sub.add_argument("--dsl", default="tilelang", choices=checker.DSLS)
    sub.add_argument(
        "--file", metavar="FILE", help="a Python file that defines gemm(M, N, K); the solution where left out"
    )
    sub.add_argument("--backend", default="auto", choices=checker.BACKENDS)
    sub.add_argument(
        "--time-limit", type=float, default=checker.TIME_LIMIT, metavar="S", help="seconds for one launch"
    )
    sub.add_argument("--json", action="store_true", help="print the verdict as JSON")
    sub = command(
        "climb", _climb, "check all steps, print the ladder, write build/climb.json and build/ladder.png"
    )
    sub.add_argument("--backend", default="auto", choices=checker.BACKENDS)
    sub = command("receipt", _receipt, "what a compiled kernel contains")
    sub.add_argument(
        "what", metavar="STEP|FILE", help="step01 ... step10, a Python file with gemm, or a saved artifact"
    )
    sub.add_argument("--dsl", default="tilelang", choices=checker.DSLS)
    sub.add_argument("--size", metavar="MxNxK", help="problem size (default: the step's first check size)")
    sub = command(
        "trace", _trace, "emulate one launch, say what is wrong with it, and draw who waited for whom"
    )
    sub.add_argument(
        "what", metavar="STEP|FILE", help="step01 ... step10, a Python file with gemm, or a saved artifact"
    )
    sub.add_argument("--dsl", default="tilelang", choices=checker.DSLS)
    sub.add_argument(
        "--size", metavar="MxNxK", help=f"problem size (default: {'x'.join(map(str, steps.TRACE_SIZE))})"
    )
    sub.add_argument(
        "--seed", type=int, default=0, help="of the schedule; the same seed gives the same run (default: 0)"
    )
    sub.add_argument("--out", default=str(BUILD / "trace.png"), metavar="PNG")
    sub = command(
        "plot", _plot, "draw the ladder: yours, if build/climb.json has timings, over the recorded one"
    )
    sub.add_argument("--out", default=str(BUILD / "ladder.png"), metavar="PNG")
    sub = command(
        "tensormap",
        _tensormap,
        "hold the TMA contract against the driver's recorded verdicts, or explain one map",
    )
    actions = sub.add_subparsers(dest="action", required=True, metavar="ACTION")
    verify = actions.add_parser("verify", help="every row of a file of driver verdicts: N of M agree")
    verify.add_argument("file", metavar="FILE.jsonl[.gz]")
    explain = actions.add_parser("explain", help="one map: legal, or every rule that it breaks")
    explain.add_argument(
        "file", nargs="?", metavar="FILE.jsonl[.gz]", help="take the map from this file, with --row"
    )
    explain.add_argument("--row", type=int, default=1, help="line of FILE, from 1")
    explain.add_argument("--type", default="float16", help="element type (default: float16)")
    for name, text in (
        ("dims", "globalDim, elements"),
        ("strides", "globalStrides, bytes, without the innermost (default: dense)"),
        ("box", "boxDim, elements"),
        ("element-strides", "elementStrides (default: 1 each)"),
    ):
        explain.add_argument(f"--{name}", metavar="N,N,...", help=f"{text}; innermost first")
    for name, default in (("interleave", "none"), ("swizzle", "none"), ("l2", "none"), ("oob", "zero")):
        explain.add_argument(
            f"--{name}", default=default, help=f"a name or the driver's number (default: {default})"
        )
    explain.add_argument(
        "--address", type=lambda text: int(text, 0), default=0, help="globalAddress, bytes (default: 0)"
    )
    sub = command(
        "sync", _sync, "for authors: write the notebooks' exercise cells from solutions/, and their pictures"
    )
    sub.add_argument("--solved", metavar="DIR", help="write solved copies to DIR instead, for an instructor")
    sub.add_argument(
        "--force", action="store_true", help="also over cells that somebody worked in; a copy is kept as .bak"
    )
    sub = command("bundle", _bundle, "compile here, run there: one archive with kernels, checker and runner")
    sub.add_argument("out", metavar="OUT.pyz")
    sub.add_argument(
        "--step", action="append", metavar="N", help="a step, 1 to 10; repeat for several (default: all)"
    )
    sub.add_argument("--dsl", action="append", choices=checker.DSLS, help="repeat for several (default: all)")
    sub.add_argument(
        "--wrong", action="store_true", help="the wrong kernels of solutions/wrong instead of the solutions"
    )
    sub = command("import", _import, "record the results file of a bundle, with where it comes from")
    sub.add_argument("results", metavar="results.json")
    sub.add_argument(
        "--as",
        dest="name",
        default="ladder",
        metavar="NAME",
        help="solutions/measured/NAME.json (default: ladder)",
    )
    return parser


def _doctor(options, console) -> int:
    from course_utils.cli import doctor

    rows = doctor.findings()
    for name, fine, text in rows:
        console.print(f"{'fine' if fine else 'look':5} {name:10} {text}", markup=False, soft_wrap=True)
    return EXIT_FAILED if any(not fine for name, fine, _ in rows if name != "gpu") else 0


def _check(options, console) -> int:
    step = steps.find(options.step)
    with contextlib.redirect_stdout(
        sys.stderr if options.json else sys.stdout
    ):  # what a learner's file prints is no JSON
        try:
            factory = load_factory(options.file or solution_path(step.id, options.dsl))
        except CompileError as error:
            verdict = checker.not_compiled(step, options.dsl, "compile", str(error))
        else:
            verdict = checker.check(step.id, factory, options.dsl, options.backend, options.time_limit)
    if options.json:
        sys.stdout.write(json.dumps(verdict.to_dict(), indent=1) + "\n")
    else:
        console.print(str(verdict), markup=False, soft_wrap=True)
    return _exit_code([verdict])


def _exit_code(verdicts: list[Verdict]) -> int:
    if any(v.failed for v in verdicts):
        return EXIT_FAILED
    return 0 if all(v.passed for v in verdicts) else EXIT_NOT_ALL_TRIED


def _climb(options, console) -> int:
    verdicts = []
    rungs = [(step, dsl) for step in steps.STEPS.values() for dsl in checker.DSLS]
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task("climbing", total=len(rungs))
        for step, dsl in rungs:
            progress.update(task, description=f"{dsl} {step.id} {step.title}")
            verdicts.append(_check_solution(step, dsl, options.backend))
            progress.advance(task)
    recorded = measured.load()
    console.print(_table(verdicts, recorded))
    console.print(_side_by_side())
    failed = [v for v in verdicts if v.failed]
    for verdict in failed:
        console.print(f"{verdict.step} {verdict.dsl}: {verdict.diagnosis}", markup=False, soft_wrap=True)
    BUILD.mkdir(exist_ok=True)
    mine = _as_results(verdicts)
    (BUILD / "climb.json").write_text(json.dumps(mine, indent=1) + "\n")
    _draw(BUILD / "ladder.png", recorded, mine)
    console.print(f"wrote {BUILD / 'climb.json'} and {BUILD / 'ladder.png'}")
    not_run = sorted({part.name for v in verdicts for part in v.checks if part.passed is None})
    if not_run:
        reason = next(part.detail for v in verdicts for part in v.checks if part.passed is None).removeprefix(
            "not run: "
        )
        where = recorded["provenance"]
        text = f"Not run here: {' and '.join(not_run)} ({reason})."
        if where:
            text += f" TFLOP/s in brackets were recorded at 4096 on {where['gpu']}, {where['date']}."
        console.print(text, markup=False, soft_wrap=True)
    return EXIT_FAILED if failed else 0


def _check_solution(step, dsl, backend) -> Verdict:
    try:
        factory = load_factory(solution_path(step.id, dsl))
    except CompileError as error:
        return checker.not_compiled(step, dsl, "compile", str(error))
    return checker.check(step.id, factory, dsl, backend)


def _as_results(verdicts) -> dict:
    from course_utils.recordings.bundle import entry, provenance

    device, _ = checker.find_gpu()
    return {
        "provenance": provenance(device, {}) if device else {},
        "entries": [entry(f"{v.step} {v.dsl}", v) for v in verdicts],
    }


def _table(verdicts, recorded) -> Table:
    """The ladder as a table that fits 80 columns.

    A figure that was recorded, not measured here, is in brackets.
    """
    table = Table(
        title="The ladder", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
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
        first = verdict.dsl == checker.DSLS[0]
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
    table = Table(
        title="What each DSL's author wrote",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name, justify in (("step", "left"), ("dsl", "left"), ("lines", "right"), ("new decisions", "left")):
        table.add_column(name, justify=justify)
    for step in steps.STEPS:
        for dsl in checker.DSLS:
            try:
                lines = str(code_lines(solution_path(step, dsl)))
            except (CompileError, OSError):
                lines = ""
            table.add_row(
                step.removeprefix("step").lstrip("0") if dsl == checker.DSLS[0] else "",
                dsl,
                lines,
                steps.OWNED[step][dsl],
            )
    return table


def _recorded_run(recorded, step_id, dsl) -> dict | None:
    for entry in recorded["entries"]:
        if (entry["step"], entry["dsl"]) == (step_id, dsl):
            return next(
                (t for t in entry["timings"] if t["mode"] == "burst" and t["size"] == [4096, 4096, 4096]),
                None,
            )
    return None


def _draw(path, recorded, mine) -> None:
    from course_utils.figures import ladder as plots

    timed = any(entry["timings"] for entry in mine["entries"])
    plots.save_ladder(path, recorded, mine if timed else None)


def _trace(options, console) -> int:
    import torch

    from course_utils.figures import ladder as plots
    from course_utils.run.emulator import EmulatorError
    from course_utils.run.emulator.gemm import emulate_gemm

    artifact = _artifact(options, steps.trace_size(options.what))
    try:
        emulation, found, _ = emulate_gemm(
            artifact, torch.Generator().manual_seed(options.seed), options.seed
        )
    except EmulatorError as error:
        raise ValueError(f"the emulator cannot run this: {error}") from error
    size = " x ".join(map(str, artifact.problem))
    console.print(
        f"{options.what}, M, N, K = {size}, schedule {options.seed}: {emulation.executed:,} warp "
        "instructions, "
        f"{'ended' if emulation.finished else 'did not end'}",
        markup=False,
        soft_wrap=True,
    )
    for finding in emulation.findings:
        console.print(str(finding), markup=False, soft_wrap=True)
    if emulation.finished:
        console.print(
            "D is right" if found.ok else f"D is wrong: {found.diagnosis}", markup=False, soft_wrap=True
        )
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    plots.save_timeline(options.out, emulation, title=f"{options.what}, {size}, schedule {options.seed}")
    console.print(f"wrote {options.out}", markup=False, soft_wrap=True)
    return 0 if emulation.ok and found.ok else EXIT_FAILED


def _receipt(options, console) -> int:
    from course_utils.ptx import paths as copies

    step = steps.find(options.what if options.what in steps.STEPS else "step03")
    artifact = _artifact(options, step.check_sizes[0])
    receipt = receipts.read_ptx(artifact.ptx)
    table = Table(
        title=f"Receipt of {options.what}, M, N, K = {' x '.join(map(str, artifact.problem))}",
        title_justify="left",
        show_header=False,
    )
    for row in receipts.table(receipt, artifact):
        table.add_row(*row)
    found = copies.copies(artifact, _source(options))
    for copy in found:
        table.add_row(
            f"{copy.tensor}, {copy.direction}",
            str(copy) + (f" (asked for: {copy.asked})" if copy.asked else ""),
        )
    console.print(table)
    for copy in found:
        if copy.finding:
            console.print(f"Not what was asked for: {copy.finding}", markup=False, soft_wrap=True)
    return 0


def _source(options) -> str:
    """The Python that a command was given, or nothing where it was given an artifact."""
    path = solution_path(options.what, options.dsl) if options.what in steps.STEPS else Path(options.what)
    return path.read_text() if path.suffix == ".py" else ""


def _artifact(options, size) -> Artifact:
    """What a command was given, compiled at ``size`` or at the one that the learner named: a step, a file, or
    an artifact.
    """
    if options.what not in steps.STEPS and not options.what.endswith(".py"):
        if not Path(options.what).exists():
            raise ValueError(
                f"there is no step and no file {options.what!r}; the steps are {', '.join(steps.STEPS)}"
            )
        return Artifact.load(options.what)
    if options.size:
        try:
            size = tuple(int(n) for n in options.size.lower().split("x"))
        except ValueError:
            size = ()
        if len(size) != 3 or min(size) <= 0:
            raise ValueError(f"--size is MxNxK, for example 4096x4096x4096, not {options.size}")
    path = solution_path(options.what, options.dsl) if options.what in steps.STEPS else options.what
    return checker.compile_factory(load_factory(path), options.dsl, size)


def _plot(options, console) -> int:
    climb = BUILD / "climb.json"
    try:
        mine = json.loads(climb.read_text()) if climb.exists() else {"entries": []}
        [entry["timings"] for entry in mine["entries"]]
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{climb} is not what `course climb` wrote ({error}); run `course climb` again"
        ) from error
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    _draw(options.out, measured.load(), mine)
    console.print(f"wrote {options.out}", markup=False, soft_wrap=True)
    return 0


def _tensormap(options, console) -> int:
    from course_utils.tma import explain as tensormap_command
    from course_utils.tma.rules import violations

    if options.action == "verify":
        count, disagreements = tensormap_command.verify(options.file)
        for line in disagreements:
            console.print(line, markup=False, soft_wrap=True)
        console.print(f"{count - len(disagreements)} of {count} agree", markup=False)
        return EXIT_FAILED if disagreements or not count else 0
    tensor_map, address = tensormap_command.from_options(options)
    console.print(tensormap_command.explain(tensor_map, address), markup=False, soft_wrap=True)
    return EXIT_FAILED if violations(tensor_map, address) else 0


def _sync(options, console) -> int:
    from authoring import drawings, sync

    written = drawings.write(sync.NOTEBOOKS / "images")
    written += sync.sync(
        out=Path(options.solved) if options.solved else None, solved=bool(options.solved), force=options.force
    )
    console.print(
        "\n".join(f"wrote {path}" for path in written) or "nothing to change", markup=False, soft_wrap=True
    )
    return 0


def _bundle(options, console) -> int:
    from course_utils.recordings import bundle

    kernels = _wrong_kernels(options) if options.wrong else _solution_kernels(options)
    total = sum(
        len(
            set(steps.find(k["step"]).check_sizes + (steps.find(k["step"]).timed_sizes if k["timed"] else ()))
        )
        for k in kernels
    )
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as progress:
        task = progress.add_task("compiling", total=total)

        def show(item):
            progress.update(task, advance=1, description=f"{item[0]} at {'x'.join(map(str, item[1]))}")

        bundle.write(options.out, kernels, checker.compile_factory, show)
    console.print(
        f"wrote {options.out}: {len(kernels)} kernels. On the GPU machine: python {Path(options.out).name} "
        "--out results.json",
        markup=False,
        soft_wrap=True,
    )
    return 0


def _solution_kernels(options) -> list[dict]:
    names = [
        s if s.startswith("step") else f"step{int(s):02d}" if s.isdigit() else s
        for s in options.step or steps.STEPS
    ]
    return [
        {
            "name": f"{steps.find(name).id} {dsl}",
            "step": name,
            "dsl": dsl,
            "timed": True,
            "factory": load_factory(solution_path(name, dsl)),
        }
        for dsl in options.dsl or checker.DSLS
        for name in names
    ]


def _wrong_kernels(options) -> list[dict]:
    """Those that compile: the others fail here as they would there."""
    found = [
        (f"{name} {dsl}", dsl, load_planted(path))
        for dsl in options.dsl or checker.DSLS
        for name, path in planted(dsl).items()
    ]
    return [
        {"name": name, "step": wrong.step, "dsl": dsl, "timed": False, "factory": wrong.gemm}
        for name, dsl, wrong in found
        if wrong.fails != "compiles"
    ]


def _import(options, console) -> int:
    path = measured.record(options.results, options.name)
    console.print(f"recorded {path}", markup=False, soft_wrap=True)
    return 0
