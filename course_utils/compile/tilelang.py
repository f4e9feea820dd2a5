"""TileLang to an Artifact: trace the factory, lower the PrimFunc, read its launch, assemble its CUDA source.

TileLang splits a PrimFunc into a device function (CUDA source) and a host function (an IR that checks the
arguments, encodes the tensor maps and launches). The host function is never run here; its calls are read.
Seen on tilelang 0.1.15.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache as once
from importlib import import_module
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import Any

from course_utils import artifact
from course_utils.artifact import Artifact, Parameter, PixelMap, Place, Resources, Tensor, TensorMap
from course_utils.chips import HOME, Chip
from course_utils.compile import cache, copy_errors, lines, nvrtc, operands
from course_utils.compile.compiler_messages import explained, refused
from course_utils.compile.errors import CompileError
from course_utils.compile.guard import at, quiet, text_of, where
from course_utils.compile.limits import require_fits
from course_utils.problems import PROBLEMS, Problem, swapped

DTYPE = "float16"  # of almost every tensor
CLUSTER_AXES = ("tir.cluster_dim_x", "tir.cluster_dim_y", "tir.cluster_dim_z")
GRID_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
# all that TileLang's CUDA source begins with, by what it is compiled for: each kernel takes some of them
_NAMES = {
    "sm_90a": "nvrtc_std instruction/wgmma intrin barrier copy_sm90 cluster reduce scan ldsm "
    "threadblock_swizzle debug",
    "sm_100a": "nvrtc_std instruction/tcgen05mma tcgen_05 tcgen_05_ld tcgen_05_st intrin barrier copy_sm100 "
    "cluster reduce scan ldsm threadblock_swizzle debug",
}
HEADERS = {
    arch: tuple(f"tl_templates/cuda/{name}.h" for name in names.split()) for arch, names in _NAMES.items()
}
SETTINGS = ("TILELANG_", "TL_", "TVM_")  # what the environment variables that it reads begin with
# a function that an author may have TileLang call on the CUDA source (tilelang.engine.callback)
CALLBACK = "tilelang_callback_cuda_postproc"
MULTIPLIES, WAITS = r"gemm|ptx_wgmma", "mbarrier_wait"  # in the names of TileLang's operations
BLOCK_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


def compile_kind(factory: Callable, kind: str, *size: int, chip: Chip = HOME) -> Artifact:
    """Compile ``factory(*size)`` for ``chip``, a TileLang PrimFunc of the tensors that the problem ``kind``
    has (of ``problems.PROBLEMS``).

    Raises CompileError, whose text says what to change.
    """
    return compile_prim_func(_traced(factory, kind, size), chip)


def trace_kind(factory: Callable, kind: str, *size: int, chip: Chip = HOME) -> Artifact:
    """As ``compile_kind``, up to the program that the factory's Python makes: ``source`` is that program as
    TVM writes it, and nothing else is known. ``compile_traced`` goes on, in a process without that Python.
    """
    from tilelang import tvm

    prim_func = _traced(factory, kind, size)
    try:
        written = tvm.ir.save_json(prim_func)
    except Exception as error:
        raise CompileError("trace", f"this program has no form as text: {tidy_error(error)}") from error
    none, no_one = (0, 0, 0), Resources(0, 0, 0, 0, 0)
    return Artifact("tilelang", "", "", b"", none, none, none, 0, (), (), no_one, source=written)


def compile_traced(traced: Artifact, kind: str, *size: int, chip: Chip = HOME) -> Artifact:
    """Compile what ``trace_kind`` made for ``chip``. Raises CompileError, also for anything else."""
    from tilelang import tvm

    try:
        prim_func = tvm.ir.load_json(traced.source)
    except Exception as error:
        raise CompileError("trace", "this is no program that TileLang traced") from error
    if not isinstance(prim_func, tvm.tirx.PrimFunc):
        raise CompileError("trace", "this is no program that TileLang traced")
    return compile_prim_func(prim_func, chip)


def _traced(factory: Callable, kind: str, size: tuple[int, ...]) -> Any:
    """The PrimFunc of ``factory(*size)``, with the tensors that the problem has.

    Where it says ``any_shape``, a tensor may have another shape of as many elements: the same bytes seen
    another way. Raises CompileError.
    """
    problem = PROBLEMS[kind]
    prim_func = _trace(factory, problem, size)
    wanted = list(problem.tensors(*size))
    for place, handle in enumerate(prim_func.params[: len(wanted)] if problem.any_shape else ()):
        own = (
            tuple(map(_extent, prim_func.buffer_map[handle].shape)) if handle in prim_func.buffer_map else ()
        )
        if prod(own) == prod(wanted[place].shape):
            wanted[place] = replace(wanted[place], shape=own)
    _require_signature(prim_func, wanted, problem.signature(size))
    return prim_func


def _extent(size: Any) -> int:
    """A buffer's extent; 0 where it is not a constant."""
    return int(size) if isinstance(size, int) or hasattr(size, "value") else 0


def compile_prim_func(prim_func: Any, chip: Chip = HOME) -> Artifact:
    """Compile any TileLang PrimFunc with static shapes and one kernel for ``chip``. Raises CompileError."""
    if any(handle not in prim_func.buffer_map for handle in prim_func.params):
        raise CompileError(
            "signature", "the kernel takes a scalar; it must take tensors only, and sizes as Python integers"
        )
    buffers = [prim_func.buffer_map[handle] for handle in prim_func.params]
    tensors = tuple(
        Tensor(
            str(b.name), tuple(_constant(extent, f"a size of {b.name}") for extent in b.shape), str(b.dtype)
        )
        for b in buffers
    )
    # a view of a tensor (T.view) gives its memory the view's name
    names = {str(b.data.name): str(b.name) for b in buffers} | {str(b.name): str(b.name) for b in buffers}
    bare = _kept_or_lowered(prim_func, tensors, names, chip)
    shape = bare.grid, bare.block, bare.cluster
    require_fits(*shape, bare.dynamic_shared, chip=chip)
    marked = ahead(bare.source) + bare.source
    source, origins = lines.read(marked, lines.barriers_of(prim_func))
    python = lines.texts({origin.file for origin in origins if origin})
    try:
        ptx, cubin, resources = nvrtc.compile_source(
            source, _include_dirs(), HEADERS[chip.arch], ["tilelang"], chip
        )
    except CompileError as error:
        origin = origins[error.line - 1] if 0 < error.line <= len(origins) else None
        place = at(origin.file, origin.line) if origin else None
        told, under = refused(error.text)
        raise CompileError(error.stage, told, place=place, under=under) from error
    require_fits(*shape, bare.dynamic_shared + resources.static_shared, chip=chip)
    return replace(
        bare,
        chip=chip,
        ptx=ptx,
        cubin=cubin,
        resources=resources,
        source=source,
        origins=lines.claimed(source, origins, python),
        python=python,
        pipelined=_pipelined(prim_func),
    )


def ahead(source: str) -> str:
    """What NVRTC needs before TileLang's CUDA: it has std::numeric_limits by another name."""
    text = "#include <tl_templates/cuda/nvrtc_std.h>\n"
    if "std::numeric_limits" in source:
        text += "#include <cuda/std/limits>\nnamespace std { using ::cuda::std::numeric_limits; }\n"
    if "cudaGridDependencySynchronize" in source or "cudaTriggerProgrammaticLaunchCompletion" in source:
        text += (
            "#include <cuda_device_runtime_api.h>\n"  # NVCC includes it by itself (T.pdl_sync, T.pdl_trigger)
        )
    return text


def _kept_or_lowered(
    prim_func: Any, tensors: tuple[Tensor, ...], names: dict[str, str], chip: Chip
) -> Artifact:
    """The launch and the CUDA source with its directives, from the cache or lowered now. ``names`` are the
    tensors', by those of their memory.
    """
    key, files = _key(prim_func, chip)
    with quiet():  # as lowering is: an author who closed the output is told so each time
        found = cache.read(key) if key else None
    if found is not None:
        bare = Artifact.from_bytes(found)
        return replace(bare, source=lines.named(bare.source, files))
    lowered = _lower(prim_func, chip)
    kernels = list(lowered.device_mod.functions.values())
    if len(kernels) != 1:
        raise CompileError(
            "lower", f"this program has {len(kernels)} kernels; a step is one `with T.Kernel(...)`"
        )
    bare = Artifact(
        dsl="tilelang",
        ptx="",
        cubin=b"",
        tensors=tensors,
        resources=Resources(0, 0, 0, 0, 0),
        source=lowered.kernel_source,
        versions={"tilelang": version("tilelang"), "nvrtc": version("nvidia-cuda-nvrtc")},
        **_read_launch(lowered.host_mod, kernels[0], names),
    )
    if key:
        with suppress(ValueError):  # a directive names a file that the trace does not
            cache.write(key, replace(bare, source=lines.numbered(bare.source, files)).to_bytes())
    return bare


def _key(prim_func: Any, chip: Chip) -> tuple[str, list[str]]:
    """Names all that lowering depends on: the traced function with its lines, the chip, settings, versions,
    and what reads the result; "" where nobody can tell. And the author's files: what is kept has their
    numbers, for a cell has another file in each kernel of Jupyter's.

    The pass configuration is ours (``lines.directives``): a context around it does not count.
    """
    from tilelang import tvm

    if tvm.ffi.get_global_func(CALLBACK, allow_missing=True):
        return "", []
    try:
        written = tvm.ir.save_json(prim_func)
    except Exception:  # something in it has no form as text
        return "", []
    files: list[str] = []

    def number(found: re.Match) -> str:
        name = json.loads(found[2])
        if name not in files:
            files.append(name)
        return f"{found[1]}{files.index(name)}"

    text = re.sub(r'("type": "ir\.SourceName",\s+"data": )("(?:[^"\\]|\\.)*")', number, written)
    settings = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(SETTINGS))
    made_by = [f"{name} {version(name)}" for name in ("tilelang", "nvidia-cuda-nvrtc")]
    return cache.key_of("tilelang", text, chip.arch, str(settings), *made_by, _own_source()), files


@once
def _own_source() -> str:
    return "".join(map(inspect.getsource, (sys.modules[__name__], lines, artifact)))


def _pipelined(prim_func: Any) -> bool:
    """Is the ring the compiler's: is all multiplied in a ``T.Pipelined`` of some stages, with no wait of the
    author's in there?
    """
    from tilelang import tvm

    def calls(tree: Any, what: str) -> set[int]:
        found = set()

        def visit(node: Any) -> None:
            if isinstance(node, tvm.tirx.Call) and re.search(what, getattr(node.op, "name", "")):
                found.add(hash(node))

        tvm.tirx.stmt_functor.post_order_visit(tree, visit)
        return found

    loops: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.tirx.For) and int(node.annotations.get("num_stages", 0)):
            loops.append(node)

    tvm.tirx.stmt_functor.post_order_visit(prim_func.body, visit)
    inside = set().union(*(calls(loop, MULTIPLIES) for loop in loops))
    waits = any(calls(loop, WAITS) for loop in loops)
    return bool(inside) and inside == calls(prim_func.body, MULTIPLIES) and not waits


def prepare() -> None:
    """Import and look up what every compile needs, so that forked children need not. Raises ImportError."""
    import_module("tilelang")
    nvrtc.prepare(_include_dirs())
    _own_source()


def _include_dirs() -> list[str]:
    import tilelang

    package = Path(tilelang.__file__).parent
    return [
        str(package / "src"),
        str(package / "3rdparty" / "cutlass" / "include"),
        *nvrtc.cuda_include_dirs(),
    ]


def _trace(factory: Callable, problem: Problem, size: tuple[int, ...]) -> Any:
    """Call the factory of a kernel for this problem."""
    from tilelang import tvm

    name = problem.function
    call = f"{name}({', '.join(map(str, size))})"
    try:
        with lines.of_the_author(), _without_its_source():
            result = factory(*size)
    except CompileError:
        raise
    except Exception as error:
        told = tidy_error(error)
        told = operands.explained(told, error, problem.tensors(*size)) or explained(told)
        text = f"{call} raised {type(error).__name__}: {told}"
        raise CompileError("trace", text, place=where(error)) from error
    if getattr(result, "_decorator_kind", None) == "jit":
        raise CompileError(
            "signature",
            f"{name} is CuTe DSL's, and this checks TileLang's. Run TileLang's cell, then this one.",
        )
    if not isinstance(result, tvm.tirx.PrimFunc):
        raise CompileError(
            "signature",
            f"{call} returned {type(result).__name__}; it must return a TileLang "
            "PrimFunc. Did you forget `return main` after the `@T.prim_func`?",
        )
    return result


@contextmanager
def _without_its_source() -> Iterator[None]:
    """Where a trace fails, TileLang 0.1.15 logs pages of the Python that it made of the kernel, as CRITICAL.
    Its warnings are the author's to read.
    """
    log = logging.getLogger("tilelang.language.eager.builder")

    def worth_showing(record: logging.LogRecord) -> bool:
        return record.levelno < logging.CRITICAL

    log.addFilter(worth_showing)
    try:
        yield
    finally:
        log.removeFilter(worth_showing)


def _require_signature(prim_func: Any, wanted: Sequence[Tensor], words: str) -> None:
    found = [prim_func.buffer_map.get(p) for p in prim_func.params]
    if len(found) != len(wanted) or None in found:
        taken = ", ".join(str(p.name) for p in prim_func.params)
        raise CompileError("signature", f"the kernel takes ({taken}); it must take {words}, in this order")
    names = [str(buffer.name) for buffer in found]
    for tensor, buffer in zip(wanted, found, strict=True):
        name, shape = tensor.name, tensor.shape
        extents = tuple(int(s) if hasattr(s, "value") else str(s) for s in buffer.shape)
        if extents != shape and swapped(names, wanted):
            text = f"the kernel takes {', '.join(names)}; it must take {words}, in this order"
            raise CompileError("signature", text, place=lines.place_of(buffer))
        if extents != shape:
            raise CompileError("signature", f"{name} has shape {extents}; it must be {shape}, row by row")
        if str(buffer.dtype) != tensor.dtype:
            why = " (the accumulator, not D, is float32)" if tensor.dtype == DTYPE else ""
            raise CompileError("signature", f"{name} is {buffer.dtype}; it must be {tensor.dtype}{why}")


def _lower(prim_func: Any, chip: Chip = HOME) -> Any:
    from tilelang import tvm

    target = tvm.target.Target({"kind": "cuda", "arch": chip.arch})
    try:
        return _lowered(prim_func, target)
    except CompileError:
        raise
    except Exception as error:
        operation = _to_blame(prim_func, target, text_of(error))
        place = where(error) or (_place(operation) if operation is not None else None)
        told = copy_errors.explained(operation.value, text_of(error)) if operation is not None else ""
        told = told or explained(tidy_error(error))
        raise CompileError("lower", f"TileLang could not lower this kernel: {told}", place=place) from error


def _lowered(prim_func: Any, target: Any) -> Any:
    import tilelang

    with target, quiet(), lines.directives():
        return tilelang.lower(prim_func, target=target)


def _place(operation: Any) -> Place:
    """The author's line of a tile operation."""
    from tilelang.ir import get_stmt_span

    span = get_stmt_span(operation)
    return at(str(span.source_name.name), int(span.line))


def _to_blame(prim_func: Any, target: Any, message: str) -> Any:
    """The first tile operation without which the compiler no longer says this: its message names the kernel's
    first line, or none. None where all of them leave it as it is.
    """
    from tilelang import tvm
    from tilelang.ir import get_stmt_span

    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.tirx.Evaluate):
            name = getattr(getattr(node.value, "op", None), "name", "")
            if name.startswith("tl.tileop.") and get_stmt_span(node) is not None:
                found.append(node)

    tvm.tirx.stmt_functor.post_order_visit(prim_func.body, visit)
    if re.search(r"[Cc]opy|global tile", message):  # other operations change the words of these, too
        found.sort(key=lambda node: "copy" not in node.value.op.name)
    for node in found:

        def erased(other: Any, node: Any = node) -> Any:
            return tvm.tirx.Evaluate(0) if other.same_as(node) else None

        body = tvm.tirx.stmt_functor.ir_transform(prim_func.body, None, erased, ["tirx.Evaluate"])
        try:
            _lowered(prim_func.with_body(body), target)
        except Exception as error:
            if text_of(error) == message:
                continue
        return node
    return None


def _read_launch(host_mod: Any, kernel: Any, tensor_names: dict[str, str]) -> dict[str, Any]:
    """Grid, block, cluster, shared memory and parameters, from the host function's packed calls."""
    from tilelang import tvm

    name = str(kernel.attrs["global_symbol"])
    tensor_maps: dict[int, Parameter] = {}  # by the variable: two maps of one tensor have one name
    launches = []

    def visit(node: Any) -> None:
        if isinstance(node, tvm.tirx.For):
            raise CompileError("lower", "the program launches its kernel in a loop; a step launches it once")
        if not isinstance(node, tvm.tirx.Call) or node.op.name != "tirx.tvm_call_packed":
            return
        callee, *args = node.args
        if callee.value == "__tvm_tensormap_create_tiled":
            made, memory = tensor_map_of(args, _constant), str(args[3].name)
            tensor = tensor_names.get(memory, memory)
            tensor_maps[hash(args[0])] = Parameter("tensor_map", tensor=tensor, tensor_map=made)
        elif callee.value == name:
            launches.append(args)
        elif callee.value.startswith("__tvm_tensormap"):
            raise CompileError("lower", f"the course does not run kernels that use {callee.value}")

    for function in host_mod.functions.values():
        tvm.tirx.stmt_functor.post_order_visit(function.body, visit)
    if len(launches) != 1:
        raise CompileError(
            "lower", f"the program launches its kernel {len(launches)} times; a step launches it once"
        )
    launch, given = launch_of(kernel, launches[0], _constant)
    parameters = []
    for arg in given:
        label = str(getattr(arg, "name", arg))
        if made := tensor_maps.get(hash(arg)):
            parameters.append(made)
        elif label in tensor_names:
            parameters.append(Parameter("pointer", tensor=tensor_names[label]))
        elif hasattr(arg, "value"):
            parameters.append(Parameter("scalar", dtype=str(arg.dtype), value=arg.value))
        else:
            raise CompileError(
                "lower",
                f"the kernel takes {label}, which is none of {', '.join(sorted({*tensor_names.values()}))}; "
                "a step needs no workspace in global memory",
            )

    return launch | {"parameters": tuple(parameters)}


def launch_of(
    kernel: Any, args: list[Any], number: Callable[[Any, str], int]
) -> tuple[dict[str, Any], list[Any]]:
    """The launch that a host function's call of a kernel makes, and the arguments that the kernel gets.
    ``number`` reads a value of the host function, which it is told in words.
    """
    tags = [str(tag) for tag in kernel.attrs["tirx.kernel_launch_params"]]
    count = len(args) - len(tags)
    sizes = {tag: number(value, tag) for tag, value in zip(tags, args[count:], strict=True)}
    shape = {"grid": GRID_AXES, "block": BLOCK_AXES, "cluster": CLUSTER_AXES}
    launch = {name: tuple(sizes.get(axis, 1) for axis in axes) for name, axes in shape.items()}
    shared = sizes.get("tirx.use_dyn_shared_memory", 0)
    return {"kernel": str(kernel.attrs["global_symbol"]), **launch, "dynamic_shared": shared}, args[:count]


def tensor_map_of(args: list[Any], number: Callable[[Any, str], int]) -> TensorMap:
    """Of the arguments of ``__tvm_tensormap_create_tiled``: descriptor, dtype, rank, tensor, then the
    driver's arrays and enums. ``number`` as in ``launch_of``.
    """
    _, data_type, rank, _, *rest = args
    count = number(rank, "a rank")
    numbers = [number(value, "a field of a tensor map") for value in rest]
    dims, strides, box, steps = (tuple(numbers[i * count : (i + 1) * count]) for i in range(4))
    # TileLang passes the innermost stride too, in bytes; the driver call leaves it out
    return TensorMap(number(data_type, "a data type"), dims, strides[1:], box, steps, *numbers[4 * count :])


def pixel_map_of(args: list[Any], number: Callable[[Any, str], int]) -> PixelMap:
    """Of the arguments of ``__tvm_tensormap_create_im2col``, as ``tensor_map_of``."""
    _, data_type, rank, _, *rest = args
    count = number(rank, "a rank")
    numbers = [number(value, "a field of a tensor map") for value in rest]
    dims, strides, steps = (tuple(numbers[i * count : (i + 1) * count]) for i in range(3))
    at, spatial = 3 * count, count - 2
    lower, upper = (tuple(numbers[at + i * spatial : at + (i + 1) * spatial]) for i in range(2))
    pixels, channels, *codes = numbers[at + 2 * spatial :]
    kind, box, (interleave, swizzle, l2, fill) = number(data_type, "a data type"), (channels, pixels), codes
    return PixelMap(kind, dims, strides[1:], box, steps, interleave, swizzle, l2, fill, lower, upper)


def _constant(value: Any, what: str) -> int:
    if not hasattr(value, "value"):
        raise CompileError(
            "lower", f"{what} is {value}, not a number at compile time; a step's shapes are Python integers"
        )
    return int(value.value)


def tidy_error(error: BaseException) -> str:
    """TVM's message without its C++ frames and the source it shows under ``-->``, which is the kernel's first
    line: its first eight lines, for TVM says the cause first.
    """
    text = re.split(r"^\s*--> ", text_of(error), maxsplit=1, flags=re.M)[0]
    lines = [line.rstrip() for line in text.splitlines()]
    keep = [
        line
        for line in lines
        if line.strip()
        and not re.search(
            r'^\s*(File ".*(\.cc|\.h|\.pyi|\.pyx)"|\d+: |Traceback|at |[\w:~<>]+\(.*\)$|\^)'
            r"|libtvm|site-packages",
            line,
        )
    ]
    return "\n".join(keep[:8]) or "no message"
