"""What every figure that moves is wrapped in: its data, its colours on light and on dark, and the style and
script that all of them share (``shell.css``, ``shell.js``).

Each is one piece of HTML without anything from outside, in a shadow root, so that its style and the page's
stay apart. Where scripts do not run, the still picture is what is left of it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from functools import cache
from importlib.resources import files
from urllib.parse import quote

from course_utils.figures import theme

_HOLE = re.compile(r"\{\{(\w+)\}\}")
_PLAIN = " '/;=,()[]*+@!"  # of a data URI in quotes: a browser takes these as they are


def piece(template: str, data: dict, still: str, **parts: str) -> str:
    """A template of this folder with its holes filled: a figure as a piece of HTML that stands for itself.

    ``data`` is what its script draws, ``still`` what stands there without scripts, as HTML, and ``parts``
    are files of this folder by the name of their hole. No text in ``data`` can end the script or fill a hole.
    """
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    filled = {
        "KEY": hashlib.sha256(text.encode()).hexdigest()[:12],
        "STYLE": _fill(
            _text("shell.css"), {"LIGHT": theme.variables(dark=False), "DARK": theme.variables(dark=True)}
        ),
        "SCRIPT": _text("shell.js"),
        "STILL": still,
        "DATA": text,
        **{name: _text(path) for name, path in parts.items()},
    }
    return _fill(_text(template), filled)


def folded(figure: str, summary: str) -> str:
    """A piece of HTML below a line that opens it. The script stays outside: VS Code finds no text in a script
    that lies in a closed fold, and would not run it.
    """
    host, script, rest = figure.partition("<script>")
    return f"<details><summary>{html.escape(summary)}</summary>{host}</details>{script}{rest}"


def image(picture: bytes, kind: str, words: str) -> str:
    """A picture ("png", "svg+xml") as an HTML image that holds its own bytes."""
    source = f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
    if kind == "svg+xml":  # as text, which is shorter
        text = picture.decode().replace("\n", " ")
        text = text if "'" in text else text.replace('"', "'")
        source = f"data:image/{kind},{quote(text, _PLAIN)}"
    return f'<img alt="{html.escape(words, quote=True)}" style="max-width:100%" src="{source}">'


def _fill(template: str, filled: dict[str, str]) -> str:
    return _HOLE.sub(lambda hole: filled[hole[1]], template)


@cache
def _text(path: str) -> str:
    return (files("course_utils.figures") / path).read_text(encoding="utf-8")
