"""Sizes in memory, in units that readers need not convert; curves without figures."""

from __future__ import annotations

import doctest
from types import SimpleNamespace

from dlbricks_sizes import report

from dlbricks_core.facts import LATENCY


def test_examples_of_sizes_hold():
    assert doctest.testmod(report).failed == 0


def test_a_curve_without_estimates_says_so(monkeypatch):
    monkeypatch.setattr(report, "subject", lambda result: "net")
    point = SimpleNamespace(
        result=SimpleNamespace(compared=SimpleNamespace(estimate=SimpleNamespace(value=None)))
    )
    request = SimpleNamespace(quantity=LATENCY)
    curve = SimpleNamespace(points=[point] * 2)
    result = SimpleNamespace(request=request)
    assert report.sizes_answer([], [curve], result) == "net: no estimate at 2 points."
