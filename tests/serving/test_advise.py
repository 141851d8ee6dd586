"""Advice on where to run models, and which of them: from stores with known truths."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dlbricks_machine.names import name_machine
from dlbricks_prediction import Contribution, Provenance
from dlbricks_prediction import training_data as knowledge
from dlbricks_prediction.atlas import LayerTable, counts_matrix
from dlbricks_serving.advice.advice import AdviceRequest
from dlbricks_serving.advice.job import AdviseJob
from dlbricks_serving.advice.places import Place, places
from dlbricks_serving.advice.report.data import advice_data
from dlbricks_serving.advice.search import advise
from dlbricks_serving.advice.tariff import Accuracies, Prices
from dlbricks_serving.advice.tasks import AdviceTask, tasks_of
from dlbricks_sizes import Generation, load_asked

from dlbricks_core.bricks import CutModel
from dlbricks_core.commands.estimate.actions import EstimateJob
from dlbricks_core.commands.options.models import Models
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation import conditioned as oracle
from dlbricks_core.facts import Observation, Question, Session, Subject
from dlbricks_core.facts.observation import LATENCY
from dlbricks_core.figures.figure import RESAMPLES
from dlbricks_core.figures.predicted import Predicted
from dlbricks_core.importers import LoadOptions
from dlbricks_core.plugins import Plugin
from dlbricks_core.predict import Predictor
from dlbricks_core.progress import Observer
from dlbricks_core.report.notes import text
from dlbricks_core.store import ResultStore

SPREAD = 0.2


class Guess(Predictor):
    """As many milliseconds for each brick as the setup has threads, off by an error in common."""

    name = "guess"

    def predict(self, bricks, setup, system, known, atlas=()):
        off = np.exp(SPREAD * np.random.default_rng(0).standard_normal(RESAMPLES))
        return {s: Predicted(float(setup.threads), setup.threads * off) for s in bricks}


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    plugin = Plugin("predictor", "guess", "tests:Guess", "tests", "1", Guess)
    monkeypatch.setattr(oracle, "find_predictor", lambda name: plugin)
    monkeypatch.setattr(knowledge, "shipped", lambda backend: ())
    monkeypatch.setattr("dlbricks_prediction.from_atlas.shipped", lambda _: ())


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "results.sqlite") as opened:
        yield opened


@pytest.fixture
def systems(asked):
    """Three systems by name."""
    return {name: replace(asked.system, cpu=f"the {name}") for name in ("slow", "fast", "third")}


@pytest.fixture
def models(builder):
    def chain(name, operator):
        b = builder()
        b.add(operator, b.conv(b.input))
        return replace(b.model(name=name), source=f"made:{name}")

    return [chain("small", "Relu"), chain("large", "Tanh")]


@pytest.fixture
def keep(store, asked):
    """Stores samples of a whole model on a system."""

    def kept(
        model, system, ms, threads=1, plugin="0.1.0", scatter=0.01, kind="model", session=None
    ):
        store.remember_system(system.fingerprint, system.to_dict())
        setup = replace(asked.setup, threads=threads, plugin=plugin)
        signature = CutModel(model, (), model).whole.signature
        question = Question(Subject(signature, kind), LATENCY, setup, system.fingerprint)
        random = np.random.default_rng((threads, int(ms * 1e3)))
        for number in range(12):
            value = ms * (1 + scatter * random.standard_normal())
            taken = Observation(session or f"{system.cpu} {threads}", number, (value,))
            store.add_samples(question, taken)

    return kept


@pytest.fixture
def written(tmp_path):
    def write(name, text):
        path = Path(tmp_path) / name
        path.write_text(text, "utf-8")
        return path

    return write


def advised(models, store, predictor="guess", on=(), **wanted):
    jobs = [AdviceTask.of(model) for model in models]
    return advise(jobs, places(store, on), AdviceRequest(**wanted), store, Observer(), predictor)


def where(ranking):
    return [each.alternative.place.system.cpu for each in ranking.ranked]


def test_the_fastest_system_is_first(store, systems, models, keep):
    keep(models[0], systems["slow"], 20.0)
    keep(models[0], systems["fast"], 10.0)
    (ranking,) = advised(models[:1], store).rankings
    assert where(ranking) == ["the fast", "the slow"]
    best = ranking.first.alternative
    assert (best.basis, ranking.first.first) == ("measured", 1.0)
    assert best.ms == pytest.approx(10.0, rel=0.02)
    assert best.per_second == pytest.approx(1e3 / best.ms)
    assert best.interval_ms[0] < best.ms < best.interval_ms[1]
    assert best.price is None


def test_what_was_never_measured_on_a_machine_is_told_by_quantity_and_name(
    store, systems, models, keep
):
    keep(models[0], systems["fast"], 10.0)
    name_machine(store, systems["fast"].fingerprint, "lab")
    notes = map(text, advised([models[1]], store).notes)
    assert any(
        "the latency of large was never measured with faulty on lab." in each for each in notes
    )


def test_systems_that_are_as_fast_are_each_first_as_probably(store, systems, models, keep):
    for seed, name in enumerate(systems):
        keep(models[0], systems[name], 10.0 + seed * 1e-4, scatter=0.05)
    (ranking,) = advised(models[:1], store).rankings
    shares = [each.first for each in ranking.ranked]
    assert sum(shares) == pytest.approx(1.0)
    assert max(shares) < 0.9


def test_the_cheapest_that_keeps_the_bound_is_first(store, systems, models, keep, written):
    keep(models[0], systems["slow"], 20.0)
    keep(models[0], systems["fast"], 10.0)
    prices = Prices.read(
        written("p.toml", '[per_hour]\n"the slow" = 0.1\n"the fast" = 1\nelse = 3')
    )
    (ranking,) = advised(models[:1], store, prices=prices, reading=LoadOptions(batch=4)).rankings
    assert where(ranking) == ["the slow", "the fast"]
    best = ranking.first.alternative
    assert best.price == pytest.approx(0.1 * best.ms / 1e3 / 3600 * 1e6 / 4)
    assert best.price_interval[0] < best.price < best.price_interval[1]
    assert best.per_second == pytest.approx(4e3 / best.ms)
    (ranking,) = advised(models[:1], store, prices=prices, max_latency_ms=15.0).rankings
    assert where(ranking) == ["the fast", "the slow"]
    assert [each.keeps for each in ranking.ranked] == [1.0, 0.0]
    assert [each.first for each in ranking.ranked] == [1.0, 0.0]
    (ranking,) = advised(models[:1], store, prices=prices, max_latency_ms=5.0).rankings
    assert ranking.first is None
    assert sum(each.first for each in ranking.ranked) == 0.0


def test_systems_without_a_price_are_named(store, systems, models, keep, written):
    for name in systems:
        keep(models[0], systems[name], 10.0)
    prices = Prices.read(written("p.toml", f"[per_hour]\n{systems['fast'].fingerprint[:8]} = 1"))
    advice = advised(models[:1], store, prices=prices)
    assert where(advice.rankings[0]) == ["the fast"]
    assert [each.code for each in advice.notes].count("without-price") == 1
    other = Prices.read(written("o.toml", "[per_hour]\nanother = 1"))
    with pytest.raises(DLBricksError, match="no price of any of the systems"):
        advised(models[:1], store, prices=other)


def test_what_nobody_measured_is_predicted(store, systems, models, keep):
    keep(models[0], systems["slow"], 20.0)
    small, large = advised(models, store).rankings
    assert [each.alternative.basis for each in small.ranked] == ["measured"]
    (other,) = large.ranked
    assert other.alternative.basis == "predicted"
    assert other.alternative.origin == {"predicted": 1.0}
    low, high = other.alternative.interval_ms
    assert high / low == pytest.approx(np.exp(2 * 1.645 * SPREAD), rel=0.1)


def test_without_a_predictor_it_fails_by_name(store, systems, models, keep):
    keep(models[0], systems["slow"], 20.0)
    advice = advised(models, store, predictor=None)
    assert [ranking.name for ranking in advice.rankings] == ["small"]
    (failure,) = advice.failures
    assert failure.subject == "large"
    assert failure.part.endswith(systems["slow"].fingerprint[:8])


def test_predictions_err_together_on_one_system_and_less_on_two(store, systems, models, keep):
    for threads in (1, 2):
        keep(models[0], systems["slow"], 20.0, threads=threads)
    keep(models[0], systems["fast"], 10.0, threads=4)
    (ranking,) = advised(models[1:], store).rankings
    draws = {
        each.alternative.place.setup.threads: np.log(each.alternative.draws)
        for each in ranking.ranked
    }
    assert np.corrcoef(draws[1], draws[2])[0, 1] == pytest.approx(0.7, abs=0.1)
    assert np.corrcoef(draws[1], draws[4])[0, 1] == pytest.approx(0.5, abs=0.1)


def test_models_in_one_place_err_together_as_the_predictor_says(store, systems, models, keep):
    keep(models[0], systems["slow"], 20.0, kind="native")
    rankings = advised(models, store).rankings
    one, other = (np.log(each.ranked[0].alternative.draws) for each in rankings)
    # The difference from one hour to another is drawn for each.
    assert np.corrcoef(one, other)[0, 1] > 0.85


def test_measured_systems_are_independent(store, systems, models, keep):
    keep(models[0], systems["slow"], 20.0)
    keep(models[0], systems["fast"], 10.0)
    (ranking,) = advised(models[:1], store).rankings
    one, other = (each.alternative.draws for each in ranking.ranked)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.15


def test_models_with_accuracies_are_alternatives(store, systems, models, keep, written):
    keep(models[0], systems["slow"], 10.0)
    keep(models[1], systems["slow"], 30.0)
    keep(models[0], systems["fast"], 5.0)
    keep(models[1], systems["fast"], 15.0)
    path = written("a.toml", '[accuracy]\nsmall = 60\n"made:large" = 80')
    accuracies = Accuracies.read(path)
    (ranking,) = advised(models, store, accuracies=accuracies).rankings
    assert [each.alternative.job.name for each in ranking.front] == ["large", "small"]
    assert {each.alternative.place.system.cpu for each in ranking.front} == {"the fast"}
    assert sorted(each.front for each in ranking.ranked) == [0.0, 0.0, 1.0, 1.0]
    advice = advised(models, store, accuracies=accuracies, min_accuracy=70)
    assert {each.job.name for each in advice.alternatives} == {"large"}
    assert "left out: small" in text(advice.notes[0])
    with pytest.raises(DLBricksError, match="accuracy of 90"):
        advised(models, store, accuracies=accuracies, min_accuracy=90)
    with pytest.raises(DLBricksError, match="needs the models' accuracies"):
        AdviceRequest(min_accuracy=1)


def test_a_model_without_an_accuracy_is_named(store, systems, models, keep, written):
    keep(models[0], systems["slow"], 10.0)
    accuracies = Accuracies.read(written("a.toml", "[accuracy]\nsmall = 60"))
    advice = advised(models, store, accuracies=accuracies)
    assert {each.job.name for each in advice.alternatives} == {"small"}
    assert [failure.subject for failure in advice.failures] == ["large"]


def test_of_versions_of_a_plugin_that_with_most_counts(store, systems, models, keep):
    keep(models[0], systems["slow"], 20.0, plugin="old")
    keep(models[0], systems["slow"], 10.0, plugin="new")
    keep(models[1], systems["slow"], 10.0, plugin="new")
    (found,) = places(store)
    assert found.setup.plugin == "new"


def test_systems_of_the_atlas_are_asked_for_by_name(
    store, asked, systems, models, keep, monkeypatch
):
    table, none = LayerTable(), np.zeros(0)
    atlas = Contribution(
        systems["fast"], replace(asked.setup, protocol=""),
        Provenance("", "", "", (), ""), table.features, counts_matrix([], 0),
        none, none, none, (), (),
    )  # fmt: skip
    monkeypatch.setattr("dlbricks_prediction.from_atlas.shipped", lambda _: (atlas,))
    with pytest.raises(DLBricksError, match="holds no latencies") as error:
        places(store)
    assert systems["fast"].fingerprint[:8] in error.value.hint
    keep(models[0], systems["slow"], 20.0)
    assert [place.system.cpu for place in places(store)] == ["the slow"]
    (found,) = places(store, ["the fast"])
    assert found.only_shipped
    assert found.is_called(found.system.microarchitecture.upper())
    (ranking,) = advised(models[:1], store, on=[systems["fast"].fingerprint[:6]]).rankings
    assert ranking.first.alternative.basis == "predicted"
    for name in ("nowhere", "", systems["fast"].fingerprint[:3]):
        with pytest.raises(DLBricksError, match="no system"):
            places(store, [name])
    with pytest.raises(DLBricksError, match="nothing was measured with other"):
        places(store, backends=["other"])


def named(found):
    return [(place.name, place.setup.threads) for place in found]


def test_equal_machines_are_places_of_their_own(store, systems, models, keep, written):
    """One measured the model on two threads as well: there, the other has no place."""
    system = systems["fast"]
    keep(models[0], system, 10.0)
    keep(models[0], system, 20.0, session="on another host")
    keep(models[0], system, 15.0, threads=2)
    for session, host in (("the fast 1", "a"), ("on another host", "b"), ("the fast 2", "b")):
        store.keep_session(Session(session, host, system.fingerprint, "0.1.0"))
    short = system.fingerprint[:8]
    assert named(places(store)) == [(short, 1), (short, 2)]
    for host, name in (("a", "lab"), ("b", "attic")):
        name_machine(store, f"{system.fingerprint}@{host}", name)
    assert named(places(store)) == [("attic", 1), ("attic", 2), ("lab", 1)]
    assert named(places(store, [f"{system.fingerprint[:4]}@a"])) == [("lab", 1)]
    prices = Prices.read(written("p.toml", "[per_hour]\nlab = 1\nattic = 2"))
    advice = advised(models[:1], store, prices=prices)
    told = advice_data(advice)
    assert [each["machine"] for each in told["systems"]] == ["attic", "lab"]
    rows = told["rankings"][0]["alternatives"]
    found = {(each["machine"], each["threads"]): each for each in rows}
    assert {key: round(each["estimate"]) for key, each in found.items()} == {
        ("lab", 1): 10, ("attic", 1): 20, ("attic", 2): 15
    }  # fmt: skip
    assert [found["lab", 1]["per_hour"], found["attic", 1]["per_hour"]] == [1, 2]
    assert named(places(store, ["lab"])) == [("lab", 1)]
    assert len(places(store, [system.fingerprint])) == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[per_hour", "cannot be read"),
        ("[per_hour]\na = " + "[" * 10_000, "cannot be read"),
        (" " * (1 << 23), "too large"),
        ("per_hour" + ".a" * 10_000 + " = 1", "too many parts"),
        ("per_hour = 3", "no table 'per_hour'"),
        ("[per_hour]", "no table 'per_hour'"),
        ("[per_hour]\na = -1", "no number"),
        ("[per_hour]\na = nan", "no number"),
        ("[per_hour]\na = inf", "no number"),
        (f"[per_hour]\na = {10**400}", "an integer of 1,329 bits"),
        (f"[per_hour]\na = 0x{'f' * 5000}", "cannot be read"),
        (f"currency = 0x{'f' * 5000}", "cannot be read"),
        ("[per_hour]\na = true", "no number"),
        ("[per_hour]\na = '1'", "no number"),
        ("[per_day]\na = 1", "'per_day' means nothing"),
        ("currency = 1\n[per_hour]\na = 1", "currency is 1"),
    ],
)
def test_other_files_are_no_prices(written, text, words):
    with pytest.raises(DLBricksError, match=words) as error:
        Prices.read(written("p.toml", text))
    assert error.value.hint


def test_two_prices_of_one_system_contradict_each_other(written, systems, asked):
    system = systems["fast"]
    prices = Prices.read(
        written("p.toml", f'[per_hour]\n"{system.cpu}" = 1\n{system.fingerprint} = 2')
    )
    with pytest.raises(DLBricksError, match="mean one system"):
        prices.of(Place(system, asked.setup))
    assert prices.of(Place(systems["slow"], asked.setup)) is None


@pytest.mark.process
@pytest.mark.parametrize("generate", [1, 5])
def test_times_of_an_answer_err_together_and_less_on_two_systems(
    store, systems, models, keep, save_decoder, tmp_path, generate
):
    keep(models[0], systems["slow"], 20.0)
    keep(models[0], systems["fast"], 10.0)
    save_decoder(tmp_path / "decoder.onnx")
    asked = Generation({"prompt": (8,), "generate": (generate,)})
    loaded = load_asked([str(tmp_path / "decoder.onnx")], asked, LoadOptions(), Observer())
    (workload,) = asked.workloads
    wanted = AdviceRequest(workload=workload)
    jobs = tasks_of(loaded, workload)
    (ranking,) = advise(jobs, places(store), wanted, store, Observer(), "guess").rankings
    assert ranking.name == "decoder"
    answers = [each.alternative for each in ranking.ranked]
    for each in answers:
        first, *tokens = (known.draws for known in each.required)
        assert len(tokens) == (generate > 1)
        assert each.draws == pytest.approx(first + (generate - 1) * sum(tokens))
        assert (each.basis, each.origin) == ("predicted", pytest.approx({"predicted": 1.0}))
        low, high = each.interval_ms
        assert high / low == pytest.approx(np.exp(2 * 1.645 * SPREAD), rel=0.1)
    one, other = (np.log(each.draws) for each in answers)
    assert np.corrcoef(one, other)[0, 1] == pytest.approx(0.5, abs=0.1)


@pytest.mark.process
@pytest.mark.parametrize("backend", ["onnxruntime", "pytorch"])
def test_an_answer_has_the_figures_of_an_estimate(tmp_path, backend):
    asked = Generation({"prompt": (8,), "generate": (3,)})
    models = Models(["llm:smollm2-135m"], sizes=asked)
    with ResultStore.open(tmp_path / "results.sqlite") as store:
        done = EstimateJob(models=models, backend=backend).run(store, Observer())
        advice = AdviseJob(models=models, backends=[backend]).run(store, Observer())
    (answer,) = done.result.over_sizes.answers
    (found,) = advice.alternatives
    # The cost of a call of Python is timed anew in each process, and varies with other load.
    assert found.ms == pytest.approx(answer.total.estimate.value, rel=0.15)
