"""Every picture of the notebooks: words large enough, apart from each other and from lines, arrows that go
round boxes, and colours that can be read by day and by night.
"""

import re
from functools import cache
from itertools import combinations

import pytest
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from authoring import drawings, sync
from authoring.drawings import canvas
from course_utils.figures import theme
from tests.figures.colour import contrast

PICTURES = drawings.all_pictures()
FILES = sorted((sync.NOTEBOOKS / "images").glob("*.svg"))
every_picture = pytest.mark.parametrize("name", PICTURES)


def _is_box(artist):
    return isinstance(artist, FancyBboxPatch | Rectangle)


class Parts:
    """A figure's words, boxes and lines, in pixels of its own."""

    def __init__(self, figure):
        renderer = figure.canvas.get_renderer()
        figure.draw(renderer)
        size = figure.bbox
        self.ground = size
        shown = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
        self.texts = [(t, t.get_window_extent(renderer)) for t in shown]
        self.texts = [(t, box) for t, box in self.texts if box.x1 > 0 and box.y1 > 0]
        self.boxes = [(p, p.get_window_extent(renderer)) for p in figure.findobj(_is_box)]
        lines = [line for line in figure.findobj(Line2D) if line.get_linestyle() != "None"]
        self.lines = [self._points(line) for line in lines if line.get_visible()]
        pointing = [a for a in figure.findobj(FancyArrowPatch) if a.get_gid() != "measure"]
        self.arrows = [self._points(arrow) for arrow in pointing]

    @staticmethod
    def _points(artist):
        if isinstance(artist, Line2D):
            return artist.get_transform().transform(artist.get_xydata())
        start, end = artist._posA_posB
        return artist.axes.transData.transform([start, end])


@cache
def parts(name: str) -> Parts:
    return Parts(PICTURES[name]())


def shrunk(box, by):
    return Bbox.from_extents(box.x0 + by, box.y0 + by, box.x1 - by, box.y1 - by)


def overlap(one, other):
    return min(one.x1, other.x1) > max(one.x0, other.x0) and min(one.y1, other.y1) > max(one.y0, other.y0)


def inside(inner, outer):
    return outer.x0 <= inner.x0 and inner.x1 <= outer.x1 and outer.y0 <= inner.y0 and inner.y1 <= outer.y1


def along(points, step=3.0):
    """Points on a line of straight pieces, ``step`` pixels apart."""
    for (x0, y0), (x1, y1) in zip(points, points[1:], strict=False):
        count = max(int(((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 / step), 1)
        for i in range(count + 1):
            yield x0 + (x1 - x0) * i / count, y0 + (y1 - y0) * i / count


def in_box(point, box):
    return box.x0 < point[0] < box.x1 and box.y0 < point[1] < box.y1


def goes_through(points, box):
    low, high = points.min(axis=0), points.max(axis=0)
    if low[0] > box.x1 or high[0] < box.x0 or low[1] > box.y1 or high[1] < box.y0:
        return False
    return any(in_box(point, box) for point in along(points))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_words_are_12_pixels_high_where_the_picture_is_800_wide(path):
    text = path.read_text()
    width = float(re.search(r'viewBox="0 0 ([\d.]+) ', text)[1])
    # letters are outlines of 100 units, so a scale of 0.105 is a font of 10.5
    sizes = {float(scale) * 100 for scale in re.findall(r"scale\(([\d.]+) -[\d.]+\)", text)}
    assert sizes and min(sizes) * 800 / width >= 12, sizes


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_colour_has_one_for_the_night(path):
    style, drawn = path.read_text().split("</style>", 1)
    rules = re.findall(r"\[([^]]+)\] \{(?:fill|stroke): (#[0-9a-f]{6})", style)
    known = {colour for selector, _ in rules for colour in re.findall("#[0-9a-f]{6}", selector)}
    assert "@media (prefers-color-scheme: dark)" in style
    assert set(re.findall("#[0-9a-f]{6}", drawn)) == known


@every_picture
def test_words_lie_on_the_sheet_and_apart(name):
    drawn = parts(name)
    texts = [(text.get_text(), shrunk(box, 1)) for text, box in drawn.texts]
    assert [words for words, box in texts if not inside(box, shrunk(drawn.ground, 4))] == []
    both = [(a, b) for (a, one), (b, other) in combinations(texts, 2) if overlap(one, other)]
    assert both == []


@every_picture
def test_no_edge_or_line_goes_through_words(name):
    drawn = parts(name)
    for text, place in drawn.texts:
        if text.get_bbox_patch():
            continue
        box = shrunk(place, 1.5)
        edges = [(p, edge) for p, edge in drawn.boxes if p.get_linewidth() > 0]
        cut = [p for p, edge in edges if overlap(box, edge) and not inside(box, edge)]
        assert cut == [], (text.get_text(), cut)
        for line in drawn.lines + drawn.arrows:
            assert not goes_through(line, box), (text.get_text(), line)


@every_picture
def test_no_arrow_goes_through_a_box(name):
    drawn = parts(name)
    solid = [(p, shrunk(box, 5)) for p, box in drawn.boxes if isinstance(p, FancyBboxPatch)]
    for line in drawn.arrows:
        for patch, box in solid:
            if not in_box(line[0], box) and not in_box(line[-1], box):
                assert not goes_through(line, box), (line, patch)


@every_picture
def test_every_arrow_begins_and_ends_at_something(name):
    drawn = parts(name)
    things = [box for p, box in drawn.boxes if box.width < 0.98 * drawn.ground.width]
    things += [box for _, box in drawn.texts]
    near = [shrunk(box, -22) for box in things]
    corners = [tuple(point) for line in drawn.lines for point in line]  # of an arrow that goes round
    for line in drawn.arrows:
        for end in (line[0], line[-1]):
            assert tuple(end) in corners or any(in_box(end, box) for box in near), line


@every_picture
def test_words_can_be_read_by_day_and_by_night(name):
    drawn = parts(name)
    for text, place in drawn.texts:
        centre = ((place.x0 + place.x1) / 2, (place.y0 + place.y1) / 2)
        under = [p for p, box in drawn.boxes if in_box(centre, box) and p.get_facecolor()[3] > 0]
        ground = max(under, key=lambda p: p.get_zorder()).get_facecolor() if under else theme.CARD
        words, ground = to_hex(text.get_color()), to_hex(ground)
        assert contrast(words, ground) >= 4.5, (text.get_text(), words, ground)
        dark = theme.night(words), theme.night(ground)
        assert contrast(*dark) >= 4.5, (text.get_text(), dark)


def test_a_colour_that_no_theme_knows_is_refused():
    def draw():
        figure, axes = canvas.sheet(1)
        axes.plot([1, 2], [0.5, 0.5], color="#12ff34")
        return figure

    with pytest.raises(ValueError, match="#12ff34 is no colour of the theme"):
        theme.svg(draw())


def test_a_picture_has_both_schemes_and_no_slab_behind_its_card():
    text = theme.svg(PICTURES["step04_one_phase"]())
    assert "@media (prefers-color-scheme: dark)" in text
    assert f"fill: {theme.CARD}" in text and "fill: #000000" not in text
    assert f'[style*="fill: {theme.CARD}"] {{fill: {theme.PAGE["card"][1]} !important}}' in text
