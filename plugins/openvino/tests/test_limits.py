"""Integers of 64 bits, which OpenVINO computes in 32."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("openvino")

from dlbricks_openvino.limits import refusals, refused_values
from dlbricks_testing.cases import build

from dlbricks_core.backends import Network


def network(text: str, **values: object) -> Network:
    given = build(text)
    known = {name: np.asarray(value, np.int64) for name, value in values.items()}
    return Network(given.model, given.weights, {**given.inputs, **known})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(int64[2] a, int64[2] b) => (y) { y = Mul(a, b) }", "Mul: OpenVINO computes int64"),
        ("(float[2] a) => (y) { y = Cast<to=7>(a) }", "Cast: OpenVINO computes int64"),
        ("(double[2] a) => (y) { y = Relu(a) }", "Relu: OpenVINO does not compute float64"),
        ("(double[2] a, double[2] b) => (y) { y = Max(a, b) }", "Max: OpenVINO does not compute"),
        ('(int32[2] a, int32[2] b) => (y) { y = BitShift<direction="LEFT">(a, b) }', "BitShift: "),
        ("(float[1,4,2,2] a) => (y) { y = SpaceToDepth<blocksize=2>(a) }", ""),
        ("(bool[2] a) => (y) { y = Cast<to=7>(a) }", ""),
        ("(int64[2] a, int64[2] b) => (y) { y = Sub(a, b) }", ""),
        ("(float[3,2] x, float[1] a) => (y) { i = Cast<to=7>(a) y = Gather(x, i) }", ""),
    ],
)
def test_operators_whose_results_may_need_more_bits_are_refused(text, reason):
    found = refusals(build(text).model).get(0, "")
    assert found.startswith(reason)
    assert bool(found) == bool(reason)


@pytest.mark.parametrize(("value", "refused"), [(2**30 - 1, False), (2**30, True), (-(2**40), 1)])
def test_values_that_need_more_bits_are_refused(value, refused):
    found = [*refused_values(network("(int64[2] a) => (y) { y = Abs(a) }", a=[1, value]))]
    assert bool(found) == refused
    assert all("a has a value that needs more" in each for each in found)


def test_ends_of_slices_are_not_refused():
    text = "(float[4] x) => (y) { a = Constant<value_ints=[0]>()"
    text += " e = Constant<value_ints=[9223372036854775807]>() y = Slice(x, a, e) }"
    assert not [*refused_values(network(text))]


def test_an_empty_tensor_has_no_value_that_needs_more_bits():
    given = network("(int64[2] a) => (y) { y = Abs(a) }", a=[1, 2**40])
    none = replace(given, inputs={"a": np.zeros(0, np.int64)})
    assert not [*refused_values(none)]
