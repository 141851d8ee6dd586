"""Translates options of a command line into requests, and into options for reading and cutting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click

from dlbricks_core import figures, workflows
from dlbricks_core.cli.options import IMPORT_TIMEOUT_S, TIMEOUT_S
from dlbricks_core.facts import LATENCY, Setup, System
from dlbricks_core.importers import LoadOptions, parse_shape


def load_options_of(values: dict[str, Any]) -> LoadOptions:
    """Options for reading models, from ``load_options``."""
    dims: dict[str, int] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, text in _pairs(values["dims"], "--dim"):
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
    fixed = {name: _number(name, text) for name, text in _pairs(values["fixed"], "--value")}
    return LoadOptions(
        batch=values["batch"],
        dims=dims,
        shapes=shapes,
        fold_batchnorm=values["fold_batchnorm"],
        values=fixed,
        dtype=values["dtype"],
    )


def sizes_of(values: dict[str, Any]) -> workflows.Sized | None:
    """Requested sizes of models, from ``sizes_options``; ``None`` for a single size."""
    sweeps = _sweeps(values["sweeps"])
    given = _tokens(values)
    generates = bool(given) or not sweeps.keys().isdisjoint(("prompt", "generate"))
    if generates and values["batch"] is not None:
        given["batch"] = (values["batch"],)
    taken = {*given, *(["batch"] if values["batch"] is not None else []),
             *(text.rpartition("=")[0] for text in values["dims"])}  # fmt: skip
    for name in sweeps:
        if name in taken:
            raise click.BadParameter(
                f"{name} is also given by itself: leave that out", param_hint="--sweep"
            )
    if generates:
        return workflows.Generation({**given, **sweeps})
    return workflows.Sweep(sweeps) if sweeps else None


def answer_of(values: dict[str, Any]) -> workflows.Generation | None:
    """Requested answer of language models, from ``answer_options``; ``None`` for single runs."""
    given = _tokens(values)
    if given and values["batch"] is not None:
        given["batch"] = (values["batch"],)
    return workflows.Generation(given) if given else None


def _tokens(values: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Tokens of the prompt and of the answer, as far as they are given."""
    return {name: (values[name],) for name in ("prompt", "generate") if values[name] is not None}


def _sweeps(texts: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
    """Distinct sizes by the name of a dimension."""
    found: dict[str, tuple[int, ...]] = {}
    for name, text in _pairs(texts, "--sweep"):
        if name in found:
            raise click.BadParameter(f"{name} is given twice", param_hint="--sweep")
        try:
            found[name] = tuple(dict.fromkeys(int(size) for size in text.split(",")))
        except ValueError as error:
            raise click.BadParameter(
                f"{name}={text}: write sizes with commas between (sequence=1,128,512)",
                param_hint="--sweep",
            ) from error
    return found


def import_settings_of(values: dict[str, Any]) -> workflows.ImportSettings:
    """Settings for importing models, from ``load_options``."""
    timeout_s = values["timeout_s"]
    return workflows.ImportSettings(
        IMPORT_TIMEOUT_S if timeout_s is None else timeout_s, values["reimport"]
    )


def _number(name: str, text: str) -> float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError as error:
        raise click.BadParameter(
            f"{name}={text}: write a number (0 or 1 for no or yes)", param_hint="--value"
        ) from error


def cut_options_of(values: dict[str, Any]) -> workflows.CutOptions:
    """Options for cutting models, from ``cut_options`` and ``composer_option``.

    Commands without an option for the composer cut the paper's layer sequences.
    """
    composer = values.get("composer") if "composer" in values else "sequential"
    quantity = values.get("quantity", LATENCY.name)
    return workflows.CutOptions.chosen(
        values["granularity"], values["strategy"], composer, quantity=quantity
    )


def request_of(
    values: dict[str, Any],
    system: System | None = None,
    known: Callable[[], Sequence[workflows.KnownSetup]] = tuple,
    measured: Setup | None = None,
) -> workflows.Request:
    """workflows.Request from the options of ``measure_options`` or ``stored_options``.

    Args:
        values: Values of the options.
        system: As for :meth:`Request.of`.
        known: As for :meth:`Request.of`.
        measured: As for :meth:`Request.of`.
    """
    chosen = backend_options_of(values)
    return _request(values["backend"], chosen, values, system, known, measured)


def sources_of(values: dict[str, Any]) -> dict[str, str]:
    """Sources of models by their names, from ``--source``."""
    return dict(_pairs(values["sources"], "--source"))


def approached(values: dict[str, Any], approach: workflows.Approach) -> workflows.Request:
    """Request for figures by an approach, from the options of ``measure_options``."""
    how = {"precision": approach.precision, "condition": approach.condition}
    return request_of({**values, **how})


def backend_options_of(values: dict[str, Any]) -> dict[str, str]:
    """Settings of a single backend, from the option ``--backend-option``."""
    return dict(_pairs(values["backend_options"], "--backend-option"))


def requests_of(values: dict[str, Any], fewest: int = 2) -> list[workflows.Request]:
    """workflows.Request for each backend in ``measure_each_options``, with ``timing_options``.

    Args:
        values: Values of the options.
        fewest: Minimum number of backends.
    """
    chosen: dict[str, dict[str, str]] = {n.strip(): {} for n in values["backends"].split(",")}
    for text, value in _pairs(values["backend_options"], "--backend-option"):
        name, _, key = text.partition(".")
        if name not in chosen or not key:
            raise click.BadParameter(
                f"{text}={value}: write BACKEND.KEY=VALUE for one of {', '.join(chosen)}",
                param_hint="--backend-option",
            )
        chosen[name][key] = value
    if len(chosen) < fewest:
        raise click.BadParameter("name two or more, with commas between", param_hint="--backends")
    return [_request(name, each, values) for name, each in chosen.items()]


def _request(
    backend: str,
    backend_options: dict[str, str],
    values: dict[str, Any],
    system: System | None = None,
    known: Callable[[], Sequence[workflows.KnownSetup]] = tuple,
    measured: Setup | None = None,
) -> workflows.Request:
    opened = open_request_of({**values, "backend": backend}, backend_options)
    return workflows.Request.of(**opened, system=system, known=known, measured=measured)


def open_request_of(
    values: dict[str, Any], backend_options: dict[str, str] | None = None
) -> dict[str, Any]:
    """Arguments of :meth:`Request.of` that do not depend on the machine, as plain data.

    Args:
        values: Values of the options.
        backend_options: Settings of the backend; ``None`` for those of ``--backend-option``.
    """
    chosen = backend_options_of(values) if backend_options is None else backend_options
    return {
        "backend": values["backend"],
        "quantity": values.get("quantity", LATENCY.name),
        "threads": values["threads"],
        "protocol": values.get("protocol", next(iter(figures.PROTOCOLS))),
        "runs": values.get("runs"),
        "backend_options": chosen,
        "seed": values["seed"],
        "timeout_s": TIMEOUT_S if values.get("timeout_s") is None else values["timeout_s"],
        "force": values.get("force", False),
        "retry_failed": values.get("retry_failed", False),
        "precision": values.get("precision"),
        "budget_s": values.get("budget_s"),
        "condition": values.get("condition") or "cold",
    }


def _pairs(texts: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    pairs = []
    for text in texts:
        name, equals, value = text.rpartition("=")
        if not equals or not name or not value:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        pairs.append((name, value))
    return pairs
