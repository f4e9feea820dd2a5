"""Where people open notebooks without a checkout: Colab, Binder and Codespaces.

All three fetch the repository that ``[project.urls]`` of pyproject.toml names, from GitHub. While it names
none, a notebook has neither the line that opens it there nor the cell that brings the course.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
BRANCH = "main"
_GITHUB = re.compile(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?")
_BOOTSTRAP = """\
# Colab: brings the course, beside the torch and IPython that are there. Elsewhere: nothing.
import importlib.util
import os
import subprocess
import sys

if importlib.util.find_spec("course_utils") is None:
    if not os.path.isdir("course"):
        url = "{url}"
        subprocess.run(["git", "clone", "-q", "--depth", "1", url, "course"], check=True)
    install = [sys.executable, "-m", "pip", "install", "-q", "-e", "course"]
    subprocess.run(install, check=True)
    sys.path.insert(0, os.path.abspath("course"))
if os.path.isdir("course/notebooks"):
    os.chdir("course/notebooks")  # your points are kept here"""


@cache
def repository() -> str:
    """The repository's address as pyproject.toml has it; "" where it has none, or none on GitHub."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return on_github(project.get("urls", {}).get("Repository", ""))


def on_github(url: str) -> str:
    """``https://github.com/owner/name`` of an address, or "" where it is another."""
    found = _GITHUB.fullmatch(url)
    return f"https://github.com/{found[1]}" if found else ""


def links(url: str, name: str) -> dict[str, str]:
    """What opens the notebook ``name`` of the repository ``url`` without a checkout, by where."""
    owned = url.removeprefix("https://github.com/")
    return {
        "Colab": f"https://colab.research.google.com/github/{owned}/blob/{BRANCH}/notebooks/{name}",
        "Binder": f"https://mybinder.org/v2/gh/{owned}/{BRANCH}?urlpath=lab/tree/notebooks/{name}",
        "Codespaces": f"https://codespaces.new/{owned}?ref={BRANCH}",
    }


def row(url: str, name: str) -> str:
    """The line of Markdown with the links."""
    return "Open in " + " \u00b7 ".join(f"[{where}]({link})" for where, link in links(url, name).items())


def bootstrap(url: str) -> str:
    """The source of the cell that brings the course to where a notebook was opened alone."""
    return _BOOTSTRAP.format(url=url)
