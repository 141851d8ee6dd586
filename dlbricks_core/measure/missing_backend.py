"""Stand-ins for backends that are not installed here, derived from stored measurements."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NoReturn

from dlbricks_core.backends import Backend, BackendOption, BackendSettings, CpuTimer, Traits
from dlbricks_core.errors import PluginError
from dlbricks_core.facts import Setup
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.wording import clone_install


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
            f"{clone_install(f'plugins/{self.name}')}.",
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
