"""From a CuTe DSL factory to an Artifact: the launch is what the source asks for, and every bad factory is
told why.
"""

import ast
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import version
from pathlib import Path

import pytest

from course_utils.artifact import SWIZZLES, TensorMap
from course_utils.compile import child
from course_utils.compile import cute as compiler
from course_utils.compile import load as loading
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory, compile_sizes
from course_utils.compile.faults import kernels
from course_utils.compile.load import edited as edit
from course_utils.grading import steps
from course_utils.tma.rules import violations

M, N, K = 768, 1280, 576
REPO = Path(__file__).parents[2]

# a column of A plus a column of B: right or wrong does not matter here
KERNEL = """import cutlass
import cutlass.cute as cute


def gemm(M, N, K):
    @cute.kernel
    def kernel(A, B, D):
        thread, _, _ = cute.arch.thread_idx()
        D[thread, 0] = A[thread, 0] + B[thread, 0]

    @cute.jit
    def main(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        kernel(A, B, D).launch(grid=(1, 1, 1), block=(128, 1, 1))

    return main
"""
BODY = "        D[thread, 0] = A[thread, 0] + B[thread, 0]\n"
CALL = "kernel(A, B, D).launch("
LAUNCH = f"        {CALL}grid=(1, 1, 1), block=(128, 1, 1))\n"
BLOCK = "block=(128, 1, 1)"
TENSORS = "A: cute.Tensor, B: cute.Tensor, D: cute.Tensor"
SPIN = "def spin():\n    while True:\n        pass\n\n\ndef gemm("


def in_kernel(line):
    """KERNEL with this line ahead of its body."""
    return edit(KERNEL, (BODY, f"        {line}\n" + BODY))


def in_host(line):
    """KERNEL with this line ahead of its launch."""
    return edit(KERNEL, (LAUNCH, f"        {line}\n" + LAUNCH))


def loop(first, *more):
    """A loop that the kernel runs, with these lines in it."""
    return "\n    ".join(
        ["for i in cutlass.range(K // 64, unroll=1):", *("        " + line for line in (first, *more))]
    )


def launched(options):
    """KERNEL with ``block`` and what follows it in its launch replaced."""
    return edit(KERNEL, (BLOCK, options))


@pytest.fixture
def factory(tmp_path):
    """A function from source to ``gemm``, by way of a file: the DSL reads the source of what it traces."""

    def load(source, folder="."):
        path = tmp_path / folder / "mine.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(source)
        return loading.load_factory(path)

    return load


def refusal(gemm, stage, size=(128, 192, 64)) -> str:
    with pytest.raises(CompileError) as caught:
        compile_factory(gemm, "cute", size)
    text = str(caught.value)
    assert caught.value.stage == stage, text
    assert 1 <= len(text.splitlines()) <= 12
    # nothing of the DSL's own frames, colours, settings and mangled names, and no folder
    assert not re.search(
        r'File "|Traceback|site-packages|\x1b|CUTE_DSL_|kernel_cutlass|/mine\.py|-->|0x[0-9a-f]{8}', text
    ), text
    return text


def line_of(source, words) -> int:
    return 1 + [words in line for line in source.splitlines()].index(True)


def solution_factory(step):
    return loading.load_factory(loading.solution_path(step, "cute"))


@cache
def solution(step):
    size = (128, 128, 64) if step == "step01" else (M, N, K)
    return compiler.compile_kind(solution_factory(step), "gemm", *size)


@cache
def small():
    return compiler.compile_kind(loading.load_factory_source(KERNEL, "small"), "gemm", 128, 192, 64)


def tile_map(rows, columns, box):
    """The map of a dense fp16 matrix of ``rows`` x ``columns``, loaded or stored ``box`` (rows, columns) at a
    time.
    """
    return TensorMap(
        data_type=6,
        dims=(columns, rows),
        strides=(2 * columns,),
        box=(box[1], box[0]),
        element_strides=(1, 1),
        interleave=0,
        swizzle=SWIZZLES.index("128B"),
        l2_promotion=2,
        oob_fill=0,
    )


def fields(artifact):
    """What each parameter is, in launch order: its kind, and its tensor and map or its type."""
    return [
        (p.kind, p.tensor, p.tensor_map) if p.kind == "tensor_map" else (p.kind, p.tensor or p.dtype)
        for p in artifact.parameters
    ]


ACCUMULATE = ("scalar", "uint8")  # the tiled MMA's own field: one bit, in a byte


def maps(box_A, box_B, box_D):
    return [
        ("tensor_map", "A", tile_map(M, K, box_A)),
        ("tensor_map", "B", tile_map(N, K, box_B)),
        ("tensor_map", "D", tile_map(M, N, box_D)),
        ACCUMULATE,
    ]


def entry_sizes(ptx) -> list[int]:
    """Bytes of each parameter that the PTX entry declares, in order."""
    declared = re.search(r"\.entry \w+\((.*?)\)", ptx, re.DOTALL).group(1)
    sizes = {"u8": 1, "u16": 2, "u32": 4, "f32": 4, "u64": 8}
    return [
        int(length) if kind == "b8" else sizes[kind]
        for kind, length in re.findall(r"\.param (?:\.align \d+ )?\.(\w+) [^\n\[]*(?:\[(\d+)\])?", declared)
    ]


def sizes(artifact) -> list[int]:
    return [
        {"tensor_map": 128, "pointer": 8}.get(p.kind) or int(p.dtype.removeprefix("uint")) // 8
        for p in artifact.parameters
    ]


def test_launch_of_step_1():
    a = solution("step01")
    assert (a.grid, a.block, a.cluster) == ((1, 1, 1), (128, 1, 1), (1, 1, 1))
    assert a.dynamic_shared == (128 + 128) * 64 * 2  # one tile of A and one of B
    assert fields(a) == [("pointer", "A"), ("pointer", "B"), ("pointer", "D"), ACCUMULATE]
    assert a.parameters[-1].value in (0, 1)


def test_launch_of_step_4():
    a = solution("step04")
    assert (a.grid, a.block, a.cluster) == ((N // 128, M // 128, 1), (128, 1, 1), (1, 1, 1))
    # the mbarrier's page, the ring, and D
    assert a.dynamic_shared == 1024 + 4 * (128 + 128) * 64 * 2 + 128 * 128 * 2
    # D half a tile: a row of 128 B swizzle is 64 elements
    assert fields(a) == maps((128, 64), (128, 64), (128, 64))


def test_launch_of_step_9():
    """Each CTA loads half of the tile of B that both use."""
    a = solution("step09")
    assert (a.grid, a.block, a.cluster) == ((132, 1, 1), (256, 1, 1), (2, 1, 1))
    assert fields(a) == maps((128, 64), (64, 64), (128, 64))


def test_launch_of_step_10():
    """The tile of B has 256 rows, of which each CTA loads half."""
    a = solution("step10")
    assert (a.grid, a.block, a.cluster) == ((128, 1, 1), (384, 1, 1), (2, 1, 1))
    # the mbarriers' page, the ring and two buffers of D
    assert a.dynamic_shared == 1024 + 4 * (128 + 256) * 64 * 2 + 2 * 128 * 64 * 2
    assert fields(a) == maps((128, 64), (128, 64), (128, 64))


@pytest.mark.parametrize("step", ["step04", "step09", "step10"])
def test_tensor_maps_are_legal(step):
    found = [p.tensor_map for p in solution(step).parameters if p.kind == "tensor_map"]
    assert len(found) == 3 and [violations(tensor_map) for tensor_map in found] == [[], [], []]


@pytest.mark.parametrize("step", ["step01", "step04", "step10"])
def test_artifact_is_of_one_kernel(step):
    a = solution(step)
    m, n, k = a.problem
    assert [(t.name, t.shape, t.dtype) for t in a.tensors] == [
        ("A", (m, k), "float16"),
        ("B", (n, k), "float16"),
        ("D", (m, n), "float16"),
    ]
    assert re.findall(r"\.entry (\w+)\(", a.ptx) == [a.kernel]
    assert ".target sm_90a" in a.ptx and a.cubin.startswith(b"\x7fELF") and a.kernel.encode() in a.cubin
    assert sizes(a) == entry_sizes(a.ptx)
    assert 24 < a.resources.registers <= 255
    assert (a.resources.spill_stores, a.resources.spill_loads, a.resources.warnings) == (0, 0, ())
    assert a.dsl == "cute" and a.versions == {"nvidia-cutlass-dsl": version("nvidia-cutlass-dsl")}


def test_spills_and_warnings_are_read_past_line_breaks():
    """The DSL breaks the assembler's lines, in words like `bytes spill loads` too."""
    # twice the columns that there are
    gemm = loading.plant("step04", "cute", ("(64, block_N, 16)", "(64, 256, 16)"))
    r = compiler.compile_kind(gemm, "gemm", 256, 256, 64).resources
    assert r.registers == 255 and r.spill_stores > 0 and r.spill_loads > 0 and r.stack_frame > 0
    assert len(r.warnings) == 1 and r.warnings[0].startswith(
        "(C7511) Potential Performance Loss: wgmma.mma_async"
    )
    assert "insufficient register resources for the wgmma pipeline" in r.warnings[0]


def test_line_info_leads_to_the_author():
    path, ptx = loading.solution_path("step04", "cute"), solution("step04").ptx
    files = dict(re.findall(r'\.file\s+(\d+) "(.*?)"', ptx))
    assert str(path) in files.values()
    number = next(n for n, name in files.items() if name == str(path))
    lines = {int(line) for line in re.findall(rf"\.loc\s+{number} (\d+) ", ptx)}
    for words in ("cute.gemm(mma, acc", "cute.copy(load_A,", "cute.copy(store_D,", "mbarrier_wait(full"):
        assert line_of(path.read_text(), words) in lines


def test_pointers_in_another_order(factory):
    source = edit(KERNEL, (CALL, "kernel(D, A, B).launch("), ("def kernel(A, B, D)", "def kernel(D, A, B)"))
    a = compiler.compile_kind(factory(source), "gemm", 128, 192, 64)
    assert fields(small()) == [("pointer", "A"), ("pointer", "B"), ("pointer", "D")]
    assert fields(a) == [("pointer", "D"), ("pointer", "A"), ("pointer", "B")]


def test_tensor_maps_in_another_order():
    old, new = "kernel(load_A, A, load_B, B, store_D, D,", "kernel(store_D, D, load_B, B, load_A, A,"
    gemm = loading.plant("step04", "cute", ("def " + old, "def " + new), (" " * 8 + old, " " * 8 + new))
    A, B, D, scalar = maps((128, 64), (128, 64), (128, 64))
    assert fields(compiler.compile_kind(gemm, "gemm", M, N, K)) == [D, B, A, scalar]


def test_scalars_between_tensors(factory):
    """Of every width: each parameter keeps its place and its bits."""
    source = edit(
        KERNEL,
        ("def kernel(A, B, D)", "def kernel(A, n, B, x, D, far, flag, near)"),
        (
            CALL,
            "kernel(A, cutlass.Int32(77), B, cutlass.Float32(1.5), D, cutlass.Int64(-5), "
            "cutlass.Boolean(True), "
            "cutlass.Int16(-2)).launch(",
        ),
    )
    a = compiler.compile_kind(factory(source), "gemm", 128, 192, 64)
    assert [(p.kind, p.tensor, p.dtype, p.value) for p in a.parameters] == [
        ("pointer", "A", None, None),
        ("scalar", None, "uint32", 77),
        ("pointer", "B", None, None),
        ("scalar", None, "uint32", 0x3FC00000),
        ("pointer", "D", None, None),
        ("scalar", None, "uint64", 2**64 - 5),
        ("scalar", None, "uint8", 1),
        ("scalar", None, "uint16", 2**16 - 2),
    ]
    assert sizes(a) == entry_sizes(a.ptx)


def test_bare_pointers(factory):
    source = edit(
        KERNEL,
        (CALL, "kernel(A.iterator, B, D.iterator).launch("),
        (BODY, "        D[thread] = A[thread] + B[thread, 0]\n"),
    )
    a = compiler.compile_kind(factory(source), "gemm", 128, 192, 64)
    assert fields(a) == fields(small()) and sizes(a) == entry_sizes(a.ptx)


def test_arguments_with_a_default_that_is_no_run_time_value(factory):
    a = compiler.compile_kind(
        factory(edit(KERNEL, (TENSORS, TENSORS + ", stream=None"))), "gemm", 128, 192, 64
    )
    assert fields(a) == fields(small())


MIDDLE = "a kernel parameter points into the middle of a tensor"


@pytest.mark.parametrize(
    "argument",
    [
        "cute.domain_offset((1, 0), B)",
        "cute.local_tile(B, (64, 64), (1, 0))",
        "cute.make_tensor(B.iterator + 64, B.layout)",
    ],
)
def test_pointer_into_a_tensor(factory, argument):
    text = refusal(factory(edit(KERNEL, (CALL, f"kernel(A, {argument}, D).launch("))), "lower")
    assert MIDDLE in text and "slice them in the kernel" in text


def test_tensor_map_over_the_middle_of_a_tensor():
    gemm = loading.plant("step04", "cute", ("atom(g2s, B,", "atom(g2s, cute.domain_offset((128, 0), B),"))
    assert MIDDLE in refusal(gemm, "lower", (256, 384, 64))


def test_tensor_with_a_layout_of_the_run(factory):
    """Pointer and numbers come as one parameter, in which no launch could find the pointer."""
    source = in_host(
        "n = cutlass.Int32(K)\n        A = cute.make_tensor(A.iterator, cute.make_layout((M, n), stride=(n, "
        "1)))"
    )
    assert "a tensor whose shape or strides are known at run time only" in refusal(factory(source), "lower")


def test_gemm_must_be_callable():
    for thing in (None, 42, "gemm"):
        with pytest.raises(CompileError, match=f"{type(thing).__name__}, not a function") as caught:
            compile_factory(thing, "cute", (128, 128, 64))
        assert caught.value.stage == "load"


@pytest.mark.parametrize(
    "source",
    [
        "import sys\n\n\ndef gemm(M, N, K):\n    sys.exit(3)\n",
        "import sys\n" + in_host("sys.exit(3)"),
        "import sys\n" + in_kernel("sys.exit(3)"),
    ],
    ids=["factory", "host", "kernel"],
)
def test_exit_is_a_reason(factory, source):
    with pytest.raises(CompileError, match=r"gemm called sys\.exit\(\)") as caught:
        compile_factory(factory(source), "cute", (128, 192, 64))
    assert caught.value.stage == "trace"
    assert compiler.compile_kind(factory(KERNEL), "gemm", 128, 192, 64).grid == (1, 1, 1)


def test_factory_raises(factory):
    text = refusal(
        factory("def gemm(M, N, K):\n    tiles = M // 128\n    return tiles.no_such_thing\n"), "trace"
    )
    assert "gemm(128, 192, 64) raised AttributeError: 'int' object has no attribute 'no_such_thing'" in text
    assert text.endswith("at mine.py, line 3: return tiles.no_such_thing")


def test_factory_of_too_few_arguments(factory):
    assert "TypeError: gemm() takes 2 positional arguments" in refusal(
        factory("def gemm(M, N):\n    pass\n"), "trace"
    )


@pytest.mark.parametrize(
    "source, kind",
    [
        (edit(KERNEL, ("\n    return main\n", "")), "NoneType"),
        ("def gemm(M, N, K):\n    return 42\n", "int"),
        (edit(KERNEL, ("return main", "return kernel")), "function"),
        (edit(KERNEL, ("    @cute.jit\n", "")), "function"),
    ],
    ids=["nothing", "a number", "the kernel", "no jit"],
)
def test_factory_returns_something_else(factory, source, kind):
    text = refusal(factory(source), "signature")
    assert (
        f"returned {kind}; it must return a function decorated with `@cute.jit`" in text
        and "return main" in text
    )


@pytest.mark.parametrize(
    "takes, call",
    [
        ("A: cute.Tensor, B: cute.Tensor", "kernel(A, B, B).launch("),
        ("A: cute.Tensor, B: cute.Tensor, C: cute.Tensor, D: cute.Tensor", CALL),
    ],
    ids=["two", "four"],
)
def test_wrong_number_of_tensors(factory, takes, call):
    text = refusal(factory(edit(KERNEL, (TENSORS, takes), (CALL, call))), "signature")
    assert (
        text.startswith("main takes (A: ") and "it must take three tensors, A, B and D, in this order" in text
    )


@pytest.mark.parametrize("more", ["n: int = 3", "n: cutlass.Int32 = 3"])
def test_host_function_takes_a_number_at_run_time(factory, more):
    """It would read past its three arguments, and end the process."""
    text = refusal(factory(edit(KERNEL, (TENSORS, f"{TENSORS}, {more}"))), "signature")
    assert "the host function takes 4 arguments at run time; it must take the 3 tensors only" in text


@pytest.mark.parametrize(
    "line",
    ["D[0, 0] = A[0, 0]", "cute.printf('{}', A[0, 0])", "D[0, 0] = cutlass.Float16(1.0)"],
    ids=["copies", "prints", "writes"],
)
def test_host_function_touches_a_tensor(factory, line):
    """There is nothing at the tensors' addresses on the CPU: it would end the process."""
    text = refusal(factory(in_host(line)), "lower")
    assert (
        "the host function (`@cute.jit`) reads or writes elements of a tensor" in text
        and "in the kernel" in text
    )


TRACE_ERRORS = {  # source, words of the message, words of the line that it names
    "name in the kernel": (
        edit(KERNEL, ("B[thread, 0]", "C[thread, 0]")),
        "name 'C' is not defined",
        "C[thread",
    ),
    "name in the host": (
        edit(KERNEL, (CALL, "kernel(A, B, C).launch(")),
        "name 'C' is not defined",
        "kernel(A, B, C)",
    ),
    "attribute": (
        in_kernel("cute.no_such_thing(A)"),
        "'cutlass.cute' has no attribute 'no_such_thing'",
        "no_such_thing",
    ),
    "attribute in the host": (
        in_host("cute.arch.no_such(A)"),
        "'cutlass.cute.arch' has no attribute 'no_such'",
        "no_such",
    ),
    "break": (
        in_kernel(loop("if i == thread:", "    break")),
        "Early exit (break) is not allowed in `kernel`",
        "break",
    ),
    "return": (
        in_kernel("if thread == 3:\n            return"),
        "Early exit (return) is not allowed",
        "return",
    ),
    "structure": (
        in_kernel("x = 0\n        " + loop("x = (x, i)")),
        "`x` has a different structure at the end of this `for`",
        "for i in cutlass.range",
    ),
    "type": (
        in_kernel("x = cutlass.Int32(0)\n        " + loop("x = cutlass.Float32(1.0)")),
        "`x` has type `Int32` on one path and `Float32` on another",
        "for i in cutlass.range",
    ),
    "dtype": (
        in_kernel("D[thread, 0] = cutlass.Float32(1.0)"),
        "store Float32 (-> Float32) to Tensor with element type Float16",
        "cutlass.Float32(1.0)",
    ),
    "rank": (
        in_kernel("D[thread, 0, 0] = A[thread, 0]"),
        "expects coordinate to be weakly congruent to the layout",
        "D[thread, 0, 0]",
    ),
    "never launched": (
        edit(KERNEL, (LAUNCH, "        kernel(A, B, D)\n")),
        "`kernel` was called but never launched",
        "        kernel(A, B, D)",
    ),
    "launch option": (
        launched(BLOCK + ", no_such_option=1"),
        "unexpected keyword argument 'no_such_option'",
        "no_such_option",
    ),
    "grid": (
        edit(KERNEL, ("grid=(1, 1, 1)", "grid=(M / 128, 1, 1)")),
        "grid dimension at position 0 must be an integer",
        "M / 128",
    ),
    "no kernel decorator": (
        edit(KERNEL, ("    @cute.kernel\n", "")),
        "'NoneType' object has no attribute 'launch'",
        CALL,
    ),
    "raise": (in_kernel("raise ValueError('not like this')"), "not like this", "raise ValueError"),
    "assert": (in_host("assert K == 3, 'K must be 3'"), "K must be 3", "assert K == 3"),
    "assembler": (
        in_kernel("cute.arch.barrier(barrier_id=17, number_of_threads=128)"),
        "PTX assembly failed: Barrier number '17' out of range, expected to be in range [0..15]",
        "barrier_id=17",
    ),
    "verifier": (
        in_kernel("cute.arch.setmaxregister_decrease(41)"),
        "new register size must be multiple of 8",
        "decrease(41)",
    ),
}


@pytest.mark.parametrize("case", TRACE_ERRORS)
def test_error_while_tracing_names_the_line(factory, case):
    source, words, line = TRACE_ERRORS[case]
    text = refusal(factory(source), "lower")
    assert text.startswith("CuTe DSL could not compile this kernel: ") and words in text
    number = line_of(source, line)
    place = f"at mine.py, line {number}: {source.splitlines()[number - 1].strip()}"
    # below it are the assembler's or verifier's own words, where a sentence of ours leads
    _, _, below = text.partition(place)
    assert place in text and (not below or case in ("assembler", "verifier") and words in below)


def test_error_tells_what_to_do(factory):
    text = refusal(factory(TRACE_ERRORS["never launched"][0]), "lower")
    assert "\nLaunch the kernel, e.g. `kernel(...).launch(grid=[...], block=[...])`.\n" in text


@pytest.mark.parametrize("folder", ["my notebooks", ".hopper"])
def test_the_line_is_found_in_any_folder(factory, folder):
    for case in ("name in the kernel", "attribute", "rank", "verifier"):
        source, _, line = TRACE_ERRORS[case]
        assert f"at mine.py, line {line_of(source, line)}: " in refusal(factory(source, folder), "lower")


def test_tiles_that_do_not_match():
    gemm = loading.plant(
        "step04",
        "cute",
        (
            "cute.local_tile(A, (block_M, block_K), (None, None))",
            "cute.local_tile(A, (block_M, 32), (None, None))",
        ),
    )
    text = refusal(gemm, "lower", (256, 384, 192))
    assert (
        "expects smem and gmem have the same size in the first rank" in text
        and "gmemShape: ((128,32),2,6)" in text
    )
    assert re.search(
        r"\n  at kernel_cute_step04\.py, line \d+: A_dst, A_src = cpasync\.tma_partition\(.*\)$", text
    )


def test_box_that_does_not_match_its_layout():
    layout = "A, stage_A, "
    gemm = loading.plant("step04", "cute", (layout + "(block_M, block_K))", layout + "(block_M, 32))"))
    text = refusal(gemm, "lower", (256, 384, 192))
    assert "this kernel: this map has a layout of 128 x 64 in shared memory for a tile of 128 x 32" in text
    assert re.search(
        r"\n  at kernel_cute_step04\.py, line \d+: load_A, A = cpasync\.make_tiled_tma_atom\(.*\)$", text
    )


def test_ungrouped_modes():
    text = refusal(kernels("cute")["ungrouped_modes"].factory(), "lower", (256, 384, 192))
    assert "tma_partition: shared-memory operand stride at mode 1 leaf 0 is 16 bits" in text
    assert re.search(
        r"\n  at kernel_cute_step04\.py, line \d+: A_dst, A_src = cpasync\.tma_partition\(.*\)$", text
    )


OTHER = (
    "    @cute.jit\n",
    "    @cute.kernel\n    def other(A, D):\n        D[0, 0] = A[0, 1]\n\n    @cute.jit\n",
)


@pytest.mark.parametrize(
    "source, words",
    [
        (edit(KERNEL, (LAUNCH, LAUNCH + LAUNCH)), "this program has 2 kernels; a step launches one"),
        (
            edit(KERNEL, OTHER, (LAUNCH, LAUNCH + LAUNCH.replace("kernel(A, B, D)", "other(A, D)"))),
            "this program has 2 kernels",
        ),
        (edit(KERNEL, (LAUNCH, "        pass\n")), "this program has 0 kernels"),
        (
            edit(KERNEL, (LAUNCH, "        for _ in cutlass.range(2**31 - 1, unroll=1):\n    " + LAUNCH)),
            "launches more than one kernel",
        ),
        (
            edit(
                KERNEL,
                (
                    LAUNCH,
                    "        n = cutlass.Int32(0)\n        while n >= 0:\n            n = n & 1\n    "
                    + LAUNCH,
                ),
            ),
            "launches more than one kernel",
        ),
        (
            edit(KERNEL, (LAUNCH, "        n = cutlass.Int32(0)\n        if n > 3:\n    " + LAUNCH)),
            "launches no kernel",
        ),
    ],
    ids=[
        "launched twice",
        "two kernels",
        "no launch",
        "launched in a loop",
        "launched for ever",
        "launched under a condition",
    ],
)
def test_not_one_launch(factory, source, words):
    assert words in refusal(factory(source), "lower")


@pytest.mark.parametrize("option", ["cooperative", "use_pdl"])
def test_launch_that_no_step_asks_for(factory, option):
    text = refusal(factory(launched(f"{BLOCK}, {option}=True")), "lower")
    assert f"the launch asks for `{option}=True` (cudaLaunchAttributeID), which no step uses" in text


@pytest.mark.parametrize("block", ["(2048, 1, 1)", "(1024, 2, 1)"])
def test_too_many_threads(factory, block):
    assert "2048 threads per CTA; Hopper allows 1024" in refusal(factory(launched(f"block={block}")), "limit")


def test_too_much_shared_memory(factory):
    """Allocated in the kernel, or asked for in the launch."""
    kernel = in_kernel(
        "x = SmemAllocator().allocate_tensor(cutlass.Float16, cute.make_layout((256, 512)), 1024)\n"
        "        x[thread, 0] = A[thread, 0]"
    )
    for source, size in [
        ("from cutlass.memory import SmemAllocator\n" + kernel, "262,144"),
        (launched(BLOCK + ", smem=300000"), "300,000"),
    ]:
        text = refusal(factory(source), "limit")
        assert f"asks for {size} bytes of shared memory; an SM of sm_90 gives a CTA at most 232,448" in text


@pytest.mark.parametrize(
    "step, size",
    [
        ("step01", (128, 128, 128)),
        ("step02", (128, 256, 64)),
        ("step04", (100, 128, 64)),
        ("step10", (128, 256, 64)),
    ],
)
def test_size_that_the_tile_does_not_divide(step, size):
    """The author's assert comes through, with the place."""
    path = loading.solution_path(step, "cute")
    text = refusal(loading.load_factory(path), "trace", size)
    assert f"gemm{size} raised AssertionError: " in text
    assert re.search("multiples? of|exactly one", text)
    assert f"at {path.name}, line {line_of(path.read_text(), 'assert ')}: assert " in text


@pytest.mark.parametrize(
    "source, line",
    [
        ("def gemm(M, N, K):\n    while True:\n        pass\n", "(while True:|pass)"),
        (edit(in_host("spin()"), ("def gemm(", SPIN)), "(while True:|pass)"),
        (edit(in_kernel("spin()"), ("def gemm(", SPIN)), "(while True:|pass)"),
        (in_host("while cutlass.const_expr(True):\n            pass"), "(while cutlass|pass)"),
        (
            in_kernel("for _ in cutlass.range_constexpr(10**8):\n            cute.arch.sync_threads()"),
            "(for _ in|cute.arch.sync_threads)",
        ),
    ],
    ids=["factory", "host", "kernel", "loop of the host", "loop unrolled for ever"],
)
def test_endless_trace_is_ended(factory, monkeypatch, source, line):
    """In the words of the clock and not of the DSL, which goes on to compile the next kernel."""
    gemm = factory(source)
    with monkeypatch.context() as patch:
        patch.setattr(child, "LIMIT", 1.5)  # a busy machine takes its time to get there
        text = refusal(gemm, "trace")
    first, place = text.splitlines()
    assert (
        first == "gemm(128, 192, 64) did not end within 1.5 s: is there a Python loop in it that never ends?"
    )
    assert re.match(rf"  at mine\.py, line \d+: {line}", place), place
    assert fields(compiler.compile_kind(factory(KERNEL), "gemm", 128, 192, 64)) == fields(small())


def test_compiling_beside_the_main_thread(factory):
    """The thread that asks forks; in the child it is the main one, with a clock."""
    gemm, bad = factory(KERNEL, "good"), factory(TRACE_ERRORS["rank"][0], "bad")
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(compile_factory, gemm, "cute", (128, 192, 64)).result()
        assert fields(made) == fields(small())
        assert "at mine.py, line 9: D[thread, 0, 0]" in pool.submit(refusal, bad, "lower").result()


def test_endless_recursion_is_a_reason(factory):
    assert "RecursionError" in refusal(factory("def gemm(M, N, K):\n    return gemm(M, N, K)\n"), "trace")


DEPRECATED = edit(
    in_kernel("smem = cutlass.utils.SmemAllocator()\n        cute.arch.warpgroup_reg_alloc(40)"),
    (BLOCK, BLOCK + ", min_blocks_per_mp=1"),
)


def test_nothing_is_printed(factory, capfd):
    """None of the DSL's warnings, remarks and errors; what the learner's code prints while it is traced comes
    with the kernel.
    """
    source = edit(
        DEPRECATED,
        (BODY, "        print('traced')\n        cute.printf('run {}', thread)\n" + BODY),
        (f"        {CALL}", f"        cute.printf('host {{}}', M)\n        {CALL}"),
        ("    return main", "    print('made')\n    return main"),
    )
    gemm = factory("print('loaded')\n" + source)
    cute = compiler.import_cute()
    tensors = small().tensors
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        cute.compile(gemm(128, 192, 64), *map(compiler._fake, tensors))
        aloud, warned = capfd.readouterr(), [str(w.message) for w in seen if w.category is DeprecationWarning]
        assert all(word in aloud.out for word in ("loaded", "made", "traced"))
        assert any("SmemAllocator" in words for words in warned) and any(
            "setmaxregister_increase" in words for words in warned
        )
        seen.clear()
        for _ in range(2):  # the second from the cache
            (made,) = compile_sizes(gemm, "cute", [(128, 192, 64)])
            assert made.artifact.resources.registers > 0 and made.printed == "made\ntraced\n"
        for case in ("rank", "assembler", "verifier", "name in the kernel"):
            refusal(factory(TRACE_ERRORS[case][0]), "lower")
        refusal(factory("def gemm(M, N, K):\n    return M.no_such_thing\n"), "trace")
        assert [str(w.message) for w in seen] == []
    assert capfd.readouterr() == ("", "")
    print("after", flush=True)
    print("after", file=sys.stderr, flush=True)
    assert capfd.readouterr() == ("after\n", "after\n")


def test_nothing_is_left_in_a_folder(factory, tmp_path, monkeypatch):
    """Not in the current one, where the DSL would dump what it makes, and not in the one for temporary
    files.
    """
    good, bad = (
        factory(KERNEL, "good"),
        [factory(TRACE_ERRORS[case][0], case) for case in ("rank", "assembler")],
    )
    for name in ("current", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "current")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    compiler.compile_kind(good, "gemm", 128, 192, 64)
    for gemm in bad:
        refusal(gemm, "lower")
    assert list((tmp_path / "current").iterdir()) == list((tmp_path / "temporary").iterdir()) == []


def python(script, *arguments) -> str:
    """What a fresh Python prints that has never been told of an architecture."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CUTE_DSL_")}
    ran = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=REPO,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


@pytest.mark.parametrize(
    "first", ["", "import cutlass, cutlass.cute"], ids=["alone", "cutlass imported before"]
)
def test_the_chip_is_hopper_whatever_the_environment(first):
    """Also for what a factory makes before its host function is traced: the DSL looks at the chip there
    too.
    """
    source = loading.solution_path("step01", "cute").read_text()
    begin, end = (source.index(f"        {line}") for line in ("fp16, fp32, shape =", "mma = cute"))
    op = source[begin:end]
    outside = textwrap.indent(textwrap.dedent(op), "    ")
    script = f"""{first}
import re
from course_utils.compile import load as loading
from course_utils.compile import cute
before = "    @cute.kernel"
gemm = loading.plant("step01", "cute", ({op!r}, ""), (before, {outside!r} + before))
a = cute.compile_kind(gemm, 'gemm', 128, 128, 64)
print(re.findall(r"[.]target ([a-z0-9_]+)", a.ptx), "wgmma" in a.ptx)"""
    assert python(script) == "['sm_90a'] True\n"


@pytest.mark.thorough  # changes with the compiler
def test_no_solution_uses_a_deprecated_name(tmp_path):
    """Four that call all that the others call and, lest the count be 0 by chance, a kernel that uses two."""
    script = """
import sys, warnings
from course_utils.compile import load as loading
from course_utils.artifact import Tensor
from course_utils.compile import cute as compiler
for path, M, N, K in zip(*[iter(sys.argv[1:])] * 4):
    M, N, K = int(M), int(N), int(K)
    shapes = {"A": (M, K), "B": (N, K), "D": (M, N)}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        gemm = loading.load_factory(path)
        cute = compiler.import_cute()
        cute.compile(gemm(M, N, K), *(compiler._fake(Tensor(*named, "float16")) for named in shapes.items()))
    print(sum(issubclass(w.category, (DeprecationWarning, FutureWarning)) for w in seen), flush=True)
"""
    (tmp_path / "deprecated.py").write_text(DEPRECATED)
    arguments = []
    calls = {step: _calls(loading.solution_path(step, "cute")) for step in steps.STEPS}
    some = ("step03", "step04", "step10", "step11")
    assert set().union(*calls.values()) == set().union(*(calls[step] for step in some))
    for step in some:
        arguments += [loading.solution_path(step, "cute"), *steps.find(step).check_sizes[0]]
    last = tmp_path / "deprecated.py", 128, 192, 64
    assert python(script, *arguments, *last).split() == ["0"] * len(some) + ["2"]


def _calls(path):
    """What a file calls, by name."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}


USER = """
\x1b[91m\x1b[1merror[SOME_CODE]:\x1b[0m `x` is wrong
 \x1b[94m-->\x1b[0m /home/me/my notebooks/mine.py:10
   |
 9 |         y = 0
10 |         x = y
   |         \x1b[91m^\x1b[0m
  \x1b[94m= note:\x1b[0m Caused exception: x
  \x1b[92msuggestion:\x1b[0m Give `x` a value
              of one type.
  \x1b[92msuggestion:\x1b[0m Or leave it out.
"""
INTERNAL = """
error[INTERNAL]: The compiler could not build valid IR for this code.

  --> /tmp/mine.py:9:8
      in function `kernel(...)`:
   |
   8 |         y = 0
>  9 |         D[y] = 1
     |        ^
  10 |
  error: IR verification failed: 'op' expects coordinate of
         kernel_cutlass_kernel_f16_0 to be congruent
  suggestion: Check the source location above.
  suggestion: Re-run with CUTE_DSL_SHOW_STACKTRACE=1 to include the full technical detail.
"""
PTXAS = """error: PTX assembly failed

  --> /tmp/mine.py:6:0
   |
> 6 |     @cute.kernel
    | ^
  error: ptxas rejected the PTX generated for this kernel while compiling it to SASS.
  note: target architecture: sm_90a
  note: ptxas log:
        ptxas application ptx input, line 33; error   : Barrier number '17' out of range, expected
        to be in range [0..15]
        ptxas fatal   : Ptx assembly aborted due to errors
  suggestion: read the ptxas log above; re-run with CUTE_DSL_KEEP=ptx
"""
MLIR = """Verification failed:
error: "f(1)"("/tmp/mine.py":64:12): 'nvvm.setmaxregister' op new register size must be multiple of 8
 note: "f(1)"("/tmp/mine.py":64:12): see current operation: "nvvm.setmaxregister"() : () -> ()

Exception Origin:
  File "op.py", line 523, in wrapper
"""


@pytest.mark.parametrize(
    "message, said",
    [
        (USER, "`x` is wrong\nGive `x` a value of one type.\nOr leave it out.\n  at mine.py, line 10: x = y"),
        (
            INTERNAL,
            "IR verification failed: 'op' expects coordinate of the kernel to be congruent\n  at mine.py, "
            "line 9: D[y] = 1",
        ),
        (
            PTXAS,
            "PTX assembly failed: Barrier number '17' out of range, expected to be in range [0..15]\n"
            "  at mine.py, line 6: @cute.kernel",
        ),
        (
            MLIR,
            "'nvvm.setmaxregister' op new register size must be multiple of 8\n  at mine.py, line 64: f(1)",
        ),
        ("module has no attribute 'x'", "module has no attribute 'x'"),
        ("", "no message"),
        ("\n".join("abcdefghijkl"), "\n".join("abcdefgh")),
    ],
    ids=["user", "internal", "assembler", "verifier", "plain", "empty", "long"],
)
def test_an_error_is_told_without_its_envelope(message, said):
    text, place = compiler.tidy_error(RuntimeError(message))
    assert text + (f"\n  at {place}" if place else "") == said


def test_allocations_of_a_cute_kernel():
    """Offset, bytes, alignment, swizzle 128B of each, in order: they make up the launch's shared memory."""
    made = compile_factory(
        loading.load_factory(loading.solution_path("step05", "cute")), "cute", (256, 256, 128)
    )
    found = [(one.offset, one.size, one.alignment, one.swizzle) for one in made.allocations]
    ring = 4 * 128 * 64 * 2
    assert found == [
        (0, 32, 8, 0),
        (1024, ring, 1024, 3),
        (1024 + ring, ring, 1024, 3),
        (1024 + 2 * ring, 32768, 1024, 3),
    ]
    assert made.allocations[-1].end == made.dynamic_shared
    assert list(map(made.name_of, made.allocations)) == ["barriers", "A_shared", "B_shared", "D_shared"]


def test_the_fields_of_a_struct_are_allocations():
    edits = (
        (
            "        smem = SmemAllocator()\n",
            "        smem = SmemAllocator()\n"
            "        @cute.struct\n        class Storage:\n"
            "            first: cute.struct.MemRange[cutlass.Int64, 2]\n"
            "            barriers: cute.struct.MemRange[cutlass.Int64, 4]\n\n"
            "        storage = smem.allocate(Storage)\n",
        ),
        (
            "barriers = smem.allocate_array(cutlass.Int64, 2 * num_stages)",
            "barriers = storage.barriers.data_ptr()",
        ),
    )
    made = compile_factory(loading.plant("step05", "cute", *edits), "cute", (256, 256, 128))
    assert [(one.offset, one.size) for one in made.allocations[:2]] == [(0, 16), (16, 32)]
