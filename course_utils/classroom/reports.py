"""What an instructor takes away: grades as CSV, as Gradescope's results, in nbgrader's gradebook."""

from __future__ import annotations

import csv
import json
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_utils.classroom.submissions import NOTEBOOKS, Submission
from course_utils.grading import steps
from course_utils.grading.levels import from_blank
from course_utils.grading.steps import EXERCISES, notebook_of

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet would compute


@dataclass(frozen=True)
class Graded:
    """A learner's submission with the ledger's records by exercise; None where one is not judged yet."""

    submission: Submission
    records: dict[str, dict | None]

    @property
    def learner(self) -> str:
        return self.submission.learner

    @property
    def points(self) -> float:
        return sum(points_of(record) for record in self.records.values())

    @property
    def missing(self) -> list[str]:
        """Exercises that were handed in and are not judged yet."""
        return [name for name, record in self.records.items() if record is None]


def points_of(record: dict | None) -> float:
    """The points of a record; none for what is not judged."""
    return round(float(record["verdict"]["points"]), 1) if record else 0.0


def worth(exercise: str) -> int:
    """What an exercise is worth at most."""
    return steps.points_of(exercise.partition("-")[0])


def write_csv(path: Path, class_: Sequence[Graded], exercises: Sequence[str] = EXERCISES) -> None:
    """One row a learner: points of each exercise, empty where nothing was handed in or judged; the sum; how
    many were right from a blank page; the sandbox, where it was none; and how many findings there are about
    what was handed in.
    """
    with open(path, "w", newline="", errors="replace") as file:
        table = csv.writer(file)
        table.writerow(
            ["learner", *exercises, "points", "of", "from blank", "not judged", "sandbox", "findings"]
        )
        for one in class_:
            cells = [_number(one.records.get(name)) for name in exercises]
            forms = sorted({record["entry"]["sandbox"] for record in one.records.values() if record})
            table.writerow(
                [
                    safe(one.learner),
                    *cells,
                    f"{one.points:g}",
                    sum(map(worth, exercises)),
                    sum(from_blank(record["verdict"]) for record in one.records.values() if record),
                    len(one.missing),
                    " ".join(forms),
                    len(one.submission.findings),
                ]
            )


def safe(text: str) -> str:
    """Text as a spreadsheet shows it, and never computes it."""
    return f"'{text}" if text.startswith(FORMULA) else text


def _number(record: dict | None) -> str:
    return f"{points_of(record):g}" if record else ""


def write_gradescope(path: Path, one: Graded, exercises: Sequence[str] = EXERCISES) -> None:
    """One learner's ``results.json``, as Gradescope's autograder hands it on (its "Autograder
    Specifications").
    """
    tests = []
    for name in exercises:
        record = one.records.get(name)
        tests.append(
            {
                "name": name,
                "score": points_of(record),
                "max_score": worth(name),
                "output": _told(record) if name in one.records else "not handed in",
                "output_format": "text",
            }
        )
    results = {"tests": tests, "score": round(one.points, 1), "output": "\n".join(one.submission.findings)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1), errors="replace")


def _told(record: dict | None) -> str:
    """What a learner reads of an exercise that was handed in."""
    if record is None:
        return "handed in, and not judged yet"
    verdict = record["verdict"]
    if verdict["diagnosis"]:
        return verdict["diagnosis"]
    left = [f"{part['name']} ({part['detail']})" for part in verdict.get("checks", ()) if not part["passed"]]
    return f"all parts passed that were tried; not tried: {', '.join(left)}" if left else "all parts passed"


def write_gradebook(url: str, assignment: str, class_: Sequence[Graded]) -> int:
    """Write the points into nbgrader's gradebook through its API; returns how many grades were written.

    ``url`` is as nbgrader's ``CourseDirectory.db_url``, "sqlite:///gradebook.db". What is not judged is left
    as it is. Raises ImportError without nbgrader.
    """
    from nbgrader.api import Gradebook

    helpers = str(Path(sys.executable).parent)  # nbgrader calls alembic by its name
    os.environ["PATH"] = os.pathsep.join((helpers, os.environ.get("PATH", "")))
    notebooks = {path.stem.partition("_")[0]: path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    number_of = {name: notebook_of(name.partition("-")[0]) for name in EXERCISES}
    book_of = {name: notebooks.get(number, f"{number}_exercises") for name, number in number_of.items()}
    count = 0
    with warnings.catch_warnings(), Gradebook(url) as book:
        warnings.simplefilter("ignore")  # SQLAlchemy's, of nbgrader's own queries
        book.update_or_create_assignment(assignment)
        for notebook in sorted(set(book_of.values())):
            book.update_or_create_notebook(notebook, assignment)
        for name, notebook in book_of.items():
            book.update_or_create_grade_cell(
                f"{name}-check", notebook, assignment, max_score=worth(name), cell_type="code"
            )
        for one in class_:
            book.update_or_create_student(one.learner)
            book.update_or_create_submission(assignment, one.learner)
            for name, record in one.records.items():
                if record is None:
                    continue
                grade = book.find_grade(f"{name}-check", book_of[name], assignment, one.learner)
                grade.auto_score = points_of(record)
                grade.needs_manual_grade = False
                count += 1
        book.db.commit()
    return count
