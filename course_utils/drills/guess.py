"""Guesses by buttons: how does a planted fault end, and, for notebook t1, is a tensor map legal?"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
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


def choose(options: Mapping[str, str], then: Callable[[str, Callable[[str], None]], Iterable[object]]) -> Any:
    """A widget with a button for each option and what it means; None where nobody sits, or without
    ipywidgets.

    The first click is the guess: ``then(option, says)`` gives what is shown below, and says meanwhile what it
    is at. It must raise nothing.
    """
    if not attended():
        return None
    try:
        import ipywidgets
    except ImportError:
        return None
    return _choice(options, then, ipywidgets)


def _choice(
    options: Mapping[str, str], then: Callable[[str, Callable[[str], None]], Iterable[object]], widgets: Any
) -> Any:
    doing, shown = widgets.HTML(), widgets.Output()
    meant = widgets.HTML("<br>".join(map(html.escape, options.values())))
    buttons = [widgets.Button(description=name, tooltip=words) for name, words in options.items()]

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
    row = widgets.HBox(buttons, layout=widgets.Layout(flex_flow="row wrap"))
    return widgets.VBox([meant, row, doing, shown])


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
