"""Notebooks let a reader do something every two minutes: short cells, and never many words in a row."""

import ast
import re

import nbformat
import pytest

from authoring import sync
from course_utils.drills import bugs
from course_utils.notebook import what_ifs

CELL = 250  # words of one Markdown cell
ROW = 300  # words from one thing to do to the next
PREDICT = re.compile(r"^> \*\*Predict\.\*\*", re.M)
# fmt: off
DONE = [
    "00_start_here", "01_single_tile", "02_k_loop", "03_spatial_tiling", "04_tma", "05_pipeline",
    "05b_transfer", "06_persistent", "07_warp_specialization", "08_deeper_pipeline", "08b_transfer",
    "09_cluster", "10_multi_consumer", "10b_transfer", "t1_tma_contract", "t2_three_d_to_two_d",
    "t3_async_proxy", "t4_group_modes", "t5_tma_epilogue", "t6_scores_of_heads",
    "11_any_shape", "11b_the_bound",
    "a1_attention", "a2_ping_pong",
]
BLACKWELL = [path.stem for path in sorted(sync.NOTEBOOKS.glob("b*_*.ipynb"))]
# fmt: on


def cells(stem):
    return nbformat.read(sync.NOTEBOOKS / f"{stem}.ipynb", as_version=4).cells


def words(text):
    """Code, the cells of tables, comments and what is folded count too."""
    return len(text.split())


def shows(cell):
    """Does a code cell do more than import?"""
    return not all(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(cell.source).body)


def rows(cells):
    """Words in a row, up to each cell that shows something and each Predict."""
    row = 0
    for cell in cells:
        if cell.cell_type == "code":
            if shows(cell):
                yield row
                row = 0
            continue
        first, *rest = PREDICT.split(cell.source)
        row += words(first)
        for part in rest:
            yield row
            row = words(part)
    yield row


@pytest.mark.parametrize("stem", [*DONE, *BLACKWELL])
def test_no_cell_has_more_words_than_a_screen(stem):
    long = {c.id: words(c.source) for c in cells(stem) if c.cell_type == "markdown"}
    assert {name: count for name, count in long.items() if count > CELL} == {}


@pytest.mark.parametrize("stem", [*DONE, *BLACKWELL])
def test_there_is_something_to_do_before_the_words_are_too_many(stem):
    assert max(rows(cells(stem))) <= ROW


@pytest.mark.parametrize("stem", [*DONE, *BLACKWELL])
def test_a_notebook_and_the_readme_name_the_same_time(stem):
    minutes = re.search(r"\*\*Time\*\* (\d+) minutes\.", cells(stem)[0].source)[1]
    row = re.search(rf"\(notebooks/{stem}\.ipynb\).*", (sync.NOTEBOOKS.parent / "README.md").read_text())[0]
    assert f"| {minutes} min |" in row


@pytest.mark.parametrize("stem", DONE)
def test_paragraphs_on_blackwell_fold(stem):
    text = "\n\n".join(c.source for c in cells(stem) if c.cell_type == "markdown")
    told = re.sub(r"<details>.*?</details>", "", text, flags=re.S)
    sentences = [one for part in told.split("\n\n") if part[:1] != "|" for one in re.split(r"[.?!]\s", part)]
    aside = [one for one in sentences if re.search("Blackwell|sm_100a", one)]
    assert all(words(one) <= 40 for one in aside), aside  # a sentence or a question may stand open


@pytest.mark.parametrize("stem", BLACKWELL)
def test_a_page_on_blackwell_says_near_its_top_that_nothing_of_it_has_run_on_one(stem):
    assert "**Nothing on this page has run on a Blackwell by us.**" in cells(stem)[0].source


@pytest.mark.parametrize("path", sorted(sync.NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_no_text_tells_light_from_dark_for_they_change_places_with_the_theme(path):
    text = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells)
    assert not re.search(r"\b(dark|light|pal)er\b", text, re.I)


def definition(term):
    text = (sync.NOTEBOOKS / "glossary.md").read_text()
    return re.search(rf"^- \*\*{term}\*\*: (.*)$", text, re.M)[1]


def test_the_glossary_tells_expect_tx_from_an_arrival_and_names_the_outcomes_as_notebooks_ask_for_them():
    assert "adds the bytes" in definition("expect-tx") and "no arrival" in definition("expect-tx")
    assert re.findall(r"\*(\w+)\*:", definition("outcome")) == list(bugs.OUTCOMES)
    assert list(what_ifs.OUTCOMES)[:5] == list(bugs.OUTCOMES)


def test_the_first_verdict_is_five_cells_away_and_shift_enter_is_said_before():
    """Notebook 00 begins with its kernel and the check of it: pictures come after."""
    first = cells("00_start_here")[:5]
    assert [cell.cell_type for cell in first] == ["markdown"] * 3 + ["code"] * 2
    assert "**Shift+Enter**" in first[0].source and "five times" in first[0].source
    assert "def gemm(" in first[3].source and first[4].source == 'try_out("step01", gemm)'
