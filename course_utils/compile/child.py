"""Compile in a forked child: whatever a factory or its compiler does, the notebook's process lives on.

A factory closes over names of a notebook and cannot be sent to another process; a fork has it. The child
compiles one size after the other and sends each Artifact over a pipe, as data, or why there is none. The
parent waits with a clock, and ends the child together with all that it started. Of a child that died, its
signal or exit code, its compiler's last words and Python's stack tell what happened.

The child has one thread, the one that asked. That is enough for both compilers: importing them, which the
parent does ahead, starts none. A parent's open CUDA is of no use in a child, and no compile asks for it.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import gc
import itertools
import json
import os
import re
import resource
import select
import signal
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from course_utils.artifact import Artifact, ArtifactError, Place
from course_utils.compile import cache, guard, header
from course_utils.compile.errors import CompileError
from course_utils.compile.guard import at, is_learners, text_of, where

LIMIT = 60.0  # seconds for one size; the largest solution takes one, and six before NVRTC's header is made
MEMORY = 2 << 30  # bytes above what the parent holds; the largest solution takes 0.3 GB
FILE = header.HEAP  # bytes in a file, and of what is printed; NVRTC's header is the largest
PRINTED = 4_000  # characters
SAID = 300  # characters of a compiler's last words
ASLEEP = 20.0  # seconds in which a child took no processor time; a compile takes some in each
TICK = 0.05  # seconds between two looks at a child whose pipe says nothing
PR_SET_PDEATHSIG = 1  # prctl(2)
CRASHES = {
    signal.SIGABRT: "gave up",
    signal.SIGSEGV: "read or wrote memory that is not there",
    signal.SIGBUS: "read or wrote memory that is not there",
    signal.SIGFPE: "divided by zero",
    signal.SIGILL: "met an instruction that does not exist",
    signal.SIGTRAP: "gave up",
}

Calls = list[tuple[tuple[int, ...], str]]  # each size, and its call in the learner's words

libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Compiled:
    """An Artifact, and what the factory printed while it was traced, of at most ``PRINTED`` characters."""

    artifact: Artifact
    printed: str


def each(
    compile_one: Callable[..., Artifact],
    sizes: Sequence[tuple[int, ...]],
    name: str,
    find_line: Callable[[Callable[[], Artifact]], Artifact] | None = None,
) -> Generator[Compiled, None, None]:
    """``compile_one(*size)`` for each size, in order, in one child; the learner calls the factory ``name``.

    ``find_line`` compiles again, in another child, what ended the compiler at no line that Python knows, and
    raises CompileError with the place, whose stage is "place".

    A child that sleeps is ended, and another one tried, once. Who stops asking closes the iterator, which
    ends the child. Raises CompileError for whatever the factory or its compiler does, and RuntimeError for a
    fault of the course's own.
    """
    calls = [(size, f"{name}({', '.join(map(str, size))})") for size in sizes]
    with cache.scratch() as folder, contextlib.ExitStack() as children:
        child = children.enter_context(contextlib.closing(_Child(folder)))
        child.start(compile_one, calls)
        for done, (size, call) in enumerate(calls):
            try:
                try:
                    made = child.answer(call)
                except _Asleep:  # at a lock, it may be, that a thread of the parent held when it forked
                    child = children.enter_context(contextlib.closing(_Child(folder)))
                    child.start(compile_one, calls[done:])
                    made = child.answer(call)
            except _Crash as crash:
                if find_line is None:
                    raise
                with contextlib.closing(_Child(folder)) as other:
                    other.start(lambda *size: find_line(lambda: compile_one(*size)), [(size, call)])
                    raise crash.at(other) from None
            yield made


class _Asleep(CompileError):
    """The child took no processor time for ``ASLEEP`` seconds."""


class _Crash(CompileError):
    """The compiler died, at no line of the learner's that Python knows."""

    def __init__(self, call: str, what: str, printed: str, place: Place | None = None) -> None:
        text = f"compiling {call} crashed {what}"
        under = "Look at what this line is given" if place else "Look at what you changed last"
        under += ": do the shapes and layouts fit each other? Registers for a tiled copy need `retile`."
        super().__init__("trace" if place else "lower", text, printed, place=place, under=under)
        self.call, self.what = call, what

    def at(self, other: _Child) -> CompileError:
        """The same with its place, where another child finds it."""
        try:
            other.answer(self.call)
        except CompileError as found:
            if found.stage == "place":
                located = _Crash(self.call, self.what, self.printed, found.place)
                located.stage = self.stage
                return located
        return self


class _Child:
    """A forked child, and the descriptors that both sides see: a pipe of answers, and three files in memory
    for what is printed, for what the compilers say to stderr, and for Python's stack at the end.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._pid, self._received = folder, 0, bytearray()
        self._reading, self._writing = os.pipe()
        self._printed, self._said, self._stack = (os.memfd_create(n) for n in ("printed", "said", "stack"))
        for file in (self._printed, self._said, self._stack):
            fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)

    def start(self, compile_one: Callable[..., Artifact], calls: Calls) -> None:
        """Fork. An interrupt waits until the parent knows its child, and never reaches the child."""
        libc.fflush(None)  # else what the parent has not yet written would be written by both
        parent = os.getpid()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self._pid = os.fork()
            if not self._pid:
                self._live(compile_one, calls, parent, before)
        except OSError as error:
            text = f"no process could be started to compile in: {error.strerror}. Close other programs."
            raise CompileError("trace", text) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(self._writing)
        self._writing = -1

    def close(self) -> None:
        """End the child and what it started, whatever they do."""
        if self._pid:
            self._kill()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._pid, 0)
            self._pid = 0
        for descriptor in (self._reading, self._writing, self._printed, self._said, self._stack):
            if descriptor >= 0:
                os.close(descriptor)

    def _kill(self) -> None:
        for kill in (os.kill, os.killpg):  # it may not have its own group yet
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self._pid, signal.SIGKILL)

    # -- the parent's side

    def answer(self, call: str) -> Compiled:
        """The next size's, ``call`` in the learner's words. Raises CompileError, RuntimeError."""
        data = self._read(call)
        head, _, blob = data.partition(b"\n")
        try:
            fields = json.loads(head)
            if not blob:
                refusal = CompileError.from_data(fields)
                raise refusal if refusal.stage else RuntimeError(refusal.text)
            return Compiled(Artifact.from_bytes(blob), fields["printed"])
        except (ArtifactError, ValueError, KeyError, TypeError) as error:
            text = f"{call} wrote into the pipe that its compiler answers through; leave open files alone"
            raise CompileError("trace", text) from error

    def _read(self, call: str) -> bytes:
        """One block of the pipe. Raises CompileError where the child dies or the time is over."""
        deadline, open_ = time.monotonic() + LIMIT, True
        ticks, since = -1, time.monotonic()
        while True:
            if len(self._received) >= 8:
                (length,) = struct.unpack_from("<Q", self._received)
                if len(self._received) >= 8 + length:
                    data = bytes(self._received[8 : 8 + length])
                    del self._received[: 8 + length]
                    return data
            left = max(0.0, deadline - time.monotonic())
            ready: list[int] = []
            if open_:
                ready, _, _ = select.select([self._reading], [], [], min(left, TICK))
            else:
                time.sleep(min(left, TICK / 10))
            if ready:
                chunk = os.read(self._reading, 1 << 20)
                self._received += chunk
                open_ = bool(chunk)
            elif ended := os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                raise self._death(call, ended.si_code == os.CLD_EXITED, ended.si_status)
            elif not left:
                text = f"{call} did not end within {LIMIT:g} s: is there a Python loop in it that never ends?"
                place = self._abort()
                raise CompileError("trace", text, _cut(self._printed), place=place)
            elif (taken := _ticks(self._pid)) != ticks:
                ticks, since = taken, time.monotonic()
            elif time.monotonic() - since > ASLEEP:
                text = f"{call} did nothing for {ASLEEP:g} s: does it sleep, or wait for something?"
                place = self._abort()
                raise _Asleep("trace", text, _cut(self._printed), place=place)

    def _abort(self) -> Place | None:
        """End the child; the learner's line that it was at."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGABRT)  # faulthandler writes the stack down
        limit = time.monotonic() + 1
        while time.monotonic() < limit:
            if os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            time.sleep(TICK / 10)
        return self._place()

    def _death(self, call: str, exited: bool, number: int) -> CompileError:
        """What became of a child that ended without an answer."""
        place, said = self._place(), _last_words(_all(self._said))
        if exited:
            text = f"{call} ended its process with exit code {number}, as os._exit() does; return the kernel"
            return CompileError("trace", f"{text} instead", _cut(self._printed))
        name = signal.Signals(number).name
        if re.search("bad_alloc|out of memory", said):
            text = _too_much(call)
        elif number == signal.SIGKILL:
            text = f"{call} was killed ({name}), as the system does where memory runs out: does a list or a "
            text += "loop grow without end?"
        elif number in CRASHES:
            what = CRASHES[signal.Signals(number)] + (f": {said}" if said else "")
            told = f"({name}): the compiler, or what it called, {what}"
            return _Crash(call, told, _cut(self._printed), place)
        else:
            text = f"{call} was ended by the signal {name}"
        return CompileError("trace", text, _cut(self._printed), place=place)

    def _place(self) -> Place | None:
        """The innermost line of the learner's own file at the child's end, of the thread that ended it."""
        stack = _all(self._stack)
        frames = re.findall(
            r'^  File "(.*)", line (\d+) in ', stack.partition("Current thread")[2] or stack, re.M
        )
        inner = itertools.takewhile(lambda frame: frame[0] != __file__, frames)  # the rest is who checks
        return next((at(file, int(line)) for file, line in inner if is_learners(file)), None)

    # -- the child's side

    def _live(self, compile_one: Callable[..., Artifact], calls: Calls, parent: int, mask: Any) -> NoReturn:
        """All of the child's life: no way leads back into the parent's code."""
        code = 1
        kept = sys.stdin, sys.stdout, sys.stderr  # what they still hold is the parent's to write
        try:
            self._settle(parent, mask)
            me = os.getpid()
            with open(self._writing, "wb") as answers:
                for size, call in calls:
                    head, blob = self._one(compile_one, size, call)
                    if os.getpid() != me:
                        break  # the factory forked, and this is the copy
                    answers.write(_block(head, blob))
                    answers.flush()
                    if not blob:
                        break
            code = 0
        finally:
            del kept
            os._exit(code)

    def _one(
        self, compile_one: Callable[..., Artifact], size: tuple[int, ...], call: str
    ) -> tuple[dict, bytes]:
        head, blob = {}, b""
        try:
            blob = compile_one(*size).to_bytes()
        except BaseException as error:
            head = _refusal(error, call).data()
        with contextlib.suppress(ValueError, OSError):  # the factory may have closed it
            sys.stdout.flush()
        libc.fflush(None)
        head["printed"] = _cut(self._printed)
        os.ftruncate(self._printed, 0)
        return head, blob

    def _settle(self, parent: int, mask: Any) -> None:
        """Cut the child off from its parent's terminal, signals, output and folders, and set its limits."""
        os.setsid()
        end_with(parent)
        with contextlib.suppress(ValueError):
            signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # NVRTC would take it, and hang in it
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        faulthandler.disable()  # else a handler that a compiler put in its place stays there
        faulthandler.enable(self._stack)
        for limit, value in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, FILE),
            (resource.RLIMIT_DATA, data_bytes() + MEMORY),
        ):
            lower_limit(limit, value)
        with open(os.devnull) as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(self._printed, 1)
        os.dup2(self._said, 2)
        guard.chatter = self._said
        sys.stdin = open(0, closefd=False)
        sys.stdout = open(1, "w", errors="backslashreplace", closefd=False)
        sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)
        warnings.simplefilter("ignore")
        os.environ["TMPDIR"] = tempfile.tempdir = str(self._folder)
        cache.adopt(self._folder)
        sys.settrace(None)  # a debugger's other half stayed in the parent
        gc.freeze()  # collections would copy what the child shares with its parent
        gc.disable()  # it lives for seconds, within its limits


def end_with(parent: int) -> None:
    """Have the system end this process with the thread that forked it, a thread of ``parent``."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended meanwhile
        os._exit(1)


def _ticks(pid: int) -> int:
    """Processor time that a process and those it waited for took, in clock ticks (proc(5), stat)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15]))


def _block(head: dict, blob: bytes) -> bytes:
    data = json.dumps(head).encode() + b"\n" + blob
    return struct.pack("<Q", len(data)) + data


def _refusal(error: BaseException, call: str) -> CompileError:
    """What a compile raised; no stage for a fault of the course's own."""
    if isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError):
        return CompileError("trace", _too_much(call), place=where(error.__cause__ or error))
    if isinstance(error, CompileError):
        return error
    text = f"{type(error).__name__}: {text_of(error)}"
    if isinstance(error, SystemExit):
        text = f"{call.partition('(')[0]} called sys.exit() or exit(); return the kernel instead"
    elif isinstance(error, Exception):
        return CompileError("", text)
    else:
        text = f"{call} raised {text}"
    return CompileError("trace", text, place=where(error))


def _too_much(call: str) -> str:
    told = f"{call} took more than {MEMORY >> 30} GB of memory (MemoryError)"
    return f"{told}: does a list or a loop in it grow without end?"


def data_bytes() -> int:
    """Bytes that count against RLIMIT_DATA now (proc(5), statm)."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()


def lower_limit(which: int, value: int) -> None:
    """Lower a soft limit of this process (setrlimit(2)) to ``value``, where it is higher."""
    soft, hard = resource.getrlimit(which)
    resource.setrlimit(which, (value if soft == resource.RLIM_INFINITY else min(value, soft), hard))


def _all(file: int) -> str:
    return os.pread(file, 1 << 20, 0).decode(errors="replace")


def _cut(file: int) -> str:
    """What a file holds, as text of at most PRINTED characters."""
    size = os.fstat(file).st_size
    text = os.pread(file, 4 * PRINTED, 0).decode(errors="replace")  # no character has more bytes
    if len(text) <= PRINTED and size <= 4 * PRINTED:
        return text
    note = f"\n... ({size:,} bytes in all)"
    return text[: PRINTED - len(note)] + note


def _last_words(said: str) -> str:
    """What a compiler said as it gave up, in one line; "" where it said nothing of use."""
    found = re.search(r"LLVM ERROR: (.*?)\s*(?:\Z|\n\n|\nPLEASE|\nStack dump)", said, re.S)
    found = found or re.search(r"((?:terminate called|.*Assertion `).*?)\s*(?:\Z|\n\n)", said, re.S)
    return " ".join(found[1].split())[:SAID] if found else ""
