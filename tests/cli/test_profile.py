"""``course profile``: what it prints with a GPU and ncu, and what without."""

import pytest

from course_utils import cli
from course_utils.compile import factory
from course_utils.recordings import measured, model
from course_utils.run import backends, ncu
from tests.recordings.test_counters import WHERE, entry, launch, recording
from tests.run import ncu_stub
from tests.run.test_ncu import artifact

PASSED, USAGE, NOT_ALL_TRIED = 0, 2, 3
CUBLAS = {"name": "cuBLAS", "step": "cublas", "dsl": "cublas", "launches": [launch(seconds=185e-6)]}


@pytest.fixture
def course(monkeypatch, tmp_path, capsys):
    """Runs `course profile` where nothing is recorded, no GPU is found, and PATH is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    monkeypatch.setattr(backends, "find_gpu", lambda: (None, "there is no NVIDIA driver here"))

    def run(*argv):
        code = cli.main(["profile", *argv])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def gpu(course, monkeypatch, tmp_path):
    """Puts a GPU of this name there, and a stub for ncu; nothing is compiled."""

    def put(name="NVIDIA H200", **how):
        device = {"name": name, "driver": "580.00", "torch": "2.11.0", "sms": 132}
        monkeypatch.setattr(backends, "find_gpu", lambda: (device, ""))
        monkeypatch.setattr(ncu, "CHILD", ncu_stub.write(tmp_path / "bin", **how))
        monkeypatch.setattr(factory, "compile_factory", lambda *_: artifact())

    return put


def test_without_a_gpu_it_says_so_and_that_nothing_is_recorded(course):
    code, out, err = course("step09")
    assert (code, err) == (NOT_ALL_TRIED, "")
    assert "not read here: there is no NVIDIA driver here." in out
    assert "Counters of step09 tilelang are not recorded yet." in out


def test_without_a_gpu_the_recorded_ones_are_shown_with_where_they_come_from(course):
    recorded = recording(CUBLAS, entry("step10"))
    recorded["provenance"] = {**WHERE, "note": "Power is of another day."}
    model.write(measured.FOLDER / "counters.json", recorded)
    code, out, _ = course("step10")
    assert code == NOT_ALL_TRIED
    assert "M, N, K = 4096 x 4096 x 4096" in out and "cuBLAS, recorded" in out
    assert "89.7%" in out and "183.0" in out and "185.0" in out
    assert "The tensor cores bound it: they work in 90% of all cycles." in out
    assert "137.4 GFLOP / (0.897 x 1.56 GHz x 132 x 4,096) = 181.7 us; ncu measured 183.0" in out
    assert (
        "Recorded on NVIDIA H200, 2026-01-02, driver 580.00, ncu 2025.3.1.0. Power is of another day." in out
    )
    assert "step09 cute are not recorded yet" in course("step09", "--dsl", "cute")[1]


def test_the_librarys_plan_stands_beside_step_11s(course):
    cublas = {**CUBLAS, "launches": [launch(seconds=185e-6)]}
    cublas["launches"][0]["kernel"] = "nvjet_sm90_hsh_176x192_64x4_2x1_v_bz_coopB_TNN"
    model.write(measured.FOLDER / "counters.json", recording(cublas, entry("step10"), entry("step11")))
    lines = [" ".join(line.split()) for line in course("step11")[1].splitlines()]
    assert "cuBLAS 192 x 176 64 x 4 1 x 2 528 4 100% 8.05" in lines
    assert "step11 128 x 256 2 x 1 512 4 100% 7.81" in lines
    other = course("step10")[1]
    assert "192 x 176" in other and "step11" not in other  # another step's plan is its constants
    cublas["launches"][0]["kernel"] = "sm90_xmma_gemm"
    model.write(measured.FOLDER / "counters.json", recording(cublas, entry("step11")))
    assert "plans" not in course("step11")[1]


def test_a_gpu_without_ncu_is_told_where_ncu_is(course, monkeypatch):
    monkeypatch.setattr(backends, "find_gpu", lambda: ({"name": "NVIDIA H200"}, ""))
    code, out, _ = course("step09")
    assert code == NOT_ALL_TRIED and "there is no ncu in PATH" in out and "Nsight Compute" in out


def test_with_both_the_kernel_stands_beside_cublas(course, gpu):
    gpu()
    code, out, err = course("step10")
    assert (code, err) == (PASSED, "")
    assert "this kernel" in out and "cuBLAS" in out and "recorded" not in out
    assert "183.5" in out and "1.56" in out and "power in a loop, W" in out and "650" in out
    assert "bound" in out and "GFLOP" in out


def test_what_was_recorded_on_another_gpu_is_marked(course, gpu):
    gpu("NVIDIA H100 80GB HBM3")
    kept = entry("step10", "tilelang", launch((128, 128, 128)))
    model.write(measured.FOLDER / "counters.json", recording(kept))
    _, out, _ = course("step10")
    assert "This GPU is NVIDIA H100 80GB HBM3 and not NVIDIA H200" in out and "Recorded on NVIDIA H200" in out


def test_without_permission_it_says_what_to_do_and_shows_what_is_recorded(course, gpu):
    gpu(words="==ERROR== ERR_NVGPUCTRPERM - The user does not have permission", rows=False)
    model.write(measured.FOLDER / "counters.json", recording(entry("step10")))
    code, out, _ = course("step10")
    assert code == NOT_ALL_TRIED and "Run it as root" in out and "183.0" in out


def test_a_metric_that_is_not_known_is_named_and_costs_no_other(course, gpu):
    gpu(refused=["lts__t_bytes"])
    code, out, _ = course("step10")
    assert code == PASSED and "does not know: l2_bytes" in out and "tensor pipe active" in out


def test_a_kernel_that_gives_a_wrong_result_has_no_counters(course, gpu):
    gpu(wrong=[1])
    code, out, _ = course("step10")
    assert (
        code == NOT_ALL_TRIED
        and "the kernel's own launch gave no counters" in out
        and "TimedOutputWrong" in out
    )


@pytest.mark.parametrize(
    "argv, words",
    [
        (["step99"], "there is no step and no file 'step99'"),
        (["none.py"], "there is no file none.py"),
        (["step03", "--size", "4096"], "--size is MxNxK"),
    ],
)
def test_bad_input_exits_2_at_once(argv, words, course):
    code, out, err = course(*argv)
    assert (code, out) == (USAGE, "") and words in err


def test_a_bad_recording_is_named(course):
    (measured.FOLDER / "counters.json").write_text('{"provenance": {}, "entries": [{}]}')
    code, _, err = course("step09")
    assert code == USAGE and "counters.json" in err and WHERE["gpu"] not in err
