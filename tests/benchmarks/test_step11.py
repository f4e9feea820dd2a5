"""Step 11's model and orders of tiles, as the candidates have them."""

from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from benchmarks import step11_fit
from benchmarks.candidates.step11_hilbert import hilbert

CANDIDATES = Path(__file__).parents[2] / "benchmarks" / "candidates"


def model_text(dsl: str) -> str:
    text = (CANDIDATES / f"step11_{dsl}.py").read_text()
    return text[text.index("TILES =") : text.index("\n\n\n", text.index("def choose"))]


@pytest.fixture(scope="module")
def model() -> dict:
    """The names of the model, without the DSL's import."""
    fields = "block_M block_N cluster num_ctas panel"
    names = {"block_K": 64, "Plan": namedtuple("Plan", fields, defaults=(128, 256, 2, 128, 8))}
    exec(model_text("cute"), names)
    return names


def test_both_dsls_have_the_same_model() -> None:
    assert model_text("cute") == model_text("tilelang")


def test_the_models_constants_are_those_of_the_fit(model: dict) -> None:
    constants, errors = step11_fit.fit(step11_fit.read([str(step11_fit.RECORDED)]))
    assert len(errors) == 87
    assert np.sqrt((errors**2).mean()) < 0.017 and abs(errors).max() < 0.043
    for name in ("CLOCK", "LAUNCH", "TURN", "ROW"):
        assert model[name] == pytest.approx(constants[name], rel=0.02)


def test_the_model_knows_the_recorded_times(model: dict) -> None:
    for entry in step11_fit.read([str(step11_fit.RECORDED)]):
        plan = entry["plan"]
        made = model["Plan"](plan["block_M"], plan["block_N"], plan["cluster_M"], plan["num_ctas"])
        said = model["seconds"](*entry["size"], made)
        assert said == pytest.approx(entry["timing"]["seconds"], rel=0.045)


@pytest.mark.parametrize(
    "size, tile",
    [
        ((4096, 4096, 4096), (128, 256, 2, 128)),  # four full waves
        ((4104, 4104, 4104), (128, 208, 1, 132)),  # 33 x 20 tiles are five waves of 132
        ((8192, 2304, 5120), (256, 192, 2, 128)),
        ((8200, 2312, 5128), (128, 240, 2, 132)),  # 33 x 10 clusters are five waves of 66
    ],
)
def test_the_tile_fits_the_size(model: dict, size: tuple, tile: tuple) -> None:
    assert model["choose"](*size)[:4] == tile


@pytest.mark.parametrize("rows", [1, 2, 8, 48, 64])
def test_hilbert_visits_every_tile_once_and_stays_near(rows: int) -> None:
    places = [hilbert(tile, rows, rows, 8) for tile in range(rows * rows)]
    assert sorted(places) == [(row, column) for row in range(rows) for column in range(rows)]
    reach = 2 * rows // (rows & -rows)
    steps = zip(places, places[1:], strict=False)
    assert all(abs(row - r) < reach and abs(column - c) < reach for (row, column), (r, c) in steps)
