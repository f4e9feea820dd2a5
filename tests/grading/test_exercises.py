"""Each level of an exercise is the solution without what the learner is to find out."""

import ast
import random
import re

import pytest

from course_utils.compile.errors import CompileError
from course_utils.compile.factory import DSLS, OPEN
from course_utils.compile.load import BEGIN, END, solution_path, without_markers
from course_utils.grading import exercises, levels, steps

IN_NOTEBOOKS = [one for one in steps.LEVELLED if f"{one}-tilelang" in steps.EXERCISES]
ALL = [(step_id, dsl) for step_id in IN_NOTEBOOKS for dsl in DSLS]
each = pytest.mark.parametrize("step_id, dsl", ALL)


def code(source):
    """The lines of a source without its docstring, markers and blank lines."""
    lines = without_markers(source).split("\n")
    tree = ast.parse("\n".join(lines))
    if ast.get_docstring(tree) is not None:
        lines = lines[tree.body[0].end_lineno :]
    return [line for line in lines if line.strip()]


def put_in(given, places):
    """The given text with what each place of the solution holds instead of its hole, and no comments about
    it.
    """
    lines = []
    for line in given.split("\n"):
        if hole := re.fullmatch(r'( *)raise NotImplementedError\("TODO (\d+)"\)', line):
            while re.match(r" *# ", lines[-1]) and not lines[-1].strip().startswith(f"# TODO {hole[2]}: "):
                lines.pop()
            lines.pop()
            lines += places[int(hole[2]) - 1].lines
        elif not line.startswith("# level: "):
            lines.append(line)
    return code("\n".join(lines))


def places(step_id, dsl, level="write"):
    source = solution_path(step_id, dsl).read_text()
    lines = (exercises._blank(source) if level == "blank" else source).split("\n")
    return [part for part in exercises._parts(lines, "") if isinstance(part, exercises.Place)]


def listed(given):
    """The shuffled lines, as a learner has them who takes the comments' marks away."""
    lines, inside = [], False
    for line in given.split("\n"):
        if re.match(r" *# (These lines, in a different order|Then these)", line):
            inside = True
        elif line.strip().startswith(OPEN):
            inside = False
        elif inside:
            lines.append(re.fullmatch(r" *# (.*)", line)[1])
    return lines


@each
@pytest.mark.parametrize("level", steps.LEVELS)
def test_every_level_is_python_with_holes_and_the_solution_when_they_are_filled(step_id, dsl, level):
    given = exercises.given(step_id, dsl, level)
    ast.parse(given)
    filled = places(step_id, dsl, level)
    assert given.count(OPEN) == len(filled) > 0 and levels.of_source(given) == level
    assert put_in(given, filled) == code(solution_path(step_id, dsl).read_text())


@each
def test_the_lines_of_order_in_their_right_order_are_the_solutions(step_id, dsl):
    given = exercises.given(step_id, dsl, "order")
    right = [
        line
        for place in places(step_id, dsl)
        for piece in exercises.pieces(place)
        for line in piece.split("\n")
    ]
    assert sorted(listed(given)) == sorted(right) and listed(given) != right
    # a statement over several lines stays together, below its comment
    text = "\n".join(listed(given))
    assert all(piece in text for place in places(step_id, dsl) for piece in exercises.pieces(place))


@each
def test_blank_holds_no_line_of_the_kernel(step_id, dsl):
    given = exercises.given(step_id, dsl, "blank")
    hidden = {line.strip() for place in places(step_id, dsl, "blank") for line in place.lines if line.strip()}
    kept = code(given)
    inside = {")", "}", "]", "else:", "if warp_idx == 4:"}  # of step 11, by helpers too
    inside |= {"for i in T.Parallel(block_M):", "for row in cutlass.range_constexpr(2):"}  # of attention's
    assert not {line.strip() for line in kept} & (hidden - inside)
    assert max(map(len, given.split("\n"))) <= exercises.WIDTH
    assert all(phrase.split()[0] in given for phrase in exercises.asked_for(step_id))


def test_a_seed_gives_one_order_and_another_seed_another():
    one, again, other = (exercises.given("step07", "tilelang", "order", seed) for seed in (1, 1, 2))
    assert one == again != other and sorted(listed(one)) == sorted(listed(other))


def test_a_list_is_neither_short_nor_long():
    for step_id, dsl in ALL:
        asked = re.split(r"These lines|Then these", exercises.given(step_id, dsl, "order"))[1:]
        count = sum(len(exercises.pieces(place)) for place in places(step_id, dsl))
        assert len(asked) >= count / exercises.MANY and (len(asked) == 1 or count >= 2 * exercises.FEW)


def test_what_is_shuffled_is_never_as_it_was():
    for seed in range(50):
        assert exercises._shuffled(["a", "b"], random.Random(seed)) == ["b", "a"]


@pytest.mark.parametrize("level", ["", "easy", "Order", None, []])
def test_no_level_is_named(level):
    with pytest.raises(ValueError, match="there is no level .* order, write, blank"):
        exercises.given("step05", "cute", level)


@pytest.mark.parametrize("step_id, dsl, level", [("step99", "cute", "write"), ("step05", "triton", "order")])
def test_no_exercise_is_named(step_id, dsl, level):
    with pytest.raises(CompileError, match="no .* solution of"):
        exercises.given(step_id, dsl, level)


@pytest.mark.parametrize("name", ["step99", "t5", "t3a"])
def test_a_case_has_no_levels(name):
    with pytest.raises(ValueError, match=f"{name} has no levels"):
        exercises.given(name, "cute", "order")


def test_a_solved_level_keeps_the_solution_between_markers():
    given = exercises.given("step05", "tilelang", "blank", solved=True)
    assert given.count(BEGIN) == given.count(END) == 1 and OPEN not in given
    assert code(given)[1:] != [] and "T.alloc_barrier([1] * num_stages)" in given
