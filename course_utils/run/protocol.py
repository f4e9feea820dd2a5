"""What crosses the pipe to a worker process: length-prefixed blocks of JSON and of an Artifact's bytes.

Made by hand: a request must be data and never code, so no pickle, and with it none of the libraries that call
functions in another process. A request is two blocks, JSON and an Artifact (maybe empty); an answer is one,
JSON.
"""

from __future__ import annotations

import gc
import json
import os
import select
import struct
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import IO, Any

from course_utils.artifact import Artifact
from course_utils.cause import Cause, from_data

FORKS = "COURSE_WORKER_FORKS"  # in a worker's environment: where its forks read and write, by descriptors


@dataclass(frozen=True)
class Answer:
    """What a machine says of one Artifact.

    ``error`` says why there is no result: a CUresult's name, "timeout", "died", "out_of_memory",
    "timed_output", "refused" (a timed run that is no measurement, see ``run.gpu.graded``) or "not_run" (this
    machine cannot), and ``detail`` is the machine's own word on it. Else
    ``ok`` says whether the results are right and nothing else was found, and ``causes`` what is wrong with
    the numbers.
    ``finished`` is False where the emulated kernel could not come to its end, ``findings`` are the
    emulator's, as data (see ``emulator.worker``), ``kinds`` theirs, ``schedule`` the seed that showed them,
    ``executed`` the warp instructions, ``facts`` what it saw of order (see ``explain.facts``; only what ran
    where it did not finish, None where nothing was emulated), ``printed`` what its threads printed.
    ``remarks`` are the emulator's warnings, a sentence each.
    ``figure`` is what a figure plays of a run in which something was found (see ``emulator.replay``), None
    where nobody asked for it. ``timing`` holds the figures of a timed run (see ``run.gpu.timing``).
    """

    ok: bool = False
    relative_norm: float = 0.0
    wrong: int = 0
    unwritten: int = 0
    causes: tuple[Cause, ...] = ()
    error: str = ""
    detail: str = ""
    finished: bool = True
    kinds: tuple[str, ...] = ()
    findings: tuple[dict, ...] = ()
    schedule: int | None = None
    executed: int = 0
    facts: dict[str, int] | None = None
    printed: str = ""
    remarks: tuple[str, ...] = ()
    figure: dict | None = None
    timing: dict | None = None

    @classmethod
    def from_fields(cls, answer: dict) -> Answer:
        """The JSON form of an answer; a field that this release does not know is left out."""
        known = {f.name for f in fields(cls)}
        given: dict[str, Any] = {k: v for k, v in answer.items() if k in known}
        lists = {name: tuple(given.get(name, ())) for name in ("kinds", "findings", "remarks")}
        lists["causes"] = tuple(map(from_data, given.get("causes", ())))
        return cls(**given | lists)


def read_block(stream: IO[bytes]) -> bytes | None:
    """One length-prefixed block, or None at the end of the stream."""
    header = stream.read(8)
    if len(header) < 8:
        return None
    (length,) = struct.unpack("<Q", header)
    return stream.read(length)


def write_block(stream: IO[bytes], data: bytes) -> None:
    stream.write(struct.pack("<Q", len(data)) + data)
    stream.flush()


def serve(
    requests: IO[bytes],
    answers: IO[bytes],
    work: dict[str, Callable[..., dict]],
    device: Callable[[], dict],
    fault: Callable[[Exception], tuple[dict, bool]],
) -> None:
    """Answer requests until the stream ends.

    ``work`` are the operations: each takes an Artifact and the request's fields. ``device`` answers the
    request of that name. ``fault`` turns an exception into an answer, and says whether it ends the process;
    it may raise.
    """
    while (block := read_block(requests)) is not None:
        request = json.loads(block)
        blob = read_block(requests) or b""
        fatal = False
        try:
            op = request.pop("op")
            answer = device() if op == "device" else work[op](Artifact.from_bytes(blob), **request)
        except Exception as error:
            answer, fatal = fault(error)
        write_block(answers, json.dumps(answer | {"fatal": fatal}).encode())
        if fatal:
            return


def main(serve: Callable[[IO[bytes], IO[bytes]], None]) -> None:
    """Run a worker's ``serve`` on this process's standard streams, and end the process; at once, whatever it
    is at, where nobody can hear its answer: a GPU kernel that never ends would hold the GPU.

    First it forks a copy of itself for each pair of pipes in ``FORKS``, to serve there.
    """
    ends = [int(end) for end in os.environ.pop(FORKS, "").split()]
    gc.freeze()  # a collection would copy what a fork shares with this process
    for pair in zip(ends[::2], ends[1::2], strict=True):
        if os.fork() == 0:
            for end, standard in zip(pair, (0, 1), strict=True):
                os.dup2(end, standard)
            break
    for end in ends:
        os.close(end)
    end_with_peer(sys.stdin.fileno())
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing a library prints may reach the answers
    serve(sys.stdin.buffer, answers)
    answers.flush()
    os._exit(0)  # a broken context can hang in its destructors


def end_with_peer(pipe: int) -> None:
    """End this process at once when whoever holds the other side of a pipe has ended, killed or not."""
    threading.Thread(target=_wait_and_end, args=(pipe,), daemon=True).start()


def _wait_and_end(pipe: int) -> None:
    peer = select.poll()
    peer.register(pipe, 0)  # poll(2): that the other side hung up is told unasked
    peer.poll()
    os._exit(1)
