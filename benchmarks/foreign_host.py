"""Stand-ins that let a GPU program's own host code run on a CPU, its kernels in the emulator.

``on_cpu`` turns "cuda" into "cpu" for torch, ``tilelang`` and ``cute`` catch what the two DSLs would launch. A
program then makes its inputs, launches, and compares with its own reference as it does on a GPU. ``Log``
keeps what was launched and what was compared.
"""

import gc
import types
from dataclasses import dataclass, field

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from course_utils.artifact import Tensor
from course_utils.run.emulator import emulate

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


LOG = Log()


def _is_cuda(value):
    if isinstance(value, str):
        return value == "cuda" or value.startswith("cuda:")
    return isinstance(value, torch.device) and value.type == "cuda"


class _OnCpu(TorchFunctionMode):
    def __torch_function__(self, func, types_, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = "cpu"
        kwargs = {k: torch.device("cpu") if _is_cuda(v) else v for k, v in kwargs.items()}
        kwargs.pop("pin_memory", None)
        if func is torch.Tensor.cuda:
            return args[0]
        if func is torch.Tensor.is_cuda.__get__:
            return True
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
    """Patch torch; for the rest of this process."""

    class Nothing:
        def __init__(self, *args, **kwargs):
            self.cuda_stream = 0

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
    cuda.get_device_name = lambda *a: "NVIDIA H200"
    cuda.get_device_properties = lambda *a: types.SimpleNamespace(
        multi_processor_count=SM_COUNT, major=9, minor=0, name="NVIDIA H200", total_memory=1 << 37,
        L2_cache_size=50 << 20, shared_memory_per_multiprocessor=228 << 10, warp_size=32,
    )  # fmt: skip
    for name in ("synchronize", "empty_cache", "manual_seed", "manual_seed_all", "set_device", "init"):
        setattr(cuda, name, lambda *a, **k: None)
    for name in ("Event", "Stream", "device", "stream", "CUDAGraph", "graph"):
        setattr(cuda, name, Nothing)
    cuda.current_stream = cuda.default_stream = lambda *a: Nothing()
    torch.set_default_device = lambda *a: None
    torch.testing.assert_close = compared(torch.testing.assert_close, "assert_close")
    torch.allclose = compared(torch.allclose, "allclose")

    class Generator(torch.Generator):
        def __new__(cls, device="cpu"):
            return super().__new__(cls, "cpu")

    torch.Generator = Generator
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
    LOG.findings += [f"{f.kind}: {f.text}" for f in done.errors]
    if not done.finished:
        raise RuntimeError(f"the emulated kernel did not finish: {LOG.findings[-1:]}")


def live_tensors():
    """All tensors there are, by address."""
    found = {}
    for thing in gc.get_objects():
        if isinstance(thing, torch.Tensor) and thing.device.type == "cpu" and thing.numel():
            found.setdefault(thing.untyped_storage().data_ptr(), thing)
    return found


def tilelang():
    """Make TileLang's JIT compile for sm_90a and emulate what it would launch."""
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
    profiler.torch_assert_close = compared(profiler.torch_assert_close, "torch_assert_close")

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
                    space = np.zeros(workspace.shape, np.uint8)
                    arrays[workspace.name] = space
                    addresses[workspace.name] = space.ctypes.data
            launch(artifact, arrays, addresses)
        made = [places[i] for i in results]
        return made[0] if len(made) == 1 else made or None

    JITKernel._compile_and_create_adapter = adapted
    return tilelang
