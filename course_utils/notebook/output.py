"""What a cell shows: words and tables, as HTML if the front end can show it, otherwise as text. Until the
answer is there, its place in the output says what is being done.
"""

from __future__ import annotations

import contextlib
import html
from collections.abc import Iterable, Iterator

from IPython import get_ipython
from IPython.core.displaypub import DisplayPublisher
from IPython.display import display

from course_utils.compile.errors import CompileError
from course_utils.drills.show import Shown
from course_utils.figures.moving import Moving
from course_utils.figures.moving import moving as figure_that_moves
from course_utils.grading.verdict import as_html
from course_utils.run import client

_CELL = "padding:2px 10px;text-align:left;vertical-align:top"


class Place:
    """One place in a cell's output: what is being done, until an answer takes its place."""

    def __init__(self, doing: str) -> None:
        self.doing = doing
        self._handle = display(paragraph(f"{doing} ..."), display_id=True)
        shell = get_ipython()  # at a plain prompt nothing is replaced: each update would be printed below
        self._replaces = self._handle is not None and type(shell.display_pub) is not DisplayPublisher

    def status(self, doing: str) -> None:
        """Say what is being done now."""
        self.doing = doing
        self.update(paragraph(f"{doing} ..."))

    def update(self, so_far: object) -> None:
        """Show what there is so far, if the front end can replace it later."""
        if self._replaces:
            self._handle.update(so_far)

    def finish(self, answer: object) -> None:
        """Show the answer: the first one in this place, others below."""
        if self._handle is None:  # no notebook around us, or the place is taken
            display(answer)
        else:
            self._handle.update(answer)
        self._handle, self._replaces = None, False


@contextlib.contextmanager
def at_work(doing: str, failed: str, not_compiled: str = "") -> Iterator[Place]:
    """A place that says what is being done, and in words why it failed or was stopped. Raises nothing.

    ``failed`` begins the sentence of a failure, ``not_compiled`` that of a kernel that does not compile.
    """
    place = Place(doing)
    try:
        yield place
    except KeyboardInterrupt:
        client.close_all()  # so that the next call starts clean
        place.finish(paragraph(f"You stopped this ({place.doing}). Run the cell again to repeat it."))
    except CompileError as error:
        place.finish(paragraph(f"{not_compiled or failed}: {error}"))
    except Exception as error:
        place.finish(paragraph(f"{failed}: {type(error).__name__}: {error}"))


def say(text: str) -> None:
    """Show a paragraph."""
    display(paragraph(text))


def paragraph(text: str) -> Shown:
    """Text, with what stands between backticks as code."""
    return Shown(text, lambda: f"<p>{as_html(text)}</p>".replace("\n", "<br>"))


def folded(title: str, text: str) -> str:
    """HTML that folds a text away below its title, and shows it as it is."""
    return f"<details><summary>{title}</summary><pre>{html.escape(text)}</pre></details>"


def tabled(head: list[str], rows: list[list[str]]) -> Shown:
    """A table: HTML in JupyterLab, columns of text elsewhere."""

    def line(cells: list[str], tag: str) -> str:
        columns = (
            f"<{tag} style='{_CELL}{';white-space:nowrap' * (i == 0)}'>{as_html(cell)}</{tag}>"
            for i, cell in enumerate(cells)
        )
        return f"<tr>{''.join(columns)}</tr>"

    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    text = "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in [head, *rows])
    markup = line(head, "th") + "".join(line(row, "td") for row in rows)
    return Shown(text, lambda: f"<table>{markup}</table>")


def by(size: Iterable[int]) -> str:
    """ "256 x 768 x 320"."""
    return " x ".join(map(str, size))


def table(head: Iterable[object], rows: Iterable[Iterable[object]]) -> None:
    """Show what a cell has computed: rows, each as long as ``head``. Raises nothing."""
    with at_work("computing", "The table cannot be shown") as place:
        made = [[f"{cell:,}" if type(cell) is int else str(cell) for cell in row] for row in rows]
        place.finish(tabled([str(cell) for cell in head], made))


def moving(name: str, **options: object) -> Moving | Shown:
    """A figure that moves, or why there is none: see ``figures.moving.moving``. Raises nothing."""
    try:
        return figure_that_moves(name, **options)
    except (ValueError, TypeError) as error:
        return paragraph(str(error))
