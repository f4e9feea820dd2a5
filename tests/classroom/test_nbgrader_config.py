"""The configuration of nbgrader that the course ships: its limits, and what becomes of copied cells.

tests/notebooks grades a class with it.
"""

from pathlib import Path

import nbformat
import pytest
from traitlets.config.loader import PyFileConfigLoader

from course_utils.compile import child
from course_utils.run import backends

FOLDER = Path(__file__).parents[2] / "course_utils" / "classroom"


@pytest.fixture(scope="module")
def config():
    return PyFileConfigLoader("nbgrader_config.py", str(FOLDER)).load_config()


def test_a_check_that_ends_by_its_own_clocks_is_not_cut(config):
    assert config.Execute.timeout > 2 * (child.LIMIT + backends.EMULATOR_LIMIT)
    assert config.Execute.startup_timeout >= 300 and config.Execute.iopub_timeout >= 60


def cell(text, told):
    return nbformat.v4.new_code_cell(text, metadata={} if told is None else {"nbgrader": told})


def test_the_last_cell_of_a_name_is_graded_and_metadata_of_nothing_goes(config):
    def named(name):
        return {"schema_version": 3, "grade_id": name, "grade": True}

    cells = [
        cell("text", None), cell("first", named("a")), cell("b", named("b")), cell("last", named("a")),
        cell("empty", {}), cell("a number", 3), cell("old", {"grade_id": "c"}), cell("list", named(["d"])),
    ]  # fmt: skip
    one_of_each = next(p for p in config.Autograde.sanitize_preprocessors if p.__name__ == "OneOfEach")
    notebook, _ = one_of_each().preprocess(nbformat.v4.new_notebook(cells=cells), {})
    assert [c.source for c in notebook.cells if "nbgrader" in c.metadata] == ["b", "last"]
    assert [c.source for c in notebook.cells] == [c.source for c in cells]  # nothing else is touched
