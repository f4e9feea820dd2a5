"""What stands around a learner's factory while it is compiled."""

import os
import signal
import threading
import time

import pytest

from course_utils.compile.errors import CompileError
from course_utils.compile.guard import held, interrupts, time_limit


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.05)  # Python handles it between two instructions


def test_an_interrupt_waits_for_the_end_of_the_block():
    reached = []
    with pytest.raises(KeyboardInterrupt), held():
        interrupt()
        reached.append(True)
    assert reached


def test_a_second_interrupt_does_not_wait():
    reached = []
    with pytest.raises(KeyboardInterrupt), held():
        interrupt()
        interrupt()
        reached.append(True)
    assert not reached


def test_the_handler_before_is_back_afterwards():
    before = signal.getsignal(signal.SIGINT)
    with interrupts(signal.SIG_IGN):
        interrupt()
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    with held():
        pass
    assert signal.getsignal(signal.SIGINT) == before


def test_another_thread_runs_as_it_is():
    ran = []

    def work():
        with held(), interrupts(signal.SIG_IGN), time_limit(0.01, "this"):
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
