"""A source that hides what it runs is a finding, and one that does what exercises do is none."""

from pathlib import Path

import pytest

from course_utils.classroom import hidden
from course_utils.classroom.hidden import what_hides

ROOT = Path(__file__).parents[2]
PACKED = "import zlib, base64\nexec(zlib.decompress(base64.b64decode(b'eJw=')))"


@pytest.mark.parametrize(
    "source, words",
    [
        (PACKED, ["unpacks bytes (zlib.decompress, line 2", "runs text as code (exec, line 2"]),
        ("from zlib import decompress as d\nd(b'')", ["unpacks bytes (zlib.decompress, line 2)"]),
        ("import base64 as b\nx = b.b85decode", ["unpacks bytes (base64.b85decode, line 2)"]),
        ("import marshal, types\ntypes.FunctionType(marshal.loads(b''), {})", ["types.FunctionType, line 2"]),
        ("import builtins\nbuiltins.exec('1')", ["runs text as code (builtins.exec, line 2)"]),
        ("run = eval\nrun('1')", ["runs text as code (eval, line 1)"]),
        ("__import__('zlib').decompress(b'')", ["runs text as code (__import__, line 1)"]),
        ("import importlib\nimportlib.import_module('zl' + 'ib')", ["importlib.import_module, line 2"]),
        ("vars(__builtins__)['ex' + 'ec']('1')", ["runs text as code (__builtins__, line 1)"]),
        ("from zlib import *\ndecompress(b'')", ["unpacks bytes (zlib.*, line 1)"]),
        ("import zlib\ngetattr(zlib, 'decom' + 'press')(b'')", ["unpacks bytes (zlib.getattr, line 2)"]),
        ("import runpy\nrunpy.run_path('/tmp/x.py')", ["runs text as code (runpy.run_path, line 2)"]),
        ("import importlib.util\nimportlib.util.spec_from_loader", ["importlib.util, line 2"]),
        ("import linecache\nlinecache.cache['x'] = 1", ["runs text as code (linecache.cache, line 2)"]),
        ("exec(bytes.fromhex('31'))", ["bytes.fromhex, line 1", "exec, line 1"]),
    ],
)
def test_what_hides_code_is_named_with_its_line(source, words):
    told = what_hides(source)
    assert all(word in told for word in words), told


@pytest.mark.parametrize(
    "source",
    [
        "import re\nre.compile('x')",
        "import cutlass.cute as cute\ncute.compile(1)",
        "import base64, zlib",
        "code, pickle = [], {}\ncode.append(pickle.get(1))\ngetattr(code, 'append')",
        '"""exec(zlib.decompress(x))"""\n# eval',
        "def compiled(exec_, evaluate):\n    return exec_(evaluate)",
        "def (",
        "(" * 10_000,
        "",
    ],
)
def test_what_an_exercise_does_hides_nothing(source):
    assert not what_hides(source)


def test_no_right_kernel_of_the_course_hides_anything():
    """But for one that loads its kernel from another file."""
    files = [*ROOT.glob("solutions/*/*.py"), *ROOT.glob("tests/grading/otherwise/*.py")]
    found = [path.name for path in files if what_hides(path.read_text())]
    assert len(files) > 50 and found == ["cutlass_example.py"]


def test_a_tree_is_read_up_to_a_limit(monkeypatch):
    assert what_hides(PACKED)
    monkeypatch.setattr(hidden, "NODES", 3)
    assert not what_hides(PACKED)
