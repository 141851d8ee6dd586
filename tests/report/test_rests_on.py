"""Words on what estimates rest on, and on bricks that do not add up to a measured whole."""

from types import SimpleNamespace

import pytest

from dlbricks_core.commands.estimate.terminal import apart, rests_on


def model(origin, *, whole=False, missing=(), value=10.0, counts=None):
    return SimpleNamespace(
        is_measurement=whole,
        origin=origin,
        missing=dict.fromkeys(missing, "too slow"),
        cut=SimpleNamespace(
            counts=counts or dict.fromkeys("abcdefghijk", 1), model=SimpleNamespace(name="net")
        ),
        estimate=SimpleNamespace(value=value),
    )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (model({"stored": 1.0}, whole=True), "whole"),
        (model({"measured": 0.4, "profiled": 0.6}), "bricks 11 of 11"),
        (model({"measured": 1.0}, missing="ab"), "bricks 9 of 11"),
        (model({"measured": 0.17, "predicted": 0.83}), "predicted 83%"),
        (model({"measured": 0.998, "predicted": 0.002}), "bricks 11 of 11"),
        (model({}), "-"),
    ],
)
def test_what_an_estimate_rests_on(found, words):
    assert rests_on(found) == words


def bricks(**ms):
    return [
        SimpleNamespace(
            brick=SimpleNamespace(signature=s), latency=each and SimpleNamespace(own=each)
        )
        for s, each in ms.items()
    ]


@pytest.mark.parametrize(
    ("whole", "figures", "says"),
    [
        (True, bricks(a=2.0, b=3.0), "its 2 bricks add up to 70% of that"),
        (True, bricks(a=2.0, b=None), ""),
        (True, bricks(a=2.0, b=6.2), ""),  # 2 x 2.0 + 6.2 is about 10
        (True, [], ""),
        (False, bricks(a=2.0, b=3.0), ""),
    ],
)
def test_bricks_that_do_not_add_up_to_a_measured_whole_are_named(whole, figures, says):
    found = SimpleNamespace(
        bricks=figures, models=[model({"measured": 1.0}, whole=whole, counts={"a": 2, "b": 1})]
    )
    lines = apart(found)
    assert len(lines) == bool(says)
    assert says in " ".join(lines)
