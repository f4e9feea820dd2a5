"""``quiz``: twenty short questions before the first notebook, and the same kinds with other numbers after 10.

What comes of it is a picture for the learner alone: it gives no points and is in no grade. Answers are kept
in progress.json one by one, so a quiz goes on where it was left.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from IPython.display import display

from course_utils.drills import (
    barriers,
    budget,
    epilogue,
    layouts,
    learner,
    maps,
    memory,
    picture,
    ring,
    threads,
    tiles,
)
from course_utils.drills.question import AnswerError, Cell, Picture, Question, Row
from course_utils.drills.show import Shown, button, drawn, fields, form, in_words, sample, with_options, words
from course_utils.figures.strip import notebooks, title
from course_utils.recordings import progress

START, END = "start", "end"
WHEN = {START: "before", END: "after"}
UNKNOWN = "?"  # the answer of somebody who does not know
ALONE = "This is for you alone: it gives no points and is in no grade."
TRIES = 100  # draws until the twin has other numbers


@dataclass(frozen=True)
class Topic:
    """What some questions are about, and the notebooks that explain it."""

    name: str
    explained: tuple[str, ...]
    asks: tuple[Callable[[Random], Question], ...]


TOPICS = (
    Topic("threads and warps", ("01", "07"), (threads.place_of_thread, threads.warps_that_come)),
    Topic("tiles", ("03", "06"), (tiles.owner, tiles.waves)),
    Topic("bytes", ("04", "t5"), (barriers.expected_bytes, epilogue.buffer_bytes)),
    Topic("swizzle and layout", ("01b", "01"), (layouts.offset, memory.swizzled_piece)),
    Topic("barriers and phases", ("04", "t3"), (barriers.passes, barriers.state)),
    Topic("ring", ("05", "08"), (ring.ring_holds, ring.stage_and_parity)),
    Topic("roles", ("07",), (ring.may_fill, barriers.first_waits)),
    Topic("registers", ("07", "10"), (budget.accumulator_registers, budget.register_budget)),
    Topic("clusters", ("09",), (barriers.multicast_mask, barriers.cluster_bytes)),
    Topic("TMA legality", ("t1",), (maps.legal_map,)),
    Topic("roofline", ("03",), (threads.at_least,)),
)
ITEMS = [(topic, ask) for topic in TOPICS for ask in topic.asks]
NUMBERS = range(1, len(ITEMS) + 1)

_unkept: dict[str, dict[int, str]] = {}  # answers that could not be written, as long as the kernel runs


def question(name: str, number: int, whose: int) -> Question:
    """Question ``number`` of a quiz, from 1, for the learner with the number ``whose``.

    The end asks with other numbers than the start.
    """
    first = _draw(number, whose, START)
    if name == START:
        return first
    twins = (_draw(number, whose, f"{END} {turn}") for turn in range(TRIES))
    return next(twin for twin in twins if (twin.text, twin.options) != (first.text, first.options))


def _draw(number: int, whose: int, turn: str) -> Question:
    return ITEMS[number - 1][1](Random(f"quiz {number} {whose} {turn}"))


def given(name: str) -> dict[int, str]:
    """The answers of a quiz so far, as they were written, by the question's number."""
    there = _unkept.get(name, {}) | progress.quiz().get(name, {})
    return {number: there[number] for number in NUMBERS if number in there}


def right(name: str, whose: int) -> dict[int, bool]:
    """Which questions that were answered were answered rightly."""
    return {number: _is_right(question(name, number, whose), text) for number, text in given(name).items()}


def _is_right(asked: Question, text: str) -> bool:
    try:
        return text != UNKNOWN and asked.read(text) == asked.right
    except AnswerError:  # somebody has edited the file
        return False


@in_words("The quiz cannot be shown")
def quiz(name: str = START, number: int | None = None, answer: object = None) -> None:
    """The quiz "start" or "end", where it was left; or one of its questions, asked or answered. Raises
    nothing.

    ``number`` counts from 1. ``answer`` is a letter or a number, or "?" for "I do not know". Nothing of it
    counts.
    """
    name = _name(name)
    if number is None and answer is None:
        _go_on(name)
        return
    one = _number(name, number)
    if answer is None:
        display(_asked(name, one))
        return
    display(words(_take(name, one, answer)))
    _go_on(name)


def _name(name: object) -> str:
    if not isinstance(name, str) or name not in WHEN:
        raise AnswerError(f'There is no quiz {name!r}. There are two: quiz("start") and quiz("end").')
    return name


def _number(name: str, number: object) -> int:
    if type(number) is not int or number not in NUMBERS:
        raise AnswerError(f'The quiz has questions 1 to {len(ITEMS)}, not {number!r}: quiz("{name}", 1).')
    return number


def _go_on(name: str) -> None:
    """The form, the next open question, or what came of it."""
    if learner.on_a_page():
        text = f"{len(ITEMS)} questions, under ten minutes. They are asked when you run this cell. {ALONE}"
        display(words(text))
    elif len(given(name)) == len(ITEMS):
        display(result(name))
    elif not form(lambda widgets: Form(name, widgets).box, lambda: str(_asked(name, _next(name)))):
        display(_asked(name, _next(name)))


def _next(name: str) -> int:
    """The first question without an answer."""
    done = given(name)
    return next(number for number in NUMBERS if number not in done)


def _take(name: str, number: int, answer: object) -> str:
    """Keep an answer; says what became of it. Raises AnswerError where it is none, or not the first."""
    if number in given(name):
        raise AnswerError(f"Question {number} has its answer already, and the first one counts.")
    asked = question(name, number, learner.number())
    text = answer.strip() if isinstance(answer, str) else str(answer)
    if text != UNKNOWN:
        asked.read(answer)
    try:
        progress.keep_answer(name, number, text)
    except (OSError, ValueError) as error:
        _unkept.setdefault(name, {})[number] = text
        return f"It could not be kept in {progress.FILE} ({error}), and counts until the kernel ends."
    return f"{len(given(name))} of {len(ITEMS)} answered."


# What is shown


def _head(number: int) -> str:
    return f"Question {number} of {len(ITEMS)}, {ITEMS[number - 1][0].name}"


def _asked(name: str, number: int) -> Shown:
    """A question, and how to answer it."""
    asked = question(name, number, learner.number())
    example = sample(asked)
    how = f'Answer with {asked.how()}: quiz("{name}", {number}, {example}). "?" stands for: I do not know.'
    return with_options(_head(number), asked, how)


def picture_of(scores: Mapping[str, Mapping[int, bool]]) -> Picture:
    """A row for each topic: how many of its questions were right in each quiz, before and after."""
    lines = [Row.each("", scores, lambda name: WHEN[name])]
    for topic in TOPICS:
        own = [number for number in NUMBERS if ITEMS[number - 1][0] is topic]
        counts = [sum(found.get(number, False) for number in own) for found in scores.values()]
        cells = (
            Cell(f"{count} of {len(own)}", "wgmma" if count == len(own) else "wait" * (count > 0))
            for count in counts
        )
        lines.append(Row(topic.name, tuple(cells)))
    return tuple(lines)


def result(name: str) -> Shown:
    """What came of a quiz: a picture by topic beside the other one's, where to read, and what was wrong."""
    whose = learner.number()
    scores = {one: right(one, whose) for one in WHEN if len(given(one)) == len(ITEMS)}
    wrong = [number for number, fine in scores[name].items() if not fine]
    head = ", ".join(f"{WHEN[one]}: {sum(found.values())} of {len(ITEMS)}" for one, found in scores.items())
    shown = picture_of(scores)
    weak = [topic for topic in TOPICS if any(ITEMS[number - 1][0] is topic for number in wrong)]
    reads = [(topic.name, topic.explained) for topic in weak]
    told = [_told(name, number, whose) for number in wrong]
    lines = [f"{head[0].upper()}{head[1:]} right. {ALONE}", picture.text(shown)]
    lines += [f"{topic}: notebook {' and '.join(numbers)}" for topic, numbers in reads]
    text = "\n".join([*lines, *(f"{asked}\n  {why}" for asked, why in told)])

    def markup() -> str:
        there = notebooks(Path())
        rows = "".join(
            f"<li>{topic}: {' and '.join(_link(number, there) for number in numbers)}</li>"
            for topic, numbers in reads
        )
        where = f"<p>What you may like to read:</p><ul>{rows}</ul>" if rows else ""
        items = "".join(f"<p>{html.escape(asked)}<br>{html.escape(why)}</p>" for asked, why in told)
        fold = f"<details><summary>Questions you had wrong, with answers</summary>{items}</details>"
        return f"<p><b>{html.escape(lines[0])}</b></p>{drawn(shown)}{where}{fold if told else ''}"

    return Shown(text, markup)


def _link(number: str, there: Mapping[str, str]) -> str:
    """A notebook's number, as a link where the notebook is."""
    if number not in there:
        return number
    return (
        f"<a style='text-decoration:underline' href='{there[number]}'>{html.escape(title(there[number]))}</a>"
    )


def _told(name: str, number: int, whose: int) -> tuple[str, str]:
    """A question, and its answer with the reason."""
    asked = question(name, number, whose)
    return f"{number}. {asked.text}", f"{asked.says(asked.right)}. {asked.why}"


class Form:
    """A quiz with buttons, from its first question without an answer. ``box`` is the widget."""

    def __init__(self, name: str, widgets: Any) -> None:
        self.name, self.widgets, self.open = name, widgets, True
        self.head, self.below = widgets.HTML(), widgets.HTML()
        self.field = widgets.VBox(layout=widgets.Layout(align_items="flex-start"))
        answer = button(widgets, "Answer", "primary", lambda _: self._read(self.entry.value))
        unknown = button(widgets, "I do not know", "", lambda _: self._read(UNKNOWN))
        self.buttons = widgets.HBox([answer, unknown])
        self.box = widgets.VBox([self.head, self.field, self.buttons, self.below])
        self._ask()

    def _ask(self) -> None:
        self.number = _next(self.name)
        self.asked = question(self.name, self.number, learner.number())
        head, text = html.escape(_head(self.number)), html.escape(self.asked.text)
        about = f"Half a minute each. {ALONE}" if self.number == 1 else ""
        self.head.value = f"<p>{head}. {about}</p><p style='line-height:1.4'>{text}</p>"
        self.entry, self.field.children = fields(
            self.asked, self.widgets, lambda: self._read(self.entry.value), lambda: self.open
        )

    def _read(self, answer: str) -> None:
        if not self.open:
            return  # a click that came twice
        try:
            said = _take(self.name, self.number, answer)
        except AnswerError as error:
            self.below.value = f"<p>{html.escape(str(error))}</p>"
            if self.number in given(self.name):  # answered meanwhile, in another cell
                self._on()
            return
        self.below.value = f"<p>{html.escape(said)}</p>"
        self._on()

    def _on(self) -> None:
        """The next question, or what came of all."""
        if len(given(self.name)) < len(ITEMS):
            self._ask()
            return
        self.open = False
        self.field.children, self.buttons.children = (), ()
        self.head.value = ""
        self.below.value = result(self.name)._repr_html_()
