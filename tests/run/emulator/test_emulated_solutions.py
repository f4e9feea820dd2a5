"""The course's own kernels in the emulator: solutions come out right and without a finding, wrong kernels
with theirs.
"""

import gc
import re
import weakref
from dataclasses import replace
from functools import cache, partial

import pytest
import torch

from course_utils.compile import load as loading
from course_utils.compile.factory import DSLS, compile_factory
from course_utils.compile.faults import kernels
from course_utils.grading import cards
from course_utils.grading.gemm import judge
from course_utils.grading.refine import Run, Wrong
from course_utils.grading.steps import STEPS
from course_utils.run import reference as results
from course_utils.run.backends import Compiler, Launch
from course_utils.run.emulator import emulate, worker
from course_utils.run.emulator.core import loop
from course_utils.run.emulator.core.schedule import Schedule
from course_utils.run.emulator.core.threads import CTA
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


@cache
def broken(wrong):
    return compile_factory(wrong.factory(), wrong.dsl, wrong.size)


def run(path, dsl, size, seed, ctas=None):
    return launched(compiled(path, dsl, size), size, seed, ctas)


def launched(artifact, size, seed, ctas=None):
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


# Plans of three consumers: a cluster of two and none, a width whose last chunk lies over the one before. Sizes
# hang over in both directions: with two K tiles, one, one row of tiles, and a cluster without a tile.
THREE = {
    "a deep K": ((392, 200, 584), (192, 96, 2, 4, 6)),
    "two K tiles, more CTAs than tiles": ((200, 168, 72), (192, 80, 1, 132, 12)),
    "one K tile": ((392, 104, 40), (192, 96, 1, 2, 1)),
    "one row of tiles": ((136, 200, 72), (192, 176, 2, 2, 6)),
    "fewer tiles than clusters": ((200, 104, 136), (192, 192, 2, 4, 6)),
}


@pytest.mark.parametrize("dsl", DSLS)
@pytest.mark.parametrize("words", THREE)
def test_three_consumers_are_right_at_every_edge(words, dsl):
    size, plan = THREE[words]
    factory = partial(loading.load_factory(loading.solution_path("step11", dsl)), plan=plan)
    artifact = compile_factory(factory, dsl, size)
    assert artifact.block == (512, 1, 1) and artifact.resources.spill_stores == 0
    result, comparison = launched(artifact, size, 5)
    assert result.finished and result.findings == []
    assert comparison.ok, comparison.causes


# Swapped roles, columns in eights, clusters that share A: sizes hang over in both directions.
NEW = {
    "swapped, columns in eights, B by turns": ("cute", (472, 264, 136), (128, 232, 2, 2, 8, True)),
    "swapped, three consumers, a deep K": ("cute", (200, 392, 584), (192, 88, 2, 4, 6, True)),
    "swapped, a shared A, one row of tiles": ("cute", (136, 520, 200), (256, 152, 2, 2, 5, True, True)),
    "a shared A, two K tiles": ("cute", (264, 520, 72), (256, 152, 2, 2, 5, False, True)),
    "a shared A, one K tile, fewer tiles than clusters": (
        "cute",
        (200, 88, 40),
        (128, 64, 2, 8, 8, False, True),
    ),
    "five stages and narrow chunks": ("cute", (520, 392, 136), (128, 200, 2, 4, 6, True)),
    "a shared A": ("tilelang", (264, 520, 136), (128, 224, 2, 2, 8, False, True)),
    "a shared A, three consumers, a deep K": ("tilelang", (392, 520, 584), (192, 144, 2, 4, 6, False, True)),
    "D of 256 rows under the next tile": ("tilelang", (304, 520, 200), (256, 144, 2, 2, 5)),
}


@pytest.mark.parametrize("words", NEW)
def test_new_plans_are_right_at_every_edge(words):
    dsl, size, plan = NEW[words]
    factory = partial(loading.load_factory(loading.solution_path("step11", dsl)), plan=plan)
    artifact = compile_factory(factory, dsl, size)
    assert artifact.resources.spill_stores < 64  # 256 x 152 leaves a thread hardly a register
    result, comparison = launched(artifact, size, 5)
    assert result.finished and result.findings == []
    assert comparison.ok, comparison.causes


def test_seeds_draw_every_character():
    def characters(seeds):
        return {
            (name, getattr(Schedule(seed), name))
            for seed in seeds
            for name in ("land_early", "pieces", "slow_share", "turn", "held")
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


def test_clusters_that_have_ended_are_let_go(monkeypatch):
    """A launch of many CTAs takes no more memory than one of few."""
    ctas, left = [], []

    def start(cta, former=CTA.start):
        ctas.append(weakref.ref(cta))
        former(cta)

    def run_all(machine, former=loop.run):
        finished = former(machine)
        gc.collect()
        left.extend(cta for cta in ctas if cta() is not None)
        return finished

    monkeypatch.setattr(CTA, "start", start)
    monkeypatch.setattr(loop, "run", run_all)
    run(loading.solution_path("step07", "tilelang"), "tilelang", SMALL, 0)
    assert len(ctas) > 1 and not left


def test_the_trace_shows_who_did_what():
    result, _ = run(loading.solution_path("step07", "tilelang"), "tilelang", SMALL, 0)
    roles = {(span.role, span.kind) for span in result.spans}
    work = {("consumer", kind) for kind in ("wgmma", "epilogue", "TMA store")}
    assert work | {("producer", "TMA load")} <= roles
    assert {span.label for span in result.spans if span.kind == "wait"} >= {"full[0]", "full[1]"}
    assert {a.barrier for a in result.arrivals} == {"full[0]", "full[1]", "empty[0]", "empty[1]"}
    assert all(span.begin <= span.end <= result.executed for span in result.spans)


WRONG = [one for dsl in DSLS for one in kernels(dsl).values() if one.fails != "compiles"]
# what the card's fold advises
ADVISED = {"store_overrun": "`T.tma_store_wait(n)`", "early_release": "`T.wait_wgmma(n)`"}


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.name} {wrong.dsl}")
def test_wrong_kernels_get_their_finding(wrong, pytestconfig):
    """Every seed finds one of its kinds; D is right, wrong, or either; the card quotes the line to blame."""
    dsl, size = wrong.dsl, wrong.size
    file = f"kernel_{dsl}_step"
    artifact = broken(wrong)
    step, machine = replace(STEPS[wrong.step], emulated=((size, None),)), Compiler()
    verdict = judge(step, dsl, machine, machine.run([Launch(size, artifact)]))
    assert [part.name for part in verdict.checks if part.passed is False] == (
        [] if wrong.needs_gpu else [wrong.fails]
    )
    assert wrong.needs_gpu or all(words in verdict.diagnosis.lower() for words in wrong.says)
    assert misplaced(artifact) == set()
    for seed in (0, 1) if wrong.finds and pytestconfig.getoption("--thorough") else (0,):
        result, comparison = launched(artifact, size, seed, wrong.ctas)
        found = {finding.kind for finding in result.errors}
        if wrong.finds:
            assert found & set(wrong.finds), f"seed {seed}: {found}"
            answer = Answer(findings=tuple(map(worker.fields_of, result.errors)), finished=result.finished)
            card = cards.of_wrong(Run(Launch(size, artifact), answer, Wrong(answer.findings)))
            assert len(f"{card.text} {card.place} {card.code}".split()) <= cards.WORDS
            if card.kind != "deadlock" or wrong.finds[0] == "deadlock":  # else it quotes the wait alone
                assert card.code.startswith(wrong.line), card
                assert ADVISED.get(wrong.name, "") in card.full_text
            assert all(f.place.file.startswith(file) for f in result.errors if f.kind != "tensor-map")
        else:
            assert not found and result.finished
        if wrong.right is not None:
            assert comparison.ok == wrong.right


def test_a_conversion_that_was_lifted_out_of_its_loop_has_the_line_of_its_store():
    """With one K tile the loop that skips the last one never multiplies."""
    wrong = replace(kernels("tilelang")["last_k_tile_skipped"], size=(256, 512, 64))
    result, _ = launched(broken(wrong), wrong.size, 0)
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
