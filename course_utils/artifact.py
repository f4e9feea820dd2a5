"""The Artifact: all that a kernel launch needs, and nothing of the Python that made it.

Both DSLs end here. After it, nothing knows which DSL a kernel came from.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from course_utils.tensormap import TensorMap

FORMAT = 1
SCALAR_FORMATS = {"bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q", "float16": "e", "float32": "f",
                  "float64": "d"}


class ArtifactError(ValueError):
    """The bytes are not an Artifact that this release of the course can read."""


@dataclass(frozen=True)
class Tensor:
    """A tensor argument of the kernel's factory, in the caller's order. ``shape`` is row-major, contiguous."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Parameter:
    """One parameter of the ``__global__`` function, in launch order.

    ``kind`` is ``"tensor_map"`` (128 bytes by value, over ``tensor``), ``"pointer"`` (to ``tensor``) or ``"scalar"``
    (``value`` of ``dtype``).
    """

    kind: str
    tensor: str | None = None
    tensor_map: TensorMap | None = None
    dtype: str | None = None
    value: int | float | None = None

    def scalar_bytes(self) -> bytes:
        """A scalar as the kernel reads it, little-endian. Raises ValueError for a ``dtype`` that no kernel of the course has."""
        if self.dtype.startswith("uint"):  # of any width: CuTe DSL passes small structs by value
            return self.value.to_bytes(int(self.dtype[4:]) // 8, "little")
        if self.dtype not in SCALAR_FORMATS:
            raise ValueError(f"scalars of type {self.dtype}")
        return struct.pack("<" + SCALAR_FORMATS[self.dtype], self.value)


@dataclass(frozen=True)
class Resources:
    """What the assembler allotted. Registers are per thread, the rest bytes; spills are bytes per thread."""

    registers: int
    stack_frame: int
    spill_stores: int
    spill_loads: int
    static_shared: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Artifact:
    """A compiled kernel and its launch. ``grid``, ``block`` and ``cluster`` are x, y, z; ``dynamic_shared`` is bytes."""

    dsl: str
    kernel: str
    ptx: str
    cubin: bytes
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    dynamic_shared: int
    parameters: tuple[Parameter, ...]
    tensors: tuple[Tensor, ...]
    resources: Resources
    versions: dict[str, str] = field(default_factory=dict)
    source: str = ""

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def problem(self) -> tuple[int, int, int]:
        """(M, N, K) of ``D[M, N] = A[M, K] @ B[N, K]^T``."""
        (m, k), (n, _) = self.tensors[0].shape, self.tensors[1].shape
        return m, n, k

    def to_bytes(self) -> bytes:
        """One zip archive: ``artifact.json`` (launch and parameters), ``kernel.ptx``, ``kernel.cubin``, ``kernel.cu``."""
        fields = asdict(self)
        for name in ("ptx", "cubin", "source"):
            del fields[name]
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("artifact.json", json.dumps({"format": FORMAT, **fields}, indent=1))
            archive.writestr("kernel.ptx", self.ptx)
            archive.writestr("kernel.cubin", self.cubin)
            archive.writestr("kernel.cu", self.source)
        return buffer.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Artifact:
        """Inverse of ``to_bytes``. Raises ArtifactError for anything else."""
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                fields = json.loads(archive.read("artifact.json"))
                if fields.pop("format") != FORMAT:
                    raise ArtifactError("this artifact was written by another release of the course; compile it again")
                fields["ptx"] = archive.read("kernel.ptx").decode()
                fields["cubin"] = archive.read("kernel.cubin")
                fields["source"] = archive.read("kernel.cu").decode()
            fields["parameters"] = tuple(_parameter(p) for p in fields["parameters"])
            fields["tensors"] = tuple(Tensor(t["name"], tuple(t["shape"]), t["dtype"]) for t in fields["tensors"])
            fields["resources"] = Resources(**{**fields["resources"], "warnings": tuple(fields["resources"]["warnings"])})
            for name in ("grid", "block", "cluster"):
                fields[name] = tuple(fields[name])
            return cls(**fields)
        except ArtifactError:
            raise
        except Exception as error:  # whatever zipfile, zlib, json or a missing field make of bytes that are not ours
            raise ArtifactError(f"not a compiled kernel of this course: {error}") from error

    def save(self, path: str | Path) -> None:
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Artifact:
        """Read what ``save`` wrote. Raises ArtifactError, or OSError where the file cannot be read."""
        return cls.from_bytes(Path(path).read_bytes())


def _parameter(fields: dict) -> Parameter:
    tensor_map = fields["tensor_map"]
    if tensor_map is not None:
        tensor_map = TensorMap(**{k: tuple(v) if isinstance(v, list) else v for k, v in tensor_map.items()})
    return Parameter(**{**fields, "tensor_map": tensor_map})
