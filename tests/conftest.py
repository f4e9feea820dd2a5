"""What holds for a whole run: how many processes, where caches and temporary files go, and what may be left.

Tests marked `gpu` run on a Hopper GPU and skip everywhere else.
"""

import fcntl
import gc
import os
import re
import shutil
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from xdist.scheduler import LoadScopeScheduling

from tests.every_run import EVERY_RUN

PROCESSES = 4  # at most: each holds a GB of torch and both DSLs
WORKER = "PYTEST_XDIST_WORKER"  # in the environment of a process that runs tests for another


# jsonschema, which nbformat asks, would compile a grammar for a format that no notebook has: 1.4 s a process
sys.modules["rfc3987_syntax"] = None
gc.disable()  # what is imported and collected from here on stays: to look at it again and again finds nothing


def hopper_missing():
    """Why the GPU tests cannot run here, or None if they can."""
    try:
        import torch  # takes seconds, so only once a GPU test is collected
    except ImportError:
        return "torch is not installed"
    if not torch.cuda.is_available():
        return "no GPU"
    major, minor = torch.cuda.get_device_capability()
    return None if major == 9 else f"the GPU is sm_{major}{minor}, not Hopper"


def pytest_xdist_auto_num_workers():
    """A process for each core, and one in all where there is a GPU: nothing may run beside what is timed.

    One more would keep the cores busy where a test waits, and costs more: it imports and collects too.
    """
    return 1 if Path("/dev/nvidia0").exists() else min(len(os.sched_getaffinity(0)), PROCESSES)


class Together(LoadScopeScheduling):
    """One test after the other to whichever process is free, but for those that belong together: whatever
    needs a GPU, or the browser, the README's commands, what reads all of the course's texts, what asks for
    the run of one notebook, and what asks for the same kernel or picture, which one process then makes once.
    (pytest-xdist 3.8.0 has a mark for groups, which pytest 9.2 does not let it set.)
    """

    def _split_scope(self, nodeid):
        file, _, name = nodeid.partition("::")
        if (
            name.startswith("test_commands_run[")
            or "run/gpu/" in file
            or file.endswith(
                ("test_browser.py", "test_t5.py", "test_symptom_map.py", "drills/test_layouts.py")
            )
        ):
            return file
        if file.endswith(("test_solutions.py", "test_drawings.py")):
            return f"{file}[{name.partition('[')[2]}"  # by step and DSL; by picture
        notebook = (
            re.search(r"\[((?:\d\d[a-z]?|[at]\d|b\d\d)_\w+?)(?:-\w+)?\]$", name)
            if file.endswith("test_notebooks.py")
            else None
        )
        return notebook[1] if notebook else nodeid


def pytest_xdist_make_scheduler(config, log):
    return Together(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Temporary files and the course's cache in a folder of this run, so that it starts cold and what it
    leaves is seen. ``COURSE_TEST_CACHE`` names a cache that outlives the run: `make test` has one in build/.
    """
    if WORKER in os.environ:
        return  # the environment came from the process that started this one
    config.course_folder = Path(tempfile.mkdtemp(prefix="course-tests-"))
    cache = os.environ.get("COURSE_TEST_CACHE") or str(config.course_folder / "cache")
    (config.course_folder / "tmp").mkdir()
    # never empty: CuTe DSL removes its folder in there, and every empty folder above it
    (config.course_folder / "tmp" / "keep").touch()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each process would compile this course's Python anew
    os.environ["PYTEST_DEBUG_TEMPROOT"] = tempfile.gettempdir()  # tmp_path stays where people look for it
    os.environ["XDG_CACHE_HOME"] = cache
    # malloc asks for huge pages: a fork copies fewer entries, and a compile takes fewer faults
    os.environ["GLIBC_TUNABLES"] = "glibc.malloc.hugetlb=1"
    # the other core runs other tests
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["TMPDIR"] = tempfile.tempdir = str(config.course_folder / "tmp")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Folders of the course's in the temporary folder are a fault: killed processes would fill the disk.

    Looked at once the processes that ran the tests have ended; the folders of one that still runs may stay.
    """
    folder = getattr(session.config, "course_folder", None)
    if folder is None:
        return
    if getattr(session.config.option, "numprocesses", None):
        left = sorted(path.name for path in (folder / "tmp").glob("hopper-course*"))
        if left:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            session.config.course_left = left


def pytest_terminal_summary(terminalreporter, config):
    if left := getattr(config, "course_left", None):
        terminalreporter.section("left in the temporary folder", red=True)
        terminalreporter.line(f"{len(left)} folders: {', '.join(left[:5])}")


def pytest_unconfigure(config):
    if folder := getattr(config, "course_folder", None):
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)


def pytest_addoption(parser):
    parser.addoption("--thorough", action="store_true", help="run those too that are one of many of a kind")


def pytest_collection_modifyitems(config, items):
    _leave_to_thorough(items)
    if not config.getoption("--thorough"):
        config.hook.pytest_deselected(items=[i for i in items if i.get_closest_marker("thorough")])
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    items.sort(key=_turn)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = hopper_missing() if marked else None
    if reason:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=reason))


def _leave_to_thorough(items):
    """Mark what EVERY_RUN does not name. Raises UsageError for a name that no test has."""
    named = {}
    for item in items:
        file = item.path.relative_to(Path(__file__).parent).as_posix()
        parameters = item.callspec.id if hasattr(item, "callspec") else ""
        for where, name in ((file, item.originalname), (f"{file}::{item.originalname}", parameters)):
            if where in EVERY_RUN:
                named.setdefault(where, set()).add(name)
                if name not in EVERY_RUN[where]:
                    item.add_marker(pytest.mark.thorough)
    for where, names in named.items():
        if gone := EVERY_RUN[where] - names:
            raise pytest.UsageError(f"tests/every_run.py names no test of {where}: {sorted(gone)}")


def _turn(item):
    """What others wait for comes first, then what is long, so that no process is idle at the end; the
    notebooks after the other long ones, for they are what waits.
    """
    slow = item.get_closest_marker("slow")
    if slow is None:
        return 3
    return 0 if slow.kwargs.get("first") else 2 if "executed" in item.fixturenames else 1


def pytest_collection_finish():
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)  # as in the processes of the course itself
    gc.enable()


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder of this run that all its processes see."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if WORKER in os.environ else own


@pytest.fixture(scope="session")
def forked(once):
    """The folder of this run's ``forked_kernels``: kernels of notebooks, and nbgrader."""
    with once("forked") as folder:
        if not folder.exists():
            from tests.notebooks import forked_kernels

            folder.symlink_to(tempfile.mkdtemp(prefix="forked-"), target_is_directory=True)
            forked_kernels.started(folder, os.getppid() if WORKER in os.environ else os.getpid())
    return folder


@pytest.fixture(scope="session")
def once(shared):
    """``with once(name) as path``: ``path`` in the shared folder is held by this process alone. Who finds it
    missing makes it, and the others find it made.
    """

    @contextmanager
    def held(name):
        path = shared / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.with_name(f".{path.name}.lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield path

    return held


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A cell's working directory, empty, in a shell."""
    from IPython.core.interactiveshell import InteractiveShell

    monkeypatch.chdir(tmp_path)
    InteractiveShell.instance()  # display() and its handles are what they are in a kernel


@pytest.fixture
def person(monkeypatch):
    """A shell like a notebook's, in which somebody could type."""
    parent = {"content": {"allow_stdin": True}}
    shell = SimpleNamespace(kernel=None, get_parent=lambda: parent)
    for room in ("show", "learner"):
        monkeypatch.setattr(f"course_utils.drills.{room}.get_ipython", lambda: shell)
    return parent
