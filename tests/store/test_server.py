"""A server that goes away and comes back, and what only a server does."""

import contextlib
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import psycopg
import pytest
from dlbricks_postgresql.database import _SOON, PostgreSQL
from dlbricks_records.contents import Selection, info, merge, prune
from sqlalchemy import select
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import make_url
from sqlalchemy.exc import OperationalError

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import (
    LATENCY,
    Machine,
    Measurement,
    Observation,
    Question,
    Setup,
    Subject,
)
from dlbricks_core.store import ResultStore
from dlbricks_core.store.database import ServerLostError
from dlbricks_core.store.schema import APPLICATION_ID, Bytewise, systems

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")

ROUNDS = 3

WRITER = """
import pathlib, sys
from dataclasses import replace
from dlbricks_core.facts import LATENCY, Observation, Question, Setup, Subject
from dlbricks_core.store import ResultStore
url, name, end = sys.argv[1:]
setup = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
shared = Question(Subject("abc", "brick"), LATENCY, setup, "sys")
own = replace(shared, subject=Subject(name, "brick"))
with ResultStore.open(url) as store:
    round = 0
    while not pathlib.Path(end).exists():
        taken = Observation(name, round, (round + 1.0,))
        store.add_all((each, taken, ()) for each in (shared, own))
        print(round, flush=True)
        round += 1
"""


class Writer:
    """A process that adds rounds to a store until a file appears, or it is killed."""

    def __init__(self, url, name, end):
        self.name = name
        self.process = subprocess.Popen([sys.executable, "-c", WRITER, url, name, end], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        self.reported = 0

    def wait_for(self, rounds):
        """Reads until the process has reported so many more rounds."""
        for _ in range(ROUNDS):
            line = self.process.stdout.readline()
            assert line == f"{self.reported}\n", self.process.stderr.read()
            self.reported += 1

    def finish(self):
        """What the process wrote to standard error."""
        # Not communicate(): it would miss what readline took from the pipe beyond its line.
        self.reported += len(self.process.stdout.read().split("\n")[:-1])
        said = self.process.stderr.read()
        self.process.wait()
        return said


def test_eight_writers_lose_and_double_nothing(postgres, emptied, tmp_path):
    url = emptied()
    writers = [Writer(url, f"writer{i}", tmp_path / "end") for i in range(8)]

    def go_on():
        for each in writers:
            if each.process.poll() is None:
                each.wait_for(5)

    go_on()
    writers[0].process.send_signal(signal.SIGKILL)
    writers[0].process.wait()
    go_on()
    for how in ("fast", "immediate"):
        postgres.stop(how)
        time.sleep(0.3)
        postgres.start()
        go_on()
    (tmp_path / "end").touch()
    said = [each.finish() for each in writers]
    assert [each.process.returncode for each in writers] == [-signal.SIGKILL, *[0] * 7], said
    assert any("the server was lost; trying again for 120 s" in each for each in said)
    assert all("secret" not in each and "s3cret" not in each for each in said)
    with ResultStore.open(url) as store:
        found = {each.question.subject.signature: each for each in store.measurements()}
    assert set(found) == {"abc", *(each.name for each in writers)}
    kept = {name: [o.round for o in each.observations] for name, each in found.items()}
    assert len(kept["abc"]) == sum(len(kept[each.name]) for each in writers)
    for each in writers:
        assert kept[each.name] == list(range(len(kept[each.name])))
        # One more may have been committed than was reported.
        assert each.reported <= len(kept[each.name]) <= each.reported + 1


def test_writers_that_begin_at_once_make_the_tables_once(postgres):
    # More by hand: what two writers do to each other is seldom.
    for _ in range(ROUNDS):
        url, begin = postgres.create(), threading.Barrier(8)

        def write(number, url=url, begin=begin):
            begin.wait()
            with ResultStore.open(url) as store:
                own = replace(KEY, subject=Subject(f"writer{number}", "brick"))
                store.add_all([(own, Observation(f"s{number}", 0, (1.0,)), ())])

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, range(8)))
        with ResultStore.open(url) as store:
            found = {each.question.subject.signature for each in store.measurements()}
        assert found == {f"writer{number}" for number in range(8)}


@pytest.fixture
def stopped(postgres):
    """Stops the server; it is there again after the test."""
    with contextlib.ExitStack() as after:

        def stop():
            postgres.stop()
            after.callback(postgres.start)

        yield stop


def test_a_server_that_stays_away_ends_the_run_and_keeps_what_was_added(
    emptied, stopped, monkeypatch
):
    monkeypatch.setattr("dlbricks_core.store.database.LOST_SECONDS", 0.2)
    url = emptied()
    with ResultStore.open(url) as store:
        store.add_samples(KEY, Observation("s", 0, (1.0,)))
        stopped()
        for use in (
            lambda: store.add_samples(KEY, Observation("s", 1, (1.0,))),
            lambda: store.get([KEY]),
            lambda: list(store.measurements()),
        ):
            with (
                pytest.warns(UserWarning, match=r"server was lost; trying again for 0\.2 s"),
                pytest.raises(StoreError, match=r"refused \(for 0\.2 s\)") as caught,
            ):
                use()
            assert "kept" in caught.value.hint
            assert "\n" not in str(caught.value)


def test_a_server_that_comes_back_is_waited_for(postgres, emptied):
    with ResultStore.open(emptied()) as store:
        store.add_samples(KEY, Observation("s", 0, (1.0,)))
        postgres.stop()
        back = threading.Timer(0.3, postgres.start)
        back.start()
        with pytest.warns(UserWarning, match="trying again"):
            store.add_all(iter([(KEY, Observation("s", 1, (2.0,)), ())]))
        back.join()
        assert store.get([KEY])[KEY].values == (1.0, 2.0)


class Wire:
    """Stands between a client and the server, and cuts the first connection that commits.

    Args:
        postgres: The server.
        after: Whether the server gets the word before the client is cut off.
    """

    def __init__(self, postgres, *, after):
        self._server, self._after = postgres.port, after
        self._armed = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_next(self):
        self._armed.set()

    def close(self):
        self._socket.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                server = socket.create_connection(("127.0.0.1", self._server))
                for each in ((client, server, self._watched), (server, client, None)):
                    threading.Thread(target=self._pass_on, args=each, daemon=True).start()

    def _pass_on(self, source, target, watch):
        with contextlib.suppress(OSError), source, target:
            while (data := source.recv(65536)) and (watch is None or watch(data, source, target)):
                target.sendall(data)

    def _watched(self, data, client, server):
        if not (b"COMMIT\0" in data and self._armed.is_set()):
            return True
        self._armed.clear()
        client.shutdown(socket.SHUT_RDWR)
        if self._after:
            server.sendall(data)
        # Closing is not enough while another thread reads.
        server.shutdown(socket.SHUT_WR)
        return False


@pytest.mark.parametrize("after", [True, False])
def test_a_commit_that_nobody_confirms_counts_once(postgres, emptied, after):
    url = emptied()
    wire = Wire(postgres, after=after)
    with ResultStore.open(url.replace(f":{postgres.port}/", f":{wire.port}/")) as store:
        store.add_samples(KEY, Observation("s", 0, (1.0,)))
        wire.cut_next()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            store.add_samples(KEY, Observation("s", 1, (2.0,)))
        assert not wire._armed.is_set()
    wire.close()
    with ResultStore.open(url) as store:
        assert store.get([KEY])[KEY].values == (1.0, 2.0)


@pytest.mark.parametrize("after", [True, False])
def test_what_travels_arrives_once_through_a_cut_connection(postgres, emptied, after):
    url = emptied()
    wire = Wire(postgres, after=after)
    taken = tuple(Observation("s", number, (1.5,)) for number in range(3))
    machine = Machine("sys", "", frozenset({""}))
    with ResultStore.open(url.replace(f":{postgres.port}/", f":{wire.port}/")) as store:
        for change in (
            lambda: merge(store, iter([LATENCY, Measurement(KEY, observations=taken)])),
            lambda: store.name_machine(machine, "lab"),
            lambda: prune(store, Selection(failures=True)),
        ):
            store.record_failure(replace(KEY, system="other"), "ill")
            wire.cut_next()
            with pytest.warns(UserWarning, match="trying again"):
                change()
        assert not wire._armed.is_set()
    wire.close()
    with ResultStore.open(url) as store:
        (found,) = store.measurements()
        assert found.observations == taken
        assert [each.name for each in store.machines()] == ["lab"]


def test_a_server_that_starts_up_is_waited_for_when_a_store_is_opened(
    postgres, emptied, monkeypatch
):
    monkeypatch.setattr("dlbricks_postgresql.database._SOON", ("refused", *_SOON))
    url = emptied()
    postgres.stop()
    back = threading.Timer(0.2, postgres.start)
    back.start()
    with pytest.warns(UserWarning, match="trying again"), ResultStore.open(url) as store:
        assert info(store).measurements == 0
    back.join()


class Falling(Wire):
    """Closes the first connection, like a server that ends while a client connects."""

    def _accept(self):
        client, _ = self._socket.accept()
        client.close()
        super()._accept()


def test_a_server_that_falls_while_a_store_is_opened_is_waited_for(postgres, emptied):
    url, wire = emptied(), Falling(postgres, after=True)
    through = url.replace(f":{postgres.port}/", f":{wire.port}/")
    with pytest.warns(UserWarning, match="trying again"), ResultStore.open(through) as store:
        assert info(store).measurements == 0
    wire.close()


@pytest.mark.parametrize(
    ("farewell", "is_lost"),
    [
        ("terminating connection due to administrator command", True),
        ("terminating connection because of crash of another server process", True),
        ("the connection is closed", True),
        ("permission denied for table measurements", False),
    ],
)
def test_a_farewell_is_understood_before_the_connection_is_seen_to_end(farewell, is_lost):
    """The driver may read the server's last words before it reads that nothing follows."""
    error = OperationalError("INSERT", {}, psycopg.errors.AdminShutdown(farewell))
    assert not error.connection_invalidated
    found = PostgreSQL(make_url("postgresql+psycopg://here/results")).failure(error)
    assert isinstance(found, ServerLostError) is is_lost
    assert farewell in found.message


def test_a_lock_that_is_not_released_is_an_error(emptied, monkeypatch):
    monkeypatch.setattr("dlbricks_core.store.database.BUSY_SECONDS", 0.2)
    url = emptied()
    with ResultStore.open(url) as store, psycopg.connect(url.replace("+psycopg", "")) as other:
        other.execute(f"SELECT pg_advisory_lock({APPLICATION_ID})")
        with pytest.raises(StoreError, match="lock timeout") as caught:
            store.record_failure(KEY, "ill")
        assert "another program" in caught.value.hint.lower()


def test_a_writer_that_stands_still_locks_nobody_out(emptied, monkeypatch):
    monkeypatch.setattr("dlbricks_core.store.database.BUSY_SECONDS", 0.2)
    url = emptied()
    with ResultStore.open(url) as store:
        with pytest.raises(ServerLostError), store.writing():
            time.sleep(0.5)
        with ResultStore.open(url) as other:
            other.record_failure(KEY, "ill")


def test_what_is_read_is_of_one_moment(store):
    from sqlalchemy import func, select

    from dlbricks_core.store.schema import measurements

    count = select(func.count()).select_from(measurements)
    with ResultStore.open(place_of(store)) as other, other.reading() as connection:
        assert connection.scalar(count) == 0
        store.record_failure(KEY, "ill")
        assert connection.scalar(count) == 0
    assert info(store).measurements == 1


def place_of(store):
    return getattr(store.place, "path", None) or store.place.url.render_as_string(False)


def test_a_user_who_may_not_write_can_read(postgres, cleared):
    url = cleared()
    with ResultStore.open(url) as store:
        store.add_samples(KEY, Observation("s", 0, (1.5,)))
    postgres.execute("CREATE ROLE reader LOGIN PASSWORD 'r'")
    postgres.execute("GRANT USAGE ON SCHEMA public TO reader", of=url)
    postgres.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader", of=url)
    reader = "postgresql+psycopg://reader:r@" + url.rpartition("@")[2]
    with ResultStore.open(reader, writes=False) as store:
        assert store.get([KEY])[KEY].values == (1.5,)
        with pytest.raises(StoreError, match="permission denied"):
            store.record_failure(KEY, "ill")


def test_a_store_may_have_a_schema_of_its_own_in_a_database_of_others(postgres, cleared):
    url = cleared()
    postgres.execute("CREATE TABLE others (x int)", of=url)
    postgres.execute("DROP SCHEMA IF EXISTS bricks CASCADE", of=url)
    postgres.execute("CREATE SCHEMA bricks", of=url)
    with ResultStore.open(f"{url}?options=-csearch_path%3Dbricks") as store:
        store.add_samples(KEY, Observation("s", 0, (1.5,)))
        assert info(store).size > 0
    assert postgres.execute("SELECT count(*) FROM bricks.observations", of=url) == [(1,)]
    with pytest.raises(StoreError, match="another program"):
        ResultStore.open(url)


def test_a_damaged_row_on_a_server_is_named_and_left_out(postgres, emptied):
    url = emptied()
    other = Question(Subject("xyz", "brick"), LATENCY, SETUP, "sys")
    with ResultStore.open(url) as store:
        for question in (KEY, other):
            store.add_samples(question, Observation("s", 0, (1.5,)))
        postgres.execute("""UPDATE observations SET "values" = '["1"]' WHERE id = 1""", of=url)
        with pytest.warns(UserWarning, match="row 1 of observations"):
            assert list(store.get([KEY, other])) == [other]
        with pytest.warns(UserWarning, match="row 1 of observations"):
            assert [each.question for each in store.sampled(LATENCY)] == [other]


def test_names_that_a_server_cannot_hold_become_escapes(store):
    store.record_failure(KEY, "caf\udce9.onnx\0 cannot be read", layers=["\udce9", "a\0b"])
    found = store.get([KEY])[KEY]
    assert found.failure == "caf\\udce9.onnx\\x00 cannot be read"
    assert found.layers == ("\udce9", "a\0b")


def test_a_failure_that_an_earlier_file_tells_with_nul_arrives_as_escapes(store):
    failed = Measurement(KEY, failure="cannot read a\0b")
    for _ in range(2):
        merge(store, [LATENCY, failed])
        assert store.get([KEY])[KEY].failure == "cannot read a\\x00b"


def test_an_idle_store_says_nothing_of_a_restart(postgres, emptied):
    with ResultStore.open(emptied()) as store:
        store.record_failure(KEY, "ill")
        postgres.stop()
        postgres.start()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert store.get([KEY])[KEY].failure == "ill"


def test_rows_come_by_their_bytes_whatever_the_language_of_a_server():
    query = select(systems.c.fingerprint).order_by(Bytewise(systems.c.fingerprint))
    on_server = str(query.compile(dialect=postgresql.dialect()))
    assert on_server.endswith('ORDER BY systems.fingerprint COLLATE "C"')
