"""Derived records: calibrations of composers, and graphs that backends make of models."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from sqlalchemy import delete, insert, select

from dlbricks_core.facts import Calibration, CalibrationKey, Rewrite, Setup
from dlbricks_core.store.columns import all_equal, is_key
from dlbricks_core.store.merging import keep_calibration, rewrite_row
from dlbricks_core.store.opened import OpenStore, again_when_lost
from dlbricks_core.store.rows import Reader
from dlbricks_core.store.schema import calibrations, rewrites


class DerivedStore(OpenStore):
    """The part of a store with derived records: calibrations and rewritten graphs."""

    @again_when_lost
    def keep_calibration(self, calibration: Calibration) -> None:
        """Keeps a calibration, in place of an earlier one with the same key."""
        with self._writing() as connection:
            keep_calibration(connection, calibration)

    @again_when_lost
    def calibration(self, key: CalibrationKey) -> Calibration | None:
        """Calibration of this key; ``None`` if there is none."""
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return reader.calibration(key)

    @again_when_lost
    def forget_calibration(self, key: CalibrationKey) -> bool:
        """Removes the calibration of this key.

        Returns:
            Whether there was one.
        """
        with self._writing() as connection:
            same = calibrations.c.key == key.text
            return bool(connection.execute(delete(calibrations).where(same)).rowcount)

    @again_when_lost
    def keep_rewrite(self, signature: str, setup: Setup, system: str, graph: bytes) -> None:
        """Stores the graph that a backend makes of a model; it replaces an earlier graph.

        Args:
            signature: Signature of the whole model.
            setup: How the model would run; its protocol makes no difference.
            system: Fingerprint of the system that the backend ran on; frameworks choose layouts
                by the processor.
            graph: Serialized graph. The store compresses it.
        """
        key = _rewrite_key(signature, setup, system)
        with self._writing() as connection:
            connection.execute(delete(rewrites).where(all_equal(rewrites, key)))
            connection.execute(insert(rewrites), rewrite_row(Rewrite(**key, graph=graph)))

    @again_when_lost
    def rewrite(self, signature: str, setup: Setup, system: str) -> bytes | None:
        """Serialized graph that :meth:`keep_rewrite` got for the same; ``None`` if it got none."""
        key = _rewrite_key(signature, setup, system)
        with self._reading() as connection, Reader(connection, self.place) as reader:
            return next((each.graph for each in reader.rewrites(all_equal(rewrites, key))), None)

    @again_when_lost
    def rewritten(self) -> list[tuple[str, Setup, str]]:
        """Arguments of :meth:`rewrite` for every graph that is kept; the protocol is empty."""
        names = [each.name for each in fields(Setup) if each.name != "protocol"]
        columns = [rewrites.c[name] for name in names]
        query = select(rewrites.c.signature, rewrites.c.system, *columns)
        with self._reading() as connection:
            rows = connection.execute(query.order_by(*rewrites.primary_key)).all()
        return [
            (row.signature, Setup(**{n: row._mapping[n] for n in names}, protocol=""), row.system)
            for row in rows
            if is_key(row._asdict())
        ]


def _rewrite_key(signature: str, setup: Setup, system: str) -> dict[str, Any]:
    """Values of the key columns of a rewritten graph."""
    key = {"signature": signature, **asdict(setup), "system": system}
    del key["protocol"]
    return key
