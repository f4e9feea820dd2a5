"""Which cells a blank run executes."""

import nbformat.v4
import pytest

from tests.notebooks.depending import depending

EXERCISE = {"nbgrader": {"solution": True, "grade": False}}
CHECK = {"nbgrader": {"solution": False, "grade": True}}
CELLS = [
    ("import os\nfrom course_utils.notebook import check, ladder, what_if", {}),
    ("size = 3\nother = 4", {}),
    ("def gemm(M):\n    raise NotImplementedError\n\nwidth = 2", EXERCISE),
    ("check('step01', gemm)", CHECK),
    ("mine = [gemm(size) for size in range(2)]", {}),
    ("print(width)", {}),  # what an exercise defines beside its function is given
    ("what_if('a_fault', None)", {}),
    ("def look(kernel):\n    return os.path.join(kernel, str(other))", {}),
    ("print(look(mine))", {}),
    ("ladder('step01')", {}),
    ("gemm = 3", {}),
    ("print(gemm)", {}),
]


def test_what_reads_an_exercise_runs_and_what_that_needs():
    cells = [nbformat.v4.new_markdown_cell("text")]
    cells += [nbformat.v4.new_code_cell(source, metadata=metadata) for source, metadata in CELLS]
    assert depending(cells) == {0, 1, 2, 3, 4, 7, 8, 9}


@pytest.mark.parametrize(
    "source, runs",
    [
        ("wrong.gemm(1)", False),  # another module's
        ("for gemm in ():\n    print(gemm)", False),
        ("gemm = gemm(1)", True),
        ("def again():\n    return gemm(1)", True),
        ("print(f'{gemm(1)}')", True),
    ],
)
def test_a_name_is_read_or_made(source, runs):
    cells = [nbformat.v4.new_code_cell(text, metadata=m) for text, m in (*CELLS[2:4], (source, {}))]
    assert (2 in depending(cells)) == runs
