"""From a TileLang factory to an Artifact: the launch is what the source asks for, and every bad factory is
told why.
"""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import tilelang
from tilelang import tvm

from course_utils.artifact import SWIZZLES, TensorMap
from course_utils.compile import child
from course_utils.compile import load as loading
from course_utils.compile import tilelang as compiler
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory, compile_sizes
from course_utils.compile.load import edited as edit
from course_utils.compile.nvrtc import parse_ptxas_log
from course_utils.ptx.receipts import read_ptx

M, N, K = 768, 1280, 576

HEAD = """import tilelang.language as T


def gemm(M, N, K):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((N, K), T.float16),
        D: T.Tensor((M, N), T.float16),
    ):
"""
# one 64 x 64 tile a CTA, K ignored past 64: right or wrong does not matter here
BODY = """        with T.Kernel(N // 64, M // 64, threads=128) as (bx, by):
            A_shared = T.alloc_shared((64, 64), T.float16)
            B_shared = T.alloc_shared((64, 64), T.float16)
            acc = T.alloc_fragment((64, 64), T.float32)
            T.copy(A[by * 64 : (by + 1) * 64, 0:64], A_shared)
            T.copy(B[bx * 64 : (bx + 1) * 64, 0:64], B_shared)
            T.gemm(A_shared, B_shared, acc, transpose_B=True, clear_accum=True)
            T.copy(acc, D[by * 64 : (by + 1) * 64, bx * 64 : (bx + 1) * 64])

    return main
"""
KERNEL = HEAD + BODY
COPY = """        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((64, 64), T.float16)
            T.copy(A[0:64, 0:64], x)
            T.copy(x, D[0:64, 0:64])
"""
RETURN = "\n    return main\n"


@pytest.fixture
def factory(tmp_path):
    """A function from source to ``gemm``, by way of a file: TileLang reads the source of what it traces."""

    def load(source):
        path = tmp_path / "mine.py"
        path.write_text(source)
        return loading.load_factory(path)

    return load


def refusal(gemm, stage, size=(128, 192, 64)) -> str:
    with pytest.raises(CompileError) as caught:
        compile_factory(gemm, "tilelang", size)
    text = str(caught.value)
    assert caught.value.stage == stage, text
    assert 1 <= len(text.splitlines()) <= 12
    # nothing of the compiler's own frames
    assert not re.search(r'File ".*"|\.(cc|h|pyx)\b|Traceback|0x[0-9a-f]{8}', text)
    return text


def line_of(source, words) -> int:
    return 1 + [words in line for line in source.splitlines()].index(True)


@cache
def solution(step):
    return compiler.compile_kind(
        loading.load_factory(loading.solution_path(step, "tilelang")), "gemm", M, N, K
    )


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


def entry_parameters(ptx) -> list[str]:
    """The kind of each parameter that the PTX entry declares, in order."""
    declared = re.search(r"\.entry \w+\((.*?)\)", ptx, re.DOTALL).group(1)
    kinds = {".b8": "tensor_map", ".u64": "pointer"}
    return [kinds[kind] for kind in re.findall(r"\.param (?:\.align \d+ )?(\.\w+)", declared)]


def source_parameters(source) -> list[str]:
    """The tensor of each parameter in the CUDA source, in order."""
    declared = re.search(r"__global__ void [^;]*?main_kernel\((.*?)\)", source).group(1)
    return [parameter.split()[-1].removesuffix("_desc") for parameter in declared.split(",")]


def test_launch_of_step_4():
    a = solution("step04")
    assert (a.grid, a.block, a.cluster) == ((N // 128, M // 128, 1), (128, 1, 1), (1, 1, 1))
    # the ring; D_shared takes its place once it is done with
    assert a.dynamic_shared == 4 * (128 + 128) * 64 * 2
    # half a tile: a row of 128 B swizzle is 64 elements
    assert [(p.kind, p.tensor, p.tensor_map) for p in a.parameters] == [
        ("tensor_map", "A", tile_map(M, K, box=(128, 64))),
        ("tensor_map", "B", tile_map(N, K, box=(128, 64))),
        ("tensor_map", "D", tile_map(M, N, box=(128, 64))),
    ]


def test_launch_of_step_10():
    a = solution("step10")
    assert (a.grid, a.block, a.cluster) == ((128, 1, 1), (384, 1, 1), (2, 1, 1))
    assert a.dynamic_shared == 4 * (128 + 256) * 64 * 2 + 2 * 128 * 64 * 2  # the ring and two buffers of D
    assert [(p.kind, p.tensor, p.tensor_map) for p in a.parameters] == [
        ("tensor_map", "A", tile_map(M, K, box=(128, 64))),
        ("tensor_map", "B", tile_map(N, K, box=(256, 64))),
        ("tensor_map", "D", tile_map(M, N, box=(128, 64))),
    ]


def test_launch_of_a_kernel_with_maps_and_pointers(factory):
    """B by TMA, A and D by the threads: the order and kind of parameters are the kernel's own."""
    source = edit(
        KERNEL,
        ("            acc =", "            full = T.alloc_barrier(1)\n            acc ="),
        (
            "T.copy(B[bx * 64 : (bx + 1) * 64, 0:64], B_shared)",
            "T.tma_copy(B[bx * 64 : (bx + 1) * 64, 0:64], B_shared, barrier=full)\n"
            "            if T.shuffle_elect(128):\n"
            "                T.mbarrier_arrive(full)\n"
            "            T.mbarrier_wait_parity(full, 0)",
        ),
    )
    a = compiler.compile_kind(factory(source), "gemm", M, N, K)
    assert (a.grid, a.block) == ((N // 64, M // 64, 1), (128, 1, 1))
    assert {p.tensor: p.kind for p in a.parameters} == {"A": "pointer", "B": "tensor_map", "D": "pointer"}
    assert [p.kind for p in a.parameters] == entry_parameters(a.ptx)
    assert [p.tensor for p in a.parameters] == source_parameters(a.source)


def test_two_boxes_of_one_tensor_are_two_maps(factory):
    source = edit(
        KERNEL,
        ("            acc =", "            full = T.alloc_barrier(1)\n            acc ="),
        (
            "T.copy(B[bx * 64 : (bx + 1) * 64, 0:64], B_shared)",
            "narrow = T.alloc_shared((64, 16), T.float16)\n"
            "            T.tma_copy(B[bx * 64 : (bx + 1) * 64, 0:64], B_shared, barrier=full)\n"
            "            T.tma_copy(B[bx * 64 : (bx + 1) * 64, 0:16], narrow, barrier=full)\n"
            "            if T.shuffle_elect(128):\n"
            "                T.mbarrier_arrive(full)\n"
            "            T.mbarrier_wait_parity(full, 0)",
        ),
    )
    a = compiler.compile_kind(factory(source), "gemm", M, N, K)
    assert sorted(p.tensor_map.box[0] for p in a.parameters if p.tensor_map) == [16, 64]


@pytest.mark.parametrize("step", ["step04", "step10"])
def test_artifact_is_of_one_kernel(step):
    a = solution(step)
    assert [(t.name, t.shape, t.dtype) for t in a.tensors] == [
        ("A", (M, K), "float16"),
        ("B", (N, K), "float16"),
        ("D", (M, N), "float16"),
    ]
    assert a.problem == (M, N, K)
    assert re.findall(r"\.entry (\w+)\(", a.ptx) == [a.kernel]
    assert ".target sm_90a" in a.ptx and a.cubin.startswith(b"\x7fELF") and a.kernel.encode() in a.cubin
    assert [p.kind for p in a.parameters] == entry_parameters(a.ptx)
    assert [p.tensor for p in a.parameters] == source_parameters(a.source)
    assert a.resources.registers > 24 and a.resources.static_shared > 0  # the mbarriers
    assert set(a.versions) == {"tilelang", "nvrtc"}


def test_ptxas_log():
    log = """ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'main_kernel' for 'sm_90a'
ptxas info    : Function properties for main_kernel
    112 bytes stack frame, 104 bytes spill stores, 96 bytes spill loads
ptxas info    : Used 168 registers, used 16 barriers, 112 bytes cumulative stack size, 1024 bytes smem
ptxas warning : (C7508) setmaxnreg ignored
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized"""
    r = parse_ptxas_log(log)
    assert (r.registers, r.stack_frame, r.spill_stores, r.spill_loads, r.static_shared) == (
        168,
        112,
        104,
        96,
        1024,
    )
    assert r.warnings == (
        "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized",
        "(C7508) setmaxnreg ignored",
    )


def test_gemm_must_be_callable():
    for thing in (None, 42, "gemm"):
        with pytest.raises(CompileError, match=f"{type(thing).__name__}, not a function") as caught:
            compile_factory(thing, "tilelang", (128, 128, 64))
        assert caught.value.stage == "load"


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
        (KERNEL.replace(RETURN, "\n"), "NoneType"),
        ("def gemm(M, N, K):\n    return 42\n", "int"),
        ("def gemm(M, N, K):\n    return gemm\n", "function"),
    ],
)
def test_factory_returns_something_else(factory, source, kind):
    text = refusal(factory(source), "signature")
    assert f"returned {kind}; it must return a TileLang PrimFunc" in text and "return main" in text


@pytest.mark.parametrize(
    "change, names",
    [
        (("        B: T.Tensor((N, K), T.float16),\n", ""), "(A_handle, D_handle)"),
        (
            ("        D: ", "        C: T.Tensor((M, N), T.float16),\n        D: "),
            "(A_handle, B_handle, C_handle, D_handle)",
        ),
        (("B: T.Tensor((N, K), T.float16)", "B: T.int32"), "(A_handle, B, D_handle)"),
    ],
)
def test_wrong_number_of_tensors(factory, change, names):
    text = refusal(factory(edit(HEAD + COPY + RETURN, change)), "signature")
    assert f"the kernel takes {names}; it must take three tensors, A, B and D" in text


@pytest.mark.parametrize(
    "change, words",
    [
        (("B: T.Tensor((N, K)", "B: T.Tensor((K, N)"), "B has shape (64, 192); it must be (192, 64)"),
        (("A: T.Tensor((M, K)", "A: T.Tensor((M, K, 1)"), "A has shape (128, 64, 1); it must be (128, 64)"),
        (
            ("D: T.Tensor((M, N), T.float16)", "D: T.Tensor((M, N), T.float32)"),
            "D is float32; it must be float16",
        ),
        (
            ("A: T.Tensor((M, K), T.float16)", "A: T.Tensor((M, K), T.bfloat16)"),
            "A is bfloat16; it must be float16",
        ),
        (
            ("    @T.prim_func", "    K = T.dynamic('K')\n\n    @T.prim_func"),
            "A has shape (128, 'K'); it must be (128, 64)",
        ),
    ],
    ids=["shape", "rank", "dtype of D", "dtype of A", "dynamic"],
)
def test_wrong_shape_or_dtype(factory, change, words):
    changes = [change]
    if "1)" in change[1]:
        changes.append(("T.copy(A[0:64, 0:64], x)", "T.copy(A[0:64, 0:64, 0], x)"))
    assert words in refusal(factory(edit(HEAD + COPY + RETURN, *changes)), "signature")


@pytest.mark.parametrize(
    "change",
    [
        ("    @T.prim_func", "    K = T.dynamic('K')\n\n    @T.prim_func"),
        ("B: T.Tensor((N, K), T.float16)", "B: T.int32"),
    ],
    ids=["dynamic", "scalar"],
)
def test_program_that_is_no_step_needs_static_tensors_too(factory, change):
    prim_func = factory(edit(HEAD + COPY + RETURN, change))(128, 192, 64)
    with pytest.raises(CompileError):
        compiler.compile_prim_func(prim_func)


def test_two_kernels(factory):
    assert "this program has 2 kernels; a step is one" in refusal(
        factory(HEAD + COPY + COPY + RETURN), "lower"
    )


def test_no_kernel(factory):
    refusal(factory(HEAD + COPY.replace("with T.Kernel(1, threads=128)", "if True") + RETURN), "lower")


def test_workspace(factory):
    source = (
        HEAD
        + COPY
        + "            w = T.alloc_global((64, 64), T.float16)\n            T.copy(x, w)\n"
        + RETURN
    )
    assert "takes w, which is none of A, B, D" in refusal(factory(source), "lower")


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
    path = loading.solution_path(step, "tilelang")
    text = refusal(loading.load_factory(path), "trace", size)
    assert f"gemm{size} raised AssertionError: " in text
    assert re.search("multiples? of|exactly one", text)
    assert f"at {path.name}, line {line_of(path.read_text(), 'assert ')}: assert " in text


def test_too_much_shared_memory(factory):
    source = edit(
        KERNEL,
        ("A_shared = T.alloc_shared((64, 64)", "A_shared = T.alloc_shared((28, 64, 64)"),
        ("], A_shared)", "], A_shared[0, :, :])"),
        ("T.gemm(A_shared,", "T.gemm(A_shared[0, :, :],"),
    )
    text = refusal(factory(source), "limit")
    assert (
        f"asks for {(28 + 1) * 64 * 64 * 2:,} bytes of shared memory; an SM of sm_90 gives a CTA at most "
        "232,448" in text
    )


def test_too_many_threads(factory):
    text = refusal(factory(edit(HEAD + COPY + RETURN, ("threads=128", "threads=2048"))), "limit")
    assert "2048 threads per CTA; Hopper allows 1024" in text


def test_error_while_tracing_names_the_line(factory):
    source = edit(KERNEL, ("transpose_B=True", "transpose_B=True, no_such_option=1"))
    text = refusal(factory(source), "trace")
    assert "no_such_option" in text
    assert f"at mine.py, line {line_of(source, 'T.gemm')}: T.gemm(" in text


# x is in registers
NO_TMA = edit(
    HEAD + COPY + RETURN,
    (
        "            T.copy(A[0:64, 0:64], x)\n",
        "            full = T.alloc_barrier(1)\n            T.tma_copy(A[0:64, 0:64], x, barrier=full)\n",
    ),
)
TOO_WIDE = edit(
    KERNEL, ("T.copy(A[by * 64 : (by + 1) * 64, 0:64]", "T.copy(A[by * 64 : (by + 1) * 64, 0:640]")
)


def test_error_while_lowering_shows_the_source(factory):
    text = refusal(factory(NO_TMA), "lower")
    assert text.startswith(
        "TileLang could not lower this kernel: TMA is not available from A to x: it copies"
    )
    line = line_of(NO_TMA, "T.tma_copy")
    assert text.endswith(f"\n  at mine.py, line {line}: T.tma_copy(A[0:64, 0:64], x, barrier=full)")
    assert text.count("\n") == 1


def test_error_while_lowering_names_the_copy_that_is_to_blame(factory):
    text = refusal(factory(TOO_WIDE), "lower")
    told = (
        "the two sides of this copy have different shapes: A's is 64 x 640, A_shared's 64 x 64. Slice both "
        "in the same way."
    )
    assert told in text
    assert f"at mine.py, line {line_of(TOO_WIDE, '0:640')}: T.copy(A[" in text


def test_error_while_lowering_of_two_copies_names_the_first(factory):
    source = TOO_WIDE.replace(
        "T.copy(B[bx * 64 : (bx + 1) * 64, 0:64]", "T.copy(B[bx * 64 : (bx + 1) * 64, 0:640]"
    )
    assert source != TOO_WIDE
    assert f"at mine.py, line {line_of(source, '0:640')}: T.copy(A[" in refusal(factory(source), "lower")


@pytest.mark.parametrize("source", [NO_TMA, TOO_WIDE], ids=["no TMA", "too wide"])
def test_error_while_lowering_points_at_no_file_of_the_compiler(factory, source):
    assert "function.pxi" not in refusal(factory(source), "lower")


def test_error_of_nvrtc(factory):
    text = refusal(
        factory(HEAD + COPY + "            T.call_extern('handle', 'no_such_function')\n" + RETURN),
        "assemble",
    )
    assert 'error: identifier "no_such_function" is undefined' in text


@pytest.mark.parametrize(
    "body", ["    while True:\n        pass\n", "    n = 0\n    while n >= 0:\n        n += 1\n"]
)
def test_endless_trace_is_ended(factory, monkeypatch, body):
    monkeypatch.setattr(child, "LIMIT", 0.3)
    text = refusal(factory("def gemm(M, N, K):\n" + body), "trace")
    assert "gemm(128, 192, 64) did not end within 0.3 s" in text and "never ends" in text
    assert "at mine.py, line " in text


def test_endless_kernel_loop_is_a_reason(factory):
    """TileLang finds this one itself."""
    source = HEAD + COPY + "            while True:\n                T.copy(x, D[0:64, 0:64])\n" + RETURN
    assert "mine.py, line" in refusal(factory(source), "trace")


def test_a_programmatic_launch_has_its_header(factory):
    """NVRTC does not include it by itself, as NVCC does."""
    source = HEAD + COPY.replace("            T.copy(A", "            T.pdl_sync()\n            T.copy(A")
    gemm = factory(source + "            T.pdl_trigger()\n" + RETURN)
    made = compile_factory(gemm, "tilelang", (64, 64, 64))
    assert "griddepcontrol.wait;" in made.ptx and "griddepcontrol.launch_dependents;" in made.ptx


def test_compiling_beside_the_main_thread(factory):
    """The thread that asks forks; in the child it is the main one, with a clock."""
    gemm = factory("def gemm(M, N, K):\n    return 42\n")
    with ThreadPoolExecutor(1) as pool:
        assert "must return a TileLang PrimFunc" in pool.submit(refusal, gemm, "signature").result()


def test_endless_recursion_is_a_reason(factory):
    assert "RecursionError" in refusal(factory("def gemm(M, N, K):\n    return gemm(M, N, K)\n"), "trace")


def test_nothing_is_printed(factory, capfd):
    """Not even where TileLang's C++ half writes a warning past Python's streams."""
    source = edit(KERNEL, ("clear_accum=True", "clear_accum=False"))
    gemm = factory("print('loaded')\n" + source)
    with tvm.target.Target({"kind": "cuda", "arch": "sm_90a"}) as target:
        tilelang.lower(gemm(128, 192, 64), target=target)
    aloud = capfd.readouterr()
    assert "loaded" in aloud.out and "Buffer read before initialization" in aloud.err
    (made,) = compile_sizes(gemm, "tilelang", [(128, 192, 64)])
    assert made.printed == ""
    refusal(factory(NO_TMA), "lower")
    refusal(factory("def gemm(M, N, K):\n    return M.no_such_thing\n"), "trace")
    assert capfd.readouterr() == ("", "")
    print("after", flush=True)
    print("after", file=sys.stderr, flush=True)
    assert capfd.readouterr() == ("after\n", "after\n")


def test_tilelang_puts_a_missing_proxy_fence_back():
    """Seen on tilelang 0.1.15: why no wrong kernel of the course lacks its fence. A release that stops doing
    so fails here.
    """
    gemm = loading.plant("step04", "tilelang", ("            T.fence_proxy_async()", "            "))
    assert read_ptx(compiler.compile_kind(gemm, "gemm", 256, 512, 128).ptx).proxy_fences > 0


LOOP = """            T.clear(acc)
            for k in T.Pipelined(K // 64, num_stages=2):
                T.copy(A[by * 64 : (by + 1) * 64, k * 64 : (k + 1) * 64], A_shared)
                T.copy(B[bx * 64 : (bx + 1) * 64, k * 64 : (k + 1) * 64], B_shared)
                T.gemm(A_shared, B_shared, acc, transpose_B=True)
"""
OWN = BODY[BODY.index("            T.copy(A[") : BODY.index("            T.copy(acc")]
WAIT = "                T.mbarrier_wait_parity(bar, 0)\n                T.gemm("
WAITED = LOOP.replace("                T.gemm(", WAIT).replace(
    "            T.clear", "            bar = T.alloc_barrier(1)\n            T.clear"
)


@pytest.mark.parametrize(
    "body, compilers", [(LOOP, True), (LOOP + LOOP, True), (OWN, False), (LOOP + OWN, False), (WAITED, False)]
)
def test_a_ring_is_the_compilers_where_all_is_multiplied_in_its_loop(factory, body, compilers):
    """A pipelined loop beside the author's own, or around it, leaves nothing to the compiler."""
    assert compiler._pipelined(factory(KERNEL.replace(OWN, body))(64, 64, 128)) is compilers
