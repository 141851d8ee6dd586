"""The folder of a site: replaced as a whole, never with files of others in it."""

import json

import pytest
from dlbricks_pages.pages import MANIFEST, check_site, write_site

from dlbricks_core.errors import DLBricksError

PAGES = [("index.html", "new"), ("models/a.html", "a")]


def files(folder):
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def test_a_site_lists_its_files(tmp_path):
    folder = tmp_path / "deep" / "site"
    folder.parent.mkdir()
    assert write_site(PAGES, folder) == ["index.html", "models/a.html"]
    found = files(folder)
    assert set(json.loads(found.pop(MANIFEST))["files"]) == {*found, MANIFEST}
    assert found == dict(PAGES)


def test_a_second_site_leaves_no_page_of_the_first(tmp_path):
    write_site([*PAGES, ("models/stale.html", "stale")], tmp_path / "site")
    write_site(PAGES, tmp_path / "site")
    assert files(tmp_path / "site").keys() == {"index.html", "models/a.html", MANIFEST}
    assert [each.name for each in tmp_path.iterdir()] == ["site"]


def test_an_empty_folder_is_taken_and_a_link_stays_a_link(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    write_site(PAGES, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "empty" / "index.html").read_text() == "new"


@pytest.mark.parametrize("inside", ["notes.txt", "models/notes.txt"])
def test_what_no_atlas_wrote_is_never_replaced(tmp_path, inside):
    write_site(PAGES, tmp_path / "site")
    strange = tmp_path / "site" / inside
    strange.write_text("mine")
    before = files(tmp_path / "site")
    for refuse in (check_site, lambda folder: write_site(PAGES, folder)):
        with pytest.raises(DLBricksError, match="which no earlier pages have") as caught:
            refuse(tmp_path / "site")
        assert inside in caught.value.message
    assert files(tmp_path / "site") == before


def test_a_folder_of_something_else_is_refused(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "index.html").write_text("mine")
    with pytest.raises(DLBricksError, match="no earlier pages have"):
        check_site(tmp_path / "home")
    for manifest in ("{not json", "[" * 100_000):
        (tmp_path / "home" / MANIFEST).write_text(manifest)
        with pytest.raises(DLBricksError, match="no earlier pages have"):
            check_site(tmp_path / "home")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DLBricksError, match="cannot be written: it is not a folder"):
        check_site(tmp_path / "file")


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_site_whose_writing_is_interrupted_stays_as_it_was(tmp_path, error):
    def half():
        yield PAGES[0]
        raise error

    write_site([("index.html", "old")], tmp_path / "site")
    before = files(tmp_path / "site")
    with pytest.raises(error):
        write_site(half(), tmp_path / "site")
    assert files(tmp_path / "site") == before
    assert [each.name for each in tmp_path.iterdir()] == ["site"]
