"""The predictor of the atlas, against systems whose layers' latencies are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_pages import from_features
from dlbricks_pages.from_features import predicted_from_features
from dlbricks_prediction import Contribution, Provenance, from_atlas
from dlbricks_prediction.atlas import LayerTable, counts_matrix
from dlbricks_prediction.baseline import Processor, doubted, expected_ms
from dlbricks_prediction.features import Features, joined
from dlbricks_prediction.from_atlas import FromAtlas, believed
from dlbricks_prediction.from_contribution import beliefs_from, nearest, prior_of, with_pulls
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.layer_posterior import LayerPosterior
from dlbricks_prediction.whole_errors import discrepancy_of
from dlbricks_testing import cases

from dlbricks_core.bricks import Brick, BrickSet, extract, signature
from dlbricks_core.figures import RESAMPLES, Predicted
from dlbricks_core.figures.figure import InPlace, interval, relative_half_width
from dlbricks_core.figures.predicted import Discrepancy
from dlbricks_core.passes.convert import convert

CALL_MS = 0.004
SIZES = (8, 16, 24, 32, 48, 64, 96, 128)
CHAINS = ("y = Conv(x, w1)", "a = Conv(x, w1) y = Relu(a)", "a = Relu(x) y = Tanh(a)",
          "a = Conv(x, w1) b = Conv(a, w1) y = Add(b, x)")  # fmt: skip


def network(channels, side, chain):
    weight = f", float[{channels},{channels},1,1] w1" if "w1" in chain else ""
    return cases.build(f"(float[1,{channels},{side},{side}] x{weight}) => (y) {{ {chain} }}").model


def whole(model):
    """The signature of all of a model's layers, and they as one brick."""
    every = range(len(model.layers))
    identity = signature(model, every)
    return identity, Brick(identity, extract(model, every, identity))


@pytest.fixture(scope="module")
def bricks():
    """Small networks, by signature: each chain of layers over many shapes."""
    models = [network(c, s, chain) for c in SIZES for s in (7, 14, 28) for chain in CHAINS]
    return dict(whole(model) for model in models)


def true_ms(brick, system, threads, factor, ends=True):
    """Latency on a system that is always so much slower than the baseline says."""
    parts = [Features.of(brick.model)] + [Features.of_ends(brick.model)] * ends
    return factor * expected_ms(joined(parts), Processor.of(system, threads)).sum()


@pytest.fixture(scope="module")
def contributed(bricks):
    """A contribution of some bricks, of a system that is so much slower than the baseline."""

    def contribute(system, setup, factor, chosen=None):
        table = LayerTable()
        names = list(chosen if chosen is not None else bricks)
        rows = [
            table.add(joined([Features.of(bricks[s].model), Features.of_ends(bricks[s].model)]))
            for s in names
        ]
        latency = [true_ms(bricks[s], system, setup.threads, factor) + CALL_MS for s in names]
        return Contribution(
            system, setup, Provenance("0.1.0", "", "", (), "synthetic"), table.features,
            counts_matrix(rows, len(table.kinds)), np.log(latency), np.full(len(names), 1e-4),
            np.full(len(names), CALL_MS), tuple(names), ("synthetic",) * len(names),
        )  # fmt: skip

    return contribute


@pytest.fixture
def measured(bricks, system, setup):
    """Figures of bricks on a system that is so much slower than the baseline."""

    def figures(names, factor):
        value = {s: true_ms(bricks[s], system(), 1, factor) + CALL_MS for s in names}
        return {s: Predicted(v, np.full(RESAMPLES, v), CALL_MS) for s, v in value.items()}

    return figures


@pytest.fixture
def errors(bricks, system):
    """Relative errors of predictions, and their half-widths, beside the truth."""

    def compare(found, factor, names=None):
        ratio, widths = [], []
        for name in names or found:
            truth = true_ms(bricks[name], system(), 1, factor, ends=False)
            ratio.append(found[name].value / truth)
            widths.append(relative_half_width(interval(found[name].draws)))
        return np.array(ratio) - 1, np.array(widths)

    return compare


def test_without_anything_known_the_baseline_is_believed_and_not_much(
    bricks, system, setup, errors
):
    found = FromAtlas().predict(bricks, setup(), system(), {})
    assert found.keys() == bricks.keys()
    _, widths = errors(found, 1.0)
    assert (widths > 0.4).all()
    truth = [true_ms(brick, system(), 1, 1.0, ends=False) for brick in bricks.values()]
    assert [found[s].value for s in bricks] == pytest.approx(truth)
    ratios = [np.median(found[s].draws) / found[s].value for s in bricks]
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)


def test_a_brick_that_ran_in_a_model_tells_of_its_layers_alone(bricks, system, setup, errors):
    known, *others = bricks
    ran_ms = true_ms(bricks[known], system(), 1, 1.5, ends=False)
    found = FromAtlas().predict(bricks, setup(), system(), {known: InPlace((ran_ms,), 0)})
    assert found[known].value == pytest.approx(ran_ms)
    with_ends = true_ms(bricks[known], system(), 1, 1.5)
    alone = Predicted(with_ends, np.full(RESAMPLES, with_ends))
    beside = FromAtlas().predict(bricks, setup(), system(), {known: alone})
    for one in others:
        assert found[one].value == pytest.approx(beside[one].value, rel=0.1)


def test_systems_that_nobody_measured_share_what_the_atlas_believes(
    bricks, system, setup, contributed, monkeypatch
):
    calls = []

    def counted(*given):
        calls.extend(given[0])
        return beliefs_from(*given)

    monkeypatch.setattr(from_atlas, "beliefs_from", counted)
    atlas = [with_pulls(contributed(system(cpu="known"), setup(threads=n), 2.0),
                        kernel_of(setup().backend)) for n in (1, 2)]  # fmt: skip
    for cpu in ("one", "two", "three"):
        FromAtlas().predict(bricks, setup(), system(cpu=cpu), {}, atlas)
    assert len(calls) == len(atlas)
    some = dict(list(bricks.items())[:3])
    FromAtlas().predict(some, setup(), system(cpu="one"), {}, atlas)
    assert len(calls) == 2 * len(atlas)


def test_what_the_same_system_measured_is_what_is_predicted(
    bricks, system, setup, contributed, errors
):
    """A system that takes three times as long as the baseline says, bricks of it left out."""
    held_out = list(bricks)[::5]
    atlas = [contributed(system(), setup(), 3.0, [s for s in bricks if s not in held_out])]
    found = FromAtlas().predict({s: bricks[s] for s in held_out}, setup(), system(), {}, atlas)
    wrong, widths = errors(found, 3.0)
    assert np.median(np.abs(wrong)) < 0.05
    assert np.abs(wrong).mean() < 0.1
    assert widths.mean() < 0.35


def test_a_timed_brick_that_contradicts_all_others_keeps_its_own_figure(
    bricks, system, setup, contributed, measured, errors
):
    atlas = [contributed(system(), setup(), 3.0)]
    names = list(bricks)[::4]
    odd = names[2]
    known = {**measured(names, 3.0), **measured([odd], 1.2)}
    found = FromAtlas().predict(bricks, setup(), system(), known, atlas)
    wrong, widths = errors(found, 1.2, [odd])
    assert abs(wrong[0]) < 0.05
    assert widths[0] < 0.15
    assert np.median(found[odd].draws) == pytest.approx(found[odd].value, rel=0.05)
    others, _ = errors(found, 3.0, [s for s in bricks if s != odd])
    assert np.median(np.abs(others)) < 0.05


@pytest.mark.long
def test_an_unknown_system_is_as_uncertain_as_known_ones_differ(
    bricks, system, setup, contributed, errors
):
    others = [
        contributed(system(vendor=vendor), setup(), factor)
        for vendor, factor in (("B", 1.0), ("C", 3.0))
    ]
    found = FromAtlas().predict(bricks, setup(), system(), {}, others)
    _, widths = errors(found, 2.0)
    same = FromAtlas().predict(bricks, setup(), system(vendor="B"), {}, others)
    assert widths.mean() > 1.5 * errors(same, 1.0)[1].mean()
    held = [interval(found[s].draws) for s in found]
    truths = [true_ms(brick, system(), 1, 2.0, ends=False) for brick in bricks.values()]
    assert np.mean([low <= t <= high for (low, high), t in zip(held, truths, strict=True)]) > 0.9


@pytest.mark.long
def test_a_few_measurements_tell_how_fast_a_new_system_is(
    bricks, system, setup, contributed, measured, errors
):
    others = [
        contributed(system(vendor=vendor), setup(), factor)
        for vendor, factor in (("B", 1.0), ("C", 3.0))
    ]
    probes = list(bricks)[3::20]
    rest = [s for s in bricks if s not in probes]
    before = FromAtlas().predict(bricks, setup(), system(), {}, others)
    after = FromAtlas().predict(bricks, setup(), system(), measured(probes, 2.5), others)
    wrong, widths = errors(after, 2.5, rest)
    assert np.median(np.abs(wrong)) < 0.2
    assert widths.mean() < 0.75 * errors(before, 2.5, rest)[1].mean()


def test_a_whole_network_tells_what_its_bricks_take_together(system, setup):
    """Its parts take about as long as each other, and nothing else is known of any of them."""
    model = cases.build(
        "(float[1,64,56,56] x, float[138,64,1,1] w1) => (y)"
        "{ a = Conv(x, w1) b = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(a) y = Tanh(b) }"
    ).model
    name, every = whole(model)
    cutting = BrickSet.of([model])
    (cut,) = cutting.models
    took = 2.0 * true_ms(every, system(), 1, 1.0)
    known = {name: Predicted(took, np.full(RESAMPLES, took))}
    found = FromAtlas().predict({**cutting.bricks, name: every}, setup(), system(), known)
    parts = sum(count * found[s].draws for s, count in cut.counts.items())
    low, high = interval(parts)
    assert low < took < high
    assert relative_half_width((low, high)) < 0.1
    assert parts.mean() == pytest.approx(took, rel=0.03)


def test_only_contributions_of_the_backend_count(bricks, system, setup, contributed):
    other = contributed(system(), setup(backend="other"), 50.0)
    asked = dict(list(bricks.items())[:5])
    alone = FromAtlas().predict(asked, setup(), system(), {})
    beside = FromAtlas().predict(asked, setup(), system(), {}, [other])
    for name in asked:
        assert beside[name].draws == pytest.approx(alone[name].draws)


def test_nearer_systems_count_for_more(bricks, system, setup, contributed):
    near, far = contributed(system(model="2"), setup(), 1.0), contributed(
        system(vendor="B"), setup(), 4.0
    )  # fmt: skip
    asked = dict(list(bricks.items())[:3])
    features = joined([Features.of(brick.model) for brick in asked.values()])
    here = np.log(expected_ms(features, Processor.of(system(), 1)))
    slower = believed(features, setup(), system(), [near, far]).mean - here
    assert np.exp(slower).max() < 2.0


@pytest.mark.parametrize("backend", ["onnxruntime", "mxnet", "pytorch"])
def test_probes_on_a_new_system_tell_how_slow_all_of_it_is(
    bricks, system, setup, contributed, backend
):
    """A few networks timed alone, all slower than expected, make everything slower."""
    ran = replace(setup(), backend=backend)
    atlas = [
        with_pulls(contributed(system(model="2"), ran, 1.0), kernel_of(backend)),
        contributed(system(), ran, 1.6, list(bricks)[::10]),
    ]
    features = joined([Features.of(brick.model) for brick in bricks.values()])
    expected = np.log(expected_ms(features, Processor.of(system(), 1)))
    slower = np.exp(believed(features, ran, system(), atlas).mean - expected)
    assert np.median(slower) > 1.4


def test_a_store_s_network_that_all_others_contradict_counts_for_little(
    bricks, system, setup, contributed
):
    """A framework may compute one network in a way of its own."""
    ran = setup()
    base = with_pulls(contributed(system(model="2"), ran, 1.0), kernel_of(ran.backend))
    own = contributed(system(), ran, 1.0, list(bricks)[::10])
    odd = replace(own, log_ms=own.log_ms + np.log(4) * (np.arange(len(own)) == 3))
    features = joined([Features.of(brick.model) for brick in bricks.values()])
    plain, found = (believed(features, ran, system(), [base, each]).mean for each in (own, odd))
    assert np.abs(found - plain).max() < 0.2


def test_what_the_very_system_measured_outweighs_all_others(bricks, system, setup, contributed):
    here = contributed(system(), setup(), 2.0)
    other = contributed(system(vendor="B"), setup(), 9.0)
    features = Features.of(next(iter(bricks.values())).model)
    alone = believed(features, setup(), system(), [here])
    both = believed(features, setup(), system(), [other, here])
    assert both.mean == pytest.approx(alone.mean, abs=0.3)  # the other is 4.5 times as slow


def test_other_numbers_of_threads_tell_less(bricks, system, setup, contributed):
    here = contributed(system(), setup(), 2.0)
    features = Features.of(next(iter(bricks.values())).model)
    deviations = [
        believed(features, setup(threads=threads), system(), [here]).covariance[0, 0]
        for threads in (1, 2, 8)
    ]
    assert deviations == sorted(deviations)
    assert deviations[0] < deviations[1]


def test_of_many_networks_the_most_alike_are_chosen(bricks, system, setup, contributed, kernel):
    contribution = contributed(system(), setup(), 1.0)
    asked = Features.of(bricks[contribution.signatures[7]].model)
    chosen = nearest(contribution, asked, kernel, 20)
    assert len(chosen) == 20
    assert list(chosen) == sorted(chosen)
    operators = {bricks[contribution.signatures[i]].operators for i in chosen}
    assert bricks[contribution.signatures[7]].operators in operators
    assert 7 in chosen
    assert list(nearest(contribution, asked, kernel, 10**6)) == list(range(len(contribution)))


def test_of_a_store_with_many_networks_those_most_alike_count(
    bricks, system, setup, contributed, monkeypatch
):
    """Otherwise an estimate beside a large survey would take many seconds."""
    stored = contributed(system(), setup(), 2.0)
    asked = Features.of(bricks[stored.signatures[7]].model)
    monkeypatch.setattr("dlbricks_prediction.from_atlas.MOST_STORED", 10)
    numbers, observed = [], LayerPosterior.observed

    def observing(self, counts, *given, **options):
        numbers.append(counts.shape[0])
        return observed(self, counts, *given, **options)

    monkeypatch.setattr(LayerPosterior, "observed", observing)
    found = believed(asked, setup(), system(), [stored])
    assert numbers == [10]
    truth = true_ms(bricks[stored.signatures[7]], system(), 1, 2.0, ends=False)
    assert np.exp(found.mean).sum() == pytest.approx(truth, rel=0.1)


def test_the_mean_rests_on_all_networks_if_the_contribution_has_pulls(
    bricks, system, setup, contributed, kernel, monkeypatch
):
    names = list(bricks)
    contribution = with_pulls(contributed(system(), setup(), 3.0, names[1:]), kernel)
    asked = Features.of(bricks[names[0]].model)
    (every,) = beliefs_from([contribution], asked, kernel)
    monkeypatch.setattr("dlbricks_prediction.from_contribution.MOST_NETWORKS", 10)
    (few,) = beliefs_from([contribution], asked, kernel)
    assert few.mean == pytest.approx(every.mean, abs=1e-3)


def test_draws_are_the_same_each_time_and_those_of_all_bricks_belong_together(
    bricks, system, setup
):
    first = FromAtlas().predict(bricks, setup(), system(), {})
    again = FromAtlas().predict(bricks, setup(), system(), {})
    one, other = list(bricks)[:2]
    assert (first[one].draws == again[one].draws).all()
    assert np.corrcoef(np.log(first[one].draws), np.log(first[other].draws))[0, 1] > 0.15


def test_figures_say_what_a_model_is_off_by_beside_all_draws(bricks, system, setup):
    asked = dict(list(bricks.items())[:2])
    found = FromAtlas().predict(asked, setup(), system(), {})
    assert {each.discrepancy for each in found.values()} == {discrepancy_of(setup().backend)}
    assert {each.discrepancy.measured > 0 for each in found.values()} == {True}


def test_nothing_asked_is_nothing_predicted(system, setup):
    assert FromAtlas().predict({}, setup(), system(), {}) == {}


def test_tensors_without_elements_do_no_harm(bricks, system, setup):
    """A brick that was measured on an input of no elements, beside ordinary ones."""
    name, brick = whole(cases.network("no_elements").model)
    asked = {name: brick, **dict(list(bricks.items())[:2])}
    known = {name: Predicted(0.003, np.full(RESAMPLES, 0.003), 0.002)}
    found = FromAtlas().predict(asked, setup(), system(), known)
    assert all(np.isfinite(each.draws).all() for each in found.values())


def test_latencies_below_the_cost_of_a_call_do_no_harm(bricks, system, setup, measured):
    """The clock may say less for a brick than what a call was found to cost."""
    names = list(bricks)[:6]
    known = {
        s: replace(figure, expected=CALL_MS / 2, draws=np.full(RESAMPLES, CALL_MS / 2))
        for s, figure in measured(names, 1.0).items()
    }
    found = FromAtlas().predict(bricks, setup(), system(), known)
    for name in bricks:
        assert np.isfinite(found[name].draws).all()
        assert found[name].value < 10 * true_ms(bricks[name], system(), 1, 1.0)


@pytest.mark.parametrize("numbers_of", [kernel_of, discrepancy_of])
def test_a_backend_that_nothing_was_fitted_to_has_the_numbers_of_all(numbers_of):
    assert numbers_of("nobody knows it") == numbers_of("nor this one") == numbers_of("*")


def test_networks_of_which_only_features_are_known_are_predicted_as_bricks_are(
    bricks, contributed, system, setup
):
    asked = {name: bricks[name] for name in list(bricks)[:6]}
    where = setup(), system()
    atlas = [contributed(system(), setup(), 1.5, list(bricks)[6:30])]
    expected = FromAtlas().predict(asked, *where, {}, atlas)
    features = {name: Features.of(brick.model) for name, brick in asked.items()}
    for name, each in predicted_from_features(features, *where, atlas, CALL_MS).items():
        assert each.figure.value == pytest.approx(expected[name].value + CALL_MS)
        assert sum(ms for _, ms in each.parts.values()) == pytest.approx(expected[name].value)
        assert sum(times for times, _ in each.parts.values()) == len(asked[name].model.layers)


def test_each_network_of_which_only_features_are_known_has_an_error_of_its_own(
    bricks, contributed, system, setup, monkeypatch
):
    names = list(bricks)[:2]
    atlas = [contributed(system(), setup(), 1.0)]
    features = {name: Features.of(bricks[name].model) for name in names}
    before = 0.033
    monkeypatch.setattr(from_features, "discrepancy_of", lambda _: Discrepancy(before))
    sure = [
        np.log(each.figure.draws)
        for each in predicted_from_features(features, setup(), system(), atlas).values()
    ]
    monkeypatch.setattr(from_features, "discrepancy_of", lambda _: Discrepancy(0.2))
    wide = [
        np.log(each.figure.draws)
        for each in predicted_from_features(features, setup(), system(), atlas).values()
    ]
    apart = [after - earlier for earlier, after in zip(sure, wide, strict=True)]
    known = np.std(np.log1p(before * np.random.default_rng(1).standard_normal(RESAMPLES)))
    for each in apart:
        assert np.std(each) == pytest.approx(0.2 - known, rel=0.15)
    assert abs(np.corrcoef(*apart)[0, 1]) < 0.1


def test_a_type_that_nobody_measured_makes_the_interval_wide(contributed, system, setup):
    own = network(64, 14, CHAINS[1])
    atlas = [contributed(system(), setup(), 2.0)]
    widths = []
    for model in (own, convert(own, "bfloat16")):
        identity, brick = whole(model)
        found = FromAtlas().predict({identity: brick}, setup(), system(), {}, atlas)
        widths.append(relative_half_width(interval(found[identity].draws)))
    assert widths[1] > 3 * widths[0]


def test_what_is_not_known_of_a_type_is_part_of_the_belief_before_samples(system):
    layers = Features.of(convert(network(64, 14, CHAINS[1]), "bfloat16"))
    kernel, processor = kernel_of("backend"), Processor.of(system(), 1)
    prior = prior_of(layers, kernel, processor)
    more = prior.covariance - kernel.covariance(layers, layers)
    assert np.allclose(more, doubted(np.zeros_like(more), layers, layers, processor))
    assert more.max() > 0.5


def test_a_processor_that_converts_a_type_is_doubted_where_others_multiply_it(
    contributed, system, setup
):
    """What others lack is no reason to be as sure of the type as they are."""
    layers = Features.of(convert(network(64, 14, CHAINS[0]), "bfloat16"))
    able = ("avx2", "avx512_bf16")
    atlas = [contributed(system(isa=able, model="9"), setup(), 1.0)]
    here, there = (
        believed(layers, setup(), system(isa=isa), atlas).covariance[0, 0]
        for isa in (("avx2",), able)
    )
    assert here > there + 0.5


def test_a_product_of_integers_says_little_about_one_of_floats(system, setup):
    """In a type without tuned kernels a product takes thirty times as long."""
    texts = (f"({t}[64,256] x, {t}[256,64] w1) => (y) {{ y = MatMul(x, w1) }}"
             for t in ("float", "int64"))  # fmt: skip
    (floats, one), (integers, other) = (whole(cases.build(text).model) for text in texts)
    assert floats != integers
    bricks = {floats: one, integers: other}
    before = FromAtlas().predict(bricks, setup(), system(), {})
    took = 30 * before[floats].value
    slow = Predicted(took, np.full(RESAMPLES, took))
    after = FromAtlas().predict(bricks, setup(), system(), {integers: slow})
    assert after[integers].value == pytest.approx(slow.value, rel=0.1)
    assert before[floats].value < after[floats].value < 2 * before[floats].value
