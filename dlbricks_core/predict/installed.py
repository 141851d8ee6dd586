"""Predictors that are installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dlbricks_core.bricks import Brick
from dlbricks_core.errors import UnknownPluginError
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.figure import Figure
from dlbricks_core.figures.predicted import Predicted
from dlbricks_core.plugins import Plugin, find, names, use
from dlbricks_core.predict.base import Predictor
from dlbricks_core.predict.defaults import DISTRIBUTION, FOLDER, PREDICTOR
from dlbricks_core.wording import argument, clone_install


class _Silent(Predictor):
    """Knows nothing: in place of the default predictor where it is not installed."""

    name = PREDICTOR

    def predict(
        self,
        bricks: Mapping[str, Brick],
        setup: Setup,
        system: System,
        known: Mapping[str, Figure],
        atlas: Sequence[Any] = (),
    ) -> Mapping[str, Predicted]:
        """No figures."""
        return {}


def find_predictor(name: str) -> Plugin:
    """The predictor of a name, as a plugin.

    Raises:
        UnknownPluginError: If it is not installed.
        PluginError: If it is broken.
    """
    if name == PREDICTOR and not is_installed():
        raise UnknownPluginError(
            f"predictions come with {DISTRIBUTION}, which is not installed",
            hint=f"{clone_install(FOLDER)}. Or choose {argument('predictor')} none.",
        )
    return find("predictor", name, Predictor)


def usual_predictor() -> Predictor:
    """The default predictor; one that knows nothing where it is not installed.

    Raises:
        PluginError: If it is broken.
    """
    if not is_installed():
        return _Silent()
    plugin = find_predictor(PREDICTOR)
    predictor: Predictor = use(plugin, plugin.loaded)
    return predictor


def is_installed() -> bool:
    """Whether the default predictor is installed."""
    return PREDICTOR in names("predictor")
