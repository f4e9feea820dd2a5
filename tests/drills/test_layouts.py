"""The model of layouts against CuTe DSL's own functions, and the answers against what those say."""

import multiprocessing
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_utils.compile.cute import import_cute
from course_utils.drills import deck, layouts
from course_utils.drills.layouts import ACCUMULATOR, Layout

SEEDS = 30
EVERYTHING = [  # plain, padded, nested, broadcast, unordered
    Layout((4, 8), (8, 1)),
    Layout((4, 8), (1, 4)),
    Layout((4, 8), (10, 1)),
    Layout(((2, 2), 4), ((1, 8), 2)),
    Layout((2, (1, 6)), (1, (7, 2))),
    Layout(((8, 16), (64, 1)), ((64, 512), (1, 0))),
    Layout((3, 1, 5), (1, 9, 3)),
    Layout((2, 3, 4), (12, 4, 1)),
    Layout(7, 2),
]
PAIRS = [  # outer, inner
    (Layout((4, 8), (8, 1)), Layout(8, 4)),
    (Layout((4, 8), (8, 1)), Layout(4, 2)),
    (Layout((4, 8), (8, 1)), Layout((2, 8), (1, 4))),
    (Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))),
    (Layout((10, 2), (16, 4)), Layout((5, 4), (1, 5))),
    (Layout(20, 2), Layout((5, 4), (4, 1))),
]
COMPLEMENTS = [
    (Layout(4, 2), 24),
    (Layout(4, 1), 24),
    (Layout(4, 3), 24),
    (Layout((2, 2), (1, 6)), 24),
    (Layout((4, 6), (1, 4)), 24),
]


@pytest.fixture(scope="module")
def cutes():
    """What CuTe DSL says of all of these, in a process of its own: this one forks compilers, and what MLIR
    has started in it would not be there in them.
    """
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_traced)


def _traced():
    """All of it, from one trace."""
    cute = import_cute()
    import cutlass
    from cutlass.cute.nvgpu import CopyUniversalOp, OperandMajorMode, warp, warpgroup

    said = {}

    def made(layout):
        return cute.make_layout(layout.shape, stride=layout.stride)

    def note():
        for one in EVERYTHING:
            there = made(one)
            places = [there(n) for n in range(layouts.size(one.shape))]
            said[one] = str(there), places, cute.cosize(there), str(cute.coalesce(there))
        said["pairs"] = [str(cute.composition(made(a), made(b))) for a, b in PAIRS]
        said["complements"] = [str(cute.complement(made(one), n)) for one, n in COMPLEMENTS]
        smem, k_major = warpgroup.OperandSource.SMEM, OperandMajorMode.K
        op = warpgroup.MmaF16BF16Op(cutlass.Float16, cutlass.Float32, (64, 128, 16), smem, k_major, k_major)
        said["C"] = str(cute.make_tiled_mma(op).tv_layout_C)
        load = cute.make_copy_atom(warp.LdMatrix8x8x16bOp(False, 4), cutlass.Float16)
        given, held = load.layout_src_tv, load.layout_dst_tv
        said["addresses"] = [given((lane, 0)) // 8 for lane in range(32)]
        said["held"] = {held((lane, v)): lane for lane in range(32) for v in range(8)}
        atom = cute.make_copy_atom(CopyUniversalOp(), cutlass.Float16, num_bits_per_copy=128)
        for down, across in ((16, 8), (32, 4), (8, 16)):
            threads = cute.make_layout((down, across), stride=(across, 1))
            tv = cute.make_tiled_copy_tv(atom, threads, cute.make_layout((1, 8))).layout_tv_tiled
            said[down] = {tv((t, v)): t for t in range(128) for v in range(8)}

    @cute.jit
    def trace():
        note()

    trace()
    return said


@pytest.mark.parametrize("layout", EVERYTHING, ids=str)
def test_places_size_and_coalesce_are_cutes(cutes, layout):
    places = [layout(n) for n in range(layouts.size(layout.shape))]
    assert (str(layout), places, layouts.cosize(layout), str(layouts.coalesce(layout))) == cutes[layout]


def test_composition_and_complement_are_cutes(cutes):
    assert [str(layouts.composition(*pair)) for pair in PAIRS] == cutes["pairs"]
    assert [str(layouts.complement(*pair)) for pair in COMPLEMENTS] == cutes["complements"]


@given(rows=st.integers(1, 6), columns=st.integers(1, 6), step=st.integers(1, 6), many=st.integers(1, 12))
@settings(max_examples=80, deadline=None)
def test_a_composition_is_one_function_after_the_other(rows, columns, step, many):
    outer, inner = Layout((rows, columns), (columns, 1)), Layout(many, step)
    try:
        found = layouts.composition(outer, inner)
    except ValueError:
        return
    inside = [n for n in range(many) if inner(n) < rows * columns]
    assert [found(n) for n in inside] == [outer(inner(n)) for n in inside]


def test_a_step_that_does_not_go_evenly_through_a_mode_is_refused():
    with pytest.raises(ValueError, match="a step of 3 does not go evenly through a mode of 4"):
        layouts.composition(Layout((4, 8), (8, 1)), Layout(2, 3))


# Answers, from what the questions' texts say and what CuTe DSL answered


def asked_of(drill, seeds=SEEDS):
    """Questions of a drill, and the numbers of each text."""
    number = deck.DECK["01b"].index(drill) + 1
    for seed in range(seeds):
        asked = deck.question("01b", number, seed)
        yield asked, [int(one) for one in re.findall(r"\d+", asked.text)]


def chosen(asked):
    return asked.options[asked.right]


def test_the_accumulators_threads_and_values_are_wgmmas(cutes):
    assert str(ACCUMULATOR) == cutes["C"]
    for asked, (*_, row, column) in asked_of(layouts.accumulates):
        assert row + 64 * column in [ACCUMULATOR((asked.right, value)) for value in range(64)]
    for asked, (*_, row, column) in asked_of(layouts.value_of):
        assert row + 64 * column in [ACCUMULATOR((thread, asked.right)) for thread in range(128)]


def test_lanes_of_a_matrix_are_cutes(cutes):
    for asked, numbers in asked_of(layouts.matrix_lane):
        if "address of row" in asked.text.split("Which")[1]:
            *_, row, matrix = numbers
            assert cutes["addresses"][asked.right] == 8 * matrix + row
        else:
            *_, row, column, matrix = numbers
            assert cutes["held"][64 * matrix + 8 * row + column] == asked.right


def test_threads_of_a_tiled_copy_are_cutes(cutes):
    for asked, (down, *_, row, column) in asked_of(layouts.copied_by):
        assert cutes[down][row % down + down * column] == asked.right


def test_places_are_sums_of_steps():
    for asked, numbers in asked_of(layouts.offset):
        _, _, down, across, i, j = numbers
        assert asked.right == sum([down] * i) + sum([across] * j)
    for asked, numbers in asked_of(layouts.by_one_number):
        rows, columns, *_, one = numbers
        order = [i * columns + j for j in range(columns) for i in range(rows)]
        assert asked.right == order[one]
    for asked, numbers in asked_of(layouts.nested):
        *strides, i, k, j = numbers[3:]
        assert asked.right == sum(n * s for n, s in zip((i, k, j), strides, strict=True))
    for asked, numbers in asked_of(layouts.room):
        rows, columns, pitch, *_ = numbers
        assert asked.right == 1 + max(i * pitch + j for i in range(rows) for j in range(columns))


def read(text):
    """A layout that is written as CuTe writes it."""
    return Layout(*map(eval, text.split(":")))  # noqa: S307, a drill's own option


def test_algebra_says_the_right_places():
    for asked, _ in asked_of(layouts.joined):
        before, after = read(asked.text.split(": may")[0]), read(chosen(asked))
        size = layouts.size(before.shape)
        assert [before(n) for n in range(size)] == [after(n) for n in range(size)]
    for asked, _ in asked_of(layouts.composed):
        outer, inner = map(read, re.search(r"A is (\S+), B is (\S+)\. ", asked.text).groups())
        right = [outer(inner(n)) for n in range(layouts.size(inner.shape))]
        same = [[one(n) for n in range(layouts.size(one.shape))] == right for one in map(read, asked.options)]
        assert same.index(True) == asked.right and sum(same) == 1
    for asked, _ in asked_of(layouts.left_over):
        tile, whole = re.search(r"elements (\S+)\. .* each of (\d+)", asked.text).groups()
        good = []
        for option in map(read, asked.options):
            begins = [option(n) for n in range(layouts.size(option.shape))]
            taken = [begin + read(tile)(n) for begin in begins for n in range(read(tile).shape)]
            good.append(sorted(taken) == list(range(int(whole))))
        assert good.index(True) == asked.right and sum(good) == 1


def test_tiles_and_their_coordinates():
    for asked, numbers in asked_of(layouts.tile_shape):
        rows, columns, height, width, *_ = numbers
        at = re.search(r"\), (\([^()]*\))\)", asked.text)[1]
        kept = [n for n, one in zip((rows // height, columns // width), eval(at), strict=True) if one is None]
        tile = [(height, width)] if "group_modes" in asked.text else [height, width]
        assert chosen(asked) == str((*tile, *kept)).replace(" ", "").replace(",)", ")")
    for asked, numbers in asked_of(layouts.basis):
        top, _, _, width, *_, row, column, tile = numbers
        assert eval(chosen(asked)) == (top + row, column + width * tile)


def test_a_swizzled_byte_and_a_fragments_element():
    for asked, _ in asked_of(layouts.swizzled_byte):
        bits = re.search(r"is ([01]{10})\.", asked.text)[1]
        flipped = "".join(str(int(a != b)) for a, b in zip(bits[:3], bits[3:6], strict=True))
        assert int(bits[:3] + flipped + bits[6:], 2) == asked.right
    for asked, _ in asked_of(layouts.in_fragment):
        thread, register = re.search(r"thread: (.*) and forward_index: (.*)\. Where", asked.text).groups()
        i, j = re.search(r"element \((\d+), (\d+)\)", asked.text).groups()
        names = {"_i": int(i), "_j": int(j)}
        assert chosen(asked) == f"thread {eval(thread, names)}, register {eval(register, names)}"


def test_lines_are_counted_as_the_kernel_runs():
    seen = set()
    for asked, (threads, *_) in asked_of(layouts.printed, 3 * SEEDS):
        line = asked.text.split("stands: ")[1].split(". How")[0]
        number = int(re.search(r"\((\d+)|expr\((\d+)", line)[0].split("(")[1])
        traced = number if "range_constexpr" in line else 1
        decided = "if" not in line or number > int(line.split("> ")[1].split(")")[0])
        runs = threads * number if "for" in line else threads
        assert asked.right == (0 if not decided else runs if "printf" in line else traced)
        seen.add(line.split("(")[0])
    assert len(seen) >= 3
