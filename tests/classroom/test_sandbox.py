"""What a command in the sandbox cannot do, and what ends it."""

import fcntl
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from course_utils.classroom import sandbox
from course_utils.classroom.sandbox import Limits, SandboxError
from course_utils.classroom.seccomp import CLONE_NEWUSER, filter_of
from course_utils.compile import cache

pytestmark = pytest.mark.skipif(not sandbox.available(), reason="no sandbox on this machine")
ROOT = Path(__file__).parents[2]
SMALL = Limits(seconds=60, memory=1 << 29, processes=32, output=1 << 20, file=1 << 26)


def run(code, given=b"", limits=SMALL, **more):
    return sandbox.run([sys.executable, "-c", code], given, limits, **more)


def test_a_command_answers_what_it_is_given():
    ended = run("import sys; print(sys.stdin.read()[::-1]); sys.exit(3)", b"abc")
    assert (ended.code, ended.why, ended.output) == (3, "", b"cba\n")
    assert 0 < ended.seconds < 20


def test_large_input_and_output_cross_at_the_same_time():
    ended = run("import sys; sys.stdout.write(sys.stdin.read())", b"x" * 900_000)
    assert ended.output == b"x" * 900_000


def test_it_has_the_course_and_nothing_else_of_ours():
    code = f"import os, course_utils.artifact; print([sorted(os.listdir(p)) for p in ('/', {str(ROOT)!r})])"
    ended = run(code)
    assert ended.code == 0, ended.said
    assert b"course_utils" in ended.output
    for name in (b"solutions", b"notebooks", b"tests", b"authoring"):
        assert name not in ended.output


def test_it_says_what_a_submission_would_read(tmp_path):
    assert sandbox.seen(Path("/usr/src/app/class")) == Path("/usr")
    assert sandbox.seen(Path(sys.prefix) / "grades") and not sandbox.seen(tmp_path)
    (tmp_path / "link").symlink_to("/usr/share")
    assert sandbox.seen(tmp_path / "link" / "class") == Path("/usr")
    assert sandbox.seen(Path(sandbox.__file__)) and not sandbox.seen(ROOT / "solutions")


def test_its_environment_is_ours_alone(monkeypatch, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('taken')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SECRET", "token")
    ended = run("import os; print(sorted(os.environ), os.getuid())")
    assert b"taken" not in ended.output and b"SECRET" not in ended.output
    assert int(ended.output.split()[-1]) not in (0, os.getuid())


@pytest.mark.parametrize(
    "code",
    [
        f"open({str(ROOT / 'course_utils' / 'artifact.py')!r}, 'a')",
        "open('/usr/planted', 'w')",
        "open('/dev/planted', 'w')",
        "open('/planted', 'w')",
        "open('/etc/passwd')",
        "open('/proc/sys/kernel/core_pattern', 'w').write('|/tmp/x')",
        "import socket; socket.create_connection(('127.0.0.1', 22), 2)",
        "import socket; socket.create_connection(('1.1.1.1', 53), 2)",
        "import os; os.setuid(0)",
        "import os; os.kill(HOST, 9)",
        "import os; os.mkfifo('/work')",
    ],
    ids=lambda code: code.split("; ")[-1][:40],
)
def test_it_cannot(code):
    code = code.replace("HOST", str(os.getpid()))
    ended = run(f"try:\n    {code}\nexcept OSError as error:\n    print('refused')")
    assert ended.output == b"refused\n", ended.said


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("shmget", (0, 1 << 20, 0o1600)),
        ("unshare", (CLONE_NEWUSER,)),
        ("clone", (CLONE_NEWUSER | 17, 0, 0, 0, 0)),
        ("keyctl", (0, 0)),
        ("io_uring_setup", (1, 0)),
        ("socket", (40, 1, 0)),  # AF_VSOCK: to the machine below a virtual one
    ],
)
def test_system_calls_that_are_refused(name, arguments):
    code = f"""import ctypes, os, platform, threading
from course_utils.classroom.seccomp import ARCHITECTURES
libc = ctypes.CDLL(None, use_errno=True)
given = [ctypes.c_long(n) for n in {arguments}]
told = libc.syscall(ARCHITECTURES[platform.machine()][1][{name!r}], *given)
if told == 0: os._exit(0)
thread = threading.Thread(target=lambda: print(told, os.strerror(ctypes.get_errno())))
print(told, os.strerror(ctypes.get_errno()))
thread.start(); thread.join()"""
    assert run(code).output.startswith(b"-1 Operation not permitted\n-1"), run(code).said


def test_a_source_may_await():
    assert run("import asyncio; print(asyncio.run(asyncio.sleep(0, 3)))").output == b"3\n"


def test_it_stays_one_group_to_the_scheduler_and_lets_others_go_first():
    code = """import os
group = '/proc/self/autogroup'
def where(): print(os.nice(0), open(group).read() if os.path.exists(group) else '', flush=True)
where()
if not os.fork(): os.setsid(); where()
else: os.wait()
"""
    first, second = run(code).output.decode().strip().split("\n\n")
    assert first == second and first.startswith(f"{min(19, os.nice(0) + sandbox.NICE)} ")


@pytest.mark.parametrize(
    "change",
    ["os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))", "os.setpriority(os.PRIO_PROCESS, 0, 19)",
     "os.sched_setaffinity(0, {0})"],
)  # fmt: skip
def test_it_cannot_put_itself_last(change):
    """Who waits for a processor long enough is taken for a victim of a busy machine."""
    where = "print(os.sched_getscheduler(0), os.nice(0), os.sched_getaffinity(0))"
    before, after = run(f"import os\n{where}\n{change}\n{where}").output.splitlines()
    assert before == after


def test_a_machine_without_a_filter_of_ours_has_none():
    assert filter_of("riscv64") == b"" and len(filter_of("x86_64")) == len(filter_of("aarch64"))


# one child after the other, each of which works for a moment; and how its parent has that forgotten
WORKS = """import ctypes, os, signal, struct, time
libc = ctypes.CDLL(None)
{forget}
while True:
    if not os.fork():
        if {orphan} and os.fork(): os._exit(0)
        while time.process_time() < 0.05: pass
        os._exit(0)
    try:
        while True: os.wait()
    except ChildProcessError: pass
"""
IGNORE = "signal.signal(signal.SIGCHLD, signal.SIG_IGN)"
NOBODY_WAITS = "libc.sigaction(17, struct.pack('=Q128siiQ', 0, b'', 2, 0, 0), None)  # SA_NOCLDWAIT"
BOMBS = {
    "time": ("while True: pass", "did not end within 1 s"),
    "a clock of its own": (
        "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\nwhile True:\n  try:\n    pass\n"
        "  except:\n    pass",
        "did not end within 1 s",
    ),
    "closed streams": ("import os, time\nos.close(1); os.close(2)\ntime.sleep(99)", "did not end within 1 s"),
    "stopped by itself": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        "did not end within 1 s",
    ),
    "memory": (
        "import os, time\nfor _ in range(8):\n"
        "  if not os.fork(): x = bytearray(100 << 20); time.sleep(9)\ntime.sleep(9)",
        "of memory",
    ),
    "work": ("import os\nfor _ in range(4): os.fork()\nwhile True: pass", "processor time"),
    "work of children that are ignored": (WORKS.format(forget=IGNORE, orphan=0), "processor time"),
    "work of children that leave nothing": (WORKS.format(forget=NOBODY_WAITS, orphan=0), "processor time"),
    "work of orphans that are ignored": (
        WORKS.format(forget=f"{IGNORE}; libc.prctl(36, 1)", orphan=1),  # PR_SET_CHILD_SUBREAPER
        "processor time",
    ),
    "files in its folders": (
        "import time\nfor p in '/tmp', '/dev/shm', '.':\n"
        "  open(p + '/x', 'wb').write(bytes(60 << 20))\ntime.sleep(99)",
        "of memory",
    ),
    "files in memory": ("import os\nwhile True: os.write(os.memfd_create('x'), bytes(1 << 25))", "of memory"),
    "empty files": (
        "import os, time\nfor i in range(200_000): os.mknod(f'/tmp/{i}')\ntime.sleep(99)",
        "of memory",
    ),
    "sockets' buffers": (
        "import socket, time\nkept = [socket.socketpair() for _ in range(240)]\ntime.sleep(99)",
        "of memory",
    ),
    "memory, whose main threads have ended": (
        "import ctypes, os, platform, threading, time\n"
        "def keep():\n  kept = bytearray(100 << 20); time.sleep(99)\n"
        "for _ in range(8):\n  if not os.fork():\n    threading.Thread(target=keep).start()\n"
        "    ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)\n"
        "time.sleep(99)",
        "of memory",
    ),
    "page tables": (
        "import mmap, time\nn = 1 << 37\n"
        "m = mmap.mmap(-1, n, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)\n"
        "for i in range(0, n, 1 << 21): m[i]\ntime.sleep(99)",
        "of memory",
    ),
    "memory, with its streams closed": (
        "import os, time\nos.close(1); os.close(2)\nfor _ in range(8):\n"
        "  if not os.fork(): x = bytearray(100 << 20); time.sleep(9)\ntime.sleep(9)",
        "of memory",
    ),
    "processes": (
        "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
        "more than 32 processes",
    ),
    "threads": (
        "import threading, time\nwhile True:\n  try: threading.Thread(target=time.sleep, args=(9,)).start()\n"
        "  except RuntimeError: pass",
        "more than 32 processes",
    ),
    "output": ("import os\nwhile True: os.write(1, bytes(1 << 16))", "answered with more than 1 MB"),
    "noise": ("import os\nwhile True: os.write(2, bytes(1 << 16))", "did not end within 1 s"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_it_is_ended_from_outside(bomb):
    code, why = BOMBS[bomb]
    seconds = 1 if "1 s" in why else 60
    began = time.monotonic()
    small = "files in its folders", "empty files", "page tables", "sockets' buffers"
    memory = 1 << 27 if bomb in small else 1 << 29
    ended = run(code, limits=Limits(seconds, memory, 32, 1 << 20, 1 << 26, work=2))
    assert ended.code is None
    assert why in ended.why
    assert time.monotonic() - began < 90
    assert len(ended.said) <= sandbox.CHUNK and len(ended.output) <= 1 << 20


def test_a_disk_is_not_filled():
    code = "for i in range(9):\n  open(f'/tmp/{i}', 'wb').write(bytes(60 << 20))"
    assert "No space left" in run(code).said


@pytest.mark.parametrize("signal", ["9", "15", "19"])
def test_it_kills_nobody_but_itself(signal):
    ended = run(f"import os, sys\nprint(1); sys.stdout.flush()\nos.kill(-1, {signal})\nprint(2)")
    assert ended.output.startswith(b"1")
    assert run("print(3)").output == b"3\n"


def test_nothing_outlives_it():
    mark = f"course-sandbox-{os.getpid()}"
    code = "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\n"
    code += f"open('/proc/self/comm', 'w').write('{mark[:15]}')\ntime.sleep(60)"
    assert run(code).code == 0
    deadline = time.monotonic() + 60
    while _running(mark[:15]):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_nothing_is_left_of_a_sandbox_that_is_ended_while_it_is_made(monkeypatch):
    moments = iter(range(40))
    monkeypatch.setattr(sandbox._Watch, "until_it_ends", lambda *_: time.sleep(next(moments) / 4000))
    mark = f"{os.getpid()}.5"
    for _ in range(40):
        sandbox.run(["sleep", mark], b"", SMALL)
    deadline = time.monotonic() + 10
    while left := [path for path in Path("/proc").glob("[0-9]*/cmdline") if mark.encode() in _bytes(path)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def _bytes(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _running(name):
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            found.append(path.read_text().strip() == name)
        except OSError:
            pass
    return any(found)


@pytest.mark.parametrize("freed", [2, 0])
def test_who_took_the_machines_memory_ends_and_for_others_it_is_a_fault(freed, monkeypatch, tmp_path):
    """``freed``: how often its limit comes back with its end, though nothing of it was counted."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    ended, free = [], sandbox.SPARE - 1
    end = sandbox._Watch._end
    monkeypatch.setattr(sandbox._Watch, "_end", lambda watch: (end(watch), ended.append(watch)))
    monkeypatch.setattr(sandbox, "_free", lambda: free + (freed * SMALL.memory if ended else 0))
    if freed:
        assert "of memory" in run("import time; time.sleep(99)").why
    else:
        with pytest.raises(SandboxError, match=sandbox.OUT_OF_MEMORY):
            run("import time; time.sleep(99)")


def test_one_ends_at_a_time_for_want_of_memory(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / cache.NAME).mkdir()
    monkeypatch.setattr(sandbox, "_free", lambda: sandbox.SPARE - 1)
    with open(tmp_path / cache.NAME / f"memory-{os.uname().nodename}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another one's turn
        assert run("import time; time.sleep(0.3); print(3)").output == b"3\n"


def test_a_thread_that_ends_while_it_is_looked_at_hides_no_other(monkeypatch):
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(99)"])
    try:
        listed = os.listdir
        monkeypatch.setattr(sandbox.os, "listdir", lambda path: ["0", *listed(path)])
        told = sandbox._used(os.getpid())
        assert told.threads >= len(listed("/proc/self/task")) + 3  # the child's, and two that are no more
        assert told.memory > sandbox._held([f"/proc/{os.getpid()}/task/{os.getpid()}"]) > 0
    finally:
        child.kill()
        child.wait()


def test_of_threads_that_wait_for_each_other_one_counts():
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        time.sleep(0.5)
        told = sandbox._used(os.getpid()).ready
        tasks = [task for pid in (os.getpid(), *(one.pid for one in busy)) for task in _tasks(pid)]
        waited = [int((task / "schedstat").read_text().split()[1]) / 1e9 for task in tasks]
        assert 0 < told <= max(waited) and len(waited) > 4
    finally:
        for one in busy:
            one.kill()
            one.wait()


def _tasks(pid):
    return Path(f"/proc/{pid}/task").iterdir()


def test_who_waits_for_others_was(monkeypatch):
    used = sandbox._used
    monkeypatch.setattr(sandbox, "_used", lambda root: replace(used(root), ready=61.0))
    with pytest.raises(SandboxError, match="too busy"):
        run("import time; time.sleep(99)", limits=replace(SMALL, seconds=0.5, work=60))


def test_what_it_cannot_start_is_the_machines_fault(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match="there is no sandbox 'chroot'"):
        run("", form="chroot")
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxError, match="uid map: Permission denied"):
        run("print(1)", form="bubblewrap")
    assert "Permission denied" in sandbox.problem("bubblewrap")


def test_unsafe_keeps_the_clock_alone():
    ended = run("while True: pass", limits=Limits(seconds=1), form="unsafe")
    assert "did not end within 1 s" in ended.why


needs_podman = pytest.mark.skipif(bool(sandbox.problem("podman")), reason="no podman that works")
ATTEMPTS = """import os, socket
def refused(what, *arguments):
    try:
        what(*arguments)
    except OSError:
        return True
places = COURSE, "/usr/planted", "/planted", "/proc/sys/kernel/core_pattern"
print([refused(open, path, "a") for path in places],
      refused(socket.create_connection, ("1.1.1.1", 53), 2), refused(os.setuid, 0), os.getuid(),
      "solutions" in os.listdir(ROOT), "SECRET" in os.environ, sorted(os.listdir("/run")))
""".replace("COURSE", repr(str(ROOT / "course_utils" / "artifact.py"))).replace("ROOT", repr(str(ROOT)))


@needs_podman
def test_podman_walls_off_the_same(monkeypatch):
    monkeypatch.setenv("SECRET", "token")
    ended = run(ATTEMPTS, form="podman")
    words = f"[True, True, True, True] True True {sandbox.USER} False False []\n"
    assert ended.output.decode().replace("['.containerenv']", "[]") == words, ended.said


@needs_podman
def test_podman_hides_a_folder_that_is_full():
    """A file system in memory begins with a copy of what it hides, unless podman is told otherwise."""
    hidden = ROOT / "course_utils" / "figures"
    ended = run(f"import os; print(os.listdir({str(hidden)!r}))", form="podman", hidden=[hidden])
    assert ended.output == b"[]\n", ended.said


@needs_podman
@pytest.mark.parametrize("bomb", ["time", "memory", "output"])
def test_podman_is_ended_from_outside(bomb):
    code, why = BOMBS[bomb]
    limits = Limits(2 if "1 s" in why else 20, 1 << 29, 32, 1 << 20, 1 << 26)
    assert why.replace("1 s", "2 s") in run(code, limits=limits, form="podman").why
    left = subprocess.run(["podman", "ps", "--all", "--format", "{{.Names}}"], capture_output=True, text=True)
    assert "course-grade" not in left.stdout


def test_a_podman_that_starts_nothing_is_the_machines_fault(monkeypatch, tmp_path):
    (tmp_path / "podman").write_text("#!/bin/sh\necho 'crun: cgroups in hybrid mode' >&2\nexit 126\n")
    (tmp_path / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(SandboxError, match="podman: crun: cgroups in hybrid mode"):
        run("print(1)", form="podman")
    assert "hybrid mode" in sandbox.problem("podman") and "podman" not in sandbox.available()
