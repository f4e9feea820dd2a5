"""Each kind of finding about tensor memory and tcgen05, out of the smallest PTX that deserves it, and not
out of its mended form; and faults planted in the solutions.

Nothing of this has run on a Blackwell by us.
"""

import numpy as np
import pytest
import torch

from course_utils.chips import BLACKWELL
from course_utils.compile import load as loading
from course_utils.compile.factory import compile_factory
from course_utils.run.emulator import emulate
from tests.run.emulator import blackwell as bw
from tests.run.emulator.blackwell import (
    COMMIT,
    DONE,
    DONE_AT,
    FREE,
    PROXY,
    SYNC,
    WAIT_LD,
    WAIT_ST,
    WAITED,
    alloc,
    begun,
    by_warp_0,
    copied,
    dealloc,
    load,
    multiply,
    store,
)
from tests.run.emulator.kernels import by_thread_0, init, wait

MMA = multiply(128, 16)
MULTIPLIED = by_thread_0(MMA + COMMIT, "MULTIPLIED")
READ = load(16) + WAIT_LD


def findings(body, seeds=(0, 1, 2), **options):
    """What is found on any of a few seeds, by kind."""
    tensors = {"image": np.zeros(16384, np.uint8), "out": np.zeros((128, 16), np.uint32)}
    found = {}
    for seed in seeds:
        result = emulate(bw.blackwell(body, tensors, **options), tensors, seed)
        found.update({one.kind: one for one in result.findings})
    return found


def test_a_kernel_that_waits_is_fine():
    assert findings(begun() + MULTIPLIED + WAITED + READ + FREE) == {}


def only(body, kind, **options):
    """The one finding of a body, of this kind."""
    found = findings(body, **options)
    assert list(found) == [kind], [str(one) for one in found.values()]
    return found[kind]


def test_an_accumulator_is_read_before_its_commit():
    found = findings(begun() + MULTIPLIED + READ + WAITED + FREE)
    one = found["accumulator-before-commit"]
    assert "tcgen05.ld of warp" in one.detail and "columns" in one.detail and "tcgen05.ld" in one.place.ptx
    assert set(found) <= {"accumulator-before-commit", "tmem-overwrite"}  # the MMA may come after the load
    # one warp waits, and no barrier tells the others
    some = by_warp_0(WAITED, "WAITED")
    assert "accumulator-before-commit" in findings(begun() + MULTIPLIED + some + READ + SYNC + FREE)
    assert findings(begun() + MULTIPLIED + some + SYNC + READ + FREE) == {}


def test_a_commit_before_the_mma_covers_nothing():
    body = begun() + by_thread_0(COMMIT + MMA, "MULTIPLIED") + WAITED + READ + FREE
    assert {"commit-covers-nothing", "accumulator-before-commit"} <= set(findings(body))


def test_a_commit_of_another_thread_covers_nothing():
    other = f"setp.ne.s32 %p5, %r0, 1;\n@%p5 bra COMMITTED;\n{COMMIT}COMMITTED:\n"
    body = begun() + by_thread_0(MMA, "MULTIPLIED") + other + WAITED + READ + FREE
    found = findings(body)
    assert {"commit-covers-nothing", "accumulator-before-commit", "exit-in-flight"} <= set(found)
    assert "arrives at once" in found["commit-covers-nothing"].detail


def test_without_a_commit_nobody_arrives():
    one = only(begun() + by_thread_0(MMA, "MULTIPLIED") + WAITED + READ + FREE, "deadlock")
    assert "is missing its only arrival" in one.detail


def test_a_whole_warp_that_issues():
    whole = by_warp_0(MMA, "MULTIPLIED") + by_thread_0(COMMIT, "COMMITTED") + WAITED + READ + FREE
    assert "32 threads of warp 0 issue tcgen05.mma" in findings(begun() + whole)["mma-issuers"].detail
    whole = by_thread_0(MMA, "MULTIPLIED") + by_warp_0(COMMIT, "COMMITTED") + WAITED + READ + FREE
    assert "issue tcgen05.commit" in findings(begun(barriers=(32,)) + whole)["mma-issuers"].detail


def test_all_instructions_are_of_one_cta_group():
    alone = begun(group=1) + by_thread_0(multiply(128, 32, group=2) + COMMIT, "MULTIPLIED")
    one = findings(alone + WAITED + READ + FREE, grid=(2, 1, 1), cluster=(2, 1, 1))["cta-group"]
    assert "cta_group::2, and this kernel has others of cta_group::1" in one.detail


def test_the_first_mma_adds_to_nothing():
    one = only(
        begun() + by_thread_0(multiply(128, 16, adds=1) + COMMIT, "MULTIPLIED") + WAITED + READ + FREE,
        "tmem-uninitialised",
    )
    assert one.detail.startswith("tcgen05.mma of warp 0 reads columns")


def test_columns_that_nothing_has_written():
    assert "tmem-uninitialised" in findings(begun() + MULTIPLIED + WAITED + load(32) + WAIT_LD + FREE)


# A second tile over the first one's accumulator: its barrier is at DONE + 8.
AGAIN = f"add.s32 %r3, %r1, {DONE + 8};\n" + by_thread_0(MMA + COMMIT, "AGAIN") + wait("[%r3]", 0, "TWICE")


def second_tile(between):
    return begun(barriers=(1, 1)) + MULTIPLIED + WAITED + load(16) + between + AGAIN + READ + FREE


def test_an_accumulator_is_overwritten_while_it_is_read():
    found = findings(second_tile(WAIT_LD))
    one = found["tmem-overwrite"]
    assert set(found) <= {"accumulator-before-commit", "tmem-overwrite"}  # ... or the load after the MMA
    assert "tcgen05.mma of warp 0 writes columns" in one.detail and "may still read" in one.detail
    assert any("tcgen05.ld" in note for note in one.more)
    assert findings(second_tile(WAIT_LD + SYNC)) == {}


def test_a_load_that_is_not_waited_for_is_a_warning():
    one = only(second_tile(SYNC), "tmem-wait")
    assert one.severity == "warning" and "tcgen05.mma follows a tcgen05.ld of warp" in one.detail
    one = only(begun() + MULTIPLIED + WAITED + load(16) + FREE, "tmem-wait")
    assert "tcgen05.dealloc follows" in one.detail


def test_two_threads_multiply_into_one_accumulator():
    second = f"setp.ne.s32 %p5, %r0, 32;\n@%p5 bra SECOND;\n{multiply(128, 16, adds=1)}{COMMIT}SECOND:\n"
    body = begun(barriers=(2,)) + by_thread_0(MMA + COMMIT, "FIRST") + SYNC + second + WAITED + READ + FREE
    assert {"accumulator-before-commit", "tmem-overwrite"} & set(findings(body))


def test_a_store_needs_its_wait_and_a_barrier():
    fill = "".join(f"mov.b32 %r{60 + i}, 0;\n" for i in range(16)) + store(16, first=60)
    add = by_thread_0(multiply(128, 16, adds=1) + COMMIT, "MULTIPLIED") + WAITED + READ + FREE
    assert findings(begun() + fill + WAIT_ST + SYNC + add) == {}
    unwaited = only(begun() + fill + SYNC + add, "tmem-read-before-write")
    assert "with no tcgen05.wait::st after it" in unwaited.detail
    alone = findings(begun() + fill + WAIT_ST + add)
    assert "nothing orders the two" in alone["tmem-read-before-write"].detail


def test_freed_too_early_and_never():
    early = MULTIPLIED + WAITED + by_warp_0(READ + dealloc(), "FREED")
    assert findings(begun() + early) == {}
    others = MULTIPLIED + WAITED + READ + by_warp_0(dealloc(), "FREED")  # no barrier: others may read
    one = findings(begun() + others)
    # a warp that comes late finds nothing there any more
    assert "tmem-freed-early" in one or "tmem-unallocated" in one
    running = begun() + MULTIPLIED + SYNC + by_warp_0(dealloc(), "FREED") + WAITED
    assert "a tcgen05.mma or .st may still write" in only(running, "tmem-freed-early").detail
    never = only(begun() + MULTIPLIED + WAITED + READ, "tmem-leak")
    assert "CTA 0 ends and has not freed the 32 columns" in never.detail and "alloc" in never.place.ptx


@pytest.mark.parametrize("columns", [16, 48, 0, 1024])
def test_columns_that_cannot_be_allocated(columns):
    one = only(begun(columns), "tmem-alloc")
    assert f"{columns} columns" in one.detail and "power of two from 32 to 512" in one.detail


def test_relinquish_then_alloc():
    again = by_warp_0(alloc(), "AGAIN")
    assert "has relinquished its right" in only(begun(filled="") + again, "tmem-alloc").detail


def test_allocations_do_not_grow():
    two = alloc(32) + alloc(64, at="%r5+4")
    one = findings(begun(filled="", allocate=by_warp_0(two, "ALLOCATED")))
    assert "after an allocation of 32" in one["tmem-alloc"].detail


def test_every_warp_allocates():
    """Each address overwrites the one before; with more columns the third warp waits for ever."""
    found = findings(begun(filled="", allocate=alloc(32)) + SYNC + by_warp_0(dealloc(), "FREED"))
    assert {"tmem-alloc", "tmem-leak"} <= set(found)
    assert "which nobody can free any more" in found["tmem-alloc"].detail
    found = findings(begun(filled="", allocate=alloc(256)))
    assert "for 256 columns of tensor memory; 0 of 512 are free" in found["deadlock"].detail


def test_one_thread_allocates():
    assert "aligned" in findings(begun(filled="", allocate=by_thread_0(alloc(), "ALLOCATED")))


def test_a_warp_allocates_what_another_frees():
    """The second waits until the first has freed."""
    one = alloc(512) + "ld.shared.u32 %r10, [%r5];\n" + dealloc(512)
    body = init(1, first=DONE) + DONE_AT + "and.b32 %r7, %r0, -32;\nadd.s32 %r5, %r5, %r7;\n" + one
    assert findings(body, seeds=range(6)) == {}


def test_what_is_not_allocated():
    beyond = by_thread_0(multiply(128, 64) + COMMIT, "MULTIPLIED")
    assert "takes columns" in only(begun(filled=copied(8) + PROXY) + beyond, "tmem-unallocated").detail
    assert "accesses columns" in only(begun() + MULTIPLIED + WAITED + load(64), "tmem-unallocated").detail
    twice = begun(filled="") + by_warp_0(dealloc() + dealloc(), "FREED")
    assert "which are no allocation" in only(twice, "tmem-unallocated").detail
    part = begun(64, filled="") + by_warp_0(dealloc(32), "FREED")
    assert "which are no allocation" in only(part, "tmem-unallocated").detail


def test_a_warp_reads_another_ones_lanes():
    other = f"add.s32 %r12, %r10, {64 << 16};\n" + load(16, address="%r12")
    one = only(begun() + MULTIPLIED + WAITED + other, "tmem-lanes")
    assert "from lane 64 on" in one.detail
    # both DSLs' ways: lane 0 in every warp, or the warp's own
    own = "and.b32 %r12, %r0, -32;\nshl.b32 %r12, %r12, 16;\nadd.s32 %r12, %r12, %r10;\n"
    assert findings(begun() + MULTIPLIED + WAITED + own + load(16, address="%r12") + WAIT_LD + FREE) == {}


def test_operands_in_shared_memory():
    unfenced = findings(begun(filled=copied(8)) + MULTIPLIED + WAITED + READ + FREE)
    assert unfenced["proxy-fence"].detail.startswith("operand A of tcgen05.mma")
    rest = SYNC + READ + FREE
    over = begun() + MULTIPLIED + "st.shared.u32 [%r1], %r0;\n" + WAITED + rest
    assert "tcgen05.mma of warp 0 may still read" in findings(over)["overwrite-while-read"].detail
    after = begun() + MULTIPLIED + WAITED + by_thread_0("st.shared.u32 [%r1], %r0;\n", "STORED") + rest
    assert findings(after) == {}


@pytest.mark.parametrize(
    "fields, words",
    [
        ({"bits": bw.instruction(96, 16)}, "has M 96 and N 16"),
        ({"bits": bw.instruction(128, 24)}, "has M 128 and N 24"),
        ({"bits": bw.instruction(256, 32)}, "has M 256 and N 32 for 1 CTA"),
        ({"bits": bw.instruction(128, 16, 3, 3)}, "has the types 3 and 3"),
        ({"bits": bw.instruction(128, 16, 0, 1)}, "has the types 0 and 1"),
        ({"a": bw.descriptor(0, version=0)}, "is none of tcgen05.mma"),
        ({"b": bw.descriptor(8192, swizzle=1)}, "is none of tcgen05.mma"),
        ({"a": bw.descriptor(20000)}, "spans shared bytes"),
        ({"group": 2}, "and its cluster has one CTA"),
    ],
)
def test_descriptors_and_shapes_that_there_are_not(fields, words):
    body = begun() + by_thread_0(multiply(128, 16, **fields) + COMMIT, "MULTIPLIED")
    assert words in only(body, "mma-descriptor").detail


def test_a_commit_to_no_mbarrier():
    body = begun() + by_thread_0(MMA + COMMIT.replace("[%r3]", "[%r3+16]"), "MULTIPLIED")
    assert "barrier-uninitialised" in findings(body)


def test_a_pair_that_allocates_alone():
    alone = begun(
        filled="",
        group=2,
        allocate="mov.u32 %r6, %cluster_ctarank;\nsetp.ne.u32 %p4, %r6, 0;\n@%p4 bra ALLOCATED;\n"
        + by_warp_0(alloc(group=2), "ALLOCATED"),
    )
    found = findings(alone, grid=(2, 1, 1), cluster=(2, 1, 1))
    assert "for the other CTA of its pair" in found["deadlock"].detail


# -- faults planted in the solutions: (DSL, file, edit, kind, its line or "")

PLANTED = {
    "no wait for the commit": (
        *("cute", "b01_single_tile", "        cute.arch.mbarrier_wait(done, 0)\n", ""),
        *("accumulator-before-commit", "cute.copy(to_regs"),
    ),
    "no barrier before dealloc": (
        *(
            "cute",
            "b01_single_tile",
            "        cute.arch.sync_threads()  # every warp has read",
            "        # every warp has read",
        ),
        *("tmem-freed-early tmem-unallocated", ""),
    ),
    "no dealloc": (
        *("cute", "b01_single_tile", "cute.arch.dealloc_tmem(address, columns)", "pass"),
        *("tmem-leak", "cute.arch.alloc_tmem(columns, where)"),
    ),
    "no fence": (
        *("cute", "b01_single_tile", "        cute.arch.fence_view_async_shared()", "        # none"),
        *("proxy-fence", "cute.gemm"),
    ),
    "accumulates from the first": (
        *("cute", "b01_single_tile", "k_block != 0", "True"),
        *("tmem-uninitialised", "cute.gemm"),
    ),
    "nobody waits for all warps": (
        *(
            "cute",
            "b04_tma",
            "            cute.arch.sync_threads()  # all warps together: nobody misses a phase\n",
            "",
        ),
        *("phase-lapped deadlock", "cute.arch.mbarrier_wait(done"),
    ),
    "TileLang frees while others read": (
        *(
            "tilelang",
            "b01_single_tile",
            "            T.sync_threads()  # TileLang frees",
            "            # TileLang frees",
        ),
        *("tmem-freed-early tmem-unallocated", ""),
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found_at_its_line(fault):
    dsl, name, text, instead, kinds, line = PLANTED[fault]
    source = (loading.SOLUTIONS / "blackwell" / dsl / f"{name}.py").read_text()
    assert source.count(text) == 1
    size = (128, 128, 64) if name == "b01_single_tile" else (128, 128, 320)
    gemm = loading.load_factory_source(source.replace(text, instead), name)
    artifact = compile_factory(gemm, dsl, size, chip=BLACKWELL)
    found = {}
    for seed in range(4):
        tensors = {one.name: torch.zeros(one.shape, dtype=torch.float16) for one in artifact.tensors}
        for one in emulate(artifact, tensors, seed).errors:
            found.setdefault(one.kind, one)
    wanted = set(kinds.split()) & set(found)
    assert wanted, [str(one) for one in found.values()]
    assert any(found[kind].place.code.startswith(line) for kind in wanted), [
        str(found[kind]) for kind in wanted
    ]
