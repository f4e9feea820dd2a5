"""``drill``: a notebook's drills one at a time with buttons, or each in plain Python where there are none.

Where ipywidgets is and somebody sits at the notebook, ``drill("05")`` is a form. Elsewhere it lists the
questions and says how to answer: ``drill("05", 2)`` asks one, ``drill("05", 2, answer="b")`` answers it,
``drill("05", 2, seed=1)`` asks it with other numbers.
"""

from __future__ import annotations

import contextlib
import html
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from IPython import get_ipython
from IPython.display import display

from course_utils.drills import deck, picture
from course_utils.drills.question import LETTERS, Answer, AnswerError, Picture, Question
from course_utils.recordings import progress

MOST_SEEDS = 10**9
DEAD = "Where buttons do nothing or show a broken link, the kernel has ended: run this cell again."
_SIDES = "display:flex;flex-wrap:wrap;gap:8px 40px"


@dataclass(frozen=True, repr=False)
class Shown:
    """Words for a terminal, and the same as HTML. The HTML is made only where it is shown."""

    text: str
    markup: Callable[[], str]

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.markup()


@contextlib.contextmanager
def in_words(failed: str) -> Iterator[None]:
    """Show what is wrong with an answer, or what ``failed``, and raise nothing."""
    try:
        yield
    except AnswerError as error:
        display(words(str(error)))
    except Exception as error:
        display(words(f"{failed}: {type(error).__name__}: {error}"))


@in_words("The drill cannot be shown")
def drill(notebook: str, number: int | None = None, answer: object = None, seed: int = 0) -> None:
    """A notebook's drills, such as ``drill("05")``; or one of them, asked or answered. Raises nothing.

    ``number`` counts from 1. ``answer`` is a letter, a number, or letters in order ("c a b"). Another
    ``seed`` gives other numbers. Answers count towards progress and give no points.
    """
    name = _notebook(notebook)
    if number is None:
        _all(name)
        return
    one = _number(name, number)
    seed = _seed(seed)
    asked = deck.question(name, one, seed)
    if answer is None:
        if not _form(name, one, seed):
            display(_asked(name, one, seed, asked))
        return
    given = asked.read(answer)
    kept = _keep(name, one) if given == asked.right else ""
    more = f"{kept} Other numbers: {_call(name, one, seed + 1)}".strip()
    display(_answered(asked, given, more))


def _notebook(name: object) -> str:
    """The deck's key for "05", "5", 5, "05_pipeline" or "1b". Raises AnswerError."""
    text = str(name).partition("_")[0].strip() if type(name) in (int, str) else ""
    key = text.zfill(3 if text[-1:].isalpha() else 2)
    if key not in deck.DECK:
        raise AnswerError(
            f'There are no drills for {name!r}. Notebooks 01 to 11 and t1 to t5 have some: drill("05").'
        )
    return key


def _number(name: str, number: object) -> int:
    count = len(deck.DECK[name])
    if type(number) is not int or not 1 <= number <= count:
        raise AnswerError(f'Notebook {name} has drills 1 to {count}, not {number!r}: drill("{name}", 1).')
    return number


def _seed(seed: object) -> int:
    if type(seed) is not int or not 0 <= seed <= MOST_SEEDS:
        raise AnswerError(f"A seed is a whole number, 0 to {MOST_SEEDS:,}, not {seed!r}.")
    return seed


def _all(name: str) -> None:
    """All drills of a notebook: a form for a person, else a list that answers nothing."""
    if not _form(name):
        display(_list(name))


def _form(name: str, number: int | None = None, seed: int = 0) -> bool:
    """Show a form of one drill or of all. Was it shown?"""

    def still() -> str:
        if number is None:
            return str(_list(name))
        return str(_asked(name, number, seed, deck.question(name, number, seed)))

    return form(lambda widgets: Form(name, widgets, number, seed).box, still)


def form(made: Callable[[Any], Any], still: Callable[[], str]) -> bool:
    """Show the form that ``made(ipywidgets)`` is, if a person sits at a notebook and ipywidgets is installed;
    ``still()`` is the same as text. Was it shown?
    """
    if (given := widgets()) is None:
        return False
    show_widget(made(given), still())
    display(words(DEAD, faint=True))
    return True


def show_widget(widget: Any, text: str) -> None:
    """Show a widget, with text in its place on pages that show a saved notebook, as GitHub does."""
    shown = widget._repr_mimebundle_()
    data, metadata = shown if isinstance(shown, tuple) else (shown, {})
    markup = f"<pre style='white-space:pre-wrap'>{html.escape(text)}</pre>"
    display({**data, "text/plain": text, "text/html": markup}, metadata=metadata, raw=True)


def widgets() -> Any:
    """ipywidgets, where a person sits and it is installed; else None."""
    if not attended():
        return None
    try:
        import ipywidgets
    except ImportError:
        return None
    return ipywidgets


def attended() -> bool:
    """Does a person run this cell in a notebook? Who runs one for nobody allows it no input."""
    shell = get_ipython()
    if not hasattr(shell, "kernel"):
        return False
    try:
        return bool(shell.get_parent()["content"]["allow_stdin"])
    except (AttributeError, KeyError, TypeError):
        return False


def _keep(name: str, number: int) -> str:
    """Keep that a drill was answered; says how many of the notebook's were."""
    try:
        done = progress.keep_drill(name, number)
    except OSError as error:
        return f"This answer could not be kept in {progress.FILE} ({error})."
    there = set(range(1, len(deck.DECK[name]) + 1))
    return f"{len(done & there)} of {len(there)} drills of this notebook answered."


# What is shown


def _call(name: str, number: int, seed: int, answer: str = "") -> str:
    parts = [f'"{name}"', str(number), f"answer={answer}" * bool(answer), f"seed={seed}" * bool(seed)]
    return f"drill({', '.join(filter(None, parts))})"


def words(text: str, faint: bool = False) -> Shown:
    style = " style='opacity:0.65;margin:0;font-size:12px'" if faint else ""
    return Shown(text, lambda: f"<p{style}>{html.escape(text)}</p>")


def options_of(asked: Question) -> list[str]:
    return [f"{letter}. {option}" for letter, option in zip(LETTERS, asked.options, strict=False)]


def _asked(name: str, number: int, seed: int, asked: Question) -> Shown:
    """A question, and how to answer it; with the answer folded, on a page that nobody can run."""
    head = f"Drill {number} of {len(deck.DECK[name])}, notebook {name}"
    how = f"Answer with {asked.how()}: {_call(name, number, seed, sample(asked))}"
    return with_options(head, asked, how, lambda: "" if attended() else _folded(asked))


def with_options(head: str, asked: Question, how: str, fold: Callable[[], str] = lambda: "") -> Shown:
    """A question under its head, with its options and how to answer; ``fold`` ends its HTML."""
    text = "\n".join([head, asked.text, *(f"  {option}" for option in options_of(asked)), how])

    def markup() -> str:
        told = f"<p><b>{html.escape(head)}.</b> {_as_html(asked)}</p><p>{html.escape(how)}</p>"
        return told + fold()

    return Shown(text, markup)


def _as_html(asked: Question) -> str:
    return html.escape(asked.text) + "".join(f"<br>{html.escape(one)}" for one in options_of(asked))


def _answered(asked: Question, given: Answer, more: str = "") -> Shown:
    """Right or not, the picture of the answer beside the right one, and why."""
    is_right = given == asked.right
    verdict = "Right" if is_right else f"Not {asked.says(given)}"
    right = f"Right is {asked.says(asked.right)}"
    why = asked.sentence(given)
    lines = [f"{verdict}." + ("" if is_right else f" {right}."), why]
    if not is_right:
        lines += ["Your answer:", picture.text(asked.draw(given))]
    lines += ["Right:", picture.text(asked.draw(asked.right)), *([more] if more else [])]

    def markup() -> str:
        sides = [] if is_right else [("Your answer", given)]
        pictures = "".join(
            f"<div><div>{title}</div>{drawn(asked.draw(one))}</div>"
            for title, one in [*sides, ("Right", asked.right)]
        )
        said = html.escape(lines[0])
        below = f"<p>{html.escape(more)}</p>" if more else ""
        return f"<p><b>{said}</b> {html.escape(why)}</p><div style='{_SIDES}'>{pictures}</div>{below}"

    return Shown("\n".join(lines), markup)


def drawn(drawing: Picture) -> str:
    """A picture as HTML; as text where the course's colours cannot be loaded."""
    try:
        return picture.svg(drawing, picture.text(drawing))
    except ImportError:
        return f"<pre>{html.escape(picture.text(drawing))}</pre>"


def _list(name: str) -> Shown:
    """All questions of a notebook; as HTML with folded answers, for a page that nobody can run."""
    count = len(deck.DECK[name])
    asked = [deck.question(name, number) for number in range(1, count + 1)]
    ask, answer = _call(name, 1, 0), _call(name, 1, 0, sample(asked[0]))
    head = f"{count} drills, under a minute each. {ask} asks one, {answer} answers it."
    text = "\n".join([head, *(f"  {number}. {one.text}" for number, one in enumerate(asked, 1))])

    def markup() -> str:
        parts = [f"<p>{html.escape(head)}</p>"]
        for number, one in enumerate(asked, 1):
            parts.append(f"<p><b>{number}.</b> {_as_html(one)}</p>{_folded(one)}")
        return "".join(parts)

    return Shown(text, markup)


def _folded(asked: Question) -> str:
    """The right answer, its reason and its picture, to be opened."""
    said = html.escape(f"{asked.says(asked.right)}. {asked.why}")
    return f"<details><summary>Answer</summary><p>{said}</p>{drawn(asked.draw(asked.right))}</details>"


def sample(asked: Question) -> str:
    """An answer as it is written, which need not be right."""
    letters = " ".join(LETTERS[: len(asked.options)])
    return {"choice": '"a"', "number": "64", "order": f'"{letters}"'}[asked.kind]


def button(widgets: Any, words: str, style: str, act: Callable[[Any], None]) -> Any:
    """A button as wide as its words."""
    made = widgets.Button(description=words, button_style=style)
    made.layout.width = "auto"
    made.on_click(act)
    return made


def fields(
    asked: Question, widgets: Any, submit: Callable[[], None], is_open: Callable[[], bool]
) -> tuple[Any, list[Any]]:
    """A line that takes the answer, and all that stands with it: the line itself, and radio buttons or a
    button for each event that fill it while the question is open. Enter submits.

    JupyterLab keeps the arrow keys of radio buttons to itself, so a letter can be typed as well.
    """
    hint = {"choice": "a letter", "number": "a number, or 2*3", "order": "c a b"}[asked.kind]
    entry = widgets.Text(placeholder=hint, description="Answer", style={"description_width": "auto"})
    with warnings.catch_warnings():  # the Enter key; ipywidgets 8 has no other way to hear of it
        warnings.simplefilter("ignore", DeprecationWarning)
        entry.on_submit(lambda _: submit())
    if asked.kind == "choice":
        return entry, [_radios(asked, widgets, entry), entry]
    if asked.kind == "number":
        return entry, [entry]

    def adds(letter: str) -> Callable[[Any], None]:
        def add(_: Any) -> None:
            if is_open() and letter not in entry.value:
                entry.value = f"{entry.value} {letter}".strip()

        return add

    events = zip(LETTERS, asked.options, strict=False)
    made = [button(widgets, f"{letter}. {option}", "", adds(letter)) for letter, option in events]
    return entry, [*made, entry]


def _radios(asked: Question, widgets: Any, entry: Any) -> Any:
    """Radio buttons, which write the letter of the chosen one and follow a letter that is typed."""
    letters = LETTERS[: len(asked.options)]
    radios = widgets.RadioButtons(options=options_of(asked), value=None, layout=widgets.Layout(width="auto"))

    def chosen(change: Any) -> None:
        if change.new is not None:
            entry.value = letters[change.new]

    def typed(change: Any) -> None:
        letter = change.new.strip().lower()
        radios.index = letters.index(letter) if len(letter) == 1 and letter in letters else None

    radios.observe(chosen, "index")
    entry.observe(typed, "value")
    return radios


class Form:
    """A notebook's drills, one at a time, with buttons; or only one of them. ``box`` is the widget."""

    def __init__(self, name: str, widgets: Any, number: int | None = None, seed: int = 0) -> None:
        self.name, self.widgets, self.alone = name, widgets, number is not None
        self.number, self.seed = number or 1, seed
        self.head, self.below = widgets.HTML(), widgets.HTML()
        self.field = widgets.VBox(layout=widgets.Layout(align_items="flex-start"))
        self.answer = button(widgets, "Answer", "primary", lambda _: self._read())
        other = "Again, other numbers"
        self.again = button(widgets, other, "", lambda _: self._ask(self.number, self.seed + 1))
        self.before = button(widgets, "Previous", "", lambda _: self._ask(self.number - 1, 0))
        self.next = button(widgets, "Next", "", lambda _: self._ask(self.number + 1, 0))
        beside = [] if self.alone else [self.before, self.next]
        buttons = widgets.HBox([self.answer, self.again, *beside])
        self.box = widgets.VBox([self.head, self.field, buttons, self.below])
        self._ask(self.number, self.seed)

    def _ask(self, number: int, seed: int) -> None:
        count = len(deck.DECK[self.name])
        if not 1 <= number <= count:
            return  # a click that came twice
        self.number, self.seed = number, seed
        self.asked = deck.question(self.name, number, seed)
        self.open = True
        self.below.value = ""
        self.before.disabled, self.next.disabled, self.answer.disabled = number == 1, number == count, False
        self.entry, self.field.children = fields(self.asked, self.widgets, self._read, lambda: self.open)
        self._title()

    def _title(self) -> None:
        done = progress.drills().get(self.name, set())
        marks = " ".join(
            f"<b>{one}</b>" if one == self.number else str(one) + ("&#10003;" * (one in done))
            for one in range(1, len(deck.DECK[self.name]) + 1)
        )
        said = " (answered)" if self.number in done else ""
        beside = "" if self.alone else f" &nbsp; <span style='opacity:0.65'>{marks}</span>"
        self.head.value = (
            f"<p>Drill {self.number} of {len(deck.DECK[self.name])}{said}{beside}</p><p "
            f"style='line-height:1.4'>{html.escape(self.asked.text)}</p>"
        )

    def _read(self) -> None:
        if not self.open:
            return  # a click that came twice
        try:
            given = self.asked.read(self.entry.value)
        except AnswerError as error:
            self.below.value = f"<p>{html.escape(str(error))}</p>"
            return
        self.open = False
        self.answer.disabled = True
        more = _keep(self.name, self.number) if given == self.asked.right else ""
        self.below.value = _answered(self.asked, given, more)._repr_html_()
        self._title()
