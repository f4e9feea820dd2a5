"""A learner's model of what a plan of step 11 costs, held against recorded times."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import combinations, groupby

from course_utils.compile.factory import open_places
from course_utils.compile.guard import text_of
from course_utils.grading import steps, terms
from course_utils.grading.found import of_text
from course_utils.grading.steps import PlanCase
from course_utils.grading.verdict import OPEN, Part, Verdict, to_write
from course_utils.plans import Plan, Timed, number, recorded

PARTS = {"times": 3, "order": 3, "choice": 4}  # and their share of the points, in tenths
OFF = 0.05  # the middle relative error that a model may have; the fitted one has 0.01
APART = 0.03  # plans whose recorded times differ by less have no order: two runs differ by 0.01
RIGHT = 0.9  # the share of pairs of plans whose order it must know
LOST = 0.03  # what the plan that it takes may cost over the best one recorded
# a model that is so many times off, and at all sizes about as much, counts in something else than seconds
UNITS, ONE_FACTOR = 100.0, 3.0

_Guess = tuple[Timed, float]  # a recorded time, and what the model says


def check_plan(case: str, seconds: Callable) -> Verdict:
    """Check a case of ``steps.PLAN_CASES``: ``seconds(M, N, K, plan)`` is what a launch takes.

    It is asked for the times of ``asked``. Raises nothing.
    """
    wanted = steps.PLAN_CASES.get(case) if isinstance(case, str) else None
    if wanted is None:
        text = f"there is no case {case!r}; the cases with a plan are {', '.join(steps.PLAN_CASES)}"
        return Verdict.of(str(case), "plan", "recorded times", [_failed("times", 0, text)])
    times: list[object] = []
    text, points = "", recorded()
    for size, plan in asked(points):
        try:
            times.append(number(seconds(*size, plan)))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a learner's code: sys.exit() too
            text = f"seconds({_at(size)}, plan) raised {type(error).__name__}: {text_of(error)}"
            text = open_places(seconds) or text
            break
    return judge(wanted, points, times, text, open_places(seconds) if text else "")


def asked(points: Sequence[Timed]) -> list[tuple[tuple[int, int, int], Plan]]:
    """What a model is asked for: the recorded ``points``, then the sizes that tell its terms apart."""
    return [*((point.size, point.plan) for point in points), *terms.PROBES]


def judge(
    case: PlanCase, points: Sequence[Timed], times: Sequence[object], text: str = "", still: str = ""
) -> Verdict:
    """The verdict on a model that says ``times`` of what it is ``asked`` for; ``text`` says why there are
    none, ``still`` what is to be written yet. A term that is known to differ leads, and costs the times where
    nothing else shows it.
    """
    worth = {name: case.points * tenths / 10 for name, tenths in PARTS.items()}
    if still:
        part = Part("times", None, 0.0, case.points, "", idle=OPEN)
        return to_write(case.id, "plan", "recorded times", (part,), still)
    said: list[float] = []
    places = asked(points)
    for (size, _), time in zip(places, times, strict=False):
        if not isinstance(time, (int, float)) or not math.isfinite(time) or time <= 0:
            text = text or f"seconds({_at(size)}, plan) is {text_of(time)}: it must be a number above 0"
            break
        said.append(float(time))
    if not text and len(times) != len(places):
        text = "seconds must return one number for each size and plan"
    if text:
        return Verdict.of(case.id, "plan", "recorded times", [_failed("times", case.points, text)])
    guesses = list(zip(points, said, strict=False))
    term, waves = terms.differing(said[len(points) :])
    parts = [
        _times(guesses, worth["times"]),
        _order(guesses, worth["order"]),
        _choice(guesses, worth["choice"], waves),
    ]
    if term:
        first = next((n for n, part in enumerate(parts) if part.passed is False), 0)
        part = parts[first]
        more = part.found[0].cause.values["text"] if part.found else ""
        parts[first] = _failed(part.name, part.max_points, f"{term} {more}", part.detail)
    return Verdict.of(case.id, "plan", "recorded times", parts)


def _times(guesses: Sequence[_Guess], worth: float) -> Part:
    """Are the model's times near the recorded ones?"""
    off = statistics.median(_error(guess) for guess in guesses)
    summary = f"{off:.1%} off in the middle of {len(guesses)} recorded times"
    if off <= OFF:
        return Part("times", True, worth, worth, summary)
    (size, plan, time), said = max(guesses, key=_error)
    text = f"Your model is {off:.1%} off in the middle; at most {OFF:.0%} is required. It"
    shares = [guess / found.seconds for found, guess in guesses]
    if (min(shares) > UNITS or max(shares) < 1 / UNITS) and max(shares) < ONE_FACTOR * min(shares):
        summary = text = "Your model does not return seconds: it"
    text += f" is worst at {_at(size)}, {_words(plan)}: {_us(said)} where {_us(time)} were recorded."
    return _failed("times", worth, text, summary.removesuffix(": it"))


def _order(guesses: Sequence[_Guess], worth: float) -> Part:
    """Of two plans of one size, does the model know the quicker one?"""
    pairs = [
        (one, other) if one[0].seconds < other[0].seconds else (other, one)
        for of_size in _by_size(guesses)
        for one, other in combinations(of_size, 2)
        if abs(one[0].seconds / other[0].seconds - 1) > APART and one[0].plan[:4] != other[0].plan[:4]
    ]
    wrong = [(quick, slow) for quick, slow in pairs if quick[1] >= slow[1]]
    summary = f"the quicker of two plans in {len(pairs) - len(wrong)} of {len(pairs)} pairs of one size"
    if len(wrong) <= (1 - RIGHT) * len(pairs):
        return Part("order", True, worth, worth, summary)
    (quick, _), (slow, _) = max(wrong, key=lambda pair: pair[1][0].seconds / pair[0][0].seconds)
    text = (
        f"Your model knows {summary}; {RIGHT:.0%} is required. At {_at(quick.size)} it misses that "
        f"{_words(quick.plan, slow.plan)} "
        f"beat {_words(slow.plan, quick.plan)}: {_us(quick.seconds)}, not {_us(slow.seconds)}."
    )
    return _failed("order", worth, text, summary)


def _choice(guesses: Sequence[_Guess], worth: float, waves: bool) -> Part:
    """Is the plan that the model takes about as quick as the best one that was recorded? ``waves``: it counts
    other waves.
    """
    sizes = [of_size for of_size in _by_size(guesses) if len(of_size) > 1]
    lost = []
    for of_size in sizes:
        taken, _ = min(of_size, key=lambda guess: guess[1])
        best, _ = min(of_size, key=lambda guess: guess[0].seconds)
        lost.append((taken.seconds / best.seconds - 1, taken, best))
    most, taken, best = max(lost)
    summary = f"takes plans at most {most:.1%} slower than the best one recorded, at {len(sizes)} sizes"
    if most <= LOST:
        return Part("choice", True, worth, worth, summary)
    text = (
        f"At {_at(taken.size)} your model takes {_words(taken.plan, best.plan)}, {most:.0%} slower "
        f"than {_words(best.plan, taken.plan)}; at most {LOST:.0%} is allowed. It is {_us(taken.seconds)}, "
        f"not {_us(best.seconds)}." + " How many waves does each need?" * waves
    )
    return _failed("choice", worth, text, summary)


def _by_size(guesses: Sequence[_Guess]) -> list[list[_Guess]]:
    ordered = sorted(guesses, key=lambda guess: guess[0].size)
    return [list(group) for _, group in groupby(ordered, key=lambda guess: guess[0].size)]


def _error(guess: _Guess) -> float:
    point, said = guess
    return abs(said / point.seconds - 1)


def _at(size: tuple[int, ...]) -> str:
    return " x ".join(map(str, size))


def _words(plan: Plan, other: Plan | None = None) -> str:
    """A plan, or in what it is not as the ``other``."""
    words = {
        f"tiles of {plan.block_M} x {plan.block_N}": plan[:2] != (other and other[:2]),
        "clusters of 2" if plan.cluster == 2 else "no clusters": plan[2] != (other and other[2]),
        f"{plan.num_ctas} CTAs": plan[3] != (other and other[3]),
    }
    return ", ".join(text for text, differs in words.items() if differs)


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.4g} us"


def _failed(name: str, worth: float, text: str, detail: str = "") -> Part:
    return Part(name, False, 0.0, worth, detail, (of_text(text),), "slow")
