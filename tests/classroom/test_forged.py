"""What a submission says of its own kernel, field by field, and what that buys: nothing."""

import re
from dataclasses import fields, replace

import pytest

from course_utils.artifact import Allocation, Artifact, Origin, Parameter, Resources, Tensor
from course_utils.chips import CHIPS, HOME
from course_utils.classroom import judge, provenance, sandbox, workshop
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_sizes, compile_traced, trace_sizes
from course_utils.compile.load import edited, load_factory_source, solution_path
from course_utils.grading import steps
from course_utils.problems import PROBLEMS

needs_sandbox = pytest.mark.skipif(not sandbox.available(), reason="no sandbox on this machine")
SIZE = (256, 256, 128)
PROGRAM = {"tilelang": {"source"}, "cute": {"source", "kernel"}}  # what a judge compiles
FORGED = {
    "dsl": "another",
    "kernel": "another",
    "ptx": ".version 9.0",
    "cubin": b"\x7fELF",
    "grid": (1, 1, 1),
    "block": (384, 1, 1),
    "cluster": (2, 1, 1),
    "dynamic_shared": 1024,
    "parameters": (Parameter("scalar", dtype="int32", value=1),),
    "tensors": (Tensor("Z", (1,), "float16"),),
    "resources": Resources(1, 0, 0, 0, 0),
    "versions": {"cute": "0"},
    "origins": (Origin("/no-file/x.py", 1),) * 500,
    "python": {"/no-file/x.py": "T.fence_proxy_async()"},
    "pipelined": True,
    "allocations": (Allocation(0, 1 << 17, 1024, 0, "x.py", 1),),
    "chip": next(chip for chip in CHIPS.values() if chip.sms != HOME.sms),
}


def solution(name, dsl):
    return solution_path(name, dsl).read_text()


def traced(name, dsl):
    (one,) = trace_sizes(load_factory_source(solution(name, dsl), dsl), dsl, [SIZE])
    return one.artifact


def lowered(program, dsl):
    """What the judge's compiler makes of a traced program."""
    (one,) = compile_traced([program], dsl, [SIZE])
    return one.artifact


@pytest.mark.parametrize("dsl", steps.DSL_NAMES)
def test_a_traced_program_becomes_the_kernel_that_a_check_compiles(dsl):
    (checked,) = compile_sizes(load_factory_source(solution("step05", dsl), dsl), dsl, [SIZE])
    assert lowered(traced("step05", dsl), dsl) == checked.artifact


@pytest.mark.parametrize("dsl", steps.DSL_NAMES)
def test_no_field_but_the_program_counts(dsl):
    """An attack for each field of an Artifact: what it says is not heard."""
    program = traced("step04", dsl)
    names = {field.name for field in fields(Artifact)} - PROGRAM[dsl]
    assert names <= {*FORGED}
    forged = replace(program, **{name: FORGED[name] for name in names})
    assert all(getattr(forged, name) != getattr(program, name) for name in names)
    assert lowered(forged, dsl) == lowered(program, dsl)


@pytest.mark.parametrize("dsl", steps.DSL_NAMES)
@pytest.mark.parametrize("text", ["", "//", "e30=", '{"root_index": 0, "nodes": []}'])
def test_a_program_that_is_none_is_refused(dsl, text):
    with pytest.raises(CompileError):
        lowered(replace(traced("step04", dsl), source=text), dsl)


def test_the_name_of_another_host_function_is_refused():
    with pytest.raises(CompileError, match="takes 0 arguments"):
        lowered(replace(traced("step04", "cute"), kernel="another"), "cute")


BARE = re.sub(r"(?m)^\s*T\.(fence_proxy_async|sync_threads)\(\)\n", "", solution("step01", "tilelang"))
BUILDS = """
import course_utils.compile.tilelang as compiler
from dataclasses import replace
own = compiler.{function}
def forged(*given):
    return replace(own(*given), {fields})
compiler.{function} = forged
"""
LINES = 'origins=(), ptx="", python={"/no-file/x.py": "T.fence_proxy_async()"}, pipelined=True'
HIDDEN = """
import tilelang.language as language
multiply = language.wgmma_gemm
def ordered(*given, **more):
    for name in ("fence_proxy_async", "sync_threads"):
        getattr(language, name)()
    return multiply(*given, **more)
language.wgmma_gemm = ordered
"""


@needs_sandbox
@pytest.mark.parametrize(
    "more",
    [
        BUILDS.format(function="compile_prim_func", fields='source="//"'),
        pytest.param(BUILDS.format(function="trace_kind", fields=LINES), marks=pytest.mark.thorough),
        pytest.param(HIDDEN, marks=pytest.mark.thorough),
    ],
)
def test_barriers_of_the_compilers_stay_the_compilers(more):
    """A kernel without fences, whose submission says that it has them."""
    verdict = judge.judge("step01", "tilelang", BARE + more, "seed").verdict
    assert verdict.points < 4 and "leaves out here and TileLang inserted" in verdict.diagnosis


# -- kernels from elsewhere


def odd(source, dsl, other=None, size=SIZE, wanted="gemm"):
    """What is odd of a source's kernel, or of another source's that is said to be its own."""
    kind = next(kind for kind, problem in PROBLEMS.items() if problem.function == wanted)
    (one,) = compile_sizes(load_factory_source(other or source, dsl, wanted), dsl, [size], kind)
    return provenance.odd(workshop._as_written(one.artifact, source), source)


@pytest.mark.parametrize("dsl", steps.DSL_NAMES)
@pytest.mark.parametrize("name", ["step01", "step05", "step09"])
def test_nothing_is_odd_of_a_solution(name, dsl):
    size = (128, 128, 64) if name == "step01" else SIZE
    assert not odd(solution(name, dsl), dsl, size=size)


@pytest.mark.parametrize("dsl", steps.DSL_NAMES)
def test_nothing_is_odd_of_a_copy_and_of_letters_of_any_alphabet(dsl):
    assert not odd(solution("t2", dsl), dsl, size=(8, 32, 64), wanted="copy")
    source = solution("step04", dsl)
    line = next(line for line in source.split("\n") if "block_idx()" in line or "with T.Kernel(" in line)
    indent = line[: len(line) - len(line.lstrip())]
    assert not odd(source.replace(line, f'{indent}größe = "ÄÖÜ"; ωμ = 1\n{line}  # größe'), dsl)


@pytest.mark.parametrize("dsl", steps.DSL_NAMES)
def test_a_program_from_elsewhere_is_odd(dsl):
    assert "are no code of this source" in odd(solution("step04", dsl), dsl, solution("step05", dsl))


@pytest.mark.parametrize("dsl", steps.DSL_NAMES)
def test_lines_that_lead_into_no_function_are_odd(dsl):
    source = solution("step04", dsl)
    shifted = "\n" * 40 + source
    (one,) = compile_sizes(load_factory_source(source, dsl), dsl, [SIZE])
    artifact = workshop._as_written(one.artifact, source)
    own, other = (str(workshop.load.place(text, dsl)) for text in (source, shifted))
    origins = tuple(one and replace(one, file=other) for one in artifact.origins)
    moved = replace(artifact, ptx=artifact.ptx.replace(own, other), origins=origins)
    assert "are no code of this source" in provenance.odd(moved, shifted)
    assert "no line of this source" in provenance.odd(
        replace(artifact, ptx=re.sub(r"(?m)^\s*\.loc[^\n]*", "", artifact.ptx)), source
    )


def test_assembly_in_place_of_a_kernel_is_odd():
    cuda = repr('__device__ inline void work() { asm volatile("wgmma.fence.sync.aligned;"); }\n')
    source = edited(
        solution("step04", "tilelang"),
        (
            "            acc = T.alloc_fragment(",
            f"            T.import_source({cuda})\n            acc = T.alloc_fragment(",
        ),
    )
    assert odd(source, "tilelang") == "its CUDA has assembly of its own: wgmma"
    text = solution("step04", "cute")
    (one,) = compile_sizes(load_factory_source(text, "cute"), "cute", [SIZE])
    block = "// begin inline asm\n" + "add.s32 %r1, %r1, 1;\n" * 40 + "// end inline asm\n"
    blob = replace(
        one.artifact, ptx=one.artifact.ptx.replace("// begin inline asm", f"{block}// begin inline asm", 1)
    )
    assert provenance.odd(blob, text) == "it has 40 instructions in one inline assembly"
