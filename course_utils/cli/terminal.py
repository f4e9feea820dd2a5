"""What commands share at a terminal: plain lines, and a bar while they work."""

from __future__ import annotations

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
