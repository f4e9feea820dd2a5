"""Step 11's model against what was recorded, and orders of its tiles."""

import numpy as np
import pytest

from benchmarks import step11, step11_fit
from benchmarks.candidates.step11_hilbert import hilbert
from course_utils import plans
from course_utils.compile.load import SOLUTIONS, load_module

POINTS = step11_fit.read()


def test_the_models_constants_are_those_of_the_fit() -> None:
    constants, errors = step11_fit.fit(POINTS)
    assert len(errors) == 136
    assert np.sqrt((errors**2).mean()) < 0.019 and abs(errors).max() < 0.07
    for name, value in constants.items():
        assert getattr(plans, name) == pytest.approx(value, rel=0.01), name


def test_the_model_knows_the_recorded_times() -> None:
    for point in POINTS:
        assert plans.seconds(*point.size, point.plan) == pytest.approx(point.seconds, rel=0.07)


def test_the_exercise_is_the_same_model() -> None:
    solution = load_module(SOLUTIONS / "plan" / "case16_plan.py")
    for size in step11.SHAPES.values():
        told = [solution.seconds(*size, plan) for plan in plans.plans()]
        assert told == pytest.approx([plans.seconds(*size, plan) for plan in plans.plans()])
        assert told[plans.plans().index(plans.choose(*size))] < plans.NEAR * min(told)


def test_the_plan_it_chooses_is_the_best_recorded_or_nearly() -> None:
    for size in {point.size for point in POINTS}:
        best = min(point.seconds for point in POINTS if point.size == size)
        chosen = [point.seconds for point in POINTS if point[:2] == (size, plans.choose(*size))]
        assert chosen and min(chosen) < 1.003 * best, size


@pytest.mark.parametrize(
    "size, tile",
    [
        ((4096, 4096, 4096), (128, 256, 2, 128)),  # four full waves
        # 33 x 20 tiles of 128 x 208 are five waves of 132: rows on two lines are more than L2 brings
        ((4104, 4104, 4104), (128, 224, 2, 132)),
        ((8192, 2304, 5120), (256, 192, 2, 128)),
        ((8200, 2312, 5128), (128, 240, 2, 132)),  # 33 x 10 clusters are five waves of 66
    ],
)
def test_the_tile_fits_the_size(size: tuple, tile: tuple) -> None:
    assert plans.choose(*size)[:4] == tile


def test_what_is_to_be_measured_has_every_shape_in_both_dsls() -> None:
    wanted = step11.points()
    for size in step11.SHAPES.values():
        for dsl in ("cute", "tilelang"):
            assert (dsl, size, "burst", plans.choose(*size), "") in wanted


@pytest.mark.parametrize("rows", [1, 2, 8, 48, 64])
def test_hilbert_visits_every_tile_once_and_stays_near(rows: int) -> None:
    places = [hilbert(tile, rows, rows, 8) for tile in range(rows * rows)]
    assert sorted(places) == [(row, column) for row in range(rows) for column in range(rows)]
    reach = 2 * rows // (rows & -rows)
    steps = zip(places, places[1:], strict=False)
    assert all(abs(row - r) < reach and abs(column - c) < reach for (row, column), (r, c) in steps)
