"""The clock that stands around a learner's file while it is run."""

import threading
import time

import pytest

from course_utils.compile.errors import CompileError
from course_utils.compile.guard import LONGEST, text_of, time_limit


def test_another_thread_runs_as_it_is():
    ran = []

    def work():
        with time_limit(0.01, "this"):
            time.sleep(0.05)
            ran.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ran


def test_the_time_limit_ends_an_endless_loop():
    with pytest.raises(CompileError, match="did not end within 0.05 s"), time_limit(0.05, "this"):
        while True:
            pass


def test_a_huge_error_is_cut():
    text = text_of(Exception("x" * 1_000_000))
    assert len(text) < 1.1 * LONGEST and text.endswith("(1,000,000 characters in all)")
