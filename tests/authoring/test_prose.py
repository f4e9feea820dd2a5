"""docs/style.md holds of what the course says, and its linter finds what it bans."""

import re

import pytest

from authoring import prose
from authoring.site.pages import terms

PAGE = prose.STYLE.read_text()
RULES = prose.rules(PAGE)
PAIRS = list(prose.tables(PAGE, "before", "after"))
GLOSSARY = terms((prose.ROOT / "notebooks" / "glossary.md").read_text())


def said(text):
    return prose.findings([prose.Text("a.md", 1, text)], RULES)


def test_the_course_says_nothing_that_the_style_page_bans():
    assert prose.findings(prose.texts(), RULES) == []


def test_the_style_page_shows_before_and_after_and_keeps_its_own_rules():
    assert len(PAIRS) >= 40
    assert [after for _, after in PAIRS if said(after)] == []
    assert all(before != after for before, after in PAIRS)


def test_every_term_of_the_style_page_is_in_the_glossary():
    named = [row[0] for row in prose.tables(PAGE, "term", "as in", "instead of")]
    assert len(named) == len(set(named)) >= 18
    assert {
        name for name in named if name not in GLOSSARY and name.removesuffix("s") not in GLOSSARY
    } == set()
    assert list(GLOSSARY) == sorted(GLOSSARY, key=str.lower)


@pytest.mark.parametrize(
    "text, words",
    [
        ("One tile a CTA is enough.", "One tile a CTA"),
        ("The consumer gave back\nthe stage.", "gave back"),
        ("D needs 2 arrivals; it lacks 1 of 2.", "lacks 1 of"),
        ("![two loads under way](a.svg)", "under way"),
        ("## Two loads under way", "under way"),
    ],
)
def test_a_banned_phrase_is_found_wherever_somebody_reads_it(text, words):
    (line,) = said(text)
    assert line.startswith("a.md:1: ") and f'"{words}"' in line and "; write: " in line


@pytest.mark.parametrize(
    "text",
    [
        "`under way` is code, and so is\n```text\nunder way\n```",
        "a [link](under way)",
        "444. A CTA runs on one SM",
        "the 227 KiB that a CTA may use, and 65,536 registers of an SM",
        "one tile per CTA",
    ],
)
def test_code_links_and_good_words_pass(text):
    assert said(text) == []


def test_messages_are_strings_of_three_words_and_no_docstrings():
    source = (
        '"""A stage is given back."""\nprint("a stage is given back", f"{1} is still under way", "a b")\n'
    )
    assert [text.text for text in prose.messages(source, "a.py")] == [
        "a stage is given back",
        " is still under way",
    ]
    assert len(prose.findings(prose.messages(source, "a.py"), RULES)) == 2


def test_long_sentences_and_paragraphs_are_listed_and_fail_nothing(capsys):
    text = "Short. Words " + "of a kind " * 10 + "end. " + "Again and again. " * 20
    (paragraph, sentence) = prose.long([prose.Text("a.md", 1, text)])
    assert "a paragraph of" in paragraph and "a sentence of 32 words" in sentence
    assert prose.long([prose.Text("a.md", 1, "| " + "cell " * 99 + "|")]) == []
    assert prose.main(["--long"]) == 0
    out, counted = capsys.readouterr()
    assert re.search(r"^0 banned phrases; (\d+) sentences", counted)[1] == str(out.count("a sentence of"))


def test_a_pattern_that_is_none_names_itself():
    with pytest.raises(ValueError, match=r"`\(` is not a regular expression"):
        prose.rules("| never | write |\n|---|---|\n| `(` | x |\n")
