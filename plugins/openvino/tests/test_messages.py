"""OpenVINO's messages in one line."""

import pytest
from dlbricks_openvino.backend import OpenvinoBackend
from dlbricks_openvino.messages import is_refusal, one_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "Exception from src/core.cpp:1:\nCheck 'a' failed at b:\n  no such layer\n",
            "no such layer",
        ),
        ("plain", "plain"),
        ("only places:", "only places:"),
    ],
)
def test_a_message_is_the_problem_without_places(text, line):
    assert one_line(RuntimeError(text)) == line
    assert OpenvinoBackend().reason(RuntimeError(text)) == f"RuntimeError: {line}"


def test_a_refusal_is_told_from_a_failure():
    assert is_refusal(RuntimeError("a\nOpConversionFailure: b"))
    assert not is_refusal(RuntimeError("out of memory"))
