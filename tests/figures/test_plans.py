"""Pictures and tables of step 11's recorded plans, and of how busy the tensor cores are at which clock."""

import math
from dataclasses import replace

import pytest

from course_utils.figures import candidates
from course_utils.figures.counters import bound
from course_utils.figures.plans import predicted, shapes
from course_utils.plans import Plan
from course_utils.recordings import measured
from course_utils.recordings.step11_results import Peers, Point, Recorded
from tests.figures.test_counters import texts
from tests.recordings.counted import grows
from tests.recordings.test_counters import entry, recording

HERE = {"gpu": "NVIDIA H200", "date": "2026-01-02", "driver": "580"}
NOBODY = Peers({}, {}, [])
SQUARE, RAGGED = (4096, 4096, 4096), (4104, 4104, 4104)
PEERS = Peers(
    {"cublasLt": {SQUARE: 1.01}, "other": {SQUARE: 0.4}}, {SQUARE: "square 4096"}, ["cublasLt, at its best"]
)


def point(plan=Plan(), ratio=1.0, size=SQUARE, dsl="cute", mode="burst", name="tried"):  # noqa: B008
    return Point(dsl, size, mode, name, plan, (), 1e-4, 700.0, ratio)


def recorded(*points):
    return Recorded(HERE, list(points))


# -- what was tried


def test_each_thing_that_was_tried_has_a_row_and_what_cannot_be_says_why():
    square, hot = "4096x4096x4096 burst", "8192x8192x8192 sustained"
    entries = [
        {"name": name, "dsl": "cute", "gains": {square: 0.02, hot: -0.02}, "why": "it spins"}
        for name in ("waits", "polls", "spins")
    ]
    entries[2]["gains"] = {square: 0.001, "8192x2304x5120 burst": 0.5}  # the only one at that size
    entries.append({"name": "waits", "dsl": "tilelang", "gains": {}, "why": "nobody can say it"})
    head, rows = candidates.table({"entries": entries})
    assert head == ["tried", "DSL", "4096", "8192, hot", "so it", "why"]
    assert rows[0] == ["waits", "CuTe DSL", "+2.0%", "-2.0%", "wins here, loses there", "it spins"]
    assert rows[2][2:5] == ["+0.1%", "", "changes nothing"]
    assert rows[3][1:] == ["TileLang", "", "", "not timed", "nobody can say it"]
    page = candidates.markup(head, [rows[0], rows[0], rows[1]])
    assert page.count("<tr>") == 1 + 3 + 2 and page.count("it spins") == 2


@pytest.mark.parametrize(
    "gains, says",
    [
        ([0.01, 0.0], "wins"),
        ([-0.01], "loses"),
        ([0.004, -0.004], "changes nothing"),
        ([0.01, -0.01], "wins here, loses there"),
    ],
)
def test_an_outcome_within_the_noise_is_none(gains, says):
    assert candidates.outcome(gains) == says


def test_what_the_text_says_of_the_committed_recording():
    head, rows = candidates.table(measured.load("tried"))
    came: dict[str, set] = {}
    for row in rows:
        came.setdefault(row[0], set()).add(row[-2])
    assert came["D leaves while the next tile is multiplied"] == {"wins"}
    for words in ("clusters of 4", "256 x 128", "three stages"):
        assert came[words] == {"loses"}, words
    assert came["K always forwards"] == came["L2: evict D first"] == {"changes nothing"}
    assert {"4096", "8192", "8192 x 2304 x 5120", "16384"} <= set(head)
    assert all(row[-1] for row in rows)
    for row in rows:
        if row[0].startswith(("panels", "L2", "K always", "Hilbert", "no cluster")):
            gains = [row[head.index(size)] for size in ("4096", "8192") if row[head.index(size)]]
            assert all(float(gain[:-1]) < 0.5 for gain in gains), row
    large = {row[0]: row[head.index("16384")] for row in rows if row[1] == "CuTe DSL"}
    assert large["256 x 192, no cluster, 132 CTAs, panels of 10"] > "+4"


# -- a model beside the record


def test_a_model_is_drawn_beside_what_is_recorded():
    points = [point(), point(Plan(cluster=4)), point(size=(16384,) * 3), point(mode="sustained")]
    figure = predicted(recorded(*points), lambda M, N, K, plan: 1.1e-4)
    said = " ".join(texts(figure))
    assert "up to 1.5 TFLOP of work: 1 points, 10.0% off by root mean square, 10.0% at most" in said
    assert "above it, where the power limit lowers the clock: 1 points" in said and "2026-01-02" in said
    times, errors = figure.axes
    assert len(times.lines) == 1 + 3 and len(errors.lines) == 2 + 2
    assert figure._repr_png_()[:4] == b"\x89PNG"


def test_a_model_that_raises_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        predicted(recorded(point()), lambda M, N, K, plan: 1 / 0)


@pytest.mark.parametrize("draw", [lambda none: predicted(none, None), lambda none: shapes(none, NOBODY)])
def test_without_plans_a_picture_says_so(draw):
    assert "No plans are recorded yet." in texts(draw(Recorded({}, [])))


# -- every shape


def test_each_shape_has_a_row_ragged_ones_last():
    fits = point(Plan(128, 208, 1, 132), ratio=0.98, size=RAGGED, name="chosen: 128x208")
    points = [point(size=RAGGED, ratio=0.9), fits, point(ratio=1.02), point(ratio=1.04, dsl="tilelang")]
    figure = shapes(recorded(*points), PEERS)
    (axes,) = figure.axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["square 4096  4096 x 4096 x 4096", "4104 x 4104 x 4104"]
    said = " ".join(text.get_text() for text in figure.texts)
    mean = math.sqrt(1.02 * 0.98)
    assert f"CuTe DSL: 2 shapes, geometric mean {mean:.3f}, least 0.980 at 4104 x 4104 x 4104" in said
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()][-3:] == [
        "with step 10's tile",
        "cublasLt",
        "other",
    ]
    assert "peers: cublasLt, at its best" in said
    assert "0.40" in [text.get_text() for text in axes.texts]  # too far to the left for a mark
    assert "of other runs than the rest: peers; a plan's share differs from run to run by up to 0.0%" in said
    # cuBLAS's line, three marks, a line from step 10's tile and its mark, a peer
    assert len(axes.lines) == 1 + 3 + 2 + 1


def test_marks_of_other_runs_are_said():
    fits = [point(Plan(128, 208, 1, 132), size=RAGGED, name="chosen: 128x208")]
    fits.append(replace(fits[0], ratio=1.02, run=2))
    before = [point(size=RAGGED, ratio=0.8), replace(point(size=RAGGED, ratio=0.9), run=2)]
    one = shapes(recorded(*fits, *before), NOBODY)
    assert not [text for text in texts(one) if "of other runs" in text]
    assert 0.9 in [line.get_xdata()[0] for line in one.axes[0].lines]  # step 10's tile in the same run
    said = " ".join(texts(shapes(recorded(*fits, *before[:1]), NOBODY)))
    assert "rest: some with step 10's tile; a plan's share differs from run to run by up to 2.0%" in said


# -- activity and clock


def test_each_step_is_a_point_and_a_variant_is_none():
    other = {**entry("step09"), "name": "step09, no multicast"}
    figure = bound(recording(entry("step09"), entry("step10", "cute"), other))
    square = figure.axes[0]
    assert sum(line.get_marker() in ("o", "s") for line in square.lines) == 2
    assert {"9", "10", "the highest clock"} <= {text.get_text() for text in square.texts}


def test_without_counters_nothing_is_drawn():
    assert "Counters are not recorded yet." in texts(bound({"provenance": {}, "entries": []}))


def test_step_10_gains_over_step_9_by_its_clock():
    """As the text says beside this picture."""
    for size in ((4096,) * 3, (8192,) * 3):
        for dsl in ("tilelang", "cute"):
            before, after = f"step09 {dsl}", f"step10 {dsl}"
            assert grows(before, after, size, "clock_hz") > 1.03
            assert grows(before, after, size, "tensor_active") < 1.04
