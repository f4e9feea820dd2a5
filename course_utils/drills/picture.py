"""A picture of boxes in rows, as an SVG that takes its ink from the page around it, and as text."""

from __future__ import annotations

import html

from course_utils.drills.question import Cell, Picture

LETTER, LINE, GAP, EDGE = 7.3, 26, 4, 6  # pixels: of a letter at 13 px, of a row, between boxes, inside them
LEAST = 30  # pixels, the narrowest box


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
    left = max((len(row.label) for row in picture), default=0) * LETTER + EDGE
    parts, width = [], left
    for number, row in enumerate(picture):
        top = number * (LINE + GAP) + GAP
        parts.append(f'<text x="0" y="{top + 18}" fill="currentColor">{html.escape(row.label)}</text>')
        at = left
        for cell in row.cells:
            wide = _width(cell, picture)
            parts.append(_box(cell, at, top, wide, paint))
            at += wide + GAP
        width = max(width, at)
    height = len(picture) * (LINE + GAP) + 2 * GAP
    return (
        f'<svg role="img" aria-label="{html.escape(words)}" width="{width:.0f}" height="{height}" '
        f'viewBox="0 0 {width:.0f} {height}" style="max-width:100%;font:13px sans-serif">'
        f"{''.join(parts)}</svg>"
    )


def _width(cell: Cell, picture: Picture) -> float:
    """Boxes of a grid are as wide as its widest; those of a single column are as wide as their words."""
    grid = max(len(row.cells) for row in picture) > 1
    longest = max(len(other.text) for row in picture for other in row.cells) if grid else len(cell.text)
    return max(LEAST, longest * LETTER + 2 * EDGE)


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
    grid = max((len(row.cells) for row in picture), default=0) > 1
    wide = max((len(cell.text) for row in picture for cell in row.cells), default=0) if grid else 0
    lines = []
    for row in picture:
        cells = [_marked(cell, wide) for cell in row.cells]
        lines.append(f"  {row.label:{label}} {' '.join(cells)}".rstrip())
    return "\n".join(lines)


def _marked(cell: Cell, wide: int) -> str:
    words = cell.text.center(wide)
    return f"[{words}]" if cell.here else f" {words} "
