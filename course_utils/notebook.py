"""What a notebook's cells call. Each shows its answer in the cell, keeps what is worth keeping, and raises
nothing.

In JupyterLab the answers are HTML, elsewhere text. What takes time says at once what it is at, and its answer
takes that place.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import html
import inspect
import json
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from IPython import get_ipython
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from course_utils.artifact import TensorMap
from course_utils.chips import HOME
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, NotYet, compile_factory
from course_utils.compile.faults import kernels
from course_utils.compile.load import BEGIN, END, load_factory_source, solution_path, without_markers
from course_utils.drills import bugs
from course_utils.drills.bugs import find_the_bug as find_the_bug
from course_utils.drills.guess import choose
from course_utils.drills.quiz import quiz as quiz
from course_utils.drills.show import drill as drill
from course_utils.figures.moving import Moving
from course_utils.figures.moving import moving as figure_that_moves
from course_utils.figures.tiles import order
from course_utils.grading import copy as copies
from course_utils.grading import exercises, levels, maps, steps
from course_utils.grading import gemm as gemms
from course_utils.grading import plan as models
from course_utils.grading.going import Told
from course_utils.grading.verdict import Verdict, as_html, interrupted
from course_utils.problems import PROBLEMS
from course_utils.ptx import paths, receipts
from course_utils.recordings import measured, progress
from course_utils.recordings import tried as recordings
from course_utils.run import backends, client
from course_utils.tma.rules import violations

# a DSL imports tqdm, which would say so in a learner's cell
warnings.filterwarnings("ignore", message="IProgress not found")

_shell = get_ipython()
if _shell is not None:  # a check before its cell has run is told so: no NameError
    for _name in sorted({problem.function for problem in PROBLEMS.values()} | {"mend"}):
        _shell.user_ns.setdefault(_name, NotYet(_name))

backends.warm_up()  # the emulator imports its libraries while the notebook imports a DSL

OUTCOMES = {
    **{name: f"{name}: {meaning}" for name, meaning in bugs.OUTCOMES.items()},
    "refused": "refused: the driver takes no such tensor map, and nothing is launched",
    "no kernel": "no kernel: it does not compile",
}
FAILED = "This experiment failed"
VALIDATING = "NBGRADER_VALIDATING"  # nbgrader sets it while a learner's Validate runs the notebook
VALIDATE_WIDTH = 80  # it cuts longer lines
_CELL = "padding:2px 10px;text-align:left;vertical-align:top"


@dataclass(frozen=True, repr=False)
class Words:
    """Something to read: HTML where it can be shown, else text."""

    text: str
    markup: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.markup


class Place:
    """One place in a cell's output: what is being done, until an answer takes its place."""

    def __init__(self, doing: str) -> None:
        self.doing = doing
        self._handle = display(_paragraph(f"{doing} ..."), display_id=True)
        shell = get_ipython()  # at a plain prompt nothing is replaced: each update would be printed below
        self._moves = self._handle is not None and type(shell.display_pub) is not DisplayPublisher

    def says(self, doing: str) -> None:
        """What is being done now."""
        self.doing = doing
        self.moves(_paragraph(f"{doing} ..."))

    def moves(self, so_far: object) -> None:
        """Show what there is so far, where it can be replaced."""
        if self._moves:
            self._handle.update(so_far)

    def shows(self, answer: object) -> None:
        """Show what came of it: the first answer in this place, others below."""
        if self._handle is None:  # no notebook around us, or the place is taken
            display(answer)
        else:
            self._handle.update(answer)
        self._handle, self._moves = None, False


@contextlib.contextmanager
def _at_work(doing: str, failed: str, not_compiled: str = "") -> Iterator[Place]:
    """A place that says what is being done; where it fails or is stopped, why, in words. Raises nothing.

    ``failed`` begins the sentence of a failure, ``not_compiled`` that of a kernel that does not compile.
    """
    place = Place(doing)
    try:
        yield place
    except KeyboardInterrupt:
        client.close_all()  # so that the next call starts clean
        place.shows(_paragraph(f"You stopped this ({place.doing}). Run the cell again to repeat it."))
    except CompileError as error:
        place.shows(_paragraph(f"{not_compiled or failed}: {error}"))
    except Exception as error:
        place.shows(_paragraph(f"{failed}: {type(error).__name__}: {error}"))


def check(step: str, gemm: object, dsl: str = "tilelang") -> float:
    """Grade ``gemm(M, N, K)`` as a step's kernel, or what else a task asks for, show the verdict, keep it in
    progress.json, and return the points.

    ``dsl`` is ``"tilelang"`` or ``"cute"``. Raises nothing.
    """
    return _graded(step, dsl, lambda told: levels.check_gemm(step, gemm, dsl, told=told))


def check_copy(case: str, copy: object, dsl: str = "tilelang") -> float:
    """Grade ``copy(*shape)``, a kernel that copies X to Y: its path and its bytes. Shown, kept and returned
    as by ``check``.
    """
    return _graded(case, dsl, lambda told: copies.check_copy(case, copy, dsl, told=told))


def check_maps(case: str, mend: Callable) -> float:
    """Grade ``mend(maps)``, which returns the given tensor maps made legal.

    Shown, kept and returned as by ``check``.
    """
    return _graded(case, "maps", lambda told: maps.check_maps(case, mend))


def check_plan(case: str, seconds: Callable) -> float:
    """Grade ``seconds(M, N, K, plan)``, a model of what a launch of step 11 takes, by recorded times.

    Shown, kept and returned as by ``check``.
    """
    return _graded(case, "plan", lambda told: models.check_plan(case, seconds))


def _graded(name: str, dsl: str, check: Callable[[Told], Verdict]) -> float:
    verdict = _shown(name, dsl, check)
    if verdict.max_points:  # else it was no step or no DSL, or the learner stopped it
        if progress.is_for_a_page() and verdict.receipt:
            _receipts[verdict.step, verdict.dsl] = dict(verdict.receipt)
        try:
            progress.keep(verdict, backends.find_gpu()[0] if verdict.timing else None)
        except Exception as error:  # the verdict stands, kept or not
            _say(
                f"This verdict could not be kept in {progress.FILE} ({error}): the ladder will not know of "
                "it."
            )
    points = _validated(verdict) if os.environ.get(VALIDATING) else verdict.points
    return round(float(points), 1)  # as the verdict prints them


def _validated(verdict: Verdict) -> float:
    """What nbgrader's Validate is told, which calls whatever is below all points a failure: all of them where
    nothing is left but a speed that this machine cannot measure. Else stderr says what Validate then shows.
    """
    left = [part for part in verdict.checks if not part.passed]
    if verdict.max_points and all(part.name == "speed" and part.passed is None for part in left):
        return verdict.max_points / steps.LEVELS[verdict.level]
    text = verdict.diagnosis or "not all parts could be tried here"
    lines = [part for line in text.splitlines() for part in textwrap.wrap(line, VALIDATE_WIDTH) or [""]]
    print("\n".join(lines), file=sys.stderr)
    return verdict.points


def try_out(step: str, gemm: object, dsl: str = "tilelang", backend: str = "auto") -> None:
    """The same check without grading: nothing is kept and there is no score. Raises nothing.

    ``gemm`` is a step's kernel, or a copy where ``step`` is a case of copies. ``backend="emulator"`` asks the
    emulator where there is a GPU too: it names races that a GPU may win.
    """
    grade = copies.check_copy if step in steps.COPY_CASES else levels.check_gemm
    _shown(step, dsl, lambda told: grade(step, gemm, dsl, backend, told=told))


def _shown(name: str, dsl: str, check: Callable[[Told], Verdict]) -> Verdict:
    """Check, and show the verdict as it grows. One that is stopped keeps what was known."""
    place, known = Place(f"checking {name} ({dsl})"), None

    def told(so_far: Verdict) -> None:
        nonlocal known
        known = so_far
        place.moves(so_far)

    try:
        verdict = check(told)
    except KeyboardInterrupt:
        client.close_all()  # so that the next check starts clean
        verdict = interrupted(str(name), str(dsl), known)
    place.shows(_with_figure(verdict) if verdict.figure else verdict)
    return verdict


def level(step: str, dsl: str = "tilelang", name: str = "write", seed: int = 0) -> None:
    """Give the exercise of a step ("05") at a level, "order", "write" or "blank": this cell becomes it, or
    one below where this cell holds more. No other cell changes; a check takes the ``gemm`` that ran last.

    ``seed`` shuffles the lines of "order". Raises nothing.
    """
    with _at_work("cutting the exercise", "The exercise cannot be given") as place:
        step = f"step{step}" if f"step{step}" in steps.STEPS else step
        text = exercises.given(steps.find(step).id, dsl, name, seed)
        shell = get_ipython()
        alone = _is_alone(shell)
        if shell is not None:
            shell.set_next_input(text, replace=alone)
        where = "This cell" if alone else "The cell below"
        told = f"{where} is now {step} ({dsl}) at level {name}. Write there and run it, then the check."
        told += " Your other cells stay as they are."
        fold = f"<details><summary>The same as text</summary><pre>{html.escape(text)}</pre></details>"
        place.shows(Words(f"{told}\n\n{text}" if shell is None else told, f"<p>{told}</p>{fold}"))


def _is_alone(shell: InteractiveShell | None) -> bool:
    """Whether the cell that runs holds one call of ``level`` and imports of this module alone: nothing is
    lost when it is replaced.
    """
    try:
        cell = ast.parse(shell.history_manager.input_hist_raw[-1]).body  # type: ignore[union-attr]
    except (AttributeError, IndexError, SyntaxError, ValueError):
        return False
    match [one for one in cell if not (isinstance(one, ast.ImportFrom) and one.module == __name__)]:
        case [ast.Expr(ast.Call(ast.Name("level")))]:
            return True
    return False


def strip(here: str) -> None:
    """Show where this notebook ("05") stands among the others, with your points in each. Raises nothing."""
    with _at_work("reading your points", "Your points cannot be shown") as place:
        from course_utils.figures import strip as strips

        markup = strips.markup(here, Path())
        if (
            "google.colab" in sys.modules
        ):  # a copy that was saved there does not find the pictures of its text
            markup += strips.pictures(here, Path())
        place.shows(Words(strips.text(here, Path()), markup))


def _with_figure(verdict: Verdict) -> Words | Verdict:
    """The verdict, and below it, folded, the run that it is about, to step through."""
    try:
        from course_utils.figures import shell
        from course_utils.figures.player import Player
    except ImportError:  # a check needs nothing to draw with
        return verdict
    fold = shell.folded(Player(verdict.figure).html(), "Step through this run")
    return Words(str(verdict), verdict._repr_html_() + fold)


def moving(name: str, **options: object) -> Moving | Words:
    """A figure that moves, or why there is none: see ``figures.moving.moving``. Raises nothing."""
    try:
        return figure_that_moves(name, **options)
    except (ValueError, TypeError) as error:
        return _paragraph(str(error))


def machine(findings: Callable[[], list[tuple[str, bool, str]]]) -> None:
    """Show what this machine can do: rows of (what, fine or not, in words), as ``course doctor`` finds them.
    A sandbox is for whoever grades a class, and left out.

    Raises nothing.
    """
    with _at_work("looking at this machine", "This machine cannot be looked at") as place:
        rows = [
            ["ok" if fine else "--", what, words] for what, fine, words in findings() if what != "sandbox"
        ]
        place.shows(_table(["", "", "what there is"], rows))


def points() -> None:
    """Show what each step and each part of a check is worth. Raises nothing."""
    try:
        _show_points()
    except Exception as error:
        _say(f"The points cannot be shown: {type(error).__name__}: {error}")


def _show_points() -> None:
    parts = [[part, f"{tenths} of 10"] for part, tenths in steps.PARTS.items()]
    display(_table(["part of a check", "share"], parts))
    rows, open_points = [], 0.0
    for step in steps.STEPS.values():
        asked = "comes with right results"
        if step.speed_floor:
            asked = f"{step.speed_floor:.2f} of cuBLAS at 4096"
        if step.speed_floor and step.id not in steps.PAST:
            open_points += steps.part_points(step, "speed")
        rows.append([step.id, step.title, str(step.points), asked])
    display(_table(["step", "", "points", "speed"], rows))
    whole = sum(step.points for step in steps.STEPS.values() if step.id not in steps.PAST)
    _say(
        f"In all {whole:g} points in each DSL, {whole - open_points:g} of them without a GPU. Step 11 has "
        "points of its own."
    )
    share = steps.LEVELS["order"]
    _say(f"At level order a step is worth {share:g} of its points, at write and blank all of them.")


def ladder(step: str | None = None) -> None:
    """Draw the ladder: your bars, where you have timed some, over the recorded ones; then your points. Raises
    nothing.

    ``step`` is shown in full colour, later ones faint.
    """
    with _at_work("drawing the ladder", "The ladder cannot be drawn") as place:
        from course_utils.figures import ladder as plots

        kept = progress.read()
        mine = kept | {"entries": [e for e in kept["entries"] if e["step"] in steps.STEPS]}
        timed = any(e["timings"] for e in mine["entries"])
        place.shows(plots.ladder(measured.ladder(), mine if timed else None, step))
        reached = [f"{name} {progress.points(kept, dsl):g} of 100" for dsl, name in steps.DSL_NAMES.items()]
        past = sum(e["points"] for e in kept["entries"] if e["step"] in steps.PAST)
        tasks = sum(e["points"] for e in kept["entries"] if e["step"] in steps.TASKS)
        others = (*steps.STEPS, *steps.PAST, *steps.TASKS)
        cases = sum(e["points"] for e in kept["entries"] if e["step"] not in others)
        beside = (("step 11", past), ("TMA cases", cases), ("tasks", tasks))
        reached += [f"{what} {points:g}" for what, points in beside if points]
        said = [] if progress.is_for_a_page() else [f"Your points so far: {', '.join(reached)}."]
        if not timed:
            said.append("TFLOP/s are recorded, not yours: nothing was timed on this machine yet.")
        _say(" ".join(said))


def receipt(step: str, gemm: object = None, dsl: str = "tilelang") -> None:
    """Show what the compiler made of ``gemm``, or else of your best checks of a step, both DSLs side by side.

    Raises nothing.
    """
    doing = f"reading the receipt of {step}" if gemm is None else f"compiling {step} ({dsl})"
    with _at_work(doing, "The receipt cannot be shown") as place:
        found = (
            {steps.DSL_NAMES[dsl]: _compiled_receipt(step, gemm, dsl)}
            if gemm is not None
            else _kept_receipts(step)
        )
        if not found:
            text = (
                f"There is no receipt of {step} yet: check a kernel that compiles, then run this cell again."
            )
            place.shows(_paragraph(text))
            return
        rows = list(dict.fromkeys(name for one in found.values() for name in one))
        lines = [[name, *(one.get(name, "none") for one in found.values())] for name in rows]
        place.shows(_table(["", *found], lines))


def _compiled_receipt(step: str, gemm: object, dsl: str) -> dict[str, str]:
    if step in steps.COPY_CASES:
        artifact = compile_factory(gemm, dsl, steps.COPY_CASES[step].shapes[0], "copy")
    else:
        row = steps.find(step)
        artifact = compile_factory(gemm, dsl, row.emulated[0][0], row.problem)
    return dict(receipts.table(receipts.read_ptx(artifact.ptx), artifact))


_receipts: dict[tuple[str, str], dict[str, str]] = {}  # of a page's own checks, which are not kept


def _kept_receipts(step: str) -> dict[str, dict[str, str]]:
    steps.find(step)
    kept = progress.read()
    found = {}
    for dsl, name in steps.DSL_NAMES.items():
        best = progress.find(kept, step, dsl)
        if receipt := dict(best["receipt"]) if best else _receipts.get((step, dsl)):
            found[name] = receipt
    return found


def recorded(*names: str) -> None:
    """Show recorded TFLOP/s and shares of cuBLAS for steps ("step05") or variants ("step09, no multicast").

    Raises nothing.
    """
    try:
        found, sources = [], []
        for file, key in (("ladder", "step"), ("variants", "name")):
            data = measured.load(file)
            used = [(e[key], e) for e in data["entries"] if e[key] in names]
            found += used
            if used:
                where = data["provenance"]
                sources.append(f"{file}.json: {where['gpu']}, {where['date']}, driver {where['driver']}")
        runs = list(dict.fromkeys(_run(t) for _, e in found for t in e["timings"]))
        runs.sort(key=lambda run: run.endswith("sustained"))
        rows = []
        for name, e in sorted(found, key=lambda pair: names.index(pair[0])):
            figures = {
                _run(t): f"{t['tflops']:{'.0f' if t['tflops'] > 10 else '.2g'}} ({t['ratio']:.3f})"
                for t in e["timings"]
            }
            rows.append([name, steps.DSL_NAMES[e["dsl"]], *(figures.get(run, "not timed") for run in runs)])
        display(_table(["", "DSL", *runs], rows))
        missing = [name for name in names if not any(name == row[0] for row in rows)]
        _say(
            "TFLOP/s, and share of cuBLAS in the same run. Recorded: "
            + "; ".join(sources)
            + "."
            + (f" Nothing is recorded as {', '.join(missing)}." if missing else "")
        )
    except Exception as error:
        _say(f"The recorded figures cannot be shown: {type(error).__name__}: {error}")


def cool_and_hot(*names: str) -> None:
    """Show the SM clock and the power that were read while steps ("step03") were timed, beside cuBLAS, on a
    cool chip and on a hot one. Raises nothing.
    """
    try:
        data = measured.load()
        found = [(e, t) for name in names for e in data["entries"] if e["step"] == name for t in e["timings"]]
        rows = [
            [
                *(e["step"], steps.DSL_NAMES[e["dsl"]], _run(t)),
                *(f"{t['tflops']:.0f}", f"{t['cublas_tflops']:.0f}"),
                *(f"{t['gpu']['clock_mhz']:.0f}", f"{t['gpu']['power_w']:.0f}"),
            ]
            for e, t in found
            if len(set(t["size"])) == 1
        ]
        display(_table(["", "DSL", "run", "TFLOP/s", "cuBLAS", "MHz", "W"], rows))
        where = data["provenance"]
        _say(f"Recorded: ladder.json: {where['gpu']}, {where['date']}, driver {where['driver']}.")
    except Exception as error:
        _say(f"The recorded clocks cannot be shown: {type(error).__name__}: {error}")


def time_parts(step: str | None = None) -> None:
    """Draw where the time of each step goes, by its recorded counters: tensor cores at work, the clock, and
    tensor cores idle; ``step`` in full colour. Raises nothing.
    """
    with _at_work("drawing the time", "The time cannot be drawn") as place:
        from course_utils.figures import counters as drawn

        place.shows(drawn.time_parts(measured.load("counters"), step))


COUNTED = {  # a counter's name, to its column and unit
    "seconds": ("us", 1e-6),
    "tensor_active": ("tensor cores active, %", 1e-2),
    "clock_hz": ("GHz", 1e9),
    "instructions": ("instructions, million", 1e6),
    "issue_active": ("issue slots used, %", 1e-2),
    "l2_bytes": ("L2, MB", 1e6),
    "dram_read_bytes": ("DRAM read, MB", 1e6),
    "tma_load_bytes": ("TMA loads, MB", 1e6),
}
LOOPED = {"power_w": ("W in a loop", 1.0), "clock_mhz": ("GHz in a loop", 1e3)}  # the same, without ncu


def counters(*names: str, size: int | tuple[int, int, int] = 4096) -> None:
    """Show recorded counters of one launch for steps ("step05"), variants ("step09, no multicast") or
    "cublas". ``size`` is M, N, K, or one number for all three. Raises nothing.
    """
    try:
        sizes = [size] * 3 if isinstance(size, int) else list(size)
        data = measured.load("counters")
        rows, elsewhere = [], False
        for name in names:
            # a variant has one name in both DSLs; a step's are "step05 tilelang" and "step05 cute"
            found = [e for e in data["entries"] if name in (e["name"], e["step"])]
            for e in [e for e in found if e["name"] == name] or [e for e in found if "," not in e["name"]]:
                launch = next((one for one in e["launches"] if list(one["size"]) == sizes), None)
                counted = launch["counters"] if launch else {}
                cells = [
                    _figure(counted[key] / unit) if key in counted else "not read"
                    for key, (_, unit) in COUNTED.items()
                ]
                power = (launch or {}).get("power") or {}
                elsewhere = elsewhere or power.get("machine", 1) != 1
                looped = [
                    _figure(power[key] / unit) if power.get(key) else "not read"
                    for key, (_, unit) in LOOPED.items()
                ]
                rows.append([name, steps.DSL_NAMES.get(e["dsl"], ""), *cells, *looped])
        head = ["", "DSL", *(words for words, _ in (COUNTED | LOOPED).values())]
        display(_table(head, rows))
        missing = [name for name in names if not any(name == row[0] for row in rows)]
        where = data["provenance"]
        _say(
            f"One launch at {_at(sizes)}, caches cold. Recorded: counters.json: {where['gpu']}, "
            f"{where['date']}, driver {where['driver']}, ncu {where['ncu']}."
            + (f" {where['note']}" if elsewhere else "")
            + (f" Nothing is recorded as {', '.join(missing)}." if missing else "")
        )
    except Exception as error:
        _say(f"The recorded counters cannot be shown: {type(error).__name__}: {error}")


def bound() -> None:
    """Draw how busy each step keeps the tensor cores, and at which clock, with lines of equal speed. Raises
    nothing.
    """
    with _at_work("drawing activity and clock", "Activity and clock cannot be drawn") as place:
        from course_utils.figures import bound as drawn

        place.shows(drawn.bound(measured.load("counters")))


def tried() -> None:
    """Show what was tried for step 11, one thing at a time: the recorded gain or loss of its share of cuBLAS,
    and why. Raises nothing.
    """
    with _at_work("reading the recorded plans", "The recorded plans cannot be shown") as place:
        from course_utils.figures import candidates

        recorded = recordings.load()
        head, rows = candidates.table(recorded, recordings.changes())
        if not rows:
            place.shows(_paragraph("No plans are recorded yet."))
            return
        place.shows(Words(_table(head, rows).text, candidates.markup(head, rows)))
        gpu, date, driver = (recorded.provenance.get(name) for name in ("gpu", "date", "driver"))
        _say(
            f"Change of the share of cuBLAS, hot where it says so; within {candidates.NOISE:.1%} is none. "
            f"Recorded: step11.json: {gpu}, {date}, driver {driver}."
        )


def predicted(seconds: Callable) -> None:
    """Draw the times that ``seconds(M, N, K, plan)`` says over the recorded ones of all plans. ``plan`` has
    ``block_M``, ``block_N``, ``cluster``, ``num_ctas`` and ``panel``. Raises nothing.
    """
    with _at_work("asking your model", "Your model has no answer for a recorded plan") as place:
        from course_utils.figures import plans as drawn

        place.shows(drawn.predicted(recordings.load(), seconds))


def shapes() -> None:
    """Draw each recorded shape's share of cuBLAS: step 11's, of step 10's tile, and of peers. Raises
    nothing.
    """
    with _at_work("drawing every shape", "The shapes cannot be drawn") as place:
        from course_utils.figures import plans as drawn

        place.shows(drawn.shapes(recordings.load(), recordings.peers()))


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _run(timing: dict) -> str:
    """ "4096 burst" or "8192 x 2304 x 5120 burst"."""
    return f"{_at(timing['size'])} {timing['mode']}"


def _at(size: list[int]) -> str:
    """ "4096" or "8192 x 2304 x 5120"."""
    return str(size[0]) if len(set(size)) == 1 else " x ".join(map(str, size))


def what_if(name: str, guess: str | None = None, dsl: str | None = None) -> None:
    """Run a kernel with one planted fault in the emulator, and hold the outcome against your guess. Raises
    nothing.

    ``name`` is a wrong kernel of solutions/wrong; ``guess`` is one of ``OUTCOMES``. Where there is none yet
    and somebody sits at the notebook, each has a button. Nothing is graded.
    """
    with _at_work(f"looking for {name}", FAILED) as place:
        faults = {d: kernels(d) for d in DSLS}
        dsl = next((d for d in ([dsl] if dsl else DSLS) if name in faults.get(d, ())), None)
        if dsl is None:
            there = sorted(set().union(*faults.values()))
            text = f"There is no planted fault {name!r}. There are: {', '.join(there)}."
            place.shows(_paragraph(text))
        elif guess in list(OUTCOMES):
            first, *more = _what_if(name, guess, dsl, place.says)
            place.shows(first)
            for part in more:
                display(part)
        elif buttons := choose(OUTCOMES, lambda chosen, says: _clicked(name, chosen, dsl, says)):
            place.shows(_paragraph(f"{name} ({dsl}). Guess first:"))
            display(buttons)
        else:
            choices = "\n".join(f"  {text}" for text in OUTCOMES.values())
            place.shows(_paragraph(f"Guess first: set `guess` to one of\n{choices}"))


def _clicked(name: str, guess: str, dsl: str, says: Callable[[str], None]) -> list[object]:
    """What a click on a guess brings. Raises nothing."""
    try:
        return _what_if(name, guess, dsl, says)
    except KeyboardInterrupt:
        client.close_all()
        return [_paragraph("You stopped this. Run the cell again to repeat it.")]
    except Exception as error:
        return [_paragraph(f"{FAILED}: {type(error).__name__}: {error}")]


def _what_if(name: str, guess: str, dsl: str, says: Callable[[str], None]) -> list[object]:
    """What there is to show of a planted fault and of a guess at how it ends; ``says`` takes what is being
    done.
    """
    says(f"loading {name} ({dsl})")
    wrong = kernels(dsl)[name]
    outcome = "no kernel" if wrong.fails == "compiles" else wrong.outcome

    def told(so_far: Verdict) -> None:
        if so_far.doing:
            says(f"{name} ({dsl}): {so_far.doing}")

    verdict = gemms.check_gemm(wrong.step, wrong.factory(), dsl, "emulator", told=told)
    judged = "Your guess is right. " if guess == outcome else f'You guessed "{guess}". '
    shown: list[object] = [_paragraph(f"{judged}{OUTCOMES[outcome][0].upper()}{OUTCOMES[outcome][1:]}.")]
    left = [part for part in verdict.checks if not part.passed and part.name != "speed"]
    solution, made = solution_path(wrong.step, dsl).read_text(), wrong.source()
    # what a step still to be solved leaves to the learner is quoted from neither
    answers = _answers(solution) | _answers(made) if _is_open(wrong.step) else set()
    for part in left:
        shown.append(_paragraph(_without(answers, f"{part.name}: {part.card or part.detail}")))
    if not left:
        shown.append(_paragraph("The emulator finds nothing wrong, and every required instruction is there."))
    if verdict.figure:
        from course_utils.figures.player import Player

        shown.append(Player(verdict.figure))
    on_gpu = measured.load("wrong")
    entry = next((e for e in on_gpu["entries"] if e["name"] == f"{name} {dsl}"), None)
    if entry:
        results = next(part for part in entry["checks"] if part["name"] == "results")
        where = on_gpu["provenance"]
        said = results["detail"].splitlines()[0].split(". ")[0]
        shown.append(_paragraph(f"Recorded on {where['gpu']}, {where['date']}: {said}"))
    changes = _changes(solution, made)
    if any(line[1:].strip() in answers for line in changes):
        asks = f"What was changed is a line that {wrong.step} asks for. It shows here once you have that."
        return [*shown, _paragraph(asks)]
    text = "\n".join(changes)
    title = f"What was changed in the solution of {wrong.step}"
    markup = f"<details><summary>{title}</summary><pre>{html.escape(text)}</pre></details>"
    return [*shown, Words(f"{title}:\n{text}", markup)]


def _is_open(step: str) -> bool:
    """Has neither DSL half of a step's points yet?"""
    kept = progress.read()
    found = [progress.find(kept, step, dsl) for dsl in DSLS]
    return max((entry["points"] for entry in found if entry), default=0) < steps.points_of(step) / 2


def _answers(source: str) -> set[str]:
    """The lines of a solution that its exercise leaves to the learner."""
    found, inside = set(), False
    for line in map(str.strip, source.splitlines()):
        if line.startswith((BEGIN, END)):
            inside = line.startswith(BEGIN)
        elif inside and line:
            found.add(line)
    return found


def _without(answers: set[str], text: str) -> str:
    """Text without its lines that quote an answer ("at kernel.py, line 7: ...")."""
    lines = []
    for line in text.splitlines():
        quoted = re.fullmatch(r"\s*at .+, line \d+: (.+)", line)
        if not (quoted and any(quoted[1].strip() in answer for answer in answers)):
            lines.append(line)
    return "\n".join(lines)


def _changes(solution: str, wrong: str) -> list[str]:
    """The lines that differ, with - and +."""
    before, after = (without_markers(source).splitlines() for source in (solution, wrong))
    diff = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]  # without the files' names
    return [f"{line[0]} {line[1:]}" for line in diff if not line.startswith("@@")]


def timeline(
    step: str, gemm: object, dsl: str = "tilelang", size: tuple[int, int, int] | None = None, seed: int = 0
) -> None:
    """Emulate one launch of ``gemm`` and show it step by step: who works, who waits for whom, what each
    mbarrier and each stage holds. Raises nothing.
    """
    doing, failed = f"compiling {step} ({dsl})", "The timeline cannot be drawn"
    with _at_work(doing, failed, "There is nothing to draw yet, the kernel does not compile") as place:
        import torch

        from course_utils.figures import timeline as timelines
        from course_utils.figures.player import Player
        from course_utils.run.emulator.explain.replay import replay
        from course_utils.run.emulator.launch import emulated

        size = size or steps.trace_size(step)
        kind = steps.find(step).problem
        artifact = compile_factory(gemm, dsl, size, kind)
        at = " x ".join(map(str, size))
        place.says(f"emulating {step} ({dsl}) at {at}")
        emulation, tried = emulated(
            artifact, torch.Generator().manual_seed(seed), seed, kind=kind, record=True
        )
        place.says("drawing the timeline")
        played = replay(emulation, title=f"{step}, {steps.DSL_NAMES[dsl]}, {PROBLEMS[kind].takes} = {at}")
        picture = timelines.timeline(emulation, played["ctas"], played["title"])
        place.shows(Player(played, picture))
        for finding in emulation.findings:
            _say(str(finding))
        if emulation.finished and not tried.found.ok:
            _say(f"D is wrong: {tried.found.diagnosis}")


def panels(tiles_M: int, tiles_N: int, at_once: int = HOME.sms) -> None:
    """Show what the first ``at_once`` tiles of D read of A and B in one round of K, by the width of a panel.

    D has ``tiles_M`` x ``tiles_N`` tiles. Raises nothing.
    """
    with _at_work("counting tiles", "The tiles cannot be counted") as place:
        if tiles_M < 1 or tiles_N < 1 or at_once < 1:
            raise ValueError("rows, columns and tiles at once are numbers from 1 on")
        widths = sorted({1, 2, 4, 8, 16, 32, tiles_N} & set(range(1, tiles_N + 1)))
        rows = []
        for panel in widths:
            count = min(at_once, tiles_M * tiles_N)
            tiles = [order(number, tiles_M, tiles_N, panel) for number in range(count)]
            A, B = len({m for m, _ in tiles}), len({n for _, n in tiles})
            name = f"{panel}, so row after row" if panel == tiles_N else str(panel)
            rows.append([name, str(A), str(B), str(A + B)])
        head = ["columns in a panel", "rows of A", "columns of B", "different tiles"]
        place.shows(_table(head, rows))


def table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
    """Show what a cell has computed: rows, each as long as ``head``. Raises nothing."""
    with _at_work("computing", "The table cannot be shown") as place:
        made = [[f"{cell:,}" if type(cell) is int else str(cell) for cell in row] for row in rows]
        place.shows(_table([str(cell) for cell in head], made))


def look(copy: Callable, *shape: int, dsl: str = "tilelang", title: str = "X of") -> None:
    """Compile ``copy(*shape)`` and show by which path X comes and Y goes, their tensor maps, and whether the
    emulator finds every byte in its place. Raises nothing.

    ``title`` stands before the shape.
    """
    named = f"{title} {_by(shape)}"
    with _at_work(f"compiling a copy, {named}", f"{named}: the path cannot be told") as place:
        try:
            artifact = compile_factory(copy, dsl, shape, "copy")
        except CompileError as error:
            place.shows(_paragraph(f"{named}: no kernel. {str(error).splitlines()[0]}"))
            return
        maps = {p.tensor: p.tensor_map for p in artifact.parameters if p.tensor_map}
        rows = []
        for crossing in paths.copies(artifact, textwrap.dedent(inspect.getsource(copy))):
            found = maps.get(crossing.tensor)
            strides = ", ".join(f"{stride:,}" for stride in found.strides) if found else ""
            vain = "; tensor TMA was asked for" if crossing.finding else ""
            rows.append([crossing.tensor, f"{crossing}{vain}", str(found or "none"), strides])
        place.says(f"emulating a copy, {named}")
        answer = backends.Emulator(schedules=(0,)).ask(backends.Launch(shape, artifact, "copy"))
        place.shows(_table([named, "path: instructions", "tensor map", "its strides, bytes"], rows))
        _say("Bytes: " + ("right" if answer.ok else answer.diagnosis or answer.detail))


def ask_driver(questions: Iterable[tuple[TensorMap, int]]) -> None:
    """Ask this machine's driver about tensor maps, each with its address in bytes past an aligned one, and
    show what it and the rules say. Raises nothing.
    """
    with _at_work("asking the driver", "The driver cannot be asked") as place:
        device, reason = backends.find_gpu()
        if device is None:
            place.shows(_paragraph(f"No driver to ask: {reason}. The recorded verdicts have to do."))
            return
        rows = [
            [str(asked), _driver_says(asked, address), "illegal" if violations(asked, address) else "legal"]
            for asked, address in questions
        ]
        place.shows(_table(["tensor map", "the driver", "the rules"], rows))


def _driver_says(asked: TensorMap, address: int) -> str:
    import torch

    from course_utils.run.gpu.launch import DriverError, encode

    torch.zeros(1, device="cuda")  # the driver answers in a context only
    try:
        encode(asked, 2**46 + address)
    except (DriverError, ValueError):  # ValueError: cuda-bindings knows no such code
        return "illegal"
    return "legal"


def chart(case: str) -> None:
    """Show what an H200 was recorded to do with a kernel to be repaired ("t3a"): the symptom alone.

    Raises nothing.
    """
    with _at_work("reading the chart", "The chart cannot be shown") as place:
        data = measured.load("wrong")
        entry = next(e for e in data["entries"] if e["name"] == " ".join(steps.REPAIRS[case]))
        results = next(part for part in entry["checks"] if part["name"] == "results")
        rows = []
        for line in results["detail"].splitlines():
            sentence, at = line.split(". ")[0], "at M, N, K = "
            size, _, said = sentence.removeprefix(at).partition(": ")
            rows.append([size, said] if sentence.startswith(at) else ["all that were tried", sentence])
        where = data["provenance"]
        place.shows(_table(["M, N, K", f"{where['gpu']}, {where['date']}"], rows))


def at_sizes(gemm: object, *sizes: tuple[int, int, int]) -> None:
    """Emulate the first and the last CTA of a TileLang kernel at each size, and show how it ends.

    Raises nothing.
    """
    with _at_work("compiling", "The sizes cannot be tried") as place:
        head, rows = ["M, N, K", "in the emulator"], []
        for size in sizes:
            place.says(f"emulating {_by(size)}")
            rows.append([_by(size), _ended(gemm, size)])
            place.moves(_table(head, rows))
        place.shows(_table(head, rows))


def _ended(gemm: object, size: tuple[int, int, int]) -> str:
    try:
        artifact = compile_factory(gemm, "tilelang", size)
    except CompileError as error:
        return f"no kernel: {error}"
    answer = backends.Emulator(schedules=(0,)).ask(backends.Launch(size, artifact, ctas=(0, -1)))
    return "right" if answer.ok else "not right" if answer.finished else "never ends"


def taken_out(step: str, dsl: str, calls: dict[str, str]) -> None:
    """Count instructions in the PTX of a step's solution, before and after every line that begins with a call
    is taken out of its source. Raises nothing.

    ``calls`` maps a call ("T.sync_threads") to the instruction that it is counted by ("bar.sync").
    """
    with _at_work(f"compiling {step} ({dsl})", "The instructions cannot be counted") as place:
        lines = solution_path(step, dsl).read_text().splitlines()
        size = steps.trace_size(step)

        def ptx(without: str) -> str:
            kept = [line for line in lines if not without or not line.strip().startswith(without)]
            return compile_factory(load_factory_source("\n".join(kept), step), dsl, size).ptx

        given, rows = ptx(""), []
        for call, instruction in calls.items():
            place.says(f"compiling {step} ({dsl}) without {call}")
            counts = [str(text.count(instruction)) for text in (given, ptx(call))]
            rows.append([call, instruction, *counts])
        place.shows(_table([f"taken out of {step}", "counted in the PTX", "before", "after"], rows))


def recorded_fences() -> None:
    """Show in how many launches an H200 got wrong numbers, by where a proxy fence stood. Raises nothing."""
    with _at_work("reading the record", "The record cannot be shown") as place:
        data = json.loads((measured.FOLDER / "proxy_fence.json").read_text())
        counted = {
            (row["fence"], row["hazard"]): f"{row['launches_wrong']} of {row['launches']}"
            for row in data["rows"]
            if row["hand"] == "bar.sync"
        }
        fences, hazards = (list(dict.fromkeys(key[i] for key in counted)) for i in (0, 1))
        rows = [[fence, *(counted[fence, hazard] for hazard in hazards)] for fence in fences]
        place.shows(_table(["fence", *hazards], rows))
        _say(f"Launches with wrong numbers. Recorded: {data['device']['name']}, {data['recorded']}.")


def recorded_fp8_sums() -> None:
    """Show the error of fp8 sums on an H200, by one accumulator for all of K and by two. Raises nothing."""
    with _at_work("reading the record", "The record cannot be shown") as place:
        data = json.loads((measured.FOLDER / "fp8_sums.json").read_text())
        rows = [[f"{row['K']:,}", *(f"{row[n]:.3%}" for n in ("one", "two"))] for row in data["rows"]]
        place.shows(_table(["K", "one accumulator", "two"], rows))
        _say(f"The error as a part of D. Recorded: {data['device']['name']}, {data['recorded']}.")


def _by(size: Iterable[int]) -> str:
    """ "256 x 768 x 320"."""
    return " x ".join(map(str, size))


def _say(text: str) -> None:
    display(_paragraph(text))


def _paragraph(text: str) -> Words:
    shown = as_html(text).replace("\n", "<br>")
    return Words(text, f"<p>{shown}</p>")


def _table(head: list[str], rows: list[list[str]]) -> Words:
    """A table: HTML in JupyterLab, columns of text elsewhere."""

    def line(cells: list[str], tag: str) -> str:
        return (
            "<tr>"
            + "".join(
                f"<{tag} style='{_CELL}{';white-space:nowrap' * (i == 0)}'>{as_html(cell)}</{tag}>"
                for i, cell in enumerate(cells)
            )
            + "</tr>"
        )

    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    text = "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in [head, *rows])
    table = "<table>" + line(head, "th") + "".join(line(row, "td") for row in rows) + "</table>"
    return Words(text, table)
