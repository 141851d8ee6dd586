"""Functions of the API, which load models, open stores and call workflows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Unpack

from dlbricks_core import workflows
from dlbricks_core.api.arguments import checked
from dlbricks_core.api.inputs import (
    Measuring,
    Source,
    Sources,
    Store,
    cut_options,
    models_of,
    opened_store,
    request_of,
)
from dlbricks_core.api.results import (
    Bricks,
    ComparisonResult,
    Estimates,
    LoadedModel,
    Systems,
    Timings,
)
from dlbricks_core.bricks import BrickSet
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.report.files import write_bytes
from dlbricks_core.wording import argument, settings
from dlbricks_core.workflows import (
    NO_PREDICTOR,
    PREDICTOR,
    CutOptions,
    LoadOptions,
    Observer,
    travelling,
)


def load(
    source: Source,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    fold_batchnorm: bool = False,
    values: Mapping[str, float] | None = None,
) -> LoadedModel:
    """Loads a model and brings it into canonical form; weights are not read.

    Args:
        source: A path, ``"collection:name"``, an ONNX ``ModelProto``, or what an
            importer gives.
        batch: Size of the batch axes that the model leaves open. A size that the model fixes
            stays as it is.
        dims: Sizes of other dimensions that the model leaves open, by name.
        shapes: Whole shapes of inputs, by name.
        fold_batchnorm: Whether to fold each BatchNormalization into the layer before it.
        values: Numbers that inputs always hold, by name.

    Raises:
        DLBricksError: If an argument is wrong.
        ModelError: If the model cannot be read.

    Examples:
        >>> load("onnx:light_squeezenet")
        <LoadedModel light_squeezenet: 65 layers, inputs data_0: float32[1x3x224x224]>
    """
    given = checked(
        batch=batch, dims=dims, shapes=shapes, fold_batchnorm=fold_batchnorm, values=values
    )
    models = models_of(source, LoadOptions(**given))
    if len(models) != 1:
        what = source if isinstance(source, str) else "the argument"
        raise ModelError(f"{what} names {len(models)} models", hint="Load them one by one.")
    return LoadedModel(models[0])


def cut(models: Sources, *, granularity: int = 1, split: str = "chain") -> Bricks:
    """Cuts models as they are into bricks, and keeps one of each.

    These are the paper's bricks. :func:`time` and :func:`estimate` take the same ones if they are
    given the same ``granularity``; without it they cut what the backend makes of a model.

    Args:
        models: One or several, as :func:`load` takes them.
        granularity: The most layers that a brick may hold.
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
    """Times the bricks of models; what the store holds is not measured again.

    Models are cut as :func:`estimate` cuts them. An estimate with the same arguments therefore
    finds all of its bricks in the store.

    Args:
        models: One or several, as :func:`load` takes them.
        backend: Name of the framework's plugin.
        granularity: The most layers that a brick may hold; ``None`` for the composer's own.
        split: Name of the split strategy; ``None`` for the composer's own.
        composer: Name of the composer, which says how models are cut and how latencies are
            joined. ``None`` is the composer that estimates best, or the paper's if a granularity
            or a split strategy is given.
        store: Store of all results: a path, the URL of a PostgreSQL database, an open store, or
            ``None`` for the user's own file.
        backend_options: Values of options that the backend declares, by name.
        **measuring: Arguments that :class:`Measuring` explains: ``runs``, ``threads``,
            ``precision``, ``budget_s``, ``protocol``, ``seed``, ``timeout_s``, ``force`` and
            ``retry_failed``.

    Raises:
        DLBricksError: If an argument is wrong.
        ModelError: If a model cannot be read. A brick that cannot be timed is no error:
            ``failures`` of the result names it.
    """
    request = request_of(backend, backend_options, measuring)
    cutting = cut_options(granularity, split, composer)
    every = models_of(models)
    with opened_store(store) as opened:
        return Timings(workflows.run(every, cutting, request, opened, Observer(), end_to_end=False))


def estimate(
    models: Sources,
    *,
    backend: str,
    granularity: int | None = None,
    split: str | None = None,
    composer: str | None = None,
    end_to_end: bool = False,
    stored: bool = False,
    predictor: str | None = None,
    system: str | None = None,
    store: Store = None,
    backend_options: Mapping[str, str] | None = None,
    **measuring: Unpack[Measuring],
) -> Estimates:
    """Estimates models from their bricks, timing or predicting what the store lacks.

    Args:
        models: One or several, as :func:`load` takes them.
        backend: Name of the framework's plugin.
        granularity: As for :func:`time`.
        split: As for :func:`time`.
        composer: As for :func:`time`.
        end_to_end: Whether to time the whole models too, to compare.
        stored: Whether to run nothing: what the store does not hold is predicted. The framework
            need not be installed. A latency of the whole model is then there if the store holds
            one.
        predictor: Name of the predictor, if ``stored``; ``None`` for the package's own, and
            ``"none"`` to leave missing what the store does not hold.
        system: Machine to estimate for, if ``stored``: its name, or the start of its fingerprint,
            as :func:`systems` lists them; ``None`` for this one.
        store: As for :func:`time`.
        backend_options: As for :func:`time`.
        **measuring: As for :func:`time`.

    Raises:
        DLBricksError: If an argument is wrong.
        ModelError: If a model cannot be read.
    """
    checked(end_to_end=end_to_end, stored=stored)
    asked = checked(predictor=predictor, system=system)
    if asked and not stored:
        first = next(iter(asked))
        raise DLBricksError(
            f"the {first} is for estimates that run nothing",
            hint=f"Add {settings(stored=True)}, or leave {argument(first)} out.",
        )
    name = asked.get("predictor", PREDICTOR)
    cutting = cut_options(granularity, split, composer)
    if not stored:
        request = request_of(backend, backend_options, measuring)
        every = models_of(models)
        with opened_store(store) as opened:
            return Estimates(
                workflows.run(every, cutting, request, opened, Observer(), end_to_end=end_to_end)
            )
    unsaid = (granularity, split, composer) == (None, None, None)
    with opened_store(store, writes=False) as opened:
        target, there = workflows.at_system(opened, asked.get("system"))
        setups = partial(workflows.known_setups, there, backend)
        request = request_of(backend, backend_options, measuring, target, setups)
        return Estimates(
            workflows.estimate(
                models_of(models),
                None if unsaid else cutting,
                request,
                there,
                None if name == NO_PREDICTOR else name,
            )
        )


def compare(
    models: Sources,
    *,
    backends: Sequence[str],
    granularity: int | None = None,
    split: str | None = None,
    store: Store = None,
    backend_options: Mapping[str, Mapping[str, str]] | None = None,
    **measuring: Unpack[Measuring],
) -> ComparisonResult:
    """Times models and their parts on several backends, side by side.

    Args:
        models: One or several, as :func:`load` takes them.
        backends: Names of the frameworks' plugins, two or more.
        granularity: The most layers that a brick may hold; ``None`` for segments of what each
            backend makes of a model. A number cuts the paper's layer sequences.
        split: Name of the split strategy; ``None`` as for ``granularity``.
        store: As for :func:`time`.
        backend_options: Options of backends, by the backend's name.
        **measuring: As for :func:`time`.

    Raises:
        DLBricksError: If an argument is wrong.
        ModelError: If a model cannot be read.
    """
    names = checked(backends=backends)["backends"]
    given = checked(granularity=granularity, split=split, backend_options=backend_options)
    own = given.pop("backend_options", {})
    for name in own:
        if name not in names:
            raise DLBricksError(
                f"options for the backend {name!r}, which is not compared",
                hint=f"Give options by backend: {', '.join(names)}.",
            )
    requests = [request_of(name, own.get(name), measuring) for name in names]
    cutting = CutOptions.chosen(given.get("granularity"), given.get("split"), None)
    every = models_of(models)
    with opened_store(store) as opened:
        return ComparisonResult(workflows.compare(every, cutting, requests, opened, Observer()))


def systems(*, store: Store = None) -> Systems:
    """Lists the systems of a store: what they are, and how much they measured.

    Args:
        store: A path, the URL of a PostgreSQL database, an open store, or ``None`` for the user's
            own file.

    Raises:
        DLBricksError: If there is no such store.
    """
    with opened_store(store, writes=False, create=False) as opened:
        return Systems(opened.inventory())


def export_store(
    path: str | os.PathLike[str],
    *,
    systems: Sequence[str] = (),
    backends: Sequence[str] = (),
    store: Store = None,
) -> dict[str, int]:
    """Writes what a store holds to a file that travels.

    Args:
        path: The file, such as ``measurements.jsonl.zst``.
        systems: Names of machines, or starts of fingerprints; none for all.
        backends: Names of backends; none for all.
        store: As for :func:`systems`.

    Returns:
        Numbers of what the file holds.

    Raises:
        DLBricksError: If there is no such store, system or backend, or the file cannot be written.
    """
    given = checked(systems=systems, backends=backends)
    with opened_store(store, writes=False, create=False) as opened:
        found = travelling.export(opened, travelling.Part(**given))
    write_bytes(found.content, Path(path))
    return found.numbers


def import_store(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, store: Store = None
) -> dict[str, int]:
    """Adds what files of :func:`export_store` hold to a store: all of them, or none.

    Args:
        paths: A file, or several.
        store: As for :func:`time`.

    Returns:
        Numbers of what was new.

    Raises:
        DLBricksError: If a file cannot be read, is damaged or is of a newer version.
    """
    several = [paths] if isinstance(paths, str | os.PathLike) else paths
    with opened_store(store) as opened:
        return asdict(travelling.import_files(opened, [Path(each) for each in several]))


def merge_stores(
    others: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, store: Store = None
) -> dict[str, int]:
    """Adds what other stores hold to a store: all of them, or none. They stay as they are.

    Args:
        others: A store, or several.
        store: As for :func:`time`.

    Returns:
        Numbers of what was new.

    Raises:
        DLBricksError: If one of the others is not there or cannot be read.
    """
    several = [others] if isinstance(others, str | os.PathLike) else others
    with opened_store(store) as opened:
        return asdict(travelling.merge(opened, [os.fspath(each) for each in several]))
