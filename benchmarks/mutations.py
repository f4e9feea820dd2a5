"""Plant small faults in the course's own checker and emulator, and see whether the tests notice.

    python benchmarks/mutations.py --list
    python benchmarks/mutations.py --out build/mutations.json
    python benchmarks/mutations.py --tree ../before --only "reference:"
    python benchmarks/mutations.py --jobs 16 --limit 100      minutes, where there are as many cores

Each fault is one edit of one expression or statement, found by its syntax and not by its file, so that it
outlives formatting and moves. A copy of the tree is edited, never the tree itself. First run the tests that
know the part; then, for each fault that these leave, the suite (without notebooks, browser and README). A
test run that does not end counts as noticed, and is told apart. It needs no git, no browser, no sandbox: a
test that fails without any fault, or whose packages are not here, notices nothing. Caches are of this run,
and shared: what a test run keeps of the course's own answers is keyed by the course's source.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "build", "__pycache__", ".*_cache", "*.egg-info")
# Test files that know a part, by their names, in the order in which they run.
KNOWN_BY = {
    "reference": ("test_reference",),
    "findings": ("test_findings", "test_tma"),
    "tma": ("test_tma", "test_findings"),
    "maps": ("test_maps",),
    "pixels": ("test_pixels",),
    "ledger": ("test_ledger",),
    "edges": ("test_edges",),
    "arithmetic": ("test_arithmetic",),
    "solutions": ("test_emulated_solutions",),
    "receipts": ("test_receipts", "test_conditions"),
    "paths": ("test_paths",),
    "parser": ("test_parser", "test_arithmetic", "test_findings", "test_tma"),
    "grading": ("test_gemm", "test_conditions", "test_steps", "test_cases", "test_trial"),
}
NO_END, NO_NAMES = "no end", "pytest itself"
EXCUSED = 20  # tests of the first round may fail without any fault, for want of a package or a sandbox
LONG = ("test_notebooks.py", "test_browser.py", "test_readme.py")


@dataclass(frozen=True)
class Mutation:
    """``before`` is Python text that stands once in ``where``, the end of a dotted name of functions and
    classes ("" for any); ``after`` is what then stands there. ``known_by`` are parts of KNOWN_BY.
    """

    name: str
    where: str
    before: str
    after: str
    known_by: tuple[str, ...] = ("findings", "solutions")


# fmt: off
MUTATIONS = (
    # run/reference: is D right?
    Mutation("reference: no elementwise bound", "compare_values",
             "n_wrong == 0 and norm <= ROUNDING[D.dtype][1]", "norm <= ROUNDING[D.dtype][1]", ("reference",)),
    Mutation("reference: no relative norm", "compare_values",
             "n_wrong == 0 and norm <= ROUNDING[D.dtype][1]", "n_wrong == 0", ("reference",)),
    Mutation("reference: a NaN is within the bound", "_errors",
             "~(error <= bound(ref, D.dtype, absolute))", "error > bound(ref, D.dtype, absolute)",
             ("reference",)),
    Mutation("reference: the bound does not grow with K", "compare",
             "ABSOLUTE_PER_K * A.shape[1]", "ABSOLUTE_PER_K", ("reference",)),
    Mutation("reference: some CTAs may write nothing", "compare_values",
             "partial and not bool(unwritten.all())", "partial", ("reference", "solutions", "grading")),
    Mutation("reference: K tile missed and used twice swapped", "_weights",
             "w == 0", "w != 0", ("reference",)),
    Mutation("reference: a tile counts when all of it is wrong", "_tiles",
             "_counts(mask) > 0", "_counts(mask) == TILE * TILE", ("reference",)),
    Mutation("reference: large errors called small", "_causes",
             "typical < 0.02", "typical < 2.0", ("reference",)),
    Mutation("reference: first wrong element is the last", "compare_copy",
             "differs.nonzero()[0]", "differs.nonzero()[-1]", ("reference",)),
    Mutation("reference: index backwards", "_index", "index[::-1]", "index", ("reference",)),
    # emulator: mbarriers
    Mutation("mbarrier: overrun measured by the count", "MBarrier._count",
             "count > self.pending", "count > self.count"),
    Mutation("mbarrier: arrivals bring no order", "MBarrier.arrive",
             "self.gathering.join(path.warp.clock)", "pass"),
    Mutation("mbarrier: its end brings no order", "MBarrier.settle",
             "self.clock.join(self.gathering)", "pass"),
    Mutation("mbarrier: TMA sees an init without its fence", "MBarrier.use",
             "by_tma and not self.fenced", "False"),
    Mutation("mbarrier: an init needs no order", "MBarrier.use",
             "path.warp.clock.seen[agent] < time", "False"),
    Mutation("mbarrier: a phase ends without its bytes", "MBarrier.settle", "if self.tx: ...", "False"),
    Mutation("mbarrier: more bytes than expected pass", "MBarrier._check_bytes",
             "not self.pending and self.issued > self.expected", "False"),
    Mutation("mbarrier: bytes of a lapsed phase go unseen", "MBarrier.settle",
             "if self.flying: ...", "False"),
    Mutation("mbarrier: a lapped waiter goes unseen", "MBarrier.settle", "other.woken is self", "False"),
    Mutation("mbarrier: parity the other way", "PhaseWait.holds",
             "self.barrier.phase & 1 != self.parity", "self.barrier.phase & 1 == self.parity"),
    Mutation("mbarrier: a wait brings no order", "PhaseWait.grant",
             "path.warp.clock.join(self.barrier.clock)", "pass"),
    Mutation("mbarrier: state of the phase before is enough", "PhaseWait.holds",
             "self.barrier.phase > self.phase", "self.barrier.phase >= self.phase"),
    Mutation("mbarrier: an init for no arrivals", "_init",
             "1 <= arrivals <= MAX_COUNT", "0 <= arrivals <= MAX_COUNT"),
    Mutation("mbarrier: a warp's lanes arrive as one", "_each", "count * len(lanes)", "count"),
    # emulator: memory
    Mutation("memory: a thread's read is forgotten", "Races._read",
             "read[index] = path.warp.code", "pass"),
    Mutation("memory: a read that has ended is ordered", "Races._overwrites",
             "low < read.high and high > read.low and not read.ordered_before(seen)",
             "low < read.high and high > read.low and not read.done"),
    Mutation("memory: no proxy fence is needed", "Races._check", "fenced is not None", "False"),
    Mutation("memory: one written word will do", "Races._check",
             "not codes.all()", "not codes.any()"),
    Mutation("memory: an access may begin at the last byte", "require_inside",
             "offset < 0 or offset + count > region.size", "offset < 0 or offset > region.size"),
    Mutation("memory: lanes may leave their region", "locate",
             "bits >= 0 and not bits & (count - 1) and bits + count <= region.size",
             "bits >= 0 and not bits & (count - 1)", ("findings", "arithmetic", "solutions")),
    Mutation("order: a clock one behind is enough", "unordered",
             "codes >> AGENT_BITS", "(codes >> AGENT_BITS) - 1"),
    # emulator: TMA
    Mutation("tma: readers before a load are not asked", "Races._load_targeted",
             "if shadow.was_read: ...", "False", ("tma", "solutions")),
    Mutation("tma: tiles at any 16 bytes", "_check_tile",
             "offset % view.alignment", "offset % UNIT", ("tma", "solutions")),
    Mutation("tma: multicast to a CTA that is not there", "_issue",
             "ranks >> cluster.size", "False", ("tma", "solutions")),
    Mutation("tma: multicast to every CTA", "_issue", "ranks >> cta.rank & 1", "True", ("tma", "solutions")),
    Mutation("tma: a store reads without looking", "Races._store_issued",
             "self._check(path, shadow, shadow.written[words], warp.clock.seen, warp.clock.fenced, A_STORE)",
             "pass", ("tma", "solutions")),
    Mutation("tma: a wait for stores waits for all", "wait.function",
             "waited_for(mine, left)", "list(mine)", ("tma", "solutions")),
    Mutation("tma: negative coordinates are large ones", "_coordinates", "v >> 31", "False", ("tma",)),
    Mutation("tma: swizzle by the wrong bits", "swizzled",
             "offset >> 7", "offset >> 6", ("tma", "solutions")),
    Mutation("tma: a box ends one short of the edge", "TensorView.slices",
             "-(-(dim - start) // step)", "(dim - start) // step", ("tma",)),
    Mutation("tma: a map needs no acquire", "MapOrder._use", "if not missed: ...", "True", ("maps",)),
    Mutation("tma: a map's change needs no release", "MapOrder._is_released", "at < len(times)", "True",
             ("maps",)),
    Mutation("tma: pixels go on past their box", "PixelView.pixels", "at[i] < end", "True", ("pixels",)),
    Mutation("tma: no pixel is outside", "PixelView.pixels", "place if inside else None", "place",
             ("pixels",)),
    Mutation("mbarrier: who was lapped is not told", "_lapped", "barrier.phase <= meant + 1", "True",
             ("ledger",)),
    Mutation("mbarrier: every copy is a documented one", "_issue",
             "isinstance(view, PlainView) and multicast is None and cta is owner is path.cta", "True",
             ("findings", "edges")),
    # emulator: wgmma, threads, machine
    Mutation("wgmma: no fence is asked for", "multiply.function", "not issued.fenced", "False"),
    Mutation("wgmma: it always accumulates", "Warpgroup.run", "not op.accumulate", "False"),
    Mutation("wgmma: a wait covers groups in flight", "Races._wgmma_waited",
             "record.last <= event.count - 1", "True"),
    Mutation("wgmma: a descriptor may leave shared memory", "_begin",
             "low < 0 or high * UNIT > shared.size", "low < 0"),
    Mutation("threads: too many at a barrier", "ThreadBarrier.settle", "self.arrived > needed", "False"),
    Mutation("threads: a barrier brings no order", "ThreadBarrier.passed",
             "path.warp.clock.join(self.released)", "pass"),
    Mutation("threads: the last register is not given", "set_registers.function",
             "pool.need(p.warp, count) > pool.free", "pool.need(p.warp, count) >= pool.free"),
    Mutation("machine: a CTA that has ended still has memory", "Cluster.cta_of", "cta.exited", "False"),
    Mutation("machine: nothing keeps a CTA", "Races._cta_ended",
             "self._ends[cta].seen[agent] < time", "False"),
    Mutation("machine: a rank past the cluster", "Cluster.cta_of", "rank >= self.size", "rank > self.size"),
    # ptx
    Mutation("parser: every guard is a negated one", "_Reader.instruction",
             "bool(negated)", "True", ("parser",)),
    Mutation("parser: octal read as decimal", "_Reader.value",
             "8 if _OCTAL.fullmatch(text) else 0", "10 if _OCTAL.fullmatch(text) else 0", ("parser",)),
    Mutation("receipts: any register request will do", "",
             '{"dec", "inc"}', '{"dec"}', ("receipts", "grading")),
    Mutation("receipts: one cluster barrier will do", "",
             "r.cluster_barriers >= 2", "r.cluster_barriers >= 1", ("receipts",)),
    Mutation("receipts: one group of stores", "",
             "sum(r.tensor_stores.values()) >= 2 and r.bulk_commits != 1", "True", ("receipts",)),
    Mutation("receipts: a wait_group of 0 is in flight", "",
             "any(n > 0 for n in r.wgmma_waits)",
             "any(n >= 0 for n in r.wgmma_waits)", ("receipts", "grading")),
    Mutation("paths: only the first path of a copy counts", "origins",
             "before |= tensors_there", "pass", ("paths",)),
    # grading
    Mutation("grading: an illegal map gives its points", "part",
             'score(row, "tensor maps", False, f"{len(broken)} illegal", *broken, topic="tma")',
             'score(row, "tensor maps", True, "")', ("grading",)),
    Mutation("grading: changed inputs pass", "Trial.ok",
             "self.found.ok and not self.touched", "self.found.ok", ("grading",)),
    Mutation("grading: a slower kernel gets the points of speed", "_rate",
             'run["ratio"] >= floor', 'run["ratio"] > 0', ("grading",)),
    Mutation("grading: a map may change in two fields", "_mended",
             "len(changed) != 1", "not changed", ("grading",)),
    Mutation("grading: a copy by another path counts", "_path",
             "copied is None or set(copied.paths) != {path}", "copied is None", ("grading",)),
    Mutation("grading: part of the size is right, all points of it", "_results",
             "0.5 * whole / len(answered) if ended else 0.0",
             "whole / len(answered) if ended else 0.0", ("grading",)),
    Mutation("grading: a whole case in parts", "Verdict.of", "whole and failed", "False", ("grading",)),
)
# fmt: on


# -- finding and making an edit


def spans(tree: ast.Module, where: str, before: str) -> list[tuple[int, int, int, int]]:
    """Line and column of begin and end of each node that reads as ``before`` does, formatting aside.

    ``if x: ...`` stands for the condition of an ``if`` or ``elif`` with any body.
    """
    wanted = ast.parse(before).body[0]
    condition = isinstance(wanted, ast.If) and ast.unparse(wanted.body) == "..."
    text = ast.unparse(wanted.test if condition else wanted)
    likely = type(wanted.test if condition else wanted), type(getattr(wanted, "value", wanted))
    found = set()

    def visit(node, name):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            name = f"{name}.{node.name}"
        if f"{name}.".endswith(f".{where}.") or not where or f".{where}." in f"{name}.":
            one = node.test if condition and isinstance(node, ast.If) else None if condition else node
            if isinstance(one, likely) and ast.unparse(one) == text:
                found.add((one.lineno, one.col_offset, one.end_lineno, one.end_col_offset))
        for child in ast.iter_child_nodes(node):
            visit(child, name)

    visit(tree, "")
    return sorted(found)


@cache
def parsed(source: str) -> ast.Module:
    return ast.parse(source)


def replaced(source: str, span: tuple[int, int, int, int], after: str) -> str:
    """Source with one node replaced; an expression in brackets, so that it binds as the old one did."""
    first, begin, last, end = span
    lines = source.encode().splitlines(keepends=True)  # columns count bytes
    head, tail = lines[first - 1][:begin], lines[last - 1][end:]
    new = after if after == "pass" else f"({after})"
    return b"".join([*lines[: first - 1], head, new.encode(), tail, *lines[last:]]).decode()


class NotOnce(Exception):
    """A mutation's text is not there, or there more than once."""


class Copy:
    """A tree of our own to plant faults in."""

    def __init__(self, tree: Path, folder: Path):
        self.root = folder
        shutil.copytree(tree, folder, ignore=LEFT_OUT, symlinks=True)
        self.sources = {path: path.read_text() for path in sorted((folder / "course_utils").rglob("*.py"))}
        self.planted: list[Path] = []
        self.edition = int(time.time())

    def plant(self, mutation: Mutation) -> str:
        """Make one edit; returns the place. Raises NotOnce."""
        places = [
            (path, span)
            for path, source in self.sources.items()
            if mutation.where.rpartition(".")[2] in source
            for span in spans(parsed(source), mutation.where, mutation.before)
        ]
        if len(places) != 1:
            raise NotOnce(f"its text is there {len(places)} times")
        path, span = places[0]
        self.planted.append(path)
        self.write(path, replaced(self.sources[path], span, mutation.after))
        return f"{path.relative_to(self.root)}:{span[0]}"

    def write(self, path: Path, source: str) -> None:
        """A time of its own for each edition: byte code is kept by size and second."""
        path.write_text(source)
        self.edition += 2
        os.utime(path, (self.edition, self.edition))

    def restore(self) -> None:
        for path in self.planted:
            self.write(path, self.sources[path])
        self.planted.clear()

    def tests(self, *arguments: object, limit: float, processes: int = 0) -> tuple[list[str], str]:
        """(what noticed, its words): names of tests, or "no end"; none where all tests passed."""
        caches = self.root.parent / "caches"
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "COURSE_TEST_CACHE": str(caches),
            "XDG_CACHE_HOME": str(caches),
            "CUDA_VISIBLE_DEVICES": "",  # the same tests where there is a GPU
            "PYTHONHASHSEED": "0",  # tests that a set names come in one order in every process
        }
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=line", "-p", "no:cacheprovider"]
        command += ["--continue-on-collection-errors"]  # of a file whose packages are not here
        with subprocess.Popen(
            [*command, "-n", str(processes), *map(str, arguments)],
            cwd=self.root,
            env=environment,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as run:
            try:
                output, _ = run.communicate(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, 9)
                run.communicate()
                return [NO_END], f"not ended after {limit:g} s"
        if run.returncode in (0, 5):  # 5: none of these files has a test that was asked for
            return [], ""
        names = re.findall(r"^(?:FAILED|ERROR) (\S+(?: [^-].*?)?)(?: - .*)?$", output, re.M)
        return list(dict.fromkeys(names)) or [NO_NAMES], output[-1500:]

    def files(self, known_by: tuple[str, ...]) -> list[Path]:
        """The test files that know these parts, best first."""
        there = sorted((self.root / "tests").rglob("test_*.py"))
        names = dict.fromkeys(name for part in known_by for name in KNOWN_BY[part])
        return [path.relative_to(self.root) for name in names for path in there if path.stem == name]


# -- the two rounds


@dataclass
class Outcome:
    mutation: Mutation
    place: str = ""
    noticed_by: str = ""
    seconds: float = 0.0
    error: str = ""
    words: str = field(default="", repr=False)

    def heard(self, names: list[str], words: str) -> None:
        self.noticed_by, self.words = "".join(names[:1]), words

    @property
    def state(self) -> str:
        return "NOT PLANTED" if self.error else "killed" if self.noticed_by else "SURVIVED"

    def __str__(self) -> str:
        return f"{self.state:11}  {self.mutation.name:55}  {self.noticed_by or self.error or self.place}"


def first_round(copies: queue.Queue, mutation: Mutation, limit: float, excused: list[str]) -> Outcome:
    """One fault under the quick tests that know its part, but for those that are ``excused``."""
    copy, outcome, start = copies.get(), Outcome(mutation), time.monotonic()
    try:
        outcome.place = copy.plant(mutation)
        files = [path for path in copy.files(mutation.known_by) if str(path) not in excused]
        without = [f"--deselect={name}" for name in excused]
        outcome.heard(*copy.tests(*files, *without, "-x", "-m", "not slow", limit=limit))
    except NotOnce as error:
        outcome.error = str(error)
    finally:
        copy.restore()
        copies.put(copy)
    outcome.seconds = round(time.monotonic() - start, 1)
    print(outcome, f"({outcome.seconds:.0f} s)", flush=True)
    return outcome


def second_round(copy: Copy, outcomes: list[Outcome], limit: float, processes: int) -> None:
    """The suite on each fault that is left, but for tests that fail without any."""
    suite = ["tests", *(f"--ignore-glob=*/{name}" for name in LONG)]
    always, _ = copy.tests(*suite, limit=limit, processes=processes)
    if always == [NO_END]:
        print(f"the suite does not end within {limit:g} s: --suite-limit gives it more")
        return
    without = [f"--deselect={name}" for name in always]
    for outcome in outcomes:
        copy.plant(outcome.mutation)
        outcome.heard(*copy.tests(*suite, *without, "-x", limit=limit, processes=processes))
        copy.restore()
        print(outcome, flush=True)


def provenance(tree: Path) -> dict:
    def git(*command):
        try:
            run = subprocess.run(["git", *command], cwd=tree, text=True, capture_output=True)
        except FileNotFoundError:
            return ""
        return run.stdout.strip() if run.returncode == 0 else ""

    return {
        "tree": str(tree),
        "commit": git("rev-parse", "HEAD"),
        "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--list", action="store_true", help="name the faults and where they would go, run nothing"
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="faults whose name holds this text")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to hold against its tests")
    parser.add_argument("--out", type=Path, help="JSON of the results (default: build/mutations.json)")
    parser.add_argument("--jobs", type=int, default=2, help="faults at once, and processes for the suite")
    parser.add_argument("--quick", action="store_true", help="only the first round")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a run of the first round")
    parser.add_argument("--suite-limit", type=float, default=1800, help="seconds for a run of the second")
    arguments = parser.parse_args()
    chosen = [m for m in MUTATIONS if arguments.only in m.name]
    tree, start = arguments.tree.resolve(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        jobs = [Copy(tree, Path(folder) / f"tree{i}") for i in range(1 if arguments.list else arguments.jobs)]
        if arguments.list:
            return listed(jobs[0], chosen)
        files = jobs[0].files(tuple(part for mutation in chosen for part in mutation.known_by))
        excused, words = jobs[0].tests(
            *files, "-m", "not slow", limit=arguments.suite_limit, processes=arguments.jobs
        )
        if len(excused) > EXCUSED or excused in ([NO_END], [NO_NAMES]):
            print(f"the tests fail without any fault: {excused[0]}\n{words}", file=sys.stderr)
            return 1
        for name in excused:
            print(f"fails without any fault, and counts for none: {name}")
        print(
            f"without a fault the tests of the first round have run ({time.monotonic() - start:.0f} s)",
            flush=True,
        )
        copies: queue.Queue = queue.Queue()
        for job in jobs:
            copies.put(job)
        with ThreadPoolExecutor(len(jobs)) as pool:
            outcomes = list(pool.map(lambda m: first_round(copies, m, arguments.limit, excused), chosen))
        left = [o for o in outcomes if o.state == "SURVIVED"]
        if left and not arguments.quick:
            second_round(jobs[0], left, arguments.suite_limit, len(jobs))
    counts = {
        state: sum(o.state == state for o in outcomes) for state in ("killed", "SURVIVED", "NOT PLANTED")
    }
    print("\n" + "\n".join(map(str, outcomes)) + "\n\n" + ", ".join(f"{n} {s}" for s, n in counts.items()))
    out = arguments.out or ROOT / "build" / "mutations.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "name": o.mutation.name,
            "state": o.state,
            "noticed_by": o.noticed_by,
            "place": o.place,
            "error": o.error,
        }
        | {"seconds": o.seconds, "words": o.words}
        for o in outcomes
    ]
    seconds = round(time.monotonic() - start)
    report = {"provenance": provenance(tree), "seconds": seconds, "counts": counts, "mutations": rows}
    out.write_text(json.dumps(report, indent=1) + "\n")
    return 0


def listed(copy: Copy, chosen: list[Mutation]) -> int:
    """Each fault with its place; 1 where one has lost it."""
    lost = 0
    for mutation in chosen:
        try:
            place = copy.plant(mutation)
        except NotOnce as error:
            place, lost = f"NOT PLANTED: {error}", lost + 1
        copy.restore()
        print(f"{mutation.name:55}  {place}")
    print(f"{len(chosen)} faults, {lost} without a place")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
