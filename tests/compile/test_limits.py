"""What a launch may ask of a Hopper chip."""

import pytest

from course_utils.compile.errors import CompileError
from course_utils.compile.limits import require_fits

ONE = (1, 1, 1)


@pytest.mark.parametrize(
    "grid, block, cluster, shared",
    [
        (ONE, (128, 1, 1), ONE, 0),
        ((2**31 - 1, 65535, 65535), (32, 32, 1), ONE, 227 * 1024),
        ((132, 1, 1), (384, 1, 1), (2, 1, 1), 230_400),
        ((8, 4, 1), (128, 1, 1), (4, 2, 1), 0),
    ],
)
def test_a_launch_that_fits(grid, block, cluster, shared):
    require_fits(grid, block, cluster, shared)


@pytest.mark.parametrize(
    "grid, block, cluster, shared, words",
    [
        ((0, 1, 1), (128, 1, 1), ONE, 0, "grid is 0 x 1 x 1"),
        ((2**32 - 1, 1, 1), (128, 1, 1), ONE, 0, "each extent must be 1 or more"),
        ((1, 65536, 1), (128, 1, 1), ONE, 0, "at most 65,535"),
        (ONE, (1025, 1, 1), ONE, 0, "1025 threads per CTA; Hopper allows 1024"),
        (ONE, (0, 1, 1), ONE, 0, "0 threads"),
        ((16, 1, 1), (128, 1, 1), (16, 1, 1), 0, "a cluster of 16 CTAs; Hopper allows 8"),
        ((133, 1, 1), (128, 1, 1), (2, 1, 1), 0, "must be a multiple of the cluster's"),
        (ONE, (128, 1, 1), ONE, 227 * 1024 + 1, "at most 232,448"),
    ],
)
def test_a_launch_that_no_gpu_could_start(grid, block, cluster, shared, words):
    with pytest.raises(CompileError, match=words) as caught:
        require_fits(grid, block, cluster, shared)
    assert caught.value.stage == "limit"
