"""Models as backends compute them: with folded layers, and as graphs that backends make of them.

The graphs are kept for estimates that run nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from time import perf_counter
from typing import Any

from dlbricks_core import ir
from dlbricks_core.analysis import shortening
from dlbricks_core.bricks import CutModel
from dlbricks_core.errors import DLBricksError, ModelError
from dlbricks_core.facts import Note
from dlbricks_core.facts.note import note
from dlbricks_core.ir import CanonicalModel, Dim, Layer
from dlbricks_core.machine.system import physical_cores_available
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.worker import START_BYTES, BackendWorker
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.worker import memory_to_use

COMFORTABLE = 0.5
"""Maximum size of a model that a backend rewrites whole: weights and live results, as a share of
the free memory. Below it, rewriting the whole model takes about as long as rewriting two short
models, and needs no comparison of two results. Above it, frameworks that reserve memory for all
weights, or fold some weights in advance, run out of memory.
"""

FEW_LAYERS, FEW_BYTES = 200, 64 << 20
"""Maximum layers, and bytes of weights, of all models together for a single worker. Rewriting such
models takes less than half of the time in which even the fastest framework starts a worker.
"""


def unfolded(model: CanonicalModel) -> CanonicalModel:
    """The model with each folded layer in front of the first one that reads its result.

    Not every framework computes these layers in advance. Results that are outputs stay weights: no
    framework computes those.
    """
    folded = model.folded
    if folded is None:
        return model
    # Few models have such layers, and the passes import onnx.
    from dlbricks_core.passes.drop_unread import drop_unread
    from dlbricks_core.passes.options import NormalizeOptions

    makers = {name: layer for layer in folded.layers for name in layer.outputs if name}
    layers: list[Layer] = []
    made: set[str] = set(model.outputs)

    def place(layer: Layer) -> None:
        for name in layer.reads:
            if name in makers and name not in made:
                place(makers[name])
        made.update(layer.outputs)
        layers.append(layer)

    for layer in model.layers:
        place(layer)
    computed = {name for layer in layers for name in layer.outputs}
    whole = replace(
        model,
        layers=tuple(layers),
        tensors={**folded.tensors, **model.tensors},
        weights=(model.weights | folded.weights) - computed,
        constants={**folded.constants, **model.constants},
        folded=None,
    )
    return drop_unread(whole, NormalizeOptions())


@dataclass
class Rewrites:
    """Graphs that a backend rewrites models into, by the models' positions.

    Attributes:
        graphs: The graphs.
        refused: Reason for each model without a graph.
        notes: Notes on each model that has no graph, or was too large to rewrite whole.
        seconds: Seconds of rewriting.
    """

    graphs: dict[int, CanonicalModel] = field(default_factory=dict)
    refused: dict[int, str] = field(default_factory=dict)
    notes: dict[int, tuple[Note, ...]] = field(default_factory=dict)
    seconds: float = 0.0

    def refuse(self, position: int, reason: str, request: Request) -> None:
        """Adds a model without a graph. The model itself is cut."""
        self.refused[position] = reason
        as_it_is = note("cut-as-it-is", backend=request.backend.name, reason=reason)
        self.notes[position] = (as_it_is,)


class Benches(ExitStack):
    """Workers that rewrite models, kept for several sets of models with one request.

    Starting a worker takes longer than rewriting several small models.
    """

    def __init__(self) -> None:
        super().__init__()
        self._workers: list[BackendWorker] = []

    @contextmanager
    def lent(
        self, number: int, most: int, request: Request
    ) -> Iterator[SimpleQueue[BackendWorker]]:
        """Some of the workers. An error ends all of them.

        Workers share the memory, so new workers are started if there are too few or too many.

        Args:
            number: Number of workers to lend.
            most: Maximum number of workers that each have enough memory for the largest model.
            request: The backend and its settings.
        """
        if not number <= len(self._workers) <= most:
            self.close()
            share = memory_to_use() // number
            self._workers = [
                self.enter_context(BackendWorker.of(request, memory_bytes=share))
                for _ in range(number)
            ]
        idle: SimpleQueue[BackendWorker] = SimpleQueue()
        for worker in self._workers[:number]:
            idle.put(worker)
        try:
            yield idle
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise

    def __exit__(self, *error: Any) -> bool:
        self._workers = []
        return bool(super().__exit__(*error))


def benches_or_own(benches: Benches | None) -> AbstractContextManager[Benches]:
    """The given workers, which stay open, or new workers, which end with the context."""
    return Benches() if benches is None else nullcontext(benches)


def rewrite_models(
    models: Sequence[CanonicalModel],
    request: Request,
    observer: Observer,
    benches: Benches | None = None,
    store: ResultStore | None = None,
) -> Rewrites:
    """Graphs that the backend rewrites models into; none if it runs models as they are.

    Nothing is timed meanwhile, so models are rewritten in parallel, one or a few on each core,
    unless they are small: starting a worker takes longer than rewriting several such models. A
    model that would take too much of the memory is represented by a shorter one
    (:mod:`dlbricks_core.analysis.shortening`), if its blocks repeat.

    The store keeps the graphs. For a backend that runs models as they are, it keeps the models
    themselves. They show this fact if the plugin is not installed.

    Args:
        models: Models in canonical form.
        request: The backend and its settings.
        observer: Receives the progress.
        benches: Workers that are kept for further models with the same request; ``None`` for none.
        store: Store that keeps the graphs; ``None`` for none.
    """
    positions = [i for i, model in enumerate(models) if not _is_opaque(model)]
    if not request.backend.traits.rewrites:
        _keep({i: models[i] for i in positions}, models, request, store)
        return Rewrites()
    begin = perf_counter()
    observer.stage(f"Rewriting the models with {request.backend.name}", len(positions))
    asked = [models[position] for position in positions]
    most = max(1, _held_at_once(asked))
    number = max(1, min(_at_once(request), len(asked), most, _worth_starting(asked)))
    rewrites = Rewrites()
    with ThreadPoolExecutor(number) as pool, ExitStack() as stack:
        kept = stack.enter_context(benches_or_own(benches))
        idle = stack.enter_context(kept.lent(number, most, request))
        # Even after an error, no rewriting may begin once the workers are closed.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        short = not request.backend.traits.blocks_only
        found = pool.map(lambda position: _answer(models[position], idle, short), positions)
        for position, answer in zip(positions, found, strict=True):
            name = models[position].name
            if answer.graph is None:
                rewrites.refuse(position, answer.refusal, request)
                if short:
                    observer.note(f"{name} is cut as it is: {answer.refusal}")
            else:
                rewrites.graphs[position] = answer.graph
                if answer.layers < (of_layers := len(models[position].layers)):
                    backend, layers = request.backend.name, answer.layers
                    repeat = note(
                        "blocks-repeat", backend=backend, layers=layers, of_layers=of_layers
                    )
                    rewrites.notes[position] = (repeat,)
            observer.advance(name)
    rewrites.seconds = perf_counter() - begin
    _keep(rewrites.graphs, models, request, store)
    return rewrites


def _keep(
    graphs: Mapping[int, CanonicalModel],
    models: Sequence[CanonicalModel],
    request: Request,
    store: ResultStore | None,
) -> None:
    """Stores graphs that the backend executes, by the positions of their models."""
    if store is None:
        return
    for position, graph in graphs.items():
        signature = CutModel(models[position], (), models[position]).whole.signature
        store.keep_rewrite(signature, request.setup, request.fingerprint, ir.packed(graph))


def kept_rewrites(
    models: Sequence[CanonicalModel], request: Request, store: ResultStore
) -> Rewrites:
    """Stored graphs that a backend made of models. No backend is started.

    Models without a stored graph are refused, unless the backend runs models as they are.
    """
    rewrites = Rewrites()
    for position, model in enumerate(models):
        signature = CutModel(model, (), model).whole.signature
        data = store.rewrite(signature, request.setup, request.fingerprint)
        if data is None:
            if request.backend.traits.rewrites:
                rewrites.refuse(position, "the store does not have it", request)
            continue
        try:
            graph = ir.unpacked(data, name=model.name, source=model.source)
        except ModelError as error:
            rewrites.refuse(position, error.message, request)
        else:
            if _ends(graph) == _ends(model):
                rewrites.graphs[position] = graph
            else:
                rewrites.refuse(position, f"the stored graph is not of {model.name}", request)
    return rewrites


def _ends(model: CanonicalModel) -> list[list[tuple[str, tuple[Dim, ...] | None]]]:
    """Types and shapes of inputs and outputs, which a backend does not change."""
    return [
        [(spec.dtype, spec.shape) for spec in map(model.tensors.__getitem__, names)]
        for names in (model.inputs, model.outputs)
    ]


def _is_opaque(model: CanonicalModel) -> bool:
    """Whether the model has opaque layers."""
    return any(layer.opaque for layer in model.layers)


def _at_once(request: Request) -> int:
    """Number of models that the cores can rewrite in parallel."""
    traits = request.backend.traits
    threads = request.settings.threads if traits.rewrite_uses_all_threads else 1
    return max(1, physical_cores_available() // threads)


def _held_at_once(models: Sequence[CanonicalModel]) -> int:
    """Number of models of the largest model's size that fit into memory together."""
    largest = max(map(_bytes_asked, models), default=0)
    return memory_to_use() // (largest + START_BYTES)


def _worth_starting(models: Sequence[CanonicalModel]) -> int:
    """Number of workers that take longer to rewrite than to start."""
    layers = sum(len(model.layers) for model in models)
    weights = sum(model.weight_bytes for model in models)
    return 1 + int(layers / FEW_LAYERS + weights / FEW_BYTES)


def _bytes_asked(model: CanonicalModel) -> int:
    """Bytes of the model that the backend rewrites, short or whole."""
    if _is_comfortable(model):
        return _nbytes(model)
    shorts = shortening.shorten(model, shortening.KEPT + 1)
    return _nbytes(shorts[-1].model if shorts else model)


def _nbytes(model: CanonicalModel) -> int:
    return model.weight_bytes + model.live_bytes


def _is_comfortable(model: CanonicalModel) -> bool:
    """Whether the machine has enough memory to rewrite the whole model."""
    return _nbytes(model) <= COMFORTABLE * memory_to_use()


@dataclass(frozen=True)
class _Answer:
    """Result of rewriting a model.

    Attributes:
        graph: The graph; ``None`` if there is none.
        layers: Maximum number of layers that the backend rewrote at once.
        refusal: Reason why there is no graph.
    """

    graph: CanonicalModel | None
    layers: int = 0
    refusal: str = ""


def _answer(model: CanonicalModel, idle: SimpleQueue[BackendWorker], short: bool) -> _Answer:
    bench = idle.get()
    try:
        return _asked_shortly(model, bench) if short else _whole_answer(model, bench)
    except DLBricksError as error:
        return _Answer(None, refusal=error.message)
    finally:
        idle.put(bench)


def _whole_answer(model: CanonicalModel, bench: BackendWorker) -> _Answer:
    return _Answer(bench.rewrite(model), len(model.layers))


def _asked_shortly(model: CanonicalModel, bench: BackendWorker) -> _Answer:
    """Result of rewriting a model, or a shorter model if the whole model is too large."""
    if _is_comfortable(model):
        return _whole_answer(model, bench)
    asked: list[int] = []

    def rewriting(short: CanonicalModel) -> CanonicalModel:
        asked.append(len(short.layers))
        return bench.rewrite(short)

    try:
        return _Answer(shortening.rewritten_short(model, rewriting), max(asked))
    except shortening.NotRepeatedError as repeats_not:
        try:
            return _whole_answer(model, bench)
        except DLBricksError as error:
            raise DLBricksError(
                f"{error.message}; a shorter model is not possible: {repeats_not.message}"
            ) from error
