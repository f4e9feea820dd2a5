"""What a verdict is worth at the level that a source names."""

import pytest

from course_utils.compile.load import load_factory, load_factory_source
from course_utils.grading import exercises, gemm, levels, steps
from course_utils.grading.verdict import OPEN, Part, Verdict

PARTS = (Part("compiles", True, 1, 1, ""), Part("results", True, 4, 4, ""), Part("speed", None, 0, 5, ""))
RIGHT = Verdict("step05", "cute", "emulator", PARTS)


@pytest.mark.parametrize(
    "source, level",
    [
        ("", "write"),
        ("x = 1  # level: order", "write"),
        ("# level: order\nx = 1", "order"),
        ("x = 1\n    #level:blank  \n", "blank"),
        ("# level: blank\n# level: order", "order"),
        ("# level: write\n# level: blank", "write"),
        ("# level: nothing", "write"),
        ("#\n" * 100_000, "write"),
    ],
)
def test_a_source_names_its_level(source, level):
    assert levels.of_source(source) == level


@pytest.mark.parametrize("factory", [None, 3, print, lambda M, N, K: 0, [], exercises])
def test_what_has_no_level_is_at_write(factory):
    assert levels.of_factory(factory) == "write"


def test_the_level_of_a_file_is_that_of_its_lines(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("# level: blank\ndef gemm(M, N, K):\n    pass\n")
    assert levels.of_factory(load_factory(path)) == "blank"


def test_order_is_worth_its_share_and_the_others_all():
    for level, share in steps.LEVELS.items():
        verdict = levels.at(RIGHT, level)
        assert verdict.points == pytest.approx(5 * share) and verdict.level == level
        assert verdict.max_points == pytest.approx(10 * share)
        assert verdict.to_dict()["level"] == level
    assert levels.at(RIGHT, "write") == RIGHT


def test_a_verdict_says_its_level():
    texts = {level: str(levels.at(RIGHT, level)) for level in steps.LEVELS}
    assert "3 of 6 points at level order" in texts["order"] and "level" not in texts["write"]
    assert "5 of 10 points \u2605 from a blank page" in texts["blank"]
    wrong = Verdict("step05", "cute", "emulator", (Part("results", False, 2, 4, ""),))
    assert "2 of 4 points at level blank" in str(levels.at(wrong, "blank"))
    assert "\u2605 from a blank page" in levels.at(RIGHT, "blank")._repr_html_()


@pytest.mark.parametrize(
    "change, star",
    [
        ({}, True),
        ({"level": "write"}, False),
        ({"checks": []}, False),
        ({"checks": [{"passed": None}]}, False),
        ({"checks": [{"passed": True}, {"passed": False}]}, False),
    ],
)
def test_the_mark_is_of_a_blank_page_on_which_nothing_failed(change, star):
    assert levels.from_blank(levels.at(RIGHT, "blank").to_dict() | change) is star
    assert not levels.from_blank({})


@pytest.mark.parametrize("level", steps.LEVELS)
def test_a_level_as_it_is_given_is_open(level):
    factory = load_factory_source(exercises.given("step01", "tilelang", level), "given")
    told = []
    verdict = levels.check_gemm("step01", factory, "tilelang", "compile", on_progress=told.append)
    assert verdict.open and verdict.level == level and verdict.checks[0].state == OPEN
    assert {one.level for one in told} == {level}


def test_a_right_kernel_gets_the_share_of_its_level(monkeypatch):
    monkeypatch.setattr(gemm, "check_gemm", lambda *_, on_progress: RIGHT)
    factory = load_factory_source("# level: order\ndef gemm(M, N, K):\n    pass\n", "given")
    assert levels.check_gemm("step05", factory, "cute").points == pytest.approx(3)
