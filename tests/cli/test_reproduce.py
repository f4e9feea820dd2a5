"""course reproduce: the folder of a bug report, and what a pair of programs has to be."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from course_utils import cli
from course_utils.cli import run_pair
from course_utils.compile.load import solution_path
from course_utils.grading import reproducer
from course_utils.grading.reproducer import Run

GOOD, FAILED, USAGE = 0, 1, 2
CONTROL = solution_path("t4", "cute").read_text()
LINE = "            cute.copy(load_X, load_src, load_dst, tma_bar_ptr=full)"
BROKEN = CONTROL.replace(LINE, f"            with cute.arch.elect_one():\n    {LINE}").replace(
    "import cutlass\n", "import cutlass  # the DSL\n", 1
)
RIGHT, WRONG, REFUSED = Run((), True, ("right",)), Run((), False, ("hangs",)), Run((), None, ("refused",))
LEFT_OUT = (  # an edit that moves nothing in memory: Y keeps what it had
    """import tilelang.language as T


def kernel():
    @T.prim_func
    def main(X: T.Tensor((128, 64), T.float16), Y: T.Tensor((128, 64), T.float16)):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(128, 64):
                Y[i, j] = X[i, j]

    return main
""",
    "import numpy as np\n\n\ndef inputs():\n    return {'X': np.ones((128, 64), np.float16)}\n\n\n"
    "def outputs(X):\n    return {'Y': X}\n",
)


@pytest.fixture
def course(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in (("control.py", CONTROL), ("mine.py", BROKEN)):
        Path(name).write_text(text)

    def run(*argv):
        return cli.main(["reproduce", *map(str, argv)]), *capsys.readouterr()

    return run


def test_a_pair_is_written_with_all_that_a_report_needs(course):
    code, out, err = course("mine.py", "--control", "control.py", "--size", "64x64", "--out", "pair")
    assert (code, err) == (GOOD, "")
    assert [line[:2] for line in out.splitlines() if line[:4] in ("ok  ", "no  ")] == ["ok"] * 4
    here = {path.name for path in Path("pair").iterdir()}
    written = ["case.json", "environment.json", "reference.py", "report.md", "run.py"]
    assert here == {*written, "control.py", "control.ptx", "kernel.py", "kernel.ptx"}
    assert Path("pair/kernel.py").read_text() == BROKEN and Path("pair/control.py").read_text() == CONTROL
    assert ".visible .entry" in Path("pair/kernel.ptx").read_text()
    report = Path("pair/report.md").read_text()
    assert "+            with cute.arch.elect_one():" in report and "31 lanes" in report
    assert report.count("@@ -") == 1 and "# the DSL" not in report  # a comment is no difference
    case = json.loads(Path("pair/case.json").read_text())
    assert case == {
        "dsl": "cute",
        "function": "copy",
        "size": [64, 64],
        "programs": ["control.py", "kernel.py"],
    }
    code, _, err = course("mine.py", "--out", "pair")
    assert code == USAGE and "pair is there already" in err


def test_the_script_stands_alone_and_says_what_it_cannot_do(course, tmp_path):
    course("mine.py", "--size", "64x64", "--out", "pair")
    done = subprocess.run(
        [sys.executable, "pair/run.py"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""},
    )
    assert done.returncode == 2 and "gpu: none" in done.stdout and "Nothing is launched here" in done.stdout
    assert "course_utils" not in Path(run_pair.__file__).read_text()


def test_the_script_ends_a_program_that_hangs_and_quotes_one_that_raises(tmp_path, monkeypatch):
    slow, broken = tmp_path / "slow.py", tmp_path / "broken.py"
    slow.write_text("import time\ntime.sleep(60)\n")
    broken.write_text("raise RuntimeError('unspecified launch failure')\n")
    monkeypatch.setattr(run_pair, "LIMIT", 0.5)
    monkeypatch.setattr(run_pair, "__file__", str(slow))
    assert run_pair.outcome("kernel.py") == "did not end within 0.5 s"
    monkeypatch.setattr(run_pair, "LIMIT", 60)
    monkeypatch.setattr(run_pair, "__file__", str(broken))
    assert run_pair.outcome("kernel.py") == "RuntimeError: unspecified launch failure"


def test_a_file_that_defines_both_is_a_pair_by_itself(course):
    Path("both.py").write_text(solution_path("t4b", "cute").read_text())
    code, out, err = course("both.py", "--out", "pair")
    assert (code, err) == (GOOD, "")
    assert [line[:2] for line in out.splitlines() if line[:4] in ("ok  ", "no  ")] == ["ok"] * 4
    control, broken = (Path("pair", name).read_text() for name in ("control.py", "kernel.py"))
    assert "def copy(" in control and "def control(" not in broken and control.count("def ") == 3
    assert json.loads(Path("pair/case.json").read_text())["size"] == [64, 64]
    report = Path("pair/report.md").read_text()
    assert "broken.py" not in report
    line = int(re.search(r"at kernel\.py, line (\d+): ", report)[1])
    assert f"line {line}: {broken.splitlines()[line - 1].strip()}" in report


def test_a_kernel_without_a_fault_is_told_so(course):
    code, out, _ = course("control.py", "--size", "64x64", "--out", "alone")
    assert code == FAILED and "shows no fault here" in out and "no control yet" not in out


@pytest.mark.parametrize("name", ["t3a", "T4", "step05"])
def test_an_id_is_no_file(course, name):
    code, _, err = course(name)
    assert code == USAGE and "takes a FILE" in err


def test_without_a_control_it_says_what_a_control_is(course):
    code, out, _ = course("mine.py", "--size", "64x64", "--out", "alone")
    assert code == FAILED and "There is no control yet" in out and "31 lanes" in out
    assert not Path("alone/control.py").exists()


def test_any_kernel_is_held_against_its_reference(course):
    kernel, reference = LEFT_OUT
    Path("any.py").write_text(kernel.replace("Y[i, j] = X[i, j]", "Y[i, j] = X[i, j] + T.float16(1)"))
    Path("right.py").write_text(kernel)
    Path("reference.py").write_text(reference)
    code, out, _ = course("any.py", "--control", "right.py", "--against", "reference.py", "--out", "pair")
    assert code == GOOD and "ok  one edit" in out and "Y is wrong" in out
    assert json.loads(Path("pair/case.json").read_text())["function"] == "kernel"
    assert Path("pair/reference.py").read_text() == reference


@pytest.mark.parametrize(
    "argv, words",
    [
        (["none.py"], "there is no file none.py"),
        (["."], ". is a folder"),
        (["mine.py", "--control", "none.py"], "there is no file none.py"),
        (["binary.py"], "binary.py cannot be read"),
        (["empty.py"], "empty.py defines no gemm"),
        (["mine.py", "--size", "64x"], "a shape, for example 8x32x64"),
        (["mine.py", "--control", "empty.py"], "empty.py defines no copy"),
        (["task05a_mine.py"], "name its inputs and outputs by --against REFERENCE.py"),
        (["mine.py", "--against", "none.py"], "there is no file none.py"),
    ],
)
def test_bad_input_exits_2_and_writes_nothing(argv, words, course):
    Path("binary.py").write_bytes(b"\xff\xfe\x00")
    Path("empty.py").write_text("")
    Path("task05a_mine.py").write_text("def gemm(M, N, K):\n    pass\n")
    code, out, err = course(*argv, "--out", "pair")
    assert (code, out) == (USAGE, "") and words in err and not Path("pair").exists()


# -- the conditions on a pair


def passed(control, broken, of_control=RIGHT, of_broken=WRONG):
    lines = [reproducer.statements(source, "program") for source in (control, broken)]
    return [point.passed for point in reproducer.points(*lines, of_control, of_broken)]


def test_a_pair_differs_by_one_edit():
    assert passed("def a():\n    f(1)\n", "def b():\n    f(2)  # the fault\n") == [True] * 4
    assert passed("x = 1\ny = 2\nz = 3\n", "x = 2\ny = 2\nz = 4\n")[0] is False
    assert passed("x = 1\n", "x = 1  # no other\n")[0] is False
    assert passed("x = 1\n", "\n".join(f"x{n} = 1" for n in range(4)))[0] is False
    assert passed(CONTROL, BROKEN)[0] is True


def test_how_a_program_is_written_is_no_edit():
    assert reproducer.statements('def f():\n    """Says so."""\n    return g(1,\n        2)\n', "h") == [
        "def h():",
        "    return g(1, 2)",
    ]


def test_the_control_runs_and_the_kernel_shows_the_fault():
    assert passed("x = 1\n", "x = 2\n", WRONG, WRONG) == [True, False, True, True]
    assert passed("x = 1\n", "x = 2\n", RIGHT, RIGHT) == [True, True, False, True]
    assert passed("x = 1\n", "x = 2\n", REFUSED, REFUSED) == [True, False, True, True]


def test_a_program_is_short():
    many = "\n".join(f"x{n} = 1" for n in range(reproducer.LINES))
    assert passed(many, many.replace("x0 = 1", "x0 = 2"))[3] is True
    assert passed(f"{many}\ny = 1", many)[3] is False
