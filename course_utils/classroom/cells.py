"""A cell of a notebook as Python: without what only a notebook runs, and each line where it was.

A notebook takes lines that are no Python: %magics, !commands, a ? for help, prompts, a cell that is indented
as a whole. Nothing is run here, and a cell is read once from its top to its end.
"""

from __future__ import annotations

import ast
import builtins
import re
import symtable
import textwrap
import warnings
from collections.abc import Sequence
from functools import lru_cache

from course_utils.classroom.inside import IN_A_NOTEBOOK
from course_utils.compile.load import unified

ABOVE = 50_000  # characters of the cells above one that are looked through, the nearest first
NO_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)  # what parsing raises

# what a line begins with that no line of Python begins with (IPython.core.inputtransformer2)
_MAGIC = re.compile(r"[%!?]|[,;/]\S")
_ASSIGNED = re.compile(r"([\w.,\[\]\"' \t]+=)[ \t]*[%!](?!=)")
_TIMED = re.compile(r"%time[ \t]+(?=\S)")
_HELP = re.compile(r"[\w.*\[\]]+\?{1,2}[ \t]*(?:#.*)?$")
_END = {quote: re.compile(rf"(?:[^\\]|\\.)*?{quote}") for quote in ('"""', "'''")}  # of a string
_PROMPT = re.compile(r"^(?:>>>|\.\.\.)(?: |$)", re.M)
# the parts of a line that could hold an end of it: strings, comments, brackets, a line that goes on
_PART = re.compile(
    r'''("""|\'\'\')|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|\#.*|[(\[{]|[)\]}]|\\$|[^"'#()\[\]{}\\]+|\\.?'''
)


def python(source: str) -> tuple[str, list[str]]:
    """A cell as Python, and the lines that were left out of it."""
    text = unified(source)
    first = next((line for line in text.split("\n") if line.strip()), "")
    if first.startswith(">>>"):
        text = _PROMPT.sub("", text)
    elif first.startswith((" ", "\t")):
        text = textwrap.dedent(text)
    made: list[str] = []
    left_out: list[str] = []
    state = _State()
    goes_on = False  # a line that was left out
    for line in text.split("\n"):
        if goes_on:
            goes_on = line.endswith("\\")
            made.append(f"# {line}")
            continue
        body = line.lstrip()
        indent = line[: len(line) - len(body)]
        if state.is_start and (timed := _TIMED.match(body)):
            left_out.append(body.strip())
            line = indent + body[timed.end() :]
        elif state.is_start and (instead := _instead(body, indent)) is not None:
            left_out.append(body.strip())
            goes_on = line.endswith("\\")
            line = indent + instead
        state.read(line)
        made.append(line)
    return "\n".join(made), left_out


def with_names(source: str, above: Sequence[str]) -> tuple[str, list[str]]:
    """Python source with what it uses and does not define put in front, as the cells above define it, and
    the names of that.

    Only imports, assignments and definitions of functions are taken, in their order; of what is defined
    again, the last. Nothing is taken from the course's notebook functions, and no call of a check.
    """
    try:
        names = _free(source)
    except NO_PYTHON:
        return source, []
    statements = _statements(above) if names - set(dir(builtins)) - set(IN_A_NOTEBOOK) else []
    binding: dict[str, list[int]] = {}
    for at, statement in enumerate(statements):
        needs = _needs(statement)
        for name in _bound(statement):
            if name not in needs:
                binding[name] = []
            binding.setdefault(name, []).append(at)
    taken: set[int] = set()
    found: set[str] = set()
    waiting = sorted(names)
    while waiting:
        name = waiting.pop()
        if name in found or hasattr(builtins, name) and name not in binding or name in IN_A_NOTEBOOK:
            continue
        found.add(name)
        for at in binding.get(name) or binding.get("*", []):
            if at not in taken:
                taken.add(at)
                waiting += _written(statements[at])[1]
    front = "".join(f"{_written(statements[at])[0]}\n" for at in sorted(taken))
    made = {name for at in taken for name in _bound(statements[at])}
    lines = source.split("\n")
    first = max((one.end_lineno or 0 for one in ast.parse(source).body if _is_future(one)), default=0)
    return "\n".join([*lines[:first], front + "\n".join(lines[first:])]), sorted(made)


def _statements(above: Sequence[str]) -> list[ast.stmt]:
    """The statements of cells that define names, of the nearest cells."""
    made: list[ast.stmt] = []
    room = ABOVE
    for cell in reversed(above):
        room -= len(cell)
        if room < 0:
            break
        made[:0] = _definitions(cell)
    return made


@lru_cache(maxsize=256)  # the exercises of a notebook have most of the cells above them in common
def _definitions(cell: str) -> tuple[ast.stmt, ...]:
    """The statements of a cell that define names; none of one that is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(python(cell)[0]).body
        return tuple(one for one in body if _bound(one) and _is_readable(one))
    except NO_PYTHON:
        return ()


@lru_cache(maxsize=1 << 14)  # more than ABOVE has room for
def _written(statement: ast.stmt) -> tuple[str, frozenset[str]]:
    """A statement as text, and the names that it uses. Raises what parsing raises."""
    text = ast.unparse(statement)
    return text, frozenset(_free(text))


def _is_readable(statement: ast.stmt) -> bool:
    """Whether a statement can be written and read again, and calls no check."""
    _written(statement)
    called = {
        getattr(one.func, "id", getattr(one.func, "attr", ""))
        for one in ast.walk(statement)
        if isinstance(one, ast.Call)
    }
    return isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) or not called & set(IN_A_NOTEBOOK)


def _bound(statement: ast.stmt) -> list[str]:
    """The names that an import, an assignment or the definition of a function defines; "*" for all of a
    module.
    """
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [statement.name]
        case ast.ImportFrom(module=module) if module and module.startswith("course_utils.notebook"):
            return []
        case ast.Import() | ast.ImportFrom() if not _is_future(statement):
            return [one.asname or one.name.partition(".")[0] for one in statement.names]
        case ast.Assign(targets=targets):
            return _stored(targets)
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target, value=ast.expr()):
            return _stored([target])
    return []


def _stored(targets: Sequence[ast.expr]) -> list[str]:
    """Names that are assigned, and those of which a part is, as of ``sizes[0]``."""
    names = [one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)]
    return list(dict.fromkeys(names))


def _needs(statement: ast.stmt) -> set[str]:
    """The names that a statement defines and needs as they were before: x += 1, x = 2 * x, x[0] = 1; and the
    modules of which two parts are imported, or everything.
    """
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return set()
    if isinstance(statement, (ast.Import, ast.AugAssign)):
        return set(_bound(statement))
    loads = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return loads | {"*"}


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _free(source: str) -> set[str]:
    """The names that Python source uses and does not define. Raises what parsing raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        top = symtable.symtable(source, "cell", "exec")
    used: set[str] = set()
    defined: set[str] = set()
    tables = [top]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for one in table.get_symbols():
            if table is top or one.is_global():
                if one.is_referenced():
                    used.add(one.get_name())
                if one.is_assigned() or one.is_imported() or one.is_namespace():
                    defined.add(one.get_name())
    return used - defined


def _instead(body: str, indent: str) -> str | None:
    """What stands for a line that is no Python; None for one that may be."""
    if _MAGIC.match(body) or _HELP.match(body):
        return f"pass  # {body}" if indent else f"# {body}"
    if found := _ASSIGNED.match(body):
        return f"{found[1]} None  # {body[found.end(1) :].strip()}"
    return None


class _State:
    """Whether a line begins a statement: no string or bracket above it is open, and no line goes on."""

    def __init__(self) -> None:
        self._quote = ""
        self._depth = 0
        self._goes_on = False

    @property
    def is_start(self) -> bool:
        return not (self._quote or self._depth or self._goes_on)

    def read(self, line: str) -> None:
        at = 0
        self._goes_on = False
        while at < len(line):
            if self._quote:
                found = _END[self._quote].match(line, at)
                if not found:
                    return
                at, self._quote = found.end(), ""
                continue
            found = _PART.match(line, at)
            if not found:
                return
            part = found[0]
            self._quote = found[1] or ""
            self._depth = max(0, self._depth + (part in ("(", "[", "{")) - (part in (")", "]", "}")))
            self._goes_on = part == "\\" and found.end() == len(line)
            at = found.end()
