"""The rungs of attention in both DSLs: right at any length, mask and schedule; registers without spills."""

import json
from functools import partial

import pytest
import torch

from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.faults import kernels
from course_utils.compile.load import SOLUTIONS, load_factory
from course_utils.problems import PROBLEMS
from course_utils.recordings import measured
from course_utils.run.emulator.launch import emulated
from tests.grading.mistakes import require_said

RUNGS = sorted({path.stem for dsl in DSLS for path in (SOLUTIONS / dsl).glob("a[12]*_*.py")})
FP16, CAUSAL = "attention", "causal attention"
each_rung = pytest.mark.parametrize("rung", RUNGS)
both_dsls = pytest.mark.parametrize("dsl", DSLS)

# batch, sequence_q, sequence_k, heads, kv_heads, D: where masks, tiles and rings have their edges
EDGES = [
    ((1, 1, 1, 2, 2, 64), FP16),
    ((1, 70, 300, 2, 1, 64), FP16),
    ((2, 130, 129, 2, 2, 96), FP16),
    ((1, 200, 530, 2, 1, 128), FP16),
    ((1, 64, 128, 2, 2, 128), f"{FP16}, bf16"),
    ((1, 1, 200, 2, 1, 128), CAUSAL),
    ((1, 300, 77, 2, 2, 64), CAUSAL),  # queries, and whole tiles of them, that see no key
    ((1, 300, 400, 2, 1, 96), CAUSAL),
    ((1, 256, 256, 2, 1, 128), CAUSAL),
    ((3, 129, 640, 2, 1, 64), f"{CAUSAL}, bf16"),
]


def compiled(rung, dsl, size, kind):
    dtype = PROBLEMS[kind].tensors(*size)[0].dtype
    factory = load_factory(SOLUTIONS / dsl / f"{rung}.py", "attention")
    return compile_factory(partial(factory, causal="causal" in kind, dtype=dtype), dsl, size, kind)


def require_right(artifact, kind, schedule):
    generator = torch.Generator().manual_seed(3)
    emulation, tried = emulated(artifact, generator, schedule, kind=kind, facts=False)
    assert emulation.ok and not emulation.findings and tried.ok, (emulation.findings, tried.found)


@both_dsls
@each_rung
def test_a_rung_is_right_where_queries_see_none_some_or_all_keys_of_a_tile(rung, dsl):
    require_right(compiled(rung, dsl, (1, 200, 530, 2, 1, 64), CAUSAL), CAUSAL, 1)


@pytest.mark.thorough
@both_dsls
@each_rung
@pytest.mark.parametrize("size, kind", EDGES, ids=str)
def test_a_rung_is_right_at_every_edge(rung, dsl, size, kind):
    require_right(compiled(rung, dsl, size, kind), kind, 0)


@pytest.mark.thorough
@both_dsls
@each_rung
def test_a_rung_is_right_under_several_schedules(rung, dsl):
    artifact = compiled(rung, dsl, (1, 150, 700, 2, 1, 64), FP16)
    for schedule in range(2, 8):
        require_right(artifact, FP16, schedule)


@pytest.mark.thorough
@both_dsls
@each_rung
@pytest.mark.parametrize("kind", [FP16, CAUSAL])
@pytest.mark.parametrize("D", [64, 96, 128])
def test_registers_suffice_and_nothing_serializes_wgmma(rung, dsl, kind, D):
    resources = compiled(rung, dsl, (2, 4096, 4096, 16, 16, D), kind).resources
    assert resources.spill_stores == 0 and not resources.warnings


@pytest.mark.parametrize("fault", [one for dsl in DSLS for one in kernels(dsl, "a").values()], ids=str)
def test_the_card_of_a_planted_fault_is_true_and_at_the_line(fault):
    require_said(fault)


def test_both_languages_have_the_faults_that_the_notebooks_show():
    plain, cute = (kernels(dsl, "a") for dsl in DSLS)
    assert {*plain} == {*cute} and all(plain[name].what == cute[name].what for name in plain)


def test_cute_dsl_refuses_a_tensor_of_one_row():
    with pytest.raises(CompileError, match="give it a second row"):
        compiled(RUNGS[0], "cute", (1, 5, 1, 2, 1, 64), FP16)


def test_both_languages_have_the_same_rungs():
    assert all((SOLUTIONS / dsl / f"{rung}.py").exists() for dsl in DSLS for rung in RUNGS)


def test_the_page_of_solutions_has_the_recorded_figures():
    """The ladder at D = 128 rises in both languages, and the page says by how much."""
    entries = json.loads((measured.FOLDER / "attention.json").read_text())["entries"]
    page = (SOLUTIONS.parent / "docs" / "solutions.md").read_text()
    tflops = {(one["shape"], one["rung"], one["dsl"]): one["tflops"] for one in entries if one.get("tflops")}
    ladder = {dsl: [tflops["D 128", rung, dsl] for rung in RUNGS] for dsl in DSLS}
    assert all(sorted(figures) == figures for figures in ladder.values())
    for rung in RUNGS:
        cells = [
            " / ".join(f"{tflops[shape, rung, dsl]:.0f}" for dsl in DSLS)
            for shape in ("D 128", "D 128, causal")
        ]
        assert f"{rung}.py" in page and f"| {cells[0]} | {cells[1]} |" in page, rung
