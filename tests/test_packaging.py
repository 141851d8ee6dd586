"""Files that tell users and registries what the distributions are, and the name of the API."""

import tomllib
from pathlib import Path

import pytest

import dlbricks_core
from dlbricks_core.version import __version__

ROOT = Path(__file__).parents[1]
DISTRIBUTIONS = [ROOT, *sorted((ROOT / "plugins").iterdir())]


@pytest.mark.parametrize("folder", DISTRIBUTIONS, ids=lambda folder: folder.name)
def test_each_distribution_carries_its_licence(folder):
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert (project["license"], project["license-files"]) == ("Apache-2.0", ["LICENSE"])
    text = (folder / "LICENSE").read_text()
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert text == (ROOT / "LICENSE").read_text()


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
