"""The bytes of a tensor map against the bytes that the driver wrote.

``data/tensormap_bytes.jsonl.gz`` holds 3,000 maps that ``cuTensorMapEncodeTiled`` accepted on an H200 (driver
580, CUDA 13.0), each with the 128 bytes it wrote.
"""

import gzip
import json
import struct
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from course_utils.artifact import ELEMENT_BYTES, FIRST_FLOAT_TYPE, SWIZZLE_BYTES, TensorMap
from course_utils.tma.encoding import LAYOUT, decode, encode
from course_utils.tma.layouts import expected_bytes
from course_utils.tma.rules import row_to_tensor_map, violations

ROWS = Path(__file__).parents[1] / "data" / "tensormap_bytes.jsonl.gz"

# A 128 x 64 tile of a 4096 x 1024 fp16 matrix.
TILE = TensorMap(
    data_type=6, dims=(1024, 4096), strides=(2048,), box=(64, 128), element_strides=(1, 1), swizzle=3
)
ADDRESS = 0x7F01_738F_7D80


@cache
def rows():
    """(map, address, the driver's bytes) of each row."""
    with gzip.open(ROWS, "rt") as lines:
        read = [json.loads(line) for line in lines]
    return [
        (row_to_tensor_map({**row, "addr_off": 0})[0], row["addr"], bytes.fromhex(row["bytes"]))
        for row in read
    ]


def with_bit(data, bit, value=1):
    number = int.from_bytes(data, "little") & ~(1 << bit) | value << bit
    return number.to_bytes(128, "little")


def test_encode_writes_the_drivers_bytes():
    assert len(rows()) == 3_000
    assert [(m, address) for m, address, data in rows() if encode(m, address) != data] == []


def test_decode_finds_every_field_of_the_drivers_maps():
    assert [(m, address) for m, address, data in rows() if decode(data) != (m, address)] == []


def test_box_bytes_are_the_drivers_where_its_division_leaves_no_rest():
    """The driver stores a number that it rounds down; where every element stride divides the box, and the
    first is 1, it must be what a load brings.
    """
    bit, width, _, _ = LAYOUT["driver_box_bytes"]
    plain = [
        (m, int.from_bytes(data, "little") >> bit & 2**width - 1)
        for m, _, data in rows()
        if not m.interleave
        and m.element_strides[0] == 1
        and not any(extent % step for extent, step in zip(m.box, m.element_strides, strict=True))
    ]
    strided = [m for m, _ in plain if max(m.element_strides) > 1]
    assert (len(plain), len(strided)) == (1163, 310)
    assert [m for m, stored in plain if not m.box_bytes == expected_bytes([m]) == stored] == []


def test_fields_do_not_overlap():
    bits = [bit + i for bit, width, entries, _ in LAYOUT.values() for i in range(width * entries)]
    assert len(set(bits)) == len(bits)
    assert max(bits) < 8 * 128


@st.composite
def legal_maps(draw):
    data_type = draw(st.integers(0, len(ELEMENT_BYTES) - 1))
    rank = draw(st.integers(1, 5))
    interleave = draw(st.integers(0, 2)) if rank >= 3 else 0
    swizzle = draw(st.integers(0, 3))
    unit = 16 // ELEMENT_BYTES[data_type]
    widest = (
        256 if swizzle == 0 or interleave else min(256, SWIZZLE_BYTES[swizzle] // ELEMENT_BYTES[data_type])
    )
    row = unit * draw(st.integers(1, widest // unit))
    # Few wide extents, so that the box mostly fits in shared memory.
    extent = st.one_of(st.integers(1, 6), st.integers(1, 256))
    step = 32 if interleave == 2 else 16
    tensor_map = TensorMap(
        data_type=data_type,
        dims=tuple(draw(st.lists(st.integers(1, 2**32), min_size=rank, max_size=rank))),
        strides=tuple(
            step * n
            for n in draw(st.lists(st.integers(0, 2**40 // step - 1), min_size=rank - 1, max_size=rank - 1))
        ),
        box=(row, *draw(st.lists(extent, min_size=rank - 1, max_size=rank - 1))),
        element_strides=tuple(draw(st.lists(st.integers(1, 8), min_size=rank, max_size=rank))),
        interleave=interleave,
        swizzle=swizzle,
        l2_promotion=draw(st.integers(0, 3)),
        oob_fill=draw(st.integers(0, 1)) if data_type >= FIRST_FLOAT_TYPE else 0,
    )
    address = step * draw(st.integers(0, 2**57 // step - 1))
    assume(not violations(tensor_map, address))
    return tensor_map, address


@given(legal_maps())
def test_every_legal_map_survives_the_bytes(drawn):
    tensor_map, address = drawn
    data = encode(tensor_map, address)
    assert len(data) == 128
    assert decode(data) == (tensor_map, address)


def test_largest_values_survive_the_bytes():
    largest = TensorMap(
        data_type=12,
        dims=(2**32,) * 5,
        strides=(2**40 - 16,) * 4,
        box=(256,) * 5,
        element_strides=(8,) * 5,
        swizzle=3,
        l2_promotion=3,
        oob_fill=1,
    )
    assert decode(encode(largest, 2**57 - 16)) == (largest, 2**57 - 16)


# Words 1 to 7 as CuTe DSL 4.8.1 stores them for a row-major tensor. Word 0 is the address, words 8 to 15 are
# never written.
CUTE_MAPS = [
    # fp16 256 x 512: 128 KB or more, so bit 85 is set.
    (
        (0x4000246312, 0, 0, 0xFF000001FF, 0, 0x3F00000000000000, 0x7F),
        TensorMap(6, (512, 256), (1024,), (64, 128), (1, 1), swizzle=3, l2_promotion=2),
    ),
    # fp16 127 x 512: less.
    (
        (0x4000046312, 0, 0, 0x7E000001FF, 0, 0x3F00000000000000, 0x3F),
        TensorMap(6, (512, 127), (1024,), (64, 64), (1, 1), swizzle=3, l2_promotion=2),
    ),
    # tf32 2 x 64 x 64.
    (
        (0x10000503A2, 0x400, 0, 0x3F0000003F, 0x1, 0x1F00000000000000, 0x3F),
        TensorMap(11, (64, 64, 2), (256, 16384), (32, 64, 1), (1, 1, 1), l2_promotion=2),
    ),
]


@pytest.mark.parametrize(("words", "tensor_map"), CUTE_MAPS)
@pytest.mark.parametrize("garbage", [0, 2**64 - 1])
def test_decode_reads_maps_of_cute_dsl_whatever_their_second_half(words, tensor_map, garbage):
    data = struct.pack("<16Q", ADDRESS, *words, *[garbage] * 8)
    assert decode(data) == (tensor_map, ADDRESS)


def test_decode_leaves_legality_to_violations():
    broken = replace(TILE, box=(60, 128), interleave=3)
    assert decode(encode(broken, ADDRESS)) == (broken, ADDRESS)


@pytest.mark.parametrize("data", [b"", bytes(64), bytes(127), bytes(129)])
def test_decode_refuses_another_length(data):
    with pytest.raises(ValueError, match=f"128 bytes. Found: {len(data)}"):
        decode(data)


def test_decode_refuses_an_unknown_data_type():
    with pytest.raises(ValueError, match="data type code 14 with the tf32 bit 0"):
        decode(with_bit(encode(TILE, ADDRESS), LAYOUT["data_type"][0] + 3))
    with pytest.raises(ValueError, match="data type code 6 with the tf32 bit 1"):
        decode(with_bit(encode(TILE, ADDRESS), LAYOUT["tf32"][0]))


def test_decode_refuses_a_rank_of_6():
    with pytest.raises(ValueError, match="rank of 1 to 5. Found: 6"):
        decode(with_bit(encode(TILE, ADDRESS), LAYOUT["rank"][0] + 2))


def test_decode_refuses_the_large_bit_without_cute_dsl():
    with pytest.raises(ValueError, match="bit 85 set where bit 65 is clear"):
        decode(with_bit(encode(TILE, ADDRESS), 85))


def test_decode_refuses_every_bit_that_no_known_map_of_its_rank_sets():
    data = encode(TILE, ADDRESS)
    used = {
        bit + i
        for name, (bit, width, entries, _) in LAYOUT.items()
        for i in range(width * min(entries, 1 if name.startswith("strides") else 2))
    }
    unknown = sorted(set(range(8 * 64)) - used)
    assert {0, 57, 64, 66, 83, 86, 228, 320, 422, 438, 456, 511} <= set(unknown)
    for bit in unknown:
        with pytest.raises(ValueError, match=f"rank 2 has a zero in bit {bit} "):
            decode(with_bit(data, bit))


@pytest.mark.parametrize(
    ("fields", "address", "words"),
    [
        ({}, 8, "globalAddress must be a multiple of 16 bytes. Found: 8"),
        ({}, 2**57, "address.0. is stored as globalAddress / 16 in 53 bits"),
        ({}, -16, "address"),
        ({"data_type": -1}, 0, "tensorDataType must be 0 to 12. Found: -1"),
        ({"data_type": 13}, 0, "tensorDataType must be 0 to 12. Found: 13"),
        ({"dims": (0, 64)}, 0, "dims.0. is stored as .* That would be -1"),
        ({"dims": (64, 2**32 + 1)}, 0, "dims.1."),
        ({"strides": (2056,)}, 0, "globalStrides.0. must be a multiple of 16 bytes. Found: 2056"),
        ({"strides": (2**40,)}, 0, "strides_high"),
        ({"strides": (-16,)}, 0, "strides_high"),
        ({"strides": ()}, 0, "globalStrides one fewer"),
        ({"box": (64, 257)}, 0, "box.1."),
        ({"element_strides": (1, 0)}, 0, "element_strides.1."),
        ({"element_strides": (1, 9)}, 0, "element_strides.1."),
        ({"interleave": 4}, 0, "interleave"),
        ({"swizzle": 4}, 0, "swizzle"),
        ({"l2_promotion": 4}, 0, "l2_promotion"),
        ({"oob_fill": 2}, 0, "oob_fill"),
    ],
)
def test_encode_refuses_what_does_not_fit_its_bits(fields, address, words):
    with pytest.raises(ValueError, match=words):
        encode(replace(TILE, **fields), address)


@pytest.mark.parametrize("rank", [0, 6])
def test_encode_refuses_a_rank_without_room(rank):
    with pytest.raises(ValueError):
        encode(TensorMap(0, (16,) * rank, (16,) * (rank - 1), (16,) * rank, (1,) * rank), 0)
