"""The ledger: what it takes for known, and what it does not."""

import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from course_utils.classroom import grading, judge, randomize
from course_utils.classroom.ledger import RECORD_LIMIT, Entry, Ledger, digest
from course_utils.grading import steps
from course_utils.grading.found import of_text
from course_utils.grading.verdict import not_compiled
from course_utils.recordings.signing import KeyFileError

ENTRY = Entry(digest("def gemm"), "step05-cute", "seed", "emulator", "bubblewrap", "checker")
VERDICT = {"points": 9.0, "max_points": 10.0}


def write(ledger, entry=ENTRY, verdict=VERDICT):
    return ledger.write(entry, verdict, "<p>page</p>", 1.25, {"seconds": 1.0, "memory": 5})


def files(folder):
    return [path for path in folder.rglob("*.json") if path.parent.name != "faults"]


def test_what_was_written_is_read_again(tmp_path):
    written = write(Ledger(tmp_path))
    read = Ledger(tmp_path).read(ENTRY)
    assert read == written and read["verdict"] == VERDICT


@pytest.mark.parametrize("field", ["source", "exercise", "seed", "backend", "sandbox", "checker", "level"])
def test_another_entry_is_another_judgement(tmp_path, field):
    write(Ledger(tmp_path))
    other = Entry(**{**ENTRY.__dict__, field: "another"})
    assert Ledger(tmp_path).read(other) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record["verdict"].update(points=10.0),
        lambda record: record.update(signature="0" * 64),
        lambda record: record.pop("signature"),
        lambda record: record.update(signature=None),
        lambda record: record["entry"].update(exercise="step10-cute"),
        lambda record: record.update(more=1),
    ],
)
def test_a_record_that_was_changed_is_not_there(tmp_path, change):
    ledger = Ledger(tmp_path)
    write(ledger)
    (path,) = files(tmp_path)
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
    assert ledger.read(ENTRY) is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "3", "[" * 100_000, '{"signature": 1e999}'])
def test_what_is_no_record_is_not_there(tmp_path, text):
    ledger = Ledger(tmp_path)
    write(ledger)
    (path,) = files(tmp_path)
    path.write_text(text)
    assert ledger.read(ENTRY) is None


def test_a_record_moved_to_another_entry_is_not_taken(tmp_path):
    ledger = Ledger(tmp_path)
    write(ledger)
    (path,) = files(tmp_path)
    other = Entry(**{**ENTRY.__dict__, "exercise": "step10-cute"})
    place = tmp_path / other.name[:2] / f"{other.name}.json"
    place.parent.mkdir(exist_ok=True)
    path.rename(place)
    assert ledger.read(other) is None


def test_another_key_knows_nothing(tmp_path):
    write(Ledger(tmp_path / "ledger", tmp_path / "one"))
    assert Ledger(tmp_path / "ledger", tmp_path / "two").read(ENTRY) is None


def test_a_key_that_others_read_is_refused(tmp_path):
    Ledger(tmp_path)
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        Ledger(tmp_path)
    (tmp_path / "key").chmod(0o600)
    (tmp_path / "key").write_text("short")
    with pytest.raises(KeyFileError, match="is no key"):
        Ledger(tmp_path)


def test_many_that_start_at_once_share_one_key(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        ledgers = list(pool.map(lambda _: Ledger(tmp_path), range(8)))
    write(ledgers[0])
    assert all(ledger.read(ENTRY) for ledger in ledgers)


def test_a_seed_alone_does_not_give_the_sizes_that_a_submission_sees(tmp_path):
    """Each draw of a short seed could be tried; with the key's no seed gives the sizes that were seen."""
    ledger = Ledger(tmp_path, tmp_path / "key")
    drawn, step = ledger.draws_from("7"), steps.STEPS["step11"]
    seen = randomize.step(step, drawn).emulated
    assert not any(randomize.step(step, str(n)).emulated == seen for n in range(100))
    assert Ledger(tmp_path / "again", tmp_path / "key").draws_from("7") == drawn
    others = [Ledger(tmp_path / "other").draws_from("7"), ledger.draws_from("8")]
    assert all(randomize.step(step, other).emulated != seen for other in others)


def test_what_is_judged_is_drawn_with_the_key(tmp_path, monkeypatch):
    asked = []
    verdict = not_compiled(steps.STEPS["step05"], "cute", "emulator", of_text("x"))
    monkeypatch.setattr(
        judge, "judge", lambda *given: asked.append(given[3]) or judge.Judged(verdict, 1.0, 5)
    )
    for folder, seed in (("one", "7"), ("one", "7"), ("two", "7")):
        settings = grading.Settings(tmp_path / folder, None, seed, "bubblewrap")
        grading.judge_one(grading.Job(grading.entry_of("step05-cute", "", settings), ""), settings)
    assert asked[0] == asked[1] != asked[2] and "7" not in asked and len(asked[0]) == 64


def test_a_disk_that_is_full_is_told_with_its_file(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    ledger = Ledger(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError) as told:
        write(ledger)
    assert told.value.filename.startswith(str(tmp_path)) and told.value.filename.endswith(".json")


def test_a_record_that_cannot_be_finished_leaves_nothing(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        write(ledger)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "key"]


def test_a_fault_of_the_machine_is_no_judgement(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.fault(ENTRY, "the emulator's process died")
    assert ledger.read(ENTRY) is None
    assert [fault["fault"] for fault in ledger.faults()] == ["the emulator's process died"]


def test_a_verdict_of_any_length_is_a_record_that_can_be_read(tmp_path, monkeypatch):
    long = not_compiled(steps.STEPS["step05"], "cute", "emulator", of_text("x" * (RECORD_LIMIT + 1)))
    monkeypatch.setattr(judge, "judge", lambda *_: judge.Judged(long, 1.0, 5))
    settings = grading.Settings(tmp_path, None, "seed", "bubblewrap")
    job = grading.Job(grading.entry_of("step05-cute", "def gemm", settings), "def gemm")
    record, fault = grading.judge_one(job, settings)
    assert not fault and Ledger(tmp_path).read(job.entry) == record
    assert record["verdict"]["points"] == 0 and "xxx" in record["page"]
