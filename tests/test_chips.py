"""Chips: what a launch may ask of each, and who asks: Artifacts, conditions, compilers, plans, a check."""

import json
from dataclasses import replace

import pytest

from course_utils import chips, plans
from course_utils.artifact import Artifact, ArtifactError, Resources, Tensor
from course_utils.chips import BLACKWELL, CHIPS, HOME
from course_utils.compile.errors import CompileError
from course_utils.compile.factory import compile_factory
from course_utils.compile.limits import require_fits
from course_utils.grading import conditions, words
from course_utils.ptx.receipts import Receipt
from course_utils.run import backends

PCIE = CHIPS["NVIDIA H100 PCIe"]
TENSORS = tuple(Tensor(name, (4096, 4096), "float16") for name in "ABD")
ONE = (1, 1, 1)


def device(name="NVIDIA H100 PCIe", capability=(9, 0), sms=114):
    return {"name": name, "capability": list(capability), "sms": sms}


def kernel(grid=ONE, chip=HOME):
    nothing = Resources(0, 0, 0, 0, 0)
    return Artifact("cute", "k", "", b"", grid, (128, 1, 1), ONE, 0, (), TENSORS, nothing, chip=chip)


@pytest.mark.parametrize(
    "name, sms", [("NVIDIA H200", 132), ("NVIDIA H100 80GB HBM3", 132), ("NVIDIA H100 PCIe", 114)]
)
def test_a_known_device_is_its_row(name, sms):
    chip = chips.of_device(device(name, sms=sms))
    assert chip is CHIPS[name] and (chip.sms, chip.arch, chip.shared) == (sms, "sm_90a", 232_448)


def test_the_clock_at_its_peak_is_that_of_the_white_paper():
    assert HOME.clock == pytest.approx(1.83e9, rel=1e-3)
    assert chips.of_device(device("NVIDIA H20", sms=78)).clock == BLACKWELL.clock == 0


def test_an_unknown_device_has_the_limits_of_its_capability_and_its_own_sms():
    chip = chips.of_device(device("NVIDIA H20", sms=78))
    assert (chip.name, chip.sms, chip.peak_tflops) == ("NVIDIA H20", 78, 0)
    assert replace(chip, name="", sms=0) == replace(HOME, name="", sms=0, peak_tflops=0.0, watts=0.0)
    part = chips.of_device(device("NVIDIA H200", sms=60))  # a slice of one
    assert (part.sms, part.peak_tflops, part.watts) == (60, 0, 0)
    assert chips.of_device(device("NVIDIA B200", (10, 0), 148)).arch == "sm_100a"


@pytest.mark.parametrize(
    "changed", [{"capability": (8, 0)}, {"sms": 0}, {"sms": True}, {"sms": "114"}, {"name": 3}]
)
def test_a_device_that_is_none_is_refused(changed):
    with pytest.raises(ValueError, match="chip"):
        chips.of_device(device(**changed))


def test_a_persistent_kernel_of_a_chip_with_114_sms_has_114_ctas():
    def told(grid, chip):
        found = conditions.unmet(Receipt(), kernel((grid, 1, 1), chip), ["fixed grid"]).values()
        return words.text(*(one.cause for one in found))

    assert not told(114, PCIE) and not told(132, HOME) and not told(128, HOME)
    assert "114 CTAs, one for each SM, whatever" in told(132, PCIE) and told(128, PCIE)
    assert "113 of 114 SMs have a CTA" in told(113, PCIE)
    assert f"needs {words.needs('fixed grid')}" in told(114, HOME)


def test_plans_of_step_11_fill_the_chip():
    assert {plan.num_ctas for plan in plans.plans()} == {128, 132}
    assert {plan.num_ctas for plan in plans.plans(PCIE.sms)} == {114}
    assert plans.choose(4096, 4096, 4096, PCIE.sms).num_ctas == 114


def test_an_artifact_names_its_chip_and_an_old_one_is_of_the_courses_own():
    for chip in (HOME, PCIE, BLACKWELL, chips.of_device(device("NVIDIA H20", sms=78))):
        assert Artifact.from_bytes(kernel(chip=chip).to_bytes()).chip == chip
    assert Artifact.from_bytes(edited(lambda fields: fields.pop("chip"))).chip is HOME


@pytest.mark.parametrize("chip", [["NVIDIA H200", [9, 0], 0], ["x", [1, 0], 3], [], 7, None])
def test_an_artifact_of_no_chip_is_none(chip):
    with pytest.raises(ArtifactError):
        Artifact.from_bytes(edited(lambda fields: fields.update(chip=chip)))


def edited(edit):
    import io
    import zipfile

    with zipfile.ZipFile(io.BytesIO(kernel().to_bytes())) as old:
        parts = {name: old.read(name) for name in old.namelist()}
    fields = json.loads(parts["artifact.json"])
    edit(fields)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as new:
        for name, data in (parts | {"artifact.json": json.dumps(fields)}).items():
            new.writestr(name, data)
    return out.getvalue()


def test_limits_are_the_chips():
    require_fits(ONE, (1024, 1, 1), ONE, 232_448)
    small = replace(HOME, threads=512, sm_shared=100 << 10)
    with pytest.raises(CompileError, match="Hopper allows 512"):
        require_fits(ONE, (1024, 1, 1), ONE, 0, chip=small)
    with pytest.raises(CompileError, match="at most 101,376"):
        require_fits(ONE, ONE, ONE, 232_448, chip=small)


def test_a_check_compiles_for_the_gpu_that_will_run_it(monkeypatch):
    assert backends.chip_of(backends.Emulator()) is backends.chip_of(backends.Compiler()) is HOME
    monkeypatch.setattr(backends, "find_gpu", lambda: (device(), ""))
    assert backends.chip_of(backends.choose("auto")) is backends.chip_of(backends.choose("gpu")) is PCIE


GRID_OF_SMS = """
import tilelang.language as T

def gemm(M, N, K, sm_count=132):
    @T.prim_func
    def main(A: T.Tensor((M, K), T.float16), B: T.Tensor((N, K), T.float16), D: T.Tensor((M, N), T.float16)):
        with T.Kernel(sm_count, threads=128) as cta:
            if cta == 0:
                T.copy(A[0:64, 0:64], D[0:64, 0:64])
    return main
"""


def test_a_factory_that_takes_sm_count_gets_the_chips(tmp_path):
    from course_utils.compile.load import load_factory

    path = tmp_path / "mine.py"
    path.write_text(GRID_OF_SMS)
    gemm = load_factory(path)
    made = compile_factory(gemm, "tilelang", (128, 128, 128), chip=PCIE)
    assert (made.grid, made.chip) == ((114, 1, 1), PCIE)
    assert compile_factory(gemm, "tilelang", (128, 128, 128)).grid == (132, 1, 1)
    made = compile_factory(gemm, "tilelang", (128, 128, 128), chip=BLACKWELL)
    assert (made.grid, made.chip) == ((148, 1, 1), BLACKWELL) and ".target sm_100a" in made.ptx


@pytest.mark.parametrize("step", ["step06", "step10", "step11"])
def test_the_solutions_fill_a_chip_of_114_sms(step):
    from course_utils.compile.load import load_factory, solution_path

    gemm = load_factory(solution_path(step, "tilelang"))
    made = compile_factory(gemm, "tilelang", (512, 512, 256), chip=PCIE)
    assert made.grid == (114, 1, 1)
    assert not conditions.unmet(Receipt(), made, ["fixed grid"])
