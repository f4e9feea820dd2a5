"""Counters as a recording: what they say, and how a bundle's are measured, signed and recorded."""

import json
import sys
from dataclasses import replace

import pytest

from course_utils.chips import HOME
from course_utils.grading.steps import DSL_NAMES
from course_utils.recordings import bundle, counters, measured, model, signing
from course_utils.recordings.counters import Kernel
from course_utils.recordings.model import MeasuredError
from course_utils.run import backends, ncu
from course_utils.run.ncu import NcuError
from tests.run import ncu_stub
from tests.run.test_ncu import artifact

SIZE = (4096, 4096, 4096)
WHERE = {
    "gpu": "NVIDIA H200",
    "driver": "580.00",
    "torch": "2.11.0",
    "date": "2026-01-02",
    "versions": {},
    "sms": 132,
    "ncu": "2025.3.1.0",
    "max_clock_mhz": 1980.0,
    "power_limit_w": 700.0,
}
# what was read of step 10 on an H200 at 4096
COUNTERS = {"seconds": 183e-6, "clock_hz": 1.56e9, "tensor_active": 0.897, "cycles": 287e3}
POWER = {"seconds": 2e-4, "power_w": 650.0, "joules": 0.13, "clock_mhz": 1500.0, "temperature_c": 50.0}


def launch(size=SIZE, power=None, **changed):
    return {"size": [*size], "kernel": "main", "counters": {**COUNTERS, **changed}, "power": power}


def recording(*entries):
    return {"provenance": WHERE, "metrics": ncu.chosen(set()), "entries": list(entries)}


def entry(step="step10", dsl="tilelang", *launches):
    return {"name": f"{step} {dsl}", "step": step, "dsl": dsl, "launches": list(launches or [launch()])}


GOOD = recording(entry(), entry("step09"))

# -- what they say


def test_the_product_is_the_time():
    found = counters.parts(launch(), WHERE)
    assert found.seconds == pytest.approx(found.measured, rel=0.02)
    assert found.seconds == 2 * 4096**3 / (0.897 * 1.56e9 * 132 * HOME.flop_per_clock)
    assert found.floor + found.slow + found.idle == pytest.approx(found.seconds)
    assert found.idle / found.seconds == pytest.approx(1 - 0.897)
    assert found.floor == pytest.approx(2 * 4096**3 / (1.98e9 * 132 * HOME.flop_per_clock))


def test_where_the_highest_clock_is_not_known_the_clock_adds_nothing():
    found = counters.parts(launch(), {**WHERE, "max_clock_mhz": None})
    assert found.slow == pytest.approx(0)


@pytest.mark.parametrize("missing", ["seconds", "clock_hz", "tensor_active"])
def test_without_a_part_nothing_is_said(missing):
    one = launch()
    del one["counters"][missing]
    assert counters.parts(one, WHERE) is None and "not known" in counters.bound(one, WHERE)


def test_a_busy_tensor_pipe_is_the_bound_and_the_clock_what_is_left():
    text = counters.bound(launch(power=POWER), WHERE)
    assert text.startswith("The tensor cores bound it: they work in 90% of all cycles.")
    assert "1.56 of 1.98 GHz" in text and "143 us and not 183" in text and "650 of 700 W" in text
    assert "clock" not in counters.bound(launch(clock_hz=1.97e9), WHERE)


def test_full_memory_is_the_bound_of_an_idle_pipe():
    idle = {"tensor_active": 0.4, "dram_throughput": 0.2, "l2_throughput": 0.82}
    assert counters.bound(launch(**idle), WHERE).startswith("L2 bounds it: it moves 82%")
    assert counters.bound(launch(**{**idle, "dram_throughput": 0.9}), WHERE).startswith("DRAM bounds it")


def test_else_it_waits_and_for_what():
    waits = {
        "stalled_long_scoreboard": 6.0,
        "stalled_gmma": 2.0,
        "stalled_selected": 1.0,
        "stalled_wait": 1.0,
    }
    text = counters.bound(launch(tensor_active=0.4, **waits), WHERE)
    assert text == (
        "Waiting bounds it: the tensor cores work in 40% of all cycles. Of the warps there, 60% wait for "
        "an mbarrier, or memory outside of the SM."
    )
    assert counters.bound(launch(tensor_active=0.4), WHERE).endswith("40% of all cycles.")


# -- measuring


def resized(M, N, K):
    """The artifact for another problem."""
    shapes = zip(artifact().tensors, ((M, K), (N, K), (M, N)), strict=True)
    return replace(artifact(), tensors=tuple(replace(tensor, shape=shape) for tensor, shape in shapes))


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Puts a stub for ncu into PATH, alone, and one for the program under it."""

    def put(**how):
        monkeypatch.setattr(ncu, "CHILD", ncu_stub.write(tmp_path / "bin", **how))
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    return put


def test_cublas_stands_beside_the_kernels_at_each_size(stub):
    stub(dies=[2])
    said, kept = [], []
    small = artifact()
    kernels = [
        Kernel("step01 tilelang", "step01", "tilelang", {small.problem: small}),
        Kernel("step02 cute", "step02", "cute", {small.problem: small}),
    ]
    where = {key: value for key, value in WHERE.items() if key != "ncu"}
    found = counters.measure(kernels, where, said.append, keep=lambda now: kept.append(json.dumps(now)))
    assert [e["name"] for e in found["entries"]] == ["cuBLAS", "step01 tilelang"]
    assert all(one["power"]["power_w"] == 650 for e in found["entries"] for one in e["launches"])
    assert found["provenance"]["ncu"] == "2025.3.1.0" and found["provenance"]["max_clock_mhz"] is None
    assert found["lost"] and set(found["lost"]) <= set(said)
    assert found["lost"][0].startswith("step02 cute at 128x128x128 has no counters: its launch ended")
    assert json.loads(kept[0])["entries"][1]["launches"][0]["power"] is None


def test_a_variant_has_its_launches_in_each_dsl(stub):
    stub()
    name, sizes = "step09, no multicast", [(128, 128, 128), (256, 128, 128)]
    kernels = [Kernel(name, "step09", dsl, {size: resized(*size) for size in sizes}) for dsl in DSL_NAMES]
    found = counters.measure(kernels, {key: value for key, value in WHERE.items() if key != "ncu"})
    places = [(e["name"], e["dsl"], [tuple(one["size"]) for one in e["launches"]]) for e in found["entries"]]
    assert places == [("cuBLAS", "cublas", sizes), (name, "tilelang", sizes), (name, "cute", sizes)]


def test_of_a_variant_without_counters_the_language_is_said(stub):
    stub(dies=[2])
    kernels = [Kernel("step09, no multicast", "step09", dsl, {SIZE: resized(*SIZE)}) for dsl in DSL_NAMES]
    found = counters.measure(kernels, {key: value for key, value in WHERE.items() if key != "ncu"})
    assert found["lost"][0].startswith("step09, no multicast (cute) at 4096x4096x4096 has no counters")


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """A bundle of one kernel, as its own program; there is a GPU, and solutions/measured is empty."""
    monkeypatch.setattr(measured, "FOLDER", tmp_path / "measured")
    device = {"name": "NVIDIA H200", "driver": "580.00", "torch": "2.11.0", "sms": 132}
    monkeypatch.setattr(backends, "find_gpu", lambda: (device, ""))
    kernel = {"name": "step01 tilelang", "step": "step01", "dsl": "tilelang", "timed": True, "factory": None}

    def compiled(_factory, _dsl, size, _kind, _chip):
        return resized(*size)

    bundle.write(tmp_path / "out.pyz", [kernel], compiled, own_key=signing.key(tmp_path / "key"))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "out.pyz")])
    return tmp_path / "counters.json"


def test_a_bundles_counters_are_signed_and_recorded(archive, stub, tmp_path, capsys):
    stub()
    assert bundle.main(["--counters", "--out", str(archive)]) == 0
    assert "`course import counters.json --as counters` records it" in capsys.readouterr().out
    assert '"ID"' in (tmp_path / "counters.csv").read_text()
    measured.record(archive, "counters", tmp_path / "key")
    kept = measured.load("counters")
    assert [e["name"] for e in kept["entries"]] == ["cuBLAS", "step01 tilelang"]
    assert kept["entries"][1]["launches"][0]["counters"]["tensor_active"] == pytest.approx(0.897)

    changed = json.loads(archive.read_text())
    changed["entries"][1]["launches"][0]["counters"]["tensor_active"] = 0.99
    archive.write_text(json.dumps(changed))
    with pytest.raises(MeasuredError, match="not right.*--unsigned"):
        measured.record(archive, "counters", tmp_path / "key")
    assert measured.load("counters") == kept


def test_a_bundle_says_why_there_are_no_counters(archive, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bundle.main(["--counters", "--out", str(archive)]) == 2
    assert "cannot run: there is no ncu in PATH" in capsys.readouterr().err and not archive.exists()


# -- recording


def written(tmp_path, content):
    path = tmp_path / "counters.json"
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(measured, "FOLDER", tmp_path / "measured")
    return tmp_path


def test_nothing_recorded_is_empty(folder):
    assert measured.load("counters") == {"provenance": {}, "entries": []}


def test_counters_are_recorded_under_their_own_name(folder):
    path = written(folder, GOOD)
    with pytest.raises(MeasuredError, match="is not signed"):
        measured.record(path, "counters")
    measured.record(path, "counters", unsigned=True)
    assert measured.load("counters") == GOOD


def without(fields, key):
    return {name: value for name, value in fields.items() if name != key}


@pytest.mark.parametrize(
    "content, words",
    [
        ({**GOOD, "provenance": without(WHERE, "sms")}, "provenance lacks sms"),
        ({**GOOD, "provenance": without(WHERE, "ncu")}, "provenance lacks ncu"),
        ({**GOOD, "provenance": {**WHERE, "sms": 0}}, "provenance.sms"),
        ({**GOOD, "entries": [without(entry(), "launches")]}, "entry 0 lacks launches"),
        (recording(entry("step10", "cute", without(launch(), "counters"))), "entry 0, launches.*counters"),
        (recording(entry("step10", "cute", launch(seconds=float("nan")))), "entry 0, launches"),
        (recording(entry("step10", "cute", launch(seconds="183"))), "entry 0, launches.*float.*str"),
        (recording(entry("step10", "cute", launch(size=(1, 2)))), "entry 0, launches.*size"),
        (recording(entry("step10", "cute", launch(power={"power_w": 5.0}))), "entry 0, launches.*seconds"),
        (without(GOOD, "metrics"), "metrics"),
        ({"provenance": WHERE, "entries": []}, "metrics|no entries"),
    ],
)
def test_what_is_no_file_of_counters_is_refused(content, words, folder):
    with pytest.raises(MeasuredError, match=words):
        measured.record(written(folder, content), "counters", unsigned=True)
    assert not measured.FOLDER.exists()


def test_a_ladder_is_no_file_of_counters_nor_the_other_way_round(folder):
    of_ladder = {"name": "step03 tilelang", "step": "step03", "dsl": "tilelang", "checks": [], "timings": []}
    with pytest.raises(MeasuredError, match="entry 0 lacks launches"):
        measured.record(written(folder, {**GOOD, "entries": [of_ladder]}), "counters", unsigned=True)
    with pytest.raises(MeasuredError, match="entry 0 lacks checks, timings; .*`course import --as counters`"):
        measured.record(written(folder, GOOD), unsigned=True)


def test_an_interrupted_import_leaves_the_record(folder):
    measured.record(written(folder, GOOD), "counters", unsigned=True)
    with pytest.raises(MeasuredError):
        measured.record(written(folder, {}), "counters", unsigned=True)
    assert measured.load("counters") == GOOD


def test_the_form_has_every_field_that_is_measured():
    assert {"counters", "power", "size", "kernel"} == set(model.Launch.__struct_fields__)
    assert issubclass(NcuError, RuntimeError)  # as a bundle catches it
