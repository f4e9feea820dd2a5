"""How alike two sources are: reported to the instructor, and never held against anybody by a program.

Sources are compared by their tokens, without comments and layout, in overlapping runs of ``RUN``; what the
exercise gave to everybody does not count (after Schleimer, Wilkerson and Aiken, Winnowing, 2003).
"""

from __future__ import annotations

import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from course_utils.classroom.submissions import Submission
from course_utils.classroom.workshop import SOURCE_LIMIT
from course_utils.compile.load import NO_CODE

RUN = 6  # tokens
ALIKE = 0.8  # of the smaller source's runs
FEWEST = 30  # runs of one's own; below, everybody's kernel looks like everybody's


@dataclass(frozen=True)
class Pair:
    """Two sources of one exercise, and the share of the smaller one's own runs that both have."""

    exercise: str
    one: str
    other: str
    share: float


def runs(source: str) -> frozenset[int]:
    """Hashes of all runs of tokens in a source, as far as it can be read as Python. One that is too long to
    be judged has none.
    """
    tokens: list[str] = []
    if len(source) > SOURCE_LIMIT:
        return frozenset()
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type not in NO_CODE:
                tokens.append(token.string)
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    return frozenset(hash(tuple(tokens[i : i + RUN])) for i in range(len(tokens) - RUN + 1))


def pairs(class_: Sequence[Submission], solutions: dict[str, str], given: dict[str, str]) -> list[Pair]:
    """Pairs that are alike, the most alike first. ``solutions`` and ``given`` are the course's own by
    exercise: a solution is compared as the learner "the solution", and of a learner's runs those of ``given``
    do not count.
    """
    found: list[Pair] = []
    for exercise in sorted({name for one in class_ for name in one.sources}):
        common = runs(given.get(exercise, ""))
        sources = [(one.learner, one.sources[exercise]) for one in class_ if exercise in one.sources]
        if exercise in solutions:
            sources.insert(0, ("the solution", solutions[exercise]))
        found += _alike(exercise, ((name, runs(source) - common) for name, source in sources))
    return sorted(found, key=lambda pair: (-pair.share, pair.exercise, pair.one, pair.other))


def _alike(exercise: str, sources: Iterable[tuple[str, frozenset]]) -> Iterator[Pair]:
    for (one, a), (other, b) in combinations([s for s in sources if len(s[1]) >= FEWEST], 2):
        share = len(a & b) / min(len(a), len(b))
        if share >= ALIKE:
            yield Pair(exercise, one, other, round(share, 3))
