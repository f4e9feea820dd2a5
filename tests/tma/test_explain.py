"""``course tensormap``: verify says how many rows agree and names every other; explain puts one map in
words.
"""

import gzip
import json
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
    assert code == 0 and "legal: the driver accepts it; one load brings 16,384 bytes" in text


def test_explain_counts_what_the_mbarrier_counts_where_the_box_steps(capsys):
    strided = ["--dims", "4096,4096", "--box", "64,128", "--element-strides", "1,8", "--swizzle", "128B"]
    code, text = run(capsys, "explain", *strided)
    assert code == 0 and "one load brings 2,048 bytes" in text


def test_explain_names_each_broken_rule_its_mend_and_its_source(capsys):
    code, text = run(
        capsys, "explain", "--dims", "1000,4096", "--box", "60,257", "--swizzle", "4", "--address", "0x8"
    )
    text = text.replace("\n", " ")
    assert code == 1 and "4 rules broken" in text
    for words in (
        "Nearest legal: globalAddress = 16. [address-multiple-of-16] (cuTensorMapEncodeTiled)",
        "boxDim[1] = 257",
        "boxDim[0] = 64 (128 bytes)",
        "[swizzle-on-hopper] (observed on H200, driver 580)",
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
        ([*TILE, "--type", "half"], "float16"),
        ([*TILE, "--swizzle", "256B"], "128B"),
        (["nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_bad_arguments_are_named(capsys, arguments, words):
    code, text = run(capsys, "explain", *arguments)
    assert code == 2 and words in text


def test_a_row_that_is_not_there_is_named(capsys, file):
    code, text = run(capsys, "explain", file(LEGAL), "--row", "7")
    assert code == 2 and "no line 7" in text
