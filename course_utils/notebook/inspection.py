"""One kernel in detail: its receipt, its timeline, the paths of its copies, its instructions."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable

from course_utils.artifact import TensorMap
from course_utils.chips import HOME
from course_utils.compile import factory
from course_utils.compile.errors import CompileError
from course_utils.compile.load import load_factory_source, solution_path
from course_utils.figures.tiles import order
from course_utils.grading import steps, words
from course_utils.grading.steps import CopyCase
from course_utils.notebook.checks import page_receipts
from course_utils.notebook.output import at_work, by, paragraph, say, tabled
from course_utils.problems import COPIES, PROBLEMS
from course_utils.ptx import paths, receipts
from course_utils.recordings import progress
from course_utils.run import backends
from course_utils.tma.rules import violations


def receipt(step: str, gemm: object = None, dsl: str = "tilelang") -> None:
    """Show what the compiler made of ``gemm``, or else of your best checks of a step, both DSLs side by side.

    Raises nothing.
    """
    step = steps.named(step)
    doing = f"reading the receipt of {step}" if gemm is None else f"compiling {step} ({dsl})"
    with at_work(doing, "The receipt cannot be shown") as place:
        if gemm is None:
            found = _kept_receipts(step)
        else:
            found = {steps.DSL_NAMES[dsl]: _compiled_receipt(step, gemm, dsl)}
        if not found:
            hint = "check a kernel that compiles, then run this cell again"
            place.finish(paragraph(f"There is no receipt of {step} yet: {hint}."))
            return
        rows = list(dict.fromkeys(name for one in found.values() for name in one))
        lines = [[name, *(one.get(name, "none") for one in found.values())] for name in rows]
        place.finish(tabled(["", *found], lines))


def _compiled_receipt(step: str, gemm: object, dsl: str) -> dict[str, str]:
    row = steps.kernel_row(step)
    size = row.shapes[0] if isinstance(row, CopyCase) else row.emulated[0][0]
    artifact = factory.compile_factory(gemm, dsl, size, row.problem, chip=steps.chip_of(step))
    return dict(receipts.table(receipts.read_ptx(artifact.ptx), artifact))


def _kept_receipts(step: str) -> dict[str, dict[str, str]]:
    steps.row(step)
    kept = progress.read()
    found = {}
    for dsl, name in steps.DSL_NAMES.items():
        best = progress.find(kept, step, dsl)
        if receipt := dict(best["receipt"]) if best else page_receipts.get((step, dsl)):
            found[name] = receipt
    return found


def timeline(
    step: str,
    gemm: object,
    dsl: str = "tilelang",
    size: tuple[int, int, int] | None = None,
    seed: int = 0,
    sms: int | None = None,
) -> None:
    """Emulate one launch of ``gemm`` and show it step by step: which warp works, which waits for which, what
    each mbarrier and each stage holds. Raises nothing.

    ``sms``: on a chip of so many SMs, on which few CTAs have many tiles.
    """
    step = steps.named(step)
    doing, failed = f"compiling {step} ({dsl})", "The timeline cannot be drawn"
    with at_work(doing, failed, "There is nothing to draw yet, the kernel does not compile") as place:
        import torch

        from course_utils.figures import timeline as timelines
        from course_utils.figures.player import Player
        from course_utils.run.emulator.explain.replay import replay
        from course_utils.run.emulator.launch import emulated

        kind = steps.kernel_row(step).problem
        at = size or steps.trace_size(step)
        chip = steps.chip_of(step)
        artifact = factory.compile_factory(gemm, dsl, at, kind, chip=chip.with_sms(sms or chip.sms))
        place.status(f"emulating {step} ({dsl}) at {by(at)}")
        emulation, tried = emulated(
            artifact, torch.Generator().manual_seed(seed), seed, kind=kind, record=True
        )
        place.status("drawing the timeline")
        title = f"{step}, {steps.DSL_NAMES[dsl]}, {PROBLEMS[kind].takes} = {by(at)}"
        played = replay(emulation, title=title)
        picture = timelines.timeline(emulation, played["ctas"], played["title"])
        place.finish(Player(played, picture))
        for finding in emulation.findings:
            say(str(finding))
        if emulation.finished and not tried.found.ok:
            say(f"{artifact.tensors[-1].name} is wrong: {words.text(*tried.found.causes)}")


def look(
    copy: Callable, *shape: int, dsl: str = "tilelang", title: str = "X of", dtype: str = "float16"
) -> None:
    """Compile ``copy(*shape)`` and show by which path X comes and Y goes, their tensor maps, and whether the
    emulator finds every byte in its place. Raises nothing.

    ``title`` stands before the shape; ``dtype`` is the element type of X and Y, of ``problems.COPIES``.
    """
    named = f"{title} {by(shape)}"
    if dtype not in COPIES:
        say(f"{dtype!r} is no element type of copies; these are {', '.join(COPIES)}")
        return
    with at_work(f"compiling a copy, {named}", f"{named}: the path cannot be told") as place:
        try:
            artifact = factory.compile_factory(copy, dsl, shape, COPIES[dtype])
        except CompileError as error:
            place.finish(paragraph(f"{named}: no kernel. {str(error).splitlines()[0]}"))
            return
        maps = {p.tensor: p.tensor_map for p in artifact.parameters if p.tensor_map}
        rows = []
        for crossing in paths.copies(artifact, textwrap.dedent(inspect.getsource(copy))):
            found = maps.get(crossing.tensor)
            strides = ", ".join(f"{stride:,}" for stride in found.strides) if found else ""
            vain = "; tensor TMA was asked for" if crossing.finding else ""
            rows.append([crossing.tensor, f"{crossing}{vain}", str(found or "none"), strides])
        place.status(f"emulating a copy, {named}")
        answer = backends.Emulator(schedules=(0,)).ask(backends.Launch(shape, artifact, COPIES[dtype]))
        place.finish(tabled([named, "path: instructions", "tensor map", "its strides, bytes"], rows))
        say("Bytes: " + ("right" if answer.ok else words.text(*answer.causes) or answer.detail))


def at_sizes(gemm: object, *sizes: tuple[int, int, int]) -> None:
    """Emulate the first and the last CTA of a TileLang kernel at each size, and show how it ends.

    Raises nothing.
    """
    with at_work("compiling", "The sizes cannot be tried") as place:
        head, rows = ["M, N, K", "in the emulator"], []
        for size in sizes:
            place.status(f"emulating {by(size)}")
            rows.append([by(size), _ended(gemm, size)])
            place.update(tabled(head, rows))
        place.finish(tabled(head, rows))


def _ended(gemm: object, size: tuple[int, int, int]) -> str:
    try:
        artifact = factory.compile_factory(gemm, "tilelang", size)
    except CompileError as error:
        return f"no kernel: {error}"
    answer = backends.Emulator(schedules=(0,)).ask(backends.Launch(size, artifact, ctas=(0, -1)))
    return "right" if answer.ok else "not right" if answer.finished else "never ends"


def taken_out(step: str, dsl: str, calls: dict[str, str]) -> None:
    """Count instructions in the PTX of a step's solution, before and after every line that begins with a call
    is taken out of its source. Raises nothing.

    ``calls`` maps a call ("T.sync_threads") to the instruction that it is counted by ("bar.sync").
    """
    with at_work(f"compiling {step} ({dsl})", "The instructions cannot be counted") as place:
        lines = solution_path(step, dsl).read_text().splitlines()
        size = steps.trace_size(step)

        def ptx(without: str) -> str:
            kept = [line for line in lines if not without or not line.strip().startswith(without)]
            return factory.compile_factory(load_factory_source("\n".join(kept), step), dsl, size).ptx

        given, rows = ptx(""), []
        for call, instruction in calls.items():
            place.status(f"compiling {step} ({dsl}) without {call}")
            counts = [str(text.count(instruction)) for text in (given, ptx(call))]
            rows.append([call, instruction, *counts])
        place.finish(tabled([f"taken out of {step}", "counted in the PTX", "before", "after"], rows))


def panels(tiles_M: int, tiles_N: int, at_once: int = HOME.sms) -> None:
    """Show what the first ``at_once`` tiles of D read of A and B in one round of K, by the width of a panel.

    D has ``tiles_M`` x ``tiles_N`` tiles. Raises nothing.
    """
    with at_work("counting tiles", "The tiles cannot be counted") as place:
        if tiles_M < 1 or tiles_N < 1 or at_once < 1:
            raise ValueError("rows, columns and tiles at once are numbers from 1 on")
        widths = sorted({1, 2, 4, 8, 16, 32, tiles_N} & set(range(1, tiles_N + 1)))
        rows = []
        for panel in widths:
            count = min(at_once, tiles_M * tiles_N)
            tiles = [order(number, tiles_M, tiles_N, panel) for number in range(count)]
            A, B = len({m for m, _ in tiles}), len({n for _, n in tiles})
            name = f"{panel}, so row after row" if panel == tiles_N else str(panel)
            rows.append([name, str(A), str(B), str(A + B)])
        head = ["columns in a panel", "rows of A", "columns of B", "different tiles"]
        place.finish(tabled(head, rows))


def ask_driver(questions: Iterable[tuple[TensorMap, int]]) -> None:
    """Ask this machine's driver about tensor maps, each with its address in bytes past an aligned one, and
    show what it and the rules say. Raises nothing.
    """
    with at_work("asking the driver", "The driver cannot be asked") as place:
        device, reason = backends.find_gpu()
        if device is None:
            place.finish(paragraph(f"No driver to ask: {reason}. The recorded verdicts have to do."))
            return
        rows = [
            [str(asked), _driver_says(asked, address), "illegal" if violations(asked, address) else "legal"]
            for asked, address in questions
        ]
        place.finish(tabled(["tensor map", "the driver", "the rules"], rows))


def _driver_says(asked: TensorMap, address: int) -> str:
    import torch

    from course_utils.run.gpu.launch import DriverError, encode

    torch.zeros(1, device="cuda")  # the driver answers in a context only
    try:
        encode(asked, 2**46 + address)
    except (DriverError, ValueError):  # ValueError: cuda-bindings knows no such code
        return "illegal"
    return "legal"
