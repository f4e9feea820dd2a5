"""One finding as a card: what is wrong and the learner's own line, in at most 40 words. All else folds below.

A card says whole sentences, or a sentence's shorter form (``words.sentences``). Words of others, as a
compiler's, have none: these alone are cut, between clauses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from course_utils.artifact import Artifact, Place, file_name
from course_utils.cause import Cause, data
from course_utils.grading import hints, lines, refine, words
from course_utils.grading.found import Found, of_finding, place_of, within_a_cluster
from course_utils.grading.refine import Run, Wrong
from course_utils.problems import PROBLEMS

WORDS = 40  # of a card, its line included
CODE, BRIEF, BRIEFEST = 80, 48, 40  # characters of a quoted line; where a sentence needs the room
LETTERS = 400  # of its text, where words have no end
# Behind a comma: a list of alternatives goes on.
ALTERNATIVE = r"(?!(?:and|but|so|which|because) )(?:[^;:.?!]|[;:.?!](?=\S))*?\bor\b"
ALSO = 4  # further findings that are named
# Where the symptom map goes on, by the emulator's kind of finding.
_TOPICS = (
    ("never-ends", "deadlock livelock register-budget not-resident"),
    ("bytes", "expect-tx barrier-overrun phase-lapped"),
    ("cluster", "cluster-exit cluster-start cluster-rank cluster-barrier"),
    ("wrong", "swizzle-mismatch same-tiles stage-unread"),
    ("races", "read-before-load read-before-write overwrite-while-read overwrite-before-use load-twice"),
    ("races", "ring-overrun stored-twice store-wait-elsewhere write-unordered proxy-fence store-incomplete"),
    ("races", "proxy-fence-overwrite proxy-fence-refill accumulator-before-wait exit-in-flight"),
    ("blackwell", "accumulator-before-commit commit-covers-nothing mma-issuers mma-descriptor tmem-alloc"),
    ("blackwell", "tmem-uninitialised tmem-overwrite tmem-read-before-write tmem-wait tmem-unallocated"),
    ("blackwell", "tmem-lanes tmem-freed-early tmem-leak"),
)
TOPICS = {kind: topic for topic, kinds in _TOPICS for kind in kinds.split()}

# Findings that leave an emulated run's numbers as they are.
HARMLESS = {"proxy-fence", "proxy-fence-overwrite", "wgmma-fence"}
LEFT_OUT = {"load-unwaited"}  # ... and that go with a sum which says more
# Guesses at the order of tiles: two CTAs that store one place say more than these.
MIXED_UP = {"zeros", "corner-of-the-grid", "order-mixed-up"}


@dataclass(frozen=True)
class Card:
    """One finding. ``text`` says it, ``where`` is the learner's own line, None where none is known, and
    ``code`` as much of it as there is room for; ``topic`` is its anchor in the symptom map; ``more`` folds
    below it, a line each, and of that ``tables`` are the texts in columns. ``kind`` is that of a finding of
    the emulator, "" where it is none. ``found`` is all of it as data, what leads first.
    """

    text: str
    where: Place | None = None
    code: str = ""
    topic: str = ""
    more: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    kind: str = ""
    found: tuple[Found, ...] = ()

    def __str__(self) -> str:
        line = f"{self.place}: {self.code}" if self.code else self.place
        return f"{self.text}\n  at {line}" if line else self.text

    @property
    def place(self) -> str:
        """kernel.py, line 42."""
        return self.where.at if self.where else ""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the kind and case are those of what was found first."""
        lead = self.found[0].cause if self.found else None
        return {
            "text": self.text,
            "kind": lead.kind if lead else "",
            "case": lead.case if lead else "",
            "place": data(self.where),
            "topic": self.topic,
            "more": list(self.more),
        }

    @property
    def full_text(self) -> str:
        """The card and all that folds below it, as one text."""
        return "\n".join([str(self), *self.more])


def of_part(every: Sequence[Found], topic: str, runs: Sequence[Run]) -> Card | None:
    """A card of what a part found, or of its runs that were wrong: the first leads, and the others fold below
    it. None where there is neither.
    """
    card = _of_runs(*runs) if runs else None
    if not every:
        return card
    below = [*map(_also, every[1:]), *([card.full_text] if card else [])]
    return replace(of_found(every[0], topic, below), found=(*every, *(card.found if card else ())))


def of_found(one: Found, topic: str = "", more: Iterable[str] = ()) -> Card:
    """A card of what was found."""
    said, values = _of_causes([one.cause]), one.cause.values
    if one.cause.kind == "text":  # a compiler's words are its own
        said = _of_others(values["text"] if topic == "compile" else stopped(values["text"].strip()))
        more = (*values.get("under", ()), *more)
    return replace(_card(said, one.place, topic, more), found=(one,))


def _also(one: Found) -> str:
    """What was found beside the first."""
    text = stopped(words.text(replace(one.cause, values={**one.cause.values, "also": True})))
    return f"{text}\n  at {one.place}" if one.place else text


def _of_runs(lead: Run, *others: Run) -> Card:
    also = [f"at {_at(run)}: {text}" for run in others if (text := _beside(lead.wrong, run))]
    schedule = "" if lead.answer.schedule is None else f", emulated schedule {lead.answer.schedule}"
    return of_wrong(lead, [*also, f"Seen at {_at(lead)}{schedule}."])


def _at(run: Run) -> str:
    """The size with its letters: "M, N, K = 256 x 512 x 64"."""
    return f"{PROBLEMS[run.launch.kind].takes} = {' x '.join(map(str, run.launch.size))}"


def _beside(lead: Wrong, run: Run) -> str:
    """What folds below the run that leads, of another one."""
    wrong = run.wrong
    if wrong.findings:
        return words.text(wrong.lead) if wrong.lead else wrong.findings[0]["text"]
    if run.answer.error:
        return hints.text(run.answer, run.launch.artifact)
    return words.text(*beside(lead, wrong.causes))


def of_wrong(run: Run, also: Sequence[str] = ()) -> Card:
    """What is wrong with a run. ``also`` is what is to be said of other runs."""
    wrong, answer, artifact = run.wrong, run.answer, run.launch.artifact
    if wrong.findings:
        return _of_findings(run, also)
    causes = hints.causes(answer, artifact) or wrong.causes
    topic = "wrong" if not answer.error else "never-ends" if answer.error == "timeout" else "crashes"
    below = filter(None, [words.text(*wrong.below), *map(_with_place, wrong.behind)])
    more = (*map(sentence, answer.remarks), *below, *also)
    if wrong.place or answer.error or not answer.finished:
        card = _card(_of_causes(causes), wrong.place, topic, more)
    else:
        card = _of_numbers(causes, artifact, more)
    known = [Found(cause, card.where) for cause in causes]
    return replace(card, found=(*known, *map(of_finding, wrong.behind)))


def _with_place(finding: dict) -> str:
    return f"{sentence(finding['text'])} ({finding['where']})"


def _of_findings(run: Run, also: Sequence[str]) -> Card:
    """What the emulator found, which leads but where the numbers say more."""
    wrong, artifact = run.wrong, run.launch.artifact
    (first, *others), causes = wrong.findings, wrong.causes
    known = (*map(of_finding, wrong.findings), *map(Found, causes))
    if wrong.finding is None and first["kind"] == "stored-twice":
        return replace(_stored_twice(wrong, first, also), found=known)
    if wrong.finding is None:
        under = (_with_place(first), first["advice"], *first["more"], *also)
        return replace(_card(_of_causes(causes), None, "wrong", under), found=known)
    more = [first["advice"], *first["more"]]
    if first["generated"]:
        more.append(f"in the generated code: {first['generated']}")
    elif first["ptx"]:
        more.append(first["ptx"])
    tables = tuple(filter(None, (first.get("ledger", ""),)))
    more += tables
    more += [f"Also {other['kind']}: {other['text']} ({other['where']})" for other in others[:ALSO]]
    if len(others) > ALSO:
        more.append(f"And {len(others) - ALSO} more findings; `course trace` shows them all.")
    more += map(sentence, run.answer.remarks)
    if run.answer.finished and (numbers := words.text(*beside(wrong, causes))):
        more.append(numbers)
    if path := next((path for path in artifact.python if file_name(path) == first["file"]), ""):
        shown = f"`course source {path} --dsl {artifact.dsl} --line {first['line']}`"
        more += [f"{shown} shows what became of this line."] * Path(path).is_file()
    topic = TOPICS.get(first["kind"], "words")
    card = _card(_of_finding(first, wrong.lead), place_of(first), topic, (*more, *also))
    return replace(card, tables=tables, kind=first["kind"], found=known)


def beside(lead: Wrong, causes: Sequence[Cause]) -> list[Cause]:
    """Of the numbers' ``causes``, of the run that leads or of another, those that fold below it: how many are
    wrong alone where a race, a hang or a fault has made them so; no guess where a cause is known.
    """
    kinds = {finding["kind"] for finding in lead.findings}
    if kinds and not kinds <= HARMLESS:
        return refine.known(causes) if kinds <= LEFT_OUT else refine.counted(causes)
    if kinds:
        return [*causes]
    return [*causes] if refine.vague(lead.causes) else refine.known(causes)


def _stored_twice(wrong: Wrong, twice: dict, also: Sequence[str]) -> Card:
    """Two CTAs have stored one place, and the numbers are wrong: they say more. Both, where there is room;
    where other places got nothing, it is the place of the store that is wrong.
    """
    said, where, causes = _of_finding(twice), place_of(twice), wrong.causes
    sure = within_a_cluster(twice) or any(one.case in MIXED_UP for one in causes)
    if wrong.gaps and (sure or causes[0].kind != "corner"):
        more = (words.text(*refine.counted(causes)), twice["advice"], *also)
        return _card(said, where, "wrong", more)
    card = _of_numbers(causes, where, (_with_place(twice), twice["advice"], *also))
    both = f"{said[0].forms[-1]} {card.text}"
    for code in (card.code, ""):
        if len(f"{both} {card.place} {code}".split()) <= WORDS:
            return replace(card, text=both, code=code)
    return card


@dataclass(frozen=True)
class _Sentence:
    """One that a card may say, in full and in its shorter forms, and the cause that it is of."""

    forms: tuple[str, ...]
    cause: Cause | None = None

    @property
    def full(self) -> str:
        return self.forms[0]

    @property
    def counts(self) -> bool:
        """Does it count alone? A copy's says as well where the elements belong."""
        return self.cause is not None and self.cause.kind in refine.COUNTS - {"copy"}


def _of_causes(causes: Iterable[Cause]) -> list[_Sentence]:
    return [_Sentence(tuple(map(stopped, one)), cause) for cause in causes for one in words.sentences(cause)]


def _of_finding(finding: dict, instead: Cause | None = None) -> list[_Sentence]:
    """A finding's sentences, or those that are said ``instead``."""
    if instead is None and "sentences" not in finding:
        return _of_others(sentence(finding["text"].strip()))
    said = finding["sentences"] if instead is None else words.sentences(instead)
    return [_Sentence(tuple(map(sentence, one))) for one in said]


def _of_others(text: str) -> list[_Sentence]:
    return [_Sentence((one,)) for one in re.split(r"(?<=[.?!])\s+|\n", text.strip())]


def _of_numbers(causes: Sequence[Cause], where: Place | Artifact | None, more: Iterable[str]) -> Card:
    """A card of wrong numbers. Its line is ``where``, or in an Artifact the one that those causes are about
    which the card says. How many elements are wrong gives way to the line.
    """
    said = _of_causes(causes)
    card, count = _laid_out(said, None, "wrong", more)
    shown = said[:count]
    if isinstance(where, Artifact):
        where = lines.of_numbers([one.cause for one in shown if one.cause], where)
    if where is None:
        return card
    whys = [*shown]
    while len(whys) > 1 and whys[-1].counts:
        whys.pop()
    of_a_tile = len(whys) > 1 and "rows" in getattr(whys[1].cause, "values", ())
    alone = whys[1:] if of_a_tile and whys[0].counts else whys
    for left, code in (
        (shown, _short(where.code, CODE)),
        (whys, _short(where.code, CODE)),
        (alone, _short(where.code, CODE)),
        (whys, _short(where.code, BRIEF)),
        (shown, ""),
        (whys, ""),
    ):
        text = card.text if left is shown else " ".join(one.full for one in left)
        if len(f"{text} {where.at} {code}".split()) <= WORDS:
            gone = (one.full for one in shown if one not in left)
            return replace(card, text=text, where=where, code=code, more=(*gone, *card.more))
    return card


def _card(said: Sequence[_Sentence], where: Place | None, topic: str, more: Iterable[str]) -> Card:
    return _laid_out(said, where, topic, more)[0]


def _laid_out(
    said: Sequence[_Sentence], where: Place | None, topic: str, more: Iterable[str]
) -> tuple[Card, int]:
    """The card with as many of these sentences as there is room for beside the line, and how many they are.
    The line is quoted with less where a sentence needs the room; one that is too long all the same is said
    in its longest form that fits, or cut.
    """
    first, *others = said = said or [_Sentence(("",))]
    codes = [_short(where.code if where else "", most) for most in (CODE, BRIEF, BRIEFEST)]

    def card(text: str, code: str, left: Iterable[str]) -> Card:
        rest = " ".join(left)
        return Card(text, where, code, topic, (*([rest] if rest else []), *more))

    def room(code: str) -> int:
        return WORDS - len(f"{where.at if where else ''} {code}".split())

    def fits(text: str, code: str) -> bool:
        return len(text.split()) <= room(code) and len(text) <= LETTERS

    whole = " ".join(one.full for one in said)
    brief = 0 if topic == "compile" else 1  # a compiler's words are often about what the line has
    for code in codes[: brief + 1]:
        if fits(whole, code):
            return card(whole, code, ()), len(said)
    for form in first.forms:
        for code in codes:
            if not fits(form, code):
                continue
            if form != first.full:
                return card(form, code, [one.full for one in said]), 1
            texts = [" ".join(one.full for one in said[:count]) for count in range(1, len(said) + 1)]
            count = sum(fits(text, code) for text in texts)
            return card(texts[count - 1], code, [one.full for one in said[count:]]), count
    text, cut = _cut(first.forms[-1], room(codes[brief]))
    if len(first.forms) > 1:  # what was left out is in the whole sentence
        cut = first.full
    return card(text, codes[brief], [cut, *(one.full for one in others)]), 1


def sentence(text: str) -> str:
    """A text of our own as a sentence, with its capital and its full stop."""
    return stopped(text[:1].upper() + text[1:])


def stopped(text: str) -> str:
    """A text that ends as a sentence does."""
    return text if not text or text.endswith((".", "?", "!", ":")) else f"{text}."


def _short(code: str, most: int = CODE) -> str:
    """The line, without its middle where it is long: a call's name is first, what matters is often last."""
    if len(code) <= most:
        return code
    tail, words = "", code.split(" ")
    while len(words[-1]) + len(tail) < most // 2:
        tail = f" {words.pop()}{tail}"
    return f"{code[: most - len(tail) - 4].rstrip()} ...{tail}"


def _cut(text: str, room: int) -> tuple[str, str]:
    """As many of a sentence's clauses as fit, and the rest of it: whole ones, if one fits, else up to a
    comma, but none in "a, b or c": what is left of such a list would say more than all of it.
    """
    kept, *clauses = re.split(r"(?<=;)\s+", text)
    if len(kept.split()) > room:
        kept, *clauses = re.split(rf"(?<=[;:])\s+|(?<=,)\s+(?!{ALTERNATIVE})", text)
    while clauses and len(f"{kept} {clauses[0]}".split()) <= room:
        kept = f"{kept} {clauses.pop(0)}"
    words = kept.split()
    head, left = " ".join(words[:room])[:LETTERS], " ".join(words[room:])
    if not left and len(head) < LETTERS:
        rest = " ".join(clauses)
        whole = kept.endswith((";", ":")) or rest.startswith(("and ", "but "))
        rest = sentence(re.sub(r"\A(and|but) ", "", rest)) if whole else f"... {rest}"
        return f"{head.rstrip(';:,')}.", rest
    return f"{head.rstrip(';:,')}...", " ".join(filter(None, ["...", left, *clauses]))
