"""A picture of boxes in rows, as an SVG that takes its ink from the page around it, and as text."""

from __future__ import annotations

import html

from course_utils.drills.question import Cell, Picture

LINE, GAP, EDGE = 26, 4, 7  # pixels: of a row, between boxes, inside them
LETTER, BROAD = 7.4, 11.5  # pixels: of a letter at 13 px, of a broad one
LEAST = 32  # pixels, the narrowest box


def colours() -> dict[str, str]:
    """A look's colour. Raises ImportError where matplotlib is not, in which the course's colours are."""
    from course_utils.figures import theme

    return {
        "load": theme.WORK["TMA load"],
        "wgmma": theme.WORK["wgmma"],
        "store": theme.WORK["TMA store"],
        "wait": theme.WORK["wait"],
        "fault": theme.RED,
    }


def svg(picture: Picture, words: str) -> str:
    """The picture as an SVG; ``words`` for who cannot see it. Raises ImportError as ``colours`` does."""
    paint = colours()
    left = max((_length(row.label) for row in picture), default=0) + EDGE
    grid = _width([cell for row in picture if len(row.cells) > 1 for cell in row.cells])
    parts, width = [], left
    for number, row in enumerate(picture):
        top = number * (LINE + GAP) + GAP
        parts.append(f'<text x="0" y="{top + 18}" fill="currentColor">{html.escape(row.label)}</text>')
        at = left
        for cell in row.cells:
            wide = grid if len(row.cells) > 1 else _width([cell])
            parts.append(_box(cell, at, top, wide, paint))
            at += wide + GAP
        width = max(width, at)
    height = len(picture) * (LINE + GAP) + 2 * GAP
    return (
        f'<svg role="img" aria-label="{html.escape(words)}" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" style="max-width:100%;font:13px sans-serif">'
        f"{''.join(parts)}</svg>"
    )


def _length(words: str) -> float:
    return sum(BROAD if letter in "mwMW" else LETTER for letter in words)


def _width(cells: list[Cell]) -> float:
    """How wide boxes are that are all alike; a box that is alone in its row is as wide as its own words."""
    return max([LEAST, *(_length(cell.text) + 2 * EDGE for cell in cells)])


def _box(cell: Cell, x: float, y: float, width: float, paint: dict[str, str]) -> str:
    fill = f'fill="{paint[cell.look]}" fill-opacity="0.3"' if cell.look else 'fill="none"'
    stroke = "3" if cell.here else "1"
    faint = "" if cell.here else ' stroke-opacity="0.45"'
    bold = ' font-weight="bold"' if cell.here else ""
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LINE - 2}" rx="3" {fill} '
        f'stroke="currentColor" stroke-width="{stroke}"{faint}/>'
        f'<text x="{x + width / 2:.1f}" y="{y + 17}" text-anchor="middle" fill="currentColor"{bold}>'
        f"{html.escape(cell.text)}</text>"
    )


def text(picture: Picture) -> str:
    """The same for a terminal: what is marked stands in brackets."""
    label = max((len(row.label) for row in picture), default=0)
    columns = [cell for row in picture if len(row.cells) > 1 for cell in row.cells]
    wide = max((len(cell.text) for cell in columns), default=0)
    lines = []
    for row in picture:
        cells = [_marked(cell, wide if len(row.cells) > 1 else 0) for cell in row.cells]
        lines.append(f"  {row.label:{label}} {' '.join(cells)}".rstrip())
    return "\n".join(lines)


def _marked(cell: Cell, wide: int) -> str:
    words = cell.text.center(wide)
    return f"[{words}]" if cell.here else f" {words} "
