"""The README's links lead somewhere, and its commands are commands that exist."""

import re
import shlex

import pytest

from course_utils import checker, cli, loading, steps
from course_utils.loading import SOLUTIONS

ROOT = SOLUTIONS.parent
README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
BLOCKS = re.findall(r"```sh\n(.*?)```", README, re.S)
LINES = [line.split("#")[0].strip() for block in BLOCKS for line in block.splitlines() if line.split("#")[0].strip()]


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([^)#]+)\)", README))))
def test_link_leads_to_a_file(link):
    assert link.startswith("https://") or (ROOT / link).exists()


@pytest.mark.parametrize("line", [line for line in LINES if line.startswith("make ")])
def test_make_target_exists(line):
    assert re.search(rf"^{line.split()[1]}:", MAKEFILE, re.M)


@pytest.mark.parametrize("line", [line for line in LINES if "bin/course " in line])
def test_course_command_parses(line):
    cli._parser().parse_args(shlex.split(line)[1:])


def test_diffed_files_exist():
    for line in LINES:
        if line.startswith("diff "):
            assert all((ROOT / path).exists() for path in line.split()[1:])


def test_every_step_is_in_the_table_with_both_files_and_its_points():
    for number, step in enumerate(steps.STEPS.values(), 1):
        files = [rf"\[[^]]+\]\({loading.solution_path(step.id, dsl).relative_to(ROOT)}\)" for dsl in checker.DSLS]
        assert re.search(rf"^\| {number} \| {files[0]} \| {files[1]} \| {step.points} \|", README, re.M)


def test_lines_of_step_10_are_as_counted():
    tilelang, cute = (loading.code_lines(loading.solution_path("step10", dsl)) for dsl in checker.DSLS)
    assert re.search(rf"step 10 is {cute} lines of code against\s+{tilelang}\.", README)
