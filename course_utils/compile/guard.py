"""Around a learner's file and its compiler: a clock, silence, and the line of their file that failed."""

from __future__ import annotations

import contextlib
import linecache
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

from course_utils.artifact import Place, file_name
from course_utils.compile.errors import CompileError

LONGEST = 20_000  # characters of an error that are kept
chatter = -1  # a descriptor of the file to write it to; -1 is a new one each time
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
def quiet() -> Iterator[list[str]]:
    """Keep a compiler's chatter and warnings out of the notebook; its C++ half writes to file descriptors 1
    and 2. They are the whole process's: of two threads the second waits here for the first.

    Yields a list that holds what was written, as one string, once the block has ended.
    """
    said: list[str] = []
    with _one_at_a_time, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            saved = os.dup(1), os.dup(2)
            sink = os.dup(chatter) if chatter >= 0 else os.memfd_create("chatter")
            begin = os.fstat(sink).st_size
        except (OSError, ValueError) as error:
            text = "the factory closed its output; leave sys.stdout, sys.stderr and descriptors 1 and 2 open"
            raise CompileError("trace", text) from error
        try:
            os.dup2(sink, 1)
            os.dup2(sink, 2)
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
            said.append(os.pread(sink, os.fstat(sink).st_size - begin, begin).decode(errors="replace"))
            os.close(sink)


def where(error: BaseException) -> Place | None:
    """The innermost line of the learner's own file on the traceback, if any."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_learners(frame.filename):
            return at(frame.filename, frame.lineno or 0)
    return None


def is_learners(path: str) -> bool:
    """Whether a frame of this file is the learner's, and none of a library's, Python's or the course's."""
    elsewhere = ("site-packages", "course_utils", "/lib/python", "<unknown>", "<frozen", "<string>")
    return not any(part in path for part in elsewhere) and not path.endswith((".cc", ".h", ".pxi", ".pyx"))


def at(path: str, line: int) -> Place:
    """A line of a file."""
    return Place(file_name(path), line, linecache.getline(path, line).strip())


def text_of(error: object) -> str:
    """``str(error)``, also of an exception that cannot be printed; at most LONGEST characters of it."""
    try:
        text = str(error)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text):,} characters in all)"
    except BaseException as other:
        return f"(its own text cannot be had: __str__ raised {type(other).__name__})"
