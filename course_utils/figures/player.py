"""The timeline that moves: an emulated launch to step through, as one piece of HTML without anything from
outside.

No library draws it: anywidget needs a kernel and an extension, so an exported page and the site would stand
still; Plotly brings 3 MB a page, and Vega-Lite 0.8 MB, for charts that step through no states. SVG and 250
lines of script do (``player.html``).
"""

from __future__ import annotations

import base64
import html
from functools import cached_property
from typing import TYPE_CHECKING

from course_utils.figures import shell

if TYPE_CHECKING:
    from course_utils.figures.picture import Picture

PICTURE_DPI = 100  # of the static picture: it is in each figure twice


class Player:
    """What ``replay`` made of a launch, as a notebook shows it.

    ``picture`` is the static picture, or None: then its words stand there.
    """

    def __init__(self, played: dict, picture: Picture | None = None) -> None:
        self.played, self.picture = played, picture

    def __repr__(self) -> str:
        return (
            f"Timeline of {self.played['title']}: {self.played['total']} steps\n{words(self.played)}".strip()
        )

    def html(self) -> str:
        """The figure as a piece of HTML that stands for itself."""
        return shell.piece("player.html", self.played, self._still())

    def _still(self) -> str:
        if not self._png:
            return f"<pre>{html.escape(words(self.played))}</pre>"
        return shell.image(self._png, "png", f"Timeline of {self.played['title']}")

    @cached_property
    def _png(self) -> bytes:
        """The static picture; of none, nothing."""
        return self.picture.png(PICTURE_DPI) if self.picture else b""

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        bundle = {"text/plain": repr(self), "text/html": self.html()}
        if self._png:
            bundle["image/png"] = base64.b64encode(self._png).decode()
        return bundle


def words(played: dict) -> str:
    """The fault in words: who waits for whom, or what was found; empty where there is none."""
    fault = played["fault"]
    if fault is None:
        return ""
    lines = [f"{fault['kind']}: {fault['text']}", *(f"  at {fault['place']}" if fault["place"] else "",)]
    for one in fault["chain"]:
        others = " and ".join(played["lanes"][lane]["name"] for lane in one["to"])
        lines.append(f"  {one['text']}" + (f" -> {others}" if others else ""))
    return "\n".join(filter(None, lines))
