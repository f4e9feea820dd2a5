"""The faults of docs/found.md, each as its smallest program: what the emulator says of it, and that it says
nothing once the program is mended.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from course_utils.artifact import Artifact, Parameter, Tensor
from course_utils.compile import nvrtc
from course_utils.run.emulator import emulate

SOURCE = (Path(__file__).parents[2] / "data" / "found.cu").read_text()
THREADS, PIECES, ROUNDS = 256, 1024, 16
# name: (the first kind that the emulator names, CTAs of a cluster, CTAs, tiles of shared memory)
FAULTS = {
    "EXIT_PEER": ("cluster-exit", 2, 2, 1),
    "RING": ("read-before-write", 4, 4, 1),
    "REFILL": ("overwrite-while-read", 1, 1, 2),
    "PREDICATE": ("out-of-bounds", 1, 2, 1),
    "LAST_SUM": ("read-before-write", 1, 1, 1),
    "ONE_BARRIER": ("read-before-write", 1, 1, 1),
    "NO_FENCE": ("proxy-fence", 1, 1, 1),
    "EXIT_STORE": ("exit-in-flight", 1, 2, 1),
    "EARLY": ("overwrite-while-read", 1, 1, 2),
    "REUSE": ("read-before-write", 1, 1, 1),
    "LAPPED": ("phase-lapped", 1, 1, 1),
    "TWICE": ("stored-twice", 1, 2, 1),
    "OWN_ROWS": ("read-before-write", 1, 1, 1),
}


def compiled(name, mended, tensors, late=0, copy=1):
    """One program for one launch."""
    _, cluster, ctas, tiles = FAULTS[name]
    defines = {"FAULT": name, "MENDED": int(mended), "LATE": late, "COPY": copy}
    text = "".join(f"#define {key} {value}\n" for key, value in defines.items() if key != "FAULT")
    ptx, cubin, resources = nvrtc.compile_source(f"{text}#define FAULT {name}\n{SOURCE}", ())
    launch = (ctas, 1, 1), (THREADS, 1, 1), (cluster, 1, 1), tiles * PIECES * 16
    declared = tuple(Tensor(key, tuple(tensor.shape), "int32") for key, tensor in tensors.items())
    parameters = tuple(Parameter("pointer", key) for key in tensors)
    return Artifact("cuda", "found", ptx, cubin, *launch, parameters, declared, resources)


def emulated(name, mended, **more):
    ctas = FAULTS[name][2]
    pieces = torch.arange(1, ROUNDS * PIECES + 1, dtype=torch.int32)
    given = pieces[:, None].expand(-1, 4).contiguous()
    rows = THREADS * ctas - THREADS // 2 if name == "PREDICATE" else max(ctas, ROUNDS) * PIECES
    out = torch.zeros(rows, 4, dtype=torch.int32)
    if name == "NO_FENCE":  # a round's halves, from 2
        values = (0x4000 + (torch.arange(ROUNDS, dtype=torch.int32) << 6)) * 0x10001
        out[: ROUNDS * 128] = values.repeat_interleave(128)[:, None]
    tensors = {"given": given, "out": out, "wrong": torch.zeros(1, dtype=torch.int32)}
    found = emulate(compiled(name, mended, tensors, **more), tensors, 0)
    return found, int(tensors["wrong"])


@pytest.mark.parametrize("name", FAULTS)
def test_the_fault_is_named(name):
    found, _ = emulated(name, mended=False)
    assert FAULTS[name][0] in {finding.kind for finding in found.errors}


@pytest.mark.parametrize("name", FAULTS)
def test_the_mended_program_is_right(name):
    found, wrong = emulated(name, mended=True)
    assert found.finished and not found.errors and not wrong


def test_a_kernel_multiplies_whose_last_tensor_is_no_matrix():
    tensors = {"given": torch.zeros(8, 4, dtype=torch.int32), "out": torch.zeros(2048, 4, dtype=torch.int32)}
    tensors["wrong"] = torch.zeros(1, dtype=torch.int32)
    artifact = replace(compiled("NO_FENCE", True, tensors), grid=(2, 1, 1))
    assert emulate(artifact, tensors, 0, ctas=[0]).finished
