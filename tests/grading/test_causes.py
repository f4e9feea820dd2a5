"""A verdict names the cause that the compiler, the stages or the numbers tell, at the line that has it."""

from __future__ import annotations

import ast
import inspect

import pytest

from course_utils import plans
from course_utils.compile.compiler_messages import explained
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import plant
from course_utils.grading import steps
from course_utils.grading.found import of_error
from course_utils.grading.plan import check_plan
from course_utils.grading.verdict import not_compiled

TL, CUTE = "tilelang", "cute"


@pytest.mark.parametrize(
    "message, words",
    [
        (
            "failed to partition `input` '!cute.shape<\"(128,96)\">' with `tiled_mma`",
            "does not divide a tile of 128 x 96",
        ),
        (
            "'cute.gemm' op expects memref/smem_desc_view for operand A, but gets A:!cute.memref<f16>.",
            "`make_fragment_A`",
        ),
        (
            "Expected affine layout for <x.MmaF16BF16Trait object at 0x7f>'s operand A, but got composed "
            "layout instead: S<3,4,3> o 0 o (64,16)",
            "`.inner` beside it",
        ),
        (
            "IR verification failed: 'cute_nvgpu.atom.set_value' op Invalid operand type for field tma_bar",
            "`cutlass.Int64`",
        ),
        ("std::bad_cast", "when the kernel is compiled"),
        ("NVVM backend compilation failed\ncheck that CUDA_TOOLKIT_PATH is set", "`make_fragment_B`"),
    ],
)
def test_other_refusals_say_what_to_change(message, words):
    told = explained(message)
    assert words in told and "CUDA_TOOLKIT_PATH" not in told and "0x7f" not in told


@pytest.mark.parametrize(
    "dsl, text, instead",
    [
        (
            TL,
            "        bias: T.Tensor((N,), T.float16),\n        D: T.Tensor((M, N), T.float16),\n",
            "        D: T.Tensor((M, N), T.float16),\n        bias: T.Tensor((N,), T.float16),\n",
        ),
        (CUTE, "bias: cute.Tensor, D: cute.Tensor", "D: cute.Tensor, bias: cute.Tensor"),
    ],
)
def test_arguments_in_another_order_are_told_by_their_order(dsl, text, instead):
    step = steps.find("task05a")
    with pytest.raises(CompileError) as raised:
        compile_factory(plant(step.id, dsl, (text, instead)), dsl, (256, 512, 64), step.problem)
    card = not_compiled(step, dsl, "emulator", of_error(raised.value)).card
    assert card is not None
    assert "takes A, B, D, bias; it must take four tensors, A, B, bias and D, in this order" in card.text
    assert "D: " in card.code and "shape" not in card.text


# the solution's model with one term read otherwise
MODEL = """
def seconds(M, N, K, plan):
    rows, columns = up(M, plan.block_M * plan.cluster), up(N, plan.block_N)
    clusters = plan.num_ctas // plan.cluster
    waves = up(rows * columns, clusters)
    tiles = up(K, BLOCK_K)
    loaded = plan.block_M + plan.block_N / plan.cluster
    lines = loaded * (LINES if K % BLOCK_K else 1)
    multiply = 2 * plan.block_M * plan.block_N * BLOCK_K / FLOP_PER_CLOCK
    load = lines * LINE_BYTES / L2
    k_tile = max(multiply, load) + lines * ROW
    turns = waves * TURN
    return (LAUNCH + waves * tiles * k_tile + turns) / CLOCK
"""
TERMS = {
    "K tiles down": ("up(K, BLOCK_K)", "K // BLOCK_K", "K = 520 has 9, and your model counts 8."),
    "parts of K tiles": ("up(K, BLOCK_K)", "K / BLOCK_K", "your model counts 8.125"),
    "a turn less": ("waves * TURN", "(waves - 1) * TURN", "`TURN` ends each tile of D, the last one too"),
    "no turn": ("waves * TURN", "0", "Each tile of D ends in `TURN`"),
    "parts of waves": (
        "up(rows * columns, clusters)",
        "rows * columns / clusters",
        "72 tiles on 64 clusters",
    ),
    "CTAs for clusters": ("up(rows * columns, clusters)", "up(rows * columns, plan.num_ctas)", "128 tiles"),
    "tiles of CTAs": ("up(M, plan.block_M * plan.cluster)", "up(M, plan.block_M)", "belong to one wave"),
    "the sum": ("max(multiply, load)", "(multiply + load)", "your model adds the two"),
    "all of B": ("plan.block_N / plan.cluster", "plan.block_N", "A cluster splits B"),
    "one line": ("(LINES if K % BLOCK_K else 1)", "1", "A row lies on `LINES` lines"),
    "no loads": ("max(multiply, load)", "multiply", "as long as its lines take from L2"),
    "one L2": ("lines * LINE_BYTES / L2", "lines * LINE_BYTES / L2 * plan.num_ctas", "to each CTA"),
    "no rows": (" + lines * ROW", "", "costs `ROW` in addition"),
}
WAVES = ("parts of waves", "CTAs for clusters", "tiles of CTAs")


def model(text: str, instead: str):
    """A model's function, of ``MODEL`` with one edit."""
    source = MODEL.replace(text, instead)
    assert ast.parse(source) and (source != MODEL or text == instead)
    names = dict(vars(plans)) | {"up": lambda a, b: -(-a // b)}
    exec(source, names)
    return names["seconds"]


def test_a_right_model_has_no_differing_term():
    assert inspect.isfunction(model("", "")) and check_plan("plan11", model("", "")).passed


@pytest.mark.parametrize("name", TERMS)
def test_a_model_is_told_the_term_that_differs(name):
    text, instead, says = TERMS[name]
    verdict = check_plan("plan11", model(text, instead))
    assert says in verdict.card.text and verdict.points <= 7, str(verdict)
    assert len(str(verdict.card).split()) <= 40
    assert name in WAVES or "How many waves" not in verdict.diagnosis


def test_a_model_of_its_own_form_is_told_no_term():
    """Its times are 2% longer, in every term."""
    verdict = check_plan("plan11", lambda *point: 1.02 * plans.seconds(*point))
    assert verdict.passed
