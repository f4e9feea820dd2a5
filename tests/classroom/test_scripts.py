"""The scripts that hand a class to other engines, run against stubs of these."""

import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from course_utils.classroom import grading
from course_utils.classroom.grading import Settings
from course_utils.classroom.submissions import Submission
from course_utils.cli import grade
from course_utils.cli.parser import parser

FOLDER = Path(grading.__file__).parent
ROOT = FOLDER.parents[1]
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


# -- Gradescope's containers: a folder tree as its documentation has it


GRADES = """#!/bin/bash
printf "%q " "$@" > "$RECORD"
mkdir -p "$4/gradescope" && ls "$2/learner" > "$4/gradescope/learner.json"
exit ${CODE:-0}
"""
INSTALLS = """#!/bin/bash
echo "$(basename "$0") $*" >> "$RECORD"
"""


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture
def autograder(tmp_path):
    """/autograder as Gradescope makes it, and the course's programs in it stubs."""
    root = tmp_path / "autograder"
    for name in ("submission", "source/course"):
        (root / name).mkdir(parents=True)
    for name in ("setup.sh", "run_autograder"):
        shutil.copy(FOLDER / name, root / "source" / name)
    shutil.copy(FOLDER / "run_autograder", root / "run_autograder")  # where Gradescope calls it
    return root


@pytest.mark.parametrize("code, sandbox", [(0, False), (3, True), (2, False)])
def test_gradescope_gets_the_results_of_its_one_submission(code, sandbox, stubs, autograder, tmp_path):
    program(autograder / "source/course/.venv/bin/course", GRADES)
    program(tmp_path / "bin" / "bwrap", f"#!/bin/sh\nexit {0 if sandbox else 1}\n")
    (autograder / "submission" / "step05_cute.py").write_text("")
    ended, asked = stubs(autograder / "run_autograder", AUTOGRADER=str(autograder), CODE=str(code))
    results = autograder / "results" / "results.json"
    assert (ended.returncode == 0) == results.exists() == (code != 2)
    assert asked[0].unsafe is not sandbox and asked[0].step is None
    assert code == 2 or results.read_text() == "step05_cute.py\n"


def test_gradescope_grades_the_steps_that_the_zip_names(stubs, autograder):
    program(autograder / "source/course/.venv/bin/course", GRADES)
    steps = autograder / "source" / "steps.txt"
    steps.write_text("step05\n")
    ended, (one,) = stubs(autograder / "run_autograder", AUTOGRADER=str(autograder))
    assert ended.returncode == 0 and one.step == [str(steps)]


@pytest.mark.parametrize("old", [False, True])
def test_gradescopes_setup_installs_the_course_with_a_python_that_it_takes(old, stubs, autograder, tmp_path):
    for name in ("apt-get", "add-apt-repository", "make"):
        program(tmp_path / "bin" / name, INSTALLS)
    program(tmp_path / "bin" / "python3", f"#!/bin/sh\nexit {int(old)}\n")
    for name in ("pip", "course", "python"):
        program(autograder / "source/course/.venv/bin" / name, INSTALLS)
    environment = {"AUTOGRADER": str(autograder), "RECORD": str(tmp_path / "ran")}
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    ended = subprocess.run(
        [autograder / "source" / "setup.sh"], cwd=tmp_path, env={**os.environ, "PATH": path, **environment},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    ran = (tmp_path / "ran").read_text().splitlines()
    assert ran[0] == "apt-get update" and ran[1].startswith("apt-get install -y")
    assert ("add-apt-repository -y ppa:deadsnakes/ppa" in ran) is old
    assert f"make venv PYTHON={'python3.12' if old else 'python3'}" in ran
    assert "pip install -q -e .[lab,teach] -c requirements.lock" in ran and ran[-1].startswith("python -c")


def test_gradescopes_setup_that_fails_is_said(stubs, autograder, tmp_path):
    program(tmp_path / "bin" / "apt-get", "#!/bin/sh\nexit 100\n")
    ended, _ = stubs(autograder / "source" / "setup.sh", AUTOGRADER=str(autograder))
    assert ended.returncode == 100


def test_the_archive_of_the_setups_comment_has_what_gradescope_looks_for(tmp_path):
    told = (FOLDER / "setup.sh").read_text().replace("\\\n#", "")
    (command,) = (line for line in told.splitlines() if "git archive" in line)
    (tmp_path / "steps.txt").write_text("step05\n")
    out = tmp_path / "autograder.zip"
    words = [
        {"autograder.zip": str(out)}.get(word, word.replace("=steps.txt", f"={tmp_path / 'steps.txt'}"))
        for word in shlex.split(command.lstrip("# "))
    ]
    if subprocess.run(words, cwd=ROOT, capture_output=True).returncode:
        pytest.skip("no git checkout")
    with zipfile.ZipFile(out) as archive:
        modes = {entry.filename: entry.external_attr >> 16 for entry in archive.infolist()}
    assert all(modes[name] & 0o111 for name in ("setup.sh", "run_autograder"))
    assert "steps.txt" in modes and "course/Makefile" in modes and "course/course_utils/cli/grade.py" in modes


@pytest.mark.thorough
def test_the_course_itself_grades_in_gradescopes_tree(autograder):
    """What only Gradescope's container has is left out: its image, and the network for setup.sh."""
    program(
        autograder / "source/course/.venv/bin/course",
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m course_utils.cli "$@"\n',
    )
    (autograder / "source" / "steps.txt").write_text("step01-cute\nstep02-cute\n")
    shutil.copy(ROOT / "solutions/cute/step01_single_tile.py", autograder / "submission/step01_cute.py")
    environment = os.environ | {"AUTOGRADER": str(autograder), "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        [autograder / "run_autograder"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    results = json.loads((autograder / "results" / "results.json").read_text())
    told = [(one["name"], one["score"], one["max_score"], one["output"]) for one in results["tests"]]
    assert told == [("step01-cute", 5.0, 5, "all parts passed"), ("step02-cute", 0.0, 5, "not handed in")]
    assert results["score"] == 5.0
