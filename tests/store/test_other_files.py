"""Stores of strangers do nothing to other files, and compute nothing, however they are read."""

import sqlite3
import struct

import pytest
from dlbricks_records.contents import check

from dlbricks_core.errors import StoreError
from dlbricks_core.store import ResultStore

_MAGIC = bytes.fromhex("d9d505f920a163d7")

WAYS = {
    "check": check,
    "read": lambda path: ResultStore.open(path, writes=False),
    "write": ResultStore.open,
}


@pytest.fixture
def path(tmp_path):
    location = tmp_path / "sent" / "results.db"
    with ResultStore.open(location):
        pass
    return location


@pytest.fixture
def precious(tmp_path):
    """A file of the user, beside the folder that was sent."""
    file = tmp_path / "precious"
    file.write_text("mine\n")
    return file


def journal(path, named):
    """A journal of the store's first page, which names a journal of several databases."""
    content = path.read_bytes()
    (size,) = struct.unpack(">H", content[16:18])
    page = content[:size]
    check = 1 + sum(page[at] for at in range(size - 200, 0, -200))
    head = _MAGIC + struct.pack(">5I", 1, 1, len(content) // size, 512, size)
    name = str(named).encode()
    told = name + struct.pack(">2I", len(name), sum(name))
    pages = struct.pack(">I", 1) + page + struct.pack(">I", check)
    return head.ljust(512, b"\0") + pages + struct.pack(">I", 2**30 // size + 1) + told + _MAGIC


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("linked", [False, True])
def test_a_journal_that_names_a_file_is_refused(path, precious, tmp_path, way, linked):
    log = path.with_name("results.db-journal")
    log.write_bytes(journal(path, precious))
    place = path
    if linked:
        place = tmp_path / "link.db"
        place.symlink_to(path)
    with pytest.raises(StoreError, match="journal refers to another file"):
        way(place)
    assert precious.read_text() == "mine\n"
    assert log.exists()


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("ending", ["wal", "journal"])
def test_a_log_that_is_a_link_is_refused(path, precious, way, ending):
    path.with_name(f"results.db-{ending}").symlink_to(precious)
    with pytest.raises(StoreError, match="refers to another file"):
        way(path)
    assert precious.read_text() == "mine\n"


@pytest.mark.parametrize(
    "statement",
    [
        "VACUUM INTO '{}'",
        "ATTACH '{}' AS other",
        "CREATE TABLE systems AS SELECT 'a' AS fingerprint, '{{}}' AS facts",
        "CREATE VIRTUAL TABLE systems USING fts3(fingerprint, facts)",
    ],
)
def test_the_definition_of_a_damaged_table_creates_a_table_only(path, tmp_path, statement):
    new = tmp_path / "new"
    connection = sqlite3.connect(path)
    # The tables are on other pages than in a new store, whose first page would be taken.
    connection.execute("CREATE TABLE more (x)")
    connection.execute("INSERT INTO more VALUES (zeroblob(9000))")
    connection.execute("DROP TABLE systems")
    connection.execute("CREATE TABLE systems (fingerprint TEXT PRIMARY KEY, facts JSON)")
    connection.execute("INSERT INTO systems VALUES ('a', '{}')")
    connection.commit()
    connection.execute("VACUUM")
    connection.execute("PRAGMA writable_schema = ON")
    connection.execute("UPDATE sqlite_schema SET sql = NULL WHERE name = 'calibrations'")
    change = "UPDATE sqlite_schema SET sql = ? WHERE name = 'systems'"
    connection.execute(change, (statement.format(new),))
    connection.commit()
    connection.close()
    found = check(path)
    assert "all rows of systems" in found.damage.named["systems"]
    assert found.rows["systems"] == 0
    assert not new.exists()


def test_the_log_of_a_store_that_is_a_link_counts(path, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with ResultStore.open(path) as store:
        store.remember_system("sys", {"cpu": "fast"})
        assert path.with_name("results.db-wal").stat().st_size
        with ResultStore.open(link, writes=False) as same:
            assert same.systems() == {"sys": {"cpu": "fast"}}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_constraints_of_a_stranger_are_not_computed(path, way):
    with ResultStore.open(path) as store:
        store.remember_system("sys", {"cpu": "fast"})
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA writable_schema = ON")
    # It would be an error once it is computed.
    computed = "CHECK (length(zeroblob(length(facts) * 1000000000)) > 0))"
    connection.execute(
        "UPDATE sqlite_schema SET sql = rtrim(sql, ')' || char(10)) || '), ' || ? "
        "WHERE name = 'systems'",
        (computed,),
    )
    connection.commit()
    connection.close()
    found = way(path)
    if isinstance(found, ResultStore):
        with found as store:
            assert store.systems() == {"sys": {"cpu": "fast"}}
    else:
        assert found.is_sound


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE INDEX odd ON systems (length(zeroblob(length(facts))))",
        "CREATE INDEX odd ON systems (facts) WHERE length(zeroblob(length(facts))) > 0",
        "CREATE UNIQUE INDEX odd ON systems (facts, fingerprint || 'x')",
        "ALTER TABLE systems ADD COLUMN odd AS (length(zeroblob(length(facts))))",
    ],
)
def test_indices_and_columns_of_a_stranger_are_not_computed(path, way, statement):
    with ResultStore.open(path) as store:
        store.remember_system("sys", {"cpu": "fast"})
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.execute("PRAGMA writable_schema = ON")
    # To compute it would be an error.
    connection.execute(
        "UPDATE sqlite_schema SET sql = replace(sql, 'length(facts)', 'length(facts) * 1000000000')"
    )
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="an index or a column of the result store computes"):
        way(path)


def test_an_index_over_columns_is_no_matter(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE INDEX own ON systems (facts)")
    connection.commit()
    connection.close()
    assert check(path).is_sound
