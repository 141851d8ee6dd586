"""Records as rows that are written, and quantities that a store does not have yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import Calibration, NetworkFeatures, Quantity, Rewrite
from dlbricks_core.facts.checks import flat
from dlbricks_core.limits import packed
from dlbricks_core.store.database import Database
from dlbricks_core.store.questions import batches
from dlbricks_core.store.schema import calibrations, quantities
from dlbricks_core.wording import argument


def introduce(connection: Connection, place: Database, wanted: Iterable[Quantity]) -> None:
    """Adds the quantities that the store does not have yet.

    Raises:
        StoreError: If it has one in another unit.
    """
    if unknown := unknown_quantities(connection, place, wanted):
        connection.execute(insert(quantities), [each.to_dict() for each in unknown])


def unknown_quantities(
    connection: Connection, place: Database, wanted: Iterable[Quantity]
) -> list[Quantity]:
    """Quantities that the store does not have yet.

    Raises:
        StoreError: If it has one in another unit.
    """
    every, units = set(wanted), dict[str, str]()
    for names in batches(each.name for each in every):
        rows = connection.execute(select(quantities).where(quantities.c.name.in_(names)))
        units |= {row.name: row.unit for row in rows}
    for each in every:
        if units.get(each.name, each.unit) != each.unit:
            raise StoreError(
                f"{place}: the result store holds {each.name} in {units[each.name]}, "
                f"and not in {each.unit}",
                f"choose another {place.noun} with {argument('store')}",
            )
    return sorted(each for each in every if each.name not in units)


def keep_calibration(connection: Connection, calibration: Calibration) -> None:
    """Keeps a calibration, in place of one with the same key."""
    same = calibrations.c.key == calibration.key.text
    connection.execute(delete(calibrations).where(same))
    connection.execute(insert(calibrations), calibration_row(calibration))


def calibration_row(calibration: Calibration) -> dict[str, Any]:
    """Row of a calibration."""
    return {"key": calibration.key.text, "found": calibration.to_dict()}


def network_row(network: NetworkFeatures) -> dict[str, Any]:
    """Row of a network's features."""
    return {
        "signature": network.signature,
        "version": network.version,
        "kinds": list(network.kinds),
        "numbers": packed(network.numbers),
        "groups": sorted(network.groups),
    }


def rewrite_row(rewrite: Rewrite) -> dict[str, Any]:
    """Row of a rewritten graph."""
    return {**flat(rewrite), "graph": packed(rewrite.graph)}


def storable(text: object) -> str:
    """The text as databases hold it: bytes that are no UTF-8, and NUL, become escapes."""
    return str(text).replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
