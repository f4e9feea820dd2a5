"""The one exception that compiling raises, and the clock that ends a compile which never would."""

import contextlib
import signal
import threading


class CompileError(Exception):
    """A factory could not be turned into an Artifact.

    ``stage`` is ``"load"`` (the file), ``"trace"`` (the factory's own Python), ``"signature"`` (what it returned),
    ``"lower"`` (the DSL's compiler), ``"assemble"`` (NVRTC or ptxas) or ``"limit"`` (a Hopper SM cannot hold it).
    The text is for a learner: what happened, where in their code, what to try.
    """

    def __init__(self, stage: str, message: str):
        super().__init__(message)
        self.stage = stage


@contextlib.contextmanager
def time_limit(seconds: float, what: str):
    """Raise CompileError in the block after ``seconds``. Only the main thread can be interrupted; others run unlimited."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_):
        raise CompileError("trace", f"{what} did not end within {seconds:g} s: is there a Python loop in it that never ends?")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
