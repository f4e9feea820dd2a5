"""What notebook cells call: each shows its answer, keeps progress, ends in a plain number where it grades,
and never raises.
"""

import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from course_utils import notebook
from course_utils.artifact import Place, TensorMap
from course_utils.compile import factory
from course_utils.compile.errors import CompileError
from course_utils.compile.faults import Fault, kernels
from course_utils.compile.load import load_factory, load_factory_source, load_module, solution_path
from course_utils.grading import exercises, steps
from course_utils.grading import gemm as gemms
from course_utils.grading.cards import Card
from course_utils.grading.check_progress import CheckProgress
from course_utils.grading.found import of_text
from course_utils.grading.verdict import Part, Verdict
from course_utils.notebook import checks, inspection, output, places, standing, what_ifs
from course_utils.recordings import measured, progress
from course_utils.run import backends, client
from tests.cells import shown
from tests.recordings.counted import LAUNCHES

RIGHT = Verdict(
    "step04",
    "tilelang",
    "emulator",
    (Part("results", True, 4, 4, "right at 3 sizes"),),
    None,
    (),
    (("wgmma", "four"),),
)


pytestmark = pytest.mark.usefixtures("own_folder")


def answering(monkeypatch, verdict):
    monkeypatch.setattr(gemms, "check_gemm", lambda *_, on_progress: verdict)


def test_check_ends_in_points_and_keeps_them(monkeypatch):
    answering(monkeypatch, RIGHT)
    points, text, html = shown(notebook.check, "step04", None)
    assert points == 4.0 and repr(points) == "4.0"
    assert "right at 3 sizes" in text and "<table" in html
    assert progress.find(progress.read(), "step04", "tilelang")["points"] == 4


def test_a_step_goes_by_what_people_call_it(monkeypatch):
    asked = []
    monkeypatch.setattr(gemms, "check_gemm", lambda name, *_, on_progress: asked.append(name) or RIGHT)
    for said in ("4", "04", "step4"):
        shown(notebook.check, said, None)
        shown(notebook.try_out, said, None)
    assert asked == ["step04"] * 6
    monkeypatch.undo()
    assert "did you mean step04?" in shown(notebook.try_out, "stpe04", None)[1]


@pytest.mark.parametrize("execution, says", [(None, {}), ("autograde", {"text/plain": "4.5"})])
def test_a_cell_that_ends_in_points_shows_a_number_to_nbgrader_alone(execution, says, monkeypatch):
    if execution:
        monkeypatch.setenv(checks.EXECUTION, execution)
    else:
        monkeypatch.delenv(checks.EXECUTION, raising=False)
    formatter = InteractiveShell.instance().display_formatter
    assert formatter.format(checks.Points(4.5))[0] == says


SPEED = Part("speed", None, 0, 1, "no GPU: nothing was timed")
WRONG = Part("results", False, 2, 4, "wrong", card=Card("The ring has one barrier too few. " * 9, topic=""))


@pytest.mark.parametrize(
    "parts, points, says",
    [
        ((RIGHT.checks[0],), 4.0, ""),
        ((RIGHT.checks[0], SPEED), 5.0, ""),  # nothing that can be tried here is left
        ((WRONG, SPEED), 2.0, "one barrier too few"),
        ((RIGHT.checks[0], replace(SPEED, passed=False)), 4.0, "not all parts"),
        ((replace(RIGHT.checks[0], passed=None, points=0), SPEED), 0.0, "not all parts"),
    ],
)
def test_validate_hears_of_what_can_be_mended(parts, points, says, monkeypatch, capsys):
    """nbgrader's Validate calls whatever is below all points a failure, and shows stderr with it."""
    answering(monkeypatch, Verdict.of("step04", "tilelang", "emulator", parts))
    monkeypatch.setenv(checks.VALIDATING, "1")
    with capture_output() as captured:
        assert notebook.check("step04", None) == points
    assert says in captured.stderr and bool(captured.stderr) == bool(says)
    assert max(map(len, captured.stderr.splitlines()), default=0) <= checks.VALIDATE_WIDTH
    monkeypatch.delenv(checks.VALIDATING)
    assert shown(notebook.check, "step04", None)[0] == sum(part.points for part in parts)


def test_check_of_a_real_kernel():
    gemm = load_factory(solution_path("step01", "tilelang"))
    assert shown(notebook.check, "step01", gemm)[0] == steps.find("step01").points


@pytest.mark.parametrize(
    "arguments",
    [
        ("step99", None),
        ([], None),
        (None, None),
        ("step04", None),
        ("step04", 3),
        ("step04", lambda: 1),
        ("step04", print, "cuda"),
        ("step04", lambda M, N, K: 1 / 0),
        ("step04", lambda M, N, K: exit()),
        ("step04", None, []),
    ],
)
def test_check_of_nonsense_gives_zero_and_words(arguments):
    points, text, _ = shown(notebook.check, *arguments)
    assert points == 0 and "Look here first" in text


@pytest.fixture
def cells(monkeypatch):
    """What a notebook's cell is given to hold, for each run of one: (its text, in its place)."""
    shell, made = InteractiveShell.instance(), []
    monkeypatch.setattr(standing, "get_ipython", lambda: shell)
    monkeypatch.setattr(shell, "set_next_input", lambda text, replace=False: made.append((text, replace)))

    def run(source):
        monkeypatch.setattr(shell.history_manager, "input_hist_raw", ["", source])
        return made

    return run


@pytest.mark.parametrize(
    "source, replaced",
    [
        ('level("05", "cute", "order")', True),
        ('from course_utils.notebook import level\n\n# easier\nlevel("05", "cute", "order");', True),
        ('import course_utils.notebook as n\nn.level("05")', False),
        ('x = 1\nlevel("05", "cute", "order")', False),
        ('def gemm(M, N, K):\n    return 1\n\nlevel("05", "cute", "order")', False),
        ('level("05"); level("06")', False),
        ('level("05") or mine()', False),
        ('%time level("05")', False),
        ("", False),
    ],
)
def test_a_level_takes_the_place_of_its_call_and_of_nothing_else(source, replaced, cells):
    made = cells(source)
    _, text, html = shown(notebook.level, "05", "cute", "order")
    assert made == [(exercises.given("step05", "cute", "order"), replaced)]
    assert ("This cell" if replaced else "The cell below") in text and "level: order" in html


def test_a_level_without_a_notebook_is_its_text(monkeypatch):
    told = []
    monkeypatch.setattr(standing, "get_ipython", lambda: None)
    monkeypatch.setattr(output, "display", lambda shown, **_: told.append(str(shown)))
    notebook.level("step05", "tilelang", "blank")
    assert exercises.given("step05", "tilelang", "blank") in told[-1]


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("99", "cute", "order"), "there is no step '99'"),
        (("05", "cute", "easy"), "there are order, write, blank"),
        (("05", "triton", "order"), "no triton solution"),
        (("t5", "cute", "blank"), "t5 has no levels"),
        ((None, None, None), "cannot be given"),
        (([], [], []), "cannot be given"),
    ],
)
def test_no_level_is_told_in_words(arguments, says, cells):
    made = cells('level("99")')
    assert says in shown(notebook.level, *arguments)[1] and made == []


def test_a_level_is_kept_with_the_points_and_a_star_is_not_lost(monkeypatch):
    for level, points in (("order", 2.4), ("blank", 4.0), ("write", 4.0)):
        answering(monkeypatch, RIGHT)
        factory = load_factory_source(f"# level: {level}\ndef gemm(M, N, K):\n    pass\n", "mine")
        assert shown(notebook.check, "step04", factory)[0] == points
        kept = progress.find(progress.read(), "step04", "tilelang")
        assert (kept["points"], kept["level"]) == (points, "order" if level == "order" else "blank")
    Path("04_tma.ipynb").write_text("{}")
    assert "\u2605 from a blank page" in shown(notebook.strip, "04")[1]


def test_validate_hears_all_points_of_a_right_order(monkeypatch):
    answering(monkeypatch, RIGHT)
    monkeypatch.setenv(checks.VALIDATING, "1")
    factory = load_factory_source("# level: order\ndef gemm(M, N, K):\n    pass\n", "mine")
    assert shown(notebook.check, "step04", factory)[0] == 4.0


def test_open_exercise_is_named_with_its_lines(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "import tilelang.language as T\n\ndef gemm(M, N, K):\n    raise NotImplementedError('TODO 1')\n"
    )
    points, text, _ = shown(notebook.check, "step04", load_factory(path))
    assert points == 0 and "still open" in text and "line 4" in text and "TODO 1" in text


def test_stopped_check_is_a_verdict_and_the_next_one_works(monkeypatch):
    class Stopped:
        closed = False

        def close(self):
            self.closed = True

    def stop(*_, on_progress):
        raise KeyboardInterrupt

    worker = Stopped()
    monkeypatch.setattr(client, "_workers", {"emulator": worker})
    monkeypatch.setattr(gemms, "check_gemm", stop)
    points, text, _ = shown(notebook.check, "step04", None)
    assert points == 0 and "you stopped this check" in text and worker.closed
    assert progress.read()["entries"] == []


def test_check_that_cannot_be_kept_says_so(monkeypatch):
    answering(monkeypatch, RIGHT)
    monkeypatch.setattr(progress, "keep", lambda *_: (_ for _ in ()).throw(PermissionError("read-only")))
    points, text, _ = shown(notebook.check, "step04", None)
    assert points == 4 and "could not be kept" in text and "read-only" in text


def test_try_out_keeps_nothing_and_returns_nothing(monkeypatch):
    answering(monkeypatch, RIGHT)
    result, text, _ = shown(notebook.try_out, "step04", None)
    assert result is None and "right at 3 sizes" in text and progress.read()["entries"] == []


def test_ladder_shows_points(monkeypatch):
    answering(monkeypatch, RIGHT)
    shown(notebook.check, "step04", None)
    _, text, _ = shown(notebook.ladder, "step04")
    assert "TileLang 4 of 100, CuTe DSL 0 of 100" in text and "nothing was timed" in text


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(None, marks=pytest.mark.thorough),
        "step99",
        pytest.param(7, marks=pytest.mark.thorough),
        [],
    ],
)
def test_ladder_of_anything_is_drawn(step):
    assert "Your points so far" in shown(notebook.ladder, step)[1]


def test_ladder_survives_a_broken_file():
    progress.FILE.write_text("{")
    assert "0 of 100" in shown(notebook.ladder)[1]


def test_receipt_before_and_after_a_check(monkeypatch):
    assert "no receipt of step04 yet" in shown(notebook.receipt, "step04")[1]
    answering(monkeypatch, RIGHT)
    shown(notebook.check, "step04", None)
    _, text, html = shown(notebook.receipt, "step04")
    assert "TileLang" in text and "four" in text and "<td" in html


def test_receipt_of_no_step_says_which_there_are():
    assert "step10" in shown(notebook.receipt, "step99")[1]


def test_recorded_shows_the_files_figures():
    _, text, html = shown(notebook.recorded, "step05", "step09, no multicast")
    run = next(
        t
        for e in measured.load()["entries"]
        if (e["step"], e["dsl"]) == ("step05", "cute")
        for t in e["timings"]
        if (t["mode"], t["size"][0]) == ("burst", 4096)
    )
    assert (
        f"{run['tflops']:.0f} ({run['ratio']:.3f})" in text
        and f"{run['tflops']:.0f} ({run['ratio']:.3f})" in html
    )
    assert "step09, no multicast" in text and "variants.json: NVIDIA H200" in text


def test_counters_shows_the_files_figures():
    _, text, html = shown(notebook.counters, "step09", "step09, no multicast", "cublas", "step77")
    for name in ("step09 cute", "step09 tilelang", "step09, no multicast tilelang"):
        launch = LAUNCHES[name, (4096,) * 3]
        seconds, active = launch["counters"]["seconds"], launch["counters"]["tensor_active"]
        assert f"{seconds * 1e6:,.0f}" in text and f"{active * 100:.3g}" in html
    assert "Nothing is recorded as step77" in text


def test_counters_of_another_size_were_not_read():
    assert "not read" in shown(lambda: notebook.counters("step09", size=77))[1]
    text = shown(lambda: notebook.counters("step01", "cublas", size=(128, 128, 64)))[1]
    assert "not read" not in text and "One launch at 128 x 128 x 64" in text


def test_counters_of_a_size_that_is_no_cube():
    _, text, _ = shown(lambda: notebook.counters("step06", size=(8192, 2304, 5120)))
    launch = LAUNCHES["step06 cute", (8192, 2304, 5120)]
    assert f"{launch['counters']['seconds'] * 1e6:,.0f}" in text and "at 8192 x 2304 x 5120" in text


def test_counters_say_where_the_power_comes_from_if_it_is_of_another_machine():
    note = measured.load("counters")["provenance"]["note"]
    assert note in shown(lambda: notebook.counters("step10", size=(8192, 2304, 5120)))[1]
    assert note not in shown(lambda: notebook.counters("step10"))[1]


def test_panels_counts_what_tiles_share():
    _, text, html = shown(notebook.panels, 64, 64)
    lines = [re.split(r"  +", line) for line in text.splitlines()]
    assert ["4", "33", "4", "37"] in lines and ["8", "17", "8", "25"] in lines
    assert lines[-1] == ["64, so row after row", "3", "64", "67"] and "<table>" in html
    assert "18, so row after row" in shown(notebook.panels, 64, 18)[1]
    assert shown(notebook.panels, 2, 1)[1].splitlines()[-1].endswith("2          1             3")


@pytest.mark.parametrize("tiles", [(0, 4), (4, -1), ("a", 4), (4, None)])
def test_panels_of_no_tiles_are_told_in_words(tiles):
    assert "The tiles cannot be counted" in shown(notebook.panels, *tiles)[1]


def test_recorded_names_what_is_not_there():
    assert "Nothing is recorded as step77" in shown(notebook.recorded, "step77")[1]


@pytest.mark.parametrize(
    "name, guess, words",
    [
        ("nested_elect", "hang", ["Your guess is right", "took another branch", "elect_one"]),
        (
            "no_proxy_fence",
            "right",
            ['You guessed "right". Race', "fence_view_async_shared", "Recorded on NVIDIA H200"],
        ),
        ("ungrouped_modes", "no kernel", ["Your guess is right", "tma_partition"]),
        ("no_phase_flip", "race", ["Your guess is right. Race", "waited for", "the kernel died"]),
        ("no_phase_flip", "fault", ["that is how the recorded GPU ended this race. Race: nothing", "died"]),
    ],
)
def test_what_if_runs_the_fault_and_shows_the_change(name, guess, words, monkeypatch):
    monkeypatch.setattr(what_ifs, "_is_open", lambda step: False)  # the learner has step 4 already
    _, text, _ = shown(notebook.what_if, name, guess)
    assert all(word in text for word in words)
    assert not (progress.FILE.exists() or "STEP =" in text)


def test_a_step_is_open_until_it_has_half_of_its_points():
    assert what_ifs._is_open("step04") and what_ifs._is_open("step06")
    progress.keep(RIGHT, None)  # 4 of 10 points
    assert what_ifs._is_open("step04")
    progress.keep(replace(RIGHT, checks=(Part("results", True, 5, 10, "right"),)), None)
    assert not what_ifs._is_open("step04") and what_ifs._is_open("step06")


@pytest.mark.parametrize("name, told", [("half_tile_stored", False), ("grid_one_short", True)])
def test_a_change_of_a_given_line_is_shown_and_an_answer_is_not(name, told, monkeypatch):
    """The first fault changes a line that step 4 asks for, the second a line that step 6 gives."""
    monkeypatch.setattr(gemms, "check_gemm", lambda *_, on_progress: RIGHT)
    text = shown(notebook.what_if, name, "wrong")[1]
    assert ("It appears here once you have written it" in text) != told
    assert ("sm_count - 1" in text) == told and "T.tma_copy" not in text


def test_a_finding_does_not_quote_an_answer(monkeypatch):
    """A finding at a line that is step 6's answer, and step 4's, in a learner's notebook 3."""
    lost = of_text("never written", Place("kernel.py", 68, "T.tma_copy(D_shared, D[ms, ns])"))
    late = of_text("late", Place("kernel.py", 9, "main()"))
    parts = [Part("results", False, 0, 4, "", (one,)) for one in (late, lost)]
    wrong = Verdict.of("step06", "tilelang", "emulator", parts)
    monkeypatch.setattr(gemms, "check_gemm", lambda *_, on_progress: wrong)
    text = shown(notebook.what_if, "grid_one_short", "wrong")[1]
    assert "never written" in text and "main()" in text and "T.tma_copy" not in text
    monkeypatch.setattr(what_ifs, "_is_open", lambda step: False)
    assert "T.tma_copy(D_shared" in shown(notebook.what_if, "grid_one_short", "wrong")[1]


def test_this_machine_is_a_table_of_what_was_found():
    _, text, html = shown(notebook.machine, lambda: [("gpu", False, "there is <none>")])
    assert "--  gpu  there is <none>" in text and "there is &lt;none&gt;" in html
    assert "cannot be looked at" in shown(notebook.machine, None)[1]


def test_points_are_those_of_the_steps():
    _, text, _ = shown(notebook.points)
    assert "In all 100 points in each DSL" in text and "results" in text
    assert all(step.id in text and step.title in text for step in steps.STEPS.values())


def test_cool_and_hot_shows_what_was_read_during_the_recording():
    _, text, _ = shown(notebook.cool_and_hot, "step03")
    entry = next(e for e in measured.load()["entries"] if e["name"] == "step03 cute")
    for timing in entry["timings"]:
        assert (f"{timing['gpu']['power_w']:.0f}" in text) or len(set(timing["size"])) > 1
    assert "4096 burst" in text and "8192 sustained" in text and entry["step"] in text


def test_a_table_shows_what_a_cell_computed():
    _, text, html = shown(notebook.table, ["rows", "turns"], [(2000, 2), (48, "<1>")])
    assert text.splitlines()[-2:] == ["2,000  2", "48     <1>"] and "&lt;1&gt;" in html
    assert "cannot be shown" in shown(notebook.table, ["one"], 3)[1]
    assert "cannot be shown: ZeroDivisionError" in shown(notebook.table, ["one"], ([1 / 0] for _ in "a"))[1]


@pytest.mark.parametrize("copy", [None, 3, notebook.NotYet("copy")])
def test_look_says_why_there_is_no_kernel(copy):
    assert re.search(r"X of 8 x 32 x 64: no kernel\. \S", shown(notebook.look, copy, 8, 32, 64)[1])


def test_look_and_a_receipt_tell_paths_maps_and_bytes_of_a_copy():
    copy = load_module(solution_path("t2", "tilelang")).copy
    _, text, _ = shown(notebook.look, copy, 8, 32, 64)
    assert re.search(r"^X +tensor TMA, rank 3: 1 .* 128, 4,096$", text, re.M)
    assert re.search(r"^Y +tensor TMA, rank 2: 2 .* 128$", text, re.M) and text.endswith("Bytes: right")
    text = shown(notebook.receipt, "t2", copy, "tilelang")[1]
    assert re.search(r"^TMA loads +rank 3: 1$", text, re.M)


def test_a_chart_tells_the_symptom_and_not_the_cause():
    assert "9728 x 7680 x 320  the kernel never ended" in shown(notebook.chart, "t3a")[1]
    assert "right at 5 sizes" in shown(notebook.chart, "t3c")[1]
    assert "cannot be shown" in shown(notebook.chart, "case99")[1]


def test_at_sizes_says_for_each_size_why_there_is_no_kernel():
    _, text, _ = shown(notebook.at_sizes, None, (128, 128, 64), (1, 2))
    assert re.findall(r"^(\S.*?)  +no kernel: ", text, re.M)[-2:] == ["128 x 128 x 64", "1 x 2"]


def test_what_is_taken_out_is_counted(monkeypatch):
    monkeypatch.setattr(inspection, "load_factory_source", lambda source, _: source)
    monkeypatch.setattr(factory, "compile_factory", lambda source, *_: SimpleNamespace(ptx=source))
    _, text, _ = shown(notebook.taken_out, "step04", "tilelang", {"T.wait_wgmma": "T.wait_wgmma(0)"})
    assert text.endswith("T.wait_wgmma         T.wait_wgmma(0)     1       0")
    assert "cannot be counted" in shown(notebook.taken_out, "step99", "cute", {})[1]


def test_recorded_fences_are_those_of_the_file():
    _, text, _ = shown(notebook.recorded_fences)
    assert re.search(r"^none +200 of 200 ", text, re.M) and re.search(r"every thread +0 of 200 ", text)


def test_recorded_fp8_sums_are_those_of_the_file():
    _, text, _ = shown(notebook.recorded_fp8_sums)
    assert re.search(r"^128 +0\.013% +0\.013%", text, re.M)
    assert re.search(r"^8,192 +0\.205% +0\.013%", text, re.M)


def test_recorded_fp8_products_are_those_of_the_file():
    _, text, _ = shown(notebook.recorded_fp8_products)
    assert re.search(r"^CuTe DSL +4,096 +by blocks +949 +1149 +0\.825", text, re.M)
    assert re.search(r"^TileLang +8,192 +one scale +940 +1458 +0\.645", text, re.M)


def test_a_driver_is_asked_where_there_is_one(monkeypatch):
    monkeypatch.setattr(backends, "find_gpu", lambda: (None, "none here"))
    assert "No driver to ask: none here." in shown(notebook.ask_driver, [])[1]
    tile = TensorMap(6, (1024, 4096), (2048,), (64, 128), (1, 1), swizzle=3)
    monkeypatch.setattr(backends, "find_gpu", lambda: ("a GPU", ""))
    monkeypatch.setattr(inspection, "_driver_says", lambda asked, address: f"answer to {address}")
    _, text, _ = shown(notebook.ask_driver, [(tile, 8)])
    assert re.search(r"swizzle 128B +answer to 8 +illegal$", text)


@pytest.mark.parametrize("guess", [None, "maybe", 3, []])
def test_what_if_asks_for_a_guess_first(guess):
    _, text, _ = shown(notebook.what_if, "nested_elect", guess)
    assert "Guess first" in text and "elect_one" not in text


def test_a_guess_has_buttons_where_a_person_sits_and_the_first_click_counts(person, monkeypatch):
    widgets = pytest.importorskip("ipywidgets")
    made, box = [], widgets.VBox
    monkeypatch.setattr(widgets, "VBox", lambda parts: made.append(parts) or box(parts))
    answering(monkeypatch, RIGHT)
    _, text, _ = shown(notebook.what_if, "nested_elect")
    assert (
        "nested_elect (cute). Guess first:" in text and "hang: it never ends" in text
    )  # for a page without buttons
    meant, row, doing, below = made[0]
    assert [one.description for one in row.children] == list(what_ifs.OUTCOMES) and "hang: it" in meant.value
    row.children[0].click()
    row.children[1].click()
    told = "\n".join(one["data"]["text/plain"] for one in below.outputs)
    assert told.count("You guessed") == 1 and 'You guessed "right". Hang: it never ends.' in told
    assert all(one.disabled for one in row.children) and doing.value == ""


def test_a_click_whose_experiment_fails_says_so(monkeypatch):
    def broken(*_, on_progress):
        raise ValueError("no emulator")

    monkeypatch.setattr(gemms, "check_gemm", broken)
    (said,) = what_ifs._clicked("nested_elect", "hang", "cute", lambda text: None)
    assert str(said) == "This experiment failed: ValueError: no emulator"


def test_what_if_of_an_unknown_fault_lists_those_there_are():
    assert "no_phase_flip" in shown(notebook.what_if, "no_such", "hang")[1]


def test_every_change_of_a_planted_fault_is_short_enough_to_read():
    for name, wrong in kernels("tilelang").items():
        solution = solution_path(wrong.step, "tilelang").read_text()
        changes = what_ifs.changed_lines(solution, wrong.source())
        assert 0 < len(changes) <= 25, name


def test_timeline_is_drawn_and_names_findings():
    wrong = kernels("tilelang")["wrong_initial_phase"].factory()
    _, text, _ = shown(notebook.timeline, "step07", wrong)
    assert "Timeline of step07" in text and "wait" in text and "'image/png'" not in text


PLAYED = {
    "title": "This run",
    "total": 1,
    "first": 0,
    "ctas": [0],
    "steps": [[1, "wait", 0, "Warp 0 waits", 0]],
    "lines": [["a.py, line 3", "wait()"]],
    "lanes": [{"cta": 0, "name": "warp 0"}],
    **dict.fromkeys(("bars", "edges", "barriers", "slots"), ()),
    "fault": None,
    "start": 0,
}


def test_a_failed_verdict_has_its_run_to_step_through_below_it(monkeypatch):
    answering(monkeypatch, replace(RIGHT, figure=PLAYED))
    _, text, html = shown(notebook.check, "step04", None)
    assert html.index("<table") < html.index("<details><summary>Step through this run</summary>")
    assert 'class="course-player"' in html and "Warp 0 waits" in html and "Warp 0 waits" not in text
    assert progress.find(progress.read(), "step04", "tilelang")["points"] == 4
    answering(monkeypatch, RIGHT)
    assert "course-player" not in shown(notebook.check, "step04", None)[2]


def test_a_check_without_anything_to_draw_with_has_no_figure(monkeypatch):
    answering(monkeypatch, replace(RIGHT, figure=PLAYED))
    monkeypatch.setitem(sys.modules, "course_utils.figures.player", None)
    _, text, html = shown(notebook.check, "step04", None)
    assert "right at 3 sizes" in text and "<table" in html and "course-player" not in html


@pytest.mark.parametrize(
    "arguments", [("step04", None), ("step99", None), ("step04", None, "cuda"), ("step04", None, "cute", 3)]
)
def test_timeline_of_nonsense_is_words(arguments):
    _, text, _ = shown(notebook.timeline, *arguments)
    assert text and "Timeline of" not in text


def test_check_copy_passes_its_element_type_on(capsys):
    assert checks.check_copy("t2", lambda *shape: None, dtype="float12") == 0
    assert "'float12' is no element type of copies; these are" in capsys.readouterr().out


def test_text_without_a_notebook(monkeypatch, capsys):
    """In a plain Python prompt the same calls print text."""
    monkeypatch.setattr(InteractiveShell, "initialized", lambda: False)
    answering(monkeypatch, RIGHT)
    assert notebook.check("step04", None) == 4
    notebook.receipt("step04")
    printed = capsys.readouterr().out
    assert "right at 3 sizes" in printed and "four" in printed and "<" not in printed


def test_a_check_before_its_cell_has_run_says_so():
    name = notebook.NotYet("gemm")
    points, text, html = shown(notebook.check, "step04", name)
    assert points == 0 and "the cell that defines gemm has not run yet" in text
    assert "open" in text and "failed" not in text and "<table" not in html
    assert "mend has not run yet" in shown(notebook.check_maps, "t1", notebook.NotYet("mend"))[1]
    assert "copy has not run yet" in shown(notebook.check_copy, "t2", notebook.NotYet("copy"))[1]


def test_the_other_dsls_kernel_is_named():
    cute, tilelang = (load_factory(solution_path("step01", dsl)) for dsl in ("cute", "tilelang"))
    assert "gemm is CuTe DSL's, and this checks TileLang's" in shown(notebook.check, "step01", cute)[1]
    assert (
        "gemm is TileLang's, and this checks CuTe DSL's"
        in shown(notebook.check, "step01", tilelang, "cute")[1]
    )


# -- while it works


def updates(call, *arguments):
    """What a call showed, in order: the text, and whether it took the place of what stood there."""
    with capture_output() as captured:
        result = call(*arguments)
    return result, [(output.data["text/plain"], bool(output.update)) for output in captured.outputs]


def half_done(stop=None):
    """A check that tells of two known parts and of two at work, then answers or stops."""

    def check(step, gemm, dsl="tilelang", *_, on_progress):
        progress = CheckProgress(steps.find(step), dsl, "emulator", on_progress)
        progress.start("compiles", "compiling 1 of 3")
        progress.finish(
            Part("compiles", True, 1, 1, "154 registers"), Part("tensor maps", True, 1, 1, "all legal")
        )
        progress.start("results", "emulating 256 x 768 x 320 (1 of 3)")
        if stop:
            raise stop
        return RIGHT

    return check


def test_a_check_shows_its_rows_as_they_fill(monkeypatch):
    monkeypatch.setattr(gemms, "check_gemm", half_done())
    points, shown = updates(notebook.check, "step04", None)
    assert points == 4 and [update for _, update in shown] == [False, True, True, True, True]
    assert shown[0][0] == "checking step04 (tilelang) ..."
    assert "working     compiles" in shown[1][0] and "compiling 1 of 3" in shown[1][0]
    assert "passed      compiles" in shown[3][0] and "pending     speed" in shown[3][0]
    assert "emulating 256 x 768 x 320 (1 of 3)" in shown[3][0] and "4 of 4 points" in shown[4][0]


def test_a_stopped_check_keeps_what_was_known(monkeypatch):
    monkeypatch.setattr(gemms, "check_gemm", half_done(KeyboardInterrupt()))
    points, shown = updates(notebook.check, "step04", None)
    last = shown[-1][0]
    assert points == 0 and "you stopped this check" in last and "154 registers" in last
    assert "stopped     results" in last and "not reached speed" in last.replace(
        "not reached ", "not reached", 1
    )
    assert progress.read()["entries"] == []


def test_a_plain_prompt_gets_the_first_word_and_the_verdict(monkeypatch, capsys):
    """It replaces nothing, so that each table would stand below the one before."""
    monkeypatch.setattr(gemms, "check_gemm", half_done())
    notebook.check("step04", None)
    printed = capsys.readouterr().out
    assert printed.count("checking") == 1 and "pending" not in printed and "4 of 4 points" in printed


def test_a_check_that_cannot_be_shown_half_done_is_graded(monkeypatch):
    monkeypatch.setattr(output.Place, "update", lambda *_: 1 / 0)
    monkeypatch.setattr(gemms, "check_gemm", half_done())
    assert shown(notebook.check, "step04", None)[0] == 4


@pytest.mark.parametrize(
    "call, arguments, first",
    [
        (notebook.check, ("step04", print), "checking step04 (tilelang)"),
        (notebook.try_out, ("step04", print, "cute"), "checking step04 (cute)"),
        (notebook.receipt, ("step04", print), "compiling step04 (tilelang)"),
        (notebook.timeline, ("step04", print), "compiling step04 (tilelang)"),
        (notebook.what_if, ("nested_elect", "hang"), "looking for nested_elect"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_first_word_comes_before_the_first_compile(call, arguments, first, monkeypatch):
    said = []

    def compile_nothing(*_, **__):
        said.append("COMPILE")
        raise CompileError("load", "not today")

    real = output.display
    monkeypatch.setattr(
        output, "display", lambda one, **options: said.append(repr(one)) or real(one, **options)
    )
    monkeypatch.setattr(factory, "compile_factory", compile_nothing)
    monkeypatch.setattr(gemms, "compile_sizes", compile_nothing)
    monkeypatch.setattr(Fault, "factory", compile_nothing)
    _, text = updates(call, *arguments)
    assert said[:2] == [f"{first} ...", "COMPILE"]
    assert text[0] == (f"{first} ...", False) and text[-1][1] and "not today" in text[-1][0]


def test_what_takes_time_says_what_it_is_at_and_gives_its_place_to_the_answer():
    gemm = load_factory(solution_path("step01", "tilelang"))
    _, drawn = updates(notebook.timeline, "step01", gemm)
    assert [text for text, _ in drawn[:3]] == [
        "compiling step01 (tilelang) ...",
        "emulating step01 (tilelang) at 128 x 128 x 64 ...",
        "drawing the timeline ...",
    ]
    assert "Timeline of step01" in drawn[3][0] and drawn[3][1]
    _, tabled = updates(notebook.receipt, "step01", gemm)
    assert [update for _, update in tabled] == [False, True] and "TileLang" in tabled[1][0]
    _, ladder = updates(notebook.ladder, "step01")
    assert ladder[0][0] == "drawing the ladder ..." and "Picture" in ladder[1][0] and ladder[1][1]


def test_what_if_tells_what_its_check_is_at(monkeypatch):
    monkeypatch.setattr(gemms, "check_gemm", half_done())
    _, said = updates(notebook.what_if, "nested_elect", "hang")
    texts = [text for text, _ in said]
    assert "nested_elect (cute): compiling 1 of 3 ..." in texts
    answer = next(n for n, text in enumerate(texts) if "Your guess is right" in text)
    assert said[answer][1] and not any(update for _, update in said[answer + 1 :])


def test_what_is_stopped_says_where_it_was(monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(factory, "compile_factory", stop)
    for call in (notebook.timeline, notebook.receipt):
        result, said = updates(call, "step04", print)
        assert result is None and "You stopped this (compiling step04 (tilelang))" in said[-1][0]


def raising(M, N, K, plan):
    raise NotImplementedError("TODO 1")


@pytest.mark.parametrize(
    "call, arguments, says",
    [
        (notebook.tried, (), "changes nothing"),
        (notebook.predicted, (lambda M, N, K, plan: 1e-4,), "Picture"),
        (notebook.predicted, (raising,), "no answer for a recorded plan: NotImplementedError: TODO 1"),
        (notebook.predicted, (lambda M, N, K, plan: None,), "no answer for a recorded plan: TypeError"),
        (notebook.predicted, (None,), "no answer for a recorded plan: TypeError"),
    ],
)
def test_recorded_plans_are_shown_beside_a_model_or_it_is_told_why_not(call, arguments, says):
    assert says in shown(call, *arguments)[1]


@pytest.mark.parametrize(
    "call, file", [(notebook.bound, "counters"), (notebook.shapes, "step11"), (notebook.tried, "tried")]
)
def test_without_a_recording_a_picture_says_so(call, file, monkeypatch, tmp_path):
    monkeypatch.setattr(measured, "FOLDER", tmp_path)
    text = shown(call)[1]
    assert "cannot" not in text and ("Picture" in text or "No plans are recorded yet." in text)
    (tmp_path / f"{file}.json").write_text("{")
    assert f"{file}.json is not a results file" in shown(call)[1]


def test_a_moving_figure_that_is_not_there_is_told_in_words_with_what_is_meant():
    assert "no moving figure 'rings'. Did you mean 'ring'?" in str(notebook.moving("rings"))
    assert "stages, " in str(notebook.moving("ring", depth=3))
    assert notebook.moving("ring", stages=2).name == "ring"


def test_a_machine_is_told_without_what_only_a_teacher_needs_and_without_backticks():
    rows = [("cache", True, "`course clean` empties it"), ("sandbox", False, "none")]
    _, text, html = shown(notebook.machine, lambda: rows)
    assert "sandbox" not in text and "<code>course clean</code>" in html


def test_a_line_that_a_verdict_names_is_a_link_to_it_and_a_file_is_none():
    card = "<p>Wait. <br>your cell, line 45: <code>wait(full[0], &#x27;a&#x27;)</code></p>"
    markup = places.linked(card)
    assert "data-line='45' data-code='wait(full[0], &#x27;a&#x27;)'>your cell, line 45</a>" in markup
    assert markup.count("<script>") == 1 and "<code>wait(full[0]" in markup
    for other in ("<p>mine.py, line 45</p>", "<p>nothing</p>"):
        assert places.linked(other) == other
