"""A learner's source inside: what a notebook's cell may name without an import is there, and does nothing."""

import io
import json
import subprocess
import sys

import pytest

from course_utils.classroom import inside
from course_utils.classroom.inside import Nothing
from course_utils.compile.errors import CompileError
from course_utils.run.protocol import read_block

CELL = """
from IPython import get_ipython as asked
get_ipython().run_line_magic("matplotlib", "inline")
asked().system("ls")
files = list(get_ipython().getoutput("ls"))
display(files, clear=True)

def mend(maps):
    return maps

await __import__("asyncio").sleep(0)
check_maps("t1", mend)
"""


def answered(source):
    request = {"kind": "maps", "dsl": "", "source": source, "name": "maps", "sizes": [], "maps": []}
    command = (sys.executable, "-m", "course_utils.classroom.inside")
    ended = subprocess.run(command, input=json.dumps(request).encode(), capture_output=True, timeout=60)
    return json.loads(read_block(io.BytesIO(ended.stdout)))


def test_what_a_notebook_has_is_there_and_does_nothing():
    head = answered(CELL)
    assert (head["stage"], head["text"], head["maps"], head["note"]) == ("", "", [], "")


def test_what_fails_below_the_definition_is_noted_and_costs_nothing():
    head = answered("def mend(maps):\n    return maps\n\ninput('ok?')\n")
    assert (head["stage"], head["text"], head["maps"]) == ("", "", [])
    assert "below mend" in head["note"] and "line 4: EOFError" in head["note"]
    assert inside._loaded("def mend(maps): pass\nimport sys; sys.exit(0)", "maps", "mend")[1]
    assert inside._loaded("def mend(maps): pass\nraise KeyboardInterrupt", "maps", "mend")[1]
    for source in ("1 / 0\ndef mend(maps): pass", "from tilelang.language import gemm as mend\n1 / 0"):
        with pytest.raises(CompileError, match="ZeroDivisionError"):
            inside._loaded(source, "maps", "mend")


def test_points_that_nobody_gave_can_be_compared_shown_and_counted():
    check = Nothing()
    assert check >= 4.5 and check.points == 5 and check > check.points - 1
    assert f"{check.points:.1f} points" == " points" and round(sum([check, 2 * check]) / 2, 1)
    assert {check: 1}[check] == 1 and float(check) == 0
    with check as entered:
        assert entered is check


def test_nothing_is_no_object_that_python_itself_would_ask():
    assert list(Nothing()) == [] and "IPKernelApp" not in Nothing().config
    assert not hasattr(Nothing(), "__wrapped__") and isinstance(Nothing().a.b("c")[3], Nothing)
