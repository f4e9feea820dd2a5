"""What course doctor says of the packages, and what a command says that misses an extra's."""

import sys
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError

import pytest

from course_utils import cli
from course_utils.classroom import sandbox
from course_utils.cli import doctor
from course_utils.run import backends

VERSIONS = {"torch": "2.8.0+cu128", "numpy": "2.0.2", "tilelang": "0.1.14"}


@pytest.fixture
def needs(monkeypatch):
    """Sets what the course asks for, on a machine that has VERSIONS."""

    def version(name):
        if name not in VERSIONS:
            raise PackageNotFoundError(name)
        return VERSIONS[name]

    monkeypatch.setattr(doctor, "version", version)
    return lambda *lines: monkeypatch.setattr(doctor, "requires", lambda _: list(lines))


def test_a_version_within_its_range_is_fine(needs):
    needs("torch<3,>=2.8", "numpy==2.0.2", 'jupyterlab>=4.2; extra == "lab"')
    assert doctor._packages() == [("packages", True, "all 2 as the course needs them")]


def test_a_version_outside_its_range_and_a_missing_package_are_named(needs):
    needs("torch>=2.9", "tilelang==0.1.15", "rich>=13")
    assert [(name, fine) for name, fine, _ in doctor._packages()] == [
        ("torch", False),
        ("tilelang", False),
        ("rich", False),
    ]
    words = [words for *_, words in doctor._packages()]
    assert words[0] == "2.8.0 is installed, the course was tested with >=2.9"
    assert words[2].startswith("missing, the course needs >=13; run `make venv` again")


def test_the_course_itself_not_installed(monkeypatch):
    def requires(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "requires", requires)
    assert [(name, fine) for name, fine, _ in doctor._packages()] == [("packages", False)]


def test_a_command_that_misses_a_package_says_which_extra_has_it(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "course_utils.figures.ladder", None)
    assert cli.main(["plot"]) == cli.EXIT_USAGE
    assert "pip install -e '.[lab]'" in capsys.readouterr().err


def test_each_sandbox_is_said_with_its_version_and_what_it_lacks(monkeypatch):
    monkeypatch.setattr(sandbox, "problem", lambda form: "no /proc" if form == "podman" else "")
    monkeypatch.setattr(sandbox, "version", lambda form: "1.2")
    (good,) = doctor._sandboxes()  # one is enough
    assert good == ("sandbox", True, f"bubblewrap 1.2 works. It lacks {sandbox.LACKS['bubblewrap']}")
    monkeypatch.setattr(sandbox, "problem", lambda form: "no /proc")
    for _, fine, words in doctor._sandboxes():
        assert not fine and "no /proc; the system may keep user namespaces from you" in words


def test_a_machine_without_a_sandbox_is_told_how_to_get_one(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    rows = doctor._sandboxes()
    assert [(name, fine) for name, fine, _ in rows] == [("sandbox", False)] * 2
    assert "there is no bwrap on the PATH; `apt install bubblewrap`" in rows[0][2]
    assert "there is no podman on the PATH; `apt install podman`" in rows[1][2]


@pytest.mark.parametrize(
    "name, capability, fine, words",
    [
        (
            "NVIDIA B200",
            [10, 0],
            True,
            "NVIDIA B200, 148 SMs, sm_100a, driver 580.00, CUDA 13.0: a check runs every",
        ),
        (
            "NVIDIA RTX 5090",
            [12, 0],
            False,
            "NVIDIA RTX 5090 has compute capability 12.0; the course's kernels",
        ),
    ],
)
def test_a_gpu_that_is_no_hopper_is_named_with_what_it_is_good_for(
    name, capability, fine, words, monkeypatch
):
    device = {"name": name, "capability": capability, "sms": 148, "driver": "580.00", "cuda_driver": "13.0"}
    monkeypatch.setattr(backends, "find_any_gpu", lambda worker=None: (device, ""))
    kind, is_fine, said = doctor._gpu()
    assert (kind, is_fine) == ("gpu", fine) and said.startswith(words)
    assert ("course bundle out.pyz --step blackwell" in said) == fine


def test_cute_dsl_that_does_not_load_is_said(monkeypatch, tmp_path):
    def found(*files):
        folder = tmp_path / str(len(list(tmp_path.iterdir()))) / "cutlass"
        (folder / "_mlir" / "_mlir_libs").mkdir(parents=True)
        for name in files:
            (folder / "_mlir" / "_mlir_libs" / name).write_text("no library")
        spec = ModuleSpec("cutlass", None, is_package=True)
        spec.submodule_search_locations.append(str(folder))
        return lambda name: spec

    monkeypatch.setattr(doctor, "find_spec", found("_cutlass_ir.cu12.cpython-311-x86_64-linux-gnu.so"))
    name, fine, words = doctor._cute()
    assert name == "cute" and not fine and "does not load here" in words
    for missing in (found(), lambda name: None):
        monkeypatch.setattr(doctor, "find_spec", missing)
        assert doctor._cute() == ("cute", False, f"CuTe DSL's compiler is not installed; {doctor.ADVICE}")
