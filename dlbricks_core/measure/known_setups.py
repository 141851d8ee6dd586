"""Setups of stored measurements, for estimates without the system or its framework."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from dlbricks_core.facts import Setup
from dlbricks_core.predict import shipped
from dlbricks_core.store import ResultStore

KnownSetup = tuple[Setup, str]
"""Setup under which networks were measured, and fingerprint of the system."""


def known_setups(store: ResultStore, backend: str) -> list[KnownSetup]:
    """Setups of a backend under which networks were measured: the store's, then the atlas's.

    Args:
        store: Store of the measurements.
        backend: Name of the backend.
    """
    atlas = [(each.setup, each.system.fingerprint) for each in shipped(backend)]
    return [*store.setups(backend), *atlas]


def nearest_setup(asked: Setup, known: Sequence[Setup]) -> Setup:
    """The requested setup, with the nearest known versions of framework and plugin.

    Versions that were measured with the same options, threads and protocol come before others.

    Args:
        asked: Setup with the versions that are installed here.
        known: Setups under which networks were measured on the system.
    """
    if asked in known or not known:
        return asked

    def far(each: Setup) -> tuple[bool, tuple[int, ...], tuple[int, ...]]:
        alike = replace(each, version=asked.version, plugin=asked.plugin) == asked
        return not alike, _apart(each.version, asked.version), _apart(each.plugin, asked.plugin)

    nearest = min(known, key=far)
    return replace(asked, version=nearest.version, plugin=nearest.plugin)


def _apart(one: str, other: str) -> tuple[int, ...]:
    """Differences between two versions, number by number."""
    released = (re.findall(r"\d+", version.partition("+")[0]) for version in (one, other))
    numbers = zip_longest(*(map(int, each) for each in released), fillvalue=0)
    return tuple(abs(first - second) for first, second in numbers)
