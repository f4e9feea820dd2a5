"""Stands in for ncu and for the program under it, where there is no GPU: two scripts, written by a test.

The table that it prints is made up in the form of ``ncu --csv --page raw`` as NVIDIA documents it: names of
columns, their units, one row a launch. No number in it was measured.
"""

import sys
from pathlib import Path

NCU = """#!{python} -SE
import json, subprocess, sys
arguments = sys.argv[1:]
if arguments == ["--version"]:
    print("NVIDIA (R) Nsight Compute Command Line Profiler\\nVersion 2025.3.1.0 (build 1)")
    sys.exit()
if arguments == ["--query-metrics"]:
    print("Device NVIDIA H200 (GH100)\\n\\n-----\\nMetric Name   Metric Type   Metric Description\\n-----")
    for name in {known}:
        print(f"{{name}}   Counter   of something")
    sys.exit()
options = dict(zip(arguments[1:], arguments[2:]))
metrics = options["--metrics"].split(",")
log = open(options["--log-file"], "w")
refused = [m for m in metrics if m.split(".")[0] in {refused}]
if refused:
    name = refused[0].split(".")[0]
    print(f"==ERROR== Failed to find metric regex:^{{name}}\\\\.(sum|avg)$", file=log)
    sys.exit(1)
child = arguments[arguments.index("--log-file") + 2 :]
print("==PROF== Connected to process 7 (/usr/bin/python3)", file=log)
status = subprocess.run(child).returncode
print({words!r}, file=log)
if {rows}:
    head = ["ID", "Process ID", "Kernel Name", "Block Size", "Grid Size", "Device", "CC"]
    quoted = lambda cells: print(",".join(f'"{{cell}}"' for cell in cells), file=log)
    lines = [json.loads(line) for line in open(child[-2] + "/done.jsonl")]
    quoted(head + metrics)
    quoted([""] * len(head) + [{units}.get(m, "") for m in metrics])
    for n, line in enumerate(line for line in lines if line.get("ended")):
        values = [{values}.get(m, "1") for m in metrics]
        quoted([n, 7, line["symbol"] or "nvjet_hsh_128x256", "(128, 1, 1)", "(1, 1, 1)", 0, "9.0"] + values)
sys.exit(status)
"""

CHILD = """import json, sys, time
folder, how = sys.argv[1:]
with open(folder + "/done.jsonl", "a") as out:
    for item in json.load(open(folder + "/plan.json")):
        say = lambda **fields: print(json.dumps({{"index": item["index"], **fields}}), file=out, flush=True)
        say()
        if item["index"] in {dies}:
            sys.exit(1)
        if item["index"] in {hangs}:
            time.sleep(60)
        if item["index"] in {wrong}:
            say(error="TimedOutputWrong: a timed output was wrong")
            sys.exit(1)
        power = {{"seconds": 2e-4, "power_w": 650.0, "joules": 0.13, "clock_mhz": 1500.0, "temperature_c": 50.0}}
        found = {{"power": power}} if how == "power" else {{"symbol": None if item["cublas"] else "main"}}
        say(ended=True, **found)
"""

ELAPSED = "avg.pct_of_peak_sustained_elapsed"
UNITS = {
    "gpu__time_duration.sum": "ns",
    "smsp__cycles_elapsed.avg.per_second": "hz",
    f"sm__pipe_tensor_op_hmma_cycles_active.{ELAPSED}": "%",
    f"dram__throughput.{ELAPSED}": "%",
    "lts__t_bytes.sum": "byte",
}
VALUES = {
    "gpu__time_duration.sum": "183,456",
    "smsp__cycles_elapsed.avg.per_second": "1,560,000,000.5",
    f"sm__pipe_tensor_op_hmma_cycles_active.{ELAPSED}": "89.7",
    f"dram__throughput.{ELAPSED}": "20.5",
    "lts__t_bytes.sum": "1,150,000,000",
    "smsp__average_warps_issue_stalled_gmma_per_issue_active.ratio": "4",
    "smsp__inst_executed.sum": "n/a",
}


def write(folder: Path, known=(), refused=(), words="", rows=True, dies=(), hangs=(), wrong=()) -> list[str]:
    """Write ``ncu`` into ``folder``, which a test puts into PATH. Returns the command of the program under it.

    ``known`` are the metrics that it names when asked, ``refused`` those that it then refuses; it prints
    ``words``, and with ``rows`` a table. The program ends, hangs or fails at the indices of ``dies``,
    ``hangs`` and ``wrong``.
    """
    folder.mkdir(exist_ok=True)
    text = NCU.format(
        python=sys.executable,
        known=known,
        refused=refused,
        words=words,
        rows=rows,
        units=UNITS,
        values=VALUES,
    )
    (folder / "ncu").write_text(text)
    (folder / "ncu").chmod(0o755)
    (folder / "child.py").write_text(CHILD.format(dies=dies, hangs=hangs, wrong=wrong))
    return [sys.executable, "-SE", str(folder / "child.py")]
