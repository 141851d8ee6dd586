import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.store import Measurement, MeasurementKey, SampleSet, canonical_json
from dlbricks_core.store.records import LONGEST, SHORTEST

KEY = MeasurementKey("abc", "brick", "mxnet", "1.9.1", "{}", "sys", 2, "paper:runs=100")
latencies = st.floats(min_value=SHORTEST, max_value=LONGEST)


@given(
    st.lists(latencies, min_size=1),
    st.none() | latencies,
    st.datetimes(timezones=st.just(UTC)),
)
def test_sample_set_survives_json_exactly(samples, call_ms, taken_at):
    taken = SampleSet("s", 3, tuple(samples), call_ms, ("busy",), taken_at)
    assert SampleSet.from_dict(json.loads(json.dumps(taken.to_dict()))) == taken


@pytest.mark.parametrize("samples", [(), (1.0, float("nan")), (float("inf"),), (-0.5,), (1e16,)])
def test_sample_set_refuses_what_is_no_latency(samples):
    with pytest.raises(ValueError, match="finite"):
        SampleSet("s", 0, samples)


def test_sample_set_refuses_a_time_without_zone():
    with pytest.raises(ValueError, match="time zone"):
        SampleSet("s", 0, (1.0,), taken_at=datetime(2026, 1, 1))


def test_measurement_flattens_its_sample_sets_in_order():
    found = Measurement(
        KEY,
        samples=(
            SampleSet("a", 0, (3.0, 1.0), call_ms=0.25, warnings=("hot", "busy")),
            SampleSet("a", 1, (2.0,)),
            SampleSet("b", 0, (5.0,), call_ms=0.75, warnings=("busy",)),
        ),
    )
    assert found.samples_ms == (3.0, 1.0, 2.0, 5.0)
    assert found.calls_ms == (0.25, 0.75)
    assert found.warnings == ("hot", "busy")
    assert Measurement(KEY).calls_ms == ()


def test_equal_options_have_one_canonical_text():
    assert canonical_json({"b": "2", "a": "1"}) == canonical_json({"a": "1", "b": "2"})
    assert canonical_json({"a": "1"}) != canonical_json({"a": "2"})
