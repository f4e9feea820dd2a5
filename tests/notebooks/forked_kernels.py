"""Notebook kernels without the seconds of their imports: one process imports what every notebook imports, and
forks a kernel, the real ipykernel, whenever one is asked for; and for each kernel its worker process.

    forked_kernels.py serve SOCKET                    until its standard input ends
    forked_kernels.py kernel SOCKET CONNECTION_FILE   what the kernelspec names: it stands for the fork
    forked_kernels.py worker SOCKET MODULE            what a kernel starts for its worker
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
from contextlib import contextmanager
from pathlib import Path

NAME = "forked"
IMPORTED = (  # by one notebook or another, sooner or later
    "torch",
    "tilelang.language",
    "cutlass.cute",
    "matplotlib.pyplot",
    "course_utils.notebook",
    "course_utils.compile.tilelang",
    "course_utils.compile.cute",
    "course_utils.run.emulator.worker",
)


def serve(address: str) -> None:
    os.environ["MPLBACKEND"] = "module://matplotlib_inline.backend_inline"  # as ipykernel sets it
    for module in IMPORTED:
        importlib.import_module(module)
    from ipykernel.kernelapp import IPKernelApp

    from course_utils.run import client, protocol

    gc.freeze()  # a fork's collections neither look at what it shares nor copy it
    gc.set_threshold(100_000, 20, 20)  # as in the processes of the course itself
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended kernels leave no zombie
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen()
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            connection, _ = listening.accept()
            _, streams, _, _ = socket.recv_fds(connection, 1, 3)
            request = json.loads(connection.makefile().readline())
            if os.fork() == 0:
                listening.close()
                become(request, connection)
                if "module" in request:
                    for number, stream in enumerate(streams):
                        os.dup2(stream, number)
                    protocol.main(importlib.import_module(request["module"]).serve)
                client.COMMAND = (sys.executable, "-I", __file__, "worker", address)
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
    sys.argv, sys.path[0] = ["ipykernel_launcher"], ""
    connection.sendall(f"{os.getpid()}\n".encode())

    def wait():
        connection.recv(1)
        os.killpg(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


def kernel(address: str, connection_file: str) -> None:
    """Ask for a kernel, and stand for it."""
    stand_for(address, [], argv=["-f", connection_file, "--HistoryManager.hist_file=:memory:"])


def worker(address: str, module: str) -> None:
    """Ask for a worker of this module on these standard streams, and stand for it."""
    stand_for(address, [0, 1, 2], module=module)


def stand_for(address: str, streams: list[int], **asked: object) -> None:
    """Ask for a fork, hand signals on to it, and end when it ends."""
    environment = {**os.environ, "JPY_PARENT_PID": ""}
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        request = {**asked, "folder": os.getcwd(), "environment": environment}
        socket.send_fds(connection, [b" "], streams)
        connection.sendall(json.dumps(request).encode() + b"\n")
        process = int(connection.makefile().readline())
        signal.signal(signal.SIGINT, lambda *_: os.kill(process, signal.SIGINT))
        for stream in streams:
            os.close(stream)
        connection.recv(1)


@contextmanager
def kernels(folder: Path):
    """Serve forked kernels; yields the folder of kernelspecs in which ``NAME`` stands."""
    address = str(folder / "kernels.socket")
    spec = folder / "kernels" / NAME / "kernel.json"
    spec.parent.mkdir(parents=True)
    argv = [sys.executable, "-I", __file__, "kernel", address, "{connection_file}"]
    spec.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    log = folder / "kernels.log"
    with log.open("w") as errors:
        server = subprocess.Popen(
            [sys.executable, __file__, "serve", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        try:
            assert server.stdout.readline() == b"ready\n", log.read_text()[-3000:]
            yield spec.parents[1]
        finally:
            server.stdin.close()
            server.wait(20)
            server.stdout.close()


if __name__ == "__main__":
    {"serve": serve, "kernel": kernel, "worker": worker}[sys.argv[1]](*sys.argv[2:])
