"""Processes of a nursery of ``helpers/nursery.py`` are like those that begin from nothing."""

import os
from importlib.util import find_spec

import pytest

from dlbricks_core.worker import RemoteError, WorkerError, WorkerProcess

pytestmark = pytest.mark.process


@pytest.fixture
def born(nurseries, monkeypatch):
    """Begins workers in a nursery, as in other folders of tests."""
    monkeypatch.setattr("dlbricks_core.worker.process._start", nurseries)


@pytest.mark.parametrize(
    ("framework", "variables"),
    [
        ("numpy", {}),
        ("mxnet", {"MXNET_ENGINE_TYPE": "NaiveEngine"}),
        ("onnxruntime", {"DLBRICKS_ONNXRUNTIME_WORKER": "1"}),
        ("torch", {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "1"}),
    ],
)
def test_they_end_by_themselves(from_nothing, born, framework, variables):
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    variables = {**variables, "OMP_NUM_THREADS": "2"}
    with (
        WorkerProcess("dlbricks_core.backends.host:TimerHost", variables) as worker,
        pytest.raises(RemoteError, match="no attribute 'nothing'"),
    ):
        worker.call("nothing")
    assert worker._guard.returncode == 0  # one that had to be killed has another status


def test_they_have_the_variables_the_folder_and_the_modules_of_their_start(
    from_nothing, born, tmp_path, monkeypatch, path_with
):
    (tmp_path / "late.py").write_text(
        "import os\nclass Late:\n    def seen(self):\n"
        "        return os.getcwd(), os.environ['TOLD'], os.environ['TMPDIR']"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", path_with(tmp_path))
    with WorkerProcess("late:Late", {"TOLD": "here"}) as worker:
        assert worker.call("seen") == (str(tmp_path), "here", str(worker.folder))


@pytest.mark.parametrize("status", [0, 2])
def test_a_command_has_its_status_and_its_streams(nurseries, tmp_path, status):
    words = ["--version"] if status == 0 else ["show", "absent.onnx"]
    command = nurseries.command(words, {**os.environ, "COLUMNS": "80"}, tmp_path, ())
    out, err = command.communicate(timeout=60)
    assert command.returncode == status
    assert ("dlbricks" in out, "absent.onnx" in err) == (status == 0, status == 2)


def test_they_end_with_the_signal_of_a_fault(born, tmp_path, monkeypatch, path_with):
    (tmp_path / "fault.py").write_text(
        "import os, signal\n"
        "class Fault:\n    def happen(self):\n        os.kill(os.getpid(), signal.SIGSEGV)"
    )
    monkeypatch.setenv("PYTHONPATH", path_with(tmp_path))
    # MXNet ends a process that has a fault with another status.
    variables = {"MXNET_ENGINE_TYPE": "NaiveEngine"}
    with (
        WorkerProcess("fault:Fault", variables) as worker,
        pytest.raises(WorkerError, match="SIGSEGV"),
    ):
        worker.call("happen")
