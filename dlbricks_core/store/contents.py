"""Contents of a store, or of a part of it, record by record."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Connection, select, true

from dlbricks_core.facts import Calibration, MachineName, Measurement
from dlbricks_core.store.columns import BATCH, readable
from dlbricks_core.store.records import KnownSystem, Record
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import measurements, networks, observations, quantities, rewrites
from dlbricks_core.store.selection import EVERYTHING, Selection


def selected(connection: Connection, place: object, selection: Selection) -> Iterator[Record]:
    """Records of a store, each after the records that it refers to.

    Args:
        connection: To the database.
        place: Where the store is kept, for warnings.
        selection: Machines and backends whose records are requested. Calibrations belong to a whole
            system, so they are left out if only one of its machines is named. Graphs that backends
            make of models are the same on all machines of a system.
    """
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
            if whole or (name.system in fingerprints and _is_on(name, hosts)):
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


def _is_on(name: MachineName, hosts: dict[str, frozenset[str]]) -> bool:
    return name.system not in hosts or name.host in hosts[name.system]


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
