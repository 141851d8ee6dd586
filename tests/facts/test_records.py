import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.facts import (
    LATENCY,
    Cache,
    Composition,
    Measurement,
    Observation,
    Quantity,
    Question,
    Session,
    Setup,
    Subject,
    System,
    canonical_json,
)
from dlbricks_core.facts.checks import LARGEST, SMALLEST, TINIEST

SETUP = Setup("mxnet", "1.9.1", "{}", 2, "paper:runs=100", "0.1.0")
KEY = Question(Subject("abc", "brick"), LATENCY, SETUP, "sys")
SESSION = Session("id", "host", "sys", "0.1.0")
latencies = st.just(SMALLEST) | st.floats(min_value=TINIEST, max_value=LARGEST)


@given(
    st.lists(latencies, min_size=1),
    st.none() | latencies,
    st.datetimes(timezones=st.just(UTC)),
)
def test_sample_set_survives_json_exactly(samples, overhead, taken_at):
    taken = Observation("s", 3, tuple(samples), overhead, ("busy",), taken_at)
    assert Observation.from_dict(json.loads(json.dumps(taken.to_dict()))) == taken


@pytest.mark.parametrize(
    "samples", [(), (1.0, float("nan")), (float("inf"),), (-0.5,), (1e16,), (5e-324,)]
)
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


@given(st.none() | st.floats(min_value=0, max_value=1), st.datetimes(timezones=st.just(UTC)))
def test_session_survives_json_exactly(load, started_at):
    session = Session("id", "", "sys", "0.1.0", started_at, load)
    assert Session.from_dict(json.loads(json.dumps(session.to_dict()))) == session


@pytest.mark.parametrize("load", [-0.1, 1.1, float("nan")])
def test_session_refuses_what_is_no_share(load):
    with pytest.raises(ValueError, match="load"):
        Session("id", "host", "sys", "0.1.0", load=load)
    with pytest.raises(ValueError, match="load"):
        Session.from_dict({**SESSION.to_dict(), "load": load})


@pytest.mark.parametrize(
    ("name", "value"),
    [("id", 3), ("host", None), ("version", b"1"), ("started_at", "now"), ("load", "high"),
     ("started_at", "2026-01-01T00:00:00"), ("load", True)],
)  # fmt: skip
def test_session_refuses_damage(name, value):
    with pytest.raises((TypeError, ValueError)):
        Session.from_dict({**SESSION.to_dict(), name: value})


def test_session_refuses_a_time_without_zone():
    with pytest.raises(ValueError, match="time zone"):
        Session("id", "host", "sys", "0.1.0", datetime(2026, 1, 1))


def test_quantity_survives_json_with_all_that_is_said_of_it():
    again = Quantity.from_dict(json.loads(json.dumps(LATENCY.to_dict())))
    assert (again, again.composition, again.meaning) == (LATENCY, Composition.SUM, LATENCY.meaning)


def test_system_survives_json_with_its_fingerprint():
    system = replace(System("Some CPU"), caches=(Cache(1, "data", 2**15, 2),), isa=("avx", "fma"))
    again = System.from_dict("told", json.loads(json.dumps(system.to_dict())))
    assert (again, again.fingerprint) == (system, "told")


def test_system_leaves_out_what_a_newer_version_tells():
    cache = {"level": 1, "kind": "data", "size": 2**15, "shared_by": 2, "ways": 8}
    system = System.from_dict("told", {"cpu": "Some CPU", "sockets": 2, "caches": [cache]})
    assert system == System("Some CPU", caches=(Cache(1, "data", 2**15, 2),))


def test_name_and_unit_identify_a_quantity():
    other = {"name": "load-time", "unit": "s", "composition": Composition.PEAK, "meaning": "?"}
    differing = [name for name in other if replace(LATENCY, **{name: other[name]}) != LATENCY]
    assert differing == ["name", "unit"]


@pytest.mark.parametrize(("name", "value"), [("unit", 3), ("composition", "mean"), ("name", None)])
def test_quantity_refuses_damage(name, value):
    with pytest.raises((TypeError, ValueError)):
        Quantity.from_dict({**LATENCY.to_dict(), name: value})


def test_equal_options_have_one_canonical_text():
    assert canonical_json({"b": "2", "a": "1"}) == canonical_json({"a": "1", "b": "2"})
    assert canonical_json({"a": "1"}) != canonical_json({"a": "2"})


@pytest.mark.parametrize(
    "facts",
    [
        {"isa": ["avx", -1]}, {"isa": "avx"}, {"cpu": 3}, {"memory": "8 GB"}, {"memory": 10**400},
        {"boost": 1}, {"cpu_quota": float("nan")}, {"physical_cores": True}, {"max_mhz": [None]},
        {"caches": [{"level": "1", "kind": "data", "size": 1, "shared_by": 1}]}, {"caches": 1}, [],
    ],
    ids=str,
)  # fmt: skip
def test_facts_of_another_structure_describe_no_system(facts):
    with pytest.raises(TypeError):
        System.from_dict("told", facts)
