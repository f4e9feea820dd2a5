"""One command in a sandbox: no network, no file but those it is given, and an end that nothing inside delays.

Two forms, of which bubblewrap is tried first; rootless podman gets the same files. What they wall off is the
same: the file system, the network, other processes, and all names of the machine. What holds memory, number
of processes, time and output is this process, from outside: it looks at the whole tree of processes, and ends
it by killing the first one, with which the kernel ends them all (pid_namespaces(7)).

The command answers on its standard output alone, so nothing that it writes outlives it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache as once
from pathlib import Path
from typing import IO

from course_utils.classroom import seccomp
from course_utils.compile import cache
from course_utils.compile.child import end_with

PACKAGE = Path(__file__).parents[1]
TRY = "import course_utils.artifact; print(6 * 7)"
OUT_OF_MEMORY = "the machine ran out of memory"
TOO_BUSY = "the machine was too busy: what ran in the sandbox waited for a processor most of its time"
STARVED = 30.0  # seconds without a processor; who waits for less is not held up
NICE = 10  # of what runs inside: judges go first, by nine to one (sched(7)); at 19 a busy machine starves it
TICK = 0.05  # seconds between two looks at the processes
CHUNK = 1 << 16
TICKS = os.sysconf("SC_CLK_TCK")  # of /proc in a second
USER = 65534  # nobody, inside
# Users that no machine has, where root makes the sandbox: one for each process that grades, so that the
# system counts the processes of each sandbox by itself.
USERS = 0x7000_0000
NOFILE = 512
NPROC = 4096  # processes and threads of a user beside those that are there, where that user is not our own
SPARE = 1 << 30  # bytes of memory that the machine must keep; below, the sandbox that was looked at ends
INODE = 1 << 10  # bytes of a file in memory with nothing in it
FREEING = 0.5  # seconds in which a sandbox that has ended gives its memory back
PIDFILE = "pid"  # in the folder of a sandbox of podman's: which process is its first
HOME = "/home/learner"
CACHE = f"{HOME}/.cache"
WRITABLE = ("/dev/shm", "/tmp", HOME)  # each a file system in memory

Readable = Sequence[tuple[Path, str]]  # where a file or folder is outside, and below HOME inside

FORMS = ("bubblewrap", "podman", "unsafe")
LACKS = {
    "bubblewrap": "a limit by the system on memory and processes: they are counted from outside",
    "podman": "what bubblewrap lacks, a count of files in memory, and half a second for each start",
    "unsafe": "any wall: a submission can read and write what whoever grades can, and use the network",
}

PROGRAMS = {"bubblewrap": "bwrap", "podman": "podman"}
GET = {
    "bubblewrap": "`apt install bubblewrap` or `dnf install bubblewrap`",
    "podman": "`apt install podman` or `dnf install podman`, with your line in /etc/subuid and /etc/subgid",
}
NAMESPACES = (  # what most often stands in the way of one that is installed
    "the system may keep user namespaces from you: see sysctl user.max_user_namespaces and, on Ubuntu, "
    "kernel.apparmor_restrict_unprivileged_userns"
)


class SandboxError(RuntimeError):
    """The sandbox itself could not be made: a fault of the machine, not of what was to run in it."""


@dataclass(frozen=True)
class Limits:
    """What a command and all that it starts may use: seconds by the clock, bytes of memory, processes, bytes
    of output, bytes of a single file, and seconds of processors. NVRTC's precompiled header is the largest
    file.
    """

    seconds: float = 180.0
    memory: int = 4 << 30
    processes: int = 128
    output: int = 64 << 20
    file: int = 320 << 20
    work: float = 60.0


@dataclass(frozen=True)
class Ended:
    """What became of a command: its exit code, None where it was ended; then ``why`` says in words what for.

    ``output`` is what it wrote to standard output, ``said`` the end of what it wrote to standard error.
    ``seconds`` and ``memory`` are what it took, the latter in bytes at the highest look.
    """

    code: int | None
    why: str
    output: bytes
    said: str
    seconds: float
    memory: int


@dataclass
class _Used:
    """What a tree of processes uses: threads, bytes of memory, seconds of processors, and seconds for which
    the one thread that waited longest was ready to run and did not.
    """

    threads: int = 0
    memory: int = 0
    work: float = 0.0
    ready: float = 0.0


def available() -> list[str]:
    """The forms that work on this machine, the best first; "unsafe" is none of them."""
    return [form for form in FORMS[:-1] if not problem(form)]


def problem(form: str) -> str:
    """Why this form does not work here, in words; empty where it does."""
    if shutil.which(PROGRAMS[form]) is None:
        return f"there is no {PROGRAMS[form]} on the PATH"
    try:
        ended = run([sys.executable, "-c", TRY], b"", Limits(seconds=60), form)
    except SandboxError as error:
        return str(error)
    return "" if ended.output == b"42\n" else (ended.why or ended.said or "it ran nothing")


def version(form: str) -> str:
    """The number that the form's program gives itself; empty where there is none."""
    with contextlib.suppress(OSError, subprocess.SubprocessError, IndexError):
        asked = [PROGRAMS[form], "--version"]
        return subprocess.run(asked, capture_output=True, text=True, timeout=20).stdout.split()[-1]
    return ""


def run(
    command: Sequence[str],
    given: bytes,
    limits: Limits,
    form: str = "bubblewrap",
    readable: Readable = (),
    hidden: Sequence[Path] = (),
) -> Ended:
    """Run ``command`` with ``given`` on its standard input.

    Its Python finds ``course_utils``, and no solutions. ``readable`` are more files and folders for it: where
    each is outside, and inside. ``hidden`` are folders that it is to find empty. Raises SandboxError where
    the sandbox cannot be made, and ValueError for another form.
    """
    if form not in FORMS:
        raise ValueError(f"there is no sandbox {form!r}; the forms are {', '.join(FORMS)}")
    with contextlib.ExitStack() as stack:
        wraps: dict[str, Callable[..., list[str]]]
        wraps = {"bubblewrap": _bubblewrap, "podman": _podman, "unsafe": _unsafe}
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="course-grade-")))
        reading, writing = os.pipe()
        rules = os.memfd_create("seccomp")
        os.write(rules, seccomp.filter_of())
        os.lseek(rules, 0, os.SEEK_SET)
        parent = os.getpid()
        stack.callback(os.close, reading)
        hidden = [*_hidden(), *hidden]
        try:
            full = wraps[form](command, limits, folder, readable, hidden, writing, rules)
            process = subprocess.Popen(
                full,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=_environment(folder) if form == "unsafe" else _outside(),
                pass_fds=(writing, rules),
                start_new_session=True,
                preexec_fn=lambda: _prepare(limits, parent),
            )
        except OSError as error:
            raise SandboxError(f"{form} could not be started: {error}") from error
        finally:
            os.close(writing)
            os.close(rules)
        with _Watch(process, reading, limits, form, folder) as watch:
            return watch.until_it_ends(given)


class _Watch:
    """A command that runs, looked at from outside."""

    def __init__(
        self, process: subprocess.Popen[bytes], info: int, limits: Limits, form: str, folder: Path
    ) -> None:
        self._process, self._info, self._limits, self._form = process, info, limits, form
        self._folder = folder
        self._first = 0  # of the sandbox's own processes; the kernel ends the others with it
        self._highest = 0
        self._used = _Used()
        self._turn: IO[str] | None = None  # to end a sandbox for want of memory

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        if self._turn:
            self._turn.close()

    def until_it_ends(self, given: bytes) -> Ended:
        began = time.monotonic()
        output, said, why = bytearray(), bytearray(), ""
        assert self._process.stdin and self._process.stdout and self._process.stderr
        left = memoryview(given)
        with selectors.DefaultSelector() as ready:
            for stream, events in (
                (self._process.stdout, selectors.EVENT_READ),
                (self._process.stderr, selectors.EVENT_READ),
                (self._process.stdin, selectors.EVENT_WRITE),
            ):
                os.set_blocking(stream.fileno(), False)
                ready.register(stream, events)
            looked = 0.0
            while not why and any(key.events & selectors.EVENT_READ for key in ready.get_map().values()):
                for key, _ in ready.select(TICK):
                    if key.fileobj is self._process.stdin:
                        try:
                            left = left[os.write(key.fd, left[:CHUNK]) :] if left else left
                        except BrokenPipeError:  # it closed its input: what is left, it does not want
                            left = left[:0]
                        if not left:
                            ready.unregister(key.fileobj)
                            self._process.stdin.close()
                        continue
                    chunk = os.read(key.fd, CHUNK)
                    if not chunk:
                        ready.unregister(key.fileobj)
                    elif key.fileobj is self._process.stdout:
                        output += chunk
                    else:
                        said = (said + chunk)[-CHUNK:]
                now = time.monotonic()
                if now - looked >= TICK:
                    looked = now
                    why = self._look(len(output), now - began)
        code = None
        if not why:
            code, why = self._wait(began)
        if why == OUT_OF_MEMORY:
            why = self._took_it()
        if why == self._slow() and self._starved():
            raise SandboxError(TOO_BUSY)
        seconds = time.monotonic() - began
        words = bytes(said).decode(errors="replace").strip()
        self._root()
        if code and self._form != "unsafe" and not self._first:  # it never came to the command
            raise SandboxError(f"{self._form}: {words.splitlines()[-1] if words else 'it ended at once'}")
        return Ended(code, why, bytes(output[: self._limits.output]), words, seconds, self._highest)

    def _wait(self, began: float) -> tuple[int | None, str]:
        """Its exit code, once its output is closed; else None, and why it has to end."""
        while (left := self._limits.seconds - (time.monotonic() - began)) > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return self._process.wait(min(left, TICK)), ""
            if why := self._look(0, 0.0):
                return None, why
        return None, self._slow()

    def _slow(self) -> str:
        return f"it did not end within {self._limits.seconds:g} s"

    def _starved(self) -> bool:
        """Did others keep it from the processors? Its own threads can keep one of them waiting, and each
        other all at once, but one no longer than they may work in all. So one is asked, and for that long.
        """
        return self._used.ready > max(STARVED, min(self._limits.work, self._limits.seconds / 2))

    def _took_it(self) -> str:
        """End it for want of memory on this machine, and see who took it: with its life goes what it held,
        also what no process is charged for. Returns why it had to end; raises SandboxError where the memory
        is that of others.
        """
        before, limit = _free(), self._limits.memory
        self._end()
        most = time.monotonic() + 10 * FREEING
        deadline = time.monotonic() + FREEING
        while _free() - before <= limit:
            now = time.monotonic()
            if os.path.exists(f"/proc/{self._first}"):  # the kernel still ends the others of them
                deadline = now + FREEING
            if now > min(deadline, most):
                raise SandboxError(OUT_OF_MEMORY)
            time.sleep(TICK / 10)
        return _too_much(limit)

    def _may_end(self) -> bool:
        """Is it this sandbox's turn to end for want of memory? One ends at a time: that may be enough for
        the others, and what comes back was that one's.
        """
        place = cache.folder() / f"memory-{os.uname().nodename}.lock"
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            turn = stack.enter_context(open(place, "w"))
            try:
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            stack.pop_all()
            self._turn = turn
        return True

    def _look(self, output: int, seconds: float) -> str:
        """Why it has to end now, in words; empty where it may go on."""
        limits = self._limits
        if seconds > limits.seconds:
            return self._slow()
        if output > limits.output:
            return f"it answered with more than {limits.output >> 20} MB"
        used = self._used = _used(self._root())
        used.memory += self._files_in_memory()
        self._highest = max(self._highest, used.memory)
        if used.threads > limits.processes:
            return f"it started more than {limits.processes} processes and threads"
        if used.memory > limits.memory:
            return _too_much(limits.memory)
        if used.work > limits.work:
            return f"it took more than {limits.work:g} s of processor time"
        if _free() < SPARE and self._may_end():
            return OUT_OF_MEMORY
        return ""

    def _files_in_memory(self) -> int:
        """Bytes of the files in the sandbox's own folders, which live in memory."""
        found, root = 0, f"/proc/{self._first}/root"
        with contextlib.suppress(OSError):
            if self._first and os.stat(root).st_dev != os.stat("/").st_dev:  # it has its own by now
                for told in (os.statvfs(root + place) for place in WRITABLE):
                    found += (told.f_blocks - told.f_bfree) * told.f_frsize
                    found += (told.f_files - told.f_ffree) * INODE
        return found

    def _root(self) -> int:
        if not self._first and self._form == "bubblewrap":
            os.set_blocking(self._info, False)
            with contextlib.suppress(BlockingIOError, ValueError):
                if told := os.read(self._info, 4096):
                    self._first = int(json.loads(told)["child-pid"])
        elif not self._first and self._form == "podman":
            with contextlib.suppress(OSError, ValueError):
                self._first = int((self._folder / PIDFILE).read_text())
        return self._first or self._process.pid

    def _end(self) -> None:
        ended = self._process.poll() is not None
        begun = () if ended or self._root() != self._process.pid else _stopped(self._process.pid)
        for pid in filter(None, (*begun, self._root(), self._process.pid)):
            if self._process.poll() is None or self._form == "unsafe":
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        if self._form == "unsafe":
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._form == "podman" and not ended:  # what --rm would have done
            rest = ["podman", "rm", "--force", "--ignore", "--time", "0", self._folder.name]
            subprocess.run(rest, capture_output=True, env=_outside(), timeout=self._limits.seconds)
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()


def _stopped(pid: int) -> list[int]:
    """Stop a process that may be making its first child; its children. Bubblewrap's waits for a word of its
    parent's before it ends with it, and would wait for ever.
    """
    with contextlib.suppress(OSError, IndexError):
        os.kill(pid, signal.SIGSTOP)
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TtZX":
            time.sleep(TICK / 50)
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


# -- what a tree of processes uses


COUNTED = ("RssAnon", "RssShmem", "VmSwap", "VmPTE")  # of /proc/<pid>/status


def _used(root: int) -> _Used:
    """What a process and all below it use: of memory their own, the page tables for it, and files without a
    name that live in it.
    """
    used = _Used()
    files: dict[int, int] = {}
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError, ValueError, IndexError):
            # proc(5): its own time in user and system mode, and that of its children which have ended
            told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            used.work += sum(map(int, told[11:15])) / TICKS
            tasks = [f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]
            used.threads += len(tasks)
            used.memory += _held(tasks)
            for task in tasks:  # one that ends meanwhile hides none of the others
                with contextlib.suppress(OSError):
                    waiting += map(int, Path(f"{task}/children").read_text().split())
                with contextlib.suppress(OSError):  # podman's processes are another user's
                    _count_files(task, files)
                with contextlib.suppress(OSError):  # where the system keeps no such count
                    told = Path(f"{task}/schedstat").read_text().split()
                    used.ready = max(used.ready, int(told[1]) / 1e9)
    used.memory += sum(files.values())
    return used


def _held(tasks: Sequence[str]) -> int:
    """Bytes that a process holds, as its first thread says that has not ended: the main thread may have."""
    for task in tasks:
        with contextlib.suppress(OSError, ValueError):
            fields = dict(line.split(":", 1) for line in Path(f"{task}/status").read_text().splitlines())
            if held := [int(fields[name].split()[0]) << 10 for name in COUNTED if name in fields]:
                return sum(held)
    return 0


def _count_files(task: str, files: dict[int, int]) -> None:
    """Add the files in memory that a thread holds open, by inode: they count against nobody's memory. A
    socket is as large as its buffer may be (socket(7), SO_SNDBUF: twice what is asked for).
    """
    for entry in os.scandir(f"{task}/fd"):
        with contextlib.suppress(OSError):
            link = os.readlink(entry.path)
            if link.startswith("/memfd:"):
                status = entry.stat()
                files[status.st_ino] = status.st_blocks * 512
            elif link.startswith("socket:"):
                files[entry.stat().st_ino] = 2 * _sends()


@once
def _sends() -> int:
    """Bytes that a process may ask for as a socket's buffer (socket(7))."""
    try:
        return int(Path("/proc/sys/net/core/wmem_max").read_text())
    except (OSError, ValueError):
        return 1 << 18


def _too_much(memory: int) -> str:
    return f"it took more than {memory >> 30} GB of memory"


def _threads() -> int:
    """Threads of this process's user."""
    found = 0
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == os.geteuid():
                found += len(os.listdir(f"{entry.path}/task"))
    return found


def _free() -> int:
    """Bytes of memory that the machine could give now (proc(5), meminfo)."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return SPARE


def _prepare(limits: Limits, parent: int) -> None:
    """In the child, before the sandbox is made: it ends with its parent, others go first, and limits hold for
    each process.
    """
    end_with(parent)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # whoever grades may ignore it: see seccomp.py
    os.nice(NICE)
    with contextlib.suppress(OSError):  # where the system groups by sessions, a number of the whole group
        Path("/proc/self/autogroup").write_text(str(NICE))
    for which, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file),
        (resource.RLIMIT_NOFILE, NOFILE),
        (resource.RLIMIT_DATA, limits.memory),
        (resource.RLIMIT_CPU, int(limits.work) + 1),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_NPROC, limits.processes + 8 if os.geteuid() == 0 else _threads() + NPROC),
    ):
        _, hard = resource.getrlimit(which)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (value, value))


# -- the forms


def _visible() -> Iterator[Path]:
    """Files and folders that a command may read: Python, its packages, the course, and no solutions."""
    yield Path("/usr")
    for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
        if Path(name).exists():
            yield Path(name)
    roots = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parents[1]}
    yield from sorted(root for root in roots if not root.is_relative_to("/usr"))
    yield PACKAGE


def seen(place: Path) -> Path | None:
    """The visible folder that a place lies in, where a command would find it; None where it would not."""
    real = place.resolve()
    if any(real.is_relative_to(folder.resolve()) for folder in _hidden()):
        return None
    return next((folder for folder in _visible() if real.is_relative_to(folder.resolve())), None)


def _hidden() -> Iterator[Path]:
    """Folders inside what is visible that a submission must not read."""
    for folder in map(Path, sys.path):
        for name in ("solutions", "authoring"):
            if (folder / name).is_dir() and any(folder.is_relative_to(p) for p in _visible()):
                yield folder / name


@once
def _driver() -> tuple[Path, ...]:
    """The GPU's driver as the loader finds it. No GPU is inside, and compilers ask what they find."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, timeout=20).stdout
        found = {Path(path).resolve() for path in re.findall(r"=> (/\S*/libcuda\.so\S*)", listed)}
        return tuple(path for path in sorted(found) if any(path.is_relative_to(p) for p in _visible()))
    return ()


def _variables() -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": HOME,
        "XDG_CACHE_HOME": CACHE,
        "PYTHONPATH": str(PACKAGE.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }


def _bubblewrap(
    command: Sequence[str],
    limits: Limits,
    folder: Path,
    readable: Readable,
    hidden: Sequence[Path],
    info: int,
    rules: int,
) -> list[str]:
    size = str(limits.file + (64 << 20))
    wrapped = [
        "bwrap",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
    ]
    wrapped += [
        "--die-with-parent",  # its session is new already
        "--clearenv",
        "--hostname",
        "course",
        "--cap-drop",
        "ALL",
    ]
    if os.geteuid() == 0:
        # root within a user namespace is still root to the files of /proc/sys: become nobody instead
        wrapped += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
        user = USERS + os.getpid()
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
        command = [*become, "--bounding-set=-all", "--inh-caps=-all", *command]
    else:
        wrapped += ["--unshare-user", "--disable-userns", "--uid", str(USER), "--gid", str(USER)]
    wrapped += ["--info-fd", str(info)]
    if os.fstat(rules).st_size:
        wrapped += ["--seccomp", str(rules)]
    for name in ("/bin", "/sbin", "/lib", "/lib64", "/lib32"):
        if os.path.islink(name):
            wrapped += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            wrapped += ["--ro-bind", name, name]
    wrapped += ["--proc", "/proc", "--dev", "/dev"]
    for place in WRITABLE:  # before what is visible, which may lie below one of them
        wrapped += ["--perms", "1777", "--size", size, "--tmpfs", place]
    for path in _visible():
        for parent in reversed(path.parents[:-1]):
            wrapped += ["--dir", str(parent)]  # of mode 0755; what bubblewrap makes by itself is its owner's
        wrapped += ["--ro-bind", str(path), str(path)]
    for path in hidden:
        wrapped += ["--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path)]
    for path in _driver():
        wrapped += ["--ro-bind", "/dev/null", str(path)]
    for path, inside in readable:
        for parent in reversed(Path(inside).relative_to(HOME).parents[:-1]):
            wrapped += ["--perms", "1777", "--dir", f"{HOME}/{parent}"]
        wrapped += ["--ro-bind", str(path), inside]
    wrapped += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", HOME]
    for name, value in _variables().items():
        wrapped += ["--setenv", name, value]
    return [*wrapped, "--", *command]


def _podman(
    command: Sequence[str],
    limits: Limits,
    folder: Path,
    readable: Readable,
    hidden: Sequence[Path],
    info: int,
    rules: int,
) -> list[str]:
    """The same files over an empty root, so no image is needed; the limits are those that it inherits."""
    size = limits.file + (64 << 20)
    root = folder / "root"
    root.mkdir()
    wrapped = ["podman", "run", "--rm", "--interactive", "--name", folder.name, "--pidfile"]
    wrapped += [str(folder / PIDFILE), "--network", "none", "--hostname", "course", "--log-driver", "none"]
    wrapped += ["--read-only", "--read-only-tmpfs=false", "--no-hosts", "--passwd=false"]
    for name, most in (("nofile", NOFILE), ("nproc", NPROC)):  # podman's own may be above what is allowed
        wrapped += ["--ulimit", f"{name}={most}:{most}"]
    wrapped += ["--cgroups", "disabled"]  # without systemd's delegation, only root has any
    wrapped += ["--cap-drop", "all", "--security-opt", "no-new-privileges", "--user", f"{USER}:{USER}"]
    wrapped += ["--security-opt", "label=disable"]  # SELinux would refuse the machine's own files
    wrapped += ["--workdir", HOME, "--timeout", str(int(limits.seconds) + 5), "--unsetenv-all"]
    for name in ("/bin", "/sbin", "/lib", "/lib64", "/lib32"):
        if os.path.islink(name):
            (root / name.lstrip("/")).symlink_to(os.readlink(name))
        elif os.path.isdir(name):
            wrapped += ["--volume", f"{name}:{name}:ro"]
    for path, inside in (*((path, str(path)) for path in _visible()), *readable):
        wrapped += ["--volume", f"{path}:{inside}:ro"]
    for path in hidden:
        wrapped += ["--tmpfs", f"{path}:ro,size=4k,notmpcopyup"]
    for path in _driver():
        wrapped += ["--volume", f"/dev/null:{path}:ro"]
    for place in WRITABLE:
        wrapped += ["--tmpfs", f"{place}:rw,size={size},mode=1777,notmpcopyup"]
    for name, value in _variables().items():
        wrapped += ["--env", f"{name}={value}"]
    return [*wrapped, "--rootfs", str(root), *command]


def _unsafe(command: Sequence[str], *_: object) -> list[str]:
    return list(command)


def _outside() -> dict[str, str]:
    """The environment of the program that makes the sandbox; nothing of it goes inside."""
    names = ("PATH", "HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    return {name: os.environ[name] for name in names if name in os.environ}


def _environment(folder: Path) -> dict[str, str]:
    return _variables() | {"HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
