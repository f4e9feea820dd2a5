"""Notebook t6's broken kernels without their names: what counts, paths and a swap say of each, and the fault
once the learner has guessed. Nothing is graded.
"""

from __future__ import annotations

from math import prod

import torch

from course_utils.artifact import Artifact
from course_utils.compile.factory import compile_factory
from course_utils.compile.faults import Fault, kernels
from course_utils.compile.load import plant, solution_path
from course_utils.drills.show import Shown
from course_utils.grading import refine, steps, words
from course_utils.grading.properties import once
from course_utils.notebook.output import at_work, by, folded, paragraph, tabled
from course_utils.notebook.what_ifs import changed_lines
from course_utils.ptx import paths
from course_utils.run.emulator.launch import emulated
from course_utils.run.trial import Trial

STEP, KIND = "t6", "scores of heads"
SUSPECTS = (
    *("t6_head_for_head", "t6_merged_rows", "t6_strides_exchanged"),
    *("t6_batch_missing", "t6_scale_missing", "t6_heads_in_turn"),
    *("t6_plain_copy", "t6_swizzles_differ"),
)

# K's tiles by the consumer's threads, from K as it lies, in place of the producer's loads
BY_THREADS = {
    "tilelang": (
        (
            "                    T.mbarrier_wait_parity(full[stage], (n // num_stages) & 1)\n",
            "                    T.sync_threads(1, 128)\n"
            "                    T.copy(K[b, ns, head // group, :], K_shared[stage, :, :])\n"
            "                    T.fence_proxy_async()\n"
            "                    T.sync_threads(1, 128)\n",
        ),
        (
            "T.serial(k_tiles):\n                    stage = n % num_stages\n                    # a new",
            "T.serial(0):\n                    stage = n % num_stages\n                    # a new",
        ),
    ),
    "cute": (
        ("def kernel(load_Q,", "def kernel(K_memory, load_Q,"),
        ("kernel(*tma,", "kernel(K_memory, *tma,"),
        ("S: cute.Tensor):\n", "S: cute.Tensor):\n        K_memory = K\n"),
        (
            "                pipe.consumer_wait(use)\n",
            "                consumers.arrive_and_wait()\n"
            "                for i in cutlass.range(block_N * D // 128, unroll=1):\n"
            "                    row, column = (thread + i * 128) // D, (thread + i * 128) % D\n"
            "                    value = element(0)\n"
            "                    if n * block_N + row < sequence_k:\n"
            "                        value = K_memory[b, n * block_N + row, head // group, column]\n"
            "                    K_shared[row, column, use.index] = value\n"
            "                cute.arch.fence_view_async_shared()\n"
            "                consumers.arrive_and_wait()\n",
        ),
        (
            "for n in cutlass.range(k_tiles, unroll=1):\n                pipe.producer_acquire",
            "for n in cutlass.range(0, unroll=1):\n                pipe.producer_acquire",
        ),
    ),
}


def suspect(number: int, guess: int | None = None, dsl: str = "tilelang") -> None:
    """Run broken kernel ``number``, from 1, in the emulator: its tensor maps, paths and counts, how S comes
    out, and how with K copied by threads. ``guess`` is the number of an explanation; with one, the fault is
    shown. Raises nothing.
    """
    with at_work(f"looking at suspect {number}", "This suspect cannot be shown") as place:
        names, choices = suspects_of(dsl), explanations(dsl)
        if not isinstance(number, int) or not 1 <= number <= len(names):
            place.finish(paragraph(f"There are suspects 1 to {len(names)}, not {number!r}."))
            return
        fault = kernels(dsl, STEP)[names[number - 1]]
        if guess is not None and guess not in range(1, len(choices) + 1):
            place.finish(paragraph(f"A guess is a number from 1 to {len(choices)}, not {guess!r}."))
            return
        place.status(f"compiling and emulating suspect {number}, as it is")
        head, rows = evidence(fault)
        place.status(f"compiling and emulating suspect {number}, with K by threads")
        rows.append(["K copied by threads", swapped(fault)])
        place.finish(tabled(head, rows))
        if guess is None:
            told = "\n".join(f"{n}. {text}" for n, text in enumerate(choices, 1))
            place.finish(paragraph(f"Which is it? Set guess to a number.\n{told}"))
            return
        right = choices[guess - 1] == fault.what
        told = "Your guess is right. " if right else f"It is not: {choices[guess - 1]} "
        place.finish(paragraph(f"{told}{fault.what}"))
        text = "\n".join(changed_lines(solution_path(STEP, dsl).read_text(), fault.source()))
        place.finish(Shown(text, lambda: folded("What was changed in the solution", text)))


def suspects_of(dsl: str) -> list[str]:
    """The suspects that this DSL can write."""
    return [name for name in SUSPECTS if name in kernels(dsl, STEP)]


def explanations(dsl: str) -> list[str]:
    """What each suspect is, in an order of its own."""
    return sorted(kernels(dsl, STEP)[name].what for name in suspects_of(dsl))


def evidence(fault: Fault) -> tuple[list[str], list[list[str]]]:
    """Of a broken kernel: a head and rows, each what was looked at, and what it shows."""
    artifact = _compiled(fault.edits, fault)
    facts, tried = _run(artifact)
    found = [[f"path of {copy.tensor}, {copy.direction}", str(copy)] for copy in paths.copies(artifact)]
    for parameter in artifact.parameters:
        if parameter.tensor_map is not None:
            made = parameter.tensor_map
            strides = " x ".join(map(str, reversed(made.strides)))
            found.append([f"map of {parameter.tensor}", f"{made}, strides {strides} bytes"])
    for tensor in artifact.tensors[:2]:
        count = once(facts, f"elements of {tensor.name} loaded")
        found.append([f"{tensor.name} loaded", f"{count:,} of its {prod(tensor.shape):,} elements"])
    stored, whole = once(facts, "elements stored by TMA"), prod(artifact.tensors[-1].shape)
    found.append(["S stored", f"{stored:,} elements, of {whole:,}"])
    past = [one for one in refine.outside(facts) if not 0 <= one.values["farthest"] < one.values["of"]]
    found.append(["boxes that begin past an edge", words.text(*past) if past else "none"])
    found.append(["S", _ended(tried)])
    return ["suspect", f"at {steps.find(STEP).problem}, {by(fault.size)}"], found


def swapped(fault: Fault) -> str:
    """How S comes out of a broken kernel whose threads copy K."""
    return _ended(_run(_compiled((*fault.edits, *BY_THREADS[fault.dsl]), fault))[1])


def _compiled(edits: tuple[tuple[str, str], ...], fault: Fault) -> Artifact:
    factory = plant(STEP, fault.dsl, *edits, wanted=steps.function_of(STEP))
    return compile_factory(factory, fault.dsl, fault.size, KIND)


def _run(artifact: Artifact) -> tuple[dict[str, int], Trial]:
    emulation, tried = emulated(artifact, torch.Generator().manual_seed(1), 0, kind=KIND)
    return dict(emulation.facts), tried


def _ended(tried: Trial) -> str:
    """Right, or how many elements are wrong. Which, and why, is for the learner to find."""
    whole = tried.found.wrong
    return "right" if tried.ok else f"wrong: {whole:,} elements"
