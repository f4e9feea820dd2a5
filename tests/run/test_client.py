"""The client of the worker process, against a fake worker that speaks the protocol and does as it is told."""

import io
import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from course_utils.artifact import Artifact, Resources
from course_utils.run import client
from course_utils.run.client import Worker, WorkerDied, WorkerTimeout
from course_utils.run.protocol import read_block, write_block

FAKE = r"""
import json, os, sys, time
from course_utils.run import protocol

def serve(requests, answers):
    time.sleep(float(os.environ.get("FAKE_START", 0)))
    while (block := protocol.read_block(requests)) is not None:
        request = json.loads(block)
        if request["op"] == "exit before the artifact":
            sys.exit("left early")
        blob = protocol.read_block(requests)
        answer = {"pid": os.getpid(), "request": request, "bytes": len(blob)}
        if request["op"] == "sleep":
            time.sleep(request["seconds"])
        elif request["op"] == "spin":
            while True:
                pass
        elif request["op"] == "chatter":
            os.write(1, b"\x00\xff garbage" * 100)
            print("{not json", flush=True)
            os.write(2, b"e" * 300_000)
        elif request["op"] == "die":
            print(request["words"], file=sys.stderr, flush=True)
            os._exit(3)
        elif request["op"] == "half an answer":
            answers.write(b"\x64" + bytes(7) + b"0123456789")
            answers.flush()
            sys.exit("half way")
        elif request["op"] == "close":
            answers.close()
            time.sleep(600)
        protocol.write_block(answers, json.dumps(answer | {"fatal": request["op"] == "fatal"}).encode())

protocol.main(serve)
"""


def artifact(cubin=b""):
    return Artifact(
        dsl="tilelang",
        kernel="main",
        ptx="",
        cubin=cubin,
        grid=(1, 1, 1),
        block=(128, 1, 1),
        cluster=(1, 1, 1),
        dynamic_shared=0,
        parameters=(),
        tensors=(),
        resources=Resources(32, 0, 0, 0, 0),
    )


@pytest.fixture
def worker(tmp_path, monkeypatch):
    script = tmp_path / "fake_worker.py"
    script.write_text(FAKE)
    monkeypatch.setattr(client, "COMMAND", (sys.executable, str(script)))
    with Worker() as worker:
        yield worker


def pid(worker):
    return worker.request("echo", artifact(), 10)["pid"]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_blocks_round_trip():
    stream = io.BytesIO()
    write_block(stream, b"")
    write_block(stream, b"two\0blocks")
    stream.seek(0)
    assert [read_block(stream) for _ in range(3)] == [b"", b"two\0blocks", None]


def test_one_process_serves_many_requests(worker):
    assert len({pid(worker) for _ in range(3)} | {worker.device()["pid"]}) == 1


def test_no_process_before_the_first_request(monkeypatch):
    monkeypatch.setattr(client, "COMMAND", ("/no/such/program",))
    with Worker() as worker, pytest.raises(OSError):
        worker.device()


def test_request_arrives_whole(worker):
    kernel = artifact(os.urandom(300_000))  # more than a pipe holds
    answer = worker.request("echo", kernel, 10, seed=7, words="Größe")
    assert answer["request"] == {"op": "echo", "seed": 7, "words": "Größe"}
    assert answer["bytes"] == len(kernel.to_bytes()) > 300_000


def test_waits_for_a_slow_answer(worker):
    pid(worker)
    assert worker.request("sleep", artifact(), 10, seconds=0.4)["request"]["seconds"] == 0.4


def test_start_does_not_count_against_the_limit(worker, monkeypatch):
    monkeypatch.setenv("FAKE_START", "1")
    assert worker.request("echo", artifact(), 0.8)["pid"]


def test_kills_the_process_after_the_limit_and_serves_on(worker):
    first = pid(worker)
    began = time.monotonic()
    with pytest.raises(WorkerTimeout):
        worker.request("sleep", artifact(), 0.3, seconds=600)
    assert 0.2 < time.monotonic() - began < 3
    assert not alive(first)
    assert pid(worker) != first


def test_a_limit_tells_how_long_the_process_had_a_processor(worker):
    pid(worker)
    for op, least, most in (("sleep", 0.0, 0.1), ("spin", 0.1, 0.5)):
        with pytest.raises(WorkerTimeout) as late:
            worker.request(op, artifact(), 0.4, seconds=600)
        assert least <= late.value.work <= most


def test_says_the_last_words_of_a_process_that_died(worker):
    first = pid(worker)
    with pytest.raises(WorkerDied, match="^out of luck$"):
        worker.request("die", artifact(), 10, words="some warning\nout of luck")
    assert pid(worker) != first


def test_says_so_when_there_are_no_last_words(worker):
    with pytest.raises(WorkerDied, match="without a word"):
        worker.request("die", artifact(), 10, words="")


def test_survives_a_process_that_dies_while_it_is_written_to(worker):
    with pytest.raises(WorkerDied, match="left early"):
        worker.request("exit before the artifact", artifact(os.urandom(1_000_000)), 10)
    assert pid(worker)


def test_survives_half_an_answer(worker):
    with pytest.raises(WorkerDied, match="half way"):
        worker.request("half an answer", artifact(), 10)
    assert pid(worker)


def test_survives_a_process_that_hangs_up_and_lives_on(worker):
    first = pid(worker)
    began = time.monotonic()
    with pytest.raises(WorkerDied):
        worker.request("close", artifact(), 10)
    assert time.monotonic() - began < 6
    assert not alive(first)


def test_starts_again_after_the_process_was_killed_between_requests(worker):
    first = pid(worker)
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    assert pid(worker) != first


def test_survives_a_process_that_dies_just_before_it_is_asked(worker, monkeypatch):
    first = pid(worker)
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    monkeypatch.setattr(worker._process, "poll", lambda: None)  # it was still there when the client looked
    with pytest.raises(WorkerDied):
        worker.device()
    assert pid(worker) != first


def test_restarts_after_a_fatal_answer(worker):
    answer = worker.request("fatal", artifact(), 10)
    assert "fatal" not in answer
    assert not alive(answer["pid"])
    assert pid(worker) != answer["pid"]


def test_what_the_process_prints_is_no_answer(worker):
    answer = worker.request("chatter", artifact(), 10)
    assert answer["request"] == {"op": "chatter"}
    assert pid(worker) == answer["pid"]


def test_close_ends_a_hung_process_at_once(worker):
    first = pid(worker)
    worker.start()
    write_block(worker._process.stdin, b'{"op": "sleep", "seconds": 600}')
    write_block(worker._process.stdin, b"")
    began = time.monotonic()
    worker.close()
    assert time.monotonic() - began < 2
    assert not alive(first)


def test_close_is_harmless_twice_and_before_the_start():
    worker = Worker()
    worker.close()
    worker.close()


def test_the_process_is_gone_after_the_with_block(worker):
    with worker:
        first = pid(worker)
    assert not alive(first)


def test_the_process_ends_with_who_asks_whatever_it_is_at(worker):
    pid(worker)
    process = worker._process
    for block in (b'{"op": "spin"}', b""):
        write_block(process.stdin, block)
    process.stdin.close()  # as when the notebook's process is killed
    assert process.wait(5) == 1


def test_no_signal_to_the_notebooks_group_reaches_the_process(worker):
    """Jupyter interrupts the group; and at its end a kernel waits for what runs in it."""
    assert os.getpgid(pid(worker)) != os.getpgrp()


# -- several processes, forked from one


@pytest.fixture
def emulators(worker, monkeypatch):
    """The workers of a machine with room for three, the first of which forks the others."""
    with Worker(twins=2) as first:
        monkeypatch.setattr(client, "_workers", {client.EMULATOR: first})
        yield client.emulators


def test_forked_workers_answer_while_the_others_work(emulators):
    workers = emulators()
    assert len({pid(one) for one in workers}) == 3
    with ThreadPoolExecutor(3) as pool:
        began = time.monotonic()
        asked = [pool.submit(one.request, "sleep", artifact(), 10, seconds=0.5) for one in workers]
        assert len({one.result()["pid"] for one in asked}) == 3
        assert time.monotonic() - began < 1.2


@pytest.mark.parametrize("which", [0, 1])
def test_a_worker_that_is_killed_leaves_those_at_work(emulators, which):
    workers = emulators()
    numbers = [pid(one) for one in workers]
    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(workers[2].request, "sleep", artifact(), 10, seconds=0.8)
        with pytest.raises(WorkerTimeout):
            workers[which].request("spin", artifact(), 0.2)
        assert not workers[which].is_up() and ended(numbers[which])
        if which == 0:
            assert pid(workers[0]) not in numbers  # the first starts again at once
        else:
            with pytest.raises(WorkerDied):
                pid(workers[1])
        assert busy.result()["pid"] == numbers[2]
    assert len({pid(one) for one in emulators()}) == 3


def test_the_forked_processes_end_with_the_first(emulators):
    numbers = [pid(one) for one in emulators()]
    emulators()[0].close()
    assert all(map(ended, numbers))


def test_as_many_emulators_as_cores_and_memory_allow(monkeypatch):
    free = f"MemTotal: 1 kB\nMemAvailable: {2 << 20} kB\n"

    def room(cores, **told):
        files = {"meminfo": free} | {name.replace("_", "."): text for name, text in told.items()}
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cores))

        def read(path):
            name = os.path.basename(path)
            if name not in files:
                raise FileNotFoundError(path)
            return files[name]

        monkeypatch.setattr(client, "_told", read)
        return client._room()

    assert [room(cores) for cores in (1, 2, 3, 64)] == [1, 2, 3, 3]  # 2 GB for others than the first
    assert room(8, cpu_max="200000 100000") == 2 and room(8, cpu_max="max 100000") == 3
    assert room(8, cpu_max="50000 100000") == 1
    assert room(8, memory_max=str(3 << 29), memory_current=str(1 << 29)) == 2
    assert room(8, memory_max="max", memory_current="5") == 3
    assert room(8, meminfo="MemAvailable: 900000 kB") == 1
    assert room(8, meminfo="") == client.EMULATORS


def ended(pid):
    """Does this process end within a second? The entry of one that its parent has not waited for is none."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.01)
    return False


def test_real_worker_without_a_gpu_dies_with_a_reason(tmp_path, monkeypatch):
    """And the files of the folder a learner stands in are not its modules."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "torch.py").write_text("raise RuntimeError('a file of the learner')\n")
    with Worker() as worker, pytest.raises(WorkerDied, match="(?i)cuda|gpu|nvidia"):
        worker.device()
