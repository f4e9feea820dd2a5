"""Where a proxy fence has to stand: the emulator and an H200 agree on 24 kernels (solutions/measured)."""

import json

import pytest
import torch

from benchmarks import proxy_fence
from course_utils.compile.load import SOLUTIONS
from course_utils.run.emulator import emulate

ROWS = json.loads((SOLUTIONS / "measured" / "proxy_fence.json").read_text())["rows"]
SEEN = {f"{row['hazard']} | {row['fence']} | {row['hand']}": row for row in ROWS}
ROUNDS = 3


def test_the_record_has_every_variant_and_no_row_between_wrong_and_right():
    assert list(SEEN) == [name for name, _ in proxy_fence.kernels()]
    assert {row["launches_wrong"] for row in ROWS} == {0, proxy_fence.LAUNCHES}
    assert all((row["wrong"] > 0) == (row["launches_wrong"] > 0) for row in ROWS)


@pytest.mark.parametrize("name, defines", list(proxy_fence.kernels()))
def test_a_missing_fence_is_an_error_where_the_h200_was_wrong(name, defines):
    artifact = proxy_fence.artifact(defines, blocks=1, rounds=ROUNDS)
    pieces = torch.arange(1, ROUNDS * proxy_fence.PIECES + 1, dtype=torch.int32)
    given = pieces[:, None].expand(-1, 4).contiguous()
    tensors = {"given": given, "out": torch.zeros_like(given), "wrong": torch.zeros(1, dtype=torch.int32)}
    emulation = emulate(artifact, tensors, 0)
    assert emulation.finished and bool(emulation.errors) == (SEEN[name]["wrong"] > 0)
    assert {finding.kind.removesuffix("-overwrite") for finding in emulation.errors} <= {"proxy-fence"}
