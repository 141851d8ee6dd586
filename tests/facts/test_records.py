import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.facts import (
    LATENCY,
    Measurement,
    Observation,
    Question,
    Setup,
    Subject,
    canonical_json,
)
from dlbricks_core.facts.checks import LARGEST, SMALLEST

KEY = Question(
    Subject("abc", "brick"),
    LATENCY,
    Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0"),
    "sys",
)
latencies = st.floats(min_value=SMALLEST, max_value=LARGEST)


@given(
    st.lists(latencies, min_size=1),
    st.none() | latencies,
    st.datetimes(timezones=st.just(UTC)),
)
def test_sample_set_survives_json_exactly(samples, overhead, taken_at):
    taken = Observation("s", 3, tuple(samples), overhead, ("busy",), taken_at)
    assert Observation.from_dict(json.loads(json.dumps(taken.to_dict()))) == taken


@pytest.mark.parametrize("samples", [(), (1.0, float("nan")), (float("inf"),), (-0.5,), (1e16,)])
def test_sample_set_refuses_what_is_no_latency(samples):
    with pytest.raises(ValueError, match="finite"):
        Observation("s", 0, samples)


def test_sample_set_refuses_a_time_without_zone():
    with pytest.raises(ValueError, match="time zone"):
        Observation("s", 0, (1.0,), taken_at=datetime(2026, 1, 1))


def test_measurement_flattens_its_sample_sets_in_order():
    found = Measurement(
        KEY,
        observations=(
            Observation("a", 0, (3.0, 1.0), overhead=0.25, flags=("hot", "busy")),
            Observation("a", 1, (2.0,)),
            Observation("b", 0, (5.0,), overhead=0.75, flags=("busy",)),
        ),
    )
    assert found.values == (3.0, 1.0, 2.0, 5.0)
    assert found.overheads == (0.25, 0.75)
    assert found.flags == ("hot", "busy")
    assert Measurement(KEY).overheads == ()


def test_equal_options_have_one_canonical_text():
    assert canonical_json({"b": "2", "a": "1"}) == canonical_json({"a": "1", "b": "2"})
    assert canonical_json({"a": "1"}) != canonical_json({"a": "2"})
