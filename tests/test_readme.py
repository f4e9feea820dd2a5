"""README, docs/ and CONTRIBUTING: links lead somewhere, commands run, and figures are the recorded ones."""

import json
import os
import re
import shlex
import shutil
import subprocess
from statistics import median

import pytest
from PIL import Image

from authoring import first_screen
from course_utils import cli
from course_utils.classroom import sandbox
from course_utils.cli.parser import parser
from course_utils.compile import load as loading
from course_utils.compile.factory import DSLS
from course_utils.compile.load import SOLUTIONS
from course_utils.recordings import measured
from course_utils.run.backends import find_gpu

ROOT = SOLUTIONS.parent
README = (ROOT / "README.md").read_text()
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
CLASSROOM = ROOT / "course_utils" / "classroom" / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
MAKEFILE = (ROOT / "Makefile").read_text()
LINKS = sorted(
    {
        (str(path.relative_to(ROOT)), link)
        for path in [*PAGES, CONTRIBUTING, CLASSROOM]
        for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text())
    }
)
README_LINES = 130
NEVER_RUN = ("lab", "clean")  # one does not return, and the other empties the cache of whoever runs the tests


def blocks(path):
    """The commands of a page: for each of its blocks the lines, without comments."""
    found = re.findall(r"```sh\n(.*?)```", path.read_text(), re.S)
    lines = ([line.split("#")[0].strip() for line in block.splitlines()] for block in found)
    return [[line for line in block if line] for block in lines]


BLOCKS = [block for path in PAGES for block in blocks(path)]
RUN = [line for block in BLOCKS for line in block]  # in this order
LINES = [*RUN, *(line for block in blocks(CONTRIBUTING) for line in block)]
COURSE = [line for line in LINES if line.startswith("course ")]


def places(path):
    """What a link into a page can name: its headings, as GitHub does, and its own anchors."""
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.S)
    headings = re.findall(r"^#+ (.*)", text, re.M)
    named = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return named | set(re.findall(r'<a id="([\w-]+)"', text))


@pytest.mark.parametrize("page, link", LINKS)
def test_link_leads_to_a_file_and_a_place_in_it(page, link):
    if link.startswith("https://"):
        return
    name, _, place = link.partition("#")
    target = (ROOT / page).parent / name if name else ROOT / page
    assert target.exists()
    assert not place or place in places(target)


def test_the_readme_is_a_screen_and_its_course():
    assert len(README.splitlines()) <= README_LINES


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.stem)
def test_the_readme_leads_to_every_page(path):
    """At once, or by one page between."""
    reached = {page for page, link in LINKS if (ROOT / page).parent / link == path or link == path.name}
    assert reached & {"README.md", *re.findall(r"\]\((docs/\w+\.md)\)", README)}


@pytest.mark.slow
def test_the_readme_shows_what_the_checker_says_today():
    """After a change of words: python -m authoring.first_screen"""
    assert f"```python\n{first_screen.broken_line()}\n```" in README
    assert first_screen.SHOWN.search(README)[2] == first_screen.verdict()


def test_the_readme_shows_the_recorded_ladder():
    """After a new recording: python -m authoring.first_screen"""
    assert f"]({first_screen.LADDER.relative_to(ROOT)})" in README
    with Image.open(first_screen.LADDER) as picture:
        assert picture.text["Description"] == first_screen.recorded()


def test_the_readme_names_what_an_h200_made_of_the_broken_line():
    wrong = json.loads((measured.FOLDER / "wrong.json").read_text())["entries"]
    kept = next(one for one in wrong if one["name"] == f"{first_screen.FAULT} {first_screen.DSL}")
    assert kept["step"] == first_screen.STEP
    error = re.search(r"An H200 reports \*(.*?)\*", README)[1]
    assert f"({error})" in next(part["detail"] for part in kept["checks"] if part["name"] == "results")


@pytest.mark.parametrize("line", re.findall(r"(?:^|\s)course (grade .*)", CLASSROOM.read_text()))
def test_command_of_the_page_on_classes_parses(line):
    parser().parse_args(shlex.split(line.split("#")[0].split("`")[0]))


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("make ")])
def test_make_target_exists(line):
    assert re.search(rf"^{line.split()[1]}:", MAKEFILE, re.M)


@pytest.mark.parametrize("line", COURSE)
def test_course_command_parses(line):
    parser().parse_args(shlex.split(line)[1:])


@pytest.fixture(scope="session")
def copy(tmp_path_factory):
    """A copy of the checkout in which the pages' commands may write; one notebook stands for all, and two
    steps for the ladder to climb: the solved notebooks check them all.
    """
    folder = tmp_path_factory.mktemp("readme") / "course"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__"))
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / "build").mkdir()  # the README's `make climb` has made it
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

    The first is a process of its own, as are those of nbgrader, of the bundle and of tests/cli.
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
    """Exit codes with which a command may end."""
    if line.startswith("diff "):
        return {1}  # the files differ, and are there
    if find_gpu()[0] is None and ("ladder.pyz --out" in line or line.startswith("course import")):
        return {2}  # the bundle ran nowhere, so there are no results to import
    if line.startswith("course grade") and not sandbox.available():
        return {cli.EXIT_USAGE}
    partly = line.startswith(("course check", "course profile", "course tune"))
    return {0, cli.EXIT_NOT_ALL_TRIED} if partly else {0}


def repeated(line):
    """Is it another form of a command of the course that an earlier line has? It must parse."""
    words = line.split()
    if words[0] != "course" or "--solved" in words:
        return False
    if words[1] in NEVER_RUN:
        return True
    same = [other for other in RUN if other.split()[:2] == words[:2]]
    return same.index(line) > 0 and words[1] != "tensormap"


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".venv").exists(), reason="the commands use .venv")
@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block[0][:40])
def test_commands_run(copy, warm, block):
    """Each block from the top of the checkout, line by line; make is asked what it would do."""
    path = f"{copy / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment, folder = {**os.environ, "PYTHONPATH": str(copy), "COLUMNS": "120", "PATH": path}, copy
    for line in block:
        if line.startswith("cd "):
            folder = folder / line.removeprefix("cd ")
        elif line != "source .venv/bin/activate" and not repeated(line):
            command = line.replace("make ", "make -n ", 1) if line.startswith("make ") else line
            if line.startswith("course ") and line != COURSE[0] and folder == copy:
                code, said = warm(*shlex.split(line)[1:])
            else:
                code, said = run_alone(command, folder, environment)
            assert code in expected(line), f"{line}\n{said[-2000:]}"


SOLUTIONS_PAGE = (ROOT / "docs" / "solutions.md").read_text()
MEASURING_PAGE = (ROOT / "docs" / "measuring.md").read_text()


def test_lines_of_step_10_are_as_counted():
    tilelang, cute = (loading.code_lines(loading.solution_path("step10", dsl)) for dsl in DSLS)
    assert re.search(rf"step 10 is {cute} lines of code against\s+{tilelang}\.", SOLUTIONS_PAGE)


def timed(file, mode, size):
    """The recorded runs of a file of solutions/measured, by kernel and DSL."""
    return {
        (entry["name"].removesuffix(" " + entry["dsl"]), entry["dsl"]): run
        for entry in json.loads((measured.FOLDER / f"{file}.json").read_text())["entries"]
        for run in entry["timings"]
        if (run["mode"], run["size"]) == (mode, size)
    }


def test_what_choices_are_worth_is_as_recorded():
    shares = timed("variants", "burst", [4096] * 3)
    rows = re.findall(r"^\| step (\d+)(.*?) \| ([\d.]+) \| ([\d.]+) \|$", SOLUTIONS_PAGE, re.M)
    assert len(rows) == 3
    for number, change, *shown in rows:
        name = f"step{int(number):02}{change or ', unchanged'}"
        assert [f"{shares[name, dsl]['ratio']:.3f}" for dsl in DSLS] == shown


def test_two_recordings_of_one_kernel_differ_by_as_much_as_the_pages_say():
    apart = [
        abs(timed("ladder", "burst", size)[name.split(",")[0], dsl]["ratio"] / run["ratio"] - 1)
        for size in ([4096] * 3, [8192] * 3, [8192, 2304, 5120])
        for (name, dsl), run in timed("variants", "burst", size).items()
        if name.endswith(", unchanged")
    ]
    assert round(100 * max(apart)) == 3
    assert "by up to 3%" in SOLUTIONS_PAGE and "allow for 3%" in MEASURING_PAGE


def test_burst_and_sustained_are_as_recorded():
    both = [timed("ladder", mode, [8192] * 3) for mode in ("burst", "sustained")]
    cublas = [median(run["cublas_tflops"] for run in runs.values()) for runs in both]
    kernel = [runs["step10", "tilelang"]["tflops"] for runs in both]
    for name, pair in (("cuBLAS", cublas), ("step 10, TileLang", kernel)):
        assert f"| {name} | {pair[0]:.0f} TFLOP/s | {pair[1]:.0f} TFLOP/s |" in MEASURING_PAGE


def test_every_recorded_file_is_on_the_page():
    patterns = re.findall(r"`([\w*]+\.json)`", MEASURING_PAGE)
    for path in measured.FOLDER.glob("*.json"):
        assert any(path.match(pattern) for pattern in patterns), path.name
