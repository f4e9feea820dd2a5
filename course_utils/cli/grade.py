"""``course grade``: a class, from what was handed in to its grades."""

from __future__ import annotations

import contextlib
import csv
import os
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from course_utils.classroom import pages, reports, sandbox, similar, submissions, workshop
from course_utils.classroom.grading import Job, Settings, entry_of, jobs, judge_all, to_look_at
from course_utils.classroom.ledger import Ledger
from course_utils.classroom.reports import Graded
from course_utils.classroom.submissions import EXERCISES, Submission
from course_utils.cli import EXIT_NOT_ALL_TRIED, EXIT_USAGE
from course_utils.cli.terminal import bar, say
from course_utils.compile.errors import CompileError
from course_utils.compile.load import solution_path
from course_utils.grading import levels, steps

SEED_BYTES = 8
OWN = "step01"  # whose solutions are judged first


def grade(
    console: Console,
    folder: Path,
    out: Path,
    step: list[str] | None,
    backend: str,
    processes: int,
    shard: str,
    seed: str | None,
    level: str | None,
    key: Path | None,
    ray: bool,
    unsafe: bool,
    gradebook: str | None,
    assignment: str,
) -> int:
    """Judge what the ledger does not have, then write grades, pages and the report of what is alike."""
    wanted = [_known(name) for name in step or ()]
    part = _shard(shard)
    if processes < 1:
        raise ValueError(f"--jobs is how many judge at once, 1 or more; not {processes}")
    at_once = None if ray else processes
    given = _given_seed(seed)
    form = _form(unsafe, console)
    if not form:
        return EXIT_USAGE
    _hold_places(folder, out, key, form)
    class_ = submissions.read(folder)
    if out.resolve().parent == folder.resolve():  # of the run before
        class_ = [one for one in class_ if one.learner != out.name]
    out.mkdir(parents=True, exist_ok=True)
    if gradebook and part == (1, 1):
        _open_gradebook(gradebook, assignment)
    settings = Settings(out / "ledger", key, _seed(out, given), form, backend, level or "")
    todo = jobs(class_, settings, wanted, part)
    what = f"{len(class_)} learners, {len(todo)} sources to judge"
    say(console, f"{what}, seed {settings.seed}, sandbox: {form}")
    ledger = Ledger(settings.ledger, key)
    languages = {job.entry.exercise.partition("-")[2] for job in todo if ledger.read(job.entry) is None}
    if "tilelang" in languages:
        workshop.prepare()
    if problem := _problem(languages, settings, at_once):
        say(console, f"this machine cannot grade: {problem}. Nobody has been judged. See `course doctor`.")
        return EXIT_NOT_ALL_TRIED
    missing, faults = _judge(todo, settings, at_once, console)
    for text, times in Counter(faults).items():
        say(console, f"a fault of this machine, {times} times: {text}")
    if missing:
        say(console, f"{missing} sources are not judged yet: run this again")
    for job, text in to_look_at(todo, ledger).items():
        for one in class_:
            if one.sources.get(job.entry.exercise) == job.source:
                one.findings.append(text)
                say(console, f"{one.learner}: {text}")
    if part != (1, 1):
        say(console, "once every shard has run, the same without --shard writes the grades")
        return EXIT_NOT_ALL_TRIED if missing else 0
    graded = collect(class_, settings, wanted)
    exercises = [name for name in EXERCISES if not wanted or name.partition("-")[0] in wanted]
    _write(out, graded, exercises, settings.seed)
    _write_alike(out, class_, level)
    if gradebook:
        count = reports.write_gradebook(gradebook, assignment, graded)
        say(console, f"wrote {count} grades into {gradebook}")
    say(
        console,
        f"wrote {out / 'grades.csv'}, {out / 'feedback'}, {out / 'gradescope'} and {out / 'alike.csv'}",
    )
    if wanted:
        text = f"they hold {', '.join(dict.fromkeys(wanted))} alone; the same without --step writes all that "
        say(console, text + "is judged, and judges the rest")
    return EXIT_NOT_ALL_TRIED if missing else 0


def _problem(languages: set[str], settings: Settings, processes: int | None) -> str:
    """What is wrong with a solution of the course's own, judged here, in one of these languages; empty where
    nothing is. Compilers that do not fit each other would be zeros for a whole class.
    """
    ledger = Ledger(settings.ledger, settings.key)
    own = []
    for dsl in sorted(languages & steps.DSL_NAMES.keys()):
        source = solution_path(OWN, dsl).read_text()
        own.append(Job(entry_of(f"{OWN}-{dsl}", source, settings), source))
    told: list[str] = []

    def heard(job: Job, record: dict | None) -> None:
        which = f"the course's own solution of {job.entry.exercise}"
        if record is None:
            told.append(f"{which} could not be judged: {ledger.faults()[-1]['fault']}")
        elif not record["verdict"]["passed"]:
            told.append(f"{which} gets {record['verdict']['points']:g}: {record['verdict']['diagnosis']}")

    _judge_all(own, settings, processes, heard)
    return "; ".join(told)


def _judge_all(
    todo: Sequence[Job], settings: Settings, processes: int | None, done: Callable[[Job, dict | None], object]
) -> None:
    """Judge in so many processes of this machine, or, for None, as tasks of a Ray cluster."""
    if processes is None:
        from course_utils.classroom import on_ray

        on_ray.judge_all(todo, settings, done)
    else:
        judge_all(todo, settings, processes, done)


def _judge(
    todo: Sequence[Job], settings: Settings, processes: int | None, console: Console
) -> tuple[int, list[str]]:
    """Judge, with a bar of what is left. Returns how many were not judged, and this run's faults."""
    ledger = Ledger(settings.ledger, settings.key)
    before = len(ledger.faults())
    with bar(console) as progress:
        task = progress.add_task("judging", total=len(todo))

        missing = 0

        def done(job: Job, record: dict | None) -> None:
            nonlocal missing
            missing += record is None
            progress.update(task, advance=1, description=f"judging: {job.entry.exercise}")

        _judge_all(todo, settings, processes, done)
    return missing, [fault["fault"] for fault in ledger.faults()[before:]]


def collect(class_: Sequence[Submission], settings: Settings, wanted: Sequence[str]) -> list[Graded]:
    """Each learner with what the ledger has of the exercises that are wanted."""
    ledger = Ledger(settings.ledger, settings.key)
    known: dict[str, dict | None] = {}
    graded = []
    for one in class_:
        records = {}
        for exercise, source in one.sources.items():
            if not wanted or exercise.partition("-")[0] in wanted:
                entry = entry_of(exercise, source, settings)
                if entry.name not in known:
                    known[entry.name] = ledger.read(entry)
                record = records[exercise] = known[entry.name]
                if record and (note := record["sandbox"].get("note")):
                    one.findings.append(f"{exercise}: {note}")
        graded.append(Graded(one, records))
    return graded


def _write(out: Path, graded: Sequence[Graded], exercises: Sequence[str], seed: str) -> None:
    reports.write_csv(out / "grades.csv", graded, exercises)
    for one in graded:
        pages.write(out / "feedback" / f"{one.learner}.html", one, seed, exercises)
        reports.write_gradescope(out / "gradescope" / f"{one.learner}.json", one, exercises)
    pages.write_symptoms(out / "feedback")
    with open(out / "findings.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["learner", "finding"])
        for one in graded:
            table.writerows(
                [reports.safe(one.learner), reports.safe(text)] for text in one.submission.findings
            )


def _write_alike(out: Path, class_: Sequence[Submission], level: str | None) -> None:
    solutions = {}
    for exercise in EXERCISES:
        name, _, dsl = exercise.partition("-")
        try:
            solutions[exercise] = solution_path(name, dsl).read_text()
        except (CompileError, OSError):
            continue
    own = []  # who puts given lines in order writes what everybody writes
    for one in class_:
        written = {
            name: text for name, text in one.sources.items() if (level or levels.of_source(text)) != "order"
        }
        own.append(Submission(one.learner, written))
    with open(out / "alike.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["exercise", "one", "other", "share of the smaller one's own runs of tokens"])
        for pair in similar.pairs(own, solutions, submissions.given()):
            table.writerow([pair.exercise, reports.safe(pair.one), reports.safe(pair.other), pair.share])


def _known(name: str) -> str:
    try:
        steps.row(name)
    except KeyError:
        text = f"there is no step or case {name!r}; {steps.meant(name)}"
        raise ValueError(text.rstrip("; ")) from None
    return name


def _shard(text: str) -> tuple[int, int]:
    try:
        i, n = (int(part) for part in text.split("/"))
    except ValueError:
        i, n = 0, 0
    if not 1 <= i <= n:
        raise ValueError(f"a shard is i/n with i from 1 to n, as 2/8; not {text!r}")
    return i, n


def _hold_places(folder: Path, out: Path, key: Path | None, form: str) -> None:
    """Raises ValueError where grades would be written among what is read, or a submission could read them."""
    if out.resolve() == folder.resolve():
        raise ValueError(f"--out {out} is the folder of the class; name another one")
    for place in (folder, out, *([key] if key else [])):
        seen = sandbox.seen(place) if form != "unsafe" else None
        if seen:
            raise ValueError(
                f"{place} lies below {seen}, which a submission can read in its sandbox: move it to another "
                "folder, as one below /srv or a home is"
            )


def _open_gradebook(gradebook: str, assignment: str) -> None:
    """Raises ValueError where nbgrader's gradebook cannot be written: better now than after the judging."""
    try:
        reports.write_gradebook(gradebook, assignment, ())
    except ImportError:
        raise
    except Exception as error:  # SQLAlchemy's, alembic's and nbgrader's own
        text = str(error).partition("\n")[0]
        raise ValueError(f"--gradebook {gradebook} cannot be written: {text}") from error


def _form(unsafe: bool, console: Console) -> str:
    """The sandbox to grade in; "" where there is none and nobody asked for less."""
    if unsafe:
        say(console, f"--unsafe: these grades lack {sandbox.LACKS['unsafe']}. They are marked so.")
        return "unsafe"
    why = []
    for form in sandbox.FORMS[:-1]:
        problem = sandbox.problem(form)
        if not problem:
            return form
        why.append(f"{form}: {problem}")
    say(
        console,
        f"there is no sandbox here ({'; '.join(why)}). Install bubblewrap ({sandbox.GET['bubblewrap']}), or "
        "grade submissions that you trust with --unsafe. `course doctor` says more.",
    )
    return ""


def _given_seed(text: str | None) -> str:
    """The seed that was asked for, "" where none was. Raises ValueError for one of no characters."""
    if text is None:
        return ""
    if not text.strip() or not text.strip().isprintable():
        raise ValueError(f"--seed is a line of text, which nobody can guess; not {text!a}")
    return text.strip()


def _seed(out: Path, given: str) -> str:
    """The seed of this grading: the one given, else that of the run before, else a new one. The file is whole
    or not there, and of two runs that begin at once one makes it.
    """
    place = out / "seed"
    kept = _kept_seed(place)
    if kept and given in ("", kept):
        return kept
    descriptor, made = tempfile.mkstemp(dir=out, prefix=".seed-")
    try:
        seed = given or secrets.token_hex(SEED_BYTES)
        with open(descriptor, "w") as file:
            file.write(seed + "\n")
        try:
            if given:
                os.replace(made, place)
            else:
                os.link(made, place)
        except FileExistsError:
            if not _kept_seed(place):  # of a run that was killed while it wrote
                os.replace(made, place)
        return _kept_seed(place)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(made)


def _kept_seed(place: Path) -> str:
    return place.read_text(errors="replace").strip() if place.is_file() else ""
