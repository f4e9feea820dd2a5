"""Where a proxy fence has to stand: the emulator and an H200 agree on 24 kernels (solutions/measured).

Three hazards between ordinary accesses of threads (the generic proxy) and a bulk copy (the async proxy), each
with the fence left out, with one in every thread before the barrier, with one in the copy's thread after it,
and with one in that thread before it. A count is 16-byte pieces that came out wrong. PTX ISA 9.4, "membar,
fence": a proxy fence takes effect within a single thread, and composes with other synchronisation.
"""

import json
from itertools import product
from pathlib import Path

import pytest
import torch

from course_utils.artifact import Artifact, Parameter, Tensor
from course_utils.compile import nvrtc
from course_utils.compile.load import SOLUTIONS
from course_utils.run.emulator import emulate

SOURCE = (Path(__file__).parents[2] / "data" / "proxy_fence.cu").read_text()
ROWS = json.loads((SOLUTIONS / "measured" / "proxy_fence.json").read_text())["rows"]
SEEN = {(row["hazard"], row["fence"], row["hand"]): row for row in ROWS}
HAZARDS = ("write then bulk store", "read then bulk load", "write then bulk load")
FENCES = (
    "none",
    "before the barrier, every thread",
    "after the barrier, the copy's thread",
    "before the barrier, the copy's thread",
)
HANDS = ("bar.sync", "mbarrier")  # how threads tell the copy's thread that they are done
VARIANTS = list(product(HAZARDS, FENCES, HANDS))
THREADS, PIECES, ROUNDS, LAUNCHES = 256, 1024, 3, 200  # pieces of 16 bytes in a tile; launches on the H200


def compiled(hazard, fence, hand, tensors):
    """One variant for a launch of one CTA."""
    defines = {
        "THREADS": THREADS,
        "PIECES": PIECES,
        "ROUNDS": ROUNDS,
        "HAZARD": HAZARDS.index(hazard),
        "FENCE": FENCES.index(fence),
        "HAND": HANDS.index(hand),
    }
    text = "".join(f"#define {key} {value}\n" for key, value in defines.items()) + SOURCE
    ptx, cubin, resources = nvrtc.compile_source(text, ())
    launch = (1, 1, 1), (THREADS, 1, 1), (1, 1, 1), PIECES * 16
    declared = tuple(Tensor(name, tuple(tensor.shape), "int32") for name, tensor in tensors.items())
    parameters = tuple(Parameter("pointer", name) for name in tensors)
    return Artifact("cuda", "hazard", ptx, cubin, *launch, parameters, declared, resources)


def test_the_record_has_every_variant_and_no_row_between_wrong_and_right():
    assert list(SEEN) == VARIANTS
    assert {row["launches_wrong"] for row in ROWS} == {0, LAUNCHES}
    assert all((row["wrong"] > 0) == (row["launches_wrong"] > 0) for row in ROWS)


@pytest.mark.parametrize("variant", VARIANTS, ids=" | ".join)
def test_a_missing_fence_is_an_error_where_the_h200_was_wrong(variant):
    pieces = torch.arange(1, ROUNDS * PIECES + 1, dtype=torch.int32)
    given = pieces[:, None].expand(-1, 4).contiguous()
    tensors = {"given": given, "out": torch.zeros_like(given), "wrong": torch.zeros(1, dtype=torch.int32)}
    emulation = emulate(compiled(*variant, tensors), tensors, 0)
    assert emulation.finished and bool(emulation.errors) == (SEEN[variant]["wrong"] > 0)
    assert {finding.kind.removesuffix("-overwrite") for finding in emulation.errors} <= {"proxy-fence"}


PIPELINE = (Path(__file__).parents[2] / "data" / "proxy_fence_pipeline.cu").read_text()
RECORD = json.loads((SOLUTIONS / "measured" / "proxy_fence_pipeline.json").read_text())
NAMES = RECORD["variants"]
WRONG = {tuple(row[:-2]): row[-1] for row in RECORD["rows"]}  # launches, of 2,000
READS, USES, HANDS_OVER, REFILLS, BANKS, STAGES = (
    range(len(NAMES[name])) for name in ("read", "use", "hand", "refill", "banks", "stages")
)
ROUND_LATER, DEPENDS, UNFENCED, FENCED, CONFLICTS = 1, 2, 0, 1, 0


def test_a_refill_came_too_soon_only_at_once_and_ahead_of_the_value():
    """And only where the lanes of a read met in one bank, which makes it last."""
    assert len(WRONG) == 432 and set(WRONG.values()) == {0, RECORD["launches"]}
    for (_, use, _, refill, banks, fence, _), launches in WRONG.items():
        if fence == FENCED or refill == ROUND_LATER or use == DEPENDS or banks != CONFLICTS:
            assert launches == 0
    at_once = [
        WRONG[read, use, hand, 0, CONFLICTS, UNFENCED, stages]
        for read, use, hand, stages in product(READS, USES[:DEPENDS], HANDS_OVER, STAGES)
    ]
    assert len(at_once) == 36 and sum(launches > 0 for launches in at_once) == 31


@pytest.mark.parametrize(
    "use, hand, refill, fence",
    [*product(USES, HANDS_OVER, REFILLS, (UNFENCED,)), (0, 0, 0, FENCED), (0, 1, 0, FENCED)],
)
def test_a_refill_without_a_fence_is_an_error_where_it_may_come_ahead_of_the_value(use, hand, refill, fence):
    """With four stages; with one, a round later is only a delay, which the emulator does not know."""
    rounds, stages = 7, 4
    sizes = {"READERS": THREADS, "PIECES": PIECES, "ROUNDS": rounds, "STAGES": stages}
    chosen = {"READ": 1, "USE": use, "HAND": hand, "REFILL": refill, "BANKS": CONFLICTS, "FENCE": fence}
    text = "".join(f"#define {key} {value}\n" for key, value in (sizes | chosen).items()) + PIPELINE
    ptx, cubin, resources = nvrtc.compile_source(text, ())
    given = torch.arange(1, rounds * PIECES + 1, dtype=torch.int32)[:, None].expand(-1, 4).contiguous()
    tensors = {"given": given, "wrong": torch.zeros(1, dtype=torch.int32)}
    launch = (1, 1, 1), (THREADS + 32 * (hand > 0), 1, 1), (1, 1, 1), stages * PIECES * 16
    declared = tuple(Tensor(name, tuple(tensor.shape), "int32") for name, tensor in tensors.items())
    parameters = tuple(Parameter("pointer", name) for name in tensors)
    emulation = emulate(
        Artifact("cuda", "ring", ptx, cubin, *launch, parameters, declared, resources), tensors
    )
    kinds = {finding.kind for finding in emulation.findings}
    harmless = refill == ROUND_LATER or use == DEPENDS
    expected = {"proxy-fence-refill" if harmless else "proxy-fence-overwrite"} if fence == UNFENCED else set()
    assert emulation.finished and kinds == expected
