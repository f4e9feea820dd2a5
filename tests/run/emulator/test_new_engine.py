"""A new engine is a row of the table, a unit, and what explains it: core knows nothing of it."""

import sys
from dataclasses import dataclass

import pytest

from course_utils.cause import Cause
from course_utils.run.emulator import EmulatorError
from course_utils.run.emulator.core.threads import Path, Wait
from course_utils.run.emulator.explain import deadlock, listen, names, words
from course_utils.run.emulator.explain.findings import Findings
from course_utils.run.emulator.isa.lowered import Lowered
from course_utils.run.emulator.units import table
from tests.run.emulator.kernels import kernel
from tests.run.emulator.test_findings import run

# The unit: tokens of a CTA. A warp gives one, or takes one and waits until there is one.


@dataclass(slots=True)
class Given:
    path: Path
    tokens: "Tokens"


class Tokens:
    def __init__(self, cta):
        self.count, self.waiting = 0, []


class TokenWait(Wait):
    pass


def token(instruction):
    def function(p, mask, following):
        tokens = p.cta.unit(Tokens)
        if instruction.opcode[1] == "take" and not tokens.count:
            tokens.waiting.append(p)
            return p.wait(following, TokenWait())
        tokens.count += 1 if instruction.opcode[1] == "give" else -1
        p.machine.progress += 1
        if instruction.opcode[1] == "give":
            p.machine.probe.emit(Given(p, tokens))
            if tokens.waiting:
                tokens.count -= 1
                tokens.waiting.pop().wake()
        return following

    return Lowered("blocking", function, cut=True)


# What explains it: a kind, its sentences, who listens, and what a wait lacks.


def explain(machine, *rest):
    def given(event):
        if event.tokens.count > 2:
            who = names.who([event.path.warp], event.path.cta)
            cause = Cause("too-many-tokens", "a third token", {"who": who, "count": event.tokens.count})
            machine.unit(Findings).find(cause, event.path.at)

    machine.probe.listen(Given, given)
    return listen.attach(machine, *rest)


def waits(reason, path, row):
    row.what, row.lacks = Cause("deadlock", "for a token"), 3


@pytest.fixture
def engine(monkeypatch):
    monkeypatch.setitem(table.TABLE, "token", token)
    monkeypatch.setitem(words.KINDS, "too-many-tokens", ("error", "A CTA holds two tokens."))
    monkeypatch.setitem(words.SENTENCES, "a third token", "{who} {who:gives|give} token {count}")
    monkeypatch.setitem(words.SENTENCES, "for a token", "for a token, and nobody gives one")
    monkeypatch.setitem(deadlock.WAITS, TokenWait, waits)
    monkeypatch.setattr(sys.modules["course_utils.run.emulator.emulate"], "attach", explain)


def by_warp(first, second):
    """A kernel whose warp 0 runs ``first``, and warp 1 ``second``."""
    body = f"mov.u32 %r0, %tid.x;\nsetp.ge.u32 %p1, %r0, 32;\n@%p1 bra B;\n{first}ret;\nB:\n{second}"
    return kernel(body, threads=64)


def test_a_kernel_runs_with_a_new_engine(engine):
    for seed in range(8):
        assert run(by_warp("token.give;\n", "token.take;\n"), seed).ok


def test_what_is_wrong_with_it_is_found(engine):
    (found,) = run(by_warp("token.give;\n" * 3, "")).errors
    assert (found.kind, found.detail) == ("too-many-tokens", "warp 0 gives token 3")
    assert "token.give" in found.place.ptx


def test_a_deadlock_says_what_it_lacks(engine):
    (found,) = run(by_warp("", "token.take;\n")).errors
    assert found.detail == "warp 1 waits for a token, and nobody gives one"


def test_nothing_else_knows_it():
    with pytest.raises(EmulatorError, match="`token.give` is not modelled"):
        run(by_warp("token.give;\n", "token.take;\n// another kernel than those above\n"))
