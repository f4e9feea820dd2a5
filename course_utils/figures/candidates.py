"""What was tried for step 11, one thing at a time: what each was worth, and why."""

from __future__ import annotations

import html
from math import prod

from course_utils.grading.steps import DSL_NAMES

NOISE = 0.005  # of a share of cuBLAS: two runs of one kernel differ by that
FEWEST = 3  # names at a size, for it to be a column of its own


def markup(head: list[str], rows: list[list[str]]) -> str:
    """The table as HTML: why stands below the last row of what it is about."""
    around, soft = "padding:2px 10px;text-align:left", "padding:0 10px 8px;text-align:left;opacity:0.75"
    lines = [_line("th", head[:-1], around)]
    for place, row in enumerate(rows):
        lines.append(_line("td", row[:-1], around))
        if place + 1 == len(rows) or rows[place + 1][0] != row[0]:
            why = html.escape(row[-1])
            lines.append(f"<tr><td colspan='{len(head) - 1}' style='{soft}'>{why}</td></tr>")
    return f"<table>{''.join(lines)}</table>"


def _line(tag: str, cells: list[str], style: str) -> str:
    inside = "".join(f"<{tag} style='{style}'>{html.escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inside}</tr>"


def table(recorded: dict) -> tuple[list[str], list[list[str]]]:
    """The head, and a row for each thing that was tried in each DSL, of ``measured.load("tried")``: by how
    much the share of cuBLAS grew at each size, what that comes to, and why.
    """
    entries = recorded["entries"]
    names: dict[str, set[str]] = {}  # by place: a size and a mode
    for entry in entries:
        for at in entry["gains"]:
            names.setdefault(at, set()).add(entry["name"])
    kept = [at for at, some in names.items() if len(some) >= FEWEST or at.endswith("sustained")]
    places = sorted(kept, key=lambda at: (prod(_size(at)), at.endswith("sustained")))
    head = ["tried", "DSL", *map(_place, places), "so it", "why"]
    return head, [
        [
            *(entry["name"], DSL_NAMES[entry["dsl"]]),
            *(f"{gains[at]:+.1%}" if at in gains else "" for at in places),
            *(outcome([gains[at] for at in places if at in gains]), entry["why"]),
        ]
        for entry in entries
        if set(places) & set(gains := entry["gains"]) or not gains
    ]


def outcome(gains: list[float]) -> str:
    """In a word or two; a gain or a loss within ``NOISE`` is none, and without any it was not timed."""
    if not gains:
        return "not timed"
    won, lost = max(gains) > NOISE, min(gains) < -NOISE
    if won and lost:
        return "wins here, loses there"
    return "wins" if won else "loses" if lost else "changes nothing"


def _size(place: str) -> list[int]:
    return [int(side) for side in place.partition(" ")[0].split("x")]


def _place(place: str) -> str:
    M, N, K = _size(place)
    name = str(M) if M == N == K else f"{M} x {N} x {K}"
    return f"{name}, hot" if place.endswith("sustained") else name
