"""Recorded plans of step 11, in their older and their newer form."""

import json

import pytest

from course_utils.plans import Plan, choose
from course_utils.recordings import measured, step11_results

SQUARE = [4096] * 3
TIMING = {
    "seconds": 2e-4,
    "tflops": 687.0,
    "ratio": 0.9,
    "cublas_tflops": 763.0,
    "mode": "burst",
    "size": SQUARE,
}
WHERE = {"gpu": "NVIDIA H200", "driver": "580", "torch": None, "date": "2026-01-02", "versions": {}}
# fmt: off
OLD = {
    "block_M": 128, "block_N": 192, "cluster_M": 2, "cluster_N": 1, "num_ctas": 132, "panel": 8, "epi_N": 32,
    "max_stages": 8, "overlap": True, "back": False, "keep": [1508705875169116160, None, 1364590687093260288],
}
# fmt: on
NEW = {"block_M": 256, "block_N": 192, "cluster": 1, "num_ctas": 132, "panel": 10}


def entry(plan, name="tried", size=(4096, 4096, 4096), **changed):
    return {
        "name": name,
        "dsl": "cute",
        "size": size,
        "mode": "burst",
        "plan": plan,
        "timing": TIMING,
    } | changed


@pytest.fixture
def recorded(monkeypatch, tmp_path):
    """Writes a recording of these entries, and says what is read from it."""
    monkeypatch.setattr(measured, "FOLDER", tmp_path)

    def write(*entries):
        (tmp_path / "step11.json").write_text(json.dumps({"provenance": WHERE, "entries": entries}))
        return step11_results.load()

    return write


def test_without_a_recording_there_is_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    assert step11_results.load() == ({}, []) and step11_results.peers() == ({}, {}, [])


def test_both_forms_are_read_into_one(recorded):
    old, new = recorded(entry(OLD), entry(NEW, order="Hilbert")).points
    assert (old.plan, new.plan) == (Plan(128, 192, 2, 132, 8), Plan(256, 192, 1, 132, 10))
    assert dict(old.changed) == {"back": False, "keep": tuple(OLD["keep"]), "narrow": True}
    assert new.changed == (("order", "Hilbert"),)
    assert old.work == 2 * 4096**3


def test_the_newer_of_two_counts_and_what_was_not_timed_is_left_out(recorded):
    faster = entry(NEW, timing={**TIMING, "ratio": 1.1})
    found = recorded(entry(NEW), entry(OLD), faster, entry(NEW, size=(8, 8, 8), timing=None))
    assert [point.ratio for point in found.points] == [0.9, 1.1]


def test_what_the_chooser_takes_is_shown_else_what_an_earlier_one_took_else_step_10s_tile(recorded):
    base = {**NEW, "block_M": 128, "block_N": 256, "cluster": 2, "num_ctas": 128, "panel": 8}
    square, ragged, small = (4096, 4096, 4096), (4104, 4104, 4104), (2048, 2048, 2056)
    far = entry({**base, "cluster": 4}, "chosen, clusters up to 4", ragged)
    found = recorded(
        *(entry(base), entry(NEW, "chosen: 256x192")),
        *(entry(base, size=ragged), entry(NEW, "chosen: 256x192", ragged), far, entry(base, size=small)),
    )
    taken = {size: point.plan for (_, size), point in step11_results.chosen(found.points).items()}
    assert taken == {square: Plan(), ragged: Plan(*NEW.values()), small: Plan()}
    assert choose(*square) == Plan()


def test_peers_are_read_by_name_and_size(recorded, tmp_path):
    one = {"peer": "cublaslt", "shape": "square 4096", "size": SQUARE, "timing": TIMING}
    lost = {**one, "peer": "tileops_gemm", "timing": None}
    said = {"cublaslt": "cublasLt, the best of its heuristics"}
    (tmp_path / "peers.json").write_text(
        json.dumps({"provenance": WHERE, "peers": said, "entries": [one, lost]})
    )
    ratios, names, sentences = step11_results.peers()
    assert ratios == {"cublasLt": {(4096,) * 3: 0.9}} and names == {(4096,) * 3: "square 4096"}
    assert sentences == [said["cublaslt"], "tileops_gemm"]


def test_what_two_runs_have_is_kept_of_both(recorded):
    again = entry(NEW, timing={**TIMING, "ratio": 1.1}, run=2)
    assert [(p.run, p.ratio) for p in recorded(entry(NEW), again).points] == [(1, 0.9), (2, 1.1)]


def test_chosen_plans_are_of_the_run_that_has_most_of_them(recorded):
    square, small = (4096, 4096, 4096), (2048, 2048, 2048)
    plan = choose(*square)._asdict()
    assert choose(*square) == choose(*small)

    def of(run, size, ratio):
        return entry(plan, size=size, run=run, timing={**TIMING, "ratio": ratio})

    older = [of(3, square, 1.0), of(3, small, 1.1)]
    lone = recorded(*older, of(4, square, 0.9)).points
    assert {size: p.run for (_, size), p in step11_results.chosen(lone).items()} == {square: 3, small: 3}
    both = recorded(*older, of(4, square, 0.9), of(4, small, 1.1), of(5, small, 1.2)).points
    assert {size: p.run for (_, size), p in step11_results.chosen(both).items()} == {square: 4, small: 4}
    assert step11_results.spread(both) == pytest.approx(1 / 0.9 - 1) and step11_results.spread(lone[:1]) == 0


@pytest.mark.parametrize(
    "text, says",
    [
        ("{", "is not a results file"),
        ('{"entries": 1}', "is not a results file"),
        (json.dumps({"provenance": WHERE, "entries": [3]}), "entry 0 lacks"),
        (json.dumps({"provenance": WHERE, "entries": [entry({})]}), "has a plan of no known form"),
    ],
)
def test_another_file_is_told_by_its_name(monkeypatch, tmp_path, text, says):
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    (tmp_path / "step11.json").write_text(text)
    with pytest.raises(measured.MeasuredError, match=f"step11.json.*{says}"):
        step11_results.load()
