"""The course's own kernels in the emulator: solutions come out right and without a finding, wrong kernels
with theirs.
"""

import re
from dataclasses import replace
from functools import cache

import pytest
import torch

from course_utils.compile import load as loading
from course_utils.compile.factory import compile_factory
from course_utils.grading import cards
from course_utils.grading.gemm import judge
from course_utils.grading.refine import Wrong
from course_utils.grading.steps import STEPS
from course_utils.run import reference as results
from course_utils.run.backends import Compiler, Launch
from course_utils.run.emulator import emulate, worker
from course_utils.run.emulator.core.schedule import Schedule
from course_utils.run.protocol import Answer
from tests.compile.called import misplaced

EDGE = (264, 264, 72)  # less than a tile more than two tiles, than one, and than a K tile
SIZES = {"step01": (128, 128, 64), "step02": (128, 128, 320), "step11": EDGE}
SMALL = (256, 512, 320)  # five K tiles: an odd number, and more than the four stages of step 8
MANY_TILES = (1536, 1536, 192)  # 144 tiles of 128 x 128 for 132 CTAs: CTAs 0 to 11 have a second one
SEEDS = (0, 1, 3, 5, 13)  # they draw every character that a schedule can have


@cache
def compiled(path, dsl, size):
    return compile_factory(loading.load_factory(path), dsl, size)


def run(path, dsl, size, seed, ctas=None):
    artifact = compiled(path, dsl, size)
    A, B = results.inputs(*size, torch.Generator().manual_seed(seed), "cpu")
    D = torch.full((size[0], size[1]), results.POISON, dtype=torch.int16).view(torch.float16)
    result = emulate(artifact, {"A": A, "B": B, "D": D}, seed, ctas=ctas)
    return result, results.compare(D, A, B)


@pytest.mark.parametrize("step, dsl", [(step, dsl) for step in STEPS for dsl in ("tilelang", "cute")])
def test_solutions_are_right_on_any_schedule(step, dsl, pytestconfig):
    """The solved notebooks' checks hold them under seeds 0 and 1, at many tiles and for `make thorough` at
    every size; `make test` leaves TileLang's from step 6 on to that. Here is a size with few tiles, and one
    other seed, or for `make thorough` all.
    """
    seeds = SEEDS if pytestconfig.getoption("--thorough") else SEEDS[-1:]
    for seed in seeds:
        result, comparison = run(loading.solution_path(step, dsl), dsl, SIZES.get(step, SMALL), seed)
        assert result.finished and result.findings == []
        assert comparison.ok, comparison.causes


def test_seeds_draw_every_character():
    def characters(seeds):
        return {
            (name, getattr(Schedule(seed), name))
            for seed in seeds
            for name in ("land_early", "pieces", "slow_share", "turn")
        }

    assert characters(SEEDS) == characters(range(200))


def test_a_second_tile_of_persistent_ctas():
    """A few CTAs of a larger launch are enough for what one tile leaves to the next; the others' tiles stay
    unwritten.
    """
    result, comparison = run(
        loading.solution_path("step06", "tilelang"), "tilelang", MANY_TILES, 0, ctas=(0, 1)
    )
    assert result.finished and result.findings == []
    assert comparison.wrong == comparison.unwritten == (144 - 4) * 128 * 128


def test_the_trace_shows_who_did_what():
    result, _ = run(loading.solution_path("step07", "tilelang"), "tilelang", SMALL, 0)
    roles = {(span.role, span.kind) for span in result.spans}
    assert {
        ("producer", "TMA load"),
        ("consumer", "wgmma"),
        ("consumer", "epilogue"),
        ("consumer", "TMA store"),
    } <= roles
    assert {span.label for span in result.spans if span.kind == "wait"} >= {"full[0]", "full[1]"}
    assert {a.barrier for a in result.arrivals} == {"full[0]", "full[1]", "empty[0]", "empty[1]"}
    assert all(span.begin <= span.end <= result.executed for span in result.spans)


# Wrong kernel: (kinds of which every seed finds at least one, are the numbers wrong too: yes, no, or either)
NOTHING = frozenset()
WRONG = {
    # arithmetic: no schedule is at fault, the results are
    "accumulator_not_cleared": (MANY_TILES, NOTHING, True),
    "arrival_count": (SMALL, {"deadlock"}, True),
    "early_release": (SMALL, {"overwrite-while-read"}, None),
    "edge_tiles_left_out": (EDGE, NOTHING, True),
    "expect_bytes_short": (SMALL, {"expect-tx"}, True),
    "expect_bytes_too_many": (SMALL, {"deadlock"}, True),
    "fp16_accumulation": (SMALL, NOTHING, True),
    "full_cluster_barrier": (SMALL, {"expect-tx", "deadlock"}, True),
    "grid_one_short": (MANY_TILES, NOTHING, True),
    "half_tile_stored": (SMALL, NOTHING, True),
    "k_tail_left_out": (EDGE, NOTHING, True),
    "last_k_tile_skipped": (SMALL, NOTHING, True),
    "last_tile_kept": (EDGE, NOTHING, True),
    "last_tile_skipped": (SMALL, NOTHING, True),
    "missing_empty_wait": (SMALL, {"overwrite-before-use"}, None),
    "multicast_mask": (SMALL, {"cluster-rank"}, True),
    "no_cluster_sync": (SMALL, {"cluster-exit"}, None),
    "no_multicast": (SMALL, NOTHING, False),  # about speed: right numbers
    "no_phase_flip": (SMALL, {"read-before-load"}, None),
    "no_store_wait": (MANY_TILES, {"overwrite-while-read"}, None),
    "nothing_in_flight": (SMALL, NOTHING, False),  # about speed: right numbers
    "phase_restarts": (MANY_TILES, {"read-before-load", "deadlock"}, None),
    "plain_copies": (SMALL, NOTHING, False),  # about instructions: right numbers
    "register_budget": (SMALL, {"register-budget"}, True),
    "same_stage_loaded": (SMALL, {"overwrite-before-use", "uninitialised-read"}, None),
    "stage_restarts": (MANY_TILES, {"read-before-load"}, None),
    "store_overrun": (SMALL, {"overwrite-while-read"}, None),
    "swapped_barriers": (SMALL, {"deadlock"}, True),
    "swizzle_span": (SMALL, {"tensor-map"}, True),
    "wrong_initial_phase": (SMALL, {"deadlock"}, True),
}


# The same for CuTe DSL; ungrouped_modes does not compile.
WRONG_CUTE = {
    "accumulate_never_set_back": (MANY_TILES, NOTHING, True),
    "both_stages_on_one_parity": (
        SMALL,
        {"read-before-load", "overwrite-while-read", "barrier-overrun", "deadlock"},
        None,
    ),
    "consumer_group_of_one": (SMALL, {"phase-lapped", "overwrite-while-read", "barrier-overrun"}, None),
    "consumer_group_of_threads": (SMALL, {"deadlock"}, True),
    "edge_tiles_left_out": (EDGE, NOTHING, True),
    "k_tail_left_out": (EDGE, NOTHING, True),
    "load_never_advances": (SMALL, {"barrier-overrun", "overwrite-before-use"}, None),
    "multicast_mask": (SMALL, {"deadlock"}, True),
    "nested_elect": (SMALL, {"absent-lanes"}, True),
    "no_producer_tail": (SMALL, {"cluster-exit"}, None),
    "no_proxy_fence": (SMALL, {"proxy-fence"}, None),
    "padded_map": (EDGE, {"tensor-map"}, True),
    "registers_not_given_back": (SMALL, NOTHING, False),  # about speed: right numbers
    "same_half_loaded": (SMALL, {"uninitialised-read"}, None),
    "slice_of_the_cta": (SMALL, {"out-of-bounds"}, True),
    "swizzle_disagrees": (SMALL, NOTHING, True),  # arithmetic: no schedule is at fault, the results are
    "tx_count_long": (SMALL, {"deadlock"}, True),
    "tx_count_short": (SMALL, {"expect-tx"}, None),
}


# What the card of a wrong kernel quotes: the author's line that is to blame, as its beginning.
BLAMED = {
    "arrival_count": "empty = T.alloc_barrier([128]",
    "early_release": "T.mbarrier_arrive(empty[",
    "expect_bytes_too_many": "T.mbarrier_expect_tx(full",
    "full_cluster_barrier": "full = T.alloc_cluster_barrier(",
    "missing_empty_wait": "T.tma_copy(A[",
    "no_phase_flip": "T.mbarrier_wait_parity(full",
    "register_budget": "T.inc_max_nreg(240)",
    "same_stage_loaded": "T.tma_copy(B[ns, ks], B_shared[0,",
    "store_overrun": "T.copy(acc[",
    "swapped_barriers": "T.mbarrier_wait_parity(empty[",
    "wrong_initial_phase": "T.mbarrier_wait_parity(empty[",
    "both_stages_on_one_parity": "pipe.consumer_wait(",
    "consumer_group_of_threads": "pipe = pipeline.PipelineTmaAsync.create(",
    "load_never_advances": "pipe.producer_acquire(load)",
    "nested_elect": "cute.copy(load_A",
    "slice_of_the_cta": "cute.copy(store_D",
    "tx_count_long": "pipe = pipeline.PipelineTmaAsync.create(",
    "tx_count_short": "pipe = pipeline.PipelineTmaAsync.create(",
}


ADVISED = {"store_overrun": "`T.tma_store_wait(n)`", "early_release": "`T.wait_wgmma(n)`"}


@pytest.mark.parametrize(
    "dsl, table, besides",
    [("tilelang", WRONG, set()), ("cute", WRONG_CUTE, {"ungrouped_modes"})],
    ids=["tilelang", "cute"],
)
def test_the_table_has_every_wrong_kernel(dsl, table, besides):
    assert set(loading.planted(dsl)) == set(table) | besides


BOTH = [(dsl, name) for dsl, table in (("tilelang", WRONG), ("cute", WRONG_CUTE)) for name in table]


@pytest.mark.parametrize("dsl, name", [pytest.param(dsl, name, id=f"{name} {dsl}") for dsl, name in BOTH])
def test_wrong_kernels_get_their_finding(dsl, name, pytestconfig):
    size, expected, wrong = (WRONG if dsl == "tilelang" else WRONG_CUTE)[name]
    path = loading.planted(dsl)[name]
    # where numbers alone tell, all of them have to be there
    ctas = range(4) if size is MANY_TILES and expected else None
    file = f"kernel_{dsl}_step"
    artifact, planted = compiled(path, dsl, size), loading.load_planted(path)
    step, machine = replace(STEPS[planted.step], emulated=((size, None),)), Compiler()
    verdict = judge(step, dsl, machine, machine.run([Launch(size, artifact)]))
    assert [part.name for part in verdict.checks if part.passed is False] == (
        [] if planted.needs_gpu else [planted.fails]
    )
    assert ("" if planted.needs_gpu else planted.says) in verdict.diagnosis.lower()
    assert misplaced(artifact) == set()
    for seed in (0, 1) if expected and pytestconfig.getoption("--thorough") else (0,):
        result, comparison = run(path, dsl, size, seed, ctas)
        found = {finding.kind for finding in result.errors}
        if expected:
            assert found & expected, f"seed {seed}: {found}"
            answer = Answer(findings=tuple(map(worker.fields_of, result.errors)), finished=result.finished)
            card = cards.of_wrong(Wrong(answer.findings), answer, artifact)
            assert len(f"{card.text} {card.place} {card.code}".split()) <= cards.WORDS
            assert card.code.startswith(BLAMED.get(name, "")), card
            assert ADVISED.get(name, "") in card.told
            assert all(f.place.file.startswith(file) for f in result.errors if f.kind != "tensor-map")
        else:
            assert not found and result.finished
        if wrong is not None:
            assert comparison.ok != wrong


def test_a_conversion_that_was_lifted_out_of_its_loop_has_the_line_of_its_store():
    """With one K tile the loop that skips the last one never multiplies."""
    path = loading.planted("tilelang")["last_k_tile_skipped"]
    result, _ = run(path, "tilelang", (256, 512, 64), 0)
    (finding,) = result.errors
    assert finding.kind == "uninitialised-register" and finding.place.code == "T.copy(acc, D_shared)"


MUST_STAY = re.compile(
    r"^\s*(fence\.(proxy|mbarrier)|mbarrier\.(init|arrive|expect)|wgmma\.commit|barrier\.cluster|"
    r"cp\.async\.bulk\.(commit|wait))"
)


@pytest.mark.thorough
@pytest.mark.slow
def test_every_synchronisation_of_step_9_is_missed_when_it_is_gone():
    """Take one instruction out of the right kernel at a time: each time the emulator finds what it was
    for.
    """
    size = 2304, 2560, 192  # 180 tiles for 66 clusters: the CTAs that run here have three each
    artifact = compiled(loading.solution_path("step09", "tilelang"), "tilelang", size)
    tensors = {t.name: torch.zeros(t.shape, dtype=torch.float16) for t in artifact.tensors}
    lines = artifact.ptx.split("\n")
    unnoticed = []
    for number in (n for n, line in enumerate(lines) if MUST_STAY.match(line)):
        without = replace(artifact, ptx="\n".join([*lines[:number], "", *lines[number + 1 :]]))
        if not any(emulate(without, tensors, seed, ctas=(0, 1)).errors for seed in range(3)):
            unnoticed.append(lines[number].strip())
    assert not unnoticed
