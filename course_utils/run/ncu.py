"""Hardware counters of single launches, read by ``ncu``, the command line of NVIDIA Nsight Compute.

One ``ncu`` process runs many launches: each kernel at each size, and cuBLAS beside it. ``gpu.counted`` is the
program under it; it says which launch comes when, and ``ncu`` prints one row a launch, in the same order. It
replays a launch once for each group of counters. What the launch wrote is put back and the caches are flushed
before each, so that all its counters are those of a cold launch.
"""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from course_utils.artifact import Artifact
from course_utils.run import client

CHILD = (sys.executable, "-P", "-m", "course_utils.run.gpu.counted")
LAUNCH_LIMIT = 90.0  # seconds for one launch with all its passes; the first one imports torch too
BATCH = 20  # launches of one process: ncu prints its table at the end, and a process takes seconds to start
QUERY_LIMIT = 120.0  # seconds for what ncu says without a launch
STALLED = "stalled_"  # how the names of the counters of STALLS begin

# What a warp waits for that cannot issue: "Warp Stall Reasons" of the Nsight Compute documentation.
# fmt: off
STALLS = {
    "long_scoreboard": "an mbarrier, or memory outside of the SM", "gmma": "wgmma: its turn, or its end",
    "barrier": "the other warps at a CTA or named barrier", "short_scoreboard": "shared memory",
    "wait": "a fixed latency of the instruction before",
    "math_pipe_throttle": "an arithmetic pipe that is taken", "mio_throttle": "the queue to shared memory",
    "lg_throttle": "the queue to global memory", "sleeping": "its own sleep", "membar": "a memory fence",
    "drain": "its last stores before it ends", "branch_resolving": "a branch",
    "dispatch_stall": "the dispatcher", "no_instruction": "its next instruction", "imc_miss": "a constant",
    "tex_throttle": "the queue of the texture unit", "misc": "something else",
    "selected": "nothing: it issues", "not_selected": "its turn: another warp issues",
}
# fmt: on
_ELAPSED, _ACTIVE = "avg.pct_of_peak_sustained_elapsed", "avg.pct_of_peak_sustained_active"

# A counter's name in a recording, and the metrics of ncu that give it on sm_90, the best first. Units are
# seconds, cycles, Hz, bytes, and shares from 0 to 1. The tensor pipe of sm_90 counts wgmma as HMMA; what TMA
# copies does not pass the LSU, whose bank conflicts are those of threads.
COUNTERS: dict[str, tuple[str, ...]] = {
    "seconds": ("gpu__time_duration.sum",),
    "cycles": ("sm__cycles_elapsed.max", "smsp__cycles_elapsed.max"),
    "cycles_active": ("sm__cycles_active.avg", "smsp__cycles_active.avg"),
    "clock_hz": (
        "smsp__cycles_elapsed.avg.per_second",
        "sm__cycles_elapsed.avg.per_second",
        "gpc__cycles_elapsed.avg.per_second",
    ),
    "tensor_active": (
        f"sm__pipe_tensor_op_hmma_cycles_active.{_ELAPSED}",
        f"sm__pipe_tensor_subpipe_hmma_cycles_active.{_ELAPSED}",
        f"sm__pipe_tensor_cycles_active.{_ELAPSED}",
    ),
    "wgmma_instructions": (
        "smsp__inst_executed_pipe_tensor_op_gmma.sum",
        "sm__inst_executed_pipe_tensor_op_gmma.sum",
    ),
    "l2_bytes": ("lts__t_bytes.sum",),
    "l2_hit": ("lts__t_sector_hit_rate.pct",),
    "l2_throughput": (f"lts__throughput.{_ELAPSED}", f"lts__t_sectors.{_ELAPSED}"),
    "dram_read_bytes": ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
    "dram_write_bytes": ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
    "dram_throughput": (f"dram__throughput.{_ELAPSED}", f"gpu__dram_throughput.{_ELAPSED}"),
    "tma_load_bytes": ("l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum",),
    "tma_store_bytes": ("l1tex__m_l1tex2xbar_write_bytes_mem_global_op_tma_st.sum",),
    "shared_conflicts": (
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
        "l1tex__data_bank_conflicts_pipe_lsu.sum",
    ),
    "shared_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",),
    "shared_banks_read": (f"l1tex__data_bank_reads.{_ELAPSED}",),
    "shared_banks_written": (f"l1tex__data_bank_writes.{_ELAPSED}",),
    "instructions": ("smsp__inst_executed.sum", "sm__inst_executed.sum"),
    "instructions_issued": ("smsp__inst_issued.sum", "sm__inst_issued.sum"),
    "issue_active": (f"smsp__issue_active.{_ACTIVE}",),
    "warps_active": ("smsp__warps_active.avg.per_cycle_active",),
    "warps_eligible": ("smsp__warps_eligible.avg.per_cycle_active",),
    **{
        f"{STALLED}{reason}": (f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio",)
        for reason in STALLS
    },
}

_TIMES = {"s": 1.0, "second": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_TIMES |= {f"{name}second": value for name, value in (("m", 1e-3), ("u", 1e-6), ("n", 1e-9))}
_PREFIXES = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNKNOWN = re.compile(r"Failed to find metric (?:regex:\^)?([A-Za-z]\w*)")


class NcuError(RuntimeError):
    """Counters cannot be read here. The text says why, and what to do."""


@dataclass(frozen=True)
class Item:
    """One launch: the Artifact's kernel, or with ``cublas`` cuBLAS's for its problem."""

    name: str
    artifact: Artifact
    cublas: bool = False


@dataclass(frozen=True)
class Row:
    """One launch as ncu printed it: the kernel's symbol, and its metrics in seconds, Hz, bytes and shares."""

    kernel: str
    values: dict[str, float]


@dataclass
class Found:
    """What was read: counters by the item's index, why others have none, and each counter's metric."""

    rows: dict[int, Row] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    metrics: dict[str, str] = field(default_factory=dict)

    def counters(self, index: int) -> dict[str, float]:
        """An item's counters by our names. One that ncu had no number for is left out."""
        values = self.rows[index].values
        return {name: values[metric] for name, metric in self.metrics.items() if metric in values}


def find() -> str:
    """The path of ``ncu``. Raises NcuError where PATH has none."""
    program = shutil.which("ncu")
    if program is None:
        raise NcuError(
            "there is no ncu in PATH. NVIDIA Nsight Compute has it, and so has the CUDA toolkit: add its "
            "folder to PATH"
        )
    return program


def version(program: str) -> str:
    """ncu's version, "2025.3.1.0", or "unknown"."""
    found = re.search(r"Version (\S+)", _asked(program, "--version"))
    return found[1] if found else "unknown"


def known(program: str) -> set[str]:
    """The metrics that this ncu has for this GPU, without their suffixes; empty where it does not say."""
    names = set(re.findall(r"^\s*(\w+__\w+)\s", _asked(program, "--query-metrics"), re.MULTILINE))
    return names if "gpu__time_duration" in names else set()  # which every ncu has: it is its list


def _asked(program: str, *arguments: str) -> str:
    try:
        return subprocess.run(
            [program, *arguments], capture_output=True, text=True, errors="replace", timeout=QUERY_LIMIT
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def chosen(names: Set[str], unknown: Set[str] = frozenset()) -> dict[str, str]:
    """Each counter's metric: the first of its names that is among ``names``, and not ``unknown``.

    Names are without suffix; of an empty ``names`` nothing is known, and the first is taken.
    """
    found = {}
    for counter, metrics in COUNTERS.items():
        for metric in metrics:
            base = metric.split(".")[0]
            if base not in unknown and (not names or base in names):
                found[counter] = metric
                break
    return found


def command(program: str, metrics: Sequence[str], log: Path, child: Sequence[str]) -> list[str]:
    """The command line: only what runs between cudaProfilerStart and Stop, at the clock as it is."""
    options = {
        "--page": "raw",
        "--print-units": "base",
        "--print-kernel-base": "mangled",
        "--metrics": ",".join(metrics),
        "--replay-mode": "kernel",
        "--cache-control": "all",  # as the timing protocol: a launch finds L2 cold
        "--clock-control": "none",  # the clock inside the launch is what is asked
        "--profile-from-start": "off",
        "--log-file": str(log),
    }
    return [program, "--csv", *(part for pair in options.items() for part in pair), *child]


def count(
    items: Sequence[Item],
    program: str,
    child: Sequence[str] = CHILD,
    raw: Callable[[str], object] = lambda text: None,
    keep: Callable[[Found], object] = lambda found: None,
    limit: float = LAUNCH_LIMIT,
) -> Found:
    """Read the counters of every item on the GPU of this machine.

    What one launch breaks is tried again without it, and a metric that this ncu does not know costs no other.
    ``raw`` hears what ncu printed, ``keep`` what was found until then. Raises NcuError where nothing can be
    read at all.
    """
    names, found = known(program), Found()
    unknown: set[str] = set()
    found.metrics = chosen(names)
    todo = list(range(len(items)))
    while todo:
        now, later = todo[:BATCH], todo[BATCH:]
        with plan(items, now) as folder:
            log = folder / "ncu.csv"
            line = command(program, list(found.metrics.values()), log, [*child, str(folder), "count"])
            printed = watched(line, folder / "done.jsonl", limit)
            text = (log.read_text(errors="replace") if log.exists() else "") + printed
            done = reported(folder)
        raw(text)
        if "ERR_NVGPUCTRPERM" in text:
            raise NcuError(
                "this user may not read the GPU's counters (ERR_NVGPUCTRPERM). Run it as root, or let the "
                "machine's owner load the driver with NVreg_RestrictProfilingToAdminUsers=0 and give a "
                "container --cap-add=SYS_ADMIN: https://developer.nvidia.com/ERR_NVGPUCTRPERM"
            )
        if refused := set(_UNKNOWN.findall(text)) - unknown:
            unknown |= refused
            found.metrics = chosen(names, unknown)
            if found.metrics:
                continue
        ended = [(index, fields.get("symbol")) for index, fields in done.items() if fields.get("ended")]
        found.rows |= matched(read(text), ended)
        found.failed |= failures(done, limit)
        left = [index for index in now if index not in found.rows and index not in found.failed]
        if left == now:
            if not found.rows:
                raise NcuError(f"ncu read no counters; the end of what it printed: {_tail(text)}")
            found.failed |= dict.fromkeys(left, "ncu printed no row of it")
            left = []
        todo = left + later
        keep(found)
    return found


@contextlib.contextmanager
def plan(items: Sequence[Item], todo: Sequence[int]) -> Iterator[Path]:
    """A folder with what ``gpu.counted`` is to launch, and done.jsonl for its answers."""
    with tempfile.TemporaryDirectory(prefix="course-ncu-") as name:
        folder, lines = Path(name), []
        for index in todo:
            items[index].artifact.save(folder / f"{index}.zip")
            lines.append({"index": index, "file": f"{index}.zip", "cublas": items[index].cublas})
        (folder / "plan.json").write_text(json.dumps(lines))
        (folder / "done.jsonl").touch()
        yield folder


def watched(line: Sequence[str], done: Path, limit: float) -> str:
    """Run a command until it ends, or ``done`` did not grow for ``limit`` seconds. Returns its output."""
    environment = {**os.environ, "PYTHONPATH": client.python_path(), "LC_ALL": "C.UTF-8"}
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            line,
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        size, since = 0, time.monotonic()
        try:
            while process.poll() is None and time.monotonic() - since < limit:
                time.sleep(0.02)
                if (now := done.stat().st_size) != size:
                    size, since = now, time.monotonic()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # ncu and the program under it
            process.wait()
        printed.seek(0)
        return printed.read().decode(errors="replace")


def reported(folder: Path) -> dict[int, dict]:
    """What ``gpu.counted`` wrote, by index, in the order of launches; later lines add to earlier ones."""
    found: dict[int, dict] = {}
    for line in (folder / "done.jsonl").read_text().splitlines():
        with contextlib.suppress(ValueError):  # the last line of a process that was killed
            fields = json.loads(line)
            found.setdefault(fields.pop("index"), {}).update(fields)
    return found


def failures(done: dict[int, dict], limit: float) -> dict[int, str]:
    """The launches that were begun and came to no end, and why, in words."""
    lost = f"its launch ended the process, or took longer than {limit:g} s"
    return {
        index: str(fields.get("error", lost)) for index, fields in done.items() if not fields.get("ended")
    }


def read(text: str) -> list[Row]:
    """The rows of ``ncu --csv --page raw``, in the order of the launches.

    The first line of the table names the columns, the second their units; what ncu and the program print
    beside is passed over. A cell without a number ("n/a") has no value. No table gives no rows.
    """
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return []
    table = list(csv.reader(line for line in lines[start:] if line.startswith('"')))
    columns, rows = table[0], []
    units = [""] * len(columns)
    for cells in table[1:]:
        if len(cells) != len(columns):
            continue  # cut off
        fields = dict(zip(columns, cells, strict=True))
        if not fields["ID"]:
            units = cells
            continue
        scaled = zip(columns, units, cells, strict=True)
        values = {name: _number(cell, unit) for name, unit, cell in scaled if "__" in name}
        rows.append(Row(fields.get("Kernel Name", ""), {n: v for n, v in values.items() if v is not None}))
    return rows


def _number(cell: str, unit: str) -> float | None:
    """A cell in base units: "1,234.5" of "Kbyte" is 1,234,500. None where it holds no finite number."""
    try:
        value = float(cell.replace(",", ""))
    except ValueError:
        return None
    if value != value or abs(value) == float("inf"):
        return None
    return value * _factor(unit)


def _factor(unit: str) -> float:
    """What one of this unit is in seconds, Hz, bytes, or as a share."""
    if unit == "%":
        return 0.01
    above, _, below = unit.partition("/")
    if below:
        return _factor(above) / _factor(below)
    if unit in _TIMES:
        return _TIMES[unit]
    return _PREFIXES.get(unit[:1], 1.0) if unit[1:].lower() in ("byte", "hz", "b") else 1.0


def matched(rows: Sequence[Row], launches: Sequence[tuple[int, str | None]]) -> dict[int, Row]:
    """Which row is whose. Both are in the order of the launches; a launch is an index, and the symbol of its
    kernel, which is not known of cuBLAS's.

    cuBLAS may launch more than one kernel; then its longest counts. A launch without a row has none here.
    """
    if len(rows) == len(launches):
        return {index: row for (index, _), row in zip(launches, rows, strict=True)}
    found: dict[int, Row] = {}
    left, following = list(rows), [symbol for _, symbol in launches[1:]] + [""]
    for (index, symbol), after in zip(launches, following, strict=True):
        if symbol is not None:
            many = 1 if left and left[0].kernel == symbol else 0
        elif after is None:  # cuBLAS again: nobody knows where it begins
            many = min(1, len(left))
        else:
            many = next((n for n, row in enumerate(left) if row.kernel == after), len(left))
        own, left = left[:many], left[many:]
        if own:
            found[index] = max(own, key=lambda row: row.values.get(COUNTERS["seconds"][0], 0.0))
    return found


def _tail(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-400:] or "nothing"
