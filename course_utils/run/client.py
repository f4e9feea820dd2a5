"""The notebook's side of a worker process: start it, ask it, and end it when no answer comes in time."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from course_utils.artifact import Artifact
from course_utils.run import protocol

START_LIMIT = 120.0  # seconds to import torch and open a CUDA context on a cold machine
# -P: a learner's folder holds no module of ours
COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", __package__)
GPU, EMULATOR = "course_utils.run.gpu.worker", "course_utils.run.emulator.worker"
# the emulator's matrices are small: threads for them cost more than they bring, and the other core compiles
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
ENVIRONMENT = {EMULATOR: ONE_THREAD}
TICKS = os.sysconf("SC_CLK_TCK")  # of /proc in a second
EMULATORS = 4  # processes that emulate at a time, at most
EMULATOR_BYTES = 1 << 30  # of free memory that each of them after the first must find


class WorkerTimeout(Exception):
    """No answer came within the limit; the worker was killed. ``work`` are the seconds that it had of a
    processor for it, None where that is not known.
    """

    def __init__(self, work: float | None = None) -> None:
        super().__init__()
        self.work = work


class WorkerDied(Exception):
    """The worker ended without an answer. The text holds the end of what it printed."""


class WorkerNotUp(WorkerDied):
    """The worker never came up: no kernel was launched yet, so this machine is at fault."""


def python_path() -> str:
    """PYTHONPATH for a process that is to find this course: its checkout or bundle (.pyz) comes first."""
    root = str(Path(__file__).parents[2])
    return os.pathsep.join(p for p in (root, os.environ.get("PYTHONPATH")) if p)


class Worker:
    """A warm worker process that runs ``module``.

    It starts on the first request, and again after a failure killed it. Use it as a context manager, or call
    ``close``. Its process forks its ``twins`` once it has made its imports, so theirs cost nothing.
    """

    def __init__(self, module: str = GPU, twins: int = 0) -> None:
        self._module = module
        self.twins = tuple(Twin(self) for _ in range(twins))
        self._process: subprocess.Popen | Forked | None = None
        self._log: IO[bytes] = io.BytesIO()  # what the process prints
        self._answered = False  # this process has answered once, so it is up

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def device(self) -> dict:
        """What GPU the worker has: see ``worker.device``. Raises WorkerDied where there is none."""
        self._up()
        return self._ask({"op": "device"}, b"", START_LIMIT)

    def request(self, op: str, artifact: Artifact, limit: float, **fields: object) -> dict:
        """One answer of the module's ``serve``. ``limit`` is seconds, a start of the process not counted.

        Raises WorkerTimeout and WorkerDied; after either, the next request starts a fresh process. Of the
        latter, WorkerNotUp is raised before the kernel reaches the GPU.
        """
        self._up()
        return self._ask({"op": op, **fields}, artifact.to_bytes(), limit)

    def close(self) -> None:
        """End the process at once, also when its GPU kernel never ends, and its twins with it."""
        for one in (*self.twins, self):
            one._end()

    def _end(self) -> None:
        process, self._process = self._process, None  # first of all: an interrupt may close from two threads
        if process is not None:
            process.kill()
            process.wait()
            for stream in (*self._pipes(process), self._log):
                with contextlib.suppress(BrokenPipeError):  # stdin may hold what a dead process never read
                    stream.close()

    def start(self) -> None:
        """Start the process unless it runs, and do not wait for it: its imports take a second or two."""
        if self.is_up():
            return
        self._end()
        self._log, self._answered = tempfile.TemporaryFile(), False
        idle = [twin for twin in self.twins if not twin.is_up()]  # the others may be at work
        pipes = [twin.prepare() for twin in idle]
        forks = {protocol.FORKS: " ".join(f"{reads} {writes}" for reads, writes in pipes)}
        try:
            self._process = subprocess.Popen(
                (*COMMAND, self._module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                # not the notebook's group: Jupyter signals all of that, and a kernel that shuts down waits
                # for processes in it, which nobody reaps: 2.5 s, and then it is killed
                process_group=0,
                pass_fds=[end for pair in pipes for end in pair],
                env={**os.environ, "PYTHONPATH": python_path(), **ENVIRONMENT.get(self._module, {}), **forks},
            )
        finally:
            for end in (end for pair in pipes for end in pair):
                os.close(end)

    def is_up(self) -> bool:
        """Is there a process, as far as is known?"""
        return self._process is not None and self._process.poll() is None

    def _up(self) -> None:
        self.start()
        if not self._answered:
            try:
                answer = self._ask({"op": "device"}, b"", START_LIMIT)
            except WorkerTimeout:
                raise WorkerNotUp(f"it did not answer within {START_LIMIT:g} s") from None
            except WorkerDied as error:
                raise WorkerNotUp(str(error)) from error
            self._answered = True
            if isinstance(self._process, Forked):
                self._process.pid = answer["pid"]

    @staticmethod
    def _pipes(process: subprocess.Popen | Forked) -> tuple[IO[bytes], IO[bytes]]:
        assert process.stdin is not None and process.stdout is not None  # start() asked for both
        return process.stdin, process.stdout

    def _ask(self, request: dict, blob: bytes, limit: float) -> dict:
        assert self._process is not None
        requests, answers = self._pipes(self._process)
        deadline, before = time.monotonic() + limit, _work(self._process)
        try:
            for block in (json.dumps(request).encode(), blob):
                protocol.write_block(requests, block)
            (length,) = struct.unpack("<Q", _read(answers, 8, deadline))
            answer = json.loads(_read(answers, length, deadline))
            if answer.pop("fatal", False):
                self._end()
            return answer
        except WorkerTimeout as late:
            after = _work(self._process)
            late.work = after - before if after is not None and before is not None else None
            self._end()
            raise
        except (BrokenPipeError, EOFError) as error:
            raise WorkerDied(self._last_words(self._process)) from error
        except KeyboardInterrupt:  # its answer would be taken for the next request's
            self._end()
            raise

    def _last_words(self, process: subprocess.Popen | Forked) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2.0)  # it closed its answers but may live on: close() kills it
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        self._end()
        return lines[-1] if lines else "the worker process ended without a word"


class Forked:
    """A process that a worker's process has forked, as its client sees it: two pipes. They are all that tells
    whether it lives; ``pid`` is 0 until it has told it.
    """

    def __init__(self, requests: int, answers: int) -> None:
        self.stdin, self.stdout = os.fdopen(requests, "wb", 0), os.fdopen(answers, "rb", 0)
        self.pid = 0

    def poll(self) -> int | None:
        """None while it lives, or is about to be forked."""
        return 1 if self.stdout.closed or self._hung_up(0.0) else None

    def _hung_up(self, limit: float) -> bool:
        peer = select.poll()
        peer.register(self.stdout, 0)  # poll(2): that the other side hung up is told unasked
        return bool(peer.poll(int(1000 * limit)))

    def kill(self) -> None:
        """End it. One that has not told its number ends by itself as its pipes are closed."""
        if self.pid and self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout: float = 5.0) -> int:
        """Wait for its end, where that can be told."""
        if self.pid:
            self._hung_up(timeout)
        return 1


class Twin(Worker):
    """A worker whose process is forked by that of another one as it starts. One that has died stays so until
    the other starts again.
    """

    def __init__(self, first: Worker) -> None:
        super().__init__()
        self._first = first

    def start(self) -> None:
        if self._process is None:
            self._first.start()
        if not self.is_up():
            self._end()
            raise WorkerNotUp("it was not forked")

    def prepare(self) -> tuple[int, int]:
        """New pipes. Returns the ends of the process to come: where it reads requests, and writes answers."""
        self._end()
        self._log, self._answered = io.BytesIO(), False
        (reads, requests), (answers, writes) = os.pipe(), os.pipe()
        self._process = Forked(requests, answers)
        return reads, writes


def _work(process: subprocess.Popen | Forked) -> float | None:
    """Seconds of a processor that a process has had (proc(5), stat); None where nobody says."""
    try:
        told = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(told[11]) + int(told[12])) / TICKS
    except (OSError, ValueError, IndexError):
        return None


def _read(stream: IO[bytes], count: int, deadline: float) -> bytes:
    """So many bytes of the stream. Raises WorkerTimeout at the deadline, EOFError where it ends before."""
    data = b""
    descriptor = stream.fileno()
    while len(data) < count:
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise WorkerTimeout
        chunk = os.read(descriptor, count - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data


_workers: dict[str, Worker] = {}


def worker(module: str) -> Worker:
    """This process's warm worker for ``module``: GPU or EMULATOR. It ends with this process."""
    if module not in _workers:
        _workers[module] = Worker(module, _room() - 1 if module == EMULATOR else 0)
        atexit.register(_workers[module].close)
    return _workers[module]


def emulators() -> list[Worker]:
    """The emulator's workers, each of which can be asked while the others work: as many as this machine has
    room for. None of them may be at work now.
    """
    first = worker(EMULATOR)
    if not all(twin.is_up() for twin in first.twins):
        first.close()
    first.start()  # here, and not in the threads that ask: two of them would start it twice
    return [first, *first.twins]


def _room() -> int:
    """How many processes can emulate here at a time: one for each core, as long as there is memory."""
    cores, memory = len(os.sched_getaffinity(0)), EMULATORS * EMULATOR_BYTES
    with contextlib.suppress(OSError, ValueError):  # a container's share of the cores, and of memory below
        quota, period = _told("/sys/fs/cgroup/cpu.max").split()
        cores = min(cores, int(quota) // int(period))
    with contextlib.suppress(OSError, ValueError):
        held = int(_told("/sys/fs/cgroup/memory.current"))
        memory = min(memory, int(_told("/sys/fs/cgroup/memory.max")) - held)
    with contextlib.suppress(OSError, ValueError):
        (line,) = (line for line in _told("/proc/meminfo").splitlines() if line.startswith("MemAvailable"))
        memory = min(memory, int(line.split()[1]) << 10)
    return max(1, min(EMULATORS, cores, 1 + memory // EMULATOR_BYTES))


def _told(path: str) -> str:
    return Path(path).read_text()


def close_all() -> None:
    """End every worker of this process; the next request starts a fresh one."""
    for one in _workers.values():
        one.close()
