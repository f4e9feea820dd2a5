"""Holds texts to docs/style.md: ``python -m authoring.prose``, which `make lint` runs, and ``--long``.

The page's tables are the rules: a pattern in code in the last column of *Terms*, or in the first of *Banned*,
is looked for in the README, CONTRIBUTING, docs/, the notebooks' Markdown, and the messages of the rooms that
a learner meets. Sentences and paragraphs that are too long are counted, and listed with ``--long``. They
fail nothing.

(Vale does more. Its package in the registry downloads the program from GitHub at its first run, so a machine
without that connection could not lint.)
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
STYLE = ROOT / "docs" / "style.md"
ROOMS = (
    "cli",
    "notebook",
    "drills",
    "figures",
    "grading",
    "compile",
    "tma",
    "run",
    "classroom",
)  # whose strings are messages
SENTENCE, PARAGRAPH = 30, 90  # words
_CELL = re.compile(r"(?<!\\)\|")  # between two cells of a table
_CODE = re.compile(r"`([^`]+)`")
# What is no prose: code, the target of a link, tags, comments, the dashes below a table's head.
_NO_PROSE = re.compile(
    r"```.*?```|``.*?``|`[^`\n]*`|\]\([^)]*\)|<code>.*?</code>|<!--.*?-->|<[^<>\n]*>", re.S
)
_FOLD = re.compile(r"</?(?:details|summary)>")
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)")
_END = re.compile(r"(?<=[.?!:;])[)\"*]*\s+(?=[A-Z\d*\"(\[])")


@dataclass(frozen=True)
class Rule:
    """A phrase that the style page bans, and what it says instead."""

    pattern: re.Pattern
    instead: str


@dataclass(frozen=True)
class Text:
    """A text that somebody reads. ``where``: a file, or a file and a cell; ``line`` its first line there."""

    where: str
    line: int
    text: str


def tables(page: str, *head: str) -> Iterator[list[str]]:
    """The rows of all tables of a Markdown page whose head is ``head``, cell by cell."""
    inside = False
    for line in page.splitlines():
        cells = [cell.strip() for cell in _CELL.split(line.strip())[1:-1]]
        if not cells:
            inside = False
        elif cells == list(head):
            inside = True
        elif inside and set("".join(cells)) - set("-: "):
            yield cells


def rules(page: str) -> list[Rule]:
    """The banned patterns of the style page. Raises ValueError where one is no regular expression."""
    found = []
    for term, example, never in tables(page, "term", "as in", "instead of"):
        found += [_rule(pattern, f"{term}: {example}") for pattern in _CODE.findall(never)]
    for never, instead in tables(page, "never", "write"):
        found += [_rule(pattern, instead) for pattern in _CODE.findall(never)]
    return found


def _rule(written: str, instead: str) -> Rule:
    written = written.replace(r"\|", "|")
    first = r"\b" if re.match(r"\w|\(.", written) else ""
    last = r"\b" if re.search(r"\w$", written) and not written.endswith(r"\b") else ""
    try:
        return Rule(re.compile(f"{first}(?:{written})".replace(" ", r"\s+") + last, re.I), instead)
    except re.error as error:
        raise ValueError(f"docs/style.md: `{written}` is not a regular expression: {error}") from error


def findings(texts: list[Text], held: list[Rule]) -> list[str]:
    """Each banned phrase as a line: where it is, what it says, what to write."""
    lines = []
    for text in texts:
        prose = _prose(text.text)
        for rule in held:
            for found in rule.pattern.finditer(prose):
                line = text.line + prose.count("\n", 0, found.start())
                words = " ".join(found[0].split())
                lines.append(f'{text.where}:{line}: "{words}"; write: {rule.instead}')
    return lines


def _prose(text: str) -> str:
    """The text with everything that is no prose blanked, line for line."""
    return _NO_PROSE.sub(lambda found: re.sub(r"[^\n]", "\0", found[0]), text)


def long(texts: list[Text]) -> list[str]:
    """Each sentence and each paragraph with too many words, as a line; tables, headings and code aside."""
    lines = []
    for text in texts:
        plain = _NO_PROSE.sub(lambda found: "X" if found[0][:1] == "`" else "", _FOLD.sub("\n\n", text.text))
        for block in _BLOCK.split(re.sub(r"^> ?", "", plain, flags=re.M)):
            if not block or block.lstrip()[:1] in ("|", "#", "!"):
                continue
            words = len(block.split())
            if words > PARAGRAPH:
                lines.append(f"{text.where}: a paragraph of {words} words: {' '.join(block.split()[:9])} ...")
            for sentence in _END.split(block):
                if (words := len(sentence.split())) > SENTENCE:
                    start = " ".join(sentence.split()[:9])
                    lines.append(f"{text.where}: a sentence of {words} words: {start} ...")
    return lines


def texts(root: Path = ROOT) -> list[Text]:
    """Everything that the rules hold for, below ``root``."""
    found = []
    pages = [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")]
    for path in sorted([*pages, *(root / "notebooks").glob("*.md")]):
        page = path.read_text() if path.exists() else ""
        if path.name == "style.md":  # its tables quote what it bans
            page = re.sub(r"^\|.*$", "", page, flags=re.M)
        found.append(Text(str(path.relative_to(root)), 1, page))
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        for cell in json.loads(path.read_text())["cells"]:
            if cell["cell_type"] == "markdown":
                where = f"{path.relative_to(root)}, cell {cell['id']}"
                found.append(Text(where, 1, "".join(cell["source"])))
    for room in ROOMS:
        for path in sorted((root / "course_utils" / room).rglob("*.py")):
            found += messages(path.read_text(), str(path.relative_to(root)))
    return found


def messages(source: str, where: str) -> list[Text]:
    """The strings of a module that are sentences: not its docstrings, and nothing of under three words."""
    tree = ast.parse(source)
    notes = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        Text(where, node.lineno, node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in notes
        and len(node.value.split()) > 2
    ]


def main(argv: list[str] | None = None) -> int:
    """Prints what is found. Returns 1 where a banned phrase is."""
    parser = argparse.ArgumentParser(
        prog="python -m authoring.prose", description="Hold texts to docs/style.md."
    )
    parser.add_argument("--long", action="store_true", help="also list long sentences and paragraphs")
    options = parser.parse_args(argv)
    read = texts()
    banned, extent = findings(read, rules(STYLE.read_text())), long(read)
    for line in banned + (extent if options.long else []):
        print(line)
    counts = [sum(f"a {kind} of" in line for line in extent) for kind in ("sentence", "paragraph")]
    print(
        f"{len(banned)} banned phrases; {counts[0]} sentences of more than {SENTENCE} words and {counts[1]} "
        f"paragraphs of more than {PARAGRAPH} (--long lists them)",
        file=sys.stderr,
    )
    return 1 if banned else 0


if __name__ == "__main__":
    sys.exit(main())
