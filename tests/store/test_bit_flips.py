"""Mutated SQLite stores: each is read or refused in one line, and its file is never changed."""

import random
import sqlite3
import struct
import warnings
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from dlbricks_prediction.features import NAMES
from dlbricks_prediction.training_data import FEATURES, contributions
from dlbricks_records.contents import Selection, check, exported, info, inventory, merge, records

from dlbricks_core.errors import DLBricksError, StoreError
from dlbricks_core.facts import (
    LATENCY,
    Calibration,
    CalibrationKey,
    MachineName,
    NetworkFeatures,
    Observation,
    Question,
    Session,
    Setup,
    Subject,
)
from dlbricks_core.store import ResultStore

SETUP = Setup("mxnet", "1.9.1", '{"executor":"gluon"}', 2, "interleaved:rounds=30,sweep", "0.1.0")
FITTED = CalibrationKey("similar", "chain", 1, LATENCY, SETUP, "sys")
QUESTIONS = [Question(Subject(f"net{i:03}", "brick"), LATENCY, SETUP, "sys") for i in range(60)]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAGE = 4096
FEATURE = struct.pack(f"<{len(NAMES)}f", *[1.0] * len(NAMES))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Bytes of a store of some 30 pages, in one file; they are the same each time."""
    path = tmp_path_factory.mktemp("whole") / "results.db"
    with ResultStore.open(path) as store:
        store.remember_system("sys", {"cpu": "fast"})
        merge(store, [MachineName("sys", "host", "lab", NOW)])
        for number in range(3):
            store.keep_session(Session(f"s{number}", "host", "sys", "0.1.0", NOW))
        store.add_all(
            (
                each,
                Observation(f"s{number}", 0, (1.5, 2.5 + i), flags=("busy",), taken_at=NOW),
                ["Conv"],
            )
            for number in range(3)
            for i, each in enumerate(QUESTIONS)
        )
        store.keep_networks(
            NetworkFeatures(each.subject.signature, FEATURES, ("conv",), FEATURE)
            for each in QUESTIONS
        )
        store.keep_calibration(Calibration(FITTED, {"composing_error": 0.04}, (), 7, "0.1", NOW))
        store.keep_rewrite("net000", SETUP, "sys", bytes(10_000))
        store.record_failure(QUESTIONS[7], "ill")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA journal_mode = DELETE")
    connection.close()
    return path.read_bytes()


def used(path):
    """Everything that a store is read for."""
    with ResultStore.open(path, writes=False) as store:
        store.get(QUESTIONS), store.systems(), store.sessions(), store.machines()
        store.outlines(), store.backends(), store.quantities(), store.model_names()
        store.setups("mxnet"), store.refused(SETUP, "sys"), store.sampled(LATENCY)
        info(store), inventory(store), store.rewritten(), store.rewrite("net000", SETUP, "sys")
        store.networks(None), store.calibration(FITTED), contributions(store)
        exported(store), exported(store, Selection(outdated=True))
        list(store.measurements())
    check(path)


def use_all(path):
    """Reads all of a store, or finds it refused; its file and folder stay as they are."""
    before = path.read_bytes()
    with warnings.catch_warnings(), suppress(DLBricksError):
        warnings.simplefilter("ignore", UserWarning)
        used(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def flipped(content, draw):
    """The file with some bits changed, most of them close to each other."""
    data = bytearray(content)
    begin, width = draw.randrange(len(data)), draw.choice((1, 64, PAGE, len(data)))
    for _ in range(draw.choice((1, 1, 2, 8, 40))):
        data[(begin + draw.randrange(width)) % len(data)] ^= 1 << draw.randrange(8)
    return bytes(data)


def cut(content, draw):
    """The file without its end, without a page, or with a page of zeros or of another place."""
    pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
    at = draw.randrange(1, len(pages))
    how = draw.randrange(5)
    if how == 0:
        return content[: draw.randrange(len(content))]
    if how == 1:
        return b"".join(pages[:at])
    if how == 2:
        return b"".join(pages[:at] + pages[at + 1 :])
    if how == 3:
        pages[at] = bytes(PAGE)
    else:
        pages[at] = pages[draw.randrange(len(pages))]
    return b"".join(pages)


@pytest.mark.long
@pytest.mark.parametrize("mutated", [flipped, cut])
@pytest.mark.parametrize("seed", range(4))
def test_a_mutated_store_is_read_or_refused_and_never_changed(whole, tmp_path, mutated, seed):
    path = tmp_path / "results.db"
    draw = random.Random(seed)
    for _ in range(5):  # benchmarks/fuzz.py makes thousands
        path.write_bytes(mutated(whole, draw))
        use_all(path)


def root_of(content, path, table):
    """Number of the page at which a table begins, from 1."""
    path.write_bytes(content)
    connection = sqlite3.connect(path)
    query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    (root,) = connection.execute(query, (table,)).fetchone()
    connection.close()
    return root


def last_leaf(content, path, table):
    """Place of a leaf of a table: the right-most child of the table's root."""
    header = (root_of(content, path, table) - 1) * PAGE
    assert content[header] == 5  # a page of a table that points to others
    (child,) = struct.unpack(">I", content[header + 8 : header + 12])
    return (child - 1) * PAGE


def test_a_damaged_page_loses_its_own_rows_and_names_them(whole, tmp_path):
    path, table = tmp_path / "results.db", "observations"
    at = last_leaf(whole, path, table)
    before = check(path)
    assert before.is_sound
    damaged = whole[:at] + b"\xff" * PAGE + whole[at + PAGE :]
    path.write_bytes(damaged)
    found = check(path)
    lost = before.rows[table] - found.rows[table]
    assert 0 < lost < before.rows[table]
    assert dict(found.damage.counts) == {table: lost}
    assert {**found.rows, table: 0} == {**before.rows, table: 0}
    with (
        pytest.warns(UserWarning, match=f"the file is damaged: row .* of {table}"),
        ResultStore.open(path, writes=False) as store,
    ):
        assert len(list(store.measurements())) == len(QUESTIONS)
    assert path.read_bytes() == damaged


def test_nothing_is_written_to_a_damaged_file_and_the_rest_is_saved_elsewhere(whole, tmp_path):
    path = tmp_path / "results.db"
    at = last_leaf(whole, path, "observations")
    path.write_bytes(whole[:at] + b"\xff" * PAGE + whole[at + PAGE :])
    with pytest.raises(StoreError, match="the file is damaged") as caught:
        ResultStore.open(path)
    assert "results merge" in caught.value.hint
    with (
        pytest.warns(UserWarning, match="is damaged"),
        ResultStore.open(path, writes=False) as damaged,
        ResultStore.open(tmp_path / "new.db") as new,
    ):
        merged = merge(new, records(damaged))
    assert merged.observations == check(path).rows["observations"]
    assert check(tmp_path / "new.db").is_sound


def test_a_file_that_lacks_its_end_is_read_as_far_as_it_goes(whole, tmp_path):
    path = tmp_path / "results.db"
    path.write_bytes(whole[: -2 * PAGE])
    found = check(path)
    assert found.damage.counts.total() > 0
    assert found.rows["measurements"] == len(QUESTIONS)


def test_pages_in_a_circle_end(whole, tmp_path):
    path = tmp_path / "results.db"
    root = root_of(whole, path, "observations")
    page = bytearray(whole[(root - 1) * PAGE : root * PAGE])
    struct.pack_into(">I", page, 8, root)  # the root is its own child
    path.write_bytes(whole[: (root - 1) * PAGE] + page + whole[root * PAGE :])
    found = check(path)
    assert found.damage.counts["observations"] + found.rows["observations"] == 3 * len(QUESTIONS)


# -- what each page holds


def number_at(content, at):
    """A number of SQLite's own format, and the place behind it."""
    found = 0
    for place in range(at, at + 8):
        found = found << 7 | content[place] & 0x7F
        if content[place] < 0x80:
            return found, place + 1
    return found << 8 | content[at + 8], at + 9


def further_pages(content, cell, size):
    """Pages that continue a row whose content is too large for the page where it begins."""
    least, most = (PAGE - 12) * 32 // 255 - 23, PAGE - 35
    if size <= most:
        return
    here = least + (size - least) % (PAGE - 4)
    at = cell + (here if here <= most else least)
    while page := int.from_bytes(content[at : at + 4]):
        yield page
        at = (page - 1) * PAGE


def rows_below(content, number, way=()):
    """Rows of a table from a page downwards, each as the pages that it takes to read it."""
    begin = (number - 1) * PAGE
    kind, count = content[begin], int.from_bytes(content[begin + 3 : begin + 5])
    inner = kind == 5
    header = begin + (12 if inner else 8)
    cells = struct.unpack(f">{count}H", content[header : header + 2 * count])
    way = (*way, number)
    for cell in cells:
        if inner:
            child = int.from_bytes(content[begin + cell : begin + cell + 4])
            yield from rows_below(content, child, way)
        else:
            size, at = number_at(content, begin + cell)
            _, at = number_at(content, at)
            yield {*way, *further_pages(content, at, size)}
    if inner:
        yield from rows_below(content, int.from_bytes(content[begin + 8 : begin + 12]), way)


@pytest.fixture(scope="module")
def layout(whole, tmp_path_factory):
    """Pages that it takes to read each row, by table, and the tables' rows in a sound store."""
    path = tmp_path_factory.mktemp("layout") / "results.db"
    path.write_bytes(whole)
    sound = check(path).rows
    pages = {table: list(rows_below(whole, root_of(whole, path, table))) for table in sound}
    assert {table: len(rows) for table, rows in pages.items()} == sound
    return pages


def check_losses(path, layout, is_lost):
    """Nothing that can be read is lost, what is lost is named, and the file stays as it is."""
    before = path.read_bytes()
    found = check(path)
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    for table, rows in layout.items():
        intact = sum(not any(map(is_lost, pages)) for pages in rows)
        named = found.damage.counts[table]
        assert found.rows[table] + named >= intact, table
        assert named or found.rows[table] == len(rows), table


@pytest.mark.long
def test_a_store_that_ends_after_any_page_keeps_all_rows_before_it(whole, layout, tmp_path):
    path = tmp_path / "results.db"
    for last in range(1, len(whole) // PAGE):
        path.write_bytes(whole[: last * PAGE])
        check_losses(path, layout, lambda page, last=last: page > last)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_bits_of_any_page_take_rows_of_that_page_only(whole, layout, tmp_path, seed):
    path, draw = tmp_path / "results.db", random.Random(f"pages {seed}")
    versions = root_of(whole, path, "alembic_version")
    for page in range(2, len(whole) // PAGE + 1):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 3, 30))):
            data[(page - 1) * PAGE + draw.randrange(PAGE)] ^= 1 << draw.randrange(8)
        path.write_bytes(data)
        if page == versions:  # a store may say that it is of another version
            use_all(path)
        else:
            check_losses(path, layout, lambda each, page=page: each == page)
