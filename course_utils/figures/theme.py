"""The course's colours by meaning, its letters, and a figure that a notebook shows without pyplot."""

from __future__ import annotations

import io

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from course_utils.grading.steps import DSL_NAMES

# ink and paper
INK, GREY = "#222222", "#6b6b6b"  # what is said, and what is said beside it
GRID, PALE, LANE, PAPER = "#e4e4e4", "#f1f1f1", "#f4f4f4", "#fbfbfb"  # grounds, darkest first
BLUE, GREEN, ORANGE, PURPLE = "#3b6fb6", "#2e8b57", "#e08a1e", "#8e5ba6"
TEAL = "#1f8a8a"  # a second consumer, beside the first one's green
RED = "#b3261e"  # a fault, and a wait that never ends

# what a warp does; a picture in the text uses the same
WORK = {"TMA load": BLUE, "wgmma": GREEN, "epilogue": ORANGE, "TMA store": PURPLE, "wait": "#b5b5b5"}

# a DSL's name and colour
DSLS = {dsl: (name, {"tilelang": BLUE, "cute": ORANGE}[dsl]) for dsl, name in DSL_NAMES.items()}
DSL_TEXT = {"tilelang": "#2f5c99", "cute": "#a65c00"}  # the same two, dark enough for small text on white

# the same meanings for a page, by name, on white and on dark; parities are grounds, so they stay pale
PAGE = {
    "ink": (INK, "#e8e8e8"),
    "grey": ("#5f5f5f", "#b4b4b4"),
    "grid": ("#cfcfcf", "#4a4d50"),
    "pale": ("#eef0f2", "#2b2f33"),
    "lane": (LANE, "#23272a"),
    "paper": ("#ffffff", "#191c1e"),
    "blue": (BLUE, "#6ea3ea"),
    "green": (GREEN, "#58bd86"),
    "orange": (ORANGE, "#f0a646"),
    "purple": (PURPLE, "#bf92d6"),
    "teal": (TEAL, "#4bbcbc"),
    "red": (RED, "#ff8278"),
    "wait": (WORK["wait"], "#74787c"),
    "even": ("#e6ebf3", "#2a3340"),
    "odd": ("#f6e7cf", "#443722"),
}

FONT = "DejaVu Sans"
STYLE = {"font.family": FONT, "font.size": 8, "text.color": INK, "axes.labelcolor": INK}
DPI = 160

# who holds an element: a thread has the colour of its number modulo eight, as CuTe's own pictures have
THREADS = (BLUE, ORANGE, GREEN, PURPLE, TEAL, RED, "#8a6d1d", GREY)


def tint(colour: str, share: float = 0.22) -> tuple[float, float, float]:
    """``share`` of ``colour`` on white: 1 is the colour itself. Opaque, so no line shines through."""
    return tuple(1 - share * (1 - channel) for channel in to_rgb(colour))


def variables(dark: bool) -> str:
    """``PAGE`` as CSS variables: "--ink: #222222; ..."."""
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in PAGE.items())


class Picture(Figure):
    """A matplotlib Figure, drawn by Agg, that JupyterLab shows as a PNG."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=DPI)
        return buffer.getvalue()
