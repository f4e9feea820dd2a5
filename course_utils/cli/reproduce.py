"""``course reproduce``: the folder that a bug report needs, with what this machine can find out itself."""

from __future__ import annotations

import json
import platform
import re
import tempfile
from difflib import unified_diff
from pathlib import Path

from rich.console import Console

from course_utils.cli import EXIT_FAILED, run_pair
from course_utils.cli.kernel import imported_dsl, kernel_file
from course_utils.cli.terminal import at_work, say
from course_utils.compile.load import load_factory, read
from course_utils.grading import steps
from course_utils.run import backends

SHAPE = "64x64"  # of a pair, where none is named
REFERENCES = {  # of what a kernel may compute without --against
    "gemm": '''"""D = A @ B^T, in fp16."""

import torch

M, N, K = {size}


def inputs():
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(M, K, generator=generator).half()
    B = torch.randn(N, K, generator=generator).half()
    return {{"A": A, "B": B}}


def outputs(A, B):
    return {{"D": (A.float() @ B.float().T).half()}}
''',
    "copy": '''"""Y is X: each element has its own value as long as fp16 has one."""

import torch

SHAPE = {size}


def inputs():
    count = torch.Size(SHAPE).numel()
    return {{"X": (torch.arange(count) % 2048).half().reshape(SHAPE)}}


def outputs(X):
    return {{"Y": X.clone()}}
''',
}


def reproduce(
    console: Console,
    file: str,
    dsl: str | None,
    control: str | None,
    size: str | None,
    reference: str | None,
    out: str,
) -> int:
    """Write a folder with a kernel, its control, what they compile to, what the check says of each, and a
    script that launches them without the course. ``file`` may be a pair too: ``control`` and ``broken``.

    Returns 0 where the pair is one to send. Raises ValueError, CompileError and OSError for wrong calls.
    """
    from course_utils.grading import against, reproducer

    name = steps.named(file)
    if not Path(file).exists() and any(name in group for group in steps.groups().values()):
        raise ValueError(f"reproduce takes a FILE with your kernel, not an id: save it, say as {name}.py")
    if not control and not reference and reproducer.is_pair(source := read(file)):
        with tempfile.TemporaryDirectory() as made:
            for name, text in reproducer.programs(source).items():
                Path(made, f"{name}.py").write_text(re.sub(r"\n{3,}", "\n\n\n", text))
            broken, right = f"{made}/broken.py", f"{made}/control.py"
            return reproduce(console, broken, dsl, right, size or SHAPE, None, out)
    sources = {"kernel.py": read(file), **({"control.py": read(control)} if control else {})}
    folder = Path(out)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is there already, and not empty: name another by --out")
    with at_work(console, f"compiling {file}") as say_now:
        if reference:
            case = {"dsl": dsl or imported_dsl(sources["kernel.py"]), "function": "kernel", "size": []}
            text, held = read(reference), against.load_reference(reference)
        else:
            mine = kernel_file(file, dsl, size)
            if mine.kind not in REFERENCES:
                raise ValueError(
                    f"{file} computes {mine.kind}: name its inputs and outputs by --against REFERENCE.py "
                    "(notebooks/check_any_kernel.md)"
                )
            if control:  # an error names the learner's own file
                load_factory(control, mine.function)
            case = {"dsl": mine.dsl, "function": mine.function, "size": list(mine.size)}
            text = REFERENCES[mine.kind].format(size=mine.size)
        runs = {}
        with tempfile.TemporaryDirectory() as made:
            for name, source in sources.items():  # a card then names the file as the folder has it
                path = Path(made, name)
                path.write_text(source)
                say_now(f"emulating {name}")
                if reference:
                    runs[name] = reproducer.run_against(path, held)
                else:
                    factory = load_factory(path, mine.function)
                    runs[name] = reproducer.run(factory, mine.dsl, mine.size, mine.kind)
    lines = {name: reproducer.statements(source) for name, source in sources.items()}
    points = (
        reproducer.points(lines["control.py"], lines["kernel.py"], runs["control.py"], runs["kernel.py"])
        if control
        else []
    )
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in sources.items():
        (folder / name).write_text(source)
        for place, artifact in enumerate(runs[name].artifacts):
            (folder / f"{Path(name).stem}{place or ''}.ptx").write_text(artifact.ptx)
    (folder / "reference.py").write_text(text)
    (folder / "run.py").write_text(read(run_pair.__file__))
    case["programs"] = sorted(sources)  # the control first: it says whether the machine is fit
    (folder / "case.json").write_text(json.dumps(case, indent=1) + "\n")
    versions = environment()
    (folder / "environment.json").write_text(json.dumps(versions, indent=1) + "\n")
    (folder / "report.md").write_text(_report(case["dsl"], lines, runs, versions))
    if not control:
        say(console, f"kernel.py: {runs['kernel.py'].words}")
    for point in points:
        say(console, f"{'ok' if point.passed else 'no'}  {point.name}: {point.detail}")
    if not control and runs["kernel.py"].right:
        say(console, "This kernel shows no fault here: report one only if run.py shows it on your GPU.")
    elif not control:
        say(console, "There is no control yet: the nearest kernel that is right, by --control FILE.")
    carried = [name for name, source in sources.items() if "course_utils" in source]
    if carried:
        say(console, f"{' and '.join(carried)} imports the course: who gets this folder has none.")
    say(console, f"wrote {folder}: fill in report.md, and run `python {folder / 'run.py'}` on a GPU")
    return 0 if points and all(point.passed for point in points) and not carried else EXIT_FAILED


def environment() -> dict[str, str]:
    """Python, system, GPU, driver, and the packages that make or launch a kernel."""
    from course_utils.grading import reproducer

    device, reason = backends.find_gpu()
    return {
        "system": platform.platform(),
        "gpu": device["name"] if device else f"none ({reason})",
        "driver": str(device["driver"]) if device else "none",
        **reproducer.versions(),
    }


def _report(dsl: str, lines: dict[str, list[str]], runs: dict, versions: dict[str, str]) -> str:
    """The text of the issue, in the order of its DSL's form; what only the author knows is in brackets.
    ``lines`` are the programs' statements: comments are no difference.
    """
    diff = "\n".join(
        unified_diff(lines.get("control.py", []), lines["kernel.py"], "control.py", "kernel.py", lineterm="")
    )
    rows = "\n".join(f"- {name}: {value}" for name, value in versions.items())
    seen = "\n".join(f"{name}: {run.words}" for name, run in sorted(runs.items()))
    change = "[a control]"
    if "control.py" in lines:
        change = f"They differ by this, comments left out:\n\n```diff\n{diff}\n```"
    problem = f"[What goes wrong, in one sentence.]\n\n{change}"
    steps = (
        "`python run.py` launches each program in a process of its own, ends it after 60 s, and compares its "
        "outputs with `reference.py`."
    )
    ran = "[The last lines of `python run.py` on your GPU.]"
    more = f"An emulator of PTX (Hopper GEMM, step by step) says, with no GPU:\n\n```text\n{seen}\n```"
    parts = (
        [
            ("What version of TileLang are you using?", versions["tilelang"]),
            ("System information", rows),
            ("Problem description", problem),
            ("Reproducible example code", steps),
            ("Traceback", ran),
            ("Expected behavior", "[What `kernel.py` should do, as `control.py` does.]"),
            ("Additional context", more),
        ]
        if dsl == "tilelang"
        else [
            ("Which component has the problem?", "CuTe DSL"),
            ("Describe the bug", problem),
            ("Steps/Code to reproduce bug", f"{steps}\n\n{ran}"),
            ("Expected behavior", "[What `kernel.py` should do, as `control.py` does.]"),
            ("Environment details", rows),
            ("Additional context", more),
        ]
    )
    return "\n\n".join(f"### {head}\n\n{text}" for head, text in parts) + "\n"
