"""What import-linter cannot see: words that belong to one room only."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).parents[1] / "dlbricks_core"

#: Options of other programs, which hints tell the user to run, and names of CSS.
OTHERS = re.compile(
    r"\b(?:cpupower|taskset|docker run|ps|swapoff|swapon|pip)\b[^;,()]*"
    r"|--cpuset-cpus=|--cpus\b|var\(--|--series-"
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def modules(*without: str) -> list[Path]:
    """The core's modules, without those of some rooms."""
    every = sorted(CORE.rglob("*.py"))
    return [path for path in every if path.relative_to(CORE).parts[0] not in without]


def texts(path: Path) -> Iterator[str]:
    """String constants of a module, docstrings included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize(
    "path", modules("cli", "wording.py"), ids=lambda path: str(path.relative_to(CORE))
)
def test_no_command_line_option_is_named_outside_of_cli(path):
    """Users of Python read messages too: ``wording.argument`` names arguments to both."""
    named = [word for text in texts(path) for word in OPTION.findall(OTHERS.sub("", text))]
    assert named == []
