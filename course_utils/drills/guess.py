"""Guesses by buttons: how does a planted fault end, and, for notebook t1, is a tensor map legal?"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import starmap
from typing import Any

from IPython.display import display

from course_utils.artifact import TensorMap
from course_utils.drills.show import Shown, show_widget, widgets, words
from course_utils.tma.rules import violations

GUESSES = ("legal", "illegal")
Asked = tuple[TensorMap, int]  # a map, and its address in bytes past an aligned one


def predict(questions: Sequence[Asked], guesses: object = ()) -> None:
    """Hold guesses against the rules of the contract. Raises nothing.

    A guess is "legal" or "illegal"; None, or one that is missing, asks to guess first. Where nobody has
    guessed yet and somebody sits at the notebook, each map has buttons instead.
    """
    try:
        given = list(guesses) if isinstance(guesses, list | tuple) else []
        given = (given + [None] * len(questions))[: len(questions)]
        if not any(guess in GUESSES for guess in given) and (made := widgets()):
            show_widget(_buttons(questions, made), "\n".join(starmap(_name, enumerate(questions, 1))))
            return
        lines: list[str] = []
        for number, (question, guess) in enumerate(zip(questions, given, strict=True), 1):
            first = [f"{_name(number, question)}: guess first"]
            lines += _told(number, question, guess) if guess in GUESSES else first
        text = "\n".join(lines)
        display(Shown(text, lambda: f"<pre>{html.escape(text)}</pre>"))
    except Exception as error:
        failed = "These guesses cannot be held against the rules"
        display(words(f"{failed}: {type(error).__name__}: {error}"))


def choose(options: Mapping[str, str], then: Callable[[str, Callable[[str], None]], Iterable[object]]) -> Any:
    """A widget with a button for each option and what it means; None where nobody sits, or without
    ipywidgets.

    The first click is the guess: ``then(option, says)`` gives what is shown below, and says meanwhile what it
    is at. It must raise nothing.
    """
    if (made := widgets()) is None:
        return None
    doing, shown = made.HTML(), made.Output()
    meant = made.HTML("<br>".join(map(html.escape, options.values())))
    buttons = [made.Button(description=name, tooltip=meaning) for name, meaning in options.items()]

    def says(text: str) -> None:
        doing.value = f"<p>{html.escape(text)} ...</p>"

    def clicked(button: Any) -> None:
        if any(one.disabled for one in buttons):
            return  # a second click
        for one in buttons:
            one.disabled = True
        button.button_style = "primary"
        for part in then(button.description, says):
            shown.append_display_data(part)
        doing.value = ""

    for one in buttons:
        one.layout.width = "auto"
        one.on_click(clicked)
    row = made.HBox(buttons, layout=made.Layout(flex_flow="row wrap"))
    return made.VBox([meant, row, doing, shown])


def _name(number: int, question: Asked) -> str:
    return f"{number}. {question[0]}"


def _told(number: int, question: Asked, guess: str) -> list[str]:
    """The rules' answer, whether the guess was the same, and each rule that is broken."""
    broken = violations(*question)
    truth = GUESSES[bool(broken)]
    said = "as you said" if guess == truth else f"and you said {guess}"
    return [f"{_name(number, question)}: {truth}, {said}", *(f"       {violation}" for violation in broken)]


def _buttons(questions: Sequence[Asked], made: Any) -> Any:
    """Two buttons for each map; the first click is the guess, and brings the answer."""
    rows = []
    for number, question in enumerate(questions, 1):
        text = made.HTML(html.escape(_name(number, question)))
        pair = made.ToggleButtons(options=GUESSES, value=None)

        def chosen(change: Any, number: int = number, question: Asked = question, text: Any = text) -> None:
            if change.new is None or change.owner.disabled:
                return
            change.owner.disabled = True
            text.value = "<br>".join(map(html.escape, _told(number, question, change.new)))

        pair.observe(chosen, "value")
        rows += [text, pair]
    return made.VBox(rows)
