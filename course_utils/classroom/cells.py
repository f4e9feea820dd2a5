"""A cell of a notebook as Python: without what only a notebook runs, and each line where it was.

A notebook takes lines that are no Python: %magics, !commands, a ? for help, prompts, a cell that is indented
as a whole. Nothing is run here, and a cell is read once from its top to its end.
"""

from __future__ import annotations

import re
import textwrap

from course_utils.compile.load import unified

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
