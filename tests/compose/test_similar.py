"""Bricks that differ in size only: which are timed, and how the others follow."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.analysis import Volume, form
from dlbricks_core.bricks import Brick, BrickSet
from dlbricks_core.compose import Segmented
from dlbricks_core.compose.fitting import FittingData, Whole
from dlbricks_core.compose.similar import Similar
from dlbricks_core.figures.figure import Measured, interval
from dlbricks_core.figures.protocols import PROTOCOLS
from dlbricks_core.ir import CanonicalModel, Layer, TensorSpec

PROTOCOL = PROTOCOLS["interleaved"]


def conv(inputs, outputs, size=14, kernel=3, dtype="float32", groups=1, op="Conv", domain=""):
    """A convolution that keeps its map's size."""
    tensors = {
        "x": TensorSpec(dtype, (1, inputs, size, size)),
        "w": TensorSpec(dtype, (outputs, inputs // groups, kernel, kernel)),
        "y": TensorSpec(dtype, (1, outputs, size, size)),
    }
    shape = {"kernel_shape": (kernel, kernel), "strides": (1, 1), "dilations": (1, 1)}
    layer = Layer(op, ("x", "w"), ("y",), {**shape, "group": groups}, domain)
    return CanonicalModel("conv", (layer,), ("x",), ("y",), tensors, weights=frozenset({"w"}))


def bricks(**models):
    return {name: Brick(name, model) for name, model in models.items()}


def latency(*samples, overhead=0.0):
    return Measured(samples, PROTOCOL, overhead)


def test_the_smallest_of_similar_bricks_is_timed(planned):
    found = bricks(large=conv(64, 64), small=conv(48, 48), huge=conv(256, 256))
    assert set(planned(Similar(), found).timed) == {"small", "huge"}
    assert set(planned(Segmented(), found).timed) == set(found)


def test_operations_and_memory_decide_what_an_inferred_brick_takes(planned):
    found = bricks(small=conv(32, 32), large=conv(32, 64))
    told = planned(Similar(), found).figures({"small": latency(3.0, overhead=1.0)})
    small, large = (Volume.of(found[name].model) for name in ("small", "large"))
    ratio = (large.flops / small.flops) ** 0.7 * (large.nbytes / small.nbytes) ** 0.3
    assert large.flops == 2 * small.flops
    assert told["large"].value == pytest.approx(1.0 + 2.0 * ratio)
    assert (told["large"].derived_from, told["large"].samples) == (("small",), ())


@pytest.mark.parametrize(
    "other",
    [
        conv(32, 32, kernel=1),
        conv(32, 32, dtype="float16"),
        conv(32, 32, groups=32),
        conv(32, 32, groups=4),
        conv(36, 36),
        conv(32, 32, op="ConvTranspose"),
    ],
    ids=["kernel", "type", "depthwise", "groups", "no whole blocks", "operator"],
)
def test_bricks_of_another_form_give_no_figure(planned, other):
    found = bricks(one=conv(32, 32), other=other)
    assert set(planned(Similar(), found).timed) == {"one", "other"}
    assert "other" not in planned(Similar(), found).figures({"one": latency(3.0)})


def test_fused_layers_have_the_operations_of_the_standard_ones():
    plain = Volume.of(conv(32, 64))
    assert Volume.of(conv(32, 64, op="FusedConv", domain="com.microsoft")) == plain
    assert Volume.of(conv(32, 64, domain="com.microsoft.nchwc")) == plain
    assert Volume.of(conv(32, 64, op="Strange", domain="com.example")).flops == 1


def test_a_failed_source_is_replaced_by_another_similar_brick(planned):
    found = bricks(a=conv(32, 32), b=conv(40, 40), c=conv(48, 48))
    assert set(planned(Similar(), found).timed) == {"a"}
    told = planned(Similar(), found).figures({"b": latency(2.0)})
    assert {name: each.derived_from for name, each in told.items()} == {
        "a": ("b",), "b": (), "c": ("b",)
    }  # fmt: skip


def test_an_inferred_latency_is_less_certain_than_its_source(planned):
    found = bricks(small=conv(32, 32), large=conv(32, 64))
    source = latency(*np.linspace(2.9, 3.1, 20))
    told = planned(Similar(), found).figures({"small": source})["large"]
    scatter, all_of_it = interval(told.replicates), interval(told.plausible)
    assert np.diff(scatter) / told.value == pytest.approx(
        np.diff(interval(source.replicates)) / source.value
    )
    assert all_of_it[0] < 0.8 * told.value < told.value < 1.25 * told.value < all_of_it[1]
    again = planned(Similar(), found).figures({"small": source})["large"]
    assert np.array_equal(again.plausible, told.plausible)


channels = st.integers(1, 40).map(lambda n: 8 * n)


@given(st.lists(st.tuples(channels, channels, st.sampled_from([7, 14, 28])), min_size=1))
def test_every_brick_is_timed_or_close_to_one_that_is(planned, sizes):
    found = bricks(**{str(size): conv(*size) for size in sizes})
    timed = planned(Similar(), found).timed
    told = planned(Similar(), found).figures({name: latency(1.0) for name in timed})
    assert told.keys() == found.keys()
    for name in found.keys() - timed.keys():
        one, other = found[name].model, found[told[name].derived_from[0]].model
        assert form(one) == form(other)
        assert Volume.of(one).distance(Volume.of(other)) <= Similar.farthest


def timed_by(share, found, noise=0.0):
    """Latencies that follow the rule with another share, as exactly as wanted."""
    random = np.random.default_rng(2)
    volumes = {name: Volume.of(brick.model) for name, brick in found.items()}
    return {
        name: latency(volume.expected(share) * 1e-7 * np.exp(random.normal(0, noise)) + 0.5,
                      overhead=0.5)
        for name, volume in volumes.items()
    }  # fmt: skip


def convolutions():
    sizes = [(i, o, s) for s in (7, 14, 28, 56) for i in (32, 48, 64) for o in (32, 64, 96)]
    return bricks(**{str(size): conv(*size) for size in sizes})


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_the_rule_between_similar_bricks_can_be_fitted(place, share):
    found = convolutions()
    fitted = Similar().fit(FittingData([], found, timed_by(share, found), *place))
    assert abs(fitted["computing_share"] - share) < 0.5 * abs(0.7 - share)
    assert fitted["inference_error"] < 0.12
    wild = Similar().fit(FittingData([], found, timed_by(share, found, noise=0.5), *place))
    assert wild["inference_error"] > 0.3
    assert wild["composing_error"] == pytest.approx(Similar.composing_error)


def test_a_calibration_changes_ratios_and_not_which_bricks_are_timed(planned):
    found = convolutions()
    truth = timed_by(0.4, found)
    fitted = Similar().calibrated({"computing_share": 0.4, "inference_error": 0.01})
    timed = planned(fitted, found).timed
    assert set(timed) == set(planned(Similar(), found).timed) < found.keys()
    told = planned(fitted, found).figures({name: truth[name] for name in timed})
    assert {n: each.value for n, each in told.items()} == pytest.approx(
        {n: each.value for n, each in truth.items()}
    )
    own = planned(Similar(), found).figures({name: truth[name] for name in timed})
    inferred = next(iter(found.keys() - timed.keys()))
    assert np.std(told[inferred].plausible) < 0.2 * np.std(own[inferred].plausible)


def test_bricks_below_the_cost_of_a_call_are_not_fitted_to(place):
    found = bricks(small=conv(32, 32), large=conv(32, 64))
    lost = FittingData(
        [], found, {"small": latency(1.0, overhead=1.0), "large": latency(3.0)}, *place
    )
    assert Similar().fit(lost)["computing_share"] == pytest.approx(0.7)


def test_the_error_of_a_network_is_that_of_the_bricks_that_would_be_timed(place):
    """For fitting, all bricks are timed; the error counted is that of timing a few."""
    small, large = conv(32, 32), conv(32, 64)
    tensors = {"x": small.tensors["x"], "w": small.tensors["w"], "v": large.tensors["w"],
               "y": small.tensors["y"], "z": large.tensors["y"]}  # fmt: skip
    layers = (small.layers[0], replace(large.layers[0], inputs=("y", "v"), outputs=("z",)))
    model = CanonicalModel("two", layers, ("x",), ("z",), tensors, weights=frozenset({"w", "v"}))
    brickset = BrickSet.of([model])
    first, second = brickset.bricks
    ratio = Volume.of(brickset.bricks[second].model).expected(0.7) / Volume.of(
        brickset.bricks[first].model
    ).expected(0.7)
    latencies = {first: latency(*[1.0] * 9), second: latency(*[2.0 * ratio] * 9)}
    whole = Whole(brickset.models[0], latency(*[1.0 + 2.0 * ratio] * 9))
    observed = FittingData([whole], brickset.bricks, latencies, *place)
    (exact,) = Segmented().deviations(observed)
    assert (exact.error, exact.scatter) == pytest.approx((0, 0))
    (told,) = Similar().deviations(observed)
    assert told.error == pytest.approx((1 + ratio) / (1 + 2 * ratio) - 1)
    # The known error of inferring explains this part:
    assert told.scatter == pytest.approx(Similar.inference_error * ratio / (1 + ratio), rel=0.1)
    fitted = Similar().fit(observed)
    assert fitted["inference_error"] > Similar.inference_error  # twice as long as inferred


def test_a_brick_whose_source_failed_counts_with_its_own_time(planned, place):
    found = {"small": Brick("small", conv(32, 32))}
    brickset = BrickSet.of([conv(32, 64)])
    (large,) = brickset.bricks
    everything = {**found, **brickset.bricks}
    assert set(planned(Similar(), everything).timed) == {"small"}
    whole = Whole(brickset.models[0], latency(*[2.0] * 9))
    observed = FittingData([whole], everything, {large: latency(*[2.0] * 9)}, *place)
    (deviation,) = Similar().deviations(observed)
    assert deviation.error == pytest.approx(0)
