"""What backends make of models: asked for, and kept for estimates that run nothing."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from queue import SimpleQueue
from time import perf_counter

from dlbricks_core.analysis.shortening import (
    KEPT,
    NotRepeatedError,
    rewritten_short,
    shorten,
)
from dlbricks_core.bricks import CutModel
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.ir import CanonicalModel, packed, unpacked
from dlbricks_core.machine.system import physical_cores_available
from dlbricks_core.measure.worker import START_BYTES, BackendWorker, WorkerSettings
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import memory_to_use
from dlbricks_core.workflows.observer import Observer
from dlbricks_core.workflows.request import Request

COMFORTABLE = 0.5
"""Largest model that a backend is asked of as a whole: its weights and live results, as a share of
the memory that is free. Below, asking of the whole takes about as long as asking of two short
models, and there is nothing to prove; above, frameworks that set room aside for all weights, or
compute with some of them beforehand, run out of memory."""


@dataclass
class Rewrites:
    """Graphs that a backend rewrites models into, by the models' positions.

    Attributes:
        graphs: The graphs.
        refused: Reason for each model without a graph.
        shortened: Number of layers that the backend was asked of, for each model that was too
            large to ask of the whole.
        seconds: Seconds that the backend took.
    """

    graphs: dict[int, CanonicalModel] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    shortened: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0


def rewrite_models(
    models: Sequence[CanonicalModel], request: Request, observer: Observer
) -> Rewrites:
    """Graphs that the backend rewrites models into; none if it runs models as they are.

    Nothing is timed meanwhile, so models are rewritten side by side, one or a few for each core.
    Of a model that would take more than a part of the memory, the backend is asked of a short one
    (:mod:`dlbricks_core.analysis.shortening`), if its blocks repeat.
    """
    if not request.backend.traits.rewrites:
        return Rewrites()
    begin = perf_counter()
    positions = [i for i, model in enumerate(models) if not _is_opaque(model)]
    observer.stage(f"Asking {request.backend.name} what it makes of the models", len(positions))
    asked = [models[position] for position in positions]
    number = max(1, min(_at_once(request), len(asked), _held_at_once(asked)))
    rewrites = Rewrites()
    with ThreadPoolExecutor(number) as pool, ExitStack() as stack:
        idle = _benches(number, request, stack)
        # Whatever ends the loop: nothing may begin once the benches are closed.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        found = pool.map(lambda position: _answer(models[position], idle), positions)
        for position, answer in zip(positions, found, strict=True):
            name = models[position].name
            if answer.graph is None:
                rewrites.refused[position] = answer.refusal
                observer.note(f"{name} is cut as it is: {answer.refusal}")
            else:
                rewrites.graphs[position] = answer.graph
                if answer.layers < len(models[position].layers):
                    rewrites.shortened[position] = answer.layers
            observer.advance(name)
    rewrites.seconds = perf_counter() - begin
    return rewrites


def keep_rewrites(
    rewrites: Rewrites, models: Sequence[CutModel], request: Request, store: ResultStore
) -> None:
    """Keeps what the backend made of models in the store.

    Of a backend that runs models as they are, the models themselves are kept: where its plugin is
    not installed, nothing else tells that it does.

    Args:
        rewrites: Result of :func:`rewrite_models`.
        models: The same models, cut.
        request: The backend and its settings.
        store: Store of the graphs.
    """
    own: dict[int, CanonicalModel] = {}
    if not request.backend.traits.rewrites:
        own = {i: cut.model for i, cut in enumerate(models) if not _is_opaque(cut.model)}
    for position, graph in (own | rewrites.graphs).items():
        signature = models[position].whole.signature
        store.keep_rewrite(signature, request.setup, request.fingerprint, packed(graph))


def kept_rewrites(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore
) -> Rewrites:
    """Graphs that the store keeps of what a backend made of models; it asks no backend.

    Models of which it keeps none are refused, unless the backend runs models as they are.
    """
    rewrites = Rewrites()
    for position, model in enumerate(models):
        signature = CutModel(model, (), model).whole.signature
        data = store.rewrite(signature, request.setup, request.fingerprint)
        if data is None:
            if request.backend.traits.rewrites:
                rewrites.refused[position] = "the store does not keep that"
            continue
        try:
            rewrites.graphs[position] = unpacked(data, name=model.name, source=model.source)
        except ModelError as error:
            rewrites.refused[position] = error.message
    return rewrites


def _is_opaque(model: CanonicalModel) -> bool:
    """Whether the model has layers that the engine cannot look inside."""
    return any(layer.opaque for layer in model.layers)


def _at_once(request: Request) -> int:
    """Number of models that the cores can rewrite at a time."""
    traits = request.backend.traits
    threads = request.settings.threads if traits.rewrite_uses_all_threads else 1
    return max(1, physical_cores_available() // threads)


def _held_at_once(models: Sequence[CanonicalModel]) -> int:
    """Number of models that the memory can hold at a time, if all were as large as the largest."""
    largest = max(map(_bytes_asked, models), default=0)
    return memory_to_use() // (largest + START_BYTES)


def _bytes_asked(model: CanonicalModel) -> int:
    """Bytes of the model that the backend is asked of, short or whole."""
    if _is_comfortable(model):
        return _nbytes(model)
    shorts = shorten(model, KEPT + 1)
    return _nbytes(shorts[-1].model if shorts else model)


def _nbytes(model: CanonicalModel) -> int:
    return model.weight_bytes + model.live_bytes


def _is_comfortable(model: CanonicalModel) -> bool:
    """Whether the machine has room enough to ask a backend of the whole model."""
    return _nbytes(model) <= COMFORTABLE * memory_to_use()


def _benches(number: int, request: Request, stack: ExitStack) -> SimpleQueue[BackendWorker]:
    share = memory_to_use() // number
    settings = WorkerSettings(request.settings, request.seed, request.timeout_s, share)
    idle: SimpleQueue[BackendWorker] = SimpleQueue()
    for _ in range(number):
        idle.put(
            stack.enter_context(BackendWorker(request.plugin.target, request.backend, settings))
        )
    return idle


@dataclass(frozen=True)
class _Answer:
    """What a backend made of a model.

    Attributes:
        graph: The graph; ``None`` if there is none.
        layers: Most layers of a model that the backend was asked of.
        refusal: Why there is no graph.
    """

    graph: CanonicalModel | None
    layers: int = 0
    refusal: str = ""


def _answer(model: CanonicalModel, idle: SimpleQueue[BackendWorker]) -> _Answer:
    bench = idle.get()
    try:
        return _asked_shortly(model, bench)
    except DLBricksError as error:
        return _Answer(None, refusal=error.message)
    finally:
        idle.put(bench)


def _asked_shortly(model: CanonicalModel, bench: BackendWorker) -> _Answer:
    """What the backend makes of a model, asked of a short one where the whole is too large."""
    if _is_comfortable(model):
        return _Answer(bench.rewrite(model), len(model.layers))
    asked: list[int] = []

    def rewriting(short: CanonicalModel) -> CanonicalModel:
        asked.append(len(short.layers))
        return bench.rewrite(short)

    try:
        return _Answer(rewritten_short(model, rewriting), max(asked))
    except NotRepeatedError as repeats_not:
        try:
            return _Answer(bench.rewrite(model), len(model.layers))
        except DLBricksError as error:
            raise DLBricksError(
                f"{error.message}; nor can a shorter model be asked of, for {repeats_not.message}"
            ) from error
