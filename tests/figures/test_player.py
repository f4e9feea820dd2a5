"""The timeline that moves: one piece of HTML, small and alone; the same events for Perfetto."""

import base64
import json
import re

import pytest

from course_utils.compile import load as loading
from course_utils.compile.factory import compile_factory
from course_utils.figures import perfetto, theme
from course_utils.figures.player import Player, words
from course_utils.figures.timeline import timeline
from course_utils.run.emulator import Emulation, emulate
from course_utils.run.emulator.explain.replay import replay
from course_utils.run.reference import inputs

LIMIT = 300_000  # bytes of one figure's HTML, its static picture included


@pytest.fixture(scope="module")
def step10():
    import torch

    size = 256, 512, 320
    artifact = compile_factory(
        loading.load_factory(loading.solution_path("step10", "tilelang")), "tilelang", size
    )
    A, B = inputs(*size, torch.Generator().manual_seed(0), "cpu")
    D = torch.zeros(size[:2], dtype=torch.float16)
    return emulate(artifact, {"A": A, "B": B, "D": D}, 0, ctas=(0, 1), record=True)


FAULT = {
    "step": 1,
    "kind": "deadlock",
    "text": "all wait",
    "place": "a.py, line 3",
    "more": [],
    "chain": [{"lane": 0, "to": [], "text": "</script><b>x", "line": "", "at": ""}],
}
# fmt: off
PLAYED = {
    "title": "</script>{{DATA}}", "total": 2, "first": 0, "ctas": [0],
    "steps": [[1, "load", 0, "<i>{{KEY}}", 0], [2, "wait", 0, "\u2028", 0]],
    "lines": [["a.py, line 3", "x = '</script>'"]], "lanes": [{"cta": 0, "name": "warp 0"}], "bars": [],
    "edges": [], "barriers": [], "slots": [], "fault": FAULT, "start": 0,
}
# fmt: on


def test_one_piece_of_html_small_and_with_nothing_from_outside(step10):
    played = replay(step10, title="step10")
    picture = timeline(step10, played["ctas"], "step10")
    bundle = Player(played, picture)._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html", "image/png"}
    html, png = bundle["text/html"], base64.b64decode(bundle["image/png"])
    assert len(html.encode()) < LIMIT and png.startswith(b"\x89PNG")
    assert bundle["image/png"] in html  # what stands there where scripts do not run
    assert not re.search(
        r"https?:|src=\"(?!data:)|url\(|@import|\bfetch\(|import\(", html.replace(bundle["image/png"], "")
    )
    assert bundle["text/plain"].startswith("Timeline of step10: ") and "{{" not in html
    assert Player(played).html() == Player(played).html()  # a notebook that is run again does not change


def test_no_text_of_a_learners_ends_the_script():
    html = Player(PLAYED).html()
    assert html.count("<script") == html.count("</script") == 1 and "\u2028" not in html
    data = re.search(r"const figure = (.*);\n", html)[1]
    assert json.loads(data) == PLAYED
    assert "&lt;/script&gt;&lt;b&gt;x" in html  # the words that stand there without scripts


def test_the_fault_in_words_is_what_a_terminal_shows():
    assert words(PLAYED) == "deadlock: all wait\n  at a.py, line 3\n  </script><b>x"
    assert "deadlock: all wait" in repr(Player(PLAYED)) and words(PLAYED | {"fault": None}) == ""


def test_the_page_has_the_themes_colours():
    html = Player(PLAYED).html()
    for name, (light, dark) in theme.PAGE.items():
        assert f"--{name}: {light};" in html and f"--{name}: {dark};" in html


def contrast(one, other):
    def light(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("text", ["ink", "grey", "red"])
@pytest.mark.parametrize("ground", ["paper", "pale", "lane"])
def test_text_is_readable_on_its_ground(text, ground, dark):
    assert contrast(theme.PAGE[text][dark], theme.PAGE[ground][dark]) >= 4.5


def test_perfetto_reads_the_same_events(step10):
    events = json.loads(json.dumps(perfetto.events(step10)))
    told = [e for e in events if e["ph"] == "M"]
    rest = [e for e in events if e["ph"] != "M"]
    assert events == told + rest and {e["ph"] for e in rest} == {"X", "i", "C"}
    assert all(isinstance(e["ts"], int) and e["pid"] in (0, 1) and e["name"] for e in events)
    assert [e["ts"] for e in rest] == sorted(e["ts"] for e in rest)
    threads = {(e["pid"], e["tid"]) for e in told if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in rest if e["ph"] != "C"} == threads
    names = {e["name"] for e in rest if e["ph"] == "X"}
    assert {"wgmma A(0, 3) B(0, 3), stage 3", "waits for full[0]", "epilogue"} <= names
    assert {"full[0] phase", "full[0] bytes come", "empty[3] arrivals"} <= {
        e["name"] for e in rest if e["ph"] == "C"
    }
    ends = {}
    for e in (e for e in rest if e["ph"] == "X"):  # spans of one thread follow one another
        assert e["dur"] >= 0 and e["ts"] >= ends.get((e["pid"], e["tid"]), 0)
        ends[e["pid"], e["tid"]] = e["ts"] + e["dur"]
    assert any("step10_multi_consumer.py, line" in e["args"].get("line", "") for e in rest)


def test_perfetto_of_nothing_says_so():
    with pytest.raises(ValueError, match="did nothing that could be written"):
        perfetto.events(Emulation(True, [], 0, 0))
