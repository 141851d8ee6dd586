"""Files that tell users and registries what the distributions are, and the name of the API."""

import re
import tomllib
from pathlib import Path

import pytest

import dlbricks_core
from dlbricks_core.commands.command import DISTRIBUTIONS as DISTRIBUTIONS_OF_COMMANDS
from dlbricks_core.commands.command import folders_to_install
from dlbricks_core.version import __version__

ROOT = Path(__file__).parents[1]
DISTRIBUTIONS = [ROOT, *sorted((ROOT / "plugins").iterdir())]

APART = "The core knows no plugin, and no plugin another"
"""Name of the contract that lists all distributions."""

UNTYPED = {"llamacpp", "mxnet", "onnxruntime", "openvino", "pytorch"}
"""Distributions whose frameworks have no types."""

NOT_ALONE = {"fleet", "llamacpp", "postgresql"}
"""Distributions that need a server or a compiler: no environment of their own tries them."""


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda folder: folder.name)
def test_each_distribution_carries_its_licence(folder):
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    text = (folder / "LICENSE").read_text()
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert text == (ROOT / "LICENSE").read_text()


def places(name):
    """Places that name all distributions in plugins/, and whether they name this one."""
    module, text = (
        f"dlbricks_{name}",
        {
            each: (ROOT / each).read_text()
            for each in ("requirements-dev.txt", "docs/explain/architecture.md", ".ci/alone")
        },
    )
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    imports = tool["importlinter"]
    (contract,) = (each for each in imports["contracts"] if each["name"] == APART)
    return {
        "requirements-dev.txt": f"-e plugins/{name}\n" in text["requirements-dev.txt"],
        "docs/explain/architecture.md": (
            name == "testing" or f"`dlbricks-{name}`" in text["docs/explain/architecture.md"]
        ),
        ".ci/alone": (
            name in NOT_ALONE or re.search(rf"\b{name}\b", text[".ci/alone"]) is not None
        ),
        "pyproject.toml, packages of mypy": (name in UNTYPED or module in tool["mypy"]["packages"]),
        "pyproject.toml, root_packages of import-linter": (module in imports["root_packages"]),
        f"pyproject.toml, contract {APART!r}": (
            module in " | ".join(contract["layers"]).split(" | ")
        ),
    }


@pytest.mark.parametrize("folder", DISTRIBUTIONS[1:], ids=lambda folder: folder.name)
def test_each_distribution_is_in_every_list_of_them(folder):
    lacking = [place for place, is_named in places(folder.name).items() if not is_named]
    assert not lacking, f"{folder.name} is not named in: {'; '.join(lacking)}"


def needed(name):
    """Names of the distributions in plugins/ that this one depends on, directly."""
    project = tomllib.loads((ROOT / "plugins" / name / "pyproject.toml").read_text())["project"]
    named = (re.match(r"dlbricks-(\w+)", each) for each in project["dependencies"])
    return {match[1] for match in named if match}


@pytest.mark.parametrize("name", sorted(folder.name for folder in DISTRIBUTIONS[1:]))
def test_hints_install_all_that_a_distribution_depends_on(name):
    distributions = {each.removeprefix("dlbricks-") for each in DISTRIBUTIONS_OF_COMMANDS.values()}
    if name in distributions:
        assert set(folders_to_install(name)) == {
            name,
            *(folder for each in needed(name) for folder in folders_to_install(each)),
        }


TEXTS = ["README.md", "CONTRIBUTING.md", "docs/**/*.md", "plugins/*/README.md", "examples/**/*.md"]


@pytest.mark.parametrize(
    "text", sorted(each for glob in TEXTS for each in ROOT.glob(glob)), ids=str
)
def test_installations_in_texts_bring_all_that_a_distribution_depends_on(text):
    for line in re.findall(r"pip install[^\n`]*-e plugins/[^\n`]*", text.read_text()):
        folders = re.findall(r"-e plugins/(\w+)", line)
        for index, folder in enumerate(folders):
            assert needed(folder) <= set(folders[:index]), line


def test_no_command_of_the_core_may_import_another():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (named,) = (each["modules"] for each in contracts["contracts"]
                if each["name"] == "No command imports another")  # fmt: skip
    folders = (ROOT / "dlbricks_core/commands").glob("*/__init__.py")
    found = {each.parent.name for each in folders} - {"options"}
    assert {f"dlbricks_core.commands.{name}" for name in found} == set(named), "in pyproject.toml"


def test_the_api_has_the_name_of_the_command():
    import dlbricks

    assert dlbricks.__all__ == dlbricks_core.__all__
    assert all(getattr(dlbricks, name) is getattr(dlbricks_core, name) for name in dlbricks.__all__)
    assert set(dlbricks.__all__) <= set(dir(dlbricks))
    with pytest.raises(AttributeError, match="no attribute 'estimates'"):
        _ = dlbricks.estimates


def test_the_citation_is_of_this_version_and_of_the_paper():
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {__version__}\n" in text
    assert "1911.07967" in text


def test_the_newest_section_of_the_changelog_is_of_this_version():
    headings = [
        line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")
    ]
    assert headings[0].startswith(f"## {__version__}")
    assert headings == sorted(headings, reverse=True)


def test_no_text_names_a_distribution_of_dlbricks_that_an_index_would_have_to_have():
    """No package index has them, and anybody could register the name of one."""
    texts = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("plugins/*/README.md")]
    code = [*ROOT.glob("dlbricks_core/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py")]
    named = [
        path
        for path in [*texts, *code, ROOT / "plugins/suite/src/dlbricks_suite/folder/readme.txt"]
        if path.name != "CHANGELOG.md"
        and "pip install dlbricks" in path.read_text().replace("'", "")
    ]
    assert named == []
