"""Models at several sizes, which a distribution requests, loads and answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dlbricks_core.errors import UnknownPluginError
from dlbricks_core.plugins import find, names
from dlbricks_core.wording import argument, clone_install

if TYPE_CHECKING:
    from dlbricks_core.commands.options.models import Models
    from dlbricks_core.importers.models import LoadedModels
    from dlbricks_core.progress import Observer

_SETTINGS: Mapping[str, str] = {
    "prompt": "prompt",
    "generate": "generate",
    "task": "task",
    "pictures": "pictures",
    "sweeps": "sweep",
}
"""Settings that request sizes, and their names for users."""


class SizesRequest(ABC):
    """A request for models at several sizes."""

    #: Phases of an answer, which may have different numbers of threads; empty without answers.
    phases: ClassVar[Sequence[str]] = ()

    @abstractmethod
    def load(self, models: Models, observer: Observer) -> LoadedModels:
        """Loads models, each size as a separate model.

        Args:
            models: The models, and how they are read otherwise.
            observer: Receives a notice of each model.

        Raises:
            DLBricksError: If no model can be loaded, or in strict mode if one cannot.
        """


class SizesOptions(ABC):
    """Options that request several sizes.

    Found through the entry-point group ``dlbricks.sizes``. The class must be importable without
    what loads and answers, because the list of plugins imports it.
    """

    #: Name, equal to the entry point's.
    name: str

    @abstractmethod
    def request(self, values: Mapping[str, Any], names: Sequence[str]) -> SizesRequest | None:
        """The request from the options of a command; ``None`` for a single size.

        Args:
            values: Values of the options ``sizes_options``.
            names: Names of the models.
        """


def sizes_of(values: Mapping[str, Any], models: Sequence[str]) -> SizesRequest | None:
    """Requested sizes of models, from ``sizes_options``; ``None`` for a single size.

    Args:
        values: Values of the options.
        models: Names of the models, whose configurations say how many tokens pictures have.

    Raises:
        UnknownPluginError: If sizes are requested, and no distribution answers for them.
    """
    given = [each for name, each in _SETTINGS.items() if values[name] not in (None, ())]
    if not given:
        return None
    if not names("sizes"):
        raise UnknownPluginError(
            f"{argument(given[0])} comes with dlbricks-sizes, which is not installed",
            hint=clone_install("plugins/sizes"),
        )
    options: SizesOptions = find("sizes", "sizes", SizesOptions).loaded()
    return options.request(values, models)
