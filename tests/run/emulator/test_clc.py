"""clusterlaunchcontrol: a CTA takes the place of one that has not begun. Nothing of this has run on a Blackwell
by us.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch

from course_utils.chips import BLACKWELL
from course_utils.compile import factory, load
from course_utils.compile.factory import DSLS
from course_utils.run import reference as results
from course_utils.run.emulator import emulate
from tests.run.emulator import blackwell as bw
from tests.run.emulator.kernels import by_thread_0, init, wait

ASK = (
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 16;\n"
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r5], [%r3];\n"
)
DECODE = """
.reg .b128 %answer;
ld.shared.b128 %answer, [%r5];
clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p5, %answer;
mov.u32 %r8, -1;
@%p5 clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r8, %r9, %r11, _}, %answer;
"""
CTA = "mov.u32 %r6, %ctaid.x;\nshl.b32 %r7, %r6, 2;\n"
OUT = "ld.param.u64 %rd1, [k_param_0];\ncvt.u64.u32 %rd2, %r7;\nadd.s64 %rd1, %rd1, %rd2;\n"
WRITTEN = "st.global.u32 [%rd1], %r8;\n"


def run(body, seed, ctas=12, sms=4, findings=()):
    out = np.full(ctas, 99, np.int32)
    artifact = bw.blackwell(body, {"out": out}, grid=(ctas, 1, 1))
    result = emulate(replace(artifact, chip=BLACKWELL.with_sms(sms)), {"out": out}, seed)
    assert {one.kind for one in result.findings} == set(findings), [str(one) for one in result.findings]
    return out


def begun(times=1):
    body = init(1, first=bw.DONE) + bw.DONE_AT + by_thread_0(ASK, "ASKED") + wait("[%r3]", 0, "ANSWERED")
    if times == 2:
        body += bw.SYNC + by_thread_0(ASK, "AGAIN") + wait("[%r3]", 1, "TWICE")
    return body + DECODE + CTA + OUT + WRITTEN


@pytest.mark.parametrize("seed", [0, 1, 5])
def test_each_place_is_taken_once_or_its_cluster_begins(seed):
    sms = 1
    out = run(begun(), seed, ctas=64, sms=sms)
    taken = out[(out != 99) & (out >= 0)]
    assert len(taken) and len(set(taken.tolist())) == len(taken)
    assert set(taken.tolist()) | set(np.flatnonzero(out != 99).tolist()) == set(range(64))
    assert all(out[place] == 99 for place in taken)  # who was cancelled has not begun


def test_where_all_have_room_each_request_fails():
    assert (run(begun(), 0, ctas=4) == -1).all()


def test_no_request_follows_one_that_failed():
    run(begun(2), 0, ctas=4, findings=["cancel-after-failure"])


@pytest.mark.parametrize("dsl", DSLS)
def test_the_solutions_take_the_tiles_of_ctas_that_never_begin(dsl):
    gemm = load.load_factory(load.SOLUTIONS / "blackwell" / dsl / "b06b_launch_control.py")
    artifact = factory.compile_factory(gemm, dsl, (512, 640, 192), chip=BLACKWELL.with_sms(4))
    for seed in (0, 1, 5):
        A, B = results.inputs(*artifact.problem, torch.Generator().manual_seed(seed), "cpu")
        D = torch.full(artifact.problem[:2], results.POISON, dtype=torch.int16).view(torch.float16)
        result = emulate(artifact, {"A": A, "B": B, "D": D}, seed)
        assert result.finished and result.findings == [], [str(one) for one in result.findings]
        assert results.compare(D, A, B).ok
        assert 0 < result.facts["ran TMEM_ALLOC"] < artifact.grid[0] == 20
