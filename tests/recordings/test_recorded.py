"""What solutions/measured/ holds bears out what the course says of it."""

import json
import re

import pytest

from benchmarks import foreign
from course_utils.compile.factory import DSLS
from course_utils.compile.faults import kernels
from course_utils.compile.load import SOLUTIONS
from course_utils.grading import steps
from course_utils.recordings import measured

LADDER = measured.load("ladder")
EMULATOR = json.loads((SOLUTIONS / "measured" / "emulator.json").read_text())
WRONG = {entry["name"]: entry for entry in measured.load("wrong")["entries"]}
RISING = [f"step{n:02d}" for n in range(3, 11)]
SQUARES = [4096, 8192]


# what is past the library has a place, and nothing in it until it was recorded
RUNGS = [s for s in steps.STEPS if s not in steps.PAST or s in {e["step"] for e in LADDER["entries"]}]

both_dsls = pytest.mark.parametrize("dsl", DSLS)


def entry_of(step, dsl):
    return next(e for e in LADDER["entries"] if (e["step"], e["dsl"]) == (step, dsl))


def run_of(step, dsl, size, mode="burst"):
    entry = entry_of(step, dsl)
    return next(t for t in entry["timings"] if t["mode"] == mode and t["size"] == [size] * 3)


@pytest.mark.parametrize("name", ["ladder", "variants", "wrong"])
def test_every_file_says_where_it_comes_from(name):
    provenance = measured.load(name)["provenance"]
    assert "H200" in provenance["gpu"]
    assert all(provenance[key] for key in ("driver", "cuda_driver", "torch", "date"))
    assert {"tilelang", "nvrtc"} <= set(provenance["versions"])
    assert name == "variants" or "nvidia-cutlass-dsl" in provenance["versions"]


def test_counters_of_a_language_are_those_of_its_kernels():
    for entry in measured.load("counters")["entries"]:
        sizes = [tuple(launch["size"]) for launch in entry["launches"]]
        assert len(sizes) == len(set(sizes)), entry["name"]
        for launch in entry["launches"]:
            words = ("nvjet", "main_kernel", "cutlass")  # in the names of cuBLAS's kernels, and of each DSL's
            found = [word in launch["kernel"] for word in words]
            assert found == [entry["dsl"] == dsl for dsl in ("cublas", "tilelang", "cute")], entry["name"]


def test_every_solution_was_right_and_got_all_its_points():
    assert [(e["dsl"], e["step"]) for e in LADDER["entries"]] == [
        (dsl, step) for dsl in DSLS for step in RUNGS
    ]
    for entry in LADDER["entries"]:
        assert entry["passed"] and entry["points"] == steps.find(entry["step"]).points, entry["name"]


@both_dsls
@pytest.mark.parametrize("size", SQUARES)
@pytest.mark.parametrize("mode", ["burst", "sustained"])
@pytest.mark.parametrize("field", ["tflops", "ratio"])
def test_the_ladder_rises(size, mode, field, dsl):
    values = [run_of(step, dsl, size, mode)[field] for step in RISING]
    assert values == sorted(set(values))


@both_dsls
def test_step_10_is_no_slower_than_cublas(dsl):
    assert run_of("step10", dsl, 4096)["ratio"] >= 1.0
    assert run_of("step10", dsl, 8192, "sustained")["ratio"] >= 1.0


@both_dsls
@pytest.mark.parametrize("step", RISING)
def test_speed_floor_is_within_reach(step, dsl):
    assert steps.find(step).speed_floor < 0.95 * run_of(step, dsl, 4096)["ratio"]


@both_dsls
@pytest.mark.parametrize("step", RISING)
def test_three_sizes_in_burst_and_two_sustained_with_clocks(step, dsl):
    entry = entry_of(step, dsl)
    modes = [(t["mode"], tuple(t["size"])) for t in entry["timings"]]
    assert modes == [("burst", size) for size in steps.TIMED_SIZES] + [
        ("sustained", (n,) * 3) for n in SQUARES
    ]
    assert all(t["gpu"]["clock_mhz"] and t["gpu"]["power_w"] for t in entry["timings"])


WRONG_KERNELS = [fault for dsl in DSLS for fault in kernels(dsl).values()]


@pytest.mark.parametrize("wanted", WRONG_KERNELS, ids=lambda wanted: f"{wanted.dsl}-{wanted.name}")
def test_every_wrong_kernel_got_its_verdict_on_the_gpu(wanted):
    name = f"{wanted.name} {wanted.dsl}"
    if wanted.fails == "compiles":
        assert name not in WRONG
        return
    if wanted.step in steps.PAST and name not in WRONG:
        pytest.skip("not recorded yet")
    found = WRONG[name]
    failed = [part["name"] for part in found["checks"] if part["passed"] is False]
    assert failed[0] == wanted.fails
    assert wanted.says and all(words in found["diagnosis"].lower() for words in wanted.says)
    results = next(part for part in found["checks"] if part["name"] == "results")
    outcome = next(
        (
            outcome
            for outcome, words in (
                ("hang", ("never ended",)),
                ("refused", ("refused",)),
                ("fault", ("died", "touched")),
            )
            if any(word in results["detail"] for word in words)
        ),
        "right" if results["passed"] else "wrong",
    )
    assert outcome in {"race": ("right", "wrong", "fault")}.get(wanted.outcome, (wanted.outcome,))


def test_what_changes_of_step_11_are_worth_is_what_was_timed_in_turns():
    told = {(one["name"], one["dsl"]): one["gains"] for one in measured.load("tried")["entries"]}
    timed = json.loads((measured.FOLDER / "candidates.json").read_text())["entries"]
    timed = [entry for entry in timed if entry["timing"] and entry["name"] != "step 11"]
    assert len(timed) > 50
    for entry in timed:
        place = f"{'x'.join(map(str, entry['size']))} {entry['mode']}"
        gain = told[entry["name"], entry["dsl"]][place]
        assert gain == pytest.approx(entry["beside"]["ratio"] - 1, abs=1e-6)


# -- the emulator beside the H200


def test_every_solution_was_held_against_the_h200_at_three_sizes():
    assert "H200" in EMULATOR["provenance"]["gpu"] and EMULATOR["provenance"]["driver"]
    sizes = {(dsl, step): 0 for dsl in DSLS for step in steps.STEPS if step not in steps.PAST}
    for run in EMULATOR["solutions"]:
        sizes[run["dsl"], run["step"]] = sizes.get((run["dsl"], run["step"]), 0) + 1
    assert all(count == 3 or step == "step01" for (_, step), count in sizes.items())  # step 1 has one size


@pytest.mark.parametrize(
    "run", EMULATOR["solutions"], ids=lambda run: f"{run['step']} {run['dsl']} {run['size']}"
)
def test_the_emulator_came_to_what_the_h200_computed(run):
    """Both round an fp32 sum to fp16, added up in another order: few elements differ, and no error is larger
    than the other's.
    """
    assert run["finished"] and run["findings"] == []
    assert run["differ"] < 0.005 * run["elements"]
    assert run["largest_difference"] <= 2.0**-4  # one fp16 ulp of the largest elements, between 64 and 128
    assert run["largest_error_emulator"] <= 1.05 * run["largest_error_h200"]


RACES_THE_H200_WON = {
    ("no_cluster_sync", "tilelang"),
    ("no_store_wait", "tilelang"),
    ("no_producer_tail", "cute"),
    ("no_proxy_fence", "cute"),
}


@pytest.mark.parametrize("row", EMULATOR["wrong"], ids=lambda row: f"{row['name']} {row['dsl']}")
def test_the_emulator_and_the_h200_agree_on_a_wrong_kernel_or_a_race_was_won(row):
    won = (row["name"], row["dsl"]) in RACES_THE_H200_WON
    assert row["emulator_right"] == (row["h200_right"] and not won)
    assert not won or row["kinds"]
    if "never ended" in row["h200"]:
        assert not row["emulator_ended"] or "expect-tx" in row["kinds"]


def test_every_wrong_kernel_that_compiles_was_emulated():
    names = {(row["name"], row["dsl"]) for row in EMULATOR["wrong"]}
    wrong = {(one.name, one.dsl): one for one in WRONG_KERNELS}
    wanted = {name for name, one in wrong.items() if one.fails != "compiles"}
    late = {name for name, one in wrong.items() if one.step in steps.PAST}  # these may come later
    assert names <= wanted <= names | late


# -- public programs in the emulator


def test_the_page_has_the_tables_of_the_record():
    text, entries = foreign.table(foreign.recorded())
    page = (SOLUTIONS.parent / "docs" / "emulator.md").read_text()
    assert text in page
    record = json.loads((SOLUTIONS / "measured" / "public_kernels.json").read_text())
    assert json.loads(json.dumps(entries)) == record["entries"]


def test_what_nobody_has_looked_at_is_the_emulators_fault():
    job, kinds = foreign.Job("a.py", "m.main()"), {"proxy-fence": "rule: no fence"}
    done = {"outcome": "finding", "said": "", "kinds": ["proxy-fence"]}
    assert foreign.verdict(job, done, kinds) == ("rule", "no fence")
    other = done | {"kinds": ["proxy-fence", "cluster-exit"]}
    assert foreign.verdict(job, other, kinds) == ("emulator", "not looked at yet")
    for outcome in ("wrong", "crashed"):
        assert foreign.verdict(job, {"outcome": outcome, "said": "", "kinds": []}, kinds)[0] == "emulator"
    blamed = foreign.Job("a.py", "m.main()", fault="program: no barrier")
    assert foreign.verdict(blamed, other, kinds) == ("program", "no barrier")


def test_mended_programs_were_right_on_the_h200_and_the_page_names_each_fault():
    rows = json.loads((SOLUTIONS / "measured" / "found.json").read_text())["rows"]
    page = (SOLUTIONS.parent / "docs" / "found.md").read_text()
    assert all(row.get("launches_wrong") == 0 for row in rows if row["MENDED"])
    told = {fault: line for line in page.splitlines() for fault in re.findall(r"^\| \[(\w+)\]\(#", line)}
    recorded = {row["fault"] for row in rows}
    assert recorded <= set(told)
    assert all(("not tried" in line) == (fault not in recorded) for fault, line in told.items())
    for row in rows:
        if not row["MENDED"] and not row["LATE"]:
            wrong, launches = row.get("launches_wrong"), row.get("launches")
            right = f"right in {launches} launches"
            said = "hangs" if "hung" in row else f"in {wrong} of {launches} launches" if wrong else right
            assert said in told[row["fault"]]
