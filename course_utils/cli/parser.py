"""What the ``course`` command can be asked: its commands, their options and defaults."""

from __future__ import annotations

import argparse
import os

from course_utils.cli import BUILD
from course_utils.compile.factory import DSLS
from course_utils.grading import steps
from course_utils.run import backends

WHAT = "step01 ... step11, a Python file with gemm, or a saved artifact"


def parser() -> argparse.ArgumentParser:
    """The parser. Its ``run`` names the function of a command, "module.function" in this package.

    Long, for it is a list: a command after the other, an argument a line.
    """
    course = argparse.ArgumentParser(
        prog="course", description="Hopper GEMM, step by step: check, climb, look."
    )
    commands = course.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, run: str, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    command("doctor", "doctor.doctor", "what this machine can do, and what is missing")
    command("clean", "doctor.clean", "empty the cache of compiled kernels")
    sub = command("lab", "lab.lab", "open the notebooks in JupyterLab, the first one first")
    sub.add_argument(
        "options", nargs="*", metavar="OPTION", help="JupyterLab's own, after --: course lab -- --no-browser"
    )
    sub = command("track", "track.track", "fold the other language away in every notebook")
    sub.add_argument("dsl", choices=(*DSLS, "both"), help="what you do; both opens everything")
    sub = command(
        "level", "level.level", "exercises at another level; what you wrote is kept in a file beside"
    )
    sub.add_argument(
        "level", choices=steps.LEVELS, help="lines to put in order, places to write in, or a blank"
    )
    sub.add_argument("step", nargs="*", metavar="STEP", help="05 or step05; several; all where left out")
    sub.add_argument("--dsl", choices=DSLS, help="in one language (default: in both)")
    sub.add_argument("--seed", type=int, default=0, help="that shuffles the lines of order (default: 0)")
    sub = command("check", "check.check", "check one step or task, a file of yours or the solution")
    sub.add_argument(
        "step",
        metavar="STEP|FILE",
        help="step01 ... step11, task05a ... task10d, t3a ... t5; with --against, a file",
    )
    _add_against(sub)
    sub.add_argument("--dsl", default="tilelang", choices=DSLS)
    sub.add_argument(
        "--file", metavar="FILE", help="a Python file that defines gemm(M, N, K); the solution where left out"
    )
    sub.add_argument("--backend", default="auto", choices=backends.NAMES)
    sub.add_argument(
        "--time-limit", type=float, default=backends.TIME_LIMIT, metavar="S", help="seconds for one launch"
    )
    sub.add_argument("--json", action="store_true", help="print the verdict as JSON")
    sub = command(
        "climb",
        "check.climb",
        "check all steps, print the ladder, write build/climb.json and build/ladder.png",
    )
    sub.add_argument("--backend", default="auto", choices=backends.NAMES)
    sub = command(
        "grade", "grade.grade", "grade a class: submissions in a sandbox, points by a judge outside"
    )
    _add_grade(sub)
    sub = command("receipt", "kernel.receipt", "what a compiled kernel contains")
    sub.add_argument("what", metavar="STEP|FILE", help=WHAT)
    sub.add_argument("--dsl", default="tilelang", choices=DSLS)
    sub.add_argument("--size", metavar="MxNxK", help="problem size (default: the step's first check size)")
    sub = command("source", "source.source", "what became of each line of a kernel: its generated code")
    sub.add_argument("what", metavar="STEP|FILE", help=WHAT)
    sub.add_argument("--dsl", default="tilelang", choices=DSLS)
    sub.add_argument("--size", metavar="MxNxK", help="problem size (default: that of `course trace`)")
    form = sub.add_mutually_exclusive_group()
    for name, text in (("cuda", "TileLang's CUDA"), ("ptx", "PTX"), ("sass", "SASS, by nvdisasm")):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=text)
    sub.add_argument("--line", type=int, metavar="N", help="only what comes from this line of yours")
    sub = command(
        "trace", "kernel.trace", "emulate one launch, say what is wrong with it, and draw who waited for whom"
    )
    sub.add_argument("what", metavar="STEP|FILE", help=WHAT)
    _add_against(sub)
    sub.add_argument("--dsl", default="tilelang", choices=DSLS)
    sub.add_argument(
        "--size", metavar="MxNxK", help=f"problem size (default: {'x'.join(map(str, steps.TRACE_SIZE))})"
    )
    sub.add_argument(
        "--seed", type=int, default=0, help="of the schedule; the same seed gives the same run (default: 0)"
    )
    sub.add_argument("--out", metavar="PNG", help="the picture (default: build/trace.png, unless --perfetto)")
    sub.add_argument(
        "--perfetto", metavar="OUT.json", help="every event of every CTA, as ui.perfetto.dev reads it"
    )
    sub = command(
        "profile", "profile.profile", "hardware counters of one launch beside cuBLAS's, and what bounds it"
    )
    sub.add_argument("what", metavar="STEP|FILE", help=WHAT)
    sub.add_argument("--dsl", default="tilelang", choices=DSLS)
    sub.add_argument(
        "--size", metavar="MxNxK", help="problem size (default: the first that the step is timed at)"
    )
    sub = command(
        "tune",
        "tune.tune",
        "time plans of step 11 on this GPU, the most promising first; goes on where it was",
    )
    sub.add_argument("what", metavar="STEP|FILE", help="step11, or a Python file whose gemm takes a plan")
    sub.add_argument("--shapes", nargs="+", default=[], metavar="MxNxK", help="one or more")
    sub.add_argument(
        "--show", action="store_true", help="time nothing: the best plans there are times of, at all shapes"
    )
    sub.add_argument("--dsl", default="tilelang", choices=DSLS)
    sub.add_argument("--plans", type=int, default=8, metavar="N", help="at each shape (default: 8)")
    sub.add_argument("--out", default=str(BUILD / "tuned.json"), metavar="JSON")
    sub = command(
        "plot",
        "records.plot",
        "draw the ladder: yours, if build/climb.json has timings, over the recorded one",
    )
    sub.add_argument("--out", default=str(BUILD / "ladder.png"), metavar="PNG")
    sub = command(
        "tensormap",
        "tensormap.tensormap",
        "hold the TMA contract against the driver's recorded verdicts, or explain one map",
    )
    _add_tensormap(sub)
    sub = command(
        "sync",
        "authors.sync",
        "for authors: write the notebooks' exercise cells from solutions/, and their pictures",
    )
    sub.add_argument("--solved", metavar="DIR", help="write solved copies to DIR instead, for an instructor")
    sub.add_argument(
        "--force", action="store_true", help="also over cells that somebody worked in; a copy is kept as .bak"
    )
    sub = command(
        "bundle", "records.bundle", "compile here, run there: one archive with kernels, checker and runner"
    )
    sub.add_argument("out", metavar="OUT.pyz")
    sub.add_argument(
        "--step",
        action="append",
        metavar="N",
        help="a step, 1 to 11, a task, or tasks for all; repeat for several (default: all steps)",
    )
    sub.add_argument("--dsl", action="append", choices=DSLS, help="repeat for several (default: all)")
    sub.add_argument(
        "--wrong", action="store_true", help="the wrong kernels of solutions/wrong instead of the solutions"
    )
    sub.add_argument(
        "--key", metavar="FILE", help="what its results are signed for (default: build/bundle.key)"
    )
    sub = command(
        "import", "records.import_results", "record the results file of a bundle, with where it comes from"
    )
    sub.add_argument("results", metavar="results.json")
    sub.add_argument(
        "--as",
        dest="name",
        default="ladder",
        metavar="NAME",
        help="solutions/measured/NAME.json (default: ladder)",
    )
    sub.add_argument(
        "--key", metavar="FILE", help="with which the bundle was made (default: build/bundle.key)"
    )
    sub.add_argument("--unsigned", action="store_true", help="also what no bundle of yours has signed")
    sub.add_argument(
        "--add", action="store_true", help="kernels of the same name are replaced, and the others stay"
    )
    return course


def _add_against(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--against",
        metavar="REFERENCE.py",
        help="FILE defines kernel(), which is no GEMM of ours; REFERENCE.py its inputs() and outputs(...)",
    )


def _add_grade(sub: argparse.ArgumentParser) -> None:
    """What ``course grade`` takes."""
    sub.add_argument(
        "folder", metavar="FOLDER", help="a folder or a file a learner, or a zip of an LMS export"
    )
    sub.add_argument("--out", default="grades", metavar="DIR", help="where the grades go (default: grades)")
    sub.add_argument(
        "--step",
        action="append",
        metavar="STEP",
        help="step01 ... task10d; repeat for several (default: all)",
    )
    sub.add_argument(
        "--backend",
        default="emulator",
        choices=("emulator", "gpu"),
        help="gpu: results and speed on the Hopper GPU of this machine too",
    )
    sub.add_argument(
        "--jobs",
        type=int,
        default=max(1, os.cpu_count() or 1),
        metavar="N",
        help="processes at once (default: one a core)",
    )
    sub.add_argument(
        "--shard", default="1/1", metavar="I/N", help="judge the I-th of N parts; the ledger is shared"
    )
    sub.add_argument(
        "--seed",
        metavar="TEXT",
        help="of sizes, inputs and schedules, given after the deadline (default: a new one, kept in DIR)",
    )
    sub.add_argument(
        "--level",
        choices=steps.LEVELS,
        help="of every step's exercise (default: the one that a submission's own line names)",
    )
    sub.add_argument(
        "--key", metavar="FILE", help="what signs the ledger (default: DIR/ledger/key, made once)"
    )
    sub.add_argument(
        "--ray", action="store_true", help="as tasks of a Ray cluster (RAY_ADDRESS, or one here)"
    )
    sub.add_argument(
        "--unsafe", action="store_true", help="without a sandbox: only for submissions that you trust"
    )
    sub.add_argument(
        "--gradebook", metavar="URL", help="also write nbgrader's gradebook, as sqlite:///gradebook.db"
    )
    sub.add_argument(
        "--assignment", default="ladder", metavar="NAME", help="in nbgrader's gradebook (default: ladder)"
    )


def _add_tensormap(sub: argparse.ArgumentParser) -> None:
    """What ``course tensormap`` takes: an action, and one map in options of the driver's names."""
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
