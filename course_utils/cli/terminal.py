"""What commands share at a terminal: plain lines, and a bar or a line while they work."""

from __future__ import annotations

import contextlib
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
STYLES = {
    r"^\S+  \S+  .*points": "bold",
    r"^  Look here first:": "bold yellow",
    r"^  passed\b": "green",
    r"^  failed\b": "red",
    r"^    Warning:": "yellow",
    r"^  (not run|not reached|stopped|open)\b": "dim",
    r"\bline \d+\b": "cyan",
}
_ROW = re.compile(r"  (?:passed|failed|not run|not reached|stopped|open) +\S.*?(?:\d s  |/\d+ {2,})")
_MAP = re.compile(r"^  (symptom_map\.md)(#\S+)$")


def say(console: Console, text: str) -> None:
    """Print a line as it is: no markup, no line breaks of ours."""
    console.print(text, markup=False, soft_wrap=True)


def show(console: Console, verdict: str, as_they_are: tuple[str, ...] = ()) -> None:
    """Print a verdict's text. A terminal gets it in colour, wrapped, and with the symptom map by a path that
    opens from here; a file or a pipe gets it as it is. Tables (``as_they_are``) are never wrapped.
    """
    if not console.is_terminal:
        say(console, verdict)
        return
    kept = {line.strip() for table in as_they_are for line in table.splitlines()}
    for line in verdict.splitlines():
        found = _MAP.match(line)
        if found and (page := NOTEBOOKS / found[1]).exists():
            text = Text(f"  {os.path.relpath(page)}{found[2]}", "cyan")
            text.stylize(f"link {page.as_uri()}{found[2]}", 2)
            console.print(text, soft_wrap=True)
            continue
        text = Text(line if line.strip() in kept else "\n".join(_wrapped(line, console.width)))
        for pattern, style in STYLES.items():
            text.highlight_regex(pattern, style)
        console.print(text, soft_wrap=True)


def _wrapped(line: str, width: int) -> list[str]:
    """A line of a verdict in lines of at most ``width`` columns, the later ones below its text."""
    if len(line) <= width:
        return [line]
    row = _ROW.match(line)
    head = row[0] if row and len(row[0]) < width // 2 + 10 else line[: len(line) - len(line.lstrip())]
    below = len(head) if row else len(head) + 2
    return textwrap.wrap(
        line[len(head) :],
        width,
        initial_indent=head,
        subsequent_indent=" " * below,
        break_long_words=False,
        break_on_hyphens=False,
    )


def bar(console: Console) -> Progress:
    """A bar that goes away when the work is done: what is being done, how much of how much, for how long."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


@contextlib.contextmanager
def at_work(console: Console, doing: str) -> Iterator[Callable[[str], None]]:
    """A line that says for how long and what is being done; it goes away at the end. Yields the function
    that changes its words. Where there is no terminal nothing is written.
    """
    with Progress(
        TimeElapsedColumn(),  # first: a long text is cut where a narrow terminal ends
        TextColumn("{task.description} ...", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task(doing, total=None)
        # shown at once: an import that follows may leave no other thread a turn
        yield lambda words: progress.update(task, description=words, refresh=True)
