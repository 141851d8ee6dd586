"""Admission: which of the records that a host returns enter the client's store.

A host can only speak for itself. Its records are of its own kind and about the networks that it was
ordered to time, and its sessions bear its own name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from dlbricks_records.contents import KnownSystem, Record

from dlbricks_core.facts import (
    LATENCY,
    MachineName,
    Measurement,
    NetworkFeatures,
    Quantity,
    Rewrite,
    Session,
)
from dlbricks_core.measure.metric import find_metric
from dlbricks_core.store import ResultStore
from dlbricks_fleet.records import Host, Order

_NOT_IN_NAMES = re.compile(r"[^\w.+-]|^[^\w]", re.ASCII)
_LONGEST, _SHORT = 30, 8
"""Maximum number of characters of a host's name, and of the fingerprint beside it."""


def machine_of(host: Host) -> tuple[str, str]:
    """Name of a host's machine in a store, and the hash by which its sessions refer to it.

    Both follow from the name of the host, which its certificate states. With a hash of its own
    choice, a host could pretend to be another host.
    """
    name = _NOT_IN_NAMES.sub("_", host.name)[:_LONGEST] or "unnamed"
    return name, hashlib.sha256(f"dlbricks fleet {name}".encode()).hexdigest()[:16]


class Admission:
    """Chooses from the records that a host returns for an order.

    Args:
        host: The host.
        order: The order.
        store: Store of the client.
    """

    def __init__(self, host: Host, order: Order, store: ResultStore) -> None:
        self._kind = host.kind
        self._share = frozenset(order.share or ())
        self._cuts = order.share is None
        self._name, self._hash = machine_of(host)
        self._known = {each.id: each.host for each in store.sessions()}
        self._machines = [each for each in store.machines() if each.name]
        # Of a quantity in another unit, the store would refuse all that comes later.
        self._quantities = {each: each for each in _asked_for(order)}
        self._own: set[str] = set()

    def of(self, records: Iterable[Record]) -> list[Record]:
        """The admitted records, and the name of the machine."""
        admitted: list[Record] = []
        for record in records:
            rule = _RULES.get(type(record))
            found = rule(self, record) if rule else None
            if found is not None:
                admitted.append(found)
        return [*admitted, *self._names()] if self._own else admitted

    def _names(self) -> list[MachineName]:
        """Name of the machine, unless it has one. Each name identifies one system."""
        here = [each for each in self._machines if each.system == self._kind]
        if any(self._hash in each.hosts for each in here):
            return []
        elsewhere = any(each.name == self._name for each in self._machines if each not in here)
        name = f"{self._name}-{self._kind[:_SHORT]}" if elsewhere else self._name
        return [MachineName(self._kind, self._hash, name)]

    def _system(self, record: KnownSystem) -> KnownSystem | None:
        return record if record.fingerprint == self._kind else None

    def _session(self, record: Session) -> Session | None:
        """The session under this host's name. One of another host is in the store already."""
        if record.system != self._kind or self._known.get(record.id, self._hash) != self._hash:
            return None
        self._own.add(record.id)
        return replace(record, host=self._hash)

    def _measurement(self, record: Measurement) -> Measurement | None:
        question = record.question
        quantity = self._quantities.get(question.quantity)
        if question.system != self._kind or question.subject.signature not in self._share:
            return None
        if quantity is None:
            return None
        question = replace(question, quantity=quantity)
        own = tuple(each for each in record.observations if each.session in self._own)
        if not (own or record.failure):
            return None
        return replace(record, question=question, observations=own)

    def _network(self, record: NetworkFeatures) -> NetworkFeatures | None:
        return record if record.signature in self._share else None

    def _rewrite(self, record: Rewrite) -> Rewrite | None:
        return record if self._cuts and record.system == self._kind else None

    def _quantity(self, record: Quantity) -> Quantity | None:
        return self._quantities.get(record)


def _asked_for(order: Order) -> tuple[Quantity, ...]:
    """Quantities that an order asks for, as they are here."""
    name = order.asked.options.get("quantity") or LATENCY.name
    if name == LATENCY.name:
        return (LATENCY,)
    metric = find_metric(name)
    return (metric.quantity, *metric.parts)


_RULES: Mapping[type, Callable[[Admission, Any], Record | None]] = {
    KnownSystem: Admission._system,
    Session: Admission._session,
    Quantity: Admission._quantity,
    Measurement: Admission._measurement,
    NetworkFeatures: Admission._network,
    Rewrite: Admission._rewrite,
}
"""Function that admits a record or rejects it, by its type. Records of other types are rejected."""
