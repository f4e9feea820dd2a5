"""The timeline of an emulated run: what is drawn, and what is not."""

from dataclasses import replace

import pytest

from course_utils.cause import Cause
from course_utils.figures.theme import RED, WORK
from course_utils.figures.timeline import timeline
from course_utils.run.emulator import Emulation
from course_utils.run.emulator.explain.findings import Finding
from course_utils.run.emulator.explain.timeline import Arrival, Span


def span(kind, begin, end, role="producer", warp=0, cta=0, label="A", phase=None):
    return Span(cta, warp, role, kind, label, begin, end, 0, phase)


SPANS = [
    span("wait", 0, 10, label="the CTA barrier"),
    span("TMA load", 10, 40),
    span("TMA load", 12, 30, label="B"),
    span("wait", 10, 40, "consumer", 4, label="full[0]", phase=0),
    span("wgmma", 41, 60, "consumer", 5),
    span("epilogue", 62, 80, "consumer", 4),
    span("TMA store", 80, 90, "consumer", 4),
    span("wait", 20, 55, label="empty[0]", phase=0),
]
ARRIVALS = [Arrival(0, "full[0]", 0, 0, 0, 11), Arrival(0, "empty[0]", 0, 0, 5, 55)]
# fmt: off
WAITING = [
    {
        "role": "producer", "warps": [0], "cta": 0, "line": "", "barrier": "empty[0]", "parity": 0,
        "could": "", "text": "for empty[0], parity 0: phase 0 is missing its only arrival",
    },
    {
        "role": "consumer", "warps": [4, 5], "cta": 0, "line": "", "barrier": "full[0]", "parity": 1,
        "could": "", "text": "for full[0], parity 1: phase 1 is missing its only arrival",
    },
]
# fmt: on


def emulation(spans=SPANS, arrivals=ARRIVALS, waiting=()):
    findings = [Finding(Cause("deadlock", "deadlock"), "error", "", waiting=list(waiting))] if waiting else []
    return Emulation(not waiting, findings, 100, 0, list(spans), list(arrivals))


def lanes(figure):
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def colours(figure):
    from matplotlib.colors import to_hex

    return {to_hex(bar.get_facecolor()) for bar in figure.axes[0].patches if hasattr(bar, "get_facecolor")}


def test_a_lane_for_each_role_producers_above():
    figure = timeline(emulation())
    assert lanes(figure) == ["CTA 0, producer (warp 0)", "CTA 0, consumer (warpgroup 1)"]
    assert figure.axes[0].get_yticks()[0] > figure.axes[0].get_yticks()[1]


def test_every_kind_of_work_has_its_colour_and_the_axis_says_order():
    figure = timeline(emulation())
    assert set(WORK.values()) <= colours(figure)
    assert "order, not a time" in figure.axes[0].get_xlabel()


def legend(figure):
    return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]


def test_what_threads_write_between_two_wgmmas_is_a_copy_where_tma_loads_nothing():
    steps = [span("wgmma", 0, 10, "consumer"), span("epilogue", 12, 20, "consumer", 2)]
    steps += [span("wgmma", 22, 30, "consumer", 3)]
    assert legend(timeline(emulation(steps))) == ["copy by threads", "wgmma"]
    assert lanes(timeline(emulation(steps))) == [
        "CTA 0, warpgroup 0"
    ]  # where nobody produces, nobody consumes
    steps += [span("epilogue", 32, 40, "consumer", 1)]
    assert legend(timeline(emulation(steps))) == ["copy by threads", "wgmma", "epilogue"]
    steps += [span("TMA load", 1, 2, "consumer", 0)]
    assert legend(timeline(emulation(steps))) == ["TMA load", "wgmma", "epilogue"]


def test_an_edge_from_an_arrival_to_the_wait_it_ends():
    edges = [
        line.get_xydata().tolist() for line in timeline(emulation()).axes[0].lines if line.get_linewidth() < 1
    ]
    assert sorted((begin[0], end[0]) for begin, end in edges) == [(11.0, 40.0), (55.0, 55.0)]


def test_a_deadlock_shows_its_circle():
    figure = timeline(emulation(waiting=WAITING))
    axes = figure.axes[0]
    assert RED in colours(figure)
    assert {text.get_text() for text in axes.texts} == {
        "waits for empty[0], parity 0",
        "waits for full[0], parity 1",
    }
    # each waits for the other
    assert sum(type(patch).__name__ == "FancyArrowPatch" for patch in axes.patches) == 2


def test_a_deadlock_without_roles_is_drawn_too():
    nameless = [row | {"role": ""} for row in WAITING]
    assert len(timeline(emulation(waiting=nameless)).axes[0].texts) == len(WAITING)


def test_no_circle_where_bytes_alone_are_missing():
    waiting = [row | {"arrivals_missing": 0, "bytes_missing": 16384} for row in WAITING]
    axes = timeline(emulation(waiting=waiting)).axes[0]
    assert all(text.get_text().endswith(", for bytes") for text in axes.texts)
    assert not any(type(patch).__name__ == "FancyArrowPatch" for patch in axes.patches)


def test_ctas_can_be_chosen_and_idle_ones_are_refused():
    both = emulation([*SPANS, span("wgmma", 5, 9, "consumer", 4, cta=7)])
    assert lanes(timeline(both, ctas=[7])) == ["CTA 7, consumer (warpgroup 1)"]
    with pytest.raises(ValueError, match="CTA 3 did nothing to draw"):
        timeline(both, ctas=[3])


def test_a_cluster_is_drawn_together():
    spans = [*SPANS, span("wgmma", 41, 60, "consumer", 4, cta=1)]
    figure = timeline(emulation(spans, [*ARRIVALS, Arrival(0, "empty[0]", 1, 1, 4, 60)]))
    assert lanes(figure)[-1] == "CTA 1, consumer (warpgroup 1)"


def test_it_is_a_png():
    assert timeline(emulation()).png().startswith(b"\x89PNG")


def test_a_unit_has_a_lane_below_the_warps_of_its_cta():
    own = [
        span("tcgen05.mma", 41, 60, "tensor core", -1, label="128 x 128"),
        span("columns", 5, 95, "tensor memory", -1, label="0 to 127"),
    ]
    spans = [replace(one, role="worker", warp=0) for one in SPANS]
    figure = timeline(emulation([*spans, *own]))
    assert lanes(figure) == ["CTA 0, warpgroup 0", "CTA 0, tensor core", "CTA 0, tensor memory"]
    assert WORK["wgmma"] in colours(figure)
