"""``course grade``: who is judged, what is known already, and what becomes of a run that is killed."""

import csv
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import forkserver
from pathlib import Path
from types import SimpleNamespace

import pytest

from course_utils import cli
from course_utils.classroom import grading, sandbox
from course_utils.classroom.grading import Settings, jobs
from course_utils.classroom.judge import Judged
from course_utils.classroom.ledger import Ledger
from course_utils.classroom.similar import Marks, Runs
from course_utils.classroom.submissions import Submission
from course_utils.cli import EXIT_NOT_ALL_TRIED, EXIT_USAGE
from course_utils.cli.grade import _given_seed, _seed
from course_utils.grading.steps import EXERCISES
from course_utils.grading.verdict import Part, Verdict

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "course_utils.cli", "grade"]
needs_sandbox = pytest.mark.skipif(not sandbox.available(), reason="no sandbox on this machine")

CLASS = [
    Submission("ada", {"step05-cute": "a", "step06-cute": "b"}),
    Submission("bob", {"step05-cute": "a", "t2-cute": "c"}),
]


def settings(tmp_path, **fields):
    return Settings(
        **{"ledger": tmp_path / "ledger", "key": None, "seed": "s", "form": "bubblewrap"} | fields
    )


def test_equal_sources_are_judged_once(tmp_path):
    found = jobs(CLASS, settings(tmp_path))
    assert [(job.entry.exercise, job.source) for job in found] == [
        ("step05-cute", "a"), ("step06-cute", "b"), ("t2-cute", "c")
    ]  # fmt: skip
    assert [job.source for job in jobs(CLASS, settings(tmp_path), ["step06-cute"])] == ["b"]


def test_shards_are_a_partition_that_all_machines_agree_on(tmp_path):
    many = [Submission(f"learner {n}", {"step05-cute": f"source {n}"}) for n in range(50)]
    parts = [jobs(many, settings(tmp_path), shard=(i, 4)) for i in range(1, 5)]
    names = [job.entry.name for part in parts for job in part]
    assert len(set(names)) == len(names) == 50 and all(parts)
    assert parts[1] == jobs(many[::-1], settings(tmp_path), shard=(2, 4))


def test_another_seed_or_sandbox_is_another_judgement(tmp_path):
    (one,) = jobs([Submission("ada", {"step05-cute": "a"})], settings(tmp_path))
    for fields in ({"seed": "t"}, {"form": "unsafe"}, {"backend": "gpu"}):
        (other,) = jobs([Submission("ada", {"step05-cute": "a"})], settings(tmp_path, **fields))
        assert other.entry.name != one.entry.name


@pytest.mark.parametrize(
    "source, asked, points, level",
    [("", "", 10, "write"), ("# level: order", "", 6, "order"), ("# level: order", "blank", 10, "blank"),
     ("", "order", 6, "order")],
)  # fmt: skip
def test_points_are_those_of_the_level(tmp_path, monkeypatch, source, asked, points, level):
    """The level that a source names, unless the class was given one."""
    verdict = Verdict("step05", "cute", "emulator", (Part("results", True, 10, 10, ""),))
    monkeypatch.setattr("course_utils.classroom.judge.judge", lambda *_: Judged(verdict, 1.0, 0))
    asked = settings(tmp_path, level=asked)
    for exercise in ("step05-cute", "t5-cute"):
        [job] = jobs([Submission("ada", {exercise: source})], asked)
        record, fault = grading.judge_one(job, asked)
        expected = (points, level) if exercise == "step05-cute" else (10, "write")
        assert not fault and (record["verdict"]["points"], record["verdict"]["level"]) == expected
        assert Ledger(asked.ledger).read(job.entry) == record


def test_a_source_at_which_the_machine_is_always_at_fault_is_to_be_looked_at(tmp_path):
    known = settings(tmp_path)
    ledger, todo = Ledger(known.ledger), jobs(CLASS, known)
    for _ in range(grading.TRIES):
        for job in todo[1:]:
            ledger.fault(job.entry, sandbox.TOO_BUSY)
    assert not grading.to_look_at(todo, ledger)  # nobody is judged: it is the machine
    ledger.write(todo[0].entry, {"points": 0.0}, "", 1.0, {})
    ledger.write(todo[1].entry, {"points": 0.0}, "", 1.0, {})  # in the end
    ((job, text),) = grading.to_look_at(todo, ledger).items()
    assert job == todo[2] and "t2-cute was tried 3 times" in text and sandbox.TOO_BUSY in text


@pytest.fixture
def rounds(monkeypatch):
    """Rounds in which the machine is at fault at sources that hold a word, and what each was given. ``alone``
    means: nothing was beside it.
    """
    asked = []

    def round_of(at_fault):
        def one(left, ledger, settings, processes, done):
            left = list(left)
            asked.append([job.source for job, _ in left])
            for job, tries in left:
                if at_fault(job, alone=processes == len(left) == 1):
                    ledger.fault(job.entry, sandbox.TOO_BUSY)
                    yield job, tries - 1
                else:
                    done(job, ledger.write(job.entry, {"points": 1.0, "diagnosis": ""}, "", 1.0, {}))

        monkeypatch.setattr(grading, "_round", one)
        return asked

    return round_of


EXERCISE_OF_EACH_KIND = [
    *("step05-cute", "t2-cute", "t1-maps", "plan11-plan", "t2b-paths", "t3a-tilelang", "t4b-cute")
]


@pytest.mark.parametrize("exercise", EXERCISE_OF_EACH_KIND)
def test_a_source_at_which_the_machine_alone_is_at_fault_gets_nothing(tmp_path, rounds, exercise):
    asked = rounds(lambda job, alone: job.source == "hostile")
    known, records = settings(tmp_path), {}
    class_ = [Submission("ada", {exercise: "hostile"}), Submission("bob", {exercise: "honest"})]
    todo = jobs(class_, known)
    grading.judge_all(todo, known, 2, lambda job, record: records.update({job.source: record}))
    assert [one for one in asked if "hostile" in one] == [[job.source for job in todo], *[["hostile"]] * 2]
    assert len(asked[-1]) == 1 and "hostile" not in asked[-1]  # the course's own
    record = records["hostile"]
    assert record["verdict"]["points"] == 0 and records["honest"]["verdict"]["points"] == 1
    assert "could not be judged in 3 tries" in record["page"] and sandbox.TOO_BUSY in record["page"]
    assert "3 faults came with this source alone; look at it" in record["sandbox"]["note"]
    assert record == Ledger(known.ledger).read(next(job for job in todo if job.source == "hostile").entry)
    assert unjudged_of(todo, known) == []


@pytest.mark.parametrize(
    "at_fault, unjudged",
    [
        (lambda job, alone: True, ["honest", "large"]),  # the machine is ill
        (lambda job, alone: job.source == "large" and not alone, []),  # it was too small for two at once
        (lambda job, alone: job.source != "honest", ["large"]),  # and for the course's own solution too
    ],
)
def test_a_fault_that_the_courses_own_solution_meets_too_is_nobodys(tmp_path, rounds, at_fault, unjudged):
    rounds(at_fault)
    known = settings(tmp_path)
    class_ = [Submission("ada", {"step05-cute": "large"}), Submission("bob", {"step05-cute": "honest"})]
    todo, heard = jobs(class_, known), []
    grading.judge_all(todo, known, 2, lambda job, record: heard.append((job.source, record)))
    assert unjudged_of(todo, known) == unjudged
    assert sorted(source for source, _ in heard) == ["honest", "large"]
    assert all(record is None or record["verdict"]["points"] == 1 for _, record in heard)


def unjudged_of(todo, known):
    ledger = Ledger(known.ledger)
    return sorted(job.source for job in todo if ledger.read(job.entry) is None)


def test_faults_are_told_in_the_order_in_which_they_came(tmp_path):
    known = settings(tmp_path)
    ledger = Ledger(known.ledger)
    for number, job in enumerate([*jobs(CLASS, known), *jobs(CLASS, known)[::-1]]):
        ledger.fault(job.entry, str(number))
    assert [told["fault"] for told in ledger.faults()] == list("012345")


def threads_of_a_judge():
    import torch

    torch.zeros(1 << 20).add(1).sum(), torch.ones(512, 512) @ torch.ones(512, 512)
    return torch.get_num_threads(), os.environ["OPENBLAS_NUM_THREADS"]


def test_a_judge_computes_in_one_thread():
    with grading.pool(1) as pool:
        assert pool.submit(threads_of_a_judge).result() == (1, "1")


# -- the command


@dataclass
class Run:
    """What became of one ``course grade``."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def grade(capsys, monkeypatch, tmp_path_factory):
    """Runs ``course grade`` in this process, and its job in a fork of one that has imported the judge. Tests
    of what becomes of processes start the command itself.
    """
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(["course_utils.classroom.judge"])
    forkserver.ensure_running()  # now: a test may change PATH, and all that follow would have that one
    # what serves forks leaves its folder when this process ends, which this run's temporary one does not see
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.getbasetemp()))
    monkeypatch.setattr(grading, "multiprocessing", SimpleNamespace(get_context=lambda _: forks))

    monkeypatch.setattr("course_utils.cli.grade._problem", lambda *_: "")  # a judging more for each run

    def run(folder, out, *more):
        code = cli.main(["grade", str(folder), "--out", str(out), "--jobs", "1", "--seed", "s", *more])
        return Run(code, *capsys.readouterr())

    return run


def grade_elsewhere(folder, out, **variables):
    """The command as a process of its own, with these environment variables."""
    command = [*COMMAND, str(folder), "--out", str(out), "--jobs", "1", "--seed", "s"]
    return subprocess.run(
        command, cwd=ROOT, text=True, capture_output=True, timeout=300, env=os.environ | variables
    )


def hand_in(folder, **files):
    for learner, text in files.items():
        (folder / learner).mkdir(parents=True)
        (folder / learner / "step05_cute.py").write_text(text)


def points(out):
    return {
        row["learner"]: row["step05-cute"] for row in csv.DictReader(open(out / "grades.csv", newline=""))
    }


@needs_sandbox
def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path, grade):
    hand_in(
        tmp_path / "class",
        **{f"l{n}": f"import time\ntime.sleep(0.5)\nraise ValueError({n})" for n in range(5)},
    )
    command = [
        *COMMAND,
        str(tmp_path / "class"),
        "--out",
        str(tmp_path / "out"),
        "--jobs",
        "1",
        "--seed",
        "s",
    ]
    run = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while len(records(tmp_path / "out")) < 2:
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.02)
    os.killpg(run.pid, signal.SIGKILL)
    run.communicate()
    kept = records(tmp_path / "out")
    assert 2 <= len(kept) < 5
    done = grade(tmp_path / "class", tmp_path / "out")
    assert done.returncode == 0, done.stdout + done.stderr
    assert kept.items() <= records(tmp_path / "out").items()  # what was known was not judged again
    assert points(tmp_path / "out") == {f"l{n}": "0" for n in range(5)}
    page = (tmp_path / "out" / "feedback" / "l3.html").read_text()
    assert "ValueError: 3" in page and "step05-cute" in page
    assert len(list((tmp_path / "out" / "gradescope").iterdir())) == 5


KILLED = """
import os, signal, time
from course_utils.classroom import grading
from course_utils.run import client

def judges():
    worker = client.worker(client.EMULATOR)
    worker.device()
    with open({file!r}, "w") as file:
        file.write(f"{{os.getpid()}} {{worker._process.pid}}\\n")
    if {stopped}:  # as in a call of a library's that does not come back
        os.kill(worker._process.pid, signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(600)

if __name__ == "__main__":
    with grading.pool(1) as pool:
        pool.submit(judges).result()
"""


@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_grader_that_is_killed_leaves_no_process_behind(tmp_path, how, stopped):
    file = tmp_path / "pids"
    (tmp_path / "killed.py").write_text(KILLED.format(file=str(file), stopped=stopped))
    run = subprocess.Popen([sys.executable, str(tmp_path / "killed.py")], cwd=ROOT)
    deadline = time.monotonic() + 60
    while not (file.exists() and file.read_text().endswith("\n")):
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.02)
    left = [int(pid) for pid in file.read_text().split()]
    while stopped and not all(state(pid) == "T" for pid in left):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    run.send_signal(how)
    run.wait()
    try:
        deadline = time.monotonic() + 10
        while any(map(runs, left)) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not any(map(runs, left))
    finally:
        for pid in filter(runs, left):
            os.kill(pid, signal.SIGKILL)


def runs(pid):
    return state(pid) not in "Z"


def state(pid):
    """A letter, as proc(5) has it; empty for a process that is no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def records(out):
    return {path.name: path.stat().st_mtime_ns for path in out.glob("ledger/??/*.json")}


@needs_sandbox
def test_shards_make_one_class(tmp_path, grade):
    hand_in(
        tmp_path / "class", ada="raise ValueError(1)", bob="raise ValueError(2)", cyd="raise ValueError(3)"
    )
    for shard in ("1/2", "2/2"):
        run = grade(tmp_path / "class", tmp_path / "out", "--shard", shard)
        assert run.returncode == 0 and "the same without --shard" in " ".join(run.stdout.split())
    assert len(records(tmp_path / "out")) == 3 and not (tmp_path / "out" / "grades.csv").exists()
    assert grade(tmp_path / "class", tmp_path / "out").returncode == 0
    assert points(tmp_path / "out") == {"ada": "0", "bob": "0", "cyd": "0"}


@pytest.mark.thorough
@needs_sandbox
def test_a_fault_of_the_machine_is_no_zero(tmp_path, grade):
    hand_in(tmp_path / "class", ada="raise ValueError(1)")
    (tmp_path / "bin").mkdir()
    tried = tmp_path / "bin" / "tried"
    program = (
        tmp_path / "bin" / "bwrap"
    )  # works while it is asked whether it does, and for the own solution, and then no more
    program.write_text(
        f"#!/bin/sh\necho >> {tried}\n"
        f"[ $(wc -l < {tried}) -gt 3 ] && echo 'no namespaces left' >&2 && exit 1\n"
        'PATH=/usr/bin:/bin exec bwrap "$@"\n'
    )
    program.chmod(0o755)
    path = f"{program.parent}:{os.environ['PATH']}"
    run = grade_elsewhere(tmp_path / "class", tmp_path / "out", PATH=path)
    assert run.returncode == EXIT_NOT_ALL_TRIED
    assert "A person has to look" not in run.stdout  # nobody else was judged either
    assert "3 times: bubblewrap: no namespaces left" in " ".join(run.stdout.split())
    assert points(tmp_path / "out") == {"ada": "fault"}
    assert grade(tmp_path / "class", tmp_path / "out").returncode == 0
    assert points(tmp_path / "out") == {"ada": "0"}


def test_the_run_names_the_learner_at_whose_source_the_machine_is_always_at_fault(
    tmp_path, grade, monkeypatch
):
    hand_in(tmp_path / "class", ada="raise ValueError(1)", bob="raise ValueError(2)")

    def judge_all(todo, settings, processes, done):
        ledger = Ledger(settings.ledger)
        for job in todo:
            record = None
            if "2" in job.source:
                for _ in range(grading.TRIES):
                    ledger.fault(job.entry, sandbox.TOO_BUSY)
            else:
                record = ledger.write(job.entry, {"points": 0.0, "diagnosis": ""}, "", 1.0, {})
            done(job, record)

    monkeypatch.setattr("course_utils.cli.grade.judge_all", judge_all)
    run = grade(tmp_path / "class", tmp_path / "out", "--unsafe")
    assert run.returncode == EXIT_NOT_ALL_TRIED
    assert "bob: step05-cute was tried 3 times and is not judged" in " ".join(run.stdout.split())
    assert points(tmp_path / "out") == {"ada": "0", "bob": "fault"}
    (found,) = csv.DictReader(open(tmp_path / "out" / "findings.csv", newline=""))
    assert found["learner"] == "bob" and "A person has to look" in found["finding"]


@pytest.mark.parametrize("points", [0.0, None, 5.0])
def test_a_machine_that_judges_the_courses_own_solution_wrong_judges_nobody(
    tmp_path, capsys, monkeypatch, points
):
    hand_in(tmp_path / "class", ada="raise ValueError(1)")
    judged = []

    def judge_all(todo, settings, processes, done):
        ledger = Ledger(settings.ledger)
        for job in todo:
            judged.append(job.entry.exercise)
            verdict = {"points": points, "passed": points == 5, "diagnosis": "ptxas does not take this PTX"}
            if points is None:
                ledger.fault(job.entry, sandbox.TOO_BUSY)
            done(job, None if points is None else ledger.write(job.entry, verdict, "", 1.0, {}))

    monkeypatch.setattr("course_utils.cli.grade.judge_all", judge_all)
    out = tmp_path / "out"
    code = cli.main(["grade", str(tmp_path / "class"), "--out", str(out), "--jobs", "1", "--unsafe"])
    said = " ".join(capsys.readouterr().out.split())
    if points == 5:
        assert judged == ["step01-cute", "step05-cute"] and (out / "grades.csv").exists()
    else:
        assert judged == ["step01-cute"] and code == EXIT_NOT_ALL_TRIED and not (out / "grades.csv").exists()
        assert "this machine cannot grade: the course's own solution of step01-cute" in said
        assert ("too busy" if points is None else "gets 0: ptxas does not take this PTX") in said


def test_a_package_that_pages_need_is_missed_before_anything_is_judged(tmp_path, monkeypatch, capsys):
    hand_in(tmp_path / "class", ada="nothing")
    monkeypatch.setitem(sys.modules, "nbconvert.filters", None)
    monkeypatch.setattr("course_utils.cli.grade._judge_all", lambda *_: pytest.fail("judged"))
    out = str(tmp_path / "out")
    assert cli.main(["grade", str(tmp_path / "class"), "--out", out, "--jobs", "1", "--unsafe"]) == 2
    assert "nbconvert" in (said := " ".join("".join(capsys.readouterr()).split())) and "[teach]" in said


@pytest.mark.parametrize("name", ["grades.csv", "findings.csv", "feedback/ada.html", "gradescope/ada.json"])
def test_a_disk_that_is_full_is_said_with_the_file(tmp_path, grade, at_once, name):
    hand_in(tmp_path / "class", ada="a")
    place = tmp_path / "out" / name
    place.parent.mkdir(parents=True)
    place.symlink_to("/dev/full")
    run = grade(tmp_path / "class", tmp_path / "out", "--unsafe")
    said = " ".join(run.stderr.split())
    assert run.returncode == EXIT_USAGE and "Errno" not in said
    assert f"{place} cannot be written, as no space is left for it: free some" in said


@pytest.fixture
def at_once(monkeypatch):
    """Each job is judged without a look."""

    def judge_all(todo, settings, processes, done):
        ledger = Ledger(settings.ledger, settings.key)
        for job in todo:
            verdict = {"points": 1.0, "passed": True, "diagnosis": ""}
            done(job, ledger.write(job.entry, verdict, "", 1.0, {"note": "noted"}))

    monkeypatch.setattr("course_utils.cli.grade.judge_all", judge_all)


def test_the_grades_of_the_run_before_are_no_learner(tmp_path, grade, at_once):
    hand_in(tmp_path, ada="a")
    for more in ((), ("--step", "step05")):
        run = grade(tmp_path, tmp_path / "grades", "--unsafe", *more)
        assert run.returncode == 0 and points(tmp_path / "grades") == {"ada": "1"}
        assert ("they hold what --step named: 2 exercises of 20 points" in run.stdout) == bool(more)
        assert ("they hold what somebody handed in: 1 exercise of 10" in run.stdout) != bool(more)
    (found,) = csv.DictReader(open(tmp_path / "grades" / "findings.csv", newline=""))
    assert found["finding"] == "step05-cute: noted"
    run = grade(tmp_path, tmp_path, "--unsafe")
    assert run.returncode == EXIT_USAGE and "is the folder of the class" in " ".join(run.stderr.split())


@pytest.mark.parametrize(
    "asked, exercises",
    [
        ("step05-cute", ["step05-cute"]),
        ("step06,step05-cute", ["step05-cute", "step06-tilelang", "step06-cute"]),
        ("steps.txt", ["step05-cute", "t1-maps"]),
    ],
)
def test_what_step_names_is_judged_and_shown(tmp_path, grade, at_once, monkeypatch, asked, exercises):
    """Also what nobody handed in."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.txt").write_text("# this week's\nt1\n\n  step05-cute  # in CuTe alone\n")
    hand_in(tmp_path / "class", ada="a")
    (tmp_path / "class" / "ada" / "step01_cute.py").write_text("b")
    run = grade(tmp_path / "class", tmp_path / "out", "--unsafe", "--step", asked)
    assert run.returncode == 0, run.stderr
    (row,) = csv.DictReader(open(tmp_path / "out" / "grades.csv", newline=""))
    assert [name for name in row if name in EXERCISES] == exercises and row["step05-cute"] == "1"
    tests = json.loads((tmp_path / "out" / "gradescope" / "ada.json").read_text())["tests"]
    assert [test["name"] for test in tests] == exercises
    assert len(records(tmp_path / "out")) == 1


def test_a_file_that_names_no_step_is_said(tmp_path, grade):
    hand_in(tmp_path / "class", ada="a")
    (tmp_path / "steps.txt").write_text("# none yet\n")
    run = grade(tmp_path / "class", tmp_path / "out", "--unsafe", "--step", str(tmp_path / "steps.txt"))
    assert run.returncode == EXIT_USAGE and "names no step or case" in " ".join(run.stderr.split())


def test_the_last_line_names_what_to_look_at_first(tmp_path, grade, monkeypatch):
    """Copies of one kernel, one of them packed; and the course's own solution, which is another one."""

    def judge_all(todo, settings, processes, done):
        ledger = Ledger(settings.ledger)
        for job in todo:
            own = len(job.source) > 100
            hidden = "unpacks bytes (zlib.decompress, line 1)" if job.source == "d" else ""
            marks = asdict(Marks(form="own" if own else "theirs", hidden=hidden))
            done(job, ledger.write(job.entry, {"points": 1.0, "diagnosis": ""}, "", 1.0, {}, marks))

    monkeypatch.setattr("course_utils.cli.grade.judge_all", judge_all)
    hand_in(tmp_path / "class", ada="a", dan="d")
    (tmp_path / "class" / "dan" / "notes.txt").write_text("")
    run = grade(tmp_path / "class", tmp_path / "out", "--unsafe")
    last = run.stdout.strip().splitlines()[-1]
    findings, alike = tmp_path / "out" / "findings.csv", tmp_path / "out" / "alike.csv"
    assert last == (
        f"Look first at {findings} (findings: hidden code 1, files and cells 1), "
        f"then at {alike} (groups: code hidden 1)"
    )
    (row,) = csv.DictReader(open(alike, newline=""))
    assert row["who"] == "code hidden: dan; same PTX, another text: ada" and row["other kernels"] == "1"
    run = grade(tmp_path / "class" / "ada", tmp_path / "other", "--unsafe")
    assert "(findings: none), then" in run.stdout and run.stdout.strip().endswith("(groups: none)")


def test_two_who_handed_in_together_are_no_copies(tmp_path, grade, monkeypatch):
    marks = asdict(Marks(Runs(40, "".join(f"{n:08x}" for n in range(40)))))

    def judge_all(todo, settings, processes, done):
        for job in todo:
            done(
                job,
                Ledger(settings.ledger).write(
                    job.entry, {"points": 1.0, "diagnosis": ""}, "", 1.0, {}, marks
                ),
            )

    monkeypatch.setattr("course_utils.cli.grade.judge_all", judge_all)
    monkeypatch.setattr("course_utils.cli.grade._own", lambda *_, **__: None)
    for n in (1, 2):
        (tmp_path / "class" / f"submission_{n}").mkdir(parents=True)
        (tmp_path / "class" / f"submission_{n}" / "step05_cute.py").write_text(f"a = {n}")
    people = "submission_1:\n  :submitters:\n  - :name: Ada\n  - :name: Bob\n"
    (tmp_path / "class" / "submission_metadata.yml").write_text(people)
    assert grade(tmp_path / "class", tmp_path / "out", "--unsafe").returncode == 0
    (row,) = csv.DictReader(open(tmp_path / "out" / "alike.csv", newline=""))
    assert row["who"] == "same text: Ada and Bob, submission_2" and row["sources"] == "2"
    assert list(points(tmp_path / "out")) == ["Ada", "Bob", "submission_2"]


def test_a_gradebook_that_cannot_be_written_is_said_before_anybody_is_judged(tmp_path, grade, monkeypatch):
    def write(url, *_):
        raise RuntimeError(f"could not parse {url}\nbackground")

    monkeypatch.setattr("course_utils.classroom.reports.write_gradebook", write)
    hand_in(tmp_path / "class", ada="a")
    run = grade(tmp_path / "class", tmp_path / "out", "--unsafe", "--gradebook", "nonsense")
    assert run.returncode == EXIT_USAGE and not (tmp_path / "out" / "ledger").exists()
    assert "--gradebook nonsense cannot be written: could not parse" in " ".join(run.stderr.split())


def test_what_a_submission_could_read_is_refused(tmp_path, grade, monkeypatch):
    monkeypatch.setattr(sandbox, "problem", lambda _: "")
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "here"))
    hand_in(tmp_path / "here", ada="a")
    hand_in(tmp_path / "class", ada="a")
    for folder, out in (("here", "out"), ("class", "here/out")):
        run = grade(tmp_path / folder, tmp_path / out)
        assert run.returncode == EXIT_USAGE and "can read in its sandbox" in " ".join(run.stderr.split())
    assert not (tmp_path / "out").exists()


def test_a_seed_is_kept_whole_and_made_once(tmp_path):
    place = tmp_path / "seed"
    place.write_text("")  # left by a run that was killed
    made = _seed(tmp_path, "")
    assert len(made) == 16 and made == _seed(tmp_path, "") == place.read_text().strip()
    assert _given_seed("  x ") == _seed(tmp_path, "x") == _seed(tmp_path, "")
    place.unlink()
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: _seed(tmp_path, ""), range(64)))) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["seed"]


def test_a_key_that_is_there_is_read_where_nothing_can_be_written(tmp_path, monkeypatch):
    made = Ledger(tmp_path / "one", tmp_path / "key")._key
    monkeypatch.setattr("tempfile.mkstemp", lambda **_: 1 / 0)
    assert Ledger(tmp_path / "two", tmp_path / "key")._key == made


def test_without_a_sandbox_it_refuses_unless_told(tmp_path, grade, monkeypatch):
    hand_in(tmp_path / "class", ada="raise ValueError(1)")
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    run = grade(tmp_path / "class", tmp_path / "out")
    assert run.returncode == EXIT_USAGE and "apt install bubblewrap" in " ".join(run.stdout.split())
    assert not (tmp_path / "out").exists()
    run = grade(tmp_path / "class", tmp_path / "out", "--unsafe")
    assert run.returncode == 0, run.stdout + run.stderr
    (row,) = csv.DictReader(open(tmp_path / "out" / "grades.csv", newline=""))
    assert (row["step05-cute"], row["sandbox"]) == ("0", "unsafe")


@pytest.mark.parametrize(
    "more, words",
    [
        (["--step", "step99"], "no step or case 'step99'"),
        (["--step", "step05,step99-cute"], "no step or case 'step99-cute'"),
        (["--step", "/dev/null"], "no step or case '/dev/null'"),
        (["--shard", "3/2"], "a shard is i/n"),
        (["--shard", "x"], "a shard is i/n"),
        (["--jobs", "0"], "1 or more; not 0"),
        (["--seed", " "], "--seed is a line of text"),
        (["--seed", "\udce4"], "--seed is a line of text"),
    ],
)
def test_a_wrong_call_is_said(tmp_path, grade, more, words):
    hand_in(tmp_path / "class", ada="")
    run = grade(tmp_path / "class", tmp_path / "out", "--unsafe", *more)
    assert run.returncode == EXIT_USAGE and words in " ".join(run.stderr.split())


def test_a_folder_that_is_not_there_is_said(tmp_path, grade):
    run = grade(tmp_path / "class", tmp_path / "out", "--unsafe")
    assert run.returncode == EXIT_USAGE and "there is no folder" in " ".join(run.stderr.split())


@needs_sandbox
def test_a_right_kernel_gets_what_a_check_gives(tmp_path, grade):
    text = (ROOT / "solutions" / "cute" / "step05_pipeline.py").read_text()
    hand_in(tmp_path / "class", ada=text)
    run = grade(tmp_path / "class", tmp_path / "out", "--step", "step05")
    assert run.returncode == 0, run.stdout + run.stderr
    assert points(tmp_path / "out") == {"ada": "9"}  # the tenth is for speed, and nothing was timed
    (record,) = [json.loads(path.read_text()) for path in (tmp_path / "out").glob("ledger/??/*.json")]
    assert record["verdict"]["backend"] == "emulator" and record["sandbox"]["memory"] > 0
    alike = (tmp_path / "out" / "alike.csv").read_text()
    assert 'step05-cute,same text,2,"same text: ada, the course\'s solution",1.00,1,0,0' in alike
