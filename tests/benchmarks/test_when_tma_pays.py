"""benchmarks/when_tma_pays.py: each way brings every byte once, and its copies take their paths."""

import numpy as np
import pytest

from benchmarks import when_tma_pays as pays
from course_utils.run.emulator.emulate import emulate


@pytest.mark.parametrize("mode", range(len(pays.WAYS)))
def test_every_way_adds_up_the_same_tiles(mode):
    height, pitch, passes = 128, 256, 2
    X = np.random.default_rng(mode).integers(0, 256, (height, pitch), np.uint8)
    out = np.zeros(1, np.int32)
    made = pays.streamed(mode, 64, 32, height, passes, pitch=pitch, ctas=2)
    emulation = emulate(made, {"X": X, "out": out}, 0)
    assert emulation.finished and not emulation.errors
    assert int(out.view(np.uint32)[0]) == int(X.view(np.uint32).sum(dtype=np.uint64)) * passes % 2**32


def test_tiles_fit_twice_in_an_sm():
    largest = max(rows * width for rows, width in pays.TILES)
    assert 2 * (pays.STAGES * largest + 8 * pays.STAGES + 1024) <= 228 * 1024


@pytest.mark.parametrize("name", pays.COPIES)
def test_a_copy_takes_the_path_of_its_name(name):
    assert pays.copied(name).kernel
