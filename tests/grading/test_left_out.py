"""What the author left out and TileLang inserted: seen, said at the line that suffers, and not worth all
points.
"""

from dataclasses import replace

import pytest

from course_utils.compile.factory import compile_factory
from course_utils.compile.faults import table
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import steps
from course_utils.grading.gemm import judge
from course_utils.ptx import added
from course_utils.run.backends import Emulator, Launch
from course_utils.run.protocol import Answer
from tests.grading.mistakes import SIZE, require_said

RIGHT = Answer(ok=True, facts={"ran": 1})
LEFT_OUT = [fault for fault in table() if fault.put_back]


@pytest.mark.parametrize("fault", LEFT_OUT, ids=lambda fault: fault.name)
def test_what_the_compiler_put_back_is_not_the_authors(fault):
    verdict = require_said(fault)
    parts = {part.name: part for part in verdict.checks}
    assert parts["results"].passed
    wanted = len(steps.find(fault.step).requires) + len(steps.find(fault.step).forbids)
    lost = bool(fault.fails)
    assert parts["instructions"].points == pytest.approx(
        parts["instructions"].max_points * (1 - lost / wanted)
    )
    met = parts["instructions"].points / parts["instructions"].max_points
    assert parts["results"].points == pytest.approx(parts["results"].max_points * (met / 2 if lost else 1))


def test_the_launch_that_is_tried_again_is_the_one_that_shows_most():
    """A few CTAs of a large size: in a persistent step the first of them has several tiles."""

    class Machine(Emulator):
        asked = ()

        def run(self, launches):
            self.asked = tuple(launches)
            return super().run(self.asked)

    step, machine = steps.find("step04"), Machine()
    gemm = load_factory(solution_path("step04", "tilelang"))
    few, every = (
        Launch(size, compile_factory(gemm, "tilelang", size), ctas=ctas) for size, ctas in step.emulated[:2]
    )
    assert few.ctas and not every.ctas
    judge(step, "tilelang", machine, [(every, RIGHT), (few, RIGHT)])
    (tried,) = machine.asked
    assert (tried.size, tried.ctas) == (few.size, few.ctas) and tried.artifact.ptx != few.artifact.ptx


@pytest.mark.parametrize(
    "step, barriers, fences",
    [("step03", (2, 0), (1, 0)), ("step04", (2, 3), (1, 0)), ("step07", (2, 2), (1, 0))],
)
def test_what_is_the_authors_is_told_from_what_the_compiler_added(step, barriers, fences):
    """The barrier that opens a kernel, after its mbarriers are made, is the compiler's and stays."""
    artifact = compile_factory(load_factory(solution_path(step, "tilelang")), "tilelang", SIZE)
    assert added.counts(artifact, added.BARRIERS) == barriers
    assert added.counts(artifact, added.FENCES) == fences


def test_a_kernel_to_which_nothing_was_added_is_itself():
    artifact = compile_factory(load_factory(solution_path("step04", "cute")), "cute", SIZE)
    assert added.without(artifact) is None
    assert added.without(replace(artifact, source="", origins=())) is None
