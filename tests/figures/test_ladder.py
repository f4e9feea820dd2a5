"""The ladder plot: what it says, that no text covers another, and that poor data never breaks it.

Every number here is synthetic: chosen to exercise the plot, measured nowhere.
"""

import itertools
import json
import math
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from matplotlib.colors import to_hex
from matplotlib.text import Text

from course_utils.figures.ladder import LABELS, SIZES, ladder
from course_utils.figures.theme import DSLS

BURST = {
    "step03": 200.0,
    "step04": 230.0,
    "step05": 400.0,
    "step06": 420.0,
    "step07": 450.0,
    "step08": 700.0,
    "step09": 720.0,
    "step10": 780.0,
}
CUBLAS = {"burst": 760.0, "sustained": 640.0}


def timing(mode, size, tflops, cublas):
    return {
        "mode": mode,
        "size": size,
        "samples": 30,
        "tflops": tflops,
        "cublas_tflops": cublas,
        "ratio": tflops / cublas,
        "tflops_quartiles": [0.99 * tflops, 1.01 * tflops],
    }


def synthetic(dsls=("tilelang",), steps=LABELS, scale=1.0, gpu="NVIDIA H200"):
    entries = []
    for dsl, step in itertools.product(dsls, steps):
        if step in BURST:
            timings = [
                timing(
                    mode, [size] * 3, BURST[step] * scale * (1.0 if mode == "burst" else 0.9), cublas * scale
                )
                for size in SIZES
                for mode, cublas in CUBLAS.items()
            ]
        else:
            timings = [timing("burst", [128, 128, 64], 0.25, 0.5)]
        entries.append(entry(step, timings, dsl))
    provenance = {
        "gpu": gpu,
        "driver": "580.00",
        "torch": "2.0",
        "date": "2026-01-02",
        "versions": {"tilelang": "0.0.1"},
    }
    return {"provenance": provenance, "entries": entries}


def entry(step, timings, dsl="tilelang"):
    return {"name": f"{step} {dsl}", "step": step, "dsl": dsl, "checks": [], "timings": timings}


def texts(figure):
    """Everything the figure writes, line breaks as spaces."""
    return [t.get_text().replace("\n", " ") for t in figure.findobj(Text) if t.get_visible() and t.get_text()]


def values(axes):
    return [t.get_text() for t in axes.texts if t.get_gid() == "value"]


def bar_colours(axes):
    return {to_hex(patch.get_facecolor()) for patch in axes.patches if patch.get_facecolor()[3] > 0}


def overlaps(figure):
    """Pairs of texts whose boxes on the page cross, and texts that leave the page."""
    renderer = figure.canvas.get_renderer()
    figure.draw(renderer)
    boxes = [
        (t.get_text(), t.get_window_extent(renderer))
        for t in figure.findobj(Text)
        if t.get_visible() and t.get_text()
    ]
    crossing = [
        (a, b)
        for (a, x), (b, y) in itertools.combinations(boxes, 2)
        if min(x.x1, y.x1) - max(x.x0, y.x0) > 1 and min(x.y1, y.y1) - max(x.y0, y.y0) > 1
    ]
    page = figure.bbox
    outside = [t for t, box in boxes if box.x0 < 0 or box.y0 < 0 or box.x1 > page.x1 or box.y1 > page.y1]
    return crossing + outside


def test_says_what_is_drawn():
    figure = ladder(synthetic())
    said = texts(figure)
    assert set(LABELS.values()) <= set(said)
    assert {
        "cuBLAS burst 760",
        "cuBLAS sustained 640",
        "fp16 peak 989.5",
        "one tile",
        "TileLang",
        "sustained",
    } <= set(said)
    assert "CuTe DSL" not in said
    for axes in figure.axes:
        assert values(axes) == [
            "0.25",
            "0.25",
            "200\n26%",
            "230\n30%",
            "400\n53%",
            "420\n55%",
            "450\n59%",
            "700\n92%",
            "720\n95%",
            "780\n103%",
        ]


def test_footer_says_recorded_where_when_and_with_what():
    footer = next(t for t in texts(ladder(synthetic())) if t.startswith("recorded on"))
    assert footer.startswith(
        "recorded on NVIDIA H200, 2026-01-02, driver 580.00, tilelang 0.0.1 bars: burst median"
    )
    assert "measured" not in footer


def test_steps_without_an_entry_keep_their_place_and_one_tile_steps_do_not():
    figure = ladder(synthetic(steps=["step03", "step05"]))
    labels = [t.get_text() for t in figure.axes[0].get_xticklabels()]
    assert len(labels) == 9 and labels[0] == "3\ntiling" and len(values(figure.axes[0])) == 2


def test_no_peak_line_for_a_gpu_we_have_no_datasheet_for():
    assert not [t for t in texts(ladder(synthetic(gpu="NVIDIA Something"))) if "peak" in t]


def test_measured_is_solid_and_recorded_an_outline():
    recorded, mine = synthetic(), synthetic(steps=["step03", "step04"], scale=0.5, gpu="NVIDIA Something")
    figure = ladder(recorded, mine)
    said = texts(figure)
    assert {"TileLang, measured here", "TileLang, recorded", "cuBLAS burst 380"} <= set(said)
    assert "cuBLAS burst 760" not in said
    footer = next(t for t in said if t.startswith("measured on NVIDIA Something"))
    assert "recorded on NVIDIA H200, 2026-01-02" in footer
    axes = figure.axes[0]
    assert {"100\n26%", "115\n30%", "400\n53%"} <= set(values(axes)) and "200\n26%" not in values(axes)
    assert len([p for p in axes.patches if p.get_facecolor()[3] == 0]) == len(BURST)


def test_nothing_measured_yet_is_said():
    said = texts(ladder(synthetic(), {"entries": []}))
    assert "M = N = K = 4096 (nothing measured here yet)" in said and "cuBLAS burst 760" in said
    assert "TileLang, measured here" not in said


def test_highlight_keeps_one_step_in_full_colour():
    full = DSLS["tilelang"][1]
    axes = ladder(synthetic(), highlight="step05").axes[0]
    strong = [p for p in axes.patches if to_hex(p.get_facecolor()) == full]
    assert [p.get_height() for p in strong] == [BURST["step05"]] and len(bar_colours(axes)) == 3
    assert [t.get_text() for t in axes.get_xticklabels() if t.get_weight() == "bold"] == ["5\npipeline"]
    assert bar_colours(ladder(synthetic(), highlight="no step").axes[0]) == {full}


def test_two_dsls_have_their_own_colours_side_by_side():
    axes = ladder(synthetic(("tilelang", "cute"))).axes[0]
    assert bar_colours(axes) == {colour for _, colour in DSLS.values()}
    spans = sorted((p.get_x(), p.get_x() + p.get_width()) for p in axes.patches)
    assert all(left[1] <= right[0] + 1e-9 for left, right in zip(spans, spans[1:], strict=False))


BOTH = ("tilelang", "cute")


@pytest.mark.parametrize(
    "recorded, measured, highlight",
    [
        (synthetic(), None, None),
        (synthetic(BOTH), None, "step05"),
        (synthetic(BOTH, scale=0.05), None, None),  # bars too short to hold their values
        (synthetic(BOTH), synthetic(BOTH, scale=1.03), "step10"),
        (synthetic(BOTH), synthetic(BOTH, scale=0.1), None),
        (synthetic(BOTH, gpu="a name " * 40), synthetic(gpu="another $x_{ " * 40), None),
    ],
    ids=["plain", "two", "short", "measured", "slow", "long names"],
)
def test_no_text_covers_another(recorded, measured, highlight):
    assert overlaps(ladder(recorded, measured, highlight)) == []


def test_lines_that_nearly_meet_keep_their_names_apart():
    data = synthetic()
    for entry in data["entries"]:
        for t in entry["timings"]:
            t["cublas_tflops"] = 985.0 if t["mode"] == "burst" else 984.0
    assert overlaps(ladder(data)) == []


def test_values_stay_within_their_bars():
    figure = ladder(synthetic(BOTH), synthetic(BOTH))
    renderer = figure.canvas.get_renderer()
    for axes in figure.axes:
        bars = [p.get_window_extent(renderer) for p in axes.patches if p.get_facecolor()[3] > 0]
        for text in axes.texts:
            if "%" in text.get_text():
                box = text.get_window_extent(renderer)
                assert any(
                    b.x0 <= box.x0 and box.x1 <= b.x1 and b.y0 <= box.y0 and box.y1 <= b.y1 for b in bars
                )


def test_its_png_has_the_stated_width_and_is_the_same_twice():
    data = ladder(synthetic()).png()
    assert data[:4] == b"\x89PNG" and struct.unpack(">I", data[16:20])[0] == 1600
    assert data == ladder(synthetic()).png()


def test_survives_json():
    assert texts(ladder(json.loads(json.dumps(synthetic())))) == texts(ladder(synthetic()))


@pytest.mark.parametrize(
    "provenance",
    [
        {},
        {"provenance": 3},
        pytest.param({"provenance": {"gpu": None, "versions": []}}, marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize(
    "entries",
    [
        [],
        [None, 3, "step03"],
        [{}],
        [{"step": "step03", "dsl": "tilelang"}],
        [{"step": "step03", "dsl": "tilelang", "timings": []}],
        [{"step": "step03", "dsl": "tilelang", "timings": [None, {}]}],
        [{"step": ["step03"], "dsl": {}, "timings": 1}],
        [{"step": "step77", "dsl": "tilelang", "timings": []}],
        [{"step": "step03", "dsl": "tilelang", "timings": [timing("burst", [4096] * 3, math.nan, 700.0)]}],
        [{"step": "step03", "dsl": "tilelang", "timings": [timing("burst", 4096, -1.0, 700.0)]}],
    ],
)
def test_nothing_to_draw_is_said_and_never_raised(entries, provenance):
    figure = ladder({"entries": entries, **provenance})
    assert [t.get_text() for axes in figure.axes for t in axes.texts] == ["nothing recorded yet"] * 2
    assert overlaps(figure) == []


def test_draws_what_there_is():
    burst = {"mode": "burst", "size": [4096] * 3, "tflops": 300.0, "cublas_tflops": 600.0, "ratio": 0.5}
    entries = [
        entry("step03", [burst]),
        entry("step04", [{**burst, "mode": "sustained"}]),
        entry("step05", [{**burst, "tflops_quartiles": None}]),
        entry("step06", [{**burst, "tflops_quartiles": [310.0, 290.0]}]),
        entry("step07", [{**burst, "tflops_quartiles": [310, "x"]}]),
        entry("step08", [{**burst, "ratio": None}]),
        entry("step99", [burst]),
    ]
    figure = ladder({"entries": entries})
    assert values(figure.axes[0]) == ["300\n50%"] * 3
    said = texts(figure)
    missing = "step07 tilelang, step08 tilelang, step99 tilelang"
    assert any(f"recorded on an unnamed GPU, no date; not drawn: {missing}" in t for t in said)
    assert "nothing recorded yet" in said  # at 8192
    assert overlaps(figure) == []


def test_part_of_a_provenance_is_none():
    figure = ladder({**synthetic(), "provenance": {"gpu": "NVIDIA H200"}})
    assert any("recorded on an unnamed GPU, no date" in t for t in texts(figure))


@pytest.mark.parametrize(
    "data, error", [(None, TypeError), ([], TypeError), ({}, ValueError), ({"entries": None}, ValueError)]
)
def test_no_entries_is_an_error_that_says_so(data, error):
    with pytest.raises(error, match='recorded must .*"entries"'):
        ladder(data)
    if data is not None:
        with pytest.raises(error, match='measured must .*"entries"'):
            ladder({"entries": []}, data)


def test_leaves_pyplot_and_the_kernel_libraries_alone():
    code = (
        "import sys; from course_utils.figures.ladder import ladder; ladder({'entries': []}); "
        "print([m for m in ('torch', 'tilelang', 'matplotlib.pyplot') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_peers_are_marks_behind_the_last_rung_with_their_names():
    timing = {"mode": "burst", "size": [4096] * 3, "tflops": 750.0, "cublas_tflops": 760.0, "ratio": 0.99}
    peers = [{"peer": "cublaslt", **timing}, {"peer": "nobody", **timing}]
    figure = ladder(synthetic() | {"peers": peers, "also": ["peers: NVIDIA H200, 2026-01-03"]})
    labels = [t.get_text() for t in figure.axes[0].get_xticklabels()]
    assert labels[-2:] == ["11\nany shape", "peers"]
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "^"]
    assert [tuple(line.get_ydata()) for line in marks] == [(750.0,)]
    assert not [line for line in figure.axes[1].lines if line.get_marker() == "^"]
    said = texts(figure)
    assert "cublasLt's best" in said and "CUTLASS" not in said
    assert any("peers: NVIDIA H200" in text for text in said)


def test_without_peers_the_last_place_is_step_11():
    assert ladder(synthetic()).axes[0].get_xticklabels()[-1].get_text() == "11\nany shape"


def test_one_size_is_one_panel_as_high_as_each_of_two():
    both, one = ladder(synthetic()), ladder(synthetic(), sizes=(8192,))
    assert [axes.get_title("left") for axes in one.axes] == ["M = N = K = 8192"]
    heights = [
        axes.get_position().height * figure.get_size_inches()[1]
        for figure in (both, one)
        for axes in figure.axes
    ]
    assert heights == pytest.approx([heights[0]] * 3)


def test_a_saved_ladder_is_small_and_its_picture_the_same():
    figure = ladder(synthetic())
    markup, still = figure._repr_html_(), figure._repr_png_()
    assert len(markup) + len(still) * 4 / 3 < 165_000 and len(still) < len(figure.png()) / 5
