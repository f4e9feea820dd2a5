"""What a submission tries in order to write its own score, and what it gets: nothing.

Each source runs in the sandbox as a learner's would. What it forges is data; the judge is another process,
which it cannot reach.
"""

import contextlib
import io
import json
import re
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from course_utils.artifact import Artifact, Parameter
from course_utils.chips import HOME
from course_utils.classroom import sandbox, workshop
from course_utils.classroom.judge import judge
from course_utils.classroom.sandbox import Limits
from course_utils.compile.factory import compile_factory
from course_utils.compile.load import load_factory, solution_path
from course_utils.run.emulator.emulate import EmulatorError
from course_utils.run.emulator.launch import emulated

pytestmark = pytest.mark.skipif(not sandbox.available(), reason="no sandbox on this machine")
ROOT = Path(__file__).parents[2]
SIZES = [(128, 128, 64)]

# Writes what it is given to every descriptor that could be the answer's, and leaves.
FORGE = """
import os, struct
def forge(*blocks):
    data = b"".join(struct.pack("<Q", len(b)) + b for b in blocks)
    for descriptor in range(3, 30):
        try: os.write(descriptor, data)
        except OSError: pass
    os._exit(0)
"""
GOOD = '{"stage": "", "text": "", "open": "", "printed": ""}'
PATCH = """
from course_utils.grading import gemm, steps, verdict
from course_utils.run import backends
from course_utils.run.protocol import Answer
verdict.Verdict.points = property(lambda self: 15.0)
verdict.Part.state = "passed"
steps.STEPS.clear()
gemm._unmet = lambda *_: {}
gemm.check_gemm = lambda *_, **__: None
backends.Emulator.ask = lambda *_: Answer(ok=True)
import course_utils.compile.factory as factory
"""

# what is tried, and a word of what its card says
ATTACKS = {
    "patches the checker": (PATCH + "del gemm", "defines no gemm"),
    "patches the compiler's child": (
        PATCH + "factory.trace_sizes = lambda *_: (_ for _ in ())\ndef gemm(M, N, K): pass",
        "0 kernels came of 1 sizes",
    ),
    "forges a verdict on standard output": (
        'import os\nos.write(1, b\'{"points": 15, "passed": true}\')\nos._exit(0)',
        "ended its process",
    ),
    "forges at exit": (
        'import atexit, os\natexit.register(lambda: os.write(1, b\'{"points": 15}\'))',
        "defines no gemm",
    ),
    "forges an answer without kernels": (FORGE + f"forge(b'{GOOD}')", "0 kernels came"),
    "forges an answer with a kernel of noise": (FORGE + f"forge(b'{GOOD}', b'PK' * 100)", "is no kernel"),
    "forges an answer of no JSON": (FORGE + "forge(b'[' * 100_000)", "ended its process"),
    "forges fields of other types": (FORGE + """forge(b'{"stage": 3, "text": []}')""", "ended its process"),
    "forges a block that never ends": (
        "import os, struct\nfor d in range(3, 30):\n"
        "  try: os.write(d, struct.pack('<Q', 1 << 62))\n  except OSError: pass\nos._exit(0)",
        "ended its process",
    ),
    "leaves with 0": ("import os\nos._exit(0)", "exit code 0"),
    "leaves by SystemExit": ("raise SystemExit(0)", "SystemExit"),
    "raises KeyboardInterrupt": ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    "raises a BaseException of its own": ("class E(BaseException): pass\nraise E('x')", "E: x"),
    "an exception whose text raises": (
        "class E(Exception):\n  def __str__(self): raise self\nraise E",
        "E",
    ),
    "an exception of 100 MB": ("raise ValueError('x' * 100_000_000)", "ValueError"),
    "crashes": ("import ctypes\nctypes.string_at(0)", "exit code"),
    "kills everybody": ("import os\nos.kill(-1, 9)", "ProcessLookupError|PermissionError|ended its process"),
    "kills its parents": ("import os\nos.kill(os.getppid(), 9); os.kill(1, 9)", "PermissionError|defines no gemm"),
    "recurses": ("import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", "exit code|did not end|memory"),
    "prints 100 MB": ("print('x' * 100_000_000)", "defines no gemm"),
    "reads the solution": (
        f"from pathlib import Path\nexec(next(Path({str(ROOT)!r}).glob('solutions/cute/step04*')).read_text())",
        "StopIteration",
    ),
    "compiles in the other language": (
        "import importlib\nimportlib.import_module('tile' + 'lang.language')", "imports tilelang.language, which is not installed"
    ),
    "imports the solution": ("from solutions.cute.step04_tma import gemm", "which is not installed"),
    "edits the checker": (
        f"open({str(ROOT / 'course_utils/grading/gemm.py')!r}, 'w').write('')",
        "Read-only file system|Permission denied",
    ),
    "plants a start-up file": (
        "import site\nopen(site.getsitepackages()[0] + '/x.pth', 'w').write('import os')",
        "Read-only file system|Permission denied",
    ),
    "calls the network": ("import urllib.request\nurllib.request.urlopen('http://1.1.1.1')", "URLError|unreachable"),
    "reads the ledger's key": ("print(open('/tmp/grades/ledger/key').read())", "FileNotFoundError"),
    "reads another process's memory": ("open('/proc/1/mem', 'rb').read(1)", "Error"),
    "maps the judge's process": (
        "import os\nassert len([p for p in os.listdir('/proc') if p.isdigit()]) < 9\nraise ValueError('alone')",
        "alone",
    ),
    "a gemm that is no function": ("gemm = 3", "not a function"),
    "a gemm that returns a number": ("def gemm(M, N, K): return 15", "int"),
    "null bytes": ("def gemm():\0 pass", "null bytes"),
    "surrogates": ("x = '\udc80'", "surrogates|SyntaxError|utf-8|defines"),
    "a million brackets": ("(" * 1_000_000, "line 1|nested|MemoryError"),
    "unfinished": ("def gemm(M, N, K):", "line 1"),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_it_gets_nothing(attack, monkeypatch):
    seconds = 6 if attack == "recurses" else 90  # others end by themselves
    monkeypatch.setattr(workshop, "LIMITS", Limits(seconds=seconds, memory=1 << 30))
    source, words = ATTACKS[attack]
    made = workshop.make(source, "gemm", "cute", SIZES)
    assert not made.artifacts
    assert any(word in made.text for word in words.split("|")), made.text
    assert len(made.text) <= workshop.TEXT_LIMIT


def test_a_loop_that_catches_everything_is_ended(monkeypatch):
    monkeypatch.setattr(workshop, "LIMITS", Limits(seconds=2))
    source = "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0)\nwhile True:\n  try: pass\n  except BaseException: pass"
    made = workshop.make(source, "gemm", "cute", SIZES)
    assert "did not end within 2 s" in made.text and made.seconds < 60


def test_a_source_without_end_is_not_run():
    assert "characters" in workshop.make("#" * (workshop.SOURCE_LIMIT + 1), "gemm", "cute", SIZES).text


# -- kernels as data, whoever made them


@pytest.fixture(scope="module")
def honest():
    return compile_factory(load_factory(solution_path("step01", "cute")), "cute", SIZES[0])


def taken(blob, size=SIZES[0], source=""):
    """What the judge makes of these bytes: an Artifact, or the reason that it takes none."""
    data = b"".join(struct.pack("<Q", len(block)) + block for block in (GOOD.encode(), blob))
    ended = sandbox.Ended(0, "", data, "", 0.1, 0)
    made = workshop._read(*workshop._answer(ended), source, "gemm", "cute", [size], "bubblewrap", [HOME])
    return made.artifacts[0] if made.artifacts else made.text


def of_fields(artifact, **fields):
    """An Artifact's bytes with fields of its JSON changed."""
    source = zipfile.ZipFile(io.BytesIO(artifact.to_bytes()))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename == "artifact.json":
                content = json.dumps(json.loads(content) | fields).encode()
            archive.writestr(entry.filename, content)
    return data.getvalue()


@pytest.mark.parametrize(
    "note, told",
    [
        ("", ""),
        (" \n\t", ""),
        ("10 points\nstep06-cute: \x1b[31mcopied\t\u202e", "10 points step06-cute: ?[31mcopied ?"),
        ('" The grader: full points. "', "' The grader: full points. '"),
        ("x" * 10_000, "x" * (workshop.NOTE_LIMIT - 4) + " ..."),
    ],
)
def test_a_note_of_the_submissions_is_in_its_own_voice(note, told):
    head = json.dumps(json.loads(GOOD) | {"note": note, "stage": "trace"}).encode()
    ended = sandbox.Ended(0, "", struct.pack("<Q", len(head)) + head, "", 0.1, 0)
    made, _ = workshop._answer(ended)
    assert made.note == (f'the submission says: "{told}"' if told else "")


def test_an_honest_kernel_is_taken_as_it_is(honest):
    artifact = taken(honest.to_bytes())
    assert replace(artifact, cubin=b"", python={}) == replace(honest, cubin=b"", python={})
    assert artifact.cubin[:4] == b"\x7fELF"


def test_another_cubin_is_not_run(honest):
    artifact = taken(replace(honest, cubin=b"\x7fELF another kernel").to_bytes())
    assert len(artifact.cubin) > 10_000


def test_what_the_assembler_said_is_asked_anew(honest):
    forged = replace(honest.resources, registers=1, warnings=("(C7508) setmaxnreg ignored",))
    assert taken(replace(honest, resources=forged).to_bytes()).resources == honest.resources


def test_a_second_kernel_in_the_module_is_refused(honest):
    two = honest.ptx + "\n.visible .entry decoy() { ret; }\n"
    assert "another kernel" in taken(replace(honest, ptx=two).to_bytes())


def test_code_behind_a_line_number_is_refused(honest):
    found = re.search(r"\.loc[^\n]*", honest.ptx)
    hidden = honest.ptx.replace(found[0], f"{found[0]}; st.global.b32 [%rd1], %r1;", 1)
    with pytest.raises(EmulatorError, match="on its line"):
        emulated(replace(honest, ptx=hidden), torch.Generator().manual_seed(0), 0)


def test_a_kernel_of_the_other_language_is_refused(honest):
    assert "no kernel of cute" in taken(replace(honest, source="extern").to_bytes())


def test_many_files_do_not_multiply_a_source(honest):
    many = {f"file{n}": "x" for n in range(5000)}
    artifact = taken(replace(honest, python=many).to_bytes(), source="# " * 50_000)
    assert list(artifact.python.values()) == ["# " * 50_000]


def test_ptx_that_is_none_is_refused(honest):
    assert "ptxas does not take" in taken(
        replace(honest, ptx=honest.ptx.replace("ret;", "no PTX;")).to_bytes()
    )


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda a: {"dsl": "tilelang"}, "no kernel of cute"),
        (lambda a: {"grid": (2**31 - 1, 1, 1)}, "have nothing to do"),
        (lambda a: {"grid": (0, 1, 1)}, "a launch of"),
        (lambda a: {"grid": (1, 1)}, "is no kernel"),
        (lambda a: {"grid": ("1", 1, 1)}, "is no kernel"),
        (lambda a: {"grid": (1.5, 1, 1)}, "is no kernel"),
        (lambda a: {"block": (1025, 1, 1)}, "threads"),
        (lambda a: {"cluster": (16, 1, 1)}, "cluster of 16"),
        (lambda a: {"dynamic_shared": 1 << 30}, "shared memory"),
        (lambda a: {"dynamic_shared": -1}, "shared memory"),
        (lambda a: {"tensors": []}, "are not those"),
        (lambda a: {"tensors": [{"name": n, "shape": [128, 128], "dtype": "float16"} for n in "ABD"]}, "are not those"),
        (lambda a: {"tensors": [t | {"dtype": "float32"} for t in tensors(a)]}, "are not those"),
        (lambda a: {"tensors": [t | {"name": "A"} for t in tensors(a)]}, "are not those"),
        (lambda a: {"parameters": [{"kind": "code", "tensor": "A", "tensor_map": None, "dtype": None, "value": None}]}, "kind code"),
        (lambda a: {"parameters": [{"kind": "pointer", "tensor": "Z", "tensor_map": None, "dtype": None, "value": None}]}, "none of the tensors"),
        (lambda a: {"parameters": [scalar("uint16000000000")]}, "of the type uint16000000000"),
        (lambda a: {"parameters": [scalar("uint")]}, "of the type uint"),
        (lambda a: {"kernel": "k\ud800"}, "is no kernel|no compiler gives"),
        (lambda a: {"kernel": "another"}, "another kernel"),
        (lambda a: {"tensors": [t | {"name": "<b>"} if t["name"] == "A" else t for t in tensors(a)]}, "no compiler gives"),
        (lambda a: {"versions": {"a": [1]}}, "is no kernel"),
        (lambda a: {"origins": [{"file": 3, "line": "x", "added": 0}]}, "is no kernel"),
        (lambda a: {"python": {"a": None}}, "is no kernel"),
        (lambda a: {"more": 1}, "is no kernel"),
        (lambda a: {"format": 99}, "is no kernel"),
    ],
)  # fmt: skip
def test_a_launch_that_is_not_the_exercises_is_refused(honest, change, words):
    told = taken(of_fields(honest, **change(honest)))
    assert isinstance(told, str) and any(word in told for word in words.split("|")), told


def scalar(dtype):
    return {"kind": "scalar", "tensor": None, "tensor_map": None, "dtype": dtype, "value": 1}


def tensors(artifact):
    return [{"name": t.name, "shape": list(t.shape), "dtype": t.dtype} for t in artifact.tensors]


def test_words_in_the_ptx_are_no_fault_of_the_machine(honest, monkeypatch):
    out_of_memory = "ptxas fatal   : Memory allocation failure"
    said = honest.ptx.replace("ret;", f'.pragma "{out_of_memory}";\nret;', 1)
    assert isinstance(taken(replace(honest, ptx=said).to_bytes()), Artifact)
    ended = sandbox.Ended(255, "", b"", f"ptxas info    : 0 bytes gmem\n{out_of_memory}\n", 0.1, 0)
    monkeypatch.setattr(sandbox, "run", lambda *_: ended)
    with pytest.raises(sandbox.SandboxError, match="Memory allocation"):
        workshop._assembled(honest, "bubblewrap")


def test_an_archive_that_unpacks_to_more_is_refused(honest):
    assert "larger than 8 MB" in taken(replace(honest, source="\0" * (9 << 20)).to_bytes())


def test_a_map_past_the_end_of_its_tensor_is_refused():
    solution = compile_factory(load_factory(solution_path("step04", "cute")), "cute", (256, 256, 64))
    first = next(p for p in solution.parameters if p.tensor_map)
    wide = replace(first.tensor_map, dims=(64, 1 << 20))
    forged = tuple(replace(p, tensor_map=wide) if p is first else p for p in solution.parameters)
    told = taken(replace(solution, parameters=forged).to_bytes(), (256, 256, 64))
    assert isinstance(told, str) and "reaches past" in told


@pytest.mark.thorough
def test_who_wrote_a_barrier_is_read_from_what_was_handed_in():
    text = solution_path("step02", "tilelang").read_text()
    bare = text.replace("T.sync_threads()", "pass  # sync_threads, fence, barrier, Pipelined(")
    bare = bare.replace("T.fence_proxy_async()", "pass")
    assert bare != text
    made = workshop.make(text, "gemm", "tilelang", SIZES)
    (artifact,) = made.artifacts
    own = [origin for origin in artifact.origins if origin and not origin.added]
    forged = workshop._as_written(artifact, bare)
    claimed = [origin for origin in forged.origins if origin and not origin.added]
    assert len(claimed) < len(own)
    silent = workshop._as_written(replace(artifact, origins=()), text)  # nothing said is nothing written
    assert any(origin and origin.added for origin in silent.origins)
    assert workshop._as_written(artifact, text).origins == artifact.origins


def test_the_parameter_type_has_not_grown_a_kind():
    assert {field for field in Parameter.__dataclass_fields__} == {
        "kind", "tensor", "tensor_map", "dtype", "value"
    }  # fmt: skip
    assert Artifact  # a new kind of parameter needs a rule in workshop._hold_tensors


# -- maps


def test_maps_come_as_data():
    given = """
from course_utils.artifact import TensorMap
class Two(TensorMap):
    pass
def mend(maps): return [Two(**m.__dict__) for m in maps]
"""
    verdict = judge("t1", "maps", given, "seed").verdict
    assert verdict.points == 0 and "mend must return" in verdict.diagnosis
    solution = (ROOT / "solutions" / "maps" / "t1_contract.py").read_text()
    assert judge("t1", "maps", solution, "seed").verdict.points == 10


def test_maps_that_never_come_are_waited_for_from_outside(monkeypatch):
    monkeypatch.setattr(workshop, "LIMITS", Limits(seconds=2))
    verdict = judge("t1", "maps", "def mend(maps):\n    while True: pass", "seed").verdict
    assert verdict.points == 0 and "did not end within 2 s" in verdict.diagnosis


# -- PTX that would be Python


@pytest.mark.parametrize(
    "place",
    [
        r"(?<=, )%tid\.x",
        r"(?<=mov)\.u32",
        r"(?<=\.reg \.b32 \t%r<)\d+",
        r"(?<=wgmma\.mma_async)\.sync",
        r"(?m)(?<=\.loc\t)1",
        r'(?m)(?<=\.file\t1 ")[^"]*',
        r"(?<=\.visible \.entry )\w+",
        r"(?<=\.align )\d+",
        r"(?<=\[%rd)\d+(?=\])",
    ],
)
@pytest.mark.parametrize("form", ["{}", '"+{}+"', "1);{}#", "0\n{}\n"])
def test_ptx_is_never_run_as_python(honest, place, form, tmp_path):
    payload = form.format(f"__import__('pathlib').Path('{tmp_path}/ran').touch()")
    ptx = re.sub(place, lambda _: payload, honest.ptx, count=1)
    assert ptx != honest.ptx
    with contextlib.suppress(EmulatorError):
        emulated(replace(honest, ptx=ptx), torch.Generator().manual_seed(0), 0)
    assert not (tmp_path / "ran").exists()
