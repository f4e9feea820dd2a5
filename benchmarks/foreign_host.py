"""Stand-ins that let a GPU program's own host code run on a CPU, its kernels in the emulator.

``on_cpu`` turns "cuda" into "cpu" for torch, ``tilelang`` and ``cute`` catch what the two DSLs would launch.
A program then makes its inputs, launches, and compares with its own reference as it does on a GPU. ``Log``
keeps what was launched and what was compared.
"""

import ctypes
import gc
import inspect
import os
import re
import sys
import tempfile
import types
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from unittest import mock

import numpy as np
import torch
import torch.utils._triton
from torch.overrides import TorchFunctionMode

from course_utils.artifact import Artifact, Parameter, Resources, Tensor, TensorMap
from course_utils.chips import HOME
from course_utils.compile.errors import CompileError
from course_utils.run.emulator import emulate
from course_utils.tma.encoding import decode, encode

SM_COUNT = 8  # what a persistent kernel is told: fewer CTAs, each of more tiles
NAMES = {torch.float8_e4m3fn: "float8_e4m3fn", torch.float8_e5m2: "float8_e5m2"}
BITS = {torch.bfloat16: torch.uint16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}


@dataclass
class Log:
    """What one job did."""

    launches: int = 0
    executed: int = 0
    seconds: float = 0.0
    compared: int = 0
    differ: list = field(default_factory=list)
    findings: list = field(default_factory=list)
    stopped: bool = False  # a finding ended a launch


LOG = Log()


def _is_cuda(value):
    if isinstance(value, str):
        return value == "cuda" or value.startswith("cuda:")
    return isinstance(value, torch.device) and value.type == "cuda"


DIVISIONS = {
    torch.Tensor.__truediv__, torch.Tensor.div, torch.Tensor.true_divide, torch.div, torch.true_divide,
}  # fmt: skip


def _times_reciprocal(tensor, number):
    """``tensor / number`` as on a GPU: torch multiplies by the reciprocal there, which may be one bit off."""
    wide = torch.float64 if tensor.dtype == torch.float64 else torch.float32
    inverse = torch.ones((), dtype=wide) / torch.full((), number, dtype=wide)
    result = tensor.dtype if tensor.is_floating_point() else torch.get_default_dtype()
    return (tensor.to(wide) * inverse).to(result)


class _OnCpu(TorchFunctionMode):
    def __torch_function__(self, func, types_, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = "cpu"
        kwargs = {k: torch.device("cpu") if _is_cuda(v) else v for k, v in kwargs.items()}
        kwargs.pop("pin_memory", None)
        if func is torch.Tensor.cuda:
            return args[0]
        if func in DIVISIONS and not kwargs and len(args) == 2 and type(args[1]) in (int, float):
            if isinstance(args[0], torch.Tensor) and not args[0].is_complex() and args[1]:
                return _times_reciprocal(*args)
        return func(*("cpu" if _is_cuda(a) else a for a in args), **kwargs)


def compared(function, name):
    """The function, whose failures and calls are kept."""

    def told(*args, **kwargs):
        LOG.compared += 1
        try:
            result = function(*args, **kwargs)
        except AssertionError as error:
            LOG.differ.append(f"{name}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}")
            raise
        if result is False:
            LOG.differ.append(f"{name} is False")
        return result

    return told


def on_cpu():
    """Patch torch; for the rest of this process. What times kernels by Triton finds a stand-in."""
    for name in ("triton", "triton.testing", "triton.language", "triton.runtime"):
        with suppress(ImportError):
            __import__(name)
            continue
        sys.modules[name] = mock.MagicMock(__spec__=None, __path__=[], __version__="3.5.0")
    for name in ("has_triton_package", "has_triton"):  # torch is not to take it for Triton
        setattr(torch.utils._triton, name, lambda *a, **k: False)

    class Nothing:
        def __init__(self, *args, **kwargs):
            self.cuda_stream = self.cuda_event = 0

        def __enter__(self):
            return self

        def __exit__(self, *args):
            return None

        def __getattr__(self, name):
            return lambda *args, **kwargs: 1.0

    cuda = torch.cuda
    cuda.is_available = lambda: True
    cuda._lazy_init = lambda: None
    cuda.current_device = lambda: 0
    cuda.device_count = lambda: 1
    cuda.get_device_capability = lambda *a: (9, 0)
    cuda.get_device_name = lambda *a: HOME.name
    cuda.get_device_properties = lambda *a: types.SimpleNamespace(
        multi_processor_count=SM_COUNT, major=HOME.capability[0], minor=HOME.capability[1], name=HOME.name,
        total_memory=1 << 37, L2_cache_size=50 << 20, shared_memory_per_multiprocessor=HOME.sm_shared,
        warp_size=32,
    )  # fmt: skip
    for name in ("synchronize", "empty_cache", "manual_seed", "manual_seed_all", "set_device", "init"):
        setattr(cuda, name, lambda *a, **k: None)
    for name in ("Event", "Stream", "device", "stream", "CUDAGraph", "graph"):
        setattr(cuda, name, Nothing)
    cuda.current_stream = cuda.default_stream = lambda *a: Nothing()
    torch.set_default_device = lambda *a: None
    torch.profiler.profile = lambda *a, **k: mock.MagicMock()
    torch.testing.assert_close = compared(torch.testing.assert_close, "assert_close")
    torch.allclose = compared(torch.allclose, "allclose")

    custom_op = torch.library.custom_op
    torch.library.custom_op = lambda *a, device_types=None, **k: custom_op(*a, **k)  # for a CPU's tensors too

    class Generator(torch.Generator):
        def __new__(cls, device="cpu"):
            return super().__new__(cls, "cpu")

    torch.Generator = Generator
    torch.Tensor.is_cuda = property(lambda self: True)  # in a backward function too, where no mode is on
    _OnCpu().__enter__()


def array_of(tensor):
    """(the bytes of a CPU torch tensor as an array, dtype, address). Of one with gaps, all of its storage."""
    tensor = tensor.detach()
    if not tensor.is_contiguous():
        size = tensor.element_size()
        count = tensor.untyped_storage().nbytes() // size
        tensor = torch.as_strided(tensor, (count,), (1,), 0)
    name = NAMES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))
    if name.startswith(("float8", "float4")) and tensor.dtype not in BITS:
        tensor, name = tensor.view(torch.uint8), "uint8"
    return tensor.view(BITS.get(tensor.dtype, tensor.dtype)).numpy(), name, tensor.data_ptr()


def launch(artifact, arrays, addresses=None):
    """Emulate one launch, and log it."""
    import time

    start = time.perf_counter()
    LOG.launches += 1
    done = emulate(artifact, arrays, seed=LOG.launches, addresses=addresses)
    LOG.seconds += time.perf_counter() - start
    LOG.executed += done.executed
    LOG.findings += [(f.kind, str(f)) for f in done.errors]
    if done.errors and (folder := os.environ.get("FOREIGN_KEEP")):  # for who judges the finding
        kept = Path(folder) / f"launch{LOG.launches}"
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.with_suffix(".ptx").write_text(artifact.ptx)
        kept.with_suffix(".cu").write_text(artifact.source or "")
        kept.with_suffix(".txt").write_text("\n\n".join(map(str, done.errors)) + "\n")
    if not done.finished:
        LOG.stopped = True
        raise RuntimeError(f"the emulated kernel did not finish: {LOG.findings[-1:]}")


def _files(error):
    """The files that an error came through, the last one raised it."""
    trace, files = error.__traceback__, []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    return files


def is_of_emulator(error):
    """Was it raised in the emulator's own code? None should be, but for those that name a refusal."""
    files = _files(error)
    return bool(files) and "/course_utils/run/emulator/" in files[-1]


def is_of_compiler(error):
    """Was it raised in a DSL's own code, before a launch?"""
    files = _files(error)
    compilers = ("/tilelang/", "/tvm/", "/cutlass/", "nvidia_cutlass_dsl")
    packages = [file for file in files if "site-packages" in file]
    driver = any("cuda/bindings" in file for file in files)
    return bool(packages) and not driver and any(part in packages[-1] for part in compilers)


def live_tensors():
    """All tensors there are, by address."""
    found = {}
    for thing in gc.get_objects():
        if issubclass(type(thing), torch.Tensor) and thing.device.type == "cpu" and thing.numel():
            found.setdefault(thing.untyped_storage().data_ptr(), thing)
    return found


def tilelang():
    """Make TileLang's JIT compile for sm_90a and emulate what it would launch. Long, as ``cute`` is: a list
    of what a host program asks for, each thing with its stand-in.
    """
    import tilelang
    from tilelang import profiler, tvm
    from tilelang.carver.arch import driver
    from tilelang.engine.lower import lower_with_context
    from tilelang.jit.kernel import JITKernel
    from tilelang.utils import device, tensor

    from course_utils.compile import nvrtc, programs

    tvm.target.Target({"kind": "cuda", "arch": nvrtc.ARCH}).__enter__()
    device.get_current_device = tensor.get_current_device = lambda: "cpu"
    driver.get_num_sms = lambda *a: SM_COUNT
    for module in (driver, profiler):
        for name in ("do_bench", "get_num_sms"):
            if hasattr(module, name):
                setattr(module, name, lambda *a, _n=name, **k: SM_COUNT if _n == "get_num_sms" else 1.0)
    profiler.Profiler.do_bench = lambda self, *a, **k: 1.0
    for module in (tensor, profiler):
        module.torch_assert_close = compared(module.torch_assert_close, "torch_assert_close")

    def adapted(self, function, out_idx):
        with tvm.transform.PassContext(opt_level=3, config=dict(self.pass_configs or {})), self.target:
            lowered = lower_with_context(
                function, self.backend_context, enable_host_codegen=False, enable_device_compile=False
            )
        self.artifact = lowered
        results = [] if out_idx is None else [out_idx] if isinstance(out_idx, int) else list(out_idx)
        results = [i % len(lowered.params) for i in results]
        return Adapter(lowered, function, results)

    class Adapter:
        def __init__(self, lowered, function, results):
            self.params, self.result_idx = lowered.params, results
            self.func = lambda *args: _call(lowered, function, results, args)
            self.get_kernel_source = lambda *a, **k: lowered.kernel_source

        def __call__(self, *args):
            return self.func(*args)

    def _call(lowered, function, results, args):
        given, sizes, places = list(args), {}, []
        for i, handle in enumerate(function.params):
            if i not in results:
                value = given.pop(0)
                if handle in function.buffer_map and isinstance(value, torch.Tensor):
                    buffer = function.buffer_map[handle]
                    for axis, size in enumerate(buffer.shape):
                        if type(size).__name__ == "Var":
                            sizes[str(size.name)] = value.shape[axis]
                    for axis, stride in enumerate(buffer.strides):
                        if type(stride).__name__ == "Var":
                            sizes[str(stride.name)] = value.stride(axis)
                elif handle not in function.buffer_map:
                    sizes[str(handle.name)] = value
                places.append(value)
            else:
                places.append(None)
        host = programs._Host({}, (), sizes)
        for i in results:
            param = lowered.params[i]
            shape = [host.number(s, "a size") for s in param.shape]
            if param.dtype.bits < 8:
                shape[-1] = shape[-1] * param.dtype.bits // 8
            places[i] = torch.empty(shape, dtype=param.torch_dtype())
        arrays, tensors, addresses = {}, [], {}
        for handle, value in zip(function.params, places, strict=True):
            if handle in function.buffer_map and isinstance(value, torch.Tensor):
                name = str(function.buffer_map[handle].name)
                array, dtype, address = array_of(value)
                arrays[name], addresses[name] = array, address
                tensors.append(Tensor(name, array.shape, dtype))
        for number, (address, value) in enumerate(live_tensors().items()):
            if address not in addresses.values():
                array, dtype, address = array_of(value)
                name = f"other {number}"
                arrays[name], addresses[name] = array, address
                tensors.append(Tensor(name, array.shape, dtype))
        for artifact in programs.launches(lowered, tuple(tensors), sizes):
            for workspace in artifact.tensors:
                if workspace.name not in arrays:
                    kind = getattr(torch, workspace.dtype)
                    space, _, _ = array_of(torch.zeros(workspace.shape, dtype=kind))
                    arrays[workspace.name] = space
                    addresses[workspace.name] = space.ctypes.data
            launch(artifact, arrays, addresses)
        made = [places[i] for i in results]
        return made[0] if len(made) == 1 else made or None

    JITKernel._compile_and_create_adapter = adapted
    return tilelang


KDL_CUDA = 2  # DLDeviceType
# by cudaDeviceAttr: SMs, shared memory that a block may ask for, cooperative launches, compute capability
DEVICE_ATTRIBUTES = {16: SM_COUNT, 97: HOME.shared, 95: 1, 75: HOME.capability[0], 76: HOME.capability[1]}


class OnDevice:
    """A CPU torch tensor that tells DLPack it is on a GPU."""

    def __init__(self, tensor):
        self.tensor = tensor.detach()

    def __dlpack__(self, **_):
        capsule = torch.utils.dlpack.to_dlpack(self.tensor)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = KDL_CUDA
        return capsule

    def __dlpack_device__(self):
        return KDL_CUDA, 0


def _encode_tiled(place, data_type, rank, address, dims, strides, box, steps, *modes):
    """``cuTensorMapEncodeTiled``; its codes are those of a ``TensorMap``."""

    def read(kind, at, count):
        return tuple(ctypes.cast(at, ctypes.POINTER(kind))[:count])

    interleave, swizzle, l2_promotion, oob_fill = modes
    made = TensorMap(
        data_type=data_type,
        dims=read(ctypes.c_uint64, dims, rank),
        strides=read(ctypes.c_uint64, strides, rank - 1),
        box=read(ctypes.c_uint32, box, rank),
        element_strides=read(ctypes.c_uint32, steps, rank),
        interleave=interleave,
        swizzle=swizzle,
        l2_promotion=l2_promotion,
        oob_fill=oob_fill,
    )
    ctypes.memmove(place, encode(made, address), 128)


def cute():
    """Make CuTe DSL compile for sm_90a and emulate what it would launch, as ``tilelang`` does."""
    settings = {"ARCH": HOME.arch, "KEEP": "ptx", "DUMP_DIR": tempfile.mkdtemp(), "DISABLE_FILE_CACHING": "1"}
    for dsl in ("CUTE_DSL", "CUTE_EXPERIMENTAL_DSL"):
        os.environ |= {f"{dsl}_{name}": value for name, value in settings.items()}
    import cutlass.cuda
    import cutlass.cute
    import cutlass.cute.testing
    import cutlass.testing
    import cutlass.utils
    from cuda.bindings import driver
    from cutlass._mlir import ir
    from cutlass._mlir.execution_engine import ExecutionEngine
    from cutlass.base_dsl.runtime.jit_arg_adapters import is_arg_annotation_constexpr
    from cutlass.cute import runtime
    from cutlass.cutlass_dsl import CuTeDSL, cuda_jit_executor

    from course_utils.compile import cute as captured
    from course_utils.ptx.parser import signature

    CuTeDSL._get_dsl()._runtime_can_run_compiled = lambda *a: False
    type(CuTeDSL._get_dsl())._runtime_can_run_compiled = lambda *a: False
    for module in (cutlass.cute.testing, cutlass.testing):
        module.benchmark = lambda *a, **k: 1.0
    cutlass.cuda.initialize_cuda_context = lambda *a, **k: None
    hardware = cutlass.utils.HardwareInfo
    hardware.__init__ = lambda self, *a, **k: None
    hardware.get_max_active_clusters = lambda self, cluster_size, *a, **k: max(SM_COUNT // cluster_size, 1)
    hardware.get_device_multiprocessor_count = lambda self: SM_COUNT
    hardware.get_l2_cache_size_in_bytes = lambda self: 50 << 20

    plain = runtime._Tensor.__init__

    def on_device(self, tensor, *args, **kwargs):
        kwargs.pop("enable_tvm_ffi", None)
        if kwargs.get("assumed_align"):  # torch aligns a CPU's tensors so, a GPU's further
            kwargs["assumed_align"] = min(kwargs["assumed_align"], 64)
        plain(self, OnDevice(tensor) if isinstance(tensor, torch.Tensor) else tensor, *args, **kwargs)

    runtime._Tensor.__init__ = on_device

    def kept(name):
        """The method, whose calls the tensor keeps: what takes its place in a call is marked as it was."""
        own = getattr(runtime._Tensor, name)

        def mark(self, *args, **kwargs):
            self.__dict__.setdefault("foreign_marks", []).append((name, args, kwargs))
            return own(self, *args, **kwargs)

        return mark

    for name in ("mark_layout_dynamic", "mark_compact_shape_dynamic"):
        setattr(runtime._Tensor, name, kept(name))

    def engine_of(compiled):
        """An engine for the host function, with ours in the place of the CUDA runtime."""
        undefined = []

        def visit(op):
            if op.name == "llvm.func" and not len(op.regions[0].blocks):
                undefined.append(ir.StringAttr(op.attributes["sym_name"]).value)
            return ir.WalkResult.ADVANCE

        with compiled.ir_module.context:
            compiled.ir_module.operation.walk(visit)
        engine = ExecutionEngine(compiled.ir_module, 2, [])
        kernels = []  # by the handle that the host function gets of each, counted from 1
        errors = compiled.__dict__.setdefault("foreign_errors", [])

        def guarded(function):
            def call(*args):
                try:
                    return function(*args) or 0
                except BaseException as error:
                    errors.append(error)
                    return 1

            return call

        def on_kernel(place, _library, name):
            kernels.append(name.decode())
            place[0] = len(kernels)

        def on_launch(config, handle, values):
            _cute_launch(compiled, kernels[handle - 1], config, values)

        def put(value):
            def write(place, *_):
                place[0] = value

            return write

        def on_attribute(place, number, _device):
            place[0] = DEVICE_ATTRIBUTES.get(number, 0)

        number, pointer, text = ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p
        numbers, handles = ctypes.POINTER(ctypes.c_int32), ctypes.POINTER(ctypes.c_size_t)
        stands_in = {
            "_cudaLaunchKernelEx": (on_launch, pointer, ctypes.c_size_t, pointer),
            "_cudaLibraryGetKernel": (on_kernel, handles, pointer, text),
            "_cudaGetDevice": (put(0), numbers),
            "_cudaDeviceGetAttribute": (on_attribute, numbers, number, number),
            "_cudaOccupancyMaxActiveBlocksPerMultiprocessor": (put(1), numbers, pointer, number, pointer),
            "_cuTensorMapEncodeTiled": (
                _encode_tiled, pointer, number, number, *[pointer] * 5, *[number] * 4,
            ),
        }  # fmt: skip
        kept = []
        for name in undefined:
            if name in stands_in:
                own, *types_ = stands_in[name]
                function = ctypes.CFUNCTYPE(number, *types_)(guarded(own))
            elif re.match(r"_?cu", name, re.I):
                function = ctypes.CFUNCTYPE(number)(lambda: 0)
            else:
                continue
            kept.append(function)
            engine.raw_register_runtime(name, ctypes.cast(function, ctypes.c_void_p))
        library, result = ctypes.c_void_p(), ctypes.c_int32(-1)
        place = ctypes.c_void_p(ctypes.addressof(library))
        packed = (ctypes.c_void_p * 2)(ctypes.addressof(place), ctypes.addressof(result))
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.raw_lookup("cuda_load"))(ctypes.addressof(packed))
        compiled.foreign_engine = engine, kept
        return engine

    def _cute_launch(compiled, kernel, config, values):
        ptx = compiled.artifacts.PTX
        _, parameters = signature(ptx, kernel)
        pointers = ctypes.cast(values, ctypes.POINTER(ctypes.c_void_p))
        data = [ctypes.string_at(pointers[i], parameter.size) for i, parameter in enumerate(parameters)]
        shape, attributes = captured._read_config(
            ctypes.cast(config, ctypes.POINTER(captured._Config)).contents
        )
        shape["cluster"] = attributes.get(captured.CLUSTER_DIMENSION, (1, 1, 1))
        arrays, tensors, addresses = {}, [], {}
        for number, value in enumerate(live_tensors().values()):
            whole = torch.as_strided(
                value.detach(), (value.untyped_storage().nbytes() // value.element_size(),), (1,), 0
            )
            array, dtype, address = array_of(whole)
            arrays[f"T{number}"], addresses[f"T{number}"] = array, address
            tensors.append(Tensor(f"T{number}", array.shape, dtype))
        given = []
        for blob in data:
            given.append(_parameter(blob, arrays, tensors, addresses))
        launch(
            Artifact(
                dsl="cute", kernel=kernel, ptx=ptx, cubin=b"", parameters=tuple(given),
                tensors=tuple(tensors), resources=Resources(0, 0, 0, 0, 0), **shape,
            ),
            arrays,
            addresses,
        )  # fmt: skip

    def _parameter(blob, arrays, tensors, addresses):
        if len(blob) == 128:
            try:
                tensor_map, address = decode(blob)
            except ValueError:
                return Parameter("scalar", dtype="uint1024", value=int.from_bytes(blob, "little"))
            for name, base in addresses.items():
                offset = address - base
                if offset == 0:
                    return Parameter("tensor_map", tensor=name, tensor_map=tensor_map)
                if 0 < offset < arrays[name].nbytes:
                    part = arrays[name].reshape(-1).view(np.uint8)[offset:]
                    arrays[f"{name} from {offset}"] = part
                    addresses[f"{name} from {offset}"] = address
                    tensors.append(Tensor(f"{name} from {offset}", part.shape, "uint8"))
                    return Parameter("tensor_map", tensor=f"{name} from {offset}", tensor_map=tensor_map)
            raise CompileError("lower", "a tensor map that begins in no tensor, as those of ragged sequences")
        return Parameter("scalar", dtype=f"uint{8 * len(blob)}", value=int.from_bytes(blob, "little"))

    def run(self, exe_args):
        found = getattr(self, "foreign_engine", None)
        engine = found[0] if found else engine_of(self)
        result = ctypes.c_int32(-1)
        values = [a.value if isinstance(a, ctypes.c_void_p) else a for a in exe_args]
        packed = (ctypes.c_void_p * (len(values) + 1))(*values, ctypes.addressof(result))
        engine.lookup(self.function_name)(ctypes.addressof(packed))
        _raise(self)
        return result.value

    def _raise(self):
        errors = self.__dict__.get("foreign_errors", [])
        if errors:
            raise errors.pop(0)

    cuda_jit_executor.CudaDialectJitCompiledFunction.run_compiled_program = run
    cuda_jit_executor.CudaDialectJitCompiledFunction.to = lambda self, device=None: self

    real = cutlass.cute.compile

    class Compile:
        """cute.compile. What is to be called through TVM FFI, whose host code wants a GPU, is compiled when
        it is called, for the tensors of that call and without TVM FFI.
        """

        def __init__(self, asked=()):
            self.asked = asked if isinstance(asked, tuple) else (asked,)

        def __getitem__(self, asked):
            return Compile(asked)

        def __call__(self, function, *args, options="", **kwargs):
            ffi = [one for one in self.asked if "TVMFFI" in str(one)]
            if ffi or "--enable-tvm-ffi" in str(options):
                return lambda *given, **named: _late(function, args, kwargs, given, named)
            compile_ = real[self.asked] if self.asked else real
            return compile_(function, *args, **({"options": options} if options else {}), **kwargs)

    def _late(function, args, kwargs, given, named):
        """One call of what TVM FFI would call: it takes neither constants nor the stream that it finds by
        itself.
        """
        given, made, at_run_time = list(given), {}, {}
        bound = _signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        for number, (name, arg) in enumerate(bound.arguments.items()):
            annotation = _signature(function).parameters[name].annotation
            if is_arg_annotation_constexpr(annotation, name, number, None):
                made[name] = arg
                continue
            if getattr(arg, "use_tvm_ffi_env_stream", False):
                made[name] = driver.CUstream(0)
            else:
                value = named[name] if name in named else given.pop(0) if given else arg
                stream = "Stream" in type(arg).__name__
                made[name] = driver.CUstream(0) if stream else _like(arg, value)
            at_run_time[name] = made[name]
        compiled = real(function, **made)
        return compiled(**at_run_time)

    def _signature(function):
        try:
            return inspect.signature(function, eval_str=True)
        except NameError:  # an annotation that only a type checker can name
            return inspect.signature(function)

    def _like(arg, value):
        """The value of a call as what stood at its place in the compilation; a structure part by part."""
        if value is None:  # what is constant in the compilation is left out of the call
            return arg
        if isinstance(value, torch.Tensor):
            made = runtime.from_dlpack(value, assumed_align=getattr(arg, "_assumed_align", None))
            for name, args, kwargs in getattr(arg, "foreign_marks", ()):
                getattr(made, name)(*args, **kwargs)
            return made
        if isinstance(arg, cutlass.Numeric):
            return type(arg)(value)
        if isinstance(arg, runtime._Pointer) and isinstance(value, int):
            return runtime.make_ptr(arg.dtype, value, arg.memspace, assumed_align=arg._assumed_align)
        if is_dataclass(value):
            parts = {f.name: _like(getattr(arg, f.name, None), getattr(value, f.name)) for f in fields(value)}
            return replace(value, **parts)
        if isinstance(value, (tuple, list)):
            like = arg if isinstance(arg, (tuple, list)) and len(arg) == len(value) else [None] * len(value)
            parts = [_like(*pair) for pair in zip(like, value, strict=True)]
            kind = type(value)
            return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
        return value

    cutlass.cute.compile = Compile()
