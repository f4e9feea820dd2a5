"""What the ``course`` command can be asked: its commands, their options and defaults."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import textwrap
from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from course_utils.chips import HOME
from course_utils.cli import BUILD
from course_utils.compile.factory import DSLS
from course_utils.grading import steps
from course_utils.run import backends

# fmt: off
COMMANDS = {  # by whom they are for: what each runs, "module.function" of this package, and what it is
    "the course": {
        "doctor": ("doctor.doctor", "list what this machine can do, and what is missing"),
        "lab": ("lab.lab", "open the notebooks in JupyterLab, the first one first"),
        "track": ("track.track", "hide the other language in every notebook"),
        "level": ("level.level", "give exercises at another level, and keep your work in a file beside"),
        "check": ("check.check", "check a step, task or case: your file, or the course's solution"),
        "climb": (
            "check.climb",
            "check all steps, print the ladder, write build/climb.json and build/ladder.png",
        ),
        "plot": ("records.plot", "draw the recorded ladder, and yours over it if `course climb` timed one"),
        "clean": ("doctor.clean", "empty the cache of compiled kernels"),
    },
    "one kernel in detail": {
        "receipt": ("kernel.receipt", "list the instructions, registers and memory of a compiled kernel"),
        "source": ("source.source", "show the generated code of each line of a kernel"),
        "trace": (
            "kernel.trace",
            "emulate one launch, say what is wrong with it, and draw who waited for whom",
        ),
        "reproduce": (
            "reproduce.reproduce",
            "write a bug report's folder: kernel, control, PTX, versions, the check's answer, a script",
        ),
        "profile": (
            "profile.profile",
            "read hardware counters of one launch beside cuBLAS's, and name its bound",
        ),
        "tune": (
            "tune.tune",
            "time plans of step 11 on this GPU, the most promising first; continues where it stopped",
        ),
        "tensormap": (
            "tensormap.explain_map",
            "explain a tensor map, or compare the TMA rules with the driver's recorded answers",
        ),
    },
    "for teachers and authors": {
        "grade": ("grade.grade", "grade a class: submissions in a sandbox, points by a judge outside"),
        "sync": ("authors.sync", "write the notebooks' exercise cells from solutions/, and their pictures"),
        "bundle": ("records.bundle", "compile here, run there: one archive with kernels, checker and runner"),
        "import": ("records.import_results", "record a bundle's results with their provenance"),
    },
}
# fmt: on
NAMED = 12  # columns of a command's name in --help
WHAT = "a step, task or case (step04, task05a, t2), a Python file, or a saved artifact"
IN = "default: TileLang, or the one language that the exercise has"


def parser() -> argparse.ArgumentParser:
    """The parser. Its ``run`` names the function of a command, "module.function" in this package.

    Long, for it is a list: a command after the other, an argument a line.
    """
    course = argparse.ArgumentParser(
        prog="course",
        description="Hopper GEMM, step by step.",
        epilog="\n\n".join(_listed(title, rows) for title, rows in COMMANDS.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = course.add_subparsers(
        title="commands",
        dest="command",
        required=True,
        metavar="COMMAND",
        help="one of those below; `course COMMAND --help` lists its options",
    )
    subs: dict[str, argparse.ArgumentParser] = {}
    for rows in COMMANDS.values():
        for name, (run, text) in rows.items():
            subs[name] = commands.add_parser(name, description=text)
            subs[name].set_defaults(run=run)

    add = subs["lab"].add_argument
    add("options", nargs="*", metavar="OPTION", help="JupyterLab's own, after --: course lab -- --no-browser")
    add = subs["track"].add_argument
    add("dsl", choices=(*DSLS, "both"), help="the language to keep; both shows everything")
    add = subs["level"].add_argument
    add("level", choices=steps.LEVELS, help="lines to put in order, gaps to fill, or a blank cell")
    add("step", nargs="*", metavar="STEP", help="for example 05; several are allowed (default: all)")
    add("--dsl", choices=DSLS, help="in one language (default: in both)")
    add("--seed", type=int, default=0, help="seed of the shuffle at level order (default: 0)")
    add = subs["check"].add_argument
    add(
        "step",
        metavar="STEP|FILE",
        type=_id_or_file,
        help="step01 ... step11, task05a ... task10e, t1 ... t6, plan11; with --against, a file",
    )
    _add_against(add)
    add("--dsl", choices=DSLS, help=IN)
    add(
        "--file",
        metavar="FILE",
        help="a Python file with your gemm(M, N, K), or your copy, mend, predict or seconds (default: the "
        "solution)",
    )
    add("--backend", default="auto", choices=backends.NAMES)
    add("--time-limit", type=float, default=backends.TIME_LIMIT, metavar="S", help="seconds for one launch")
    add("--json", dest="as_json", action="store_true", help="print the verdict as JSON")
    add = subs["climb"].add_argument
    add("--backend", default="auto", choices=backends.NAMES)
    add = subs["plot"].add_argument
    add("--out", default=str(BUILD / "ladder.png"), metavar="PNG")
    add = subs["receipt"].add_argument
    add("what", metavar="STEP|FILE", type=_id_or_file, help=WHAT)
    add("--dsl", choices=DSLS, help=IN)
    add("--size", metavar="MxNxK", help="problem size (default: the step's first check size)")
    add = subs["source"].add_argument
    add("what", metavar="STEP|FILE", type=_id_or_file, help=WHAT)
    add("--dsl", choices=DSLS, help=IN)
    add("--size", metavar="MxNxK", help="problem size (default: that of `course trace`)")
    form = subs["source"].add_mutually_exclusive_group()
    for name, text in (("cuda", "TileLang's CUDA"), ("ptx", "PTX"), ("sass", "SASS, by nvdisasm")):
        form.add_argument(f"--{name}", dest="form", action="store_const", const=name, help=text)
    add("--line", type=int, metavar="N", help="only the code of this line of yours")
    add = subs["trace"].add_argument
    add("what", metavar="STEP|FILE", type=_id_or_file, help=WHAT)
    _add_against(add)
    add("--dsl", choices=DSLS, help=IN)
    add("--size", metavar="MxNxK", help=f"problem size (default: {'x'.join(map(str, steps.TRACE_SIZE))})")
    add(
        "--seed", type=int, default=0, help="seed of the schedule; the same seed repeats the run (default: 0)"
    )
    add("--out", metavar="PNG", help="the picture (default: build/trace.png, unless --perfetto)")
    add("--perfetto", metavar="OUT.json", help="every event of every CTA, as ui.perfetto.dev reads it")
    add = subs["reproduce"].add_argument
    add(
        "file",
        metavar="FILE",
        help="the broken kernel: gemm or copy of a Python file, or a pair: control and broken; kernel() with "
        "--against",
    )
    _add_against(add)
    add("--control", metavar="FILE", help="the same kernel without the fault: one edit apart")
    add("--dsl", choices=DSLS, help="default: the one that FILE imports")
    add(
        "--size",
        metavar="MxNxK",
        help="the smallest size that shows the fault (default: that of `course trace`)",
    )
    add("--out", default="reproduce", metavar="DIR", help="a new folder (default: reproduce)")
    add = subs["profile"].add_argument
    add("what", metavar="STEP|FILE", type=_id_or_file, help=WHAT)
    add("--dsl", choices=DSLS, help=IN)
    add("--size", metavar="MxNxK", help="problem size (default: the first that the step is timed at)")
    add = subs["tune"].add_argument
    add("what", metavar="STEP|FILE", help="step11, or a Python file whose gemm takes a plan")
    add("--shapes", nargs="+", default=[], metavar="MxNxK", help="one or more")
    add("--show", action="store_true", help="time nothing; show the best plans timed so far, for all shapes")
    add("--dsl", default="tilelang", choices=DSLS)
    add("--plans", type=int, default=8, metavar="N", help="plans per shape (default: 8)")
    add("--out", default=str(BUILD / "tuned.json"), metavar="JSON")
    _add_tensormap(subs["tensormap"])
    _add_grade(subs["grade"].add_argument)
    add = subs["sync"].add_argument
    add("--solved", metavar="DIR", help="write solved copies to DIR instead, for an instructor")
    add("--force", action="store_true", help="also overwrite cells with work in them; a copy is kept as .bak")
    add = subs["bundle"].add_argument
    add("out", metavar="OUT.pyz")
    add(
        "--step",
        action="append",
        metavar="N",
        help="a step, 1 to 11 or b01 to b10, a task or a case, tasks for all of them, blackwell for b01 to "
        "b10; repeat for several (default: steps 1 to 11)",
    )
    add("--dsl", action="append", choices=DSLS, help="repeat for several (default: all)")
    add("--wrong", action="store_true", help="the wrong kernels of solutions/wrong instead of the solutions")
    add("--key", metavar="FILE", help="the key that signs its results (default: build/bundle.key)")
    add = subs["import"].add_argument
    add("results", metavar="results.json")
    add(
        "--as",
        dest="name",
        default="ladder",
        metavar="NAME",
        help="solutions/measured/NAME.json (default: ladder)",
    )
    add("--key", metavar="FILE", help="the key that the bundle was made with (default: build/bundle.key)")
    add("--unsigned", action="store_true", help="also accept results that no bundle of yours signed")
    add("--add", action="store_true", help="replace kernels of the same name, and keep the others")
    return course


def require_command(course: argparse.ArgumentParser, given: list[str]) -> None:
    """Exits with 2 where the first argument is nearly a command's name, and says which."""
    there = [name for rows in COMMANDS.values() for name in rows]
    if given and given[0] not in there and (close := get_close_matches(given[0], there, 1)):
        course.error(f"there is no command {given[0]!r}; did you mean course {close[0]}?")


def require_exercise(step: str, file: str | None) -> None:
    """What `course check` was asked for exists: said before a compiler is imported, which takes seconds.

    Raises ValueError for no such id and OSError for a file that cannot be opened.
    """
    if step.endswith(".py") and not file:
        raise ValueError(f"which exercise is {step}? Name it first: course check step05 --file {step}")
    steps.row(step)
    if file:
        Path(file).open().close()


def is_id(what: str) -> bool:
    """Is it an id of the course, and no file? Raises ValueError if it is neither."""
    if any(what in group for group in steps.groups().values()):
        return True
    if not what.endswith(".py") and not Path(what).exists():
        meant = steps.meant(what) or steps.listed()
        raise ValueError(f"there is no step and no file {what!r}; {meant}")
    return False


def _id_or_file(text: str) -> str:
    """A file's name as it is; what a person calls an exercise, "5" or "step5", as its id."""
    return text if text.endswith(".py") or Path(text).exists() else steps.named(text)


def _listed(title: str, rows: dict[str, tuple[str, str]]) -> str:
    """A group of commands as ``--help`` lists it."""
    width = shutil.get_terminal_size().columns - 2  # as argparse leaves them
    lines = [
        textwrap.fill(text, width, initial_indent=f"  {name:{NAMED}}", subsequent_indent=" " * (NAMED + 2))
        for name, (_, text) in rows.items()
    ]
    return "\n".join([f"{title}:", *lines])


def _add_against(add: Callable[..., argparse.Action]) -> None:
    add(
        "--against",
        dest="reference",
        metavar="REFERENCE.py",
        help="FILE defines kernel(), any kernel; REFERENCE.py defines its inputs() and outputs(...)",
    )


def _add_grade(add: Callable[..., argparse.Action]) -> None:
    """What ``course grade`` takes."""
    add(
        "folder",
        type=Path,
        metavar="FOLDER",
        help="a folder or file per learner, or the zip of an LMS export",
    )
    add("--out", type=Path, default="grades", metavar="DIR", help="where the grades go (default: grades)")
    add(
        "--step",
        action="append",
        metavar="STEP",
        help="what is judged and shown: step01,step05-cute, or a file with one per line; repeat for more "
        "(default: everything handed in)",
    )
    add(
        "--backend",
        default="emulator",
        choices=("emulator", "gpu"),
        help="gpu: also results and speed on this machine's Hopper GPU",
    )
    add(
        "--jobs",
        dest="processes",
        type=int,
        default=max(1, os.cpu_count() or 1),
        metavar="N",
        help="processes at once (default: one per core)",
    )
    add("--shard", default="1/1", metavar="I/N", help="judge the I-th of N parts; the ledger is shared")
    add(
        "--seed",
        metavar="TEXT",
        help="seed of sizes, inputs and schedules, given after the deadline (default: a new one, kept in "
        "DIR)",
    )
    add(
        "--level",
        choices=steps.LEVELS,
        help="level of every step's exercise (default: the one that each submission names)",
    )
    add(
        "--key",
        type=Path,
        metavar="FILE",
        help="the key that signs the ledger (default: DIR/ledger/key, made once)",
    )
    add("--ray", action="store_true", help="run on a Ray cluster (RAY_ADDRESS, or a local one)")
    add("--unsafe", action="store_true", help="without a sandbox: only for submissions that you trust")
    add("--gradebook", metavar="URL", help="also write nbgrader's gradebook, as sqlite:///gradebook.db")
    add("--assignment", default="ladder", metavar="NAME", help="in nbgrader's gradebook (default: ladder)")


def _add_tensormap(sub: argparse.ArgumentParser) -> None:
    """What ``course tensormap`` takes: an action, and one map in options of the driver's names."""
    actions = sub.add_subparsers(required=True, metavar="ACTION")
    verify = actions.add_parser("verify", help="compare the rules with every row of a file of driver answers")
    verify.set_defaults(run="tensormap.verify_file")
    verify.add_argument("file", metavar="FILE.jsonl[.gz]")
    listed = actions.add_parser("rows", help="list the recorded calls that break one rule alone")
    listed.set_defaults(run="tensormap.list_rows")
    listed.add_argument("rule", metavar="RULE", help="its id, for example box-range; explain names it")
    explain = actions.add_parser("explain", help="explain one map: legal, or every rule that it breaks")
    explain.set_defaults(run="tensormap.explain_map")
    add = explain.add_argument
    add("file", nargs="?", metavar="FILE.jsonl[.gz]", help="take the map from this file, with --row")
    add("--row", type=int, help="line of FILE, from 1 (default: 1)")
    add("--type", help="element type (default: float16)")
    for name, text in (
        ("dims", "globalDim, elements"),
        ("strides", "globalStrides, bytes, without the innermost (default: dense)"),
        ("box", "boxDim, elements"),
        ("element-strides", "elementStrides (default: 1 each)"),
    ):
        add(f"--{name}", metavar="N,N,...", help=f"{text}; innermost first")
    for name, default in (("interleave", "none"), ("swizzle", "none"), ("l2", "none"), ("oob", "zero")):
        add(f"--{name}", help=f"a name or the driver's number (default: {default})")
    add("--address", metavar="N", help="globalAddress, bytes (default: 0)")
    add("--tile", metavar="N,N,...", help="a tile, innermost first: how many boxes it takes")
    add("--chip", default=HOME.family, help=f"the chip whose rules apply (default: {HOME.family})")
    # a list that begins with a negative number is no option
    explain._negative_number_matcher = re.compile(r"-\d")  # type: ignore[attr-defined]
