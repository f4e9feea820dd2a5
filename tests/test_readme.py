"""The links of README and CONTRIBUTING lead somewhere, and their commands are commands that exist."""

import json
import os
import re
import shlex
import shutil
import subprocess

import pytest

from course_utils import cli
from course_utils.classroom import sandbox
from course_utils.cli.parser import parser
from course_utils.compile import load as loading
from course_utils.compile.factory import DSLS
from course_utils.compile.load import SOLUTIONS
from course_utils.grading import steps
from course_utils.run.backends import find_gpu

ROOT = SOLUTIONS.parent
README = (ROOT / "README.md").read_text()
CLASSROOM = ROOT / "course_utils" / "classroom" / "README.md"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.S)
LINES = [
    line.split("#")[0].strip()
    for block in BLOCKS + re.findall(r"```sh\n(.*?)```", CONTRIBUTING, re.S)
    for line in block.splitlines()
    if line.split("#")[0].strip()
]
COURSE = [line for line in LINES if line.startswith(".venv/bin/course ")]


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", README + CONTRIBUTING))))
def test_link_leads_to_a_file(link):
    assert link.startswith("https://") or (ROOT / link).exists()


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)[^)]*\)", CLASSROOM.read_text()))))
def test_link_of_the_page_on_classes_leads_to_a_file(link):
    assert (CLASSROOM.parent / link).exists()


@pytest.mark.parametrize("line", re.findall(r"(?:^|\s)course (grade .*)", CLASSROOM.read_text()))
def test_command_of_the_page_on_classes_parses(line):
    parser().parse_args(shlex.split(line.split("#")[0].split("`")[0]))


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("make ")])
def test_make_target_exists(line):
    assert re.search(rf"^{line.split()[1]}:", MAKEFILE, re.M)


@pytest.mark.parametrize("line", [line for line in LINES if "bin/course " in line])
def test_course_command_parses(line):
    parser().parse_args(shlex.split(line)[1:])


@pytest.fixture(scope="session")
def copy(tmp_path_factory):
    """A copy of the checkout in which the README's commands may write; one notebook stands for all, and two
    steps for the ladder to climb: the solved notebooks check them all.
    """
    folder = tmp_path_factory.mktemp("readme") / "course"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__"))
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / "build").mkdir()  # `make climb`, the README's first command, has made it
    for path in (folder / "notebooks").glob("*.ipynb"):
        if path.stem != "01_single_tile":
            path.unlink()
    check = folder / "course_utils" / "cli" / "check.py"
    fewer = (
        "rungs = [(step, dsl) for step in steps.STEPS.values()",
        "rungs = [(step, dsl) for step in list(steps.STEPS.values())[:2]",
    )
    check.write_text(loading.edited(check.read_text(), fewer))
    shutil.copy(loading.solution_path("step04", "tilelang"), folder / "mine.py")
    return folder


WARM = """
import contextlib, io, json, sys

from course_utils import cli

for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = cli.main(json.loads(line))
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, said.getvalue()]), flush=True)
"""


@pytest.fixture(scope="session")
def warm(copy):
    """Runs a command of the course in one process for all of them; returns its exit code and what it says.

    The README's first is a process of its own, as are those of nbgrader, of the bundle and of tests/cli.
    """
    environment = {**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "120"}
    process = subprocess.Popen(
        [ROOT / ".venv" / "bin" / "python", "-c", WARM],
        cwd=copy,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )

    def run(*argv):
        print(json.dumps(argv), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    yield run
    process.stdin.close()
    process.wait(20)
    process.stdout.close()


def run_alone(command, folder, environment):
    """Its exit code, and what it says."""
    run = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )
    return run.returncode, run.stdout


def expected(line):
    """Exit codes with which a command of the README may end."""
    if line.startswith("diff "):
        return {1}  # the files differ, and are there
    if find_gpu()[0] is None and ("ladder.pyz --out" in line or "bin/course import" in line):
        return {2}  # the bundle ran nowhere, so there are no results to import
    if "bin/course grade" in line and not sandbox.available():
        return {cli.EXIT_USAGE}
    partly = any(f"bin/course {name}" in line for name in ("check", "profile", "tune"))
    return {0, cli.EXIT_NOT_ALL_TRIED} if partly else {0}


def repeated(line):
    """Is it another form of a command of the course that an earlier line of the README has? It must parse."""
    words = line.split()
    if not words[0].endswith("bin/course") or "--solved" in words:
        return False
    same = [other for other in LINES if other.split()[:2] == words[:2]]
    return same.index(line) > 0 and words[1] != "tensormap"


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".venv").exists(), reason="the README's commands use .venv")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("#")[0].strip()[:40])
def test_commands_run(copy, warm, block):
    """Each block from the top of the checkout, line by line; make is asked what it would do."""
    environment, folder = {**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "120"}, copy
    for line in (line.split("#")[0].strip() for line in block.splitlines()):
        if line.startswith("cd "):
            folder = folder / line.removeprefix("cd ")
        elif line.startswith("export PATH="):
            environment["PATH"] = (
                line.removeprefix("export PATH=")
                .replace("$PWD", str(copy))
                .replace("$PATH", environment["PATH"])
            )
        elif line and not repeated(line):
            command = line.replace("make ", "make -n ", 1) if line.startswith("make ") else line
            if line.startswith(".venv/bin/course ") and line != COURSE[0] and folder == copy:
                code, said = warm(*shlex.split(line)[1:])
            else:
                code, said = run_alone(command, folder, environment)
            assert code in expected(line), f"{line}\n{said[-2000:]}"


def test_every_step_is_in_the_table_with_both_files_and_its_points():
    for number, step in enumerate(steps.STEPS.values(), 1):
        files = [rf"\[[^]]+\]\({loading.solution_path(step.id, dsl).relative_to(ROOT)}\)" for dsl in DSLS]
        assert re.search(rf"^\| {number} \| {files[0]} \| {files[1]} \| {step.points} \|", README, re.M)


def test_lines_of_step_10_are_as_counted():
    tilelang, cute = (loading.code_lines(loading.solution_path("step10", dsl)) for dsl in DSLS)
    assert re.search(rf"step 10 is {cute} lines of code against\s+{tilelang}\.", README)
