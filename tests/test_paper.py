"""The prediction for a chip that nobody here has: its arithmetic, and the page that shows it."""

import ast
import re
from dataclasses import replace

import pytest

from course_utils import paper
from course_utils.chips import BLACKWELL, HOME
from course_utils.compile.load import SOLUTIONS, solution_path
from course_utils.grading import steps

PAGE = (SOLUTIONS.parent / "docs" / "blackwell.md").read_text()


def constants(step):
    """The numbers that a solution begins with."""
    found = {}
    for node in ast.parse(solution_path(step, "tilelang").read_text()).body:
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            pairs = (
                zip(target.elts, value.elts, strict=True)
                if isinstance(target, ast.Tuple)
                else [(target, value)]
            )
            found |= {name.id: one.value for name, one in pairs if isinstance(one, ast.Constant)}
    return found


@pytest.mark.parametrize("step, tile", [item for of in paper.TILES.values() for item in of.items()])
def test_a_tile_is_its_solutions(step, tile):
    of = constants(step)
    cluster = of.get("pair", of.get("cluster", 1))
    rows = of["block_M"] * of.get("consumers", 1) if step == "b10" else of["block_M"]
    assert tile == (rows, of["block_N"], cluster)


def test_one_full_wave_runs_at_the_peak():
    chip = replace(paper.B200, sms=64, peak_tflops=64 * 8192 * 1e9 / 1e12)
    found = paper.bounds(chip, (1024, 1024, 640), (128, 128, 1))
    assert (found.waves, found.filled) == (1, 1.0)
    assert found.multiply == pytest.approx(chip.peak_tflops)
    # 256 lines of 128 bytes in 256 clocks, of which L2 brings 78 bytes
    assert found.loads == 128 and found.load == pytest.approx(chip.peak_tflops * 78 / 128)


def test_a_tile_more_than_places_takes_another_wave():
    chip = paper.B200.with_sms(paper.B200.sms)
    exact = paper.bounds(chip, (148 * 128, 128, 64), (128, 128, 1))
    more = paper.bounds(chip, (149 * 128, 128, 64), (128, 128, 1))
    assert (exact.waves, more.waves) == (1, 2)
    assert more.multiply == pytest.approx(exact.multiply * 149 / 148 / 2)


def test_more_power_allows_more_and_changes_nothing_else():
    found, hotter = (
        paper.bounds(replace(paper.B200, watts=watts), (8192, 8192, 8192), (256, 256, 2))
        for watts in (1000, 1200)
    )
    assert hotter.power == pytest.approx(1.2 * found.power)
    assert hotter._replace(power=0) == found._replace(power=0)


@pytest.mark.parametrize("step", paper.TILES[HOME])
def test_no_recorded_burst_is_above_its_bound(step):
    for size in paper.SIZES:
        assert paper.recorded(step, size) < paper.bounds(HOME, size, paper.TILES[HOME][step]).least


def test_power_is_the_least_bound_of_every_row():
    """As the page says of an H200."""
    for tile in paper.TILES[HOME].values():
        for size in paper.SIZES:
            found = paper.bounds(HOME, size, tile)
            assert found.least == found.power


@pytest.mark.parametrize("chip", [BLACKWELL, HOME.with_sms(60)])
def test_a_chip_without_published_limits_is_refused(chip):
    with pytest.raises(ValueError, match=r"no peak and power limit are known of .*NVIDIA B200"):
        paper.bounds(chip, (4096, 4096, 4096), (128, 128, 1))


def test_a_ragged_k_is_refused():
    with pytest.raises(ValueError, match="multiple of 64"):
        paper.bounds(HOME, (4096, 4096, 4100), (128, 128, 1))


def test_sizes_are_those_that_steps_are_timed_at():
    assert paper.SIZES == steps.TIMED_SIZES


@pytest.mark.parametrize("name", ["predicted", "compared"])
def test_the_page_shows_what_is_computed_today(name):
    [shown] = re.findall(rf"<!-- {name} -->\n\n?(.*?)\n\n?<!-- /{name} -->", PAGE, re.S)
    assert shown.strip() == getattr(paper, name)()


def test_the_page_names_calls_that_the_solutions_make():
    """In its columns of TileLang and of CuTe DSL."""
    [table] = re.findall(r"\| what it does \|.*?\n\n", PAGE, re.S)
    for column, dsl in ((2, "tilelang"), (3, "cute")):
        folder = SOLUTIONS / "blackwell" / dsl
        sources = "\n".join(path.read_text() for path in folder.glob("b*.py"))
        for row in table.strip().splitlines()[2:]:
            for call in re.findall(r"`([^`]+)`", row.split("|")[column]):
                assert call in sources, f"no {dsl} solution has {call}"


def test_the_page_says_at_its_top_that_nothing_has_run():
    assert "Nothing of the Blackwell track has run on a Blackwell by us" in PAGE[:200]
