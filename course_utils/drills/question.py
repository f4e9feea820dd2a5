"""A drill's question, the reading of an answer, and the picture of one, as boxes in rows.

An answer is a number: the place of the chosen option, or the number that was asked for. An answer about an
order is a tuple, the places of the events as they come one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from math import prod
from random import Random
from typing import Any, TypeVar

Answer = Any  # int, or a tuple of them
LETTERS = "abcdefgh"
LONGEST = 60  # characters of an answer
V = TypeVar("V")


class AnswerError(ValueError):
    """An answer that cannot be read. The text says what to write instead."""


@dataclass(frozen=True)
class Cell:
    """One box: its words, what it shows (a key of ``picture.COLOURS``), and whether the answer is here."""

    text: str
    look: str = ""
    here: bool = False


@dataclass(frozen=True)
class Row:
    """Boxes side by side, with words before them."""

    label: str
    cells: tuple[Cell, ...]

    @classmethod
    def one(cls, label: str, text: object, look: str = "", here: bool = False) -> Row:
        """A row of one box."""
        return cls(label, (Cell(str(text), look, here),))

    @classmethod
    def each(
        cls,
        label: str,
        values: Iterable[Any],
        text: Callable[[Any], object] = str,
        look: str | Callable[[Any], str] = "",
        here: Collection[Any] | Callable[[Any], bool] = (),
    ) -> Row:
        """A row with a box for each value: its ``text``, what it shows, and whether the answer is there."""
        looks = look if callable(look) else lambda _: look
        marked = here if callable(here) else here.__contains__
        return cls(label, tuple(Cell(str(text(one)), looks(one), marked(one)) for one in values))

    @classmethod
    def told(
        cls,
        label: str,
        values: Iterable[Any],
        chosen: Collection[Any],
        look: str = "",
        words: tuple[str, str] = ("yes", "no"),
    ) -> Row:
        """A row that tells those values which are ``chosen`` from the others, by a word and a look."""
        yes, no = words
        return cls.each(
            label, values, lambda one: yes if one in chosen else no, lambda one: look * (one in chosen)
        )


Picture = tuple[Row, ...]


@dataclass(frozen=True)
class Question:
    """One drill with its numbers.

    ``options``: what can be chosen, or the events to put in order; empty where a number is asked for, of at
    most ``limit``. ``why`` says in a sentence why ``right`` is right, ``mistakes`` where a wrong answer comes
    from. ``draw`` makes the picture of any answer.
    """

    text: str
    kind: str  # "choice", "number" or "order"
    right: Answer
    why: str
    draw: Callable[[Answer], Picture]
    options: tuple[str, ...] = ()
    mistakes: Mapping[Answer, str] = field(default_factory=dict)
    limit: int = 0

    def says(self, answer: Answer) -> str:
        """The right answer, as a learner would write it, with its words."""
        if self.kind == "number":
            return f"{answer:,}"
        if self.kind == "choice":
            return f"{LETTERS[answer]}, {self.options[answer]}"
        return " ".join(LETTERS[event] for event in answer)

    def sentence(self, answer: Answer) -> str:
        """Why ``right`` is right; first the mistake that a wrong answer comes from, where it is known."""
        if answer == self.right:
            return self.why
        return " ".join(filter(None, (self.mistakes.get(answer, ""), self.why)))

    def how(self) -> str:
        """How to write an answer."""
        if self.kind == "choice":
            return f"a letter, a to {LETTERS[len(self.options) - 1]}"
        if self.kind == "order":
            return f'all letters in order, such as "{" ".join(LETTERS[: len(self.options)])}"'
        return f"a whole number, 0 to {self.limit:,}; a product such as 2*3 will do"

    def read(self, answer: object) -> Answer:
        """The answer that a person wrote. Raises AnswerError."""
        text = answer if isinstance(answer, str) else str(answer) if type(answer) is int else None
        if text is None or not text.strip() or len(text) > LONGEST:
            raise AnswerError(f"This asks for {self.how()}.")
        read = {"choice": self._choice, "order": self._order, "number": self._number}[self.kind]
        found = read(text.strip().lower())
        if found is None:
            raise AnswerError(f"{text.strip()!r} is no answer here. This asks for {self.how()}.")
        return found

    def _choice(self, text: str) -> int | None:
        letters = LETTERS[: len(self.options)]
        if len(text) == 1 and text in letters:
            return letters.index(text)
        same = [option.lower() for option in self.options]
        return same.index(text) if text in same else None

    def _order(self, text: str) -> tuple[int, ...] | None:
        letters = re.sub(r"[\s,;>-]+", "", text)
        if sorted(letters) != list(LETTERS[: len(self.options)]):
            return None
        return tuple(LETTERS.index(letter) for letter in letters)

    def _number(self, text: str) -> int | None:
        factors = re.split(r"\s*[*x]\s*", re.sub(r"(?<=\d)[, _](?=\d{3}(?!\d))", "", text))
        if not all(re.fullmatch(r"[0-9]{1,12}", factor) for factor in factors):
            return None
        value = prod(map(int, factors))
        return value if value <= self.limit else None


def choice(
    text: str,
    right: V,
    wrong: Mapping[V, str],
    why: str,
    draw: Callable[[V], Picture],
    rng: Random | None = None,
    label: Callable[[V], str] = str,
    most: int = 4,
) -> Question:
    """A question with options. ``wrong``: the other values, and the mistake that each comes from.

    A wrong value that is the right one, or reads like another, is left out. ``rng`` shuffles the options;
    without it they are sorted. ``label`` writes a value.
    """
    values = {label(right): right}
    for value in wrong:
        if len(values) < most:
            values.setdefault(label(value), value)
    names = list(values)
    if rng is None:
        names.sort()
    else:
        rng.shuffle(names)
    taken = [values[name] for name in names]
    return Question(
        text,
        "choice",
        names.index(label(right)),
        why,
        lambda answer: draw(taken[answer]),
        tuple(names),
        {place: wrong[value] for place, value in enumerate(taken) if value != right},
    )


def number(
    text: str,
    right: int,
    wrong: Mapping[int, str],
    why: str,
    draw: Callable[[int], Picture],
    limit: int = 999,
) -> Question:
    """A question for a number, 0 to ``limit``. ``wrong``: usual wrong numbers, and the mistake of each."""
    mistakes = {value: words for value, words in wrong.items() if value != right}
    return Question(text, "number", right, why, draw, mistakes=mistakes, limit=limit)


def order(text: str, events: Sequence[str], because: Sequence[str], why: str, rng: Random) -> Question:
    """A question for the order of ``events``, which are given in the right one.

    ``because[i]`` says why event i comes before event i + 1. At most six events.
    """
    shown = list(range(len(events)))
    while shown == sorted(shown):
        rng.shuffle(shown)

    def mistake(answer: tuple[int, ...]) -> str:
        turn = [answer.index(shown.index(event)) for event in range(len(events))]
        first = next((event for event in range(len(because)) if turn[event] > turn[event + 1]), None)
        return (
            "" if first is None else f"Before “{events[first + 1]}” comes “{events[first]}”: {because[first]}"
        )

    def draw(answer: tuple[int, ...]) -> Picture:
        lines = enumerate(shown[place] for place in answer)
        return tuple(Row(f"{turn + 1}.", (Cell(events[event], here=event != turn),)) for turn, event in lines)

    return Question(
        text,
        "order",
        tuple(shown.index(event) for event in range(len(events))),
        why,
        draw,
        tuple(events[event] for event in shown),
        {answer: mistake(answer) for answer in permutations(range(len(events)))},
    )
