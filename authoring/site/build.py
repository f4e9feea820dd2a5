"""Build the site.

    python -m authoring.site.build [--out build/site] [--only 05 ...] [--jobs 2] [--repository URL]

Each notebook runs once with the solutions in it, in the emulator where there is no GPU. What came out is kept
beside the site, and used again as long as the notebook and the course are the same. The page shows the
exercise as it is given, the verdict of the solution, and that of one wrong attempt.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from authoring import sync
from authoring.site import pages
from course_utils.recordings import progress

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
DOCS = ROOT / "docs"
CELL_LIMIT = 900  # seconds; a check of step 10 takes 15 on an idle core


class SiteError(ValueError):
    """A site that cannot be built. The text names the notebook or page."""


def build(out: Path, only: tuple[str, ...] = (), jobs: int = 2, repository: str = "") -> Path:
    """Write the site to ``out/html`` and return its first page.

    ``only`` names the notebooks to run, by the beginnings of their names ("05"); the others' pages come
    without outputs. ``repository`` is where links to files beside the notebooks lead: a tree on GitHub.
    Raises SiteError where a notebook raised, or where a page has a link that leads nowhere.
    """
    paths = sorted(sync.NOTEBOOKS.glob("*.ipynb"))
    run = [path for path in paths if not only or path.name.startswith(only)]
    if not run:
        raise SiteError(f"no notebook begins with {' or '.join(only)}")
    source = out / "source"
    shutil.rmtree(source, ignore_errors=True)
    notebooks = source / "notebooks"
    notebooks.mkdir(parents=True)
    for name in ("images", "any_kernel"):
        shutil.copytree(sync.NOTEBOOKS / name, notebooks / name)
    with ThreadPoolExecutor(jobs) as pool:
        ran = dict(zip(run, pool.map(lambda path: executed(path, out / "executed"), run), strict=True))
    for path in paths:
        given = nbformat.read(path, as_version=4)
        nbformat.write(pages.page(given, ran.get(path, given), repository), notebooks / path.name)
    read = (("symptom_map.md", pages.symptoms), ("glossary.md", pages.glossary), ("check_any_kernel.md", str))
    for name, made in read:
        text = (sync.NOTEBOOKS / name).read_text()
        (notebooks / name).write_text(pages.linked(made(text), repository))
    (source / "docs").mkdir()
    for path in sorted(DOCS.glob("*.md")):
        text = pages.linked(pages.diagrams(path.read_text()), repository)
        (source / "docs" / path.name).write_text(text)
    shutil.copy(HERE / "index.md", source)
    (source / "moving.html").write_text(pages.moving(ran))
    (source / "ladder.html").write_text(pages.ladder())
    return _sphinx(source, out / "html")


def executed(path: Path, kept: Path) -> NotebookNode:
    """The notebook with the solutions in it, run; or what an earlier run of the same left in ``kept``."""
    solved = pages.with_wrong_attempts(sync.synchronised(nbformat.read(path, as_version=4), solved=True))
    digest = hashlib.sha256(nbformat.writes(solved).encode() + _course()).hexdigest()[:16]
    done = kept / f"{path.stem}-{digest}.ipynb"
    if done.exists():
        return nbformat.read(done, as_version=4)
    folder = kept / "running" / path.stem
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copytree(sync.NOTEBOOKS / "images", folder / "images")
    client = NotebookClient(solved, timeout=CELL_LIMIT, allow_errors=True)
    client.execute(cwd=str(folder), env={**os.environ, progress.PAGE: "1"})  # or the builder gets the points
    for cell in solved.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                raise SiteError(f"{path.name}: {output.ename}: {output.evalue}\n{cell.source[:200]}")
    for old in kept.glob(f"{path.stem}-*.ipynb"):
        old.unlink()
    nbformat.write(solved, done)
    shutil.rmtree(folder)
    return solved


def _course() -> bytes:
    """What a notebook's outputs depend on besides itself."""
    found = hashlib.sha256()
    for folder in ("course_utils", "solutions"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".json", ".html", ".js", ".css"):
                found.update(path.read_bytes())
    return found.digest()


def _sphinx(source: Path, html: Path) -> Path:
    from sphinx.cmd.build import build_main

    options = [
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        "-c",
        str(HERE),
        "-d",
        str(html.with_name("doctrees")),
    ]
    if build_main([*options, str(source), str(html)]):
        raise SiteError("Sphinx found something wrong with a page: see above")
    # Sphinx copies the pictures of Markdown, and not those of HTML, as in a fold
    shutil.copytree(source / "notebooks" / "images", html / "notebooks" / "images", dirs_exist_ok=True)
    return html / "index.html"


def main() -> int:
    """Build as the command line asks. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--only", nargs="*", default=(), metavar="NN", help="these notebooks, as 05")
    parser.add_argument("--repository", default="", metavar="URL", help="where links to solutions/ lead")
    parser.add_argument("--jobs", type=int, default=2, help="notebooks that run at once")
    options = parser.parse_args()
    try:
        first = build(options.out, tuple(options.only), max(1, options.jobs), options.repository)
    except (SiteError, sync.SyncError, OSError) as error:
        print(f"the site was not built: {error}", file=sys.stderr)
        return 1
    print(f"wrote {first}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
