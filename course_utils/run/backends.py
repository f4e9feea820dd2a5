"""The machines that can run an Artifact, behind one call: ``run`` takes launches and gives answers.

A check asks one of them and does not care which. None of them raises for what a kernel does.
"""

from __future__ import annotations

import contextlib
import ctypes
import secrets
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol, runtime_checkable

from course_utils import chips
from course_utils.artifact import Artifact
from course_utils.chips import Chip
from course_utils.run import client
from course_utils.run.client import Worker, WorkerDied, WorkerNotUp, WorkerTimeout
from course_utils.run.protocol import Answer

NAMES = ("auto", "gpu", "emulator", "compile")
TIME_LIMIT = (
    20.0  # seconds for one launch and its check; a right kernel of this course needs far less than one
)
TIMING_LIMIT = 60.0  # seconds for one timed run
EMULATOR_LIMIT = 120.0  # seconds for one emulated launch; a right kernel of this course needs less than ten
NO_GPU = "not run: there is no Hopper GPU here"
TOO_BUSY = "not run: this machine was too busy"  # how the detail of an answer begins that says so
SCHEDULES = (0, 1)  # seeds of the emulator for a small size; for a large one the first alone
LARGE_OUTPUT = 1 << 20  # elements


@dataclass(frozen=True)
class Launch:
    """One Artifact to be launched at ``size``: M, N, K, or a copy's shape.

    ``kind`` is of ``problems.PROBLEMS``. ``ctas`` are enough for an emulator to run, -1 is the last; None is
    all. ``sums``: an emulator also says whose sums the output holds. ``k_tiles``: an emulator only begins it,
    and says what it has seen of so many.
    """

    size: tuple[int, ...]
    artifact: Artifact
    kind: str = "gemm"
    ctas: tuple[int, ...] | None = None
    sums: bool = False
    k_tiles: int | None = None


OnAnswer = Callable[[Launch, Answer], object]


def _ignored(launch: Launch, answer: Answer) -> None:
    pass


@runtime_checkable
class Backend(Protocol):
    """A machine. ``name`` is of ``NAMES``; ``untimed_reason`` says why nothing is timed, empty if it is."""

    name: str
    untimed_reason: str

    def run(self, launches: Iterable[Launch], on_answer: OnAnswer = _ignored) -> list[tuple[Launch, Answer]]:
        """An answer for each launch, in order, and none after a hang or a fault, or "not_run".

        ``launches`` may compile as it goes. ``on_answer`` gets each answer as it comes, in the caller's
        thread.
        """

    def time(self, artifact: Artifact, mode: str, kind: str = "gemm") -> Answer:
        """One timed run beside cuBLAS; ``mode`` is "burst", "sustained" or "graded", ``kind`` as a
        Launch has it.
        """


class Gpu:
    """The Hopper GPU of this machine. ``limit`` is seconds for one launch, ``worker`` the process that asks
    it, None for the one that all of this process share. ``chip`` is what kernels are compiled for.
    """

    name, untimed_reason = "gpu", ""

    def __init__(
        self, limit: float = TIME_LIMIT, worker: Worker | None = None, chip: Chip = chips.HOME
    ) -> None:
        self.limit, self._worker, self.chip = limit, worker, chip

    def run(self, launches: Iterable[Launch], on_answer: OnAnswer = _ignored) -> list[tuple[Launch, Answer]]:
        answered = []
        for launch in list(launches):  # all are compiled before one is launched
            answer = self.ask(launch)
            answered.append((launch, answer))
            on_answer(launch, answer)
            if answer.error:
                break
        return answered

    def ask(self, launch: Launch) -> Answer:
        """One launch, checked. What ended it has an ``error``, and the next launch gets a fresh process.

        What never reached the GPU has ``error`` "not_run" and a ``detail``.
        """
        return self._request("run", launch.artifact, self.limit, kind=launch.kind)

    def time(self, artifact: Artifact, mode: str, kind: str = "gemm") -> Answer:
        return self._request(mode, artifact, TIMING_LIMIT, kind=kind)

    def _request(self, op: str, artifact: Artifact, limit: float, **fields: object) -> Answer:
        try:
            seed = secrets.randbits(31)
            worker = self._worker or client.worker(client.GPU)
            return Answer.from_fields(worker.request(op, artifact, limit, seed=seed, **fields))
        except (WorkerNotUp, OSError) as error:
            return Answer(error="not_run", detail=f"not run: the GPU's process did not start: {error}")
        except WorkerTimeout:
            return Answer(error="timeout", detail=f"{limit:g}")
        except WorkerDied as error:
            return Answer(error="died", detail=str(error))


class Emulator:
    """The emulator, in processes of its own: one for each core, where there is room (see
    ``client.emulators``). Launches run while the next is compiled.

    ``schedules`` are the seeds of its schedules, ``seed`` is that of the inputs, None for any. ``tags`` is
    the seed of what its tensor cores put on products, None for tensor cores as they are. ``figure``:
    what is found comes with what a figure plays. ``gpu`` is asked by a check after it, of a kernel that it
    does not find wrong.
    """

    name = "emulator"

    def __init__(
        self,
        untimed_reason: str = "not run: the emulator does not model time",
        schedules: Sequence[int] = SCHEDULES,
        seed: int | None = None,
        tags: int | None = None,
        figure: bool = False,
        gpu: Gpu | None = None,
    ) -> None:
        self.untimed_reason, self.schedules, self.seed, self.tags = untimed_reason, schedules, seed, tags
        self.figure, self.gpu = figure, gpu

    def alone(self, untimed_reason: str) -> Emulator:
        """The same without a GPU after it, for this reason."""
        return Emulator(untimed_reason, self.schedules, self.seed, self.tags, self.figure)

    def run(self, launches: Iterable[Launch], on_answer: OnAnswer = _ignored) -> list[tuple[Launch, Answer]]:
        warm_up(self.name)
        answered: list[tuple[Launch, Answer]] = []
        asked: deque[tuple[Launch, Future[Answer]]] = deque()
        endless: list[Launch] = []
        workers, idle = client.emulators(), SimpleQueue[Worker]()
        for worker in workers:
            idle.put(worker)

        def ask(launch: Launch) -> Answer:
            if endless:  # the next one would only take its time again
                size = " x ".join(map(str, endless[0].size))
                return Answer(error="not_run", detail=f"not run: the emulation did not end at {size}")
            worker = idle.get()
            try:
                answer = self.ask(launch, worker)
            finally:
                if worker is workers[0] or worker.is_up():  # it alone starts again
                    idle.put(worker)
            if answer.error and not answer.finished:
                endless.append(launch)
            return answer

        def hear() -> None:
            launch, answer = asked.popleft()
            answered.append((launch, answer.result()))
            on_answer(*answered[-1])

        with ThreadPoolExecutor(len(workers)) as pool:
            try:
                for launch in launches:
                    asked.append((launch, pool.submit(ask, launch)))
                    while asked and asked[0][1].done():
                        hear()
                while asked:
                    hear()
                return answered
            except KeyboardInterrupt:  # else the pool would first wait for what is being emulated
                pool.shutdown(wait=False, cancel_futures=True)
                client.worker(client.EMULATOR).close()
                raise

    def ask(self, launch: Launch, worker: Worker | None = None) -> Answer:
        """One launch, under each schedule. ``worker`` is who is asked, None for the first.

        What could not be tried has ``error`` "not_run" and a ``detail``; where its time was over, it has not
        ``finished``.
        """
        shape = launch.artifact.tensors[-1].shape
        large = len(shape) == 2 and shape[0] * shape[1] > LARGE_OUTPUT
        fields: dict[str, object] = {"schedules": list(self.schedules[:1] if large else self.schedules)}
        if launch.ctas is not None:
            fields["ctas"] = list(launch.ctas)
        if launch.sums:
            fields["sums"] = True
        if launch.k_tiles is not None:
            fields["k_tiles"] = launch.k_tiles
        if self.tags is not None:
            fields["tags"] = self.tags
        if self.figure:
            fields["figure"] = True
        try:
            worker = worker or client.worker(client.EMULATOR)
            seed = secrets.randbits(31) if self.seed is None else self.seed
            answer = worker.request(
                "run", launch.artifact, EMULATOR_LIMIT, kind=launch.kind, seed=seed, **fields
            )
            return Answer.from_fields(answer)
        except WorkerTimeout as late:
            detail = f"not run: the emulation did not end within {EMULATOR_LIMIT:g} s"
            if late.work is not None and late.work < EMULATOR_LIMIT / 2:
                detail = f"{TOO_BUSY}: the emulation did not end within {EMULATOR_LIMIT:g} s, "
                detail += f"in {late.work:.0f} s of which it had a processor"
            return Answer(error="not_run", detail=detail, finished=False)
        except (WorkerDied, OSError) as error:
            detail = f"not run: the emulator's process died: {error}"
        return Answer(error="not_run", detail=detail)

    def time(self, artifact: Artifact, mode: str, kind: str = "gemm") -> Answer:
        return Answer(error="not_run", detail=self.untimed_reason)


class Compiler:
    """No machine at all: kernels are compiled, and ``untimed_reason`` says why they are not run."""

    name = "compile"

    def __init__(self, untimed_reason: str = "not run: this check only compiles") -> None:
        self.untimed_reason = untimed_reason

    def run(self, launches: Iterable[Launch], on_answer: OnAnswer = _ignored) -> list[tuple[Launch, Answer]]:
        answered = [(launch, Answer(error="not_run", detail=self.untimed_reason)) for launch in launches]
        for launch, answer in answered:
            on_answer(launch, answer)
        return answered

    def time(self, artifact: Artifact, mode: str, kind: str = "gemm") -> Answer:
        return Answer(error="not_run", detail=self.untimed_reason)


def choose(name: str | Backend, time_limit: float = TIME_LIMIT) -> Backend:
    """The backend of this name; "auto" is the emulator, and after it the GPU where there is a Hopper one: the
    emulator alone sees order, races and whose line it is, the GPU alone has a clock.

    Where "gpu" is asked for and there is none, kernels are only compiled. A backend is its own answer. Raises
    ValueError for anything else.
    """
    if isinstance(name, Backend):
        return name
    if name not in NAMES:
        raise ValueError(f"there is no backend {name!r}; the backends are {', '.join(NAMES)}")
    if name == "emulator":
        return Emulator(figure=True)
    if name == "compile":
        return Compiler()
    device, reason = find_gpu()
    gpu = None if device is None else Gpu(time_limit, chip=chips.of_device(device))
    if name == "gpu":
        return gpu or Compiler(reason)
    return Emulator("" if gpu else NO_GPU, figure=True, gpu=gpu)


def chip_of(machine: Backend) -> Chip:
    """The chip that a check compiles for: the GPU's that will run the kernel, else the course's own."""
    gpu = machine.gpu if isinstance(machine, Emulator) else machine
    return gpu.chip if isinstance(gpu, Gpu) else chips.HOME


def warm_up(name: str = "auto") -> None:
    """Start what a check on this backend will ask, and do not wait for it: it imports while others do.

    Raises nothing: where a process cannot start, the request says so.
    """
    with contextlib.suppress(OSError):
        if name in ("auto", "emulator"):
            client.worker(client.EMULATOR).start()
        if name == "gpu" or name == "auto" and _driver():
            client.worker(client.GPU).start()


def _driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def find_gpu(worker: Worker | None = None) -> tuple[dict | None, str]:
    """The Hopper GPU here, or None and the reason there is none to use. ``worker`` as ``Gpu`` takes it."""
    device, reason = find_any_gpu(worker)
    if device is None:
        return None, reason
    found, needed = tuple(device["capability"]), chips.HOME.capability
    if found != needed:
        found_here = f"{device['name']} has compute capability {found[0]}.{found[1]}"
        return None, f"{found_here}; the course's kernels need {needed[0]}.{needed[1]} (H100, H200)"
    return device, ""


def find_any_gpu(worker: Worker | None = None) -> tuple[dict | None, str]:
    """The GPU here, of any kind, or None and the reason there is none. ``worker`` as ``Gpu`` takes it."""
    if not _driver():
        return None, "there is no NVIDIA driver here"
    try:
        device = (worker or client.worker(client.GPU)).device()
    except WorkerTimeout:
        return None, "the GPU did not answer within two minutes"
    except (WorkerDied, OSError) as error:
        return None, f"no CUDA GPU could be opened: {error}"
    return device, ""
