"""The TMA contract against the driver's own verdicts.

``data/driver_verdicts.jsonl.gz`` holds 10,000 calls of ``cuTensorMapEncodeTiled`` on an H200 (driver 580,
CUDA 13.0): legal maps with none, one or two fields changed at random, and the driver's answer ``rc`` (0
accepted, 1 refused).
"""

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from course_utils.artifact import ELEMENT_BYTES, TensorMap
from course_utils.chips import CHIPS, HOME
from course_utils.tma.rules import RULES, edited, mended, row_to_tensor_map, violations

ROWS = Path(__file__).parents[1] / "data" / "driver_verdicts.jsonl.gz"

# A 128 x 64 tile of a 4096 x 1024 fp16 matrix.
TILE = TensorMap(
    data_type=6, dims=(1024, 4096), strides=(2048,), box=(64, 128), element_strides=(1, 1), swizzle=3
)
# 16-byte groups of 8 channels, as in NC/8HWC8.
INTERLEAVED = TensorMap(
    data_type=6,
    dims=(8, 56, 56),
    strides=(1024, 65536),
    box=(8, 8, 8),
    element_strides=(1, 1, 1),
    interleave=1,
)


def change(base, **fields):
    return replace(base, **fields)


def of_rank(rank):
    # Element strides of 8 keep the box of rank 6 small enough for shared memory.
    return TensorMap(
        data_type=0,
        dims=(16,) * rank,
        strides=(16,) * max(rank - 1, 0),
        box=(16,) * rank,
        element_strides=(8,) * rank,
    )


# Rule: (legal map, its address), (neighbour that breaks this rule alone, its address).
NEIGHBOURS = {
    "data-type": ((change(TILE, data_type=9), 0), (change(TILE, data_type=16), 0)),
    "data-type-packed": ((change(TILE, data_type=9), 0), (change(TILE, data_type=13), 0)),
    "rank": ((of_rank(5), 0), (of_rank(6), 0)),
    "interleave-needs-rank-3": ((TILE, 0), (change(TILE, interleave=1), 0)),
    "array-length": ((TILE, 0), (change(TILE, strides=(2048, 2048)), 0)),
    "address-multiple-of-16": ((TILE, 16), (TILE, 8)),
    "address-multiple-of-32": (
        (change(INTERLEAVED, interleave=2), 32),
        (change(INTERLEAVED, interleave=2), 16),
    ),
    "address-range": ((TILE, 2**57 - 16), (TILE, 2**57)),
    "dim-range": ((change(TILE, dims=(1024, 2**32)), 0), (change(TILE, dims=(1024, 2**32 + 1)), 0)),
    "stride-multiple-of-16": ((change(TILE, strides=(2064,)), 0), (change(TILE, strides=(2056,)), 0)),
    "stride-multiple-of-32": (
        (change(INTERLEAVED, interleave=2, strides=(1056, 65536)), 0),
        (change(INTERLEAVED, interleave=2, strides=(1040, 65536)), 0),
    ),
    "stride-range": ((change(TILE, strides=(2**40 - 16,)), 0), (change(TILE, strides=(2**40,)), 0)),
    "box-range": ((change(TILE, box=(64, 256)), 0), (change(TILE, box=(64, 257)), 0)),
    "box-inner-multiple-of-16": ((change(TILE, box=(56, 128)), 0), (change(TILE, box=(60, 128)), 0)),
    "box-inner-multiple-of-16-interleaved": ((INTERLEAVED, 0), (change(INTERLEAVED, box=(4, 8, 8)), 0)),
    # 64 x 8 x 228 x 2 bytes are 228 KB to the byte.
    "box-fits-shared-memory": (
        (change(INTERLEAVED, box=(64, 8, 228)), 0),
        (change(INTERLEAVED, box=(64, 8, 229)), 0),
    ),
    "element-stride-range": (
        (change(TILE, element_strides=(8, 8)), 0),
        (change(TILE, element_strides=(9, 1)), 0),
    ),
    "interleave": ((INTERLEAVED, 0), (change(INTERLEAVED, interleave=3), 0)),
    "swizzle": ((TILE, 0), (change(TILE, swizzle=7), 0)),
    "swizzle-on-hopper": ((TILE, 0), (change(TILE, swizzle=4), 0)),
    "swizzle-span": (
        (change(TILE, swizzle=2, box=(32, 128)), 0),
        (change(TILE, swizzle=2, box=(40, 128)), 0),
    ),
    "l2-promotion": ((change(TILE, l2_promotion=3), 0), (change(TILE, l2_promotion=4), 0)),
    "oob-fill": ((change(TILE, oob_fill=1), 0), (change(TILE, oob_fill=2), 0)),
    "nan-fill-needs-float": ((change(TILE, oob_fill=1), 0), (change(TILE, data_type=1, oob_fill=1), 0)),
}


def names(tensor_map, address=0, chip=HOME):
    return [violation.rule for violation in violations(tensor_map, address, chip)]


def test_agrees_with_the_driver_on_every_row():
    with gzip.open(ROWS, "rt") as lines:
        rows = [json.loads(line) for line in lines]
    assert len(rows) == 10_000
    assert {row["rc"] for row in rows} == {0, 1}
    wrong = []
    for row in rows:
        tensor_map, address = row_to_tensor_map(row)
        broken = names(tensor_map, address)
        if (broken == []) != (row["rc"] == 0):
            wrong.append((broken, row))
    assert wrong == []


# Calls that break one rule alone, each after the legal call that it was made of; calls beside a limit
RULE_ROWS = json.loads(gzip.decompress((ROWS.parent / "tma_rules.json.gz").read_bytes()))["rows"]
DIED = -1  # the driver's process ended in a segmentation fault


def test_agrees_with_the_driver_on_calls_that_break_one_rule_and_on_their_neighbours():
    assert len(RULE_ROWS) == 1945
    for row in RULE_ROWS:
        broken = names(*row_to_tensor_map(row))
        assert broken == ([row["alone"]] if "alone" in row else broken)
        assert (broken == []) == (row["rc"] == 0)
    alone = [row["alone"] for row in RULE_ROWS if "alone" in row]
    assert {rule: alone.count(rule) for rule in RULES} == {r: 40 * (r != "array-length") for r in RULES}


def test_the_driver_does_not_survive_a_rank_that_is_no_small_number():
    assert {row["rank"] for row in RULE_ROWS if row["rc"] == DIED} == {2**31, 2**32 - 1}
    assert {row["rank"] for row in RULE_ROWS if row["rc"] == 1 and row.get("alone") == "rank"} == {
        0,
        6,
        7,
        8,
        32,
    }


def test_the_rows_behind_each_rule_are_counted():
    with gzip.open(ROWS, "rt") as lines:
        rows = [*map(json.loads, lines), *RULE_ROWS]
    alone = [names(*row_to_tensor_map(row)) for row in rows if row["rc"] == 1]
    counts = Counter(broken[0] for broken in alone if len(broken) == 1)
    assert {rule: told.rows for rule, told in RULES.items()} == {rule: counts[rule] for rule in RULES}
    assert min(told.rows for rule, told in RULES.items() if rule != "array-length") >= 40


def test_the_driver_reads_as_many_entries_as_the_rank_and_refuses_none():
    """What ``array-length`` stands for: entries behind the rank are not looked at, and no array may lack."""
    longer = [row for row in RULE_ROWS if len(row["box"]) > row["rank"] > 0]
    assert len([row for row in longer if row["rc"] == 0]) == 5
    cases = json.loads(gzip.decompress((ROWS.parent / "tma_hardware.json.gz").read_bytes()))["cases"]
    assert [case["rc"] for case in cases if case["group"] == "null"] == [1] * 20


def test_agreed_with_the_driver_on_maps_never_seen_and_on_their_bytes():
    """What benchmarks/tma_hardware.py found for the seed of its last recording."""
    found = json.loads((ROWS.parent / "tma_fresh.json").read_text())
    assert found["agree"] == found["maps"] == 20_000 and found["bytes_agree"] == found["bytes"] == 2_000
    assert 5_000 < found["accepted"] < 15_000
    assert {rule for rule, rows in found["alone"].items() if not rows} <= {"array-length", "rank"}


def test_every_rule_has_neighbours():
    assert list(NEIGHBOURS) == list(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule):
    legal, broken = NEIGHBOURS[rule]
    assert names(*legal) == []
    (violation,) = violations(*broken)
    assert violation.rule == rule
    assert violation.sentence == RULES[rule][0]
    assert violation.found and violation.source == RULES[rule].source
    assert rule in str(violation)


WITHOUT_ADVICE = {"address-range"}  # no other address is near; a tensor of rank 0 has no dimension to keep


@pytest.mark.parametrize("rule", RULES)
def test_every_advice_is_an_edit_that_mends_its_rule(rule):
    tensor_map, address = NEIGHBOURS[rule][1]
    (violation,) = violations(tensor_map, address)
    assert bool(violation.edits) == bool(violation.nearest) == (rule not in WITHOUT_ADVICE)
    for edit in violation.edits:
        assert names(*edited(tensor_map, address, edit)) == []
    if violation.edits:
        assert violations(*mended(tensor_map, address)) == []


def test_each_advice_for_every_refused_map_mends_its_rule_and_breaks_no_other():
    """Of a map that breaks one rule it makes a legal one."""
    with gzip.open(ROWS, "rt") as lines:
        rows = [*map(json.loads, lines), *RULE_ROWS]
    for tensor_map, address in [row_to_tensor_map(row) for row in rows if row["rc"]]:
        broken = violations(tensor_map, address)
        for violation in broken:
            left = {other.rule for other in broken} - {violation.rule}
            for edit in violation.edits:
                assert set(names(*edited(tensor_map, address, edit))) <= left
            assert all(violation.nearest.split(", ")) or not violation.edits
        if legal := mended(tensor_map, address):
            assert violations(*legal) == []
        else:
            assert tensor_map.rank == 0 or "address-range" in {violation.rule for violation in broken}


@pytest.mark.parametrize(
    "fields, address, nearest",
    [
        # the nearest code would break another rule
        ({"data_type": 1, "oob_fill": 9}, 0, "oobFill = 0 (zero)"),
        ({"interleave": 7}, 0, "interleave = 0 (none)"),
        # nothing above it is legal
        ({}, 2**57 - 8, f"globalAddress = {2**57 - 16}"),
        ({"strides": (2**40 - 8,)}, 0, f"globalStrides[0] = {2**40 - 16}"),
        ({"box": (0, 128)}, 0, "boxDim[0] = 8 (16 bytes)"),
    ],
)
def test_the_advice_at_a_limit_is_legal(fields, address, nearest):
    broken = violations(change(TILE, **fields), address)
    assert [violation.nearest for violation in broken] == [nearest]


def test_every_broken_rule_is_named_in_order():
    broken = change(TILE, strides=(2056,), box=(60, 0), element_strides=(0, 1), l2_promotion=9)
    assert names(broken, address=2) == [
        "address-multiple-of-16",
        "stride-multiple-of-16",
        "box-range",
        "box-inner-multiple-of-16",
        "element-stride-range",
        "l2-promotion",
    ]


def test_words():
    (stride,) = violations(change(INTERLEAVED, strides=(1000, 65540)))
    assert stride.found == "globalStrides[0] = 1000, globalStrides[1] = 65540"
    assert stride.nearest == "globalStrides[0] = 1008, globalStrides[1] = 65552"
    (span,) = violations(change(TILE, swizzle=1))
    assert span.found == "boxDim[0] = 64 (128 bytes), swizzle 32B"
    assert span.nearest == "boxDim[0] = 16 (32 bytes), or swizzle = 3 (128B)"
    assert str(TILE) == "float16 4096 x 1024, box 128 x 64, swizzle 128B"


def test_box_bytes_count_whole_element_strides_only():
    # 114 // 2 = 57 and 115 // 2 = 57, so both boxes count 64 x 16 x 2 x 57 x 2 bytes = 228 KB; 116 // 2 = 58
    # is too many.
    box = TensorMap(
        data_type=6,
        dims=(64, 64, 64, 512),
        strides=(128, 8192, 524288),
        box=(64, 16, 2, 114),
        element_strides=(1, 1, 1, 2),
    )
    assert names(box) == []
    assert names(change(box, box=(64, 16, 2, 115))) == []
    assert names(change(box, box=(64, 16, 2, 116))) == ["box-fits-shared-memory"]
    # A box narrower than its element stride counts as nothing, so the driver lets any size pass.
    assert names(change(box, box=(64, 256, 256, 1))) == []


def test_what_the_driver_lets_pass():
    assert names(change(TILE, strides=(0,))) == []
    assert names(change(INTERLEAVED, strides=(65536, 1024))) == []
    assert names(change(INTERLEAVED, interleave=2, swizzle=3)) == []
    assert names(change(INTERLEAVED, swizzle=1, box=(64, 8, 8))) == []


def test_later_chips_have_more_swizzles():
    later = change(TILE, swizzle=6)
    assert names(later, chip=HOME) == ["swizzle-on-hopper"]
    assert names(later, chip=CHIPS["sm_100a"]) == []
    assert names(change(later, box=(128, 128)), chip=CHIPS["sm_100a"]) == ["swizzle-span"]


@pytest.mark.parametrize("field", ["data_type", "interleave", "swizzle", "l2_promotion", "oob_fill"])
@pytest.mark.parametrize("code", [-(2**70), -1, 17, 2**32, 2**200])
def test_codes_out_of_range(field, code):
    broken = change(TILE, **{field: code})
    assert names(broken) == [field.replace("_", "-")]
    assert str(broken)


@pytest.mark.parametrize("field", ["dims", "strides", "box", "element_strides"])
@pytest.mark.parametrize("values", [(), (-1,), (0, 0, 0), (-1, -1), (2**64, 2**200), (16,) * 7])
def test_arrays_out_of_range(field, values):
    broken = change(TILE, **{field: values})
    assert names(broken) != []
    assert all(str(violation) for violation in violations(broken))
    assert str(broken)


@pytest.mark.parametrize("rank", [0, 6])
def test_ranks_out_of_range(rank):
    assert names(of_rank(rank)) == ["rank"]
    assert str(of_rank(rank))


@pytest.mark.parametrize("address", [-16, 2**64, 2**200])
def test_addresses_out_of_range(address):
    assert names(TILE, address) == ["address-range"]


def test_values_too_long_to_print():
    huge = 10**5000  # Python refuses to turn this into a string
    broken = TensorMap(huge, (huge, -huge), (huge,), (huge, huge), (huge, huge), huge, huge, huge, huge)
    assert str(broken)
    assert all(str(violation) for violation in violations(broken, address=huge))
    assert all(
        str(violation) for violation in violations(change(broken, data_type=0, interleave=0, swizzle=1))
    )


def test_row_arrays_longer_and_shorter_than_the_rank():
    row = dict(
        dtype=6,
        rank=2,
        addr_off=48,
        dims=[64, 8, 8],
        strides=[128, 1024],
        box=[64, 8, 8],
        estr=[1, 1, 1],
        interleave=0,
        swizzle=3,
        l2=2,
        oob=1,
    )
    expected = TensorMap(6, (64, 8), (128,), (64, 8), (1, 1), swizzle=3, l2_promotion=2, oob_fill=1)
    assert row_to_tensor_map(row) == (expected, 48)
    assert row_to_tensor_map(row | {"rank": 0})[0].rank == 0
    assert "rank" in names(*row_to_tensor_map(row | {"rank": 2**32 - 1}))


def drawn(random):
    """A legal map of any rank and type with none, one or two fields changed, and its address."""
    rank, data_type = random.randint(1, 5), random.randrange(13)
    size = ELEMENT_BYTES[data_type]
    swizzle, interleave = random.randrange(4), random.choice((0, 0, 0, 1, 2)) if rank > 2 else 0
    span = (256, 32, 64, 128)[swizzle]
    inner = random.choice([n for n in range(16, span + 1, 16) if n // size <= 256]) // size
    box = (max(inner, 1), *(random.choice((1, 2, 3, 8, 16)) for _ in range(rank - 1)))
    strides, step = [], 0
    for _ in range(rank - 1):
        step = max(step * random.choice((1, 2, 16)), 32 * random.randint(1, 64))
        strides.append(step)
    fields = {
        "data_type": data_type,
        "dims": tuple(random.choice((1, 7, 64, 4096)) for _ in range(rank)),
        "strides": tuple(strides),
        "box": box,
        "interleave": interleave,
        "element_strides": tuple(random.choice((1, 1, 1, 2)) for _ in range(rank)),
        "swizzle": swizzle,
        "l2_promotion": random.randrange(4),
        "oob_fill": int(data_type >= 6 and random.random() < 0.2),
    }
    address = 32 * random.randrange(64)
    for _ in range(random.choice((0, 1, 1, 2))):
        name = random.choice((*fields, "address"))
        if name == "address":
            address += random.choice((1, 8, 16, 32))
        elif name in ("dims", "box", "element_strides", "strides") and fields[name]:
            values = list(fields[name])
            odd = {
                "dims": (0, 1, 2**32, 2**32 + 1),
                "box": (0, 1, 255, 256, 257, 512),
                "element_strides": (0, 1, 8, 9),
                "strides": (0, 8, 16, 24, 2**40 - 16, 2**40),
            }[name]
            values[random.randrange(len(values))] = random.choice(odd)
            fields[name] = tuple(values)
        elif name == "data_type":
            fields[name] = random.randrange(13)
        elif name in ("swizzle", "interleave", "l2_promotion", "oob_fill"):
            fields[name] = random.randrange(
                {"swizzle": 7, "interleave": 3, "l2_promotion": 4, "oob_fill": 2}[name]
            )
    return TensorMap(**fields), address


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_this_machines_driver_on_maps_never_seen(seed):
    import torch

    from course_utils.run.gpu.launch import DriverError, encode

    torch.zeros(1, device="cuda")  # the driver answers in a context only
    random, wrong, refused = Random(seed), [], 0
    for _ in range(5_000):
        tensor_map, address = drawn(random)
        try:
            encode(tensor_map, 2**46 + address)
            accepted = True
        except DriverError:
            accepted, refused = False, refused + 1
        if accepted != (names(tensor_map, 2**46 + address) == []):
            wrong.append((accepted, names(tensor_map, address), tensor_map, address))
    assert wrong == [] and 500 < refused < 4_500
