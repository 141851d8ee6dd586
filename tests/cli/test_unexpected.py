"""Unexpected errors: one line, a status of their own, the traceback with -v."""

from contextlib import suppress

import pytest

from dlbricks_core import __version__
from dlbricks_core.errors import DLBricksError
from dlbricks_core.worker import RemoteError, WorkerProcess


@pytest.fixture
def broken(monkeypatch):
    """Makes the next command fail while it runs."""

    def break_with(error):
        def fail(*_arguments, **_more):
            raise error

        monkeypatch.setattr("dlbricks_core.commands.options.models.load_models", fail)

    return break_with


@pytest.mark.parametrize(
    "error",
    [
        TypeError("keys must be str"), KeyError("x"), RecursionError("too deep"),
        EOFError(), OSError(5, "Input/output error"), BrokenPipeError(32, "Broken pipe"),
        ValueError("two\nlines \x1b[31m[/x]"), AssertionError(),
    ],
)  # fmt: skip
def test_an_unexpected_error_is_one_line_that_says_how_to_report_it(dlbricks, broken, error):
    broken(error)
    done = dlbricks("show", "a.onnx")
    assert (done.status, done.out) == (70, "")
    first, hint = done.err.splitlines()
    assert first.startswith(f"Error: unexpected {type(error).__name__}")
    assert f"DLBricks {__version__}" in hint
    assert "-v" in hint
    assert "\x1b" not in done.err


@pytest.mark.parametrize("flag", ["-v", "--verbose", "-qv"])
@pytest.mark.parametrize("place", [1, 2, 4])
def test_the_flag_for_tracebacks_may_stand_anywhere(dlbricks, broken, flag, place):
    arguments = ["show", "--dim", "a=1", "a.onnx"]
    arguments.insert(place if place != 2 else 3, flag)
    for error, status in ((KeyError("x"), 70), (DLBricksError("told", "hint"), 2)):
        broken(error)
        done = dlbricks(*arguments)
        assert done.status == status
        assert "Traceback (most recent call last):" in done.err
        assert done.err.splitlines()[-2].startswith("Error: ")


@pytest.mark.process
def test_failures_in_workers_leave_their_traceback(dlbricks, monkeypatch):
    def survive(*_arguments, **_more):
        with (
            WorkerProcess("fractions:Fraction") as worker,
            suppress(RemoteError),
        ):
            worker.call("limit_denominator", "many")
        raise DLBricksError("went on", "hint")

    monkeypatch.setattr("dlbricks_core.commands.options.models.load_models", survive)
    told = "limit_denominator failed in its worker:"
    assert told not in dlbricks("show", "a.onnx").err
    assert told not in dlbricks("show", "a.onnx", "--json=-v").err
    lines = dlbricks("show", "a.onnx", "-v").err.splitlines()
    assert lines[:2] == [f"  {told}", "  Traceback (most recent call last):"]
    assert any(line.startswith("  TypeError: ") for line in lines)


def test_a_value_that_looks_like_the_flag_is_not_one(dlbricks, broken):
    broken(KeyError("x"))
    for arguments in (("--json", "-v"), ("--json=-v",), ("--", "-v")):
        done = dlbricks("show", "a.onnx", *arguments)
        assert done.status == 70
        assert "Traceback" not in done.err


def test_the_help_names_every_exit_status(dlbricks):
    text = " ".join(dlbricks("--help").out.split())
    for status in ("0 all done", "2 wrong usage", "3 finished", "70 a defect", "130 interrupted",
                   "141 the reader of"):  # fmt: skip
        assert status in text
