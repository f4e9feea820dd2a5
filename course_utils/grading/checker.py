"""check(): the one call of a grader cell. It tries every part of a step and never raises.

The learner's factory is compiled in this process; what is launched and timed is the Artifact alone, in the
worker process. A kernel that hangs or faults costs its own verdict and nothing else.
"""

from __future__ import annotations

import atexit
import ctypes
import inspect
import secrets
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from importlib import import_module

from course_utils.artifact import REGISTER_LIMIT, Artifact, TensorMap
from course_utils.compile.errors import CompileError
from course_utils.grading import conditions, steps
from course_utils.grading.verdict import Part, Verdict
from course_utils.ptx import receipts
from course_utils.run.client import EMULATOR, GPU, Worker, WorkerDied, WorkerTimeout
from course_utils.tma.rules import violations

OPEN = "raise NotImplementedError"  # what stands in an exercise where the learner's code goes
BACKENDS = ("auto", "gpu", "emulator", "compile")
DSLS = ("tilelang", "cute")
UNSTEADY = 0.1  # spread of the paired ratios between their quartiles; an idle H200 stays within 0.02
TIME_LIMIT = (
    20.0  # seconds for one launch and its check; a right kernel of this course needs far less than one
)
EMULATOR_LIMIT = 120.0  # seconds for one emulated size; a right kernel of this course needs less than ten
SCHEDULES = (0, 1)  # seeds of the emulator for a small size; for a large one the first alone

_NO_GPU = "not run: there is no Hopper GPU here"
_NOT_ASKED = {
    "compile": "not run: this check only compiles",
    "emulator": "not run: the emulator knows no time",
}
LARGE_EMULATED = 1 << 20  # elements of D
_FAULTS = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": "the kernel touched memory that is not its own (illegal address). Look at "
    "the tile's "
    "coordinates, the stage index, a multicast mask or a CTA rank that names a CTA the "
    "cluster does not have, and at a CTA that leaves its cluster early.",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": "the kernel ran an illegal instruction. Look for a tensor map, a wgmma "
    "descriptor or "
    "a multicast mask that asks for something the hardware does not have.",
    "CUDA_ERROR_MISALIGNED_ADDRESS": "an address is not aligned for its access: 16 bytes for a vector, 128 "
    "for a TMA tile, "
    "1,024 for a 128-byte swizzle.",
    "CUDA_ERROR_LAUNCH_FAILED": "the kernel died (unspecified launch failure).",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": "the launch needs more registers or shared memory than an SM has.",
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": "the cluster does not fit on the chip.",
    "CUDA_ERROR_INVALID_VALUE": "the driver refused the launch or a tensor map: a grid that its cluster does "
    "not divide, more "
    "than 1,024 threads, or a box that TMA cannot describe.",
    "out_of_memory": "the GPU ran out of memory. Close what else uses it (nvidia-smi shows it) and check "
    "again.",
    "timed_output": "a timed output was wrong, though the kernel passed at the check sizes: a race, or a "
    "size it cannot do.",
}

_workers: dict[str, Worker] = {}


def worker(module: str = GPU) -> Worker:
    """The warm worker of this process for ``module``.

    It starts with the first check that needs it and ends with the process.
    """
    if module not in _workers:
        _workers[module] = Worker(module)
        atexit.register(_workers[module].close)
    return _workers[module]


def find_gpu() -> tuple[dict | None, str]:
    """The Hopper GPU here, or None and the reason there is none to use."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "there is no NVIDIA driver here"
    try:
        device = worker().device()
    except WorkerTimeout:
        return None, "the GPU did not answer within two minutes"
    except (WorkerDied, OSError) as error:
        return None, f"no CUDA GPU could be opened: {error}"
    if device["capability"] != [9, 0]:
        major, minor = device["capability"]
        return (
            None,
            f"{device['name']} has compute capability {major}.{minor}; the course's kernels need 9.0 (H100, "
            "H200)",
        )
    return device, ""


def check(
    step: str, factory, dsl: str = "tilelang", backend: str = "auto", time_limit: float = TIME_LIMIT
) -> Verdict:
    """Check one step: ``factory(M, N, K)`` returns the kernel. Every part is tried, the verdict never raises.

    ``backend`` is ``"gpu"``, ``"emulator"`` (results from the CPU, no speed), ``"compile"`` (no results
    either) or ``"auto"``: the GPU where there is a Hopper one, else the emulator. ``time_limit`` is seconds
    for a single run on the GPU. Raises nothing; a wrong argument is a verdict too.
    """
    try:
        return _check(step, factory, dsl, backend, time_limit)
    except Exception as error:  # a fault of the checker itself must not end a learner's notebook
        return _itself_failed(step, dsl, backend, error)


def _itself_failed(name, dsl, backend, error: Exception) -> Verdict:
    text = f"the checker itself failed ({type(error).__name__}: {error}); please report this with your kernel"
    return _unchecked(name, dsl, backend, text)


def _unchecked(name, dsl, backend, text: str) -> Verdict:
    """The verdict where there was nothing to check: no points of none. The arguments may be anything at
    all.
    """
    return Verdict(str(name), str(dsl), str(backend), (Part("compiles", False, 0, 0, text),), text)


def _check(step, factory, dsl, backend, time_limit) -> Verdict:
    try:
        wanted = steps.find(step)
        if dsl not in DSLS:
            raise ValueError(f"there is no DSL {dsl!r}; the course has {', '.join(DSLS)}")
        if backend not in BACKENDS:
            raise ValueError(f"there is no backend {backend!r}; the backends are {', '.join(BACKENDS)}")
        device, reason = find_gpu() if backend in ("auto", "gpu") else (None, _NOT_ASKED[backend])
    except ValueError as error:
        return _unchecked(step, dsl, backend, str(error))
    if backend == "auto":
        backend, reason = ("gpu", reason) if device else ("emulator", _NO_GPU)
    try:
        if device:
            sizes = [*wanted.check_sizes, *([wanted.timed_sizes[0]] if wanted.speed_floor else [])]
            artifacts = {size: compile_factory(factory, dsl, size) for size in dict.fromkeys(sizes)}
            return check_artifacts(wanted, dsl, artifacts, "gpu", time_limit=time_limit)
        if backend == "emulator":
            return _check_emulated(wanted, factory, dsl, reason)
        size = wanted.emulated[0][0]
        return check_artifacts(wanted, dsl, {size: compile_factory(factory, dsl, size)}, "compile", reason)
    except CompileError as error:
        tried = backend if backend != "gpu" or device else "compile"
        return not_compiled(wanted, dsl, tried, _open_exercise(factory) or str(error))


def _open_exercise(factory) -> str:
    """What is still to be written in an exercise, or nothing where no place is open or the source is not to
    be had.
    """
    try:
        lines, first = inspect.getsourcelines(factory)
    except (OSError, TypeError):
        return ""
    places = [
        f"line {first + n}: {line.strip()}" for n, line in enumerate(lines) if line.strip().startswith(OPEN)
    ]
    return (
        f"this exercise is still open. Write the code where it says `{OPEN}`:\n" + "\n".join(places)
        if places
        else ""
    )


def interrupted(step: str, dsl: str) -> Verdict:
    """The verdict of a check that the learner stopped.

    Its processes are ended, so that the next check starts clean.
    """
    for one in _workers.values():
        one.close()
    text = "you stopped this check; run the cell again to repeat it"
    return Verdict(step, dsl, "none", (Part("compiles", None, 0, 0, text),), text)


def _check_emulated(step, factory, dsl, reason) -> Verdict:
    """Compile one size after the other, those that take the emulator longest first: it runs them
    meanwhile.
    """
    artifacts, answers = {}, {}
    with ThreadPoolExecutor(1) as pool:
        try:
            for size, ctas in sorted(
                step.emulated, key=lambda run: (run[1] is not None, -run[0][0] * run[0][1])
            ):
                artifacts[size] = compile_factory(factory, dsl, size)
                large = size[0] * size[1] > LARGE_EMULATED
                answers[size] = pool.submit(
                    ask_emulator, artifacts[size], SCHEDULES[:1] if large else SCHEDULES, ctas
                )
            answers = {size: answer.result() for size, answer in answers.items()}
        except KeyboardInterrupt:  # else the pool would first wait for what is being emulated
            pool.shutdown(wait=False, cancel_futures=True)
            worker(EMULATOR).close()
            raise
    # whole runs are judged first: their pattern of wrong elements says more
    return check_artifacts(
        step, dsl, {size: artifacts[size] for size, _ in step.emulated}, "emulator", reason, answers=answers
    )


def check_copy(
    case: str, copy, dsl: str = "tilelang", backend: str = "auto", time_limit: float = TIME_LIMIT
) -> Verdict:
    """Check a case of ``steps.COPY_CASES``: ``copy(*shape)`` returns a kernel that copies X to Y through
    shared memory.

    The path that each copy took is graded beside the bytes it moved. Raises nothing; a wrong argument is a
    verdict too.
    """
    try:
        return _check_copy(case, copy, dsl, backend, time_limit)
    except Exception as error:  # as in check()
        return _itself_failed(case, dsl, backend, error)


def _check_copy(case, copy, dsl, backend, time_limit) -> Verdict:
    wanted = steps.COPY_CASES.get(case) if isinstance(case, str) else None
    if wanted is None or dsl not in DSLS or backend not in BACKENDS:
        text = (
            f"there is no copy {case!r}, no DSL {dsl!r} or no backend {backend!r}; the copies are "
            f"{', '.join(steps.COPY_CASES)}, the DSLs {', '.join(DSLS)}, the backends {', '.join(BACKENDS)}"
        )
        return _unchecked(case, dsl, backend, text)
    device, reason = find_gpu() if backend in ("auto", "gpu") else (None, _NOT_ASKED.get(backend, ""))
    if backend == "auto":
        backend = "gpu" if device else "emulator"
    try:
        artifacts = [compile_factory(copy, dsl, shape, "copy") for shape in wanted.shapes]
    except CompileError as error:
        return not_compiled(wanted, dsl, backend, _open_exercise(copy) or str(error))
    first = artifacts[0]
    broken = tensor_map_findings(first)
    copies = import_module(
        "course_utils.ptx.paths"
    )  # it has the emulator's parser, which a bundle does not carry
    source, paths, missed = _source_of(copy), [], []
    for artifact, shape in zip(artifacts, wanted.shapes, strict=True):
        crossings = {(c.tensor, c.direction): c for c in copies.copies(artifact, source)}
        for tensor, direction, path in (("X", copies.LOAD, wanted.load), ("Y", copies.STORE, wanted.store)):
            found = crossings.get((tensor, direction))
            what = f"{tensor}, {direction}"
            paths.append(f"{what}: {found or 'no copy'}")
            if found is None or set(found.paths) != {path}:
                missed.append(
                    f"{what}: this case asks for {copies.WORDS[path]}; the compiler made "
                    f"{found or 'no copy'} "
                    f"(at {' x '.join(map(str, shape))})"
                )
    results, words = _copy_results(artifacts, wanted.shapes, backend, device, reason, time_limit)
    found = {
        "compiles": (True, f"{first.resources.registers} registers a thread"),
        "tensor maps": (not broken, "; ".join(broken) or "all legal"),
        "path": (not missed, "; ".join(missed or dict.fromkeys(paths))),
        "results": (results, words),
    }
    parts = steps.parts_of(wanted)
    checks = tuple(
        Part(name, passed, parts[name] if passed else 0.0, parts[name], detail)
        for name, (passed, detail) in found.items()
    )
    look = next((f"{part.name}: {part.detail}" for part in checks if part.passed is False), "")
    return Verdict(
        case, dsl, backend, checks, look, (), tuple(receipts.table(receipts.read_ptx(first.ptx), first))
    )


def _copy_results(artifacts, shapes, backend, device, reason, time_limit) -> tuple[bool | None, str]:
    """Were the bytes moved right at every shape? None where nothing could be run."""
    if backend == "compile" or backend == "gpu" and device is None:
        return None, reason
    for artifact, shape in zip(artifacts, shapes, strict=True):
        answer = (
            ask("copy", artifact, time_limit)
            if backend == "gpu"
            else ask_emulator(artifact, SCHEDULES, op="copy")
        )
        if answer.get("error") == "emulator":
            return None, answer["diagnosis"]
        if not answer.get("ok"):
            return False, f"at {' x '.join(map(str, shape))}: {answer['diagnosis']}"
    return (
        True,
        f"{'emulated: ' * (backend == 'emulator')}every element in its place, at {len(shapes)} shapes",
    )


def _source_of(factory) -> str:
    try:
        return textwrap.dedent(inspect.getsource(factory))
    except (OSError, TypeError):
        return ""


def check_maps(case: str, mend) -> Verdict:
    """Check a case of ``steps.MAP_CASES``: ``mend(maps)`` returns the given maps, each made legal by changing
    one field.

    The rules answer; that they agree with the driver is what ``course tensormap verify`` and the tests show.
    Raises nothing.
    """
    wanted = steps.MAP_CASES.get(case) if isinstance(case, str) else None
    if wanted is None:
        text = f"there is no case {case!r}; the cases with tensor maps are {', '.join(steps.MAP_CASES)}"
        return Verdict(str(case), "maps", "rules", (Part("tensor maps", False, 0.0, 0, text),), text)
    maps, text = None, ""
    try:
        maps = mend(list(wanted.given))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a learner's code: sys.exit() too
        text = _open_exercise(mend) or f"mend raised {type(error).__name__}: {error}"
    if not text and (not isinstance(maps, (list, tuple)) or len(maps) != len(wanted.given)):
        text = f"mend must return a list of {len(wanted.given)} maps, in the order in which they came"
    if text:
        return Verdict(case, "maps", "rules", (Part("tensor maps", False, 0.0, wanted.points, text),), text)
    worth = wanted.points / len(maps)
    said = [_mended(old, new) for old, new in zip(wanted.given, maps, strict=True)]
    checks = tuple(
        Part(f"map {i}", not wrong, 0.0 if wrong else worth, worth, wrong or str(new))
        for i, (wrong, new) in enumerate(zip(said, maps, strict=True), 1)
    )
    look = next((f"{part.name}: {part.detail}" for part in checks if not part.passed), "")
    return Verdict(case, "maps", "rules", checks, look)


def _mended(old: TensorMap, new) -> str:
    """What is still wrong with a map, in words; empty where it is legal and differs from ``old`` in one
    field.
    """
    if not isinstance(new, TensorMap):
        return f"this is {type(new).__name__}, not a TensorMap"
    try:
        broken = [str(violation) for violation in violations(new)]
    except Exception as error:  # a field of another type than the driver takes
        return f"a field is no whole number, or no tuple of them: {error}"
    changed = [
        field.name for field in fields(TensorMap) if getattr(old, field.name) != getattr(new, field.name)
    ]
    if not broken and len(changed) != 1:
        return f"it is legal, and {len(changed)} fields were changed ({', '.join(changed)}): one is enough"
    return " ".join(broken)


def compile_factory(factory, dsl: str, size: tuple[int, ...], kind: str = "gemm") -> Artifact:
    """Compile a learner's factory with the compiler of its DSL; ``kind`` is "gemm" or "copy". Raises
    CompileError only.
    """
    if not callable(factory):
        raise CompileError(
            "load",
            f"{kind} is {type(factory).__name__}, not a function of "
            + ("(M, N, K)" if kind == "gemm" else "a shape"),
        )
    try:
        return getattr(import_module(f"course_utils.compile.{dsl}"), f"compile_{kind}")(factory, *size)
    except ImportError as error:  # the compiler's own; what the factory raises comes as a CompileError
        raise CompileError(
            "load", f"the package {error.name} is missing here; `make venv` installs what the course needs"
        ) from error
    except SystemExit as error:
        raise CompileError(
            "trace", f"{kind} called sys.exit() or exit(); return the kernel instead"
        ) from error


def check_artifacts(
    step: steps.Step,
    dsl: str,
    artifacts: dict,
    backend: str,
    reason: str = "",
    time_limit: float = TIME_LIMIT,
    timed: dict | None = None,
    answers: dict | None = None,
) -> Verdict:
    """Check compiled kernels, ``artifacts`` by size (M, N, K); the receipt is the first one's.

    ``reason`` says why there is no speed, or no result either. ``timed`` adds runs: size to modes, for a full
    ladder. ``answers`` are the emulator's, by size.
    """
    parts: list[Part] = []
    hints: list[str] = []
    timing: list[dict] = []

    def add(name: str, passed: bool | None, detail: str, hint: str = "", share: float = 1.0) -> None:
        worth = steps.part_points(step, name)
        parts.append(Part(name, passed, worth * share if passed or 0 < share < 1 else 0.0, worth, detail))
        if passed is False:
            hints.append(hint or f"{name}: {detail}")

    first = next(iter(artifacts.values()))
    receipt = receipts.read_ptx(first.ptx)
    spills = first.resources.spill_stores + first.resources.spill_loads
    add(
        "compiles",
        True,
        f"{first.resources.registers} registers a thread, {spills or 'no'} bytes spilled, "
        f"{first.dynamic_shared + first.resources.static_shared:,} bytes of shared memory",
    )
    broken = tensor_map_findings(first)
    maps = sum(p.kind == "tensor_map" for p in first.parameters)
    add(
        "tensor maps",
        not broken,
        "; ".join(broken) or (f"{maps} tensor maps, all legal" if maps else "the kernel uses none"),
    )
    unmet = conditions.unmet(receipt, first, step.requires, step.forbids)
    wanted = len(step.requires) + len(step.forbids)
    add(
        "instructions",
        not unmet,
        "; ".join(unmet) or "all that the step is about survived the compiler",
        unmet[0] if unmet else "",
        share=1 - len(unmet) / wanted,
    )

    if backend == "compile":
        add("results", None, reason)
        add("speed", None, reason if step.speed_floor else "not timed: speed is not what this one is about")
    elif backend == "emulator":
        right = _judge(answers.items(), len(answers), add, "emulated: ")
        if step.speed_floor and right is not False:
            add("speed", None, reason)
        else:
            _check_speed(step, artifacts, right, None, add, timing)
    else:
        found = ((size, ask("run", artifacts[size], time_limit)) for size in step.check_sizes)
        right = _judge(found, len(step.check_sizes), add)
        _check_speed(step, artifacts, right, timed, add, timing)
    if step.whole and any(part.passed is False for part in parts):
        parts = [replace(part, points=0.0) for part in parts]
    return Verdict(
        step.id,
        dsl,
        backend,
        tuple(parts),
        hints[0] if hints else "",
        tuple(timing),
        tuple(receipts.table(receipt, first)),
    )


def tensor_map_findings(artifact: Artifact) -> list[str]:
    """A sentence for every rule that a tensor map of this kernel breaks."""
    return [
        f"the map over {p.tensor} ({p.tensor_map}): {v.sentence.rstrip('.')}; found {v.found}"
        for p in artifact.parameters
        if p.kind == "tensor_map"
        for v in violations(p.tensor_map)
    ]


def _judge(answers, count: int, add, prefix: str = "") -> bool | None:
    """Add the part of the results, from an answer for each size; say whether all were right, or None where
    none could tell.

    ``answers`` are pairs of size and answer, ``count`` of them; none is asked for after an error.
    """
    right, notes, norm = 0, [], 0.0
    for size, answer in answers:
        if answer.get("error") == "emulator":
            add("results", None, answer["diagnosis"])
            return None
        if answer.get("ok"):
            right, norm = right + 1, answer["relative_norm"]
            continue
        notes.append(f"at M, N, K = {' x '.join(map(str, size))}: {answer['diagnosis']}")
        if answer.get("error") or answer.get("finished") is False:
            break  # a kernel that hangs or faults once is not run again
    if not notes:
        add(
            "results",
            True,
            f"{prefix}right at {right} size{'s' * (right != 1)}, last relative error {norm:.1e}",
        )
        return True
    ended = not answer.get("error") and answer.get("finished") is not False
    add("results", False, prefix + "\n".join(notes), notes[0], share=0.5 * right / count if ended else 0.0)
    return False


def _check_speed(step, artifacts, right, timed, add, timing) -> None:
    runs = timed if timed is not None else ({step.timed_sizes[0]: ("burst",)} if step.speed_floor else {})
    if not right:
        add(
            "speed",
            False if step.speed_floor else None,
            "not timed: a wrong result has no speed",
            "results first, then speed",
        )
        return
    for size, modes in runs.items():
        for mode in modes:
            answer = ask(mode, artifacts[size], 60.0)
            if answer.get("error"):
                add("speed", False, answer["diagnosis"])
                return
            timing.append(answer)
    if not step.speed_floor:
        add(
            "speed",
            True,
            "not timed: speed is not what this one is about; these points come with right results",
        )
        return
    if not timing:
        add("speed", None, "not timed in this run")
        return
    run = timing[0]
    text = (
        f"{run['tflops']:.0f} TFLOP/s at {' x '.join(map(str, run['size']))}, {run['ratio']:.2f} of cuBLAS "
        f"({run['cublas_tflops']:.0f}); the step asks for {step.speed_floor:.2f}"
    )
    low, high = run["ratio_quartiles"]
    if high - low > UNSTEADY:
        text += (
            f". The timing is unsteady (half of the samples outside {low:.2f} to {high:.2f}): is another "
            "program on this GPU?"
        )
    add("speed", run["ratio"] >= step.speed_floor, text, f"{text}. Compare your receipt with the step's.")


def ask(op: str, artifact: Artifact, limit: float) -> dict:
    """One request to the worker; a failure comes back as ``error`` and a ``diagnosis`` in words."""
    try:
        answer = worker().request(op, artifact, limit, seed=secrets.randbits(31))
    except WorkerTimeout:
        return {"error": "timeout", "diagnosis": _hang_hint(artifact, limit)}
    except WorkerDied as error:
        return {"error": "died", "diagnosis": f"the GPU process died: {error}"}
    if answer.get("error"):
        answer["diagnosis"] = _FAULTS.get(answer["error"], f"{answer['error']}: {answer.get('detail', '')}")
        if answer["error"] == "CUDA_ERROR_LAUNCH_FAILED":
            answer["diagnosis"] += _death_hint(artifact)
    return answer


def _death_hint(artifact: Artifact) -> str:
    """What makes Hopper give up with no better word, by what the kernel uses.

    Observed on H200, driver 580.
    """
    causes = []
    if receipts.read_ptx(artifact.ptx).mbarrier_waits:
        causes.append(
            "an mbarrier was overrun: a producer that does not wait for `empty`, or a wait whose parity "
            "never flips, "
            "lets expected bytes pile up until the count overflows"
        )
    if artifact.cluster != (1, 1, 1):
        causes.append(
            "a multicast mask or a remote arrival names a CTA outside its cluster, or a CTA left its cluster "
            "early"
        )
    return " Usual causes: " + "; ".join(causes) + "." if causes else ""


def ask_emulator(artifact: Artifact, schedules, ctas=None, op: str = "run") -> dict:
    """One request to the emulator's process; a failure comes back as ``error`` and a ``diagnosis`` in
    words.
    """
    named = {"schedules": list(schedules)} | ({} if ctas is None else {"ctas": list(ctas)})
    try:
        return worker(EMULATOR).request(op, artifact, EMULATOR_LIMIT, seed=secrets.randbits(31), **named)
    except WorkerTimeout:
        return {
            "error": "emulator",
            "diagnosis": f"not run: the emulation did not end within {EMULATOR_LIMIT:g} s",
        }
    except (WorkerDied, OSError) as error:
        return {"error": "emulator", "diagnosis": f"not run: the emulator's process died: {error}"}


def _hang_hint(artifact: Artifact, limit: float) -> str:
    receipt = receipts.read_ptx(artifact.ptx)
    text = f"the kernel never ended ({limit:g} s)"
    if not receipt.mbarrier_waits:
        return f"{text}. It waits on no mbarrier: does a loop's bound change inside it?"
    asked = _registers_asked(receipt, artifact) if receipt.setmaxnreg else 0
    if asked > REGISTER_LIMIT:
        return (
            f"{text}: setmaxnreg asks for {asked:,} registers, and a CTA has {REGISTER_LIMIT:,}. The last "
            "warpgroup waits for "
            "ever for registers that nobody gives back."
        )
    text += (
        ": a deadlock. Count for each mbarrier who arrives, how often, and how many bytes are expected and "
        "come; then the "
        "parity each wait starts with (a consumer with 0, a producer with 1). The kernel initialises "
        f"{receipt.mbarrier_inits} mbarriers{receipts.arrivals(receipt)}."
    )
    if artifact.cluster != (1, 1, 1):
        text += (
            " In a cluster: does each CTA expect its own bytes, and does no CTA leave before the other is "
            "done with it?"
        )
    return text


def _registers_asked(receipt, artifact: Artifact) -> int:
    """Registers a CTA holds once every warpgroup has reallocated, taking one producer warpgroup and the rest
    consumers.
    """
    amounts = {kind: int(value) for kind, value in (entry.split() for entry in receipt.setmaxnreg)}
    warpgroups = artifact.threads // 128
    return 128 * (amounts.get("dec", 0) + amounts.get("inc", 0) * (warpgroups - 1))


def not_compiled(step, dsl, backend, message: str) -> Verdict:
    """The verdict of a kernel that could not be loaded or compiled, with the reason in words."""
    parts = [
        Part(
            name,
            False,
            0.0,
            worth,
            message if name == "compiles" else "not reached: the kernel does not compile",
        )
        for name, worth in steps.parts_of(step).items()
    ]
    return Verdict(step.id, dsl, backend, tuple(parts), message)
