"""A copy that TileLang refuses: the shapes, element types and memories of its two sides."""

from types import SimpleNamespace as Is

import pytest

from course_utils.compile import copy_errors

SHAPES = "Check failed: Shared tile and global tile shape mismatch: tile_shape_shared[2] = 64 != 128 = g[1]"
LOOP = "Selected loop range is smaller than original src range at: src=A, dst=A_shared"
NO_TMA = "T.tma_copy() requires so much, but TMA is not available for src=a, dst=b"


def extent(value):
    return value if isinstance(value, str) else Constant(value)


class Constant(int):
    @property
    def value(self):
        return int(self)


def side(name, taken, shape, scope="global", dtype="float16"):
    buffer = Is(name=name, shape=list(map(extent, shape)), dtype=dtype, scope=lambda: scope)
    return Is(args=[Is(buffer=buffer), 1, *map(extent, taken)])


def copy(*both):
    return Is(args=[*both, 0])


MATRIX = side("D", (128, 128), (1536, 1792))
CHUNK = side("D_shared", (1, 128, 64), (2, 128, 64), "shared.dyn")
RING = side("A_shared", (4, 128, 64), (4, 128, 64), "shared.dyn")


@pytest.mark.parametrize(
    "both, message, words, never",
    [
        (
            (CHUNK, MATRIX),
            SHAPES,
            "D_shared's is 128 x 64, D's 128 x 128. Slice both in the same way.",
            "stages",
        ),
        ((side("A", (128, 64), (512, 512)), RING), LOOP, "`A_shared[stage, :, :]`", "Cut both"),
        ((side("A", (512, 512), (512, 512)), CHUNK), LOOP, "A's is 512 x 512", "stages"),
        ((side("A", (512, 512), (512, 512)), CHUNK), LOOP, "Slice A.", "stages"),
        (
            (
                side("D16", (128, 128), (128, 128), "shared.dyn"),
                side("D", (128, 128), (512, 512), dtype="bfloat16"),
            ),
            NO_TMA,
            "D16 is float16, D bfloat16",
            "16 bytes",
        ),
        (
            (side("acc", (128, 128), (128, 128), "local.fragment"), MATRIX),
            NO_TMA,
            "acc is in registers, D in global memory",
            "16 bytes",
        ),
        ((CHUNK, MATRIX), NO_TMA, "a multiple of 16 bytes", "element type"),
    ],
)
def test_what_is_unlike(both, message, words, never):
    told = copy_errors.explained(copy(*both), message)
    assert words in told
    assert never not in told


@pytest.mark.parametrize(
    "both, message",
    [
        ((CHUNK, MATRIX), "something else"),
        ((MATRIX, MATRIX), SHAPES),
        ((side("A", ("n", 64), ("n", 64)), MATRIX), SHAPES),
        ((Is(args=[]), MATRIX), SHAPES),
        ((1, 2), NO_TMA),
    ],
)
def test_what_cannot_be_told_is_left_to_the_compiler(both, message):
    assert copy_errors.explained(copy(*both), message) == ""
