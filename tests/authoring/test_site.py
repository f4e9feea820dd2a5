"""The site: what its pages show and hide, and that it works from a file, by mouse and keyboard."""

import json
import re
import shutil
from pathlib import Path

import nbformat
import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe

from authoring import sync
from authoring.site import build, pages
from course_utils.compile.load import BEGIN, END
from tests.browsers import chromium

VERDICT = "<p><b>step05</b>, tilelang: <b>9 of 10 points</b> <a href='symptom_map.md#never-ends'>What</a></p>"
PATH = sync.NOTEBOOKS / "05_pipeline.ipynb"
ROOT = sync.NOTEBOOKS.parent


def read(path):
    return nbformat.read(path, as_version=4)


def solved(path, shown=VERDICT):
    """A solved notebook as if it had run: each check and each wrong attempt shows a verdict."""
    notebook = pages.with_wrong_attempts(sync.synchronised(read(path), solved=True))
    for cell in notebook.cells:
        if cell.cell_type == "code" and re.search(r"\bcheck(_gemm)?\(", cell.source):
            cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": shown})]
    return notebook


def sources(notebook):
    return "\n".join(cell.source for cell in notebook.cells)


def test_a_page_shows_exercises_as_they_are_given_and_spoils_no_solution():
    page = pages.page(read(PATH), solved(PATH))
    text = sources(page)
    assert text.count("raise NotImplementedError(") == sources(read(PATH)).count("raise NotImplementedError(")
    assert BEGIN not in text and END not in text
    checks = [cell for cell in page.cells if cell.metadata.get("nbgrader", {}).get("grade")]
    assert len(checks) == 2
    assert all("symptom_map.html#never-ends" in cell.outputs[0].data["text/html"] for cell in checks)


def test_a_page_shows_one_wrong_attempt_in_each_language_folded():
    attempts = [c for c in pages.page(read(PATH), solved(PATH)).cells if "class='attempt'" in c.source]
    assert len(attempts) == 2
    for cell in attempts:
        assert cell.cell_type == "markdown" and "\n" not in cell.source
        assert cell.source.startswith("<details") and "9 of 10 points" in cell.source


def test_a_timeline_names_lines_and_shows_no_code_of_a_solution():
    shown = (
        '{"steps":[["a","b"]],"lines":[["your cell, line 3","x = \\"1]\\""],["step05.py, line 4","y"]],"z":1}'
    )
    page = pages.page(read(PATH), solved(PATH, shown))
    made = '{"steps":[["a","b"]],"lines":[["your cell, line 3",""],["step05.py, line 4",""]],"z":1}'
    found = [o.data["text/html"] for cell in page.cells for o in cell.get("outputs", [])]
    assert found and set(found) == {made}


def test_the_first_page_shows_a_run_that_moves():
    notebook = read(PATH)
    cell = next(cell for cell in notebook.cells if cell.source.startswith("timeline("))
    cell.outputs = [nbformat.v4.new_output("display_data", {"text/html": "<svg></svg>"})]
    assert pages.moving({PATH: notebook}) == "<svg></svg>"
    assert pages.moving({}) == ""


@pytest.mark.parametrize(
    "text, repository, made",
    [
        ("[a](05_pipeline.ipynb)", "", "[a](05_pipeline.ipynb)"),
        ("[a](05_pipeline.ipynb#check)", "", '<a href="05_pipeline.html#check">a</a>'),
        ("[a](symptom_map.md#tma)", "", '<a href="symptom_map.html#tma">a</a>'),
        ("[a](#tma)", "", '<a href="#tma">a</a>'),
        ("[a](../solutions)", "", "a"),
        ("[a](../solutions)", "https://x.org/tree/1", "[a](https://x.org/tree/1/solutions)"),
        ("[a](../docs/cli.md)", "", "[a](../docs/cli.md)"),
        ("[a](../notebooks/symptom_map.md#tma)", "", '<a href="../notebooks/symptom_map.html#tma">a</a>'),
        ("[a](../CONTRIBUTING.md#test)", "", "a"),
        ("[a](../CONTRIBUTING.md#test)", "https://x.org/1", "[a](https://x.org/1/CONTRIBUTING.md#test)"),
    ],
)
def test_links_lead_into_the_site_or_the_repository(text, repository, made):
    assert pages.linked(text, repository) == made


def test_a_diagram_is_a_table_of_its_arrows():
    text = """above

```mermaid
flowchart LR
    one["a(b)<br>what it is"] -- "by/" --> two["B"]
    one & two --> three["C<br>last"]
```

below

```mermaid
flowchart TD
    one["A"] --> two["B"]
```
"""
    assert pages.diagrams(text).splitlines() == [
        "above",
        "",
        "| from | by | to |",
        "| --- | --- | --- |",
        "| **a(b)**<br>what it is | by/ | **B** |",
        "| **a(b)**<br>**B** |  | **C**<br>last |",
        "",
        "below",
        "",
        "| above | below |",
        "| --- | --- |",
        "| **A** | **B** |",
    ]


def test_every_line_of_the_glossary_is_an_entry_whose_notebook_there_is():
    text = (sync.NOTEBOOKS / "glossary.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("-")]
    entries = list(pages.ENTRY.finditer(text))
    assert len(entries) == len(lines) == len(pages.terms(text)) > 40
    names = [found["term"].lower() for found in entries]
    assert names == sorted(names)
    assert all((sync.NOTEBOOKS / found["where"]).exists() for found in entries)


def test_what_ran_is_used_again_until_the_notebook_changes(tmp_path, monkeypatch):
    runs = []
    monkeypatch.setattr(build.NotebookClient, "execute", lambda *_, **__: runs.append(1))
    path = tmp_path / "05_pipeline.ipynb"
    shutil.copy(PATH, path)
    build.executed(path, tmp_path / "kept")
    build.executed(path, tmp_path / "kept")
    assert len(runs) == 1
    notebook = read(path)
    notebook.cells[0].source += "!"
    nbformat.write(notebook, path)
    build.executed(path, tmp_path / "kept")
    assert len(runs) == 2 and len(list((tmp_path / "kept").glob("*.ipynb"))) == 1


KEEPS = """from course_utils import notebook
from course_utils.notebook import checks, what_ifs
from course_utils.grading.verdict import Part, Verdict
part = Part("results", True, 10, 10, "")
found = Verdict("step05", "cute", "emulator", (part,), receipt=(("wgmma", "7"),))
checks._graded("step05", "cute", lambda told: found)
notebook.ladder()
notebook.receipt("step05")
print(what_ifs._is_open("step05"))"""


@pytest.mark.slow
def test_a_page_shows_no_points_of_the_builder_and_leaves_the_builders_progress_alone(tmp_path):
    folder = tmp_path / "notebooks"
    folder.mkdir()
    (folder / "00_start_here.ipynb").touch()  # a checkout
    mine = folder / "progress.json"
    mine.write_text('{"drills": {"05": [1]}}')
    path = folder / "05_pipeline.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(KEEPS)]), path)
    (cell,) = build.executed(path, tmp_path / "build").cells
    shown = json.dumps(cell.outputs)
    assert mine.read_text() == '{"drills": {"05": [1]}}' and len(list(tmp_path.rglob("progress*"))) == 1
    assert "points so far" not in shown and "TFLOP/s are recorded" in shown
    assert "wgmma" in shown  # of the check above
    assert "True\\n" in shown  # its exercises are as closed as they were


def test_a_notebook_that_raised_is_no_page(tmp_path, monkeypatch):
    error = nbformat.v4.new_output("error", ename="NameError", evalue="name 'x'", traceback=[])

    def execute(client, **_):
        next(cell for cell in client.nb.cells if cell.cell_type == "code").outputs = [error]

    monkeypatch.setattr(build.NotebookClient, "execute", execute)
    with pytest.raises(build.SiteError, match="05_pipeline.ipynb: NameError: name 'x'"):
        build.executed(PATH, tmp_path)
    assert not list(tmp_path.glob("*.ipynb"))


def test_a_notebook_that_is_not_there_is_named(tmp_path):
    with pytest.raises(build.SiteError, match="no notebook begins with 77"):
        build.build(tmp_path, ("77",))


def test_the_workflow_builds_what_make_builds():
    flow = yaml.safe_load((ROOT / ".github" / "workflows" / "site.yml").read_text())
    runs = [step["run"] for job in flow["jobs"].values() for step in job["steps"] if "run" in step]
    assert runs[0].startswith("make site ") and re.search(r"^site:", (ROOT / "Makefile").read_text(), re.M)
    upload = next(s for s in flow["jobs"]["build"]["steps"] if "upload-pages" in s.get("uses", ""))
    assert upload["with"]["path"] == "build/site/html"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site of all notebooks, none of them run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "executed", lambda path, kept: solved(path))
        return build.build(tmp_path_factory.mktemp("site")).parent


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("home")) as browser:
        yield browser


@pytest.fixture
def page(browser):
    """A page that notes what the console says, and what is asked of another machine."""
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.said, page.asked = [], []
    page.on("console", lambda message: page.said.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.said.append(str(error)))
    page.on("request", lambda request: page.asked.append(request.url))
    yield page
    page.close()


@pytest.mark.slow
def test_every_link_of_the_site_leads_somewhere(site):
    ids = {}
    for path in site.rglob("*.html"):
        ids[path] = set(re.findall(r'\bid="([^"]+)"', path.read_text()))
    for path in ids:
        for target in re.findall(r"<a [^>]*href=[\"']([^\"']+)[\"']", path.read_text()):
            name, _, place = target.partition("#")
            if re.match(r"\w+:", name):
                continue
            there = (path.parent / name).resolve() if name else path
            assert there.exists(), (path.name, target)
            if place and there in ids:
                assert place in ids[there], (path.name, target)


@pytest.mark.slow
def test_its_navigation_has_every_page_in_its_part(site):
    """The ladder in its order, 01b on it; then transfer, TMA, Blackwell, attention, and what is looked up."""
    shown = (site / "index.html").read_text()
    tree = re.search(r'<div class="sidebar-tree">(.*?)</aside>', shown, re.S)[1]
    parts = re.split(r'<span class="caption-text">', tree)[1:]
    found = {part.partition("<")[0]: re.findall(r'href="([^"]+)\.html"', part) for part in parts}
    parts = ["Ladder", "Transfer", "TMA", "Blackwell", "Attention", "Look up", "About the course"]
    assert list(found) == parts
    ladder = ["00", "01", "01b", *(f"{n:02}" for n in range(2, 12)), "11b"]
    assert [path[10:].partition("_")[0] for path in found["Ladder"]] == ladder
    assert [path[10:13] for path in found["Transfer"]] == ["05b", "08b", "10b"]
    assert [path[10:12] for path in found["TMA"]] == ["t1", "t2", "t3", "t4", "t5", "t6"]
    assert [path[10:13] for path in found["Blackwell"]] == [f"b{n:02}" for n in range(1, 11)]
    assert [path[10:12] for path in found["Attention"]] == ["a1", "a2"]
    assert sorted(sum(found.values(), [])) == sorted(
        [f"notebooks/{path.stem}" for path in sync.NOTEBOOKS.glob("*.ipynb")]
        + [f"notebooks/{path.stem}" for path in sync.NOTEBOOKS.glob("*.md")]
        + [f"docs/{path.stem}" for path in build.DOCS.glob("*.md")]
    )


@pytest.mark.thorough
@pytest.mark.slow
def test_it_opens_from_a_file_and_is_searched_without_a_server(site, page):
    page.goto((site / "index.html").as_uri())
    assert page.locator("article img").first.evaluate("image => image.naturalWidth") > 0
    page.get_by_placeholder("Search").first.fill("multicast")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li > a:has-text('cluster')", timeout=20_000)  # one by one
    assert page.said == []
    assert [url for url in page.asked if not url.startswith(("file:", "data:"))] == []


@pytest.mark.thorough
@pytest.mark.slow
def test_a_term_tells_its_definition_by_keyboard_and_the_symptom_map_is_searched(site, page):
    page.goto((site / "notebooks" / "05_pipeline.html").as_uri())
    term = page.locator("a.term").first
    shown = "element => getComputedStyle(element, '::after').content"
    assert term.evaluate(shown) == "none"
    term.hover()
    assert json.loads(term.evaluate(shown)) == term.get_attribute("data-told")
    page.mouse.move(0, 0)
    page.keyboard.press("Tab")  # from now on focus is a keyboard's
    term.focus()
    assert json.loads(term.evaluate(shown)) == term.get_attribute("data-told")
    page.goto((site / "notebooks" / "symptom_map.html").as_uri())
    rows = page.locator("article table tbody tr")
    whole = rows.evaluate_all("rows => rows.filter(row => row.offsetParent).length")
    page.get_by_label("Search this page").fill("lacks bytes")
    left = rows.evaluate_all("rows => rows.filter(row => row.offsetParent).map(row => row.textContent)")
    assert 0 < len(left) < whole and all("bytes" in row.lower() for row in left)
    page.get_by_label("Search this page").fill("")
    assert rows.evaluate_all("rows => rows.filter(row => row.offsetParent).length") == whole
    assert page.said == []


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_read_by_everybody(site, page, scheme):
    """axe-core finds nothing serious, and a telephone's page is no wider than its screen."""
    page.emulate_media(color_scheme=scheme)
    for name in ("index", "docs/architecture", "notebooks/05_pipeline", "notebooks/symptom_map"):
        page.set_viewport_size({"width": 390, "height": 800})
        page.goto((site / f"{name}.html").as_uri())
        wide = page.evaluate("() => document.documentElement.scrollWidth")
        assert wide <= 390, (name, wide)
        found = Axe().run(page).response["violations"]
        assert [
            (one["id"], one["nodes"][0]["html"][:200])
            for one in found
            if one["impact"] in ("serious", "critical")
        ] == []


def test_the_site_needs_no_other_machine(tmp_path):
    for path in sorted((Path(pages.__file__).parent / "static").iterdir()):
        assert not re.search(r"https?://", path.read_text())


@pytest.mark.parametrize("repository", ["", "https://x.org/tree/1"])
def test_a_page_has_no_cell_of_imports_and_no_link_that_leads_nowhere(repository):
    given = sync.synchronised(
        nbformat.read(sync.NOTEBOOKS / "05_pipeline.ipynb", as_version=4), name="05_pipeline.ipynb"
    )
    shown = pages.page(given, nbformat.from_dict(given), repository).cells
    assert not [cell.source for cell in shown if cell.cell_type == "code" and sync.only_imports(cell)]
    assert ("[solutions](" in shown[1].source) == bool(repository) and "glossary" in shown[1].source
