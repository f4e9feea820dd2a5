"""The checks: each shows its verdict as it grows, keeps it in progress.json, and returns the points."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable

from course_utils.drills.show import Shown
from course_utils.grading import copy as copies
from course_utils.grading import ids, levels, maps, pair, predictor, steps
from course_utils.grading import plan as models
from course_utils.grading.check_progress import OnProgress
from course_utils.grading.verdict import Verdict, interrupted
from course_utils.notebook import places
from course_utils.notebook.output import Place, say
from course_utils.recordings import progress
from course_utils.run import backends, client

EXECUTION = "NBGRADER_EXECUTION"  # nbgrader sets it while it runs a notebook, for Validate and for a grade
VALIDATING = "NBGRADER_VALIDATING"  # ... and this one for a learner's Validate alone
VALIDATE_WIDTH = 80  # it cuts longer lines


class Points(float):
    """A check's points. The verdict says them, so a cell that ends in them shows no second number. nbgrader
    reads the number that such a cell shows, and gets it.
    """

    def _ipython_display_(self) -> None:
        if os.environ.get(EXECUTION):
            raise NotImplementedError  # IPython then shows the number


page_receipts: dict[tuple[str, str], dict[str, str]] = {}  # of a page's own checks, which are not kept


def check(step: str, gemm: object, dsl: str = "tilelang") -> float:
    """Grade ``gemm(M, N, K)`` as a step's kernel, or the function that a task asks for. Show the verdict,
    keep it in progress.json, and return the points.

    ``dsl`` is ``"tilelang"`` or ``"cute"``. Raises nothing.
    """
    step = steps.named(step)
    return _graded(step, dsl, lambda on: levels.check_gemm(step, gemm, dsl, on_progress=on))


def check_copy(case: str, copy: object, dsl: str = "tilelang", dtype: str = "float16") -> float:
    """Grade ``copy(*shape)``, a kernel that copies X to Y, by its path and its bytes, as ``check`` does.

    ``dtype`` is the element type of X and Y, of ``problems.COPIES``.
    """
    return _graded(case, dsl, lambda on: copies.check_copy(case, copy, dsl, on_progress=on, dtype=dtype))


def check_maps(case: str, mend: Callable) -> float:
    """Grade ``mend(maps)``, which returns the given tensor maps made legal.

    Shown, kept and returned as by ``check``.
    """
    return _graded(case, "maps", lambda _: maps.check_maps(case, mend))


def check_pair(case: str, broken: object, dsl: str = "tilelang") -> float:
    """Grade ``broken(rows, columns)``, a copy that shows a given fault, and ``control`` of the same cell,
    which is right: they differ by one edit, and both are short.

    Shown, kept and returned as by ``check``.
    """
    return _graded(case, dsl, lambda on: pair.check_pair(case, broken, dsl, on_progress=on))


def check_paths(case: str, predict: Callable) -> float:
    """Grade ``predict(shape, tile, dtype, consumer, asked)``, the path of a tile, against recorded cases and
    some that are compiled now.

    The verdict is shown, kept and returned as by ``check``.
    """
    return _graded(case, "paths", lambda _: predictor.check_paths(case, predict))


def check_plan(case: str, seconds: Callable) -> float:
    """Grade ``seconds(M, N, K, plan)``, a model of what a launch of step 11 takes, by recorded times.

    Shown, kept and returned as by ``check``.
    """
    return _graded(case, "plan", lambda _: models.check_plan(case, seconds))


def try_out(step: str, gemm: object, dsl: str = "tilelang", backend: str = "auto") -> None:
    """The same check without grading: nothing is kept and there is no score. Raises nothing.

    ``gemm`` is a step's kernel, or what else the exercise ``step`` defines. ``backend="emulator"`` selects
    the emulator even beside a GPU: it names races that a GPU may win.
    """
    step = steps.named(step)
    _shown(step, dsl, lambda on: ids.check(step, gemm, dsl, backend, on_progress=on))


def _graded(name: str, dsl: str, check: Callable[[OnProgress], Verdict]) -> float:
    verdict = _shown(name, dsl, check)
    if verdict.max_points:  # else it was no step or no DSL, or the learner stopped it
        if progress.is_for_a_page() and verdict.receipt:
            page_receipts[verdict.step, verdict.dsl] = dict(verdict.receipt)
        try:
            progress.keep(verdict, backends.find_gpu()[0] if verdict.timing else None)
        except Exception as error:  # the verdict stands, kept or not
            lost = f"This verdict could not be kept in {progress.FILE} ({error})"
            say(f"{lost}: the ladder will not know of it.")
    points = _validated(verdict) if os.environ.get(VALIDATING) else verdict.points
    return Points(round(points, 1))  # as the verdict prints them


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


def _shown(name: str, dsl: str, check: Callable[[OnProgress], Verdict]) -> Verdict:
    """Check, and show the verdict as it grows. One that is stopped keeps what was known."""
    place, known = Place(f"checking {name} ({dsl})"), None

    def on_progress(so_far: Verdict) -> None:
        nonlocal known
        known = so_far
        place.update(so_far)

    try:
        verdict = check(on_progress)
    except KeyboardInterrupt:
        client.close_all()  # so that the next check starts clean
        verdict = interrupted(str(name), str(dsl), known)
    fold = _figure(verdict.figure) if verdict.figure else ""
    place.finish(Shown(str(verdict), lambda: places.linked(verdict._repr_html_()) + fold))
    return verdict


def _figure(figure: dict) -> str:
    """The run that a verdict is about, folded, to step through; "" where there is nothing to draw with."""
    try:
        from course_utils.figures import shell
        from course_utils.figures.player import Player
    except ImportError:  # a check needs nothing of it
        return ""
    return shell.folded(Player(figure).html(), "Step through this run")
