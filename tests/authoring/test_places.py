"""Colab, Binder and a development container: the line, the cell and the files that bring the course there."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import util
from pathlib import Path

import nbformat
import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from authoring import environment, places, sync

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCK = (ROOT / "requirements.lock").read_text()
PYTHONS = SpecifierSet(PROJECT["requires-python"])
URL = "https://github.com/somebody/course"
COLAB = json.loads((ROOT / "tests" / "data" / "colab.json").read_text())
TORCH_WANTS = ("filelock", "typing-extensions>=4.10", "sympy>=1.13.3", "networkx>=2.5.1", "jinja2", "fsspec")


def opened(name, url):
    notebook = nbformat.read(sync.NOTEBOOKS / name, as_version=4)
    return sync.synchronised(notebook, name=name, repository=url)


# The line and the cell


def test_each_notebook_has_the_line_and_the_cell_where_there_is_a_repository():
    for path in sorted(sync.NOTEBOOKS.glob("*.ipynb")):
        given = nbformat.read(path, as_version=4).cells
        cells = sync._with_strip(given, path.name, URL)
        links, brings = cells[1], cells[2]
        assert (
            f"colab.research.google.com/github/somebody/course/blob/main/notebooks/{path.name})"
            in links.source
        )
        assert (
            f"mybinder.org/v2/gh/somebody/course/main?urlpath=lab/tree/notebooks/{path.name})" in links.source
        )
        assert "codespaces.new/somebody/course" in links.source
        assert brings.source == places.bootstrap(URL) and max(map(len, brings.source.splitlines())) <= 96
        assert next(cell for cell in cells if cell.cell_type == "code") is brings
        assert sync._with_strip(cells, path.name, URL) == cells


def test_without_a_repository_there_is_neither():
    cells = opened("05_pipeline.ipynb", "").cells
    assert "Open in" not in cells[1].source and not any("strip-brings" in cell.id for cell in cells)
    assert (
        sync.synchronised(opened("05_pipeline.ipynb", URL), name="05_pipeline.ipynb", repository="").cells
        == cells
    )


@pytest.mark.parametrize(
    "url, read",
    [
        (URL, URL),
        (URL + ".git", URL),
        (URL + "/", URL),
        ("https://example.org/course", ""),
        ("git@github.com:a/b", ""),
        ("", ""),
    ],
)
def test_only_what_colab_and_binder_can_fetch_is_a_repository(url, read):
    assert places.on_github(url) == read


def test_the_committed_notebooks_are_of_the_repository_that_pyproject_names():
    said = "Open in" in nbformat.read(sync.NOTEBOOKS / "05_pipeline.ipynb", as_version=4).cells[1].source
    assert said == bool(places.repository())


def test_the_cell_does_nothing_where_the_course_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("installed something"))
    before = list(sys.path)
    exec(places.bootstrap(URL), {})
    assert (Path.cwd(), sys.path, list(tmp_path.iterdir())) == (tmp_path, before, [])


def test_the_cell_brings_the_course_and_goes_to_its_notebooks(tmp_path, monkeypatch):
    """A clone, an install of the core that upgrades nothing, and, after a restart of the kernel, neither."""
    there = tmp_path / "there"
    (there / "notebooks").mkdir(parents=True)
    (there / "notebooks" / "05.ipynb").write_text("{}")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(there)]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    ran, run = [], subprocess.run

    def noted(command, **options):
        ran.append(command)
        return run(command, **options) if command[0] == "git" else None

    work = tmp_path / "content"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(subprocess, "run", noted)
    monkeypatch.setattr(util, "find_spec", lambda name: None)
    exec(places.bootstrap(f"file://{there}"), {})
    assert Path.cwd() == work / "course" / "notebooks" and Path("05.ipynb").exists()
    assert ran[1] == [sys.executable, "-m", "pip", "install", "-q", "-e", "course"]
    assert sys.path[0] == str(work / "course") and len(ran) == 2
    monkeypatch.chdir(work)
    monkeypatch.setattr(util, "find_spec", lambda name: "there")
    exec(places.bootstrap(URL), {})
    assert Path.cwd() == work / "course" / "notebooks" and len(ran) == 2


# What is there beside it


def wheel(folder, name, version, wants):
    """A wheel that says what it is and what it wants, and holds nothing else."""
    stem = f"{name}-{version}"
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {name}",
        f"Version: {version}",
        *(f"Requires-Dist: {w}" for w in wants),
    ]
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as made:
        made.writestr(f"{stem}.dist-info/METADATA", "\n".join(lines) + "\n")
        made.writestr(
            f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        made.writestr(f"{stem}.dist-info/RECORD", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "runtime, moves",
    [
        ("cpu", set()),
        # its torch is of CUDA 12; the course compiles with 13.0 and brings its own; pip says so and goes on
        pytest.param(
            "gpu",
            {"cuda-bindings", "cuda-python", "cuda-core", "cuda-toolkit", "cuda-pathfinder"},
            marks=pytest.mark.thorough,
        ),
    ],
)
def test_the_core_installs_beside_what_colab_has(runtime, moves, tmp_path):
    """Python 3.12, with each package that is there at its version: torch, NumPy and IPython among them."""
    there = COLAB[runtime]
    wheel(tmp_path, "torch", there["torch"], TORCH_WANTS)
    pins = [f"{name}=={version}" for name, version in there.items() if name not in moves]
    (tmp_path / "there.txt").write_text("\n".join(pins) + "\n")
    command = [
        *(sys.executable, "-m", "uv", "pip", "compile", "-q", "--no-header", "--no-annotate"),
        *("--python-version", COLAB["python"], "--python-platform", "linux", "--find-links", str(tmp_path)),
        *("-c", str(tmp_path / "there.txt"), str(ROOT / "pyproject.toml")),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "UV_HTTP_TIMEOUT": "20"}
    )
    if re.search("error sending request|Failed to fetch|dns error|timed out", done.stderr):
        pytest.skip("no package registry")
    assert done.returncode == 0, done.stderr
    found = environment.locked(done.stdout)
    kept = {name: version for name, version in there.items() if name in found and name not in moves}
    assert {name: found[name] for name in kept} == kept
    assert {"torch", "numpy", "ipython", "networkx", "packaging", "rich"} <= set(kept)


# The files


def test_binder_gets_the_locked_packages_and_a_torch_without_cuda():
    folder = ROOT / ".binder"
    text = (folder / "requirements.txt").read_text()
    assert text == environment.binder(PROJECT, LOCK), "run make lock"
    lines = [line for line in text.splitlines() if line[:1] not in "#-"]
    locked = environment.locked(LOCK)
    for want in map(Requirement, lines):
        assert want.specifier.contains(locked[want.name] + "+cpu" * (want.name == "torch"))
    assert "torch==2" in text and text.endswith("\n-e .\n")
    (constraints,) = re.findall(r"^-c (.+)$", text, re.M)
    assert (folder / constraints).resolve() == ROOT / "requirements.lock"
    assert PYTHONS.contains((folder / "runtime.txt").read_text().strip().removeprefix("python-") + ".9")


def test_the_container_runs_what_the_makefile_has():
    given = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    commands = [given[key] for key in given if key.endswith("Command")]
    assert commands and all(re.fullmatch(r"make (\w+)", command)[1] in targets for command in commands)
    assert PYTHONS.contains(re.search(r"python:(\d+\.\d+)-", given["image"])[1] + ".9")
    own = given["customizations"]
    assert all((ROOT / path).exists() for path in own["codespaces"]["openFiles"])
    python = own["vscode"]["settings"]["python.defaultInterpreterPath"]
    assert python == "${containerWorkspaceFolder}/.venv/bin/python"
    assert "BIN := .venv/bin" in (ROOT / "Makefile").read_text()
