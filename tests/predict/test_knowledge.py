"""What predictors learn from: the store's measurements, joined with those of the package."""

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_prediction import training_data as module
from dlbricks_prediction.features import Features, joined
from dlbricks_prediction.training_data import (
    FEATURES,
    contributions,
    described,
    features_of,
    remember,
    training_data,
)

from dlbricks_core.bricks import Brick, BrickSet
from dlbricks_core.bricks.families import family_of
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.run import run
from dlbricks_core.facts import LATENCY, Observation, Question, Subject
from dlbricks_core.figures.figure import Measured
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.measure.cutting import Target
from dlbricks_core.measure.measuring import measure
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def bricks(residual):
    """Bricks of a layer each, by signature."""
    return BrickSet.of([residual()]).bricks


@pytest.fixture
def measured(asked, store, bricks):
    """Keeps bricks and samples of each under a request, as a session does."""

    def keep(*values, request=asked, flags=(), overhead=0.25, which=None):
        store.remember_system(request.system.fingerprint, request.system.to_dict())
        remember(store, bricks, {})
        for signature in which or bricks:
            key = request.key(signature, "brick")
            store.add_samples(key, Observation("s", len(values), values, overhead, flags))

    return keep


def test_features_are_those_of_layers_and_ends(bricks):
    for brick in bricks.values():
        expected = joined([Features.of(brick.model), Features.of_ends(brick.model)])
        found = features_of(described(brick))
        assert found.kinds == expected.kinds
        np.testing.assert_allclose(found.numbers, expected.numbers, rtol=1e-6)


def test_a_contribution_holds_what_was_measured(asked, store, bricks, measured):
    measured(1.0, 2.0, 3.0, 4.0)
    (found,) = contributions(store)
    assert found.system.fingerprint == asked.system.fingerprint
    assert found.setup == asked.setup
    assert found.signatures == tuple(bricks)
    figure = Measured((1.0, 2.0, 3.0, 4.0), PROTOCOLS["interleaved"])
    np.testing.assert_allclose(np.exp(found.log_ms), figure.value)
    np.testing.assert_allclose(found.call_ms, 0.25)
    for i, brick in enumerate(bricks.values()):
        own = found.only([i])
        features = features_of(described(brick))
        assert sorted(own.features.kinds) == sorted(set(features.kinds))
        assert own.counts.sum() == len(features.kinds)
    assert found.provenance.sessions == ("s",)
    assert found.provenance.begin <= found.provenance.end


def test_networks_are_told_apart_by_their_sessions(asked, store, bricks, measured):
    first, *others = bricks
    measured(1.0, 2.0, 3.0, which=others)
    store.add_samples(asked.key(first, "brick"), Observation("t", 0, (1.0, 2.0, 3.0), 0.25))
    remember(store, {first: bricks[first]}, {})
    (found,) = contributions(store)
    session = dict(zip(found.signatures, found.sessions, strict=True))
    assert {session[each] for each in others} != {session[first]}
    assert len({session[each] for each in others}) == 1


def test_the_noise_is_that_of_the_figure(measured, store):
    random = np.random.default_rng(0)
    samples = tuple(10 + random.exponential(1.0, 200))
    measured(*samples)
    (found,) = contributions(store)
    figure = Measured(samples, PROTOCOLS["interleaved"])
    deviation = np.std(figure.replicates) / figure.value
    np.testing.assert_allclose(np.sqrt(found.noise), deviation, rtol=0.2)


def test_slow_outliers_are_no_noise(measured, store):
    measured(10.0, 10.1, 10.2, 10.0, 10.1, 500.0)
    (found,) = contributions(store)
    assert np.all(np.sqrt(found.noise) < 0.02)


def test_disturbed_samples_do_not_count_where_there_are_others(measured, store):
    measured(9.0, 9.0, 9.0, 9.0, flags=("far",))
    measured(1.0, 1.0, 1.0)
    (found,) = contributions(store)
    np.testing.assert_allclose(np.exp(found.log_ms), 1.0)


def test_of_several_versions_of_a_plugin_the_last_one_counts(asked, measured, store):
    for plugin, ms in (("0.1.0+a", 5.0), ("0.1.0+b", 2.0)):
        setup = replace(asked.setup, plugin=plugin)
        measured(ms, ms, request=replace(asked, setup=setup))
    (found,) = contributions(store)
    np.testing.assert_allclose(np.exp(found.log_ms), 2.0)


@pytest.mark.parametrize("change", [{"threads": 2}, {"options": '{"a":"b"}'}, {"version": "2"}])
def test_each_setup_has_a_contribution_of_its_own(asked, measured, store, change):
    other = replace(asked.setup, **change)
    measured(1.0)
    measured(2.0, request=replace(asked, setup=other))
    assert [each.setup for each in contributions(store)] == [asked.setup, other]


def test_what_says_nothing_of_this_quantity_or_protocol_is_left_out(asked, store, bricks, measured):
    measured(1.0, request=replace(asked, setup=replace(asked.setup, protocol="paper/2")))
    signature = next(iter(bricks))
    store.add_samples(asked.key(signature, "native"), Observation("s", 0, (1.0,)))
    unknown = Question(Subject("nobody", "brick"), LATENCY, asked.setup, asked.fingerprint)
    store.add_samples(unknown, Observation("s", 0, (1.0,)))
    assert contributions(store) == []


def test_features_of_another_version_are_made_anew_when_the_network_is_met_again(
    monkeypatch, store, bricks, measured
):
    measured(1.0)
    monkeypatch.setattr(module, "FEATURES", "another")
    assert contributions(store) == []
    remember(store, bricks, {})
    (found,) = contributions(store)
    assert found.signatures == tuple(bricks)


def test_graphs_of_a_backend_are_not_remembered(store, bricks):
    signature, brick = next(iter(bricks.items()))
    annotated = replace(brick.model, annotations={"native_to": "faulty"})
    remember(store, {signature: Brick(signature, annotated)}, {})
    assert store.networks(FEATURES) == {}


def test_groups_add_up(store, bricks):
    signature = next(iter(bricks))
    for groups in ({"vgg"}, {"resnet"}, {"vgg"}, ()):
        remember(store, bricks, {signature: groups})
    assert store.networks(FEATURES)[signature].groups == {"vgg", "resnet"}
    assert store.networks(FEATURES)[[*bricks][1]].groups == frozenset()


@pytest.mark.parametrize(
    ("source", "family"),
    [("mxnet:resnet50_v1", "resnet"), ("onnx:light_bvlc_alexnet", "alexnet"),
     ("mxnet:inceptionv3", "inception"), ("onnx:light_inception_v1", "inception"),
     ("mxnet:mobilenetv2_0.25", "mobilenet"), ("torch:torch_networks:gpt2_decode", "gpt"),
     ("mxnet:vgg11_bn", "vgg")],
)  # fmt: skip
def test_families_of_models_in_collections(residual, source, family):
    assert family_of(replace(residual(), source=source)) == family


def test_names_of_files_are_not_told(residual):
    first = family_of(replace(residual(name="secret1"), source="/home/me/secret1.onnx"))
    second = family_of(replace(residual(name="secret2"), source="/home/me/secret2.onnx"))
    other = family_of(replace(residual(name="public"), source="public.onnx"))
    assert first == second != other
    assert "secret" not in first


@pytest.mark.process
def test_measuring_keeps_features_and_families(asked, store, residual):
    model = replace(residual(), source="mxnet:resnet18_v1")
    options = CutOptions(granularity=1, strategy="chain", composer="sequential")
    run([model], options, asked, store, Observer())
    found = store.networks(FEATURES)
    assert {each.groups for each in found.values()} == {frozenset({"resnet"})}
    cut = BrickSet.of([model]).models[0]
    assert set(found) == {*cut.counts, cut.whole.signature}
    (contribution,) = contributions(store)
    assert set(contribution.signatures) == set(found)


@pytest.mark.process
def test_targets_may_name_their_group(asked, store, bricks):
    targets = [Target(brick, "brick", "survey:relu") for brick in bricks.values()]
    measure(targets, asked, store, Observer())
    assert {each.groups for each in store.networks(FEATURES).values()} == {
        frozenset({"survey:relu"})
    }


@pytest.fixture
def shipped(monkeypatch):
    """Makes contributions those of the package."""

    def ships(*found):
        def shipped(backend=None):
            return tuple(each for each in found if backend in (None, each.setup.backend))

        monkeypatch.setattr(module, "shipped", shipped)

    return ships


def test_what_the_package_holds_is_known_too(asked, store, measured, shipped):
    measured(1.0)
    (own,) = contributions(store)
    elsewhere = replace(
        own,
        setup=replace(asked.setup, threads=8),
        provenance=replace(own.provenance, sessions=("another",)),
    )
    shipped(elsewhere)
    found, other = training_data(store)
    assert (found.setup, found.signatures) == (own.setup, own.signatures)
    assert other is elsewhere
    assert len(training_data(store, "faulty")) == 2
    assert training_data(store, "another") == []


def test_what_the_package_has_from_this_store_counts_once(asked, store, bricks, measured, shipped):
    measured(1.0)
    (packed,) = contributions(store)
    shipped(packed)
    assert training_data(store) == [packed]
    first = next(iter(bricks))
    key = replace(asked.key(first, "brick"), setup=replace(asked.setup, plugin="0.1.0+later"))
    store.add_samples(key, Observation("later", 0, (7.0,)))
    own, same = training_data(store)
    assert same is packed
    assert own.signatures == (first,)
    assert np.exp(own.log_ms) == pytest.approx([7.0])


def test_features_of_another_length_are_left_out_and_named(asked, store, bricks, measured):
    measured(1.0, 2.0, 3.0, 4.0)
    first, *others = bricks
    odd = replace(described(bricks[first]), kinds=("Relu",), numbers=bytes(4))
    store.keep_networks([odd])
    with pytest.warns(UserWarning, match=f"left out: 1 damaged, such as {first}"):
        (found,) = contributions(store)
    assert found.signatures == tuple(others)
