"""One finding on one card: at most 40 words, the learner's line among them, and nothing lost."""

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from course_utils.artifact import Artifact, Place
from course_utils.cause import Cause, Warps, Who, data, from_data
from course_utils.compile.errors import CompileError
from course_utils.grading import cards, check, steps, verdict
from course_utils.grading.cards import Card
from course_utils.grading.found import of_error, of_text
from course_utils.grading.refine import Run, Wrong
from course_utils.run.backends import Emulator, Launch
from course_utils.run.emulator.explain.findings import Finding
from course_utils.run.protocol import Answer

FINDING = {
    "kind": "deadlock",
    "text": "producer warp 0 of CTA 3 waits for empty[0], parity 0: phase 0 is missing 127 of 128 arrivals",
    "advice": "Count who arrives.",
    "more": ["the wait: mine.py, line 9"],
    "where": "mine.py, line 7: empty = T.alloc_barrier([128])",
    "ptx": "PTX line 3: mbarrier.init",
    "file": "mine.py",
    "line": 7,
    "code": "empty = T.alloc_barrier([128])",
    "added": False,
    "generated": "kernel.cu:46: empty[0].init(128);",
}


def words(card: Card) -> int:
    return len(f"{card.text} {card.place} {card.code}".split())


ARTIFACT = Artifact(
    "cute", "k", "", b"", *[(1, 1, 1)] * 3, 0, (), (), resources=None, python={"/no/mine.py": ""}
)


def of(*findings, artifact=ARTIFACT, **fields):
    answer = Answer(findings=tuple(findings), **fields)
    launch = Launch((256, 512, 64), artifact)
    return cards.of_wrong(Run(launch, answer, Wrong(answer.findings, answer.causes)))


def card_of(text: str, topic: str) -> Card:
    return cards.of_found(of_text(text), topic)


def test_a_finding_leads_with_who_what_and_the_line():
    card = of(FINDING, finished=False)
    assert card.text == FINDING["text"][0].upper() + FINDING["text"][1:] + "."
    assert (card.place, card.code, card.topic) == ("mine.py, line 7", FINDING["code"], "never-ends")
    assert words(card) <= cards.WORDS
    assert card.more == (
        "Count who arrives.",
        "the wait: mine.py, line 9",
        "in the generated code: " + FINDING["generated"],
    )


def test_what_the_compiler_added_is_said_to_be_added():
    assert of(FINDING | {"added": True}).place == "what the compiler added after mine.py, line 7"
    unknown = of(FINDING | {"file": "", "line": 0, "code": "", "generated": ""})
    assert (unknown.place, unknown.code) == ("", "") and FINDING["ptx"] in unknown.more


def test_others_and_numbers_fold():
    others = [FINDING | {"kind": f"k{n}", "text": f"other {n}"} for n in range(6)]
    causes = (Cause("count", "wrong-somewhere", {"wrong": 3, "of": 9, "tensor": "D"}),)
    card = of(FINDING, *others, causes=causes)
    assert sum(text.startswith("Also k") for text in card.more) == cards.ALSO
    assert "And 2 more findings; `course trace` shows them all." in card.more
    assert card.more[-1] == "3 of 9 elements of D are wrong."
    assert card.more[-1] not in of(FINDING, finished=False, causes=causes).more


@pytest.mark.parametrize("length", [1, 20, 39, 40, 41, 60, 500])
@pytest.mark.parametrize("between", [" ", ", ", ". ", "\n"])
def test_no_text_makes_more_than_40_words_and_none_is_lost(length, between):
    text = between.join(f"word{n}" for n in range(length))
    card = card_of(text, "wrong")
    assert 0 < words(card) <= cards.WORDS
    assert all(f"word{n}" in card.full_text for n in range(length))
    long = of(FINDING | {"text": text})
    assert words(long) <= cards.WORDS and all(
        f"word{n}" in long.full_text.replace("Word", "word") for n in range(length)
    )


def test_what_is_cut_goes_on_below_and_is_not_said_twice():
    card = card_of(", ".join(f"part {n}" for n in range(40)), "wrong")
    assert card.more[0].startswith("... ") and not set(card.text.split(", ")) & set(card.more[0].split(", "))
    assert len(card_of("x" * 20_000, "compile").text) < 2 * cards.LETTERS


def test_a_file_that_lies_on_disk_can_be_asked_what_became_of_its_line(tmp_path):
    path = tmp_path / "mine.py"
    path.touch()
    card = of(FINDING, artifact=replace(ARTIFACT, python={str(path): ""}))
    assert f"`course source {path} --dsl cute --line 7`" in card.full_text
    assert "course source" not in of(FINDING).full_text


def test_the_place_of_a_text_is_its_own():
    place = Place("mine.py", 3, "return a // b")
    error = CompileError("trace", "gemm raised ValueError: no", place=place, under="printed")
    card = cards.of_found(of_error(error), "compile")
    assert (card.text, card.place, card.code) == (
        "gemm raised ValueError: no",
        "mine.py, line 3",
        "return a // b",
    )
    assert card.more == ("printed",)
    assert str(card) == "gemm raised ValueError: no\n  at mine.py, line 3: return a // b"
    assert str(error) == f"{card}\nprinted"


def test_words_that_look_like_a_place_are_no_place():
    card = card_of("gemm raised ValueError: no\n  at mine.py, line 3: x", "compile")
    assert card.where is None and "mine.py, line 3" in card.text


def test_a_long_line_keeps_its_call_and_its_end():
    line = "T.wgmma_gemm(A_shared[s, :, :], B_shared[s, :, :], acc, transpose_B=True, clear_accum=(k == 0))"
    code = of(FINDING | {"code": line}).code
    assert code.startswith("T.wgmma_gemm(A_shared[s, :, :], B_sh") and code.endswith(
        " ... transpose_B=True, clear_accum=(k == 0))"
    )
    assert len(of(FINDING | {"code": "x" * 200}).code) <= cards.CODE
    assert of(FINDING | {"code": "x" * cards.CODE}).code == "x" * cards.CODE


@pytest.mark.parametrize(
    "answer, words",
    [
        (Answer(finished=False, kinds=("deadlock",)), "no end"),
        (Answer(finished=False, kinds=("out-of-bounds",)), "stopped by a fault"),
        (Answer(kinds=("proxy-fence",)), "wrong"),
        (Answer(error="timeout"), "no end"),
        (Answer(error="died"), "ended with an error"),
    ],
)
def test_only_what_waits_or_loops_for_ever_has_no_end(answer, words):
    assert check.ended(answer) == words


def test_a_warning_folds_below_what_is_wrong():
    assert "A tile starts at 128." in of(FINDING, remarks=("a tile starts at 128",)).more


def test_empty_text_is_no_fault():
    assert card_of("", "wrong").full_text == ""


def test_the_barriers_of_a_finding_fold_below_it_as_a_table():
    table = "mbarrier  counts\nfull[0]   1"
    card = of(FINDING | {"ledger": table})
    assert card.tables == (table,) and table in card.more and table in card.full_text
    assert words(card) <= cards.WORDS and of(FINDING).tables == ()


def test_what_a_kernel_printed_is_that_of_the_first_wrong_run():
    right, wrong = Answer(ok=True, printed="right\n"), Answer(printed="wrong\n")
    launch, machine = Launch((256, 512, 64), ARTIFACT), Emulator()

    def output(*answers):
        answered = [(launch, answer) for answer in answers]
        return check.verdict(steps.find("step01"), "cute", machine, [], answered, []).output

    assert output(right, wrong) == "wrong\n" and output(right) == "right\n"
    assert output(Answer(), right) == "right\n" and output() == ""


def test_a_sentence_is_cut_between_its_clauses_before_it_is_cut_inside_one():
    card = card_of(f"warps wait for full[0]; {'and ' * 20}warp 0, which came before, {'so ' * 20}ended", "x")
    assert card.text == "warps wait for full[0]."


def test_a_finding_of_two_sentences_keeps_the_first_whole_where_both_do_not_fit():
    first = f"CTAs 0 and 1 both store D; {'at ' * 20}which tile does each begin?"
    card = of(FINDING | {"text": f"{first} {'Does ' * 12}the order differ?"})
    assert card.text == first and words(card) <= cards.WORDS
    assert card.more[0] == f"{'Does ' * 12}the order differ?"


def test_a_finding_leaves_out_marked_parts_where_there_is_no_room():
    who = Who((Warps("consumer", (4, 5, 6, 7)),))
    values = {"reader": Cause("", "operand of wgmma", {"side": "A"}), "who": who, "writer": "full[1]"}
    values |= {
        "phase": 1,
        "asked": "asked for parity 0",
        "behind": "phase 0 had already satisfied",
        "line": " " * 5,
    }
    finding = Finding(Cause("read-before-load", "read after another phase's wait", values), "error", "")
    (full, brief), *rest = finding.sentences
    assert not rest and full == finding.detail == f"{brief}, which phase 0 had already satisfied"
    fields = {"text": finding.detail, "sentences": finding.sentences}
    text = "D = A[one, two, three, four, five, six, seven]"
    card = of(FINDING | fields | {"code": f"{text} @ B"})
    assert card.text == f"{brief[0].upper()}{brief[1:]}." and words(card) <= cards.WORDS
    assert card.more[0] == f"{full[0].upper()}{full[1:]}."
    assert of(FINDING | fields | {"code": ""}).text == card.more[0]


def test_a_cause_comes_back_from_data_with_its_warps():
    who = Who((Warps("consumer", (4, 5), (0, 1)),))
    cause = Cause("k", "a case", {"who": who, "reader": Cause("", "a thread"), "count": 3})
    assert from_data(json.loads(json.dumps(data(cause)))) == cause
    assert str(who.anywhere) == "consumer warps 4-5"


@pytest.mark.parametrize(
    "points, text", [(9.0, "9"), (6.5, "6.5"), (10 / 8, "1.25"), (17 / 3, "5.7"), (0.1 + 0.2, "0.3")]
)
def test_points_are_written_as_people_do(points: float, text: str) -> None:
    assert verdict.number(points) == text


@pytest.mark.parametrize(
    "text, head, rest",
    [
        (f"a reads b: {'c ' * 36}d, and no barrier follows", None, "No barrier follows."),
        (f"{'a ' * 30}b; found it in 0 of 9 tiles, in 2 CTAs{' c' * 12}", None, "Found it in 0 of 9 tiles"),
        (f"{'a ' * 30}b, by c{' d' * 20}", None, "... by c"),
        ("nothing came of it", "nothing came of it.", None),
        ("does it end?", "does it end?", None),
    ],
)
def test_what_is_cut_off_is_a_sentence_or_says_that_it_goes_on(text, head, rest):
    card = card_of(text, "missing")
    assert card.text.endswith((".", "?"))
    assert head in (None, card.text)
    assert not card.more if rest is None else card.more[0].startswith(rest) and card.more[0].endswith(".")


def test_a_text_ends_as_a_sentence_does():
    assert cards.stopped("needs a fence") == "needs a fence." and cards.stopped("") == ""
    assert cards.of_found(of_text("needs a fence", Place("a.py", 3, "copy()")), "x").text == "needs a fence."


CLAUSES = r"[;:.?!](?:\s|$)|, (?:and|but|so|which|because) "


def sentences_with_alternatives():
    """Sentences of the course with "a, b or c" in them; a figure stands for what an f-string fills in."""
    found = set()
    for path in Path(cards.__file__).parents[1].rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in (node for node in nodes if node not in docstrings):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            texts = [part.value if isinstance(part, ast.Constant) else "7" for part in parts]
            if texts != ["7"] and all(isinstance(text, str) for text in texts):
                found |= set(re.split(r"(?<=[.?!])\s+|\n", " ".join("".join(texts).split())))
    return sorted(text for text in found if re.search(r", [^;:|]*\bor\b", text))  # | is a regex's


@pytest.mark.parametrize("before", ["", "D is wrong in K tile 4 (2 times): ", "D is wrong, as is its copy; "])
def test_a_list_of_alternatives_is_kept_whole_or_dropped_whole(before):
    course = sentences_with_alternatives()
    assert any("too early, too late or not at all, or its index" in text for text in course)
    for text in (*course, "is it early, late, or of T.copy, or late by 0.5, or 0:64"):
        whole = before + text
        for room in range(16, len(whole.split())):
            head, rest = cards._cut(whole, room)
            kept = head.removesuffix("...").removesuffix(".")
            left = re.split(CLAUSES, whole[len(kept) :])[0]  # of the clause in which it was cut
            cut = re.split(CLAUSES, kept)[-1]
            assert not (re.search(r"\bor\b", left) and "," in cut + left[: not head.endswith("...")]), (
                head,
                rest,
            )


def test_a_card_of_a_wrong_run_asserts_none_of_several_guesses():
    guess = "a tile was read too early, too late or not at all, or its index is off by one"
    for words in range(20, 40):
        lead = " ".join(["D"] * words)
        text = str(card_of(f"{lead}: {guess}", "wrong"))
        assert ("too early" in text) == ("off by one" in text)
