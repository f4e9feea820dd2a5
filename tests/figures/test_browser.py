"""The timeline and the figures of the text, in a real browser: by keyboard and by mouse, on light and on dark."""

import os

import pytest

from course_utils.compile import load as loading
from course_utils.compile.factory import compile_factory
from course_utils.compile.faults import kernels
from course_utils.figures import shell
from course_utils.figures.moving import FIGURES, moving, ring, swizzle, waves
from course_utils.figures.player import Player
from course_utils.figures.timeline import timeline
from course_utils.run.emulator.explain.replay import replay
from course_utils.run.emulator.launch import emulated
from tests.browsers import chromium

pytestmark = pytest.mark.slow

SIZE = (256, 512, 320)
# all text of at least 12 px, and none of a row over that of its neighbour
SMALL_TEXT = """() => [...document.querySelector('.course-player').shadowRoot.querySelectorAll('svg text, td, th, div, span, button, code')]
    .filter(one => one.textContent.trim() && one.checkVisibility() && parseFloat(getComputedStyle(one).fontSize) < 12).map(one => one.textContent)"""
OVERLAPS = """() => {
    const texts = [...document.querySelector('.course-player').shadowRoot.querySelectorAll('.plot text')].map(one => [one.textContent, one.getBoundingClientRect()]);
    return texts.flatMap(([a, one], i) => texts.slice(i + 1).filter(([b, other]) => one.left < other.right - 1 && other.left < one.right - 1
        && one.top < other.bottom - 4 && other.top < one.bottom - 4).map(([b]) => `${a} | ${b}`));
}"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("home")) as browser:
        yield browser


@pytest.fixture(scope="module")
def figures():
    """HTML of step 5, with its static picture, and of a deadlock."""
    import torch

    made = {}
    wrong = kernels("tilelang")["arrival_count"].factory()
    right = loading.load_factory(loading.solution_path("step05", "tilelang"))
    for name, gemm in (("step05", right), ("deadlock", wrong)):
        artifact = compile_factory(gemm, "tilelang", SIZE)
        run, _ = emulated(artifact, torch.Generator().manual_seed(0), 0, record=True)
        played = replay(run, title=name)
        made[name] = Player(played, timeline(run, played["ctas"])).html(), played
    return made


@pytest.fixture
def opened(browser, figures, tmp_path):
    """Open a figure as an exported page has it. What it says on the console is kept, and must be nothing."""
    pages, said = [], []

    def open_one(name, width=1280, scheme="light", scripts=True, body=""):
        html, played = figures[name]
        page = browser.new_page(
            viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=scripts
        )
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on(
            "request",
            lambda asked: said.append(asked.url) if asked.url[:5] not in ("file:", "data:") else None,
        )
        path = tmp_path / f"{name}.html"
        path.write_text(f"<!doctype html><meta charset=utf-8><body {body}>{html}</body>")
        page.goto(path.as_uri())
        pages.append(page)
        return page, played

    yield open_one
    folder = os.environ.get("COURSE_SCREENSHOTS")
    for number, page in enumerate(pages):
        if folder:
            page.screenshot(path=f"{folder}/player_{number}.png", full_page=True)
        page.close()
    assert said == []


def now(page):
    return page.locator(".now").inner_text()


def cell(page, name):
    return page.locator(f'[data-cell="{name}"]').inner_text()


def tile(played, tensor, stage, step):
    """What the data say of a stage after a step, as the cell shows it."""
    states = next(s["states"] for s in played["slots"] if (s["tensor"], s["stage"]) == (tensor, stage))
    _, state, tile, _ = [row for row in states if row[0] <= step][-1]
    return f"{tensor}{tile.replace(', ', ',')}" if tile else "", state


def test_a_figure_by_keyboard_and_by_mouse(opened):
    page, played = opened("step05")
    frame, last = page.locator(".frame"), len(played["steps"])
    assert now(page).startswith(f"Step {played['start'] + 1} of {last}")
    frame.focus()
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    at = played["start"] + 5
    assert now(page).startswith(f"Step {at + 1} of {last}") and played["steps"][at][3] in now(page)
    assert tile(played, "A", 0, at)[0] in cell(page, "A0") and "loading" in cell(page, "A0")
    page.keyboard.press("End")
    assert now(page).startswith(f"Step {last} of {last}") and "phase 3, parity 1" in cell(page, "full[0]")
    page.keyboard.press("Home")
    assert now(page).startswith("Step 1 of") and "empty" in cell(page, "B1")

    # drag to the middle of a multiplication, and what its stage holds is what it reads
    bar = next(bar for bar in played["bars"] if bar[1] == "wgmma" and bar[3] > bar[2] and bar[5] == 1)
    drawn = page.locator(f'[data-tip="wgmma: stage 1, {bar[4]}"]').first
    box = drawn.locator("rect").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] + 90, box["y"] + 5)
    page.mouse.down()
    page.mouse.move(box["x"] + 3, box["y"] + 5, steps=4)
    page.mouse.up()
    assert now(page).startswith(f"Step {bar[2] + 1} of")
    shown, state = tile(played, "A", 1, bar[2])
    assert state == "read" and shown in cell(page, "A1") and "read by warps 0-3" in cell(page, "A1")
    page.mouse.move(box["x"] + 4, box["y"] + 6)  # hover: the learner's line
    assert "T.wgmma_gemm(*operands" in page.locator(".tip").inner_text()

    wide = drawn.locator("rect").first.bounding_box()["width"]
    page.keyboard.press("+")
    close = drawn.locator("rect").first.bounding_box()["width"]
    page.mouse.wheel(0, -200)
    page.wait_for_function("wide => true", arg=close)
    assert close > wide * 1.3 and drawn.locator("rect").first.bounding_box()["width"] > close * 1.1
    page.keyboard.press("Home")
    page.keyboard.press("Space")
    page.wait_for_function(
        "() => document.querySelector('.course-player').shadowRoot.querySelector('.now').innerText.startsWith('Step 3 ')"
    )
    page.keyboard.press("Space")
    assert page.locator("[data-do=play]").inner_text() == "Play"


@pytest.mark.parametrize("width, scheme", [(1280, "light"), (800, "dark")])
def test_a_deadlock_opens_at_its_end_with_its_circle(opened, width, scheme):
    page, played = opened("deadlock", width, scheme)
    last = len(played["steps"])
    assert now(page).startswith(f"Step {last} of {last}")
    told = page.locator(".fault").inner_text()
    assert told.startswith("deadlock") and told.count("→") == 2 and "T.mbarrier_wait_parity(" in told
    assert "waits for empty[0], parity 0: phase 0 is missing 127 of 128 arrivals" in told
    assert page.locator(".plot path[fill=none]").count() == 2  # each waits for the other
    assert "1 of 128 arrivals" in cell(page, "empty[0]")
    dark = page.locator(".frame").evaluate("one => getComputedStyle(one).backgroundColor")
    assert dark == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(21, 24, 26)")
    assert page.evaluate(SMALL_TEXT) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_page_that_has_its_own_theme_and_a_narrow_one(opened):
    page, _ = opened("step05", 800, "light", body="data-jp-theme-light=false")
    host = page.locator(".course-player")
    assert host.get_attribute("data-theme") == "dark"
    page.evaluate("document.body.dataset.jpThemeLight = 'true'")
    page.wait_for_function("document.querySelector('.course-player').dataset.theme === 'light'")
    assert page.evaluate(SMALL_TEXT) == [] and page.evaluate(OVERLAPS) == []


def test_where_scripts_do_not_run_the_picture_stands(opened):
    page, _ = opened("step05", scripts=False)
    picture = page.locator(".course-player img")
    assert picture.is_visible() and picture.bounding_box()["width"] > 600


ALL_SMALL_TEXT = """() => [...document.querySelectorAll('.course-moving')].flatMap(host => [...host.shadowRoot.querySelectorAll('text, div, span, button, label, select, output, b')]
    .filter(one => one.textContent.trim() && one.checkVisibility() && parseFloat(getComputedStyle(one).fontSize) * (one.ownerSVGElement ? one.getScreenCTM().a : 1) < 12).map(one => one.textContent))"""
MOVED = """([name, values]) => { // what a figure says after its controls are set to each of some values
    const root = document.querySelector(`#${name} .course-moving`).shadowRoot;
    return values.map(pairs => {
        for (const [control, value] of Object.entries(pairs)) {
            const one = root.querySelector(`[data-name="${control}"]`);
            one.value = value;
            one.dispatchEvent(new Event('input', {bubbles: true}));
        }
        return root.querySelector('.now').textContent;
    });
}"""


@pytest.fixture
def gallery(browser, tmp_path):
    """A page with every figure that moves, one of them twice. What it says on the console must be nothing."""
    said, pages = [], []

    def open_all(width, scheme, **options):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, **options)
        for event in ("console", "pageerror"):
            page.on(event, lambda message: said.append(str(message)))
        page.on(
            "request",
            lambda asked: said.append(asked.url) if asked.url[:5] not in ("file:", "data:") else None,
        )
        made = [f'<div id="{name}">{moving(name).html()}</div>' for name in FIGURES]
        made.append(f'<div id="again">{moving("ring").html()}</div>')
        path = tmp_path / "gallery.html"
        path.write_text(f"<!doctype html><meta charset=utf-8><body>{''.join(made)}</body>")
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield open_all
    folder = os.environ.get("COURSE_SCREENSHOTS")
    for number, page in enumerate(pages):
        if folder:
            page.screenshot(path=f"{folder}/moving_{number}.png", full_page=True)
        page.close()
    assert said == []


def test_all_figures_that_move_in_one_page(gallery):
    page = gallery(1280, "light", reduced_motion="reduce")
    ground = "one => getComputedStyle(one).backgroundColor"
    for name in (*FIGURES, "again"):
        figure = page.locator(f"#{name}")
        assert figure.locator(".frame").evaluate(ground) == "rgb(255, 255, 255)"
        assert figure.locator("svg").get_attribute("role") == "img" and figure.locator(
            ".frame"
        ).get_attribute("aria-label")
        now, steps = figure.locator(".now"), moving("ring" if name == "again" else name).data.get("steps")
        if not steps:
            continue
        figure.locator(".frame").focus()
        first = now.inner_text()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowLeft")
        second = now.inner_text()
        assert second != first and ("Tick 1." in second or "Step 2 of" in second)
        page.keyboard.press("End")
        assert figure.locator(".steps").get_attribute(
            "aria-valuetext"
        ) == f"step {steps} of {steps}" or name in ("ring", "again")
        page.keyboard.press("Home")
        assert now.inner_text() == first
        slider = figure.locator(".steps").bounding_box()  # to the end, by mouse
        page.mouse.move(slider["x"] + 8, slider["y"] + slider["height"] / 2)
        page.mouse.down()
        page.mouse.move(slider["x"] + slider["width"] + 5, slider["y"] + slider["height"] / 2, steps=3)
        page.mouse.up()
        assert (
            int(figure.locator(".steps").input_value())
            == int(figure.locator(".steps").get_attribute("max"))
            > 5
        )

    page.locator("#ring select").select_option("2")
    page.locator("#ring .frame").focus()
    page.keyboard.press("End")
    told = page.locator("#ring svg").text_content()
    for ahead in (False, True):
        assert f"done after {ring.times(2, ahead)[-1].over} ticks" in told
    assert page.locator("#again select").input_value() == "4"

    places = [
        (name, row, column)
        for name in ("none", "32B", "64B", "128B")
        for row in range(8)
        for column in (0, 9, 15)
    ]
    said = page.evaluate(
        MOVED, ["swizzle", [{"swizzle": name, "row": row, "column": column} for name, row, column in places]]
    )
    for (name, row, column), text in zip(places, said, strict=True):
        mode = swizzle.mode(("none", "32B", "64B", "128B").index(name))
        address, ways = mode["lies"][row][column // 8] + column % 8 * 2, mode["ways"][column // 8]
        assert f"Row {row}, column {column}:" in text and f"Address {address}," in text
        assert f"bank group {address % 128 // 16} " in text and f"takes {ways} turn" in text
    page.locator("#swizzle .frame").focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert "Row 6, column 7:" in page.locator("#swizzle .now").inner_text()
    page.locator('#swizzle [data-at="2 5"]').last.click()
    assert "Row 2, column 40:" in page.locator("#swizzle .now").inner_text()

    sizes = [(M, N, tile) for M in (256, 1536, 4096, 8192) for N in (512, 1792, 8192) for tile in waves.TILES]
    said = page.evaluate(MOVED, ["waves", [{"M": M, "N": N, "tile": tile} for M, N, tile in sizes]])
    for (M, N, tile), text in zip(sizes, said, strict=True):
        one = waves.count(M, N, *waves.TILES[tile])
        assert f"{one['tiles']:,} tiles in {one['waves']} wave" in text and f"last has {one['last']}," in text
        assert f"= {one['places']:,} places {one['idle']:,} stay empty" in text


def test_figures_that_move_fit_a_narrow_dark_page_and_the_first_one_plays(gallery):
    page = gallery(800, "dark")
    page.wait_for_function(
        "() => document.querySelector('#first_screen .course-moving').shadowRoot.querySelector('.now').innerText.startsWith('Step 2 ')"
    )
    page.locator("#first_screen [data-do=play]").click()
    assert page.locator("#first_screen [data-do=play]").inner_text() == "Play"
    assert (
        page.locator("#waves .frame").evaluate("one => getComputedStyle(one).backgroundColor")
        == "rgb(21, 24, 26)"
    )
    assert page.evaluate(ALL_SMALL_TEXT) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "[...document.querySelectorAll('.course-moving')].every(host => { const plot = host.shadowRoot.querySelector('.plot'); return plot.scrollWidth <= plot.clientWidth; })"
    )


# What the notebook renderer of VS Code does: its page has a base and may have this policy, an output's HTML goes in
# as text, each script is made anew, run at the end of the output and taken out, and keys that come up to the window
# are the editor's.
VS_CODE = """<!doctype html><html><head><meta charset=utf-8>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval';
 style-src 'unsafe-inline'; img-src https: http: data:; font-src https:; connect-src https:; child-src https: data:;">
<style>table, th, td { border: none !important } table { width: 100% }</style></head><body><div id=container></div>
<script>self.require = {}; window.keys = []; window.addEventListener("keydown", event => keys.push(event.key));
function shows(html) {
  const output = document.createElement("div");
  output.innerHTML = html;
  document.getElementById("container").appendChild(output);
  for (const node of [...output.getElementsByTagName("script")]) {
    const script = document.createElement("script");
    script.text = node.innerText;
    output.appendChild(script).parentNode.removeChild(script);
  }
}</script></body></html>"""


def test_figures_in_the_outputs_of_vs_code(browser, figures, tmp_path):
    """The same figure twice, a timeline in a fold as a verdict has it; each theme; whose keys are whose."""
    said = []
    page = browser.new_page(viewport={"width": 1000, "height": 900}, color_scheme="light")
    for event in ("console", "pageerror"):
        page.on(event, lambda message: said.append(str(message)))
    (tmp_path / "code.html").write_text(VS_CODE)
    page.goto((tmp_path / "code.html").as_uri())
    fold = shell.folded(figures["step05"][0], "Step through this run")
    for html in (moving("ring").html(), moving("ring").html(), fold):
        page.evaluate("shows", html)
    ground = "one => getComputedStyle(one).backgroundColor"
    frame = page.locator(".course-moving .frame")
    assert frame.count() == 2
    for classes, colour in (
        ("vscode-dark", "rgb(21, 24, 26)"),
        ("vscode-light", "rgb(255, 255, 255)"),
        ("vscode-high-contrast", "rgb(21, 24, 26)"),
        ("vscode-high-contrast-light vscode-high-contrast", "rgb(255, 255, 255)"),
    ):
        page.evaluate("classes => { document.body.className = classes; }", classes)
        page.wait_for_function(
            "colour => getComputedStyle(document.querySelector('.course-moving').shadowRoot.querySelector('.frame'))"
            ".backgroundColor === colour",
            arg=colour,
        )
        assert [one.evaluate(ground) for one in frame.all()] == [colour] * 2
    page.evaluate(
        "() => { document.body.className = ''; document.body.dataset.theme = 'dark'; }"
    )  # the site's
    page.wait_for_function("() => document.querySelector('.course-moving').dataset.theme === 'dark'")
    page.locator("summary").click()
    for one in (frame.nth(1), page.locator(".course-player .frame")):
        one.focus()
        before = one.locator(".now").inner_text()
        page.keyboard.press("ArrowRight")
        assert one.locator(".now").inner_text() != before
        page.keyboard.press("Control+s")
    assert page.evaluate("keys.filter(key => key !== 'Control')") == ["s", "s"]
    assert page.locator(".course-player .plot").bounding_box()["width"] > 500
    page.close()
    assert said == []


def test_the_rings_order_is_that_of_the_emulated_step_5(figures):
    _, played = figures["step05"]
    found = [
        (begin, kind == "wgmma", label)
        for _, kind, begin, _, label, *_ in played["bars"]
        if kind in ("TMA load", "wgmma")
    ]
    order = [
        (multiplies, int(label.split("(")[1].split(", ")[1].split(")")[0]))
        for _, multiplies, label in sorted(found)
    ]
    order = [one for one in order if one[1] < SIZE[2] // 64][: 2 * (SIZE[2] // 64)]
    made = ring.times(2, ahead=True)[: SIZE[2] // 64]
    asked = [(one.asked, False, tile) for tile, one in enumerate(made)]
    multiplied = [(one.begun, True, tile) for tile, one in enumerate(made)]
    assert order == [one[1:] for one in sorted(asked + multiplied)]
