"""The Artifact survives the trip to bytes and back, and refuses everything else in a sentence."""

import io
import json
import pickle
import sys
import zipfile
from dataclasses import fields, replace

import pytest

from course_utils import artifact as module
from course_utils.artifact import (
    Allocation,
    Artifact,
    ArtifactError,
    Origin,
    Parameter,
    Resources,
    Tensor,
    TensorMap,
)

MAP = TensorMap(
    data_type=6,
    dims=(320, 768, 7),
    strides=(640, 491520),
    box=(64, 128, 1),
    element_strides=(1, 2, 1),
    interleave=1,
    swizzle=3,
    l2_promotion=2,
    oob_fill=1,
)


def test_a_box_takes_every_stepth_element_but_without_interleave_all_of_a_row():
    assert MAP.extents == (64, 64, 1)
    strided = replace(MAP, interleave=0, box=(64, 127, 1), element_strides=(8, 2, 1))
    assert (strided.steps, strided.extents, strided.box_bytes) == ((1, 2, 1), (64, 64, 1), 64 * 64 * 2)
    with pytest.raises(ValueError):
        _ = replace(MAP, box=(64, 128)).extents


# no field has its default value, and no two have the same
# fmt: off
ARTIFACT = Artifact(
    dsl="tilelang", kernel="main_kernel", ptx=".version 9.0\n// µ\n", cubin=bytes(range(256)),
    grid=(60, 76, 2), block=(384, 3, 5), cluster=(2, 1, 4), dynamic_shared=229376,
    origins=(None, Origin("kernel.py", 7, added=True)), python={"kernel.py": "a = 1\n"}, pipelined=True,
    allocations=(Allocation(1024, 512, 1024, 3, "kernel.py", 4),),
    parameters=(
        Parameter("tensor_map", tensor="A", tensor_map=MAP), Parameter("pointer", tensor="B"),
        Parameter("scalar", dtype="int32", value=-7), Parameter("scalar", dtype="float32", value=0.1),
    ),
    tensors=(
        Tensor("A", (768, 320), "float16"), Tensor("B", (1280, 320), "bfloat16"),
        Tensor("D", (768, 1280), "float32"),
    ),
    resources=Resources(
        registers=168, stack_frame=8, spill_stores=16, spill_loads=24, static_shared=1024,
        warnings=("(C7510) Potential Performance Loss: µ", "(C7511) another"),
    ),
    versions={"tilelang": "0.1.15", "nvrtc": "13.0.88"}, source="// a\r\n__global__ void main_kernel() {}\n",
)
# fmt: on


def rewrite(data: bytes, change) -> bytes:
    """The archive with ``change`` applied to its members, a dict of name to bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def change_json(**changes):
    """A change of ``artifact.json``: each given field set, or removed where it is None."""

    def change(members):
        found = json.loads(members["artifact.json"]) | changes
        members["artifact.json"] = json.dumps({k: v for k, v in found.items() if v is not None}).encode()

    return change


def assert_refused(data: bytes, words: str = "not a compiled kernel of this course") -> None:
    with pytest.raises(ArtifactError, match=words) as caught:
        Artifact.from_bytes(data)
    assert " " in str(caught.value).strip()


def test_example_covers_every_field():
    for item in (ARTIFACT, ARTIFACT.resources, MAP):
        assert all(getattr(item, f.name) not in (0, "", (), {}) for f in fields(item))
    assert {p.kind for p in ARTIFACT.parameters} == {"tensor_map", "pointer", "scalar"}


def test_round_trip_to_bytes():
    back = Artifact.from_bytes(ARTIFACT.to_bytes())
    assert back == ARTIFACT
    assert back.parameters[0].tensor_map == MAP
    assert isinstance(back.parameters[2].value, int) and isinstance(back.parameters[3].value, float)
    assert hash(back.parameters) == hash(ARTIFACT.parameters)  # tuples all the way down, no lists


def test_round_trip_to_file(tmp_path):
    path = tmp_path / "step.artifact"
    ARTIFACT.save(path)
    assert Artifact.load(path) == ARTIFACT
    assert Artifact.load(str(path)) == ARTIFACT


def test_empty_texts_survive():
    empty = replace(ARTIFACT, ptx="", cubin=b"", source="", versions={}, parameters=(), tensors=())
    assert Artifact.from_bytes(empty.to_bytes()) == empty


def test_archive_opens_with_ordinary_tools():
    with zipfile.ZipFile(io.BytesIO(ARTIFACT.to_bytes())) as archive:
        assert sorted(archive.namelist()) == ["artifact.json", "kernel.cu", "kernel.cubin", "kernel.ptx"]
        assert archive.read("kernel.cubin") == ARTIFACT.cubin
        assert json.loads(archive.read("artifact.json"))["dynamic_shared"] == 229376


def test_problem_and_threads():
    assert ARTIFACT.problem == (768, 1280, 320)
    assert ARTIFACT.threads == 384 * 3 * 5


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 64, b"PK\3\4 and no more", b"import torch\n", ARTIFACT.to_bytes()[:-1]],
    ids=["empty", "zeros", "zip head", "other file", "one byte short"],
)
def test_other_bytes_are_refused(data):
    assert_refused(data)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_truncated_archive_is_refused(share):
    data = ARTIFACT.to_bytes()
    assert_refused(data[: int(share * len(data))])


def test_flipped_byte_is_refused():
    # stored, not deflated: content lies open
    data = bytearray(rewrite(ARTIFACT.to_bytes(), lambda members: None))
    data[data.index(b".version 9.0")] ^= 1
    assert_refused(bytes(data))


@pytest.mark.parametrize("name", ["artifact.json", "kernel.ptx", "kernel.cubin", "kernel.cu"])
def test_missing_member_is_refused(name):
    assert_refused(rewrite(ARTIFACT.to_bytes(), lambda members: members.pop(name)))


@pytest.mark.parametrize(
    "changes",
    [
        {"grid": None},
        {"format": None},
        {"parameters": None},
        {"grid": 3},
        {"tensors": [{"name": "A"}]},
        {"resources": {"registers": 1}},
        {"no_such_field": 1},
        {"parameters": [{"kind": "pointer"}]},
    ],
    ids=str,
)
def test_wrong_fields_are_refused(changes):
    assert_refused(rewrite(ARTIFACT.to_bytes(), change_json(**changes)))


@pytest.mark.parametrize("text", [b"{", b"\xff\xfe", b"", b"[]"])
def test_broken_json_is_refused(text):
    assert_refused(rewrite(ARTIFACT.to_bytes(), lambda members: members.update({"artifact.json": text})))


def test_text_that_is_no_utf8_is_refused():
    assert_refused(rewrite(ARTIFACT.to_bytes(), lambda members: members.update({"kernel.ptx": b"\xff"})))


def test_other_format_is_refused():
    newer = change_json(format=module.FORMAT + 1)
    assert_refused(rewrite(ARTIFACT.to_bytes(), newer), "another release of the course; compile it again")


def test_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(OSError):
        Artifact.load(tmp_path / "none.artifact")


def test_a_pickle_is_data_and_never_runs(tmp_path):
    """An artifact may come from anybody: reading one must run nothing."""

    class Bomb:
        def __reduce__(self):
            return (tmp_path / "ran").touch, ()

    assert_refused(pickle.dumps(Bomb()))
    assert_refused(
        rewrite(ARTIFACT.to_bytes(), lambda members: members.update({"artifact.json": pickle.dumps(Bomb())}))
    )
    assert not (tmp_path / "ran").exists()
    assert not {"pickle", "marshal", "shelve"} & set(vars(module))


@pytest.mark.parametrize(
    "text",
    [b"3", b'"x"', b"null", b"[" * (10 * sys.getrecursionlimit())],
    ids=["number", "string", "null", "nested"],
)
def test_json_of_another_kind_is_refused(text):
    assert_refused(rewrite(ARTIFACT.to_bytes(), lambda members: members.update({"artifact.json": text})))


@pytest.mark.parametrize(
    "changes", [{"parameters": ["A"]}, {"parameters": 3}, {"resources": [1]}, {"resources": "x"}], ids=str
)
def test_fields_of_another_kind_are_refused(changes):
    assert_refused(rewrite(ARTIFACT.to_bytes(), change_json(**changes)))


def test_any_changed_byte_is_refused_or_harmless():
    """As on a bad disk. A byte that no reader looks at, such as a member's date, may change."""
    data = ARTIFACT.to_bytes()
    for i in range(0, len(data), 3):
        changed = bytes([*data[:i], data[i] ^ 0xFF, *data[i + 1 :]])
        try:
            assert Artifact.from_bytes(changed) == ARTIFACT
        except ArtifactError as error:
            assert str(error)
