"""What ``find_the_bug`` does with a planted fault: the broken kernel, where it is broken, and what a learner
sees of it.

Kernels are bare: comments would give a fault away, and lines are numbered as they are shown.
``recorded.json`` has what the check says of each, written by ``python -m authoring.faults``.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import pairwise
from pathlib import Path

from course_utils.compile.faults import Fault, blackwell, table
from course_utils.compile.load import BEGIN, END, solution_path

RECORDED = Path(__file__).with_name("recorded.json")
AROUND = 2  # lines that are shown before and after a region
NEAR = 6  # lines left out between two regions that are rather shown


@dataclass(frozen=True)
class Change:
    """Lines of the broken kernel, from 1, and the lines of the solution in their place.

    Where lines are missing, ``lines`` is the one after which they are, and ``broken`` is empty.
    """

    lines: range
    broken: tuple[str, ...]
    right: tuple[str, ...]


def bare(source: str) -> str:
    """A kernel's source without its docstring, comments and markers, and with no two empty lines."""
    return "".join(f"{line}\n" for line, _ in _lines(source))


@cache
def _lines(source: str) -> tuple[tuple[str, bool], ...]:
    """The lines of the bare kernel, and whether the exercise leaves them to the learner."""
    found: list[tuple[str, bool]] = []
    inside = False
    for line in source.split("\n")[ast.parse(source).body[0].end_lineno :]:
        text = line.strip()
        if text.startswith((BEGIN, END)):
            inside = text.startswith(BEGIN)
            continue
        code = line.split("#")[0].rstrip()  # no kernel has a # in a string
        if code or (not text and found and found[-1][0]):
            found.append((code, inside))
    return tuple(found if found[-1][0] else found[:-1])


def solution(step: str, dsl: str) -> str:
    """A step's bare solution. Raises CompileError where the checkout has none."""
    return bare(solution_path(step, dsl).read_text())


def source(fault: Fault) -> str:
    """The broken kernel, bare. Raises ValueError where a text is not there exactly once."""
    return bare(fault.source())


def digest(fault: Fault) -> str:
    """A mark of the broken kernel, by which a recorded sentence is known to be about this one."""
    return hashlib.sha256(source(fault).encode()).hexdigest()[:16]


def changes(fault: Fault) -> list[Change]:
    """What is wrong, as places of the broken kernel."""
    right, broken = solution(fault.step, fault.dsl).splitlines(), source(fault).splitlines()
    found = []
    for kind, i, i_end, j, j_end in _differences(fault):
        if kind == "delete":
            found.append(Change(range(_told(broken, j), j + 1), (), tuple(right[i:i_end])))
        elif kind != "equal":
            found.append(Change(range(j + 1, j_end + 1), tuple(broken[j:j_end]), tuple(right[i:i_end])))
    return found


def elsewhere(fault: Fault) -> list[int]:
    """Lines of the broken kernel after which what is missing may stand as well, in the block that it is of,
    of those that are shown. Empty for a fault without ``spread``. Raises ValueError where a text of it is
    not there.
    """
    if fault.spread is None:
        return []
    lines, at = source(fault).splitlines(), changes(fault)[0].lines[0]
    first, last = fault.spread
    begin = at
    if first:
        begin = min((n for n, line in enumerate(lines, 1) if first in line), key=lambda n: abs(n - at))
    end = next((n for n, line in enumerate(lines, 1) if n > at and last in line), at) if last else at
    if first not in lines[begin - 1] or last not in lines[end - 1]:
        raise ValueError(f"{fault}: no line has {first!r} or {last!r}")
    margin = min(_indent(lines[n - 1]) for n in range(begin, end + 1) if lines[n - 1].strip())
    found = []
    for number in sorted({*range(begin, end + 1)} & {*shown(fault)}):
        following = next((line for line in lines[number:] if line.strip()), "")
        if lines[number - 1].strip() and _indent(following) <= margin:
            found.append(number)
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _told(lines: list[str], last: int) -> int:
    """The line that a person names who means the place after line ``last``: no empty one."""
    return next((number for number in range(last, 0, -1) if lines[number - 1].strip()), last)


@cache
def planted() -> tuple[Fault, ...]:
    """The faults that ``find_the_bug`` draws from. Raises CompileError where the checkout has none."""
    return tuple(fault for fault in (*table(), *blackwell()) if fault.drill)


def pool(step: str, dsl: str) -> list[Fault]:
    """Those of a step."""
    return [fault for fault in planted() if (fault.step, fault.dsl) == (step, dsl)]


def shown(fault: Fault) -> list[int]:
    """The lines of the broken kernel that a learner sees: the exercise, and whatever a fault of the step
    touches, so that none is given away by what is shown.
    """
    wanted = _wanted(fault.step, fault.dsl)
    there: set[int] = set()
    for kind, i, i_end, j, j_end in _differences(fault):
        if kind == "equal":
            there |= {j + line - i for line in range(i + 1, i_end + 1) if line in wanted}
        else:
            there |= set(range(j + 1, j_end + 1))
    return sorted(there)


@cache
def _wanted(step: str, dsl: str) -> frozenset[int]:
    """Lines of the bare solution that are shown of it."""
    lines = _lines(solution_path(step, dsl).read_text())
    core = {number for number, (_, asked) in enumerate(lines, 1) if asked}
    for fault in pool(step, dsl):
        for kind, i, i_end, _, _ in _differences(fault):
            core |= set(range(i, i_end + 2)) if kind != "equal" else set()
    around = {near for one in core for near in range(one - AROUND, one + AROUND + 1)}
    for before, after in pairwise(sorted(around)):
        if after - before <= NEAR:
            around |= set(range(before, after))
    return frozenset(around & set(range(1, len(lines) + 1)))


@cache
def _differences(fault: Fault) -> Sequence[tuple[str, int, int, int, int]]:
    """From the bare solution to the broken kernel, as difflib tells it."""
    right, broken = solution(fault.step, fault.dsl).splitlines(), source(fault).splitlines()
    return SequenceMatcher(None, right, broken, autojunk=False).get_opcodes()


def recorded() -> dict:
    """What the check says of each fault, by its name: ``{"provenance": {...}, "faults": {...}}``.

    Raises OSError and ValueError where the file cannot be read.
    """
    return json.loads(RECORDED.read_text())
