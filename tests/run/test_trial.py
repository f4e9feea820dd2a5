"""One trial: what a launch leaves of its inputs, its guards and its output, with a launch that is Python."""

import json

import pytest
import torch

from course_utils.artifact import Artifact, Resources, Tensor
from course_utils.cause import Cause, data
from course_utils.grading import words as sentences
from course_utils.run import trial
from course_utils.run.protocol import Answer

M, N, K = 64, 128, 32


def said(found):
    """The causes of a trial, in words."""
    return sentences.text(*found.touched, *found.found.causes)


def artifact(*tensors):
    return Artifact(
        dsl="python",
        kernel="main",
        ptx="",
        cubin=b"",
        grid=(1, 1, 1),
        block=(128, 1, 1),
        cluster=(1, 1, 1),
        dynamic_shared=0,
        parameters=(),
        tensors=tuple(Tensor(name, shape, "float16") for name, shape in tensors),
        resources=Resources(32, 0, 0, 0, 0),
    )


GEMM = artifact(("A", (M, K)), ("B", (N, K)), ("D", (M, N)))
COPY = artifact(("X", (4, 8, 16)), ("Y", (32, 16)))


def tried(kind, launch, of, seed=0, **options):
    return trial.tried(kind, of, torch.Generator().manual_seed(seed), launch, "cpu", **options)


def multiply(tensors):
    tensors["D"].copy_((tensors["A"].double() @ tensors["B"].double().T).half())


def move(tensors):
    tensors["Y"].copy_(tensors["X"].view(32, 16))


def test_a_right_launch():
    found = tried("gemm", multiply, GEMM)
    assert found.ok and found.touched == () and found.fields()["causes"] == []
    assert tried("copy", move, COPY).ok


def test_inputs_are_fresh_for_every_seed_and_the_generator_goes_on():
    seen = []
    generator = torch.Generator().manual_seed(1)
    for _ in range(2):
        trial.tried("gemm", GEMM, generator, lambda tensors: seen.append(tensors["A"].clone()), "cpu")
    tried("gemm", lambda tensors: seen.append(tensors["A"].clone()), GEMM, seed=1)
    assert torch.equal(seen[0], seen[2]) and not torch.equal(seen[0], seen[1])


@pytest.mark.parametrize("name", ["A", "B"])
def test_a_changed_input_is_no_pass_though_the_output_is_right(name):
    def launch(tensors):
        multiply(tensors)
        tensors[name][-1, -1] += 1

    found = tried("gemm", launch, GEMM)
    assert found.found.ok and not found.ok
    assert said(found) == f"The kernel changed its input {name}."


def test_a_changed_source_of_a_copy_is_no_pass():
    def launch(tensors):
        move(tensors)
        tensors["X"].view(torch.int16)[0, 0, 0] ^= 1

    assert tried("copy", launch, COPY).touched == (Cause("memory", "input-changed", {"tensor": "X"}),)


@pytest.mark.parametrize("place, where", [(-1, "before"), (M * N, "after")])
def test_an_element_outside_of_the_output_is_told(place, where):
    def launch(tensors):
        multiply(tensors)
        D = tensors["D"]
        D.as_strided((1,), (1,), D.storage_offset() + place).fill_(0)

    found = tried("gemm", launch, GEMM)
    assert not found.ok and found.found.ok
    assert found.touched == (Cause("memory", f"wrote-{where}", {"count": 1, "tensor": "D"}),)


def test_an_output_that_nobody_wrote_is_wrong_and_of_some_ctas_what_they_wrote_counts():
    assert "wrote no element of D" in said(tried("gemm", lambda _: None, GEMM))

    def half(tensors):
        product = (tensors["A"].double() @ tensors["B"].double().T).half()
        tensors["D"][: M // 2] = product[: M // 2]

    assert not tried("gemm", half, GEMM).ok
    assert tried("gemm", half, GEMM, partial=True).ok
    assert not tried("gemm", lambda _: None, GEMM, partial=True).ok


def test_a_wrong_output_beside_a_changed_input_says_both():
    def launch(tensors):
        tensors["D"].zero_()
        tensors["A"].zero_()

    words = said(tried("gemm", launch, GEMM))
    assert "changed its input A" in words and "are wrong" in words


def shifted(tensors):
    multiply(tensors)
    tensors["D"].copy_(tensors["D"].roll(64, 1))


def doubled(tensors):
    multiply(tensors)
    tensors["D"][:, :64] *= 2


@pytest.mark.parametrize("launch", [lambda _: None, shifted, doubled])
def test_causes_cross_a_workers_pipe_as_data(launch):
    """What an answer's reader says is what would have been said there, and kinds and values are the same."""
    found = tried("gemm", launch, GEMM)
    answer = Answer.from_fields(json.loads(json.dumps(found.fields())))
    assert answer.causes and sentences.text(*answer.causes) == said(found)
    assert data(list(answer.causes)) == data(list(found.found.causes))
