"""Launch an Artifact through the CUDA driver API (cuda-bindings), in the calling process."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver

from course_utils.artifact import Artifact, Parameter, TensorMap


class DriverError(RuntimeError):
    """A driver call failed. ``name`` is the CUresult's name, ``call`` what the course was doing."""

    def __init__(self, name: str, call: str) -> None:
        super().__init__(f"{call}: {name}")
        self.name, self.call = name, call


def checked(result: tuple, call: str) -> Any:
    """What a driver call returned behind its status. Raises DriverError, with what the course was doing."""
    status, *values = result
    if status != driver.CUresult.CUDA_SUCCESS:
        raise DriverError(status.name, call)
    return values[0] if len(values) == 1 else values


def encode(tensor_map: TensorMap, address: int) -> driver.CUtensorMap:
    """The driver's 128 bytes for this map over ``address``.

    Raises DriverError where the driver refuses the map.
    """
    t = tensor_map
    strides = t.strides or (0,)  # of rank 1 the driver reads none, and yet refuses an empty array
    return checked(
        driver.cuTensorMapEncodeTiled(
            driver.CUtensorMapDataType(t.data_type),
            t.rank,
            address,
            [driver.cuuint64_t(v) for v in t.dims],
            [driver.cuuint64_t(v) for v in strides],
            [driver.cuuint32_t(v) for v in t.box],
            [driver.cuuint32_t(v) for v in t.element_strides],
            driver.CUtensorMapInterleave(t.interleave),
            driver.CUtensorMapSwizzle(t.swizzle),
            driver.CUtensorMapL2promotion(t.l2_promotion),
            driver.CUtensorMapFloatOOBfill(t.oob_fill),
        ),
        "encoding a tensor map",
    )


class Kernel:
    """A loaded kernel bound to device addresses, ready to launch on the current context.

    ``addresses`` maps each tensor's name to its device address. Raises DriverError.
    """

    def __init__(self, artifact: Artifact, addresses: dict[str, int]):
        self.module = checked(driver.cuModuleLoadData(artifact.cubin), "loading the kernel")
        self.function = checked(
            driver.cuModuleGetFunction(self.module, artifact.kernel.encode()), "finding the kernel"
        )
        checked(
            driver.cuFuncSetAttribute(
                self.function,
                driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                artifact.dynamic_shared,
            ),
            "asking for shared memory",
        )
        # kept alive: the launch points at them
        self._values = [self._value(p, addresses) for p in artifact.parameters]
        pointers = [v.getPtr() if hasattr(v, "getPtr") else ctypes.addressof(v) for v in self._values]
        self._array = (ctypes.c_void_p * len(pointers))(*pointers)
        self.config = driver.CUlaunchConfig()
        self.config.gridDimX, self.config.gridDimY, self.config.gridDimZ = artifact.grid
        self.config.blockDimX, self.config.blockDimY, self.config.blockDimZ = artifact.block
        self.config.sharedMemBytes = artifact.dynamic_shared
        if artifact.cluster != (1, 1, 1):
            attribute = driver.CUlaunchAttribute()
            attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
            value = driver.CUlaunchAttributeValue()
            value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = artifact.cluster
            attribute.value = value
            self.config.attrs, self.config.numAttrs = [attribute], 1

    @staticmethod
    def _value(parameter: Parameter, addresses: dict[str, int]) -> Any:
        tensor, tensor_map = parameter.tensor, parameter.tensor_map
        if tensor is not None and tensor_map is not None:
            return encode(tensor_map, addresses[tensor])
        if tensor is not None:
            return ctypes.c_uint64(addresses[tensor])
        data = parameter.scalar_bytes()
        return ctypes.create_string_buffer(data, len(data))

    def launch(self, stream: int) -> None:
        """Queue one launch on a CUstream handle. Raises DriverError where the launch is refused."""
        self.config.hStream = stream
        checked(
            driver.cuLaunchKernelEx(self.config, self.function, ctypes.addressof(self._array), 0),
            "launching the kernel",
        )

    def unload(self) -> None:
        """Free the module. The kernel must not be running."""
        checked(driver.cuModuleUnload(self.module), "unloading the kernel")
