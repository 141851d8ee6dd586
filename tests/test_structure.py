"""What import-linter cannot see: words that belong to one room only."""

import ast
import re
from collections import defaultdict
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


def has_no_command_line(path: Path) -> bool:
    """Whether a module neither declares options of the command line nor describes its JSON."""
    describes = path.stem == "spelling" or path.stem.startswith("json_")
    return not describes and "import click" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path",
    filter(has_no_command_line, modules("cli", "wording.py")),
    ids=lambda path: str(path.relative_to(CORE)),
)
def test_no_option_is_named_outside_of_command_lines(path):
    """Users of Python read messages too: ``wording.argument`` names arguments to both."""
    named = [word for text in texts(path) for word in OPTION.findall(OTHERS.sub("", text))]
    assert named == []


NUMBERED = ("analysis", "compose", "estimation", "figures", "machine", "measure", "predict")
"""Rooms of the core in which every constant number says what it is."""


def is_number(node: ast.AST) -> bool:
    """Whether an expression is made of numbers alone."""
    match node:
        case ast.Constant():
            return isinstance(node.value, int | float) and not isinstance(node.value, bool)
        case ast.UnaryOp():
            return is_number(node.operand)
        case ast.BinOp():
            return is_number(node.left) and is_number(node.right)
        case ast.Tuple():
            return bool(node.elts) and all(map(is_number, node.elts))
    return False


def unexplained(source: str) -> list[str]:
    """Constant numbers of a module without a docstring or a comment of their own.

    Constants on lines that follow each other share one.
    """
    lines, body, found = source.splitlines(), ast.parse(source).body, []
    for place, node in enumerate(body):
        if not (isinstance(node, ast.Assign) and is_number(node.value)):
            continue
        last = place
        while last + 1 < len(body) and isinstance(body[last + 1], ast.Assign | ast.AnnAssign):
            if body[last + 1].lineno > body[last].end_lineno + 1:
                break
            last += 1
        after = body[last + 1] if last + 1 < len(body) else None
        documented = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        first = node.lineno - 1
        while lines[first - 1][:1].isalpha() and " = " in lines[first - 1]:
            first -= 1
        commented = lines[first - 1].startswith("#: ") or "  #" in lines[node.end_lineno - 1]
        if not documented and not commented:
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("room", [*NUMBERED, "plugins"])
def test_constant_numbers_say_what_they_are(room):
    if room == "plugins":
        sources = (CORE.parent / "plugins").glob("*/src/**/*.py")
        every = [path for path in sources if "paper" not in path.parts]
    else:
        every = (CORE / room).rglob("*.py")
    bare = {path.name: unexplained(path.read_text(encoding="utf-8")) for path in sorted(every)}
    assert {name: found for name, found in bare.items() if found} == {}


def test_a_constant_number_without_a_docstring_is_found():
    shared = 'FEW, MANY = 1, 2\nMOST_S = -3.0\n"""Numbers."""\n'
    bare = "BARE = 2**30\nOTHER = 5  # why\nNAME = 'x'\n"
    assert unexplained(shared + bare) == ["BARE = 2 ** 30"]


@pytest.mark.long
def test_no_public_class_name_is_defined_twice_in_the_core():
    """One word for one thing: a name that a newcomer looks for leads to one place."""
    places = defaultdict(list)
    for path in sorted(CORE.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(path.relative_to(CORE)))
    assert {name: each for name, each in places.items() if len(each) > 1} == {}


#: Words that do not say what a thing is, and words of our own where the field has one.
UNTELLING = {
    *("told", "each", "found", "asked", "wanted", "known", "own", "one", "other", "others"),
    *("said", "seen", "given", "taken", "gone", "left", "whose", "doubts", "doubtful"),
    *("elsewhere", "alone", "absent", "harmless", "knowledge", "oracle", "belief"),
    *("dial", "dialled", "insist", "subjects", "levelled", "travelling", "carried"),
}


def definitions(path: Path) -> Iterator[str]:
    """Names of a module's functions and classes."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def test_names_of_functions_and_classes_say_what_they_are():
    found = {
        f"{path.relative_to(CORE)}: {name}"
        for path in modules()
        for name in definitions(path)
        if name.strip("_").lower() in UNTELLING
    }
    assert found == set()
