"""How messages name arguments, in Python and on the command line."""

import doctest

from dlbricks_core import wording
from dlbricks_core.cli.spelling import option_of
from dlbricks_core.wording import argument, arguments_spelled, settings

VALUES = {"budget_s": 60, "dims": {"sequence": "N"}, "shapes": {"x": (1, 3)}}


def test_examples_in_docstrings_are_right():
    assert doctest.testmod(wording).failed == 0


def test_python_spells_arguments_as_python_does():
    assert argument("force") == "force"
    assert settings(**VALUES) == "budget_s=60, dims={'sequence': N}, shapes={'x': (1, 3)}"


def test_the_command_line_spells_options():
    with arguments_spelled(option_of):
        assert argument("force") == "--force"
        assert settings(**VALUES) == "--budget 60 --dim sequence=N --dim x=1x3"
        assert settings(dims={"a b": 1}) == "--dim 'a b=1'"
    assert argument("force") == "force"
