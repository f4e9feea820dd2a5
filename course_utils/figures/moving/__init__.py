"""Figures of the text that move, with real numbers in them: a Python module makes the numbers of each, and a
script of the same name draws them.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from inspect import signature

FIGURES = ("first_screen", "multicast", "phases", "ring", "swizzle", "waves")


class Moving:
    """A figure as a notebook shows it: HTML that moves, and a still picture."""

    def __init__(self, name: str, data: dict) -> None:
        self.name, self.data = name, data

    def __repr__(self) -> str:
        return f"{self.data['title']}. {self.data['words']}"

    def svg(self) -> str:
        """The still picture."""
        from course_utils.figures.moving import still

        return still.svg(self.data["title"], self.data["rows"], self.data["words"])

    def html(self) -> str:
        """The figure as a piece of HTML that stands for itself."""
        from course_utils.figures import shell

        picture = shell.image(self.svg().encode(), "svg+xml", repr(self))
        script = f"moving/{self.name}.js"
        return shell.piece("moving/moving.html", {"name": self.name, **self.data}, picture, FIGURE=script)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        return {"text/plain": repr(self), "text/html": self.html(), "image/svg+xml": self.svg()}


def moving(name: str, **options: object) -> Moving:
    """A figure that moves: "first_screen", "multicast", "phases", "ring", "swizzle" or "waves".

    ``options`` say where it begins: see ``figure`` in its module. Raises ValueError for a name that is not
    there and for a value that does not fit, TypeError for an option that it has not; each says what there is.
    """
    if name not in FIGURES:
        close = get_close_matches(str(name), FIGURES, 1)
        meant = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"There is no moving figure {name!r}.{meant} There are: {', '.join(FIGURES)}.")
    made = import_module(f"course_utils.figures.moving.{name}").figure
    there = list(signature(made).parameters)
    if unknown := [option for option in options if option not in there]:
        takes = f"takes {', '.join(there)}" if there else "takes no option"
        raise TypeError(f'moving("{name}") {takes}, not {unknown[0]!r}')
    return Moving(name, made(**options))
