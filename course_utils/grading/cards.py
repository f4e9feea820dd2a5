"""One finding as a card: who, what, what is missing and the learner's own line, in at most 40 words. All else
folds below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from course_utils.artifact import Artifact, file_name
from course_utils.grading import diagnosis, hints, lines
from course_utils.run.protocol import Answer

WORDS = 40  # of a card, its line included
CODE = 80  # characters of a quoted line
BRIEF = 48  # ... where a sentence needs the room
LETTERS = 400  # of its text, where words have no end
NEVER = "never written"  # a part of D
ALONE = "The kernel wrote"  # one place: the diagnosis then says more
PAIR = "they are one cluster"  # two that store one place: then it is their rank
MIXED = "mixed up"  # ... than that two CTAs store one place, but for this guess, where
OWN_TILE = "the grid has|one cluster"  # no x and y of a grid, or no loop, can be why
COUNT = r" [\d,]+ (?:of [\d,]+ elements|of them|others) (?:are wrong|were never written)[^?]*\.$"
GAPS = r"^[\d,]+ of [\d,]+ elements were never written[^?]*?\. (?=D\[)"
# Behind a comma: a list of alternatives goes on.
ALTERNATIVE = r"(?!(?:and|but|so|which|because) )(?:[^;:.?!]|[;:.?!](?=\S))*?\bor\b"
ALSO = 4  # further findings that are told
# Where the symptom map goes on, by the emulator's kind of finding.
TOPICS = {
    **dict.fromkeys(("deadlock", "livelock", "register-budget"), "never-ends"),
    **dict.fromkeys(("expect-tx", "barrier-overrun", "phase-lapped"), "bytes"),
    **dict.fromkeys(("cluster-exit", "cluster-rank"), "cluster"),
    **dict.fromkeys(("swizzle-mismatch", "same-tiles", "stage-unread"), "wrong"),
    **dict.fromkeys(
        ("read-before-load", "read-before-write", "overwrite-while-read", "overwrite-before-use")
        + ("load-twice", "ring-overrun", "stored-twice", "store-wait-elsewhere")
        + ("write-unordered", "proxy-fence", "proxy-fence-overwrite", "accumulator-before-wait")
        + ("exit-in-flight",),
        "races",
    ),
}

# Findings that leave an emulated run's numbers as they are.
HARMLESS = {"proxy-fence", "proxy-fence-overwrite", "wgmma-fence"}
LEFT_OUT = {"load-unwaited"}  # ... and that go with a sum which says more
# Findings of a kernel that never ends; any other that stops one is a fault.
ENDLESS = {"deadlock", "livelock", "register-budget", "instruction-limit", "absent-lanes"}


@dataclass(frozen=True)
class Card:
    """One finding. ``text`` says it, ``place`` and ``code`` are the learner's own line, "" where none is
    known; ``topic`` is its anchor in the symptom map; ``more`` folds below it, a line each, and of that
    ``tables`` are the texts in columns. ``kind`` is that of a finding of the
    emulator, "" where it is none.
    """

    text: str
    place: str = ""
    code: str = ""
    topic: str = ""
    more: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    kind: str = ""

    def __str__(self) -> str:
        line = f"{self.place}: {self.code}" if self.code else self.place
        return f"{self.text}\n  at {line}" if line else self.text

    @property
    def told(self) -> str:
        """The card and all that folds below it, as one text."""
        return "\n".join([str(self), *self.more])


def of_text(text: str, topic: str, more: Iterable[str] = ()) -> Card:
    """A card of a longer text: its first sentences, as many as fit; the rest folds. A line "  at PLACE: CODE"
    is the place.
    """
    text, _, where = text.partition("\n  at ")
    where, *under = where.split("\n")
    place, _, code = where.partition(": ")
    line = code = _short(code)
    room = _room(place, code)
    head, left = _fitting(text, room)
    if len(head.split()) > room:  # the line says it with less
        brief = _short(code, CODE // 2 if "; found " in head else BRIEF)
        if "; found " in head or len(head.split()) <= _room(place, brief):
            code, room = brief, _room(place, brief)
    # one long sentence: as far as its last clause that fits
    if len(head.split()) > room or len(head) > LETTERS:
        wanted, found, there = head.partition("; found ")
        briefs = [re.sub(r" [(][^()]*[)]", "", wanted), re.split(r": | [(]", wanted)[0]]
        fitting = [one for one in briefs if len(f"{one}{found}{there}".split()) <= room]
        # what is there says more than all that is wanted; how often an idea was seen says less
        if found and fitting and not there.startswith("it in "):
            head, cut = f"{fitting[0]}{found}{there}", head
            code = line if len(head.split()) <= _room(place, line) else code
        else:
            head, cut = _cut(head, room)
        left = [stopped(cut), *left]
    if topic != "compile":  # a compiler's words are its own
        head = stopped(head)
    rest = [" ".join(left)] if left else []
    return Card(head, place, code, topic, (*rest, *under, *more))


def of_answer(answer: Answer, artifact: Artifact, also: Sequence[str] = ()) -> Card:
    """What is wrong with a run. ``also`` is what is to be said of other runs."""
    if not answer.findings:
        topic = "wrong" if not answer.error else "never-ends" if answer.error == "timeout" else "crashes"
        card = of_text(hints.words(answer, artifact), topic, (*map(sentence, answer.remarks), *also))
        if answer.error or not answer.finished:
            return card
        return _at(card, *lines.of_numbers(card.text, artifact))
    first, *others = answer.findings
    if first["kind"] == "stored-twice" and answer.finished and answer.diagnosis:
        return _of_numbers(answer.diagnosis, first, also)
    if first["kind"] == "overwrite-while-read" and answer.finished and NEVER in answer.diagnosis:
        # a race overwrites what is stored, and leaves nothing out
        under = (f"{sentence(first['text'])} ({first['where']})", first["advice"], *first["more"])
        return of_text(answer.diagnosis, "wrong", (*under, *also))
    more = [first["advice"], *first["more"]]
    if first["generated"]:
        more.append(f"in the generated code: {first['generated']}")
    elif first["ptx"]:
        more.append(first["ptx"])
    tables = tuple(filter(None, (first.get("ledger", ""),)))
    more += tables
    more += [f"Also {other['kind']}: {other['text']} ({other['where']})" for other in others[:ALSO]]
    if len(others) > ALSO:
        more.append(f"And {len(others) - ALSO} more findings; `course trace` tells them all.")
    more += map(sentence, answer.remarks)
    if answer.finished and (told := beside(answer, answer.diagnosis)):
        more.append(told)
    place = f"{first['file']}, line {first['line']}" if first["file"] else ""
    if first["added"]:
        place = f"what the compiler added after {place}"
    text, code = sentence(first["text"].strip()), _short(first["code"])
    room = _room(place, code)
    if len(text.split()) > room:
        code = _short(code, BRIEF)
        room = _room(place, code)
    if len(text.split()) > room:
        text, left = _fitting(text, room)
        if len(text.split()) > room:
            text, rest = _cut(text, room)
            left = [rest, *left]
        more.insert(0, " ".join(left))
    if path := next((path for path in artifact.python if file_name(path) == first["file"]), ""):
        shown = f"`course source {path} --dsl {artifact.dsl} --line {first['line']}`"
        more += [f"{shown} shows what became of this line."] * Path(path).is_file()
    return Card(text, place, code, TOPICS.get(first["kind"], "words"), (*more, *also), tables, first["kind"])


def beside(lead: Answer, told: str) -> str:
    """What folds below the answer that leads, of the numbers ``told`` of it or of another run: how many are
    wrong alone where a race, a hang or a fault has made them so; no guess where a cause is known.
    """
    kinds = set(lead.kinds)
    if lead.findings and not kinds <= HARMLESS:
        return diagnosis.known(told) if kinds <= LEFT_OUT else diagnosis.counted(told)
    if lead.findings:
        return told
    return told if diagnosis.vague(lead.diagnosis) else diagnosis.known(told)


def _of_numbers(found: str, twice: dict, also: Sequence[str]) -> Card:
    """Two CTAs have stored one place, and the numbers are wrong: they say more. Both, where there is room;
    where other places got nothing, it is the place of the store that is wrong.
    """
    said, line = sentence(twice["text"]), f"{twice['file']}, line {twice['line']}" if twice["file"] else ""
    code = twice["code"]
    sure = MIXED in found and re.search(OWN_TILE, said) or PAIR in said
    if NEVER in found and (sure or not found.startswith(ALONE)):
        return _at(of_text(said, "wrong", (diagnosis.counted(found), twice["advice"], *also)), line, code)
    more = (f"{said} ({twice['where']})", twice["advice"], *also)
    card = of_text(found, "wrong", more)
    both = f"{sentence(twice['text'].partition(';')[0])} {card.text}"
    return _at(replace(card, text=both) if len(both.split()) <= WORDS else card, line, code)


def _at(card: Card, place: str, code: str) -> Card:
    """The card with its line, as far as there is room for it: how many elements are wrong gives way to it."""
    if card.place or not place:
        return card
    count = "".join(re.findall(COUNT, card.text))
    cause = card.text.removesuffix(count)
    gaps = "".join(re.findall(GAPS, cause))
    for text, quoted in (
        (card.text, _short(code)),
        (cause, _short(code)),
        (cause.removeprefix(gaps), _short(code)),
        (cause, _short(code, BRIEF)),
        (card.text, ""),
        (cause, ""),
    ):
        if len(text.split()) <= _room(place, quoted):
            left = (gaps if gaps and not text.startswith(gaps) else "", count)
            more = card.more if text == card.text else (*filter(None, map(str.strip, left)), *card.more)
            return replace(card, text=text, place=place, code=quoted, more=more)
    return card


def ended(answer: Answer) -> str:
    """How a run that is wrong came to its end, in a word or two."""
    if answer.error:
        return "no end" if answer.error == "timeout" else "ended with an error"
    if answer.finished:
        return "wrong"
    return "no end" if not answer.kinds or ENDLESS.intersection(answer.kinds) else "stopped by a fault"


def output(answers: Iterable[Answer]) -> str:
    """What the kernel printed: in the first run that is wrong, else in the first one."""
    ordered = sorted(answers, key=lambda answer: answer.ok)
    return next((answer.printed for answer in ordered if answer.printed), "")


def figure(answers: Iterable[Answer]) -> dict | None:
    """What a figure plays of the first run that has something, None where none has."""
    return next((answer.figure for answer in answers if answer.figure), None)


def _room(place: str, code: str) -> int:
    """Words that a card has left beside its line."""
    return WORDS - len(f"{place} {code}".split())


def sentence(text: str) -> str:
    """A text of our own as a sentence, with its capital and its full stop."""
    return stopped(text[:1].upper() + text[1:])


def stopped(text: str) -> str:
    """A text, which may have its line below it, that ends as a sentence does."""
    text, at, place = text.partition("\n  at ")
    ends = not text or text.endswith((".", "?", "!", ":"))
    return text + "." * (not ends) + at + place


def _short(code: str, most: int = CODE) -> str:
    """The line, without its middle where it is long: a call's name is first, what matters is often last."""
    if len(code) <= most:
        return code
    tail, words = "", code.split(" ")
    while len(words[-1]) + len(tail) < most // 2:
        tail = f" {words.pop()}{tail}"
    return f"{code[: most - len(tail) - 4].rstrip()} ...{tail}"


def _fitting(text: str, room: int) -> tuple[str, list[str]]:
    """The first sentence and as many more as fit in ``room`` words, and the sentences left."""
    sentences = re.split(r"(?<=[.?!])\s+|\n", text.strip())
    count = 1
    while count < len(sentences) and len(" ".join(sentences[: count + 1]).split()) <= room:
        count += 1
    return " ".join(sentences[:count]), sentences[count:]


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
