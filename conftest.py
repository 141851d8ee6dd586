"""Holds for all tests, the core's and the plugins'."""

import atexit
import gc
import importlib
import io
import os
import resource
import signal
import sys
import tempfile
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HELPERS = Path(__file__).parent / "tests" / "helpers"

# Models that tests import are kept for this run alone, whatever the user imported before.
_cache = tempfile.TemporaryDirectory(prefix="dlbricks-tests-")
os.environ["XDG_CACHE_HOME"] = _cache.name

# No test has the preferences of the user who runs it.
os.environ["XDG_CONFIG_HOME"] = _cache.name
for _name in ("BACKEND", "STORE", "THREADS", "FORMAT", "BUSY"):
    os.environ.pop(f"DLBRICKS_{_name}", None)

# Tests run on as many processes as there are cores: threads of one would spin where another
# computes. A worker that times has the number that it is told, whatever this says.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A shell starts a job in the background with interrupts ignored, and commands inherit that. Tests
# interrupt commands.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Commands start workers by the hundred: each module is compiled once, and not by each of them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False  # tests with their assertions rewritten, too

# A test fails for what it finds, and not because the machine is busy.
os.environ["DLBRICKS_BUSY"] = "accept"
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("no deadline", _patient)
settings.load_profile("no deadline")
settings.register_profile("quick", _patient, max_examples=20)

# Tests run side by side: none waits until another has timed what nobody reads.
os.environ.setdefault("DLBRICKS_TURNS", "")

#: New objects after which garbage is looked for, in place of 700: what tests make is small.
FEW_OBJECTS = 50_000

# Imports and the making of thousands of tests leave little garbage: none is looked for meanwhile,
# nor in what they leave, and not at the end either.
gc.disable()
atexit.register(gc.freeze)


#: Marks of the quick part, which starts no process.
QUICK = "not process"

#: Line by which a file marks all of its tests.
ALL_PROCESS = "\npytestmark = pytest.mark.process\n"

#: Folders whose tests run a framework.
FRAMEWORKS = tuple(
    Path(__file__).parent / "plugins" / name
    for name in ("llamacpp", "mxnet", "onnxruntime", "openvino", "pytorch")
)

#: Events by which Python announces that a process starts.
STARTS = frozenset({"os.fork", "os.forkpty", "os.posix_spawn", "subprocess.Popen"})

#: Processes that were started so far.
_started = [0]


def _count(event, arguments):
    # Whichever test imports matplotlib first has it look for fonts.
    if event in STARTS and not (arguments and arguments[0] == "fc-list"):
        _started[0] += 1


sys.addaudithook(_count)


def _runs_a_framework(path):
    return any(path.is_relative_to(each) for each in FRAMEWORKS)


def _starts_processes(path):
    """Whether a file says that each of its tests starts a process."""
    return path.suffix == ".py" and ALL_PROCESS in path.read_text("utf-8")


def pytest_configure(config):
    """Tries fewer examples in the quick part; the whole suite tries all."""
    if config.option.markexpr == QUICK:
        settings.load_profile("quick")
        # Its first import starts a process (numpy.testing asks for the processor's name).
        importlib.import_module("scipy.linalg")


def pytest_ignore_collect(collection_path, config):
    """Leaves out files in which no test would run: their imports take seconds."""
    if config.option.markexpr != QUICK:
        return None
    return _runs_a_framework(collection_path) or _starts_processes(collection_path) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Marks tests whose fixtures start processes, and tests of frameworks.

    The quick part leaves out tests that compute for long, too.
    """
    for item in items:
        if "processes" in item.fixturenames or _runs_a_framework(item.path):
            item.add_marker("process")
    if config.option.markexpr == QUICK:
        long = [item for item in items if item.get_closest_marker("long") is not None]
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in {*long}]


@contextmanager
def _no_process_unless_marked(item):
    before = _started[0]
    yield
    # Among all tests, it depends on their order which of them imports a model first.
    quick = item.config.option.markexpr == QUICK
    if quick and _started[0] > before and item.get_closest_marker("process") is None:
        pytest.fail(
            "it starts a process: give it the mark 'process', or the fixture that starts it the "
            "fixture 'processes'",
            pytrace=False,
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    """Fails in the quick part where a fixture starts a process."""
    with _no_process_unless_marked(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Fails in the quick part where a test starts a process."""
    with _no_process_unless_marked(item):
        return (yield)


@pytest.fixture(autouse=True)
def alone(request, monkeypatch):
    """No load of other programs, which tests that run side by side are to each other.

    Tests of the load itself see it.
    """
    if "machine" in request.path.parts or request.path.stem == "test_busy":
        monkeypatch.delenv("DLBRICKS_BUSY")
        return
    from dlbricks_core.machine.load import LoadSampler

    used = LoadSampler._used

    def only_own(self):
        found = used(self)
        return found and replace(found, busy=found.own, steal=0.0)

    monkeypatch.setattr(LoadSampler, "_used", only_own)


@pytest.fixture(scope="session", autouse=True)
def compiled_statements():
    """Has stores in SQLite share the statements that SQLAlchemy has compiled.

    It keeps them for each engine, that is for each store, and tests open thousands of stores: for
    each of them it compiled statements for as long as it ran them.
    """
    from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite as Dialect
    from sqlalchemy.engine import Engine

    kept, make = {}, Engine.__init__

    def make_sharing(engine, pool, dialect, *arguments, **more):
        make(engine, pool, dialect, *arguments, **more)
        if type(dialect) is Dialect:
            engine._compiled_cache = kept.setdefault(Dialect, engine._compiled_cache)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "__init__", make_sharing)
        # The dialect is a part of a statement's key.
        patch.setattr(Dialect, "__hash__", lambda dialect: hash(Dialect))
        patch.setattr(Dialect, "__eq__", lambda dialect, other: type(other) is type(dialect))
        yield


@pytest.fixture(scope="session", autouse=True)
def most_span():
    """Lets runs scatter without end: of two of a small network, one may have to wait for its turn.

    Gives the limit of commands, for tests of it.
    """
    from dlbricks_core.figures import figure

    with pytest.MonkeyPatch.context() as patch:
        limit = figure.MOST_SPAN
        patch.setattr(figure, "MOST_SPAN", float("inf"))
        yield limit


@pytest.fixture(scope="session", autouse=True)
def operator_cases():
    """Makes the onnx package's operator cases quickly; see ``helpers/operator_cases.py``."""
    if not HELPERS.exists():  # plugins' tests run without the core's, too
        yield None
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HELPERS))
        import operator_cases

        operator_cases.hasten(patch)
        yield operator_cases


@pytest.fixture(scope="session")
def path_with():
    """Gives ``PYTHONPATH`` for a process that finds a folder's modules beside those of this one."""

    def joined(folder):
        return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))

    return joined


@pytest.fixture(scope="session")
def processes():
    """Fixture of fixtures that start processes: all tests that use one get the mark ``process``."""


def pytest_collection_finish():
    """Leaves all that was imported out of later collections of garbage."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(FEW_OBJECTS)
    gc.enable()


def _closed(part):
    """The schema with no field but those that it names, so that none is forgotten."""
    if isinstance(part, list):
        return [_closed(each) for each in part]
    if not isinstance(part, dict):
        return part
    found = {name: _closed(value) for name, value in part.items()}
    if found.get("type") == "object" and isinstance(found.get("properties"), dict):
        found["additionalProperties"] = False
    return found


@pytest.fixture(scope="session")
def closed():
    """Closes a schema: it allows no field but those that it names."""
    return _closed


@pytest.fixture(scope="session")
def keeping():
    """The module ``helpers/kept_workers.py``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HELPERS))
        import kept_workers
    return kept_workers


@pytest.fixture(scope="session", autouse=True)
def nurseries():
    """Begins workers as forks of processes that have imported what workers import."""
    from dlbricks_core.worker import process

    if not HELPERS.exists():  # plugins' tests run without the core's, too
        yield None
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(HELPERS))
        from nursery import Nurseries

        started = Nurseries(process._start)
        patch.setattr(process, "_start", started)
        yield started
        started.end()


@pytest.fixture
def from_nothing(nurseries, monkeypatch):
    """Begins each worker as users' commands do: a test looks at how it starts."""
    if nurseries is not None:
        monkeypatch.setattr("dlbricks_core.worker.process._start", nurseries.from_nothing)


@pytest.fixture(scope="session")
def kept_rewriter(keeping, processes):
    """Rewrites models in one process for all commands."""
    kept = keeping.KeptRewriter()
    yield kept
    kept.end()


@pytest.fixture(scope="session")
def kept_importer(keeping, processes, tmp_path_factory):
    """Imports models in one process for all commands."""
    site = tmp_path_factory.mktemp("importer")
    (site / "kept_importer.py").write_text(keeping.IMPORTER)
    kept = keeping.KeptImporter(site)
    yield kept
    kept.end()


@pytest.fixture(scope="session")
def keep_workers(kept_importer, kept_rewriter):
    """Has commands keep the processes that import and rewrite models, while a patch lasts."""

    def keep(patch):
        patch.setattr("dlbricks_core.importers.models.import_worker", lambda: kept_importer)
        patch.setattr("dlbricks_core.measure.worker.WorkerProcess", kept_rewriter)

    return keep


@pytest.fixture
def kept_workers(keep_workers, monkeypatch):
    """Keeps the processes that import and rewrite models from one command to the next."""
    keep_workers(monkeypatch)


@dataclass
class Finished:
    """Status and output of a command."""

    status: int
    out: str
    err: str


@pytest.fixture
def dlbricks(capfd, monkeypatch, tmp_path):
    """Runs a command line in this process; workers are real processes."""
    from dlbricks_core.cli import main

    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))  # never the user's own store
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        captured = capfd.readouterr()
        return Finished(ended.value.code, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def in_folder(keep_workers):
    """Runs a command line in a folder, for what tests share; ``dlbricks`` sees all output."""
    from dlbricks_core.cli import main

    def run(folder, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", "80")
            patch.setenv("XDG_DATA_HOME", str(folder / "data"))
            keep_workers(patch)
            patch.chdir(folder)
            with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
                main([str(each) for each in arguments])
        return Finished(ended.value.code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def no_room():
    """A context in which files can be made, but hold nothing, as on a full disk."""

    @contextmanager
    def limited():
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited
