"""How messages name arguments, and how docstrings and messages are worded."""

import ast
import doctest
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlbricks_core import wording
from dlbricks_core.commands.options.spelling import option_of
from dlbricks_core.wording import argument, arguments_spelled, settings

ROOT = Path(__file__).parents[1]
#: Folders whose prose is checked.
PROSE = ("dlbricks_core", "plugins/*/src", "benchmarks", "examples")
#: A docstring begins with the thing itself, not with a question about it or a reference.
RIDDLE = re.compile(r"(?:What|The same|Everything|Those|That|These|Whoever)\b")
#: A person says "is not a file"; "there is no file" and "is no longer" are fine.
IS_NO = re.compile(r"(?<!there )(?<!There )\bis no (?!longer\b|more\b|less\b)")
#: The reason why a layer is opaque is kept in stores, and stays as it is.
KEPT = "result that is no tensor"

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


def docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Docstrings of a module, its classes, functions and variables."""
    for node in ast.walk(tree):
        body = getattr(node, "body", ())
        for child in body if isinstance(body, list) else ():
            if (
                isinstance(child, ast.Expr)
                and isinstance(child.value, ast.Constant)
                and isinstance(child.value.value, str)
            ):
                yield child.value


@functools.cache
def modules(folder: str) -> list[tuple[Path, ast.Module]]:
    """Parsed modules of a folder."""
    return [
        (path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8")))
        for root in ROOT.glob(folder)
        for path in sorted(root.rglob("*.py"))
    ]


@pytest.mark.long
@pytest.mark.parametrize("folder", PROSE)
def test_docstrings_begin_with_the_thing_itself(folder):
    found = [
        (str(path), each.lineno, each.value)
        for path, tree in modules(folder)
        for each in docstrings(tree)
        if RIDDLE.match(each.value.strip())
    ]
    assert found == []


@pytest.mark.long
@pytest.mark.parametrize("folder", PROSE)
def test_messages_say_what_a_thing_is_not(folder):
    found = []
    for path, tree in modules(folder):
        apart = set(map(id, docstrings(tree)))
        found += [
            (str(path), node.lineno, node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in apart
            and IS_NO.search(node.value.replace(KEPT, ""))
        ]
    assert found == []
