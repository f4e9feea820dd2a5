"""Who is reported as alike: copies in one group, whatever was done to hide them, and nobody else."""

import base64
import re
import time
import zlib
from dataclasses import asdict
from pathlib import Path

import pytest

from course_utils.classroom import similar, submissions
from course_utils.classroom.similar import FORM, PACKED, RENAMED, SOLUTION, TEXT, Marks, groups
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import edited, load_factory_source, solution_path, without_markers
from course_utils.ptx.form import form

OTHERWISE = Path(__file__).parents[1] / "grading" / "otherwise"
GIVEN = submissions.given()["step05-tilelang"]
RIGHT = without_markers(solution_path("step05", "tilelang").read_text())
NAMES = (
    "A_shared B_shared D_shared acc full ms ns ks load stage operands k_tiles block_M block_N ring".split()
)
RENAMED_RIGHT = re.sub(
    rf"(?<![.\w])({'|'.join(NAMES)})\b", lambda found: f"my_{NAMES.index(found[0])}", RIGHT
)
A = "            A_shared = T.alloc_shared((ring, block_M, block_K), T.float16)\n"
B = "            B_shared = T.alloc_shared((ring, block_N, block_K), T.float16)\n"
COPY_A = "                    T.tma_copy(A[ms, ks], A_shared[load, :, :], barrier=full[load])\n"
COPY_B = "                    T.tma_copy(B[ns, ks], B_shared[load, :, :], barrier=full[load])\n"
REORDERED = edited(RIGHT, (A + B, B + A), (COPY_A + COPY_B, COPY_B + COPY_A))
PACKED_RIGHT = f"""import base64, linecache, zlib
text = zlib.decompress(base64.b64decode({base64.b64encode(zlib.compress(RIGHT.encode()))!r})).decode()
linecache.cache["/no-file/x.py"] = len(text), None, text.splitlines(True), "/no-file/x.py"
exec(compile(text, "/no-file/x.py", "exec"))
"""
PIPELINED = (OTHERWISE / "tilelang05_pipelined.py").read_text()
IN_A_VARIABLE = edited(
    RIGHT,
    ("            m, n = by", "            turns = T.alloc_local((1,), T.int32)\n            m, n = by"),
    ("            # step i", "            turns[0] = 0\n            # step i"),
    ("(k // num_stages) & 1)", "turns[0] // num_stages & 1)\n                    turns[0] += 1"),
)


def marks(source, ptx_form=""):
    return similar.of(source, GIVEN, ptx_form)


@pytest.fixture(scope="module")
def compiled():
    """The marks of each source, with the form of its kernel."""
    made = {}
    sources = {
        SOLUTION: RIGHT, "renamed": RENAMED_RIGHT, "reordered": REORDERED, "packed": PACKED_RIGHT,
        "pipelined": PIPELINED, "variable": IN_A_VARIABLE,
    }  # fmt: skip
    for name, source in sources.items():
        artifact = compile_factory(load_factory_source(source, name), "tilelang", (256, 256, 512))
        made[name] = marks(source, form(artifact.ptx, artifact.kernel))
    return made


def found(handed_in):
    return [group.bases for group in groups("step05-tilelang", handed_in)]


def test_copies_have_one_form_and_kernels_written_otherwise_have_another(compiled):
    copies = {compiled[name].form for name in (SOLUTION, "renamed", "reordered", "packed")}
    others = {compiled[name].form for name in ("pipelined", "variable")}
    assert len(copies) == 1 and len(others) == 2 and not copies & others


def test_a_renamed_copy_is_named_as_that(compiled):
    told = found({"ada": compiled[SOLUTION], "bob": compiled["renamed"], "eve": compiled["pipelined"]})
    assert told == [{RENAMED: ["ada", "bob"]}]


def test_a_copy_with_its_lines_in_another_order_is_one(compiled):
    assert found({"ada": compiled[SOLUTION], "bob": compiled["reordered"]}) == [{TEXT: ["ada", "bob"]}]


def test_of_a_group_those_with_changed_names_come_first(compiled):
    handed_in = {"ada": compiled[SOLUTION], "cyd": compiled["reordered"], "bob": compiled["renamed"]}
    (bases,) = found(handed_in)
    assert list(bases.items()) == [(RENAMED, ["bob"]), (TEXT, ["ada", "cyd"])]


def test_a_packed_copy_is_found_by_its_kernel(compiled):
    told = found({"ada": compiled[SOLUTION], "dan": compiled["packed"], "eve": compiled["pipelined"]})
    assert told == [{PACKED: ["dan"], FORM: ["ada"]}]
    assert "zlib.decompress" in compiled["packed"].hidden


def test_two_right_kernels_written_otherwise_are_no_copies(compiled):
    assert not found({SOLUTION: compiled[SOLUTION], "eve": compiled["pipelined"]})
    right = solution_path("step07", "tilelang").read_text()
    other = (OTHERWISE / "tilelang07_producer_last.py").read_text()
    given = submissions.given()["step07-tilelang"]
    assert not found({"ada": similar.of(right, given, "a"), "bob": similar.of(other, given, "b")})


def test_a_class_that_hands_in_the_solution_is_one_group():
    class_ = {f"learner {n}": marks(f"{RIGHT}# {n}\n", "same") for n in range(60)}
    (group,) = groups("step05-tilelang", {SOLUTION: marks(RIGHT, "same")} | class_)
    assert group.bases == {TEXT: [SOLUTION, *class_]} and group.share == 1.0
    assert (group.forms, group.others) == (1, (0, 0))


def test_a_copy_is_seen_through_comments_and_layout():
    other = "# mine\n" + RIGHT.replace("\n\n", "\n\n\n")
    assert found({"ada": marks(RIGHT), "bob": marks(other)}) == [{TEXT: ["ada", "bob"]}]


def test_what_everybody_was_given_does_not_count():
    assert not found({"ada": marks(GIVEN), "bob": marks(GIVEN)})
    assert not found({name: similar.of(RIGHT, RIGHT) for name in ("ada", "bob")})


@pytest.mark.parametrize("others, is_told", [("cdef", True), ("cccc", False), ("c", False)])
def test_an_equal_form_of_another_text_is_told_where_forms_differ(others, is_told):
    """A compiler makes the same of many texts: where most have one form, an equal one says nothing."""
    handed_in = {"ada": marks(RIGHT, "a"), "bob": marks(PIPELINED, "a")}
    handed_in |= {f"other {n}": Marks(form=one) for n, one in enumerate(others)}
    alike = [bases for bases in found(handed_in) if "ada" in bases.get(FORM, ())]
    assert alike == [{FORM: ["ada", "bob"]}] * is_told


def test_what_says_most_comes_first():
    handed_in = {
        "ada": marks(RIGHT, "a"), "bob": marks(RIGHT, "a"), "cyd": Marks(form="a", hidden="unpacks bytes"),
    }  # fmt: skip
    assert [next(iter(bases)) for bases in found(handed_in)] == [PACKED, TEXT]


def test_a_sample_tells_the_share_of_a_long_source():
    def text(first, last):
        return "".join(f"x{n} = {n} * {n + 7} + {n % 5}\n" for n in range(first, last))

    whole, half = similar.of(text(0, 2000), "").text, similar.of(text(1000, 3000), "").text
    assert whole.count > 10 * similar.SAMPLE == 10 * len(whole.hashes)
    assert similar.share(whole, whole) == 1.0 and similar.share(whole, half) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    "text", ["\\'", "'''", '"""\\', "(", "\\\n", "x", "a.b=", "\n#", '"\\"', "f'{", "\t \t(", "\ud800", "\0"]
)
def test_any_text_takes_time_in_proportion(text):
    """40 KB of the first of these took the tokenizer of Python 148 s."""
    began = time.process_time()
    made = marks(text * (40_000 // len(text)))
    assert time.process_time() - began < 5 and not found({"ada": made, "bob": made})


def test_of_a_source_that_nobody_reads_the_kernel_is_compared():
    padded = marks(RIGHT + "#" * similar.LONG, "a")
    assert "more than 100,000 characters" in padded.hidden
    assert found({"ada": marks(RIGHT, "a"), "bob": padded}) == [{PACKED: ["bob"], FORM: ["ada"]}]


def test_marks_are_kept_as_json(compiled):
    kept = compiled["packed"]
    assert Marks.read({"marks": asdict(kept)}) == kept
    assert Marks.read(None) == Marks.read({"marks": None}) == Marks()
