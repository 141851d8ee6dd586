"""Sentences on models under load, from made-up figures."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from dlbricks_serving.scenarios import Scenario, ScenarioAnswer
from dlbricks_serving.serving.comparing import ComparedLoads
from dlbricks_serving.serving.report.words import _strongest, compared_load_report
from dlbricks_serving.serving.run import (
    LoadRequest,
    ModelUnderLoad,
    Placement,
    Row,
    UnderLoad,
)

from dlbricks_core.facts.note import warning


def answer(scenario, throughput, tail_ms, holds=None):
    return ScenarioAnswer(
        scenario=scenario, instances=1, throughput=throughput, p50=tail_ms, p90=tail_ms,
        p99=tail_ms, holds=holds, queries=100, early_stopping_ms=None,
        throughput_interval=(0.9 * throughput, 1.1 * throughput),
        tail_interval=(0.9 * tail_ms, 1.1 * tail_ms),
    )  # fmt: skip


def compared(scenario, bound_ms=None, **answers):
    """Loads of one model, by the backend's figures at 1 x 1."""
    place = Placement(1, 1)
    asked = LoadRequest(scenario, [place], bound_ms)
    model = SimpleNamespace(name="net", source="net.onnx")
    runs = {
        name: UnderLoad(
            SimpleNamespace(backend=SimpleNamespace(name=name)),
            asked,
            [ModelUnderLoad(model, [Row(place, found)])],
        )
        for name, found in answers.items()
    }
    return ComparedLoads(runs)


OFFLINE, STREAM = Scenario.OFFLINE, Scenario.SINGLE_STREAM


@pytest.mark.parametrize(
    ("scenario", "bound_ms", "answers", "sentence"),
    [
        (
            OFFLINE,
            None,
            {"slow": answer(OFFLINE, 100, 10), "fast": answer(OFFLINE, 200, 5)},
            "net: fast with 1 x 1 serves most: 200 samples/s (composed), 2.00 times as many as "
            "slow with 1 x 1",
        ),
        (
            OFFLINE,
            None,
            {"one": answer(OFFLINE, 105, 10), "other": answer(OFFLINE, 100, 10)},
            "net: one with 1 x 1 serves most: 105 samples/s (composed), 1.05 times as many as "
            "other with 1 x 1; their intervals overlap",
        ),
        (
            STREAM,
            None,
            {"slow": answer(STREAM, 100, 10), "fast": answer(STREAM, 200, 5)},
            "net: fast with 1 x 1 is fastest: 90th percentile of 5.00 ms (composed), 2.00 times "
            "as fast as slow with 1 x 1",
        ),
        (
            OFFLINE,
            7,
            {"late": answer(OFFLINE, 200, 10, False), "punctual": answer(OFFLINE, 100, 5, True)},
            "net: punctual with 1 x 1 serves most within 7 ms: 100 samples/s (composed)",
        ),
        (
            OFFLINE,
            7,
            {"late": answer(OFFLINE, 200, 10, False)},
            "net: no n x m keeps 7 ms; the least 99th percentile is 10.0 ms",
        ),
        (OFFLINE, None, {"broken": None}, "net: no figure is known"),
    ],
)
def test_the_best_framework_is_named(scenario, bound_ms, answers, sentence):
    (found,) = compared_load_report(compared(scenario, bound_ms, **answers)).answers
    assert found == sentence


@pytest.mark.parametrize("holds", [False, True])
def test_loads_are_sound_where_a_framework_keeps_the_bound(holds):
    late, other = answer(OFFLINE, 200, 10, False), answer(OFFLINE, 100, 5, holds)
    assert compared(OFFLINE, 7, late=late, other=other).is_sound is holds


def test_of_disturbances_of_a_kind_the_strongest_is_told():
    used = [
        warning("others-used-cpus", f"{backend}, 1 x {threads}", used=amount, cpus=2)
        for backend, threads, amount in (("a", 1, 0.4), ("a", 2, 0.9), ("b", 1, 0.5))
    ]
    apart = [warning("cpu-use-unknown", place) for place in ("1 x 1", "1 x 2")]
    worst, *others = _strongest([*used, *apart, used[0]])
    assert worst.subject == "a, 1 x 2, and as much or less in 2 more"
    assert worst.values["used"] == 0.9
    assert others == apart
