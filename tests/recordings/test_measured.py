"""Recorded measurements: what is read back, and which files are refused with words."""

import json

import pytest

from course_utils.recordings import measured
from course_utils.recordings.measured import MeasuredError

PROVENANCE = {
    "gpu": "NVIDIA H200",
    "driver": "580.00",
    "torch": "2.13.0",
    "date": "2026-01-02",
    "versions": {"tilelang": "0.1.15"},
}
ENTRY = {"name": "step01 tilelang", "step": "step01", "dsl": "tilelang", "checks": [], "timings": []}
GOOD = {"provenance": PROVENANCE, "entries": [ENTRY]}
COMMITTED = [
    path for path in sorted(measured.FOLDER.glob("*.json")) if path.stem != "emulator"
]  # that one compares two runs


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    """An empty solutions/measured, not made yet."""
    monkeypatch.setattr(measured, "FOLDER", tmp_path / "solutions" / "measured")
    return measured.FOLDER


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def without(fields, key):
    return {k: v for k, v in fields.items() if k != key}


def test_nothing_recorded_is_empty():
    assert measured.load() == {"provenance": {}, "entries": []}


def test_record_then_load(tmp_path, folder):
    target = measured.record(write(tmp_path / "results.json", GOOD))
    assert target == folder / "ladder.json"
    assert measured.load() == GOOD


def test_record_under_another_name(tmp_path):
    measured.record(write(tmp_path / "results.json", GOOD), "wrong")
    assert measured.load("wrong") == GOOD
    assert measured.load()["entries"] == []


def test_record_replaces(tmp_path):
    measured.record(write(tmp_path / "results.json", GOOD))
    newer = {**GOOD, "provenance": {**PROVENANCE, "date": "2026-02-03"}}
    measured.record(write(tmp_path / "results.json", newer))
    assert measured.load() == newer


def test_what_the_course_does_not_know_is_kept(tmp_path):
    more = {"provenance": {**PROVENANCE, "sms": 132}, "entries": [{**ENTRY, "diagnosis": "none"}]}
    measured.record(write(tmp_path / "results.json", more))
    assert measured.load() == more


BAD = {
    "empty": (b"", "not a results file"),
    "no JSON": (b"{'provenance'", "not a results file"),
    "binary": (b"PK\x03\x04\xff\xfe", "not a results file"),
    "a list": ([GOOD], "needs an object"),
    "a number": (5, "needs an object"),
    "no entries": ({"provenance": PROVENANCE}, "needs an object"),
    "entries no list": ({"provenance": PROVENANCE, "entries": {}}, "needs an object"),
    "no provenance": ({"entries": []}, "provenance lacks gpu, driver, torch, date, versions"),
    "provenance null": ({"provenance": None, "entries": []}, "provenance lacks gpu"),
    "provenance a number": ({"provenance": 5, "entries": []}, "provenance lacks gpu"),
    "provenance a sentence": (
        {"provenance": "gpu driver torch date versions", "entries": []},
        "provenance lacks gpu",
    ),
    "entry no object": ({"provenance": PROVENANCE, "entries": [ENTRY, 5]}, "entry 1 lacks name"),
    **{
        f"provenance without {key}": (
            {"provenance": without(PROVENANCE, key), "entries": []},
            f"provenance lacks {key}",
        )
        for key in PROVENANCE
    },
    **{
        f"entry without {key}": (
            {"provenance": PROVENANCE, "entries": [without(ENTRY, key)]},
            f"entry 0 lacks {key}",
        )
        for key in ENTRY
    },
}


@pytest.mark.parametrize("content, words", BAD.values(), ids=BAD)
def test_bad_file_is_refused_with_its_name_and_reason(content, words, tmp_path, folder):
    path = write(tmp_path / "results.json", content)
    with pytest.raises(MeasuredError) as caught:
        measured.record(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)
    assert not folder.exists()


@pytest.mark.parametrize("path", ["missing.json", "."], ids=["missing", "a folder"])
def test_unreadable_file_is_refused(path, tmp_path):
    with pytest.raises(MeasuredError, match="not a results file"):
        measured.read(tmp_path / path)


def test_every_committed_record_is_one():
    assert [path for path in COMMITTED if not measured.read(path)["entries"]] == []


def test_a_bad_file_leaves_the_record_as_it_was(tmp_path):
    measured.record(write(tmp_path / "results.json", GOOD))
    with pytest.raises(MeasuredError):
        measured.record(write(tmp_path / "bad.json", {}))
    assert measured.load() == GOOD
