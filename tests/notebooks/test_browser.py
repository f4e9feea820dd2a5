"""The notebooks where a learner meets them: a real JupyterLab, a real browser, and what is then on the
screen.
"""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import nbformat
import pytest

from authoring import sync
from course_utils.cli import lab as learners
from course_utils.drills import bugs, deck, faults
from course_utils.grading import steps
from course_utils.recordings import progress
from tests.browsers import chromium
from tests.notebooks import forked_kernels

pytestmark = pytest.mark.slow

NOTEBOOK = "04_tma.ipynb"
SECOND = 1000  # Playwright's timeouts are milliseconds
FULL_MARKS = re.compile(
    r"step04, (?:tilelang|cute): (?:(9) of 10 points, all that this machine can judge \(backend: emulator\)"
    r"|(10) of 10 points \(backend: gpu\))"
)
SETTINGS = {
    # every cell is in the page, also those far out of view
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}

PROMPT = ".jp-CodeCell .jp-InputPrompt:not(.jp-Placeholder-prompt)"  # of cells whose source is shown

# JupyterLab drops without a word what is run before the kernel is connected
CONNECTED = """name => {
    const context = window.jupyterapp?.shell.currentWidget?.sessionContext, kernel = context?.session?.kernel;
    return context?.isReady && context.name === name && kernel?.connectionStatus === "connected" && kernel.status === "idle";
}"""
# Nothing is waiting for the kernel any more; after an error the rest is not run
ENDED = """() => {
    const all = [...document.querySelectorAll("PROMPT")];
    const prompts = all.map(prompt => prompt.innerText);
    return /\\d/.test(prompts[0]) && !prompts.some(prompt => prompt.includes("*"));
}""".replace("PROMPT", PROMPT)


def processes(home):
    """The processes that were started with this home, and still run."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"HOME={home}".encode() in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home of its own for server, kernels and browser. Whatever still runs there at the end is killed."""
    folder = tmp_path_factory.mktemp("home")
    yield folder
    for _ in range(100):
        for pid in (left := list(processes(folder))):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            break
        time.sleep(0.1)


@pytest.fixture(scope="module")
def browser(home):
    with chromium(home) as browser:
        yield browser


@pytest.fixture(scope="module")
def lab(browser, home, tmp_path_factory, forked, pytestconfig):
    """A JupyterLab server over a copy of the notebooks, whose kernels are forked.

    Yields their folder, and the address of one by its name.
    """
    folder = tmp_path_factory.mktemp("lab") / "notebooks"
    shutil.copytree(sync.NOTEBOOKS, folder, ignore=shutil.ignore_patterns(".ipynb_checkpoints", "progress.*"))
    for name, values in SETTINGS.items():
        path = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values))
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "JPY_", "IPYTHON", "XDG_"))
    }
    environment |= {
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": f"{home}/config",
        "JUPYTER_DATA_DIR": f"{home}/data",
        "JUPYTER_RUNTIME_DIR": f"{home}/runtime",
        "JUPYTERLAB_SETTINGS_DIR": f"{home}/settings",
        "JUPYTER_PATH": str(forked),
        "XDG_CACHE_HOME": os.environ["XDG_CACHE_HOME"],  # step 4 is compiled elsewhere in this run too
    }
    if not pytestconfig.getoption("--thorough"):
        environment[forked_kernels.ONE_SIZE] = "1"
    token = secrets.token_hex()
    log = home / "server.log"
    with log.open("w") as output:
        server = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "jupyterlab",
                "--no-browser",
                "--allow-root",
                "--ServerApp.ip=127.0.0.1",
                "--ServerApp.port=0",
                f"--ServerApp.root_dir={folder}",
                f"--LabApp.app_settings_dir={learners.SETTINGS}",
                f"--IdentityProvider.token={token}",
                "--LabApp.expose_app_in_browser=True",
                "--LabApp.extension_manager=readonly",
            ],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        url = server_url(server, home / "runtime" / f"jpserver-{server.pid}.json", log)
        yield folder, lambda name: f"{url}lab/tree/{name}?reset&token={token}"
    finally:
        server.terminate()  # it ends its kernels first
        with suppress(subprocess.TimeoutExpired):
            server.wait(20)
        server.kill()
        server.wait()
        print(log.read_text()[-5000:])


def server_url(server, info: Path, log: Path) -> str:
    """The server says where it listens in a file."""
    for _ in range(600):
        with suppress(OSError, ValueError):
            return json.loads(info.read_text())["url"]
        if server.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


@pytest.fixture
def pictures(tmp_path):
    """Where screenshots go: COURSE_SCREENSHOTS, or pytest's own folder."""
    folder = Path(os.environ.get("COURSE_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def page(browser, pictures, request):
    """A fresh page. What is on it at the end is kept as a picture, for the day that a test fails."""
    page = browser.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(60 * SECOND)
    page.requested = []
    page.on("request", lambda asked: page.requested.append(asked.url))
    yield page
    page.screenshot(path=pictures / f"end_of_{request.node.name}.png")
    page.close()


def write(path, sources):
    """A notebook of these code cells."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    kernel = {"name": "python3", "display_name": "Python 3"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


def start_all(page, address, name):
    """Open a notebook and run all of its cells, through the menu."""
    page.goto(address(name))
    page.wait_for_function(CONNECTED, arg=name)
    menu(page, "Run", "Run All Cells")


def menu(page, name, item):
    page.get_by_role("menuitem", name=name, exact=True).click()
    page.get_by_role("menuitem", name=re.compile(f"^{item}")).click()  # a shortcut may follow


def outputs(cell):
    return cell.locator(".jp-OutputArea-output")


def score(cell):
    """The points that a check's cell shows for full marks: its verdict, and no number below it."""
    (verdict,) = outputs(cell).all()
    found = FULL_MARKS.match(verdict.inner_text())
    assert verdict.is_visible() and found, verdict.inner_text()
    return found[1] or found[2]


def assert_all_ran_well(page):
    """No cell wrote to stderr or raised: JupyterLab gives both the same type. None was left out."""
    assert (
        page.locator(
            '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"]'
        ).all_inner_texts()
        == []
    )
    assert all(re.search(r"\d", prompt) for prompt in page.locator(PROMPT).all_inner_texts())


def keep(cell, path):
    """A picture of one cell, with nothing under the mouse."""
    page = cell.page
    page.mouse.move(page.viewport_size["width"] / 2, 0)
    cell.scroll_into_view_if_needed()
    cell.screenshot(path=path)


def test_step_4_as_a_learner_sees_it(lab, page, pictures):
    """Run All on the solved notebook: verdicts, scores, ladder, drawings, hints; nothing on stderr, nothing
    from outside.
    """
    folder, address = lab
    notebook = sync.synchronised(nbformat.read(folder / NOTEBOOK, as_version=4), solved=True)
    nbformat.write(notebook, folder / NOTEBOOK)
    start_all(page, address, NOTEBOOK)
    page.wait_for_function(ENDED, timeout=150 * SECOND)
    assert_all_ran_well(page)

    cells = page.locator(".jp-Notebook .jp-Cell")
    assert cells.count() == len(notebook.cells)
    checks = [cells.nth(i) for i, cell in enumerate(notebook.cells) if cell.source.startswith("check(")]
    assert len(checks) == 2
    assert [score(cell) for cell in checks] in (["9"] * 2, ["10"] * 2)
    ladder = next(cells.nth(i) for i, cell in enumerate(notebook.cells) if cell.source.startswith("ladder("))
    drawn = ladder.locator(".jp-OutputArea-output img")
    assert drawn.is_visible() and drawn.evaluate("image => image.naturalWidth") > 0

    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    page.wait_for_function(
        "() => [...document.querySelectorAll('.jp-RenderedMarkdown img')].every(image => image.complete)"
    )
    widths = page.locator(".jp-RenderedMarkdown img").evaluate_all(
        "images => images.map(image => image.naturalWidth)"
    )
    assert len(widths) == prose.count("![") + prose.count("<img ") > 0 and all(widths)

    cells.first.scroll_into_view_if_needed()
    page.screenshot(path=pictures / "top.png")
    keep(checks[0], pictures / "verdict.png")
    keep(ladder, pictures / "ladder.png")

    hints = page.locator(".jp-RenderedMarkdown details").all()
    assert len(hints) == prose.count("<details>") > 0
    for hint in hints:
        assert hint.get_attribute("open") is None
        hint.locator("summary").click()
        assert hint.get_attribute("open") is not None
    keep(
        next(cells.nth(i) for i, cell in enumerate(notebook.cells) if "<summary>Hint" in cell.source),
        pictures / "hints.png",
    )

    page.evaluate(
        "() => { window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'}); }"
    )
    page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")
    keep(checks[0], pictures / "verdict_dark.png")
    keep(ladder, pictures / "ladder_dark.png")
    server = address("").split("/lab/")[0]
    assert [url for url in page.requested if not url.startswith((server, "data:", "blob:"))] == []


SLOW = """import os
import time
from pathlib import Path

from course_utils.notebook import check

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # on a GPU the endless kernel would soon end
endless, sizes = gemm, []


def slow(M, N, K):
    sizes.append((M, N, K))
    if len(sizes) == LAST:  # the first is being emulated
        Path("slow").touch()
        time.sleep(600)
    return endless(M, N, K)"""


@pytest.mark.thorough
def test_interrupted_check_leaves_a_usable_notebook(lab, page):
    """Kernel > Interrupt Kernel while a check compiles one size and emulates another: it says so, and the
    next check works.
    """
    folder, address = lab
    solution = sync.exercise("step04", "cute", solved=True)
    endless = solution.replace("range(K // block_K,", "range(1_000_000,")
    assert endless != solution
    slow = SLOW.replace("LAST", str(len(steps.find("step04").emulated)))
    sources = endless, slow, 'check("step04", slow, "cute")', solution, 'check("step04", gemm, "cute")'
    write(folder / "interrupted.ipynb", sources)

    start_all(page, address, "interrupted.ipynb")
    for _ in range(600):
        if (folder / "slow").exists():
            break
        page.wait_for_timeout(0.1 * SECOND)
    else:
        pytest.fail("the check did not come to its last size within a minute")
    menu(page, "Kernel", "Interrupt Kernel")
    page.wait_for_function(ENDED)
    assert_all_ran_well(page)
    cells = page.locator(".jp-Notebook .jp-CodeCell")
    assert "you stopped this check" in outputs(cells.nth(2)).first.inner_text()
    assert score(cells.nth(4)) == "9"


@pytest.mark.thorough
def test_five_times_shift_enter_bring_a_verdict_and_its_line_is_a_link_to_it(lab, page):
    """Notebook 00 as a learner begins it, with the settings of `course lab`: lines have numbers."""
    _, address = lab
    name = "00_start_here.ipynb"
    page.goto(address(name))
    page.wait_for_function(CONNECTED, arg=name)
    page.locator(".jp-Notebook .jp-Cell").first.click()
    page.keyboard.press("Escape")
    for _ in range(5):
        page.keyboard.press("Shift+Enter")
    cells = page.locator(".jp-Notebook .jp-CodeCell")
    outputs(cells.nth(1)).get_by_text("5 of 5 points").wait_for(timeout=60 * SECOND)
    kernel = cells.first.locator(".cm-content")
    assert cells.first.locator(".cm-lineNumbers").is_visible()
    kernel.evaluate(
        """editor => {
            const view = (editor.cmTile || editor.cmView).view, from = view.state.doc.toString().indexOf("T.copy(A,");
            view.dispatch({changes: {from, insert: "# "}});
        }"""
    )
    kernel.click()
    page.keyboard.press("Shift+Enter")
    page.keyboard.press("Shift+Enter")
    link = outputs(cells.nth(1)).locator("a.course-line").first
    link.wait_for(timeout=60 * SECOND)
    line = int(re.fullmatch(r"your cell, line (\d+)", link.inner_text())[1])
    link.click()
    marked = """editor => {
        const view = (editor.cmTile || editor.cmView).view, at = view.state.selection.main;
        return [document.activeElement === editor, view.state.doc.lineAt(at.from).number, at.empty];
    }"""
    assert kernel.evaluate(marked) == [True, line, False]


@pytest.mark.thorough
def test_a_drill_is_answered_by_mouse_and_by_keyboard(lab, page, pictures):
    """A number and a letter typed, an option chosen, an order clicked: each shows its picture. A guess at a
    planted fault is clicked too, and brings the run to step through.
    """
    folder, address = lab
    cells = ["from course_utils.notebook import drill, what_if", 'drill("05")', 'what_if("nested_elect")']
    write(folder / "drills.ipynb", cells)
    start_all(page, address, "drills.ipynb")
    page.wait_for_function(ENDED)
    assert_all_ran_well(page)
    form = page.locator(".jp-Notebook .jp-CodeCell").nth(1)
    drawn, answer = form.locator("svg[role=img]"), form.get_by_role("button", name="Answer")

    asked = deck.question("05", 1)
    form.get_by_role("textbox").nth(-1).focus()
    page.keyboard.type(str(asked.right + 1))
    page.keyboard.press("Enter")
    drawn.nth(1).wait_for()  # the wrong answer beside the right one
    assert "Your answer" in form.inner_text()

    form.get_by_role("button", name="Again").click()
    form.get_by_text(deck.question("05", 1, 1).text).wait_for()
    for number in (2, 3):
        form.get_by_role("button", name="Next").click()
        form.get_by_text(deck.question("05", number).text).wait_for()
    asked = deck.question("05", 3)
    chosen = form.get_by_role("radio").nth(asked.right)
    chosen.check()
    answer.click()
    form.get_by_text("Right.", exact=True).wait_for()
    assert drawn.count() == 1
    keep(form, pictures / "drill.png")

    for number in (4, 5, 6):
        form.get_by_role("button", name="Next").click()
        form.get_by_text(deck.question("05", number).text).wait_for()
        if number == 4:
            form.get_by_role("textbox").nth(-1).focus()
            page.keyboard.type("abcd"[deck.question("05", 4).right])
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            form.get_by_text("Right.", exact=True).wait_for()
    asked = deck.question("05", 6)
    for place in asked.right:
        form.get_by_role("button", name=asked.options[place]).click()
    answer.click()
    form.get_by_text("Right.", exact=True).wait_for()
    keep(form, pictures / "drill_order.png")
    page.evaluate(
        "() => { window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'}); }"
    )
    page.wait_for_selector("body[data-jp-theme-light=false]", state="attached")
    keep(form, pictures / "drill_dark.png")

    guess = page.locator(".jp-Notebook .jp-CodeCell").nth(2)
    guess.get_by_role("button", name="hang", exact=True).click()
    guess.get_by_text("Your guess is right.").wait_for()
    guess.locator(".course-player .frame").wait_for()
    assert guess.get_by_role("button", name="right", exact=True).is_disabled()
    keep(guess, pictures / "guess.png")


@pytest.mark.thorough
def test_a_quiz_goes_on_after_a_restart_and_a_bug_is_found(lab, page, pictures):
    """One question, a new kernel, the rest; then a planted fault, by its line and its outcome."""
    folder, address = lab
    cells = ["from course_utils.notebook import find_the_bug, quiz", 'quiz("start")']
    cells.append('find_the_bug("07", "cute", show=True)')
    write(folder / "quiz.ipynb", cells)
    start_all(page, address, "quiz.ipynb")
    page.wait_for_function(ENDED)
    code = page.locator(".jp-Notebook .jp-CodeCell")
    form, bug = code.nth(1), code.nth(2)
    form.get_by_role("button", name="I do not know").click()
    form.get_by_text("Question 2 of 20").wait_for()
    keep(form, pictures / "quiz.png")

    menu(page, "Kernel", "Restart Kernel and Clear Outputs")
    page.get_by_role("button", name="Confirm Kernel Restart").click()
    form.get_by_text("Question 2 of 20").wait_for(state="detached")
    page.wait_for_function(CONNECTED, arg="quiz.ipynb")
    menu(page, "Run", "Run All Cells")
    page.wait_for_function(ENDED)
    assert_all_ran_well(page)
    form.get_by_text("Question 2 of 20").wait_for()
    for number in range(2, 21):
        form.get_by_text(f"Question {number} of 20").wait_for()
        form.get_by_role("button", name="I do not know").click()
    form.get_by_text("Before: 0 of 20 right.").wait_for()
    assert form.locator("svg[role=img]").count() == 1
    keep(form, pictures / "quiz_result.png")

    whose = progress.learner(folder / progress.FILE)
    fault = bugs.drawn("07", "cute", 1, whose).fault
    bug.get_by_placeholder("a number").fill(str(faults.changes(fault)[0].lines[0]))
    bug.get_by_role("radio").nth(list(bugs.OUTCOMES).index(fault.outcome)).check()
    keep(bug, pictures / "bug.png")
    bug.get_by_role("button", name="Answer").click()
    bug.get_by_text("Repaired:").wait_for()
    assert bug.inner_text().count("Right, ") == 2
    keep(bug, pictures / "bug_found.png")
