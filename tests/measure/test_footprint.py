"""Memory that whole models take, and what is done with those that do not fit."""

from dataclasses import replace

import pytest
from dlbricks_decoders.onnx_files import DecoderShape, write_decoder

from dlbricks_core.analysis.shortening import KEPT, shorten
from dlbricks_core.backends import Traits
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.adaptive.timings import Candidates
from dlbricks_core.estimation.run import run
from dlbricks_core.facts.note import note
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.host import canonical
from dlbricks_core.importers.onnx import OnnxImporter
from dlbricks_core.machine.system import current_system
from dlbricks_core.measure import rewrites
from dlbricks_core.measure.cutting import cut_models
from dlbricks_core.measure.footprint import Footprint, available_to, gigabytes
from dlbricks_core.measure.rewrites import Rewrites, rewrite_models
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore

SHAPE = DecoderShape(blocks=9)


@pytest.fixture
def decoder(tmp_path):
    options = LoadOptions(dims={"batch": 1, "sequence": 1, "past": 16})
    return canonical(OnnxImporter().load(write_decoder(tmp_path, SHAPE)), options).model


def test_a_decoder_takes_its_weights_their_copies_and_its_cache(decoder):
    found = Footprint.of(decoder, Traits(weights_held=2), 10**9)
    block = 64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 128
    least = 4 * (9 * block + 2 * 512 * 64)
    assert least < found.weights_bytes < 1.1 * least
    assert found.copies_bytes == found.weights_bytes
    assert found.cache_bytes == 9 * 2 * 4 * SHAPE.kv_heads * SHAPE.head * (16 + 17)
    assert found.token_bytes == 9 * 2 * 4 * SHAPE.kv_heads * SHAPE.head
    assert 0 < found.live_bytes < 100_000
    assert found.fits
    assert not replace(found, available_bytes=found.needed_bytes - 1).fits
    assert replace(found, available_bytes=found.needed_bytes).fits


def test_sizes_that_only_a_run_tells_are_not_guessed(builder):
    b = builder()
    b.relu(b.input)
    model = b.model()
    unknown = {name: replace(spec, shape=None) for name, spec in model.tensors.items()}
    assert Footprint.of(replace(model, tensors=unknown), Traits(), 1) is None


def test_another_machine_has_the_memory_that_it_is_known_to_have(asked):
    there = replace(current_system(), memory=64 * 10**9, memory_limit=None)
    assert available_to(replace(asked, elsewhere=there)) == 64 * 10**9
    limited = replace(there, memory_limit=8 * 10**9)
    assert available_to(replace(asked, elsewhere=limited)) == 8 * 10**9


def test_sizes_are_short():
    assert [gigabytes(int(n * 1e9)) for n in (282.2, 4.21, 0.5, 0.0123, 1234)] == [
        "282", "4.2", "0.5", "0.012", "1,234",
    ]  # fmt: skip


@pytest.fixture
def little_memory(monkeypatch):
    """Models do not fit; workers have what there is."""
    monkeypatch.setattr("dlbricks_core.measure.footprint.memory_to_use", lambda: 100)


@pytest.mark.process
@pytest.mark.usefixtures("little_memory")
def test_a_model_that_does_not_fit_is_named_and_its_bricks_are_timed(asked, residual, tmp_path):
    cut = CutOptions.chosen(1, None, None)
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        result = run([residual()], cut, replace(asked, runs=2), store, Observer(), end_to_end=True)
        (model,) = result.models
        assert model.measured is None
        assert model.estimate.value is not None
        assert not model.estimate.partial
        (failure,) = result.failures
        assert "does not fit: it needs" in failure.reason
        assert "end to end" in failure.where
        assert store.get([asked.key(model.cut.whole.signature, "model")]) == {}, "kept for later"
    assert result.peak_bytes > 10**7


@pytest.mark.usefixtures("little_memory")
def test_the_dial_does_not_try_a_model_that_does_not_fit(asked, residual):
    cutting = cut_models([residual()], CutOptions.chosen(1, None, None), asked, Observer())
    assert Candidates.of(cutting, end_to_end=False).wholes == {}


def test_the_dial_may_time_a_model_that_fits(asked, residual):
    cutting = cut_models([residual()], CutOptions.chosen(1, None, None), asked, Observer())
    assert Candidates.of(cutting, end_to_end=False).wholes.keys() == {
        cutting.brickset.models[0].whole.signature
    }


class Asked:
    """A worker that rewrites models, up to a number of layers."""

    most = 10**6

    @classmethod
    def of(cls, request, **settings):
        return cls()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def rewrite(self, model):
        heard.append(len(model.layers))
        if len(model.layers) > self.most:
            raise DLBricksError("ran out of memory")
        return model


heard: list[int] = []


@pytest.fixture
def rewriting(asked, monkeypatch):
    heard.clear()
    monkeypatch.setattr(rewrites, "BackendWorker", Asked)
    asked.backend.traits = Traits(rewrites=True)
    return asked


def test_a_comfortable_model_is_asked_of_as_a_whole(rewriting, decoder):
    found = rewrite_models([decoder], rewriting, Observer())
    assert heard == [len(decoder.layers)]
    assert not found.notes


def test_a_large_model_is_asked_of_in_short(rewriting, decoder, monkeypatch):
    monkeypatch.setattr(rewrites, "memory_to_use", lambda: decoder.weight_bytes)
    found = rewrite_models([decoder], rewriting, Observer())
    longest = len(shorten(decoder, KEPT + 1)[-1].model.layers)
    assert max(heard) == longest < len(decoder.layers)
    made = found.graphs[0]
    assert [each.outputs for each in made.layers] == [each.outputs for each in decoder.layers]
    cutting = cut_models([decoder], CutOptions.chosen(None, None, "segmented"), rewriting,
                         Observer(), rewrites=found)  # fmt: skip
    told = {"backend": rewriting.backend.name, "layers": longest, "of_layers": len(decoder.layers)}
    assert cutting.brickset.models[0].notes == (note("blocks-repeat", **told),)


def test_a_large_model_without_repeats_says_both_reasons(rewriting, residual, monkeypatch):
    monkeypatch.setattr(rewrites, "memory_to_use", lambda: 1)
    monkeypatch.setattr(Asked, "most", 1)
    found = rewrite_models([residual()], rewriting, Observer())
    assert isinstance(found, Rewrites)
    assert "ran out of memory; a shorter model is not possible" in found.refused[0]
    assert "its layers do not repeat" in found.refused[0]
