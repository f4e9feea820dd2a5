"""One HTML page a learner: points, what to look at first in each exercise, and what was odd in the files."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from course_utils.classroom.reports import NOT_JUDGED, Graded, points_of, worth
from course_utils.classroom.submissions import NOTEBOOKS
from course_utils.grading import steps
from course_utils.grading.steps import EXERCISES
from course_utils.grading.verdict import MAP

SYMPTOMS = "symptom_map.html"
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse }
td, th { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top }
td.points { text-align: right; white-space: nowrap } h2 { margin-top: 2.5rem; font-size: 1.15rem }
pre { white-space: pre-wrap } .odd { color: #7a4a00 } .faint { color: #666 }
"""


def write(path: Path, one: Graded, exercises: Sequence[str] = EXERCISES) -> None:
    """Write one learner's page. Whatever a learner wrote stands in it as text."""
    rows, parts = [], []
    for name in exercises:
        row = steps.row(name.partition("-")[0])
        title = f"{name}: {row.title}"
        if name not in one.records:
            rows.append(_row(html.escape(title), "not handed in", "faint"))
            continue
        record = one.records[name]
        if record is None:
            rows.append(_row(html.escape(title), NOT_JUDGED, "odd"))
            continue
        link = f"<a href='#{name}'>{html.escape(title)}</a>"
        rows.append(_row(link, f"{points_of(record):g} of {worth(name)}"))
        parts.append(f"<h2 id='{name}'>{html.escape(title)}</h2>\n{record['page'].replace(MAP, SYMPTOMS)}")
    odd = "".join(f"<li>{html.escape(text)}</li>" for text in one.submission.findings)
    odd = f"<h2>About your files</h2><ul class='odd'>{odd}</ul>" if odd else ""
    total = sum(map(worth, exercises))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>"
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">'
        f"<title>{html.escape(one.learner)}</title><style>{STYLE}</style></head><body>"
        f"<h1>{html.escape(one.learner)}: {one.points:g} of {total}</h1>"
        "<p class='faint'>Judged at sizes, inputs and schedules that were drawn for this class. "
        "Without a GPU nothing was timed, and the tenth for speed is not given.</p>"
        f"<table>{''.join(rows)}</table>{odd}{''.join(parts)}</body></html>\n",
        errors="replace",
    )


def _row(title: str, points: str, kind: str = "") -> str:
    return f"<tr class='{kind}'><td>{title}</td><td class='points'>{points}</td></tr>"


def write_symptoms(folder: Path) -> None:
    """The symptom map beside the pages, which their cards link to."""
    from nbconvert.filters import markdown2html

    text = markdown2html((NOTEBOOKS / MAP).read_text())
    (folder / SYMPTOMS).write_text(
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>The symptom map</title>"
        f"<style>{STYLE}</style></head><body>{text}</body></html>\n",
        errors="replace",
    )
