"""What orders threads, and what does not: words that one releases and another acquires, fences and their
scopes, relaxed forms, and accesses to global memory that nothing orders. Each wrong program stands beside its
right neighbour.
"""

from dataclasses import replace

import numpy as np
import pytest

from course_utils.run.emulator import emulate
from tests.run.emulator.kernels import by_thread_0, init, kernel, load_tile, tile_map, wait

SEEDS = range(4)


def told(artifact, seeds=SEEDS, **tensors):
    """What is found on any of a few seeds: by kind, the finding. The run comes to its end unless it says so."""
    found = {}
    for seed in seeds:
        arrays = {t.name: tensors.get(t.name, np.zeros(t.shape, t.dtype)).copy() for t in artifact.tensors}
        found.update({f.kind: f for f in emulate(artifact, arrays, seed).findings})
    return found


# A word F and data X in global memory, and the numbers that a CTA or a warp is known by
POINTERS = """mov.u32 %r0, %tid.x;
mov.u32 %r1, %ctaid.x;
ld.param.u64 %rd1, [k_param_0];
ld.param.u64 %rd2, [k_param_1];
setp.ne.u32 %p1, %r0, 0;
setp.ne.u32 %p2, %r1, 0;
"""
TENSORS = [("F", (64,), "int32"), ("X", (64,), "int32")]


def two_ctas(sends, takes, cluster=1, threads=32, **options):
    """CTA 0 runs ``sends`` in thread 0, CTA 1 ``takes``."""
    body = f"{POINTERS}@%p1 bra END;\n@%p2 bra TAKE;\n{sends}bra END;\nTAKE:\n{takes}END:\n"
    options = {"tensors": TENSORS, "pointers": ["F", "X"], "threads": threads} | options
    return kernel(body, grid=(2, 1, 1), cluster=(cluster, 1, 1), **options)


def spin(load):
    return f"SPIN: {load} %r5, [%rd1];\nsetp.eq.u32 %p3, %r5, 0;\n@%p3 bra SPIN;\n"


DATA, SEEN = "st.global.u32 [%rd2], 7;\n", "ld.global.u32 %r6, [%rd2];\nst.global.u32 [%rd2+64], %r6;\n"
FENCE = "fence.acq_rel.gpu;\n"


@pytest.mark.parametrize(
    "released, acquired, ordered",
    [
        ("st.release.gpu.global.u32 [%rd1], 1;\n", spin("ld.acquire.gpu.global.u32"), True),
        ("st.release.sys.global.u32 [%rd1], 1;\n", spin("ld.acquire.gpu.global.u32"), True),
        (FENCE + "st.relaxed.gpu.global.u32 [%rd1], 1;\n", spin("ld.relaxed.gpu.global.u32") + FENCE, True),
        (
            "membar.gl;\nst.volatile.global.u32 [%rd1], 1;\n",
            spin("ld.volatile.global.u32") + "membar.gl;\n",
            True,
        ),
        ("fence.sc.gpu;\nred.global.add.u32 [%rd1], 1;\n", spin("ld.acquire.gpu.global.u32"), True),
        ("red.release.gpu.global.add.u32 [%rd1], 1;\n", spin("ld.acquire.gpu.global.u32"), True),
        # relaxed on one side, or on both
        ("st.relaxed.gpu.global.u32 [%rd1], 1;\n", spin("ld.acquire.gpu.global.u32"), False),
        ("st.release.gpu.global.u32 [%rd1], 1;\n", spin("ld.relaxed.gpu.global.u32"), False),
        ("st.volatile.global.u32 [%rd1], 1;\n", spin("ld.volatile.global.u32"), False),
        # a fence on the other side of its access
        ("st.relaxed.gpu.global.u32 [%rd1], 1;\n" + FENCE, spin("ld.acquire.gpu.global.u32"), False),
        # scopes that the other CTA is not in
        ("st.release.cta.global.u32 [%rd1], 1;\n", spin("ld.acquire.gpu.global.u32"), False),
        ("st.release.gpu.global.u32 [%rd1], 1;\n", spin("ld.acquire.cta.global.u32"), False),
        (
            "fence.acq_rel.cta;\nst.relaxed.gpu.global.u32 [%rd1], 1;\n",
            spin("ld.acquire.gpu.global.u32"),
            False,
        ),
        ("membar.cta;\nst.volatile.global.u32 [%rd1], 1;\n", spin("ld.acquire.gpu.global.u32"), False),
        ("st.release.cluster.global.u32 [%rd1], 1;\n", spin("ld.acquire.cluster.global.u32"), False),
    ],
)
def test_a_flag_orders_two_ctas_where_it_is_released_and_acquired(released, acquired, ordered):
    found = told(two_ctas(DATA + released, acquired + SEEN))
    assert set(found) == (set() if ordered else {"read-before-write"})
    for finding in found.values():
        assert "ld.global.u32 %r6" in finding.place.ptx and "X[0], which CTA 0 stores" in finding.detail


@pytest.mark.parametrize("scope, ordered", [("cluster", True), ("cta", False)])
def test_the_scope_of_a_cluster_has_both_its_ctas(scope, ordered):
    pair = two_ctas(
        DATA + f"st.release.{scope}.global.u32 [%rd1], 1;\n",
        spin(f"ld.acquire.{scope}.global.u32") + SEEN,
        cluster=2,
    )
    assert set(told(pair)) == (set() if ordered else {"read-before-write"})


def test_the_numbers_are_there_behind_a_flag():
    X = np.zeros(64, np.int32)
    ends = two_ctas(DATA + "st.release.gpu.global.u32 [%rd1], 1;\n", spin("ld.acquire.gpu.global.u32") + SEEN)
    for seed in range(6):
        X[:] = 0
        assert emulate(ends, {"F": np.zeros(64, np.int32), "X": X}, seed).ok and X[16] == 7


LAST = """bar.sync 0;
@%p1 bra COUNTED;
{before}{atomic} %r5, [%rd1], 1;
{after}st.shared.u32 [smem], %r5;
COUNTED:
bar.sync 0;
ld.shared.u32 %r5, [smem];
setp.ne.u32 %p3, %r5, 3;
@%p3 bra END;
shl.b32 %r7, %r0, 2;
cvt.u64.u32 %rd3, %r7;
add.s64 %rd3, %rd2, %rd3;
ld.global.u32 %r8, [%rd3];
END:
"""


@pytest.mark.parametrize(
    "before, atomic, after, kinds",
    [
        (FENCE, "atom.global.add.u32", FENCE, set()),
        ("membar.gl;\n", "atom.global.inc.u32", "membar.gl;\n", set()),
        ("", "atom.acq_rel.gpu.global.add.u32", "", set()),
        (FENCE, "atom.acquire.gpu.global.add.u32", "", set()),
        ("membar.gl;\n", "atom.global.add.u32", "", {"acquire-missing"}),  # as the programming guide has it
        ("", "atom.global.add.u32", FENCE, {"read-before-write"}),
        ("", "atom.global.add.u32", "", {"read-before-write"}),
        ("", "atom.acquire.gpu.global.add.u32", "", {"read-before-write"}),
        ("fence.acq_rel.cta;\n", "atom.global.add.u32", FENCE, {"read-before-write"}),
    ],
)
def test_the_last_block_reads_what_the_others_wrote(before, atomic, after, kinds):
    store = "mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd3, %rd2, %rd3;\n@!%p1 st.global.u32 [%rd3], %r1;\n"
    last = LAST.format(before=before, atomic=atomic, after=after)
    last = last.replace("[%rd1], 1;", "[%rd1], 3;") if "inc" in atomic else last
    four = kernel(POINTERS + store + last, tensors=TENSORS, pointers=["F", "X"], threads=64, grid=(4, 1, 1))
    found = told(four)
    assert set(found) == kinds
    assert {f.severity for f in found.values()} == {
        "warning" if k == "acquire-missing" else "error" for k in kinds
    }


LOCK = """LOCK: {take} %r5, [{lock}], 0, 1;
setp.ne.u32 %p3, %r5, 0;
@%p3 bra LOCK;
{entered}ld.{space}.u32 %r6, [{data}];
add.u32 %r6, %r6, 1;
st.{space}.u32 [{data}], %r6;
{leaves}{free} [{lock}], 0;
"""
SHARED = "mov.b32 %r1, smem;\nmov.u32 %r0, %tid.x;\nand.b32 %r2, %r0, 31;\nsetp.ne.u32 %p1, %r2, 0;\n"
CLEARED = "setp.ne.u32 %p2, %r0, 0;\n@!%p2 st.shared.v2.u32 [smem], {%r2, %r2};\nbar.sync 0;\n"


@pytest.mark.parametrize(
    "take, entered, leaves, free, ordered",
    [
        ("atom.acquire.cta.shared.cas.b32", "", "", "st.release.cta.shared.u32", True),
        (
            "atom.shared.cas.b32",
            "fence.acq_rel.cta;\n",
            "fence.acq_rel.cta;\n",
            "st.volatile.shared.u32",
            True,
        ),
        ("atom.shared.cas.b32", "", "", "st.volatile.shared.u32", False),
        ("atom.acquire.cta.shared.cas.b32", "", "", "st.relaxed.cta.shared.u32", False),
    ],
)
def test_a_spin_lock_orders_what_it_guards(take, entered, leaves, free, ordered):
    lock = LOCK.format(
        take=take, entered=entered, leaves=leaves, free=free, space="shared", lock="%r1", data="%r1+4"
    )
    body = SHARED + CLEARED + "@%p1 bra END;\n" + lock + "END:\n"
    found = told(kernel(body, threads=128))
    assert (set(found) == set()) if ordered else set(found) & {"read-before-write", "write-unordered"}


def test_a_spin_lock_in_global_memory_counts_the_ctas():
    lock = LOCK.format(
        take="atom.acquire.gpu.global.cas.b32", entered="", leaves="", free="st.release.gpu.global.u32",
        space="global", lock="%rd1", data="%rd2",
    )  # fmt: skip
    artifact = kernel(
        POINTERS + "@%p1 bra END;\n" + lock + "END:\n",
        tensors=TENSORS, pointers=["F", "X"], threads=32, grid=(6, 1, 1),
    )  # fmt: skip
    for seed in SEEDS:
        F, X = np.zeros((2, 64), np.int32)
        assert emulate(artifact, {"F": F, "X": X}, seed).findings == [] and X[0] == 6


GRID_BARRIER = """bar.sync 0;
@%p1 bra MET;
red.release.gpu.global.add.u32 [%rd1], 1;
SPIN: ld.acquire.gpu.global.u32 %r5, [%rd1];
setp.lt.u32 %p3, %r5, {count};
@%p3 bra SPIN;
MET:
bar.sync 0;
"""


def test_a_grid_barrier_ends_where_all_ctas_fit_on_the_chip():
    def grid(count, dynamic):
        store = "mul.wide.u32 %rd3, %r1, 4;\nadd.s64 %rd3, %rd2, %rd3;\n@!%p1 st.global.u32 [%rd3], %r1;\n"
        after = "ld.global.u32 %r6, [%rd2+16];\n"
        made = kernel(
            POINTERS + store + GRID_BARRIER.format(count=count) + after,
            tensors=TENSORS, pointers=["F", "X"], threads=64, grid=(count, 1, 1), dynamic=dynamic,
        )  # fmt: skip
        return replace(made, chip=replace(made.chip, sms=8))

    found = told(grid(9, 200_000), (0,))
    assert set(found) == {"not-resident"}
    assert "8 clusters of the grid's 9 fit on the chip at once" in found["not-resident"].detail
    assert told(grid(8, 200_000)) == told(grid(9, 100_000)) == {}  # two on each SM


def test_a_word_that_nobody_changes_is_told():
    found = told(two_ctas("", spin("ld.acquire.gpu.global.u32")), (0, 1))
    assert set(found) == {"livelock"} and "polls a word in global memory" in found["livelock"].detail


def test_a_warp_that_computes_for_long_is_waited_for():
    """A poll that lasts is no deadlock while another warp of the CTA still computes."""
    body = f"""{POINTERS}setp.gt.u32 %p3, %r0, 31;
@%p3 bra COMPUTE;
@%p1 bra END;
{spin("ld.acquire.gpu.global.u32")}bra END;
COMPUTE: mov.u32 %r7, 0;
ROUND: add.u32 %r7, %r7, 1;
setp.lt.u32 %p4, %r7, 2000;
@%p4 bra ROUND;
st.release.gpu.global.u32 [%rd1], 1;
END:
"""
    assert told(kernel(body, tensors=TENSORS, pointers=["F", "X"], threads=64)) == {}


# Relaxed forms of what orders without them

BARRIER = "add.s32 %r3, %r1, 8192;\n"
ROLES = "setp.gt.u32 %p2, %r0, 31;\nshl.b32 %r4, %r0, 2;\nand.b32 %r4, %r4, 127;\nadd.s32 %r4, %r4, %r1;\n"


def handed(arrive, waits, before="", after=""):
    """Warp 0 writes a row and arrives, warp 1 waits and reads it."""
    body = f"""{init(32)}{BARRIER}{ROLES}@%p2 bra TAKE;
st.shared.u32 [%r4], %r0;
{before}{arrive} _, [%r3];
bra END;
TAKE:
FULL: {waits} %p9, [%r3], 0;
@!%p9 bra FULL;
{after}ld.shared.u32 %r5, [%r4];
END:
"""
    return kernel(body, threads=64)


ARRIVE, WAIT = "mbarrier.arrive{}.shared::cta.b64", "mbarrier.{}.parity{}.shared::cta.b64"


@pytest.mark.parametrize(
    "arrive, waits, before, after, ordered",
    [
        ("", ("try_wait", ""), "", "", True),
        (".release.cta", ("test_wait", ".acquire.cta"), "", "", True),
        (".relaxed.cta", ("try_wait", ""), "", "", False),
        (".relaxed.cluster", ("try_wait", ""), "", "", False),
        ("", ("try_wait", ".relaxed.cta"), "", "", False),
        ("", ("test_wait", ".relaxed.cluster"), "", "", False),
        (".relaxed.cta", ("try_wait", ""), "fence.acq_rel.cta;\n", "", True),
        ("", ("try_wait", ".relaxed.cta"), "", "fence.acq_rel.cta;\n", True),
        (".relaxed.cta", ("try_wait", ".relaxed.cta"), "membar.gl;\n", "fence.sc.gpu;\n", True),
        (".relaxed.cta", ("try_wait", ".relaxed.cta"), "", "fence.sc.gpu;\n", False),
    ],
)
def test_relaxed_arrivals_and_waits_order_nothing_without_a_fence(arrive, waits, before, after, ordered):
    found = told(handed(ARRIVE.format(arrive), WAIT.format(*waits), before, after))
    assert set(found) == (set() if ordered else {"read-before-write"})


def test_a_relaxed_wait_for_a_load_does_not_show_its_bytes():
    A, tile = ("A", (64, 64), "float16"), tile_map((64, 64), (64, 64))
    expect = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 8192;\n"
    read = "shl.b32 %r4, %r0, 2;\nadd.s32 %r4, %r4, %r1;\nld.shared.u32 %r5, [%r4];\n"
    right = (
        init(1) + BARRIER + by_thread_0(expect + load_tile("%r1", "%r3")) + wait("[%r3]", 0, "FULL") + read
    )
    relaxed = right.replace("try_wait.parity", "try_wait.parity.relaxed.cta")
    for body, kinds in ((right, set()), (relaxed, {"read-before-load"})):
        assert set(told(kernel(body, tensors=[A], maps=[("A", tile)]))) == kinds


PAIR = {"cluster": (2, 1, 1), "grid": (2, 1, 1), "threads": 32}
MEET = "barrier.cluster.arrive{}.aligned;\nbarrier.cluster.wait.aligned;\n"
RANKS = """mov.u32 %r9, %cluster_ctarank;
xor.b32 %r10, %r9, 1;
shl.b32 %r4, %r0, 2;
add.s32 %r4, %r4, %r1;
mapa.shared::cluster.u32 %r11, %r4, %r10;
"""


@pytest.mark.parametrize(
    "arrive, before, kinds",
    [
        ("", "", set()),
        (".release", "", set()),
        (".relaxed", "", {"read-before-write"}),
        (".relaxed", "fence.acq_rel.cluster;\n", set()),
        (".relaxed", "fence.acq_rel.cta;\n", {"read-before-write"}),
    ],
)
def test_a_relaxed_arrival_at_the_cluster_barrier_orders_nothing_without_a_fence(arrive, before, kinds):
    read = "ld.shared::cluster.u32 %r5, [%r11];\n"
    body = (
        init() + RANKS + "st.shared.u32 [%r4], %r0;\n" + before + MEET.format(arrive) + read + MEET.format("")
    )
    assert set(told(kernel(body, **PAIR))) == kinds


@pytest.mark.parametrize("fence, kinds", [(True, set()), (False, {"barrier-init-race"})])
def test_a_relaxed_cluster_barrier_shows_mbarriers_whose_init_was_fenced(fence, kinds):
    arrive = "mapa.shared::cluster.u32 %r12, %r3, %r10;\nsetp.ne.u32 %p3, %r0, 0;\n"
    arrive += "@!%p3 mbarrier.arrive.shared::cluster.b64 _, [%r12];\n" + wait("[%r3]", 0, "MET")
    body = init(1, fence=fence) + BARRIER + RANKS + MEET.format(".relaxed") + arrive + MEET.format("")
    assert set(told(kernel(body, **PAIR))) == kinds


@pytest.mark.parametrize("meet, kinds", [(MEET.format(".relaxed"), set()), ("", {"cluster-start"})])
def test_another_ctas_memory_is_there_once_it_runs(meet, kinds):
    body = init() + RANKS + meet + "st.shared::cluster.u32 [%r11], %r0;\n" + MEET.format("")
    found = told(kernel(body, **PAIR))
    assert set(found) == kinds
    assert not kinds or "st.shared::cluster.u32" in found["cluster-start"].place.ptx


def test_a_flag_in_another_ctas_memory_orders_a_pair():
    for released, kinds in (("release.cluster", set()), ("relaxed.cluster", {"read-before-write"})):
        body = f"""{init()}{RANKS}@!%p0 st.shared.v2.u32 [%r1], {{%r9, %r9}};
{MEET.format("")}@%p0 bra END;
setp.eq.u32 %p3, %r9, 1;
@%p3 bra TAKE;
st.shared::cluster.u32 [%r11+4], 7;
st.{released}.shared::cluster.u32 [%r11], 2;
bra END;
TAKE:
SPIN: ld.acquire.cluster.shared::cta.u32 %r5, [%r1];
setp.ne.u32 %p4, %r5, 2;
@%p4 bra SPIN;
ld.shared.u32 %r6, [%r1+4];
END:
{MEET.format("")}"""
        assert set(told(kernel(body, **PAIR))) == kinds


# Two warps and one word

WORD = "mov.u32 %r0, %tid.x;\nmov.b32 %r1, smem;\nand.b32 %r2, %r0, 31;\nshl.b32 %r4, %r2, 2;\nadd.s32 %r4, %r4, %r1;\n"


@pytest.mark.parametrize(
    "body, kinds",
    [
        ("st.shared.u32 [%r4], %r0;\n", {"write-unordered"}),
        ("st.shared.u32 [%r4], %r2;\n", set()),  # the same from both
        ("st.shared.u32 [%r1], 1;\n", set()),  # a flag
        ("shl.b32 %r5, %r0, 1;\nadd.s32 %r5, %r5, %r1;\nst.shared.u16 [%r5], %rs1;\n", set()),  # halves of words
        ("setp.gt.u32 %p1, %r0, 31;\n@%p1 st.shared.u32 [%r4], %r0;\nbar.sync 0;\n@!%p1 st.shared.u32 [%r4], %r0;\n", set()),
        ("atom.shared.exch.b32 %r6, [%r4], %r0;\n", set()),
        ("setp.gt.u32 %p1, %r0, 31;\n@%p1 st.shared.u32 [%r4], %r0;\n@!%p1 atom.shared.exch.b32 %r6, [%r4], %r0;\n", {"write-unordered"}),
        # one reads, the other writes the next value
        ("st.shared.u32 [%r4], %r2;\nbar.sync 0;\nld.shared.u32 %r5, [%r4];\nsetp.gt.u32 %p1, %r0, 31;\n@%p1 bra END;\nadd.s32 %r5, %r5, 1;\nst.shared.u32 [%r4], %r5;\nEND:\n", {"read-before-write"}),
        ("st.shared.u32 [%r4], %r2;\nbar.sync 0;\nld.shared.u32 %r5, [%r4];\nbar.sync 0;\nsetp.gt.u32 %p1, %r0, 31;\n@%p1 bra END;\nadd.s32 %r5, %r5, 1;\nst.shared.u32 [%r4], %r5;\nEND:\n", set()),
    ],
)  # fmt: skip
def test_two_warps_at_one_word(body, kinds):
    assert set(told(kernel(WORD + "mov.b16 %rs1, 1;\n" + body, threads=64), range(8))) == kinds


GLOBAL = POINTERS + "and.b32 %r2, %r0, 31;\nmul.wide.u32 %rd3, %r2, 4;\nadd.s64 %rd3, %rd2, %rd3;\n"


@pytest.mark.parametrize(
    "body, ctas, kinds",
    [
        ("st.global.u32 [%rd3], %r0;\n", 1, {"write-unordered"}),
        ("st.global.u32 [%rd3], %r2;\n", 1, set()),
        ("st.global.u32 [%rd1], 1;\n", 4, set()),  # every thread writes the same flag
        ("st.global.u32 [%rd1], %r1;\n", 4, {"stored-twice"}),
        ("st.global.u32 [%rd3], %r2;\n", 2, {"stored-twice"}),  # a tile twice
        ("red.global.add.u32 [%rd1], 1;\n", 4, set()),
        ("@!%p1 st.global.u32 [%rd1], 0;\nred.global.add.u32 [%rd1], 1;\n", 1, {"write-unordered"}),
        ("@!%p1 st.global.u32 [%rd1], 0;\nbar.sync 0;\nred.global.add.u32 [%rd1], 1;\n", 1, set()),
        ("st.global.u32 [%rd3], %r2;\nbar.sync 0;\nld.global.u32 %r5, [%rd3];\n", 1, set()),
        ("setp.gt.u32 %p3, %r0, 31;\n@%p3 st.global.u32 [%rd3], 7;\n@!%p3 ld.global.u32 %r5, [%rd3];\n", 1, {"read-before-write"}),
        ("ld.global.u32 %r5, [%rd3];\n@!%p2 st.global.u32 [%rd3], 7;\n", 2, {"read-before-write"}),
    ],
)  # fmt: skip
def test_two_warps_at_one_word_of_global_memory(body, ctas, kinds):
    artifact = kernel(GLOBAL + body, tensors=TENSORS, pointers=["F", "X"], threads=64, grid=(ctas, 1, 1))
    found = told(artifact, range(8))
    assert set(found) <= kinds and bool(found) == bool(kinds)


# Global memory and the async proxy

TILE = [("A", (64, 64), "float16"), ("F", (64,), "int32")]
TMA = {
    "tensors": TILE,
    "maps": [("A", tile_map((64, 64), (64, 64), 0))],
    "pointers": ["A", "F"],
    "threads": 64,
}
EXPECT = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 8192;\n"
SHARED_TILE = "st.shared.v4.u32 [%r4], {%r0, %r0, %r0, %r0};\n"
OWN_A = "ld.param.u64 %rd1, [k_param_1];\nmul.wide.u32 %rd2, %r0, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"


@pytest.mark.parametrize(
    "between, kinds",
    [
        ("fence.proxy.async;\nbar.sync 0;\n", set()),
        ("fence.proxy.async.global;\nbar.sync 0;\n", set()),
        ("bar.sync 0;\nfence.proxy.async.global;\n", set()),
        ("bar.sync 0;\n", {"proxy-fence"}),
        ("fence.proxy.async.shared::cta;\nbar.sync 0;\n", {"proxy-fence"}),
        ("fence.proxy.async;\n", {"read-before-write"}),
    ],
)
def test_a_load_of_what_threads_stored_to_global_memory_needs_a_fence_and_a_barrier(between, kinds):
    store = OWN_A + "setp.gt.u32 %p3, %r0, 31;\n@%p3 st.global.u32 [%rd3], %r0;\n"
    load = by_thread_0(EXPECT + load_tile("%r1", "%r3")) + wait("[%r3]", 0, "FULL")
    found = told(kernel(init(1) + BARRIER + store + between + load, **TMA), range(8))
    assert set(found) == kinds
    assert not kinds or "cp.async.bulk.tensor" in next(iter(found.values())).place.ptx


STORE = (
    "mov.b64 %rd51, k_param_0;\ncp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd51, {0, 0}], [%r1];\n"
    "cp.async.bulk.commit_group;\n"
)
FILL = (
    "mov.b32 %r10, 0;\nFILLING: shl.b32 %r11, %r10, 8;\nshl.b32 %r4, %r0, 2;\nadd.s32 %r4, %r4, %r11;\n"
    "add.s32 %r4, %r4, %r1;\nst.shared.u32 [%r4], %r0;\nadd.s32 %r10, %r10, 1;\nsetp.lt.s32 %p4, %r10, 32;\n"
    "@%p4 bra FILLING;\nfence.proxy.async.shared::cta;\nbar.sync 0;\n"
)
DONE, READ_DONE = "cp.async.bulk.wait_group 0;\n", "cp.async.bulk.wait_group.read 0;\n"


@pytest.mark.parametrize(
    "waits, use, kinds",
    [
        (DONE, "bar.sync 0;\nld.global.u32 %r5, [%rd3];\n", set()),
        (DONE, "bar.sync 0;\nred.global.add.noftz.f16x2 [%rd3], %r0;\n", set()),
        (READ_DONE + DONE, "bar.sync 0;\nld.global.u32 %r5, [%rd3];\n", set()),
        (READ_DONE, "bar.sync 0;\nld.global.u32 %r5, [%rd3];\n", {"store-incomplete"}),
        (READ_DONE, "bar.sync 0;\nst.global.u32 [%rd3], %r1;\n", {"store-incomplete"}),
        (READ_DONE, "bar.sync 0;\nred.global.add.noftz.f16x2 [%rd3], %r0;\n", {"store-incomplete"}),
        (READ_DONE, "", set()),
        (DONE, "ld.global.u32 %r5, [%rd3];\n", {"store-incomplete"}),  # the other warp knows nothing of it
    ],
)
def test_what_a_tma_store_writes_is_there_once_a_wait_without_read_has_covered_it(waits, use, kinds):
    body = init() + FILL + OWN_A + by_thread_0(STORE + waits) + use
    found = told(kernel(body, **TMA), range(8))
    assert set(found) <= kinds and bool(found) == bool(kinds)
    assert all("TMA store" in finding.detail for finding in found.values())


def test_a_load_of_what_a_tma_store_writes():
    load = EXPECT + load_tile("%r1", "%r3")
    for waits, kinds in ((DONE, set()), (READ_DONE, {"store-incomplete"})):
        body = init(1) + BARRIER + FILL + by_thread_0(STORE + waits + load) + wait("[%r3]", 0, "FULL")
        found = told(kernel(body, **TMA))
        assert set(found) == kinds


# Litmus tests: Lustig, Sahasrabuddhe, Giroux, "A Formal Analysis of the NVIDIA PTX Memory Consistency Model"
# (2019), and the tests of the PTX ISA's own chapter. Each thread is a CTA of its own, or a warp, or a CTA of
# a pair. X, Y are words of global memory, r a thread's own register, stored at its end.


def litmus(threads, where="ctas"):
    """Threads as lists of (operation, ...) on words 0 and 1 of F; each thread's registers go to X."""
    lines = [POINTERS, "@%p1 bra END;\n" if where != "warps" else "and.b32 %r2, %r0, 31;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra END;\n"]  # fmt: skip
    lines.append("mov.u32 %r3, %r1;\n" if where != "warps" else "shr.u32 %r3, %r0, 5;\n")
    for number in range(len(threads)):
        lines.append(f"setp.eq.u32 %p3, %r3, {number};\n@%p3 bra T{number};\n")
    for number, code in enumerate(threads):
        lines.append(f"T{number}:\n")
        for i, one in enumerate(code):
            if one.startswith("fence") or one.startswith("bar"):
                lines.append(one + ";\n")
            elif one[0] == "W":  # W.sem.scope word value
                opcode, word, value = one[2:].split()
                lines.append(f"st.{opcode}.global.u32 [%rd1+{128 * int(word)}], {value};\n")
            else:  # R.sem.scope word
                opcode, word = one[2:].split()
                lines.append(f"ld.{opcode}.global.u32 %r{20 + i}, [%rd1+{128 * int(word)}];\n")
        for i, one in enumerate(code):
            if one[0] == "R":
                lines.append(f"st.global.u32 [%rd2+{32 * number + 4 * i}], %r{20 + i};\n")
        lines.append("bra END;\n")
    count = len(threads)
    shape = {"grid": (count, 1, 1), "threads": 32} if where != "warps" else {"threads": 32 * count}
    if where == "pair":
        shape["cluster"] = (count, 1, 1)
    return kernel("".join(lines) + "END:\n", tensors=TENSORS, pointers=["F", "X"], **shape)


def outcomes(threads, where="warps", wanted=frozenset(), seeds=2000):
    """What the registers hold over many seeds, until all that is wanted was had; and the kinds found."""
    had, kinds = set(), set()
    artifact = litmus(threads, where)
    places = [8 * n + i for n, code in enumerate(threads) for i, one in enumerate(code) if one[0] == "R"]
    for seed in range(seeds):
        F, X = np.zeros((2, 64), np.int32)
        kinds |= {finding.kind for finding in emulate(artifact, {"F": F, "X": X}, seed).findings}
        had.add(tuple(X[places].tolist()))
        if seed > 20 and wanted <= had:
            break
    return had, kinds


RLX, REL, ACQ, WEAK = "relaxed.gpu", "release.gpu", "acquire.gpu", "weak"
REL_CTA, ACQ_CTA = "release.cta", "acquire.cta"
SC, AR = "fence.sc.gpu", "fence.acq_rel.gpu"
RACE = {"read-before-write"}
# name: threads, an outcome that no interleaving has, whether the model forbids it, what is told where each
# thread is a warp, and where each is a CTA
LITMUS = {
    "MP": ([[f"W.{WEAK} 0 1", f"W.{REL} 1 1"], [f"R.{ACQ} 1", f"R.{WEAK} 0"]], (1, 0), True, RACE),
    "MP, relaxed": ([[f"W.{RLX} 0 1", f"W.{RLX} 1 1"], [f"R.{RLX} 1", f"R.{RLX} 0"]], (1, 0), False, set()),
    "MP, fences": ([[f"W.{RLX} 0 1", AR, f"W.{RLX} 1 1"], [f"R.{RLX} 1", AR, f"R.{RLX} 0"]], (1, 0), True, set()),
    "MP, release and acquire": ([[f"W.{RLX} 0 1", f"W.{REL} 1 1"], [f"R.{ACQ} 1", f"R.{RLX} 0"]], (1, 0), True, set()),
    "MP, scopes too small": ([[f"W.{WEAK} 0 1", f"W.{REL_CTA} 1 1"], [f"R.{ACQ_CTA} 1", f"R.{WEAK} 0"]], (1, 0), False, RACE),
    "SB": ([[f"W.{RLX} 0 1", f"R.{RLX} 1"], [f"W.{RLX} 1 1", f"R.{RLX} 0"]], (0, 0), False, set()),
    "SB, fence.acq_rel": ([[f"W.{RLX} 0 1", AR, f"R.{RLX} 1"], [f"W.{RLX} 1 1", AR, f"R.{RLX} 0"]], (0, 0), False, set()),
    "SB, fence.sc": ([[f"W.{RLX} 0 1", SC, f"R.{RLX} 1"], [f"W.{RLX} 1 1", SC, f"R.{RLX} 0"]], (0, 0), True, set()),
    "LB": ([[f"R.{RLX} 0", f"W.{RLX} 1 1"], [f"R.{RLX} 1", f"W.{RLX} 0 1"]], (1, 1), False, set()),
    "LB, release and acquire": ([[f"R.{ACQ} 0", f"W.{REL} 1 1"], [f"R.{ACQ} 1", f"W.{REL} 0 1"]], (1, 1), True, set()),
    "IRIW": ([[f"W.{RLX} 0 1"], [f"W.{RLX} 1 1"], [f"R.{ACQ} 0", f"R.{ACQ} 1"], [f"R.{ACQ} 1", f"R.{ACQ} 0"]], (1, 0, 1, 0), False, set()),
    "IRIW, fence.sc": ([[f"W.{RLX} 0 1"], [f"W.{RLX} 1 1"], [f"R.{RLX} 0", SC, f"R.{RLX} 1"], [f"R.{RLX} 1", SC, f"R.{RLX} 0"]], (1, 0, 1, 0), True, set()),
    "CoRR": ([[f"W.{RLX} 0 1"], [f"R.{RLX} 0", f"R.{RLX} 0"]], (1, 0), True, set()),
    "CoRR, weak": ([[f"W.{WEAK} 0 1"], [f"R.{WEAK} 0", f"R.{WEAK} 0"]], (1, 0), False, RACE),
    "CoWR": ([[f"W.{RLX} 0 1", f"R.{RLX} 0"], [f"W.{RLX} 0 2"]], (0,), True, set()),
    "CoRW": ([[f"R.{RLX} 0", f"W.{RLX} 0 1"], [f"W.{RLX} 0 2", f"R.{RLX} 0"]], (1, 2), True, set()),
}  # fmt: skip


@pytest.mark.parametrize("name", LITMUS)
def test_litmus(name):
    """Each outcome of an interleaving is had, and no other: none that the model forbids, nor weak ones. What
    it allows beyond, where accesses are weak, is told as not ordered.
    """
    threads, never, _, kinds = LITMUS[name]
    wanted = interleaved(threads)
    had, found = outcomes(threads, wanted=wanted, seeds=60 if "weak" in name else 2000)
    weak = any("weak" in one for code in threads for one in code)  # nobody runs between two of a warp's
    assert (had <= wanted if weak else had == wanted) and never not in wanted
    assert found == kinds


@pytest.mark.parametrize(
    "scope, where, kinds",
    [("cta", "warps", set()), ("cta", "pair", RACE), ("cluster", "pair", set()), ("cluster", "ctas", RACE),
     ("gpu", "ctas", set())],
)  # fmt: skip
def test_strong_accesses_that_do_not_reach_each_other_are_told_as_weak_ones(scope, where, kinds):
    threads = [[f"W.relaxed.{scope} 0 1"], [f"R.relaxed.{scope} 0"]]
    assert outcomes(threads, where)[1] == kinds


def interleaved(threads):
    """What sequential consistency allows."""
    ends = set()

    def go(at, memory, read):
        if all(i == len(code) for i, code in zip(at, threads, strict=True)):
            ends.add(tuple(read[key] for key in sorted(read)))
        for n, code in enumerate(threads):
            if at[n] == len(code):
                continue
            one, further = code[at[n]], (*at[:n], at[n] + 1, *at[n + 1 :])
            if one[0] == "W":
                _, word, value = one.split()
                go(further, {**memory, word: int(value)}, read)
            elif one[0] == "R":
                go(further, memory, {**read, (n, at[n]): memory.get(one.split()[1], 0)})
            else:
                go(further, memory, read)

    go((0,) * len(threads), {}, {})
    return ends


def test_a_load_may_be_in_flight_while_its_cluster_waits_for_another_one():
    load = (
        "mov.b32 %r7, smem;\nmbarrier.init.shared.b64 [%r7], 1;\nfence.mbarrier_init.release.cluster;\n"
        "mbarrier.arrive.expect_tx.shared.b64 _, [%r7], 64;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r7+64], [%rd2+128], 64, [%r7];\n"
    )
    waits = "W: mbarrier.try_wait.parity.shared.b64 %p4, [%r7], 0;\n@!%p4 bra W;\n"
    sends = "st.release.gpu.global.u32 [%rd1], 1;\n"
    assert told(two_ctas(sends, load + spin("ld.acquire.gpu.global.u32") + waits), range(12)) == {}
