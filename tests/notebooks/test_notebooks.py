"""Every notebook: in the fixed order, in step with solutions/, graded by nbgrader, and run to its end
unsolved and solved.
"""

import ast
import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from authoring import drawings, sync
from course_utils.compile.factory import DSLS, OPEN
from course_utils.compile.faults import kernels
from course_utils.figures import theme
from course_utils.grading import steps
from course_utils.recordings import measured
from course_utils.run import backends
from course_utils.run.emulator.explain.words import KINDS
from tests.notebooks import forked_kernels
from tests.notebooks.depending import depending

PATHS = sorted(sync.NOTEBOOKS.glob("*.ipynb"))
OF = {steps.notebook_of(name): step for name, step in steps.STEPS.items()}
STEPS = [path for path in PATHS if path.stem.partition("_")[0] in OF]
# Of the Blackwell notebooks `make test` runs one: their kernels are judged in tests/grading too
ONE_OF_BLACKWELL = "b05"


def is_rare(path):
    number = path.stem.partition("_")[0]
    return number in steps.BLACKWELL_STEPS and number != ONE_OF_BLACKWELL


RUN = [pytest.param(path, id=path.stem, marks=[pytest.mark.thorough] * is_rare(path)) for path in PATHS]
SECTIONS = [
    "What you will learn",
    "Background",
    "What changed from",
    "The TileLang kernel",
    "The same step in CuTe DSL",
    "Read the receipt",
    "Performance",
    "What can go wrong",
    "What's next",
]
MEASURED = re.compile(r"\d[\d.,]* ?(TFLOP|TB/s of|% of cuBLAS|of cuBLAS|times cuBLAS|ms\b|us\b|microseconds)")


def read(path):
    return nbformat.read(path, as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def prose(notebook):
    return "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")


def graded(notebook):
    """grade_id to cell, of the cells that give points."""
    return {
        c.metadata.nbgrader.grade_id: c for c in code(notebook) if c.metadata.get("nbgrader", {}).get("grade")
    }


def step_of(path):
    return OF[path.stem.partition("_")[0]]


# -- what a reader sees


def test_there_is_a_notebook_for_the_start_and_for_every_step():
    names = [path.stem for path in PATHS]
    assert names[0] == "00_start_here"
    numbers = [path.stem.partition("_")[0] for path in STEPS]
    assert [f"step{number}" for number in numbers] == list(steps.STEPS)


@pytest.mark.parametrize("path", STEPS, ids=lambda p: p.stem)
def test_sections_come_in_the_fixed_order(path):
    headings = re.findall(r"^## (.+)$", prose(read(path)), re.M)
    assert [next((s for s in SECTIONS if h.startswith(s)), h) for h in headings] == SECTIONS


@pytest.mark.parametrize("path", STEPS, ids=lambda p: p.stem)
def test_title_names_step_points_and_time(path):
    step = step_of(path)
    first = read(path).cells[0].source
    assert re.match(rf"# Step {int(step.id[4:])}: ", first)
    assert "**Time**" in first and f"{step.points} in TileLang, {step.points} in CuTe DSL" in first


@pytest.mark.parametrize("path", STEPS, ids=lambda p: p.stem)
def test_hints_fold_and_predictions_come_before_answers(path):
    text = prose(read(path))
    assert text.count("<details>") == text.count("</details>") >= 4
    assert re.search(r"<summary>Hint", text)
    experiments = sum("what_if(" in cell.source or "try_out(" in cell.source for cell in code(read(path)))
    assert text.count("**Predict.**") + experiments >= 2


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_no_figure_is_typed_in_prose(path):
    assert [m[0] for m in MEASURED.finditer(prose(read(path)))] == []


@pytest.mark.parametrize("path", [*PATHS, *sync.NOTEBOOKS.glob("*.md")], ids=lambda p: p.stem)
def test_links_and_pictures_lead_somewhere(path):
    text = prose(read(path)) if path.suffix == ".ipynb" else path.read_text()
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        assert link.startswith("https://") or (sync.NOTEBOOKS / link).exists(), link


@pytest.mark.parametrize("path", STEPS, ids=lambda p: p.stem)
def test_every_step_has_a_picture_with_words_for_who_cannot_see_it(path):
    pictures = re.findall(r"!\[([^\]]*)\]\(images/", prose(read(path)))
    assert pictures and all(len(words) > 30 for words in pictures)


def test_every_picture_is_drawn_by_code_and_used():
    text = "".join(prose(read(path)) for path in PATHS)
    used = set(re.findall(r"(?:\(|src=')images/([^)']+)\.svg", text))  # in a fold it is HTML
    assert (
        used == set(drawings.all_pictures()) == {path.stem for path in (sync.NOTEBOOKS / "images").glob("*")}
    )


@pytest.mark.parametrize("name", drawings.all_pictures())
def test_picture_is_as_its_code_draws_it(name):
    def rounded(text):  # the last digits may differ from one processor to another
        return re.sub(r"-?\d+\.\d+", lambda m: f"{float(m[0]):.1f}", text)

    assert rounded(theme.svg(drawings.all_pictures()[name]())) == rounded(
        (sync.NOTEBOOKS / "images" / f"{name}.svg").read_text()
    )


def test_symptom_map_names_every_finding_and_every_planted_fault():
    text = (sync.NOTEBOOKS / "symptom_map.md").read_text()
    faults = {name for dsl in DSLS for of in ("step", "t6", "a", "b") for name in kernels(dsl, of)}
    assert {name for name in faults | set(KINDS) if name not in text} == set()
    anchors = set(re.findall(r'<a id="([\w-]+)">', text))
    assert set(re.findall(r"\]\(#([\w-]+)\)", text)) <= anchors


# -- what the cells are


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_notebook_is_valid_and_in_step_with_the_solutions(path):
    notebook = read(path)
    nbformat.validate(notebook)
    assert sync.synchronised(notebook) == notebook, "run `course sync`"
    assert notebook.metadata.kernelspec.name == "python3"


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_every_cell_is_python_and_names_what_is_there(path):
    faults = {name for dsl in DSLS for name in kernels(dsl, "")}
    kept = {e["step"] for e in measured.load()["entries"]} | {
        e["name"] for e in measured.load("variants")["entries"]
    }
    there = {"what_if": faults, "recorded": kept}
    for cell in code(read(path)):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in there:
                names = node.args[:1] if node.func.id == "what_if" else node.args
                assert {a.value for a in names if isinstance(a, ast.Constant)} <= there[node.func.id]


@pytest.mark.parametrize("path", STEPS, ids=lambda p: p.stem)
def test_step_has_its_two_exercises_and_their_checks(path):
    notebook, step = read(path), step_of(path)
    ids = [c.metadata.nbgrader.grade_id for c in code(notebook) if "nbgrader" in c.metadata]
    assert ids == [f"{step.id}-{dsl}{end}" for dsl in DSLS for end in ("", "-check")]
    assert all(len(cell.source.splitlines()) == 1 for cell in graded(notebook).values())


def test_each_dsl_has_100_points():
    points = {
        dsl: sum(
            cell.metadata.nbgrader.points
            for path in STEPS
            for name, cell in graded(read(path)).items()
            if dsl in name and name.partition("-")[0] not in steps.PAST
        )
        for dsl in DSLS
    }
    assert points == {"tilelang": 100, "cute": 100}


# -- what happens when they run: each notebook once as released and once solved


NBGRADER_CONFIG = sync.NOTEBOOKS.parent / "course_utils" / "classroom" / "nbgrader_config.py"
LIMIT = 120  # seconds for a cell: one that hangs ends; the longest needs ten on an idle machine
NO_EXECUTION = """
from nbgrader.preprocessors import AssignLatePenalties, IgnorePattern, LimitOutput, SaveAutoGrades

c.Autograde.sanitize_preprocessors.remove(ClearOutput)
c.Autograde.autograde_preprocessors = [
    IgnorePattern, LimitOutput, SaveAutoGrades, AssignLatePenalties, CheckCellMetadata]
"""  # without ClearOutput and Execute: what was handed in has been executed already
# Of the kernels that notebook t3 gives for repair: what the check says in the emulator, the parts that fail
SYMPTOMS = {
    "t3a": ("is missing 16,384 of 49,152 bytes", {"results"}),
    "t3b": ("its last wait asked for parity 0", {"results"}),
    "t3c": ("fence.proxy.async", {"instructions", "results"}),
    "t3d": ("wait_group", {"instructions", "results"}),
    "t3e": ("has not waited for", {"results"}),
    "t3f": ("released empty[0] too early", {"results"}),
}
AT_ONE_SIZE = {"t3b": "wait for full[0], parity 0: phase"}  # at the others it reads too early
SIZES = {  # at which of the sizes that it tries each of them is right
    "t3b": [True, True, False, False],
    "t3d": [True, False],
    "t3e": [True, False, False, True, True],
    "t3f": [True, False],
}


@pytest.fixture(scope="session")
def nbgrader(forked):
    """Runs nbgrader in a course folder, its kernels forked; raises with its last words where it fails.
    README's commands run it, and kernels, as processes of their own.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # it calls alembic by name

    def run(folder, *arguments):
        ran = subprocess.run(
            # a busy machine may take more than the minute that a kernel has to start
            [*forked_kernels.nbgrader_of(forked), *arguments, "--Execute.startup_timeout=300"],
            cwd=folder,
            env={**os.environ, "PATH": path, "JUPYTER_PATH": str(forked)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert ran.returncode == 0, ran.stdout[-3000:]
        return ran.stdout

    return run


@pytest.fixture(scope="session")
def classroom(once, nbgrader):
    """An nbgrader course with this course as its one assignment, released: source, release, gradebook; and
    the solved copies.
    """
    with once("class") as folder:
        if not folder.exists():
            fresh = folder.with_name("class.new")
            shutil.copytree(
                sync.NOTEBOOKS, fresh / "source" / "ladder", ignore=shutil.ignore_patterns(".*", "progress.*")
            )
            sync.sync(out=fresh / "solved", solved=True)
            shutil.copy(NBGRADER_CONFIG, fresh)
            nbgrader(fresh, "generate_assignment", "ladder")
            fresh.rename(folder)
    return folder


# Cells that the solver runs for `make thorough` alone: they show something, in seconds, that tests of
# course_utils hold too
LONG = re.compile(
    r"""^(at_sizes|taken_out|epilogues|endings|time_parts)\(|timeline\((?!"step04")|^ladder\("""
    r"""|^try_out\("step07", raw|^look\(.*title=""",
    re.M,
)
LONG_CHECKS = {
    *(f"{name}-{dsl}-check" for name in steps.ATTENTION for dsl in DSLS if (name, dsl) != ("a1", "tilelang")),
    *(
        f"{name}-tilelang-check"
        for name in (*steps.STEPS, *steps.TASKS, *steps.BLACKWELL_STEPS)
        if name.startswith(("task", "b")) or name > "step05"
    ),
    *(f"{name}-cute-check" for name in steps.TASKS if not name.endswith("a")),
}


def asked(cells, thorough):
    """Of graded cells by grade_id: those that a solver's run executes."""
    return {name: cell for name, cell in cells.items() if thorough or name not in LONG_CHECKS}


def run_by(student, cells, thorough):
    """Places of the code cells that a student's run executes.

    A blank run leaves out those that show the same there, whatever the exercises hold: to run them again
    would find nothing. `make test` leaves out what takes seconds (LONG), and TileLang's checks from step 6
    on, which are emulated by themselves too; of the tasks it has the first of each notebook, in CuTe DSL.
    """
    places = depending(cells) if student == "blank" else range(len(cells))
    if thorough:
        return places
    checks = LONG_CHECKS if student == "solver" else set()
    return [
        n
        for n in places
        if not LONG.search(cells[n].source)
        and cells[n].metadata.get("nbgrader", {}).get("grade_id") not in checks
    ]


@pytest.fixture(scope="session")
def executed(classroom, once, forked, pytestconfig):
    """The path of a student's executed copy of a notebook: ``executed("blank", path)``, or "solver".

    All of a student's notebooks run in one folder, as nbgrader runs them, each once in a whole test run.
    """
    work = {"blank": classroom / "release" / "ladder", "solver": classroom / "solved"}

    def run(student, path):
        with once(f"submitted/{student}/ladder/{path.name}") as done:
            if not done.exists():
                folder = done.parents[3] / "running" / student
                shutil.copytree(work[student], folder, dirs_exist_ok=True)
                notebook = read(folder / path.name)
                thorough = pytestconfig.getoption("--thorough")
                kept = run_by(student, code(notebook), thorough)
                for place, cell in enumerate(code(notebook)):
                    cell.metadata["tags"] = [] if place in kept else ["skip-execution"]
                specs = KernelSpecManager(kernel_dirs=[str(forked / "kernels")], ensure_native_kernel=False)
                manager = AsyncKernelManager(kernel_name=forked_kernels.NAME, kernel_spec_manager=specs)
                client = NotebookClient(notebook, km=manager, timeout=LIMIT, allow_errors=True)
                environment = {**os.environ, "NBGRADER_EXECUTION": "autograde"}
                if not thorough:
                    environment[forked_kernels.ONE_SIZE] = "1"
                client.execute(cwd=str(folder), env=environment, cleanup_kc=True)
                nbformat.write(notebook, done)
        return done

    return run


def full_points(grade_id):
    """What this machine can give for a right answer."""
    name = grade_id.partition("-")[0]
    step = (steps.STEPS | steps.TASKS).get(name)
    untimed = step and step.speed_floor and backends.find_gpu()[0] is None
    return steps.points_of(name) - (steps.part_points(step, "speed") if untimed else 0)


def all_checks():
    """grade_id of every check of the course, to its points."""
    return {
        name: cell.metadata.nbgrader.points for path in PATHS for name, cell in graded(read(path)).items()
    }


def score(cell):
    return float(next(o.data["text/plain"] for o in cell.outputs if o.output_type == "execute_result"))


def words(cell):
    return "\n".join(o.get("text") or o.get("data", {}).get("text/plain", "") for o in cell.outputs)


@pytest.mark.slow(first=True)  # every notebook's run waits for the class that it makes
def test_released_notebooks_are_the_exercises_as_they_are_given(classroom):
    for path in PATHS:
        cells = read(classroom / "release" / "ladder" / path.name).cells
        assert [cell.source for cell in cells] == [cell.source for cell in read(path).cells]
        assert path not in STEPS or any("# TODO 1: " in cell.source for cell in cells)
    for case, (fault, dsl) in steps.REPAIRS.items():  # what is to be repaired comes broken
        notebook = read(classroom / "release" / "ladder" / "t3_async_proxy.ipynb")
        (cell,) = (
            c for c in code(notebook) if c.metadata.get("course", {}).get("exercise") == f"{case}-{dsl}"
        )
        assert cell.source == sync.exercise(case, dsl) != sync.exercise(case, dsl, solved=True), fault


@pytest.mark.slow
@pytest.mark.parametrize("student", ["blank", "solver"])
@pytest.mark.parametrize("path", RUN)
def test_notebook_runs_to_its_end_without_an_error(executed, student, path, pytestconfig):
    cells = code(read(executed(student, path)))
    run = run_by(student, cells, pytestconfig.getoption("--thorough"))
    assert all(cells[place].execution_count for place in run if cells[place].source)
    assert [
        o for cell in cells for o in cell.outputs if o.output_type == "error" or o.get("name") == "stderr"
    ] == []


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_a_blank_run_has_all_that_reads_an_exercise(path):
    """Exercises, checks and calls on a learner's function run; experiments with planted kernels do not."""
    cells = code(read(path))
    run = depending(cells)
    for place, cell in enumerate(cells):
        calls = re.search(
            r"(check|check_maps|check_copy)\(\"|timeline\(.*\bgemm\b|at_sizes\(gemm", cell.source
        )
        theirs = place in run or "wrong.gemm" in cell.source or "copies.check_copy" in cell.source
        assert theirs if calls or OPEN in cell.source else True, cell.source
        assert not (place in run and re.search(r"^what_if\(", cell.source, re.M)), cell.source


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN)
def test_unsolved_notebook_gives_no_points_and_says_why(executed, path):
    for name, cell in graded(read(executed("blank", path))).items():
        assert score(cell) == 0
        assert ("Look here first" if name.partition("-")[0] in steps.REPAIRS else "still open") in words(cell)


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN)
def test_solved_notebook_gives_all_points_that_this_machine_can_give(executed, path, pytestconfig):
    cells = asked(graded(read(executed("solver", path))), pytestconfig.getoption("--thorough"))
    assert {name: score(cell) for name, cell in cells.items()} == {name: full_points(name) for name in cells}


@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in PATHS if p.stem == "t3_async_proxy"], ids=lambda p: p.stem)
def test_broken_kernels_show_their_symptoms(executed, path, pytestconfig):
    """At some sizes only, where the notebook tries several (`make thorough`); and the check tells by what."""
    thorough = pytestconfig.getoption("--thorough")
    cells = code(read(executed("blank", path)))
    exercise, right = "", {}
    for cell in cells:
        exercise = cell.metadata.get("course", {}).get("exercise", exercise).partition("-")[0]
        if cell.source.startswith("at_sizes(") and cell.outputs:
            right[exercise] = [
                re.search(r"\d +right$", line) is not None
                for line in words(cell).splitlines()
                if re.match(r"\d", line)  # a size: not the table's head
            ]
        if cell.metadata.get("nbgrader", {}).get("grade"):
            word, failing = SYMPTOMS[exercise]
            assert (word if thorough else AT_ONE_SIZE.get(exercise, word)) in words(cell)
            assert set(re.findall(r"^  failed +(\S.*?)  ", words(cell), re.M)) == failing
    assert right == (SIZES if thorough else {})


@pytest.mark.slow
@pytest.mark.parametrize("path", RUN)
def test_nbgrader_validates_every_notebook(executed, path, pytestconfig):
    """Unsolved ones fail in their two checks and nowhere else; those that are solved pass, where they can
    have all points here.
    """
    from nbgrader.preprocessors import CheckCellMetadata  # here alone: the import takes a second
    from nbgrader.validator import Validator

    thorough = pytestconfig.getoption("--thorough")
    validator = Validator(preprocessors=[CheckCellMetadata])  # nbgrader's list, without what executes
    found = validator.validate(str(executed("blank", path)))
    checks = len(graded(read(path)))
    assert set(found) == ({"failed"} if checks else set()) and len(found.get("failed", ())) == checks
    cells = graded(read(path))
    whole = asked(cells, thorough) == cells
    if whole and all(full_points(name) == cell.metadata.nbgrader.points for name, cell in cells.items()):
        assert validator.validate(str(executed("solver", path))) == {}


@pytest.mark.thorough  # README's commands do
@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in PATHS if p.stem == "t4_group_modes"], ids=lambda p: p.stem)
def test_nbgrader_itself_runs_and_validates(classroom, nbgrader, path):
    """nbgrader's own execution, in a kernel of its own. README's commands grade a solved notebook so."""
    checks = len(graded(read(path)))
    text = nbgrader(classroom / "release" / "ladder", "validate", path.name)
    assert f"VALIDATION FAILED ON {checks} CELL(S)" in text


@pytest.mark.slow
def test_validate_passes_a_right_kernel_whose_speed_this_machine_cannot_measure(nbgrader, tmp_path):
    """The smallest notebook that has one: what step 3 imports, its solution in TileLang, and the check."""
    notebook = read(sync.NOTEBOOKS / "03_spatial_tiling.ipynb")
    first = next(cell for cell in code(notebook) if not cell.metadata.get("course", {}).get("strip"))
    mine = [cell for cell in code(notebook) if "step03-tilelang" in str(cell.metadata)]
    mine[0].source = sync.exercise("step03", "tilelang", solved=True)
    notebook.cells = [first, *mine]
    nbformat.write(notebook, tmp_path / "03.ipynb")
    assert "Success!" in nbgrader(tmp_path, "validate", "03.ipynb")


@pytest.mark.slow
def test_nbgrader_adds_up_the_same_points(classroom, executed, nbgrader, tmp_path):
    """Executed work handed in: nbgrader puts its own cells back, reads every score and adds up. Five
    notebooks: steps, a copy, maps and repairs. With the course's configuration, a check cell that the first
    learner has copied costs nobody anything.
    """
    some = [path for path in PATHS if path.stem.partition("_")[0] in ("01", "05", "t1", "t2", "t3")]
    shutil.copytree(classroom, tmp_path, dirs_exist_ok=True)
    (tmp_path / "nbgrader_config.py").write_text(NBGRADER_CONFIG.read_text() + NO_EXECUTION)
    for student in ("blank", "solver"):
        folder = tmp_path / "submitted" / student / "ladder"
        folder.mkdir(parents=True)
        for path in some:
            shutil.copy(executed(student, path), folder)
    twice = tmp_path / "submitted" / "blank" / "ladder" / some[0].name
    notebook = read(twice)
    (*_, check) = graded(notebook).values()
    notebook.cells.append(nbformat.from_dict({**check, "id": "copied"}))
    nbformat.write(notebook, twice)
    nbgrader(tmp_path, "autograde", "ladder")
    nbgrader(tmp_path, "export")
    rows = {row["student_id"]: row for row in csv.DictReader((tmp_path / "grades.csv").open())}
    scores = {student: (float(row["score"]), float(row["max_score"])) for student, row in rows.items()}
    right = sum(full_points(name) for path in some for name in graded(read(path)))
    most = sum(all_checks().values())  # of the whole assignment, handed in or not
    assert scores == {"blank": (0, most), "solver": (right, most)}
