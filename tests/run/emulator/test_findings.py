"""Each kind of finding, out of the smallest PTX that deserves it, and not out of its mended form."""

import random
from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from course_utils.cause import Cause
from course_utils.ptx.parser import parse
from course_utils.run.emulator import KINDS, EmulatorError, emulate
from course_utils.run.emulator.explain import overruns, words
from course_utils.run.emulator.explain.findings import Findings
from course_utils.run.emulator.isa.translate import Program
from course_utils.run.emulator.units.cp_async import waited_for
from course_utils.run.emulator.units.table import lower
from tests.run.emulator.kernels import by_thread_0, init, kernel, load_tile, own, tile_map, wait

A = ("A", (64, 64), "float16")
MAP = ("A", tile_map((64, 64), (64, 64)))
BYTES = 64 * 64 * 2
BARRIER = "add.s32 %r3, %r1, 8192;\n"
EXPECT = f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {BYTES};\n"
LOAD = EXPECT + load_tile("%r1", "%r3")


def run(artifact, seed=0, **tensors):
    arrays = {t.name: tensors.get(t.name, np.zeros(t.shape, t.dtype)) for t in artifact.tensors}
    return emulate(artifact, arrays, seed)


def kinds(artifact, seeds=(0, 1, 2)):
    """What is found on any of a few seeds, errors and warnings."""
    found = {}
    for seed in seeds:
        found.update({f.kind: f for f in run(artifact, seed).findings})
    return found


def tma(body, **options):
    return kernel(body, tensors=[A], maps=[MAP], **options)


def loaded(after, prologue=None):
    """One thread loads a tile to shared byte 0 with the barrier at 8,192; then ``after`` runs in every
    thread.
    """
    return tma((prologue or init(1)) + BARRIER + by_thread_0(LOAD, "LOADED") + after)


READ = "shl.b32 %r4, %r0, 2;\nadd.s32 %r4, %r4, %r1;\nld.shared.u32 %r5, [%r4];\n"
WRITE = "shl.b32 %r4, %r0, 2;\nadd.s32 %r4, %r4, %r1;\nst.shared.u32 [%r4], %r0;\n"
WAIT_0 = wait("[%r3]", 0, "FULL")


def test_a_load_that_is_waited_for_is_fine():
    assert kinds(loaded(WAIT_0 + READ)) == {}


def test_a_read_before_its_load_is_found_whatever_the_schedule():
    # the last two where a reader ran before the issuer
    ways = {"read-before-load", "uninitialised-read", "overwrite-while-read"}
    for seed in range(6):
        assert {f.kind for f in run(loaded(READ + WAIT_0), seed).errors} & ways
    assert "full[0]" in kinds(loaded(READ + WAIT_0), range(6))["read-before-load"].detail


def test_a_wait_for_the_wrong_parity_passes_at_once_and_is_found():
    assert "read-before-load" in kinds(loaded(wait("[%r3]", 1, "EARLY") + READ + WAIT_0))


def test_uninitialised_reads():
    assert set(kinds(kernel(init() + READ))) == {"uninitialised-read"}
    assert kinds(kernel(init() + WRITE + READ)) == {}


def test_a_read_of_another_warps_write_needs_a_barrier():
    other = READ.replace("%r0, 2", "%r6, 2")
    flip = "xor.b32 %r6, %r0, 32;\n"
    assert kinds(kernel(init() + WRITE + "bar.sync 0;\n" + flip + other)) == {}
    assert set(kinds(kernel(init() + WRITE + flip + other))) & {"read-before-write", "uninitialised-read"}


def test_deadlock_names_the_barrier_the_parity_and_what_is_missing():
    result = run(tma(init(1) + BARRIER + WAIT_0))
    (finding,) = result.findings
    assert not result.finished and finding.kind == "deadlock"
    assert finding.waiting[0]["parity"] == 0 and finding.waiting[0]["arrivals_missing"] == 1
    assert "its only arrival" in finding.detail and finding.waiting[0]["warps"] == [0, 1, 2, 3]


def test_deadlock_on_bytes_that_never_come():
    right = loaded(WAIT_0)
    finding = kinds(replace(right, ptx=right.ptx.replace(f"], {BYTES};", "], 16384;")))
    assert set(finding) == {"deadlock"} and "8,192 of 16,384 bytes" in finding["deadlock"].detail


def test_deadlock_at_a_named_barrier():
    finding = kinds(kernel(init() + "setp.gt.u32 %p2, %r0, 31;\n@%p2 bar.sync 1, 128;\n"))["deadlock"]
    assert "96 of 128 threads are, and no other warp comes to it" in finding.detail


def test_a_deadlock_leads_with_the_barrier_that_no_other_warp_comes_to():
    """Warp 0 waits for an arrival that comes after the others have met, and they meet at a barrier for four."""
    role = "setp.gt.u32 %p2, %r0, 31;\n@%p2 bra MEET;\n"
    meet = "bra END;\nMEET: bar.sync 1, 128;\nmbarrier.arrive.shared::cta.b64 _, [%r3];\nEND: ret;\n"
    waiting = init(1) + BARRIER + role + WAIT_0
    detail = kinds(tma(waiting + meet))["deadlock"].detail
    assert detail.startswith(
        "warps 1-3 wait at barrier 1 (bar.sync), where 96 of 128 threads are, and no other"
    )
    comes = tma(waiting + "bar.sync 1, 128;\n" + meet)  # warp 0 too, once its wait is over
    assert kinds(comes)["deadlock"].detail.startswith("warp 0 waits for full[0], parity 0")


def test_a_loop_without_effect_is_a_livelock():
    assert set(kinds(kernel("ROUND: bra ROUND;\n", threads=32), seeds=(0,))) == {"livelock"}


def test_bytes_that_nobody_expects():
    short = LOAD.replace(str(BYTES), "4096")
    found = kinds(tma(init(1) + BARRIER + by_thread_0(short) + WAIT_0))["expect-tx"]
    assert "expects 4,096 bytes, but loads of 8,192 bytes signal it" in found.detail
    assert any("a load: " in line for line in found.more)


def test_a_phase_that_ends_ahead_of_its_loads():
    """Bytes that a thread tells of and never brings stand for those of the load."""
    told = f"mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r3], {BYTES};\n"
    right = loaded(WAIT_0)
    early = right.ptx.replace("LOADED:\n", told + "LOADED:\n")
    found = kinds(replace(right, ptx=early))["expect-tx"]
    assert "completes while 8,192 bytes of its loads are still in flight" in found.detail


def test_all_threads_arrive_and_each_waits_for_the_phase_that_its_arrival_names():
    """The state that an arrival returns; the lanes of a warp are as many arrivals."""
    arrive = "mbarrier.arrive.shared::cta.b64 %rd20, [%r3];\n"
    by_state = "MET: mbarrier.try_wait.shared::cta.b64 %p9, [%r3], %rd20;\n@!%p9 bra MET;\n"
    other = "xor.b32 %r6, %r0, 32;\n" + READ.replace("%r0, 2", "%r6, 2")
    assert kinds(kernel(init(128) + BARRIER + WRITE + arrive + by_state + other), range(6)) == {}
    for seed in range(6):
        assert run(kernel(init(128) + BARRIER + WRITE + arrive + other), seed).errors


def test_too_many_arrivals():
    body = "mbarrier.expect_tx.shared::cta.b64 [%r3], 16;\nmbarrier.arrive.shared::cta.b64 _, [%r3];\n"
    assert "barrier-overrun" in kinds(tma(init(1) + BARRIER + body))


@pytest.mark.parametrize("count", (0, 1 << 20))
def test_counts_that_no_mbarrier_has(count):
    assert set(kinds(tma(init(count)))) == {"barrier-init-count"}


def test_an_address_that_is_no_mbarrier():
    assert "barrier-uninitialised" in kinds(tma(init() + BARRIER + WAIT_0))


def test_initialisation_must_be_visible():
    assert "barrier-init-race" in kinds(loaded("bar.sync 0;\n" + WAIT_0, init(1, fence=False)))
    arrival = "setp.ne.s32 %p1, %r0, 32;\n@!%p1 mbarrier.arrive.shared::cta.b64 _, [%r3];\n"
    unsynchronised = tma(init(1, sync=False) + BARRIER + arrival)
    assert set(kinds(unsynchronised, range(6))) & {"barrier-init-race", "barrier-uninitialised"}
    told = [finding.detail for seed in range(6) for finding in run(unsynchronised, seed).findings]
    assert any("nothing orders its initialisation before" in detail for detail in told)  # it ran before


def test_a_second_load_over_the_first_needs_an_empty_barrier():
    again = by_thread_0(LOAD, "AGAIN")
    assert "overwrite-before-use" in kinds(loaded(again))
    # a warp that is held back must have seen the first phase end before the second does
    assert kinds(loaded(WAIT_0 + "bar.sync 0;\n" + again + wait("[%r3]", 1, "SECOND"))) == {}


def test_a_generic_read_then_a_load_is_a_warning_where_a_barrier_orders_them_and_an_error_where_none_does():
    again = by_thread_0(LOAD, "AGAIN") + wait("[%r3]", 1, "SECOND")
    assert set(kinds(loaded(WAIT_0 + READ + "bar.sync 0;\n" + again))) == {"proxy-fence-overwrite"}
    assert kinds(loaded(WAIT_0 + READ + "fence.proxy.async.shared::cta;\nbar.sync 0;\n" + again)) == {}
    assert "overwrite-while-read" in kinds(loaded(WAIT_0 + READ + again), range(8))


STORE = (
    "mov.b64 %rd51, k_param_0;\ncp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd51, {0, 0}], "
    "[%r1];\n"
    "cp.async.bulk.commit_group;\n"
)
FILL = (
    "mov.b32 %r10, 0;\nFILLING: shl.b32 %r11, %r10, 9;\nshl.b32 %r4, %r0, 2;\nadd.s32 %r4, %r4, "
    "%r11;\nadd.s32 %r4, %r4, %r1;\n"
    "st.shared.u32 [%r4], %r0;\nadd.s32 %r10, %r10, 1;\nsetp.lt.s32 %p4, %r10, 16;\n@%p4 bra FILLING;\n"
)
FENCE, BAR, DONE = "fence.proxy.async.shared::cta;\n", "bar.sync 0;\n", "cp.async.bulk.wait_group.read 0;\n"


def stored(between, after=DONE):
    return tma(init() + FILL + between + by_thread_0(STORE, "STORED") + after)


@pytest.mark.parametrize("between", (FENCE + BAR, BAR + FENCE), ids=("by the writers", "by the issuer"))
def test_a_proxy_fence_before_or_after_the_barrier_counts(between):
    assert kinds(stored(between)) == {}


def test_a_store_of_what_threads_wrote_needs_a_proxy_fence_and_a_barrier():
    assert set(kinds(stored(BAR))) == {"proxy-fence"}
    ways = {"read-before-write", "uninitialised-read", "overwrite-while-read"}
    assert set(kinds(stored(FENCE), range(6))) <= ways
    assert all(run(stored(FENCE), seed).errors for seed in range(6))


COPIED = """mov.b32 %r10, 0;
ld.param.u64 %rd1, [k_param_1];
COPYING: shl.b32 %r11, %r10, 11;
shl.b32 %r4, %r0, 4;
add.s32 %r4, %r4, %r11;
cvt.u64.u32 %rd2, %r4;
add.s64 %rd2, %rd2, %rd1;
add.s32 %r4, %r4, %r1;
cp.async.cg.shared.global [%r4], [%rd2], 16;
add.s32 %r10, %r10, 1;
setp.lt.s32 %p4, %r10, 4;
@%p4 bra COPYING;
"""
ALL = "cp.async.wait_all;\n"


@pytest.mark.parametrize(
    "fill, how",
    [
        (FILL, "with ordinary stores, and no"),
        (COPIED + ALL, "with cp.async, and no"),
        (COPIED + ALL + BAR + FILL, "with ordinary stores, and no"),  # over what was copied
        (
            COPIED + by_thread_0("st.shared.u32 [%r1+9000], %r0;", "STORED_TOO") + ALL,
            "with cp.async, and no",
        ),  # and elsewhere
        (COPIED + ALL + BAR + "red.shared.add.u32 [%r1], 1;\n", "with atomics, and no"),
    ],
)
def test_what_wrote_without_a_proxy_fence_is_named(fill, how):
    body = init(first=12288) + fill + BAR + by_thread_0(STORE, "STORED") + DONE
    copies = kernel(body, tensors=[A, ("X", (4096,), "float16")], maps=[MAP], pointers=["X"], dynamic=16384)
    found = kinds(copies)
    assert set(found) == {"proxy-fence"} and how in found["proxy-fence"].detail
    fenced = replace(copies, ptx=copies.ptx.replace(BAR + "setp", FENCE + BAR + "setp"))
    assert kinds(fenced) == {}


def test_a_buffer_that_a_store_still_reads():
    assert "overwrite-while-read" in kinds(stored(FENCE + BAR, WRITE + DONE))
    assert kinds(stored(FENCE + BAR, DONE + BAR + WRITE)) == {}


def test_a_wait_by_another_thread_than_the_issuer_covers_nothing():
    other = "setp.ne.s32 %p5, %r0, 1;\n@%p5 bra WAITED;\n" + DONE + "WAITED:\n" + BAR + WRITE
    assert {"overwrite-while-read", "exit-in-flight"} <= set(kinds(stored(FENCE + BAR, other)))


def test_a_wait_covers_all_groups_but_the_newest():
    groups = ["a", "b", "c"]
    assert [waited_for(groups, left) for left in range(6)] == [groups, ["a", "b"], ["a"], [], [], []]


@pytest.mark.parametrize("left, safe", [(0, True), (1, True), (2, False), (3, False)])
def test_a_wait_for_all_but_more_groups_than_there_are_covers_none(left, safe):
    # a store's, an empty one
    wait_for = f"cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read {left};\n"
    found = kinds(stored(FENCE + BAR, wait_for + BAR + WRITE + DONE))
    assert found == {} if safe else set(found) == {"overwrite-while-read"}


UNCOMMITTED = "no cp.async.bulk.commit_group put it in a group, so no wait covers it"


def test_a_store_in_no_committed_group_is_told_from_one_that_nobody_waits_for():
    late = stored(FENCE + BAR, DONE + BAR + WRITE)
    never = replace(late, ptx=late.ptx.replace("cp.async.bulk.commit_group;\n", ""))
    found = kinds(never)
    assert set(found) == {"overwrite-while-read", "exit-in-flight"}
    assert all(finding.detail.endswith(UNCOMMITTED) for finding in found.values())
    assert "cp.async.bulk.tensor" in found["overwrite-while-read"].place.ptx
    assert UNCOMMITTED not in kinds(stored(FENCE + BAR, ""))["exit-in-flight"].detail
    assert UNCOMMITTED not in kinds(stored(FENCE + BAR, WRITE + DONE))["overwrite-while-read"].detail


def test_two_ctas_that_store_the_same_elements():
    alone = stored(FENCE + BAR)
    found = kinds(replace(alone, grid=(2, 1, 1)))
    assert set(found) == {"stored-twice"}
    assert "CTAs 0 and 1 both store A[0:64, 0:64]; the grid has 2 CTAs" in found["stored-twice"].detail
    pair = kinds(replace(alone, grid=(2, 1, 1), cluster=(2, 1, 1)))
    assert "they are one cluster" in pair["stored-twice"].detail
    own = alone.ptx.replace("[%rd51, {0, 0}]", "[%rd51, {0, %r20}]")
    own = own.replace("mov.b64 %rd51", "mov.u32 %r20, %ctaid.x;\nshl.b32 %r20, %r20, 6;\nmov.b64 %rd51")
    assert kinds(replace(alone, ptx=own, grid=(2, 1, 1))) == {}


@pytest.mark.parametrize("shift, twice", [(2, False), (1, True)])
def test_two_ctas_that_store_the_same_elements_by_threads(shift, twice):
    """256 bytes in each CTA's 128 threads: their own 512, or half of the next one's."""
    body = f"""
mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
shl.b32 %r1, %r1, {5 + shift};
add.s32 %r0, %r0, %r1;
{own(0, 4)}st.global.u32 [%rd1], %r0;
"""
    found = kinds(kernel(body, tensors=[A], pointers=["A"], grid=(2, 1, 1)))
    assert set(found) == ({"stored-twice"} if twice else set())
    assert not twice or "both store A[" in found["stored-twice"].detail


def test_two_loads_of_one_phase_over_each_other():
    first = loaded(WAIT_0)
    again = load_tile("%r1", "%r3")
    twice = replace(first, ptx=first.ptx.replace(again, again + again).replace(f"], {BYTES};", "], 16384;"))
    found = kinds(twice)
    assert set(found) == {"load-twice"} and "one phase of full[0]" in found["load-twice"].detail
    other = again + again.replace("[%r1]", "[%r7]")
    apart = first.ptx.replace(again, "add.s32 %r7, %r1, 16384;\n" + other)
    apart = apart.replace(f"], {BYTES};", "], 16384;")
    assert kinds(replace(first, ptx=apart, dynamic_shared=24576)) == {}


@pytest.mark.parametrize(
    "place, kind", [(0, "overwrite-before-use"), (1024, "ring-overrun"), (16384, "")], ids=str
)
def test_the_load_of_another_stage_over_a_load(place, kind):
    """Stage 1 in the slot of stage 0, past a ring of one slot, and in a slot of its own."""
    second = (
        "add.s32 %r7, %r3, 8;\n"
        + EXPECT.replace("%r3", "%r7")
        + f"add.s32 %r8, %r1, {place};\n"
        + load_tile("%r8", "%r7")
    )
    body = by_thread_0(LOAD + second)
    waits = WAIT_0 + "add.s32 %r7, %r3, 8;\n" + wait("[%r7]", 0, "OTHER")
    begin = init(1, 1, first=12288) + BARRIER.replace("8192", "12288")
    found = kinds(tma(begin + body + waits, dynamic=24576))
    assert set(found) == ({kind} if kind else set())
    assert not kind or "loads over the bytes of full[0]: this load of A is for full[1]" in found[kind].detail


def test_a_store_of_another_buffer_than_the_one_written():
    far = STORE.replace("[%r1]", "[%r7]")
    body = "add.s32 %r7, %r1, 16384;\n" + by_thread_0(far) + DONE
    found = kinds(tma(init(first=32768) + FILL + FENCE + BAR + body, dynamic=40000))
    assert set(found) == {"stale-store", "uninitialised-read"}
    assert "reads shared bytes 16,384-24,576" in found["stale-store"].detail
    assert "written 0-8,192" in found["stale-store"].detail


def test_a_cta_must_outlive_its_transfers():
    assert set(kinds(stored(FENCE + BAR, ""))) == {"exit-in-flight"}
    assert "exit-in-flight" in kinds(loaded(""))


def test_bounds_name_the_tensor_and_the_index():
    body = f"mov.u32 %r0, %tid.x;\n{own(0, 130)}ld.global.u16 %rs1, [%rd1];\n"
    finding = kinds(kernel(body, tensors=[A], pointers=["A"]))["out-of-bounds"]
    assert "A (row 65, column 0)" in finding.detail and "64 x 64" in finding.detail
    shared = kinds(kernel("mov.b32 %r1, smem;\nst.shared.u32 [%r1+16384], %r1;\n"))
    assert set(shared) == {"out-of-bounds"}


@pytest.mark.parametrize("shapes", [*product([(64,), (8, 8), (2, 4, 8)], repeat=3)])
def test_an_access_outside_is_told_for_every_rank_in_every_place(shapes):
    names = ("X", "Y", "s")
    tensors = [(name, shape, "float32") for name, shape in zip(names, shapes, strict=True)]
    for i, (name, shape) in enumerate(zip(names, shapes, strict=True)):
        body = f"ld.param.u64 %rd1, [k_param_{i}];\nld.global.u32 %r1, [%rd1+{64 * 4}];\n"
        for grid in ((1, 1, 1), (4, 1, 1)):
            finding = kinds(kernel(body, tensors=tensors, pointers=names, grid=grid), (0,))["out-of-bounds"]
            assert f"element 64 of {name}" in finding.detail
            assert f"the shape {' x '.join(map(str, shape))}" in finding.detail
            assert ("row 8, column 0" in finding.detail) == (len(shape) == 2)
            assert len(shape) == 2 or "layout" not in finding.detail


def test_a_fault_in_words_leaves_the_finding():
    findings = fresh_findings()
    finding = findings.find(Cause("out-of-bounds", "a case without a sentence"), -1)
    with pytest.warns(RuntimeWarning, match="words failed"):
        assert finding.detail == "out of bounds: the emulator has no words for this case"
    assert list(findings.found.values()) == [finding]


def fresh_findings():
    """The findings of a launch that has not begun."""
    artifact = kernel("ret;\n")
    program = Program(parse(artifact.ptx, "k"), lower)
    launch = SimpleNamespace(program=program, artifact=artifact)
    launch.unit = lambda kind: kind(launch)
    return Findings(launch)


def test_alignment():
    vector = "mov.b32 %r1, smem;\nst.shared.v4.u32 [%r1+8], {%r1, %r1, %r1, %r1};\n"
    assert set(kinds(kernel(vector))) == {"misaligned"}
    assert "misaligned" in kinds(tma(init(1) + BARRIER + "add.s32 %r7, %r1, 64;\n" + load_tile("%r7", "%r3")))
    body = init(1) + BARRIER + by_thread_0(EXPECT + "add.s32 %r7, %r1, 128;\n" + load_tile("%r7", "%r3"))
    assert set(kinds(tma(body.replace("8192;", "12288;") + WAIT_0))) >= {"swizzle-alignment"}


def test_a_map_that_the_driver_refuses():
    bad = kernel(init(), tensors=[A], maps=[("A", tile_map((64, 64), (64, 128)))])
    assert set(kinds(bad)) == {"tensor-map"}


def test_named_barriers_that_disagree():
    body = (
        "setp.gt.u32 %p2, %r0, 63;\n@%p2 bra HIGH;\nbar.sync 1, 64;\nbra MET;\nHIGH: bar.sync 1, 96;\nMET:\n"
    )
    assert "named-barrier" in kinds(kernel(init() + body, threads=160), range(6))
    assert set(kinds(kernel(init() + "bar.sync 1, 100;\n"))) == {"named-barrier"}
    few = "setp.lt.u32 %p2, %r0, 27;\n@%p2 bra MET;\nbarrier.sync 1, 64;\nMET: mov.u32 %r2, 0;\n"
    told = [kinds(kernel(init() + few, threads=96), (seed,))["named-barrier"].detail for seed in range(6)]
    assert any("69 threads came to" in detail for detail in told)


def test_registers():
    assert "setmaxnreg-count" in kinds(kernel("setmaxnreg.inc.sync.aligned.u32 36;\n"))
    many = kernel("setmaxnreg.inc.sync.aligned.u32 240;\n", threads=384, registers=168)
    assert set(kinds(many)) == {"register-budget"}


def exchanged(threads, registers, given, taken):
    """The first warpgroup goes down to ``given`` registers, the others up to ``taken``."""
    body = f"""mov.u32 %r0, %tid.x;
setp.gt.u32 %p1, %r0, 127;
@%p1 bra CONSUMER;
setmaxnreg.dec.sync.aligned.u32 {given};
bra END;
CONSUMER: setmaxnreg.inc.sync.aligned.u32 {taken};
END:
"""
    return kernel(body, threads=threads, registers=registers)


@pytest.mark.parametrize(
    "launch, given, taken, fits",
    [
        ((512, 128), 32, 160, True),  # all 65,536 of an SM, as on an H200
        ((512, 128), 40, 160, False),
        ((384, 168), 40, 232, True),
        ((384, 168), 40, 240, False),
        ((384, 165), 40, 232, True),  # registers are allotted in eights
        ((256, 128), 24, 232, True),
        ((256, 128), 32, 232, False),  # nobody has the registers that were never launched
        ((256, 232), 40, 232, True),
        ((160, 104), 24, 240, True),  # a warpgroup, and a warp
        ((160, 104), 24, 248, True),
        ((160, 96), 96, 104, False),
    ],
)
def test_setmaxnreg_moves_the_registers_of_the_launch_and_adds_none(launch, given, taken, fits):
    found = kinds(exchanged(*launch, given, taken))
    assert set(found) == (set() if fits else {"register-budget"})
    if not fits:
        threads, each = launch
        detail = found["register-budget"].detail
        assert f"a CTA has {threads * each:,} at launch: {threads} x {each}" in detail
        assert f"requests {128 * given + (threads - 128) * taken:,} registers in all" in detail


@pytest.mark.parametrize("given, taken", [(240, 232), (40, 160)])
def test_setmaxnreg_goes_one_way(given, taken):
    """PTX ISA: dec to more than a warp has, and inc to fewer, are undefined."""
    (finding,) = kinds(exchanged(256, 232, given, taken), (0,)).values()
    assert finding.kind == "setmaxnreg-count" and finding.detail.endswith("232")


def test_a_setmaxnreg_that_ptxas_leaves_out_asks_for_nothing():
    greedy = exchanged(256, 64, 40, 232)
    assert set(kinds(greedy)) == {"register-budget"}
    warned = replace(greedy.resources, warnings=("(C7508) 'setmaxnreg' ignored; unable to determine",))
    assert kinds(replace(greedy, resources=warned)) == {}


def test_ptx_that_nobody_has_assembled_may_have_all_registers_at_launch():
    assert kinds(exchanged(512, 0, 32, 160)) == {} == kinds(exchanged(256, 0, 40, 232))
    assert set(kinds(exchanged(512, 0, 40, 160))) == {"register-budget"}


def test_a_trap_and_the_source_line():
    artifact = kernel(".loc 1 2 0\ntrap;\n", source="first\n  assert(false);\n")
    (finding,) = run(artifact).findings
    assert finding.kind == "trap" and finding.place.ptx.endswith("trap")
    named = replace(artifact, ptx=artifact.ptx + '\n.file 1 "/somewhere/kernel.cu"\n')
    assert run(named).findings[0].place.generated == "kernel.cu:2: assert(false);"


REMOTE = (
    "mapa.shared::cluster.u32 %r20, %r3, 1;\nmov.u32 %r21, %cluster_ctarank;\nsetp.eq.s32 %p6, %r21, 0;\n"
    "setp.eq.s32 %p7, %r0, 0;\nand.pred %p8, %p6, %p7;\n@%p8 mbarrier.arrive.shared::cluster.b64 _, [%r20];\n"
)
MEET = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"


def test_a_cta_that_may_leave_its_cluster():
    options = {"cluster": (2, 1, 1), "grid": (2, 1, 1)}
    assert kinds(tma(init(1) + MEET + BARRIER + REMOTE + MEET, **options), range(6)) == {}
    early = tma(init(1) + MEET + BARRIER + REMOTE, **options)
    for seed in range(6):
        assert "cluster-exit" in {f.kind for f in run(early, seed).findings}
    far = (init(1) + MEET + BARRIER + REMOTE + MEET).replace("%r3, 1;", "%r3, 2;")
    assert "cluster-rank" in kinds(tma(far, **options))


def test_a_remote_store_is_done_where_its_barrier_is_waited_for():
    """st.async ends with the phase of its mbarrier: the CTA that has waited for that may leave."""
    send = """mapa.shared::cluster.u32 %r22, %r1, 1;
@%p8 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r20], 4;
@%p8 st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r22], %r0, [%r20];
"""
    body = init(1) + MEET + BARRIER + REMOTE[: REMOTE.index("@%p8")] + send
    take = "@%p6 bra END;\n" + wait("[%r3]", 0, "SENT") + "END:\n"
    options = {"cluster": (2, 1, 1), "grid": (2, 1, 1)}
    assert kinds(tma(body + take, **options), range(6)) == {}
    for seed in range(6):
        assert "cluster-exit" in {f.kind for f in run(tma(body, **options), seed).findings}
    unready = tma(init(1) + BARRIER + REMOTE + MEET, **options)
    assert set(kinds(unready, range(8))) & {"barrier-init-race", "barrier-uninitialised"}


ACCUMULATOR = ", ".join(f"%f{i}" for i in range(4))
DESCRIPTORS = "mov.b32 %r30, smem;\nshr.u32 %r30, %r30, 4;\ncvt.u64.u32 %rd30, %r30;\nor.b64 %rd30, %rd30, 4611686293305294848;\n"
MULTIPLY = (
    f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {{{ACCUMULATOR}}}, %rd30, %rd30, 0, 1, 1, 0, 0;\n"
)
WG_FENCE, COMMIT = "wgmma.fence.sync.aligned;\n", "wgmma.commit_group.sync.aligned;\n"
WG_WAIT = "wgmma.wait_group.sync.aligned 0;\n"
USE = "add.f32 %f10, %f0, %f1;\n"


READY = init() + FILL + FENCE + BAR + DESCRIPTORS  # to multiply


def multiplied(after, before=WG_FENCE, fill=FILL + FENCE + BAR):
    return kernel(init() + fill + DESCRIPTORS + before + MULTIPLY + after)


def test_clusters_that_take_turns_have_accumulators_of_their_own():
    """Each of two CTAs waits for the other while its wgmma may still run."""
    turn = (
        "ld.param.u64 %rd1, [k_param_0];\nmov.u32 %r40, %ctaid.x;\nxor.b32 %r41, %r40, 1;\nmov.u32 %r42, 1;\n"
        "mul.wide.u32 %rd2, %r40, 4;\nadd.s64 %rd3, %rd1, %rd2;\nmul.wide.u32 %rd2, %r41, 4;\n"
        "add.s64 %rd4, %rd1, %rd2;\nsetp.ne.u32 %p4, %r0, 0;\n@%p4 bra TOLD;\n"
        "st.release.gpu.global.u32 [%rd3], %r42;\nPOLL:\nld.acquire.gpu.global.u32 %r43, [%rd4];\n"
        "setp.eq.u32 %p5, %r43, 0;\n@%p5 bra POLL;\nTOLD:\n"
    )
    body = READY + WG_FENCE + MULTIPLY + COMMIT + turn + BAR + WG_WAIT + USE
    both = kernel(body, tensors=[("F", (2,), "int32")], pointers=["F"], grid=(2, 1, 1))
    assert kinds(both, range(4)) == {}


def test_accumulators_belong_to_wgmma_until_the_wait():
    assert kinds(multiplied(COMMIT + WG_WAIT + USE)) == {}
    assert set(kinds(multiplied(COMMIT + USE + WG_WAIT))) == {"accumulator-before-wait"}
    assert set(kinds(multiplied(WG_WAIT + USE + COMMIT))) == {"accumulator-before-wait"}
    words = "no wgmma.commit_group put it in a group, so no wait covers it"
    assert words in kinds(multiplied(WG_WAIT + USE + COMMIT))["accumulator-before-wait"].detail
    assert words not in kinds(multiplied(COMMIT + USE + WG_WAIT))["accumulator-before-wait"].detail
    assert words in kinds(multiplied(WG_WAIT + BAR + WRITE))["overwrite-while-read"].detail
    cleared = multiplied(COMMIT + "mov.f32 %f0, 0f00000000;\n" + WG_WAIT + USE)
    assert set(kinds(cleared)) == {"accumulator-before-wait"}


def test_an_accumulator_that_nobody_wrote():
    adds = MULTIPLY.replace("%rd30, 0, 1", "%rd30, 1, 1")
    assert set(kinds(kernel(READY + WG_FENCE + adds + COMMIT + WG_WAIT))) == {"accumulator-uninitialised"}
    cleared = "".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(4))
    assert kinds(kernel(READY + cleared + WG_FENCE + adds + COMMIT + WG_WAIT + USE)) == {}
    assert kinds(kernel(READY + WG_FENCE + MULTIPLY + adds + COMMIT + WG_WAIT + USE)) == {}


LANE = """mov.u32 %r0, %tid.x;
ld.param.u64 %rd1, [k_param_0];
mov.b32 %r21, smem;
and.b32 %r20, %r0, 1;
setp.eq.s32 %p1, %r20, 1;
setp.eq.s32 %p2, %r0, %r0;
setp.ne.s32 %p3, %r0, %r0;
setp.eq.s32 %p4, %r7, 0;
"""
KEEP = "st.global.b32 [%rd1], %r1;\n"
SHUFFLED = "shfl.sync.bfly.b32 %r9, %r7, 1, 31, -1;\n"


@pytest.mark.parametrize(
    "body, at_fault",
    [
        ("add.s32 %r1, %r7, 1;\n", False),  # its result counts nowhere
        ("add.s32 %r1, %r7, 1;\n" + KEEP, True),
        ("add.s32 %r1, %r7, 1;\nselp.b32 %r1, -1, %r1, %p1;\n@%p1 " + KEEP, False),
        ("selp.b32 %r1, %r7, %r0, %p1;\n@!%p1 " + KEEP, False),
        ("selp.b32 %r1, %r7, %r0, %p2;\n" + KEEP, True),
        ("and.pred %p4, %p4, %p2;\n@%p4 bra END;\nEND:\n", True),
        ("and.pred %p4, %p4, %p3;\n@%p4 bra END;\nEND:\n", False),
        ("or.pred %p4, %p4, %p2;\n@%p4 bra END;\nEND:\n", False),
        ("or.pred %p4, %p4, %p3;\n@%p4 bra END;\nEND:\n", True),
        ("@%p4 add.s32 %r1, %r0, 1;\n", True),
        ("bfi.b32 %r1, %r0, %r7, 0, 8;\nand.b32 %r1, %r1, 255;\n" + KEEP, False),
        ("and.b32 %r1, %r7, 255;\n" + KEEP, True),
        ("add.s32 %r1, %r7, %r21;\nld.shared.b32 %r2, [%r1];\n", True),
        ("@%p1 bra ODD;\nmov.b32 %r7, 1;\nODD:\nadd.s32 %r1, %r7, 1;\n@!%p1 " + KEEP, False),
        (
            ".local .align 8 .b8 depot[8];\nmov.u64 %rd5, depot;\nst.local.v2.b32 [%rd5], {%r7, %r0};\n"
            "ld.local.b32 %r1, [%rd5+4];\n" + KEEP,
            False,
        ),
        ("st.shared.v2.b32 [%r21], {%r7, %r0};\nld.shared.b32 %r1, [%r21+4];\n" + KEEP, False),
        ("@%p1 st.shared.b32 [%r21+4], %r7;\n", False),
        # what lanes exchange is carried: a row past the end is shuffled, and dropped
        (SHUFFLED + "selp.b32 %r1, %r0, %r9, %p2;\n" + KEEP, False),
        (SHUFFLED + "add.s32 %r1, %r9, %r0;\n" + SHUFFLED.replace("%r7", "%r1") + "@%p3 " + KEEP, False),
        (SHUFFLED + "add.s32 %r1, %r9, %r0;\n" + KEEP, True),
        (SHUFFLED + "add.s32 %r1, %r9, %r21;\nld.shared.b32 %r2, [%r1];\n", True),
        (SHUFFLED + "setp.eq.s32 %p6, %r9, 0;\n@%p6 bra END;\nEND:\n", True),
        ("shfl.sync.down.b32 %r9|%p6, %r7, 16, 31, -1;\n@%p6 mov.b32 %r1, 1;\n@%p6 " + KEEP, False),
        ("shfl.sync.idx.b32 %r1, %r0, %r7, 31, -1;\n", True),  # a lane is an address
        ("redux.sync.add.s32 %r1, %r7, -1;\n@%p3 " + KEEP, False),
        ("redux.sync.add.s32 %r1, %r7, -1;\n" + KEEP, True),
        ("vote.sync.ballot.b32 %r1, %p4, -1;\nselp.b32 %r1, %r0, %r1, %p2;\n" + KEEP, False),
        ("vote.sync.any.pred %p6, %p4, -1;\n@%p6 bra END;\nEND:\n", True),
    ],
)
def test_a_register_that_nothing_has_written_counts_where_its_value_does(body, at_fault):
    """PTX leaves its bits open, so compilers compute with it ahead of the test that discards the result."""
    found = run(kernel(LANE + body, tensors=[("Y", (32,), "int32")], pointers=["Y"], threads=32))
    assert {f.kind for f in found.findings} == ({"uninitialised-register"} if at_fault else set())
    assert found.finished is not at_fault
    for finding in found.findings:
        assert finding.more == ("the register: %r7",)


ROWS = f"""mov.u32 %r0, %tid.x;
mov.b32 %r1, smem;
shl.b32 %r4, %r0, 2;
add.s32 %r4, %r4, %r1;
{own(0, 4, "%rd0")}setp.lt.u32 %p1, %r0, 20;
@%p1 st.shared.b32 [%r4], %r0;
"""
STAGED = "ld.shared.b32 %r5, [%r4];\n"
SCALED = "mov.b32 %f1, %r5;\nmul.f32 %f1, %f1, 0f00000000;\nmov.b32 %r5, %f1;\n"


@pytest.mark.parametrize(
    "body, at_fault",
    [
        (STAGED + "@%p1 st.global.b32 [%rd0], %r5;\n", False),  # rows beyond the end, which nobody stores
        (STAGED + "selp.b32 %r5, %r5, %r0, %p1;\nst.global.b32 [%rd0], %r5;\n", False),
        (STAGED + "st.global.b32 [%rd0], %r5;\n", True),
        (STAGED + "max.s32 %r5, %r5, 1;\nst.global.b32 [%rd0], %r5;\n", True),  # hides a negative number
        (STAGED + SCALED + "st.global.b32 [%rd0], %r5;\n", True),  # and a product with 0 all but NaN
        ("st.shared.b32 [%r4], %r7;\n" + STAGED + "st.global.b32 [%rd0], %r5;\n", True),
    ],
)
def test_shared_memory_that_nothing_has_written_counts_where_what_is_stored_hangs_on_it(body, at_fault):
    Y = np.full(32, 7, np.int32)
    found = run(kernel(ROWS + body, tensors=[("Y", (32,), "int32")], pointers=["Y"], threads=32), Y=Y)
    assert {f.kind for f in found.findings} == ({"uninitialised-read"} if at_fault else set())
    assert found.finished and (at_fault or (Y[:20] == np.arange(20)).all())


def test_what_shared_memory_holds_of_a_register_without_a_value_counts_where_it_is_read():
    store = "st.shared.b32 [%r1], %r7;\n" + FENCE + BAR
    (finding,) = kinds(tma(init() + store + by_thread_0(STORE) + DONE)).values()
    assert finding.kind == "uninitialised-register" and "st.shared.b32 [%r1], %r7" in finding.place.ptx
    assert set(kinds(kernel(init() + store + "ld.shared.b32 %r5, [%r1];\n"))) == {"uninitialised-read"}


def test_wgmma_needs_its_fences_and_its_operands_whole():
    assert set(kinds(multiplied(COMMIT + WG_WAIT, before=""))) == {"wgmma-fence"}
    assert set(kinds(multiplied(COMMIT + WG_WAIT, fill=FILL + BAR))) == {"proxy-fence"}
    assert "overwrite-while-read" in kinds(multiplied(COMMIT + WRITE + WG_WAIT))
    assert kinds(multiplied(COMMIT + WG_WAIT + BAR + WRITE)) == {}
    again = COMMIT + MULTIPLY + COMMIT  # reads the same bytes, in the group after
    assert kinds(multiplied(again + WG_WAIT + BAR + WRITE)) == {}
    one_left = BAR + WG_WAIT.replace(" 0;", " 1;") + BAR + WRITE + WG_WAIT
    assert set(kinds(multiplied(again + one_left))) == {"overwrite-while-read"}


def test_wgmma_is_one_operation_of_four_warps():
    tilted = "and.b32 %r31, %r0, 32;\ncvt.u64.u32 %rd31, %r31;\nadd.s64 %rd30, %rd30, %rd31;\n"
    assert set(kinds(multiplied(COMMIT + WG_WAIT, tilted + WG_FENCE))) == {"wgmma-mismatch"}
    three = "setp.gt.u32 %p2, %r0, 95;\n@%p2 bra MISSED;\n"
    found = kinds(multiplied(COMMIT + WG_WAIT + "MISSED:\n", three + WG_FENCE))
    assert "3 of the 4 warps" in found["deadlock"].detail
    lane = "setp.gt.u32 %p2, %r0, 4;\n@%p2 bra MISSED;\n"
    assert set(kinds(kernel(init() + DESCRIPTORS + lane + WG_FENCE + MULTIPLY + "MISSED:\n"))) == {"aligned"}


def test_a_descriptor_that_points_outside():
    far = DESCRIPTORS + "add.s64 %rd30, %rd30, 8192;\n"
    assert set(kinds(kernel(init() + far + WG_FENCE + MULTIPLY + COMMIT + WG_WAIT))) == {"wgmma-descriptor"}


def test_a_waiter_that_is_lapped():
    """Warp 1 waits for phase 0, and warp 0 ends phases 0 and 1 without waiting for anyone."""
    body = """
setp.eq.s32 %p1, %r0, 0;
setp.gt.u32 %p2, %r0, 31;
@%p2 bra WAITER;
@%p1 mbarrier.arrive.shared::cta.b64 _, [%r3];
@%p1 mbarrier.arrive.shared::cta.b64 _, [%r3];
bra OVER;
WAITER:
"""
    ways = kernel(init(1) + BARRIER + body + WAIT_0 + "OVER:\n", threads=64)
    assert "phase-lapped" in kinds(ways, range(24))


COUNT = """mov.u32 %r0, 0;
ROUND: st.shared.u32 [smem], %r0;
add.u32 %r0, %r0, 1;
setp.lt.u32 %p1, %r0, 1000000;
@%p1 bra ROUND;
"""


def test_a_loop_without_a_way_out():
    """Found as the first warp comes to it, whatever goes on in it."""
    result = emulate(kernel(COUNT.replace("@%p1 bra", "bra"), threads=32), {})
    assert [f.kind for f in result.findings] == ["livelock"] and result.executed < 20
    assert result.findings[0].detail == "warp 0 enters a loop that nothing ends"


def test_instruction_limit():
    result = emulate(kernel(COUNT, threads=32), {}, limit=5000)
    assert [f.kind for f in result.findings] == ["instruction-limit"]


def test_a_seed_repeats_where_many_warps_wait_in_vain():
    stuck = kernel(init(1) + BARRIER + "add.u32 %r7, %r0, %r0;\n" + wait("[%r3]", 0, "W"), threads=1024)
    runs = [run(stuck, seed=1) for _ in range(3)]
    assert [f.kind for f in runs[0].findings] == ["deadlock"] and runs[0].spans
    assert runs[0] == runs[1] == runs[2]


def test_equal_findings_are_merged_and_a_seed_repeats():
    first, second = run(loaded(READ + WAIT_0), 5), run(loaded(READ + WAIT_0), 5)
    assert first.findings[0].count > 1
    assert [str(f) for f in first.findings] == [str(f) for f in second.findings]
    assert first.executed == second.executed and len(first.spans) == len(second.spans)


@pytest.mark.parametrize(
    "body",
    ["elect.sync _|%p2, -1;", "shfl.sync.idx.b32 %r3, %r1, 0, 31, -1;", "vote.sync.any.pred %p2, %p1, -1;"],
)
def test_a_lane_that_waits_for_lanes_in_another_branch(body):
    """Observed on an H200, driver 580: it never ends where those lanes wait too, as in notebook t4, and ends
    where they run on to the kernel's end, whatever they run before.
    """
    code = f"mov.u32 %r1, %tid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\n{body}\nEND:\nmov.u32 %r1, 0;\n"
    (finding,) = run(kernel(code, threads=32)).errors
    assert finding.kind == "absent-lanes" and "31 lanes" in finding.detail
    (finding,) = run(kernel(code.removesuffix("mov.u32 %r1, 0;\n"), threads=32)).findings
    assert finding.kind == "ended-lanes" and finding.severity == "warning"


COLLECTIVES = (
    "elect.sync _|%p2, {};",
    "shfl.sync.bfly.b32 %r3, %r1, 1, 31, {};",
    "vote.sync.ballot.b32 %r3, %p1, {};",
    "match.any.sync.b32 %r3, %r1, {};",
    "redux.sync.add.s32 %r3, %r1, {};",
)


@pytest.mark.parametrize("body", COLLECTIVES, ids=lambda body: body.partition(".")[0])
def test_a_lane_that_its_mask_does_not_name(body):
    """PTX ISA: undefined where the executing thread is not in the membermask."""

    def found(mask, lanes):
        part = f"mov.u32 %r1, %tid.x;\nsetp.ge.u32 %p1, %r1, {lanes};\n@%p1 bra END;\n"
        return kinds(kernel(f"{part}{body.format(mask)}\nEND:\nmov.u32 %r1, 0;\n", threads=32), (0,))

    for mask, lanes, strays in (("0xFFFF", 32, 16), ("0xFFFE", 16, 1), ("0xFFFF0000", 16, 16), ("0", 32, 32)):
        finding = found(mask, lanes)["lane-mask"]
        assert finding.detail.startswith(f"{strays} lane") and "its mask does not name" in finding.detail
    assert found("-1", 32) == found("0xFFFF", 16) == found("0xFF", 8) == {}
    assert set(found("-1", 16)) == {"absent-lanes"}


@pytest.mark.parametrize("count, fits", [(1_048_575, True), (1_048_576, False), (1_572_864, False)])
def test_bytes_beyond_what_an_mbarrier_counts(count, fits):
    """PTX ISA: a tx-count is at most 2^20 - 1; here half of it is expected, then the rest."""
    half, complete = count // 2, "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r3], {};\n"
    expect = f"mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r3], {half};\n"
    expect += f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {count - half};\n"
    body = init(1) + BARRIER + by_thread_0(expect + complete.format(half) + complete.format(count - half))
    found = kinds(kernel(body + WAIT_0), (0,))
    assert set(found) == (set() if fits else {"expect-tx"})
    if not fits:
        detail = found["expect-tx"].detail
        assert f"expects {count:,} bytes at once on full[0], which counts at most 1,048,575" in detail
        assert "2^20 - 1" in found["expect-tx"].advice


def test_every_kind_says_what_it_means():
    for severity, advice in KINDS.values():
        assert severity in ("error", "warning", "cause") and advice.endswith((".", "?"))


@pytest.mark.parametrize(
    "body, message",
    (
        ("frobnicate.b32 %r1, %r2;", "PTX line .*frobnicate.*not modelled"),
        ("tcgen05.shift.cta_group::1.down [%r1];", "PTX line .*tcgen05.*not modelled"),
        ("add.s32 %r1, %r2", "semicolon|not PTX|not modelled"),
        ("bra NOWHERE;", "no label NOWHERE"),
        ("add.s32 %r1, %r500, 1;", "PTX line .*%r500"),
        ("mov.u32 %r1, nothing_of_that_name;", "nothing_of_that_name"),
        ("call.uni (%r1), printf, (%r2);", "call.*not modelled"),
    ),
)
def test_ptx_that_is_not_modelled_is_a_clear_error(body, message):
    with pytest.raises(EmulatorError, match=message):
        run(kernel(body + "\n"))


def test_tensors_that_do_not_fit_are_clear_errors():
    artifact = loaded(WAIT_0)
    for tensors, message in (
        ({}, "A"),
        ({"A": np.zeros((64, 32), np.float16)}, "float16"),
        ({"A": np.zeros((64, 64))}, "float64"),
        ({"A": [1]}, "list"),
        ({"A": np.zeros((64, 64), np.float16).T}, "contiguous"),
        ({"A": np.zeros((64, 64), np.float16), "B": 1}, "no tensor B"),
    ):
        with pytest.raises(EmulatorError, match=message):
            emulate(artifact, tensors)


def test_a_copy_of_an_accumulator_in_flight_is_only_a_renaming():
    """A compiler may move accumulators to other registers between two wgmmas of one chain; ptxas makes
    nothing of it.
    """
    names = [f"%f{20 + i}" for i in range(4)]
    moves = "".join(f"mov.f32 {name}, %f{i};\n" for i, name in enumerate(names))
    more = MULTIPLY.replace(ACCUMULATOR, ", ".join(names)).replace("%rd30, 0,", "%rd30, 1,")
    use = "add.f32 %f10, %f20, %f21;\n"
    assert kinds(multiplied(COMMIT + moves + more + COMMIT + WG_WAIT + use)) == {}
    early = multiplied(COMMIT + moves + more + use + COMMIT + WG_WAIT)
    assert set(kinds(early)) == {"accumulator-before-wait"}


def test_more_barriers_than_the_clocks_began_with():
    more = init(*[1] * 150, first=12288).replace("INITIALISED", "AGAIN")
    first = init(*[1] * 200) + FILL + FENCE + BAR
    assert kinds(multiplied(COMMIT + WG_WAIT + more + USE, fill=first.replace("INITIALISED", "MADE"))) == {}


def test_bar_sync_with_and_without_a_count_are_the_same_barrier_where_all_threads_meet():
    body = "setp.gt.u32 %p2, %r0, 63;\n@%p2 bra HIGH;\nbar.sync 0;\nbra MET;\nHIGH: bar.sync 0, 128;\nMET:\n"
    assert kinds(kernel(init() + body), range(6)) == {}


def test_a_warp_that_has_ended_is_not_waited_for():
    assert kinds(kernel(init() + "setp.gt.u32 %p2, %r0, 63;\n@%p2 exit;\nbar.sync 0;\n"), range(6)) == {}


def test_damaged_ptx_is_a_clear_error_and_never_another():
    text, rng = stored(FENCE + BAR).ptx, random.Random(0)
    for _ in range(150):
        at = rng.randrange(120, len(text))
        before, after = text[:at], text[at:]
        damaged = rng.choice((before, before + after[3:], before + rng.choice(";{}[],%@!0x") + after))
        try:
            A = np.zeros((64, 64), np.float16)
            emulate(replace(stored(FENCE + BAR), ptx=damaged), {"A": A}, limit=20_000)
        except EmulatorError as error:
            assert len(str(error)) > 15


def test_a_missing_barrier_comes_before_what_it_lets_be_read_too_early():
    findings = fresh_findings()
    findings.find(Cause("uninitialised-read", "reads what nothing has written"), 0)
    findings.find(Cause("read-before-write", "no barrier orders the two"), 0)
    overruns._unordered(findings)
    assert next(iter(findings.found.values())).kind == "read-before-write"


def test_every_sentence_is_said_and_every_kind_found_somewhere():
    folder = Path(words.__file__).parents[1]
    code = "\n".join(path.read_text() for path in folder.rglob("*.py") if path.name != "words.py")
    told = [*words.SENTENCES, *words.KINDS, *words.ADVICE]
    assert [name for name in told if f'"{name}"' not in code] == []
