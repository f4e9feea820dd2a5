"""What an instructor takes away: grades as CSV, as Gradescope's results, in nbgrader's gradebook."""

from __future__ import annotations

import csv
import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_utils.classroom.similar import Group
from course_utils.classroom.submissions import NOTEBOOKS, OTHER_LANGUAGE, Submission
from course_utils.grading import steps
from course_utils.grading.levels import from_blank
from course_utils.grading.steps import EXERCISES, notebook_of
from course_utils.grading.verdict import OPEN

FAULT = "fault"  # a cell of grades.csv: no points follow from it
NOT_JUDGED = "handed in and not judged: the machine that graded failed"
# of findings, what to look at first
FAULTS, HIDDEN, ODD_FILES = "fault at each try", "hidden code", "files and cells"
KINDS = (FAULTS, HIDDEN, OTHER_LANGUAGE, ODD_FILES)
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet would compute


@dataclass(frozen=True)
class Graded:
    """A learner's submission with the ledger's records by exercise; None where one is not judged, for a fault
    of the machine.
    """

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
        """Exercises that were handed in and are not judged."""
        return [name for name, record in self.records.items() if record is None]


def points_of(record: dict | None) -> float:
    """The points of a record; none for what is not judged."""
    return round(float(record["verdict"]["points"]), 1) if record else 0.0


def worth(exercise: str) -> int:
    """What an exercise is worth at most."""
    return steps.points_of(exercise.partition("-")[0])


def handed_in(class_: Sequence[Graded]) -> list[str]:
    """The exercises that somebody wrote something of, in their order: of all that was handed in, those that
    are open for everybody do not count.
    """
    by_name: dict[str, list[dict | None]] = {}
    for one in class_:
        for name, record in one.records.items():
            by_name.setdefault(name, []).append(record)
    written = [name for name in EXERCISES if not all(map(_is_open, by_name.get(name, ())))]
    return written or [name for name in EXERCISES if name in by_name]


def _is_open(record: dict | None) -> bool:
    states = [part.get("state") for part in record["verdict"].get("checks", ())] if record else []
    return bool(states) and set(states) == {OPEN}


def write_csv(path: Path, class_: Sequence[Graded], exercises: Sequence[str] = EXERCISES) -> None:
    """One row per learner: the platform's id, the name under which the work came, points of each exercise,
    empty where nothing was handed in and ``FAULT`` where the machine failed; the sum; how many were right
    from a blank page; the sandbox; and how many findings there are about what was handed in.
    """
    with open(path, "w", newline="", errors="replace") as file:
        table = csv.writer(file)
        table.writerow(
            [
                *("learner", "id", "handed in as", *exercises),
                *("points", "of", "from blank", "not judged", "sandbox", "findings"),
            ]
        )
        for one in class_:
            cells = [_cell(one, name) for name in exercises]
            forms = sorted({record["entry"]["sandbox"] for record in one.records.values() if record})
            table.writerow(
                [
                    safe(one.learner),
                    safe(one.submission.id),
                    safe(", ".join(one.submission.handed_in)),
                    *cells,
                    f"{one.points:g}",
                    sum(map(worth, exercises)),
                    sum(from_blank(record["verdict"]) for record in one.records.values() if record),
                    len(one.missing),
                    " ".join(forms),
                    len(one.submission.findings) + len(one.submission.concerns),
                ]
            )


def safe(text: str) -> str:
    """Text as a spreadsheet shows it, and never computes it."""
    return f"'{text}" if text.startswith(FORMULA) else text


def _cell(one: Graded, exercise: str) -> str:
    if exercise not in one.records:
        return ""
    record = one.records[exercise]
    return f"{points_of(record):g}" if record else FAULT


def write_findings(path: Path, class_: Sequence[Graded]) -> Counter[str]:
    """One row per finding, those that a person has to look at first; how many there are of each kind."""
    rows = [
        (kind, one.learner, text)
        for one in class_
        for kind, text in (*one.submission.concerns, *((ODD_FILES, text) for text in one.submission.findings))
    ]
    rows.sort(key=lambda row: KINDS.index(row[0]))  # a learner's stay in their order
    with open(path, "w", newline="", errors="replace") as file:
        table = csv.writer(file)
        table.writerow(["kind", "learner", "finding"])
        table.writerows([kind, safe(learner), safe(text)] for kind, learner, text in rows)
    return Counter(kind for kind, _, _ in rows)


def write_alike(path: Path, groups: Sequence[Group]) -> None:
    """One row per group of sources that are alike: who is in it for what, and what the others have."""
    with open(path, "w", newline="", errors="replace") as file:
        table = csv.writer(file)
        table.writerow(
            [
                *("exercise", "basis", "sources", "who", "least share of runs", "forms of PTX"),
                *("other kernels", "their forms"),
            ]
        )
        for group in groups:
            who = "; ".join(f"{basis}: {', '.join(names)}" for basis, names in group.bases.items())
            first = next(iter(group.bases))
            share = "" if group.share is None else f"{group.share:.2f}"
            table.writerow(
                [group.exercise, first, len(group.members), safe(who), share, group.forms, *group.others]
            )


def write_gradescope(path: Path, one: Graded, exercises: Sequence[str] = EXERCISES) -> None:
    """One learner's ``results.json``, as Gradescope's autograder hands it on (its "Autograder
    Specifications"). An exercise that the machine failed at has no score.
    """
    tests = []
    for name in exercises:
        record = one.records.get(name)
        test = {
            "name": name,
            "score": points_of(record),
            "max_score": worth(name),
            "output": _told(record) if name in one.records else "not handed in",
            "output_format": "text",
        }
        if name in one.missing:
            del test["score"]
        tests.append(test)
    results = {"tests": tests, "score": round(one.points, 1), "output": "\n".join(one.submission.findings)}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=1), errors="replace")


def _told(record: dict | None) -> str:
    """What a learner reads of an exercise that was handed in."""
    if record is None:
        return NOT_JUDGED
    verdict = record["verdict"]
    if verdict["diagnosis"]:
        return verdict["diagnosis"]
    left = [f"{part['name']} ({part['detail']})" for part in verdict.get("checks", ()) if not part["passed"]]
    return f"all parts passed that were tried; not tried: {', '.join(left)}" if left else "all parts passed"


def write_gradebook(
    url: str, assignment: str, class_: Sequence[Graded], exercises: Sequence[str] = EXERCISES
) -> int:
    """Write the points of these exercises into nbgrader's gradebook through its API; returns how many grades
    were written.

    ``url`` is as nbgrader's ``CourseDirectory.db_url``, "sqlite:///gradebook.db". What is not judged is left
    as it is. Raises ImportError without nbgrader.
    """
    from nbgrader.api import Gradebook

    helpers = str(Path(sys.executable).parent)  # nbgrader calls alembic by its name
    os.environ["PATH"] = os.pathsep.join((helpers, os.environ.get("PATH", "")))
    notebooks = {path.stem.partition("_")[0]: path.stem for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
    number_of = {name: notebook_of(name.partition("-")[0]) for name in exercises}
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
                if record is None or name not in book_of:
                    continue
                grade = book.find_grade(f"{name}-check", book_of[name], assignment, one.learner)
                grade.auto_score = points_of(record)
                grade.needs_manual_grade = False
                count += 1
        book.db.commit()
    return count
