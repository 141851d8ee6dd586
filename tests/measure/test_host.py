"""What the worker does around a timed run."""

import ctypes
import weakref
from types import SimpleNamespace

import pytest

from dlbricks_core.backends import BackendSettings
from dlbricks_core.backends.host import TimerHost, is_copied
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec


class Recorder:
    """A timer that records its calls; networks are represented by their names."""

    def __init__(self):
        self.heard = []

    def run(self, loaded):
        self.heard.append(f"run {loaded}")
        if loaded == "broken":
            raise RuntimeError("kernel not found")

    def synchronize(self, loaded):
        pass

    def warm_io(self, loaded):
        self.heard.append(f"warm {loaded}")

    def release(self, loaded):
        self.heard.append(f"release {loaded}")


@pytest.fixture
def host():
    host = TimerHost()
    host._timer = Recorder()
    host._loaded = {name: name for name in ("net", "large", "plain", "broken")}
    host._twins = {"net": "copy", "large": "large"}
    host._wake = "wake"
    return host


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("net", ["run copy"], ["release net", "release copy"]),
        ("large", ["run large"], ["release large", "release large"]),
        ("plain", [], ["release plain"]),
    ],
)
def test_a_copy_runs_first_and_keeps_its_results_until_the_timed_run_is_over(
    host, key, before, after
):
    (latency_ms,) = host.sample(key, 1, warm_io=True)
    assert latency_ms > 0
    woken = [f"warm {key}", "run wake", "release wake"]
    assert host.timer.heard == [*before, *woken, f"run {key}", *after]


@pytest.mark.parametrize(("cache", "copied"), [(17, True), (16, False), (None, True)])
def test_networks_larger_than_all_caches_need_no_priming_copy(cache, copied):
    layer = Layer("MatMul", ("x", "w"), ("y",))
    tensors = dict.fromkeys("xwy", TensorSpec("float32", (4, 4)))
    assert (
        is_copied(CanonicalModel("m", (layer,), ("x",), ("y",), tensors, frozenset("w")), cache)
        == copied
    )


def test_nothing_precedes_runs_in_a_loop(host):
    assert len(host.sample("net", 2, warm_io=False)) == 2
    assert host.timer.heard == ["run net", "run net"]


def test_a_turn_returns_each_time_and_where_it_broke(host, tmp_path):
    position = tmp_path / "position"
    position.touch()
    taken = host.sample_in_turn(["net", "plain"], True, str(position))
    assert all(0 < latency_ms / 1e3 < spent_s for latency_ms, spent_s in taken)
    with pytest.raises(RuntimeError):
        host.sample_in_turn(["net", "plain", "broken", "large"], True, str(position))
    assert int.from_bytes(position.read_bytes(), "little") == 2


@pytest.mark.parametrize(("keeps", "kept"), [(True, [True]), (False, [])])
@pytest.mark.parametrize("warm", [True, False])
def test_only_a_process_that_times_keeps_freed_memory(faulty, monkeypatch, warm, keeps, kept):
    found = []
    monkeypatch.setattr("dlbricks_core.backends.host.keep_freed", lambda: found.append(True))
    monkeypatch.setattr(TimerHost, "load", lambda *_: 0.0)
    host = TimerHost()
    host._loaded = {"wake": "wake"}
    host.start(faulty.TARGET, BackendSettings(), None, None, 0, warm, keeps)
    assert found == kept


def test_unloading_frees_what_refers_to_itself_and_returns_its_memory(host, monkeypatch):
    class Network:
        def __init__(self):
            self.itself = self

    network = Network()
    alive = weakref.ref(network)
    host._loaded["cycle"] = network
    host.timer.unload = lambda loaded: None
    trimmed = []
    monkeypatch.setattr(ctypes, "CDLL", lambda name: SimpleNamespace(malloc_trim=trimmed.append))
    del network
    host.unload("cycle")
    assert alive() is None
    assert trimmed == [0]
