"""Requests for several sizes from the options of a command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from dlbricks_core.commands.options.given import pairs
from dlbricks_core.importers import parse_shape
from dlbricks_sizes.generation import Generation, of_task
from dlbricks_sizes.loading import Sized
from dlbricks_sizes.pictures import with_pictures
from dlbricks_sizes.sweeping import Sweep


def sizes_of(values: Mapping[str, Any], names: Sequence[str] = ()) -> Sized | None:
    """Requested sizes of models, from ``sizes_options``; ``None`` for a single size.

    Args:
        values: Values of the options.
        names: Names of the models, whose configurations say how many tokens pictures have.
    """
    found = _without_pictures(values)
    if values["pictures"] is None:
        return found
    if found is None:
        found = Generation({})
    if not isinstance(found, Generation):
        raise click.UsageError("--pictures needs --prompt, --generate or --task.")
    return with_pictures(found, values["pictures"], names)


def _without_pictures(values: Mapping[str, Any]) -> Sized | None:
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


def answer_of(values: Mapping[str, Any]) -> Generation | None:
    """Requested answer of language models, from ``answer_options``; ``None`` for single runs."""
    given = _tokens(values)
    if given and values["batch"] is not None:
        given["batch"] = (values["batch"],)
    return Generation(given) if given else None


def _tokens(values: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
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
