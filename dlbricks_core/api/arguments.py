"""Checks of arguments; otherwise a wrong type would fail somewhere deep inside."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dlbricks_core.commands.options.settings import SETTINGS, Setting
from dlbricks_core.errors import DLBricksError


def checked(
    further: Mapping[str, Setting] = MappingProxyType({}), /, **arguments: Any
) -> dict[str, Any]:
    """Arguments of an API function in the types that the library works with.

    Args:
        further: Settings that only another distribution has.
        **arguments: Values by the setting's key. An argument that is ``None`` is left out, so
            that the library's default holds.

    Raises:
        DLBricksError: If a value is not of the setting's kind.

    Examples:
        >>> checked(threads=2, runs=None)
        {'threads': 2}
    """
    settings = {key: further.get(key) or SETTINGS[key] for key in arguments}
    return {
        key: _converted(settings[key], value)
        for key, value in arguments.items()
        if value is not None or settings[key].required
    }


def _converted(setting: Setting, value: Any) -> Any:
    try:
        return setting.kind.convert(value)
    except (TypeError, ValueError) as error:
        raise DLBricksError(
            f"{setting.name} cannot be {value!r:.80}",
            hint=f"{setting.name} takes {setting.kind.words}.",
        ) from error
