"""The course's colours by meaning, its letters, and a figure that a notebook shows without pyplot.

A hue means one thing everywhere: who works, or which DSL. Memories are grey, the farther from the tensor
cores the darker. ``tests/figures/test_theme.py`` holds that hues stay apart for colour-blind readers.
"""

from __future__ import annotations

import io
import re

import matplotlib
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from course_utils.grading.steps import DSL_NAMES

# ink and paper
INK, GREY = "#222222", "#5f5f5f"  # what is said, and what is said beside it; grey is also memory
GRID, PALE, LANE, PAPER = "#d9dbde", "#eef0f2", "#f4f4f4", "#ffffff"  # grounds, darkest first
CARD = "#f4f5f7"  # a picture's own ground: readable on any page, and no glare on a dark one

BLUE = "#3f86d6"  # loads, and the tiles of A and B; the producer
GREEN = "#35a862"  # wgmma and its sums; consumers
ORANGE = "#de8314"  # epilogue: what threads do with the sums
PURPLE = "#6d2399"  # TMA stores
TEAL = "#0b5a62"  # what orders: mbarriers, fences, waits
RED = "#b3201b"  # a fault, and a wait that never ends

# what a warp does; a picture in the text uses the same
WORK = {"TMA load": BLUE, "wgmma": GREEN, "epilogue": ORANGE, "TMA store": PURPLE, "wait": "#b5b5b5"}
# the share of GREY in a box that is a memory
MEMORY = {"global": 0.32, "L2": 0.24, "shared": 0.16, "registers": 0.05}

# a DSL's name and colour, and the same colour dark enough for small text
DSLS = {dsl: (name, {"tilelang": "#b83c83", "cute": "#969819"}[dsl]) for dsl, name in DSL_NAMES.items()}
MARKS = {"tilelang": "o", "cute": "s"}
DSL_TEXT = {"tilelang": "#a52f74", "cute": "#66680a"}

# the same meanings for a page, by name, in light and in dark; parities are grounds, so they stay pale
# fmt: off
PAGE = {
    "ink": (INK, "#ececec"), "grey": (GREY, "#b4b4b4"), "grid": (GRID, "#4a4d50"), "pale": (PALE, "#2b2f33"),
    "lane": (LANE, "#23272a"), "paper": (PAPER, "#15181a"), "card": (CARD, "#1d2023"),
    "blue": (BLUE, "#4a90e6"), "green": (GREEN, "#4fbf74"), "orange": (ORANGE, "#f0a646"),
    "purple": (PURPLE, "#d7abf8"), "teal": (TEAL, "#8ff0e0"), "red": (RED, "#ff6b60"),
    "wait": (WORK["wait"], "#74787c"), "even": ("#e6ebf3", "#2a3340"), "odd": ("#f6e7cf", "#443722"),
    "tilelang": (DSLS["tilelang"][1], "#f28fc4"), "cute": (DSLS["cute"][1], "#c9cc55"),
}
# fmt: on

# what words in a colour are written with, in light and in dark: the colour itself has too little contrast
TEXT = {BLUE: ("#1c5a9e", "#82b4f4"), GREEN: ("#17693a", "#6fce8e"), ORANGE: ("#8a4e00", "#f0a646")}

# words on a hue in full that is light by day: it is light in the dark too, so they are dark on either page
ON_HUE = ("#1c1c1c", "#15181a")

FONT = "DejaVu Sans"
STYLE = {"font.family": FONT, "font.size": 8, "text.color": INK, "axes.labelcolor": INK}
AXES = {"axes.facecolor": CARD, "axes.edgecolor": GREY, "xtick.color": GREY, "ytick.color": GREY}
DPI = 160

# who holds an element: a thread has the colour of its number modulo eight, as CuTe's own pictures have
THREADS = (BLUE, ORANGE, GREEN, PURPLE, TEAL, RED, "#8a6d1d", GREY)


def tint(colour: str, share: float = 0.22) -> tuple[float, float, float]:
    """``share`` of ``colour`` on white: 1 is the colour itself. Opaque, so no line shines through."""
    return _mix(PAPER, colour, share)


def night(colour: str) -> str:
    """What stands in the dark for a colour of a picture: of ``PAGE``, of words, or a tint of one of these.

    Raises ValueError for any other colour.
    """
    words = [*TEXT.values(), *((DSL_TEXT[dsl], PAGE[dsl][1]) for dsl in DSL_TEXT), ON_HUE]
    known = dict([*PAGE.values(), *words])
    if colour in known:
        return known[colour]
    paint = to_rgb(colour)
    for day, dark in known.items():
        away = [1 - channel for channel in to_rgb(day)]
        share = sum(a * (1 - p) for a, p in zip(away, paint, strict=True)) / (sum(a * a for a in away) or 1)
        near = tint(day, share)
        if share < 1.01 and max(abs(n - p) for n, p in zip(near, paint, strict=True)) < 0.005:
            # a little less of it than by day: light words stand on it
            return to_hex(_mix(PAGE["card"][1], dark, 0.75 * share))
    raise ValueError(f"{colour} is no colour of the theme, and no tint of one; take one from theme.py")


def variables(dark: bool) -> str:
    """``PAGE`` as CSS variables: "--ink: #222222; ..."."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in PAGE.items())


def _mix(ground: str, colour: str, share: float) -> tuple[float, float, float]:
    return tuple(g + share * (c - g) for g, c in zip(to_rgb(ground), to_rgb(colour), strict=True))


def svg(figure: Figure) -> str:
    """A figure as SVG text, the same each time: text as outlines, no date, fixed ids, light and dark.

    Raises ValueError for a colour that is not the theme's.
    """
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "course"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return _with_night("\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n")


def _with_night(text: str) -> str:
    """The same SVG, and what each of its colours becomes where the reader's scheme is dark.

    The colours stay where they are, so a viewer that knows no media query shows the light picture.
    """
    rules = []
    for what, colour in sorted(set(re.findall(r"(fill|stroke): (#[0-9a-f]{6})", text))):
        rules.append(f'[style*="{what}: {colour}"] {{{what}: {night(colour)} !important}}')
    for colour in sorted(set(re.findall(r'fill="(#[0-9a-f]{6})"', text))):  # the ground of a hatch
        rules.append(f'[fill="{colour}"] {{fill: {night(colour)}}}')
    style = "\n".join(["", "   @media (prefers-color-scheme: dark) {", *rules, "}"])
    return text.replace("</style>", f"{style}</style>", 1)
