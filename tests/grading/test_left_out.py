"""What the author left out and TileLang put back: seen, said at the line that suffers, and not worth all
points.
"""

from dataclasses import replace

import pytest

from course_utils.compile.factory import compile_factory
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import steps
from course_utils.grading.gemm import judge
from course_utils.ptx import added
from course_utils.run.backends import Emulator, Launch
from course_utils.run.protocol import Answer
from tests.grading.mistakes import SIZE, Mistake, require_said

MANY_TILES = (1536, 1536, 192)  # CTAs 0 to 11 have a second tile of 128 x 128
STORE_WAIT = "                    T.tma_store_wait(0)\n"
FIRST_SYNC = "                    T.sync_threads(1, 128)  # named barrier 1: the consumer's threads only\n"
SAID = ("that your code lacks here and TileLang put back", "without it")
RIGHT = Answer(ok=True, facts={"ran": 1})
LEFT_OUT = {
    "step 1 without its fence": Mistake(
        "step01",
        "tilelang",
        (("T.fence_proxy_async()", "pass"),),
        "instructions",
        (*SAID, "ordinary stores"),
        line="T.wgmma_gemm(",
        size=(128, 128, 64),
    ),
    "step 4 without the fence before the store": Mistake(
        "step04",
        "tilelang",
        (("T.fence_proxy_async()  # threads wrote", "pass  # threads wrote"),),
        "instructions",
        (*SAID, "ordinary stores"),
        line="T.tma_copy(D_shared",
    ),
    "step 4 without the barrier after the fence": Mistake(
        "step04",
        "tilelang",
        (("            T.sync_threads()\n            T.tma_copy(D", "            T.tma_copy(D"),),
        "instructions",
        SAID,
        line="T.tma_copy(D_shared",
    ),
    "step 7 without the barrier before D_shared is written again": Mistake(
        "step07",
        "tilelang",
        ((FIRST_SYNC, ""),),
        "instructions",
        SAID,
        line="T.copy(acc, D_shared)",
        size=MANY_TILES,
        ctas=(0, 1),
    ),
    "step 7 with the wait after the barrier": Mistake(
        "step07",
        "tilelang",
        ((STORE_WAIT + FIRST_SYNC, FIRST_SYNC + STORE_WAIT),),
        "instructions",
        SAID,
        line="T.copy(acc, D_shared)",
        size=MANY_TILES,
        ctas=(0, 1),
    ),
    "step 5 without the barrier that nothing needs": Mistake(  # one warp's wait covers its warpgroup's wgmma
        "step05",
        "tilelang",
        (("T.sync_threads()  # all warps together; the wait alone frees the stage\n", "\n"),),
        "",
    ),
    "step 7 with a barrier that TileLang narrows to the role": Mistake(
        "step07", "tilelang", ((FIRST_SYNC, FIRST_SYNC.replace("(1, 128)", "()")),), ""
    ),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_the_compiler_put_back_is_not_the_authors(name):
    mistake = LEFT_OUT[name]
    verdict = require_said(mistake)
    parts = {part.name: part for part in verdict.checks}
    assert parts["results"].passed
    wanted = len(steps.find(mistake.step).requires) + len(steps.find(mistake.step).forbids)
    lost = bool(mistake.part)
    assert parts["instructions"].points == pytest.approx(
        parts["instructions"].max_points * (1 - lost / wanted)
    )
    assert parts["results"].points == parts["results"].max_points / (1 + lost)


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
