"""The peers of case t6 compute what the problem asks for, into the S that they are given."""

import pytest
import torch

from benchmarks import scores_there
from course_utils.problems import PROBLEMS


@pytest.mark.parametrize("name", scores_there.PEERS)
def test_a_peer_computes_the_scores(name):
    generator = torch.Generator().manual_seed(0)
    Q, K = (torch.randn(2, n, heads, 96, generator=generator) for n, heads in ((40, 6), (24, 2)))
    S = torch.zeros(2, 6, 40, 24)
    found = scores_there.PEERS[name](Q, K, S)()
    (wanted,) = PROBLEMS["scores of heads"].values(Q, K)
    torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=1e-5)


def test_every_shape_is_one_that_the_kernels_take():
    for kind, (batch, sequence_q, sequence_k, heads, kv_heads, D) in scores_there.SHAPES.values():
        assert kind in PROBLEMS and heads % kv_heads == 0 and D in (64, 96, 128)
        assert batch * sequence_q * sequence_k > 0
