"""Words in italics on the symptom map, and in each notebook's table of what can go wrong, are the check's
own: each occurs in a text of the course, or in what a test or a planted fault asks a verdict to say.
"""

import ast
import json
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from course_utils.compile.faults import blackwell, table

ROOT = Path(__file__).parents[2]
MAP = (ROOT / "notebooks" / "symptom_map.md").read_text()
# what the two compilers say themselves, and plain words that carry stress
THEIRS = (
    "Buffer A_shared is 3-dimensional",
    "but 1 index(es) were provided",
    "For nodes require a scalar integer as the loop_var",
    "Variables used inside staged control flow must be defined before",
    "Early exit (break) is not allowed",
    "expects a pointer to an mbarrier to be provided via the tma_bar_ptr",
    "expects smem and gmem have the same size in the first rank",
    "Type mismatch, store Float32 to Tensor with element type Float16",
    "requires a barrier argument",
    "NotImplementedError: TODO 1",
)
PLAIN = ("italics", "telling counts", "results", "instructions", "compiles", "path")


def templates():
    """Every string of the course's Python and of its tests, with # for what is put in."""
    sources = [*(ROOT / "course_utils").rglob("*.py"), *(ROOT / "tests").rglob("*.py")]
    for path in sources:
        if path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = (v.value if isinstance(v, ast.Constant) else "#" for v in node.values)
                yield "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
    for fault in (*table(), *blackwell()):
        yield from fault.says
    for path in (ROOT / "course_utils").rglob("*.toml"):
        for entries in tomllib.loads(path.read_text()).values():
            yield from (text for entry in entries for text in entry.values())


def forms(text):
    """A template as it reads in full of one and of several, ``{who:waits|wait}``, with D for a tensor and #
    for what else it puts in.
    """
    text = re.sub("[<>]", "", text.replace("{tensor}", "D"))
    for words in (r"\1", r"\2"):
        yield re.sub(r"\{[^{}]*\}", "#", re.sub(r"\{\w+:([^{}|]*)\|([^{}]*)\}", words, text))


def alike(text):
    """Text with # for each number, and for what a template leaves open."""
    text = re.sub(r"\\[1-9]|\\d\+?|`", lambda found: "" if found[0] == "`" else "#", text)
    text = re.sub(r"\b(\d[\d,]*|n|m)\b", "#", text.lower())
    return re.sub(r"\s+", " ", re.sub(r"#(:#|, #)+", "#", text))


@cache
def texts():
    return [alike(form) for text in (*templates(), *THEIRS) for form in {text, *forms(text)}]


def rows():
    """The rows of each notebook's tables of what can go wrong, in the cells of that section."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        inside = False
        for cell in json.loads(path.read_text())["cells"]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown" and (heading := re.search(r"^## (.+)$", text, re.M)):
                inside = heading[1] == "What can go wrong"
            if cell["cell_type"] == "markdown" and inside:
                yield from (line for line in text.splitlines() if line.startswith("|"))


ITALICS = re.findall(r"(?<!\*)\*([^*|\n]+)\*(?!\*)", "\n".join([MAP, *rows()]))
PHRASES = sorted(set(ITALICS) - set(PLAIN))


@pytest.mark.parametrize("words", PHRASES)
def test_words_in_italics_are_the_checks_own(words):
    pieces = [piece.strip(" ,") for piece in re.split(r"\.\.\.|: ", alike(words))]
    missing = [piece for piece in pieces if piece and not any(piece in text for text in texts())]
    assert not missing
