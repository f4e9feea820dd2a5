"""Compilers' words turn into what to change, and words that are not known stay as they are."""

import tomllib
from pathlib import Path

import pytest

from course_utils.compile import compiler_messages
from course_utils.compile.compiler_messages import explained

ROOT = Path(__file__).parents[2]
SHAPES = "StructuralEqual check failed, caused by lhs at <root>[1].value:\n(128, 320)\nand rhs at "
SHAPES += "<root>[1].value:\n(128, 64)"


@pytest.mark.parametrize(
    "message, words",
    [
        (SHAPES, "shapes (128, 320) and (128, 64)"),
        ("T.gemm K shape check failed: K_A = 64, K_B = 128", "A's tile has 64 of K, B's 128"),
        (
            "range is so (2 vs. 1) : Shared tile and global tile shape mismatch: t[0] = 4 != 128 = g[0]",
            "4 and 128",
        ),
        ("x is not so: TMA is not available for src=acc, dst=D  and more", "not available from acc to D"),
        (
            "Immutable variable `load` is used outside its defining region!\n\tand more",
            "`load` is set inside",
        ),
        ("no message", "slices"),
    ],
)
def test_known_words_say_what_to_change(message, words):
    assert words in explained(message)


@pytest.mark.parametrize("message", ["", "nobody knows", "there was no message here", "(1, 2)\n  at x"])
def test_other_words_stay(message):
    assert explained(message) == message


def test_each_row_is_of_a_version_that_is_pinned():
    """Another version says other things: try its words again before the row is given its number."""
    pinned = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    table = tomllib.loads(compiler_messages._TABLE.read_text())
    stamps = {row["by"].replace(" ", "==") for row in table["explained"] + table["refused"]}
    assert stamps - pinned == {"CUDA==13.0"}
    assert any(one.startswith("nvidia-cuda-nvrtc==13.0.") for one in pinned)
