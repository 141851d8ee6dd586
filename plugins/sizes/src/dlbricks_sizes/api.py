"""The Python API: models at several sizes as functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Unpack, cast

from dlbricks_core.api.functions import estimates
from dlbricks_core.api.inputs import Measuring, Sources, Store, checked, sources_of, strict_models
from dlbricks_core.api.results import Estimates
from dlbricks_core.importers import LoadOptions
from dlbricks_sizes.generation import Generation, of_task
from dlbricks_sizes.pictures import with_pictures
from dlbricks_sizes.sweeping import Sweep


class AtSizes(Measuring, total=False):
    """Arguments that :func:`answer` and :func:`sweep` share, beside those of :class:`Measuring`.

    ``None`` means the default.

    Attributes:
        dims: Sizes of other dimensions that a model leaves open, by name.
        values: Constant values of inputs, by name: one number for all elements, or one for each
            element; ``None`` for an optional input that is left out.
        dtype: As for :func:`load`.
        outputs: As for :func:`load`.
        end_to_end: As for :func:`estimate`.
        measure: As for :func:`estimate`.
        system: As for :func:`estimate`.
        store: As for :func:`time`.
        backend_options: As for :func:`time`.
    """

    dims: Mapping[str, int] | None
    values: Mapping[str, float | Sequence[float] | None] | None
    dtype: str | None
    outputs: Sequence[str] | None
    end_to_end: bool | None
    measure: bool | None
    system: str | None
    store: Store
    backend_options: Mapping[str, str] | None


def answer(
    models: Sources,
    *,
    backend: str,
    prompt: int | Sequence[int] | None = None,
    generate: int | Sequence[int] | None = None,
    task: str | None = None,
    pictures: int | tuple[int, int, int] | None = None,
    depth: int | Sequence[int] = 0,
    batch: int | Sequence[int] = 1,
    **at_sizes: Unpack[AtSizes],
) -> Estimates:
    """Estimates how fast language models answer: time to first token, time per output token.

    Models are decoders whose inputs leave the number of new tokens and the length of the cache
    open: paths, names in a collection, or models from an importer, but no result of :func:`load`.
    Each number of tokens may be a list; every combination is a workload. For a quantity other than
    latency, the result has curves instead of answers: over new tokens, and tokens in the cache.

    Args:
        models: One or several.
        backend: Name of the framework's plugin.
        prompt: Number of tokens in the prompt; ``None`` for the number of ``task``, or for 512
            without a task.
        generate: Number of output tokens; ``None`` for the number of ``task``, or for 128 without
            a task.
        task: Category of MLPerf Client with these numbers of tokens, such as ``"summarization"``;
            ``None`` for no category.
        pictures: Number of pictures in each prompt in addition to its text, or (number, width,
            height). The configuration of the model determines the tokens of a picture.
        depth: Number of tokens in the cache before the prompt.
        batch: Number of requests that are computed together.
        **at_sizes: Arguments that :class:`AtSizes` explains: ``dims``, ``values``, ``dtype``,
            ``end_to_end``, ``measure``, ``system``, ``store``, ``backend_options``, and those of
            :class:`Measuring`.

    Raises:
        DLBricksError: If an argument is wrong.
        ModelError: If a model cannot be read, or is not a decoder with open dimensions and a cache.
    """
    axes = checked(prompt=prompt, generate=generate, depth=depth)
    axes = {**of_task(task), **axes}
    asked = Generation({**axes, "batch": checked(batches=batch)["batches"]})
    if pictures is not None:
        asked = with_pictures(asked, checked(pictures=pictures)["pictures"], sources_of(models))
    return _at_sizes(models, asked, backend, at_sizes)


def sweep(
    models: Sources,
    axes: Mapping[str, Sequence[int | Sequence[int]]],
    *,
    backend: str,
    batch: int | None = None,
    **at_sizes: Unpack[AtSizes],
) -> Estimates:
    """Estimates models over sizes of dimensions that they leave open.

    Args:
        models: One or several, as for :func:`answer`.
        axes: Sizes by the names of dimensions; ``batch`` means all batch axes. Every combination of
            sizes is a point. Dimensions that vary together are one axis: ``{"batch,sequence": [(1,
            128), (8, 32)]}``.
        backend: Name of the framework's plugin.
        batch: Size of batch axes, if ``batch`` is not an axis of the sweep.
        **at_sizes: As for :func:`answer`.

    Raises:
        DLBricksError: If an argument is wrong.
        ModelError: If a model cannot be read, or does not leave a dimension open.
    """
    return _at_sizes(models, Sweep(checked(axes=axes)["axes"]), backend, at_sizes, batch)


def _at_sizes(
    models: Sources,
    asked: Generation | Sweep,
    backend: str,
    given: AtSizes,
    batch: int | None = None,
) -> Estimates:
    names = ("dims", "values", "dtype", "outputs")
    options = LoadOptions(**checked(batch=batch, **{name: given.get(name) for name in names}))
    how = {name: given.get(name) for name in ("end_to_end", "measure", "system")}
    own = AtSizes.__annotations__.keys() - Measuring.__annotations__.keys()
    measuring = cast(Measuring, {name: each for name, each in given.items() if name not in own})
    return estimates(
        strict_models(models, options, asked),
        backend,
        given.get("backend_options"),
        given.get("store"),
        measuring,
        how,
    )
