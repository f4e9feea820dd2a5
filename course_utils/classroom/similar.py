"""Who handed in the same as somebody else: reported to the instructor, and never held against anybody by a
program.

Three things are compared, all of them marks that a judge made of a source (``of``) and the ledger kept:
runs of its tokens, the same runs without the names that its author chose, and the normal form of the kernel
that came of it (``ptx.form``). What the exercise gave to everybody counts in no run (after Schleimer,
Wilkerson and Aiken, Winnowing, 2003; of long sources a sample is kept, after Broder, On the resemblance and
containment of documents, 1997).
"""

from __future__ import annotations

import hashlib
import keyword
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import combinations

from course_utils.classroom.hidden import what_hides

RUN = 6  # tokens
NAMELESS_RUN = 12  # of tokens without names, which say less
ALIKE = 0.8  # of the smaller source's runs
FEWEST = 30  # runs of one's own; below, everybody's kernel looks like everybody's
FEW = 3  # other kernels; of fewer nobody can say what is usual
LONG = 100_000  # characters; the longest solution has 9,000, and nobody needs more
SAMPLE = 256  # runs of a source that are kept
SOLUTION = "the course's solution"

# Each alternative begins with other characters and never gives back what it took: linear for any text.
_TOKEN = re.compile(
    r'''
    (?P<layout>\s++|\\\r?\n|\#[^\n]*+)
  | (?P<name>[^\W\d]\w*+)
  | (?P<number>\.?\d[\w.]*+)
  | (?P<string>"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?|\'\'\'(?:[^'\\]|\\.|'(?!\'\'))*+(?:\'\'\')?
      |"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?)
  | (?P<other>==|.)
    ''',
    re.S | re.X,
)


@dataclass(frozen=True)
class Runs:
    """How many runs of its own a source has, and a sample of their hashes: the smallest, in order."""

    count: int = 0
    sample: str = ""  # 8 hexadecimal digits each

    @cached_property
    def hashes(self) -> list[str]:
        return [self.sample[at : at + 8] for at in range(0, len(self.sample), 8)]

    @cached_property
    def known(self) -> frozenset[str]:
        return frozenset(self.hashes)

    @property
    def end(self) -> str:
        """Of smaller hashes than this the sample has all that there are."""
        return self.hashes[-1] if self.count > SAMPLE else "g"


@dataclass(frozen=True)
class Marks:
    """What is compared of one source. ``form`` is "" where no kernel came of it; ``hidden`` says what in it
    hides what it runs.
    """

    text: Runs = field(default_factory=Runs)
    nameless: Runs = field(default_factory=Runs)
    form: str = ""
    hidden: str = ""

    @classmethod
    def read(cls, record: Mapping | None) -> Marks:
        """The marks in a record of the ledger; those of nothing where it has none."""
        kept = (record or {}).get("marks")
        if not kept:
            return cls()
        return cls(Runs(**kept["text"]), Runs(**kept["nameless"]), kept["form"], kept["hidden"])


TEXT, RENAMED, PACKED, FORM = "same text", "names changed", "code hidden", "same PTX, another text"
ORDER = (PACKED, RENAMED, TEXT, FORM)  # what to look at first


@dataclass(frozen=True)
class Group:
    """Those whose sources of one exercise are copies of each other, or may be. ``bases`` holds by basis who
    is in it for that; ``share`` is the least share of runs that joined two of them, None where none did.
    ``forms`` is how many normal forms their kernels have; ``others`` how many other kernels there are, and
    how many forms they have.
    """

    exercise: str
    bases: dict[str, list[str]]
    share: float | None
    forms: int
    others: tuple[int, int]

    @property
    def members(self) -> list[str]:
        return [name for names in self.bases.values() for name in names]


def of(source: str, given: str, form: str = "") -> Marks:
    """The marks of a source. ``given`` is what everybody was given of it. It takes time in proportion, up to
    ``LONG``: of a longer source the kernel alone is compared.
    """
    if len(source) > LONG:
        return Marks(form=form, hidden=f"has more than {LONG:,} characters, which nobody reads")
    (text, nameless), (old_text, old_nameless) = _runs(source), _given_runs(given)
    return Marks(_sampled(text - old_text), _sampled(nameless - old_nameless), form, what_hides(source))


def _runs(source: str) -> tuple[frozenset[str], frozenset[str]]:
    """Hashes of all runs of tokens in a source, and of those without names."""
    tokens, chosen = _tokens(source)
    runs = (tokens[at : at + RUN] for at in range(len(tokens) - RUN + 1))
    nameless = (
        _without_names(tokens[at : at + NAMELESS_RUN], chosen[at : at + NAMELESS_RUN])
        for at in range(len(tokens) - NAMELESS_RUN + 1)
    )
    return frozenset(map(_hash, runs)), frozenset(map(_hash, nameless))


_given_runs = lru_cache(maxsize=64)(_runs)  # the same for all who were given it


def _hash(tokens: Sequence[str]) -> str:
    text = "\n".join(tokens).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=4).hexdigest()


def _sampled(runs: frozenset[str]) -> Runs:
    return Runs(len(runs), "".join(sorted(runs)[:SAMPLE]))


def _tokens(source: str) -> tuple[list[str], list[bool]]:
    """The tokens of a source, and of each whether it is a name that its author chose: no keyword, no part of
    something else, no argument by name.
    """
    tokens: list[str] = []
    chosen: list[bool] = []
    depth = 0
    for found in _TOKEN.finditer(source):
        kind, text = found.lastgroup, found[0]
        if kind == "layout":
            continue
        if text == "=" and depth and chosen:
            chosen[-1] = False
        depth = max(0, depth + (text in ("(", "[", "{")) - (text in (")", "]", "}")))
        chosen.append(kind == "name" and not keyword.iskeyword(text) and tokens[-1:] != ["."])
        tokens.append(text)
    return tokens, chosen


def _without_names(tokens: Sequence[str], chosen: Sequence[bool]) -> list[str]:
    """The tokens with each name that was chosen as the number of its first place."""
    numbers: dict[str, str] = {}
    return [
        numbers.setdefault(token, f"#{len(numbers)}") if is_name else token
        for token, is_name in zip(tokens, chosen, strict=True)
    ]


def share(one: Runs, other: Runs) -> float:
    """The share of the smaller one's runs that both have, as far as their samples tell; 0 where one has too
    few.
    """
    if min(one.count, other.count) < FEWEST:
        return 0.0
    both = len(one.known & other.known)  # whatever both samples have lies below both their ends
    end = min(one.end, other.end)
    either = bisect_right(one.hashes, end) + bisect_right(other.hashes, end) - both
    alike = both / either
    return min(1.0, alike * (one.count + other.count) / (1 + alike) / min(one.count, other.count))


def groups(exercise: str, handed_in: Mapping[str, Marks]) -> list[Group]:
    """The groups of one exercise, those that tell most first. ``handed_in`` has the marks of each author's
    source; the course's own stands among them as ``SOLUTION``.

    Two of one text, or of one text but for its names, are in one group. The PTX alone joins those whose code
    is hidden. Others of one PTX and another text are a group where that says something: where most other
    authors have a form of their own.
    """
    names = list(handed_in)
    parent = {name: name for name in names}
    found: dict[str, str] = {}  # by name, the basis
    least: dict[str, float] = {}  # by name, the least share by which it was joined to another one

    def top(name: str) -> str:
        while parent[name] != name:
            parent[name] = name = parent[parent[name]]
        return name

    for basis, runs in (
        (TEXT, {name: handed_in[name].text for name in names}),
        (RENAMED, {name: handed_in[name].nameless for name in names}),
    ):
        for one, other in combinations(names, 2):
            if top(one) == top(other):
                continue
            alike = share(runs[one], runs[other])
            if alike >= ALIKE:
                parent[top(other)] = top(one)
                for name in (one, other):
                    found.setdefault(name, basis)
                    least[name] = min(alike, least.get(name, 1.0))
    made = []
    for members in _by(top, names):
        if len(members) > 1:
            bases = {basis: [one for one in members if found[one] == basis] for basis in (RENAMED, TEXT)}
            made.append(_group(exercise, handed_in, bases, min(least[one] for one in members)))
    for members in _by(lambda name: handed_in[name].form, [name for name in names if handed_in[name].form]):
        hidden = [one for one in members if handed_in[one].hidden]
        others = [one for one in members if not handed_in[one].hidden]
        if hidden and len(members) > 1:
            made.append(_group(exercise, handed_in, {PACKED: hidden, FORM: others}, None))
        elif len(set(map(top, members))) > 1:
            group = _group(exercise, handed_in, {FORM: members}, None)
            if _is_telling(group):
                made.append(group)
    return sorted(made, key=lambda group: (ORDER.index(next(iter(group.bases))), -len(group.members)))


def _is_telling(group: Group) -> bool:
    """Whether an equal form says something here: most of the others have a form of their own."""
    others, forms = group.others
    return others >= FEW and 2 * forms > others


def _group(
    exercise: str, handed_in: Mapping[str, Marks], bases: dict[str, list[str]], least: float | None
) -> Group:
    bases = {basis: names for basis, names in bases.items() if names}
    members = {name for names in bases.values() for name in names}
    own = {handed_in[name].form for name in members} - {""}
    others = [marks.form for name, marks in handed_in.items() if name not in members and marks.form]
    return Group(exercise, bases, least, len(own), (len(others), len(set(others))))


def _by(key: Callable[[str], str], names: Sequence[str]) -> Iterable[list[str]]:
    """The names in lists of one key each."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(key(name), []).append(name)
    return found.values()
