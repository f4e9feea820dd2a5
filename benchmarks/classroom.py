"""Grade a generated class: how long it takes, how much memory, and whether a killed run changes a grade.

    python benchmarks/classroom.py --learners 60 --jobs 2 --out build/classroom.json
    python benchmarks/classroom.py --learners 2 --jobs 4 --backend gpu --kills --out build/classroom_gpu.json
    python benchmarks/classroom.py --learners 300 --jobs 16 --kills --out build/classroom_300.json

Each learner hands in the 20 steps: right (a solution with a comment of their own, so that no two are equal),
wrong (the step before, or a planted fault), unsolved (the cell as it was given) or hostile, as a notebook a
step or as Python files. The class is graded in one run, and once more in a run that is killed twice. Where a
machine is lent for less time than that takes, ``--work DIR --seconds S`` ends the run after S seconds; the
same again goes on, and the results have the sum.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import nbformat

from course_utils.classroom import reports, submissions
from course_utils.compile.faults import kernels
from course_utils.compile.load import solution_path, without_markers
from course_utils.grading import steps

ROOT = Path(__file__).parents[1]
EXERCISES = [f"{step}-{dsl}" for step in steps.STEPS if step not in steps.PAST for dsl in steps.DSL_NAMES]
KINDS = {"right": 0.5, "wrong": 0.25, "unsolved": 0.15, "hostile": 0.1}
HOSTILE = (
    "import os\nos._exit(0)",
    "while True: pass",
    "x = []\nwhile True: x.append(bytearray(1 << 26))",
    "import os\nwhile True: os.fork()",
    "from course_utils.grading import verdict\nverdict.Verdict.points = 15.0\ngemm = None",
    "import os\nwhile True: os.write(1, bytes(1 << 20))",
    "raise KeyboardInterrupt",
    "import ctypes\nctypes.string_at(0)",
)


def faults() -> dict[str, list[str]]:
    """Sources of planted faults by exercise."""
    found: dict[str, list[str]] = {}
    for dsl in steps.DSL_NAMES:
        for fault in kernels(dsl).values():
            found.setdefault(f"{fault.step}-{dsl}", []).append(fault.source())
    return found


def sources(draws: random.Random, learner: str, wrong: dict[str, list[str]], given: dict[str, str]) -> dict:
    """What one learner hands in: (kind, source) by exercise."""
    made = {}
    for exercise in EXERCISES:
        step, _, dsl = exercise.partition("-")
        (kind,) = draws.choices(list(KINDS), list(KINDS.values()))
        if kind == "right":
            text = without_markers(solution_path(step, dsl).read_text())
        elif kind == "wrong":
            text = draws.choice(wrong.get(exercise) or [_before(step, dsl)])
        else:
            text = given[exercise] if kind == "unsolved" else draws.choice(HOSTILE)
        made[exercise] = kind, f"{text}\n# {learner}\n"
    return made


def _before(step: str, dsl: str) -> str:
    """The solution of the step before; of the first, one that loads by TMA, which it must not."""
    names = list(steps.STEPS)
    at = names.index(step)
    return solution_path(names[at - 1 if at else 3], dsl).read_text()


def write(folder: Path, made: dict, notebook: bool) -> None:
    """One learner's folder."""
    folder.mkdir(parents=True)
    if not notebook:
        for exercise, (_, source) in made.items():
            (folder / f"{exercise.replace('-', '_')}.py").write_text(source)
        return
    book = nbformat.v4.new_notebook()
    for exercise, (_, source) in made.items():
        cell = nbformat.v4.new_code_cell(source)
        cell.metadata["nbgrader"] = {"grade_id": exercise}
        book.cells.append(cell)
    nbformat.write(book, folder / "ladder.ipynb")


def grade(folder: Path, out: Path, options: argparse.Namespace, kill_after: float | None = None) -> dict:
    """One run of the command: its exit code, and seconds by the clock. ``kill_after``: end it then, with all
    that it started. (What a sandbox's processes took of the processors is lost with their namespace.)
    """
    began = time.monotonic()
    command = [sys.executable, "-m", "course_utils.cli", "grade", str(folder), "--out", str(out)]
    command += ["--jobs", str(options.jobs), "--seed", "benchmark", "--backend", options.backend]
    command += ["--key", str(out.parent / "key")]  # the same draws for all runs
    run = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        code = run.wait(kill_after)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        code = run.wait()
    return {"code": code, "seconds": round(time.monotonic() - began, 1)}


def points(out: Path) -> dict[str, dict[str, str]]:
    """grades.csv by learner."""
    return {row.pop("learner"): row for row in _rows(out / "grades.csv")}


def _rows(table: Path) -> list[dict[str, str]]:
    with open(table, newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learners", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--backend", choices=("emulator", "gpu"), default="emulator")
    parser.add_argument("--kills", type=float, nargs="*", default=[0.2, 0.3], help="shares of the first run")
    parser.add_argument("--out", default="build/classroom.json")
    parser.add_argument("--work", type=Path, help="a folder that is kept, in which the next run goes on")
    parser.add_argument("--seconds", type=float, help="of one run; with --work")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="course-class-"))
    draws, given, wrong = random.Random(13), submissions.given(), faults()
    class_ = {
        f"learner{n:03d}": sources(draws, f"learner{n:03d}", wrong, given) for n in range(options.learners)
    }
    for number, (learner, made) in enumerate(class_.items()):
        if not (work / "class" / learner).exists():
            write(work / "class" / learner, made, notebook=number % 2 == 0)
    parts = work / "parts.json"
    ran = json.loads(parts.read_text()) if parts.exists() else []
    ran.append(grade(work / "class", work / "one", options, options.seconds if options.work else None))
    parts.write_text(json.dumps(ran))
    whole = {"code": ran[-1]["code"], "seconds": round(sum(run["seconds"] for run in ran), 1)}
    if whole["code"]:
        known = len(list((work / "one" / "ledger").glob("??/*.json")))
        text = f"{known} records after {whole['seconds']} s, exit code {whole['code']}"
        print(f"{text}; the same again goes on")
        sys.exit(1)
    print(report(options, work, class_, whole, [], None), flush=True)  # should the machine go away meanwhile
    if options.kills:
        shares = [*(share * whole["seconds"] for share in options.kills), None]
        killed = [grade(work / "class", work / "two", options, after) for after in shares]
        same = points(work / "two") == points(work / "one")
        print(report(options, work, class_, whole, killed, same))
    if not options.work:
        shutil.rmtree(work)


def report(
    options: argparse.Namespace, work: Path, class_: dict, whole: dict, killed: list, same: bool | None
) -> str:
    """Write down what is known so far; the text of it."""
    one = points(work / "one")
    records = [json.loads(path.read_text()) for path in (work / "one" / "ledger").glob("??/*.json")]
    kinds = Counter(kind for made in class_.values() for kind, _ in made.values())
    unexpected = [
        f"{learner} {exercise} {kind}: {one[learner].get(exercise, '')}"
        for learner, made in class_.items()
        for exercise, (kind, _) in made.items()
        if not _as_expected(kind, exercise, one[learner].get(exercise, ""), options.backend)
    ]
    results = {
        "learners": options.learners,
        "exercises": len(EXERCISES),
        "kinds": dict(kinds),
        "jobs": options.jobs,
        "backend": options.backend,
        "machine": {"processors": os.cpu_count(), "python": platform.python_version()},
        "date": time.strftime("%Y-%m-%d"),
        "run": whole,
        "killed": killed,
        "same_grades": same,
        "unexpected": unexpected,
        "findings": dict(Counter(row["kind"] for row in _rows(work / "one" / "findings.csv"))),
        "alike": [
            {name: row[name] for name in ("exercise", "basis", "sources", "forms of PTX")}
            for row in _rows(work / "one" / "alike.csv")
        ],
        "seconds_a_source": _quartiles([record["seconds"] for record in records]),
        "sandbox_seconds": _quartiles([record["sandbox"]["seconds"] for record in records]),
        "sandbox_memory_mb": _quartiles([record["sandbox"]["memory"] / 2**20 for record in records]),
    }
    text = json.dumps(results, indent=1)
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    Path(options.out).write_text(text + "\n")
    return text


def _as_expected(kind: str, exercise: str, got: str, backend: str) -> bool:
    """Right kernels have all their points, without a GPU but the tenth for speed; unsolved and hostile ones
    have none.
    """
    if got == reports.FAULT:
        return False
    row = steps.STEPS[exercise.partition("-")[0]]
    full = row.points * (0.9 if row.speed_floor and backend == "emulator" else 1.0)
    if kind == "wrong":
        return float(got or 0) < full
    return float(got or 0) == (full if kind == "right" else 0.0)


def _quartiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    at = {"least": 0.0, "quarter": 0.25, "half": 0.5, "three quarters": 0.75, "most": 1.0}
    return {name: round(ordered[int(share * (len(ordered) - 1))], 2) for name, share in at.items()}


if __name__ == "__main__":
    main()
