"""The course command: what it prints, what it writes, and its exit codes."""

import functools
import importlib
import inspect
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from rich.console import Console

from course_utils import cli
from course_utils.artifact import Artifact
from course_utils.cli import doctor, parser, records, terminal
from course_utils.compile import cache, factory
from course_utils.compile import load as loading
from course_utils.compile.errors import CompileError
from course_utils.compile.faults import kernels
from course_utils.grading import gemm, ids, steps
from course_utils.grading.cards import Card
from course_utils.grading.check_progress import CheckProgress
from course_utils.grading.verdict import Part, Verdict
from course_utils.recordings import measured
from course_utils.run import backends

PNG = b"\x89PNG\r\n\x1a\n"
COMMANDS = [name for rows in parser.COMMANDS.values() for name in rows]
PASSED, FAILED, USAGE, NOT_ALL_TRIED = 0, 1, 2, 3
PROVENANCE = {
    "gpu": "NVIDIA H200",
    "driver": "580.00",
    "torch": "2.13.0",
    "date": "2026-01-02",
    "versions": {},
}
DEVICE = {
    "name": "NVIDIA H100",
    "capability": [9, 0],
    "sms": 132,
    "memory_bytes": 1,
    "cuda_driver": "13.0",
    "driver": "580.00",
    "torch": "2.13.0",
    "cublas_cuda": "13.0",
}


def timing(tflops, cublas=700.0):
    return {
        "mode": "burst",
        "size": [4096, 4096, 4096],
        "samples": 30,
        "tflops": tflops,
        "cublas_tflops": cublas,
        "ratio": tflops / cublas,
        "tflops_quartiles": [0.99 * tflops, 1.01 * tflops],
    }


def verdict(step="step01", passed=True, timings=()):
    """A verdict as a GPU would give it."""
    worth = {name: steps.part_points(steps.find(step), name) for name in steps.PARTS}
    parts = tuple(Part(name, passed, points if passed else 0.0, points, "") for name, points in worth.items())
    return Verdict(
        step, "tilelang", "gpu", parts, None if passed else Card("look at the barriers"), tuple(timings)
    )


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """A folder of our own, a terminal of 80 columns, and no recorded ladder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(measured, "FOLDER", tmp_path / "measured")
    return tmp_path


@pytest.fixture
def course(capsys):
    """Runs a command; returns its exit code, stdout and stderr."""

    def run(*argv):
        code = cli.main([str(a) for a in argv])
        return code, *capsys.readouterr()

    return run


def write(name, text):
    Path(name).write_text(text)
    return name


# -- usage


@pytest.mark.parametrize(
    "line",
    [
        "",
        "fly",
        "check",
        "check step01 --dsl cuda",
        "check step01 --backend tpu",
        "check step01 --time-limit long",
        "bundle",
        "import",
    ],
)
def test_wrong_usage_exits_2(line, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(line.split())
    assert caught.value.code == USAGE
    assert "usage: course" in capsys.readouterr().err


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--help"])
    assert not caught.value.code
    out = capsys.readouterr().out
    teachers = out.partition("\nfor teachers and authors:\n")[2]
    names = {line.split()[0] for line in teachers.splitlines() if line.startswith("  ") and line[2] != " "}
    assert names == {"grade", "sync", "bundle", "import"}
    for command in COMMANDS:
        assert len(re.findall(rf"^  {command} ", out, re.M)) == 1, command


# -- check


def test_check_of_a_solution_without_a_gpu_exits_3(course):
    code, out, err = course("check", "step01", "--backend", "compile")
    assert (code, err) == (NOT_ALL_TRIED, "")
    assert "step01  tilelang  2.5 of 5 points" in out
    assert all(name in out for name in steps.PARTS)


@pytest.mark.parametrize("passed, code", [(True, PASSED), (False, FAILED)])
def test_check_exits_0_only_if_all_passed(passed, code, course, monkeypatch):
    monkeypatch.setattr(gemm, "check_gemm", lambda *_, on_progress: verdict(passed=passed))
    assert course("check", "step01")[0] == code


def test_check_of_a_file_that_lacks_what_the_step_is_about_exits_1(course):
    code, out, _ = course(
        "check", "step02", "--file", loading.solution_path("step04", "tilelang"), "--backend", "compile"
    )
    assert code == FAILED
    assert "Look here first: " in out


def test_check_hands_its_options_on(course, monkeypatch):
    asked = []
    monkeypatch.setattr(
        gemm,
        "check_gemm",
        lambda *arguments, on_progress: asked.extend([*arguments, on_progress]) or verdict(),
    )
    write("mine.py", "def gemm(M, N, K):\n    return M + N + K\n")
    course("check", "step01", "--file", "mine.py", "--backend", "gpu", "--time-limit", "2.5")
    step, factory, *rest, _ = asked  # the last is whom to tell
    assert (step, factory(1, 2, 3), rest) == ("step01", 6, ["tilelang", "gpu", 2.5])


def test_json_is_the_verdict(course):
    code, out, err = course("check", "step01", "--backend", "compile", "--json")
    assert (code, err) == (NOT_ALL_TRIED, "")
    fields = json.loads(out)
    assert (fields["step"], fields["points"], fields["max_points"], fields["passed"]) == (
        "step01",
        2.5,
        5,
        False,
    )
    assert [check["name"] for check in fields["checks"]] == list(steps.PARTS)


def test_json_stays_json_when_the_file_prints():
    """In a process of its own, where its output is a pipe and no fixture's."""
    write(
        "mine.py",
        "import os\nprint('at import')\n\n"
        "def gemm(M, N, K):\n    print('in gemm')\n    os.write(1, b'past Python')\n    return 5\n",
    )
    done = subprocess.run(
        [sys.executable, "-m", "course_utils.cli", "check", "step01", "--file", "mine.py", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(Path(cli.__file__).parents[2])},
    )
    assert done.returncode == FAILED
    assert "returned int" in json.loads(done.stdout)["diagnosis"]


BAD_FILES = {
    "no gemm": ("def gem(M, N, K):\n    pass\n", ["mine.py defines no gemm"]),
    "syntax error": ("def gemm(M, N, K):\n    return (M\n", ["mine.py, line 2", "never closed"]),
    "missing package": ("import torch_of_tomorrow\n", ["mine.py imports torch_of_tomorrow", "not installed"]),
    "raises": ("x = 1\n1 / 0\n", ["mine.py", "line 2", "ZeroDivisionError"]),
    "exits": ("import sys\nsys.exit(0)\n", ["mine.py"]),
    "gemm no function": ("gemm = 5\n", ["int, not a function"]),
    "empty": ("", ["mine.py defines no gemm"]),
}


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("source, words", BAD_FILES.values(), ids=BAD_FILES)
def test_bad_file_is_a_verdict_of_0_points(source, words, form, course):
    write("mine.py", source)
    code, out, err = course("check", "step01", "--file", "mine.py", "--backend", "compile", *form)
    assert (code, err) == (FAILED, "")
    said = json.loads(out)["diagnosis"] if form else out
    assert all(word in said for word in words)
    assert '"points": 0.0' in out if form else "0 of 5 points" in out


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    "path, words",
    [
        ("missing.py", "there is no file missing.py"),
        ("no/such/folder/mine.py", "there is no file no/such/folder/mine.py"),
        (".", ". is a folder"),
        ("folder.py", "folder.py is a folder"),
        ("binary.py", "binary.py cannot be read"),
        ("notes.txt", "not a Python file"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_wrong_call_and_no_verdict(path, words, form, course, elsewhere):
    (elsewhere / "notebooks").mkdir()
    (elsewhere / "notebooks" / "00_start_here.ipynb").touch()  # a checkout: points would be kept
    Path("folder.py").mkdir()
    Path("binary.py").write_bytes(b"\xff\xfe\x00")
    Path("notes.txt").write_text("gemm")
    code, out, err = course("check", "step01", "--file", path, *form)
    assert (code, out) == (USAGE, "")
    assert err.startswith("course check: ") and words in err and len(err.splitlines()) == 1
    assert not list(elsewhere.rglob("progress*"))


@pytest.mark.parametrize(
    "argv, words",
    [
        (["tensormap", "verify", "missing.jsonl"], "there is no file missing.jsonl"),
        (["tensormap", "explain", "."], ". is a folder, and this takes a file"),
        (["trace", "."], ". is a folder, and this takes a file"),
        (["source", "."], ". is a folder, and this takes a file"),
        (["trace", "mine.py", "--against", "missing.py"], "there is no file missing.py"),
        (["check", "mine.py", "--against", "."], ". is a folder"),
    ],
)
def test_other_commands_say_in_a_sentence_what_a_path_is(argv, words, course):
    write("mine.py", "gemm = 1")
    code, out, err = course(*argv)
    assert (code, out) == (USAGE, "") and words in err and "Errno" not in err


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_a_learners_points_are_kept_beside_the_notebooks_and_a_solutions_are_not(
    elsewhere, monkeypatch, course, form
):
    (elsewhere / "notebooks").mkdir()
    (elsewhere / "notebooks" / "00_start_here.ipynb").touch()
    (elsewhere / "mine").mkdir()
    write("mine/mine.py", "gemm = 1")
    monkeypatch.chdir(elsewhere / "mine")
    monkeypatch.setattr(ids, "check_file", lambda *_: verdict())
    kept = elsewhere / "notebooks" / "progress.json"
    course("check", "step01", *form)
    assert not kept.exists()
    code, out, err = course("check", "step01", "--file", "mine.py", *form)
    assert (code, err) == (PASSED, "") and not (elsewhere / "mine" / "progress.json").exists()
    assert [one["points"] for one in json.loads(kept.read_text())["entries"]] == [5]
    lock = kept.with_name(".progress.json.lock")
    lock.unlink()
    lock.mkdir()
    code, out, _ = course("check", "step01", "--file", "mine.py", *form)
    assert code == PASSED and ("could not be kept" in out) == (not form)


def test_outside_of_a_checkout_a_file_is_checked_and_nothing_is_left(elsewhere, monkeypatch, course):
    write("mine.py", "gemm = 1")
    monkeypatch.setattr(ids, "check_file", lambda *_: verdict())
    assert course("check", "step01", "--file", "mine.py")[0] == PASSED
    assert not (elsewhere / "progress.json").exists()


@pytest.mark.parametrize(
    "said, name",
    [
        ("05", "step05"),
        ("5", "step05"),
        ("step5", "step05"),
        ("Step 5", "step05"),
        ("10b", "task10b"),
        ("T4", "t4"),
    ],
)
def test_an_exercise_goes_by_what_people_call_it(said, name, monkeypatch):
    assert steps.named(said) == name
    for command, argument in (("check", "step"), ("receipt", "what"), ("trace", "what"), ("profile", "what")):
        assert vars(parser.parser().parse_args([command, said]))[argument] == name
    assert called(["check", "5.py"])[1]["step"] == "5.py"  # a file's name stays


@pytest.mark.parametrize("name, close", [("stpe07", "step07"), ("steps05", "step05"), ("tsak05a", "task05a")])
def test_a_name_that_is_nearly_a_steps_is_answered_with_it_and_not_with_a_list(name, close, course):
    for command in ("check", "trace"):
        code, _, err = course(command, name)
        assert code == USAGE and err.strip().endswith(f"; did you mean {close}?")
    assert steps.meant("55") == steps.meant("kernel") == ""


@pytest.mark.parametrize("former, name", [("case15", "t5"), ("case13a", "t3a"), ("case16", "plan11")])
def test_a_former_name_is_answered_with_the_one_of_today(former, name, course, tmp_path):
    for command in (["check", former], ["trace", former], ["grade", str(tmp_path), "--step", former]):
        code, _, err = course(*command)
        assert code == USAGE and f"; {former} is now {name}" in err


def test_a_command_that_is_nearly_one_is_answered_with_it(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["chek", "step01"])
    assert caught.value.code == USAGE
    assert "there is no command 'chek'; did you mean course check?" in capsys.readouterr().err


# -- every id


@pytest.mark.parametrize("command", ["check", "receipt", "trace", "source"])
def test_an_id_that_is_none_is_answered_with_all_that_there_are(command, course):
    code, _, err = course(*command.split(), "step99")
    assert code == USAGE
    assert (
        "the tasks are task05a, " in err and "the TMA cases are t1, t2, t2b, t3a, " in err and "plan11" in err
    )


@pytest.mark.parametrize("command", ["check", "receipt", "trace", "source", "bundle out.pyz --step"])
@pytest.mark.parametrize("name, dsl, only", [("t4", "tilelang", "CuTe DSL"), ("t3a", "cute", "TileLang")])
def test_an_exercise_of_one_language_says_which(command, name, dsl, only, course):
    code, out, err = course(*command.split(), name, "--dsl", dsl)
    assert (code, out) == (USAGE, "")
    assert f"{name} is an exercise in {only} only" in err and not Path("out.pyz").exists()


@pytest.mark.parametrize("command", ["receipt", "trace", "source", "bundle out.pyz --step"])
def test_an_exercise_without_a_kernel_says_what_checks_it(command, course):
    code, _, err = course(*command.split(), "t1")
    assert code == USAGE and "t1 has no kernel, only a function mend: course check t1" in err
    assert "leave out --dsl cute" in course("check", "t1", "--dsl", "cute")[2]


def test_of_a_pair_the_broken_kernel_is_shown(course):
    code, out, err = course("source", "t4b", "--dsl", "tilelang", "--ptx")
    assert (code, err) == (0, "") and "T.mbarrier_expect_tx(full, tile * tile * 2)" in out
    code, _, err = course("bundle", "out.pyz", "--step", "t4b")
    assert code == USAGE and "t4b is a pair of kernels" in err


@pytest.mark.parametrize(
    "name, of",
    [("t2", "tilelang"), ("t3c", "cute"), ("t4", "cute"), ("t5", "tilelang"), ("task05c", "tilelang")],
)
def test_a_case_is_checked_by_its_solution_in_its_language(name, of, course):
    code, out, err = course("check", name, "--backend", "compile")
    assert (code, err) == (NOT_ALL_TRIED, "") and out.startswith(f"{name}  {of}  ")


@pytest.mark.parametrize("name, of", [("t1", "maps"), ("plan11", "plan")])
def test_a_case_without_a_kernel_is_checked_whole(name, of, course):
    code, out, _ = course("check", name)
    assert code == PASSED and out.startswith(f"{name}  {of}  10 of 10 points")
    write("mine.py", "def gemm(M, N, K):\n    return 5\n")
    code, out, _ = course("check", name, "--file", "mine.py")
    assert code == FAILED and f"mine.py defines no {steps.function_of(name)}" in out and "0 of 10" in out


def test_a_copy_of_a_learners_is_checked_and_looked_into(course):
    source = loading.solution_path("t4", "cute").read_text()
    write("mine.py", source)
    code, out, _ = course("check", "t4", "--file", "mine.py", "--backend", "compile")
    assert code == NOT_ALL_TRIED and "passed      path" in out
    for argv, words in (
        (["receipt", "mine.py", "--dsl", "cute"], "X = 128 x 64"),
        (["trace", "mine.py", "--dsl", "cute", "--size", "64x128", "--out", "x.png"], "Y is right"),
        (["source", "t4", "--ptx"], "cp.async.bulk.tensor"),
    ):
        code, out, _ = course(*argv)
        assert code == PASSED and words in out
    code, _, err = course("trace", "t4", "--size", "0x64")
    assert code == USAGE and "a shape, for example 8x32x64" in err


def test_a_file_without_its_exercise_says_how_to_name_it(course):
    code, _, err = course("check", "mine.py")
    assert code == USAGE and "course check step05 --file mine.py" in err


def test_bundle_of_cases(course, monkeypatch):
    monkeypatch.setattr(factory, "compile_factory", lambda *_: small())
    assert course("bundle", "out.pyz", "--step", "t2", "--step", "t3a", "--step", "t4")[0] == PASSED
    assert [(one["name"], one["timed"]) for one in manifest("out.pyz")] == [
        ("t2 tilelang", False),
        ("t3a tilelang", True),
        ("t2 cute", False),
        ("t4 cute", False),
    ]


def test_bundle_of_the_blackwell_track(course, monkeypatch):
    monkeypatch.setattr(factory, "compile_factory", lambda *_: small())
    assert course("bundle", "out.pyz", "--step", "blackwell", "--dsl", "cute")[0] == PASSED
    assert [one["step"] for one in manifest("out.pyz")] == list(steps.BLACKWELL_STEPS)


def test_unknown_step_exits_2_and_names_the_steps(course):
    code, out, err = course("check", "step12", "--json")
    assert (code, out) == (USAGE, "")
    assert err.startswith("course check: there is no step 'step12'") and "step11" in err


# -- while it works


def called(line):
    """The function of a command line, and what it is given."""
    options = vars(parser.parser().parse_args(line))
    assert options.pop("command") == line[0]
    module, function = options.pop("run").split(".")
    return getattr(importlib.import_module(f"course_utils.cli.{module}"), function), options


def checked_at(terminal, monkeypatch, check_gemm, *options):
    """What ``course check`` writes to a console that is a terminal or not; its exit code."""

    def check(step, factory, dsl, backend, limit, on_progress):
        progress = CheckProgress(steps.find(step), dsl, backend, on_progress)
        progress.start("compiles", "compiling 2 of 3")
        return check_gemm()

    monkeypatch.setattr(gemm, "check_gemm", check)
    console = Console(file=io.StringIO(), force_terminal=terminal, width=80, color_system=None)
    run, given = called(["check", "step01", *options])
    return run(console, **given), console.file.getvalue()


def stopped():
    raise KeyboardInterrupt


def test_a_terminal_shows_what_a_check_is_at(monkeypatch):
    code, out = checked_at(True, monkeypatch, verdict)
    assert code == PASSED
    assert out.index("step01 tilelang: loading") < out.index("step01 tilelang: compiling 2 of 3 ...")
    assert out.index("compiling 2 of 3") < out.index("5 of 5 points")


def test_elsewhere_and_beside_json_nothing_is_added(monkeypatch, capsys):
    assert checked_at(False, monkeypatch, verdict) == (PASSED, f"{verdict()}\n")
    assert checked_at(True, monkeypatch, verdict, "--json") == (PASSED, "")
    assert json.loads(capsys.readouterr().out)["points"] == 5


def test_a_terminal_gets_a_verdict_in_colour_wrapped_and_with_a_map_that_opens(tmp_path, monkeypatch):
    said = "Operand A of wgmma reads shared memory that TMA fills for full[0], phase 1, not waited for, "
    said += "and so on."
    text = "\n".join(
        [
            "step05  tilelang  5 of 10 points  (backend: emulator)",
            f"  Look here first: {said}",
            "    at mine.py, line 45: wait(full[stage], 0)",
            "  symptom_map.md#races",
            f"  passed      compiles         1/1       6.1 s  {said}",
            "    a  wide  table" + "  of columns" * 12,
        ]
    )
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system="standard")
    terminal.show(console, text, ("a  wide  table" + "  of columns" * 12,))
    out = console.file.getvalue()
    assert "\x1b[32m" in out and "\x1b]8;" in out  # green, and a link
    lines = re.sub(r"\x1b\]8;[^\x1b]*\x1b\\|\x1b\[[0-9;]*m", "", out).splitlines()
    assert [line for line in lines if len(line) > 80] == lines[-1:]  # the table
    assert " ".join(" ".join(lines[1:4]).split()).startswith(f"Look here first: {said[:90]}")
    opened = next(line for line in lines if "#races" in line).strip().partition("#")[0]
    assert Path(opened).is_file()
    assert any(re.match(r" {40,}\S", line) for line in lines)  # a row's words stay below its words
    pipe = Console(file=io.StringIO(), width=80)
    terminal.show(pipe, text)
    assert pipe.file.getvalue() == text + "\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_stopped_check_says_what_was_known(terminal, monkeypatch):
    code, out = checked_at(terminal, monkeypatch, stopped)
    assert code == NOT_ALL_TRIED
    assert "you stopped this check" in out and "stopped     compiles" in out and "not reached speed" in out


@pytest.mark.parametrize(
    "command, first", [("receipt", "compiling"), ("trace", "compiling"), ("source", "compiling")]
)
def test_a_terminal_says_at_once_what_is_done(command, first, monkeypatch):
    run, given = called([command, "step01"])
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)

    def compile_nothing(*_):
        assert "compiling step01 ..." in console.file.getvalue()
        raise CompileError("load", "not today")

    monkeypatch.setattr(factory, "compile_factory", compile_nothing)
    with pytest.raises(CompileError, match="not today"):
        run(console, **given)


# -- climb


@pytest.fixture
def two_steps(monkeypatch):
    monkeypatch.setattr(steps, "STEPS", {name: steps.STEPS[name] for name in ("step01", "step03")})


def record(entries):
    measured.FOLDER.mkdir()
    (measured.FOLDER / "ladder.json").write_text(json.dumps({"provenance": PROVENANCE, "entries": entries}))


def test_climb_without_a_gpu(course, two_steps):
    record([{"name": "x", "step": "step03", "dsl": "tilelang", "checks": [], "timings": [timing(234.0)]}])
    code, out, err = course("climb", "--backend", "compile")
    assert (code, err) == (PASSED, "")
    assert "single tile" in out and "spatial tiling" in out and "2.5/5" in out and "5/10" in out
    assert "(234)" in out and "(0.33)" in out  # recorded, so in brackets
    (line,) = [line for line in out.splitlines() if line.startswith("Not run here")]
    assert "results and speed" in line and "recorded at 4096 on NVIDIA H200, 2026-01-02" in line
    assert max(map(len, out.partition("Not run here")[0].splitlines())) <= 80
    assert Path("build/ladder.png").read_bytes().startswith(PNG)
    climb = json.loads(Path("build/climb.json").read_text())
    assert [(entry["step"], entry["dsl"], entry["points"]) for entry in climb["entries"]] == [
        ("step01", "tilelang", 2.5),
        ("step01", "cute", 2.5),
        ("step03", "tilelang", 5),
        ("step03", "cute", 5),
    ]
    assert [entry["timings"] for entry in climb["entries"]] == [[]] * 4


def test_climb_says_how_long_each_dsl_is_and_what_its_author_decides(course, two_steps, monkeypatch):
    monkeypatch.setattr(gemm, "check_gemm", lambda step, *_, on_progress: verdict(step))
    _, out, _ = course("climb", "--backend", "compile")
    table = out.partition("What each DSL's author wrote")[2]
    for step in steps.STEPS:
        for dsl in factory.DSLS:
            lines = loading.code_lines(loading.solution_path(step, dsl))
            assert re.search(
                rf"{dsl} +{lines} +{re.escape(steps.STEPS[step].owned[dsl].split(',')[0])}", table
            )


def test_climb_does_not_mind_a_missing_solution(course, two_steps, monkeypatch):
    monkeypatch.setattr(ids, "solution", lambda *_: "missing.py")
    code, out, _ = course("climb", "--backend", "compile")
    assert code == FAILED and "What each DSL's author wrote" in out


def test_climb_with_a_gpu(course, two_steps, monkeypatch):
    monkeypatch.setattr(backends, "find_gpu", lambda: (DEVICE, ""))
    monkeypatch.setattr(
        gemm,
        "check_gemm",
        lambda step, *_, on_progress: verdict(step, timings=[timing(321.0)][step != "step03" :]),
    )
    record([{"name": "x", "step": "step03", "dsl": "tilelang", "checks": [], "timings": [timing(234.0)]}])
    code, out, _ = course("climb")
    assert code == PASSED
    assert "321" in out and "(321)" not in out and "234" not in out
    assert "Not run here" not in out
    assert measured.read("build/climb.json")["provenance"]["gpu"] == "NVIDIA H100"


def test_climb_exits_1_and_says_what_failed(course, two_steps, monkeypatch):
    write("broken.py", "gemm = None\n")
    monkeypatch.setattr(ids, "solution", lambda step, dsl: "broken.py" if step == "step03" else "missing.py")
    code, out, _ = course("climb", "--backend", "compile")
    assert code == FAILED
    assert "step01 tilelang: there is no file missing.py" in out
    assert "step03 tilelang: gemm is NoneType" in out
    assert json.loads(Path("build/climb.json").read_text())["entries"][0]["points"] == 0


def test_climb_does_without_a_recorded_ladder(course, two_steps, monkeypatch):
    monkeypatch.setattr(ids, "solution", lambda *_: "missing.py")
    course("climb", "--backend", "compile")
    assert Path("build/ladder.png").exists()


# -- receipt


compile_factory = factory.compile_factory  # the real one: tests put small() in its place


@functools.cache
def small():
    return compile_factory(
        loading.load_factory(loading.solution_path("step03", "tilelang")), "tilelang", (256, 384, 64)
    )


def test_receipt_of_a_step(course):
    code, out, err = course("receipt", "step01")
    assert (code, err) == (PASSED, "")
    assert "Receipt of step01, M, N, K = 128 x 128 x 64" in out
    assert "grid 1 x 1 x 1, 128 threads" in out and "m64n128k16.f32.f16.f16" in out
    assert max(map(len, out.splitlines())) <= 80


def test_receipt_of_a_file_at_a_size(course):
    path = loading.solution_path("step03", "tilelang")
    shutil.copy(path, "mine.py")
    code, out, _ = course("receipt", "mine.py", "--size", "256x384X64")
    assert code == PASSED
    assert "256 x 384 x 64" in out and "grid 3 x 2 x 1" in out


def test_receipt_of_a_saved_artifact(course):
    small().save("kernel.zip")
    code, out, _ = course("receipt", "kernel.zip")
    assert code == PASSED
    assert "grid 3 x 2 x 1" in out


@pytest.mark.parametrize(
    "size",
    ["4096", "128x128", "128x128x64x1", "axbxc", "128x0x64", "-128x128x64", "1.5x2x3", "x", "128,128,64"],
)
def test_receipt_of_a_bad_size_exits_2(size, course):
    code, out, err = course("receipt", "step01", f"--size={size}")
    assert (code, out) == (USAGE, "")
    assert "--size is MxNxK, for example 4096x4096x4096" in err and size in err


@pytest.mark.parametrize(
    "what, words",
    [
        ("step12", "step12"),
        ("missing.zip", "missing.zip"),
        ("missing.py", "there is no file missing.py"),
        (".", "."),
        ("notes.txt", "not a compiled kernel"),
        ("empty.py", "defines no gemm"),
    ],
)
def test_receipt_of_nothing_exits_2(what, words, course):
    write("notes.txt", "no artifact")
    write("empty.py", "")
    code, out, err = course("receipt", what)
    assert (code, out) == (USAGE, "")
    assert err.startswith("course receipt: ") and words in err


def test_receipt_of_a_size_the_tile_does_not_divide_exits_2(course):
    code, _, err = course("receipt", "step03", "--size", "100x128x64")
    assert code == USAGE
    assert "multiples of the tile" in err


# -- source


def test_source_shows_what_became_of_a_line(course):
    path = loading.solution_path("step04", "tilelang")
    number, text = next(
        (n, t.strip()) for n, t in enumerate(path.read_text().splitlines(), 1) if "mbarrier_wait" in t
    )
    code, out, err = course("source", "step04", "--line", number)
    assert (code, err) == (PASSED, "")
    assert f"{path.name}, line {number}: {text}\n    full[0].wait((k & 1));\n" in out
    whole = course("source", "step04")[1]
    assert "__syncthreads();" in whole.partition("[added by the compiler]")[2]


def test_source_of_cute_is_its_ptx(course):
    path = loading.solution_path("step04", "cute")
    number = next(n for n, t in enumerate(path.read_text().splitlines(), 1) if "cute.gemm(" in t)
    out = course("source", "step04", "--dsl", "cute", "--line", number)[1]
    assert out.count("wgmma.mma_async") == 8 and "mbarrier" not in out


def test_source_says_what_it_cannot_show(course, monkeypatch):
    assert "nothing in the CUDA comes from line 9999" in course("source", "step04", "--line", "9999")[2]
    assert "CuTe DSL writes no CUDA" in course("source", "step04", "--dsl", "cute", "--cuda")[2]
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr("course_utils.cli.source._packaged", lambda: None)
    code, out, err = course("source", "step04", "--sass")
    assert (code, out) == (USAGE, "") and "nvdisasm is not here" in err


# -- plot, doctor, import, bundle


@pytest.mark.parametrize("out", [None, "pictures/of [mine]/ladder.png"])
def test_plot_writes_the_picture(out, course):
    code, said, _ = course("plot", *(["--out", out] if out else []))
    path = out or "build/ladder.png"
    assert code == PASSED
    assert said == f"wrote {path}\n"
    assert Path(path).read_bytes().startswith(PNG)


def test_plot_shows_the_climb_over_the_record(course, monkeypatch):
    drawn = []
    monkeypatch.setattr(records, "draw", lambda path, recorded, mine: drawn.append((recorded, mine)))
    Path("build").mkdir()
    entry = {"name": "x", "step": "step03", "dsl": "tilelang", "checks": [], "timings": [timing(1.0)]}
    write("build/climb.json", json.dumps({"entries": [entry]}))
    course("plot")
    nothing = {"provenance": {}, "entries": [], "peers": [], "also": []}
    assert drawn == [(nothing, {"entries": [entry]})]


@pytest.mark.parametrize(
    "content, words",
    [
        ("{", "not a results file"),
        ("[]", "needs an object"),
        ('{"entries": [{"timings": []}]}', "entry 0 lacks name, step, dsl, checks"),
        ('{"entries": [5]}', "entry 0 lacks name"),
        ('{"entries": [], "provenance": {"gpu": "x"}}', "provenance lacks driver"),
    ],
)
def test_plot_of_a_broken_climb_exits_2(content, words, course):
    Path("build").mkdir()
    write("build/climb.json", content)
    code, _, err = course("plot")
    assert code == USAGE
    assert err.startswith("course plot: build/climb.json is not what `course climb` wrote")
    assert words in err and "run `course climb` again" in err


def test_plot_draws_what_climb_wrote(course, two_steps, monkeypatch):
    for device, timings in ((None, ()), (DEVICE, [timing(321.0)])):
        monkeypatch.setattr(backends, "find_gpu", lambda device=device: (device, ""))
        monkeypatch.setattr(
            gemm, "check_gemm", lambda step, *_, on_progress, timings=timings: verdict(step, timings=timings)
        )
        assert course("climb")[0] == PASSED
        assert course("plot")[0] == PASSED


def test_doctor_looks_at_python_packages_compiler_and_gpu(course):
    code, out, err = course("doctor")
    rows = [line.split()[:2] for line in out.splitlines()]
    told = [what for _, what in rows if what != "sandbox"]
    assert told[0] == "python" and told[-3:] == ["compiler", "gpu", "cute"]
    assert ["ok", "compiler"] in rows and err == ""
    optional = ("gpu", "sandbox")
    assert [what for _, what in rows].count("sandbox") in (1, 2)
    assert code == (
        FAILED if any(state == "warning" for state, what in rows if what not in optional) else PASSED
    )


@pytest.mark.parametrize(
    "bad, code",
    [(None, PASSED), ("gpu", PASSED), ("sandbox", PASSED), ("torch", FAILED), ("compiler", FAILED)],
)
def test_doctor_exits_1_where_something_but_the_gpu_is_missing(bad, code, course, monkeypatch):
    kinds = ("torch", "sandbox", "compiler", "cute", "gpu")
    monkeypatch.setattr(doctor, "findings", lambda: [(what, what != bad, "[words]") for what in kinds])
    got, out, _ = course("doctor")
    assert got == code
    states = [["warning" if what == bad else "ok", what, "[words]"] for what in kinds]
    assert [line.split() for line in out.splitlines()] == states


def test_doctor_says_where_the_cache_is_and_what_it_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache.write(cache.key_of("one"), bytes(3_000_000))
    _, fine, words = doctor._cache()
    assert fine and f"{tmp_path}/hopper-gemm-course holds 3 MB: 1 compiled kernels" in words
    assert "header" not in words and "`course clean` empties it" in words


@pytest.mark.parametrize("place", ["/proc/nothing", "/etc/passwd"])
def test_doctor_says_why_nothing_can_be_kept(place, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", place)
    _, fine, words = doctor._cache()
    assert not fine and f"nothing can be kept in {place}/hopper-gemm-course (No" in words
    assert "set XDG_CACHE_HOME to a folder that you can write to" in words


def test_clean_empties_the_cache(course, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert course("clean") == (PASSED, f"freed 0.0 MB in {cache.folder()}\n", "")
    cache.write(cache.key_of("one"), bytes(3_000_000))
    assert course("clean") == (PASSED, f"freed 3.0 MB in {cache.folder()}\n", "")
    assert cache.read(cache.key_of("one")) is None


def test_clean_of_a_file_exits_2(course, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    code, _, err = course("clean")
    assert code == USAGE and err.startswith("course clean: ") and "Not a directory" in err
    assert (tmp_path / "file").read_text() == "mine"


def test_import_records_a_good_file(course):
    entry = {"name": "step03 tilelang", "step": "step03", "dsl": "tilelang", "checks": [], "timings": []}
    good = {"provenance": PROVENANCE, "entries": [entry]}
    write("results.json", json.dumps(good))
    code, out, _ = course("import", "results.json", "--unsigned")
    assert (code, out) == (PASSED, f"recorded {measured.FOLDER / 'ladder.json'}\n")
    assert measured.load() == good
    assert course("import", "results.json", "--as", "wrong", "--unsigned")[0] == PASSED
    assert measured.load("wrong") == good
    for name in ("../wrong", "", "Wrong"):
        assert course("import", "results.json", "--as", name, "--unsigned")[0] == USAGE


def test_import_of_no_entries_exits_2_and_keeps_what_was_recorded(course):
    entry = {"name": "step03 tilelang", "step": "step03", "dsl": "tilelang", "checks": [], "timings": []}
    write("results.json", json.dumps({"provenance": PROVENANCE, "entries": [entry]}))
    course("import", "results.json", "--unsigned")
    write("empty.json", json.dumps({"provenance": PROVENANCE, "entries": []}))
    assert course("import", "empty.json", "--unsigned")[0] == USAGE
    assert measured.load()["entries"] == [entry]


def test_import_refuses_what_no_bundle_signed(course):
    entry = {"name": "step03 tilelang", "step": "step03", "dsl": "tilelang", "checks": [], "timings": []}
    write("results.json", json.dumps({"provenance": PROVENANCE, "entries": [entry]}))
    code, out, err = course("import", "results.json")
    assert (code, out) == (USAGE, "") and not measured.FOLDER.exists()
    assert "results.json is not signed" in err and "`course import --unsigned` records it" in err


@pytest.mark.parametrize("content", ["", "[]", '{"entries": []}', '{"provenance": 5, "entries": []}'])
def test_import_of_a_bad_file_exits_2_and_records_nothing(content, course):
    write("results.json", content)
    code, out, err = course("import", "results.json")
    assert (code, out) == (USAGE, "")
    assert err.startswith("course import: results.json")
    assert not measured.FOLDER.exists()


def test_import_of_a_missing_file_exits_2(course):
    code, _, err = course("import", "results.json")
    assert code == USAGE
    assert "results.json" in err


def manifest(path):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read("manifest.json"))


def test_bundle_of_a_step(course):
    code, out, err = course("bundle", "out.pyz", "--step", "1", "--dsl", "tilelang")
    assert (code, err) == (PASSED, "")
    assert "wrote out.pyz: 1 kernels" in out and "python out.pyz --out results.json" in out
    (kernel,) = manifest("out.pyz")
    assert kernel.pop("versions")["tilelang"]
    assert kernel == {"name": "step01 tilelang", "step": "step01", "dsl": "tilelang", "timed": True}
    assert os.stat("build/bundle.key").st_mode & 0o077 == 0
    with zipfile.ZipFile("out.pyz") as archive:
        assert Artifact.from_bytes(
            archive.read("artifacts/tilelang/step01 tilelang/128x128x64.zip")
        ).problem == (128, 128, 64)


def test_bundle_takes_steps_by_number_or_name(course, monkeypatch):
    monkeypatch.setattr(factory, "compile_factory", lambda *_: small())
    course("bundle", "out.pyz", "--step", "3", "--step", "step10", "--dsl", "tilelang")
    assert [kernel["step"] for kernel in manifest("out.pyz")] == ["step03", "step10"]


def test_bundle_of_the_wrong_kernels_times_none(course, monkeypatch):
    monkeypatch.setattr(factory, "compile_factory", lambda *_: small())
    assert course("bundle", "out.pyz", "--wrong")[0] == PASSED
    carried = manifest("out.pyz")
    names = [
        f"{name} {dsl}"
        for dsl in factory.DSLS
        for name, wrong in kernels(dsl).items()
        if wrong.fails != "compiles"
    ]
    assert [kernel["name"] for kernel in carried] == names
    assert {kernel["timed"] for kernel in carried} == {False}
    assert all(kernel["step"] in steps.STEPS for kernel in carried)


# -- trace


def test_trace_of_a_right_kernel(course):
    code, out, err = course("trace", "step01", "--out", "deep/one.png")
    assert (code, err) == (PASSED, "")
    assert "128 x 128 x 64, schedule 0" in out and "D is right" in out
    assert Path("deep/one.png").read_bytes().startswith(PNG)


def test_trace_of_a_deadlock_says_who_waits_and_draws_it(course):
    Path("wrong.py").write_text(kernels("tilelang")["arrival_count"].source())
    code, out, _ = course("trace", "wrong.py", "--size", "256x128x320", "--seed", "3")
    assert code == FAILED
    assert "did not end" in out and "error: deadlock: producer warp 0" in out
    assert "waits for empty[0], parity 0: phase 0 is missing 127 of 128 arrivals" in out
    assert Path("build/trace.png").exists()


def test_trace_writes_its_events_for_perfetto_and_no_picture_that_nobody_asked_for(course):
    code, out, err = course("trace", "step02", "--perfetto", "deep/events.json")
    assert (code, err) == (PASSED, "") and "wrote deep/events.json: open it at ui.perfetto.dev" in out
    events = json.loads(Path("deep/events.json").read_text())["traceEvents"]
    assert {"copy by threads", "wgmma", "epilogue", "wait"} == {e["cat"] for e in events if e["ph"] == "X"}
    assert not Path("build/trace.png").exists()


IDLE = """import tilelang.language as T
def gemm(M, N, K):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16), D: T.Tensor((M, N), T.float16)):
        with T.Kernel(1, threads=128):
            if T.get_thread_binding() > 1024:
                D[0, 0] = A[0, 0] + B[0, 0]
    return main
"""


@pytest.mark.parametrize(
    "what, out, words",
    [
        ("step01", "file/events.json", "file"),
        ("step01", ".", "folder"),
        ("broken.py", "events.json", "broken.py"),
        ("idle.py", "events.json", "did nothing that could be written"),
    ],
)
def test_trace_that_cannot_be_written_for_perfetto_exits_2(what, out, words, course):
    Path("file").touch()
    Path("broken.py").write_text("def gemm(M, N, K):\n    return 1 / 0\n")
    Path("idle.py").write_text(IDLE)
    code, _, err = course("trace", what, "--perfetto", out)
    assert code == USAGE and words in err and "Traceback" not in err
    assert not Path("events.json").exists()


def test_trace_says_that_a_finished_kernel_is_wrong(course):
    Path("wrong.py").write_text(kernels("cute")["swizzle_disagrees"].source())
    code, out, _ = course("trace", "wrong.py", "--dsl", "cute", "--size", "128x128x64")
    assert code == FAILED and "D is wrong" in out and "swizzle" in out


@pytest.mark.parametrize(
    "argv, words",
    [
        (["step99"], "there is no step and no file 'step99'"),
        (["step01", "--size", "1x2"], "MxNxK"),
        (["no/such.py"], "there is no file no/such.py"),
        (["step01", "--size", "256x256x64"], "exactly one"),
    ],
)
def test_trace_of_nothing_exits_2(argv, words, course):
    code, _, err = course("trace", *argv)
    assert code == USAGE and words in err


# -- bundle, import


@pytest.mark.parametrize(
    "argv, words",
    [
        (["out.pyz", "--step", "12"], "step12"),
        (["out.pyz", "--step", "first"], "first"),
        (["no/such/folder/out.pyz", "--step", "1"], "no/such/folder"),
    ],
    ids=["number", "word", "folder"],
)
def test_bundle_that_cannot_be_exits_2(argv, words, course):
    code, _, err = course("bundle", *argv)
    assert code == USAGE
    assert err.startswith("course bundle: ") and words in err
    assert not Path("out.pyz").exists()


# -- how quickly it starts


def in_a_process(code):
    """What a Python of its own prints, with this checkout's course."""
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[2])},
    )


@pytest.mark.parametrize(
    "line, words",
    [
        ("check stpe05", "did you mean step05?"),
        ("check step05 --file nope.py", "there is no file nope.py"),
        ("trace stpe05", "did you mean step05?"),
        ("profile nothing", "there is no step and no file"),
    ],
)
def test_a_wrong_call_is_answered_before_a_compiler_is_imported(line, words):
    code = (
        "import sys\nfrom course_utils.cli import main\n"
        f"print(main({line.split()}))\n"
        "heavy = ('torch', 'tilelang', 'cutlass', 'matplotlib', 'IPython', 'nbformat', 'msgspec', 'numpy')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = in_a_process(code)
    assert (done.stdout, words in done.stderr) == ("2\n[]\n", True), done.stderr


def test_doctor_imports_no_compiler():
    """It answers at once: versions come from metadata, and of CuTe DSL the library is loaded alone."""
    code = (
        "import sys\nfrom course_utils.cli import doctor\nfrom rich.console import Console\n"
        "doctor.find_spec = lambda name, find=doctor.find_spec: find(name) if name != 'nbgrader' else None\n"
        "doctor.doctor(Console())\nheavy = ('torch', 'tilelang', 'cutlass', 'numpy', 'matplotlib')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = in_a_process(code)
    assert done.stdout.endswith("[]\n") and "\nok      cute" in done.stdout, done


def test_doctor_says_what_it_knows_before_it_loads_a_language(course, monkeypatch):
    def last():
        raise KeyboardInterrupt

    monkeypatch.setattr(doctor, "_cute", last)
    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        doctor.doctor(Console(file=out))
    assert [line.split()[1] for line in out.getvalue().splitlines()][::4][:1] == ["python"]
    assert {"packages", "cache", "compiler", "gpu"} <= {
        line.split()[1] for line in out.getvalue().splitlines()
    }


def test_help_loads_no_compiler_and_draws_nothing():
    code = (
        "import sys\nfrom course_utils.cli import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "heavy = ('torch', 'tilelang', 'cutlass', 'matplotlib', 'IPython', 'nbformat', 'msgspec', 'numpy')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = in_a_process(code)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_function_that_takes_its_options(command):
    more = {
        "tensormap": ["verify x", "explain x"],
        **{
            name: ["x"]
            for name in ("check", "grade", "receipt", "source", "trace", "reproduce", "profile", "tune")
        },
        **{"track": ["cute"], "level": ["order"], "bundle": ["x"], "import": ["x"]},
    }
    for arguments in more.get(command, [""]):
        function, options = called([command, *arguments.split()])
        inspect.signature(function).bind("console", **options)
