"""``course grade``: a class, from what was handed in to its grades."""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from course_utils.chips import HOME
from course_utils.classroom import pages, reports, sandbox, similar, submissions, workshop
from course_utils.classroom.grading import Job, Settings, entry_of, jobs, judge_all, to_look_at
from course_utils.classroom.ledger import Ledger, naming
from course_utils.classroom.reports import Graded
from course_utils.classroom.similar import Group, Marks
from course_utils.classroom.submissions import EXERCISES, Submission
from course_utils.cli import EXIT_NOT_ALL_TRIED, EXIT_USAGE
from course_utils.cli.terminal import at_work, bar, say
from course_utils.compile.errors import CompileError
from course_utils.compile.load import solution_path
from course_utils.grading import steps

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
    wanted = _wanted(step or ())
    part = _shard(shard)
    if processes < 1:
        raise ValueError(f"--jobs is how many judge at once, 1 or more; not {processes}")
    at_once = None if ray else processes
    given = _given_seed(seed)
    form = _form(unsafe, console)
    if not form:
        return EXIT_USAGE
    _hold_places(folder, out, key, form)
    with at_work(console, "reading what was handed in") as tell:
        class_ = submissions.read(folder, lambda n: tell(f"reading what was handed in: {n} learners"))
    if out.resolve().parent == folder.resolve():  # of the run before
        class_ = [one for one in class_ if one.learner != out.name]
    out.mkdir(parents=True, exist_ok=True)
    if gradebook and part == (1, 1):
        _open_gradebook(gradebook, assignment)
    if part == (1, 1):  # before hours of judging: its packages may be missing
        with naming(out / "feedback") as place:
            place.mkdir(exist_ok=True)
            pages.write_symptoms(place)
    settings = Settings(out / "ledger", key, _seed(out, given), form, backend, level or "")
    todo = jobs(class_, settings, wanted, part)
    what = f"{len(class_)} learners, {len(todo)} sources to judge"
    say(console, f"{what}, seed {settings.seed}, sandbox: {form}")
    ledger = Ledger(settings.ledger, key)
    left = [job.entry.exercise for job in todo if ledger.read(job.entry) is None]
    languages = {exercise.partition("-")[2] for exercise in left}
    if "tilelang" in languages:
        workshop.prepare({steps.chip_of(exercise.partition("-")[0]) for exercise in left} | {HOME})
    with at_work(console, "judging the course's own solution of step 1"):
        problem = _problem(languages, settings, at_once)
    if problem:
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
                one.concerns.append((reports.FAULTS, text))
                say(console, f"{one.learner}: {text}")
    if part != (1, 1):
        say(console, "once every shard has run, the same without --shard writes the grades")
        return EXIT_NOT_ALL_TRIED if missing else 0
    graded = collect(class_, settings, wanted)
    exercises = wanted or reports.handed_in(graded)
    kinds = _write(out, graded, exercises)
    groups = _alike(graded, settings, at_once, console)
    with naming(out / "alike.csv") as place:
        reports.write_alike(place, groups)
    if gradebook:
        count = reports.write_gradebook(gradebook, assignment, graded, exercises)
        say(console, f"wrote {count} grades into {gradebook}")
    say(console, f"wrote {out / 'grades.csv'}, {out / 'feedback'} and {out / 'gradescope'}")
    points = sum(map(reports.worth, exercises))
    which = "--step named" if wanted else "somebody handed in"
    say(console, f"they hold what {which}: {_counted(len(exercises))} of {points} points")
    say(console, _first(out, kinds, groups))
    return EXIT_NOT_ALL_TRIED if missing else 0


def _counted(exercises: int) -> str:
    return f"{exercises} exercise{'s' * (exercises != 1)}"


def _first(out: Path, kinds: Counter[str], groups: Sequence[Group]) -> str:
    """What to look at first, in words: findings by kind, groups by what they are in it for."""
    bases = Counter(next(iter(group.bases)) for group in groups)
    found, alike = (
        ", ".join(f"{name} {counts[name]}" for name in names if counts[name]) or "none"
        for counts, names in ((kinds, reports.KINDS), (bases, similar.ORDER))
    )
    files = out / "findings.csv", out / "alike.csv"
    return f"Look first at {files[0]} (findings: {found}), then at {files[1]} (groups: {alike})"


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
            if not wanted or exercise in wanted:
                entry = entry_of(exercise, source, settings)
                if entry.name not in known:
                    known[entry.name] = ledger.read(entry)
                record = records[exercise] = known[entry.name]
                if record and (note := record["sandbox"].get("note")):
                    one.findings.append(f"{exercise}: {note}")
                if hidden := Marks.read(record).hidden:
                    one.concerns.append((reports.HIDDEN, f"{exercise} {hidden}"))
        graded.append(Graded(one, records))
    return graded


def _write(out: Path, graded: Sequence[Graded], exercises: Sequence[str]) -> Counter[str]:
    """Everything but what is alike; how many findings there are of each kind."""
    with naming(out / "grades.csv") as place:
        reports.write_csv(place, graded, exercises)
    for one in graded:
        with naming(out / "feedback" / f"{one.learner}.html") as place:
            pages.write(place, one, exercises)
        with naming(out / "gradescope" / f"{one.learner}.json") as place:
            reports.write_gradescope(place, one, exercises)
    with naming(out / "findings.csv") as place:
        return reports.write_findings(place, graded)


def _alike(
    graded: Sequence[Graded], settings: Settings, processes: int | None, console: Console
) -> list[Group]:
    """The groups of sources that are alike, also with the course's own, which are judged for that. Who puts
    given lines in order writes what everybody writes.
    """
    authors: dict[tuple[str, ...], list[Graded]] = {}
    for one in graded:
        authors.setdefault(one.submission.handed_in or (one.learner,), []).append(one)
    handed_in: dict[str, dict[str, Marks]] = {}
    for people in authors.values():
        name = " and ".join(one.learner for one in people)  # of one submission
        for exercise, record in people[0].records.items():
            if record and record.get("marks") and record["verdict"].get("level") != "order":
                handed_in.setdefault(exercise, {})[name] = Marks.read(record)
    own = [job for job in map(partial(_own, settings=settings), handed_in) if job]
    doing = f"judging {len(own)} solutions of the course's own, to compare with them"
    with at_work(console, doing) as tell:
        left = iter(range(len(own) - 1, -1, -1))
        _judge_all(own, settings, processes, lambda *_: tell(f"{doing}: {next(left, 0)} left"))
    ledger = Ledger(settings.ledger, settings.key)
    for job in own:
        if record := ledger.read(job.entry):
            handed_in[job.entry.exercise][similar.SOLUTION] = Marks.read(record)
    with at_work(console, "comparing") as tell:
        found = []
        for exercise, marks in sorted(handed_in.items()):
            tell(f"comparing {len(marks)} sources of {exercise}")
            found += similar.groups(exercise, marks)
    return sorted(found, key=lambda group: similar.ORDER.index(next(iter(group.bases))))


def _own(exercise: str, settings: Settings) -> Job | None:
    """The course's own solution of an exercise, to be judged; None where this checkout has none."""
    try:
        source = solution_path(*exercise.split("-")).read_text()
    except (CompileError, OSError):
        return None
    return Job(entry_of(exercise, source, settings), source)


def _wanted(named: Sequence[str]) -> list[str]:
    """The exercises that --step names, in their order: steps, cases, single exercises, or files that have
    some of these on each line. Raises ValueError.
    """
    parts = [part.strip() for text in named for part in text.split(",")]
    asked: set[str] = set()
    for part in parts:
        if _named(part) or not Path(part).is_file():
            asked.add(part)
        else:
            lines = Path(part).read_text(errors="replace").splitlines()
            asked.update(name for line in lines if (name := line.partition("#")[0].strip()))
    for name in sorted(asked):
        if not _named(name):
            text = f"there is no step or case {name!r}, and no file of that name, with steps one per line"
            raise ValueError("; ".join(filter(None, (text, steps.meant(name)))))
    if named and not asked:
        raise ValueError(f"--step {','.join(named)} names no step or case")
    return [name for name in EXERCISES if any(name in _named(one) for one in asked)]


def _named(name: str) -> list[str]:
    """The exercises of a step or case, or the one of this name."""
    return [one for one in EXERCISES if name in (one, one.partition("-")[0])]


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
        with naming(place), open(descriptor, "w") as file:
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
