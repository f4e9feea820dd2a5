"""What a figure of an emulated launch plays: tiles and stages at each step, phases of mbarriers, who waits
for whom.
"""

import json
import re
from functools import cache

import pytest
import torch

from course_utils.chips import BLACKWELL, HOME
from course_utils.compile import load as loading
from course_utils.compile.factory import compile_factory
from course_utils.compile.faults import kernels
from course_utils.run.emulator import Emulation, worker
from course_utils.run.emulator.explain.replay import MOST, replay, replays
from course_utils.run.emulator.explain.timeline import COLUMNS, COPY, MMA
from course_utils.run.emulator.launch import emulated

SMALL = (256, 512, 320)  # as other tests emulate them, so that they are compiled once
SIZES = {"step02": (128, 128, 320), "b02": (128, 128, 320)}


@cache
def artifact(name):
    if name.startswith(("step", "b0")):
        gemm = loading.load_factory(loading.solution_path(name, "tilelang"))
    else:
        gemm = kernels("tilelang")[name].factory()
    chip = BLACKWELL if name.startswith("b0") else HOME
    return compile_factory(gemm, "tilelang", SIZES.get(name, SMALL), chip=chip)


@cache
def emulation(name, record=True):
    return emulated(artifact(name), torch.Generator().manual_seed(0), 0, record=record)[0]


@cache
def played(name):
    return replay(emulation(name), title=name)


def state(states, step):
    return [row for row in states if row[0] <= step][-1]


def slots(data, step, cta):
    """What is in each stage after a step: state and tile, by tensor and stage."""
    return {
        (slot["tensor"], slot["stage"]): tuple(state(slot["states"], step)[1:3])
        for slot in data["slots"]
        if slot["cta"] == cta
    }


def bars(data, kind, lane=None):
    return [bar for bar in data["bars"] if bar[1] == kind and lane in (None, bar[0])]


@pytest.mark.parametrize("name, stages", [("step05", 2), ("step08", 4), ("step09", 6)])
def test_each_multiplication_reads_the_tile_that_its_stage_holds(name, stages):
    data, tiles = played(name), SMALL[2] // 64
    cta = data["ctas"][0]
    lane = next(
        i for i, one in enumerate(data["lanes"]) if one["cta"] == cta and "producer" not in one["name"]
    )
    done = bars(data, "wgmma", lane)
    assert [bar[5] for bar in done] == [k % stages for k in range(tiles)]
    for k, (_, _, begin, end, label, stage, _, _) in enumerate(done):
        a, b = re.fullmatch(r"A\((\d+), (\d+)\) B\((\d+), (\d+)\)", label).group(2, 4)
        assert int(a) == int(b) == k
        for tensor in "AB":
            now, tile = slots(data, begin, cta)[tensor, stage]
            assert now in ("read", "early") and tile.endswith(f", {k})")
        assert slots(data, end, cta)["A", stage][0] in ("used", "free", "loading", "read")
        assert f"A{slots(data, begin, cta)['A', stage][1]}" in data["steps"][begin][3]


def test_a_stage_is_empty_loading_loaded_read_and_free_in_turn():
    data = played("step08")
    states = [[row[1] for row in slot["states"]] for slot in data["slots"]]
    turn = ["loading", "loaded", "read", "used", "free"]
    assert states and all(row[0] == "empty" and row[1:6] == turn for row in states)


@pytest.mark.parametrize("name", ["step05", "step08", "step09"])
def test_phases_end_once_for_each_fill_and_carry_all_bytes(name):
    data, tiles = played(name), SMALL[2] // 64
    for cta in data["ctas"]:
        full = [one for one in data["barriers"] if one["cta"] == cta and one["name"].startswith("full")]
        assert sum(one["states"][-1][1] for one in full) == tiles
        for one in full:
            flips = [(a, b) for a, b in zip(one["states"], one["states"][1:], strict=False) if b[1] != a[1]]
            for before, after in flips:
                assert after[1] == before[1] + 1 and after[2:] == [0, 0, 0]
                assert before[2] == one["count"] and before[3] == before[4] > 0
                words = data["steps"][after[0]][3]
                assert words.startswith(f"Phase {before[1]} of {one['name']} of CTA {cta} ends")
                assert f"parity {before[1] & 1} pass" in words


@pytest.mark.parametrize("name", ["arrival_count", "wrong_initial_phase"])
def test_a_deadlock_opens_at_its_end_with_its_circle_and_the_ledgers_numbers(name):
    data, run = played(name), emulation(name)
    finding, fault = run.errors[0], data["fault"]
    assert fault["kind"] == "deadlock" and fault["step"] == len(data["steps"]) - 1
    assert [data["lanes"][one["lane"]]["name"].split(",")[0] for one in fault["chain"]] == [
        "producer",
        "consumer",
    ]
    assert [one["to"] for one in fault["chain"]] == [[fault["chain"][1]["lane"]], [fault["chain"][0]["lane"]]]
    assert all("waits for" in one["text"] or "wait for" in one["text"] for one in fault["chain"])
    assert all("T.mbarrier_wait_parity(" in one["line"] for one in fault["chain"])
    last = {one["name"]: one["states"][-1] for one in data["barriers"]}
    counts = {one["name"]: one["count"] for one in data["barriers"]}
    for row in finding.ledger:
        _, phase, arrived, come, expected = last[row.barrier]
        assert (str(phase), str(counts[row.barrier])) == (row.ended, row.init)
        assert row.arrivals.startswith(f"{arrived} of {row.init}")
        assert row.bytes in ("none", f"{come:,} of {expected:,}")


def test_a_race_opens_where_it_is_found():
    data = played("early_release")
    fault = data["fault"]
    assert fault["kind"] == "overwrite-while-read" and not fault["chain"]
    assert data["steps"][fault["step"]][1] == "load" and fault["step"] < len(data["steps"]) - 1
    assert "released empty[0] too early" in fault["text"] and fault["more"]


def test_work_has_its_names():
    names = {kind: {bar[1] for bar in played(kind)["bars"]} for kind in ("step02", "step05")}
    assert names["step02"] == {COPY, "wgmma", "epilogue", "wait"}
    assert names["step05"] == {"TMA load", "wgmma", "epilogue", "TMA store", "wait"}
    assert any("fence.proxy.async" in step[3] for step in played("step05")["steps"])
    first = bars(played("step02"), COPY)[0]
    assert len(bars(played("step02"), COPY)) == 5 and first[2] < bars(played("step02"), "wgmma")[0][2]


def test_each_event_has_the_authors_line():
    data = played("step05")
    code = {kind: data["lines"][line][1] for _, kind, _, _, line in data["steps"]}
    assert code["load"].startswith("T.tma_copy(") and code["wgmma"].startswith("T.wgmma_gemm(")
    assert code["store"] == "T.tma_copy(D_shared, D[ms, ns])"
    waits = {data["lines"][bar[7]][1] for bar in bars(data, "wait") if bar[4].startswith("full")}
    assert waits == {"T.mbarrier_wait_parity(full[stage], (k // num_stages) & 1)"}


def test_events_are_kept_where_they_are_asked_for_or_where_something_was_found():
    assert emulation("step05", record=False).events == []
    assert len(list(replays(emulation("step05")))) == 8
    quiet, asked = emulation("early_release", record=False), emulation("early_release")
    clusters = {e.cluster for e in quiet.events}
    assert 0 < len(clusters) <= len({e.cluster for e in asked.events})
    assert {e.cluster for e in quiet.events if e.kind == "finding"} <= clusters


def test_a_figure_is_bounded_and_a_launch_without_events_is_none():
    data = played("step09")
    assert len(data["steps"]) <= MOST and len(json.dumps(data)) < 150_000
    assert all(0 <= bar[2] <= bar[3] < len(data["steps"]) for bar in data["bars"])
    with pytest.raises(ValueError, match="CTA 0 did nothing that was recorded"):
        replay(Emulation(True, [], 0, 0))
    with pytest.raises(ValueError, match="CTA 99 did nothing"):
        replay(emulation("step05"), ctas=[99])


def test_who_only_waits_has_a_lane_where_nobody_works():
    data = played("register_budget")
    assert data["fault"]["kind"] == "register-budget"
    stuck = [one for one in data["fault"]["chain"] if "registers per thread" in one["text"]]
    assert stuck and all(
        data["lanes"][one["lane"]]["cta"] in data["ctas"] for one in stuck if one["lane"] >= 0
    )
    assert {one["lane"] for one in stuck} == set(range(len(data["lanes"])))


def test_a_long_run_shows_what_led_to_its_fault(monkeypatch):
    monkeypatch.setattr("course_utils.run.emulator.explain.replay.MOST", 40)
    data = replay(emulation("arrival_count"))
    assert len(data["steps"]) == 40 and data["first"] == data["total"] - 40 > 0
    assert data["fault"]["step"] == 39
    whole = {one["name"]: one["states"][-1][1:] for one in played("arrival_count")["barriers"]}
    assert {one["name"]: one["states"][-1][1:] for one in data["barriers"]} == whole


@pytest.mark.parametrize("name, sent", [("step05", False), ("arrival_count", True)])
def test_a_worker_sends_a_figure_of_what_it_found_where_one_is_asked_for(name, sent):
    assert worker.run(artifact(name), "gemm", 0, [0]).get("figure") is None
    figure = worker.run(artifact(name), "gemm", 0, [0], figure=True).get("figure")
    assert bool(figure) == sent
    if figure:
        assert figure["fault"]["kind"] == "deadlock" and "256 x 512 x 320" in figure["title"]


def test_on_blackwell_the_tensor_core_and_tensor_memory_have_lanes_of_their_own():
    data = played("b02")
    assert [lane["name"] for lane in data["lanes"]] == ["warps 0-3", "tensor core", "tensor memory"]
    (columns,), products = bars(data, COLUMNS, 2), bars(data, MMA, 1)
    assert len(products) == 5 and not bars(data, MMA, 0)  # a bar per K tile
    texts = [step[3] for step in data["steps"]]
    allocated, freed = (
        next(
            place
            for place, text in enumerate(texts)
            if text.startswith(f"Warp 0 {verb} columns {columns[4]} ")
        )
        for verb in ("allocates", "frees")
    )
    assert (columns[2], columns[3]) == (allocated, freed)
    ends = [
        place for place, text in enumerate(texts) if text.startswith("The commit of warp 0 arrives on done")
    ]
    assert len(ends) == 5 and all(bar[3] <= end for bar, end in zip(products, ends, strict=True))
    read = next(place for place, text in enumerate(texts) if "tcgen05.ld" in text)
    assert ends[-1] < read < freed
