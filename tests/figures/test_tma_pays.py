"""The picture of what was recorded of blocking loads, cp.async and TMA by tile size."""

import json

import pytest

from course_utils.figures.tma_pays import LOOKS, PLACES, rates, when_tma_pays
from course_utils.recordings import measured
from tests.figures.test_counters import texts


def recorded(**fields):
    return json.loads((measured.FOLDER / "tma_pays.json").read_text()) | fields


def test_every_recorded_rate_is_drawn_once():
    data = recorded()
    figure = when_tma_pays(data)
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(PLACES.values())
    for axes, place in zip(figure.axes, PLACES, strict=True):
        drawn = sorted(point for line in axes.lines for point in zip(*line.get_data(), strict=True))
        rows = [one for one in data["rows"] if one["matrix"] == place]
        assert drawn == sorted((one["rows"] * one["bytes"], one["gb_per_second"]) for one in rows)
        assert axes.get_ylim()[1] > max(one["gb_per_second"] for one in data["rows"])
    assert {one["way"] for one in data["rows"]} == set(LOOKS)


def test_it_says_where_its_figures_come_from_and_is_dark_in_the_dark():
    said = " ".join(texts(when_tma_pays(recorded(gpu="NVIDIA H100", samples=7))))
    assert "NVIDIA H100" in said and "Median of 7 launches" in said and recorded()["recorded"] in said
    assert "prefers-color-scheme: dark" in when_tma_pays(recorded())._repr_html_()


def test_tiles_come_in_the_order_of_their_bytes():
    sizes = [size for size, _ in rates(recorded(), "DRAM", "cp.async", 128)]
    assert sizes == sorted(sizes) and len(sizes) == 4


def test_a_file_that_is_another_is_none():
    with pytest.raises(KeyError):
        when_tma_pays({"provenance": {}, "entries": []})
