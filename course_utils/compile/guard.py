"""Around a learner's factory while it is traced: a clock, silence, and the line of their file that failed."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

from course_utils.artifact import file_name
from course_utils.compile.errors import CompileError

_one_at_a_time = threading.RLock()  # for quiet()


@contextlib.contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Raise CompileError in the block after ``seconds``.

    Only the main thread can be interrupted; others run unlimited.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise CompileError(
            "trace", f"{what} did not end within {seconds:g} s: is there a Python loop in it that never ends?"
        )

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Hold an interrupt of the notebook back until the block has ended; a second one goes through at once.

    A KeyboardInterrupt in a Python callback of a compiler's C++ half is swallowed there, or ends the process.
    """
    asked: list[bool] = []

    def hold(*_: Any) -> None:
        asked.append(True)
        if len(asked) > 1:
            raise KeyboardInterrupt

    with interrupts(hold):
        yield
    if asked:
        raise KeyboardInterrupt


@contextlib.contextmanager
def interrupts(handler: Any) -> Iterator[None]:
    """Another handler of SIGINT in the block. Only the main thread has one; others run as they are."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


@contextlib.contextmanager
def quiet() -> Iterator[list[str]]:
    """Keep a compiler's chatter and warnings out of the notebook; its C++ half writes to file descriptors 1
    and 2. They are the whole process's: of two threads the second waits here for the first.

    Yields a list that holds what was written, as one string, once the block has ended.
    """
    said: list[str] = []
    with _one_at_a_time, tempfile.TemporaryFile() as sink, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.stdout.flush()
        sys.stderr.flush()
        saved = os.dup(1), os.dup(2)
        try:
            os.dup2(sink.fileno(), 1)
            os.dup2(sink.fileno(), 2)
            with (
                contextlib.redirect_stdout(os.fdopen(os.dup(1), "w")) as out,
                contextlib.redirect_stderr(out),
            ):
                yield said
        finally:
            out.close()
            sys.stdout.flush()
            sys.stderr.flush()
            for number, copy in zip((1, 2), saved, strict=True):
                os.dup2(copy, number)
                os.close(copy)
            sink.seek(0)
            said.append(sink.read().decode(errors="replace"))


def where(error: BaseException) -> str:
    """The innermost line of the learner's own file on the traceback, if any."""
    elsewhere = ("site-packages", "course_utils", "/lib/python", "<unknown>", "<frozen")
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not any(part in frame.filename for part in elsewhere) and not frame.filename.endswith(
            (".cc", ".h", ".pxi")
        ):
            return f"\n  at {file_name(frame.filename)}, line {frame.lineno}: {frame.line}"
    return ""
