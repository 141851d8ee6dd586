"""Inputs of the API's functions: checked arguments, models, stores, settings of measurements."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields
from types import MappingProxyType
from typing import Any, TypedDict

import onnx

from dlbricks_core.api.results import LoadedModel
from dlbricks_core.commands import SizesRequest
from dlbricks_core.commands.options.jobs import opened
from dlbricks_core.commands.options.models import Models
from dlbricks_core.commands.options.settings import SETTINGS, Setting
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.importers import LoadOptions
from dlbricks_core.importers.models import ModelLoader
from dlbricks_core.ir import CanonicalModel, RawModel, read_model
from dlbricks_core.measure.request import Request
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import settings

Source = str | os.PathLike[str] | onnx.ModelProto | RawModel | CanonicalModel | LoadedModel
Sources = Source | Iterable[Source]
Store = str | os.PathLike[str] | ResultStore | None

# Bytes and mappings are no models, but must not be read as lists of models.
_SOURCE_TYPES = (
    str, os.PathLike, onnx.ModelProto, RawModel, CanonicalModel, LoadedModel, bytes, Mapping,
)  # fmt: skip


class Measuring(TypedDict, total=False):
    """Arguments on how to measure: of :func:`time`, :func:`estimate`, and comparisons.

    ``None`` means the default.

    Attributes:
        runs: Runs of each brick and model; without it, as many as ``precision`` needs.
        threads: Threads that compute one operator; without it, all physical cores that the
            process may use. For :func:`answer` also by phase: ``{"prompt": 8, "token": 4}``.
        precision: Half-width of the 90% intervals to reach, relative to the latency. The default
            is 0.1 (10%) for :func:`estimate`, 0.05 for a comparison, and 0.01 for bricks that are
            timed alone.
        budget_s: Seconds after which measuring ends, whether the precision is reached or not. The
            default is 120 for bricks that are timed alone. With a budget and no precision, the
            precision of :func:`estimate` is 0.05. A comparison accepts a budget in the cold
            condition only.
        condition: Condition of the latencies: ``"hot"``, a whole model in a loop of its own, as its
            user runs it, or ``"cold"``, after other networks. Without it, hot unless bricks are
            timed alone.
        protocol: Order of the runs of networks that are timed alone: ``"interleaved"``, which is
            the default, or ``"paper"``.
        seed: Seed of weights and inputs; without it, 0.
        timeout_s: Maximum time in seconds to load a brick or a model, or to run it once; without
            it, 120.
        force: Whether to repeat stored measurements.
        retry_failed: Whether to repeat failed measurements.
        busy: Behaviour if other programs use the CPUs before the first round: ``"wait"`` for quiet,
            a minute at most (the default), or ``"accept"`` the busy machine at once.
        quantity: Name of the measured and estimated quantity, such as ``"peak-memory"``; without
            it, latency. The metrics of other quantities set the number of observations, so
            ``precision`` and ``budget_s`` apply to latency alone.
    """

    runs: int | None
    threads: int | Mapping[str, int] | None
    precision: float | None
    budget_s: float | None
    condition: str | None
    protocol: str | None
    seed: int | None
    timeout_s: float | None
    force: bool | None
    retry_failed: bool | None
    busy: str | None
    quantity: str | None


def check_names(measuring: Measuring) -> None:
    """Refuses arguments that :class:`Measuring` does not define.

    Raises:
        TypeError: If an argument is not defined.
    """
    known = Measuring.__annotations__
    of_load = {each.name for each in fields(LoadOptions)}
    for name in measuring:
        if name in of_load:
            raise TypeError(f"unexpected argument {name!r}: give it to load(), and pass the result")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise TypeError(
                f"unexpected argument {name!r}: "
                + (f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}")
            )


def request_of(
    backend: str,
    backend_options: Mapping[str, str] | None,
    measuring: Measuring,
) -> Request:
    """Request from arguments of the API.

    Args:
        backend: Name of the backend.
        backend_options: Values of its options, by name.
        measuring: How to measure.

    Raises:
        DLBricksError: If an argument has a wrong value.
        TypeError: If there is no such argument.
    """
    check_names(measuring)
    given = cold(checked(backend=backend, **measuring))
    return Request.of(**given, backend_options={} if backend_options is None else backend_options)


def cold(given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of functions that time bricks alone, without the condition.

    Raises:
        DLBricksError: If another condition is requested.
    """
    condition = given.pop("condition", "cold")
    if condition != "cold":
        raise DLBricksError(
            f"bricks that are timed alone are not {condition}",
            hint=f"Leave {settings(condition=condition)} out, or estimate whole models.",
        )
    return given


def models_of(sources: Sources, options: LoadOptions | None = None) -> list[CanonicalModel]:
    """Models in canonical form.

    Args:
        sources: One model or several.
        options: Options of reading the models.

    Raises:
        ModelError: If there is no model, or a model cannot be read.
    """
    with ModelLoader(options) as loader:
        return loader.load(sources_of(sources))


def strict_models(
    sources: Sources, options: LoadOptions | None = None, sizes: SizesRequest | None = None
) -> Models:
    """Models of a job in which any failure of a model is an error.

    Args:
        sources: One model or several.
        options: Options of reading the models.
        sizes: Requested sizes.

    Raises:
        ModelError: If there is no source, or a source is not a model.
    """
    return Models(sources_of(sources), options or LoadOptions(), sizes=sizes, strict=True)


def sources_of(sources: Sources) -> list[str | RawModel]:
    """Sources of models or loaded models; one or more.

    Raises:
        ModelError: If there is no source, or a source is not a model.
    """
    every = [_importable(source) for source in _several(sources)]
    if not every:
        raise ModelError("no model is given", hint="Give one model or more.")
    return every


def _several(sources: Any) -> Iterable[Any]:
    single = isinstance(sources, _SOURCE_TYPES) or not isinstance(sources, Iterable)
    return [sources] if single else sources


def _importable(source: Any) -> str | RawModel:
    if isinstance(source, LoadedModel):
        return source.ir.as_raw()
    if isinstance(source, CanonicalModel):
        return source.as_raw()
    if isinstance(source, onnx.ModelProto):
        return read_model(source, name=source.graph.name or "model")
    if isinstance(source, RawModel):
        return source
    if not isinstance(source, str | os.PathLike) or not os.fspath(source):
        raise ModelError(
            f"not a model: {source!r:.80}",
            hint="A model is a path, 'collection:name', an ONNX ModelProto, or a model from an "
            "importer. Plugins have importers for the models of their frameworks.",
        )
    return os.fspath(source)


def opened_store(
    store: Store, *, writes: bool = True, create: bool = True
) -> AbstractContextManager[ResultStore]:
    """A store to use in a ``with`` statement; arguments as for :func:`.jobs.opened`."""
    return opened(job_store(store), writes=writes, create=create)


def job_store(store: Store) -> str | ResultStore | None:
    """The store that a job runs with."""
    found: str | ResultStore | None = checked(store=store).get("store")
    return found


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
