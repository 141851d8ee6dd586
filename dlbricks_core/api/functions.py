"""Functions of the API on models: load, cut, time, estimate, harvest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Unpack

from dlbricks_core.api.inputs import (
    Measuring,
    Source,
    Sources,
    Store,
    check_names,
    checked,
    job_store,
    models_of,
    opened_store,
    request_of,
    strict_models,
)
from dlbricks_core.api.results import Bricks, Estimates, LoadedModel, Timings
from dlbricks_core.backends import Backend
from dlbricks_core.bricks import BrickSet
from dlbricks_core.commands.estimate.actions import EstimateJob
from dlbricks_core.commands.options.models import Models
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.estimation.run import harvest as keep
from dlbricks_core.estimation.run import run as run_models
from dlbricks_core.importers import LoadOptions
from dlbricks_core.plugins import discover
from dlbricks_core.progress import Observer


def load(
    source: Source,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    fold_batchnorm: bool = False,
    values: Mapping[str, float | Sequence[float] | None] | None = None,
    dtype: str | None = None,
    outputs: Sequence[str] | None = None,
) -> LoadedModel:
    """Loads a model and brings it into canonical form; weights are not read.

    Args:
        source: A path, ``"collection:name"``, an ONNX ``ModelProto``, or a model from an importer.
        batch: Size of the batch axes that the model leaves open. Fixed sizes do not change.
        dims: Sizes of other dimensions that the model leaves open, by name.
        shapes: Whole shapes of inputs, by name.
        fold_batchnorm: Whether to fold each BatchNormalization into the layer before it.
        values: Constant values of inputs, by name: one number for all elements, or one for each
            element; ``None`` for an optional input that is left out.
        dtype: Element type to convert the model to, such as ``"bfloat16"``; ``None`` to keep the
            model's types.
        outputs: Names of the outputs to keep; ``None`` for all. Layers that only other outputs
            need are dropped.

    Raises:
        DLBricksError: If an argument is wrong.
        ModelError: If the model cannot be read or converted.

    Examples:
        >>> load("onnx:light_squeezenet")
        <LoadedModel light_squeezenet: 65 layers, inputs data_0: float32[1x3x224x224]>
    """
    given = checked(
        batch=batch,
        dims=dims,
        shapes=shapes,
        fold_batchnorm=fold_batchnorm,
        values=values,
        dtype=dtype,
        outputs=outputs,
    )
    models = models_of(source, LoadOptions(**given))
    if len(models) != 1:
        what = source if isinstance(source, str) else "the argument"
        raise ModelError(f"{what} names {len(models)} models", hint="Load them one by one.")
    return LoadedModel(models[0])


def cut(models: Sources, *, granularity: int = 1, split: str = "chain") -> Bricks:
    """Cuts models into the paper's bricks, and keeps one of each different brick.

    :func:`time` and :func:`estimate` use the same bricks if they get the same ``granularity``.
    Without a granularity, they cut the graph into which the backend rewrites a model.

    Args:
        models: One model or several, as for :func:`load`.
        granularity: Maximum number of layers in a brick.
        split: Name of the split strategy.

    Raises:
        DLBricksError: If an argument is wrong.
        ModelError: If a model cannot be read.
    """
    given = checked(granularity=granularity, split=split)
    return Bricks(
        BrickSet.of(models_of(models), given.get("granularity", 1), given.get("split", "chain"))
    )


def time(
    models: Sources,
    *,
    backend: str,
    granularity: int | None = None,
    split: str | None = None,
    composer: str | None = None,
    store: Store = None,
    backend_options: Mapping[str, str] | None = None,
    **measuring: Unpack[Measuring],
) -> Timings:
    """Times the bricks of models, except for bricks whose latency the store has.

    The bricks are those of :func:`estimate` with ``runs``, ``granularity``, ``split`` or
    ``composer``. An estimate with the same arguments therefore finds all of its bricks in the
    store.

    Args:
        models: One model or several, as for :func:`load`.
        backend: Name of the framework's plugin.
        granularity: Maximum number of layers in a brick; ``None`` for the composer's default.
        split: Name of the split strategy; ``None`` for the composer's default.
        composer: Name of the composer, which decides how models are cut and how latencies are
            joined. ``None`` for the most accurate composer, or for the paper's if a granularity
            or a split strategy is given.
        store: Store of all results: a path, the URL of a PostgreSQL database, an open store, or
            ``None`` for the user's own file.
        backend_options: Values of options that the backend declares, by name.
        **measuring: Arguments that :class:`Measuring` explains: ``quantity``, ``runs``,
            ``threads``, ``precision``, ``budget_s``, ``protocol``, ``seed``, ``timeout_s``,
            ``force`` and ``retry_failed``.

    Raises:
        DLBricksError: If an argument is wrong.
        ModelError: If a model cannot be read. A brick that cannot be timed is not an error:
            ``failures`` of the result names it.
    """
    request = request_of(backend, backend_options, measuring)
    how = checked(granularity=granularity, split=split, composer=composer)
    parts = map(how.get, ("granularity", "split", "composer"))
    cutting = CutOptions.chosen(*parts, quantity=request.quantity.name)
    every = models_of(models)
    with opened_store(store) as opened:
        return Timings(run_models(every, cutting, request, opened, Observer(), end_to_end=False))


def estimate(
    models: Sources,
    *,
    backend: str,
    granularity: int | None = None,
    split: str | None = None,
    composer: str | None = None,
    end_to_end: bool = False,
    measure: bool = False,
    predictor: str | None = None,
    system: str | None = None,
    store: Store = None,
    backend_options: Mapping[str, str] | None = None,
    **measuring: Unpack[Measuring],
) -> Estimates:
    """Estimates models from the store and from predictions, or with as few runs as possible.

    Without ``measure`` and ``precision``, nothing runs, and the framework need not be installed.
    The result includes the latency of the whole model if the store has it. With ``measure``, as few
    models as possible run until all intervals are within ±10%; with ``precision``, until they are
    as narrow as it says. If ``runs``, ``granularity``, ``split`` or ``composer`` is given too, all
    bricks are timed alone.

    Args:
        models: One model or several, as for :func:`load`.
        backend: Name of the framework's plugin.
        granularity: As for :func:`time`.
        split: As for :func:`time`.
        composer: As for :func:`time`.
        end_to_end: Whether to time the whole models too, to compare.
        measure: Whether models run until estimates are as precise as requested.
        predictor: Name of the predictor of bricks that the store lacks, if nothing runs; ``None``
            for the predictor of DLBricks itself, ``"none"`` to leave these bricks out.
        system: Machine to estimate for, if nothing runs: its name, or the start of its
            fingerprint, as ``dlbricks machine list`` lists them; ``None`` for this machine.
        store: As for :func:`time`.
        backend_options: As for :func:`time`.
        **measuring: As for :func:`time`.

    Raises:
        DLBricksError: If an argument is wrong.
        ModelError: If a model cannot be read.
    """
    how = {
        "granularity": granularity, "split": split, "composer": composer, "predictor": predictor,
        "end_to_end": end_to_end, "measure": measure, "system": system,
    }  # fmt: skip
    return estimates(strict_models(models), backend, backend_options, store, measuring, how)


def estimates(
    models: Models,
    backend: str,
    backend_options: Mapping[str, str] | None,
    store: Store,
    measuring: Measuring,
    how: Mapping[str, Any],
) -> Estimates:
    """Estimates of models from checked arguments.

    Args:
        models: The models.
        backend: Name of the framework's plugin.
        backend_options: As for :func:`time`.
        store: As for :func:`time`.
        measuring: How to measure.
        how: Further settings of the job, by name.
    """
    check_names(measuring)
    timing = {name: each for name, each in measuring.items() if name != "threads"}
    threads = checked(threads_by_phase=measuring.get("threads")).get("threads_by_phase")
    given = {**checked(backend=backend, **timing, **how), "threads": threads}
    # Left open and False are the same here: only the command has a set of models to compare.
    given["end_to_end"] = given.get("end_to_end") or None
    job = EstimateJob(models=models, backend_options=backend_options or {}, **given)
    return Estimates(job.run(job_store(store), Observer()).result)


@contextmanager
def harvest(
    model: object, *, store: Store = None, backend_options: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Stores latencies of a model that the user's own program runs inside of the context.

    When the context ends, a separate process profiles a few more runs of the model. Their shares
    give the latency of each brick within the model. Later estimates of models with the same bricks
    use these latencies.

    Args:
        model: A session of ONNX Runtime, a module of PyTorch, or a hybrid block of MXNet.
        store: As for :func:`time`.
        backend_options: As for :func:`time`.

    Raises:
        DLBricksError: If no backend runs such a model, or the model does not run inside of the
            context.

    Examples:
        >>> with dlbricks.harvest(session):  # doctest: +SKIP
        ...     for batch in batches:
        ...         session.run(None, batch)
    """
    for plugin in discover("backend", Backend):
        backend = None if plugin.problem else plugin.loaded()
        watched = backend.watch(model) if backend is not None else None
        if watched is not None:
            break
    else:
        raise DLBricksError(
            f"no backend runs a {type(model).__name__}",
            hint="Give a session of ONNX Runtime, a module of PyTorch or a hybrid block of MXNet.",
        )
    with watched as seen:
        yield
    if not seen.samples_ms:
        raise DLBricksError(
            f"the {type(model).__name__} did not run", hint="Run it inside of the with block."
        )
    (loaded,) = models_of(seen.source, LoadOptions(shapes=seen.shapes))
    request = request_of(plugin.name, backend_options, {"threads": seen.threads})
    with opened_store(store) as opened:
        keep(loaded, seen.samples_ms, request, opened, Observer())
