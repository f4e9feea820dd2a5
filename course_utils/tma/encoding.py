"""The 128 bytes of a Hopper tensor map (``CUtensorMap``): from the fields of a ``TensorMap`` to bytes, and
back.

``encode`` writes what the driver writes. ``decode`` also reads the maps that CuTe DSL writes without asking
the driver.
"""

from __future__ import annotations

from course_utils.artifact import DATA_TYPES, SWIZZLE_PATTERN_BYTES, TENSOR_MAP_BYTES, PixelMap, TensorMap
from course_utils.tma.rules import driver_box_bytes

# Worked out from maps that driver 580 wrote on an H200; not documented by NVIDIA. CuTe DSL 4.8.1 agrees, and
# it alone sets bits 65 and 85. The 128 bytes are one little-endian number: bit b is bit b % 8 of byte b // 8.
# Entry i of a field starts i x width bits after entry 0. Entries past the rank, and all bits that no field
# has, are 0.
LAYOUT = {
    # field:           (first bit, width in bits, entries, what is stored)
    "address": (4, 53, 1, "globalAddress / 16"),
    "cute_dsl": (65, 1, 1, "0 from the driver, 1 from CuTe DSL; its purpose is unknown"),
    "rank": (68, 3, 1, "tensorRank - 1"),
    "data_type": (71, 4, 1, "first number of DATA_TYPE_CODES"),
    "interleave": (75, 2, 1, "interleave"),
    "swizzle": (77, 2, 1, "swizzle"),
    "oob_fill": (79, 1, 1, "oobFill"),
    "tf32": (80, 1, 1, "second number of DATA_TYPE_CODES"),
    "l2_promotion": (81, 2, 1, "l2Promotion"),
    "large": (85, 1, 1, "0 from the driver; from CuTe DSL 1 where the tensor spans 128 KB or more"),
    "strides_low": (96, 32, 4, "bits 0 to 31 of globalStrides[i] / 16"),
    "strides_high": (224, 4, 4, "bits 32 to 35 of globalStrides[i] / 16"),
    "dims": (256, 32, 5, "globalDim[i] - 1"),
    "element_strides": (416, 3, 5, "elementStrides[i] - 1; only 1, 2 and 4 were seen"),
    "box": (440, 8, 5, "boxDim[i] - 1"),
    "driver_box_bytes": (512, 32, 1, "product of all boxDim[i] // elementStrides[i], x element size"),
    "swizzle_bytes": (576, 16, 1, "bytes after which the swizzle pattern repeats, SWIZZLE_PATTERN_BYTES"),
}
# CuTe DSL writes the first half only, and what was on the stack stays in the second. Its two fields follow
# from the first.
FIRST_HALF_BYTES = 64

# By tensorDataType, in the order of DATA_TYPES: (field data_type, field tf32). tfloat32 is a float32 with the
# tf32 bit.
# fmt: off
DATA_TYPE_CODES = (
    (0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (9, 0), (10, 0), (8, 0), (7, 1), (8, 1),
)
# fmt: on


def encode(tensor_map: TensorMap, address: int) -> bytes:
    """The 128 bytes that ``cuTensorMapEncodeTiled`` writes for this map over ``globalAddress = address``
    (bytes).

    Raises ValueError where a field does not fit its bits. That is not a full check: ``violations`` is.
    """
    m = tensor_map
    number = _pack(_first_half(m, address))
    number |= _pack(
        {"driver_box_bytes": [driver_box_bytes(m)], "swizzle_bytes": [SWIZZLE_PATTERN_BYTES[m.swizzle]]}
    )
    return number.to_bytes(TENSOR_MAP_BYTES, "little")


def decode(data: bytes) -> tuple[TensorMap, int]:
    """The map that these 128 bytes hold, and its globalAddress in bytes. The map need not be legal:
    ``violations`` says.

    Bytes 64 to 127 are not looked at. Raises ValueError where ``data`` is not 128 bytes long, and where the
    first 64 hold what no known map has.
    """
    if len(data) != TENSOR_MAP_BYTES:
        raise ValueError(f"A tensor map has {TENSOR_MAP_BYTES} bytes. Found: {len(data)}.")
    number = int.from_bytes(data[:FIRST_HALF_BYTES], "little")
    fields = {
        name: [(number >> (bit + i * width)) % 2**width for i in range(entries)]
        for name, (bit, width, entries, _) in LAYOUT.items()
    }
    one = {name: values[0] for name, values in fields.items()}

    rank = one["rank"] + 1
    if rank > 5:
        raise ValueError(f"A tensor map has a rank of 1 to 5. Found: {rank}.")
    codes = one["data_type"], one["tf32"]
    if codes not in DATA_TYPE_CODES:
        raise ValueError(
            f"No known tensor map has the data type code {codes[0]} with the tf32 bit {codes[1]}."
        )
    if one["large"] and not one["cute_dsl"]:
        raise ValueError("No known tensor map has bit 85 set where bit 65 is clear.")

    address = 16 * one["address"]
    strides = [
        16 * (high << 32 | low)
        for low, high in zip(fields["strides_low"], fields["strides_high"], strict=True)
    ]
    tensor_map = TensorMap(
        data_type=DATA_TYPE_CODES.index(codes),
        dims=tuple(value + 1 for value in fields["dims"][:rank]),
        strides=tuple(strides[: rank - 1]),
        box=tuple(value + 1 for value in fields["box"][:rank]),
        element_strides=tuple(value + 1 for value in fields["element_strides"][:rank]),
        interleave=one["interleave"],
        swizzle=one["swizzle"],
        l2_promotion=one["l2_promotion"],
        oob_fill=one["oob_fill"],
    )
    # What the fields do not explain: bits between fields, and entries past the rank.
    unknown = number ^ _pack(_first_half(tensor_map, address, one["cute_dsl"], one["large"]))
    if unknown:
        bit = (unknown & -unknown).bit_length() - 1
        raise ValueError(f"Every known tensor map of rank {rank} has a zero in bit {bit} (byte {bit // 8}).")
    return tensor_map, address


def _first_half(m: TensorMap, address: int, cute_dsl: int = 0, large: int = 0) -> dict[str, list[int]]:
    """Fields of bytes 0 to 63, as ``_pack`` takes them."""
    if isinstance(m, PixelMap):
        raise ValueError("An im2col map runs in the emulator only: how the driver stores one is not known.")
    if not len(m.dims) == len(m.box) == len(m.element_strides) == len(m.strides) + 1:
        raise ValueError(
            "boxDim and elementStrides need one entry for each dimension, globalStrides one fewer."
        )
    if not 0 <= m.data_type < len(DATA_TYPE_CODES):
        raise ValueError(f"tensorDataType must be 0 to {len(DATA_TYPES) - 1}. Found: {m.data_type}.")
    for name, value in (
        ("globalAddress", address),
        *((f"globalStrides[{i}]", stride) for i, stride in enumerate(m.strides)),
    ):
        if value % 16:
            raise ValueError(f"{name} must be a multiple of 16 bytes. Found: {value}.")
    data_type, tf32 = DATA_TYPE_CODES[m.data_type]
    return {
        "address": [address // 16],
        "cute_dsl": [cute_dsl],
        "rank": [m.rank - 1],
        "data_type": [data_type],
        "interleave": [m.interleave],
        "swizzle": [m.swizzle],
        "oob_fill": [m.oob_fill],
        "tf32": [tf32],
        "l2_promotion": [m.l2_promotion],
        "large": [large],
        "strides_low": [stride // 16 % 2**32 for stride in m.strides],
        "strides_high": [stride // 16 >> 32 for stride in m.strides],
        "dims": [dim - 1 for dim in m.dims],
        "element_strides": [step - 1 for step in m.element_strides],
        "box": [extent - 1 for extent in m.box],
    }


def _pack(fields: dict[str, list[int]]) -> int:
    """One number with every field at its place. ``fields`` holds stored values: name to a list of entries."""
    number = 0
    for name, values in fields.items():
        bit, width, entries, stored = LAYOUT[name]
        if len(values) > entries:
            raise ValueError(f"A tensor map has room for {entries} entries of {name}. Found: {len(values)}.")
        for i, value in enumerate(values):
            if not 0 <= value < 2**width:
                raise ValueError(f"{name}[{i}] is stored as {stored} in {width} bits. That would be {value}.")
            number |= value << (bit + i * width)
    return number
