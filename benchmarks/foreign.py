"""Run public kernels from checkouts of theirs in the emulator, and say of each what came out.

    python benchmarks/foreign.py [--checkouts FOLDER] [--only TEXT] [--again OUTCOME] [--table]

``foreign.toml`` lists repositories, each at a commit, and their jobs. A checkout that is missing from FOLDER
is cloned; nothing of it enters this repository. A job is one call of a program's own functions at a small
size, in a process of its own. The program makes its inputs, launches and compares with its own reference as
on a GPU; stand-ins (``foreign_host``) turn the GPU into the emulator.

Outcomes:
    right       it launched and compared, nothing differed, and the emulator found nothing
    finding     nothing differed, and the emulator found something
    stopped     a finding ended a launch
    wrong       the numbers differ
    crashed     the emulator raised an error of its own
    refused     the emulator names what it does not model
    uncompiled  the DSL that is installed does not compile it
    failed      it came to no launch or no comparison: a package that is missing, mostly
    slow        it took more processor time than the limit

Whose fault a finding or a difference is says ``fault`` in a job's row, after somebody looked at it: "program:
...", "emulator: ..." or "rule: ..." if a rule of the PTX ISA is broken and the numbers are right. ``kinds``
says it for a kind of finding.

Results are written after each job. The first run begins with those of the record,
``solutions/measured/public_kernels.json``. A run does the jobs whose row, commit or versions have changed.
``--again right`` (or another outcome, or all) does those again, and ``--again old`` those that another
emulator ran. ``--table`` writes the counts into ``docs/emulator.md`` and the results into the record.
"""

import argparse
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROWS = HERE / "foreign.toml"
PAGE = HERE.parent / "docs" / "emulator.md"
RECORD = HERE.parent / "solutions" / "measured" / "public_kernels.json"
BEGIN, END = "<!-- benchmarks/foreign.py writes from here -->\n", "<!-- to here -->\n"
LIMIT, PATIENCE = 300, 1800  # seconds of one job: of a processor, and by the clock on a busy machine
# of a result: ``emulator`` is the git tree of course_utils, ``key`` what else it depends on
RESULT = ("outcome", "said", "kinds", "launches", "warp_instructions", "cpu", "key", "emulator")
EMPTY = {"kinds": [], "launches": 0, "warp_instructions": 0}  # of a job that said nothing
PACKAGES = ("tilelang", "nvidia-cutlass-dsl", "torch", "numpy", "einops")


@dataclass(frozen=True)
class Repository:
    """``paths`` are folders of the checkout to import from; ``needs`` names repositories to import from
    too, ``prelude`` runs before the file is imported.
    """

    name: str
    github: str
    commit: str
    dsl: str
    folder: str = ""
    paths: tuple[str, ...] = (".",)
    needs: tuple[str, ...] = ()
    prelude: str = ""


@dataclass(frozen=True)
class Job:
    """One call: ``m`` is the module of ``file``; ``torch`` and ``T`` or ``c`` are at hand."""

    file: str
    call: str
    argv: tuple[str, ...] = ()
    fault: str = ""


def listed() -> list[tuple[Repository, list[Job]]]:
    """The rows of ``foreign.toml``."""
    found = []
    rows = tomllib.loads(ROWS.read_text())
    for name, row in rows.items():
        if name == "kinds":
            continue
        jobs = [Job(**{**job, "argv": tuple(job.get("argv", ()))}) for job in row.pop("jobs")]
        row = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
        found.append((Repository(name, **row), jobs))
    return found


def name_of(repository: Repository, job: Job) -> str:
    return f"{repository.name} {job.file} {job.call} {' '.join(job.argv)}".strip()


def clone(repository: Repository, folder: Path) -> None:
    """Check the commit out, without its history."""
    for command in (
        ["init", "--quiet", str(folder)],
        ["-C", str(folder), "fetch", "--quiet", "--depth", "1", "--filter", "blob:limit=1m",
         f"https://github.com/{repository.github}", repository.commit],
        ["-C", str(folder), "checkout", "--quiet", "--detach", "FETCH_HEAD"],
    ):  # fmt: skip
        subprocess.run(["git", *command], check=True)


def run(repository: Repository, job: Job, checkouts: Path, packages: str, kept: Path) -> dict:
    """The outcome of one job, in a child."""
    root = checkouts / repository.name
    command = [
        *(sys.executable, str(HERE / "foreign_job.py"), repository.dsl, str(root)),
        *(str(Path(repository.folder) / job.file), repository.prelude, job.call, *job.argv),
    ]
    own = [str(root / path) for path in repository.paths]
    needed = [str(checkouts / name) for name in repository.needs]
    paths = [str(HERE.parent), str(HERE), packages, *own, *needed, os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TILELANG_DISABLE_CACHE": "1",
        "CUTE_DSL_ARCH": "sm_90a",
        "QUACK_CACHE_ENABLED": "0",
        "TORCHDYNAMO_DISABLE": "1",
        "OMP_NUM_THREADS": "1",
        "FOREIGN_KEEP": str(kept),
        "FOREIGN_LIMIT": str(LIMIT),
    }
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=environment,
            cwd=root,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return {"outcome": "slow", "said": f"not done after {PATIENCE} s by the clock"}
    if done.returncode == -signal.SIGXCPU:
        return {"outcome": "slow", "said": f"not done after {LIMIT} s", "cpu": LIMIT}
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "log.txt").write_text(done.stdout[-20_000:] + "\n" + done.stderr[-20_000:])
    told = [line for line in done.stdout.splitlines() if line.startswith("FOREIGN ")]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    cpu = {"cpu": round(used, 1)}  # seconds
    if not told:
        last = (done.stderr.strip() or "no word").splitlines()[-1]
        return {"outcome": "failed", "said": f"exit {done.returncode}: {last[:300]}"} | cpu
    return json.loads(told[-1].removeprefix("FOREIGN ")) | cpu


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = ""
    return found


def recorded() -> dict[str, dict]:
    """The results of the record, by the names of their jobs."""
    entries = {(e["source"], e["file"], e["call"], *e.get("argv", ())): e for e in
               json.loads(RECORD.read_text())["entries"]}  # fmt: skip
    found = {}
    for repository, jobs in listed():
        for job in jobs:
            entry = entries.get((repository.name, job.file, job.call, *job.argv))
            if entry:
                found[name_of(repository, job)] = {name: entry[name] for name in RESULT if name in entry}
    return found


def key_of(*parts: object) -> str:
    """What a result depends on, short."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def emulator_here() -> str:
    """The tree of course_utils in git: another one is another emulator."""
    told = subprocess.run(
        ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD:course_utils"], capture_output=True, text=True
    )
    return told.stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkouts", type=Path, default=Path("build/foreign"))
    parser.add_argument("--out", type=Path, default=Path("build/foreign.json"))
    parser.add_argument("--only", default="", help="jobs whose name has this text")
    parser.add_argument("--again", default="", help="do those with this outcome again, old ones, or all")
    parser.add_argument("--packages", default="", help="a folder to import from, as einops")
    parser.add_argument("--table", action="store_true", help="write the docs' table and the record")
    given = parser.parse_args()
    if given.packages:
        sys.path.append(given.packages)
    kept = json.loads(given.out.read_text()) if given.out.exists() else recorded()
    if given.table:
        write_table(kept)
        return
    given.out.parent.mkdir(parents=True, exist_ok=True)
    found, emulator = versions(), emulator_here()
    for repository, jobs in listed():
        for job in jobs:
            name = name_of(repository, job)
            if given.only not in name:
                continue
            row = {k: v for k, v in asdict(job).items() if k != "fault"}
            key, before = key_of(asdict(repository), row, found), kept.get(name)
            old = before is not None and given.again == "old" and before["emulator"] != emulator
            if before is None or before["key"] != key or old or given.again in ("all", before["outcome"]):
                if not (given.checkouts / repository.name).exists():
                    clone(repository, given.checkouts / repository.name)
                folder = given.out.with_suffix("") / key
                before = run(repository, job, given.checkouts.resolve(), given.packages, folder.resolve())
                before |= {"key": key, "emulator": emulator}
                kept[name] = before
                written = given.out.with_suffix(".new")
                written.write_text(json.dumps(kept, indent=1) + "\n")
                written.replace(given.out)
            print(f"{before['outcome']:10} {before.get('cpu', 0):>6} s  {name}", flush=True)
            if before["said"]:
                print(f"{'':21}{before['said'][:300]}", flush=True)


UNJUDGED = "emulator: not looked at yet"
COLUMNS = {
    "right": "right",
    "rule": "right, and breaks a rule of the ISA",
    "program": "the program's own fault",
    "emulator": "the emulator's fault",
    "refused": "rejected by name",
    "not run": "does not compile here, or lacks a package",
}


def verdict(job: Job, done: dict, kinds: dict[str, str]) -> tuple[str, str]:
    """(column, why) of one result. What nobody has looked at is the emulator's fault."""
    if done["outcome"] in ("right", "refused"):
        return done["outcome"], done["said"]
    if done["outcome"] in ("uncompiled", "failed", "slow"):
        return "not run", job.fault or done["said"]
    said = [job.fault] if job.fault else [kinds.get(kind, UNJUDGED) for kind in done["kinds"]] or [UNJUDGED]
    return max((one.partition(": ")[::2] for one in said), key=lambda one: list(COLUMNS).index(one[0]))


def table(kept: dict) -> tuple[str, list[dict]]:
    """The tables of the page, and an entry of the record for each result."""
    kinds = tomllib.loads(ROWS.read_text())["kinds"]
    counts, told, entries = {}, [], []
    for repository, jobs in listed():
        ran = [(job, kept[name_of(repository, job)]) for job in jobs if name_of(repository, job) in kept]
        column = Counter()
        for job, done in ran:
            where, why = verdict(job, done, kinds)
            why = why.partition("\n")[0][:300]
            column[where] += 1
            told += [(where, repository, job, why)] if where not in ("right", "not run") else []
            row = {k: v for k, v in asdict(job).items() if k != "fault" and v}
            result = EMPTY | {name: done[name] for name in RESULT if name in done}
            result["said"] = result["said"].partition("\n")[0][:300]
            entries.append({"source": repository.name, **row, "verdict": where, "why": why, **result})
        counts[repository] = column
    total = sum(counts.values(), Counter())
    ran = total.total() - total["not run"]
    lines = [
        f"The emulator was given {total.total()} calls of public programs. Each program makes its own inputs "
        f"and compares with its own reference. {ran} of the calls compile here and find their packages. "
        f"{total['right'] + total['rule']} of these came out right.",
        "",
        f"| repository | commit | calls | {' | '.join(COLUMNS.values())} |",
        "|---" * (3 + len(COLUMNS)) + "|",
    ]
    for repository, column in counts.items():
        link = f"[{repository.github}](https://github.com/{repository.github})"
        cells = [link, f"`{repository.commit[:7]}`", column.total(), *(column[name] for name in COLUMNS)]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "| file | | why |", "|---|---|---|"]
    rows = {}
    for where, repository, job, why in sorted(told, key=lambda one: list(COLUMNS).index(one[0])):
        rows[repository.name, job.file, where, why.replace("|", "\\|")[:160]] = None
    lines += [f"| {name} `{file}` | {COLUMNS[where]} | {why} |" for name, file, where, why in rows]
    return "\n".join(lines) + "\n", entries


def write_table(kept: dict) -> None:
    """The counts and the list into the docs, and each result into the record."""
    text, entries = table(kept)
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    PAGE.write_text(before + BEGIN + text + END + rest.partition(END)[2])
    provenance = {
        "machine": "the emulator, without a GPU",
        "date": date.today().isoformat(),
        "versions": versions(),
        "commits": {repository.github: repository.commit for repository, _ in listed()},
        "made_by": "benchmarks/foreign.py",
        "emulator": "of each entry: the git tree of course_utils that ran it",
        "outcomes": __doc__.partition("Outcomes:\n")[2].partition("\n\n")[0],
    }
    RECORD.write_text(json.dumps({"provenance": provenance, "entries": entries}, indent=1) + "\n")


if __name__ == "__main__":
    main()
