"""Whatever an instruction is spelled like, it runs, or it is refused by its name and line: no Python error."""

import random
import re
from pathlib import Path

import numpy as np
import pytest

from course_utils.run.emulator import EmulatorError, emulate
from course_utils.run.emulator.units import spellings, table
from tests.run.emulator.kernels import kernel

# Registers that every spelling finds: %r1 shared memory, %r3 an mbarrier there, %r4 a word of each lane's,
# %rd1 a tensor, %rd3 the same in generic addresses of shared memory
SET_UP = """
.reg .b128 %w<4>;
.reg .f64 %d<8>;
mov.u32 %r0, %tid.x;
mov.b32 %r1, smem;
add.s32 %r3, %r1, 8192;
setp.ne.s32 %p0, %r0, 0;
@!%p0 mbarrier.init.shared::cta.b64 [%r3], 32;
fence.mbarrier_init.release.cluster;
bar.sync 0;
ld.param.u64 %rd1, [k_param_0];
cvta.shared.u64 %rd3, smem;
shl.b32 %r4, %r0, 4;
add.s32 %r4, %r4, %r1;
st.shared.v4.u32 [%r4], {%r0, %r0, %r0, %r0};
mov.u32 %r5, 3;
mov.u32 %r6, -1;
mov.u64 %rd4, 77;
mov.u64 %rd5, -5;
mov.b32 %f1, 0f3FC00000;
mov.b32 %f2, %r0;
mov.b64 %d1, 0d3FF8000000000000;
mov.b64 %d2, %rd5;
mov.u16 %rs1, 5;
cvt.u16.u32 %rs2, %r0;
mov.b32 %r7, 0;
mov.b32 %r8, 0;
mov.b64 %rd6, 0;
mov.b128 %w1, {%rd4, %rd5};
mov.b64 %rd7, 0;
mov.b32 %f3, 0f00000000;
mov.b64 %d3, %rd7;
setp.eq.s32 %p1, %r0, %r5;
"""
RIGHT = """
add.s32 %r10, %r0, %r5
add.sat.s32 %r10, %r0, %r5
add.rz.ftz.f32 %f10, %f1, %f2
add.f16x2 %r10, %r0, %r5
add.cc.u32 %r10, %r0, %r6
addc.u32 %r10, %r0, %r6
sub.cc.u64 %rd10, %rd4, %rd5
subc.u64 %rd10, %rd4, %rd5
mul.wide.u32 %rd10, %r0, %r5
mul.hi.s32 %r10, %r0, %r5
mul24.lo.s32 %r10, %r0, %r5
mad24.lo.u32 %r10, %r0, %r5, %r6
mad.lo.s32 %r10, %r0, %r5, %r6
mad.lo.cc.u32 %r10, %r0, %r5, %r6
madc.hi.u32 %r10, %r0, %r5, %r6
fma.rn.relu.f16x2 %r10, %r0, %r5, %r6
fma.rm.f32 %f10, %f1, %f2, %f3
sad.u32 %r10, %r0, %r5, %r6
div.full.ftz.f32 %f10, %f1, %f2
div.u32 %r10, %r0, %r5
rem.s64 %rd10, %rd4, %rd5
min.NaN.f32 %f10, %f1, %f2
max.s16x2 %r10, %r0, %r5
abs.ftz.f32 %f10, %f1
neg.s32 %r10, %r0
rcp.approx.ftz.f32 %f10, %f1
sqrt.rn.f64 %d4, %d1
ex2.approx.f16x2 %r10, %r0
tanh.approx.f32 %f10, %f1
lg2.approx.f32 %f10, %f1
dp4a.u32.s32 %r10, %r0, %r5, %r6
dp2a.lo.u32.s32 %r10, %r0, %r5, %r6
copysign.f32 %f10, %f1, %f2
testp.finite.f32 %p2, %f1
popc.b64 %r10, %rd4
brev.b32 %r10, %r0
bfind.shiftamt.u32 %r10, %r0
bfe.u32 %r10, %r0, 3, 4
bfi.b32 %r10, %r0, %r5, 3, 4
bmsk.clamp.b32 %r10, %r0, %r5
szext.wrap.s32 %r10, %r0, %r5
setp.lt.and.s32 %p2|%p3, %r0, %r5, %p1
setp.neu.f32 %p2, %f1, %f2
set.le.u32.f32 %r10, %f1, %f2
set.gtu.u32.f16x2 %r10, %r0, %r5
selp.b32 %r10, %r0, %r5, %p1
slct.u32.s32 %r10, %r0, %r5, %r6
xor.b32 %r10, %r0, %r5
not.pred %p2, %p1
cnot.b32 %r10, %r0
lop3.b32 %r10, %r0, %r5, %r6, 0x96
shl.b32 %r10, %r0, %r5
shr.s64 %rd10, %rd5, %r5
shf.l.wrap.b32 %r10, %r0, %r5, %r6
mov.b64 %rd10, {%r0, %r5}
mov.b64 {%r10, %r11}, %rd4
mov.b128 %w2, {%rd4, %rd5}
mov.b128 {%rd10, %rd11}, %w1
prmt.b32.f4e %r10, %r0, %r5, %r6
cvt.rni.sat.s8.f32 %r10, %f1
cvt.rn.satfinite.e4m3x2.f32 %rs4, %f1, %f2
cvt.rn.relu.bf16x2.f32 %r10, %f1, %f2
cvt.rna.tf32.f32 %r10, %f1
cvt.pack.sat.s8.s32.b32 %r10, %r0, %r5, %r6
cvta.to.shared.u64 %rd10, %rd3
isspacep.shared::cta %p2, %rd3
ld.global.L1::no_allocate.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1]
ld.shared.b128 %w2, [%r4]
ld.relaxed.gpu.global.u64 %rd10, [%rd1]
st.shared.v2.b64 [%r4], {%rd4, %rd5}
st.global.b128 [%rd1], %w1
st.volatile.global.u32 [%rd1], %r0
st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%r4], {%r0, %r0, %r0, %r0}, [%r3]
red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r4], %r5, [%r3]
atom.global.add.u32 %r10, [%rd1], %r0
atom.shared.cas.b32 %r10, [%r4], %r0, %r5
atom.global.add.noftz.v2.bf16x2 {%r10, %r11}, [%rd1], {%r0, %r5}
red.release.gpu.global.add.f32 [%rd1], %f1
mapa.shared::cluster.u32 %r10, %r1, 0
getctarank.shared::cluster.u32 %r10, %r1
createpolicy.fractional.L2::evict_first.b64 %rd10, 0f3F800000
prefetch.global.L2 [%rd1]
applypriority.global.L2::evict_normal [%rd1], 128
cp.async.cg.shared.global.L2::128B [%r4], [%rd1], 16
cp.async.commit_group
cp.async.wait_group 0
cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r3]
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 64, [%r3]
@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64
@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r1+64], 64, [%r3]
@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16 [%rd1], [%r1], 64
@%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.max.s32 [%r1], [%r1+64], 64, [%r3]
cp.async.bulk.commit_group
cp.async.bulk.wait_group.read 0
cp.async.bulk.prefetch.L2.global [%rd1], 64
cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r5}], [%r3]
cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%rd1, {%r5}], [%r1]
tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r1], 2
shfl.sync.bfly.b32 %r10|%p2, %r0, 1, 31, -1
vote.sync.ballot.b32 %r10, %p1, -1
match.all.sync.b32 %r10|%p2, %r0, -1
match.any.sync.b64 %r10, %rd4, -1
activemask.b32 %r10
elect.sync _|%p2, -1
redux.sync.add.s32 %r10, %r0, -1
ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r10, %r11}, [%r4]
stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {%r0}
movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r0
mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f10,%f11,%f12,%f13}, {%r0,%r0,%r0,%r0}, {%r0,%r0}, {%f3,%f3,%f3,%f3}
mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d4,%d5}, {%d1}, {%d1}, {%d3,%d3}
mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f10,%f11,%f12,%f13}, {%r0,%r0}, {%r0,%r0}, {%f3,%f3,%f3,%f3}, %r6, 0
nanosleep.u32 20
griddepcontrol.wait
bar.sync 1, 32
barrier.cta.red.popc.aligned.u32 %r10, 1, 32, %p1
bar.red.or.pred %p2, 1, 32, !%p1
bar.warp.sync -1
barrier.cluster.arrive.release.aligned
membar.gl
fence.acq_rel.gpu
fence.proxy.async.shared::cta
fence.proxy.tensormap::generic.release.gpu
mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 %rd10, [%r3], 0
mbarrier.arrive.shared.b64 _, [%r3]
mbarrier.pending_count.b64 %r10, %rd4
mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r3], 1
mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 [%r3], 16
mbarrier.inval.shared::cta.b64 [%r3]
wgmma.fence.sync.aligned
wgmma.commit_group.sync.aligned
wgmma.wait_group.sync.aligned 0
setmaxnreg.dec.sync.aligned.u32 24
""".strip().splitlines()
WORDS = sorted(
    set().union(*spellings.WORDS.values()) | {"f32x2", "rs", "im2col", "e2m1x2", "b256", "sp", "x3"}
)
OPERANDS = [
    "%r0",
    "%rd4",
    "%f1",
    "%rs1",
    "%p1",
    "%w1",
    "%d1",
    "7",
    "0f3F800000",
    "[%rd1]",
    "{%r0, %r0}",
    "smem",
    "_",
]


def outcome(line):
    """ "ran", or the refusal of a kernel that has this instruction."""
    tensor = np.arange(1024, dtype=np.uint32)
    artifact = kernel(f"{SET_UP}{line};\n", threads=32, tensors=[("T", (1024,), "uint32")], pointers=["T"])
    try:
        emulate(artifact, {"T": tensor}, limit=10_000)
    except EmulatorError as error:
        return str(error)
    return "ran"


def changed(line, rng):
    """One or two changes of an instruction: its words, or its operands."""
    guard, _, line = line.rpartition("@%p1 ")
    guard = "@%p1 " * bool(guard or line.startswith("@"))
    opcode, _, rest = line.partition(" ")
    first, *words = opcode.split(".")
    operands = re.findall(r"[^,{\[]*(?:\{[^}]*\}|\[[^]]*\])?[^,]*", rest)
    operands = [operand for operand in operands if operand.strip()]
    for _ in range(rng.choice((1, 1, 2))):
        items, pool = (words, WORDS) if rng.random() < 0.75 or not operands else (operands, OPERANDS)
        at = rng.randrange(len(items) + 1)
        kind = rng.choice(("drop", "put", "set", "swap"))
        if kind == "put":
            items.insert(at, rng.choice(pool))
        elif at < len(items):
            if kind == "drop":
                del items[at]
            elif kind == "set":
                items[at] = rng.choice(pool)
            else:
                other = rng.randrange(len(items))
                items[at], items[other] = items[other], items[at]
    return f"{guard}{'.'.join([first, *words])} {', '.join(o.strip() for o in operands)}"


def test_each_of_these_runs():
    refused = {line: told for line in RIGHT if (told := outcome(line)) != "ran"}
    assert refused == {}


@pytest.mark.parametrize("part", range(4))
def test_other_spellings_run_or_are_refused_by_name(part, rounds=3):
    rng = random.Random(part)
    for line in RIGHT[part::4]:
        for _ in range(rounds):
            other = changed(line, rng)
            told = outcome(other)
            opcode = other.removeprefix("@%p1 ").partition(" ")[0]
            if told != "ran":
                assert re.match(r"PTX line \d+: ", told) and "emulator failed" not in told, (other, told)
                assert opcode in told, (other, told)


def test_the_page_has_the_tables():
    page = (Path(__file__).parents[3] / "notebooks" / "check_any_kernel.md").read_text()
    assert len(tables := spellings.page().split("\n\n")) == 3
    assert all(table in page for table in tables)


def test_the_page_has_every_instruction_once():
    shown = [word for _, _, words in spellings.MODELLED for word in words.split()]
    assert sorted(shown) == sorted(table.TABLE)


@pytest.mark.parametrize(
    "line, why",
    [
        ("tcgen05.shift.cta_group::1.down [%r1]", "came with Blackwell"),
        ("fma.rn.f32x2 %rd10, %rd4, %rd5, %rd4", "came with Blackwell"),
        ("ld.shared.v8.b32 {%r0,%r0,%r0,%r0,%r0,%r0,%r0,%r0}, [%r1]", "more bits than one access has"),
        ("redux.sync.max.f32 %f10, %f1, -1", "came with Blackwell"),
        ("multimem.red.relaxed.gpu.global.add.s32 [%rd1], %r0", "memory of several GPUs"),
        ("tex.1d.v4.f32.s32 {%f10,%f11,%f12,%f13}, [%rd1, {%r0}]", "textures"),
        (
            "cp.async.bulk.tensor.3d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes "
            "[%r1], [%rd1, {%r0, %r0, %r0}], [%r3]",
            "came with Blackwell",
        ),
        ("mbarrier.arrive.noComplete.shared::cta.b64 %rd10, [%r3], 1", "no public kernel was seen to use it"),
    ],
)
def test_a_refusal_says_why(line, why):
    told = outcome(line)
    assert why in told and line[:100] in told and re.match(r"PTX line \d+: ", told)


def test_every_row_of_the_table_has_its_words():
    bare = {"call", "wgmma.mma_async"}  # whose builders look at every word
    assert set(table.TABLE) - bare == set(spellings.WORDS)
