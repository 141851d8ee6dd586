"""Layers that a framework may compute together with the layer before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from dlbricks_prediction.features import Features
from dlbricks_prediction.kinds import class_of
from dlbricks_testing import cases


def fusions(text):
    """Class of each layer, and of the layer that it may be fused into."""
    kinds = Features.of(cases.build(text).model).kinds
    return [(class_of(kind), kind.partition("@")[2]) for kind in kinds]


CONVOLUTION = "(float[1,8,5,5] x, float[8,8,1,1] w1, float[8] w2) => "


def test_what_follows_a_convolution_may_be_fused_into_it():
    assert fusions(CONVOLUTION + "(y) { a = Conv(x, w1) b = Mul(a, x) y = Sigmoid(b) }") == [
        ("convolution", ""), ("elementwise", "convolution"), ("function", "convolution")
    ]  # fmt: skip


def test_what_others_read_too_is_not_fused():
    found = fusions(
        CONVOLUTION + "(y, z) { a = Conv(x, w1) y = Relu(a) z = MaxPool<kernel_shape=[1,1]>(a) }"
    )
    assert sorted(found) == [("convolution", ""), ("elementwise", ""), ("pool", "")]


def test_what_the_model_hands_out_is_not_fused():
    assert fusions(CONVOLUTION + "(a, y) { a = Conv(x, w1) y = Relu(a) }") == [
        ("convolution", ""), ("elementwise", "")
    ]  # fmt: skip


def test_a_pool_ends_what_is_fused():
    found = fusions(
        CONVOLUTION + "(y) { a = Conv(x, w1) b = MaxPool<kernel_shape=[1,1]>(a) y = Relu(b) }"
    )
    assert found == [("convolution", ""), ("pool", ""), ("elementwise", "")]


def test_what_a_framework_fused_counts_as_the_operator():
    """ONNX Runtime's FusedConv, for example, with an activation as an attribute."""
    model = cases.build(CONVOLUTION + "(y) { y = Conv(x, w1) }").model
    (layer,) = model.layers
    fused = replace(layer, op="FusedConv", domain="com.microsoft")
    found = Features.of(replace(model, layers=(fused,)))
    assert found.kinds == Features.of(model).kinds
    assert found.numbers == pytest.approx(Features.of(model).numbers)
