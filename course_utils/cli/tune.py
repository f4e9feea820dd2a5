"""``course tune``: which plan of step 11 is the quickest at a shape, on this GPU."""

from __future__ import annotations

import inspect
import math
from functools import partial
from pathlib import Path

from rich.console import Console

from course_utils import chips
from course_utils.cli import EXIT_NOT_ALL_TRIED
from course_utils.cli.terminal import say
from course_utils.compile import factory
from course_utils.compile.load import load_factory, solution_path
from course_utils.grading import steps
from course_utils.plans import choose, plan_of, require_addressable
from course_utils.recordings import measured, model, tuning
from course_utils.run import backends

STEP = "step11"  # the one whose kernels take a plan
TUNED = "tuned"  # what was tuned on an H200, in solutions/measured/


def tune(console: Console, what: str, shapes: list[str], show: bool, dsl: str, plans: int, out: str) -> int:
    """Time plans at each shape, or say which were recorded where there is no GPU, or ``--show`` is given."""
    sizes, results = [_shape(text) for text in shapes], Path(out)
    if show:
        return _show(console, dsl, sizes, results)
    if not sizes:
        raise ValueError("--shapes names what is tuned, for example --shapes 4104x4104x4104")
    if plans < 1:
        raise ValueError(f"--plans is how many are tried at each shape, 1 or more, not {plans}")
    path = _path(what, dsl)
    device, reason = backends.find_gpu()
    recorded = _recorded()
    where = recorded["provenance"]
    if device is None:
        say(console, f"Nothing is tuned here: {reason}.")
        if where:
            say(console, f"What follows was recorded on {where['gpu']}, {where['date']}.")
        _tell(console, recorded, dsl, sizes)
        return EXIT_NOT_ALL_TRIED
    if where and where["gpu"] != device["name"]:
        say(
            console,
            f"This GPU is {device['name']}. The model that chooses plans was fitted to times of "
            f"{where['gpu']}: here it only says what to try first.",
        )
    results.parent.mkdir(parents=True, exist_ok=True)
    gemm = load_factory(path)
    if "plan" not in inspect.signature(gemm).parameters:
        raise ValueError(f"{path}: gemm takes no plan; course tune needs `def gemm(M, N, K, plan=None)`")
    try:
        found = tuning.tune(
            gemm,
            dsl,
            sizes,
            plans,
            results,
            backends.Gpu(chip=chips.of_device(device)),
            device,
            partial(factory.compile_factory, chip=chips.of_device(device)),
            lambda text: say(console, text),
            path.read_text(),
        )
    except KeyboardInterrupt:
        say(console, f"Stopped. What was timed is in {out}; the same command continues from there.")
        return EXIT_NOT_ALL_TRIED
    _tell(console, found, dsl, sizes)
    say(console, f"wrote {out}")
    return 0


def _path(what: str, dsl: str) -> Path:
    """The kernel's file. Raises ValueError where it can have no plan."""
    if what == STEP:
        return solution_path(STEP, dsl)
    if what in steps.STEPS:
        raise ValueError(f"{what} has one plan; course tune is for {STEP}, or for a file of yours")
    if not Path(what).is_file():
        raise ValueError(f"there is no file {what!r}; course tune is for {STEP}, or for a file of yours")
    return Path(what)


def _shape(text: str) -> tuple[int, int, int]:
    """A shape that TMA can address. Raises ValueError."""
    numbers = text.lower().split("x")
    if len(numbers) != 3 or not all(number.isdecimal() and int(number) for number in numbers):
        raise ValueError(f"a shape is MxNxK, for example 4104x4104x4104, not {text}")
    M, N, K = map(int, numbers)
    require_addressable(M, N, K)
    return M, N, K


def _recorded() -> dict:
    """What is recorded of plans: ``tuned.json``, which `course tune` made, and ``step11.json`` beside it."""
    tuned, tried = measured.load(TUNED), measured.load(STEP)
    where = tuned["provenance"] or tried["provenance"]
    return {"provenance": where, "entries": tuned["entries"] + tried["entries"]}


def _show(console: Console, dsl: str, shapes: list[tuple[int, int, int]], out: Path) -> int:
    """The best recorded plan of each shape; first of your own file, where there is one."""
    own = [(str(out), model.read(out, form=model.Tuned))] if out.exists() else []
    for what, results in (*own, ("the course's record", _recorded())):
        where = results["provenance"]
        say(console, f"{what}: {where['gpu']}, {where['date']}" if where else f"{what}: nothing yet")
        there = {tuple(entry["size"]) for entry in results["entries"] if entry["dsl"] == dsl}
        _tell(console, results, dsl, shapes or sorted(there, key=math.prod))
    return 0


def _tell(console: Console, results: dict, dsl: str, shapes: list[tuple[int, int, int]]) -> None:
    """For each shape the quickest plan there is a time of, and what the model's choice is."""
    for size in shapes:
        chosen = choose(*size, dsl=dsl)
        at = " x ".join(map(str, size))
        entry = tuning.best(results, dsl, size)
        if entry is None:
            say(console, f"{at}: no time of {dsl} is recorded; the model takes {tuning.name(chosen)}.")
            continue
        if plan_of(entry) == chosen:
            words = "as the model chooses"
        else:
            words = f"the model takes {tuning.name(chosen)}"
            other = tuning.best(results, dsl, size, chosen)
            words += f": {other['timing']['seconds'] * 1e6:,.1f} us" if other else ", which has no time"
        say(console, f"{tuning.line(entry)}; {words}.")
