"""Code cells fit the page, import what is there, and notebook 7's optional kernel is what its table says."""

import ast
import importlib
import re
from functools import cache

import nbformat
import pytest

from authoring import sync
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import BEGIN, SOLUTIONS, load_factory, solution_path
from course_utils.grading.gemm import check_gemm
from course_utils.ptx import receipts

WIDTH = 96  # columns, as in solutions/ruff.toml
PATHS = sorted(sync.NOTEBOOKS.glob("*.ipynb"))
RAW, PIPELINE = "raw07", "step07"


def code(path):
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def too_wide(cells):
    return [line for cell in cells for line in cell.source.splitlines() if len(line) > WIDTH]


def generated(cell):
    return "generated" in cell.metadata.get("course", {})


@cache
def compiled(name):
    return compile_factory(load_factory(solution_path(name, "cute")), "cute", (512, 256, 320))


def counted(name, instruction):
    return compiled(name).ptx.count(instruction)


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_cells_written_by_hand_are_at_most_96_columns_wide(path):
    assert too_wide(cell for cell in code(path) if not generated(cell)) == []


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_exercise_cells_are_at_most_96_columns_wide(path):
    assert too_wide(cell for cell in code(path) if generated(cell)) == []


@pytest.mark.parametrize("path", PATHS, ids=lambda p: p.stem)
def test_cells_import_from_this_course_what_is_there(path):
    for cell in code(path):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ImportFrom) and node.module.startswith(("course_utils", "authoring")):
                assert node.module.startswith("course_utils"), "no learner imports what writes the notebooks"
                module = importlib.import_module(node.module)
                for name in (alias.name for alias in node.names):
                    assert hasattr(module, name) or importlib.import_module(f"{node.module}.{name}")


def test_the_raw_kernel_is_no_exercise():
    source = solution_path(RAW, "cute").read_text()
    assert ast.get_docstring(ast.parse(source)).startswith("Step 7 with ")
    assert BEGIN not in source and "PipelineTmaAsync" not in source and "make_pipeline_state" not in source
    with pytest.raises(sync.SyncError, match="no region"):
        sync.exercise(RAW, "cute")
    cells = code(sync.NOTEBOOKS / "07_warp_specialization.ipynb")
    (shown,) = (cell for cell in cells if "raw07_barriers.py" in cell.source)
    assert "try_out(" in shown.source and "nbgrader" not in shown.metadata


@pytest.mark.parametrize(
    "name",
    # the solved notebook 07 holds the points of its solution, tests/solutions its registers
    [RAW, pytest.param(PIPELINE, marks=pytest.mark.thorough)],
)
def test_both_forms_of_step_7_are_right_and_all_that_the_step_asks(name):
    gemm = load_factory(solution_path(name, "cute"))
    verdict = check_gemm("step07", gemm, "cute", "emulator")
    states = {part.name: part.state for part in verdict.checks}
    assert states.pop("speed") == "not run" and set(states.values()) == {"passed"}, verdict.diagnosis
    resources = compiled(name).resources
    assert (resources.spill_stores, resources.spill_loads, resources.stack_frame) == (0, 0, 0)


@pytest.mark.parametrize(
    "instruction, times",
    [
        (r"mbarrier.init.shared", 4),
        (r"fence.mbarrier_init", 1),
        (r"mbarrier.try_wait.parity", 2),
        (r"mbarrier.arrive.expect_tx", 1),
        (r"mbarrier::complete_tx::bytes", 2),
        (r"mbarrier.arrive.shared", 1),
    ],
)
def test_the_table_of_calls_and_instructions(instruction, times):
    """Pipeline object and raw kernel: the same mbarrier instructions, the same number of times."""
    assert counted(PIPELINE, instruction) == counted(RAW, instruction) == times


def test_only_the_arrivals_on_empty_differ():
    counts = {
        name: dict(receipts.table(receipts.read_ptx(compiled(name).ptx), compiled(name)))
        for name in (RAW, PIPELINE)
    }
    assert re.search(r"init 4 \(4 for 1 arrival\)", counts[RAW].pop("mbarriers"))
    assert re.search(r"init 4 \(2 for 1 arrival, 2 for 4 arrivals\)", counts[PIPELINE].pop("mbarriers"))
    assert counts[RAW] == counts[PIPELINE]


def test_files_of_the_course_that_a_cell_opens_are_there():
    opened = []
    for path in PATHS:
        for cell in nbformat.read(path, 4).cells:
            named = re.findall(r'SOLUTIONS((?: / "[^"]+")+)', cell.source) if cell.cell_type == "code" else []
            opened += [SOLUTIONS.joinpath(*re.findall(r'"([^"]+)"', parts)) for parts in named]
    assert opened and all(path.exists() for path in opened)
