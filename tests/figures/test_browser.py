"""The timeline that moves, in a real browser: by keyboard and by mouse, on light and on dark."""

import os
import shutil

import pytest
from playwright.sync_api import sync_playwright

from course_utils.compile import load as loading
from course_utils.compile.factory import compile_factory
from course_utils.figures.player import Player
from course_utils.figures.timeline import timeline
from course_utils.run.emulator.launch import emulated
from course_utils.run.emulator.replay import replay

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
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
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        give_up(f"no browser: none of {', '.join(BROWSERS)} is on the PATH")
    home = str(tmp_path_factory.mktemp("home"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--disable-gpu"], env={**os.environ, "HOME": home}
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def figures():
    """HTML of step 5, with its static picture, and of a deadlock."""
    import torch

    made = {}
    wrong = loading.load_planted(loading.planted("tilelang")["arrival_count"]).gemm
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
    assert "waits for empty[0], parity 0: its phase 0 lacks 127 of 128 arrivals" in told
    assert page.locator(".plot path[fill=none]").count() == 2  # each waits for the other
    assert "1 of 128 arrivals" in cell(page, "empty[0]")
    dark = page.locator(".frame").evaluate("one => getComputedStyle(one).backgroundColor")
    assert dark == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(25, 28, 30)")
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
