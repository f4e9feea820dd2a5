"""The half of tma_hardware.py that needs no GPU: maps drawn by a seed, and how answers are held against the
rules.
"""

import ctypes.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import tma_hardware
from course_utils.tma.encoding import encode
from course_utils.tma.rules import RULES, row_to_tensor_map

SCRIPT = Path(tma_hardware.__file__)
ROWS = tma_hardware.draw_fresh(7, 600)


def as_the_rules_say(row):
    return (1, "") if tma_hardware.broken(row) else (0, encode(*row_to_tensor_map(row)).hex())


ANSWERS = [as_the_rules_say(row) for row in ROWS]
TAKEN = next(at for at, (rc, _) in enumerate(ANSWERS) if rc == 0)
REFUSED = next(at for at, (rc, _) in enumerate(ANSWERS) if rc)


def test_a_seed_draws_the_same_calls_again_and_another_seed_others():
    assert tma_hardware.draw_fresh(7, 600) == ROWS != tma_hardware.draw_fresh(8, 600)


def test_no_call_is_drawn_that_ends_the_drivers_process():
    assert max(row["rank"] for row in ROWS) < tma_hardware.DEADLY_RANK
    assert {row["rank"] for row in ROWS} > {0, 1, 2, 3, 4, 5, 6}


def test_the_calls_are_legal_and_illegal_and_break_most_rules_alone():
    found, _ = tma_hardware.compare_fresh(ROWS, ANSWERS)
    assert 200 < found["accepted"] < 500
    assert len([rule for rule in RULES if found["alone"][rule]]) >= 20


def test_a_driver_that_answers_as_the_rules_agrees_on_all():
    found, differ = tma_hardware.compare_fresh(ROWS, ANSWERS, with_bytes=100)
    assert (found["agree"], found["bytes"], found["bytes_agree"], differ) == (600, 100, 100, [])


@pytest.mark.parametrize("at, answer", [(TAKEN, (1, "")), (REFUSED, (0, "00" * 128))])
def test_another_verdict_is_counted_and_kept(at, answer):
    found, (row,) = tma_hardware.compare_fresh(ROWS, [*ANSWERS[:at], answer, *ANSWERS[at + 1 :]])
    assert found["agree"] == 599
    assert row == ROWS[at] | {"rc": answer[0], "rules": tma_hardware.broken(ROWS[at])}


def test_other_bytes_are_counted_and_kept():
    rc, data = ANSWERS[TAKEN]
    answers = [*ANSWERS[:TAKEN], (rc, "ff" + data[2:]), *ANSWERS[TAKEN + 1 :]]
    found, (row,) = tma_hardware.compare_fresh(ROWS, answers)
    assert found["agree"] == 600 and found["bytes_agree"] == found["bytes"] - 1
    assert row["bytes"].startswith("ff")


@pytest.mark.skipif(bool(ctypes.util.find_library("cuda")), reason="a driver is here")
def test_without_a_driver_it_says_so(tmp_path):
    made = subprocess.run(
        [sys.executable, SCRIPT, "fresh", tmp_path, "1"], capture_output=True, text=True, timeout=60
    )
    assert made.returncode == 1 and "no driver answers here" in made.stderr


def test_the_recorded_comparison_has_its_provenance():
    found = json.loads((SCRIPT.parents[1] / "tests" / "data" / "tma_fresh.json").read_text())
    assert all(found[name] for name in ("gpu", "driver", "date", "seed", "maps"))
