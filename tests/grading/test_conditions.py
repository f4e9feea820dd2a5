"""What a step requires: each condition against a kernel that just meets it and one that just does not."""

from collections import Counter
from dataclasses import replace

import pytest

from course_utils.artifact import Allocation, Parameter, Tensor, TensorMap
from course_utils.cause import Cause
from course_utils.grading import conditions, refine, words
from course_utils.grading.conditions import CONDITIONS, OWN
from course_utils.grading.properties import PROPERTIES
from course_utils.grading.steps import BLACKWELL_STEPS, GEMM_CASES, STEPS, TASKS
from course_utils.ptx.families import Family
from course_utils.ptx.receipts import Receipt
from course_utils.run.emulator.explain.facts.launch import COUNTED
from course_utils.run.protocol import Answer
from tests.ptx.test_receipts import PLAIN, kernel

BOTH_WAYS = Receipt(setmaxnreg={"dec 40": 1, "inc 232": 2})
IGNORED = replace(
    PLAIN.resources, warnings=("(C7508) setmaxnreg ignored to maintain minimum register requirements.",)
)


def unmet(*arguments, **named):
    """What is said of each condition and property that is not met."""
    return [words.text(one.cause) for one in conditions.unmet(*arguments, **named).values()]


def mapped(M, N):
    """A kernel with D of 4104 x 200, and a map of it with so many rows and columns."""
    d = TensorMap(6, (N, M), (2 * N,), (64, 128), (1, 1), swizzle=3)
    parameter = Parameter("tensor_map", tensor="D", tensor_map=d)
    shapes = {"A": (4104, 72), "B": (200, 72), "D": (4104, 200)}
    tensors = tuple(Tensor(name, shape, "float16") for name, shape in shapes.items())
    return kernel(tensors=tensors, parameters=(parameter,))


def heads(sizes, strides):
    """A kernel that takes Q (2, 77, 4, 128), and a map of it with these sizes and strides, D apart."""
    box = 64, *[1] * len(sizes)
    made = TensorMap(6, (128, *sizes), strides, box, (1,) * len(box), swizzle=3)
    tensors = Tensor("Q", (2, 77, 4, 128), "float16"), Tensor("S", (2, 4, 77, 136), "float16")
    return kernel(tensors=tensors, parameters=(Parameter("tensor_map", tensor="Q", tensor_map=made),))


CORNER = {"tensor": "D", "rows": (0, 4096), "columns": (0, 128), "M": 4104, "N": 200}
WROTE, ELSE = Cause("corner", "corner-of-the-grid", CORNER), Cause("look", "every-tile")


@pytest.mark.parametrize(
    "cause, facts, said",
    [
        (WROTE, {"elements of A loaded": 4104 * 72}, "tiles at the edge are left out"),
        (ELSE, {"elements of A loaded": 4104 * 64}, "bring 64 of A's 72 columns"),
        (ELSE, {"CTAs with a tile": 8, "CTAs that store": 5}, "3 of 8 CTAs multiply"),
        (ELSE, {"CTAs with a tile": 8, "CTAs that store": 8, "elements of A loaded": 4104 * 72}, "Every"),
        (ELSE, {}, "Every"),
    ],
)
def test_what_is_left_out_at_the_edge_is_told(cause, facts, said):
    wrong = refine.refine(Answer(wrong=5, causes=(cause,), facts=facts), mapped(4104, 200), clipped=True)
    assert said in words.text(*wrong.causes)


# Condition: (a receipt and a kernel for which it just holds), (a neighbour for which it just does not).
NEIGHBOURS = {
    "wgmma": (
        (Receipt(wgmma={"m64n8k16.f32.f16.f16": 1}), PLAIN),
        (Receipt(wgmma={"m64n8k16.f16.f16.f16": 1}), PLAIN),
    ),
    "wgmma of fp8": (
        (Receipt(wgmma={"m64n128k32.f32.e4m3.e4m3": 4}), PLAIN),
        (Receipt(wgmma={"m64n128k32.f32.e4m3.e4m3": 4, "m64n128k16.f32.f16.f16": 8}), PLAIN),
    ),
    "aligned tiles": (
        (Receipt(), kernel(allocations=(Allocation(512, 4096, 512, 2, "k.py", 1),))),
        (Receipt(), kernel(allocations=(Allocation(512, 4096, 512, 3, "k.py", 1),))),
    ),
    "one CTA": ((Receipt(), kernel(grid=(1, 1, 1))), (Receipt(), kernel(grid=(1, 2, 1)))),
    "grid grows": ((Receipt(), kernel(grid=(30, 38, 1))), (Receipt(), kernel(grid=(30, 37, 1)))),
    "fixed grid": ((Receipt(), kernel(grid=(11, 12, 1))), (Receipt(), kernel(grid=(131, 1, 1)))),
    "tensor loads": (
        (Receipt(tensor_loads={2: 1}), PLAIN),
        (Receipt(tensor_stores={2: 1}, bulk_1d=1, cp_async=1), PLAIN),
    ),
    "tensor stores": (
        (Receipt(tensor_stores={2: 1}), PLAIN),
        (Receipt(tensor_loads={2: 1}, bulk_1d=1), PLAIN),
    ),
    "expect-tx": ((Receipt(expect_tx=1), PLAIN), (Receipt(arrives=1), PLAIN)),
    "proxy fence": ((Receipt(proxy_fences=1), PLAIN), (Receipt(), PLAIN)),
    "store wait": ((Receipt(bulk_waits=1), PLAIN), (Receipt(bulk_waits=1, unawaited_store_loops=1), PLAIN)),
    "slices": (
        (Receipt(tensor_stores={2: 2}, bulk_commits=2), PLAIN),
        (Receipt(tensor_stores={2: 4}, bulk_commits=1), PLAIN),
    ),
    "tensor adds": ((Receipt(), kernel(ptx="cp.reduce.async.bulk.tensor.2d ;")), (Receipt(), PLAIN)),
    "read wait": ((Receipt(bulk_waits=1, bulk_read_waits=1), PLAIN), (Receipt(bulk_waits=1), PLAIN)),
    "two full barriers": ((Receipt(mbarrier_inits=2), PLAIN), (Receipt(mbarrier_inits=1), PLAIN)),
    "empty barriers": ((Receipt(mbarrier_inits=4), PLAIN), (Receipt(mbarrier_inits=3), PLAIN)),
    "four stages": ((Receipt(mbarrier_inits=8), PLAIN), (Receipt(mbarrier_inits=7), PLAIN)),
    "setmaxnreg": ((BOTH_WAYS, PLAIN), (BOTH_WAYS, kernel(resources=IGNORED))),
    "wgmma in flight": ((Receipt(wgmma_waits={0: 1, 1: 1}), PLAIN), (Receipt(wgmma_waits={0: 2}), PLAIN)),
    "multicast": ((Receipt(multicast_loads={2: 1}), PLAIN), (Receipt(tensor_loads={2: 1}), PLAIN)),
    "remote arrive": ((Receipt(remote_arrives=1), PLAIN), (Receipt(arrives=1), PLAIN)),
    "cluster barrier": (
        (Receipt(cluster_barriers=2), PLAIN),
        (Receipt(cluster_barriers=1, cta_barriers=5, mbarrier_inits=12, mbarrier_waits=2), PLAIN),
    ),
    "cluster of two": ((Receipt(), kernel(cluster=(1, 2, 1))), (Receipt(), kernel(cluster=(2, 2, 1)))),
    "three warpgroups": ((Receipt(), kernel(block=(384, 1, 1))), (Receipt(), kernel(block=(256, 1, 1)))),
    **dict.fromkeys(
        ("rank-3 maps", "rank-4 maps"),
        ((Receipt(), heads((77, 4, 2), (1024, 256, 78848))), (Receipt(), heads((308, 2), (256, 78848)))),
    ),
    "exact maps": ((Receipt(), mapped(4104, 200)), (Receipt(), mapped(4352, 200))),
    "tcgen05.mma": (
        (Receipt(tcgen05_mma={"cta_group::1 f16": 4}), PLAIN),
        (Receipt(wgmma={"m64": 4}), PLAIN),
    ),
    "tensor memory": (
        (Receipt(tmem_allocs=1, tmem_frees=1, tmem_loads={"32x32b.x128": 1}), PLAIN),
        (Receipt(tmem_allocs=1, tmem_loads={"32x32b.x128": 1}), PLAIN),
    ),
    "MMA of a pair": (
        (Receipt(tcgen05_mma={"cta_group::2 f16": 4}), PLAIN),
        (Receipt(tcgen05_mma={"cta_group::1 f16": 4}), PLAIN),
    ),
    "multicast commit": (
        (Receipt(tcgen05_commits=2, multicast_commits=1), PLAIN),
        (Receipt(tcgen05_commits=2), PLAIN),
    ),
    "four stages of MMAs": ((Receipt(mbarrier_inits=8), PLAIN), (Receipt(mbarrier_inits=7), PLAIN)),
}
IN_PAIRS = ("multicast", "remote arrive", "cluster barrier")
for name in IN_PAIRS:
    NEIGHBOURS[f"{name} of a cluster"] = tuple(
        (receipt, kernel(cluster=(2, 1, 1))) for receipt, _ in NEIGHBOURS[name]
    )


@pytest.mark.parametrize("name", IN_PAIRS)
def test_what_is_of_a_cluster_is_asked_of_a_cluster(name):
    alone, pair = kernel(cluster=(1, 1, 1)), kernel(cluster=(2, 1, 1))
    assert not unmet(Receipt(), alone, [f"{name} of a cluster"]) and unmet(Receipt(), alone, [name])
    assert unmet(Receipt(), pair, [f"{name} of a cluster"])


def test_a_map_of_another_size_is_named():
    assert (
        "a map of D with 4,352 x 200 elements instead of 4,104 x 200"
        in unmet(Receipt(), mapped(4352, 200), ["exact maps"])[0]
    )


def test_a_stride_that_was_rounded_is_named():
    (text,) = unmet(Receipt(), heads((77, 4, 2), (1008, 256, 78848)), ["rank-4 maps"])
    assert "a map of Q that steps 1,008 bytes along a size of 77, instead of 1,024" in text


@pytest.mark.parametrize("columns, asked", [(136, 4), (203, 0)])
def test_an_output_that_no_map_describes_is_stored_by_threads(columns, asked):
    """Its rows are no multiple of 16 bytes."""
    tensors = Tensor("Q", (2, 77, 4, 128), "float16"), Tensor("S", (2, 4, 77, columns), "float16")
    names = ["tensor stores", "proxy fence", "store wait", "D once"]
    by_threads = {"elements stored": 100, "elements of D by TMA": 0}
    lacks = conditions.unmet(Receipt(), kernel(tensors=tensors), names, (), by_threads)
    assert len(lacks) == asked


def test_every_condition_has_neighbours():
    assert set(NEIGHBOURS) == set(CONDITIONS)


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_condition(name):
    holds, breaks = NEIGHBOURS[name]
    assert unmet(*holds, [name]) == []
    (sentence,) = unmet(*breaks, [name])
    assert sentence.startswith(f"This step needs {words.needs(name)}; found ")
    assert unmet(*breaks, [], [name]) == []
    (sentence,) = unmet(*holds, [], [name])
    assert sentence.startswith(f"This step must not have {words.needs(name)}")


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_says_what_an_empty_kernel_has(name):
    for text in unmet(Receipt(), kernel(grid=(1, 1, 1)), [name]):
        assert text.startswith("This step needs ") and not text.endswith(" ") and "  " not in text


@pytest.mark.parametrize("maxnreg", [{}, {"dec 40": 1}, {"inc 232": 1}])
def test_registers_must_move_both_ways(maxnreg):
    assert unmet(Receipt(setmaxnreg=maxnreg), PLAIN, ["setmaxnreg"])


def test_empty_grid_is_neither_persistent_nor_covering():
    nothing = Receipt(), kernel(grid=(0, 2, 1))
    assert len(unmet(*nothing, ["one CTA", "grid grows", "fixed grid"])) == 3


def test_every_condition_is_some_steps_and_every_name_is_a_condition():
    rows = (STEPS | GEMM_CASES | TASKS | BLACKWELL_STEPS).values()
    asked = {name for row in rows for name in (*row.requires, *row.forbids)}
    runs = {CONDITIONS[name].run for name in asked if name in CONDITIONS} - {""}
    assert asked | runs == {*CONDITIONS, *PROPERTIES, OWN}


def test_words():
    receipt = Receipt(global_loads=16, mbarrier_inits=1, wgmma_waits={0: 2})
    assert unmet(receipt, PLAIN, ["tensor loads", "two full barriers", "wgmma in flight", "fixed grid"]) == [
        "This step needs TMA loads, `cp.async.bulk.tensor` from global to shared; found 0 of them, but 16 "
        "plain `ld.global`",
        "This step needs at least two mbarriers, one for each stage of the ring; found 1 `mbarrier.init`",
        "This step needs a `wgmma.wait_group` above 0, so that one group stays in flight; found "
        "`wgmma.wait_group` 0 only",
        "This step needs a persistent grid: 132 CTAs, one for each SM (or 128), whatever M and N are; found "
        "a grid of 60 x 76 x 1 for M, N = 9728, 7680",
    ]


@pytest.mark.parametrize("grid", [(132, 1, 1), (128, 1, 1), (2, 66, 1), (64, 2, 1)])
def test_a_grid_that_leaves_no_sm_idle_for_nothing(grid):
    assert unmet(Receipt(), kernel(grid=grid), ["fixed grid"]) == []


@pytest.mark.parametrize("ctas", [1, 16, 66, 127, 129, 131])
def test_a_persistent_grid_says_how_many_sms_have_a_cta(ctas):
    (sentence,) = unmet(Receipt(), kernel(grid=(ctas, 1, 1)), ["fixed grid"])
    assert f": {ctas} of 132 SMs have a CTA" in sentence


def test_more_ctas_than_sms_are_not_persistent():
    (sentence,) = unmet(Receipt(), kernel(grid=(148, 1, 1)), ["fixed grid"])
    assert "a grid of 148 x 1 x 1" in sentence and "have a CTA" not in sentence


def outside(facts):
    return words.text(*refine.outside(facts))


def test_what_lay_outside_its_tensor():
    name = "loads outside B, axis 1"
    facts = {name: 24, f"{name}, at": 9472, f"{name}, of": 4608, "runs": 2}
    assert outside(facts) == "12 TMA loads lie outside B, one from row 4,736 of 2,304: they bring zeros."
    name = "stores outside Y, axis 0"
    facts = {name: 1, f"{name}, at": -64, f"{name}, of": 128, "runs": 1}
    assert outside(facts) == "1 TMA store lies outside Y, one from column -64 of 128: it is dropped."
    assert outside({}) == outside({"loads": 3}) == ""


def test_what_lay_outside_comes_first_where_it_explains_the_values():
    name, tile = "loads outside B, axis 1", {"tensor": "D", "rows": (0, 64), "columns": (0, 64)}
    answer = Answer(
        causes=(Cause("zeros", "zeros", tile),), facts={name: 1, f"{name}, at": 512, f"{name}, of": 256}
    )

    def order(answer):
        return [cause.case for cause in refine.refine(answer, PLAIN).causes]

    assert order(answer) == ["loads-outside", "zeros"]
    moved = replace(answer, causes=(Cause("accumulator", "twice", tile),))
    assert order(moved) == ["twice", "loads-outside"]
    for other in (replace(answer, facts=None), replace(answer, findings=({"kind": "deadlock", "text": ""},))):
        assert order(other) == ["zeros"]


# -- properties of a run, by its facts


@pytest.mark.parametrize("name", PROPERTIES)
def test_property(name):
    """It holds at its least share, fails just below, and is not asked for where nothing could show it."""
    wanted = PROPERTIES[name]
    enough = round(100 * wanted.least)
    for shown, lacking in ((100, False), (enough, False), (enough - 1, True), (0, True)):
        facts = Counter({wanted.chances: 100, wanted.shown: shown})
        sentences = unmet(Receipt(), PLAIN, [name], facts=facts)
        assert len(sentences) == lacking
        for text in sentences:
            assert text.startswith(f"This step needs {words.needs(name)}; found ") and "  " not in text
    assert unmet(Receipt(), PLAIN, [name], facts={"another": 5}) == []
    assert unmet(Receipt(), PLAIN, [name], facts=None) == []


def test_what_a_condition_demands_must_have_run():
    receipt = Receipt(multicast_loads={2: 1}, remote_arrives=1)
    required = ["multicast", "remote arrive", "cluster of two"]
    pair = kernel(cluster=(2, 1, 1))
    lacks = conditions.unmet(receipt, pair, required, facts={"ran MULTICAST_LOAD": 3})
    assert {name: one.cause.case for name, one in lacks.items()} == {"remote arrive": "not-run"}
    assert conditions.unmet(receipt, pair, required) == {}


def test_every_family_that_a_condition_asks_for_is_counted():
    asked = {family for condition in CONDITIONS.values() for family in condition.families}
    assert asked <= COUNTED | {Family.EXPECT_TX}


def test_a_small_d_says_nothing_about_a_persistent_grid():
    shapes = {"A": (1792, 64), "B": (1280, 64), "D": (1792, 1280)}
    tensors = tuple(Tensor(name, shape, "float16") for name, shape in shapes.items())
    small = kernel(grid=(132, 1, 1), tensors=tensors)
    assert unmet(Receipt(), small, ["fixed grid"]) == []
