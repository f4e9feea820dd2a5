"""What commands share at a terminal: plain lines, and a bar or a line while they work."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def say(console: Console, text: str) -> None:
    """Print a line as it is: no markup, no line breaks of ours."""
    console.print(text, markup=False, soft_wrap=True)


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
