"""What an exercise gives a learner at each level, cut from the step's solution, so that the two cannot drift.

A solution marks what the learner is to write: ``### BEGIN SOLUTION: <the task>`` to ``### END SOLUTION``. At
level *write* the task is a comment, and ``raise NotImplementedError`` stands below it. At level *order* the
lines that go there stand between the two, shuffled, as comments. At level *blank* the kernel's whole body is
one such place, and what its check asks for stands above it.
"""

from __future__ import annotations

import ast
import hashlib
import io
import random
import re
import textwrap
import tokenize
from dataclasses import dataclass, field
from itertools import pairwise

from course_utils.compile.factory import OPEN
from course_utils.compile.load import BEGIN, END, solution_path
from course_utils.grading import conditions, steps, words

WIDTH = 96  # characters of a notebook's line
FEW, MANY = 5, 16  # statements of a shuffled list: at least, where there are so many, and at most


@dataclass
class Place:
    """Where a learner writes: its task, how far it is indented, and what the solution has there."""

    task: str
    indent: str
    lines: list[str] = field(default_factory=list)


def given(step_id: str, dsl: str, level: str = "write", seed: int = 0, solved: bool = False) -> str:
    """The source of an exercise's cell; with ``solved`` the solution stands between its markers.

    ``seed`` shuffles the lines of level "order". Raises ValueError for no level of it, and where the
    solution's markers do not pair up or name no task; CompileError where the checkout has no such solution.
    """
    if level not in list(steps.LEVELS):
        raise ValueError(f"there is no level {level!r}; there are {', '.join(steps.LEVELS)}")
    if level != "write" and step_id not in steps.LEVELLED:
        raise ValueError(f"{step_id} has no levels; these have: {', '.join(steps.LEVELLED)}")
    path = solution_path(step_id, dsl)
    source = path.read_text()
    if level == "blank":
        source = _blank(source)
    # the notebook's text stands for the docstring
    body = source.split("\n")[ast.parse(source).body[0].end_lineno :]
    parts = _parts(body, path.name)
    places = [part for part in parts if isinstance(part, Place)]
    lists = _lists(places, random.Random(f"{step_id} {dsl} {seed}")) if level == "order" else {}
    asked = [f"- {one}" for one in asked_for(step_id)] if level == "blank" else []
    lines = [f"# level: {level}"] if level != "write" else []
    number = 0
    for part in parts:
        if isinstance(part, str):
            lines.append(part)
            continue
        number += 1
        lines.append(f"{part.indent}# TODO {number}: {part.task}")
        if part.task == BODY:
            lines += _comment(part.indent, asked)
        lines += _comment(part.indent, lists.get(number, []), whole=True)
        if solved:
            lines += [part.indent + BEGIN, *part.lines, part.indent + END]
        else:
            lines.append(f'{part.indent}{OPEN}("TODO {number}")')
    if level == "write":
        return "\n".join(lines).strip()
    return f"{lines[0]}\n" + "\n".join(lines[1:]).strip()


def digest(source: str) -> str:
    """Says later whether a cell is still as it was given, or holds a learner's work."""
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def asked_for(step_id: str) -> list[str]:
    """What a step's check asks for, a phrase each: what is new in it, then what the step before it asked."""
    names = next((list(ladder) for ladder in steps.LADDERS if step_id in ladder), [])
    before = names[names.index(step_id) - 1] if step_id in names[1:] else ""
    known = steps.find(before).requires if before else ()
    found = []
    for name in sorted(steps.find(step_id).requires, key=lambda name: name in known):
        own = name == conditions.OWN
        needs = "barriers and fences of your own, wherever one is needed" if own else words.needs(name)
        found.append(re.split(r" \(|\. ", needs)[0])
    return found


def _parts(body: list[str], name: str) -> list[str | Place]:
    """The lines of a solution as they are given, and the places between them. ``name`` is its file's."""
    parts: list[str | Place] = []
    inside = None
    for line in body:
        indent, text = line[: len(line) - len(line.lstrip())], line.strip()
        if text.startswith(BEGIN):
            task = text.removeprefix(BEGIN).removeprefix(":").strip()
            if inside or not task:
                what = "a region inside a region" if inside else "a region without a task"
                raise ValueError(f"{name}: {what}: {text}")
            inside = Place(task, indent)
            parts.append(inside)
        elif text == END:
            if not inside:
                raise ValueError(f"{name}: {END} without {BEGIN}")
            inside = None
        elif inside:
            inside.lines.append(line)
        else:
            parts.append(line)
    if inside:
        raise ValueError(f"{name}: a region does not end")
    if not any(isinstance(part, Place) for part in parts):
        raise ValueError(f"{name}: no region is marked as the exercise")
    return parts


# -- order


def pieces(place: Place) -> list[str]:
    """The statements of a place, with the comments above each, as far indented as inside the place. The head
    of a loop or a branch is one of its own, but for one with a comment: that is about what it does, so its
    first statement stays with it. Blank lines are none.
    """
    lines = textwrap.dedent("\n".join(place.lines)).split("\n")
    found, begins = [], 0
    for token in tokenize.generate_tokens(io.StringIO("\n".join(lines) + "\n").readline):
        if token.type == tokenize.NEWLINE:
            found.append([line for line in lines[begins : token.end[0]] if line.strip()])
            begins = token.end[0]
    found[-1] += [line for line in lines[begins:] if line.strip()]
    for at in range(len(found) - 2, -1, -1):
        head = found[at]
        if head[0].lstrip().startswith("#") and head[-1].partition("#")[0].rstrip().endswith(":"):
            head += found.pop(at + 1)
    return ["\n".join(piece) for piece in found]


def _lists(places: list[Place], order: random.Random) -> dict[int, list[str]]:
    """The shuffled lists as lines of comments, by the number of the place that each stands at. A place of a
    few lines shares the list of the next one, and the last of them that of the one before; many lines come in
    several lists, one after the other.
    """
    groups: list[list[int]] = [[]]
    own = [pieces(place) for place in places]
    for number in range(len(places)):
        if sum(len(own[one]) for one in groups[-1]) >= FEW:
            groups.append([])
        groups[-1].append(number)
    if len(groups) > 1 and sum(len(own[one]) for one in groups[-1]) < FEW:
        rest = groups.pop()
        groups[-1] += rest
    lists = {}
    for group in groups:
        right = [piece for number in group for piece in own[number]]
        count = -(-len(right) // MANY)
        cuts = [len(right) * at // count for at in range(count + 1)]
        numbers = [str(number + 1) for number in group]
        where = f", for TODO {', '.join(numbers[:-1])} and {numbers[-1]}" if len(group) > 1 else ""
        listed = [f"These lines, in a different order{where}:"]
        for begin, end in pairwise(cuts):
            listed += ["Then these:"] * (begin > 0) + _shuffled(right[begin:end], order)
        lists[group[0] + 1] = listed
    return lists


def _shuffled(right: list[str], order: random.Random) -> list[str]:
    """The statements in another order than they came in."""
    mixed = list(right)
    order.shuffle(mixed)
    return mixed if mixed != right else [*mixed[1:], *mixed[:1]]


# -- blank

BODY = "the kernel's body. Its check requires:"


def _blank(source: str) -> str:
    """The solution with its kernel's whole body as one place; the places outside of it stay."""
    lines = source.split("\n")
    first, last = _body(ast.parse(source), lines)
    indent = lines[first][: len(lines[first]) - len(lines[first].lstrip())]
    inside = [line for line in lines[first:last] if not line.strip().startswith((BEGIN, END))]
    body = [f"{indent}{BEGIN}: {BODY}", *inside, indent + END]
    return "\n".join([*lines[:first], *body, *lines[last:]])


def _body(tree: ast.Module, lines: list[str]) -> tuple[int, int]:
    """Where the body of the kernel begins and ends, as a slice of the lines: what is below ``T.Kernel`` or in
    the function that ``cute.kernel`` decorates, with its comments.
    """
    node = next(found for one in ast.walk(tree) if (found := _kernel(one)))
    first, last = node.body[0].lineno - 1, node.end_lineno or node.lineno
    while lines[first - 1].strip().startswith("#"):
        first -= 1
    margin = node.body[0].col_offset
    while last < len(lines) and re.match(rf" {{{margin}}}\s*#", lines[last]):
        last += 1
    return first, last


def _kernel(node: ast.AST) -> ast.With | ast.FunctionDef | None:
    """The node, where it holds a kernel's body."""
    if isinstance(node, ast.With):
        is_kernel = re.match(r"T\.\w*Kernel\(", ast.unparse(node.items[0].context_expr))
        return node if is_kernel else None
    if isinstance(node, ast.FunctionDef):
        return node if any(ast.unparse(one) == "cute.kernel" for one in node.decorator_list) else None
    return None


def _comment(indent: str, texts: list[str], whole: bool = False) -> list[str]:
    """Texts as comments; ``whole``: with the line ends that they have."""
    lines = []
    for text in texts:
        broken = (
            text.split("\n")
            if whole
            else textwrap.wrap(text, WIDTH - len(indent) - 2, subsequent_indent="  ")
        )
        lines += [f"{indent}# {line}" for line in broken]
    return lines
