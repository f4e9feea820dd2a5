"""Plans of step 11 tried on a GPU, each beside cuBLAS, in a file that is whole after each of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from course_utils.artifact import Artifact
from course_utils.chips import HOME
from course_utils.compile.errors import CompileError
from course_utils.grading import words
from course_utils.plans import Plan, plan_of, plans, powered
from course_utils.recordings import model
from course_utils.recordings.bundle import provenance
from course_utils.recordings.model import MeasuredError, Tuned
from course_utils.run.backends import Backend

Size = tuple[int, int, int]
Compile = Callable[[Callable, str, Size], Artifact]


def candidates(size: Size, count: int, sm_count: int = HOME.sms, dsl: str = "cute") -> list[Plan]:
    """A DSL's plans that are the quickest by the model on a chip of so many SMs, the best first."""
    return sorted(plans(sm_count, dsl), key=lambda plan: powered(*size, plan))[:count]


def started(path: Path, device: dict) -> dict:
    """What an earlier run left in the file, or results without entries. Raises MeasuredError for a file of
    another GPU, or one that is no such file.
    """
    if not path.exists():
        return {"provenance": provenance(device, {}), "entries": []}
    found = model.read(path, form=Tuned)
    there = found["provenance"]["gpu"]
    if there != device["name"]:
        raise MeasuredError(
            f"{path} holds times of {there}, and this GPU is {device['name']}: name another file with --out"
        )
    return found


def tune(
    factory: Callable,
    dsl: str,
    shapes: Sequence[Size],
    count: int,
    path: Path,
    machine: Backend,
    device: dict,
    compile_kernel: Compile,
    say: Callable[[str], object],
    source: str,
) -> dict:
    """Time the ``count`` most promising plans at each shape, and write ``path`` after each. Returns all that
    the file holds then.

    ``factory(M, N, K, plan=plan)`` makes the kernel. What the file has of the same ``source``, DSL, size and
    plan is not timed again. Raises MeasuredError and OSError; a plan that does not compile has no time. The
    plans of a shape compile side by side, so ``compile_kernel`` is called from several threads.
    """
    results = started(path, device)
    kernel = hashlib.sha256(source.encode()).hexdigest()[:16]
    have = {_key(entry) for entry in results["entries"] if entry["timing"]}
    for size in shapes:
        wanted = [
            point
            for plan in candidates(size, count, device["sms"], dsl)
            if _key(point := untimed(dsl, size, plan, kernel)) not in have
        ]
        made = _compiled(factory, dsl, size, wanted, compile_kernel)
        for point, artifact in zip(wanted, made, strict=True):
            if isinstance(artifact, CompileError):
                timing, why = None, str(artifact)
            else:
                answer = machine.time(artifact, "burst")
                timing = answer.timing
                why = "" if timing else f"{answer.error} {answer.detail} {words.text(*answer.causes)}".strip()
                found = provenance(device, {dsl: artifact.versions})
                versions = results["provenance"]["versions"] | found["versions"]
                results["provenance"] = found | {"versions": versions}
            # a point that had no time is tried anew
            kept = [entry for entry in results["entries"] if _key(entry) != _key(point)]
            results["entries"] = [*kept, {**point, "timing": timing, "why": why}]
            _replace(path, results)
            say(line(results["entries"][-1]))
    return results


def untimed(dsl: str, size: Size, plan: Plan, kernel: str) -> dict:
    """An entry without its time. ``kernel`` names the source."""
    return {
        "name": name(plan),
        "dsl": dsl,
        "size": list(size),
        "mode": "burst",
        "plan": plan._asdict(),
        "kernel": kernel,
        "model_us": round(powered(*size, plan) * 1e6, 1),
    }


def _compiled(
    factory: Callable, dsl: str, size: Size, points: Sequence[dict], compile_kernel: Compile
) -> list[Artifact | CompileError]:
    """What compiles of these points, each in a child process; and all before one is timed: a busy processor
    would be late with launches.
    """

    def one(point: dict) -> Artifact | CompileError:
        try:
            return compile_kernel(partial(factory, plan=Plan(**point["plan"])), dsl, size)
        except CompileError as error:
            return error

    with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
        try:
            return list(pool.map(one, points))
        except KeyboardInterrupt:  # what has not begun is left alone, and what has, ends in seconds
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def best(results: dict, dsl: str, size: Size, plan: Plan | None = None) -> dict | None:
    """The quickest entry of this DSL and size, and of this plan where one is asked for; None where none is
    timed. What is no plan of step 11's kernel does not count.
    """
    timed = [
        entry
        for entry in results["entries"]
        if (entry["dsl"], tuple(entry["size"])) == (dsl, size)
        if (made := plan_of(entry)) and made == (plan or made)
    ]
    return min(timed, key=lambda entry: entry["timing"]["seconds"], default=None)


def line(entry: dict) -> str:
    """A point in words."""
    plan = plan_of(entry)
    head = f"{' x '.join(map(str, entry['size']))}  {entry['dsl']}  {name(plan) if plan else entry['name']}"
    timing = entry["timing"]
    if not timing:
        return f"{head}: no time: {entry['why'][:200]}"
    return (
        f"{head}: {timing['seconds'] * 1e6:,.1f} us (model {entry['model_us']:,.1f}), "
        f"{timing['tflops']:.0f} TFLOP/s, {timing['ratio']:.3f} of cuBLAS"
    )


def name(plan: Plan) -> str:
    """A plan in words."""
    cluster = "no clusters"
    if plan.cluster == 2:
        cluster = "clusters of 2 side by side" if plan.across else "clusters of 2"
    words = f"{plan.block_M} x {plan.block_N}, {cluster}, {plan.num_ctas} CTAs, panels of {plan.panel}"
    return f"{words}, A and B swapped" if plan.swapped else words


def _key(entry: dict) -> tuple:
    plan = tuple(sorted(entry["plan"].items()))
    return entry["dsl"], tuple(entry["size"]), entry["mode"], plan, entry.get("kernel")


def _replace(path: Path, results: dict) -> None:
    """Write the file in one step: who reads it, or ends this, never has half of one."""
    fresh = path.with_suffix(".new")
    model.write(fresh, results)
    os.replace(fresh, path)
