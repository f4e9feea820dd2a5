"""``course tensormap``: verify says how many rows agree and names every other; explain puts one map in
words.
"""

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

from course_utils.cli import main

ROWS = Path(__file__).parents[1] / "data" / "driver_verdicts.jsonl.gz"
# fmt: off
LEGAL = {
    "dtype": 6, "rank": 2, "addr_off": 0, "dims": [1024, 4096], "strides": [2048], "box": [64, 128],
    "estr": [1, 1], "interleave": 0, "swizzle": 3, "l2": 0, "oob": 0, "rc": 0,
}
# fmt: on
TILE = ["--dims", "1024,4096", "--box", "64,128", "--swizzle", "128B"]


@pytest.fixture
def file(tmp_path):
    """Write rows (dicts, or text as it is) to a .jsonl file."""

    def write(*rows):
        path = tmp_path / "rows.jsonl"
        path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")
        return str(path)

    return write


def run(capsys, *arguments):
    code = main(["tensormap", *arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_all_recorded_verdicts_agree(capsys):
    assert run(capsys, "verify", str(ROWS)) == (0, "10000 of 10000 agree\n")


def test_a_disagreement_is_named_with_its_line(capsys, file):
    code, text = run(capsys, "verify", file(LEGAL, LEGAL | {"rc": 1}, LEGAL | {"addr_off": 8}))
    assert code == 1 and text.endswith("1 of 3 agree\n")
    assert "line 2: the driver refuses float16 4096 x 1024" in text and "the rules say: legal" in text
    assert "line 3: the driver accepts" in text and "[address-multiple-of-16]" in text


def test_plain_and_compressed_files_read_alike(capsys, file):
    path = file(LEGAL, "", LEGAL)
    with open(path, "rb") as plain, gzip.open(path + ".gz", "wb") as packed:
        shutil.copyfileobj(plain, packed)
    assert run(capsys, "verify", path) == run(capsys, "verify", path + ".gz") == (0, "2 of 2 agree\n")


def test_an_empty_file_proves_nothing(capsys, file):
    assert run(capsys, "verify", file("")) == (1, "0 of 0 agree\n")


@pytest.mark.parametrize(
    "row, words",
    [
        ("{", "line 2 is not JSON"),
        ("[1]", "lacks dtype"),
        ({"dtype": 6}, "lacks rank"),
        (LEGAL | {"box": 64}, "box must be a list"),
        (LEGAL | {"dims": [1.5, 2]}, "dims must be"),
        (LEGAL | {"box": [64]}, "line 2: box has 1 of the 2 entries that rank 2 needs"),
        (LEGAL | {"strides": []}, "strides has 0 of the 1 entries"),
        (json.dumps(LEGAL).replace("4096", "9" * 5000), "line 2: a number is too long"),
        (LEGAL | {"rank": "2"}, "rank must be an integer"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_a_bad_row_is_named(capsys, file, row, words):
    code, text = run(capsys, "verify", file(LEGAL, row))
    assert code == 2 and words in text.replace("\n", " ")


@pytest.mark.parametrize("content", [b"no gzip at all", gzip.compress(b"x" * 1000, mtime=0)[:20], b""])
def test_a_broken_archive_is_an_error_in_words(capsys, tmp_path, content):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(content)
    code, text = run(capsys, "verify", str(path))
    assert code in (1, 2) and ("cannot be read" in text.replace("\n", " ") or "0 of 0 agree" in text)


def test_a_missing_file_is_an_error_in_words(capsys):
    assert run(capsys, "verify", "nowhere.jsonl")[0] == 2


def test_explain_a_legal_map(capsys):
    code, text = run(capsys, "explain", *TILE)
    assert code == 0 and "legal: the driver takes it (Hopper)" in text
    for line in (
        "tensorDataType  6 (float16)",
        "tensorRank      2",
        "globalAddress   0",
        "globalDim       1024, 4096",
        "globalStrides   2048",
        "boxDim          64, 128",
        "elementStrides  1, 1",
        "interleave      0 (none)",
        "swizzle         3 (128B)",
        "l2Promotion     0 (none)",
        "oobFill         0 (zero)",
        "expect_tx     16,384 bytes for each box",
        "allocate      16,384 bytes: 128 rows, 128 bytes apart",
        "tile's start  a multiple of 1,024 bytes",
        "bank turns    1 for one 16-byte column of 8 rows; 8 without a swizzle",
        "boxes         16 x 32 cover the tensor, 512 loads",
        "coordinates   2, in elements, innermost first: the first is a multiple of 8; a load may begin",
        "reductions    add, min, max",
    ):
        assert line in text


def test_a_narrow_tile_allocates_more_than_it_expects(capsys):
    code, text = run(capsys, "explain", "--dims", "1024,4096", "--box", "24,128", "--swizzle", "128B")
    assert code == 0 and "expect_tx     6,144 bytes" in text
    assert "16,384 bytes: 128 rows, 128 bytes apart, more than arrive" in text


def test_how_many_boxes_a_tile_takes(capsys):
    assert "128 x 128 takes 2 boxes, 32,768 bytes" in run(capsys, "explain", *TILE, "--tile", "128,128")[1]
    code, text = run(capsys, "explain", *TILE, "--tile", "96,128")
    assert code == 2 and "64 does not divide 96" in text


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--interleave", "16B", "--dims", "8,56,56", "--box", "8,8,8"], "interleave 16B puts the bytes"),
        (["--dims", "64,64", "--box", "64,8", "--swizzle", "6", "--chip", "sm_100a"], "128B_ATOM_64B puts"),
    ],
)
def test_what_the_course_has_not_measured_is_said(capsys, arguments, words):
    code, text = run(capsys, "explain", *arguments)
    assert code == 0 and "not modelled" in text and words in text


@pytest.mark.parametrize("code", ["13", "14", "15"])
def test_packed_types_are_refused_on_hopper_and_not_modelled_elsewhere(capsys, code):
    tile = ["--dims", "128,64", "--box", "128,8", "--type", code]
    code, text = run(capsys, "explain", *tile)
    assert code == 1 and "(packed, for later chips)" in text and "[data-type-packed]" in text
    code, text = run(capsys, "explain", *tile, "--chip", "Blackwell")
    assert code == 2 and "does not model" in text.replace("\n", " ")


def test_of_another_chip_no_drivers_answer_is_claimed(capsys):
    code, text = run(capsys, "explain", *TILE, "--chip", "sm_100a")
    assert code == 0 and "held against Hopper's driver, not Blackwell's" in text


@pytest.mark.parametrize("swizzle", ["4", "5", "6"])
def test_later_swizzles_are_legal_on_later_chips_only(capsys, swizzle):
    tile = ["--dims", "64,64", "--box", "64,8", "--swizzle", swizzle]
    assert run(capsys, "explain", *tile)[0] == run(capsys, "explain", *tile, "--chip", "NVIDIA H200")[0] == 1
    assert run(capsys, "explain", *tile, "--chip", "blackwell")[0] == 0


@pytest.mark.parametrize(
    "name, meant",
    [
        ("int8", "uint8"),
        ("FP8", "uint8"),
        ("float8_e4m3", "uint8"),
        ("fp8_e5m2", "uint8"),
        ("Int16", "uint16"),
    ],
)
def test_bits_of_a_type_without_a_code_move_as_another(capsys, name, meant):
    code, text = run(capsys, "explain", "--dims", "64,64", "--box", "64,8", "--type", name)
    assert code == 0 and f"TMA moves bits: use {meant} for {name}" in text and f"({meant})" in text


@pytest.mark.parametrize(
    "name, meant",
    [("fp16", "6 (float16)"), ("BF16", "9 (bfloat16)"), ("fp32", "7 (float32)"), ("double", "8")],
)
def test_a_type_goes_by_its_short_name_too(capsys, name, meant):
    code, text = run(capsys, "explain", "--dims", "64,64", "--box", "16,8", "--type", name)
    assert code == 0 and f"tensorDataType  {meant}" in text and "TMA moves bits" not in text


def test_a_type_that_no_reduction_takes(capsys):
    assert (
        "reductions    none"
        in run(capsys, "explain", "--dims", "64,64", "--box", "64,8", "--type", "uint8")[1]
    )


def test_names_in_any_case(capsys):
    wanted = run(capsys, "explain", *TILE)
    assert run(capsys, "explain", *TILE[:-1], "128b", "--type", "FLOAT16", "--oob", "Zero") == wanted


def test_numbers_in_any_form(capsys):
    wanted = run(capsys, "explain", *TILE)
    for dims, box in (("1024x4096", "64x128"), ("0x400,0x1000", "0x40,128"), ("1024, 4096", "64 ,128")):
        assert run(capsys, "explain", "--dims", dims, "--box", box, "--swizzle", "3") == wanted


def test_negative_numbers_are_maps_to_explain(capsys):
    arguments = ["--strides", "-2048", "--swizzle", "-1", "--address", "-16", "--element-strides", "-1,1"]
    code, text = run(capsys, "explain", "--dims", "-5,64", "--box", "-8,8", *arguments)
    assert code == 1 and "6 rules broken" in text.replace("\n", " ")
    for rule in (
        "address-range",
        "dim-range",
        "stride-range",
        "box-range",
        "element-stride-range",
        "swizzle",
    ):
        assert f"[{rule}]" in text


def test_the_stride_instead_of_a_negative_one_keeps_rows_apart(capsys):
    _, text = run(capsys, "explain", "--dims", "1000,64,2", "--box", "8,8,1", "--strides", "-2000,-64")
    assert "globalStrides[0] = 2000, globalStrides[1] = 128000" in text.replace("\n", " ")


def test_what_explain_says_to_change_is_legal(capsys):
    wrong = {
        "--dims": "1000,4096",
        "--strides": "2000",
        "--box": "60,257",
        "--swizzle": "4",
        "--address": "8",
    }
    _, text = run(capsys, "explain", *[part for pair in wrong.items() for part in pair])
    last = next(line for line in text.splitlines() if line.startswith("legal with all of these: "))
    options = {
        "globalAddress": "--address",
        "globalStrides": "--strides",
        "boxDim": "--box",
        "swizzle": "--swizzle",
    }
    for change in last.partition(": ")[2].split("; "):
        name, _, value = change.partition(" ")
        wrong[options[name]] = value.split(" (")[0]
    assert set(wrong.values()) == {"1000,4096", "2000", "64, 256", "3", "16"}
    assert run(capsys, "explain", *[part for pair in wrong.items() for part in pair])[0] == 0


def test_explain_counts_what_the_mbarrier_counts_where_the_box_steps(capsys):
    strided = ["--dims", "4096,4096", "--box", "64,128", "--element-strides", "1,8", "--swizzle", "128B"]
    code, text = run(capsys, "explain", *strided)
    assert code == 0 and "expect_tx     2,048 bytes" in text


def test_explain_names_each_broken_rule_its_mend_and_its_source(capsys):
    code, text = run(
        capsys, "explain", "--dims", "1000,4096", "--box", "60,257", "--swizzle", "4", "--address", "0x8"
    )
    text = text.replace("\n", " ")
    assert code == 1 and "4 rules broken" in text
    for words in (
        "Nearest legal: globalAddress = 16. [address-multiple-of-16] ",
        "[address-multiple-of-16] (cuTensorMapEncodeTiled, globalAddress; ",
        "boxDim[1] = 257",
        "boxDim[0] = 64 (128 bytes)",
        "[swizzle-on-hopper] (not on the driver's page; ",
        "calls refused, H200, driver 580)",
    ):
        assert words in text


def test_explain_takes_a_row_of_a_file(capsys, file):
    path = file(LEGAL, LEGAL | {"addr_off": 8})
    assert run(capsys, "explain", path)[0] == 0
    assert run(capsys, "explain", path, "--row", "2")[0] == 1


def test_strides_are_dense_where_they_are_left_out(capsys):
    given = run(capsys, "explain", "--dims", "72,8,4", "--strides", "144,1152", "--box", "64,8,1")
    assert run(capsys, "explain", "--dims", "72,8,4", "--box", "64,8,1") == given
    assert given[0] == 0


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--box", "64"], "--dims and --box"),
        (["--dims", "a", "--box", "64"], "whole numbers"),
        ([*TILE, "--type", "int4"], "int8, int16, fp8"),
        ([*TILE, "--address", "first"], "--address is a whole number of bytes"),
        ([*TILE, "--address", "9" * 5000], "(5,000 characters)"),
        ([*TILE, "--row", "2"], "--row is of a FILE"),
        ([*TILE, "--chip", "sm_75"], "sm_90a"),
        ([*TILE, "--tile", "one"], "--tile is a list of whole numbers"),
        ([*TILE, "--tile", "64"], "box against tile"),
        ([*TILE, "--swizzle", "256B"], "128B"),
        (["nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_bad_arguments_are_named(capsys, arguments, words):
    code, text = run(capsys, "explain", *arguments)
    assert code == 2 and words in text


def test_a_file_and_a_map_are_one_too_many(capsys, file):
    code, text = run(capsys, "explain", file(LEGAL), "--dims", "64,64", "--l2", "none")
    assert code == 2 and "leave out --dims, --l2" in text.replace("\n", " ")


def test_entries_behind_a_rows_rank_are_not_read(capsys, file):
    code, text = run(capsys, "explain", file(LEGAL | {"box": [64, 128, 999]}))
    assert code == 0 and "more entries than rank 2 needs" in text.replace("\n", " ")


def test_a_rank_that_is_no_rank_is_named(capsys, file):
    code, text = run(capsys, "explain", file(LEGAL | {"rank": 2**40}))
    assert code == 1 and f"the row's rank is {2**40}; it is shown as 6" in text and "[rank]" in text


def test_the_rows_behind_a_rule_are_listed(capsys):
    code, text = run(capsys, "rows", "swizzle")
    assert code == 0 and "40 calls refused" in text and "tma_rules.json.gz: 40 calls, at rows " in text
    found = re.search(r"course tensormap (explain \S+) --row (\d+)", text)
    code, text = run(capsys, *found[1].split(), "--row", found[2])
    assert (
        code == 1 and "1 rule broken" in text and "course tensormap rows swizzle" in text.replace("\n", " ")
    )
    assert run(capsys, "rows", "nothing")[0] == 2
    assert "20 calls that lacked an array" in run(capsys, "rows", "array-length")[1].replace("\n", " ")


@pytest.mark.parametrize("chip", ["H100", "h100 SXM", "H200", "NVIDIA H100 PCIe", "gh200-480"])
def test_a_chip_has_the_name_that_people_use(capsys, chip):
    assert "(Hopper)" in run(capsys, "explain", *TILE, "--chip", chip)[1]


def test_blackwells_name_and_one_that_is_none(capsys):
    assert "not Blackwell's" in run(capsys, "explain", *TILE, "--chip", "B200")[1]
    assert run(capsys, "explain", *TILE, "--chip", "RTX 4090")[0] == 2


def test_no_advice_is_a_stride_past_its_range(capsys):
    dims = f"{2**106 + 1},64"
    _, text = run(capsys, "explain", "--dims", dims, "--box", "64,64")
    assert text.replace("\n", " ").count("Nearest legal: globalStrides[0] = 1099511627760") == 2


def test_recorded_calls_that_break_one_rule_are_rows_too(capsys):
    """Each rule's calls can be looked at: explain names the two files."""
    rules = str(ROWS.parent / "tma_rules.json.gz")
    assert run(capsys, "verify", rules) == (0, "1945 of 1945 agree\n")
    code, text = run(capsys, "explain", rules, "--row", "2")
    assert code == 1 and "[data-type]" in text and "tests/data/tma_rules.json.gz" in text


def test_a_row_that_is_not_there_is_named(capsys, file):
    code, text = run(capsys, "explain", file(LEGAL), "--row", "7")
    assert code == 2 and "no line 7" in text
