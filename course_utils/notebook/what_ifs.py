"""``what_if``: a kernel with one planted fault, run in the emulator and held against a learner's guess."""

from __future__ import annotations

import difflib
from collections.abc import Callable

from course_utils.compile.factory import DSLS
from course_utils.compile.faults import kernels
from course_utils.compile.load import BEGIN, END, solution_path, without_markers
from course_utils.drills import bugs
from course_utils.drills.guess import choose
from course_utils.drills.show import Shown, show_widget
from course_utils.grading import gemm as gemms
from course_utils.grading import steps
from course_utils.grading.cards import Card
from course_utils.grading.verdict import Verdict
from course_utils.notebook.output import at_work, folded, paragraph
from course_utils.recordings import measured, progress
from course_utils.run import client

OUTCOMES = {
    **{name: f"{name}: {meaning}" for name, meaning in bugs.OUTCOMES.items()},
    "refused": "refused: the driver takes no such tensor map, and nothing is launched",
    "no kernel": "no kernel: it does not compile",
}
FAILED = "This experiment failed"


def what_if(name: str, guess: str | None = None, dsl: str | None = None) -> None:
    """Run a kernel with one planted fault in the emulator, and compare the outcome with your guess. Raises
    nothing.

    ``name`` is a wrong kernel of solutions/wrong; ``guess`` is one of ``OUTCOMES``. Without a
    guess, an interactive notebook shows a button for each outcome. Nothing is graded.
    """
    with at_work(f"looking for {name}", FAILED) as place:
        faults = {d: kernels(d, "") for d in DSLS}
        dsl = next((d for d in ([dsl] if dsl else DSLS) if name in faults.get(d, ())), None)
        if dsl is None:
            there = sorted(set().union(*faults.values()))
            text = f"There is no planted fault {name!r}. There are: {', '.join(there)}."
            place.finish(paragraph(text))
        elif guess in list(OUTCOMES):
            for part in _outcome(name, guess, dsl, place.status):
                place.finish(part)
        elif buttons := choose(OUTCOMES, lambda chosen, says: _clicked(name, chosen, dsl, says)):
            place.finish(paragraph(f"{name} ({dsl}). Guess first:"))
            show_widget(buttons, "\n".join(OUTCOMES.values()))
        else:
            choices = "\n".join(f"  {text}" for text in OUTCOMES.values())
            place.finish(paragraph(f"Guess first: set `guess` to one of\n{choices}"))


def _clicked(name: str, guess: str, dsl: str, says: Callable[[str], None]) -> list[object]:
    """What a click on a guess brings. Raises nothing."""
    try:
        return _outcome(name, guess, dsl, says)
    except KeyboardInterrupt:
        client.close_all()
        return [paragraph("You stopped this. Run the cell again to repeat it.")]
    except Exception as error:
        return [paragraph(f"{FAILED}: {type(error).__name__}: {error}")]


def _outcome(name: str, guess: str, dsl: str, says: Callable[[str], None]) -> list[object]:
    """What to show of a planted fault and a guess; ``says`` takes what is being done."""
    says(f"loading {name} ({dsl})")
    wrong = kernels(dsl, "")[name]
    outcome = "no kernel" if wrong.fails == "compiles" else wrong.outcome

    def on_progress(so_far: Verdict) -> None:
        if so_far.doing:
            says(f"{name} ({dsl}): {so_far.doing}")

    factory = wrong.factory(steps.function_of(wrong.step))
    verdict = gemms.check_gemm(wrong.step, factory, dsl, "emulator", on_progress=on_progress)
    on_gpu = measured.load("wrong")
    entry = next((e for e in on_gpu["entries"] if e["name"] == f"{name} {dsl}"), None)
    recorded = next((p["detail"] for p in entry["checks"] if p["name"] == "results"), "") if entry else ""
    judged = "Your guess is right. " if guess == outcome else f'You guessed "{guess}". '
    if (guess, outcome) == ("fault", "race") and "the kernel died" in recorded:
        judged = 'You guessed "fault", and that is how the recorded GPU ended this race. '
    shown: list[object] = [paragraph(f"{judged}{OUTCOMES[outcome][0].upper()}{OUTCOMES[outcome][1:]}.")]
    left = [part for part in verdict.checks if not part.passed and part.name != "speed"]
    solution, made = solution_path(wrong.step, dsl).read_text(), wrong.source()
    # what a step still to be solved leaves to the learner is quoted from neither
    answers = _answers(solution) | _answers(made) if _is_open(wrong.step) else set()
    for part in left:
        said = _without(answers, part.card) if part.card else part.detail
        shown.append(paragraph(f"{part.name}: {said}"))
    if not left:
        shown.append(paragraph("The emulator finds nothing wrong, and every required instruction is there."))
    if verdict.figure:
        from course_utils.figures.player import Player

        shown.append(Player(verdict.figure))
    if entry:
        where, said = on_gpu["provenance"], recorded.splitlines()[0].split(". ")[0]
        shown.append(paragraph(f"Recorded on {where['gpu']}, {where['date']}: {said}"))
    changes = changed_lines(solution, made)
    if any(line[1:].strip() in answers for line in changes):
        asks = f"The changed line is one that {wrong.step} asks you to write. "
        asks += "It appears here once you have written it."
        return [*shown, paragraph(asks)]
    text, title = "\n".join(changes), f"What was changed in the solution of {wrong.step}"
    return [*shown, Shown(f"{title}:\n{text}", lambda: folded(title, text))]


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


def _without(answers: set[str], card: Card) -> str:
    """A card, without its line where that quotes an answer."""
    return card.text if card.code and any(card.code in answer for answer in answers) else str(card)


def changed_lines(solution: str, wrong: str) -> list[str]:
    """The lines that differ, with - and +."""
    before, after = (without_markers(source).splitlines() for source in (solution, wrong))
    diff = list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]  # without the files' names
    return [f"{line[0]} {line[1:]}" for line in diff if not line.startswith("@@")]
