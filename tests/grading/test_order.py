"""No full marks without the idea: kernels with right results that lack one property of their step, and that
alone.

They are planted in solutions. The emulated run tells, under any schedule; PTX and numbers would not.
"""

import textwrap
from dataclasses import replace

import pytest
import torch

from course_utils import plans
from course_utils.artifact import SHARED_LIMIT
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import SOLUTIONS, load_factory, load_planted, plant, solution_path
from course_utils.grading import conditions, steps
from course_utils.grading.gemm import check_gemm, judge
from course_utils.grading.properties import PROPERTIES
from course_utils.grading.steps import PARTS, PAST, STEPS
from course_utils.ptx import receipts
from course_utils.run.backends import Emulator, Launch
from course_utils.run.emulator.launch import emulated
from course_utils.run.protocol import Answer

SMALL = (256, 768, 320)  # a tile or none for each CTA, five K tiles
MANY_TILES = (2048, 1280, 192)  # 160 tiles of 128 x 128 for 132 CTAs: 28 have a second one

PAIR = (256, 512, 192)  # two cluster tiles of step 10

LOAD = """                if i < k_tiles:
                    load = i % num_stages
                    ks = slice(i * block_K, (i + 1) * block_K)
                    T.tma_copy(A[ms, ks], A_shared[load, :, :], barrier=full[load])
                    T.tma_copy(B[ns, ks], B_shared[load, :, :], barrier=full[load])
                    if T.shuffle_elect(128):
                        T.mbarrier_arrive(full[load])
"""  # of step 5
FIRST_LOAD = """            first = slice(0, block_K)
            T.tma_copy(A[ms, first], A_shared[0, :, :], barrier=full[0])
            T.tma_copy(B[ns, first], B_shared[0, :, :], barrier=full[0])
            if T.shuffle_elect(128):
                T.mbarrier_arrive(full[0])
"""
NEXT_LOAD = LOAD.replace("i < k_tiles", "i + 1 < k_tiles").replace("load = i %", "load = (i + 1) %")
NEXT_LOAD = NEXT_LOAD.replace("slice(i * block_K, (i + 1)", "slice((i + 1) * block_K, (i + 2)")
EVERY_STEP = [
    ("T.serial(k_tiles + num_stages - 1)", "T.serial(k_tiles)"),
    ("                if i >= num_stages - 1:\n", "                if i >= 0:\n"),
    ("k = i - (num_stages - 1)", "k = i"),
]  # what step 5 asks for it multiplies at once
STAGE_FREE = "                    T.sync_threads()  # all warps together; the wait alone frees the stage\n"
B_FOR_BOTH = """                            T.tma_copy(
                                B[ns, ks],
                                B_shared[stage, :, :],
                                barrier=full[stage],
                                cluster_mask=0b11,
                            )
"""  # of step 9
B_ALONE = "                            T.tma_copy(B[ns, ks], B_shared[stage, :, :], barrier=full[stage])\n"
STORE_TILE = "                T.tma_copy(D_shared, D[ms, ns])\n"
STORE_SLICE = "                        T.tma_copy(D_shared[c % 2, :, :], D[m : m + block_M, part])\n"
AN_IDLE_WARPGROUP = [
    ("block=(256, 1, 1)", "block=(384, 1, 1)"),
    ("        else:  # consumer warpgroup\n", "        elif warp_idx < 8:  # consumer warpgroup\n"),
]

# what it is: (the step that it is held against, DSL, size, its edits of that step's solution, what it lacks)
LACKING = {
    "A by plain loads": (
        "step04",
        "tilelang",
        SMALL,
        [
            (
                "                T.tma_copy(A[ms, ks], A_shared[0, :, :], barrier=full)\n",
                "                T.copy(A[ms, ks], A_shared[0, :, :])\n"
                "                T.fence_proxy_async()\n                T.sync_threads()\n",
            )
        ],
        {"operands by TMA"},
    ),
    "D stored by all four warps": (
        "step04",
        "cute",
        SMALL,
        [
            (
                "if warp_idx == 0:\n            cute.copy(store_D",
                "if warp_idx < 4:\n            cute.copy(store_D",
            )
        ],
        {"D once"},
    ),
    "each tile waited for before the next is asked for": (
        "step05",
        "tilelang",
        SMALL,
        EVERY_STEP,
        {"loads ahead"},
    ),
    "the same in CuTe DSL": (
        "step05",
        "cute",
        SMALL,
        [
            ("cutlass.range(k_tiles + num_stages - 1, unroll=1)", "cutlass.range(k_tiles, unroll=1)"),
            ("            if i >= num_stages - 1:\n", "            if i >= 0:\n"),
        ],
        {"loads ahead"},
    ),
    "loads after it multiplied": (
        "step05",
        "tilelang",
        SMALL,
        [
            (LOAD, ""),
            ("            for i in T.serial(k_", FIRST_LOAD + "            for i in T.serial(k_"),
            *EVERY_STEP,
            (STAGE_FREE, STAGE_FREE + NEXT_LOAD),
        ],
        {"loads ahead"},
    ),
    "four stages on two barriers": (
        "step05",
        "tilelang",
        SMALL,
        [
            ("load = i % num_stages", "load = i % ring"),
            ("stage = k % num_stages", "stage = k % ring"),
            ("A_shared[load, :, :], barrier=full[load]", "A_shared[load, :, :], barrier=full[load % 2]"),
            ("B_shared[load, :, :], barrier=full[load]", "B_shared[load, :, :], barrier=full[load % 2]"),
            ("T.mbarrier_arrive(full[load])", "T.mbarrier_arrive(full[load % 2])"),
            ("full[stage]", "full[stage % 2]"),
        ],
        {"stage barriers"},
    ),
    "two barriers, one in use": (
        "step05",
        "tilelang",
        SMALL,
        [("num_stages, ring = 2, 4", "num_stages, ring = 1, 4"), ("[1] * num_stages", "[1] * 2")],
        {"two stages used", "loads ahead"},
    ),
    "tiles row by row": (
        "step06",
        "tilelang",
        (1664, 1536, 64),
        [("swizzle_size=4", "swizzle_size=1")],
        {"tile order"},
    ),
    "tiles row by row, CuTe DSL": (
        "step06",
        "cute",
        (1664, 1536, 64),
        [
            ("shape = (tiles_M, (panel, tiles_N // panel))", "shape = (tiles_M, tiles_N)"),
            ("stride=(panel, (1, panel * tiles_M))", "stride=(tiles_N, 1)"),
        ],
        {"tile order"},
    ),
    "half of the CTAs take no tile": (
        "step06",
        "tilelang",
        (2048, 1280, 64),
        [
            ("num_workers=sm_count", "num_workers=66"),
            ("tiles.init(cta)", "tiles.init(cta + cta // 66 * 10000)"),
        ],
        {"a share for each CTA"},
    ),
    "half of the CTAs take no tile, CuTe DSL": (
        "step06",
        "cute",
        (2048, 1280, 64),
        [("range(cta, tiles_M * tiles_N, sm_count", "range(cta + cta // 66 * 10000, tiles_M * tiles_N, 66")],
        {"a share for each CTA"},
    ),
    "the store of a tile waited for at once": (
        "step06",
        "tilelang",
        (1664, 1536, 64),
        [(STORE_TILE, STORE_TILE + "                T.tma_store_wait(0)\n")],
        {"store under loads"},
    ),
    "every slice's store waited for before the next is filled": (
        "step10",
        "tilelang",
        PAIR,
        [("T.tma_store_wait(1)", "T.tma_store_wait(0)")],
        {"stores in flight"},
    ),
    "the same wait right after the store": (
        "step10",
        "tilelang",
        PAIR,
        [(STORE_SLICE, STORE_SLICE + "                        T.tma_store_wait(0)\n")],
        {"stores in flight"},
    ),
    "every slice's store waited for, CuTe DSL": (
        "step10",
        "cute",
        PAIR,
        [("cp_async_bulk_wait_group(1, read=True)", "cp_async_bulk_wait_group(0, read=True)")],
        {"stores in flight"},
    ),
    "registers given back by one warp": (
        "step07",
        "tilelang",
        SMALL,
        [
            (
                "                T.dec_max_nreg(40)\n                if thread < 32:\n",
                "                if thread < 32:\n                    T.dec_max_nreg(40)\n",
            )
        ],
        {"registers by warpgroup"},
    ),
    "registers given back by one warp, CuTe DSL": (
        "step07",
        "cute",
        SMALL,
        [
            ("            cute.arch.setmaxregister_decrease(40)\n", ""),
            (
                "            if warp_idx == 0:\n                for tile",
                "            if warp_idx == 0:\n                cute.arch.setmaxregister_decrease(40)\n"
                "                for tile",
            ),
        ],
        {"registers by warpgroup"},
    ),
    "a producer that waits for the epilogue": (
        "step07",
        "tilelang",
        MANY_TILES,
        [
            (
                "            it = T.alloc_var",
                "            out = T.alloc_barrier([1])\n            it = T.alloc_var",
            ),
            (
                "                        for k in T.serial(k_tiles):\n                            stage = it",
                "                        T.mbarrier_wait_parity(out, tiles.current_iter & 1 ^ 1)\n"
                "                        for k in T.serial(k_tiles):\n                            stage = it",
            ),
            (
                "                    T.tma_copy(D_shared, D[ms, ns])\n",
                "                    T.tma_copy(D_shared, D[ms, ns])\n"
                "                    if T.shuffle_elect(128):\n"
                "                        T.mbarrier_arrive(out)\n",
            ),
        ],
        {"loads in the epilogue"},
    ),
    "two stages of four": (
        "step08",
        "tilelang",
        SMALL,
        [
            ("num_stages = 4", "num_stages = 2"),
            ("full = T.alloc_barrier([1] * num_stages)", "full = T.alloc_barrier([1] * 4)"),
            ("empty = T.alloc_barrier([1] * num_stages)", "empty = T.alloc_barrier([1] * 4)"),
        ],
        {"four stages used"},
    ),
    "no group in flight for all its wait_group 1": (
        "step08",
        "tilelang",
        SMALL,
        [
            (
                "                        T.wait_wgmma(1)  # all",
                "                        T.wait_wgmma(1)\n                        T.wait_wgmma(0)  # all",
            )
        ],
        {"group in flight"},
    ),
    "no group in flight for all its wait_group 1, CuTe DSL": (
        "step08",
        "cute",
        SMALL,
        [
            (
                "                    warpgroup.wait_group(1)\n",
                "                    warpgroup.wait_group(1)\n                    warpgroup.wait_group(0)\n",
            )
        ],
        {"group in flight"},
    ),
    "a mask of one CTA": (
        "step09",
        "tilelang",
        SMALL,
        [("cluster_mask=0b11", "cluster_mask=0b01")],
        {"multicast shared"},
    ),
    "a mask of the CTA itself, CuTe DSL": (
        "step09",
        "cute",
        SMALL,
        [
            (
                "tma_partition(load_B, rank, pair, B_ring, B_tiles)",
                "tma_partition(load_B, 0, one, B_ring, B_tiles)",
            ),
            ("both = cutlass.Int16(0b11)", "both = cutlass.Int16(1 << rank)"),
            ("B, stage_B, tile_B, cluster)", "B, stage_B, tile_B, 1)"),
        ],
        {"multicast shared"},
    ),
    "multicast in a branch that is never taken": (
        "step09",
        "tilelang",
        SMALL,
        [
            (
                B_FOR_BOTH,
                B_ALONE + "                            if it < 0:\n" + textwrap.indent(B_FOR_BOTH, "    "),
            )
        ],
        {"multicast"},
    ),
    "a third warpgroup that does nothing": (
        "step10 from step09",
        "cute",
        MANY_TILES,
        AN_IDLE_WARPGROUP,
        {"two consumers"},
    ),
}


def lacks(step, artifact, schedule=0, ctas=None):
    """Names of what the artifact's run and PTX lack; the run's results must be right."""
    emulation, tried = emulated(artifact, torch.Generator().manual_seed(schedule), schedule, ctas)
    assert emulation.ok and tried.ok
    receipt, wanted = receipts.read_ptx(artifact.ptx), STEPS[step]
    return set(conditions.unmet(receipt, artifact, wanted.requires, wanted.forbids, emulation.facts))


# "every slice's store ..." lacks the same in the same DSL; the others are twins of a TileLang kernel, and a
# run's facts know no DSL
@pytest.mark.parametrize("name", LACKING)
def test_a_kernel_lacks_one_property_and_that_alone(name):
    step, dsl, size, edits, missing = LACKING[name]
    step, _, source = step.partition(" from ")
    artifact = compile_factory(plant(source or step, dsl, *edits), dsl, size)
    assert lacks(step, artifact, ctas=(0, 1) if size == MANY_TILES else None) == missing


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


ONE_STAGE_HELD = [
    ("num_stages = 4", "num_stages = 1"),
    ("                        T.mbarrier_arrive(empty[stage])\n", ""),
    (
        "                            )\n                T.tma_store_wait(0)\n",
        "                            )\n                        T.tma_store_wait(0)\n"
        "                        T.mbarrier_arrive(empty[stage])\n",
    ),
]  # a softmax whose only stage is given back once Y has been stored
BEFORE = "T.max(k, 1) - 1"
RESCALED = [
    (
        "scale[i] = scale_A[m + i, k] * scale_B[tiles.n_idx, k]\n",
        f"scale[i] = scale_A[m + i, {BEFORE}] * scale_B[tiles.n_idx, {BEFORE}] "
        "/ (scale_A[m + i, k] * scale_B[tiles.n_idx, k])\n"
        "                        for i, j in T.Parallel(block_M, block_N):\n"
        "                            part[i, j] *= scale[i]\n",
    ),
    ("T.clear(acc)", "T.clear(part)"),
    ("clear_accum=True", "clear_accum=False"),
    (
        "acc[i, j] += part[i, j] * scale[i]",
        "acc[i, j] = part[i, j] * scale_A[m + i, k] * scale_B[tiles.n_idx, k]",
    ),
]  # one sum over all of K, brought to each block's scales in turn: what its tensor core loses, it loses
# tasks: (the step or task whose solution it is, edits of it or a planted fault's name, size, CTAs)
TASKS_LACKING = {
    "256 x 128": ("task10a", "step10", [], PAIR, None),
    "K shared": ("task10b", "task10b", [("splits = 4", "splits = 1")], (256, 384, 576), None),
    "cut by TMA": ("task08a", "task08a", "task08a_moved_up", (459, 512, 192), None),
    "sums of one K block": ("task10c", "task10c", RESCALED, (128, 256, 256), (0,)),
    "rows ahead": ("task08b", "task08b", ONE_STAGE_HELD, (4800, 256), (0,)),
}


@pytest.mark.parametrize("name", TASKS_LACKING)
def test_a_kernel_lacks_the_idea_of_a_task(name):
    task, source, edits, size, ctas = TASKS_LACKING[name]
    row = steps.find(task)
    if isinstance(edits, str):
        gemm = load_planted(SOLUTIONS / "wrong" / "tasks" / "tilelang" / f"{edits}.py").gemm
    else:
        gemm = plant(source, "tilelang", *edits, wanted=steps.function_of(source))
    artifact = compile_factory(gemm, "tilelang", size, row.problem)
    emulation, tried = emulated(artifact, torch.Generator().manual_seed(0), 0, ctas, row.problem)
    assert tried.ok
    receipt = receipts.read_ptx(artifact.ptx)
    assert name in conditions.unmet(receipt, artifact, row.requires, row.forbids, emulation.facts)


def test_every_property_has_a_kernel_that_lacks_it():
    of_steps = {name for *_, missing in LACKING.values() for name in missing}
    assert of_steps | set(TASKS_LACKING) >= set(PROPERTIES)


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
    """It loses a share of the instructions, and half of the results; the words say what it needs and what was
    found.
    """
    artifact = compile_factory(plant("step05", "tilelang", *EVERY_STEP), "tilelang", SMALL)
    step, machine = replace(STEPS["step05"], emulated=((SMALL, None),)), Emulator()
    verdict = judge(step, "tilelang", machine, machine.run([Launch(SMALL, artifact)]))
    parts = {part.name: part for part in verdict.checks}
    wanted = len(STEPS["step05"].requires)
    assert parts["instructions"].passed is False
    assert parts["instructions"].points == pytest.approx(3 * (wanted - 1) / wanted)
    assert parts["results"].passed and parts["results"].points == 2
    assert "half the points" in parts["results"].detail
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

    verdict = check_gemm("step09", gemm, backend="compile")
    assert verdict.checks[2].passed  # a compiler's check sees one size
    machine = Emulator(schedules=(0,))
    launches = [
        Launch(size, compile_factory(gemm, "tilelang", size)) for size, _ in STEPS["step09"].emulated[:2]
    ]
    verdict = judge(STEPS["step09"], "tilelang", machine, [(launch, Answer(ok=True)) for launch in launches])
    part = verdict.checks[list(PARTS).index("instructions")]
    assert part.passed is False and part.points < 0.6 * part.max_points
    assert f"(at M, N, K = {' x '.join(map(str, launches[1].size))})" in part.card.told


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
    most = [SHARED_LIMIT // (128 * (plan.block_M + plan.block_N)) for plan in tiles]
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
    values = {}
    for line in source.splitlines():
        if line.startswith(("num_stages", "cluster", "block_M", "sm_count", "num_ctas")):
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
    assert "order was not looked at" in part.detail
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
