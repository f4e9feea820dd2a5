"""Attention timed beside torch: what is held against the reference, the order of the jobs, and what a failing
one costs.
"""

import json
import sys
import zipfile

import pytest

from benchmarks import attention
from course_utils.problems import PROBLEMS

# measures five jobs, of which number 1 ends its process and number 3 never answers
FAILING = """
import json, sys, time
for n in range(int(sys.argv[sys.argv.index("--begin") + 1]), 5):
    print(json.dumps({"begins": n}), flush=True)
    if n == 1: sys.exit(1)
    if n == 3: time.sleep(99)
    print(json.dumps({"job": n, "why": ""}), flush=True)
"""


@pytest.fixture
def shape(monkeypatch):
    monkeypatch.setitem(attention.SHAPES, "small", ("causal attention", (2, 40, 72, 4, 2, 64)))
    return attention.Shape("small", seed=0, device="cpu")


def test_an_output_is_held_against_the_reference(shape):
    (right,) = PROBLEMS["causal attention"].values(*shape.inputs)
    assert shape.wrong(right.half()) == ""
    assert "elements, relative norm" in shape.wrong(right.half() + 0.01)


def test_causal_products_count_half(shape):
    assert (
        attention.work(shape.size, False) == 2 * attention.work(shape.size, True) == 4 * 2 * 40 * 72 * 4 * 64
    )


def test_a_job_that_ends_its_process_or_hangs_costs_itself_alone(monkeypatch):
    monkeypatch.setattr(attention, "JOB_SECONDS", 1.0)
    found = list(attention.supervised([sys.executable, "-c", FAILING], 5, 60))
    assert [one["job"] for one in found] == [0, 1, 2, 3, 4]
    assert [one["why"] for one in found] == ["", "its process ended", "", "no answer within 1 s", ""]


def test_the_peers_of_a_shape_come_first_and_what_did_not_compile_does_not(tmp_path):
    first, second = [*attention.SHAPES][:2]
    jobs = [
        (second, "a1_x", "cute"),
        (first, "a1_x", "cute"),
        (first, "a2_x", "cute"),
        (first, "a1_y", "cute"),
    ]
    failed = {attention._place(jobs[-1]): "why"}
    with zipfile.ZipFile(tmp_path / "jobs.zip", "w") as archive:
        archive.writestr("jobs.json", json.dumps({"jobs": jobs, "failed": failed}))
        listed = attention.listed(archive)
    peers = [(first, peer, "") for peer in attention.PEERS]
    assert listed[:4] == [*peers, (first, "a2_x", "cute"), (first, "a1_x", "cute")]
    assert len(listed) == len(attention.SHAPES) * len(attention.PEERS) + 3


def test_every_rung_has_a_file_in_both_languages():
    assert all([*files] == [*attention.DSLS] for files in attention.rungs().values())
