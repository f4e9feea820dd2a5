"""Drills on a pair of CTAs and on two MMA warps: the answers counted a second time, from the question's text
alone, by the ISA's own words.
"""

import re

import pytest

from course_utils.drills import pairs
from tests.drills.test_tensor_memory import drawn, numbers


def held(text):
    """PTX ISA, data path layouts A (M = 256) and B (M = 128) of a pair."""
    M, N = map(int, re.search(r"M = (\d+), N = (\d+)", text).groups())
    row, column = map(int, re.search(r"element \((\d+), (\d+)\)", text).groups())
    cta, row = divmod(row, M // 2)
    if M == 128 and column >= N // 2:
        row, column = row + 64, column - N // 2
    return f"CTA {cta}, lane {row}, column {column}"


def two_bits(text):
    rank, ctas = int(re.search(r"of rank (\d)", text)[1]), int(re.search(r"cluster of (\d)", text)[1])
    first = rank - rank % 2
    return f"0b{3 << first:0{ctas}b}"


@pytest.mark.parametrize("drill, told", [(pairs.holder, held), (pairs.commit_mask, two_bits)])
def test_the_right_option_is_what_the_text_comes_to(drill, told):
    for asked in drawn(drill):
        assert asked.options[asked.right] == told(asked.text), asked.text


def both(text):
    M, N, K = numbers(text)[:3]
    return M * K * 2 + N * K * 2


def who(text):
    """Threads or commits, named in words."""
    if "every thread of an epilogue of four warps" in text:
        return 2 * 128
    if "of each of four warps" in text:
        return 8
    return 2 if "of two MMA warps" in text or "of each CTA" in text else 1


def in_use(text):
    count = 1 if "one accumulator" in text else int(re.search(r"holds (\d)", text)[1])
    M, N = map(int, re.search(r"M = (\d+), N = (\d+)", text).groups())
    return count * (N if M == 256 else N // 2)


def first_row(text):
    warp, cta = map(int, re.search(r"that warp (\d) of CTA (\d)", text).groups())
    return 256 * (warp // 4) + 128 * cta + 32 * (warp % 4)


def furthest(text):
    stages = int(re.search(r"ring of (\d)", text)[1])
    return min(map(int, re.findall(r"for its first (\d)", text))) + stages


def fits(text):
    tiles = 2 if "2 tiles" in text else 1
    N, (out, room) = int(re.search(r"of B, (\d+)", text)[1]), map(int, re.findall(r"(\d+) KiB", text))
    own = tiles * 128 * 64 * 2 + N // 2 * 64 * 2
    return max(n for n in range(20) if n * own + out * 1024 <= room * 1024)


@pytest.mark.parametrize(
    "drill, counted",
    [
        (pairs.expected, both),
        (pairs.arrivals, who),
        (pairs.columns_in_use, in_use),
        (pairs.row_of_warp, first_row),
        (pairs.furthest_load, furthest),
        (pairs.stages_of_pair, fits),
    ],
    ids=lambda one: one.__name__,
)
def test_a_count_from_the_text_gives_the_same_answer(drill, counted):
    for asked in drawn(drill):
        assert counted(asked.text) == asked.right, asked.text


def test_a_pair_of_half_the_rows_folds_its_columns():
    assert pairs.place(127, 255, 128, 256) == (1, 127, 127)
    assert pairs.place(64, 128, 128, 256) == (1, 64, 0)
    assert pairs.place(128, 255, 256, 256) == (1, 0, 255)
    assert (pairs.columns_of(128, 256), pairs.columns_of(256, 256)) == (128, 256)
