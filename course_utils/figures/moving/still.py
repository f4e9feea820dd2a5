"""Rows of cells along steps: the still picture of a figure that moves, and what its script draws too."""

from __future__ import annotations

import html
from typing import NamedTuple

from course_utils.figures.theme import PAGE

WIDTH, LABEL, LINE, GAP, EDGE = 800, 150, 22, 3, 10  # pixels
LETTER = 7.2  # pixels of a letter at 12 px, about
GROUNDS = {"even", "odd", "pale", "lane", "paper"}  # colours that text stands on as they are


class Cell(NamedTuple):
    """Something that lasts from step ``begin`` to before ``end``; ``colour`` is a name of theme.PAGE."""

    begin: int
    end: int
    text: str
    colour: str


class Row(NamedTuple):
    """Cells side by side with words before them; without cells, a heading."""

    label: str
    cells: tuple[Cell, ...] = ()


def svg(title: str, rows: tuple[Row, ...], words: str) -> str:
    """The rows as an SVG on white, 800 pixels wide. ``words`` stand below, and are for who cannot see it."""
    columns = max(cell.end for row in rows for cell in row.cells)
    wide = (WIDTH - LABEL - 2 * EDGE) / columns
    parts, top = [_text(EDGE, 20, title, "bold")], 32
    for row in rows:
        parts.append(_text(EDGE, top + 15, row.label, "normal" if row.cells else "bold"))
        for cell in row.cells:
            left = EDGE + LABEL + cell.begin * wide
            parts.append(_cell(cell, left, top, (cell.end - cell.begin) * wide - 1))
        top += LINE + GAP
    for line in _lines(words, int((WIDTH - 2 * EDGE) / LETTER)):
        parts.append(_text(EDGE, top + 16, line, "normal", PAGE["grey"][0]))
        top += 17
    height = top + 14
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" role="img" aria-label="{html.escape(words, quote=True)}" font-size="12" '
        f'font-family="DejaVu Sans, Verdana, sans-serif">'
        f'<rect width="{WIDTH}" height="{height}" fill="{PAGE["paper"][0]}"/>{"".join(parts)}</svg>'
    )


def _cell(cell: Cell, left: float, top: float, wide: float) -> str:
    strong = 1 if cell.colour in GROUNDS else 0.42
    box = (
        f'<rect x="{left:.1f}" y="{top}" width="{wide:.1f}" height="{LINE}" rx="2" '
        f'fill="{PAGE[cell.colour][0]}" fill-opacity="{strong}"/>'
    )
    short = cell.text.split(", ")[0]
    tried = (cell.text, short, short.split(" ")[-1])
    fitting = [text for text in tried if len(text) * LETTER <= wide + 3]
    if not fitting:
        return box
    return box + _text(left + wide / 2, top + 15, fitting[0], "normal", anchor="middle")


def _text(
    x: float, y: float, text: str, weight: str, colour: str = PAGE["ink"][0], anchor: str = "start"
) -> str:
    style = f'fill="{colour}" text-anchor="{anchor}" font-weight="{weight}"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{html.escape(text)}</text>'


def _lines(words: str, most: int) -> list[str]:
    """The words in lines of at most so many letters."""
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) + 1 > most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
