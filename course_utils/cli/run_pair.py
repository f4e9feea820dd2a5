"""Run the kernels of this folder on this machine's GPU: python run.py. It needs PyTorch and the DSL alone.

``case.json`` has the DSL, the name of the function that makes a kernel, its arguments, and what is run.
``reference.py`` has inputs() and outputs(...), which name the kernel's tensors. Each kernel runs in a process
of its own, which is ended after a minute, so a hang costs a minute.
"""

import importlib.util
import inspect
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 60  # seconds for a kernel, its compiler included
TOLERANCE = 2e-2  # of an output's own size and the tensor's


def load(name):
    """A Python file of this folder, as a module."""
    spec = importlib.util.spec_from_file_location(Path(name).stem, HERE / name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def launch(case, name):
    """Compile a kernel, launch it once, and hold its outputs against the reference. Returns a sentence."""
    import torch

    reference, module = load("reference.py"), load(name)
    given = {key: torch.as_tensor(value) for key, value in reference.inputs().items()}
    wanted = {key: torch.as_tensor(value) for key, value in reference.outputs(**given).items()}
    made = getattr(module, case["function"])(*case["size"])
    tensors = {key: value.cuda() for key, value in given.items()}
    for key, value in wanted.items():
        tensors[key] = torch.full_like(value, float("nan") if value.is_floating_point() else -1).cuda()
    if case["dsl"] == "tilelang":
        import tilelang

        names = [made.buffer_map[parameter].name for parameter in made.params]
        shapes = [tuple(int(n) for n in made.buffer_map[parameter].shape) for parameter in made.params]
        taken = [tensors[key].view(shape) for key, shape in zip(names, shapes, strict=True)]
        tilelang.compile(made)(*taken)
    else:
        import cutlass.cute as cute
        from cutlass.cute.runtime import from_dlpack

        names = list(inspect.signature(made).parameters)
        taken = [from_dlpack(tensors[key], assumed_align=16) for key in names]
        cute.compile(made, *taken)(*taken)
    torch.cuda.synchronize()
    for key, value in wanted.items():
        got, right = tensors[key].cpu().double(), value.double()
        near = (got - right).abs() <= TOLERANCE * (right.abs() + right.square().mean().sqrt())
        if wrong := int((~near).sum()):
            return f"{key} is wrong: {wrong:,} of {right.numel():,} elements"
    return "right"


def outcome(name):
    """How a kernel ends in a process of its own, in a sentence."""
    try:
        done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return f"did not end within {LIMIT} s"
    said = done.stderr if done.returncode else done.stdout
    last = [line for line in said.splitlines() if line.strip()]
    return last[-1] if last else f"ended with code {done.returncode} and no word"


def environment():
    """Versions of what is installed here, and the GPU."""
    from importlib.metadata import PackageNotFoundError, version

    rows = {"python": sys.version.split()[0]}
    for package in ("tilelang", "nvidia-cutlass-dsl", "torch"):
        try:
            rows[package] = version(package)
        except PackageNotFoundError:
            rows[package] = "not installed"
    try:
        import torch

        rows["cuda of torch"] = str(torch.version.cuda)
        rows["gpu"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    except ImportError:
        rows["gpu"] = "unknown: PyTorch is not installed"
    return rows


def main(arguments):
    case = json.loads((HERE / "case.json").read_text())
    if arguments:
        print(launch(case, arguments[0]))
        return 0
    here = environment()
    print("\n".join(f"{name}: {value}" for name, value in here.items()))
    if here["gpu"].startswith(("none", "unknown")):
        print("Nothing is launched here. report.md says what an emulator saw; *.ptx is what was compiled.")
        return 2
    for name in case["programs"]:
        print(f"{name}: {outcome(name)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
