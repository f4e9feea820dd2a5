"""Who arrives too often, which wait let a read pass, and what a barrier is called."""

import pytest

from course_utils.run.emulator import emulate
from course_utils.run.emulator.explain import dsl_terms
from course_utils.run.emulator.explain.ledger import HEAD, Row, table
from tests.run.emulator.kernels import by_thread_0, init, kernel, wait
from tests.run.emulator.test_findings import (
    BARRIER,
    COMMIT,
    DESCRIPTORS,
    LOAD,
    MULTIPLY,
    READ,
    WAIT_0,
    WG_FENCE,
    WG_WAIT,
    kinds,
    loaded,
    run,
    tma,
)

EMPTY = "add.s32 %r6, %r3, 8;\n"
RELEASE = "mbarrier.arrive.shared::cta.b64 _, [%r6];\n"
ROUNDS = 4


def ring(release, after_load="", empty=1, awaited="and.b32 %r21, %r20, 1;"):
    """Warp 4 loads a tile ``ROUNDS`` times to one stage, warps 0 to 3 multiply it; ``release`` is how they do."""
    producer = f"""
mov.u32 %r20, 0;
FILL: and.b32 %r21, %r20, 1;
xor.b32 %r22, %r21, 1;
{wait("[%r6]", "%r22", "FREE")}setp.ne.s32 %p4, %r0, 128;
@%p4 bra NEXT;
{LOAD}{after_load}
NEXT: add.s32 %r20, %r20, 1;
setp.lt.s32 %p5, %r20, {ROUNDS};
@%p5 bra FILL;
bra END;
"""
    consumer = f"""
mov.u32 %r20, 0;
USE: {awaited}
{wait("[%r3]", "%r21", "HERE")}{WG_FENCE}{MULTIPLY}{COMMIT}{WG_WAIT}{release}
add.s32 %r20, %r20, 1;
setp.lt.s32 %p5, %r20, {ROUNDS};
@%p5 bra USE;
"""
    roles = "setp.gt.u32 %p1, %r0, 127;\n@!%p1 bra CONSUMER;\n"
    begin = init(1, empty) + BARRIER + EMPTY + DESCRIPTORS
    return tma(f"{begin}{roles}{producer}CONSUMER:\n{consumer}END:\n", threads=160)


ELECTED = "setp.ne.s32 %p6, %r0, 0;\n@%p6 bra RELEASED;\n" + RELEASE + "RELEASED:\n"


def first(artifact, seed):
    return run(artifact, seed).errors[0]


def test_a_ring_with_one_release_a_round_is_right():
    assert kinds(ring(ELECTED), range(4)) == {}


def test_all_lanes_of_four_warps_that_release_are_named_and_not_who_suffers():
    for seed in range(4):
        found = first(ring(RELEASE), seed)
        assert found.kind == "barrier-overrun" and "mbarrier.arrive" in found.place.ptx
        assert "consumer warp" in found.detail and "32 arrivals per phase on empty[0]" in found.detail
        assert "its init counts 1" in found.detail


def test_a_release_too_often_is_named_at_the_second_one():
    twice = ELECTED.replace(RELEASE, RELEASE + RELEASE)
    for seed in range(4):
        found = first(ring(twice), seed)
        assert found.detail.startswith("consumer warp 0 makes 2 arrivals per phase on empty[0]"), found
        assert found.ledger[0].barrier == "empty[0]" and found.ledger[0].init == "1"


def test_warps_that_each_release_once_are_told_with_the_count_of_the_init():
    each = "and.b32 %r31, %r0, 31;\nsetp.ne.s32 %p6, %r31, 0;\n@%p6 bra RELEASED;\n" + RELEASE + "RELEASED:\n"
    found = [first(ring(each), seed) for seed in range(6)]
    told = [one for one in found if "4 arrivals per phase" in one.detail]
    assert told and all("from consumer warps 0-3" in one.detail for one in told)
    assert all("mbarrier.arrive" in one.place.ptx and "mbarrier.init" in one.more[0] for one in told)


def test_a_warp_that_releases_more_often_than_it_is_filled_is_told():
    """Its own count stands still, so that each of its waits is for the first phase."""
    still = ring(ELECTED, awaited="mov.u32 %r21, 0;")
    found = [first(still, seed) for seed in range(6)]
    told = [one for one in found if "times, and full[0] was filled" in one.detail]
    assert told and all(one.detail.startswith("consumer warp 0 arrives on empty[0] ") for one in told)
    assert all("mbarrier.arrive" in one.place.ptx for one in told)


def test_a_producer_that_arrives_on_empty_is_named():
    for seed in range(4):
        found = first(ring(ELECTED, after_load=RELEASE), seed)
        assert "producer warp 4 arrives on empty[0], which it waits for itself" in found.detail


def test_a_scheduler_that_takes_what_it_makes_is_not_blamed():
    """Its warp waits for empty and arrives on it, and the init counts that: another fault is told."""
    assert kinds(ring(ELECTED, after_load=RELEASE, empty=2), range(4)) == {}
    wrong = ring(ELECTED, after_load=RELEASE, empty=2, awaited="mov.u32 %r21, 0;")
    for seed in range(4):
        assert not any("waits for itself" in f.detail for f in run(wrong, seed).errors)


def test_a_wrong_parity_is_quoted_and_a_missing_wait_is_not():
    wrong = kinds(loaded(wait("[%r3]", 1, "EARLY") + READ + WAIT_0))["read-before-load"]
    assert "its last wait asked for parity 1, which a new barrier already satisfies" in wrong.detail
    assert "try_wait" in wrong.place.ptx and wrong.more[0].startswith("the read: ")
    again = by_thread_0(LOAD, "AGAIN") + "bar.sync 0;\n"
    missing = kinds(loaded(WAIT_0 + again + READ))["read-before-load"]  # the second round has no wait
    assert "phase 1, not waited for" in missing.detail and "asked for parity 0" in missing.detail
    assert "ld.shared" in missing.place.ptx


def test_a_deadlock_says_when_no_code_ahead_can_help():
    (finding,) = run(tma(init(1) + BARRIER + WAIT_0)).findings
    assert "none of their remaining code does" in finding.more[0]
    assert finding.ledger[0].waiting == "warps 0-3 for parity 0"
    assert "who waits" in str(finding)


def test_a_wait_out_of_step_says_whose_turn_it_is():
    late = loaded("bar.sync 0;\n" + "nanosleep.u32 1;\n" * 200 + wait("[%r3]", 1, "B"))
    told = [f.detail for seed in range(8) for f in run(late, seed).errors if f.kind == "deadlock"]
    assert told and all("this first wait should ask for parity 0 (phase 0)" in text for text in told)


@pytest.mark.parametrize(
    "arrivals, parities, text",
    [
        (
            2,
            [0],
            "it asked for phase 0 after phase 1 had completed too: nothing made phase 1 wait for warp 1",
        ),
        (1, [1], "on a new barrier it would pass at once, but phase 0 completed before it came"),
        (2, [1, 0], "it asked for phase 0 after phase 1 had completed too"),
        (1, [0, 1], None),  # phase 1 lacks an arrival
    ],
)
def test_a_wait_that_comes_two_phases_late_says_so(arrivals, parities, text):
    """Warp 0 ends phases, and nothing makes them wait for warp 1."""
    arrive = "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r3];\n" * arrivals
    waits = "".join(wait("[%r3]", parity, f"W{i}") for i, parity in enumerate(parities))
    roles = "setp.eq.s32 %p1, %r0, 0;\nsetp.gt.u32 %p2, %r0, 31;\n@%p2 bra WAITER;\n"
    body = f"{roles}{arrive}bra OVER;\nWAITER:\n{waits}OVER:\n"
    found = [run(kernel(init(1) + BARRIER + body, threads=64), seed) for seed in range(24)]
    told = [f.detail for one in found for f in one.errors if f.kind == "deadlock"]
    assert told
    assert any(text in one for one in told) if text else not any("it came" in one for one in told)


STATIC = (
    ".shared .align 16 .b8 _ZZ1kE8full_mem[16];\n.shared .align 16 .b8 _ZZ1kE9empty_mem[16];\n"
    ".shared .align 8 .b8 _ZZ1kE4done_mem[8];\n"
)
NAMED = (
    "mov.u32 %r0, %tid.x;\nmov.b32 %r1, _ZZ1kE8full_mem;\nmov.b32 %r2, _ZZ1kE9empty_mem;\nmov.b32 %r3, "
    "_ZZ1kE4done_mem;\nsetp.ne.s32 %p0, %r0, 0;\n@%p0 bra MADE;\n"
    + "".join(f"mbarrier.init.shared::cta.b64 [%r{r}], 1;\n" for r in ("1", "1+8", "2", "2+8", "3"))
    + "MADE:\nfence.mbarrier_init.release.cluster;\nbar.sync 0;\n"
)


@pytest.mark.parametrize(
    "address, text",
    [
        ("%r1+16", "stage 2 of full, which has 2"),  # where the other array begins
        ("%r2+16", "stage 2 of empty, which has 2"),
        ("%r3+8", "stage 1 of done, which has 1"),  # past all
        ("%r3+16", "stage 2 of done, which has 1"),
    ],
)
def test_a_stage_past_its_ring_is_said_to_be_one(address, text):
    body = NAMED + by_thread_0(f"mbarrier.arrive.shared::cta.b64 _, [{address}];\n")
    found = kinds(kernel(body, static=STATIC))["barrier-uninitialised"]
    assert text in found.detail and found.ledger


def test_an_address_far_from_any_barrier_stays_an_address():
    body = NAMED + wait("[%r3+4096]", 0, "FAR")
    found = kinds(kernel(body, static=STATIC))["barrier-uninitialised"]
    assert "shared address 4,128 as an mbarrier" in found.detail


def test_barriers_go_by_the_learners_names():
    (finding,) = run(kernel(NAMED + wait("[%r2+8]", 0, "W"), static=STATIC)).findings
    assert "for empty[1], parity 0" in finding.detail
    (finding,) = run(kernel(NAMED + wait("[%r3]", 0, "W"), static=STATIC)).findings
    assert "for done[0], parity 0" in finding.detail


def test_lanes_that_run_alone_are_told_where_they_part():
    lane = "setp.gt.u32 %p2, %r0, 4;\n@%p2 bra MISSED;\n"
    for body, what in (
        (WG_FENCE + MULTIPLY, "wgmma"),
        ("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r0};\n", "stmatrix"),
        ("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r1];\n", "ldmatrix"),
    ):
        found = kinds(kernel(init() + DESCRIPTORS + lane + body + "MISSED:\n"), (0,))["aligned"]
        assert f"runs {what} with 5 of its 32 lanes" in found.detail
        assert "@%p2 bra MISSED" in found.more[0]


def test_lanes_meet_again_in_a_loop_without_an_end():
    """One lane arrives in each round, then all multiply: the loop's missing end is no fault of the branch."""
    once = "setp.ne.s32 %p6, %r0, 0;\n@%p6 bra ON;\nst.shared.u32 [%r1], %r0;\nON:\n"
    body = init() + DESCRIPTORS + "ROUND:\n" + once + WG_FENCE + MULTIPLY + COMMIT + WG_WAIT + "bra ROUND;\n"
    assert "aligned" not in {f.kind for f in emulate(kernel(body), {}, limit=3000).findings}


RING = """mov.u32 %r21, %cluster_ctarank;
xor.b32 %r21, %r21, 1;
mapa.shared::cluster.u32 %r20, %r3, %r21;
mapa.shared::cluster.u32 %r22, %r1, %r21;
"""
MEET = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"


@pytest.mark.parametrize("leaves", [True, False])
def test_a_barrier_that_only_the_other_cta_arrives_on_counts_no_rounds(leaves):
    """Each CTA tells the other that its word is written, then reads the other's: no mbarrier counts bytes, so
    nothing says how many phases there should be.
    """
    tell = by_thread_0("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r20];\n", "TOLD")
    write = by_thread_0("st.shared.u32 [%r1], %r0;\n", "WRITTEN")
    body = init(1) + MEET + BARRIER + RING + write + "bar.sync 0;\n" + tell + wait("[%r3]", 0, "HERE")
    body += "ld.shared::cluster.u32 %r5, [%r22];\n" + ("" if leaves else MEET)
    found = kinds(kernel(body, cluster=(2, 1, 1), grid=(2, 1, 1)), range(6))
    assert set(found) == ({"cluster-exit"} if leaves else set())


def test_an_unwritten_fragment_is_called_one():
    found = kinds(kernel(init() + "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r77};\n"), (0,))
    assert "stores a part of a fragment" in found["uninitialised-register"].detail
    assert found["uninitialised-register"].more == ("the register: %r77",)


def test_a_kernel_without_roles_hears_of_no_producer_and_no_empty():
    again = by_thread_0(LOAD, "AGAIN")
    for finding in kinds(loaded(again + READ)).values():
        assert not {"producer", "consumer", "worker", "empty"} & set(str(finding).replace("[", " ").split())
        assert "of CTA" not in finding.detail


def test_rows_are_a_table_in_columns():
    row = Row("full[0]", "1", "2", "0 of 1", "0 of 0", "nobody")
    head, line = table([row]).splitlines()
    assert head.index(HEAD.waiting) == line.index("nobody") and head.startswith(HEAD.barrier)
    assert table([]) == ""


@pytest.mark.parametrize(
    "text, dsl, told",
    [
        ("a wait_group that", "tilelang", "a wait_group (`T.wait_wgmma(n)`) that"),
        (
            "no fence.proxy.async between.",
            "cute",
            "no fence.proxy.async (`cute.arch.fence_view_async_shared()`) between.",
        ),
        ("cp.async.bulk.wait_group, wait_group", "cute", None),
        ("wait_group", "ptx", "wait_group"),
        ("my_wait_group and wait_groups", "cute", "my_wait_group and wait_groups"),
    ],
)
def test_a_term_has_its_call_beside_it(text, dsl, told):
    said = dsl_terms.beside(text, dsl)
    assert said == told if told else said.count("(`") == 2
