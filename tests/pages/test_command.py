"""``dlbricks results pages`` as users type it."""

import pytest

from dlbricks_core.cli import main
from dlbricks_core.importers.cache import keep_names


@pytest.fixture
def atlas(capfd, monkeypatch, tmp_path):
    """Runs the command; gives its status, and what it printed."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(["results", "pages", *map(str, arguments)])
        return ended.value.code, *capfd.readouterr()

    return run


def test_it_says_what_it_wrote_and_where_to_begin(atlas, stored):
    store = stored((1.0, "a" * 24, "model"), (1.0, "b" * 24))
    status, out, err = atlas("-o", "site", "--store", store)
    assert (status, err) == (0, "")
    assert "1 model and 1 brick on 1 system and 1 backend." in out
    assert "1 measured (100%)" in out
    assert "open site/index.html" in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_folder_that_no_atlas_wrote_is_refused_in_one_line(atlas, stored, tmp_path):
    store = stored((1.0, "a" * 24))
    status, out, err = atlas("-o", tmp_path, "--store", store)
    assert (status, out) == (2, "")
    assert err.startswith("Error: ")
    assert "which no earlier pages have" in err
    assert store.is_file()


def test_a_store_without_measurements_leaves_the_old_site(atlas, stored, tmp_path):
    store = stored((1.0, "a" * 24))
    assert atlas("-o", "site", "--store", store)[0] == 0
    before = (tmp_path / "site" / "index.html").read_text()
    status, _, err = atlas("-o", "site", "--store", "none.sqlite")
    assert status == 2
    assert "holds no measurements" in err
    assert (tmp_path / "site" / "index.html").read_text() == before


def test_names_of_this_machine_are_shown_unless_they_are_hidden(atlas, stored, tmp_path):
    own = "a" * 24
    store = stored((1.0, own, "model"))
    keep_names({own: "payroll"})
    assert atlas("-o", "site", "--store", store)[0] == 0
    assert "payroll" in (tmp_path / "site" / "models.html").read_text()
    assert atlas("-o", "site", "--hide-names", "--store", store)[0] == 0
    assert not [
        each for each in (tmp_path / "site").rglob("*.html") if "payroll" in each.read_text()
    ]


def test_without_a_folder_the_command_is_wrong_usage(atlas):
    assert atlas()[0] == 2
