"""The timeline that moves: an emulated launch to step through, as one piece of HTML without anything from
outside.

No library draws it: anywidget needs a kernel and an extension, so an exported page and the site would stand
still; Plotly brings 3 MB a page, and Vega-Lite 0.8 MB, for charts that step through no states. SVG and 250
lines of script do (``player.html``), in a shadow root, so that its style and the page's stay apart. Where
scripts do not run, the static picture is what is left of it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING

from course_utils.figures import theme

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURE_DPI = 100  # of the static picture: it is in each figure twice


class Player:
    """What ``replay`` made of a launch, as a notebook shows it.

    ``picture`` is the static picture, or None: then its words stand there.
    """

    def __init__(self, played: dict, picture: Figure | None = None) -> None:
        self.played, self.picture = played, picture

    def __repr__(self) -> str:
        return (
            f"Timeline of {self.played['title']}: {self.played['total']} steps\n{words(self.played)}".strip()
        )

    def html(self) -> str:
        """The figure as a piece of HTML that stands for itself."""
        data = json.dumps(self.played, separators=(",", ":"), ensure_ascii=False)
        for letter in "<>&\u2028\u2029":  # so that no text ends the script
            data = data.replace(letter, f"\\u{ord(letter):04x}")
        filled = {
            "KEY": hashlib.sha256(data.encode()).hexdigest()[:12],
            "LIGHT": theme.variables(dark=False),
            "DARK": theme.variables(dark=True),
            "PICTURE": self._still(),
            "DATA": data,
        }
        return re.sub(r"\{\{(\w+)\}\}", lambda hole: filled[hole[1]], _template())

    def _still(self) -> str:
        if self.picture is None:
            return f"<pre>{html.escape(words(self.played))}</pre>"
        image = base64.b64encode(self._png).decode()
        text = html.escape(f"Timeline of {self.played['title']}", quote=True)
        return f'<img alt="{text}" style="max-width:100%" src="data:image/png;base64,{image}">'

    @cached_property
    def _png(self) -> bytes:
        """The static picture; of none, nothing."""
        buffer = io.BytesIO()
        if self.picture is not None:
            self.picture.savefig(buffer, format="png", dpi=PICTURE_DPI, metadata={"Software": None})
        return buffer.getvalue()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        bundle = {"text/plain": repr(self), "text/html": self.html()}
        if self.picture is not None:
            bundle["image/png"] = base64.b64encode(self._png).decode()
        return bundle


@cache
def _template() -> str:
    return (files("course_utils.figures") / "player.html").read_text(encoding="utf-8")


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
