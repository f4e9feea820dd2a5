"""``course profile``: the hardware counters of one kernel beside cuBLAS's, and what bounds it."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from course_utils import library
from course_utils.chips import HOME
from course_utils.cli import EXIT_NOT_ALL_TRIED
from course_utils.cli.check import TABLE
from course_utils.cli.kernel import compiled, named_size
from course_utils.cli.parser import is_id
from course_utils.cli.terminal import at_work, say
from course_utils.compile.load import read
from course_utils.grading import ids, steps
from course_utils.plans import choose
from course_utils.recordings import counters, measured
from course_utils.recordings.bundle import provenance
from course_utils.recordings.counters import Kernel
from course_utils.run import backends, ncu
from course_utils.run.ncu import NcuError

SIZE = (4096, 4096, 4096)  # of a file, and of a step that is timed at it
PLANNED = "step11"  # the step whose kernels have a plan
WAITS = 3  # stall reasons that the table names
# a row's words, its counter, what one of its units is of the counter's, and the form of the number
ROWS = (
    ("time, us", "seconds", 1e-6, ",.1f"),
    ("tensor pipe active", "tensor_active", 1, ".1%"),
    ("clock inside the launch, GHz", "clock_hz", 1e9, ".2f"),
    ("cycles, thousands", "cycles", 1e3, ",.0f"),
    ("DRAM read, MB", "dram_read_bytes", 1e6, ",.1f"),
    ("DRAM written, MB", "dram_write_bytes", 1e6, ",.1f"),
    ("DRAM, of what it can", "dram_throughput", 1, ".1%"),
    ("L2, MB", "l2_bytes", 1e6, ",.0f"),
    ("L2, of what it can", "l2_throughput", 1, ".1%"),
    ("loaded by TMA, MB", "tma_load_bytes", 1e6, ",.0f"),
    ("shared memory, bank conflicts", "shared_conflicts", 1, ",.0f"),
    ("warp instructions, thousands", "instructions", 1e3, ",.0f"),
    ("cycles that issue one", "issue_active", 1, ".1%"),
    ("warps that could issue", "warps_eligible", 1, ".2f"),
)

Column = tuple[str, dict, dict]  # its head, a launch of a recording, and that recording's provenance


def profile(console: Console, what: str, dsl: str | None, size: str | None) -> int:
    """Read the counters of a kernel here; where that cannot be, show the recorded ones."""
    recorded = measured.load("counters")
    if is_id(what):
        dsl = ids.language(what, dsl)
    elif what.endswith(".py"):
        read(what)
    named_size(size)  # said at once, also where nothing is compiled
    device, reason = backends.find_gpu()
    try:
        if device is None:
            raise NcuError(reason)
        ncu.find()
        return _profile(console, what, dsl, size, device, recorded)
    except NcuError as error:
        say(console, f"Counters are not read here: {error}.")
        _show_recorded(console, what, dsl, recorded)
        return EXIT_NOT_ALL_TRIED


def _profile(
    console: Console, what: str, dsl: str | None, named: str | None, device: dict, recorded: dict
) -> int:
    """Read them, and print the table and what bounds the kernel."""
    own = what in steps.STEPS
    sizes = steps.find(what).timed_sizes if own else (SIZE,)
    with at_work(console, f"compiling {what}") as say_now:
        artifact, *_ = compiled(what, dsl, named, sizes[0])
        if len(artifact.tensors) != 3:
            raise ValueError("course profile reads GEMMs: a kernel of the tensors A, B and D")
        size = artifact.problem
        kernel = Kernel(f"{what} {artifact.dsl}", what, artifact.dsl, {size: artifact})
        where = provenance(device, {artifact.dsl: artifact.versions})
        found = counters.measure([kernel], where, say_now)
    for text in found["lost"]:
        say(console, text)
    columns: list[Column] = [
        (head, launch, found["provenance"])
        for entry, head in ((_entry(found, kernel.name), "this kernel"), (_entry(found, "cuBLAS"), "cuBLAS"))
        for launch in (entry["launches"] if entry else [])
    ]
    if not any(head == "this kernel" for head, *_ in columns):
        raise NcuError("the kernel's own launch gave no counters")
    theirs = _at(_entry(found, "cuBLAS"), size)
    kept = _entry(recorded, kernel.name) if own else None
    columns += [("recorded", one, recorded["provenance"]) for one in _at(kept, size)]
    console.print(_table(f"{what}, {artifact.dsl}, M, N, K = {' x '.join(map(str, size))}", columns))
    say(console, counters.bound(columns[0][1], columns[0][2]))
    say(console, _formula(columns[0][1], columns[0][2]))
    _show_plans(console, what, artifact.dsl, size, theirs, device["sms"])
    if columns[-1][0] == "recorded":
        say(console, _origin(recorded["provenance"]))
        if (there := recorded["provenance"]["gpu"]) != device["name"]:
            say(console, f"This GPU is {device['name']} and not {there}: shares compare, times do not.")
    return 0


def _show_recorded(console: Console, what: str, dsl: str | None, recorded: dict) -> None:
    """The recorded counters of a step, at each size, or that there are none."""
    if what not in steps.STEPS:
        return
    name = f"{what} {dsl}"
    entry, where = _entry(recorded, name), recorded["provenance"]
    if entry is None:
        say(console, f"Counters of {name} are not recorded yet.")
        return
    beside = _entry(recorded, "cuBLAS")
    for launch in entry["launches"]:
        columns, theirs = [("recorded", launch, where)], _at(beside, launch["size"])
        columns += [("cuBLAS, recorded", one, where) for one in theirs]
        size = " x ".join(map(str, launch["size"]))
        console.print(_table(f"{what}, {dsl}, M, N, K = {size}", columns))
        say(console, counters.bound(launch, where))
        say(console, _formula(launch, where))
        _show_plans(console, what, dsl, launch["size"], theirs, where["sms"])
    say(console, _origin(where))


def _entry(recording: dict, name: str) -> dict | None:
    return next((entry for entry in recording["entries"] if entry["name"] == name), None)


def _at(entry: dict | None, size: tuple[int, ...] | list[int]) -> list[dict]:
    """An entry's launches at this size: one or none."""
    return [
        launch for launch in (entry or {"launches": []})["launches"] if list(launch["size"]) == list(size)
    ]


def _table(title: str, columns: list[Column]) -> Table:
    """A row for each counter that one of the launches has, and what stalls most of the warps."""
    table = Table(title=title, **TABLE)
    table.add_column("one launch, caches cold", no_wrap=True)
    for head, *_ in columns:
        table.add_column(head, justify="right", no_wrap=True)
    for words, name, unit, form in ROWS:
        values = [launch["counters"].get(name) for _, launch, _ in columns]
        if any(value is not None for value in values):
            table.add_row(words, *("" if v is None else format(v / unit, form) for v in values))
    for reason, _ in counters.stalls(columns[0][1]["counters"])[:WAITS]:
        shares = [dict(counters.stalls(launch["counters"])).get(reason, 0.0) for _, launch, _ in columns]
        table.add_row(f"warps stalled, {reason}", *(f"{share:.1%}" for share in shares))
    watts = [(launch.get("power") or {}).get("power_w") for _, launch, _ in columns]
    if any(watts):
        table.add_row("power in a loop, W", *(f"{w:.0f}" if w else "" for w in watts))
    joules = [(launch.get("power") or {}).get("joules") for _, launch, _ in columns]
    if any(joules):
        table.add_row("energy of a launch, mJ", *(f"{j * 1e3:,.1f}" if j else "" for j in joules))
    return table


def _show_plans(
    console: Console,
    what: str,
    dsl: str | None,
    size: tuple[int, ...] | list[int],
    theirs: list[dict],
    sms: int,
) -> None:
    """cuBLAS's plan, by its kernel's name, and step 11's beside it; nothing where the name tells none."""
    M, N, K = size
    plan = library.read(theirs[0].get("kernel", "")) if theirs else None
    if plan is None:
        return
    table = Table(title="plans", **TABLE)
    for index, head in enumerate(library.HEAD):
        table.add_column(head, justify="right" if index else "left", no_wrap=True)
    if what == PLANNED:
        table.add_row(*library.row(what, M, N, choose(M, N, K, sms, dsl or "cute"), sms))
    table.add_row(*library.row("cuBLAS", M, N, plan, sms))
    console.print(table)
    say(
        console,
        f"cuBLAS's plan is the name of its kernel, {theirs[0]['kernel']}. Waves are counted for {sms} CTAs, "
        "or as many as step 11's plan has; last: how full the last one is.",
    )


def _formula(launch: dict, where: dict) -> str:
    """The product with this launch's numbers, or nothing where one is missing."""
    found = counters.parts(launch, where)
    if found is None:
        return ""
    return (
        f"time = work / (active x clock x SMs x FLOP a clock) = {found.work / 1e9:,.1f} GFLOP / "
        f"({found.activity:.3f} x {found.clock / 1e9:.2f} GHz x {found.sms} x {HOME.flop_per_clock:,}) = "
        f"{found.seconds * 1e6:,.1f} us; ncu measured {found.measured * 1e6:,.1f}"
    )


def _origin(where: dict) -> str:
    note = f" {where['note']}" if where.get("note") else ""
    return f"Recorded on {where['gpu']}, {where['date']}, driver {where['driver']}, ncu {where['ncu']}.{note}"
