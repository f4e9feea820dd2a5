"""Notebook 11's guesses: is a tensor map legal? By buttons, or from a list in the cell."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from IPython.display import display

from course_utils.artifact import TensorMap
from course_utils.drills.show import Shown, attended
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
        if not any(guess in GUESSES for guess in given) and attended():
            try:
                import ipywidgets
            except ImportError:
                pass
            else:
                display(_buttons(questions, ipywidgets))
                return
        lines = []
        for number, (question, guess) in enumerate(zip(questions, given, strict=True), 1):
            lines += (
                _told(number, question, guess)
                if guess in GUESSES
                else [f"{_name(number, question)}: guess first"]
            )
        text = "\n".join(lines)
        display(Shown(text, lambda: f"<pre>{html.escape(text)}</pre>"))
    except Exception as error:
        text = f"These guesses cannot be held against the rules: {type(error).__name__}: {error}"
        display(Shown(text, lambda: f"<p>{html.escape(text)}</p>"))


def _name(number: int, question: Asked) -> str:
    return f"{number}. {question[0]}"


def _told(number: int, question: Asked, guess: str) -> list[str]:
    """The rules' answer, whether the guess was the same, and each rule that is broken."""
    broken = violations(*question)
    truth = GUESSES[bool(broken)]
    said = "as you said" if guess == truth else f"and you said {guess}"
    return [f"{_name(number, question)}: {truth}, {said}", *(f"       {violation}" for violation in broken)]


def _buttons(questions: Sequence[Asked], widgets: Any) -> Any:
    """Two buttons for each map; the first click is the guess, and brings the answer."""
    rows = []
    for number, question in enumerate(questions, 1):
        words = widgets.HTML(html.escape(_name(number, question)))
        pair = widgets.ToggleButtons(options=GUESSES, value=None)

        def chosen(change: Any, number: int = number, question: Asked = question, words: Any = words) -> None:
            if change.new is None or change.owner.disabled:
                return
            change.owner.disabled = True
            words.value = "<br>".join(map(html.escape, _told(number, question, change.new)))

        pair.observe(chosen, "value")
        rows += [words, pair]
    return widgets.VBox(rows)
