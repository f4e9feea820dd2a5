"""The bundle: one archive that runs away from the checkout, and results that the course can record."""

import ast
import itertools
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from course_utils.artifact import Artifact, Parameter, Resources, Tensor
from course_utils.chips import BLACKWELL, HOME
from course_utils.compile.errors import CompileError
from course_utils.grading import steps
from course_utils.recordings import bundle, measured, signing
from course_utils.recordings.model import MeasuredError
from course_utils.run import backends, client
from course_utils.run.gpu import worker as gpu_worker

PACKAGE = Path(bundle.__file__).parents[1]
KERNEL = {"name": "step01 tilelang", "step": "step01", "dsl": "tilelang", "timed": True, "factory": None}
DEVICE = {
    "name": "NVIDIA H200",
    "capability": [9, 0],
    "sms": 132,
    "l2_bytes": 60 << 20,
    "memory_bytes": 140 << 30,
    "free_bytes": 139 << 30,
    "cuda_driver": "13.0",
    "driver": "580.00",
    "torch": "2.13.0",
    "cublas_cuda": "13.0",
}
TIMING = {
    "mode": "burst",
    "size": [128, 128, 64],
    "tflops": 1.5,
    "cublas_tflops": 3.0,
    "ratio": 0.5,
    "ratio_quartiles": [0.49, 0.51],
}

PTX = """
.entry main()
{
.reg .f32 %f<2>;
.reg .b64 %rd<3>;
wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%f1}, %rd1, %rd2, 1, 1, 1, 0, 0;
ret;
}
"""


def artifact(_factory, dsl, size, kind="gemm", chip=HOME):
    """Stands in for a compiler: launches nothing, but is whole and of this size."""
    M, N, K = size
    tensors = (Tensor("A", (M, K), "float16"), Tensor("B", (N, K), "float16"), Tensor("D", (M, N), "float16"))
    return Artifact(
        dsl=dsl,
        kernel="main",
        ptx=PTX,
        cubin=b"\x7fELF",
        grid=(1, 1, 1),
        block=(128, 1, 1),
        cluster=(1, 1, 1),
        dynamic_shared=1024,
        parameters=tuple(Parameter("pointer", tensor=t.name) for t in tensors),
        tensors=tensors,
        resources=Resources(90, 0, 0, 0, 0),
        versions={"tilelang": "0.1.15"},
        chip=chip,
    )


class FakeWorker:
    """Answers every run as right, and every timing with one figure."""

    def __init__(self):
        self.asked = []

    def request(self, op, artifact, limit, **fields):
        self.asked.append((op, artifact.problem))
        return (
            {"ok": True, "relative_norm": 2e-4}
            if op == "run"
            else {"ok": True, "timing": {**TIMING, "mode": op, "size": [*artifact.problem]}}
        )


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "out.pyz"
    bundle.write(path, [KERNEL], artifact)
    return path


@pytest.fixture
def gpu(monkeypatch):
    worker = FakeWorker()
    monkeypatch.setattr(backends, "find_any_gpu", lambda worker=None: (DEVICE, ""))
    monkeypatch.setattr(client, "worker", lambda _: worker)
    return worker


def imports(path, top_only):
    """Modules that a file imports, as absolute names with what is taken from them."""
    tree = ast.parse(path.read_text())
    for node in tree.body if top_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def module_file(name):
    """The file of a course_utils module, of ``module.attribute`` too."""
    for parts in (name.split("."), name.split(".")[:-1]):
        for path in (
            PACKAGE.parent.joinpath(*parts).with_suffix(".py"),
            PACKAGE.parent.joinpath(*parts, "__init__.py"),
        ):
            if path.exists():
                return path
    raise AssertionError(f"no file for {name}")


def carried():
    return [
        PACKAGE / "__init__.py",
        PACKAGE / "artifact.py",
        PACKAGE / "cause.py",
        PACKAGE / "chips.py",
        PACKAGE / "plans.py",
        PACKAGE / "attention.py",
        PACKAGE / "problems.py",
        *(path for package in bundle.PACKAGES for path in (PACKAGE / package).rglob("*.py")),
    ]


def test_carries_every_course_module_it_imports():
    wanted = {
        name
        for path in carried()
        for name in imports(path, top_only=False)
        if name.startswith("course_utils")
    }
    assert {name for name in wanted if module_file(name) not in carried()} == set()


def test_carries_the_package_of_every_module():
    assert {path.parent / "__init__.py" for path in carried()} <= set(carried())


def loaded_at_run():
    """The files that the bundle's commands import where they are imported at the top: what a GPU machine has
    to load.
    """
    seen = set()
    todo = [
        PACKAGE / "recordings" / "bundle.py",
        PACKAGE / "grading" / "gemm.py",
        PACKAGE / "run" / "gpu" / "worker.py",
    ]
    while todo:
        path = todo.pop()
        seen.add(path)
        todo += {module_file(n) for n in imports(path, top_only=True) if n.startswith("course_utils")} - seen
    return seen


def test_starts_with_python_alone():
    """What cannot run must still say why: only the workers, and what is asked for later, may need torch, CUDA
    or a DSL.
    """
    roots = {name.split(".")[0] for path in loaded_at_run() for name in imports(path, top_only=True)}
    assert roots - set(sys.stdlib_module_names) == {"course_utils"}


def test_is_one_executable_archive(archive):
    assert list(archive.parent.iterdir()) == [archive]
    with zipfile.ZipFile(archive) as zipped:
        assert zipped.testzip() is None
        names = zipped.namelist()
    assert len(names) == len(set(names))
    assert {
        "__main__.py",
        "manifest.json",
        *(path.relative_to(PACKAGE.parent).as_posix() for path in carried()),
    } <= set(names)


def test_manifest_names_every_kernel_and_its_compiler(tmp_path):
    kernels = [{**KERNEL, "name": "first"}, {**KERNEL, "name": "second", "step": "step03", "timed": False}]
    bundle.write(tmp_path / "out.pyz", kernels, artifact)
    manifest = json.loads(zipfile.ZipFile(tmp_path / "out.pyz").read("manifest.json"))
    versions = {"tilelang": "0.1.15"}
    assert manifest == [
        {key: kernel[key] for key in ("name", "step", "dsl", "timed")} | {"versions": versions}
        for kernel in kernels
    ]


def sizes_in(archive, name):
    prefix = f"artifacts/{KERNEL['dsl']}/{name}/"
    with zipfile.ZipFile(archive) as zipped:
        return {
            tuple(map(int, n.removeprefix(prefix).removesuffix(".zip").split("x"))): Artifact.from_bytes(
                zipped.read(n)
            )
            for n in zipped.namelist()
            if n.startswith(prefix)
        }


def test_one_name_in_two_dsls_is_two_kernels(tmp_path):
    kernels = [{**KERNEL, "dsl": dsl} for dsl in ("tilelang", "cute")]
    bundle.write(tmp_path / "out.pyz", kernels, artifact)
    with zipfile.ZipFile(tmp_path / "out.pyz") as archive:
        names = [name for name in archive.namelist() if name.startswith("artifacts/")]
    assert len(names) == len(set(names)) == 2 * len(sizes_in(tmp_path / "out.pyz", KERNEL["name"]))


@pytest.mark.parametrize("timed", [True, False])
def test_holds_every_size_that_is_checked_or_timed(timed, tmp_path):
    bundle.write(
        tmp_path / "out.pyz", [{**KERNEL, "name": "mine", "step": "step03", "timed": timed}], artifact
    )
    step = steps.find("step03")
    assert set(sizes_in(tmp_path / "out.pyz", "mine")) == set(step.check_sizes) | (
        set(step.timed_sizes) if timed else set()
    )


def test_artifacts_round_trip(archive):
    size = steps.find("step01").check_sizes[0]
    assert sizes_in(archive, "step01 tilelang") == {size: artifact(None, "tilelang", size)}


def test_reports_progress_once_an_artifact(tmp_path):
    told = []
    bundle.write(tmp_path / "out.pyz", [KERNEL], artifact, told.append)
    assert told == [("step01 tilelang", size) for size in steps.find("step01").check_sizes]


def test_a_kernel_that_does_not_compile_leaves_no_archive(tmp_path):
    def broken(*_):
        raise CompileError("lower", "no such thing")

    with pytest.raises(CompileError):
        bundle.write(tmp_path / "out.pyz", [KERNEL], broken)
    assert not (tmp_path / "out.pyz").exists()


# -- running it


def test_results_are_what_measured_reads(archive, gpu, tmp_path, monkeypatch):
    said = []
    results = bundle.run(archive, 5.0, say=said.append)
    (tmp_path / "results.json").write_text(json.dumps(results))
    monkeypatch.setattr(measured, "FOLDER", tmp_path / "measured")
    measured.record(tmp_path / "results.json", unsigned=True)
    (entry,) = measured.load()["entries"]
    assert (entry["name"], entry["step"], entry["dsl"], entry["passed"]) == (
        "step01 tilelang",
        "step01",
        "tilelang",
        True,
    )
    assert entry["points"] == entry["max_points"] == 5
    assert entry["timings"] == [TIMING]
    provenance = measured.load()["provenance"]
    assert (provenance["gpu"], provenance["driver"], provenance["torch"]) == (
        "NVIDIA H200",
        "580.00",
        "2.13.0",
    )
    assert provenance["versions"] == {"tilelang": "0.1.15"}
    assert "NVIDIA H200" in said[0] and "1 kernels" in said[0]
    assert said[1].startswith("step01 tilelang") and "1.5" in said[1] and "0.500" in said[1]


@pytest.fixture
def signed(gpu, tmp_path, monkeypatch):
    """The results of a bundle that was made with a key, as its archive writes them."""
    monkeypatch.setattr(measured, "FOLDER", tmp_path / "measured")
    bundle.write(tmp_path / "out.pyz", [KERNEL], artifact, own_key=signing.key(tmp_path / "key"))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "out.pyz")])
    assert bundle.main(["--out", str(tmp_path / "results.json")]) == 0
    return tmp_path / "results.json"


def test_a_bundle_signs_what_its_run_found(signed, tmp_path):
    measured.record(signed, own_key=tmp_path / "key")
    kept = measured.load()
    assert kept["entries"][0]["timings"] == [TIMING] and "signature" not in kept
    assert len(kept["provenance"]["bundle"]) == 64
    own = (tmp_path / "key").read_bytes()
    with zipfile.ZipFile(tmp_path / "out.pyz") as archive:  # our own key stays here
        assert all(own not in archive.read(name) for name in archive.namelist())


def faster(results):
    results["entries"][0]["timings"][0]["tflops"] = 1500.0


def of_another_bundle(results):
    """Signed with the key that one bundle carries, as another one's."""
    key = signing.derived(b"k" * 64, results["provenance"]["bundle"])
    fields = {name: value for name, value in results.items() if name != "signature"}
    results["signature"] = signing.sign(key, fields)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda results: results.pop("signature"), "is not signed"),
        (lambda results: results["provenance"].pop("bundle"), "is not signed"),
        (lambda results: results["provenance"].update(bundle=5), "is not signed"),
        (lambda results: results.update(signature="0" * 64), "not right"),
        (lambda results: results.update(signature="\u00e4"), "not right"),
        (lambda results: results.update(signature=["x"]), "not right"),
        (lambda results: results["provenance"].update(bundle="0" * 64), "not right"),
        (lambda results: results.update(more=[]), "not right"),
        (faster, "not right"),
        (of_another_bundle, "not right"),
    ],
)
def test_what_our_bundle_did_not_sign_is_refused_unless_told(change, words, signed, tmp_path):
    results = json.loads(signed.read_text())
    change(results)
    signed.write_text(json.dumps(results))
    with pytest.raises(MeasuredError, match=rf"{words}.*--unsigned"):
        measured.record(signed, own_key=tmp_path / "key")
    assert not measured.FOLDER.exists()
    measured.record(signed, unsigned=True)


def test_without_the_key_nothing_is_known_to_be_ours(signed, tmp_path):
    with pytest.raises(MeasuredError, match="cannot be read here.*No such file.*--unsigned"):
        measured.record(signed, own_key=tmp_path / "none")
    assert not (tmp_path / "none").exists()
    signing.key(tmp_path / "other")
    with pytest.raises(MeasuredError, match="not right.*other did not make its bundle.*--unsigned"):
        measured.record(signed, own_key=tmp_path / "other")


@pytest.mark.parametrize("quick", [True, False])
def test_sustained_runs_are_of_the_square_sizes_and_not_of_a_quick_run(quick, gpu, tmp_path):
    bundle.write(tmp_path / "out.pyz", [{**KERNEL, "step": "step03"}], artifact)
    (entry,) = bundle.run(tmp_path / "out.pyz", 5.0, quick, say=lambda _: None)["entries"]
    step = steps.find("step03")
    square = [(4096, 4096, 4096), (8192, 8192, 8192)]
    assert [size for op, size in gpu.asked if op == "run"] == list(step.check_sizes)
    assert [size for op, size in gpu.asked if op == "burst"] == list(step.timed_sizes)
    assert [size for op, size in gpu.asked if op == "sustained"] == ([] if quick else square[::-1])
    hot = [tuple(timing["size"]) for timing in entry["timings"] if timing["mode"] == "sustained"]
    assert entry["timings"][0]["mode"] == "burst" and hot == ([] if quick else square)


def test_no_sustained_run_begins_once_the_time_is_over(gpu, tmp_path):
    kernels = [{**KERNEL, "name": name, "step": name} for name in ("step03", "step04")]
    bundle.write(tmp_path / "out.pyz", kernels, artifact)
    said = []
    bundle.run(tmp_path / "out.pyz", 5.0, say=said.append, seconds=0)
    assert "4 of 4 sustained runs were left out: 0 s are over" in said[-1]
    assert "sustained" not in {op for op, _ in gpu.asked}


def test_what_was_found_is_kept_after_each_kernel_and_signed(gpu, tmp_path):
    kernels = [{**KERNEL, "name": name} for name in ("first", "second")]
    bundle.write(tmp_path / "out.pyz", kernels, artifact, own_key=signing.key(tmp_path / "key"))
    kept = []
    results = bundle.run(tmp_path / "out.pyz", 5.0, True, say=lambda _: None, keep=kept.append)
    assert [len(found["entries"]) for found in kept] == [1, 2, 2] and kept[-1] == results
    assert len({found["signature"] for found in kept}) == 2


def test_a_kernel_that_is_not_timed_is_only_run(gpu, tmp_path):
    bundle.write(tmp_path / "out.pyz", [{**KERNEL, "step": "step03", "timed": False}], artifact)
    (entry,) = bundle.run(tmp_path / "out.pyz", 5.0, say=lambda _: None)["entries"]
    assert {op for op, _ in gpu.asked} == {"run"}
    assert entry["timings"] == []


def test_one_bad_kernel_does_not_end_the_run(gpu, tmp_path, monkeypatch):
    fault, fine = {"error": "CUDA_ERROR_ILLEGAL_ADDRESS", "detail": "x"}, {"ok": True, "relative_norm": 2e-4}
    answers = itertools.chain([fault], itertools.repeat(fine))
    monkeypatch.setattr(
        gpu, "request", lambda op, *_, **__: next(answers) if op == "run" else {"timing": TIMING}
    )
    bundle.write(tmp_path / "out.pyz", [{**KERNEL, "name": "bad"}, {**KERNEL, "name": "good"}], artifact)
    said = []
    results = bundle.run(tmp_path / "out.pyz", 5.0, say=said.append)
    assert [(e["name"], e["passed"]) for e in results["entries"]] == [("bad", False), ("good", True)]
    assert "illegal address" in said[1]


def test_main_writes_the_results(archive, gpu, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [str(archive)])
    assert bundle.main(["--out", str(tmp_path / "mine.json"), "--quick"]) == 0
    assert measured.read(tmp_path / "mine.json")["entries"][0]["passed"]
    assert "course import mine.json" in capsys.readouterr().out


def isolated(archive, *arguments, flags=()):
    """Run the archive as another machine would: no checkout near, no PYTHONPATH, no GPU."""
    elsewhere = archive.parent / "elsewhere"
    elsewhere.mkdir()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {
        "CUDA_VISIBLE_DEVICES": ""
    }
    return subprocess.run(
        [sys.executable, "-I", *flags, str(archive), *arguments],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_help_needs_nothing_but_python(archive):
    done = isolated(archive, "--help", flags=["-S"])
    assert (done.returncode, done.stderr) == (0, "")
    assert all(option in done.stdout for option in ("--out", "--time-limit", "--quick"))


def test_without_a_gpu_it_says_so_in_one_line(archive):
    done = isolated(archive)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("cannot run: ") and ("NVIDIA driver" in line or "GPU" in line)
    assert not (archive.parent / "elsewhere" / "results.json").exists()


# -- a chip of another kind


B200 = {**DEVICE, "name": "NVIDIA B200", "capability": [10, 0], "sms": 148}
OF_BLACKWELL = {"name": "b05 tilelang", "step": "b05", "dsl": "tilelang", "timed": True, "factory": None}
REFUSED = {
    9: "the kernel is compiled for a Blackwell (sm_100a), and the GPU here, NVIDIA H200, has compute "
    "capability 9.0",
    10: "the kernel is compiled for a Hopper (sm_90a), and the GPU here, NVIDIA B200, has compute "
    "capability 10.0",
}


class Picky(FakeWorker):
    """Runs what the worker of this GPU would run."""

    def __init__(self, device):
        super().__init__()
        self.device = device

    def request(self, op, artifact, limit, **fields):
        def right(one, **more):
            return FakeWorker.request(self, op, one, limit, **more)

        return gpu_worker.on_its_chip(right, self.device)(artifact, **fields)


@pytest.fixture
def here(monkeypatch):
    """Sets the GPU of this machine, and returns its worker."""

    def of(device):
        worker = Picky(device)
        monkeypatch.setattr(backends, "find_any_gpu", lambda _=None: (device, ""))
        monkeypatch.setattr(client, "worker", lambda _: worker)
        return worker

    return of


@pytest.fixture
def both(tmp_path):
    bundle.write(tmp_path / "both.pyz", [KERNEL, OF_BLACKWELL], artifact)
    return tmp_path / "both.pyz"


def test_a_kernel_is_compiled_for_the_chip_of_its_step(both):
    assert {one.chip for one in sizes_in(both, "step01 tilelang").values()} == {HOME}
    found = sizes_in(both, "b05 tilelang")
    assert {one.chip for one in found.values()} == {BLACKWELL}
    row = steps.find("b05")
    assert set(found) == {*row.check_sizes, *steps.TIMED_SIZES} and row.timed_sizes == ()


@pytest.mark.parametrize("name", steps.BLACKWELL_STEPS)
def test_a_blackwell_step_is_timed_at_sizes_that_its_tiles_divide(name):
    timed = bundle.timed_sizes(steps.find(name))
    assert timed == steps.STEPS[f"step{name[1:]}"].timed_sizes
    rows = {"b09": 256, "b10": 512}.get(name, 128)
    assert all(M % rows == 0 and N % 128 == 0 and K % 64 == 0 for M, N, K in timed)
    assert all(N % 256 == 0 for _, N, _ in timed) or name not in ("b09", "b10")


@pytest.mark.parametrize("device, runs", [(DEVICE, 0), (B200, 1)], ids=["H200", "B200"])
def test_kernels_for_another_chip_are_not_run_and_say_why(device, runs, both, here):
    worker, said = here(device), []
    entries = bundle.run(both, 5.0, say=said.append)["entries"]
    right, refused = entries[runs], entries[1 - runs]
    assert right["timings"] and not refused["timings"]
    results = next(part for part in refused["checks"] if part["name"] == "results")
    assert results["passed"] is None
    assert results["detail"] == f"not run: {REFUSED[device['capability'][0]]}"
    [line] = [line for line in said if line.startswith(refused["name"])]
    assert "not run" in line and REFUSED[device["capability"][0]] in line
    assert {size for _, size in worker.asked} <= {tuple(size) for size in sizes_in(both, right["name"])}


@pytest.mark.parametrize("device, kernel", [(DEVICE, OF_BLACKWELL), (B200, KERNEL)], ids=["H200", "B200"])
def test_an_archive_of_which_nothing_runs_here_ends_with_one_sentence(
    device, kernel, here, tmp_path, monkeypatch, capsys
):
    worker = here(device)
    bundle.write(tmp_path / "out.pyz", [kernel], artifact)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "out.pyz")])
    assert bundle.main(["--out", str(tmp_path / "results.json")]) == 2
    assert capsys.readouterr().err == f"cannot run: {REFUSED[device['capability'][0]]}\n"
    assert worker.asked == [] and not (tmp_path / "results.json").exists()


def test_results_of_a_blackwell_are_imported(here, tmp_path, monkeypatch):
    here(B200)
    monkeypatch.setattr(measured, "FOLDER", tmp_path / "measured")
    bundle.write(tmp_path / "out.pyz", [OF_BLACKWELL], artifact)
    (tmp_path / "results.json").write_text(json.dumps(bundle.run(tmp_path / "out.pyz", 5.0, say=str)))
    measured.record(tmp_path / "results.json", "blackwell", unsigned=True)
    recorded = measured.load("blackwell")
    assert (recorded["provenance"]["gpu"], recorded["provenance"]["sms"]) == ("NVIDIA B200", 148)
    [entry] = recorded["entries"]
    assert {(one["mode"], *one["size"]) for one in entry["timings"]} == {
        ("burst", *size) for size in steps.TIMED_SIZES
    } | {("sustained", *size) for size in bundle.SUSTAINED_SIZES}


def test_counters_are_of_hopper_kernels_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(backends, "find_gpu", lambda: (DEVICE, ""))
    bundle.write(tmp_path / "out.pyz", [OF_BLACKWELL], artifact)
    with pytest.raises(RuntimeError, match="kernels for a Hopper, and this archive has none"):
        bundle.count(tmp_path / "out.pyz")
