"""Translates options of a command line into jobs, models and sizes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from inspect import signature
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from dlbricks_core.commands.options.models import Models
from dlbricks_core.commands.options.settings import IMPORT_TIMEOUT_S, READING
from dlbricks_core.commands.options.several_sizes import sizes_of
from dlbricks_core.importers import LoadOptions, parse_shape
from dlbricks_core.importers.models import ImportSettings
from dlbricks_core.passes.options import InputValue
from dlbricks_core.preferences import preferred

JobT = TypeVar("JobT")

OUTPUT = ("json_path", "html_path", "svg_path", "svg_path", "table_format", "verbose", "quiet")
"""Options of commands on how results are shown."""

REQUESTED = (
    *("backend", "backend_options", "quantity", "threads", "protocol", "runs", "seed"),
    *("timeout_s", "force", "retry_failed", "precision", "budget_s", "condition", "busy"),
)
"""Settings that :meth:`Request.of` has as arguments; it decides their defaults."""


def open_request(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of :meth:`Request.of` among the values of settings, as plain data.

    Settings that were left open are left out.
    """
    return {name: values[name] for name in REQUESTED if values.get(name) is not None}


def open_request_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of :meth:`Request.of` among the options of a command, as plain data."""
    return open_request({**values, "backend_options": backend_options_of(values)})


def backend_options_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Settings of a single backend, from the option ``--backend-option``."""
    return dict(pairs(values["backend_options"], "--backend-option"))


def backends_of(values: Mapping[str, Any]) -> list[str]:
    """Names of backends, from the option ``--backends``."""
    return [name.strip() for name in values["backends"].split(",")]


def options_by_backend(values: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Options of each backend in ``--backends``, from the option ``--backend-option``."""
    chosen: dict[str, dict[str, str]] = {name: {} for name in backends_of(values)}
    for text, value in pairs(values["backend_options"], "--backend-option"):
        name, _, key = text.partition(".")
        if name not in chosen or not key:
            raise click.BadParameter(
                f"{text}={value}: write BACKEND.KEY=VALUE for one of {', '.join(chosen)}",
                param_hint="--backend-option",
            )
        chosen[name][key] = value
    return chosen


def backend_of(values: Mapping[str, Any]) -> str:
    """Name of the backend for a job that needs one, where the command has jobs that do not.

    Raises:
        UsageError: If there is neither an option nor a preference.
    """
    name: str | None = values["backend"] or preferred("backend")
    if name is None:
        raise click.UsageError("Missing option '--backend'.")
    return name


def models_of(names: Sequence[str], values: dict[str, Any]) -> Models:
    """Models that the user names, from ``load_options`` and maybe ``sizes_options``.

    Args:
        names: Names of models as typed by the user.
        values: Values of the options.
    """
    sizes = sizes_of(values, names) if "sweeps" in values else None
    return Models(names, load_options_of(values), import_settings_of(values), sizes)


def job_of(
    job: type[JobT], names: Sequence[str], values: dict[str, Any], mode: str = "", **chosen: Any
) -> JobT:
    """The job that the options request. It decides the defaults of options that nobody typed.

    Args:
        job: Kind of the job, a data class.
        names: Names of models as typed by the user.
        values: Values of the options.
        mode: Why other options have no effect, where the command has further jobs.
        **chosen: Fields whose values are not those of the options of their names.

    Raises:
        UsageError: If an option without an effect was typed.
    """
    every: Sequence[Field[Any]] = fields(job)  # type: ignore[arg-type]
    own, typed = {each.name for each in every}, _typed()
    if mode:
        _refuse_others(own | {*signature(job.run).parameters}, mode)  # type: ignore[attr-defined]
    required = {e.name for e in every if e.default is e.default_factory is MISSING}
    given = {name: value for name, value in values.items() if name in required | own & typed}
    if {"backends", "backend_options"} <= own:
        chosen |= {"backends": backends_of(values), "backend_options": options_by_backend(values)}
    elif "backend_options" in own:
        chosen["backend_options"] = backend_options_of(values)
    if "models" in own and "models" not in chosen:
        chosen["models"] = models_of(names, values)
    return job(**{**given, **chosen})


def _typed() -> set[str]:
    context = click.get_current_context()
    return {
        name
        for name, value in context.params.items()
        if value not in (None, ())
        and context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }


def _refuse_others(used: Collection[str], mode: str) -> None:
    """Refuses typed options that a job does not use, unless they say how its result is shown."""
    of_models = {*READING, "model"} if "models" in used else ()
    others = _typed() - {*used, *of_models, *OUTPUT}
    for each in click.get_current_context().command.params:
        if each.name in others:
            name = "the MODELs" if isinstance(each, click.Argument) else each.opts[0]
            raise click.UsageError(f"{mode}: leave out {name}.")


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
            f"{name}={text}: write a number, true or false, several (1,3,224), or none "
            "for an optional input that is left out",
            param_hint="--value",
        ) from error
    return numbers if "," in text else numbers[0]


_TRUTHS = {"true": 1, "false": 0}


def _number(text: str) -> float:
    if text.lower() in _TRUTHS:
        return _TRUTHS[text.lower()]
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
