"""``find_the_bug``: a step's kernel with one planted fault. Which line is it, and what does a GPU do with it?

The order of a step's faults is drawn for each learner. A kernel is shown once the learner's own has half of
the step's points, for it is part of the solution. Nothing is kept, and nothing of it counts.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from IPython.display import display

from course_utils.compile.faults import Fault
from course_utils.drills import faults, learner
from course_utils.drills.question import LETTERS, AnswerError, Question
from course_utils.drills.show import Shown, button, fields, form, in_words, options_of, words
from course_utils.figures.strip import notebooks
from course_utils.grading import steps
from course_utils.recordings import progress, tracks

OUTCOMES = {
    "right": "it ends, and the numbers are right; something else may be missing",
    "wrong": "it ends, and the numbers are wrong",
    "race": "nothing orders two accesses; the numbers may come out right or wrong, or an error ends it",
    "hang": "it never ends",
    "fault": "the GPU ends it with an error",
}
WHICH = "Which line is at fault? Where lines are missing, the one after which they belong."
WHAT = "What does a GPU do with it?"


@dataclass(frozen=True)
class Bug:
    """A planted fault as a learner meets it: the ``number``-th of ``count`` of a notebook."""

    notebook: str
    number: int
    count: int
    fault: Fault

    @property
    def head(self) -> str:
        """Which fault of which kernel this is."""
        name = steps.DSL_NAMES[self.fault.dsl]
        return f"Bug {self.number} of {self.count}: {self.kernel} in {name}, with one fault."

    @property
    def kernel(self) -> str:
        """What the kernel is called: "step 8", "a1b"."""
        return _kernel(self.fault.step.removeprefix("step"))

    def line(self) -> Question:
        """The question for a line."""
        return Question(WHICH, "number", -1, "", lambda _: (), limit=999)

    def outcome(self) -> Question:
        """The question for what a GPU does."""
        options = tuple(f"{name}: {meaning}" for name, meaning in OUTCOMES.items())
        return Question(WHAT, "choice", list(OUTCOMES).index(self.fault.outcome), "", lambda _: (), options)

    def call(self, more: str) -> str:
        """How to call for this bug, such as ``find_the_bug("08", "cute", 2, line=12, outcome="race")``."""
        return f'find_the_bug("{self.notebook}", "{self.fault.dsl}", {self.number}{more})'


def drawn(notebook: str, dsl: str, number: int, whose: int) -> Bug:
    """A notebook's bug, from 1; after the last one the first comes again. ``whose``: the learner's number."""
    pool = _pool(notebook, dsl)
    Random(f"bug {notebook} {dsl} {whose}").shuffle(pool)
    place = (number - 1) % len(pool)
    return Bug(notebook, place + 1, len(pool), pool[place])


def _pool(notebook: str, dsl: str) -> list[Fault]:
    """The faults of a notebook's exercises, in the order of its exercises."""
    there = dict.fromkeys(fault.step for fault in faults.planted())
    return [one for step in there if steps.notebook_of(step) == notebook for one in faults.pool(step, dsl)]


@in_words("The bug cannot be shown")
def find_the_bug(
    notebook: str,
    dsl: str | None = None,
    number: int = 1,
    line: object = None,
    outcome: object = None,
    show: bool = False,
) -> None:
    """Show a kernel with one planted fault, and ask for its line and for what a GPU does with it. Raises
    nothing.

    ``notebook`` is "04" to "10", "b01" and so on, or "a1". ``dsl`` is "tilelang" or "cute"; without it, the
    one that you do. ``number`` takes another of the notebook's faults. ``line`` and ``outcome`` answer in
    plain Python. ``show`` shows it before your own kernel has half of the step's points.
    """
    name, one = _notebook(notebook), _number(number)
    if learner.on_a_page():
        text = f"The kernel of {_kernel(name)}, with one planted fault: run this cell to look for it."
        display(words(text))
        return
    bug = drawn(name, _dsl(name, dsl), one, learner.number())
    if not show and bug.fault.dsl not in solved(bug.fault.step) and line is None:
        display(words(_closed(bug)))
    elif line is None and outcome is None:
        if not form(lambda widgets: Form(bug, widgets).box, lambda: str(asked(bug))):
            display(asked(bug))
    else:
        given = bug.line().read(line), bug.outcome().read(_letter(outcome))
        display(answered(bug, *given))


def _notebook(name: object) -> str:
    """ "08" for "08", "8", 8 or "08_deeper_pipeline". Raises AnswerError."""
    text = str(name).partition("_")[0].strip().zfill(2) if type(name) in (int, str) else ""
    there = sorted({steps.notebook_of(fault.step) for fault in faults.planted()})
    if text not in there:
        some = f'These notebooks have some: {", ".join(there)}. Call find_the_bug("08").'
        raise AnswerError(f"There are no bugs for {name!r}. {some}")
    return text


def _kernel(name: str) -> str:
    """ "step 8" of "08", "b05" of "b05", and so of a case: "a1b" of "a1b"."""
    return f"step {int(name)}" if name.isdecimal() else name


def _number(number: object) -> int:
    if type(number) is not int or not 1 <= number <= 10**9:
        raise AnswerError(f"A number counts the bugs of a notebook from 1, not {number!r}.")
    return number


def _dsl(notebook: str, dsl: object) -> str:
    """The language asked for, else the only one that is solved or not folded away. Raises AnswerError."""
    if dsl is None:
        there = notebooks(Path()).get(notebook, f"{notebook}.ipynb")
        of = dict.fromkeys(f.step for f in faults.planted() if steps.notebook_of(f.step) == notebook)
        own = [one for one in steps.DSL_NAMES if any(one in solved(step) for step in of)]
        return own[0] if len(own) == 1 else tracks.kept(Path(there))[0]
    if not isinstance(dsl, str) or dsl not in steps.DSL_NAMES:
        raise AnswerError(f'There is no language {dsl!r} here: "tilelang" or "cute".')
    return dsl


def solved(step: str) -> list[str]:
    """The languages in which the learner has half of a step's points."""
    read = progress.read()
    found = {dsl: progress.find(read, step, dsl) for dsl in steps.DSL_NAMES}
    half = steps.points_of(step) / 2
    return [dsl for dsl, entry in found.items() if entry and entry["points"] >= half]


def _closed(bug: Bug) -> str:
    name = steps.DSL_NAMES[bug.fault.dsl]
    return (
        f"A part of the solution of {bug.kernel} in {name} stands here, with one fault. It shows "
        f"once your own kernel has half of the points. {bug.call(', show=True')} shows it now."
    )


def _letter(outcome: object) -> object:
    """An outcome's letter for its name."""
    name = outcome.strip().lower() if isinstance(outcome, str) else ""
    return LETTERS[list(OUTCOMES).index(name)] if name in OUTCOMES else outcome


# What is shown


def listing(bug: Bug) -> str:
    """The part of the broken kernel that matters, with the numbers of its lines."""
    lines, parts, last = faults.source(bug.fault).splitlines(), [], 0
    for number in faults.shown(bug.fault):
        if number != last + 1:
            parts.append("  ...")
        parts.append(f"{number:3} {lines[number - 1]}".rstrip())
        last = number
    return "\n".join([*parts, *(["  ..."] if last < len(lines) else [])])


def asked(bug: Bug) -> Shown:
    """The kernel and both questions, and how to answer them."""
    options = options_of(bug.outcome())
    how = "Answer: " + bug.call(', line=12, outcome="race"')
    code = listing(bug)
    text = "\n".join([bug.head, code, WHICH, WHAT, *(f"  {option}" for option in options), how])

    def markup() -> str:
        lines = "".join(f"<br>{html.escape(option)}" for option in options)
        return f"{_code(bug)}<p>{WHICH}<br>{WHAT}{lines}</p><p>{html.escape(how)}</p>"

    return Shown(text, markup)


def _code(bug: Bug) -> str:
    return f"<p><b>{bug.head}</b></p><pre style='line-height:1.3'>{html.escape(listing(bug))}</pre>"


def answered(bug: Bug, line: int, outcome: int) -> Shown:
    """Right or not, twice; what the check says of it, and the lines as they should be."""
    parts = faults.changes(bug.fault)
    right = sorted({number for part in parts for number in part.lines})
    told = [
        _line(line, right, faults.elsewhere(bug.fault)),
        _outcome(list(OUTCOMES)[outcome], bug.fault.outcome),
    ]
    says, repaired = _says(bug.fault), "\n".join(_repaired(part) for part in parts)
    following = Bug(bug.notebook, bug.number % bug.count + 1, bug.count, bug.fault)
    more = following.call("" if bug.fault.dsl in solved(bug.fault.step) else ", show=True")
    text = "\n".join([*told, says, "Repaired:", repaired, f"Another: {more}"])

    def markup() -> str:
        head = "<br>".join(map(html.escape, told))
        code = f"<pre style='line-height:1.3'>{html.escape(repaired)}</pre>"
        return f"<p><b>{head}</b></p><p>{html.escape(says)}</p><p>Repaired:</p>{code}"

    return Shown(text, markup)


def _line(given: int, right: list[int], elsewhere: list[int]) -> str:
    if given in right:
        return f"Right, it is line {given}."
    if given in elsewhere:
        return f"Right, what is missing may stand after line {given}."
    at = f"line {right[0]}" if len(right) == 1 else f"lines {', '.join(map(str, right))}"
    return f"Not line {given}: it is {at}."


def _outcome(given: str, right: str) -> str:
    if given == right:
        return f"Right, {right}: {OUTCOMES[right]}."
    return f"Not {given}: {right}, {OUTCOMES[right]}."


def _says(fault: Fault) -> str:
    """What the check says of a fault, as it was recorded of this very kernel."""
    try:
        data = faults.recorded()
        entry, date = data["faults"][str(fault)], data["provenance"]["date"]
        if entry["digest"] == faults.digest(fault):
            says = entry["says"].rstrip(".")
            end = "" if says.endswith(("?", "!")) else "."
            return f"The check says: “{says}{end}” Recorded in the emulator, {date}."
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return "What the check says of this kernel is not recorded. Take it for your own, and check it."


def _repaired(part: faults.Change) -> str:
    """A place of the kernel with what is wrong (-) and what is right (+)."""
    lines = [f"- {number:3} {text}" for number, text in zip(part.lines, part.broken, strict=False)]
    if not part.broken:
        lines.append(f"after line {part.lines[0]}:")
    return "\n".join([*lines, *(f"+     {text}" for text in part.right)])


class Form:
    """One bug at a time, with fields for both answers. ``box`` is the widget."""

    def __init__(self, bug: Bug, widgets: Any) -> None:
        self.widgets = widgets
        self.code, self.below = widgets.HTML(), widgets.HTML()
        self.field = widgets.VBox(layout=widgets.Layout(align_items="flex-start"))
        self.answer = button(widgets, "Answer", "primary", lambda _: self._read())
        self.another = button(widgets, "Another", "", lambda _: self._next())
        self.box = widgets.VBox(
            [self.code, self.field, widgets.HBox([self.answer, self.another]), self.below]
        )
        self._ask(bug)

    def _ask(self, bug: Bug) -> None:
        self.bug, self.open, self.answer.disabled = bug, True, False
        self.code.value, self.below.value = _code(bug), ""
        line, outcome = bug.line(), bug.outcome()
        self.line, first = fields(line, self.widgets, self._read, lambda: self.open)
        self.outcome, second = fields(outcome, self.widgets, self._read, lambda: self.open)
        self.line.description, self.line.placeholder = "Line", "a number"
        self.outcome.description = "Outcome"
        say = self.widgets.HTML
        self.field.children = [say(f"<p>{WHICH}</p>"), *first, say(f"<p>{WHAT}</p>"), *second]

    def _next(self) -> None:
        bug = self.bug
        self._ask(drawn(bug.notebook, bug.fault.dsl, bug.number + 1, learner.number()))

    def _read(self) -> None:
        if not self.open:
            return  # a click that came twice
        try:
            given = self.bug.line().read(self.line.value), self.bug.outcome().read(self.outcome.value)
        except AnswerError as error:
            self.below.value = f"<p>{html.escape(str(error))}</p>"
            return
        self.open, self.answer.disabled = False, True
        self.below.value = answered(self.bug, *given)._repr_html_()
