"""Records of sessions in the store."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

import dlbricks_core
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.run import run
from dlbricks_core.machine.system import current_host
from dlbricks_core.measure.request import Request
from dlbricks_core.plugins import Plugin
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

pytestmark = pytest.mark.process


@pytest.fixture
def sessions(faulty, monkeypatch, tmp_path, builder):
    """Times a model with the faulty backend; then the recorded sessions and all observations."""
    plugin = Plugin("backend", "faulty", faulty.TARGET, "tests", "1", faulty.FaultyBackend)
    monkeypatch.setattr("dlbricks_core.measure.request.find", lambda kind, name, base: plugin)
    b = builder((3,))
    b.relu(b.input)
    model = b.model()

    def timed(observer=None, **more):
        request = Request.of("faulty", threads=1, runs=3, **more)
        with ResultStore.open(tmp_path / "results.sqlite") as store:
            with suppress(KeyboardInterrupt):
                run([model], CutOptions(), request, store, observer or Observer())
            found = [taken for each in store.measurements() for taken in each.observations]
            return store.sessions(), found, request

    return timed


def test_every_observation_belongs_to_a_session_with_its_load(sessions):
    begin = datetime.now(UTC)
    [session], observations, request = sessions()
    assert {taken.session for taken in observations} == {session.id}
    assert session.host == current_host()
    assert session.system == request.system.fingerprint
    assert session.version == dlbricks_core.__version__
    assert begin <= session.started_at <= min(taken.taken_at for taken in observations)
    assert session.started_at - begin < timedelta(minutes=1)
    assert 0 <= session.load <= 1


def test_commands_that_measure_nothing_make_no_session(sessions):
    sessions()
    assert len(sessions()[0]) == 1
    assert len(sessions(force=True)[0]) == 2


def test_the_load_of_an_interrupted_session_is_unknown(sessions):
    class Interrupting(Observer):
        def advance(self, done=""):
            raise KeyboardInterrupt

    [session], _, _ = sessions(Interrupting())
    assert session.load is None
    assert session.host == current_host()
