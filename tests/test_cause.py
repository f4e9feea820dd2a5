"""A cause is data; its sentence is made from a table."""

import json

import pytest

from course_utils.cause import Cause, Warps, Who, data, sentence, spans

SENTENCES = {
    "arrivals": "{who} {who:makes|make} {count:,} arrivals on {barrier}{why}",
    "no load": ": no load is in flight",
}
CONSUMERS = Who((Warps("consumer", (4, 5, 6, 7)),))


def cause(who=CONSUMERS, why=None):
    return Cause(
        "barrier-overrun", "arrivals", {"who": who, "count": 1024, "barrier": "empty[1]", "why": why}
    )


def test_a_sentence_is_filled_with_the_values():
    assert sentence(cause(), SENTENCES) == "consumer warps 4-7 make 1,024 arrivals on empty[1]"


def test_a_verb_goes_with_the_number_of_warps():
    one = Who((Warps("producer", (0,), (3,)),))
    assert sentence(cause(one), SENTENCES) == "producer warp 0 of CTA 3 makes 1,024 arrivals on empty[1]"
    both = Who((Warps("", (0,)), Warps("", (2, 3))))
    assert sentence(cause(both), SENTENCES).startswith("warp 0 and warps 2-3 make")


def test_a_part_of_a_sentence_is_a_cause_of_its_own():
    text = sentence(cause(why=Cause("barrier-overrun", "no load")), SENTENCES)
    assert text.endswith("on empty[1]: no load is in flight")


def test_a_case_or_a_value_that_is_missing_is_an_error():
    with pytest.raises(KeyError, match="another"):
        sentence(Cause("barrier-overrun", "another"), SENTENCES)
    with pytest.raises(KeyError, match="who"):
        sentence(Cause("barrier-overrun", "arrivals", {"count": 1}), SENTENCES)


def test_data_is_json():
    made = data(cause(why=Cause("barrier-overrun", "no load")))
    assert json.loads(json.dumps(made)) == made
    assert made["values"]["who"]["groups"][0]["numbers"] == [4, 5, 6, 7]
    assert made["values"]["why"]["case"] == "no load"


def test_spans_of_numbers():
    assert spans([5, 0, 2, 1, 3, 3]) == "0-3, 5"
    assert spans([]) == ""
