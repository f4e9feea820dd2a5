"""Recorded measurements: what is read back, and which files are refused with words."""

import json
import subprocess
import sys

import pytest

from course_utils.recordings import measured, model
from course_utils.recordings.model import MeasuredError

PROVENANCE = {
    "gpu": "NVIDIA H200",
    "driver": "580.00",
    "torch": "2.13.0",
    "date": "2026-01-02",
    "versions": {"tilelang": "0.1.15"},
}
ENTRY = {"name": "step01 tilelang", "step": "step01", "dsl": "tilelang", "checks": [], "timings": []}
GOOD = {"provenance": PROVENANCE, "entries": [ENTRY]}
CHECK = {"name": "results", "passed": None, "points": 0, "max_points": 4.0, "detail": ""}
TIMING = {"mode": "burst", "size": [4096] * 3, "tflops": 700.0, "cublas_tflops": 720.0, "ratio": 0.97}
FULL = {**ENTRY, "checks": [CHECK], "timings": [TIMING], "points": 5.0, "receipt": [["wgmma", "8"]]}
# records of finished studies, comparisons of two runs, what a class takes, and paths of tiles
OTHERS = {
    "candidates",
    "classroom",
    "classroom_60",
    "classroom_gpu",
    "classroom_two",
    "emulator",
    "fp8_sums",
    "proxy_fence",
}
OTHERS |= {
    "attention",
    "proxy_fence_pipeline",
    "public_kernels",
    "found",
    "paths",
    "scales",
    "scores",
    "tma_pays",
    "tma_seen",
}
COMMITTED = [path for path in sorted(measured.FOLDER.glob("*.json")) if path.stem not in OTHERS]


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
    target = measured.record(write(tmp_path / "results.json", GOOD), unsigned=True)
    assert target == folder / "ladder.json"
    assert measured.load() == GOOD


def test_record_under_another_name(tmp_path):
    measured.record(write(tmp_path / "results.json", GOOD), "wrong", unsigned=True)
    assert measured.load("wrong") == GOOD
    assert measured.load()["entries"] == []


def test_record_replaces(tmp_path):
    measured.record(write(tmp_path / "results.json", GOOD), unsigned=True)
    newer = {**GOOD, "provenance": {**PROVENANCE, "date": "2026-02-03"}}
    measured.record(write(tmp_path / "results.json", newer), unsigned=True)
    assert measured.load() == newer


def test_kernels_are_added_to_what_is_recorded(tmp_path):
    of = [{**ENTRY, "name": f"{name} {dsl}", "dsl": dsl} for dsl in ("tilelang", "cute") for name in "ab"]
    measured.record(write(tmp_path / "results.json", {**GOOD, "entries": of}), "wrong", unsigned=True)
    where = {**PROVENANCE, "date": "2026-02-01", "versions": {"nvrtc": "13.0.88"}, "bundle": "0" * 64}
    new = [{**ENTRY, "name": name, "points": 5.0} for name in ("b tilelang", "c tilelang")]
    more = write(tmp_path / "more.json", {"provenance": where, "entries": new})
    measured.record(more, "wrong", unsigned=True, add=True)
    kept = measured.load("wrong")
    names = ["a tilelang", "b tilelang", "c tilelang", "a cute", "b cute"]
    assert [entry["name"] for entry in kept["entries"]] == names
    assert kept["entries"][1]["points"] == 5.0 and "bundle" not in kept["provenance"]
    assert kept["provenance"]["date"] == "2026-01-02 and 2026-02-01"
    assert kept["provenance"]["versions"] == {"tilelang": "0.1.15", "nvrtc": "13.0.88"}


def test_of_a_variant_only_the_language_that_is_added_is_replaced(tmp_path):
    of = [{**ENTRY, "name": "step09, no multicast", "dsl": dsl} for dsl in ("tilelang", "cute")]
    measured.record(write(tmp_path / "all.json", {**GOOD, "entries": of}), "variants", unsigned=True)
    more = write(tmp_path / "more.json", {**GOOD, "entries": [{**of[1], "points": 5.0}]})
    measured.record(more, "variants", unsigned=True, add=True)
    assert measured.load("variants")["entries"] == [of[0], {**of[1], "points": 5.0}]


def test_adding_to_nothing_records(tmp_path):
    measured.record(write(tmp_path / "results.json", GOOD), unsigned=True, add=True)
    assert measured.load() == GOOD


@pytest.mark.parametrize(
    "change, words",
    [
        ({"gpu": "NVIDIA H100"}, "other gpu"),
        ({"driver": "590"}, "other driver"),
        ({"versions": {"tilelang": "0.2"}}, "other tilelang"),
    ],
)
def test_what_another_machine_found_is_not_added(change, words, tmp_path):
    measured.record(write(tmp_path / "results.json", GOOD), unsigned=True)
    other = write(tmp_path / "other.json", {**GOOD, "provenance": PROVENANCE | change})
    with pytest.raises(MeasuredError, match=f"cannot be added to ladder.json: {words}"):
        measured.record(other, unsigned=True, add=True)
    assert measured.load() == GOOD


def test_what_the_course_does_not_know_is_kept(tmp_path):
    more = {"provenance": {**PROVENANCE, "sms": 132}, "entries": [{**ENTRY, "diagnosis": "none"}]}
    measured.record(write(tmp_path / "results.json", more), unsigned=True)
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
    "too deep": (b"[" * 100_000, "not a results file"),
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
        model.read(tmp_path / path)


def test_every_committed_record_is_one():
    assert [
        path for path in COMMITTED if not model.read(path, form=measured.FORMS.get(path.stem))["entries"]
    ] == []


def test_a_bad_file_leaves_the_record_as_it_was(tmp_path):
    measured.record(write(tmp_path / "results.json", GOOD), unsigned=True)
    with pytest.raises(MeasuredError):
        measured.record(write(tmp_path / "bad.json", {}))
    assert measured.load() == GOOD


UNWRITABLE = {
    "a NaN where nobody looks": json.dumps({**GOOD, "power": float("nan")}),
    "an infinity that JSON spells": json.dumps(GOOD)[:-1] + ', "power": 1e999}',
    "lists in lists": json.dumps(GOOD)[:-1] + ', "more": ' + "[" * 99_000 + "]" * 99_000 + "}",
    "too large": json.dumps({**GOOD, "more": "x" * model.LIMIT}),
}


@pytest.mark.parametrize("name", UNWRITABLE)
def test_what_could_not_be_read_again_is_not_recorded(name, tmp_path):
    path = write(tmp_path / "results.json", UNWRITABLE[name].encode())
    with pytest.raises(MeasuredError, match="results.json is not a results file|is not written"):
        measured.record(path, unsigned=True)
    assert not list(measured.FOLDER.glob("*"))


def test_a_results_file_that_nobody_signed_is_recorded_when_told(tmp_path):
    path = write(tmp_path / "results.json", GOOD)
    with pytest.raises(MeasuredError, match="results.json is not signed.*`course import --unsigned`"):
        measured.record(path)
    measured.record(path, unsigned=True)
    assert measured.load() == GOOD


def with_timing(**fields):
    return {**FULL, "timings": [TIMING, {**TIMING, **fields}]}


WRONG_TYPES = {
    "name": ({**FULL, "name": 5}, "entry 1, name: expected `str`, got `int`"),
    "checks": ({**FULL, "checks": {}}, "entry 1, checks: expected `array`"),
    "points": ({**FULL, "points": "5"}, "entry 1, points: expected `float`"),
    "points below 0": ({**FULL, "points": -1}, "entry 1, points: expected `float` >= 0"),
    "receipt": ({**FULL, "receipt": [["a", "b", "c"]]}, "entry 1, receipt[0]: expected `array` of length 2"),
    "passed": ({**FULL, "checks": [{**CHECK, "passed": "yes"}]}, "entry 1, checks[0].passed: expected `bool"),
    "detail": ({**FULL, "checks": [without(CHECK, "detail")]}, "entry 1, checks[0]: object missing"),
    "no ratio": ({**FULL, "timings": [without(TIMING, "ratio")]}, "required field `ratio`"),
    "mode": (with_timing(mode="warm"), "entry 1, timings[1].mode: invalid enum value 'warm'"),
    "size": (with_timing(size=4096), "entry 1, timings[1].size: expected `array`"),
    "tflops NaN": (with_timing(tflops=float("nan")), "entry 1, timings[1].tflops: expected `float` > 0"),
    "tflops a word": (with_timing(tflops="fast"), "entry 1, timings[1].tflops: expected `float`, got `str`"),
    "ratio null": (with_timing(ratio=None), "entry 1, timings[1].ratio: expected `float`, got `null`"),
    "quartiles": (with_timing(tflops_quartiles=[1.0, "x"]), "timings[1].tflops_quartiles[1]: expected"),
}


@pytest.mark.parametrize("entry, words", WRONG_TYPES.values(), ids=WRONG_TYPES)
def test_a_field_of_a_wrong_type_is_named(entry, words, tmp_path):
    path = write(tmp_path / "results.json", {"provenance": PROVENANCE, "entries": [FULL, entry]})
    with pytest.raises(MeasuredError) as caught:
        model.read(path)
    assert str(caught.value).startswith(f"{path}: entry 1, ") and words in str(caught.value)


def test_provenance_of_a_wrong_type_is_named(tmp_path):
    path = write(tmp_path / "results.json", {"provenance": {**PROVENANCE, "versions": []}, "entries": []})
    with pytest.raises(MeasuredError, match="results.json: provenance.versions: expected `object`"):
        model.read(path)


def test_a_machine_without_a_gpu_need_not_say_where(tmp_path):
    for where in ({}, {"provenance": {}}):
        path = write(tmp_path / "climb.json", {"entries": [FULL], **where})
        assert model.read(path, timed=False)["entries"] == [FULL]
        with pytest.raises(MeasuredError, match="provenance lacks gpu"):
            model.read(path)
    for broken in ({"provenance": {"gpu": "NVIDIA H200"}}, {"provenance": 5}):
        with pytest.raises(MeasuredError, match="provenance lacks"):
            model.read(write(path, {"entries": [FULL], **broken}), timed=False)
    with pytest.raises(MeasuredError, match="entry 0 lacks name"):
        model.read(write(path, {"entries": [{}]}), timed=False)


def test_what_is_written_is_read(tmp_path):
    model.write(tmp_path / "results.json", {"provenance": PROVENANCE, "entries": [FULL]})
    assert model.read(tmp_path / "results.json") == {"provenance": PROVENANCE, "entries": [FULL]}


def test_the_bundles_runner_needs_no_msgspec():
    code = (
        "import sys; sys.modules['msgspec'] = None; from course_utils.recordings import bundle; "
        "print(bundle.provenance({'name': 'NVIDIA H200'}, {})['gpu'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "NVIDIA H200\n", done.stderr


# -- the ladder with the peers, from their file


def test_the_ladder_has_the_peers(folder):
    folder.mkdir(parents=True)
    assert measured.ladder() == {"provenance": {}, "entries": [], "peers": [], "also": []}
    write(folder / "ladder.json", GOOD)
    peers = [{"peer": "cublaslt", "size": [4096] * 3, "timing": t} for t in (TIMING, None)]
    write(folder / "peers.json", {"provenance": PROVENANCE, "entries": peers})
    found = measured.ladder()
    assert found["entries"] == GOOD["entries"] and found["peers"] == [{"peer": "cublaslt", **TIMING}]
    assert [text.partition(":")[0] for text in found["also"]] == ["peers"]


@pytest.mark.parametrize(
    "name, entry",
    [
        ("peers", {"peer": "cublaslt", "size": [4096] * 3, "timing": TIMING | {"mode": "fast"}}),
        ("step11", {"dsl": "cute", "size": [4096] * 3, "mode": "fast", "plan": {}, "timing": TIMING}),
    ],
)
def test_a_broken_file_of_another_form_is_named(folder, name, entry):
    folder.mkdir(parents=True)
    write(folder / f"{name}.json", {"provenance": PROVENANCE, "entries": [entry]})
    with pytest.raises(MeasuredError, match=rf"{name}.json: entry 0, .*mode"):
        measured.load(name)
