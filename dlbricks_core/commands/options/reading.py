"""Translates options of a command line into options for reading models."""

from __future__ import annotations

from typing import Any

import click

from dlbricks_core.commands.options.settings import IMPORT_TIMEOUT_S
from dlbricks_core.importers import LoadOptions, parse_shape
from dlbricks_core.importers.models import ImportSettings
from dlbricks_core.passes.options import InputValue


def load_options_of(values: dict[str, Any]) -> LoadOptions:
    """Options for reading models, from ``load_options``."""
    dims: dict[str, int] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, text in pairs(values["dims"], "--dim"):
        try:
            shape = parse_shape(text)
        except ValueError as error:
            raise click.BadParameter(
                f"{name}={text}: write a size (seq=128) or a shape (data=1x3x224x224)",
                param_hint="--dim",
            ) from error
        if len(shape) == 1:
            dims[name] = shape[0]
        else:
            shapes[name] = shape
    fixed = {name: _constant(name, text) for name, text in pairs(values["values"], "--value")}
    return LoadOptions(
        batch=values["batch"],
        dims=dims,
        shapes=shapes,
        fold_batchnorm=values["fold_batchnorm"],
        values=fixed,
        dtype=values["dtype"],
        outputs=values["outputs"],
    )


def import_settings_of(values: dict[str, Any]) -> ImportSettings:
    """Settings for importing models, from ``load_options``."""
    timeout_s = values["timeout_s"]
    return ImportSettings(IMPORT_TIMEOUT_S if timeout_s is None else timeout_s, values["reimport"])


def sources_of(values: dict[str, Any]) -> dict[str, str]:
    """Sources of models by their names, from ``--source``."""
    return dict(pairs(values["sources"], "--source"))


def _constant(name: str, text: str) -> InputValue:
    """Value of an input: a number, several with commas between them, or ``none``."""
    if text.lower() == "none":
        return None
    try:
        numbers = tuple(map(_number, text.split(",")))
    except ValueError as error:
        raise click.BadParameter(
            f"{name}={text}: write a number (0 or 1 for no or yes), several (1,3,224), or none "
            "for an optional input that is left out",
            param_hint="--value",
        ) from error
    return numbers if "," in text else numbers[0]


def _number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def pairs(texts: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """Names and values of an option that is given as NAME=VALUE.

    Raises:
        click.BadParameter: If a text has another form, or one name gets two values.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name or not value:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        if found.setdefault(name, value) != value:
            raise click.BadParameter(
                f"{name} is given twice: {found[name]} and {value}", param_hint=option
            )
    return list(found.items())
