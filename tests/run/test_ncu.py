"""Counters by ncu: what of its table is read, which launch a row is of, and what a fault costs."""

import os

import pytest

from course_utils.artifact import Artifact, Resources, Tensor
from course_utils.run import ncu
from course_utils.run.ncu import Item, NcuError, Row
from tests.run import ncu_stub

TIME, CLOCK = "gpu__time_duration.sum", "smsp__cycles_elapsed.avg.per_second"
# made up in the form of `ncu --csv --page raw` as NVIDIA documents it, with units that it scales
TABLE = """==PROF== Connected to process 7 (/usr/bin/python3)
a line of the program, with a comma
==PROF== Profiling "main" - 0: 0%....50%....100% - 9 passes
"ID","Process ID","Kernel Name","CC","gpu__time_duration.sum","lts__t_bytes.sum","sm__pipe_tensor.pct","dram__bytes.sum"
"","","","","us","Mbyte","%","byte"
"0","7","nvjet_hsh, 128x256","9.0","183.5","1,150.2","89.7","n/a"
==WARNING== something in between
"1","7","main","9.0","1,234.5","8","nan","1,000,000"
"2","7","main","9.0","1
"""


def artifact(kernel="main"):
    """A GEMM's that launches nothing."""
    tensors = tuple(Tensor(name, (128, 128), "float16") for name in "ABD")
    return Artifact(
        dsl="tilelang",
        kernel=kernel,
        ptx="",
        cubin=b"",
        grid=(1, 1, 1),
        block=(128, 1, 1),
        cluster=(1, 1, 1),
        dynamic_shared=0,
        parameters=(),
        tensors=tensors,
        resources=Resources(90, 0, 0, 0, 0),
        versions={"tilelang": "0.1.15"},
    )


ITEMS = [Item("cuBLAS", artifact(), cublas=True), Item("first", artifact()), Item("second", artifact())]


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Writes the two scripts and puts ncu into PATH, alone. Counts with them."""

    def count(limit=5.0, items=ITEMS, **how):
        child = ncu_stub.write(tmp_path / "bin", **how)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
        return ncu.count(items, ncu.find(), child, told.append, limit=limit)

    told = count.told = []
    return count


# -- the table


def test_a_row_is_a_launch_in_base_units():
    first, second = ncu.read(TABLE)
    assert first.kernel == "nvjet_hsh, 128x256"
    tensor = "sm__pipe_tensor.pct"
    assert first.values == pytest.approx({TIME: 183.5e-6, "lts__t_bytes.sum": 1150.2e6, tensor: 0.897})
    assert second.values == pytest.approx({TIME: 1234.5e-6, "lts__t_bytes.sum": 8e6, "dram__bytes.sum": 1e6})


@pytest.mark.parametrize(
    "cell, unit, value",
    [
        ("1.5", "Ghz", 1.5e9),
        ("1.5", "cycle/nsecond", 1.5e9),
        ("1,500,000,000", "hz", 1.5e9),
        ("183456", "nsecond", 183456e-9),
        ("12", "inst", 12),
        ("0.25", "inst/cycle", 0.25),
        ("2", "Kbyte", 2000),
        ("3", "Mbyte/second", 3e6),
        ("7", "", 7),
        ("", "byte", None),
        ("inf", "%", None),
        ("(!) nan", "%", None),
    ],
)
def test_a_cell_in_base_units(cell, unit, value):
    text = f'"ID","a__b.sum"\n"","{unit}"\n"0","{cell}"\n'
    (row,) = ncu.read(text)
    assert row.values == ({} if value is None else {"a__b.sum": pytest.approx(value)})


@pytest.mark.parametrize(
    "text", ["", "==ERROR== no\n", '"Kernel Name","x__y"\n"main","1"\n', '"ID","a__b"\n']
)
def test_what_is_no_table_has_no_rows(text):
    assert ncu.read(text) == []


def test_a_table_without_names_of_kernels_or_units_is_read():
    assert ncu.read('"ID","a__b"\n"0","5"\n') == [Row("", {"a__b": 5.0})]


# -- whose a row is


def rows(*named):
    return [Row(kernel, {TIME: seconds}) for kernel, seconds in named]


def test_cublas_may_launch_more_than_one_kernel_and_the_longest_counts():
    found = ncu.matched(
        rows(("splitK", 5), ("reduce", 1), ("main", 9), ("other", 8)), [(3, None), (5, "main"), (6, "other")]
    )
    assert {index: row.values[TIME] for index, row in found.items()} == {3: 5, 5: 9, 6: 8}


def test_a_launch_without_a_row_takes_no_other_launchs():
    launches = [(0, "main"), (1, "lost"), (2, "other"), (3, None)]
    found = ncu.matched(rows(("main", 1), ("other", 2), ("nvjet", 3)), launches)
    assert {index: row.kernel for index, row in found.items()} == {0: "main", 2: "other", 3: "nvjet"}


def test_the_order_counts_where_there_is_a_row_for_each():
    found = ncu.matched(rows(("main(...)", 1), ("main(...)", 2)), [(4, "main"), (7, "main")])
    assert {index: row.values[TIME] for index, row in found.items()} == {4: 1, 7: 2}


# -- which metrics


def test_a_counter_has_the_first_metric_that_is_known():
    clocks = ncu.COUNTERS["clock_hz"]
    assert ncu.chosen(set())["clock_hz"] == clocks[0]
    assert ncu.chosen({clocks[2].split(".")[0]}) == {"clock_hz": clocks[2]}
    unknown = {metric.split(".")[0] for metric in clocks}
    assert "clock_hz" not in ncu.chosen(set(), unknown) and "tensor_active" in ncu.chosen(set(), unknown)


def test_only_the_launch_itself_is_counted_at_the_clock_as_it_is(tmp_path):
    line = ncu.command("ncu", ["a__b.sum", "c__d.avg"], tmp_path / "log", ["python3", "x.py"])
    text = " ".join(line)
    for words in ("--clock-control none", "--cache-control all", "--profile-from-start off", "--page raw"):
        assert words in text
    assert "--metrics a__b.sum,c__d.avg" in text and line[-2:] == ["python3", "x.py"]


# -- the whole way, with a stub for ncu and for the program under it


def test_every_launch_has_its_counters(stub):
    found = stub()
    assert found.rows.keys() == {0, 1, 2} and found.failed == {}
    assert [found.rows[index].kernel for index in range(3)] == ["nvjet_hsh_128x256", "main", "main"]
    counters = found.counters(1)
    assert counters["seconds"] == pytest.approx(183.456e-6) and counters["clock_hz"] == pytest.approx(1.56e9)
    assert counters["tensor_active"] == pytest.approx(0.897) and counters["stalled_gmma"] == 4
    assert "instructions" not in counters  # "n/a"
    assert len(stub.told) == 1 and '"ID"' in stub.told[0]


def test_a_metric_that_ncu_does_not_list_is_not_asked_for(stub):
    known = ["gpu__time_duration", "gpc__cycles_elapsed", "sm__pipe_tensor_cycles_active"]
    found = stub(known=known)
    assert found.metrics.keys() == {"seconds", "clock_hz", "tensor_active"}
    assert found.metrics["clock_hz"] == "gpc__cycles_elapsed.avg.per_second"


def test_a_metric_that_ncu_refuses_costs_no_other(stub):
    found = stub(refused=["smsp__cycles_elapsed", "lts__t_bytes"])
    assert found.rows.keys() == {0, 1, 2}
    assert found.metrics["clock_hz"] == "sm__cycles_elapsed.avg.per_second"
    assert "l2_bytes" not in found.metrics


def test_without_permission_it_says_what_to_do(stub):
    words = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Perfor..."
    with pytest.raises(NcuError, match="ERR_NVGPUCTRPERM.*root.*NVreg_RestrictProfilingToAdminUsers=0"):
        stub(words=words, rows=False)


def test_a_launch_that_ends_the_process_costs_no_other(stub):
    found = stub(dies=[1])
    assert found.rows.keys() == {0, 2} and "ended the process" in found.failed[1]


def test_a_wrong_result_is_not_counted(stub):
    found = stub(wrong=[2])
    assert found.rows.keys() == {0, 1} and found.failed == {2: "TimedOutputWrong: a timed output was wrong"}


def test_a_batch_at_a_time_and_what_is_found_is_kept(stub, tmp_path, monkeypatch):
    monkeypatch.setattr(ncu, "BATCH", 2)
    child, kept = ncu_stub.write(tmp_path / "bin", dies=[1]), []
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = ncu.count(ITEMS, ncu.find(), child, keep=lambda now: kept.append(set(now.rows)))
    assert kept == [{0}, {0, 2}] and found.failed.keys() == {1}


def test_a_launch_that_hangs_is_ended_and_the_others_are_tried_again(stub):
    found = stub(hangs=[0], limit=0.4)
    assert found.rows.keys() == {1, 2} and "longer than 0.4 s" in found.failed[0]


def test_no_table_is_said_with_what_ncu_printed(stub):
    with pytest.raises(NcuError, match="no counters; .*LibraryNotLoaded"):
        stub(words="==ERROR== Failed to initialize the profiler: LibraryNotLoaded", rows=False)


def test_where_every_launch_fails_each_says_why(stub):
    found = stub(wrong=[0, 1, 2], items=ITEMS[:1])
    assert found.rows == {} and "TimedOutputWrong" in found.failed[0]


def test_no_ncu_in_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NcuError, match="no ncu in PATH.*Nsight Compute"):
        ncu.find()


def test_what_ncu_does_not_say_is_not_known(tmp_path):
    assert ncu.version(str(tmp_path / "none")) == "unknown" and ncu.known(os.devnull) == set()


def test_a_list_of_metrics_that_is_none_rules_nothing_out(stub):
    assert stub(known=["something__else"]).metrics == ncu.chosen(set())
