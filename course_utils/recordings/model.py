"""What a results file is: its fields and their types, its one reader and its one writer.

A bundle, ``course climb`` and a notebook's check write the same form; ``bundle.entry`` and
``bundle.provenance`` make it as plain dicts, since a GPU machine need not have msgspec. What the course does
not know is kept, so readers hand on dicts: these classes say what stands in them. Counters have a form of
their own, which ``recordings.counters`` makes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import msgspec

# Finite and above 0: TFLOP/s, or a share of cuBLAS's.
Rate = Annotated[float, msgspec.Meta(gt=0, lt=1e6)]
Points = Annotated[float, msgspec.Meta(ge=0, lt=1e6)]
Amount = Annotated[float, msgspec.Meta(ge=0, lt=1e18)]  # of a counter
LIMIT = 16 << 20  # bytes of a results file; the largest of the course has 0.1 MB


class MeasuredError(ValueError):
    """A results file that cannot be used. The text names the file, the entry and the field."""


class Provenance(msgspec.Struct, frozen=True):
    """Where results come from. ``driver`` and ``torch`` may be null where a machine could not tell."""

    gpu: str
    driver: str | None
    torch: str | None
    date: str
    versions: dict[str, str]


class Check(msgspec.Struct, frozen=True):
    """One part of a verdict. ``passed`` is null where it was not tried, ``seconds`` also where nobody looked
    at the clock.
    """

    name: str
    passed: bool | None
    points: Points
    max_points: Points
    detail: str
    seconds: float | None = None


class Timing(msgspec.Struct, frozen=True):
    """One kernel beside cuBLAS at one size, TFLOP/s; ``ratio`` is the share of cuBLAS."""

    mode: Literal["burst", "sustained"]
    size: tuple[int, ...]
    tflops: Rate
    cublas_tflops: Rate
    ratio: Rate
    tflops_quartiles: tuple[Rate, Rate] | None = None


class Entry(msgspec.Struct, frozen=True):
    """One kernel's verdict and timings. ``level`` is that of the exercise."""

    name: str
    step: str
    dsl: str
    checks: list[Check]
    timings: list[Timing]
    level: str = "write"
    points: Points = 0.0
    diagnosis: str = ""
    receipt: list[tuple[str, str]] = []


class Results(msgspec.Struct, frozen=True):
    """A results file."""

    provenance: Provenance
    entries: list[Entry]


class Untimed(msgspec.Struct, frozen=True):
    """A results file of a machine without a GPU: it measured nothing, so it need not say where."""

    entries: list[Entry]


class CountersProvenance(Provenance, frozen=True, kw_only=True):
    """Where counters come from. ``max_clock_mhz`` and ``power_limit_w`` are null where nvidia-smi was not
    there; ``note`` says what was done to them afterwards.
    """

    sms: Annotated[int, msgspec.Meta(gt=0, lt=10_000)]
    ncu: str
    max_clock_mhz: Rate | None = None
    power_limit_w: Rate | None = None
    note: str = ""


class Power(msgspec.Struct, frozen=True):
    """A loop of launches of about a second: watts, seconds and joules a launch, MHz and degrees Celsius.

    ``machine`` 2 is another one than the counters', as the provenance's note says.
    """

    seconds: Rate
    power_w: Rate | None
    joules: Rate | None
    clock_mhz: Rate | None
    temperature_c: Rate | None
    machine: int = 1


class Launch(msgspec.Struct, frozen=True):
    """One launch at ``size`` M, N, K: what ``run.ncu.COUNTERS`` names, and what it takes in a loop."""

    size: tuple[int, int, int]
    counters: dict[str, Amount]
    kernel: str = ""
    power: Power | None = None


class Counted(msgspec.Struct, frozen=True):
    """One kernel's launches. cuBLAS is one too, of the DSL and the step "cublas"."""

    name: str
    step: str
    dsl: str
    launches: list[Launch]


class Counters(msgspec.Struct, frozen=True):
    """A file of counters. ``metrics`` says which metric of ncu each counter was read as, ``lost`` what was
    not read, and why.
    """

    provenance: CountersProvenance
    metrics: dict[str, str]
    entries: list[Counted]
    lost: list[str] = []


class Point(msgspec.Struct, frozen=True):
    """A plan of step 11 at a size, timed, or ``why`` it has no time."""

    dsl: str
    size: tuple[int, int, int]
    mode: Literal["burst", "sustained"]
    plan: dict
    timing: Timing | None
    why: str = ""


class Tuned(msgspec.Struct, frozen=True):
    """What plans of step 11 take, as ``course tune`` writes it."""

    provenance: Provenance
    entries: list[Point]


class Spread(msgspec.Struct, frozen=True):
    """A kernel beside cuBLAS on inputs of one distribution, as benchmarks/tune_there.py writes it."""

    dsl: str
    size: tuple[int, int, int]
    plan: dict
    inputs: Literal["normal", "uniform", "integers", "zeros"]
    mode: Literal["burst", "sustained"]
    timing: Timing


class Inputs(msgspec.Struct, frozen=True):
    """What inputs make of the same kernel and of cuBLAS."""

    provenance: Provenance
    entries: list[Spread]


class Trial(msgspec.Struct, frozen=True):
    """Step 11 with one change: by how much its share of cuBLAS grew at "4096x4096x4096 burst", and why."""

    name: str
    dsl: str
    gains: dict[str, float]
    why: str


class Tried(msgspec.Struct, frozen=True):
    """What changes of step 11 are worth, each alone. The study is finished: ``made_from`` of the provenance
    says what computed it, and benchmarks/step11_alone.py of commit bcee8cf timed most of it.
    """

    provenance: Provenance
    entries: list[Trial]


class PeerPoint(msgspec.Struct, frozen=True):
    """Another library at a size, as benchmarks/peers writes it."""

    peer: str
    size: tuple[int, int, int]
    timing: Timing | None
    why: str = ""


class Peers(msgspec.Struct, frozen=True):
    """What other libraries take."""

    provenance: Provenance
    entries: list[PeerPoint]


ENTRIES: dict[type, type] = {
    Results: Entry,
    Untimed: Entry,
    Counters: Counted,
    Tuned: Point,
    Tried: Trial,
    Inputs: Spread,
    Peers: PeerPoint,
}


def read(path: str | Path, timed: bool = True, form: type | None = None) -> dict:
    """Read and validate a results file, or one of another ``form``. Raises MeasuredError.

    With ``timed=False`` its provenance may be empty or missing.
    """
    try:
        with open(path, "rb") as file:
            text = file.read(LIMIT + 1)
        if len(text) > LIMIT:
            raise ValueError(f"it is larger than {LIMIT >> 20} MB")
        results = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise MeasuredError(f"{path} is not a results file: {error}") from error
    if not isinstance(results, dict) or not isinstance(results.get("entries"), list):
        raise MeasuredError(
            f"{path} is not a results file: it needs an object with `provenance` and `entries`"
        )
    kind = form or (Results if timed or results.get("provenance") else Untimed)
    where = CountersProvenance if kind is Counters else Provenance
    if kind is not Untimed and (missing := _missing(results.get("provenance"), where)):
        raise MeasuredError(f"{path} does not say where it comes from: provenance lacks {missing}")
    for index, entry in enumerate(results["entries"]):
        if missing := _missing(entry, ENTRIES[kind]):
            of_counters = kind is not Counters and not _missing(entry, Counted)
            hint = "; it holds counters: `course import --as counters`" if of_counters else ""
            raise MeasuredError(f"{path}: entry {index} lacks {missing}{hint}")
    try:
        msgspec.convert(results, kind)
    except msgspec.ValidationError as error:
        raise MeasuredError(f"{path}: {_words(str(error))}") from error
    return results


def write(path: str | Path, results: dict) -> None:
    """Write a results file. Raises OSError, and MeasuredError where a number is none or it nests too deep."""
    try:
        text = json.dumps(results, indent=1, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise MeasuredError(f"{path} is not written, it could not be read again: {error}") from error
    Path(path).write_text(text + "\n")


def usable(raw: object, kind: type) -> object | None:
    """``raw`` as a ``kind`` of this module, or None where it is not one."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError:
        return None


def _missing(raw: object, kind: type) -> str:
    """The names of the fields that ``raw`` lacks as a ``kind``."""
    needed = [field.name for field in msgspec.structs.fields(kind) if field.required]
    return ", ".join(name for name in needed if not isinstance(raw, dict) or name not in raw)


def _words(text: str) -> str:
    """msgspec's "Expected `float`, got `str` - at `$.entries[3].timings[0].ratio`", place first."""
    what, _, place = text.partition(" - at `$.")
    place = place.rstrip("`").replace("entries[", "entry ", 1).replace("].", ", ", 1)
    return f"{place}: {what[0].lower()}{what[1:]}"
