"""The rooms of the house: which may import which, and which package each needs."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONTRACTS = PYPROJECT["tool"]["importlinter"]["contracts"]
ROOMS = sorted(
    path.stem
    for path in (ROOT / "course_utils").iterdir()
    if path.name != "__init__.py" and (path.suffix == ".py" or (path / "__init__.py").exists())
)
OWN = {"course_utils", "authoring", "solutions"}
# Packages that are imported by another name.
NAMES = {"IPython": "ipython", "cuda": "cuda-bindings", "cutlass": "nvidia-cutlass-dsl", "yaml": "pyyaml"}
NAMES |= {"PIL": "pillow"}


def packages(*extras):
    """The packages that the core and these extras name."""
    project = PYPROJECT["project"]
    lines = sum((project["optional-dependencies"][extra] for extra in extras), project["dependencies"])
    return {Requirement(line).name for line in lines}


def imported(folder):
    """What the files of a room import from outside of the course, by the package's name."""
    found = set()
    for path in [folder.with_suffix(".py")] if folder.with_suffix(".py").exists() else folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(node.module.split(".")[0])
    return {NAMES.get(name, name) for name in found - sys.stdlib_module_names - OWN}


def test_arrows_between_rooms_point_one_way():
    program = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([program, "--no-cache"], cwd=ROOT, text=True, capture_output=True, timeout=120)
    assert run.returncode == 0, run.stdout[-5000:] + run.stderr[-1000:]


def test_every_room_has_its_place():
    layers = next(contract["layers"] for contract in CONTRACTS if contract["type"] == "layers")
    placed = {name.strip() for layer in layers for name in layer.replace("|", ":").split(":")}
    assert placed == {"authoring"} | {f"course_utils.{room}" for room in ROOMS}


@pytest.mark.parametrize("room", ROOMS)
def test_the_page_on_the_architecture_draws_every_room(room):
    page = (ROOT / "docs" / "architecture.md").read_text()
    rooms = next(drawn for drawn in re.findall(r"```mermaid\n(.*?)```", page, re.S) if "authoring/" in drawn)
    assert re.search(rf"\b{room}\b", rooms)


@pytest.mark.parametrize("room", [room for room in ROOMS if room not in ("drills", "figures", "classroom")])
def test_a_room_needs_the_core_only(room):
    assert imported(ROOT / "course_utils" / room) <= packages()


@pytest.mark.parametrize("room", ["drills", "figures"])
def test_figures_and_drills_need_what_notebooks_show_them_with(room):
    assert imported(ROOT / "course_utils" / room) <= packages("lab")


def test_a_teachers_rooms_need_what_a_teacher_has():
    assert imported(ROOT / "authoring") <= packages("lab", "teach", "site")
    assert imported(ROOT / "course_utils" / "classroom") <= packages("teach", "ray")


def test_kernels_need_the_two_languages_only():
    assert imported(ROOT / "solutions" / "tilelang") == {"tilelang"}
    assert imported(ROOT / "solutions" / "cute") == {"nvidia-cutlass-dsl"}
    assert imported(ROOT / "solutions" / "blackwell" / "tilelang") == {"tilelang"}
    assert imported(ROOT / "solutions" / "blackwell" / "cute") == {"nvidia-cutlass-dsl"}


def test_a_check_needs_no_extra():
    """The command and a notebook's check load where neither JupyterLab nor matplotlib is."""
    missing = ["matplotlib", "jupyterlab", "ipywidgets", "nbformat", "nbgrader"]
    code = f"import sys; sys.modules.update(dict.fromkeys({missing})); "
    code += "import course_utils.cli, course_utils.notebook"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, text=True, capture_output=True, timeout=120)
    assert run.returncode == 0, run.stderr[-2000:]
