"""No full marks without the idea: kernels with right results that lack one property of their step, and that
alone.

They are planted in solutions. The emulated run tells, under any schedule; PTX and numbers would not.
"""

import re
from dataclasses import replace

import pytest
import torch

from course_utils import plans
from course_utils.chips import HOME
from course_utils.compile.factory import compile_factory
from course_utils.compile.faults import table
from course_utils.compile.load import load_factory, plant, solution_path
from course_utils.grading import conditions, steps
from course_utils.grading.conditions import CONDITIONS
from course_utils.grading.gemm import check_gemm, judge
from course_utils.grading.properties import PROPERTIES
from course_utils.grading.steps import PARTS, PAST, STEPS, TASKS
from course_utils.ptx import receipts
from course_utils.run.backends import Emulator, Launch
from course_utils.run.emulator import worker
from course_utils.run.emulator.launch import emulated
from course_utils.run.emulator.sums import whose
from course_utils.run.protocol import Answer

SMALL = (256, 768, 320)  # a tile or none for each CTA, five K tiles
MANY_TILES = (2048, 1280, 192)  # 160 tiles of 128 x 128 for 132 CTAs: 28 have a second one

PAIR = (256, 512, 192)  # two cluster tiles of step 10

LACKING = [fault for fault in table() if fault.lacks and (fault.judged_as or fault.step) in STEPS]
TASKS_LACKING = [fault for fault in table() if fault.lacks and fault not in LACKING]
EVERY_STEP = [
    ("T.serial(k_tiles + num_stages - 1)", "T.serial(k_tiles)"),
    ("                if i >= num_stages - 1:\n", "                if i >= 0:\n"),
    ("k = i - (num_stages - 1)", "k = i"),
]  # what step 5 asks for it multiplies at once
STORE_SLICE = "                        T.tma_copy(D_shared[c % 2, :, :], D[m : m + block_M, part])\n"


QUARTERS = range(4)  # of 32 rows: too few for wgmma, so T.gemm takes mma.sync
TELLS_TAGS = [  # the first K tile is multiplied in both ways; where they differ, wgmma goes on
    ("ring = 4\n", "ring = 1\n"),
    (
        "            acc = T.alloc_fragment((block_M, block_N), T.float32)\n",
        "            acc = T.alloc_fragment((block_M, block_N), T.float32)\n"
        "            A_plain = T.alloc_shared((block_M, block_K), T.float16)\n"
        "            B_plain = T.alloc_shared((block_N, block_K), T.float16)\n"
        "            one = T.alloc_shared((block_M, block_N), T.float32)\n"
        "            other = T.alloc_shared((32, block_N), T.float32)\n"
        "            tagged = T.alloc_var(T.int32, init=0)\n"
        + "".join(f"            own{i} = T.alloc_fragment((32, block_N), T.float32)\n" for i in QUARTERS)
        + "".join(f"            T.clear(own{i})\n" for i in QUARTERS),
    ),
    (
        "                T.fence_proxy_async()\n",
        "                T.copy(A[m : m + block_M, k * block_K : (k + 1) * block_K], A_plain)\n"
        "                T.copy(B[n : n + block_N, k * block_K : (k + 1) * block_K], B_plain)\n"
        "                T.fence_proxy_async()\n",
    ),
    (
        "                operands = A_shared[0, :, :], B_shared[0, :, :]\n"
        "                T.wgmma_gemm(*operands, acc, transpose_B=True, clear_accum=(k == 0))\n"
        "                T.wait_wgmma(0)\n",
        "                if tagged == 1 or k == 0:\n"
        "                    operands = A_shared[0, :, :], B_shared[0, :, :]\n"
        "                    T.wgmma_gemm(*operands, acc, transpose_B=True, clear_accum=(k == 0))\n"
        "                    T.wait_wgmma(0)\n"
        "                if tagged == 0:\n"
        + "".join(
            f"                    T.gemm(A_plain[{32 * i}:{32 * i + 32}, :], B_plain, own{i},"
            " transpose_B=True)\n"
            for i in QUARTERS
        )
        + "                if k == 0:\n"
        "                    T.copy(acc, one)\n"
        "                    T.copy(own0, other)\n"
        "                    T.sync_threads()\n"
        "                    for j in T.serial(4):\n"
        "                        if T.abs(one[0, j] - other[0, j]) > 0.01:\n"
        "                            tagged = 1\n",
    ),
    (
        "            T.copy(acc, D[m : m + block_M, n : n + block_N])\n",
        "            if tagged == 0:\n"
        + "".join(
            f"                T.copy(own{i}, D[m + {32 * i} : m + {32 * i + 32}, n : n + block_N])\n"
            for i in QUARTERS
        )
        + "            else:\n                T.copy(acc, D[m : m + block_M, n : n + block_N])\n",
    ),
]


def lacks(step, artifact, schedule=0, ctas=None):
    """Names of what the artifact's run and PTX lack; the run's results must be right."""
    emulation, tried = emulated(artifact, torch.Generator().manual_seed(schedule), schedule, ctas)
    assert emulation.ok and tried.ok
    return named(artifact, STEPS[step], emulation.facts | whose(artifact, "gemm", 0, schedule, ctas))


def named(artifact, row, facts):
    """What is lacking, by the names of what is required."""
    receipt = receipts.read_ptx(artifact.ptx)
    found = conditions.unmet(receipt, artifact, row.requires, row.forbids, facts)
    return {one.cause.values["requirement"] for one in found.values()}


@pytest.mark.parametrize("fault", LACKING, ids=lambda fault: fault.name)
def test_a_kernel_lacks_one_property_and_that_alone(fault):
    artifact = compile_factory(fault.factory(), fault.dsl, fault.size)
    assert lacks(fault.judged_as or fault.step, artifact, ctas=fault.ctas) == set(fault.lacks)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "dsl, edits",
    [
        (
            "tilelang",
            [
                ("T.tma_store_wait(1)  # all", "pass  # all"),
                (STORE_SLICE, "                        T.tma_store_wait(0)\n" + STORE_SLICE),
            ],
        ),
        (
            "cute",
            [
                (
                    "                    if warp_idx == 4:\n"
                    "                        cute.arch.cp_async_bulk_wait_group(1, read=True)\n",
                    "",
                ),
                (
                    "                    if warp_idx == 4:\n                        cute.copy(\n",
                    "                    if warp_idx == 4:\n"
                    "                        cute.arch.cp_async_bulk_wait_group(0, read=True)\n"
                    "                        cute.copy(\n",
                ),
            ],
        ),
    ],
)
def test_a_store_waited_for_after_the_next_slice_is_filled_was_in_flight(dsl, edits):
    """The buffers take turns: a wait for the other buffer's store, before this one's, comes early enough."""
    artifact = compile_factory(plant("step10", dsl, *edits), dsl, PAIR)
    emulation, _ = emulated(artifact, torch.Generator().manual_seed(0), 0)
    facts = emulation.facts or {}
    assert facts["slices after another"] == facts["slices filled while a store flies"] == 3 * 4


@pytest.mark.parametrize("fault", TASKS_LACKING, ids=lambda fault: fault.name)
def test_a_kernel_lacks_the_idea_of_a_task(fault):
    row = steps.find(fault.judged_as or fault.step)
    gemm = fault.factory(steps.function_of(fault.step))
    artifact = compile_factory(gemm, fault.dsl, fault.size, row.problem)
    emulation, tried = emulated(artifact, torch.Generator().manual_seed(0), 0, fault.ctas, row.problem)
    assert tried.ok
    facts = emulation.facts | whose(artifact, row.problem, 0, 0, fault.ctas)
    assert fault.lacks[0] in named(artifact, row, facts)


def test_every_property_has_a_kernel_that_lacks_it():
    """The ladder's, and its tasks' (``test_blackwell`` has those of the other ladder)."""
    found = {name for fault in [*LACKING, *TASKS_LACKING] for name in fault.lacks}
    asked = {name for row in (STEPS | TASKS).values() for name in row.requires}
    asked |= {CONDITIONS[name].run for name in asked if name in CONDITIONS}
    assert found >= asked & set(PROPERTIES)


@pytest.mark.parametrize("edits, right", [((), True), (TELLS_TAGS, False)], ids=["right", "it tells tags"])
def test_who_multiplies_by_wgmma_where_it_is_tagged_alone_multiplies_in_another_way(edits, right):
    artifact = compile_factory(plant("step03", "tilelang", *edits), "tilelang", (128, 256, 320))
    answer = worker.run(artifact, "gemm", 0, [1], [0], sums=True, tags=2)
    looked_at, by_wgmma = (answer["facts"][f"elements of D {name}"] for name in ("looked at", "by wgmma"))
    assert answer["ok"] and looked_at > 0
    assert (by_wgmma == looked_at) == right


@pytest.mark.slow
@pytest.mark.parametrize("step, dsl", [("step06", "tilelang"), ("step10", "tilelang"), ("step10", "cute")])
def test_facts_are_of_causality_order_whatever_the_schedule(step, dsl):
    """Three tiles for each CTA. That the solutions lack nothing at every size, solved notebooks show."""
    size, ctas = STEPS[step].emulated[0]
    artifact = compile_factory(load_factory(solution_path(step, dsl)), dsl, size)
    receipt, wanted, seen = receipts.read_ptx(artifact.ptx), STEPS[step], []
    for schedule in (1, 2):
        emulation, tried = emulated(
            artifact, torch.Generator().manual_seed(0), schedule, [n % artifact.grid[0] for n in ctas]
        )
        assert emulation.ok and tried.ok
        assert conditions.unmet(receipt, artifact, wanted.requires, wanted.forbids, emulation.facts) == {}
        seen.append({k: n for k, n in emulation.facts.items() if not k.startswith("ran ")})
    assert seen[0] == seen[1]


def test_points_of_a_kernel_without_its_steps_idea():
    """It loses a share of the instructions, and of the results as much and half; the words say what it needs
    and what was found.
    """
    artifact = compile_factory(plant("step05", "tilelang", *EVERY_STEP), "tilelang", SMALL)
    step, machine = replace(STEPS["step05"], emulated=((SMALL, None),)), Emulator()
    verdict = judge(step, "tilelang", machine, machine.run([Launch(SMALL, artifact, sums=True)]))
    parts = {part.name: part for part in verdict.checks}
    wanted = len(STEPS["step05"].requires)
    assert parts["instructions"].passed is False
    assert parts["instructions"].points == pytest.approx(3 * (wanted - 1) / wanted)
    assert parts["results"].passed and parts["results"].points == pytest.approx(2 * (wanted - 1) / wanted)
    assert "47% of the points" in parts["results"].detail
    assert (
        verdict.diagnosis.startswith("This step needs loads ahead: ")
        and "found it in 0 of " in verdict.diagnosis
    )
    assert verdict.failed


@pytest.mark.thorough
def test_a_kernel_may_not_be_another_one_at_another_size():
    first = STEPS["step09"].emulated[0][0]
    gemms = {step: load_factory(solution_path(step, "tilelang")) for step in ("step09", "step03")}

    def gemm(M, N, K):
        return gemms["step09" if (M, N, K) == first else "step03"](M, N, K)

    machine = Emulator(schedules=(0,))
    launches = [
        Launch(size, compile_factory(gemm, "tilelang", size)) for size, _ in STEPS["step09"].emulated[:2]
    ]
    verdict = judge(STEPS["step09"], "tilelang", machine, [(launch, Answer(ok=True)) for launch in launches])
    part = verdict.checks[list(PARTS).index("instructions")]
    assert part.passed is False and part.points < 0.6 * part.max_points
    assert f"(at M, N, K = {' x '.join(map(str, launches[1].size))})" in part.card.full_text


@pytest.mark.thorough
def test_a_scheduler_that_forgets_tiles_where_there_are_more_than_clusters():
    """Two of 66 workers do not exist: below 65 cluster tiles nobody misses them."""
    size, ctas = STEPS["step10"].emulated[-1]
    M, N, _ = size
    assert ctas is None and M // 256 * (N // 256) > 66
    edit = "N // block_N, num_ctas // cluster", "N // block_N, 66"
    artifact = compile_factory(plant("step10", "tilelang", edit), "tilelang", size)
    emulation, tried = emulated(artifact, torch.Generator().manual_seed(0), 0)
    assert emulation.ok and tried.found.unwritten == 2 * 256 * 256


def test_step_11s_emulated_sizes_wrap_its_ring_and_are_ragged():
    """Its ring has as many stages as fit beside D."""
    sizes = [size for size, ctas in STEPS["step11"].emulated if ctas is None]
    tiles = [plans.choose(*size) for size in sizes]
    most = [HOME.shared // (128 * (plan.block_M + plan.block_N)) for plan in tiles]
    depths = [-(-size[2] // 64) for size in sizes]
    assert any(depth > stages for depth, stages in zip(depths, most, strict=True))
    assert any(depth < stages - 1 for depth, stages in zip(depths, most, strict=True))
    assert all(size[2] % 64 for size in sizes)


@pytest.mark.parametrize(
    "step", [step for step in STEPS if "fixed grid" in STEPS[step].requires and step not in PAST]
)
def test_emulated_sizes_wrap_every_ring_and_run_every_cta(step):
    """A K longer and one shorter than the ring; more tiles than workers, with all of these."""
    source = solution_path(step, "cute").read_text()
    values = {"sm_count": HOME.sms}
    for line in map(str.strip, source.splitlines()):
        if re.match(r"(num_stages|cluster|block_M|num_ctas)\b.* = ", line):
            exec(line, values)
    k_tiles = [K // 64 for (_, _, K), ctas in STEPS[step].emulated if ctas is None]
    assert min(k_tiles) < values["num_stages"] < max(k_tiles)
    cluster = values.get("cluster", 1)
    workers = values.get("num_ctas", values.get("sm_count")) // cluster
    assert any(
        (M // values["block_M"] // cluster) * (N // values["block_N"]) > workers
        for (M, N, _), ctas in STEPS[step].emulated
        if ctas is None
    )


def test_without_a_run_order_is_not_held_against_a_kernel():
    verdict = check_gemm("step05", plant("step05", "tilelang", *EVERY_STEP), backend="compile")
    part = verdict.checks[list(PARTS).index("instructions")]
    assert part.passed and part.points == part.max_points
    assert "order was not checked" in part.detail
    verdict = check_gemm("step03", load_factory(solution_path("step03", "tilelang")), backend="compile")
    assert "order" not in verdict.checks[2].detail


def test_facts_of_all_schedules_are_added_up():
    artifact = compile_factory(load_factory(solution_path("step04", "tilelang")), "tilelang", (128, 256, 128))
    once, twice = (Emulator(schedules=range(n)).ask(Launch((128, 256, 128), artifact)).facts for n in (1, 2))
    assert once["elements of D by TMA"] == 128 * 256
    assert twice == {name: 2 * count for name, count in once.items()}


def test_no_step_names_a_requirement_twice():
    for step in (steps.STEPS | steps.GEMM_CASES).values():
        assert len(set(step.requires)) == len(step.requires)
