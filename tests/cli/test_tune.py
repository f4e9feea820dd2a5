"""``course tune`` where there is no GPU, where there is another one, and with what it cannot take."""

import pytest

from course_utils.cli import EXIT_NOT_ALL_TRIED, EXIT_USAGE, main
from course_utils.cli import tune as command
from course_utils.recordings import measured, model, tuning
from course_utils.run import backends


@pytest.fixture
def tune(monkeypatch, tmp_path, capsys):
    """``course tune`` in an empty folder, on a machine with this GPU or with none."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, gpu=None):
        device = {"name": gpu, "driver": "580", "torch": "2.11", "capability": [9, 0], "sms": 132}
        device = device if gpu else None
        monkeypatch.setattr(backends, "find_gpu", lambda: (device, "" if gpu else "there is no GPU here"))
        code = main(["tune", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_without_a_gpu_it_says_so_and_shows_what_was_recorded(tune, tmp_path):
    code, out, _ = tune("step11", "--shapes", "4104x4104x4104", "136x136x136")
    assert code == EXIT_NOT_ALL_TRIED
    assert "Nothing is tuned here: there is no GPU here." in out
    assert "What follows was recorded on NVIDIA H200" in out
    assert "4104 x 4104 x 4104  tilelang" in out and "of cuBLAS" in out
    assert "136 x 136 x 136: no time of tilelang is recorded; the model takes 128 x" in out
    assert not (tmp_path / "build").exists()


def test_what_there_are_times_of_is_shown_and_nothing_timed(tune, tmp_path):
    code, out, _ = tune("step11", "--show", gpu="NVIDIA H200")
    assert code == 0 and "the course's record: NVIDIA H200" in out
    assert "16384 x 16384 x 16384  tilelang" in out and "build/tuned.json" not in out
    (tmp_path / "build").mkdir()
    recorded = measured.load("step11")
    mine = {"provenance": recorded["provenance"] | {"gpu": "my H100"}, "entries": recorded["entries"][:1]}
    model.write(tmp_path / "build" / "tuned.json", mine)
    M, N, K = mine["entries"][0]["size"]
    dsl = mine["entries"][0]["dsl"]
    code, out, _ = tune("step11", "--show", "--shapes", f"{M}x{N}x{K}", "--dsl", dsl)
    assert code == 0 and "build/tuned.json: my H100" in out and out.count(f"{M} x {N} x {K}") == 2


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("step11",), "--shapes names what is tuned"),
        (("step09", "--shapes", "4096x4096x4096"), "step09 has one plan; course tune is for step11"),
        (("mine.py", "--shapes", "4096x4096x4096"), "there is no file 'mine.py'"),
        (("step11", "--shapes", "4096x4096"), "a shape is MxNxK, for example 4104x4104x4104, not 4096x4096"),
        (("step11", "--shapes", "4096x4096x0"), "a shape is MxNxK"),
        (("step11", "--shapes", "4096x4096x4100"), "The nearest one is 8208 bytes: pad rows to 4104"),
        (("step11", "--shapes", "8x8x8", "--plans", "0"), "--plans is how many"),
    ],
)
def test_what_cannot_be_tuned_is_said(tune, arguments, words):
    code, _, err = tune(*arguments)
    assert code == EXIT_USAGE and words in err


def test_a_file_without_a_plan_is_refused(tune, tmp_path):
    (tmp_path / "mine.py").write_text("def gemm(M, N, K):\n    pass\n")
    code, _, err = tune("mine.py", "--shapes", "8x8x8", gpu="NVIDIA H200")
    assert code == EXIT_USAGE and "gemm takes no plan" in err


@pytest.mark.parametrize("gpu", ["NVIDIA H200", "NVIDIA H100 80GB HBM3"])
def test_another_gpu_is_told_whose_figures_chose(tune, tmp_path, monkeypatch, gpu):
    (tmp_path / "mine.py").write_text("def gemm(M, N, K, plan=None):\n    pass\n")
    monkeypatch.setattr(tuning, "tune", lambda *_: measured.load("step11"))
    code, out, _ = tune("mine.py", "--shapes", "4104x4104x4104", gpu=gpu)
    assert code == 0 and "wrote build/tuned.json" in out
    assert ("fitted to times of NVIDIA H200: here it only says what to try first" in out) == ("H100" in gpu)


def test_ctrl_c_keeps_what_was_timed(tune, tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    (tmp_path / "mine.py").write_text("def gemm(M, N, K, plan=None):\n    pass\n")
    monkeypatch.setattr(tuning, "tune", stopped)
    code, out, _ = tune("mine.py", "--shapes", "8x8x8", gpu="NVIDIA H200")
    assert code == EXIT_NOT_ALL_TRIED and "What was timed is in build/tuned.json" in out
    assert command.STEP == "step11"
