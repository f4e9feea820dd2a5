"""The Artifact: all that a kernel launch needs, and nothing of the Python that made it.

Both DSLs end here. After it, nothing knows which DSL a kernel came from.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
from dataclasses import asdict, dataclass, field
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from course_utils.chips import HOME, Chip
from course_utils.chips import chip as chip_of

# fmt: off
DATA_TYPES = (
    "uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bfloat16",
    "float32_ftz", "tfloat32", "tfloat32_ftz",
)
# fmt: on
ELEMENT_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
FIRST_FLOAT_TYPE = DATA_TYPES.index("float16")
PACKED_DATA_TYPES = (13, 14, 15)  # 16U4_ALIGN8B, 16U4_ALIGN16B, 16U6_ALIGN16B
INTERLEAVES = ("none", "16B", "32B")
SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM_32B", "128B_ATOM_32B_FLIP_8B", "128B_ATOM_64B")
SWIZZLE_BYTES = (0, 32, 64, 128, 128, 128, 128)
# Bytes after which the pattern of swizzle 0 to 3 begins again (CUDA programming guide; the driver's maps).
SWIZZLE_PATTERN_BYTES = (16, 256, 512, 1024)
L2_PROMOTIONS = ("none", "64B", "128B", "256B")
OOB_FILLS = ("zero", "nan")

WARP_THREADS, WARPGROUP_THREADS = 32, 128

TENSOR_MAP_BYTES, TENSOR_MAP_ALIGNMENT = 128, 64  # of a CUtensorMap (CUDA driver API)
TMA_ALIGNMENT = 128  # bytes, of a tile in shared memory (PTX ISA, cp.async.bulk.tensor)
BOX_LIMIT = 256  # elements of a box in each dimension (cuTensorMapEncodeTiled)

GENERATED = "kernel.cu"  # the file name under which CUDA source is compiled
FORMAT = 1
SCALAR_FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}


def number_text(value: int) -> str:
    """A field's value in words. Python refuses to print integers of thousands of digits, and no field is
    wider than 64 bits.
    """
    if abs(value) < 2**64:
        return str(value)
    return f"about {'-' if value < 0 else ''}2^{value.bit_length() - 1}"


def code_name(names: tuple[str, ...], code: int) -> str:
    """The name of a driver's code, or "code 9" where it has none."""
    return names[code] if 0 <= code < len(names) else f"code {number_text(code)}"


def file_name(path: str) -> str:
    """The name of a source file as a learner knows it: a notebook's cell has a file of digits."""
    return "your cell" if "ipykernel_" in path else Path(path).name


@dataclass(frozen=True)
class TensorMap:
    """One tiled tensor map. Dimension 0 is the innermost, as in the driver API.

    ``dims`` and ``box`` count elements; ``strides`` are bytes and leave out the innermost dimension, so there
    is one fewer; the last four fields are the driver's enum values. Nothing is checked here: ``violations``
    does that.
    """

    data_type: int
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int = 0
    swizzle: int = 0
    l2_promotion: int = 0
    oob_fill: int = 0

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def box_bytes(self) -> int:
        """Bytes that one load of this box adds to an mbarrier's transaction count: what ``expect_tx`` has to
        say.

        The whole box counts, also what lies outside the tensor and is filled. Raises ValueError where the
        arrays differ in length.
        """
        return ELEMENT_BYTES[self.data_type] * prod(self.extents)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Elements that one load of the box takes each way: ceil(box[i] / steps[i]) (cuTensorMapEncodeTiled).

        Raises ValueError where the arrays differ in length.
        """
        return tuple(len(range(0, extent, step)) for extent, step in zip(self.box, self.steps, strict=True))

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The element strides in force: without interleave TMA ignores the first (cuTensorMapEncodeTiled)."""
        return self.element_strides if self.interleave else (1, *self.element_strides[1:])

    def __str__(self) -> str:
        return (
            f"{code_name(DATA_TYPES, self.data_type)} {' x '.join(map(number_text, reversed(self.dims)))}, "
            f"box {' x '.join(map(number_text, reversed(self.box)))}, swizzle "
            f"{code_name(SWIZZLES, self.swizzle)}"
        )


@dataclass(frozen=True)
class PixelMap(TensorMap):
    """One im2col tensor map: ``cuTensorMapEncodeIm2col``. ``dims`` are C, W, (H, (D,)) and N. Its ``box`` is
    (channelsPerPixel, pixelsPerColumn); ``lower`` and ``upper`` are the corners of the pixels' bounding box,
    W first.
    """

    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()

    @property
    def channels(self) -> int:
        return self.box[0]

    @property
    def pixels(self) -> int:
        return self.box[1]

    @property
    def box_bytes(self) -> int:
        """As ``TensorMap.box_bytes``."""
        return ELEMENT_BYTES[self.data_type] * self.channels * self.pixels


class ArtifactError(ValueError):
    """The bytes are not an Artifact that this release of the course can read."""


@dataclass(frozen=True)
class Tensor:
    """A tensor argument of the kernel's factory, in the caller's order.

    ``shape`` is row-major, contiguous.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Parameter:
    """One parameter of the ``__global__`` function, in launch order.

    ``kind`` is ``"tensor_map"`` (128 bytes by value, over ``tensor``), ``"pointer"`` (to ``tensor``) or
    ``"scalar"`` (``value`` of ``dtype``).
    """

    kind: str
    tensor: str | None = None
    tensor_map: TensorMap | None = None
    dtype: str | None = None
    value: int | float | None = None

    def scalar_bytes(self) -> bytes:
        """A scalar as the kernel reads it, little-endian.

        Raises ValueError for a ``dtype`` that no kernel of the course has.
        """
        dtype, value = self.dtype or "", self.value
        # an unsigned integer of any width: CuTe DSL passes small structs by value
        if dtype.startswith("uint") and isinstance(value, int):
            return value.to_bytes(int(dtype[4:]) // 8, "little")
        if dtype not in SCALAR_FORMATS:
            raise ValueError(f"scalars of type {self.dtype}")
        return struct.pack("<" + SCALAR_FORMATS[dtype], value)


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
class Origin:
    """The author's line that a line of generated source comes from.

    ``added``: the compiler put the line there by itself, after what this line of the author's became.
    """

    file: str
    line: int
    added: bool = False


@dataclass(frozen=True)
class Place:
    """A line of the author's, for a person: its file's name, its number, and the statement that begins there.

    ``added``: the compiler put there by itself what this is about, after what the line became.
    """

    file: str
    line: int
    code: str = ""
    added: bool = False

    @property
    def at(self) -> str:
        """kernel.py, line 42."""
        return f"{'what the compiler added after ' * self.added}{self.file}, line {self.line}"

    def __str__(self) -> str:
        return f"{self.at}: {self.code}" if self.code else self.at


@dataclass(frozen=True)
class Allocation:
    """Shared memory that the author asked for, at ``file`` and ``line``: ``size`` bytes from ``offset`` on,
    which is a multiple of ``alignment``. ``swizzle`` is the driver's code of the tile in it, 0 where it has
    none.
    """

    offset: int
    size: int
    alignment: int
    swizzle: int
    file: str
    line: int

    @property
    def end(self) -> int:
        return self.offset + self.size


@dataclass(frozen=True)
class Artifact:
    """A compiled kernel and its launch.

    ``grid``, ``block`` and ``cluster`` are x, y, z; ``dynamic_shared`` is bytes. ``source`` is the generated
    CUDA, where the DSL makes some, and ``origins`` has where each of its lines comes from, None where nobody
    knows. ``python`` is the text of the author's files by name, as they were when the kernel was traced.
    ``pipelined``: the author left a loop's ring and its barriers to the compiler (``T.Pipelined``).
    ``allocations`` are the author's, where it is the author who places them. ``chip`` is what the kernel was
    made for: its limits hold, and a persistent grid is as large as it.
    """

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
    origins: tuple[Origin | None, ...] = ()
    python: dict[str, str] = field(default_factory=dict)
    pipelined: bool = False
    allocations: tuple[Allocation, ...] = ()
    chip: Chip = HOME

    def author(self, file: str, line: int) -> Origin | None:
        """The author's line of one that the compiler names: itself, or what that line of the generated CUDA
        comes from. None where nobody knows.
        """
        if Path(file).name == GENERATED:
            return self.origins[line - 1] if 0 < line <= len(self.origins) else None
        return Origin(file, line)

    def code(self, origin: Origin) -> str:
        """The author's statement at a line: the line, and those after it that its brackets hold open; ""
        where its file is not known.
        """
        text = ""
        lines = self.python.get(origin.file, "").split("\n")
        for line in lines[origin.line - 1 : origin.line + 3] if origin.line > 0 else ():
            text = f"{text} {line.partition('  #')[0].strip()}".strip()
            if text.count("(") <= text.count(")"):
                break
        return text.replace("( ", "(")

    def place(self, origin: Origin) -> Place:
        """A line as a person knows it."""
        return Place(file_name(origin.file), origin.line, self.code(origin))

    def lines(self, pattern: str) -> list[Origin]:
        """The author's lines that have this pattern, a regular expression, outside a comment."""
        return [
            Origin(file, number)
            for file, python in self.python.items()
            for number, line in enumerate(python.split("\n"), 1)
            if re.search(pattern, line.partition("#")[0])
        ]

    def line(self, pattern: str) -> Origin | None:
        """The one line of the author's that has this pattern; None where there is none, or several."""
        found = self.lines(pattern)
        return found[0] if len(found) == 1 else None

    def name_of(self, allocation: Allocation) -> str:
        """What the author calls it; "an allocation" where its line does not say."""
        code = self.code(Origin(allocation.file, allocation.line))
        named = re.match(r"(\w+)\s*=[^=]", code)
        return named[1] if named else "an allocation"

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def launch_registers(self) -> int:
        """Registers of each thread at launch: as the kernel was assembled, in eights, as warps get them. Of a
        kernel that nobody has assembled, the most that there could be.
        """
        return -(-self.resources.registers // 8) * 8 or self.chip.even_registers(self.threads)

    @property
    def register_pool(self) -> int:
        """Registers of a CTA at launch, whole warps of it. ``setmaxnreg`` moves these, and adds none."""
        return self.launch_registers * -(-self.threads // WARP_THREADS) * WARP_THREADS

    @property
    def has_problem(self) -> bool:
        """Could its tensors be those of a product, or of a batch of them? A kernel of anybody's may take
        others.
        """
        return bool(self.tensors) and len(self.tensors[-1].shape) in (2, 3) and len(self.tensors[0].shape) > 0

    @property
    def problem(self) -> tuple[int, int, int]:
        """(M, N, K): the shape of D, which comes last, and how long a row of A is, which comes first. Where
        D is several matrices, M counts the rows of all.
        """
        *rows, n = self.tensors[-1].shape
        return prod(rows), n, self.tensors[0].shape[-1]

    def to_bytes(self) -> bytes:
        """One zip archive: ``artifact.json`` (launch and parameters), ``kernel.ptx``, ``kernel.cubin``,
        ``kernel.cu``.
        """
        fields = asdict(self)
        for name in ("ptx", "cubin", "source"):
            del fields[name]
        fields["chip"] = [self.chip.name, self.chip.capability, self.chip.sms]
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
                    raise ArtifactError(
                        "this artifact was written by another release of the course; compile it again"
                    )
                fields["ptx"] = archive.read("kernel.ptx").decode()
                fields["cubin"] = archive.read("kernel.cubin")
                fields["source"] = archive.read("kernel.cu").decode()
            fields["parameters"] = tuple(_parameter(p) for p in fields["parameters"])
            fields["tensors"] = tuple(
                Tensor(t["name"], tuple(t["shape"]), t["dtype"]) for t in fields["tensors"]
            )
            fields["resources"] = Resources(
                **{**fields["resources"], "warnings": tuple(fields["resources"]["warnings"])}
            )
            fields["origins"] = tuple(one and Origin(**one) for one in fields.get("origins", ()))
            fields["allocations"] = tuple(Allocation(**one) for one in fields.get("allocations", ()))
            fields["chip"] = chip_of(*fields["chip"]) if "chip" in fields else HOME
            for name in ("grid", "block", "cluster"):
                fields[name] = tuple(fields[name])
            return cls(**fields)
        except ArtifactError:
            raise
        except (
            Exception
        ) as error:  # whatever zipfile, zlib, json or a missing field make of bytes that are not ours
            raise ArtifactError(f"not a compiled kernel of this course: {error}") from error

    def save(self, path: str | Path) -> None:
        Path(path).write_bytes(self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> Artifact:
        """Read what ``save`` wrote. Raises ArtifactError, or OSError where the file cannot be read."""
        return cls.from_bytes(Path(path).read_bytes())


def _parameter(fields: dict[str, Any]) -> Parameter:
    tensor_map = fields["tensor_map"]
    if tensor_map is not None:
        values: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in tensor_map.items()
        }
        tensor_map = (PixelMap if "lower" in values else TensorMap)(**values)
    return Parameter(**{**fields, "tensor_map": tensor_map})
