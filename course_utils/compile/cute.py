"""CuTe DSL to an Artifact: compile the ``@cute.jit`` host function with no GPU, run it once, and catch its
launch.

``cute.compile`` makes PTX, a cubin and a host function that writes the tensor maps itself and ends in a call
of ``_cudaLaunchKernelEx``. Here that host function runs with this module standing in for the CUDA runtime, so
its call says what it would launch, and no kernel starts. Seen on nvidia-cutlass-dsl 4.8.1.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import io
import linecache
import os
import re
import signal
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

from course_utils.artifact import (
    TENSOR_MAP_BYTES,
    Allocation,
    Artifact,
    Parameter,
    Place,
    Resources,
    Tensor,
    file_name,
)
from course_utils.chips import HOME, Chip
from course_utils.compile import allocations, cache, lines, nvrtc, passes
from course_utils.compile.compiler_messages import explained, refused
from course_utils.compile.errors import CompileError
from course_utils.compile.guard import at, quiet, text_of, where
from course_utils.compile.limits import require_fits
from course_utils.problems import PROBLEMS, swapped
from course_utils.ptx.parser import entries, signature
from course_utils.tma.encoding import decode

OPTIONS = "--keep-ptx --keep-cubin --generate-line-info remarks{ptx} --dump-dir "
PACKAGES = ("nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-base", "nvidia-cutlass-dsl-libs-core")
SUSPECTS = ("cute.copy", "cute.gemm")  # operations with no result, so a program is one without them too
TRY_LIMIT = 2.0  # seconds; the compiler takes half of one
# bytes between the addresses that the host function is told: far more than any tensor of this course
DISTANCE = 1 << 40
GLOBAL_POINTER = "!llvm.ptr<1>"  # how the host function's MLIR types a pointer to the GPU's memory
CLUSTER_DIMENSION = 4  # cudaLaunchAttributeID
# a tensor's dtype, as CuTe DSL calls it
ELEMENTS = {
    "float16": "Float16",
    "bfloat16": "BFloat16",
    "float32": "Float32",
    "float64": "Float64",
    "int8": "Int8",
    "int32": "Int32",
    "float8_e4m3fn": "Float8E4M3FN",
}
# by cudaLaunchAttributeID; the DSL lists both, switched off
ATTRIBUTES = {2: "`cooperative=True`", 6: "`use_pdl=True`"}

LAUNCHES = 64  # of one program, so that a host function in a loop comes to an end

Shape = tuple[int, int, int]


class Launched(TypedDict):
    """How a kernel is launched, in an Artifact's words."""

    grid: Shape
    block: Shape
    cluster: Shape
    dynamic_shared: int


Launch = tuple[str, Launched, list[bytes]]  # kernel, launch, parameters' bytes
Compiled = tuple[str, bytes, str, list[Launch]]  # PTX, cubin, log, launches


class _Config(ctypes.Structure):
    """cudaLaunchConfig_t (CUDA Runtime API, Data types)."""

    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_shared", ctypes.c_uint64),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("count", ctypes.c_uint32),
    ]


class _Attribute(ctypes.Structure):
    """cudaLaunchAttribute."""

    _fields_ = [("id", ctypes.c_int32), ("_", ctypes.c_uint8 * 4), ("value", ctypes.c_uint32 * 16)]


def compile_kind(factory: Callable, kind: str, *size: int, chip: Chip = HOME) -> Artifact:
    """Compile ``factory(*size)`` for ``chip``, a ``@cute.jit`` function of the tensors that the problem
    ``kind`` has (of ``problems.PROBLEMS``), row-major.

    Raises CompileError, whose text says what to change.
    """
    return compile_host(_host(factory, kind, size, chip), PROBLEMS[kind].tensors(*size), chip)


def trace_kind(factory: Callable, kind: str, *size: int, chip: Chip = HOME) -> Artifact:
    """As ``compile_kind``, up to the MLIR that the factory's Python makes: ``source`` is its bytecode and
    ``kernel`` its host function, and nothing else is known. ``compile_traced`` goes on, in a process without
    that Python.
    """

    def look(_dsl: Any, module: Any, name: str) -> None:
        code = io.BytesIO()
        module.operation.write_bytecode(code)
        raise _Found((name, code.getvalue()))

    none, no_one = (0, 0, 0), Resources(0, 0, 0, 0, 0)
    try:
        with cache.scratch() as folder:
            host = _host(factory, kind, size, chip)
            _run_compiler(host, PROBLEMS[kind].tensors(*size), look, folder, chip)
    except _Found as found:
        name, code = found.made
        written = b64encode(code).decode()
        return Artifact("cute", name, "", b"", none, none, none, 0, (), (), no_one, source=written)
    raise CompileError("lower", "this program has 0 kernels; a step launches one")


def compile_traced(traced: Artifact, kind: str, *size: int, chip: Chip = HOME) -> Artifact:
    """Compile what ``trace_kind`` made for ``chip``. Raises CompileError, also for anything else."""
    from cutlass._mlir import ir
    from cutlass.base_dsl.compiler import Compiler

    tensors, own = PROBLEMS[kind].tensors(*size), Compiler.compile
    allocated: list[Allocation] = []

    def instead(self: Any, module: Any, *arguments: Any, **options: Any) -> Any:
        try:
            module = ir.Module.parse(b64decode(traced.source), module.context)
        except Exception as error:
            raise CompileError("trace", "this is no program that CuTe DSL traced") from error
        allocated[:] = allocations.of_module(module)
        return own(self, module, *arguments, **options)

    Compiler.compile = instead
    try:
        with cache.scratch() as folder, quiet() as said:
            compiled = _run_compiler(_no_host(chip), tensors, lambda *_: None, folder, chip)
            compiled.function_name = traced.kernel
            made = compiled.artifacts.PTX, compiled.artifacts.CUBIN
    finally:
        Compiler.compile = own
    return _only(_artifacts(_with_launches(compiled, *made, said[0], tensors), allocated, tensors, chip))


def _no_host(chip: Chip) -> Any:
    """A host function of any tensors, with a kernel of nothing: compiled in its place is what was traced."""
    cute = import_cute(chip)

    @cute.kernel
    def nothing() -> None:
        pass

    @cute.jit
    def main(*tensors: Any) -> None:
        nothing().launch(grid=(1, 1, 1), block=(1, 1, 1))

    return main


def _host(factory: Callable, kind: str, size: tuple[int, ...], chip: Chip) -> Any:
    """The host function of ``factory(*size)``, which takes the tensors that the problem has. Raises
    CompileError.
    """
    problem = PROBLEMS[kind]
    import_cute(chip)
    host = _trace(factory, problem.function, size, problem.signature(size))
    taken, words = list(inspect.signature(host).parameters), problem.signature(size)
    if swapped(taken, problem.tensors(*size)):
        text = f"{host.__name__} takes {', '.join(taken)}; it must take {words}, in this order"
        raise CompileError("signature", text, place=_defined(host))
    return host


def compile_host(host: Any, tensors: tuple[Tensor, ...], chip: Chip = HOME) -> Artifact:
    """Compile any ``@cute.jit`` function that takes these tensors in order and launches one kernel, for
    ``chip``.

    Raises CompileError.
    """
    return _only(compile_program(host, tensors, chip))


def _only(artifacts: list[Artifact]) -> Artifact:
    """The one launch of the one kernel. Raises CompileError."""
    kernels = len(entries(artifacts[0].ptx))
    if kernels != 1:
        raise CompileError("lower", f"this program has {kernels} kernels; a step launches one")
    if len(artifacts) != 1:
        raise CompileError(
            "lower", "the host function launches more than one kernel; a step launches one, once"
        )
    return artifacts[0]


def compile_program(host: Any, tensors: tuple[Tensor, ...], chip: Chip = HOME) -> list[Artifact]:
    """Compile any ``@cute.jit`` function that takes these tensors in order, for ``chip``: one Artifact for
    each launch, in order.

    Raises CompileError.
    """
    return _artifacts(*_compile(host, tensors, chip), tensors, chip)


def _artifacts(
    compiled: Compiled, allocated: list[Allocation], tensors: tuple[Tensor, ...], chip: Chip
) -> list[Artifact]:
    """One Artifact for each launch. Raises CompileError where one does not fit the chip."""
    ptx, cubin, log, launches = compiled
    ptx = lines.mended(ptx)
    kernels, artifacts = entries(ptx), []
    for kernel, launch, values in launches:
        artifact = Artifact(
            dsl="cute",
            kernel=kernel,
            ptx=ptx,
            cubin=cubin,
            tensors=tensors,
            parameters=tuple(_parameter(data, tensors) for data in values),
            resources=nvrtc.parse_ptxas_log(_log_of(log, kernel)),
            python=lines.texts(set(re.findall(r'^\s*\.file\s+\d+\s+"([^"]+)"', ptx, re.M))),
            versions={"nvidia-cutlass-dsl": version("nvidia-cutlass-dsl")},
            allocations=tuple(allocated) if len(kernels) == 1 else (),  # which are of which is not known
            chip=chip,
            **launch,
        )
        tiles = ", ".join(f"{artifact.name_of(one)} {one.size:,}" for one in artifact.allocations)
        shared = artifact.dynamic_shared + artifact.resources.static_shared
        require_fits(artifact.grid, artifact.block, artifact.cluster, shared, tiles, chip)
        artifacts.append(artifact)
    return artifacts


def _log_of(log: str, kernel: str) -> str:
    """What the assembler says of one kernel."""
    parts = re.split(r"(?=ptxas info\s*:\s*Compiling entry function)", log)
    mine = [part for part in parts if f"'{kernel}'" in part.partition("\n")[0]] if len(parts) > 2 else parts
    return re.sub(r"\bkernel_cutlass_\w+", "the kernel", "".join(mine))


def _trace(factory: Callable, name: str, size: tuple[int, ...], arguments: str) -> Any:
    """Call the factory, which the learner calls ``name``; ``arguments`` are what its result must take."""
    call = f"{name}({', '.join(map(str, size))})"
    try:
        host = factory(*size)
    except CompileError:
        raise
    except Exception as error:
        raise _refusal("trace", f"{call} raised {type(error).__name__}: ", error) from error
    if type(host).__name__ == "PrimFunc":
        raise CompileError(
            "signature",
            f"{name} is TileLang's, and this checks CuTe DSL's. Run CuTe DSL's cell, then this one.",
        )
    if getattr(host, "_decorator_kind", None) != "jit":  # what @cute.jit leaves on a function
        raise CompileError(
            "signature",
            f"{call} returned {type(host).__name__}; it must return a function "
            "decorated with `@cute.jit`. Did you forget `return main`?",
        )
    try:
        inspect.signature(host).bind(*arguments.partition(", ")[2].replace(" and ", ", ").split(", "))
    except TypeError as error:
        raise CompileError(
            "signature",
            f"{host.__name__} takes {inspect.signature(host)}; it must take {arguments}, in this order",
        ) from error
    return host


def _defined(host: Any) -> Place:
    """The line of the host function's ``def``."""
    code = inspect.unwrap(host).__code__
    source, first = inspect.getsourcelines(code)
    below = next((i for i, line in enumerate(source) if line.lstrip().startswith("def ")), 0)
    return at(code.co_filename, first + below)


def _compile(host: Any, tensors: tuple[Tensor, ...], chip: Chip) -> tuple[Compiled, list[Allocation]]:
    """Compile the host function, or find what the same MLIR made before. With its shared memory."""
    addresses = list(_addresses(tensors))
    key, silence = "", contextlib.ExitStack()
    said: list[str] = []
    allocated: list[Allocation] = []

    def look(dsl: Any, module: Any, _name: str) -> None:
        nonlocal key
        allocated[:] = allocations.of_module(module)
        key = _key(dsl, module, str(folder), addresses)
        if found := cache.load(key, Compiled):
            raise _Found(found)
        nonlocal said
        said = silence.enter_context(quiet())  # what came before is of the trace, and the learner's

    with cache.scratch() as folder:
        try:
            with silence:
                compiled = _run_compiler(host, tensors, look, folder, chip)
        except _Found as found:
            return found.made, allocated
        ptx, cubin = compiled.artifacts.PTX, compiled.artifacts.CUBIN
    made = _with_launches(compiled, ptx, cubin, said[0], tensors)
    if key:
        cache.store(key, made)
    return made, allocated


def _run_compiler(host: Any, tensors: tuple[Tensor, ...], look: Callable, folder: Path, chip: Chip) -> Any:
    """Trace the host function, have ``look`` see its MLIR, and compile that. Raises CompileError."""
    cute = import_cute(chip)
    try:
        return cute.compile(
            host,
            *map(_fake, tensors),
            options=f"--gpu-arch {chip.arch} {OPTIONS}{folder}",
            trace_finalize_hooks=look,
            no_jit_engine=True,  # the host function runs in an engine of ours
        )
    except CompileError:
        raise
    except Exception as error:
        raise _refusal("lower", "CuTe DSL could not compile this kernel: ", error) from error


def _with_launches(compiled: Any, ptx: str, cubin: bytes, said: str, tensors: tuple[Tensor, ...]) -> Compiled:
    """What was compiled, and what its host function launches. Raises CompileError."""
    if not ptx or not compiled.kernel_info:
        raise CompileError("lower", "this program has 0 kernels; a step launches one")
    # the DSL breaks the assembler's lines at some 90 columns; its own begin with ptxas
    log = re.sub(r"\n[ \t]+(?!ptxas|\s)", " ", said)
    sizes = {name: [p.size for p in signature(ptx, name)[1]] for name in entries(ptx)}
    return ptx, cubin, log, _catch_launches(compiled, list(_addresses(tensors)), sizes)


def find_line(compile_one: Callable[[], Artifact]) -> Artifact:
    """In a child, compile again what ended the compiler, and find the operation that did: the first without
    which the compiler lives. MLIR aborts without a word on where it was.

    Raises CompileError of stage "place", with the operation's line.
    """
    from cutlass._mlir import ir
    from cutlass.base_dsl.compiler import Compiler

    places: list[Place] = []

    def hunt(self: Any, module: Any, pipeline: str, *_: Any, **__: Any) -> None:
        found: list[Any] = []

        def visit(op: Any) -> Any:
            if op.name in SUSPECTS:
                found.append(op)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        for op in found:
            place = re.search(r'\("([^"]+)":(\d+):', str(op.location))
            if place and _lives_without(op, lambda: self.passmanager.PassManager.parse(pipeline), module):
                places.append(at(place[1], int(place[2])))
                break
        raise RuntimeError  # the DSL would dress up a CompileError, too

    Compiler.compile = hunt
    try:
        return compile_one()
    except CompileError as error:
        raise CompileError("place", "", place=places[0]) if places else error from None


def _lives_without(op: Any, pipeline: Callable[[], Any], module: Any) -> bool:
    """Whether a fork that erases this operation comes through the compiler, be it with an error."""
    child = os.fork()
    if not child:
        try:
            op.erase()
            pipeline().run(module.operation)
        finally:
            os._exit(0)
    limit = time.monotonic() + TRY_LIMIT
    while time.monotonic() < limit:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.WIFEXITED(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


class _Found(BaseException):
    """Ends a compile ahead of its long part; no Exception, which the DSL would dress up."""

    def __init__(self, made: Any):
        super().__init__()
        self.made = made


def _key(dsl: Any, module: Any, folder: str, addresses: list[int]) -> str:
    """Names all that the result depends on: the traced MLIR with its constants and source lines, the
    options and settings, the compiler's version. This is what the DSL's own cache asks too
    (``BaseDSL.get_module_hash``).
    """
    code = io.BytesIO()
    module.operation.write_bytecode(code)
    return cache.key_of(
        "cute launches",
        sha256(code.getvalue()).hexdigest(),
        dsl.compile_options.to_str().replace(folder, ""),
        dsl.envar.cache_key_str(),
        *(f"{name} {version(name)}" for name in PACKAGES),
        str(addresses),
    )


def prepare() -> None:
    """Import what every compile needs, so that forked children need not. Raises ImportError."""
    import_cute()
    for module in ("cutlass.cute.runtime", "cutlass._mlir.execution_engine"):
        import_module(module)


def import_cute(chip: Chip = HOME) -> Any:
    """The DSL, told what its GPU is: without a driver it would take Blackwell."""
    os.environ["CUTE_DSL_ARCH"] = chip.arch
    with quiet():
        import cutlass.cute as cute
        from cutlass.cutlass_dsl import CuTeDSL
    # it read the variable when it was imported, perhaps by the learner: now it does so again
    del CuTeDSL._get_dsl().envar.arch
    return cute


def _fake(tensor: Tensor) -> Any:
    import cutlass
    from cutlass.cute.runtime import make_fake_compact_tensor

    order = tuple(reversed(range(len(tensor.shape))))
    element = getattr(cutlass, ELEMENTS[tensor.dtype])
    return make_fake_compact_tensor(element, tensor.shape, stride_order=order, assumed_align=16)


def _catch_launches(compiled: Any, addresses: list[int], sizes: dict[str, list[int]]) -> list[Launch]:
    """Run the host function on these tensor addresses. ``sizes`` are of each kernel's parameters, in bytes.

    Returns the launches in order, with each kernel parameter's bytes.
    """
    from cutlass._mlir import ir
    from cutlass._mlir.execution_engine import ExecutionEngine

    launches: list[Launch] = []
    attributes: list[dict[int, tuple]] = []  # of each launch
    kernels: list[str] = []  # by the handle that the host function gets of each, counted from 1

    def on_kernel(place: Any, _library: int, name: bytes) -> int:
        kernels.append(name.decode())
        place[0] = len(kernels)
        return 0

    def on_launch(config: int, handle: int, values: int) -> int:
        kernel = kernels[handle - 1]
        pointers = ctypes.cast(values, ctypes.POINTER(ctypes.c_void_p))
        launch, own = _read_config(ctypes.cast(config, ctypes.POINTER(_Config)).contents)
        data = [ctypes.string_at(pointers[i], size) for i, size in enumerate(sizes[kernel])]
        launches.append((kernel, launch, data))
        attributes.append(own)
        return int(len(launches) > LAUNCHES)  # an error: the host function returns, whatever loop it is in

    undefined, taken, touched = [], [], []

    def visit(op: Any) -> Any:
        if op.name == "llvm.func":
            name, blocks = ir.StringAttr(op.attributes["sym_name"]).value, op.regions[0].blocks
            if not len(blocks):
                undefined.append(name)
            elif name == compiled.function_name:
                taken.extend(blocks[0].arguments)
        elif (
            op.name in ("llvm.load", "llvm.store") and str(op.operands[-1].type) == GLOBAL_POINTER
        ):  # the last is the address
            touched.append(op.name)
        return ir.WalkResult.ADVANCE

    with compiled.ir_module.context:
        compiled.ir_module.operation.walk(visit)
    if len(taken) != len(addresses):
        raise CompileError(
            "signature",
            f"the host function takes {len(taken)} arguments at run time; it must take the "
            f"{len(addresses)} tensors only. Read what else it needs from the factory around it.",
        )
    if touched:
        raise CompileError(
            "lower",
            "the host function (`@cute.jit`) reads or writes elements of a tensor, and runs on the CPU; "
            "do that in the kernel",
        )
    engine = ExecutionEngine(compiled.ir_module, 0, [])
    stands_in = {name: ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: 0) for name in undefined}
    stands_in["_cudaLaunchKernelEx"] = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
    )(on_launch)
    stands_in["_cudaLibraryGetKernel"] = ctypes.CFUNCTYPE(
        ctypes.c_int32, ctypes.POINTER(ctypes.c_size_t), ctypes.c_void_p, ctypes.c_char_p
    )(on_kernel)
    for name, function in stands_in.items():
        engine.raw_register_runtime(name, ctypes.cast(function, ctypes.c_void_p))
    arguments = [*map(ctypes.c_uint64, addresses), ctypes.c_int32(-1)]  # the last is where the result goes
    no_library = ctypes.c_void_p()
    load_kernels = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("cuda_load"))
    _call_packed(load_kernels, [ctypes.c_void_p(ctypes.addressof(no_library)), ctypes.c_int32(-1)])
    _call_packed(engine.lookup(compiled.function_name), arguments)
    if not launches or arguments[-1].value != 0:
        text = "launches more than one kernel, on and on" if launches else "launches no kernel"
        raise CompileError("lower", f"the host function {text}; a step launches one, once")
    for (_, launch, _), own in zip(launches, attributes, strict=True):
        launch["cluster"] = _cluster(own)
    return launches


def _call_packed(function: Any, arguments: list[Any]) -> None:
    """Call what takes the addresses of its arguments in an array; the last is where the result goes."""
    packed = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
    function(ctypes.addressof(packed))


def _read_config(config: _Config) -> tuple[Launched, dict[int, tuple]]:
    """The launch, but for its cluster, and its attributes by id."""
    attributes = ctypes.cast(config.attributes, ctypes.POINTER(_Attribute))
    launch = Launched(
        grid=tuple(config.grid),
        block=tuple(config.block),
        cluster=(1, 1, 1),
        dynamic_shared=config.dynamic_shared,
    )
    return launch, {attributes[i].id: tuple(attributes[i].value[:3]) for i in range(config.count)}


def _cluster(attributes: dict[int, tuple]) -> tuple[int, int, int]:
    for number, value in attributes.items():
        if number != CLUSTER_DIMENSION and value[0]:  # the others are there too, switched off
            raise CompileError(
                "lower",
                f"the launch asks for {ATTRIBUTES.get(number, f'attribute {number}')} "
                "(cudaLaunchAttributeID), which no step uses",
            )
    return attributes.get(CLUSTER_DIMENSION, (1, 1, 1))


def _addresses(tensors: tuple[Tensor, ...]) -> dict[int, str]:
    """Where the host function is told that each tensor lies."""
    return {DISTANCE * place: tensor.name for place, tensor in enumerate(tensors, 1)}


def _parameter(data: bytes, tensors: tuple[Tensor, ...]) -> Parameter:
    names = _addresses(tensors)
    if len(data) == TENSOR_MAP_BYTES:
        try:
            tensor_map, address = decode(data)
        except ValueError as error:
            raise CompileError(
                "lower", f"a kernel parameter of 128 bytes is no tensor map that can be read: {error}"
            ) from error
        return Parameter("tensor_map", tensor=_tensor_at(address, names), tensor_map=tensor_map)
    value = int.from_bytes(data, "little")
    addresses = range(min(names), 2 * max(names))
    if len(data) == 8 and value in addresses:
        return Parameter("pointer", tensor=_tensor_at(value, names))
    if any(int.from_bytes(data[i : i + 8], "little") in addresses for i in range(0, len(data), 8)):
        raise CompileError(
            "lower",
            "a kernel parameter holds a tensor whose shape or strides are known at run time only; make its "
            "layout of Python integers",
        )
    return Parameter("scalar", dtype=f"uint{8 * len(data)}", value=value)


def _tensor_at(address: int, names: dict[int, str]) -> str:
    if address not in names:
        raise CompileError(
            "lower",
            "a kernel parameter points into the middle of a tensor, or to none of "
            f"{', '.join(names.values())}; pass whole tensors and slice them in the kernel",
        )
    return names[address]


def tidy_error(error: BaseException) -> tuple[str, Place | None]:
    """The DSL's message without its envelope: what it found, and its advice where it helps. With the line of
    the learner's file.

    The envelope is a headline, a frame of source lines under ``-->``, and blocks that begin with error, note
    or suggestion.
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", text_of(error)).strip()
    text = re.sub(r"\bkernel_cutlass_\w+", "the kernel", text)
    place = re.search(r"-->[ \t]*(\S.*?):(\d+)", text)
    frame = re.search(rf"^>?\s*{place.group(2)} \|(.*)$", text, re.M) if place else None
    blocks = re.findall(r"^\s*=?\s*(error|note|suggestion)(?:\[\w+\])?:\s*(.*(?:\n {6,}\S.*)*)", text, re.M)
    said = {
        kind: [re.sub(r"\s*\n\s*", " ", words) for k, words in blocks if k == kind]
        for kind in ("error", "suggestion")
    }
    if not said["error"]:
        return "\n".join(text.splitlines()[:8]) or "no message", None
    if refused := re.search(r"^\s*ptxas .*(?:error|fatal)\s*:\s*(.*(?:\n {6,}(?!ptxas\b)\S.*)*)", text, re.M):
        said["error"][0] += ": " + re.sub(r"\s*\n\s*", " ", refused.group(1))
    internal = "error[INTERNAL]" in text and len(said["error"]) > 1
    found = said["error"][1:] if internal else said["error"][:1]
    advice = [] if internal else [words for words in said["suggestion"] if "ptxas log" not in words]
    line = None
    if place and frame:
        line = Place(file_name(place[1]), int(place[2]), frame[1].strip())
    # MLIR's own words have no frame but a location
    if spot := re.match(r'"(.*)"\("([^"]+)":(\d+):\d+\): ', found[0]):
        found[0] = found[0][spot.end() :]
        line = line or Place(file_name(spot[2]), int(spot[3]), spot[1].strip())
    return "\n".join([*found, *advice]), line


def _refusal(stage: str, begin: str, error: BaseException) -> CompileError:
    """What the DSL refuses, in a sentence that begins so."""
    text, line = tidy_error(error)
    if said := passes.told(error, text, line):
        return CompileError(stage, begin + said[0], place=said[1])
    place = _call(error, text) or line or where(error)
    told, under = refused(explained(text))
    return CompileError(stage, begin + told, place=place, under=under)


# what is in the line of a call whose operand the assembler refuses, which names no line
CALLS = (
    (r"Barrier number '(\d+)'", r"(?:NamedBarrier\(|barrier_id=)\s*{}\b"),
    (r"Number of threads participating in barrier", r"NamedBarrier\(|number_of_threads="),
    (r"'wgmma\.wait_group': unexpected value '(-?\d+)'", r"wait_group\({}\b"),
)


def _call(error: BaseException, text: str) -> Place | None:
    """The one line of the learner's file whose call the assembler refuses; None where it is not sure."""
    file = re.search(r"-->[ \t]*(\S.*?):\d+", re.sub(r"\x1b\[[0-9;]*m", "", text_of(error)))
    for words, call in CALLS:
        found = re.search(words, text)
        if found and file:
            pattern = call.format(*found.groups())
            lines = linecache.getlines(file[1])
            hits = [n for n, line in enumerate(lines, 1) if re.search(pattern, line.partition("#")[0])]
            return at(file[1], hits[0]) if len(hits) == 1 else None
    return None
