"""The picture of where the time goes, from recorded counters."""

import pytest

from course_utils.figures.counters import time_parts
from tests.recordings.test_counters import entry, launch, recording

BIG = (8192, 8192, 8192)
CUBLAS = {
    "name": "cuBLAS",
    "step": "cublas",
    "dsl": "cublas",
    "launches": [launch(), launch(BIG, seconds=1.43e-3)],
}


def texts(figure):
    found = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        found += [text.get_text() for text in axes.texts] + [
            label.get_text() for label in axes.get_yticklabels()
        ]
    return found


def test_without_counters_it_says_so():
    figure = time_parts({"provenance": {}, "entries": []})
    assert texts(figure) == ["Counters are not recorded yet."] and figure._repr_png_()[:4] == b"\x89PNG"


def test_each_step_of_each_dsl_has_a_bar_of_three_pieces():
    data = recording(CUBLAS, entry("step05"), entry("step10", "cute"), entry("step05", "cute"))
    figure = time_parts(data, "step05")
    left, right = figure.axes
    assert [label.get_text() for label in left.get_yticklabels()] == [
        "5 pipeline  TileLang",
        "CuTe DSL",
        "10 multi-cons.  CuTe DSL",
        "cuBLAS",
    ]
    assert len(left.patches) == 4 * 3 and len(right.patches) == 3  # only cuBLAS is recorded at 8192
    assert "90% x 1.56 GHz: 183 us" in texts(figure)
    assert sum(text == " not recorded" for text in texts(figure)) == 3
    assert "NVIDIA H200, 2026-01-02" in figure.texts[-1].get_text()
    widths = [patch.get_width() for patch in left.patches[:3]]
    assert widths[2] / sum(widths) == pytest.approx(1 - 0.897)


def test_a_variant_is_no_step():
    other = {**entry("step09"), "name": "step09, no multicast"}
    assert len(time_parts(recording(entry("step09"), other)).axes[0].patches) == 3


def test_a_launch_without_its_clock_is_not_drawn():
    broken = launch()
    del broken["counters"]["clock_hz"]
    assert " not recorded" in texts(time_parts(recording(CUBLAS, entry("step09", "cute", broken))))
