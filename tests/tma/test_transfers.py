"""The contract past the tensor map: each rule with a transfer that breaks it alone and one beside that keeps
it. tests/run/emulator/test_tma.py holds the same rules against launches on an H200.
"""

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from course_utils.artifact import DATA_TYPES, PixelMap, TensorMap
from course_utils.tma.rules import pixel_limits
from course_utils.tma.transfers import REDUCTIONS, RULES, Transfer, broken, reader_alignment, reductions_of

TILE = TensorMap(6, (1024, 4096), (2048,), (64, 128), (1, 1), swizzle=3)
LOAD = Transfer("load", (64, 128), at=1024)
DATA = Path(__file__).parents[1] / "data" / "tma_hardware.json.gz"

# rule: (a transfer that keeps it, one that breaks it alone)
NEIGHBOURS = {
    "tile-alignment": (replace(LOAD, at=128), replace(LOAD, at=64)),
    "coordinate-count": (LOAD, replace(LOAD, coordinates=(64,))),
    "coordinate-range": (replace(LOAD, coordinates=(0, -(2**31))), replace(LOAD, coordinates=(0, 2**31))),
    "inner-coordinate": (replace(LOAD, coordinates=(-8, -5)), replace(LOAD, coordinates=(4, 0))),
    "store-coordinate": (Transfer("store", (0, 5000)), Transfer("store", (0, -1))),
    "reduction": (Transfer("reduce", (0, 0), operation="add"), Transfer("reduce", (0, 0), operation="and")),
    "multicast": (replace(LOAD, mask=2, cluster=2), replace(LOAD, mask=4, cluster=2)),
}


def test_every_rule_has_neighbours():
    assert list(NEIGHBOURS) == list(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule):
    right, wrong = NEIGHBOURS[rule]
    assert broken(TILE, right) == [] and broken(TILE, wrong) == [rule]
    assert RULES[rule].sentence.endswith(".") and RULES[rule].source and RULES[rule].ends


@pytest.mark.parametrize("mask", [0, -1, 4, 2**16])
def test_a_multicast_mask_names_ctas_of_the_cluster(mask):
    assert broken(TILE, replace(LOAD, mask=mask, cluster=2)) == ["multicast"]


def test_only_a_load_is_multicast():
    assert broken(TILE, Transfer("store", (0, 0), mask=1)) == ["multicast"]


def test_no_coordinates_and_huge_ones():
    assert broken(TILE, replace(LOAD, coordinates=())) == ["coordinate-count"]
    assert broken(TILE, replace(LOAD, coordinates=(2**200, -(2**200)))) == ["coordinate-range"]


def test_a_prefetch_has_no_tile():
    assert broken(TILE, Transfer("prefetch", (0, 0), at=7)) == []


def test_an_interleaved_map_may_begin_at_any_channel():
    interleaved = TensorMap(6, (8, 56, 56), (1024, 65536), (8, 8, 8), (1, 1, 1), interleave=1)
    assert broken(interleaved, Transfer("load", (3, 0, 0))) == []


def test_an_unknown_operation_is_none_of_tmas():
    assert broken(TILE, Transfer("reduce", (0, 0), operation="mul")) == ["reduction"]


def test_readers_that_count_from_the_tiles_start_want_more_than_tma():
    assert [reader_alignment(replace(TILE, swizzle=code)) for code in range(4)] == [128, 256, 512, 1024]


def test_the_reductions_are_those_that_an_h200_took():
    cases = json.loads(gzip.decompress(DATA.read_bytes()))["cases"]
    launched = [case for case in cases if case["group"] == "reduction" and case["coordinates"] == [0, 1]]
    assert len(launched) == 8 * 13
    for case in launched:
        operation = case["kernel"].removeprefix("reduce_")
        assert (operation in reductions_of(case["fields"][0])) == ("error" not in case)
    assert {name for types in REDUCTIONS.values() for name in types} <= set(DATA_TYPES)


def test_a_tensor_may_begin_at_any_16_bytes_with_every_swizzle():
    """Older advice asks for 128 (a base that is 128-byte aligned); 13 places for each swizzle say 16."""
    cases = json.loads(gzip.decompress(DATA.read_bytes()))["cases"]
    by_swizzle = {}
    for case in cases:
        if case["group"] == "global alignment":
            words = [
                (at + i, int.from_bytes(bytes.fromhex(text)[i : i + 2], "little") - case["base"] // 2)
                for at, text in case["left"]
                for i in range(0, len(text) // 2, 2)
            ]
            by_swizzle.setdefault(case["fields"][6], {})[case["base"]] = words
    assert set(by_swizzle) == {0, 1, 2, 3}
    for loads in by_swizzle.values():
        assert {16, 32, 48, 64, 80, 96, 112, 128} < set(loads)
        assert all(words == loads[0] for words in loads.values())


def pixel_map(row):
    rank = row["rank"]
    return PixelMap(
        row["dtype"], (*row["dims"], 1, 1, 1)[:rank], tuple(row["strides"][: rank - 1]),
        (row["channels"], row["pixels"]), tuple(row["estr"][:rank]), row["interleave"], row["swizzle"],
        row["l2"], row["oob"], tuple(row["lower"][: rank - 2]), tuple(row["upper"][: rank - 2]),
    )  # fmt: skip


def test_im2col_maps_are_refused_where_one_of_their_numbers_is_out_of_range():
    """Of 2,000 recorded calls these limits explain 930 refusals of 1,412, and no call that breaks one was
    taken. The others depend on several numbers: corners, extents, steps.
    """
    rows = json.loads(gzip.decompress((DATA.parent / "tma_im2col.json.gz").read_bytes()))["rows"]
    ends = Counter((bool(pixel_limits(pixel_map(row))), row["rc"]) for row in rows)
    assert ends == {(True, 1): 930, (False, 0): 588, (False, 1): 482}
