"""Harvests from the user's own programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from dlbricks_core.api.inputs import Store, models_of, opened_store, request_of
from dlbricks_core.backends import Backend
from dlbricks_core.errors import DLBricksError
from dlbricks_core.estimation.run import harvest as keep
from dlbricks_core.importers import LoadOptions
from dlbricks_core.plugins import discover
from dlbricks_core.progress import Observer


@contextmanager
def harvest(
    model: object, *, store: Store = None, backend_options: Mapping[str, str] | None = None
) -> Iterator[None]:
    """Stores latencies of a model that the user's own program runs inside of the context.

    The store keeps the latencies of the model and of its bricks in place, for later estimates of
    models that share these bricks. After the context, a separate process profiles a few more runs
    to find each brick's share.

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
