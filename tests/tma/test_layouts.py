"""Swizzled tiles against what an H200 left in shared memory, banks by counting, flattened maps against the
emulator.
"""

import base64
import zlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.artifact import SWIZZLE_BYTES, TensorMap
from course_utils.run.emulator import emulate
from course_utils.tma.layouts import (
    LayoutError,
    bank,
    base_alignment,
    boxes,
    conflicts,
    expected_bytes,
    flattened,
    row_pitch,
    same_payload,
    store_tail,
    swizzled,
    tile_bytes,
)
from course_utils.tma.rules import violations
from tests.run.emulator.kernels import init, kernel, wait
from tests.run.emulator.test_tma import DUMP, MEASURED, PREFILL, dump

CODES = (0, 1, 2, 3)
WRONG_CODES = (-1, 4, 6)
UNWRITTEN = 0xEE


# Swizzled tiles


def measured_map(case):
    data_type, dims, strides, box, steps, interleave, swizzle = case["fields"]
    return TensorMap(data_type, tuple(dims), tuple(strides), tuple(box), tuple(steps), interleave, swizzle)


def predicted(case, place):
    """Shared memory after the load: ``place(offset in the tile, where the tile begins)`` says where each 16
    bytes go.
    """
    m = measured_map(case)
    tensor = (np.arange(np.prod(m.dims)) % 65521 + 1).astype(np.uint16).reshape(tuple(reversed(m.dims)))
    padded = np.pad(tensor, 32)  # zeros, what lies outside the tensor is filled with
    corner = [32 + at for at in reversed(case["coordinates"])]
    window = tuple(slice(at, at + extent) for at, extent in zip(corner, reversed(m.box), strict=True))
    rows = np.ascontiguousarray(padded[window]).reshape(-1, m.box[0]).view(np.uint8)
    pitch = row_pitch(rows.shape[1], m.swizzle)
    out = np.full(DUMP, UNWRITTEN, np.uint8)
    for r, row in enumerate(rows):
        for c in range(0, len(row), 16):
            at = place(r * pitch + c, case["offset"])
            out[at : at + 16] = row[c : c + 16]
    return out


@pytest.mark.parametrize(
    "case", MEASURED["cases"], ids=lambda c: "swizzle{6}-box{3}".format(*c["fields"]) + f"-at{c['offset']}"
)
def test_tiles_lie_as_on_an_h200(case):
    m, measured = measured_map(case), zlib.decompress(base64.b64decode(case["dump"]))
    of_address = predicted(case, lambda offset, start: swizzled(start + offset, m.swizzle))
    of_offset = predicted(case, lambda offset, start: start + swizzled(offset, m.swizzle))
    assert of_address.tobytes() == measured
    assert (of_offset.tobytes() == measured) == (case["offset"] % base_alignment(m.swizzle) == 0)
    rows, row_bytes = m.box_bytes // (2 * m.box[0]), 2 * m.box[0]
    written = np.flatnonzero(of_address != UNWRITTEN)
    assert case["offset"] <= written[0] and written[-1] < case["offset"] + tile_bytes(
        rows, row_bytes, m.swizzle
    )
    assert expected_bytes([m]) == rows * row_bytes


@pytest.mark.parametrize("swizzle", CODES)
def test_swizzled_permutes_every_repeat_of_the_pattern_and_every_row(swizzle):
    repeat = base_alignment(swizzle)
    for size in (repeat, row_pitch(SWIZZLE_BYTES[swizzle] or 128, swizzle)):
        for start in range(0, 4 * repeat, size):
            assert sorted(swizzled(start + i, swizzle) for i in range(size)) == list(
                range(start, start + size)
            )


@given(offset=st.integers(0, 2**20), swizzle=st.sampled_from(CODES), repeats=st.integers(0, 9))
def test_swizzled_is_its_own_inverse_keeps_units_together_and_repeats(offset, swizzle, repeats):
    there = swizzled(offset, swizzle)
    assert swizzled(there, swizzle) == offset
    assert there == swizzled(offset - offset % 16, swizzle) + offset % 16
    shift = repeats * base_alignment(swizzle)
    assert swizzled(offset + shift, swizzle) == there + shift


@given(
    offsets=st.lists(st.integers(0, 2**20), max_size=40),
    swizzle=st.sampled_from(CODES),
    base_offset=st.integers(0, 7),
)
def test_swizzled_takes_arrays_as_it_takes_numbers(offsets, swizzle, base_offset):
    array = np.array(offsets, np.int64)
    one_by_one = [swizzled(offset, swizzle, base_offset) for offset in offsets]
    assert swizzled(array, swizzle, base_offset).tolist() == one_by_one


def test_swizzled_refuses_an_array_with_a_negative_offset():
    with pytest.raises(ValueError, match="0 or more bytes, not -16"):
        swizzled(np.array([32, -16, 0]), 3)


@pytest.mark.parametrize("swizzle, alignment", [(0, 128), (1, 256), (2, 512), (3, 1024)])
def test_base_alignment_is_the_shortest_repeat(swizzle, alignment):
    assert base_alignment(swizzle) == alignment
    if swizzle:
        assert any(
            swizzled(i + alignment // 2, swizzle) != swizzled(i, swizzle) + alignment // 2
            for i in range(alignment)
        )


@pytest.mark.parametrize(
    "row_bytes, swizzle, pitch",
    [
        (48, 0, 48),
        (512, 0, 512),
        (16, 1, 32),
        (32, 1, 32),
        (48, 2, 64),
        (16, 3, 128),
        (96, 3, 128),
        (128, 3, 128),
    ],
)
def test_row_pitch(row_bytes, swizzle, pitch):
    assert row_pitch(row_bytes, swizzle) == pitch
    assert tile_bytes(5, row_bytes, swizzle) == 5 * pitch


@pytest.mark.parametrize(
    "function",
    [
        lambda code: swizzled(0, code),
        lambda code: row_pitch(16, code),
        base_alignment,
        lambda code: tile_bytes(1, 16, code),
    ],
)
@pytest.mark.parametrize("code", WRONG_CODES)
def test_a_swizzle_that_hopper_lacks_is_refused(function, code):
    with pytest.raises(ValueError, match=f"0 .none.*not {code}"):
        function(code)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: swizzled(-16, 3), "0 or more bytes, not -16"),
        (lambda: row_pitch(24, 0), "multiple of 16 bytes, not 24"),
        (lambda: row_pitch(0, 3), "multiple of 16 bytes, not 0"),
        (lambda: row_pitch(-16, 0), "multiple of 16 bytes, not -16"),
        (lambda: row_pitch(48, 1), "48 bytes does not fit in the 32 bytes of swizzle 32B"),
        (lambda: row_pitch(144, 3), "144 bytes does not fit in the 128 bytes of swizzle 128B"),
        (lambda: tile_bytes(0, 16, 0), "at least 1 row, not 0"),
        (lambda: tile_bytes(8, 144, 3), "does not fit"),
    ],
)
def test_tiles_that_cannot_be_are_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_narrow_tile_allocates_more_than_it_counts():
    narrow = TensorMap(6, (64, 64), (128,), (24, 8), (1, 1), swizzle=3)
    wide = replace(narrow, box=(64, 8))
    assert (expected_bytes([narrow]), tile_bytes(8, 48, 3)) == (384, 1024)
    assert (expected_bytes([wide]), tile_bytes(8, 128, 3)) == (1024, 1024)
    assert expected_bytes([narrow, wide]) == 384 + 1024 == narrow.box_bytes + wide.box_bytes
    assert expected_bytes([]) == 0


def test_element_strides_thin_out_the_box_but_for_its_rows():
    assert expected_bytes([TensorMap(6, (16, 9), (32,), (16, 5), (2, 2))]) == 16 * 3 * 2
    with pytest.raises(ValueError):
        expected_bytes([TensorMap(6, (16, 9), (32,), (16,), (1, 1))])


# Banks


def test_bank():
    assert [bank(offset) for offset in (0, 3, 4, 124, 127, 128, 1024 + 20)] == [0, 0, 1, 31, 31, 0, 5]
    with pytest.raises(ValueError, match="not -4"):
        bank(-4)


@pytest.mark.parametrize("swizzle, expected", [(0, 8), (1, 4), (2, 2), (3, 1)])
@pytest.mark.parametrize("column", range(8))
def test_a_column_of_pieces_over_eight_rows_of_128_bytes(swizzle, expected, column):
    """Eight turns without a swizzle, none lost with 128B. (The narrower modes are for narrower rows.)"""
    assert conflicts(swizzled(128 * row + 16 * column, swizzle) for row in range(8)) == expected


@pytest.mark.parametrize("swizzle", (1, 2, 3))
def test_a_column_of_pieces_is_free_of_conflicts_where_the_row_fills_its_span(swizzle):
    span = SWIZZLE_BYTES[swizzle]
    for column in range(0, span, 16):
        assert conflicts(swizzled(span * row + column, swizzle) for row in range(8)) == 1
    assert conflicts(span * row for row in range(8)) == span // 16  # without


def test_lanes_that_read_the_same_piece_share_it():
    assert conflicts([32] * 8) == 1
    assert conflicts([32] * 4 + [160] * 4) == 2


@pytest.mark.parametrize(
    "offsets, words",
    [
        ([], "not 0"),
        (range(0, 144, 16), "not 9"),
        ([8], "not at 8"),
        ([0, 20], "not at 20"),
        ([-16], "not -16"),
    ],
)
def test_reads_that_are_not_one_turn_are_refused(offsets, words):
    with pytest.raises(ValueError, match=words):
        conflicts(offsets)


# Three dimensions or two

NATURAL = TensorMap(6, (64, 16, 8), (128, 2048), (64, 16, 4), (1, 1, 1), swizzle=3)


def after_load(tensor, tensor_map, coordinates, rows):
    """Shared memory, prefilled, after one load, by the emulator; room for ``rows`` rows of the box."""
    size = tile_bytes(rows, tensor_map.box[0] * tensor.itemsize, tensor_map.swizzle)
    body = (
        init(1, first=32768)
        + PREFILL
        + f"""
add.s32 %r3, %r1, 32768;
setp.ne.s32 %p1, %r0, 0;
@%p1 bra LOADED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {expected_bytes([tensor_map])};
mov.b64 %rd50, k_param_0;
cp.async.bulk.tensor.{tensor_map.rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
 [%r1], [%rd50, {{{", ".join(map(str, coordinates))}}}], [%r3];
LOADED:
"""
        + wait("[%r3]", 0, "FULL")
        + "ld.param.u64 %rd61, [k_param_1];\n"
        + dump(size)
    )
    shape = tuple(reversed(tensor_map.dims))
    artifact = kernel(
        body,
        tensors=[("A", shape, str(tensor.dtype)), ("OUT", (size,), "uint8")],
        maps=[("A", tensor_map)],
        pointers=["OUT"],
        dynamic=32776,
    )
    out = np.full(size, 0x11, np.uint8)
    assert emulate(artifact, {"A": tensor.reshape(shape), "OUT": out}).finished
    return out


@pytest.mark.parametrize("width, swizzle", [(64, 0), (8, 1), (16, 1), (24, 2), (24, 3), (64, 3)])
@pytest.mark.parametrize(
    "box_middle, box_outer, place",
    [(16, 4, (0, 0, 2)), (16, 2, (8, 0, 7)), (4, 1, (0, 12, 5)), (16, 3, (0, 0, -1))],
)
def test_a_flattened_map_brings_the_same_bytes_to_the_same_places(
    width, swizzle, box_middle, box_outer, place
):
    natural = replace(NATURAL, box=(width, box_middle, box_outer), swizzle=swizzle)
    flat = flattened(natural)
    x, y, z = place
    tensor = np.arange(1, 64 * 16 * 8 + 1, dtype=np.uint16).view(np.float16)
    rows = box_middle * box_outer
    here = after_load(tensor, natural, place, rows)
    there = after_load(tensor, flat, (x, y + 16 * z), rows)
    np.testing.assert_array_equal(here, there)
    gaps = int((here.reshape(-1, 16) == UNWRITTEN).all(1).sum()) * 16
    assert gaps == len(here) - expected_bytes([flat]) == rows * (row_pitch(width * 2, swizzle) - width * 2)
    assert same_payload(natural, flat, place, (x, y + 16 * z))
    assert expected_bytes([natural]) == expected_bytes([flat])


def test_what_flattening_changes_and_what_it_keeps():
    assert flattened(replace(NATURAL, l2_promotion=2, oob_fill=1)) == TensorMap(
        6, (64, 128), (128,), (64, 64), (1, 1), swizzle=3, l2_promotion=2, oob_fill=1
    )
    padded_rows = replace(NATURAL, dims=(40, 16, 8))  # rows 128 bytes apart, of which 80 belong to the tensor
    assert flattened(padded_rows).dims == (40, 128)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_box_inside_has_the_payload_of_its_flattened_one(data):
    size, code = data.draw(st.sampled_from([(1, 0), (2, 6), (4, 7)]))
    middle, outer = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9))
    pitch = 16 * data.draw(st.integers(1, 6))
    columns = pitch // size - data.draw(st.integers(0, 3))
    whole = data.draw(st.booleans())
    box = (
        16 // size * data.draw(st.integers(1, 4)),
        middle if whole else data.draw(st.integers(1, middle)),
        data.draw(st.integers(1, outer)) if whole else 1,
    )
    natural = TensorMap(code, (columns, middle, outer), (pitch, pitch * middle), box, (1, 1, 1))
    x, z = data.draw(st.integers(-2, columns)), data.draw(st.integers(-1, outer))
    y = data.draw(st.integers(0, middle - box[1]))
    flat = flattened(natural)
    assert violations(flat) == [] and same_payload(natural, flat, (x, y, z), (x, y + middle * z))


@pytest.mark.parametrize(
    "changes, words",
    [
        (dict(strides=(128, 4096)), "outer stride is 4,096 bytes, and 16 rows of 128 bytes are 2,048"),
        (dict(strides=(1024, 128)), "outer stride is 128 bytes"),
        (dict(box=(64, 8, 4)), "takes 8 rows of 4 slabs, and a slab has 16"),
        (dict(box=(64, 20, 1)), "takes 20 rows of 1 slabs"),
        (dict(box=(64, 20, 2)), "takes 20 rows of 2 slabs"),
        (dict(box=(16, 16, 20)), r"16 x 20 = 320 rows, and a box has at most 256"),
        (dict(element_strides=(1, 2, 1)), "step over rows"),
        (dict(element_strides=(1, 1, 2)), "step over rows"),
        (dict(interleave=1, swizzle=0), "interleaved map needs a rank of 3"),
        (dict(dims=(64, 128), strides=(128,), box=(64, 64), element_strides=(1, 1)), "this one has rank 2"),
        (dict(box=(128, 16, 1)), "not legal as it is.*swizzle-span"),
        (dict(strides=(128,)), "not legal as it is.*array-length"),
        (
            dict(dims=(64, 2**20, 2**13), strides=(128, 2**27), box=(64, 8, 1)),
            "flattened map is not legal.*globalDim",
        ),
    ],
)
def test_maps_that_have_no_two_dimensional_form(changes, words):
    with pytest.raises(LayoutError, match=words):
        flattened(replace(NATURAL, **changes))
    assert issubclass(LayoutError, ValueError)


def test_the_edge_of_the_middle_dimension_is_where_the_two_part():
    one_slab = replace(NATURAL, box=(64, 8, 1))
    flat = flattened(one_slab)
    assert same_payload(one_slab, flat, (0, 8, 2), (0, 40))
    # three dimensions: four rows of fill; two: of the next slab
    assert not same_payload(one_slab, flat, (0, 12, 2), (0, 44))
    assert same_payload(one_slab, flat, (0, 12, 7), (0, 124))  # past the last slab both fill


@pytest.mark.parametrize(
    "two_d, place",
    [
        (dict(), (0, 33)),
        (dict(box=(64, 32)), (0, 32)),
        (dict(box=(32, 128)), (0, 32)),
        (dict(dims=(64, 64), strides=(256,)), (0, 32)),
        (dict(data_type=0), (0, 32)),
        (dict(element_strides=(1, 2)), (0, 32)),
    ],
)
def test_other_payloads(two_d, place):
    flat = flattened(NATURAL)
    assert same_payload(NATURAL, flat, (0, 0, 2), (0, 32))
    assert not same_payload(NATURAL, replace(flat, **two_d), (0, 0, 2), place)


def test_the_fill_is_part_of_the_payload_where_there_is_any():
    flat = replace(flattened(NATURAL), oob_fill=1)
    assert same_payload(NATURAL, flat, (0, 0, 2), (0, 32))
    assert not same_payload(NATURAL, flat, (0, 0, 6), (0, 96))


def test_same_payload_refuses_what_it_cannot_count():
    flat = flattened(NATURAL)
    with pytest.raises(ValueError, match="rank 3 needs as many coordinates, not 2"):
        same_payload(NATURAL, flat, (0, 0), (0, 0))
    with pytest.raises(LayoutError, match="interleaved"):
        same_payload(replace(NATURAL, interleave=1), flat, (0, 0, 0), (0, 0))


# The box, the tile, the kernel


def test_boxes():
    assert boxes((64, 128), (64, 128)) == 1
    assert boxes((64, 128), (256, 128)) == 4
    assert boxes([8, 16, 2], (64, 32, 4)) == 32


@pytest.mark.parametrize(
    "box, tile",
    [
        ((64, 128), (96, 128)),
        ((64, 128), (64, 64)),
        ((64,), (64, 128)),
        ((64, 0), (64, 128)),
        ((64, 8), (0, 8)),
    ],
)
def test_box_against_tile(box, tile):
    with pytest.raises(ValueError, match="box against tile"):
        boxes(box, tile)


@pytest.mark.parametrize(
    "elements, element_bytes, tail", [(0, 2, 0), (64, 2, 0), (100, 2, 8), (7, 1, 7), (5, 4, 4), (2, 8, 0)]
)
def test_store_tail(elements, element_bytes, tail):
    assert store_tail(elements, element_bytes) == tail


@pytest.mark.parametrize("elements, element_bytes", [(-1, 2), (4, 0)])
def test_store_tail_of_no_run(elements, element_bytes):
    with pytest.raises(ValueError, match=f"{elements} elements of {element_bytes} bytes"):
        store_tail(elements, element_bytes)
