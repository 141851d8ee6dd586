"""Estimates that run nothing: how models are cut for them, and where their figures come from."""

import re
from dataclasses import replace
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
from dlbricks_machine.names import name_machine
from dlbricks_prediction import Contribution, Provenance
from dlbricks_prediction import training_data as knowledge
from dlbricks_prediction.atlas import LayerTable, counts_matrix
from dlbricks_prediction.features import Features
from dlbricks_prediction.from_atlas import FromAtlas

from dlbricks_core.backends import Traits
from dlbricks_core.bricks import BrickSet, CutModel
from dlbricks_core.commands.options.systems import at_system
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation import conditioned as oracle
from dlbricks_core.estimation import extrapolation as doubts
from dlbricks_core.estimation.without_runs import estimate
from dlbricks_core.facts import LATENCY, Observation, Session
from dlbricks_core.figures.figure import RESAMPLES, Measured, relative_half_width
from dlbricks_core.figures.predicted import Placed, Predicted
from dlbricks_core.ir import packed
from dlbricks_core.measure import rewrites
from dlbricks_core.plugins import Plugin
from dlbricks_core.report.notes import text
from dlbricks_core.store import ResultStore

DRAWS = np.linspace(0.9, 1.1, RESAMPLES)
UNKNOWN = ("Tanh",)


class Guess(FromAtlas):
    """About four milliseconds for each brick, and anything for a Tanh alone."""

    name = "guess"
    atlas = None

    def predict(self, bricks, setup, system, known, atlas=()):
        type(self).atlas = atlas
        wide = np.random.default_rng(0).lognormal(0, 1, RESAMPLES)
        return {
            signature: Predicted(4.0, 4.0 * (wide if brick.operators == UNKNOWN else DRAWS))
            for signature, brick in bricks.items()
        }


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """One predictor, no atlas, and no worker of a backend."""
    plugin = Plugin("predictor", "guess", "tests:Guess", "tests", "1", Guess)
    monkeypatch.setattr(oracle, "find_predictor", lambda name: plugin)
    monkeypatch.setattr(knowledge, "shipped", lambda backend: ())
    monkeypatch.setattr(rewrites, "BackendWorker", None)


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def models(builder):
    """Three models without a layer in common."""

    def chain(name, *operators):
        b = builder()
        x = b.conv(b.input, {"other": 1}.get(name, 3))
        for operator in operators:
            x = b.add(operator, x)
        return b.model(name=name)

    return [chain("first", "Relu", "Abs"), chain("other", "Neg"), chain("third", "Exp")]


@pytest.fixture
def rewriting(asked):
    """A request to a backend that executes other graphs than the given ones."""
    asked.backend.traits = Traits(rewrites=True)
    return asked


def keep(store, request, graph, granularity=128, strategy="segments", ms=2.0):
    """Stores samples of all bricks of a graph."""
    for signature in BrickSet.of(
        [graph], granularity, strategy, rereading=strategy != "chain"
    ).bricks:
        key = request.key(signature, "brick")
        for number in range(request.runs):
            store.add_samples(key, Observation("s", number, (ms,)))


def told(result):
    return [(model.composer, dict(model.origin)) for model in result.models]


def told_by(result):
    return list(map(text, result.ledger.notes))


def test_what_nobody_measured_is_predicted(asked, store, models):
    result = estimate(models, None, asked, store, predictor="guess")
    assert told(result) == [("learned", {"predicted": 1.0})] * 3
    for model in result.models:
        low, high = model.estimate.interval
        assert low < model.estimate.value < high
        assert not model.missing
        assert model.cut.graph is model.cut.model


def test_what_the_backend_lacks_is_not_predicted(asked, store, models):
    asked.backend.traits = Traits(lacks=frozenset({"Exp"}))
    result = estimate(models, None, asked, store, predictor="guess")
    assert [bool(model.missing) for model in result.models] == [False, False, True]
    (reason,) = result.ledger.unsupported.values()
    assert reason == f"Exp: {asked.backend.name} has no counterpart"


@pytest.mark.parametrize(
    ("traits", "why"),
    [
        (Traits(types=frozenset({"float16"})), "has no element type float32"),
        (Traits(lacks_of_type={"float32": frozenset({"Exp"})}), "does not run it in float32"),
    ],
)
def test_types_that_the_backend_lacks_are_not_predicted(asked, store, models, traits, why):
    asked.backend.traits = traits
    result = estimate(models, None, asked, store, predictor="guess")
    assert result.models[2].missing
    assert any(each.endswith(why) for each in result.ledger.unsupported.values())
    assert bool(result.models[0].missing) == bool(traits.types)


def test_without_a_predictor_it_is_missing(asked, store, models):
    result = estimate(models, None, asked, store)
    assert told(result) == [("segmented", {})] * 3
    assert all(model.estimate.value is None for model in result.models)


def test_what_the_store_keeps_of_a_model_is_cut(rewriting, store, models):
    model, graph = models[0], models[2]
    whole = CutModel(model, (), model).whole.signature
    store.keep_rewrite(whole, rewriting.setup, rewriting.fingerprint, packed(graph))
    keep(store, rewriting, models[1])
    unmeasured = estimate([model], None, rewriting, store, predictor="guess")
    assert told(unmeasured) == [("learned", {"predicted": 1.0})]
    keep(store, rewriting, graph)
    stored = estimate([model], None, rewriting, store, predictor="guess")
    assert told(stored) == [("segmented", {"stored": 1.0})]
    (cut,) = stored.brickset.models
    assert [layer.op for layer in cut.graph.layers] == ["Conv", "Exp"]
    assert cut.model is model


def test_each_model_is_cut_into_bricks_that_the_store_holds(asked, store, models):
    keep(store, asked, models[0])
    keep(store, asked, models[2], 1, "chain")
    result = estimate(models, None, asked, store, predictor="guess")
    assert told(result) == [
        ("segmented", {"stored": 1.0}),
        ("learned", {"predicted": 1.0}),
        ("sequential", {"stored": 1.0}),
    ]
    assert [model.cut.model.name for model in result.models] == ["first", "other", "third"]
    signatures = [each.brick.signature for each in result.bricks]
    assert sorted(signatures) == sorted(result.brickset.bricks)
    assert set(signatures) == {s for model in result.models for s in model.cut.counts}
    assert sum(each.occurrences for each in result.bricks) == 4
    assert result.ledger.reused == 3
    keep(store, asked, models[2])
    result = estimate(models, None, asked, store, predictor="guess")
    assert [model.composer for model in result.models] == ["segmented", "learned", "segmented"]
    assert [model.cut.model.name for model in result.models] == ["first", "other", "third"]


def test_segments_of_the_model_itself_do_not_stand_for_what_is_executed(rewriting, store, models):
    keep(store, rewriting, models[0])
    (model,) = estimate(models[:1], None, rewriting, store, predictor="guess").models
    assert model.composer == "learned"


def test_the_predictor_tells_what_is_left_of_a_measured_brick(rewriting, store, models):
    keep(store, rewriting, models[0], 128, "short-segments")
    result = estimate(models[:1], None, rewriting, store, predictor="guess")
    assert told(result) == [("learned", {"stored": 1.0})]
    (brick,) = result.bricks
    assert isinstance(brick.latency, Placed)
    assert brick.latency.value == pytest.approx(4.0)
    assert set(brick.latency.samples) == {2.0}


def test_what_is_unlike_all_that_was_measured_is_named(asked, store, builder):
    b = builder()
    last = b.add("Tanh", b.input)
    for operator in ("Abs", "Neg", "Exp"):
        last = b.add(operator, last)
    model = b.model(name="strange")
    result = estimate([model], CutOptions(), asked, store, predictor="guess")
    _, note = told_by(result)
    expected = r"strange: few measured networks resemble Tanh: this widens the interval "
    found = re.fullmatch(expected + r"from ±(?P<without>\d+)% to ±(?P<shown>\d+)%", note)
    assert int(found["shown"]) > 30 > 15 > int(found["without"])
    (shown,) = (relative_half_width(each.estimate.interval) for each in result.models)
    assert found["shown"] == f"{shown:.0%}".removesuffix("%")


def test_models_that_are_wide_for_the_same_reason_share_a_note(asked, store, builder):
    models = []
    for width in range(3, 8):
        b = builder((width,))
        last = b.add("Tanh", b.input)
        for operator in ("Abs", "Neg", "Exp"):
            last = b.add(operator, last)
        models.append(b.model(name=f"net [{width}]"))
    _, note = told_by(estimate(models, CutOptions(), asked, store, predictor="guess"))
    expected = (
        r"net \[3\], net \[4\], net \[5\] and 2 more: few measured networks resemble Tanh: "
        r"this widens the intervals from at most ±\d+% to at most ±\d+%"
    )
    assert re.fullmatch(expected, note)


def test_what_bricks_have_in_common_makes_none_of_them_strange():
    rng = np.random.default_rng(0)
    system = rng.lognormal(0, 0.6, RESAMPLES)
    spreads = {"a": 0.1, "b": 0.1, "c": 0.1, "odd": 0.8}
    draws = {name: system * rng.lognormal(0, sd, RESAMPLES) for name, sd in spreads.items()}
    predicted = {name: Predicted(1.0, each) for name, each in draws.items()}
    assert doubts._far(predicted) == {"odd"}
    del predicted["odd"]
    assert doubts._far(predicted) == set()
    assert doubts._far({}) == set()


def test_where_most_bricks_are_unlike_all_that_was_measured_they_are_named_as_well():
    rng = np.random.default_rng(0)
    spreads = {"usual": 0.1, "odd": 0.8, "strange": 0.9, "rare": 0.7}
    draws = {name: rng.lognormal(0, sd, RESAMPLES) for name, sd in spreads.items()}
    predicted = {name: Predicted(1.0, each) for name, each in draws.items()}
    assert doubts._far(predicted) >= {"odd", "strange", "rare"}


@pytest.fixture
def measured(asked):
    """Contributions: some bricks, measured on a system."""

    def measured_on(system, bricks=(), threads=1):
        table = LayerTable()
        counts = [table.add(Features.of(brick.model)) for brick in bricks]
        zeros = np.zeros(len(counts))
        return Contribution(
            system,
            replace(asked.setup, threads=threads),
            Provenance("0.1.0", "2026-01-01", "2026-01-02", ("s",), "a test"),
            table.features,
            counts_matrix(counts, len(table.kinds)),
            *(zeros, zeros, zeros),
            tuple(brick.signature for brick in bricks),
            ("tests",) * len(counts),
        )

    return measured_on


def test_what_predictions_rest_on_is_told(asked, store, models, measured, monkeypatch):
    def notes(*atlas):
        monkeypatch.setattr(knowledge, "shipped", lambda backend: atlas)
        return told_by(estimate(models, None, asked, store, predictor="guess"))

    (note,) = notes()
    assert (
        note == "nothing was measured with faulty: predictions rest on facts of the processor alone"
    )
    far, near = (replace(asked.system, cpu=f"an {name}", vendor=name) for name in ("Arm", "AMD"))
    near = replace(near, vendor=asked.system.vendor, model="other")
    (note,) = notes(measured(far), measured(near, threads=2))
    assert "predictions rest on an AMD with 2 threads; " in note
    assert note.endswith("narrows them in seconds")
    assert notes(measured(far), measured(asked.system)) == []
    monkeypatch.setattr("dlbricks_prediction.from_atlas.shipped", lambda _: (measured(far),))
    assert at_system(store, far.fingerprint[:10]) == (far, store)
    with pytest.raises(DLBricksError, match="no system 'none'") as error:
        at_system(store, "none")
    assert far.fingerprint in error.value.hint


def test_operators_that_nothing_measured_is_computed_like_are_named(
    asked, store, builder, measured, monkeypatch
):
    b = builder()
    b.add("Hardmax", b.relu(b.input))
    strange = b.model(name="strange")
    b = builder()
    b.relu(b.input)
    relu = next(iter(BrickSet.of([b.model()], 128, "short-segments").bricks.values()))
    monkeypatch.setattr(knowledge, "shipped", lambda backend: (measured(asked.target, [relu]),))
    notes = estimate(
        [strange], CutOptions.chosen(None, None, "learned"), asked, store, predictor="guess"
    ).ledger.notes
    (note,) = [each for each in notes if each.code == "operators-not-measured"]
    assert note.values["operators"] == ["Hardmax"]


def test_what_was_measured_counts_once(asked, store, models, measured, monkeypatch):
    """The atlas may hold a brick that the store holds as well."""
    keep(store, asked, models[0], 128, "short-segments")
    bricks = [
        brick
        for model in models
        for brick in BrickSet.of([model], 128, "short-segments", rereading=True).bricks.values()
    ]
    elsewhere = replace(asked.system, cpu="another")
    atlas = [measured(asked.system, bricks), measured(elsewhere, bricks)]
    monkeypatch.setattr(knowledge, "shipped", lambda backend: atlas)
    options = CutOptions.chosen(None, None, "learned")
    estimate(models, options, asked, store, predictor="guess")
    assert [len(each) for each in Guess.atlas] == [2, 3]
    assert bricks[0].signature not in Guess.atlas[0].signatures


def test_a_predictor_is_not_asked_about_a_model_that_is_opaque_as_a_whole(
    asked, store, models, monkeypatch
):
    def refuse(*given, **named):
        raise ValueError("nothing to predict")

    monkeypatch.setattr(Guess, "predict", refuse)
    layers = tuple(replace(each, opaque="text") for each in models[0].layers)
    (model,) = estimate(
        [replace(models[0], layers=layers)], None, asked, store, predictor="guess"
    ).models
    assert model.estimate.value is None
    assert len(model.missing) == len(model.cut.counts)


def test_opaque_layers_stay_missing(asked, store, models):
    first = models[0]
    layers = (*first.layers[:-1], replace(first.layers[-1], opaque="a loop"))
    (model,) = estimate(
        [replace(first, layers=layers)], None, asked, store, predictor="guess"
    ).models
    assert model.estimate.partial
    assert list(model.missing.values()) == ["a loop"]
    assert model.estimate.value > 0


def test_bricks_that_the_predictor_leaves_out_are_counted_in_a_note(
    asked, store, models, monkeypatch
):
    monkeypatch.setattr(Guess, "predict", lambda *_: {})
    result = estimate(models, None, asked, store, predictor="guess")
    assert all(model.missing for model in result.models)
    assert told_by(result) == [
        "the predictor 'guess' gives no figure for 3 of the 3 bricks that were not measured"
    ]


def test_the_note_on_left_out_bricks_counts_disturbed_figures(asked, store, models, monkeypatch):
    monkeypatch.setattr(Guess, "predict", lambda *_: {})
    monkeypatch.setattr(Measured, "teaches", False)
    keep(store, asked, models[0], 1, "chain")
    cut = CutOptions(composer="sequential")
    (said,) = told_by(estimate(models, cut, asked, store, predictor="guess"))
    assert re.search("it had the figures of 0 bricks, without [1-9] that were measured while", said)


def needs_of(wholes):
    """What an estimate for another system says that it lacks, by models and their figures."""
    request = SimpleNamespace(
        elsewhere=True, plugin=SimpleNamespace(problem=""), quantity=LATENCY, metric=None,
        fingerprint="there", machine="", backend=SimpleNamespace(name="fake"),
    )  # fmt: skip
    models = [
        SimpleNamespace(
            cut=SimpleNamespace(model=SimpleNamespace(name=name), counts={"a": 1}), measured=whole
        )
        for name, whole in wholes.items()
    ]
    result = SimpleNamespace(request=request, bricks=[], models=models)
    module = import_module("dlbricks_core.estimation.without_runs")
    return list(map(text, module._needs(result)))


@pytest.mark.parametrize(
    ("names", "told"), [("ac", "a and c was"), ("abcde", "a, b, c and 2 more was")]
)
def test_several_models_that_were_never_measured_are_told_as_several(names, told):
    (need,) = needs_of(dict.fromkeys(names))
    assert need.startswith(f"the latency of {told} never measured with fake on there.")


@pytest.mark.parametrize(("whole", "told"), [(None, True), (Predicted(1.0, DRAWS), False)])
def test_a_model_of_which_only_the_whole_was_measured_is_not_new(whole, told):
    needs = needs_of({"one": whole})
    assert ["of one was never measured with fake on there" in each for each in needs] == [
        True
    ] * told


def test_where_equal_machines_measured_the_ones_behind_the_figures_are_named(asked, store, models):
    def notes(system):
        found = told_by(estimate(models, None, asked, at_system(store, system)[1]))
        return [each for each in found if "measurements of" in each]

    here = asked.fingerprint
    store.remember_system(here, asked.system.to_dict())
    for host in ("first", "second"):
        store.keep_session(Session(host, host, here, "0.1.0"))
    assert notes(None) == notes(here) == []
    for machine in ("first", "second"):
        name_machine(store, f"{here}@{machine}", f"lab-{machine}")
    (alone,), (together,) = notes("lab-second"), notes(here)
    assert alone.startswith("figures rest on measurements of lab-second only")
    assert together.startswith("figures rest on measurements of lab-first and lab-second together")
    assert notes(None) == [together]
