"""The scripts that hand a class to other engines, run against stubs of these."""

import itertools
import os
import shlex
import subprocess
from pathlib import Path

import pytest

from course_utils.classroom import grading
from course_utils.classroom.grading import Settings
from course_utils.classroom.submissions import Submission
from course_utils.cli import grade
from course_utils.cli.parser import parser

FOLDER = Path(grading.__file__).parent
COURSE = '#!/bin/bash\nprintf "%q " "$@" >> "$RECORD"; echo >> "$RECORD"\n'
SBATCH = """#!/bin/bash
# as Slurm: sbatch --array=FIRST-LAST[,...] [--cpus-per-task=N] SCRIPT ARGUMENTS; each task in its own shell
export SLURM_CPUS_PER_TASK=16
while [[ $1 == --* ]]; do
  case $1 in
    --array=*) tasks=$(for part in $(tr , ' ' <<< "${1#*=}"); do seq ${part%-*} ${part#*-}; done) ;;
    --cpus-per-task=*) SLURM_CPUS_PER_TASK=${1#*=} ;;
  esac
  shift
done
export SLURM_ARRAY_TASK_COUNT=$(wc -w <<< "$tasks") SLURM_ARRAY_TASK_MIN=$(sort -n <<< "$tasks" | head -1)
for task in $tasks; do SLURM_ARRAY_TASK_ID=$task bash "$@" || exit; done
"""


@pytest.fixture
def stubs(tmp_path):
    """Runs a command beside stubs of ``course`` and ``sbatch``: its end, and what course was asked."""
    for name, text in {"course": COURSE, "sbatch": SBATCH}.items():
        (tmp_path / "bin" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    record = tmp_path / "asked"

    def run(*command, **variables):
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "RECORD": str(record), **variables}
        ended = subprocess.run(command, text=True, capture_output=True, env=environment, timeout=60)
        lines = record.read_text().splitlines() if record.exists() else []
        return ended, [parser().parse_args(shlex.split(line)) for line in lines]

    return run


@pytest.mark.parametrize("array", ["1-8", "0-7"])
def test_the_tasks_of_an_array_judge_a_class_between_them(array, stubs, tmp_path):
    ended, asked = stubs(
        "sbatch", f"--array={array}", FOLDER / "grade.sbatch", "a class", "out", "seed 1", "--backend", "gpu"
    )
    assert ended.returncode == 0, ended.stderr
    for one in asked:
        assert (one.folder, one.out) == (Path("a class"), Path("out"))
        assert (one.seed, one.processes, one.backend) == ("seed 1", 16, "gpu")
    class_ = [Submission(f"learner {n}", {"step05-cute": f"source {n}"}) for n in range(40)]
    settings = Settings(tmp_path / "ledger", None, "seed 1", "bubblewrap")
    parts = [grading.jobs(class_, settings, shard=grade._shard(one.shard)) for one in asked]
    judged = [job.entry.name for job in itertools.chain(*parts)]
    assert len(parts) == 8 and len(judged) == len(set(judged)) == 40


def test_one_task_alone_is_the_whole_class(stubs):
    _, (one,) = stubs(
        "sbatch", "--array=3", "--cpus-per-task=4", FOLDER / "grade.sbatch", "class", "out", "s"
    )
    assert (one.shard, one.processes) == ("1/1", 4)
    _, (_, two) = stubs("bash", FOLDER / "grade.sbatch", "class", "out", "s")  # without Slurm
    assert (two.shard, two.processes) == ("1/1", 1)


def test_a_seed_that_was_left_out_is_said(stubs):
    ended, asked = stubs("sbatch", "--array=1-2", FOLDER / "grade.sbatch", "class", "out")
    assert ended.returncode and "grade.sbatch FOLDER OUT SEED" in ended.stderr and not asked


GRADES = """#!/bin/bash
printf "%q " "$@" > "$RECORD"
mkdir -p "$4/gradescope" && ls "$2/learner" > "$4/gradescope/learner.json"
exit ${CODE:-0}
"""


@pytest.mark.parametrize("code, sandbox", [(0, False), (3, True), (2, False)])
def test_gradescope_gets_the_results_of_its_one_submission(code, sandbox, stubs, tmp_path):
    course = tmp_path / "source" / "course" / ".venv" / "bin" / "course"
    course.parent.mkdir(parents=True)
    course.write_text(GRADES)
    (tmp_path / "bin" / "bwrap").write_text(f"#!/bin/sh\nexit {0 if sandbox else 1}\n")
    for path in (course, tmp_path / "bin" / "bwrap"):
        path.chmod(0o755)
    for name in ("submission", "results"):
        (tmp_path / name).mkdir()
    (tmp_path / "submission" / "step05_cute.py").write_text("")
    ended, asked = stubs(FOLDER / "run_autograder", AUTOGRADER=str(tmp_path), CODE=str(code))
    results = tmp_path / "results" / "results.json"
    assert (ended.returncode == 0) == results.exists() == (code != 2)
    assert asked[0].unsafe is not sandbox
    assert code == 2 or results.read_text() == "step05_cute.py\n"
