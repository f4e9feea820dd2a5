"""A picture on the course's card, as a notebook shows it: light or dark as the page is."""

import hashlib
import io
import re

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from course_utils.figures import shell
from course_utils.figures.theme import CARD, DPI, GREY, GRID, svg

SMALL = 80  # dpi of the PNG that a saved notebook holds, for pages that show no HTML
COLOURS = 64  # of that PNG
_PLACES = r"(?<=[1-9])(\.\d\d)\d+"  # of a number from 1 on: scales are smaller


class Picture(Figure):
    """A matplotlib Figure on the course's card, drawn by Agg. A notebook shows it as an SVG that is light or
    dark as the page is, and where HTML cannot be shown as a PNG.
    """

    def __init__(self, *args, **options):
        super().__init__(*args, **{"facecolor": CARD} | options)
        FigureCanvasAgg(self)

    def headline(self, text: str, left: float = 0.1) -> None:
        """The picture's name above it, ``left`` inches from its edge."""
        width, height = self.get_size_inches()
        self.text(left / width, 1 - 0.14 / height, text, size=11, weight="bold", va="top")

    def nothing(self, text: str) -> "Picture":
        """The picture with these words alone, where there is nothing to draw."""
        self.text(0.1 / self.get_figwidth(), 0.5, text, size=9, color=GREY, va="center")
        return self

    def footer(self, text: str, left: float = 0.1) -> None:
        """Where the figures come from, in lines below the picture."""
        width, height = self.get_size_inches()
        how = {"size": 7, "color": GREY, "linespacing": 1.35, "parse_math": False}
        self.text(left / width, 0.1 / height, text, va="bottom", **how)

    def key(self, handles: list, left: float, top: float, loc: str = "upper left", **how: object) -> None:
        """A legend in one row, whose corner ``loc`` lies ``left`` and ``top`` inches from the picture's."""
        width, height = self.get_size_inches()
        corner = left / width, 1 - top / height
        how = {"ncols": len(handles), "frameon": False, "borderaxespad": 0, "borderpad": 0} | how
        self.legend(handles=handles, loc=loc, bbox_to_anchor=corner, **how)

    def _repr_html_(self) -> str:
        words = next((one.get_text() for one in self.texts), "") or "A picture"
        drawn = _small(svg(self))
        key = hashlib.sha256(drawn.encode()).hexdigest()
        return shell.piece("picture.html", {"key": key}, shell.image(drawn.encode(), "svg+xml", words))

    def png(self, dpi: int = DPI) -> bytes:
        """The picture as a PNG, the same each time."""
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
        return buffer.getvalue()

    def _repr_png_(self) -> bytes:
        from PIL import Image  # which matplotlib brings

        small = io.BytesIO()
        with Image.open(io.BytesIO(self.png(SMALL))) as drawn:
            drawn.convert("RGB").quantize(COLOURS).save(small, "PNG", optimize=True)
        return small.getvalue()


def _small(text: str) -> str:
    """The same picture in fewer characters: an SVG without indentation, comments, names of groups and groups
    of nothing, with short names of letters, and with hundredths of a point.
    """
    text = re.sub(r"\n\s+", "\n", re.sub(r"<!-- .*? -->", "", text))
    text = re.sub(r'<g id="[^"]*"(/?)>', r"<g\1>", text).replace("<g/>\n", "")
    for short, name in enumerate(sorted(set(re.findall(r'<path id="([^"]*)"', text)), key=len, reverse=True)):
        text = text.replace(f'id="{name}"', f'id="{short}"').replace(f'"#{name}"', f'"#{short}"')
    text = re.sub(r'<use xlink:href="(#\d+)"(?: transform="translate\((\S+) 0\)")?/>', _letter, text)
    return re.sub(r' (?:d|transform|x|y)="[^"]*', lambda one: re.sub(_PLACES, r"\1", one[0]), text)


def _letter(use: re.Match) -> str:
    """A letter at ``x`` of its word, in hundredths of its size."""
    return f'<use href="{use[1]}"' + (f' x="{float(use[2]):.0f}"' if use[2] else "") + "/>"


def bare(axes: Axes, grid: str = "", left: bool = True) -> None:
    """Axes without ticks and without a frame above and right of them, with faint lines along ``grid``."""
    axes.spines[["top", "right"] if left else ["top", "right", "left"]].set_visible(False)
    axes.tick_params(length=0)
    if grid:
        axes.grid(axis=grid, color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)


def origin(where: dict) -> str:
    """Where recorded figures come from, of a file's provenance."""
    return f"recorded on {where.get('gpu')}, {where.get('date')}, driver {where.get('driver')}"
