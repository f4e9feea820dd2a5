"""A learner's factory in a forked child: each way to end it is a reason in words, and the process that asked
goes on.
"""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from course_utils.artifact import Place
from course_utils.compile import cache, child
from course_utils.compile import cute as cute_compiler
from course_utils.compile import tilelang as tilelang_compiler
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, compile_factory, compile_sizes
from course_utils.compile.load import load_factory, load_factory_source, plant, solution_path

REPO = Path(__file__).parents[2]
SIZE = (128, 128, 64)
COMPILERS = {"tilelang": tilelang_compiler, "cute": cute_compiler}


def solution(dsl):
    return load_factory(solution_path("step01", dsl))


def factory(body, ahead=""):
    """``gemm`` with this body, which then returns step 1's kernel in TileLang."""
    source = f"import ctypes, os, signal, sys, threading, time\n{ahead}\n\ndef gemm(M, N, K):\n"
    source += textwrap.indent(textwrap.dedent(body), "    ") + "\n    return right(M, N, K)\n"
    gemm = load_factory_source(source, "mine")
    gemm.__globals__["right"] = solution("tilelang")
    return gemm


def refused(gemm, *words, stage="trace", dsl="tilelang", size=SIZE) -> CompileError:
    """The reason, which holds these words."""
    with pytest.raises(CompileError) as caught:
        compile_factory(gemm, dsl, size)
    text = str(caught.value)
    assert caught.value.stage == stage and all(word in text for word in words), (caught.value.stage, text)
    return caught.value


@pytest.fixture(autouse=True)
def nothing_left():
    """No process, open file, thread or folder that was not there before."""

    def there():
        files = len(os.listdir("/proc/self/fd"))
        tasks = Path("/proc/self/task").iterdir()
        children = sorted(pid for task in tasks for pid in (task / "children").read_text().split())
        return files, threading.active_count(), sorted(cache.work_folder().iterdir()), children

    cache.work_folder()
    before = there()
    yield
    assert there() == before


# -- ways to die


@pytest.mark.parametrize(
    "body, words",
    [
        ("ctypes.string_at(0)", ["crashed (SIGSEGV)", "line 6: ctypes.string_at(0)"]),
        ("os.abort()", ["crashed (SIGABRT)", "gave up", "line 6: os.abort()"]),
        ("os.kill(os.getpid(), signal.SIGFPE)", ["crashed (SIGFPE)", "line 6"]),
        ("os.kill(os.getpid(), signal.SIGKILL)", ["killed (SIGKILL)", "memory runs out"]),
        ("os.kill(os.getpid(), signal.SIGTERM)", ["signal SIGTERM"]),
        ("os._exit(0)", ["exit code 0", "os._exit()", "return the kernel instead"]),
        ("os._exit(7)", ["exit code 7"]),
        ("sys.exit(3)", ["gemm called sys.exit()", "line 6: sys.exit(3)"]),
        ("raise KeyboardInterrupt", ["raised KeyboardInterrupt", "line 6: raise KeyboardInterrupt"]),
        ("raise GeneratorExit", ["raised GeneratorExit", "line 6"]),
        ("raise Own('words')", ["raised Own: words", "line 6: raise Own"]),
        ("raise Mute", ["raised Mute: (its own text cannot be had: __str__ raised ZeroDivisionError)"]),
        ("bytes(1 << 40)", ["more than 2 GB of memory", "line 6: bytes(1 << 40)"]),
        ("return gemm(M, N, K)", ["RecursionError"]),
        ("os.close(1)", ["closed its output"]),
        ("sys.stdout.close()", ["closed its output"]),
        ("os.closerange(3, 100)", ["exit code 1"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_way_to_die_is_a_reason(body, words):
    ahead = (
        "class Own(BaseException): pass\nMute = type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})"
    )
    refused(factory(body, ahead), *words)


def test_the_place_of_a_refusal_comes_as_a_place():
    """From the child, and from its stack where it died."""
    error = refused(factory("raise ValueError('no')"))
    place = Place("kernel_mine.py", 5, "raise ValueError('no')")
    assert (error.text, error.place, error.under) == ("gemm(128, 128, 64) raised ValueError: no", place, "")
    crash = refused(factory("os.abort()"), "crashed")
    assert crash.place == Place("kernel_mine.py", 5, "os.abort()")
    assert crash.under.startswith("Look at what this line is given: ")


def test_a_forgotten_retile():
    """MLIR aborts: registers of the accumulator's layout go to shared memory by another one's tiled copy."""
    right = "cute.copy(to_shared, my_out.retile(out), my_out.partition_D(D_shared))"
    gemm = plant("step04", "cute", (right, right.replace("my_out.retile(out)", "out")))
    refused(
        gemm,
        "compiling gemm(512, 256, 320) crashed (SIGABRT)",
        "Failed to infer result type(s)",
        "line 78: cute.copy(to_shared, out, my_out.partition_D(D_shared))",
        "retile",
        stage="lower",
        dsl="cute",
        size=(512, 256, 320),
    )
    assert compile_factory(solution("cute"), "cute", SIZE).grid == (1, 1, 1)


def test_a_factory_that_sleeps(monkeypatch):
    monkeypatch.setattr(child, "ASLEEP", 0.3)
    refused(factory("time.sleep(9)"), "did nothing for 0.3 s", "line 5: time.sleep(9)")


def test_a_child_that_slept_is_tried_again(monkeypatch, tmp_path):
    """As one does whose parent had a thread that held a lock."""
    monkeypatch.setattr(child, "ASLEEP", 0.5)
    once = f"if not os.path.exists({str(tmp_path / 'once')!r}):\n    open({str(tmp_path / 'once')!r}, 'w')\n"
    gemm = factory(once + "    time.sleep(9)")
    with closing(compile_sizes(gemm, "tilelang", [SIZE, SIZE])) as made:
        assert [compiled.artifact.grid for compiled in made] == [(1, 1, 1)] * 2


def test_an_endless_factory(monkeypatch):
    monkeypatch.setattr(child, "LIMIT", 0.3)
    ahead = "def spin():\n    while True: pass"
    refused(factory("spin()", ahead), "did not end within 0.3 s", "line 3: while True: pass")
    refused(factory("time.sleep(100)"), "did not end within 0.3 s", "line 5: time.sleep(100)")
    stubborn = "for n in (signal.SIGABRT, signal.SIGTERM): signal.signal(n, signal.SIG_IGN)\nwhile True: pass"
    refused(factory(stubborn), "did not end within 0.3 s")


def test_memory_that_grows_without_end(monkeypatch):
    monkeypatch.setattr(child, "MEMORY", 64 << 20)
    refused(factory("held = []\nwhile True: held.append(bytes(1 << 20))"), "of memory", "line 6: while True")


def test_the_course_itself_at_fault(monkeypatch):
    """Is no fault of the learner's: ``check_gemm`` says that the checker failed."""
    monkeypatch.setattr(tilelang_compiler, "_pipelined", lambda *_: {}["nothing"])
    with pytest.raises(RuntimeError, match="KeyError: 'nothing'"):
        compile_factory(solution("tilelang"), "tilelang", SIZE)


def test_words_in_the_pipe_of_answers():
    body = """
        frame = sys._getframe()
        while not hasattr(frame.f_locals.get('self'), '_writing'):
            frame = frame.f_back
        os.write(frame.f_locals['self']._writing, b'\\0' * 100)
    """
    refused(factory(body), "wrote into the pipe that its compiler answers through")


# -- what does not end it


@pytest.mark.parametrize(
    "body",
    [
        "threading.Thread(target=time.sleep, args=(1000,)).start()",
        "if os.fork() == 0: time.sleep(1000)",
        "os.fork()",
        "os.chdir('/')",
        "os.environ['PATH'] = ''",
    ],
)
def test_what_a_factory_leaves_behind_ends_with_it(body):
    begin = time.monotonic()
    assert compile_factory(factory(body), "tilelang", SIZE).grid == (1, 1, 1)
    assert time.monotonic() - begin < 30 and Path.cwd() != Path("/")


def test_a_child_of_the_factory_is_killed(tmp_path):
    body = f"pid = os.fork()\nif not pid: time.sleep(1000)\nopen('{tmp_path}/pid', 'w').write(str(pid))"
    compile_factory(factory(body), "tilelang", SIZE)
    stray = int((tmp_path / "pid").read_text())
    limit = time.monotonic() + 5
    while time.monotonic() < limit:  # whoever adopts it reaps it
        try:
            state = Path(f"/proc/{stray}/stat").read_text().split()[2]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.01)
    pytest.fail("it still runs")


@pytest.mark.parametrize("dsl", DSLS)
def test_the_same_artifact_as_in_this_process(dsl):
    """Size after size in one child, in either order of the DSLs, and from any thread."""
    gemm = load_factory(solution_path("step02", dsl))
    sizes = [(128, 128, 128), (128, 128, 192)]
    here = [COMPILERS[dsl].compile_kind(gemm, "gemm", *size) for size in sizes]
    assert [made.artifact for made in compile_sizes(gemm, dsl, sizes)] == here
    found = []
    thread = threading.Thread(target=lambda: found.append(compile_factory(gemm, dsl, sizes[1])))
    thread.start()
    thread.join()
    assert found == here[1:]


def test_checks_one_after_the_other_in_both_dsls():
    made = [compile_factory(solution(dsl), dsl, SIZE) for dsl in (*DSLS, *reversed(DSLS), *DSLS)]
    assert made[0] == made[3] == made[4] and made[1] == made[2] == made[5]


def test_globals_of_the_notebook_are_seen_as_they_are_now():
    gemm = factory("assert stages == 4")
    gemm.__globals__["stages"] = 3
    refused(gemm, "AssertionError", "line 5: assert stages == 4")
    gemm.__globals__["stages"] = 4
    assert compile_factory(gemm, "tilelang", SIZE)


def test_a_kernel_is_kept_and_found_again(monkeypatch):
    """In the cache that all processes share."""
    compile_factory(solution("cute"), "cute", SIZE)
    monkeypatch.setattr(cute_compiler, "_catch_launches", lambda *_: os.abort())
    assert compile_factory(solution("cute"), "cute", SIZE)


def test_the_precompiled_header_serves_children(monkeypatch, tmp_path):
    """NVRTC maps it where it lay when it was made, also in a fork."""
    log, real = tmp_path / "log", tilelang_compiler.nvrtc._compile

    def compile_(text, options):
        made = real(text, options)
        with log.open("a") as file:
            file.write(made[2])
        return made

    monkeypatch.setattr(tilelang_compiler.nvrtc, "_compile", compile_)
    gemm = plant("step01", "tilelang", ("import tilelang.language as T", "import tilelang.language as T"))
    size = (128, 128, 64)
    monkeypatch.setattr(cache, "read", lambda key: None)
    compile_factory(gemm, "tilelang", size)  # which makes it, where there is none yet
    log.unlink()
    compile_factory(gemm, "tilelang", size)
    assert "using precompiled header file" in log.read_text()


# -- what is printed


def test_what_a_factory_prints_comes_with_its_kernel():
    libc = "ctypes.CDLL(None).printf(b'by C\\n')"
    body = f"print('M is', M)\nos.write(1, b'by hand\\n')\n{libc}\nprint('to stderr', file=sys.stderr)"
    one, two = compile_sizes(factory(body), "tilelang", [SIZE, SIZE])
    assert sorted(one.printed.splitlines()) == ["M is 128", "by C", "by hand"]
    assert two.printed == one.printed
    error = refused(factory("print('before')\nos.abort()"), "SIGABRT")
    assert error.printed == ""  # Python had it still in its own memory
    error = refused(factory("print('before', flush=True)\nos.abort()"), "SIGABRT")
    assert error.printed == "before\n"
    assert refused(factory("print('before')\nraise ValueError('x')"), "ValueError: x").printed == "before\n"


def test_what_tilelang_makes_of_a_kernel_is_not_printed():
    gemm = plant("step04", "tilelang", ("full = T.alloc_barrier(1)", "full = T.alloc_barrier(one)"))
    with pytest.raises(CompileError, match="one") as refused:
        compile_factory(gemm, "tilelang", (128, 128, 64))
    assert refused.value.printed == ""


def test_much_is_cut():
    (made,) = compile_sizes(factory("for _ in range(100): print('\\u00e9' * 50_000)"), "tilelang", [SIZE])
    assert len(made.printed) == child.PRINTED and made.printed.startswith("éé")
    assert made.printed.endswith("... (10,000,100 bytes in all)")


def test_print_without_end(monkeypatch):
    monkeypatch.setattr(child, "FILE", 1 << 20)
    error = refused(factory("while True: print('again' * 1000)"), "OSError", "File too large")
    assert len(error.printed) == child.PRINTED


# -- the process that asks


def test_an_interrupt_ends_the_child_and_goes_up():
    pids = []
    gemm = factory("time.sleep(1000)")
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    real = os.fork

    def fork():
        pids.append(real())
        if pids[-1]:
            timer.start()  # now: Python drops an interrupt that comes while it forks
        return pids[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fork", fork)
        with pytest.raises(KeyboardInterrupt):
            compile_factory(gemm, "tilelang", SIZE)
    timer.join()
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()


def test_who_stops_asking_ends_the_child():
    gemm = factory("if M == 256: time.sleep(1000)")
    with closing(compile_sizes(gemm, "tilelang", [SIZE, (256, 128, 64)])) as compiled:
        assert next(compiled).artifact.grid == (1, 1, 1)


def test_handlers_and_output_are_as_they_were(capfd):
    before = signal.getsignal(signal.SIGINT), sys.stdout, sys.stderr, os.getpgid(0)
    compile_factory(
        factory("print('inside')\nsignal.signal(signal.SIGINT, signal.SIG_IGN)"), "tilelang", SIZE
    )
    assert (signal.getsignal(signal.SIGINT), sys.stdout, sys.stderr, os.getpgid(0)) == before
    assert capfd.readouterr() == ("", "")


def test_what_is_not_yet_written_is_written_once(tmp_path):
    path = tmp_path / "text"
    with path.open("w") as file:
        file.write("once")
        refused(factory("sys.exit()"))
    assert path.read_text() == "once"


def test_a_killed_check_takes_its_child_along(tmp_path):
    script = f"""
        import os, time
        from course_utils.compile.factory import compile_factory
        def gemm(M, N, K):
            open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()) + " ")
            time.sleep(1000)
        compile_factory(gemm, "cute", (128, 128, 64))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], env={**os.environ, "PYTHONPATH": str(REPO)}
    )
    path, limit = tmp_path / "pid", time.monotonic() + 60
    while not (path.exists() and path.read_text().endswith(" ")) and time.monotonic() < limit:
        time.sleep(0.05)
    process.kill()
    process.wait()
    pid = int(path.read_text())
    while Path(f"/proc/{pid}").exists() and time.monotonic() < limit:
        if Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    assert time.monotonic() < limit


@pytest.mark.thorough  # changes with the compiler
@pytest.mark.parametrize("dsl", DSLS)
def test_importing_a_dsl_starts_no_threads(dsl):
    """A fork would not have them."""
    script = f"""
        import os
        os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
        import time
        from course_utils.compile import {dsl}
        {dsl}.prepare()
        for _ in range(100):
            if len(os.listdir("/proc/self/task")) == 1:
                break
            time.sleep(0.05)
        print(len(os.listdir("/proc/self/task")))
    """
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True
    )
    assert ran.stdout == "1\n", ran.stderr[-2000:]
