"""Times a suite on a machine without the models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dlbricks_core.bricks import BrickSet
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.estimation.assemble import assemble
from dlbricks_core.estimation.results import RunResult
from dlbricks_core.estimation.run import run_bricks
from dlbricks_core.ir import packed
from dlbricks_core.measure.cutting import Cutting, Target, cut_models
from dlbricks_core.measure.measuring import measure
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import Rewrites
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_suite.folder import Suite, SuiteModel, read_suite


def bench(folder: Path, request: Request, store: ResultStore, observer: Observer) -> RunResult:
    """Times every brick of a suite that the store lacks, and no whole model.

    The graphs into which the backend rewrites the suite's models are cut on this machine. The store
    keeps these graphs, so that estimates on other machines can add up the right bricks.

    Raises:
        DLBricksError: If the folder is not a suite, or nothing in it can be read.
    """
    observer.stage("Reading the suite")
    suite = read_suite(folder)
    time = _time_models if suite.models else _time_bricks
    return replace(time(suite, request, store, observer), unread=suite.unread)


def _time_models(
    suite: Suite, request: Request, store: ResultStore, observer: Observer
) -> RunResult:
    cutting = cut_suite(suite, request, store, observer)
    return run_bricks(cutting, request, store, observer, end_to_end=False)


def cut_suite(
    suite: Suite,
    request: Request,
    store: ResultStore,
    observer: Observer,
    rewrites: Rewrites | None = None,
) -> Cutting:
    """Models of a suite, cut as the backend runs them, or the bricks of a suite of bricks.

    Args:
        suite: The suite.
        request: The backend and its settings.
        store: Store that keeps the rewritten graphs.
        observer: Receives the progress.
        rewrites: Rewritten graphs of the models; ``None`` to rewrite the models.
    """
    options = CutOptions(suite.cut.granularity, suite.cut.strategy, suite.cut.composer)
    if not suite.models:
        bricks = [each.brick for each in suite.bricks if each.packed]
        brickset = BrickSet(options.granularity, options.strategy, {b.signature: b for b in bricks})
        return Cutting.all_timed(options, brickset)
    if request.metric:
        # For a metric the model itself is cut, because loading includes rewriting it.
        options = CutOptions.chosen(None, None, None, quantity=request.quantity.name)
    models = [each.model for each in suite.models]
    cutting = cut_models(models, options, request, observer, rewrites=rewrites)
    if not request.metric:
        _keep_graphs(suite.models, cutting, request, store)
    return cutting


def _keep_graphs(
    models: Sequence[SuiteModel], cutting: Cutting, request: Request, store: ResultStore
) -> None:
    """Stores the graph that each model was cut from, even if it is the model itself.

    An estimate on another machine cannot determine whether the backend runs a model unchanged.
    """
    for each, cut in zip(models, cutting.brickset.models, strict=True):
        graph = packed(cut.graph)
        store.keep_rewrite(each.signature, request.setup, request.fingerprint, graph)


def _time_bricks(
    suite: Suite, request: Request, store: ResultStore, observer: Observer
) -> RunResult:
    cutting = cut_suite(suite, request, store, observer)
    targets = [Target(brick, "brick") for brick in cutting.brickset.bricks.values()]
    return assemble(request, cutting, measure(targets, request, store, observer))
