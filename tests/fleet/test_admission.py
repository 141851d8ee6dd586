"""A host speaks for itself only, and its figures can be taken out again by its name."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from dlbricks_fleet.admission import Admission, machine_of
from dlbricks_fleet.records import Asked, Done, Host, Order
from dlbricks_fleet.shares import Priced
from dlbricks_records.contents import KnownSystem, merge
from hypothesis import given
from hypothesis import strategies as st

from dlbricks_core.facts import (
    LATENCY,
    Composition,
    Failure,
    MachineName,
    Measurement,
    NetworkFeatures,
    Observation,
    Quantity,
    Question,
    Rewrite,
    Session,
    Setup,
    Subject,
    System,
)
from dlbricks_core.facts.note import PLUGIN, warning
from dlbricks_core.store import ResultStore

HERE, ELSEWHERE = System(cpu="one"), System(cpu="other")
KIND = HERE.fingerprint
GOOD, ROGUE = (
    Host(f"tls://h:{i}", name, HERE, "1", {}, identity=name, certified=True)
    for i, name in enumerate(("good", "rogue"))
)
ORDER = Order("k", Asked("0" * 24, {}), ("a" * 24, "b" * 24), None, 60.0)
CUT = replace(ORDER, share=None)


def question(signature, system=KIND):
    setup = Setup("onnxruntime", "1.0", "{}", 1, "steady", "0.1.0")
    return Question(Subject(signature, "brick"), LATENCY, setup, system)


def delivery(session, *signatures, system=KIND, claims="someone", value=1.0):
    """Records of one session in the order of an exported file."""
    return [
        KnownSystem(system, HERE.to_dict()),
        Session(session, claims, system, "1"),
        LATENCY,
        *(
            Measurement(question(each, system), observations=(Observation(session, 0, (value,)),))
            for each in signatures
        ),
    ]


@pytest.fixture
def store(tmp_path):
    with ResultStore.open(tmp_path / "s.db") as opened:
        yield opened


def admit(store, host, records, order=ORDER):
    admitted = Admission(host, order, store).of(records)
    merge(store, admitted)
    return admitted


def of_type(records, kind):
    return [each for each in records if isinstance(each, kind)]


def test_what_a_host_measured_for_an_order_is_admitted_under_its_name(store):
    admit(store, GOOD, delivery("s1", "a" * 24, "b" * 24))
    assert {each.host for each in store.sessions()} == {machine_of(GOOD)[1]}
    assert len(list(store.measurements())) == 2
    assert [each.name for each in store.machines()] == ["good"]


def test_figures_of_other_kinds_and_of_other_networks_are_rejected(store):
    other = delivery("s1", "a" * 24, system=ELSEWHERE.fingerprint)
    assert of_type(admit(store, ROGUE, other), (KnownSystem, Session, Measurement)) == []
    found = admit(store, ROGUE, delivery("s2", "c" * 24))
    assert of_type(found, Measurement) == []


def test_a_host_cannot_add_to_a_session_of_another(store):
    admit(store, GOOD, delivery("s1", "a" * 24))
    for claims in ("someone", machine_of(GOOD)[1]):
        found = admit(store, ROGUE, delivery("s1", "a" * 24, "b" * 24, claims=claims))
        assert of_type(found, (Session, Measurement)) == []
    unannounced = [each for each in delivery("s1", "b" * 24) if not isinstance(each, Session)]
    assert of_type(admit(store, ROGUE, unannounced), Measurement) == []


@pytest.mark.parametrize("strange", [
    replace(LATENCY, unit="weeks"),
    Quantity("load-time", "weeks", Composition.SUM, "poison"),
])  # fmt: skip
def test_a_quantity_that_was_not_asked_for_is_rejected(store, strange):
    """In another unit, it would make the store refuse all that comes later."""
    records = delivery("s1", "a" * 24)
    asked = replace(question("b" * 24), quantity=strange)
    records += [strange, Measurement(asked, observations=(Observation("s1", 0, (1.0,)),))]
    found = admit(store, ROGUE, records)
    assert [each.question.quantity for each in of_type(found, Measurement)] == [LATENCY]
    assert of_type(found, Quantity) == [LATENCY]


def test_a_known_quantity_keeps_what_it_is_here(store):
    mine = replace(LATENCY, composition=Composition.PEAK, meaning="poison")
    records = [mine if each is LATENCY else each for each in delivery("s1", "a" * 24)]
    asked = replace(question("a" * 24), quantity=mine)
    found = admit(store, ROGUE, [*records, Measurement(asked, failure="why")])
    told = [each.question.quantity for each in of_type(found, Measurement)]
    assert {(each.composition, each.meaning) for each in (*told, *of_type(found, Quantity))} == {
        (LATENCY.composition, LATENCY.meaning)
    }


def test_graphs_come_with_cuts_only_and_names_and_features_of_others_never(store):
    graph = Rewrite("m" * 24, "onnxruntime", "1.0", "{}", "0.1.0", KIND, 1, b"graph")
    foreign = replace(graph, system=ELSEWHERE.fingerprint)
    name = MachineName(KIND, machine_of(GOOD)[1], "rogue")
    features = [NetworkFeatures(each * 24, "1", (), b"", frozenset()) for each in "ac"]
    records = [name, *features, graph, foreign]
    assert admit(store, ROGUE, records) == features[:1]
    assert Admission(ROGUE, CUT, store).of(records) == [graph]


@given(st.text(max_size=60))
def test_every_name_of_a_host_makes_a_name_of_a_machine(name):
    from dlbricks_machine.names import _NAME

    assert _NAME.fullmatch(machine_of(replace(GOOD, name=name))[0])


@pytest.mark.process
def test_a_rogue_host_is_taken_out_again_by_its_name(store, tmp_path):
    admit(store, GOOD, delivery("s1", "a" * 24, value=1.0))
    admit(store, ROGUE, delivery("s2", "a" * 24, "b" * 24, value=99.0))
    store.close()
    done = subprocess.run(
        [sys.executable, "-m", "dlbricks_core.cli", "results", "prune", "--system", "rogue",
         "--yes", "--store", str(tmp_path / "s.db")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with ResultStore.open(tmp_path / "s.db", writes=False) as left:
        assert [each.values for each in left.measurements()] == [(1.0,)]
        assert [each.id for each in left.sessions()] == ["s1"]


def test_a_name_that_another_system_has_gets_the_kind_of_the_host(store):
    admit(store, GOOD, delivery("s1", "a" * 24))
    moved = replace(GOOD, system=ELSEWHERE)
    kind = ELSEWHERE.fingerprint
    admit(store, moved, delivery("s2", "a" * 24, system=kind))
    assert {each.name for each in store.machines()} == {"good", f"good-{kind[:8]}"}


DONE = Done(
    b"bytes", (Priced("a" * 24, "MatMul", 1.5),), 120.0, {"b": "why"},
    (Failure("m", "why", "read", "p", "b", 2),), 3, 4.5,
    (warning("others-used-cpus", used=1.0, cpus=2),),
)  # fmt: skip


@pytest.mark.parametrize("order", [ORDER, CUT, replace(ORDER, budget_s=3.0)])
def test_orders_and_results_survive_as_plain_data(order):
    from dlbricks_fleet import extra

    wire = extra.load("wire")
    assert Order.from_plain(wire.unpacked(wire.packed(order.to_plain()))) == order
    assert Done.from_plain(wire.unpacked(wire.packed(DONE.to_plain()))) == DONE


@pytest.mark.parametrize("name", list(DONE.to_plain()))
@pytest.mark.parametrize("value", [b"\x80\x04.", "text", -1, {"a": b""}, ({},), float("nan")])
def test_a_result_of_another_form_is_an_error_and_nothing_else(name, value):
    plain = {**DONE.to_plain(), name: value}
    try:
        read = Done.from_plain(plain)
    except (AttributeError, KeyError, TypeError, ValueError):
        return
    assert isinstance(getattr(read, name), type(getattr(DONE, name)))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, None),
        ({"code": "unheard-of"}, None),
        ({"values": {"used": 1.0}}, None),
        ({"values": {"used": "x", "cpus": 2}}, None),
        ({"values": {"used": float("inf"), "cpus": 2}}, None),
        ({"code": "hypervisor-took-time", "values": {"share": b"x"}}, None),
        ({"code": "extreme-sample", "values": {"which": "a", "sample_ms": 1, "mean_ms": 0}}, None),
        ("busy", warning(PLUGIN, text="busy")),
    ],
)
def test_a_warning_of_a_host_has_a_sentence(data, told):
    whole = data if isinstance(data, str) else {**DONE.warnings[0].to_dict(), **data}
    plain = {**DONE.to_plain(), "warnings": [whole]}
    if data and told is None:
        with pytest.raises((KeyError, TypeError, ValueError)):
            Done.from_plain(plain)
    else:
        assert Done.from_plain(plain).warnings == (told or DONE.warnings[0],)
