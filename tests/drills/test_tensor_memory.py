"""Drills on tensor memory: the answers counted a second time, from the question's text alone."""

import re
from itertools import count

import pytest

from course_utils.drills import deck, tensor_memory
from course_utils.drills.deck import DECK

SEEDS = 40


def numbers(text):
    return [int(one.replace(",", "")) for one in re.findall(r"\d[\d,]*", text)]


def drawn(function):
    """The questions of a drill, from its first notebook."""
    notebook, number = next(
        (name, place)
        for name, drills in DECK.items()
        for place, one in enumerate(drills, 1)
        if one is function
    )
    return [deck.question(notebook, number, seed) for seed in range(SEEDS)]


def lane(text):
    M, row = re.search(r"M = (\d+)", text)[1], re.search(r"element \((\d+),", text)[1]
    return int(row) if M == "128" else int(row) % 16 + 32 * (int(row) // 16)


def first(text):
    return int(re.search(r"that warp (\d+) may", text)[1]) % 4 * 32


def power(text):
    need = sum(int(one) for one in re.findall(r"128 x (\d+)", text))
    return next(1 << bits for bits in count(5) if 1 << bits >= need)


def ctas(text):
    there, columns = numbers(text)[:2]
    return sum(columns * (n + 1) <= 512 for n in range(there))


def mmas(text):
    rows, _, K, M, _, slice_of_k = numbers(re.sub("fp16|tcgen05", "", text))[:6]
    return rows // M * (K // slice_of_k)


def over(text):
    which = int(re.search(r"commit (\d) has", text)[1])
    issued = re.search(r"in order: (.*?)\. The", text)[1].split("commit")
    return sum(part.count("MMA") for part in issued[:which])


def released(text):
    tiles, stages = numbers(text)[:2]
    stage = int(re.search(r"empty\[(\d)\]", text)[1])
    return sum(tile % stages == stage for tile in range(tiles))


def before(text):
    stages, tile = numbers(text)[:2]
    return max(one for one in range(tile) if one % stages == tile % stages)


@pytest.mark.parametrize(
    "drill, counted",
    [
        (tensor_memory.lane_of, lane),
        (tensor_memory.warp_reads, first),
        (tensor_memory.allocation, power),
        (tensor_memory.ctas_with_columns, ctas),
        (tensor_memory.mma_count, mmas),
        (tensor_memory.commit_covers, over),
        (tensor_memory.commits_of, released),
        (tensor_memory.freed_by, before),
    ],
    ids=lambda one: one.__name__,
)
def test_a_count_from_the_text_gives_the_same_answer(drill, counted):
    for asked in drawn(drill):
        assert counted(asked.text) == asked.right, asked.text


def test_a_thread_has_the_row_of_its_own_number_and_a_register_per_column():
    for asked in drawn(tensor_memory.reader_of):
        row, column = re.search(r"row (\d+), column (\d+)", asked.text).groups()
        assert asked.options[asked.right] == f"thread {row}, register {column}"


def test_an_address_has_the_lane_above_the_column():
    for asked in drawn(tensor_memory.address_of):
        base, lane_asked, column = numbers(asked.text)
        assert int(asked.options[asked.right], 16) == lane_asked * 65536 + base + column


def test_a_shape_is_right_by_the_rule_that_the_notebook_gives():
    for asked in drawn(tensor_memory.legal_shape):
        for place, option in enumerate(asked.options):
            M, N = numbers(option)
            legal = M in (64, 128) and N <= 256 and N % {64: 8, 128: 16}[M] == 0
            assert legal == (place == asked.right), option
