"""Setups of stored measurements, for estimates without the system or its framework."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NoReturn

from dlbricks_core.backends import Backend, BackendOption, BackendSettings, CpuTimer, Traits
from dlbricks_core.errors import PluginError
from dlbricks_core.facts import Setup
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.predict import usual_predictor
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import clone_install

KnownSetup = tuple[Setup, str]
"""Setup under which networks were measured, and fingerprint of the system."""


def known_setups(store: ResultStore, backend: str) -> list[KnownSetup]:
    """Setups of a backend under which networks were measured: the store's, then the atlas's.

    Args:
        store: Store of the measurements.
        backend: Name of the backend.
    """
    atlas = [(each.setup, each.system.fingerprint) for each in usual_predictor().shipped(backend)]
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


# Stand-ins for backends that are not installed here, derived from stored measurements.


class AbsentBackend(Backend):
    """Stand-in for a framework that is not installed, for stored measurements; it runs nothing.

    Args:
        setups: Setups with known figures, the nearest first.
    """

    #: Unknown for the framework; stored graphs show for each model whether it was rewritten.
    traits = Traits(rewrites=True, domains=None)

    def __init__(self, setups: Sequence[Setup]) -> None:
        nearest = setups[0]
        self.name = self.distribution = nearest.backend
        self.options = _options(setups)
        self._version = nearest.version

    def version(self) -> str:
        """Version of the framework behind the figures."""
        return self._version

    def timer(self, settings: BackendSettings) -> CpuTimer[object]:
        """Raises an error: without the framework there is no timer."""
        self._refuse()

    def check(self, model: CanonicalModel) -> Mapping[int, str]:
        """Raises an error: a check needs the framework."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise PluginError(
            f"the backend {self.name} is not installed",
            hint="Install its plugin. One of DLBricks itself: "
            f"{clone_install('plugins/contrib', f'plugins/{self.name}')}.",
        )


def _options(setups: Sequence[Setup]) -> dict[str, BackendOption]:
    """Options of a backend that occur in setups. The first setup provides the defaults."""
    every = [json.loads(setup.options) for setup in setups]
    return {
        name: BackendOption(
            default, tuple(dict.fromkeys(each[name] for each in every if name in each)), ""
        )
        for name, default in every[0].items()
    }
