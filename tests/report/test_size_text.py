"""Sizes in memory, in units that readers need not convert; curves without figures."""

from __future__ import annotations

import doctest
from types import SimpleNamespace

from dlbricks_core.facts import LATENCY
from dlbricks_core.report import sizes


def test_examples_of_sizes_hold():
    assert doctest.testmod(sizes).failed == 0


def test_a_curve_without_estimates_says_so(monkeypatch):
    monkeypatch.setattr(sizes, "subject", lambda result: "net")
    point = SimpleNamespace(
        result=SimpleNamespace(compared=SimpleNamespace(estimate=SimpleNamespace(value=None)))
    )
    request = SimpleNamespace(quantity=LATENCY)
    curve = SimpleNamespace(points=[point] * 2)
    result = SimpleNamespace(answers=[], curves=[curve], request=request)
    assert sizes.sizes_answer(result) == "net: no estimate at 2 points."
