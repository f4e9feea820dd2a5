"""A whole class: which exercises are to be judged, by how many processes, and what is known already.

Equal sources are judged once. Each job is a process's own: it takes a source, asks the sandbox and the
judge, and writes the ledger; a job that dies takes its process along and is tried again.
"""

from __future__ import annotations

import html
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from course_utils.classroom import ledger as ledgers
from course_utils.classroom.ledger import Entry, Ledger
from course_utils.classroom.submissions import Submission
from course_utils.compile.child import end_with
from course_utils.run import client, protocol
from course_utils.run.client import ONE_THREAD

if TYPE_CHECKING:
    from course_utils.classroom.judge import Judged

PAGE_LIMIT = 1 << 20  # characters of one verdict as HTML; a right one has 10,000
LIST_LIMIT, TEXT_LIMIT = 200, 20_000  # entries of a list in a record, characters of a text
TRIES = 3  # of one exercise in one run, where the machine is at fault; the last one with nothing beside it


@dataclass(frozen=True)
class Job:
    """One source to judge as one exercise."""

    entry: Entry
    source: str


@dataclass(frozen=True)
class Settings:
    """How a class is graded: the ledger's folder and key, the seed, the sandbox's form, the backend, and the
    level of the steps' exercises, "" where each source names its own.
    """

    ledger: Path
    key: Path | None
    seed: str
    form: str
    backend: str = "emulator"
    level: str = ""


def jobs(
    class_: Sequence[Submission],
    settings: Settings,
    wanted: Sequence[str] = (),
    shard: tuple[int, int] = (1, 1),
) -> list[Job]:
    """Each source of the class once, in the order of the exercises; ``wanted`` are exercises, none for all.
    ``shard`` (i, n) takes those of the i-th of n parts, the same ones everywhere.
    """
    found: dict[str, Job] = {}
    for submission in class_:
        for exercise, source in sorted(submission.sources.items()):
            if wanted and exercise not in wanted:
                continue
            entry = entry_of(exercise, source, settings)
            if int(entry.name, 16) % shard[1] == shard[0] - 1:
                found.setdefault(entry.name, Job(entry, source))
    return sorted(found.values(), key=lambda job: (job.entry.exercise, job.entry.name))


def entry_of(exercise: str, source: str, settings: Settings) -> Entry:
    """What the ledger calls this source's judgement."""
    known = ledgers.digest(source), exercise, settings.seed, settings.backend, settings.form
    return Entry(*known, ledgers.checker(), settings.level)


def unknown(todo: Sequence[Job], ledger: Ledger, done: Callable[[Job, dict | None], object]) -> list[Job]:
    """Those of the jobs that the ledger does not have; ``done`` hears of the others."""
    left = []
    for job in todo:
        if record := ledger.read(job.entry):
            done(job, record)
        else:
            left.append(job)
    return left


def judge_all(
    todo: Sequence[Job], settings: Settings, processes: int, done: Callable[[Job, dict | None], object]
) -> None:
    """Judge what the ledger does not have yet. ``done`` hears of each job: its record, or None for a fault.

    Raises OSError where the ledger cannot be written.
    """
    ledger = Ledger(settings.ledger, settings.key)
    left = [(job, TRIES - 1) for job in unknown(todo, ledger, done)]
    suspects: list[Job] = []
    while left:
        again = list(_round(left, ledger, settings, processes, done))
        suspects += [job for job, tries in again if not tries]
        left = [(job, tries) for job, tries in again if tries]
    for job in suspects:
        done(job, _alone(job, ledger, settings))


def _alone(job: Job, ledger: Ledger, settings: Settings) -> dict | None:
    """Judge once more, with nothing beside it. Where the machine is at fault again, but not at a solution of
    the course's right afterwards, the fault is this source's own: it gets nothing, in words. None where the
    machine is at fault at both.
    """
    records: list[dict | None] = []

    def done(_: Job, record: dict | None) -> None:
        records.append(record)

    for one in (job, _solution(job, settings)):
        failed = list(_round([(one, 1)], ledger, settings, 1, done))
        if one is job and not failed:
            return records[0]
        if one is not job and failed:
            return None
    return _own_fault(job, ledger, settings)


def _solution(job: Job, settings: Settings) -> Job:
    """The course's own solution of the same exercise, or of step 1 where it has none."""
    from course_utils.compile.errors import CompileError
    from course_utils.compile.load import solution_path

    exercise = job.entry.exercise
    name, _, dsl = exercise.partition("-")
    try:
        source = solution_path(name, dsl).read_text()
    except CompileError:
        exercise = f"step01-{dsl}"
        source = solution_path("step01", dsl).read_text()
    return Job(entry_of(exercise, source, settings), source)


def _own_fault(job: Job, ledger: Ledger, settings: Settings) -> dict:
    """Write down that the faults at this source are its own: its record."""
    from course_utils.classroom.judge import Judged, nothing
    from course_utils.classroom.workshop import cut

    entry = job.entry
    fault = next(one["fault"] for one in reversed(ledger.faults()) if one["entry"] == asdict(entry))
    fault = cut(" ".join(fault.split()), 200)
    text = (
        f"this could not be judged in {TRIES} tries, the last one with nothing beside it, while the course's "
        f"own solution was. So that counts as a fault of this source: {fault}"
    )
    note = (
        f"0 points, as {TRIES} faults came with this source alone; look at it. The last one was: {fault}. "
        f"Remove {entry.name}.json from the ledger, and the next run judges it again"
    )
    name, _, dsl = entry.exercise.partition("-")
    verdict = nothing(name, dsl, settings.backend, text)
    return _written(job, Judged(verdict, 0.0, 0, note), settings, time.monotonic())


def _round(
    left: list[tuple[Job, int]],
    ledger: Ledger,
    settings: Settings,
    processes: int,
    done: Callable[[Job, dict | None], object],
) -> Iterator[tuple[Job, int]]:
    """Judge these; yields those at which the machine was at fault, and how many tries they have left."""
    waiting = iter(left)
    with pool(processes) as executor:
        running: dict[Future, tuple[Job, int]] = {}
        broken = False
        try:
            while True:
                while not broken and len(running) < processes and (item := next(waiting, None)):
                    running[executor.submit(judge_one, item[0], settings)] = item
                if not running:
                    break
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    job, tries = running.pop(future)
                    try:
                        record, fault = future.result()
                    except BrokenProcessPool:
                        record, fault, broken = None, "the process that judged it died", True
                    if record is None:
                        ledger.fault(job.entry, fault)
                        yield job, tries - 1
                    else:
                        done(job, record)
        except KeyboardInterrupt:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
    yield from waiting  # of a pool that broke


def pool(processes: int) -> ProcessPoolExecutor:
    """Fresh processes to judge in, each of which computes in one thread: a core is a process's. They end with
    this process, also when it is killed, and their emulators and sandboxes with them.
    """
    return ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), _begin)


def _begin() -> None:
    """In a process of the pool, before it imports what would start a thread for each core: it ends with its
    parent, and its workers with it, whatever they are at. A parent that ended before is told by its pipe.
    """
    os.environ.update(ONE_THREAD)
    end_with(os.getppid())
    parent = multiprocessing.parent_process()
    assert parent is not None  # this is a child
    protocol.end_with_peer(parent.sentinel)
    client.EMULATORS = 1  # each core has a judge
    client.COMMAND = (sys.executable, "-P", "-m", "course_utils.classroom.worker", str(os.getpid()))


def to_look_at(todo: Sequence[Job], ledger: Ledger) -> dict[Job, str]:
    """Sources at which machines were at fault again and again, while others were judged: with a sentence.

    What a submission does to its machine can look like a fault of it. That is no zero, and nothing to pass
    over either: a person looks at these.
    """
    left = [job for job in todo if ledger.read(job.entry) is None]
    judged = len(todo) - len(left)
    faults: dict[str, list[str]] = {}
    for told in ledger.faults():
        faults.setdefault(json.dumps(told["entry"], sort_keys=True), []).append(told["fault"])
    found = {job: faults.get(json.dumps(asdict(job.entry), sort_keys=True), []) for job in left}
    return {
        job: f"{job.entry.exercise} was tried {len(texts)} times and is not judged, while {judged} other "
        f"sources were: {texts[-1]}. A person has to look at this source."
        for job, texts in found.items()
        if judged and len(texts) >= TRIES
    }


def judge_one(job: Job, settings: Settings) -> tuple[dict | None, str]:
    """Judge one source and write it down: its record, or None and the machine's fault."""
    from course_utils.classroom.judge import MachineFault, judge, marks
    from course_utils.classroom.sandbox import SandboxError

    name, _, dsl = job.entry.exercise.partition("-")
    began = time.monotonic()
    try:
        drawn = Ledger(settings.ledger, settings.key).draws_from(settings.seed)
        judged = judge(name, dsl, job.source, drawn, settings.form, settings.backend)
    except (MachineFault, SandboxError) as error:
        return None, str(error)
    except Exception as error:  # of the course's own: no zero follows from it
        return None, f"{type(error).__name__}: {error}"
    kept = asdict(marks(job.entry.exercise, job.source, judged.ptx_form))
    return _written(job, judged, settings, began, kept), ""


def _written(job: Job, judged: Judged, settings: Settings, began: float, marks: dict | None = None) -> dict:
    """The ledger's record of this judgement, written. ``began`` is by the monotonic clock."""
    from course_utils.classroom.workshop import cut
    from course_utils.grading import levels, steps

    verdict = judged.verdict
    if job.entry.exercise.partition("-")[0] in steps.LEVELLED:
        verdict = levels.at(verdict, settings.level or levels.of_source(job.source))
    took = {"seconds": round(judged.seconds, 3), "memory": judged.memory, "note": judged.note}
    ledger = Ledger(settings.ledger, settings.key)
    page = verdict._repr_html_()
    if len(page) > PAGE_LIMIT:  # names and lines of the submission's own, as many as it likes
        page = f"<p>{html.escape(cut(verdict.diagnosis))}</p>"
    fields = _short(verdict.to_dict())
    return ledger.write(job.entry, fields, page, time.monotonic() - began, took, marks)


def _short(value: Any) -> Any:
    """JSON with no text and no list that is too long for a record."""
    if isinstance(value, dict):
        return {key: _short(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_short(one) for one in value[:LIST_LIMIT]]
    return value[:TEXT_LIMIT] if isinstance(value, str) else value
