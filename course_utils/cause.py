"""What was found, as data: a kind, a case of it, and the values that its sentence needs.

Whoever finds something returns a ``Cause`` and writes no sentence. A room that finds things has one table of
sentences, by case; ``sentence`` fills one in, and ``data`` makes the JSON form. Nothing reads a sentence to
learn what happened.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

# By case: what is said of it, with the names of its values in braces.
Sentences = Mapping[str, str]


@dataclass(frozen=True)
class Warps:
    """Some warps of a launch by their numbers in the CTA, with their role ("" where the kernel has none) and
    their CTAs (none where it is the one that the sentence is about).
    """

    role: str
    numbers: tuple[int, ...]
    ctas: tuple[int, ...] = ()

    def __str__(self) -> str:
        who = f"{self.role} warp{'s' * (len(self.numbers) > 1)} {spans(self.numbers)}".lstrip()
        return who + (f" of CTA{'s' * (len(self.ctas) > 1)} {spans(self.ctas)}" if self.ctas else "")


@dataclass(frozen=True)
class Who:
    """Whose doing it is: groups of warps. In a sentence, ``{who:waits|wait}`` is the verb that goes with
    them.
    """

    groups: tuple[Warps, ...]

    def __str__(self) -> str:
        return " and ".join(map(str, self.groups)) or "nobody"

    @property
    def anywhere(self) -> Who:
        """These warps of any CTA."""
        return Who(tuple(replace(group, ctas=()) for group in self.groups))

    def __format__(self, verbs: str) -> str:
        if not verbs:
            return str(self)
        one, many = verbs.split("|")
        count = sum(len(group.numbers) * max(len(group.ctas), 1) for group in self.groups)
        return one if count <= 1 else many


@dataclass(frozen=True)
class Cause:
    """``kind`` groups cases that are mended alike; ``case`` names the sentence. ``values`` are numbers,
    texts, data classes as ``Who``, or further causes whose sentences are parts of this one's.
    """

    kind: str
    case: str
    values: Mapping[str, Any] = field(default_factory=dict)


# "<" and ">" of a table, beside which a value may have its own
_BEGIN, _END = "\x02", "\x03"


def marked(text: str) -> str:
    """A table's text, in which what stands between ``<`` and ``>`` is left out where there is no room for it:
    the rest is true without it. ``forms`` of what it is filled in to.
    """
    return text.replace("<", _BEGIN).replace(">", _END)


def forms(text: str) -> list[list[str]]:
    """A text from a marked one, sentence by sentence: each in full, and shorter and shorter."""
    return [[*_shorter(one)] for one in re.split(rf"(?<=[.?!])\s+|(?<=[.?!]{_END})\s+", text)]


def _plain(text: str) -> str:
    return re.sub(f"[{_BEGIN}{_END}]", "", text)


def _shorter(one: str) -> Iterator[str]:
    yield _plain(one)
    while _BEGIN in one:
        inner = [*re.finditer(f"{_BEGIN}[^{_BEGIN}{_END}]*{_END}", one)][-1]
        one = one[: inner.start()] + one[inner.end() :]
        yield _plain(one)


class _Count(int):
    """A number in a sentence."""

    def __format__(self, wanted: str) -> str:
        if "|" not in wanted:
            return super().__format__(wanted)
        one, many = wanted.split("|")
        return one if self == 1 else many


def sentence(cause: Cause, sentences: Sentences) -> str:
    """The cause in words, in full. Raises KeyError as ``filled``."""
    return _plain(filled(cause, sentences))


def filled(cause: Cause, sentences: Sentences) -> str:
    """The cause in words, marked: for ``forms``. A value that is None adds nothing, a tuple of causes their
    sentences, one after the other; of a number, ``{count:load|loads}`` is the word that goes with it. Raises
    KeyError for a case without a sentence, or a sentence that asks for a value that the cause has not.
    """

    def worded(value: Any) -> Any:
        if isinstance(value, Cause):
            return filled(value, sentences)
        if isinstance(value, tuple):
            return "".join(map(worded, value))
        return "" if value is None else _Count(value) if value.__class__ is int else value

    values = {name: worded(value) for name, value in cause.values.items()}
    return string.Formatter().vformat(marked(sentences[cause.case]), (), values)


def data(value: Any) -> Any:
    """A cause, or a value of one, as JSON has it."""
    if isinstance(value, Cause):
        return {"kind": value.kind, "case": value.case, "values": data(value.values)}
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: data(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): data(one) for name, one in value.items()}
    return [data(one) for one in value] if isinstance(value, list | tuple | set) else value


def from_data(found: Mapping) -> Cause:
    """The inverse of ``data``, for a cause whose values are data, warps and other causes."""
    values = found["values"].items()
    return Cause(found["kind"], found["case"], {name: _value(value) for name, value in values})


def _value(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if value.keys() >= {"kind", "case", "values"}:
        return from_data(value)
    if value.keys() != {"groups"}:
        return value
    groups = ((one["role"], tuple(one["numbers"]), tuple(one["ctas"])) for one in value["groups"])
    return Who(tuple(Warps(*group) for group in groups))


def spans(numbers: Iterable[int]) -> str:
    """0-3, 5 of [0, 1, 2, 3, 5]."""
    parts, left = [], sorted(set(numbers))
    while left:
        end = 0
        while end + 1 < len(left) and left[end + 1] == left[end] + 1:
            end += 1
        parts.append(str(left[0]) if end == 0 else f"{left[0]}-{left[end]}")
        left = left[end + 1 :]
    return ", ".join(parts)
