"""A class as tasks of Ray, one of which is killed. Skipped where Ray, an extra, is not installed."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="pip install -e '.[ray]'")

from course_utils.classroom import on_ray, sandbox  # noqa: E402
from course_utils.classroom.grading import Settings, jobs  # noqa: E402
from course_utils.classroom.submissions import Submission  # noqa: E402

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sandbox.available(), reason="no sandbox on this machine"),
]


def _tasks():
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if place.read_bytes().startswith(b"ray::judge_one"):
                yield int(place.parent.name)
        except OSError:
            pass


def test_a_task_that_is_killed_runs_again(tmp_path):
    class_ = [
        Submission(f"l{n}", {"step05-cute": f"import time; time.sleep(1); raise ValueError({n})"})
        for n in range(4)
    ]
    settings = Settings(tmp_path / "ledger", None, "seed", sandbox.available()[0])
    todo, heard, killed = jobs(class_, settings), {}, []

    def kill():
        deadline = time.monotonic() + 60
        while not killed and time.monotonic() < deadline:
            for pid in _tasks():
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)
                break
            time.sleep(0.05)

    thread = threading.Thread(target=kill)
    thread.start()
    on_ray.judge_all(todo, settings, lambda job, record: heard.update({job: record}), num_cpus=2)
    thread.join()
    assert killed and len(heard) == 4 and all(heard.values())
    again = {}
    on_ray.judge_all(todo, settings, lambda job, record: again.update({job: record}), num_cpus=2)
    assert again == heard  # from the ledger
