"""Notebook t1: what it claims about the rules, the compilers (tilelang 0.1.15, nvidia-cutlass-dsl 4.8.1) and
__grid_constant__.
"""

import gzip
import json
import re
from dataclasses import replace
from importlib.metadata import version
from itertools import product
from math import prod
from pathlib import Path

import nbformat
import numpy as np
import pytest
import tilelang.language as T

from authoring import sync
from course_utils.artifact import Tensor, TensorMap
from course_utils.compile.cute import compile_host
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.faults import kernels
from course_utils.compile.load import SOLUTIONS, load_factory, load_module, plant, solution_path
from course_utils.compile.nvrtc import compile_source
from course_utils.compile.tilelang import compile_prim_func
from course_utils.drills.barriers import Barrier
from course_utils.grading import maps, steps
from course_utils.grading.conditions import CONDITIONS
from course_utils.grading.maps import check_maps
from course_utils.ptx import paths as copies
from course_utils.ptx.paths import passed_by_value
from course_utils.ptx.receipts import Receipt
from course_utils.run.emulator.emulate import emulate
from course_utils.tma import transfers
from course_utils.tma.layouts import swizzled
from course_utils.tma.rules import RULES, violations

NOTEBOOK = Path(sync.NOTEBOOKS) / "t1_tma_contract.ipynb"
MEND = SOLUTIONS / "maps" / "t1_contract.py"
ANSWERS = {  # what predict() says to the questions of the four rounds, 1 for legal
    "questions_1": (1, 0, 1, 0, 1, 1),
    "questions_2": (1, 0, 1, 0, 0, 0),
    "questions_3": (1, 0, 1, 1, 0, 0),
    "questions_4": (1, 0, 1, 0, 0),
}


def maps_of(artifact):
    return {p.tensor: p.tensor_map for p in artifact.parameters if p.kind == "tensor_map"}


def copy(width, columns):
    """The notebook's copy: a tile of 128 x ``width`` of a 256 x ``columns`` matrix, in by tma_copy."""

    @T.prim_func
    def main(X: T.Tensor((256, columns), T.float16), Y: T.Tensor((256, columns), T.float16)):
        with T.Kernel(2, threads=128) as b:
            S = T.alloc_shared((128, width), T.float16)
            full = T.alloc_barrier(1)
            T.tma_copy(X[b * 128 : (b + 1) * 128, 0:width], S, barrier=full)
            if T.shuffle_elect(128):
                T.mbarrier_arrive(full)
            T.mbarrier_wait_parity(full, 0)
            T.copy(S, Y[b * 128 : (b + 1) * 128, 0:width])

    return main


def test_the_pinned_releases_are_the_ones_described():
    assert (version("tilelang"), version("nvidia-cutlass-dsl")) == ("0.1.15", "4.8.1")


# -- the notebook


def test_the_answers_to_the_questions():
    """Each round mixes legal and illegal maps, and an illegal one breaks one rule only."""
    names = {
        "replace": replace,
        "TensorMap": TensorMap,
        "tile": TensorMap(
            data_type=6, dims=(1024, 4096), strides=(2048,), box=(64, 128), element_strides=(1, 1), swizzle=3
        ),
    }
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        if cell.cell_type == "code" and cell.source.startswith("questions_"):
            exec(cell.source[: cell.source.index("guesses_")], names)
    for name, answers in ANSWERS.items():
        broken = [violations(tensor_map, address) for tensor_map, address in names[name]]
        assert tuple(int(not rules) for rules in broken) == answers and max(map(len, broken)) == 1


def test_each_given_map_breaks_one_rule_and_each_another():
    broken = [violations(m) for m in steps.MAP_CASES["t1"].given]
    assert [len(rules) for rules in broken] == [1] * 8 and len({rules[0].rule for rules in broken}) == 8
    assert {rules[0].rule for rules in broken} <= set(RULES)


def test_the_solution_gets_all_points_and_the_given_maps_none():
    assert check_maps("t1", load_module(MEND).mend).points == 10
    assert check_maps("t1", lambda maps: maps).points == 0


def test_a_map_with_two_fields_changed_gets_no_points():
    def mend(maps):
        first, *rest = load_module(MEND).mend(maps)
        return [replace(first, l2_promotion=2), *rest]

    verdict = check_maps("t1", mend)
    assert verdict.points == pytest.approx(8.75) and "2 fields were changed" in verdict.checks[0].card.text


MENDED = {  # each map's: the field, a value that is legal, and what the check says of it; "" is right
    0: [
        ("box", (64, 256), ""),
        ("box", (64, 200), "do not divide the tile"),
        ("box", (64, 128), "is small"),
        ("box", (8, 1), "a row of 16 bytes has a swizzle of 128 bytes"),
        ("box", (32, 256), "has a swizzle of 128 bytes"),
    ],
    1: [
        ("strides", (2080,), ""),
        ("strides", (2304,), ""),
        ("strides", (2048,), "rows overlap"),
        ("strides", (0,), "rows overlap"),
        ("strides", (16,), "rows overlap"),
        ("strides", (2**30,), "pad a row by 256 bytes at most"),
    ],
    2: [
        ("box", (56, 128), "is not the smallest that holds the tile"),
        ("box", (128, 128), "is not the smallest that holds the tile"),
        ("box", (64, 64), "is not the smallest that holds the tile"),
        ("box", (8, 128), "is not the smallest that holds the tile"),
    ],
    3: [
        ("box", (32, 128), "gives up a part of the tile"),
        ("swizzle", 0, "no swizzle"),
        ("box", (16, 256), "has a swizzle of 64 bytes"),
    ],
    4: [("data_type", 7, "another tensor"), ("data_type", 9, "another tensor")],
    5: [
        ("element_strides", (1, 1), ""),
        ("element_strides", (1, 4), ""),
        ("element_strides", (1, 3), "does not divide"),
        ("element_strides", (8, 8), "does not divide"),
    ],
    6: [
        ("box", (64, 128, 8), ""),
        ("box", (64, 256, 7), "do not divide the tile"),
        ("box", (32, 256, 8), "has a swizzle of 128 bytes"),
        ("box", (64, 256, 2), "is small"),
        ("element_strides", (1, 1, 2), "steps over what the tile had"),  # every other slab
        ("element_strides", (2, 1, 1), "steps over what the tile had"),  # TMA ignores it: 256 KB all the same
        ("data_type", 0, "another tensor"),
    ],
    7: [("swizzle", 0, "no swizzle")],
}


@pytest.mark.parametrize(
    "number, field, value, words", [(n, *each) for n, all_of in MENDED.items() for each in all_of]
)
def test_a_legal_map_must_describe_the_same_tensor_in_tiles_worth_having(number, field, value, words):
    def mend(maps):
        mended = load_module(MEND).mend(maps)
        mended[number] = replace(maps[number], **{field: value})
        assert violations(mended[number]) == []
        return mended

    verdict = check_maps("t1", mend)
    part = verdict.checks[number]
    assert part.passed is not bool(words) and words in (part.card.text if part.card else "")
    assert verdict.points == pytest.approx(8.75 if words else 10)


PADDED = {"strides": tuple((stride,) for stride in range(2064, 2305, 16))}
RIGHT = [  # all changes of one field that earn a map's points
    {"box": ((64, 256),)},
    PADDED,
    {"box": ((64, 128),)},
    {"swizzle": (3,)},
    {"oob_fill": (0,)},
    {"element_strides": ((1, 1), (1, 2), (1, 4), (1, 8))},
    {"box": ((64, 128, 8), (64, 256, 4))},
    {"swizzle": (3,)},
]


def changes_of(old):
    """Every field alone, with values on both sides of each limit, and arrays of other lengths."""
    sides = (0, 1, 8, 16, 32, 60, 63, 64, 65, 127, 128, 255, 256, 257, 512)
    rows = [stride + near for stride in (0, 2048, 4096, 8192, 2**30) for near in range(-32, 289, 8)]
    values = {
        "data_type": range(-1, 18),
        "dims": product((0, 1, 64, 512, 1020, 1024, 1028, 4096, 8192), repeat=old.rank),
        "strides": product(rows if old.rank == 2 else rows[::20], repeat=old.rank - 1),
        "box": product(sides, sides, *[(1, 2, 4, 7, 8)] * (old.rank - 2)),
        "element_strides": product(range(10), repeat=old.rank),
        **{name: range(-1, 8) for name in ("interleave", "swizzle", "l2_promotion", "oob_fill")},
    }
    for name, there in values.items():
        yield from ((name, value) for value in there if value != getattr(old, name))
        if isinstance(getattr(old, name), tuple):
            yield from ((name, (64,) * length) for length in range(6))


@pytest.mark.parametrize("number", range(len(RIGHT)))
def test_no_other_change_of_one_field_earns_points(number):
    case = steps.MAP_CASES["t1"]
    old, boxes, earned = case.given[number], case.boxes[number], {}
    for name, value in changes_of(old):
        if not maps._mended(old, replace(old, **{name: value}), boxes):
            earned.setdefault(name, set()).add(value)
    assert earned == {name: set(there) for name, there in RIGHT[number].items()}


@pytest.mark.parametrize("number", range(len(RIGHT)))
def test_two_changes_earn_nothing_where_one_is_enough(number):
    """A right mend with any other field changed too: a lie beside a truth."""
    case = steps.MAP_CASES["t1"]
    old, right = case.given[number], load_module(MEND).mend(case.given)[number]
    for name, value in (("l2_promotion", 2), ("oob_fill", 1), ("data_type", 1), ("data_type", 9)):
        also = replace(right, **{name: value})
        if also != right and getattr(old, name) == getattr(right, name):
            assert maps._mended(old, also, case.boxes[number])


@pytest.mark.parametrize("field, value", [("dims", (4096, 64)), ("strides", (16384,)), ("interleave", 1)])
def test_another_tensor_is_none_that_was_asked_for(field, value):
    old = replace(steps.MAP_CASES["t1"].given[0], box=(64, 256))
    assert "another tensor: " + field in maps._another_tensor(old, replace(old, **{field: value}), field)


def test_a_map_that_remembers_other_extents_is_read_by_its_fields():
    def mend(given):
        mended = load_module(MEND).mend(given)
        mended[6] = replace(given[6], box=(64, 1, 1))
        mended[6].__dict__["extents"] = given[6].box
        return mended

    assert check_maps("t1", mend).points == 8.75


class Equal(tuple):
    """Equal to everything."""

    __hash__ = tuple.__hash__

    def __eq__(self, other):
        return True


def without(name):
    made = TensorMap(6, (4096, 4096), (8192,), (64, 256), (1, 1), swizzle=3)
    object.__delattr__(made, name)
    return made


@pytest.mark.parametrize(
    "first, words",
    [
        (without("box"), "this map has no box"),
        (object.__new__(TensorMap), "this map has no data_type, dims"),
        (replace(steps.MAP_CASES["t1"].given[0], box=Equal((64, 512))), "a tuple of ints"),
        (replace(steps.MAP_CASES["t1"].given[0], box=(64, True)), "a tuple of ints"),
        (replace(steps.MAP_CASES["t1"].given[0], box=(64, np.int64(256))), "a tuple of ints"),
        (replace(steps.MAP_CASES["t1"].given[0], box=(64, 10**5000)), "boxDim[1] = about 2^"),
        (replace(steps.MAP_CASES["t1"].given[0], dims=(4096, 4096, 1)), "boxDim of length 2"),
        ({"box": (64, 256)}, "this is dict"),
    ],
)
def test_what_is_no_map_earns_nothing_and_is_named(first, words):
    verdict = check_maps("t1", lambda given: [first, *load_module(MEND).mend(given)[1:]])
    assert verdict.points == 8.75 and words in verdict.checks[0].card.text


def test_maps_of_other_places_earn_nothing():
    assert check_maps("t1", lambda given: load_module(MEND).mend(given)[::-1]).points == 0
    assert check_maps("t1", lambda given: load_module(MEND).mend(given)[:1] * 8).points == 1.25


def test_maps_that_mend_has_changed_where_they_are_do_not_change_the_question():
    def mend(given):
        object.__setattr__(given[1], "dims", (1024, 512))
        return [
            *load_module(MEND).mend(given)[:1],
            replace(given[1], strides=(2064,)),
            *load_module(MEND).mend(given)[2:],
        ]

    verdict = check_maps("t1", mend)
    assert verdict.points == 8.75 and "2 fields were changed" in verdict.checks[1].card.text
    assert steps.MAP_CASES["t1"].given[1].dims == (1028, 512)


def test_the_boxes_asked_for_are_the_largest_that_divide_the_tile():
    """By trying all: with another swizzle or fill the whole tile; else the largest box that divides it; else
    the smallest that holds it.
    """
    case = steps.MAP_CASES["t1"]
    for given, boxes in zip(case.given, case.boxes, strict=True):
        others = {
            "swizzle": 3,
            "oob_fill": 0,
            "element_strides": (1,) * given.rank,
            "strides": tuple(-(-stride // 16) * 16 for stride in given.strides),
        }
        if any(not violations(replace(given, **{name: value})) for name, value in others.items()):
            assert boxes == (given.box,)
            continue
        divisors = [[n for n in range(1, extent + 1) if extent % n == 0] for extent in given.box]
        legal = [box for box in product(*divisors) if not violations(replace(given, box=box))]
        legal = [box for box in legal if not given.swizzle or box[0] == given.box[0]]
        if legal:
            assert set(boxes) == {box for box in legal if prod(box) == max(map(prod, legal))}
        else:
            larger = product(range(given.box[0], 257), given.box[1:])
            assert boxes == (min(box for box in larger if not violations(replace(given, box=box))),)


def tabled_by(cells: list[str], word: str) -> list[tuple]:
    """The rows that the one cell with this word shows, after the first, which imports what it needs, and the
    one that makes the tile.
    """
    names: dict[str, object] = {}
    first, wanted = cells[0], [cell for cell in cells if word in cell]
    tile = next(cell for cell in cells if cell.startswith("tile = "))
    exec(f"{first}\n{tile.partition('predict')[0]}", names)
    rows: list[tuple] = []
    names["table"] = lambda head, made: rows.extend(tuple(map(str, row)) for row in made)
    assert len(wanted) == 1
    exec(wanted[0], names)
    return rows


# Predict: a word of the cell that answers it, and rows of its tables
PREDICTED = {
    "def turns(": [
        ("32", "2", "1", "32"),
        ("48", "1", "1", "128"),
        ("64", "4", "1", "64"),
        ("128", "8", "1", "128"),
    ],
    "swizzle 128B, tile starts at": [
        ("128B", "1024"),
        ("0", *"01234567"),
        ("128", *"10325476"),
        ("1024", *"01234567"),
    ],
    "narrow = replace(": [("6144", "16384")],
    "boxes(box, tile_shape)": [
        ("(128, 256)", "4", "65536"),
        ("(96, 256)", "box against tile: 64 does not divide 96 in dimension 0", "none"),
    ],
    "transfers.broken(tile, one)": [
        ("load", "(-1, 0)", "0", "inner-coordinate"),
        ("load", "(-8, -1)", "0", "none"),
        ("store", "(8, 4095)", "0", "none"),
        ("store", "(8, -1)", "0", "store-coordinate"),
        ("load", "(0, 0)", "64", "tile-alignment"),
    ],
    "store_tail(halves, 2)": [("1000", "2000", "0"), ("1001", "2002", "2"), ("1004", "2008", "8")],
}


@pytest.mark.parametrize("word", PREDICTED)
def test_what_the_cells_answer_to_predict(word):
    cells = [c.source for c in nbformat.read(NOTEBOOK, as_version=4).cells if c.cell_type == "code"]
    told = tabled_by(cells, word)
    assert [row for row in PREDICTED[word] if row not in told] == []


def markdown(id):
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    return next(cell.source for cell in cells if cell.id == id)


def test_the_launches_behind_the_limits_of_coordinates_are_those_of_the_rules():
    for rule in ("inner-coordinate", "store-coordinate"):
        launches = re.search(r"(\d+) launches", transfers.RULES[rule].source)[1]
        assert f"| {launches} |" in markdown("7c1be6a0")


def test_a_sum_of_int64_goes_as_uint64():
    assert "int64" in markdown("t1asks") and "int64" not in transfers.REDUCTIONS["add"]
    assert "uint64" in transfers.REDUCTIONS["add"]


def test_a_map_in_global_memory_lies_at_a_multiple_of_64_bytes():
    cases = json.loads(gzip.decompress((SOLUTIONS.parent / "tests/data/tma_hardware.json.gz").read_bytes()))
    ends = {case["map"]: case.get("error") for case in cases["cases"] if case["group"] == "map elsewhere"}
    assert {at for at, error in ends.items() if error is None} == {0, 64}
    refused = {at for at, error in ends.items() if error == "CUDA_ERROR_MISALIGNED_ADDRESS"}
    assert refused == {8, 16, 32} == set(ends) - {0, 64}


def test_extents_in_bytes_are_legal_and_describe_rows_that_overlap():
    mixed = TensorMap(6, (2048, 4096), (2048,), (64, 128), (1, 1), swizzle=3)
    assert violations(mixed) == [] and 1024 * 2 == mixed.strides[0]  # column 1,024 begins the next row


def test_with_too_few_bytes_expected_the_third_phase_never_ends():
    """A's and B's tiles land on a barrier that expects A's alone: two phases end too early, then none."""
    barrier, tile, ended = Barrier(1), 16_384, []
    for _ in range(6):
        before = barrier.phase
        barrier.expect(tile)
        barrier.arrive()
        early = barrier.phase > before  # over before anything of this round has landed
        for _ in ("A", "B"):
            barrier.land(tile)
        ended.append((barrier.phase - before, early))
    assert ended == [(1, False), (1, True)] + [(0, False)] * 4 and barrier.bytes < 0


def test_a_tile_128_bytes_past_its_pattern_is_reported_by_nobody():
    """The map is legal, all bytes come, the kernel ends and no error is found; TMA's pieces lie where a
    reader who counts from the tile's start does not look. The check asks for the 1,024 bytes all the same.
    """
    gemm = plant("step04", "cute", ("layout_A.outer, 1024,", "layout_A.outer, 128,"))
    artifact = compile_factory(gemm, "cute", (128, 128, 64))
    A, B = (np.random.default_rng(0).random((128, 64)).astype(np.float16) for _ in range(2))
    emulation = emulate(artifact, {"A": A, "B": B, "D": np.zeros((128, 128), np.float16)}, 0)
    assert maps.findings(artifact) == [] and emulation.ok and emulation.finished
    assert [finding.kind for finding in emulation.findings] == ["swizzle-alignment"]
    places = [swizzled(128 + 16 * piece, 3) - 128 for piece in range(8)]
    assert places != [swizzled(16 * piece, 3) for piece in range(8)]
    cause, _ = CONDITIONS["aligned tiles"].instead(Receipt(), artifact)
    told = {name: cause.values[name] for name in ("buffer", "alignment", "wanted")}
    assert told == {"buffer": "A_shared", "alignment": 128, "wanted": 1024}


# -- the compilers


def test_both_dsls_make_the_same_legal_maps_of_step_4():
    """tilelang 0.1.15 and nvidia-cutlass-dsl 4.8.1 come to boxes of 128 x 64 with swizzle 128B, read where
    they were passed.
    """
    made = {
        dsl: compile_factory(load_factory(solution_path("step04", dsl)), dsl, (256, 512, 320)) for dsl in DSLS
    }
    tilelang, cute = (maps_of(made[dsl]) for dsl in ("tilelang", "cute"))
    assert tilelang == cute and set(cute) == {"A", "B", "D"}
    assert all((m.box, m.swizzle, violations(m)) == ((64, 128), 3, []) for m in cute.values())
    assert passed_by_value(made["tilelang"]) == passed_by_value(made["cute"]) == []


@pytest.mark.parametrize(
    "width, box, swizzle, loads",
    [(64, (64, 128), 3, 1), (128, (64, 128), 3, 2), (32, (32, 128), 2, 1), (24, (24, 128), 0, 1)],
)
def test_tilelang_fits_box_and_swizzle_to_the_tile(width, box, swizzle, loads):
    """tilelang 0.1.15 cuts a row of 128 halves into two boxes, takes swizzle 64B for 32 halves, and none for
    24.
    """
    artifact = compile_prim_func(copy(width, 256))
    load = next(c for c in copies.copies(artifact) if c.tensor == "X")
    assert (maps_of(artifact)["X"].box, maps_of(artifact)["X"].swizzle, load.paths) == (
        box,
        swizzle,
        {copies.TENSOR: loads},
    )


@pytest.mark.parametrize("width, columns", [(60, 256), (64, 68)])
def test_tilelang_refuses_what_no_map_describes(width, columns):
    """tilelang 0.1.15: tma_copy of rows of 120 bytes, or of rows 136 bytes apart, is a compile error."""
    with pytest.raises(CompileError, match="TMA is not available"):
        compile_prim_func(copy(width, columns))


def test_cute_drops_the_remainder_of_a_stride():
    """nvidia-cutlass-dsl 4.8.1 describes rows that are 136 bytes apart by a legal map with a stride of
    128.
    """
    tensors = (
        Tensor("A", (256, 68), "float16"),
        Tensor("B", (128, 68), "float16"),
        Tensor("D", (256, 128), "float16"),
    )
    found = maps_of(compile_host(load_factory(solution_path("step04", "cute"))(256, 128, 64), tensors))["A"]
    assert found.dims == (68, 256) and found.strides == (128,) and violations(found) == []


def test_rows_of_such_a_map_are_read_too_early():
    """Row r of the matrix that the legal map describes begins 8 * r bytes before A's."""
    shapes = {"A": (256, 68), "B": (128, 68), "D": (256, 128)}
    tensors = tuple(Tensor(name, shape, "float16") for name, shape in shapes.items())
    artifact = compile_host(load_factory(solution_path("step04", "cute"))(256, 128, 64), tensors)
    drawn = np.random.default_rng(0)
    A, B, D = (drawn.random(shape).astype(np.float16) for shape in shapes.values())
    emulate(artifact, {"A": A, "B": B, "D": D}, ctas=[0])

    def as_described(matrix):
        rows = [matrix.reshape(-1)[r * 68 - 4 * r :][:64] for r in range(128)]
        return np.stack(rows).astype(np.float32)

    assert np.allclose(D[:128], as_described(A) @ as_described(B).T, rtol=2e-3)


def test_tilelang_passes_a_map_made_by_hand_on_as_it_was_written():
    """tilelang 0.1.15 compiles solutions/wrong's swizzle_span: an illegal map is no compile error."""
    artifact = compile_factory(kernels("tilelang")["swizzle_span"].factory(), "tilelang", (256, 256, 320))
    assert [v.rule for v in violations(maps_of(artifact)["B"])] == ["swizzle-span"]


def test_maps_that_disagree_with_their_reader_are_legal():
    """nvidia-cutlass-dsl 4.8.1: solutions/wrong's swizzle_disagrees breaks no rule; only its numbers tell."""
    artifact = compile_factory(kernels("cute")["swizzle_disagrees"].factory(), "cute", (256, 256, 320))
    assert maps.findings(artifact) == [] and maps_of(artifact)["A"].swizzle == 2


@pytest.mark.parametrize(
    "declared, copied", [("", True), ("const", True), ("const __grid_constant__", False)]
)
def test_only_grid_constant_keeps_a_map_where_it_is(declared, copied):
    """NVRTC 13.0 copies a map to each thread's local memory before it passes on the address."""
    ptx, _, resources = compile_source(
        "struct alignas(64) CUtensorMap { unsigned long long opaque[16]; };\n"
        f'extern "C" __global__ void load({declared} CUtensorMap map) {{ asm volatile("prefetch.tensormap '
        '[%0];" :: "l"(&map)); }',
        [],
    )
    assert ("st.local" in ptx) == copied and (resources.stack_frame >= 128) == copied
