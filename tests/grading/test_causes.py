"""A verdict names the cause that the compiler, the stages or the numbers tell, at the line that has it."""

from __future__ import annotations

import ast
import inspect
from dataclasses import dataclass, replace

import pytest

from course_utils import plans
from course_utils.compile.compiler_messages import explained
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import plant
from course_utils.grading import steps
from course_utils.grading.gemm import judge
from course_utils.grading.plan import check_plan
from course_utils.grading.verdict import not_compiled
from course_utils.run.backends import Emulator, Launch
from tests.grading.mistakes import Mistake, planted, require_said

TL, CUTE = "tilelang", "cute"
SMALL = (128, 256, 64)
A_SHARED = "layout_A.outer, 1024, layout_A.inner"
A_TILE = "atom, (block_M, block_K, ring)"
LAYOUT_A = "layout_A = cute.tile_to_shape(atom, (block_M, block_K, ring), order=(0, 1, 2))"
RING_A = LAYOUT_A.replace("ring", "num_stages")
ORDER_A = RING_A.replace("(0, 1, 2)", "(2, 0, 1)")
OPERANDS = "(fp16, fp32, shape, source, k_major, k_major)"
STORE_D = "store_D, D = cpasync.make_tiled_tma_atom("
PASS_FAILED = "compiler pass failed"


def refused(text: str, instead: str, **fields: object) -> Mistake:
    """A mistake of step 4 that CuTe DSL's compiler refuses, in a pass that does not say why."""
    fields = {"part": "compiles", "never": (PASS_FAILED,), "size": SMALL} | fields
    return Mistake("step04", CUTE, ((text, instead),), **fields)


REFUSED = {
    "A without its swizzle [the one of its kind]": refused(
        A_SHARED,
        "layout_A.outer, 1024",
        says=("operand A of wgmma, A_shared", "without a swizzle", "`layout_A.inner`"),
        line="A_shared = smem.allocate_tensor(",
    ),
    "B without its swizzle": refused(
        A_SHARED.replace("_A", "_B"),
        "layout_B.outer, 1024",
        says=("operand B of wgmma, B_shared", "`layout_B.inner`"),
        line="B_shared = smem.allocate_tensor(",
    ),
    "a swizzle that wgmma lacks": refused(
        A_SHARED,
        "layout_A.outer, 1024, cute.make_swizzle(3, 3, 3)",
        says=("S<3,3,3>", "none of wgmma's"),
        line="A_shared = smem.allocate_tensor(",
    ),
    "a swizzle of another layout": refused(
        A_SHARED,
        "layout_A.outer, 1024, cute.make_swizzle(2, 4, 3)",
        says=("S<2,4,3>, 64B", "a layout of another one"),
        line="A_shared = smem.allocate_tensor(",
    ),
    "A of fp32": refused(
        "A_shared = smem.allocate_tensor(cutlass.Float16",
        "A_shared = smem.allocate_tensor(cutlass.Float32",
        says=("operand A of wgmma, A_shared", "holds fp32"),
        line="A_shared = smem.allocate_tensor(",
    ),
    "a layout with M contiguous": refused(
        A_TILE,
        A_TILE.replace(
            "atom", "warpgroup.make_smem_layout_atom(warpgroup.SmemLayoutAtomKind.MN_SW128, cutlass.Float16)"
        ),
        says=("operand A of wgmma as `OperandMajorMode.K`", "M or N is contiguous"),
        line="layout_A = cute.tile_to_shape(",
    ),
    "an MMA of another major mode": refused(
        OPERANDS,
        OPERANDS.replace("k_major, k_major", "k_major, OperandMajorMode.MN"),
        says=("operand B of wgmma as `OperandMajorMode.MN`", "K is contiguous"),
        line="OperandMajorMode.MN)",
    ),
    "TMA's view of D is not passed on [the one of its kind]": refused(
        STORE_D,
        STORE_D.replace("D =", "D_map ="),
        says=("TMA's own view of the matrix", "(`D_map`)", "line 83 got another tensor"),
        never=("swapped",),
        line="store_D, D_map = cpasync",
    ),
    "the sides of a load swapped": refused(
        "cute.copy(load_A, A_src[None, m, k], A_dst[None, 0]",
        "cute.copy(load_A, A_dst[None, 0], A_src[None, m, k]",
        says=("source and the destination of this copy swapped",),
        never=("TMA's own view",),
        line="cute.copy(load_A",
    ),
}

WAIT = "                    warpgroup.wait_group(1)\n"
COMMIT = "                    warpgroup.commit_group()\n"
COMMENT = "                    # all but the newest group are done: the stage before this one is free\n"
RACES = {
    "08 the stages of a ring between one another": Mistake(
        "step08", CUTE, ((RING_A, ORDER_A),), "", size=(128, 128, 320)
    ),
    "08 a map of another layout": Mistake(
        "step08",
        CUTE,
        (
            (RING_A, ORDER_A),
            ("cute.select(layout_A, [0, 1])", f"cute.select({RING_A.partition(' = ')[2]}, [0, 1])"),
        ),
        "results",
        says=("loads of A for full[0] and full[1] lie 1,024 bytes apart", "one layout (`order`)"),
        never=("as many slots", "which stage index"),
        line="layout_A = cute.tile_to_shape(",
        size=(128, 128, 320),
    ),
    "08 the wait before the commit [the one of its kind]": Mistake(
        "step08",
        CUTE,
        ((COMMIT + COMMENT + WAIT, WAIT + COMMIT),),
        "results",
        says=("may still read", "the wait comes before the commit_group"),
        never=("released", "coordinates"),
        line="warpgroup.wait_group(1)",
        size=(128, 128, 320),
    ),
    "05 half of the bytes in tx_count": Mistake(
        "step05",
        CUTE,
        (("tx_count=tile_bytes", "tx_count=tile_bytes // 2"),),
        "results",
        says=("expects 16,384 bytes", "loads of 32,768 bytes"),
        line="PipelineTmaAsync.create(",
        size=(128, 128, 128),
    ),
    "10 slices by the number of the tile": Mistake(
        "step10",
        CUTE,
        (("n * (block_N // epi_N) + c", "n + c"),),
        "results",
        says=("that belongs at another place", "and does it count every slice?", "line 141"),
        never=("at which tile",),
        size=(256, 512, 64),
    ),
    "03 B goes to slot 1, and slot 0 is multiplied [the one of its kind]": Mistake(
        "step03",
        TL,
        (("(k + 1) * block_K], B_shared[0, :, :])", "(k + 1) * block_K], B_shared[1, :, :])"),),
        "results",
        says=("operand B", "nothing reads what line", "one slot"),
        line="T.wgmma_gemm(",
        size=(128, 128, 64),
    ),
    "04 B is loaded to slot 1, and slot 0 is multiplied": Mistake(
        "step04",
        TL,
        (("B_shared[0, :, :], barrier", "B_shared[1, :, :], barrier"),),
        "results",
        says=("operand B", "nothing reads what line", "one slot"),
        line="T.wgmma_gemm(",
        size=(128, 256, 64),
    ),
    "05 a wait that leaves a group running [its own line]": Mistake(
        "step05",
        TL,
        (("T.wait_wgmma(0)", "T.wait_wgmma(1)"),),
        "results",
        says=("may still read: this wait leaves 1 group running when line",),
        line="T.wait_wgmma(1)",
        size=(128, 256, 320),
        ctas=(0,),
    ),
    "07 a load signals the barrier that its role waits for [its own line]": Mistake(
        "step07",
        TL,
        (
            (
                "T.tma_copy(B[ns, ks], B_shared[stage, :, :], barrier=full[stage])",
                "T.tma_copy(B[ns, ks], B_shared[stage, :, :], barrier=empty[stage])",
            ),
        ),
        "results",
        says=("producer warp 0 loads B for empty[0], which it waits for itself", "wait for full[0]"),
        line="barrier=empty[stage])",
        size=(128, 256, 320),
        ctas=(0,),
    ),
    "06 rows and columns exchanged in the scheduler": Mistake(
        "step06",
        TL,
        (("M // block_M, N // block_N, num_workers", "N // block_N, M // block_M, num_workers"),),
        "results",
        says=("are M and N mixed up in the order of tiles",),
        never=("x and y",),
        line="T.PersistentTile",
        size=(256, 512, 64),
    ),
}


@pytest.mark.parametrize("mistake", planted(REFUSED | RACES, {}))
def test_the_verdict_names_the_cause(mistake):
    require_said(mistake)


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


SUM = "acc[i, j] = T.max(acc[i, j] + T.cast(bias[n + j], T.float32), 0.0)"
ADD = "acc[i, j] + T.cast(bias[n + j], T.float32)"
LOOP = "                    T.wait_wgmma(0)\n"


def in_loop(expression: str) -> tuple[str, str]:
    """An epilogue after each K tile."""
    indent = " " * 20
    return LOOP, (
        f"{LOOP}{indent}for r, j in T.Parallel(block_M, block_N):\n"
        f"{indent}    acc[r, j] = {expression.replace('i, j', 'r, j')}\n"
    )


@dataclass(frozen=True)
class Fused:
    """A mistake in the epilogue of task 05a, with the card's first words and what its line has."""

    edits: tuple[tuple[str, str], ...]
    says: str
    line: str
    dsl: str = TL


FUSED = {
    "rows within the tile": Fused(
        ((SUM, SUM.replace("n + j", "n + i")),), "does the index within the tile count rows?", "bias[n + i]"
    ),
    "the tile's row": Fused(
        ((SUM, SUM.replace("n + j", "m + j")),), "does its first row cut the bias", "bias[m + j]"
    ),
    "the epilogue in the K loop": Fused(
        (in_loop(SUM.partition(" = ")[2]), (SUM, "acc[i, j] = acc[i, j]")),
        "bias and its ReLU after every K tile",
        "bias[n + j]",
    ),
    "the bias in the K loop": Fused(
        (in_loop(ADD), (SUM, "acc[i, j] = T.max(acc[i, j], 0.0)")), "bias after every K tile", "bias[n + j]"
    ),
    "the bias as rows, CuTe DSL": Fused(
        (("stride=(0, 1))", "stride=(1, 0))"),), "D has the bias of its rows", "bias.iterator", CUTE
    ),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name == "the tile's row" else [pytest.mark.thorough]) for name in FUSED],
)
def test_a_wrong_epilogue_is_told_at_the_line_of_its_bias(name):
    mistake, step, size = FUSED[name], steps.find("task05a"), (128, 256, 128)
    if name == "the tile's row":
        size = (256, 256, 64)
    machine = Emulator()
    artifact = compile_factory(plant(step.id, mistake.dsl, *mistake.edits), mistake.dsl, size, step.problem)
    answered = list(machine.run([Launch(size, artifact, step.problem)]))
    card = judge(replace(step, emulated=((size, None),)), mistake.dsl, machine, answered).card
    assert card is not None and mistake.says in card.text and mistake.line in card.code, card
    assert len(f"{card.text} {card.place} {card.code}".split()) <= 40


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
    card = not_compiled(step, dsl, "emulator", str(raised.value)).card
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
    "tiles of CTAs": ("up(M, plan.block_M * plan.cluster)", "up(M, plan.block_M)", "of one wave"),
    "the sum": ("max(multiply, load)", "(multiply + load)", "your model adds the two"),
    "all of B": ("plan.block_N / plan.cluster", "plan.block_N", "A cluster splits B"),
    "one line": ("(LINES if K % BLOCK_K else 1)", "1", "A row lies on `LINES` lines"),
    "no loads": ("max(multiply, load)", "multiply", "as long as its lines take from L2"),
    "one L2": ("lines * LINE_BYTES / L2", "lines * LINE_BYTES / L2 * plan.num_ctas", "to each CTA"),
    "no rows": (" + lines * ROW", "", "costs `ROW` besides"),
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
