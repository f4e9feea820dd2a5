"""Where a learner stands: points, ladder, the strip of notebooks, an exercise's level, this machine."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path

from IPython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from course_utils.drills.show import Shown
from course_utils.grading import exercises, steps
from course_utils.notebook.output import at_work, folded, say, tabled
from course_utils.recordings import measured, progress


def level(step: str, dsl: str = "tilelang", name: str = "write", seed: int = 0) -> None:
    """Give the exercise of a step ("05") at a level, "order", "write" or "blank": this cell becomes it, or
    one below where this cell holds more. No other cell changes; a check takes the ``gemm`` that ran last.

    ``seed`` shuffles the lines of "order". Raises nothing.
    """
    with at_work("cutting the exercise", "The exercise cannot be given") as place:
        step = steps.named(step)
        text = exercises.given(steps.find(step).id, dsl, name, seed)
        shell = get_ipython()
        alone = _is_alone(shell)
        if shell is not None:
            shell.set_next_input(text, replace=alone)
        where = "This cell" if alone else "The cell below"
        message = f"{where} is now {step} ({dsl}) at level {name}. Write there and run it, then the check."
        message += " Your other cells stay as they are."
        fold = folded("The same as text", text)
        place.finish(
            Shown(f"{message}\n\n{text}" if shell is None else message, lambda: f"<p>{message}</p>{fold}")
        )


def _is_alone(shell: InteractiveShell | None) -> bool:
    """Whether the cell that runs holds one call of ``level`` and imports of this package alone: nothing is
    lost when it is replaced.
    """
    try:
        cell = ast.parse(shell.history_manager.input_hist_raw[-1]).body  # type: ignore[union-attr]
    except (AttributeError, IndexError, SyntaxError, ValueError):
        return False
    match [one for one in cell if not (isinstance(one, ast.ImportFrom) and one.module == __package__)]:
        case [ast.Expr(ast.Call(ast.Name("level")))]:
            return True
    return False


def strip(here: str) -> None:
    """Show where this notebook ("05") stands among the others, with your points in each. Raises nothing."""
    with at_work("reading your points", "Your points cannot be shown") as place:
        from course_utils.figures import strip as strips

        markup = strips.markup(here, Path())
        if "google.colab" in sys.modules:  # a copy saved there does not find the pictures of its text
            markup += strips.pictures(here, Path())
        place.finish(Shown(strips.text(here, Path()), lambda: markup))


def machine(findings: Callable[[], list[tuple[str, bool, str]]]) -> None:
    """Show what this machine can do: rows of (what, fine or not, in words), as ``course doctor`` finds them.
    Sandboxes are left out: only teachers need one.

    Raises nothing.
    """
    with at_work("looking at this machine", "This machine cannot be looked at") as place:
        found = [row for row in findings() if row[0] != "sandbox"]
        rows = [["ok" if fine else "--", what, words] for what, fine, words in found]
        place.finish(tabled(["", "", "what there is"], rows))


def points() -> None:
    """Show what each step and each part of a check is worth. Raises nothing."""
    with at_work("adding the points", "The points cannot be shown") as place:
        parts = [[part, f"{tenths} of 10"] for part, tenths in steps.PARTS.items()]
        place.finish(tabled(["part of a check", "share"], parts))
        rows, open_points = [], 0.0
        for step in steps.STEPS.values():
            asked = "comes with right results"
            if step.speed_floor:
                asked = f"{step.speed_floor:.2f} of cuBLAS at 4096"
            if step.speed_floor and step.id not in steps.PAST:
                open_points += steps.part_points(step, "speed")
            rows.append([step.id, step.title, str(step.points), asked])
        display(tabled(["step", "", "points", "speed"], rows))
        whole = sum(step.points for step in steps.STEPS.values() if step.id not in steps.PAST)
        without = f"{whole - open_points:g} of them without a GPU"
        say(f"In all {whole:g} points in each DSL, {without}. Step 11 has points of its own.")
        share = steps.LEVELS["order"]
        say(f"At level order a step is worth {share:g} of its points, at write and blank all of them.")


def ladder(step: str | None = None) -> None:
    """Draw the ladder: your bars, where you have timed some, over the recorded ones; then your points. Raises
    nothing.

    ``step`` is shown in full colour, later ones faint.
    """
    with at_work("drawing the ladder", "The ladder cannot be drawn") as place:
        from course_utils.figures import ladder as plots

        kept = progress.read()
        mine = kept | {"entries": [e for e in kept["entries"] if e["step"] in steps.STEPS]}
        timed = any(e["timings"] for e in mine["entries"])
        place.finish(plots.ladder(measured.ladder(), mine if timed else None, step))
        reached = [f"{name} {progress.points(kept, dsl):g} of 100" for dsl, name in steps.DSL_NAMES.items()]
        groups = steps.groups()
        beside = {
            "step 11": steps.PAST,
            "TMA cases": groups["TMA cases"],
            "tasks": steps.TASKS,
            "Blackwell": steps.BLACKWELL_STEPS,
            "attention": steps.ATTENTION,
        }
        for what, ids in beside.items():
            points = sum(e["points"] for e in kept["entries"] if e["step"] in ids)
            reached += [f"{what} {points:g}"] if points else []
        said = [] if progress.is_for_a_page() else [f"Your points so far: {', '.join(reached)}."]
        if not timed:
            said.append("TFLOP/s are recorded, not yours: nothing was timed on this machine yet.")
        say(" ".join(said))
