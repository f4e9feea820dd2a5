"""Another library's GEMM as a problem that is timed: what ``timing`` asks of one, tried on the CPU."""

import pytest
import torch

from benchmarks.peers import __main__ as peers
from course_utils.run.gpu import timing

SIZE = 64, 32, 16


@pytest.fixture
def cpu(monkeypatch):
    """What is asked for on the GPU comes on the CPU."""

    def there(function):
        return lambda *given, **how: function(*given, **{**how, "device": "cpu"})

    for name in ("Generator", "empty", "randn"):
        monkeypatch.setattr(torch, name, there(getattr(torch, name)))
    monkeypatch.setattr(timing, "FLUSH_BYTES", 1)


@pytest.mark.parametrize("right", [True, False])
def test_a_peer_gets_fresh_inputs_and_its_d_is_checked(cpu, right):
    def prepare(A, B, D):
        return lambda: torch.matmul(A, B.T, out=D).mul_(1 if right else 2)

    problem = peers.Problem(prepare, SIZE, seed=0)
    before = problem.inputs[0][0].clone()
    problem.refresh(0)
    assert not torch.equal(before, problem.inputs[0][0])
    problem.poison()
    problem.run_kernel(0)
    problem.run_cublas(0)
    if right:
        problem.check()
    else:
        with pytest.raises(timing.TimedOutputWrong):
            problem.check()
