"""What the command line does, as functions that open stores and load models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import onnx

from dlbricks_core import workflows
from dlbricks_core.api.results import Bricks, ComparisonResult, Estimates, LoadedModel, Timings
from dlbricks_core.bricks import BrickSet
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.ir import CanonicalModel, RawModel, read_model
from dlbricks_core.store import ResultStore
from dlbricks_core.workflows import CutOptions, LoadOptions, ModelLoader, Observer, Request

Source = str | Path | onnx.ModelProto | RawModel | CanonicalModel | LoadedModel
Sources = Source | Iterable[Source]
Store = str | Path | ResultStore | None


def load(
    source: Source,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    fold_batchnorm: bool = False,
    values: Mapping[str, float] | None = None,
) -> LoadedModel:
    """Loads a model and brings it into canonical form; weights are not read.

    Args:
        source: A path, ``"collection:name"``, an ONNX ``ModelProto``, or what an
            importer gives.
        batch: Size of dynamic batch axes.
        dims: Sizes of other dynamic dimensions, by name.
        shapes: Whole shapes of inputs, by name.
        fold_batchnorm: Whether to fold BatchNormalization into the layer before it.
        values: Numbers that inputs always hold, by name.

    Raises:
        ModelError: If it cannot be read.

    Example:
        >>> load("onnx:light_squeezenet")
        <LoadedModel light_squeezenet: 65 layers, inputs data_0: float32[1x3x224x224]>
    """
    models = _models(
        source, LoadOptions(batch, dims or {}, shapes or {}, fold_batchnorm, values or {})
    )
    if len(models) != 1:
        raise ModelError(f"{source} names {len(models)} models", hint="Load them one by one.")
    return LoadedModel(models[0])


def cut(models: Sources, *, granularity: int = 1, split: str = "chain") -> Bricks:
    """Cuts models into bricks, and keeps one of each.

    Args:
        models: One or several, as :func:`load` takes them.
        granularity: The most layers that a brick may hold.
        split: Name of the split strategy.
    """
    return Bricks(BrickSet.of(_models(models), granularity, split))


def time(
    models: Sources,
    *,
    backend: str,
    granularity: int = 1,
    split: str = "chain",
    store: Store = None,
    runs: int | None = None,
    threads: int | None = None,
    **more: Any,
) -> Timings:
    """Times the bricks of models; what the store holds is not measured again.

    Args:
        models: One or several, as :func:`load` takes them.
        backend: Name of the framework's plugin.
        granularity: The most layers that a brick may hold.
        split: Name of the split strategy.
        store: Where results are kept: a path, an open store, or ``None`` for the user's own.
        runs: Runs of each brick; ``None`` for as many as ``precision`` needs.
        threads: For one operator; ``None`` for the physical cores available.
        **more: Further arguments of :meth:`dlbricks_core.workflows.Request.of`:
            ``protocol``, ``backend_options``, ``seed``, ``timeout_s``, ``force``, ``retry_failed``,
            ``precision`` (0.01 is 1%), ``budget_s``.
    """
    request = Request.of(backend, runs=runs, threads=threads, **more)
    with _opened(store) as opened:
        return Timings(
            workflows.run(
                _models(models), CutOptions(granularity, split), request, opened, Observer(),
                end_to_end=False,
            )
        )  # fmt: skip


def estimate(
    models: Sources,
    *,
    backend: str,
    granularity: int | None = None,
    split: str | None = None,
    composer: str | None = None,
    end_to_end: bool = False,
    stored: bool = False,
    store: Store = None,
    runs: int | None = None,
    threads: int | None = None,
    **more: Any,
) -> Estimates:
    """Estimates models from their bricks, timing what the store lacks.

    Args:
        models: One or several, as :func:`load` takes them.
        backend: Name of the framework's plugin.
        granularity: The most layers that a brick may hold; ``None`` for the composer's own.
        split: Name of the split strategy; ``None`` for the composer's own.
        composer: How models are cut and latencies joined; ``None`` for the one that
            estimates best, or for the paper's where a granularity or strategy is given.
        end_to_end: Whether to time the whole models too, to compare.
        stored: Whether to take everything from the store and run nothing.
        store: As for :func:`time`.
        runs: As for :func:`time`.
        threads: As for :func:`time`.
        **more: As for :func:`time`.
    """
    request = Request.of(backend, runs=runs, threads=threads, **more)
    cut_options = CutOptions.chosen(granularity, split, composer)
    asked = (granularity, split, composer) != (None, None, None)
    with _opened(store, writes=not stored) as opened:
        if stored:
            wanted = cut_options if asked else None
            return Estimates(workflows.estimate(_models(models), wanted, request, opened))
        return Estimates(
            workflows.run(
                _models(models), cut_options, request, opened, Observer(), end_to_end=end_to_end
            )
        )


def compare(
    models: Sources,
    *,
    backends: Sequence[str],
    granularity: int = 1,
    split: str = "chain",
    store: Store = None,
    runs: int | None = None,
    threads: int | None = None,
    backend_options: Mapping[str, Mapping[str, str]] | None = None,
    **more: Any,
) -> ComparisonResult:
    """Times the same bricks and models on several backends, side by side.

    Args:
        models: One or several, as :func:`load` takes them.
        backends: Names of the frameworks' plugins, two or more.
        granularity: The most layers that a brick may hold.
        split: Name of the split strategy.
        store: As for :func:`time`.
        runs: As for :func:`time`.
        threads: As for :func:`time`.
        backend_options: For each backend that needs some.
        **more: ``protocol``, ``seed``, ``timeout_s``, ``force``, ``retry_failed``,
            ``precision``, ``budget_s``.
    """
    chosen = backend_options or {}
    for name in chosen:
        if name not in backends:
            raise DLBricksError(
                f"options for the backend {name!r}, which is not compared",
                hint=f"Give options by backend: {', '.join(backends)}.",
            )
    requests = [
        Request.of(name, runs=runs, threads=threads, backend_options=chosen.get(name, {}), **more)
        for name in backends
    ]
    with _opened(store) as opened:
        return ComparisonResult(
            workflows.compare(
                _models(models), CutOptions(granularity, split), requests, opened, Observer()
            )
        )


def _models(sources: Sources, options: LoadOptions | None = None) -> list[CanonicalModel]:
    single = isinstance(
        sources, str | Path | onnx.ModelProto | RawModel | CanonicalModel | LoadedModel
    )
    every = cast("Iterable[Source]", [sources] if single else sources)
    with ModelLoader(options) as loader:
        return loader.load(_importable(source) for source in every)


def _importable(source: Source) -> str | RawModel:
    if isinstance(source, LoadedModel):
        return source.ir.as_raw()
    if isinstance(source, CanonicalModel):
        return source.as_raw()
    if isinstance(source, onnx.ModelProto):
        return read_model(source, name=source.graph.name or "model")
    return source if isinstance(source, RawModel) else str(source)


def _opened(store: Store, *, writes: bool = True) -> AbstractContextManager[ResultStore]:
    if isinstance(store, ResultStore):
        return nullcontext(store)
    return ResultStore.open(store, writes=writes)
