"""What an instruction is, from its opcode; most families are held by the counts of test_receipts.py too."""

import pytest

from course_utils.ptx.families import Family, accesses_memory, expects_bytes, family, reads_parameter
from course_utils.ptx.parser import Imm, Instr


def instruction(opcode, operands=()):
    return Instr(tuple(opcode.split(".")), operands, None, 1, opcode, None)


BULK = "cp.async.bulk."
# fmt: off
OPCODES = {
    Family.TENSOR_LOAD: (
        BULK + "tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes",
        BULK + "tensor.5d.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint",
    ),
    Family.MULTICAST_LOAD: (
        BULK + "tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
    ),
    Family.TENSOR_STORE: (BULK + "tensor.1d.global.shared::cta.bulk_group",),
    Family.TENSOR_REDUCE: ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group",),
    Family.BULK_LOAD: (
        BULK + "shared::cluster.global.mbarrier::complete_tx::bytes",
        BULK + "shared::cta.global.mbarrier::complete_tx::bytes",
    ),
    Family.BULK_STORE: (BULK + "global.shared::cta.bulk_group",),
    Family.BULK_PEER: (BULK + "shared::cluster.shared::cta.mbarrier::complete_tx::bytes",),
    Family.BULK_PREFETCH: (BULK + "prefetch.L2.global", BULK + "prefetch.tensor.2d.L2.global.tile"),
    Family.BULK_COMMIT: (BULK + "commit_group",),
    Family.BULK_WAIT: (BULK + "wait_group", BULK + "wait_group.read"),
    Family.CP_ASYNC: ("cp.async.ca.shared.global", "cp.async.cg.shared::cta.global.L2::128B"),
    Family.WGMMA: ("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16",),
    Family.WGMMA_WAIT: ("wgmma.wait_group.sync.aligned",),
    Family.MBARRIER_INIT: ("mbarrier.init.shared::cta.b64",),
    Family.MBARRIER_WAIT: ("mbarrier.try_wait.parity.shared::cta.b64", "mbarrier.test_wait.shared.b64"),
    Family.ARRIVE: (
        "mbarrier.arrive.shared::cta.b64", "mbarrier.arrive.b64", "mbarrier.arrive_drop.shared.b64",
        "mbarrier.arrive.expect_tx.shared::cta.b64",
    ),
    Family.REMOTE_ARRIVE: ("mbarrier.arrive.release.cluster.shared::cluster.b64",),
    Family.EXPECT_TX: ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64",),
    Family.PROXY_FENCE: (
        "fence.proxy.async", "fence.proxy.async.shared::cta", "fence.proxy.async::generic.acquire",
    ),
    Family.SETMAXNREG: ("setmaxnreg.dec.sync.aligned.u32",),
    Family.CLUSTER_BARRIER: ("barrier.cluster.wait.acquire.aligned",),
    Family.CTA_BARRIER: ("bar.sync", "barrier.sync.aligned", "barrier.cta.sync.aligned", "bar.cta.sync"),
    Family.NAMED_BARRIER: (), Family.STMATRIX: ("stmatrix.sync.aligned.m8n8.x4.shared.b16",),
    Family.GLOBAL_LOAD: ("ld.global.nc.v4.u32", "ld.volatile.global.f32", "ldu.global.u32"),
    Family.GLOBAL_STORE: ("st.global.v2.b32", "st.release.gpu.global.u32"),
    Family.LOCAL_STORE: ("st.local.v2.b64", "st.volatile.local.u32"),
    Family.TMEM_ALLOC: ("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",),
    Family.TMEM_FREE: ("tcgen05.dealloc.cta_group::2.sync.aligned.b32",),
    Family.TMEM_LOAD: ("tcgen05.ld.sync.aligned.32x32b.x128.b32",),
    Family.TMEM_STORE: ("tcgen05.st.sync.aligned.16x256b.x1.b32",),
    Family.TMEM_COPY: ("tcgen05.cp.cta_group::1.128x256b",),
    Family.TMEM_WAIT: ("tcgen05.wait::ld.sync.aligned", "tcgen05.wait::st.sync.aligned"),
    Family.TCGEN05_MMA: (
        "tcgen05.mma.cta_group::1.kind::f16", "tcgen05.mma.cta_group::2.kind::f8f6f4.collector::a::discard",
    ),
    Family.TCGEN05_COMMIT: (
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64",
    ),
    Family.TCGEN05_FENCE: ("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"),
    Family.CLUSTER_LAUNCH: (
        "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128",
    ),
    Family.OTHER: (
        "ret", "bra.uni", "add.s32", "ld.shared.u32", "ld.param.u64", "ld.u32", "st.shared.u32",
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.u32", "cp.async.commit_group",
        "cp.async.wait_group", "cp.async.mbarrier.arrive.noinc.shared.b64", "wgmma.fence.sync.aligned",
        "mbarrier.inval.shared.b64", "fence.proxy.tensormap::generic.acquire.gpu",
        "fence.mbarrier_init.release.cluster", "barrier.cluster.arrive", "bar.arrive", "bar.warp.sync",
        "prefetch.tensormap", "tcgen05.shift.cta_group::1.down", "tcgen05.relinquish_alloc_permit.sync",
    ),
}
# fmt: on


@pytest.mark.parametrize("expected, opcode", [(kind, opcode) for kind in OPCODES for opcode in OPCODES[kind]])
def test_family(expected, opcode):
    assert family(instruction(opcode)) is expected


def test_every_family_is_tried():
    assert set(OPCODES) == set(Family)


@pytest.mark.parametrize("opcode", OPCODES[Family.CTA_BARRIER])
def test_a_barrier_with_a_thread_count_is_named(opcode):
    assert family(instruction(opcode, (Imm(1),))) is Family.CTA_BARRIER
    assert family(instruction(opcode, (Imm(1), Imm(128)))) is Family.NAMED_BARRIER


def test_what_cuts_across_the_families():
    expecting = ("mbarrier.expect_tx.shared.b64", "mbarrier.arrive.expect_tx.shared::cluster.b64")
    assert all(expects_bytes(instruction(opcode)) for opcode in expecting)
    assert not expects_bytes(instruction("mbarrier.arrive.shared.b64"))
    assert reads_parameter(instruction("ld.param.u64")) and reads_parameter(
        instruction("ld.param::entry.u64")
    )
    assert not reads_parameter(instruction("st.param.u64"))
    assert not reads_parameter(instruction("ld.shared.u64"))
    assert all(
        accesses_memory(instruction(o)) for o in ("ld.global.u32", "atom.global.add.u32", "cp.async.bulk.x")
    )
    assert not any(accesses_memory(instruction(o)) for o in ("add.s64", "cvta.to.global.u64", "mov.b64"))
