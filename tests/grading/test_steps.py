"""The step table: its rows are whole; the README, docs/solutions.md and the solutions' files say the same."""

import json
import re
from collections import Counter
from dataclasses import replace

import pytest

from course_utils.compile.factory import DSLS
from course_utils.compile.load import SOLUTIONS, solution_path
from course_utils.figures.strip import NUMBER
from course_utils.grading import steps

ROOT = SOLUTIONS.parent
README = (ROOT / "README.md").read_text()
NOTEBOOKS = re.findall(rf"^\| \[({NUMBER}) [^]]+\]\((notebooks/[^)]+)\) \|[^|]+\|([^|]*)\|", README, re.M)
KERNELS = re.findall(
    r"^\| (\d+) \| \[([^]]+)\]\(\.\./([^)]+)\) \| \[([^]]+)\]\(\.\./([^)]+)\) \| (\d+) \|",
    (ROOT / "docs" / "solutions.md").read_text(),
    re.M,
)


def words(path):
    """ "warp specialization" of solutions/cute/step07_warp_specialization.py"""
    return path.rpartition("/")[2].removesuffix(".py").partition("_")[2].replace("_", " ").lower()


def worth(points):
    """What README's "5 + 5" and "6 x 5" come to."""
    if not points.strip():
        return 0
    products = (re.fullmatch(r"(?:(\d+) x )?(\d+)", part).groups("1") for part in points.strip().split(" + "))
    return sum(int(times) * int(each) for times, each in products)


def test_ids_count_from_one():
    assert list(steps.STEPS) == [f"step{n:02d}" for n in range(1, len(steps.STEPS) + 1)]


@pytest.mark.parametrize("step", steps.STEPS.values(), ids=lambda step: step.id)
def test_a_row_has_a_short_label_and_what_each_author_decides(step):
    assert 0 < len(step.label) <= 13 and step.label.isprintable()
    assert list(step.owned) == list(DSLS) and all(step.owned.values())


def test_a_case_has_no_place_on_the_ladder():
    assert {(case.label, tuple(case.owned)) for case in steps.GEMM_CASES.values()} == {("", ())}


def test_a_step_is_still_a_value():
    step = steps.STEPS["step05"]
    assert replace(step) == step and hash(replace(step)) == hash(step)


def test_the_page_of_solutions_has_every_kernel_in_both_dsls_with_its_points():
    assert [int(number) for number, *_ in KERNELS] == list(range(1, len(steps.STEPS) + 1))
    for step, (_, *links, points) in zip(steps.STEPS.values(), KERNELS, strict=True):
        assert links[1::2] == [str(solution_path(step.id, dsl).relative_to(ROOT)) for dsl in DSLS]
        assert {name.lower().replace("-", " ") for name in links[::2]} == {words(links[1])}
        assert int(points) == step.points


def test_readme_has_every_notebook():
    assert sorted(path for _, path, _ in NOTEBOOKS) == [
        str(path.relative_to(ROOT)) for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    ]


@pytest.mark.parametrize("number, path, points", NOTEBOOKS, ids=[number for number, *_ in NOTEBOOKS])
def test_readme_gives_a_notebook_the_points_of_its_checks(number, path, points):
    cells = json.loads((ROOT / path).read_text())["cells"]
    names = [cell["metadata"].get("nbgrader", {}).get("grade_id", "").split("-") for cell in cells]
    checks = Counter(name[0] for name in names if name[-1] == "check")
    assert sum(steps.points_of(name) * count for name, count in checks.items()) == worth(points)
    assert {steps.notebook_of(name) for name in checks} <= {number}


@pytest.mark.parametrize("points, total", [("5 + 5", 10), ("10", 10), ("6 x 5", 30), (" ", 0)])
def test_points_of_the_readme_are_read(points, total):
    assert worth(points) == total


def test_a_step_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ValueError, match="'step12'; the steps are step01, .*step11"):
        steps.find("step12")
