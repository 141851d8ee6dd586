"""Every test can fail: it asserts, expects an error, or calls what does."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = [
    ROOT / "tests",
    ROOT / "plugins/testing/src/dlbricks_testing",
    *sorted((ROOT / "plugins").glob("*/tests")),
    *sorted((ROOT / "examples").glob("*/tests")),
]
#: Calls that fail by themselves: pytest's, numpy's, Python's with ``check=True``, and helpers
#: whose names begin in these ways.
CHECKS = ("raises", "warns", "deprecated_call", "fail", "assert_", "check_")


def each_test(folder: Path) -> Iterator[tuple[Path, ast.FunctionDef]]:
    """Test functions and methods, those inside of other functions left out."""
    for path in sorted(folder.rglob("*.py")):
        module = ast.parse(path.read_text())
        classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
        for node in (*module.body, *(inner for each in classes for inner in each.body)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield path, node


def helpers(folder: Path) -> set[str]:
    """Functions beside the tests that assert something."""
    return {
        node.name
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
        and not node.name.startswith("test_")
        and any(isinstance(inner, ast.Assert) for inner in ast.walk(node))
    }


def can_fail(test: ast.FunctionDef, known: set[str]) -> bool:
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and checks(node, known))
        for node in ast.walk(test)
    )


def checks(call: ast.Call, known: set[str]) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    checked = any(
        keyword.arg == "check" and getattr(keyword.value, "value", False) is True
        for keyword in call.keywords
    )
    return checked or name in known or name.lstrip("_").startswith(CHECKS)


@pytest.mark.long
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.relative_to(ROOT)))
def test_every_test_can_fail(folder: Path) -> None:
    known = helpers(folder)
    idle = [f"{path.name}::{t.name}" for path, t in each_test(folder) if not can_fail(t, known)]
    assert idle == []


def test_a_test_that_cannot_fail_is_found() -> None:
    module = ast.parse("def test_idle():\n    print(run(check=False))\n")
    assert not can_fail(module.body[0], set())
