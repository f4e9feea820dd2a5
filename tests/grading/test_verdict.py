"""The JSON form of a verdict is what docs/verdict.md says of it."""

import ast
import json
import re
import string
from pathlib import Path

from course_utils.artifact import Place
from course_utils.cause import Cause
from course_utils.grading import steps, words
from course_utils.grading.found import Found, found
from course_utils.grading.verdict import NOT_REACHED, VERSION, Verdict, score
from course_utils.run.emulator.explain.findings import KINDS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "verdict.md").read_text()
# where causes are made; the emulator's kinds have a table of their own
MAKERS = [
    *(ROOT / "course_utils" / "grading").glob("*.py"),
    *(ROOT / "course_utils" / "run").glob("*.py"),
    ROOT / "course_utils" / "ptx" / "registers.py",
]


def example() -> Verdict:
    """A kernel whose slices of A do not follow the loop, at a place, with what folds below it."""
    step = steps.find("step04")
    tile = {"tensor": "D", "rows": (0, 64), "columns": (0, 64)}
    why = found(
        "k",
        "slice-stays",
        Place("mine.py", 34, "T.tma_copy(A[ms, 0:64], A_shared, barrier=full)"),
        **tile,
        A_columns=(0, 64),
        B_columns=(64, 128),
        operand="A",
    )
    where = {"rows": (0, 256), "columns": (0, 512), "tiles": 32, "of_tiles": 32, "ran": False}
    count = Cause("count", "wrong", {"wrong": 131_072, "of": 131_072, "percent": 100.0, "where": where})
    detail = "emulated: wrong at 256 x 512 x 320"
    failed = score(step, "results", False, detail, why, Found(count), topic="wrong", share=0.0)
    parts = [
        score(step, "compiles", True, "168 registers per thread, no bytes spilled"),
        score(step, "tensor maps", True, "3 tensor maps, all legal"),
        score(step, "instructions", True, "all that the step requires survived the compiler"),
        failed,
        score(step, "speed", None, "not timed: a wrong result has no speed", idle=NOT_REACHED),
    ]
    return Verdict.of(step.id, "tilelang", "emulator", parts)


def rows(heading: str) -> dict[str, str]:
    """The table below a heading of the page: what its first column names, and the second."""
    text = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.*?) \|$", text, re.M))


def keys(value: object, inside: str = "") -> set[str]:
    """Every key of a JSON object, with those that it is inside of: ``checks[].name``."""
    if isinstance(value, dict):
        return {inside + key for key in value}.union(
            *(keys(one, f"{inside}{key}.") for key, one in value.items() if not key.endswith("values"))
        )
    if isinstance(value, list):
        return set().union(*(keys(one, f"{inside[:-1]}[].") for one in value if isinstance(one, dict)))
    return set()


def test_the_example_is_made_by_the_code():
    [block] = re.findall(r"```json\n(.*?)```", PAGE, re.S)
    assert json.loads(block) == json.loads(json.dumps(example().to_dict())), json.dumps(
        example().to_dict(), indent=1
    )


def test_every_key_is_in_the_table():
    assert set(rows("Keys")) == keys(example().to_dict())
    assert example().to_dict()["version"] == VERSION and f"version {VERSION}" in PAGE


def test_every_kind_is_in_the_tables():
    assert rows("Kinds of causes") == words.KINDS
    assert set(rows("Kinds of findings")) == set(KINDS)


def made() -> set[tuple[str, str]]:
    """(kind, case) of each cause that the code makes with a kind and a case that stand there."""
    pairs = set()
    for path in MAKERS:
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(getattr(node, "func", None), "id", "")
            if name in ("Cause", "found") and isinstance(node, ast.Call) and len(node.args) >= 2:
                kind, case = node.args[:2]
                if isinstance(kind, ast.Constant) and isinstance(case, ast.Constant):
                    pairs.add((kind.value, case.value))
            if name == "_is" and isinstance(node, ast.Call) and isinstance(node.args[0], ast.Constant):
                pairs.add(("found", node.args[0].value))
    return pairs


def test_what_the_code_makes_has_a_kind_and_a_sentence():
    pairs = made()
    assert len(pairs) > 80
    assert {kind for kind, _ in pairs} <= {*words.KINDS, *KINDS}
    assert {case for _, case in pairs} <= {*words.SENTENCES}


def test_a_card_never_says_more_than_the_whole_sentence():
    """A shorter form of a sentence leaves words out, and adds none."""
    for case, template in words.SENTENCES.items():
        names = {name for _, name, _, _ in string.Formatter().parse(template) if name}
        assert template.count("<") == template.count(">"), case
        if "<" in template and not names - {"tensor", "rows", "columns", "k_tiles", "k_tile", "weights"}:
            values = {"tensor": "D", "rows": (0, 64), "columns": (0, 64), "k_tiles": 5, "k_tile": 64}
            weights = {"missing": [1], "repeated": {"2": [0]}}
            for full, *shorter in words.sentences(Cause("k", case, values | {"weights": weights})):
                everything = re.findall(r"\w+", full)
                assert shorter
                for one in shorter:
                    said = re.findall(r"\w+", one)
                    assert said == everything[: len(said)]
    alternatives = words.SENTENCES["wrong-k-tiles"]
    assert "<: a tile was read too early, too late or not at all" in alternatives  # all of them, or none


def test_a_warning_of_a_part_that_passed_has_a_line_of_its_own():
    step = steps.find("step04")
    detail = "emulated: right at 3 sizes\nWarning: Warp 0 loads over shared memory (mine.py, line 40)."
    verdict = Verdict.of("step04", "cute", "emulator", [score(step, "results", True, detail)])
    shown = str(verdict).splitlines()
    assert shown[-2].endswith("emulated: right at 3 sizes") and shown[-1].startswith("    Warning: Warp 0")
