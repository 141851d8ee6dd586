"""What backends make of models: how many are asked at once, and what the store keeps of it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from dlbricks_core.backends import BackendSettings, Traits
from dlbricks_core.bricks import BrickSet, CutModel, native
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec, packed, unpacked
from dlbricks_core.measure import rewrites
from dlbricks_core.measure.rewrites import Benches, kept_rewrites, rewrite_models
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


@pytest.mark.parametrize(
    ("alone", "threads", "expected"), [(False, 4, 4), (True, 4, 1), (True, 8, 1), (True, 1, 4)]
)
def test_no_more_are_asked_at_once_than_there_are_cores_for(
    asked, faulty, monkeypatch, alone, threads, expected
):
    monkeypatch.setattr(rewrites, "physical_cores_available", lambda: 4)
    backend = faulty.FaultyBackend()
    backend.traits = Traits(rewrite_uses_all_threads=alone)
    where = replace(asked, backend=backend, settings=BackendSettings(threads))
    assert rewrites._at_once(where) == expected


@pytest.mark.parametrize(
    ("layers", "mib", "workers"), [(8, 1, 1), (150, 0, 2), (10, 40, 2), (500, 100, 9)]
)
def test_large_models_are_worth_further_workers(layers, mib, workers):
    models = [SimpleNamespace(layers=range(layers), weight_bytes=mib << 20)] * 2
    assert rewrites._worth_starting(models) == workers


class Counted:
    """A worker that rewrites nothing; all of them, and those that have ended."""

    begun: ClassVar[list[object]] = []
    ended: ClassVar[list[object]] = []

    @classmethod
    def of(cls, request, **settings):
        cls.begun.append(cls())
        return cls.begun[-1]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        Counted.ended.append((self, exception[0]))

    def rewrite(self, model):
        return model


@pytest.fixture
def counted(asked, monkeypatch):
    for each in ("begun", "ended"):
        monkeypatch.setattr(Counted, each, [])
    monkeypatch.setattr(rewrites, "BackendWorker", Counted)
    asked.backend.traits = Traits(rewrites=True)
    return asked


def test_workers_are_kept_for_further_models_where_these_are_enough(counted, residual, monkeypatch):
    monkeypatch.setattr(rewrites, "physical_cores_available", lambda: 2)
    with Benches() as benches:
        for _ in range(3):
            assert rewrite_models([residual()], counted, Observer(), benches).graphs.keys() == {0}
        assert (len(Counted.begun), Counted.ended) == (1, [])
        monkeypatch.setattr(rewrites, "_worth_starting", lambda _: 2)
        found = rewrite_models([residual(), residual()], counted, Observer(), benches)
        assert found.graphs.keys() == {0, 1}
        # The first one had the memory for itself.
        assert (len(Counted.begun), Counted.ended) == (3, [(Counted.begun[0], None)])
        monkeypatch.setattr(rewrites, "_held_at_once", lambda _: 1)
        rewrite_models([residual()], counted, Observer(), benches)
        assert len(Counted.begun) == 4, "a large model needs more memory than one of two has"
    assert {each for each, _ in Counted.ended} == set(Counted.begun)


def test_workers_of_one_set_of_models_end_with_it(counted, residual):
    for _ in range(2):
        rewrite_models([residual()], counted, Observer())
    assert len(Counted.begun) == len(Counted.ended) == 2


def test_kept_workers_end_at_once_where_rewriting_is_interrupted(counted, residual, monkeypatch):
    def interrupted(self, name):
        raise KeyboardInterrupt

    monkeypatch.setattr(Observer, "advance", interrupted)
    with Benches() as benches:
        with pytest.raises(KeyboardInterrupt):
            rewrite_models([residual()], counted, Observer(), benches)
        assert Counted.ended == [(Counted.begun[0], KeyboardInterrupt)]


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def rewritten(builder):
    """A graph of a backend's own: layouts, a folded size, weights with and without values."""
    b = builder()
    x = b.conv(b.input)
    size = b.weight(4, dtype="int64", value=np.array([1, 4, 6, 6]))
    b.add("Reshape", x, size, allowzero=0)
    last = Layer("ReorderOutput", (x,), ("last",), {"channels": 4, "scale": 0.25}, "vendor", "last")
    b.layers.append(last)
    b.tensors["last"] = TensorSpec("float32", b.shape, "blocked")
    b.tensors["size"] = TensorSpec("int64", (0,))
    model = b.model("last", "reshape1")
    constants = {**model.constants, "size": np.array([], np.int64)}
    return native(replace(model, opsets={"": 21, "vendor": 1}).as_raw(), "faulty", constants)


def cuts(graph: CanonicalModel) -> list[str]:
    return list(BrickSet.of([graph], 1).bricks) + list(BrickSet.of([graph], 128, "segments").bricks)


def test_a_graph_that_was_packed_is_cut_into_the_same_bricks(rewritten):
    again = unpacked(packed(rewritten), name="other", source="file")
    assert cuts(again) == cuts(rewritten)
    assert (again.name, again.source) == ("other", "file")
    for name in ("layers", "inputs", "outputs", "weights", "opsets", "annotations"):
        assert getattr(again, name) == getattr(rewritten, name), name
    assert again.tensors["last"] == rewritten.tensors["last"]
    assert again.constants.keys() == rewritten.constants.keys()
    assert all((again.constants[k] == v).all() for k, v in rewritten.constants.items())


def test_the_store_keeps_what_a_backend_makes_of_a_model(
    store, counted, residual, rewritten, monkeypatch
):
    model = residual()
    model = replace(model, outputs=(model.layers[0].outputs[0], *model.outputs))
    monkeypatch.setattr(rewrites.BackendWorker, "rewrite", lambda *_: rewritten)
    asked = counted
    rewrite_models([model], counted, Observer(), store=store)
    renamed = replace(model, name="renamed")
    found = kept_rewrites([renamed, rewritten], asked, store)
    assert list(found.graphs) == [0]
    assert cuts(found.graphs[0]) == cuts(rewritten)
    assert found.graphs[0].name == "renamed"
    other = replace(asked, setup=replace(asked.setup, threads=7))
    assert not kept_rewrites([model], other, store).graphs


@pytest.mark.parametrize("data", [b"", b"no graph at all", b"\x08\x07"])
def test_a_kept_graph_that_cannot_be_read_is_named(store, asked, residual, data):
    model = residual()
    signature = CutModel(model, (), model).whole.signature
    store.keep_rewrite(signature, asked.setup, asked.fingerprint, data)
    found = kept_rewrites([model], asked, store)
    assert not found.graphs
    assert found.refused == {0: "the stored graph of residual cannot be read"}


def test_a_kept_graph_of_another_model_is_named_and_not_used(store, asked, residual, builder):
    """It may have entered with another store, where only its signature says what it is of."""
    model = residual()
    wider = builder(shape=(1, 8, 6, 6))
    wider.relu(wider.input)
    signature = CutModel(model, (), model).whole.signature
    store.keep_rewrite(signature, asked.setup, asked.fingerprint, packed(wider.model()))
    found = kept_rewrites([model], asked, store)
    assert not found.graphs
    assert found.refused == {0: "the stored graph is not of residual"}
