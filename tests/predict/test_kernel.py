"""The kernel is a covariance: symmetric, positive definite, and larger the more layers share."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from dlbricks_prediction import kernel as module
from dlbricks_prediction.features import NAMES, Features, joined
from dlbricks_prediction.kernel import Kernel, kernel_of
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core import fitted

TOTAL = 0.1 + 0.05 + 0.05 + 0.1 + 0.2 + 0.1
"""Variance of one layer under the kernel of these tests: the sum of all its parts."""


def one(kind, **numbers):
    """Features of one layer; what is not named is 10."""
    return Features((kind,), np.array([[numbers.get(name, 10.0) for name in NAMES]]))


def between(kernel, first, second):
    ((found,),) = kernel.covariance(first, second)
    return found


@given(data=st.data())
def test_it_is_symmetric_and_positive_definite(kernel, any_features, data):
    features = data.draw(any_features())
    found = kernel.covariance(features, features)
    assert found == pytest.approx(found.T)
    assert np.linalg.eigvalsh(found).min() > -1e-9
    assert np.diag(found) == pytest.approx(np.full(len(features.kinds), TOTAL))


@given(data=st.data())
def test_no_layer_shares_more_with_another_than_with_itself(kernel, any_features, data):
    features = data.draw(any_features())
    found = kernel.covariance(features, features)
    assert (found >= kernel.common).all()
    assert (found <= TOTAL * (1 + 1e-9)).all()


@given(data=st.data())
def test_each_pair_of_layers_counts_by_itself(kernel, any_features, data):
    """Whatever other layers are asked about, in whatever order."""
    features, others = data.draw(any_features()), data.draw(any_features())
    found = kernel.covariance(features, others)
    assert found == pytest.approx(kernel.covariance(others, features).T)
    for i, kind in enumerate(features.kinds):
        alone = Features((kind,), features.numbers[i : i + 1])
        assert kernel.covariance(alone, others)[0] == pytest.approx(found[i])


@given(data=st.data(), shift=st.floats(-10, 10))
def test_only_differences_of_numbers_count(kernel, any_features, data, shift):
    features = data.draw(any_features())
    moved = Features(features.kinds, features.numbers + shift)
    found = kernel.covariance(features, features)
    assert kernel.covariance(moved, moved) == pytest.approx(found, abs=1e-5)


def test_each_thing_in_common_adds_its_variance(kernel):
    far = dict.fromkeys(NAMES, 1e4)
    here = one("convolution:dense")
    assert between(kernel, here, one("view", **far)) == pytest.approx(0.1)
    fused = one("elementwise@convolution", **far)
    assert between(kernel, one("elementwise"), fused) == pytest.approx(0.1 + 0.05)
    again = one("convolution:dense", **far)
    assert between(kernel, here, again) == pytest.approx(0.1 + 0.05 + 0.05)
    assert between(kernel, here, here) == pytest.approx(TOTAL)


def test_layers_share_less_the_farther_apart_they_are(kernel):
    here = one("view")
    shared = [between(kernel, here, one("view", rows=10.0 + far)) for far in (0, 0.1, 1, 3, 9, 27)]
    assert shared == sorted(shared, reverse=True)
    assert shared[0] > shared[-1]


def test_the_rough_function_follows_its_formula(kernel):
    """Matérn of order 5/2 at a distance of two scales, beside the squared exponential."""
    scaled = replace(kernel, smooth_scales=(2.0,) * len(NAMES), rough_scales=(1.0,) * len(NAMES))
    found = between(scaled, one("view"), one("view", depth=12.0))
    rough = (1 + 2 * 5**0.5 + 5 * 4 / 3) * np.exp(-2 * 5**0.5)
    assert found == pytest.approx(0.1 + 0.05 + 0.05 + (0.1 + 0.2) * np.exp(-0.5) + 0.1 * rough)


def test_a_layer_has_a_variance_that_no_other_shares(kernel):
    owned = replace(kernel, own=0.5)
    here, near = one("view"), one("view", rows=10.001)
    assert between(owned, here, one("view")) == pytest.approx(TOTAL + 0.5)
    assert between(owned, here, near) == pytest.approx(TOTAL, rel=1e-3)
    assert between(owned, here, one("elementwise")) == between(kernel, here, one("elementwise"))


def test_a_feature_with_a_large_scale_hardly_counts(kernel):
    blunt = replace(
        kernel,
        smooth_scales=tuple(1e6 if name == "window" else 4.0 for name in NAMES),
        rough_scales=tuple(1e6 if name == "window" else 1.5 for name in NAMES),
    )
    here, there = one("view"), one("view", window=20.0)
    assert between(blunt, here, there) == pytest.approx(TOTAL, rel=1e-6)
    assert between(kernel, here, there) < 0.9 * TOTAL


def test_no_layers_have_no_covariance(kernel, layers):
    nothing = joined([])
    assert kernel.covariance(nothing, layers(3)).shape == (0, 3)
    assert kernel.covariance(nothing, nothing).shape == (0, 0)


def test_a_kernel_survives_json(kernel):
    assert Kernel.from_dict(json.loads(json.dumps(asdict(kernel)))) == kernel


@pytest.mark.parametrize("name", ["smooth_scales", "rough_scales"])
def test_a_kernel_has_a_scale_for_each_feature(kernel, name):
    with pytest.raises(ValueError, match=f"{len(NAMES)} scales"):
        replace(kernel, **{name: (1.0, 2.0)})


def test_kernels_that_come_with_the_package_are_sound():
    kernels = fitted.values(module.__file__, "kernel")
    assert "*" in kernels  # for backends that none was fitted to
    for backend in (*kernels, "of someone else"):
        found = kernel_of(backend)
        variances = [v for n, v in asdict(found).items() if not n.endswith("scales")]
        assert min(variances) >= 0, backend
        assert found.noise > 0, backend
        assert min(*found.smooth_scales, *found.rough_scales) > 0, backend
