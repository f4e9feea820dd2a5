"""Limits for a block in which this process reads what others wrote: its own processor time, and memory."""

from __future__ import annotations

import contextlib
import resource
import signal
import threading
from collections.abc import Iterator

from course_utils.compile.child import data_bytes, lower_limit

AGAIN = 1.0  # seconds after which it is raised again, where the block did not end by it


class TooMuch(BaseException):
    """The block's processor time is over. Nothing in it that catches every Exception catches this one."""


@contextlib.contextmanager
def limited(seconds: float, memory: int) -> Iterator[None]:
    """Raise TooMuch after so many seconds of this process's own processor time, and MemoryError above so many
    bytes more than it has. Only the main thread can be ended; blocks within blocks are not limited anew.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getitimer(signal.ITIMER_PROF)[0]:
        yield
        return

    def stop(*_: object) -> None:
        raise TooMuch

    before = resource.getrlimit(resource.RLIMIT_DATA)
    lower_limit(resource.RLIMIT_DATA, data_bytes() + memory)
    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
        resource.setrlimit(resource.RLIMIT_DATA, before)
