"""Preferences of a user: defaults of a few options, from environment variables or a file.

They apply to the command line and to the Python API. A preference replaces a default, so an option
that the user types overrides it, and a variable overrides the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import platformdirs

from dlbricks_core.errors import DLBricksError
from dlbricks_core.files import content
from dlbricks_core.limits import parsed_toml

TEXT = "text"
FORMATS = (TEXT, "csv", "markdown")
"""Forms of tables on standard output. The first is for readers at a terminal."""

Busy = Literal["wait", "accept"]
"""Policy where other programs use the CPUs before the first round. Wait: nothing is measured
until they use little, for a minute at most. Accept: measuring begins at once."""

BUSY: tuple[Busy, ...] = get_args(Busy)

_MOST_BYTES = 1 << 16
"""Maximum bytes of the file."""

_MOST_DIGITS = 19
"""Digits of a number; one has fewer, and fits 64 bits."""


@dataclass(frozen=True)
class Preference:
    """A default that the user has set."""

    name: str  #: Name of the option.
    value: str | int  #: Its value.
    origin: str  #: The environment variable or the file that it comes from.


def _text(value: str | int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text")
    return value


def _form(value: str | int) -> str:
    if value not in FORMATS:
        raise ValueError(f"one of {', '.join(FORMATS)}")
    return str(value)


def _number(value: str | int) -> int:
    digits = str(value)
    is_short = digits.isascii() and digits.isdigit() and len(digits) < _MOST_DIGITS
    if isinstance(value, bool) or not is_short or not int(digits):
        raise ValueError("a whole number, 1 or more")
    return int(digits)


def _policy(value: str | int) -> str:
    if value not in BUSY:
        raise ValueError(f"one of {', '.join(BUSY)}")
    return str(value)


_READ: Mapping[str, Callable[[str | int], str | int]] = {
    "backend": _text,
    "store": _text,
    "threads": _number,
    "format": _form,
    "busy": _policy,
}
"""Value of each preference, from an environment variable or the file."""

NAMES = tuple(_READ)
"""Options that have preferences: they mean the same in every command."""


def preferences_file() -> Path | None:
    """Path of the file, whether it exists or not; ``None`` without a home folder."""
    try:
        return platformdirs.user_config_path("dlbricks") / "config.toml"
    except RuntimeError:  # no home folder, hence no file
        return None


def variable(name: str) -> str:
    """Name of the environment variable of a preference."""
    return f"DLBRICKS_{name.upper()}"


def preferences() -> list[Preference]:
    """All preferences that are set.

    Raises:
        DLBricksError: If the file cannot be read, or a value is unusable.
    """
    path = preferences_file()
    filed = {} if path is None else _filed(path)
    found = []
    for name in NAMES:
        if text := os.environ.get(variable(name), "").strip():
            found.append(_preference(name, text, variable(name)))
        elif name in filed:
            found.append(_preference(name, filed[name], str(path)))
    return found


def preferred(name: str) -> Any:
    """Value of a preference; ``None`` if the user has set none.

    Raises:
        DLBricksError: As for :func:`preferences`.
    """
    return next((each.value for each in preferences() if each.name == name), None)


def _preference(name: str, value: str | int, origin: str) -> Preference:
    try:
        return Preference(name, _READ[name](value), origin)
    except ValueError as error:
        raise DLBricksError(
            f"{origin}: {name} is {value!r:.40}, not {error}", hint="Correct it, or remove it."
        ) from error


def _filed(path: Path) -> dict[str, Any]:
    """Content of the file; nothing if there is none."""
    try:
        found = parsed_toml(content(path, _MOST_BYTES).decode())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DLBricksError(f"{path}: {error.strerror}", hint="Correct it, or move it.") from error
    except (ValueError, RecursionError) as error:
        raise DLBricksError(
            f"{path} is not TOML: {error}", hint='Write lines such as backend = "onnxruntime".'
        ) from error
    if other := [name for name in found if name not in NAMES]:
        raise DLBricksError(
            f"{path}: {other[0]!r:.40} has no default there", hint=f"Possible: {', '.join(NAMES)}."
        )
    return found
