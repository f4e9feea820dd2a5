"""Notebook kernels and nbgrader without the seconds of their imports: one process imports what they import,
and forks a kernel, the real ipykernel, whenever one is asked for; for each kernel its worker process; and
nbgrader.

    forked_kernels.py serve SOCKET OWNER              until that process ends, or its folder is removed
    forked_kernels.py kernel SOCKET CONNECTION_FILE   what the kernelspec names: it stands for the fork
    forked_kernels.py worker SOCKET MODULE            what a kernel starts for its worker
    forked_kernels.py nbgrader SOCKET ARGUMENT...     nbgrader's own command
"""

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NoReturn

NAME = "python3"  # what the notebooks ask for: nbgrader finds it where JUPYTER_PATH comes first
SOCKET = "socket"
ONE_SIZE = "COURSE_TESTS_ONE_SIZE"  # in a kernel's environment: its checks emulate a kernel at one size
IMPORTED = (  # by one notebook or another, sooner or later
    "torch",
    "tilelang.language",
    "cutlass.cute",
    "matplotlib.pyplot",
    "course_utils.notebook",
    "course_utils.compile.tilelang",
    "course_utils.compile.cute",
    "course_utils.run.emulator.worker",
    "nbgrader.apps",
)


def serve(address: str, owner: str) -> None:
    os.setsid()  # an interrupt is for the tests
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as ipykernel sets it
    sys.modules["rfc3987_syntax"] = None  # see tests/conftest.py
    for module in IMPORTED:
        importlib.import_module(module)
    from ipykernel.kernelapp import IPKernelApp
    from nbgrader.apps import NbGraderApp

    from course_utils.figures import ladder, theme
    from course_utils.recordings import measured
    from course_utils.run import client, protocol

    theme.svg(ladder.ladder(measured.ladder()))  # a first picture looks for fonts and imports what draws text
    gc.freeze()  # a fork's collections neither look at what it shares nor copy it
    gc.set_threshold(100_000, 20, 20)  # as in the processes of the course itself
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended kernels leave no zombie
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)
        while os.path.exists(address) and os.path.exists(f"/proc/{owner}"):
            if not select.select([listening], [], [], 1.0)[0]:
                continue
            connection, _ = listening.accept()
            _, streams, _, _ = socket.recv_fds(connection, 1, 3 + 2 * client.EMULATORS)
            request = json.loads(connection.makefile().readline())
            if os.fork() == 0:
                listening.close()
                become(request, connection)
                for number, stream in enumerate(streams[:3]):
                    os.dup2(stream, number)
                os.environ[protocol.FORKS] = " ".join(
                    map(str, streams[3:])
                )  # the asker's numbers are not ours
                if "command" in request:
                    end(connection, partial(NbGraderApp.launch_instance, request["command"]))
                if "module" in request:
                    protocol.main(importlib.import_module(request["module"]).serve)
                client.COMMAND = (sys.executable, "-I", __file__, "worker", address)
                if ONE_SIZE in os.environ:
                    emulate_one_size()
                IPKernelApp.launch_instance(argv=request["argv"])
                atexit._run_exitfuncs()
                os._exit(0)  # what was imported need not be taken down piece by piece
            for stream in streams:
                os.close(stream)
            connection.close()


def become(request: dict, connection: socket.socket) -> None:
    """In the forked process: the folder and environment of who asked, and an end when that one ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"
    sys.argv, sys.path[0] = [request.get("program", "ipykernel_launcher")], ""
    connection.sendall(f"{os.getpid()}\n".encode())

    def wait():
        connection.recv(1)
        os.killpg(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def emulate_one_size() -> None:
    """Leave to each check the size alone that its receipt is read at."""
    from course_utils.grading import steps

    for table in (steps.STEPS, steps.GEMM_CASES, steps.TASKS):
        for name, step in table.items():
            table[name] = replace(step, emulated=step.emulated[:1])


def end(connection: socket.socket, work: Callable[[], object]) -> NoReturn:
    """Do this, tell who asked the exit code that it has as a process, and end."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        atexit._run_exitfuncs()
        connection.sendall(f"{code}\n".encode())
        os._exit(code)


def kernel(address: str, connection_file: str, *options: str) -> None:
    """Ask for a kernel without a history, and stand for it; nbconvert asks for that itself."""
    options = options or ("--HistoryManager.hist_file=:memory:",)
    stand_for(address, [], argv=["-f", connection_file, *options])


def worker(address: str, module: str) -> None:
    """Ask for a worker of this module on these standard streams, and on those of its forks; stand for it."""
    forks = os.environ.get("COURSE_WORKER_FORKS", "").split()
    stand_for(address, [0, 1, 2, *map(int, forks)], module=module)


def nbgrader(address: str, *arguments: str) -> None:
    """Ask for a run of nbgrader on these standard streams, and stand for it."""
    stand_for(address, [0, 1, 2], command=arguments, program="nbgrader")


def stand_for(address: str, streams: list[int], **asked: object) -> None:
    """Ask for a fork, hand signals on to it, and end when it ends, with its exit code where it tells one."""
    environment = {**os.environ, "JPY_PARENT_PID": ""}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        request = {**asked, "folder": os.getcwd(), "environment": environment}
        socket.send_fds(connection, [b" "], streams)
        connection.sendall(json.dumps(request).encode() + b"\n")
        told = connection.makefile()
        process = int(told.readline())
        # Jupyter interrupts a kernel's whole group
        signal.signal(signal.SIGINT, lambda *_: os.killpg(process, signal.SIGINT))
        for stream in streams:
            os.close(stream)
        os._exit(int(told.readline() or 0))


def started(folder: Path, owner: int) -> None:
    """Start the server of this folder, in which ``kernels/NAME`` is the kernelspec. It ends with the process
    ``owner``, or with the folder.
    """
    address = str(folder / SOCKET)
    spec = folder / "kernels" / NAME / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [sys.executable, "-I", __file__, "kernel", address, "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    log = folder / "kernels.log"
    with log.open("w") as errors:
        server = subprocess.Popen(
            [sys.executable, __file__, "serve", address, str(owner)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert server.stdout.readline() == b"ready\n", log.read_text()[-3000:]


def nbgrader_of(folder: Path) -> list[str]:
    """The command that stands for ``nbgrader`` where this folder's server runs."""
    return [sys.executable, "-I", __file__, "nbgrader", str(folder / SOCKET)]


if __name__ == "__main__":
    {"serve": serve, "kernel": kernel, "worker": worker, "nbgrader": nbgrader}[sys.argv[1]](*sys.argv[2:])
