"""The first screen, 24 lines of 80 columns, holds the answer.

Those of ``compare`` and ``explain`` are looked at by the tests of these commands.
"""

import pytest

pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.usefixtures("kept_workers")

QUICK = ("--threads", "1", "--runs", "2", "-G", "1", "--store", "s.sqlite")
ORT = ("--backend", "onnxruntime", *QUICK)


def first_screen(done):
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= 80
    return lines[:24]


def row_of(lines, name):
    """Place of the row of a table that begins with the name."""
    return next(i for i, line in enumerate(lines) if line.startswith(f" {name} "))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("estimate", "--measure", *ORT), "m on onnxruntime"),
        (("estimate", *ORT), "m on onnxruntime"),
        (("check", *ORT), "m on onnxruntime"),
        (("show", "repeats"), "m: 8 layers, 4 of them unique"),
    ],
)
def test_the_answer_is_the_first_sentence_and_the_models_follow(dlbricks, shared, command, words):
    model = shared("m", "Relu", "Sigmoid", "Tanh", "Relu")
    done = dlbricks(*command, model)
    assert done.status == 0, done.err
    lines = first_screen(done)
    assert words in lines[0]
    warnings = [i for i, line in enumerate(lines) if line.startswith(("Doubtful:", "Warning:"))]
    assert all(place < row_of(lines, "m") for place in warnings)


def test_the_answer_comes_first_with_many_models_too(dlbricks, shared):
    models = [shared(f"m{i}", "Relu", "Sigmoid") for i in range(30)]
    done = dlbricks("estimate", "--measure", "--end-to-end", *models, *ORT)
    assert done.status == 0, done.err
    answer = " ".join(first_screen(done)[:2])
    assert answer.startswith("30 models on onnxruntime")
    assert "off by" in answer


@pytest.mark.parametrize("line", [(), ("results",), ("machine", "systems"), ("serve", "load")])
def test_a_command_line_that_lacks_something_shows_no_escapes(dlbricks, line):
    done = dlbricks(*line)
    assert "\\n" not in done.err + done.out


def test_the_bare_command_shows_its_help(dlbricks):
    done = dlbricks()
    assert done.status == 2
    lines = done.err.splitlines()
    assert lines[0].startswith("Usage: dlbricks")
    assert "Error" not in done.err
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("  estimate ") for line in lines)


def test_a_verification_begins_with_how_many_agree(dlbricks, shared):
    done = dlbricks(
        "compare", "outputs", shared("m", "Relu", "Sigmoid"), "--backends", "onnxruntime"
    )
    assert first_screen(done)[0] == "1 of 1 agree, within the tolerance."


def test_the_doctor_begins_with_the_verdict_and_what_is_wrong(dlbricks):
    lines = first_screen(dlbricks("machine"))
    assert lines[0].startswith(("Ready to measure", "Not ready to measure"))
    found = [line.split()[0] for line in lines if line.startswith(("warn", "unknown", "ok"))]
    order = ["warn", "unknown", "ok"]
    assert found == sorted(found, key=order.index)
