"""Commands whose store is a PostgreSQL database."""

import threading
import time

import pytest
from dlbricks_records.contents import info

from dlbricks_core.machine.system import current_system
from dlbricks_core.store import ResultStore

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("kept_workers")

TEXTS = {".json", ".html", ".js", ".css"}
SECRETS = ("s3cret", "%2F%26")


@pytest.fixture(scope="module")
def database(postgres):
    """URL of a database for the tests here."""
    return postgres.create()


@pytest.fixture
def quick(database):
    return ("--backend", "onnxruntime", "--threads", "1", "--runs", "3", "--store", database)


def clean(text):
    """The text, once it has proved to hold no part of a password."""
    assert not any(secret in text for secret in SECRETS)
    return text


def test_commands_share_a_database_and_print_no_password(
    dlbricks, save, read, quick, database, postgres, tmp_path
):
    model = save("net", *["Relu"] * 3)
    told = ("-v", "--json", tmp_path / "out.json", "--html", tmp_path / "out.html")
    for command, status in (
        (("estimate", "--measure", *quick, *told, model), 0),
        (("estimate", *quick, *told, model), 0),
        (("check", *quick, *told, model), 0),
        (("check", "layers", *quick, *told, model), 0),
        (("suite", "write", model, "-o", tmp_path / "bricks"), 0),
        (("suite", "time", tmp_path / "bricks", *quick, "-v"), 0),
    ):
        done = dlbricks(*command)
        assert done.status == status, done.err
        written = [path.read_text() for path in tmp_path.glob("out.*")]
        clean("".join((done.out, done.err, *written)))
    assert f"Stored in postgresql://tester@127.0.0.1:{postgres.port}/" in done.out
    again = dlbricks("estimate", *quick, "--json", tmp_path / "again.json", model)
    assert again.status == 0
    [found] = read(tmp_path / "again.json")["models"]
    assert (found["partial"], found["missing"]) == (False, [])
    tables = postgres.execute(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
        of=database,
    )
    content = "".join(str(postgres.execute(f"TABLE {name}", of=database)) for (name,) in tables)
    assert "onnxruntime" in clean(content)
    with ResultStore.open(database) as store:
        assert info(store).observations > 0


def test_what_was_measured_travels_to_a_database_and_back(
    dlbricks, save, quick, read, database, postgres, tmp_path
):
    save("net", *["Relu"] * 3)
    other = postgres.create()
    told = ("--json", tmp_path / "out.json")
    for command in (
        ("estimate", "--measure", "net.onnx", *quick, *told),
        ("estimate", "net.onnx", *quick, *told),
        ("results", "record", "out.json", "--json", tmp_path / "spec.json"),
        ("results", "repeat", "spec.json", "--store", database, *told),
        ("results", "export", "a.jsonl.zst", "--store", database, *told),
        ("results", "import", "a.jsonl.zst", "--store", other, *told),
        ("results", "merge", database, "--store", "file.db", *told),
        ("results", "export", "b.jsonl.zst", "--store", "file.db"),
        ("results", "info", "--store", other, *told),
        ("machine", "list", "--store", other, *told),
        ("machine", "name", current_system().fingerprint, "lab", "--store", other, *told),
        ("machine", "show", "lab", "--store", other, *told),
        ("advise", "net.onnx", "--store", other, *told),
        ("results", "pages", "-o", tmp_path / "site", "--store", other, *told),
        ("results", "prune", "--system", "lab", "--yes", "--store", other, *told),
    ):
        done = dlbricks(*command)
        assert done.status == 0, done.err
        written = [path.read_text() for path in tmp_path.rglob("*.*") if path.suffix in TEXTS]
        clean("".join((done.out, done.err, *written)))
    assert (tmp_path / "a.jsonl.zst").read_bytes() == (tmp_path / "b.jsonl.zst").read_bytes()
    pages = [path.read_text() for path in (tmp_path / "site").rglob("*.*")]
    assert not any("127.0.0.1" in page for page in pages)
    assert read(tmp_path / "out.json")["deleted"]["systems"] == 1
    with ResultStore.open(other) as store:
        assert info(store).measurements == 0


@pytest.mark.parametrize(
    "command",
    [
        ("results", "info"),
        ("results", "export", "x.zst"),
        ("results", "prune", "--outdated"),
        ("machine", "list"),
        ("machine", "name", "71bf", "lab"),
    ],
)
def test_a_database_without_a_store_is_told_as_a_missing_file_is(dlbricks, postgres, command):
    for url in (postgres.create(), postgres.url("nothing")):
        done = dlbricks(*command, "--store", url)
        assert (done.status, done.out) == (2, "")
        assert "there is no result store" in clean(done.err)
        assert "Name one with --store" in done.err


@pytest.mark.parametrize("given", [("-v",), ()])
def test_a_database_that_cannot_be_used_is_refused_in_one_line(
    dlbricks, save, quick, postgres, given
):
    model = save("net", "Relu")
    for url, word in (
        (postgres.url(password="s3cret"), "password authentication failed"),
        (postgres.url("nothing"), "createdb"),
        (postgres.url().replace(str(postgres.port), "1"), "refused"),
        ("postgresql+psycopg://tester:s3cret@s3cret@127.0.0.1/x", "more than one @"),
        ("postgresql+psycopg://tester:s3cret", "not a database URL"),
    ):
        done = dlbricks("estimate", "--measure", *quick, *given, "--store", url, model)
        assert (done.status, done.out) == (2, "")
        assert word in clean(done.err)
        if not given:
            error, hint = done.err.strip().splitlines()
            assert (error[:7], hint[:6]) == ("Error: ", "Hint: ")


def test_a_run_waits_for_a_server_that_is_restarted(dlbricks, save, database, postgres):
    model = save("net", *["Relu", "Tanh", "Sigmoid"] * 3)
    run = (
        "estimate",
        "--measure",
        "--backend",
        "onnxruntime",
        "--threads",
        "1",
        "--runs",
        "40",
        "--composer",
        "sequential",
        "--protocol",
        "interleaved",
        "--store",
        database,
        model,
    )

    def restart():
        before = _observations(postgres, database)
        while _observations(postgres, database) < before + 20:
            time.sleep(0.002)
        postgres.stop()
        time.sleep(0.3)
        postgres.start()

    other = threading.Thread(target=restart)
    other.start()
    done = dlbricks(*run)
    other.join()
    assert done.status == 0, done.err
    warned = [line for line in done.err.splitlines() if "the server was lost" in line]
    assert len(warned) == 1
    assert "trying again for 120 s" in clean(warned[0])
    with ResultStore.open(database) as store:
        found = [each for each in store.measurements() if len(each.observations) == 40]
        assert found
        assert not any(each.failure for each in store.measurements())


def test_a_run_whose_server_stays_away_ends_and_keeps_what_it_had(
    dlbricks, save, database, postgres, monkeypatch
):
    monkeypatch.setattr("dlbricks_core.store.database.LOST_SECONDS", 0.3)
    model = save("net", *["Relu", "Tanh", "Elu"] * 3)
    kept = []

    def stop():
        before = _observations(postgres, database)
        while (found := _observations(postgres, database)) < before + 20:
            time.sleep(0.002)
        kept.append(found)
        postgres.stop()

    other = threading.Thread(target=stop)
    other.start()
    done = dlbricks(
        "estimate",
        "--measure",
        "--backend",
        "onnxruntime",
        "--threads",
        "1",
        "--runs",
        "200",
        "--composer",
        "sequential",
        "--store",
        database,
        model,
    )
    other.join()
    postgres.start()
    assert done.status == 2
    said = done.err.strip().splitlines()
    assert "refused (for 0.3 s)" in clean(said[-2])
    assert said[-1].startswith("Hint: all earlier measurements are kept")
    assert _observations(postgres, database) >= kept[0]


def _observations(postgres, database):
    present = "SELECT to_regclass('observations') IS NOT NULL"
    if postgres.execute(present, of=database) != [(True,)]:
        return 0
    return postgres.execute("SELECT count(*) FROM observations", of=database)[0][0]


@pytest.mark.parametrize(
    "command",
    [
        ("results", "record", "URL"),
        ("results", "repeat", "URL"),
        ("results", "info", "URL"),
        ("results", "import", "URL"),
        ("results", "export", "URL"),
        ("results", "info", "-v", "--store", "SHORT"),
        ("suite", "time", "URL", "--backend", "onnxruntime"),
        ("estimate", "URL", "--backend", "onnxruntime"),
        ("estimate", "net.onnx", "--backend", "onnxruntime", "--results", "URL"),
        ("estimate", "net.onnx", "URL", "--backend", "onnxruntime", "--store", "absent.db"),
        ("advise", "net.onnx", "--prices", "URL"),
        ("machine", "list", "--json", "URL"),
    ],
    ids=" ".join,
)
def test_a_url_in_a_wrong_place_is_repeated_without_its_password(dlbricks, save, command):
    save("net", "Relu")
    url = "postgresql+psycopg://tester:s3cret/&@s3cret@127.0.0.1:1/x?password=s3cret"
    meant = {"URL": url, "SHORT": url.replace("//", "/")}
    done = dlbricks(*(meant.get(word, word) for word in command))
    assert done.status != 0
    clean(done.out + done.err)
