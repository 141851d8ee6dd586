"""Translates options of a command line into requests, and into sizes of models."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, TypeVar

import click

from dlbricks_core.commands.options.jobs import Models, open_request
from dlbricks_core.commands.options.reading import import_settings_of, load_options_of, pairs
from dlbricks_core.estimation.sizes import Generation, Sized, Sweep, of_task
from dlbricks_core.importers import parse_shape
from dlbricks_core.measure.request import Request

JobT = TypeVar("JobT")


def sizes_of(values: dict[str, Any]) -> Sized | None:
    """Requested sizes of models, from ``sizes_options``; ``None`` for a single size."""
    sweeps = _sweeps(values["sweeps"])
    given = _tokens(values)
    varied = [name for axis in sweeps for name in axis.split(",")]
    generates = bool(given) or not {"prompt", "generate"}.isdisjoint(varied)
    if generates and values["batch"] is not None:
        given["batch"] = (values["batch"],)
    typed = [each for each in ("prompt", "generate") if values[each] is not None]
    taken = {*typed, *(["batch"] if values["batch"] is not None else []),
             *(text.rpartition("=")[0] for text in values["dims"])}  # fmt: skip
    for name in varied:
        if name in taken:
            raise click.BadParameter(
                f"{name} is also given by itself: leave that out", param_hint="--sweep"
            )
    if generates:
        return Generation({**given, **sweeps})
    return Sweep(sweeps) if sweeps else None


def answer_of(values: dict[str, Any]) -> Generation | None:
    """Requested answer of language models, from ``answer_options``; ``None`` for single runs."""
    given = _tokens(values)
    if given and values["batch"] is not None:
        given["batch"] = (values["batch"],)
    return Generation(given) if given else None


def _tokens(values: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    """Tokens of the prompt and of the answer, as far as they or a task are given."""
    typed = {name: (values[name],) for name in ("prompt", "generate") if values[name] is not None}
    return {**of_task(values["task"]), **typed}


def _sweeps(texts: tuple[str, ...]) -> dict[str, tuple[int | tuple[int, ...], ...]]:
    """Distinct sizes by the name of a dimension, or by several with commas between."""
    found = {}
    for name, text in pairs(texts, "--sweep"):
        try:
            found[name] = tuple(dict.fromkeys(map(_size, text.split(","))))
        except ValueError as error:
            raise click.BadParameter(
                f"{name}={text}: write sizes with commas between (sequence=1,128,512; of "
                "dimensions that vary together batch,sequence=1x128,8x32)",
                param_hint="--sweep",
            ) from error
    return found


def _size(text: str) -> int | tuple[int, ...]:
    return parse_shape(text) if "x" in text else int(text)


def request_of(values: dict[str, Any]) -> Request:
    """Request from the options of ``measure_options`` or ``stored_options``."""
    return Request.of(**open_request_of(values))


def backend_options_of(values: dict[str, Any]) -> dict[str, str]:
    """Settings of a single backend, from the option ``--backend-option``."""
    return dict(pairs(values["backend_options"], "--backend-option"))


def requests_of(values: dict[str, Any]) -> list[Request]:
    """Request for each backend in ``measure_each_options``, with ``timing_options``."""
    options = options_by_backend(values)
    return [
        Request.of(**open_request_of({**values, "backend": name}, options[name]))
        for name in dict.fromkeys(backends_of(values))
    ]


def backends_of(values: dict[str, Any]) -> list[str]:
    """Names of backends, from the option ``--backends``."""
    return [name.strip() for name in values["backends"].split(",")]


def options_by_backend(values: dict[str, Any]) -> dict[str, dict[str, str]]:
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


def open_request_of(
    values: dict[str, Any], backend_options: dict[str, str] | None = None
) -> dict[str, Any]:
    """Arguments of :meth:`Request.of` that do not depend on the machine, as plain data.

    Args:
        values: Values of the options.
        backend_options: Settings of the backend; ``None`` for the values of ``--backend-option``.
    """
    chosen = backend_options_of(values) if backend_options is None else backend_options
    return open_request({**values, "backend_options": chosen})


def models_of(names: tuple[str, ...], values: dict[str, Any]) -> Models:
    """Models that the user names, from ``load_options`` and maybe ``sizes_options``.

    Args:
        names: Names of models as typed by the user.
        values: Values of the options.
    """
    return Models(
        names,
        load_options_of(values),
        import_settings_of(values),
        sizes_of(values) if "sweeps" in values else None,
    )


def job_of(job: type[JobT], names: tuple[str, ...], values: dict[str, Any], **chosen: Any) -> JobT:
    """The job that the options request.

    Args:
        job: Kind of the job, a data class with the field ``models``.
        names: Names of models as typed by the user.
        values: Values of the options.
        **chosen: Fields whose values differ from the options of the same names.
    """
    own = {each.name for each in fields(job)}  # type: ignore[arg-type]
    given = {name: value for name, value in values.items() if name in own}
    if {"backends", "backend_options"} <= own:
        chosen |= {"backends": backends_of(values), "backend_options": options_by_backend(values)}
    elif "backend_options" in own:
        chosen["backend_options"] = backend_options_of(values)
    if "models" not in chosen:
        chosen["models"] = models_of(names, values)
    return job(**{**given, **chosen})
