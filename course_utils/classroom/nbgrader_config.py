"""nbgrader's configuration for this course, where nbgrader looks for it: in the class's folder, or, so that a
learner's Validate has these limits too, in /etc/jupyter on a hub.

    cp course_utils/classroom/nbgrader_config.py build/class/
"""

from nbformat.notebooknode import NotebookNode
from nbgrader.preprocessors import (
    CheckCellMetadata,
    ClearOutput,
    ClearSolutions,
    ComputeChecksums,
    IncludeHeaderFooter,
    LockCells,
    NbGraderPreprocessor,
    OverwriteCells,
    OverwriteKernelspec,
    SaveCells,
)

c = get_config()  # type: ignore[name-defined]  # noqa: F821  nbgrader gives it

# A check of step 10 takes 15 s on an idle core and four times as much on a busy machine; one that hangs ends
# by its own clocks. nbgrader's 30 s for a cell, 60 for a kernel to start and 4 for its last words fail honest
# notebooks.
c.Execute.timeout = 600
c.Execute.startup_timeout = 300
c.Execute.iopub_timeout = 60


class OneOfEach(NbGraderPreprocessor):
    """Takes nbgrader's metadata from each cell but the last of one ``grade_id``, and from cells that have
    none.

    nbgrader's DeduplicateIds leaves empty metadata there, which is then read as that of an old version and
    ends the run: everybody after a learner who copied a check cell would stay ungraded.
    """

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        seen = set()
        for cell in reversed(nb.cells):
            told = cell.metadata.get("nbgrader")
            name = told.get("grade_id") if isinstance(told, dict) and "schema_version" in told else None
            if isinstance(name, str) and name not in seen:
                seen.add(name)
            elif cell.metadata.pop("nbgrader", None) is not None:
                self.log.warning(
                    "A copy of a cell, or a cell of elsewhere, is not graded: %.60r", cell.source
                )
        return nb, resources


class AsGiven(ClearSolutions):
    """Cuts what stands between markers, and leaves an exercise without markers as it is.

    nbgrader's own would put one stub in the place of the whole cell.
    """

    def preprocess_cell(
        self, cell: NotebookNode, resources: dict, cell_index: int
    ) -> tuple[NotebookNode, dict]:
        self._replace_solution_region(cell, resources["language"])
        return cell, resources


c.GenerateAssignment.preprocessors = [
    IncludeHeaderFooter,
    LockCells,
    AsGiven,
    ClearOutput,
    CheckCellMetadata,
    ComputeChecksums,
    SaveCells,
]

c.Autograde.sanitize_preprocessors = [
    ClearOutput,
    OneOfEach,
    OverwriteKernelspec,
    OverwriteCells,
    OneOfEach,  # OverwriteCells takes the grade_id from a cell of another notebook
    CheckCellMetadata,
]
