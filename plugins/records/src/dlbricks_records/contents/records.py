"""Records of a store, and their form as plain data for JSON."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import ColumnElement, Connection, select, true

from dlbricks_core.facts import (
    LATENCY,
    Calibration,
    CalibrationKey,
    MachineName,
    Measurement,
    NetworkFeatures,
    Observation,
    Quantity,
    Rewrite,
    Session,
    System,
)
from dlbricks_core.facts.checks import checked, flat
from dlbricks_core.store import ResultStore
from dlbricks_core.store.questions import BATCH, columns_of, key_of, question_of, readable
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import measurements, networks, observations, quantities, rewrites
from dlbricks_records.contents.selection import EVERYTHING, Selection

Quantities = Mapping[str, Quantity]


@dataclass(frozen=True)
class KnownSystem:
    """A system as the store keeps it, with facts that this version may not know.

    Attributes:
        fingerprint: Fingerprint of the system.
        facts: Facts as :meth:`dlbricks_core.facts.System.to_dict` gives them.
    """

    fingerprint: str
    facts: Mapping[str, Any]


Record = (
    KnownSystem
    | MachineName
    | Session
    | Quantity
    | Measurement
    | NetworkFeatures
    | Calibration
    | Rewrite
)
"""One record of a store."""


def plain(record: Record) -> tuple[str, dict[str, Any]]:
    """Name of a record's kind, and the record as plain data."""
    name, to_plain = _WRITERS[type(record)]
    return name, to_plain(record)


def record_of(kind: str, data: Mapping[str, Any], quantities: Quantities) -> Record:
    """Reverses :func:`plain`.

    Args:
        kind: Name of the record's kind.
        data: The record as plain data.
        quantities: Quantities by name.

    Raises:
        KeyError: If something is missing, or there is no such kind or quantity.
        TypeError: If something has another structure.
        ValueError: If a value is invalid.
    """
    return _READERS[kind](data, quantities)


def measurement_of(data: Mapping[str, Any], quantities: Quantities) -> Measurement:
    """Measurement from plain data; errors as for :func:`record_of`."""
    question = question_of(data["key"], quantities)
    taken = tuple(map(Observation.from_dict, data["observations"]))
    if question.quantity == LATENCY and not all(value for each in taken for value in each.values):
        raise ValueError(f"a {LATENCY.name} is 0")
    return Measurement(
        question=question,
        layers=_texts(data["layers"]),
        observations=taken,
        failure=None if data["failure"] is None else checked(data["failure"], str, "failure"),
        unsupported=checked(data.get("unsupported", False), bool, "unsupported"),
    )


def system_of(fingerprint: str, facts: Any) -> KnownSystem:
    """System that plain data stand for; errors as of :func:`record_of`."""
    System.from_dict(checked(fingerprint, str), checked(facts, dict, "facts"))
    return KnownSystem(fingerprint, facts)


def _measurement(measurement: Measurement) -> dict[str, Any]:
    return {
        "key": columns_of(measurement.question),
        "layers": list(measurement.layers),
        "failure": measurement.failure,
        "unsupported": measurement.unsupported,
        "observations": [each.to_dict() for each in measurement.observations],
    }


def _network(network: NetworkFeatures) -> dict[str, Any]:
    return {
        **flat(network),
        "kinds": list(network.kinds),
        "numbers": _encoded(network.numbers),
        "groups": sorted(network.groups),
    }


def _network_of(data: Mapping[str, Any], _quantities: Quantities) -> NetworkFeatures:
    return NetworkFeatures(
        checked(data["signature"], str, "signature"),
        checked(data["version"], str, "version"),
        _texts(data["kinds"]),
        _decoded(data["numbers"]),
        frozenset(_texts(data["groups"])),
    )


def _calibration_of(data: Mapping[str, Any], quantities: Quantities) -> Calibration:
    key = CalibrationKey.from_text(checked(data["key"], str, "key"), quantities)
    return Calibration.from_dict(key, data["found"])


def _rewrite_of(data: Mapping[str, Any], _quantities: Quantities) -> Rewrite:
    key = key_of({each.name: data[each.name] for each in fields(Rewrite) if each.name != "graph"})
    rewrite = Rewrite(**key, graph=_decoded(data["graph"]))
    # Files of earlier versions have no digest.
    if "digest" in data and data["digest"] != _digest(rewrite):
        raise ValueError(f"the graph of {rewrite.signature:.24} is another one")
    return rewrite


def _rewrite(rewrite: Rewrite) -> dict[str, Any]:
    data = {**flat(rewrite), "graph": _encoded(rewrite.graph)}
    return {**data, "digest": _digest(rewrite)}


def _digest(rewrite: Rewrite) -> str:
    """Hash of a graph with all that it belongs to. A graph alone does not identify its model."""
    about = {**flat(rewrite), "graph": hashlib.sha256(rewrite.graph).hexdigest()}
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


def _texts(values: Any) -> tuple[str, ...]:
    return tuple(checked(each, str) for each in checked(values, list))


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decoded(text: Any) -> bytes:
    try:
        return base64.b64decode(checked(text, str), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text:.40} is not base64") from error


_WRITERS: dict[type, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    KnownSystem: ("system", lambda it: {"fingerprint": it.fingerprint, "facts": dict(it.facts)}),
    MachineName: ("machine", MachineName.to_dict),
    Session: ("session", Session.to_dict),
    Quantity: ("quantity", Quantity.to_dict),
    Measurement: ("measurement", _measurement),
    NetworkFeatures: ("network", _network),
    Calibration: ("calibration", lambda it: {"key": it.key.text, "found": it.to_dict()}),
    Rewrite: ("rewrite", _rewrite),
}
"""Name of a kind and function that makes plain data of it, by type."""

_READERS: dict[str, Callable[[Mapping[str, Any], Quantities], Record]] = {
    "system": lambda data, _: system_of(data["fingerprint"], data["facts"]),
    "machine": lambda data, _: MachineName.from_dict(data),
    "session": lambda data, _: Session.from_dict(data),
    "quantity": lambda data, _: Quantity.from_dict(data),
    "measurement": measurement_of,
    "network": _network_of,
    "calibration": _calibration_of,
    "rewrite": _rewrite_of,
}
"""Function that reverses this, by name of the kind."""


# Contents of a store, or of a part of it, record by record.


def records(store: ResultStore, selection: Selection = EVERYTHING) -> Generator[Record, None, None]:
    """All records of a store, or selected records, each after the records that it refers to.

    Args:
        store: The store.
        selection: Machines and backends whose records are requested. Calibrations belong to a whole
            system, so they are left out if only one of its machines is named. Graphs that backends
            make of models are the same on all machines of a system.
    """
    with store.reading() as connection:
        yield from _selected(connection, store.place, selection)


def _selected(connection: Connection, place: object, selection: Selection) -> Iterator[Record]:
    chosen = selection.measured(connection)
    with Reader(connection, place, selection.taken()) as reader:
        systems = select(measurements.c.system).where(chosen).distinct()
        fingerprints = {each for each in connection.scalars(systems) if readable([each])}
        whole = selection == EVERYTHING
        for fingerprint, facts in reader.systems().items():
            if whole or fingerprint in fingerprints:
                yield KnownSystem(fingerprint, facts)
        hosts = {each.system: each.hosts for each in selection.machines if not each.alone}
        for name in reader.machines():
            is_on = name.system not in hosts or name.host in hosts[name.system]
            if whole or (name.system in fingerprints and is_on):
                yield name
        yield from _sessions(connection, reader, selection, chosen)
        named = reader.quantities()
        lost = quantities.name in reader.damage.counts
        yield from (reader.known_quantities() if lost else named).values()
        yield from _measurements(connection, reader, chosen)
        signatures = select(measurements.c.signature).where(chosen)
        described = true() if whole else networks.c.signature.in_(signatures)
        yield from reader.networks(described).values()
        if selection.whole_setups:
            yield from (each for each in reader.calibrations() if fits(each, selection))
        yield from reader.rewrites(selection.setups(connection, rewrites))


def fits(calibration: Calibration, selection: Selection) -> bool:
    """Whether a calibration is one of the machines, backends and quantities of a selection."""
    key = calibration.key
    systems = {each.system for each in selection.machines} or {key.system}
    backends = selection.backends or (key.setup.backend,)
    quantities = selection.quantities or (key.quantity.name,)
    return (
        key.system in systems and key.setup.backend in backends and key.quantity.name in quantities
    )


def _sessions(
    connection: Connection, reader: Reader, selection: Selection, chosen: ColumnElement[bool]
) -> Iterator[Record]:
    query = select(observations.c.session).join(measurements).where(chosen, selection.taken())
    wanted = None if selection == EVERYTHING else set(connection.scalars(query.distinct()))
    return (each for each in reader.sessions() if wanted is None or each.id in wanted)


def _measurements(
    connection: Connection, reader: Reader, chosen: ColumnElement[bool]
) -> Iterator[Measurement]:
    """Measurements, oldest first; they are read in batches."""
    last = 0
    query = select(measurements.c.id).where(chosen).order_by(measurements.c.id).limit(BATCH)
    while ids := connection.scalars(query.where(measurements.c.id > last)).all():
        last = ids[-1]
        yield from reader.measurements(chosen & measurements.c.id.between(ids[0], last))
