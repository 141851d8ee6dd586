"""Cuts models as a composer requires: as they are, or as a backend rewrites them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlbricks_core.analysis.values import ByValues
from dlbricks_core.bricks import Brick, BrickSet, CutModel
from dlbricks_core.compose import Composer, Plan
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Calibration, Note
from dlbricks_core.facts.note import note, warning
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.footprint import Footprint, available_to
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import Rewrites, keep_rewrites, rewrite_models
from dlbricks_core.plugins import find, use
from dlbricks_core.progress import Observer
from dlbricks_core.store import ResultStore
from dlbricks_core.wording import argument


@dataclass(frozen=True)
class Cutting:
    """Models cut into bricks, and the plan for these.

    Attributes:
        options: How the models were cut, and how they are composed again.
        brickset: The models and their bricks.
        plan: Networks to time, and recipes for the figure of each brick.
        calibration: Fitted parameters behind the plan; ``None`` for the composer's defaults.
        seconds: Seconds in which the backend rewrote the models, part of the cost of benchmarking
            by bricks.
        footprints: Memory of each whole model by its signature, where known.
        runs_graphs: Whether whole models run as the graphs that the backend made of them, as it
            runs nothing else.
    """

    options: CutOptions
    brickset: BrickSet
    plan: Plan
    calibration: Calibration | None = None
    seconds: float = 0.0
    footprints: Mapping[str, Footprint] = field(default_factory=dict)
    runs_graphs: bool = False

    def whole(self, cut: CutModel) -> Brick:
        """A whole model as one brick, as the backend runs it."""
        return Brick(cut.whole.signature, cut.graph) if self.runs_graphs else cut.whole

    @classmethod
    def all_timed(cls, options: CutOptions, brickset: BrickSet) -> Cutting:
        """A cutting in which all bricks are timed, for any composer."""
        return cls(options, brickset, Plan.all_timed(brickset.bricks))


def cut_models(
    models: Sequence[CanonicalModel],
    cut_options: CutOptions,
    request: Request,
    observer: Observer,
    store: ResultStore | None = None,
    *,
    rewrites: Rewrites | None = None,
    calibrated: bool = True,
) -> Cutting:
    """Cuts models into bricks and plans their timing.

    If the backend cannot run a model, the model itself is cut, and a note says so. Its bricks then
    show which layers are unsupported. A backend that runs blocks only cannot run such bricks.
    Layers that canonical form folded are put back for a backend that computes them in each run.

    Args:
        models: Models in canonical form.
        cut_options: How to cut and compose.
        request: The backend and its settings.
        observer: Receives the progress.
        store: Store that has the composer's calibration, and keeps graphs that are rewritten now;
            ``None`` for no store.
        rewrites: Graphs that the backend made of the models before. If it is ``None`` and the
            composer needs them, the backend rewrites the models.
        calibrated: Whether a calibration counts.

    Raises:
        DLBricksError: If a backend that runs blocks only cannot rewrite a model.
    """
    if not request.backend.traits.folds_weights and any(model.folded for model in models):
        from dlbricks_core.passes.unfold import unfolded  # few models have such layers

        models = [unfolded(model) for model in models]
    plugin = find("composer", cut_options.composer, Composer)
    composer: Composer = use(plugin, plugin.loaded)
    rewrites_now = composer.cuts_rewritten and rewrites is None
    if rewrites is None or not composer.cuts_rewritten:
        rewrites = Rewrites()
    if rewrites_now:
        rewrites = rewrite_models(models, request, observer)
        if request.backend.traits.blocks_only and rewrites.refused:
            position, reason = next(iter(rewrites.refused.items()))
            raise DLBricksError(
                f"{request.backend.name} cannot run {models[position].name}: {reason}",
                hint="Leave it out, or choose another backend.",
            )
    elif request.backend.traits.blocks_only and rewrites.refused:
        name = models[min(rewrites.refused)].name
        raise DLBricksError(
            f"{name} was never measured with {request.backend.name} in this setup",
            hint=f"Add {argument('measure')}.",
        )
    observer.stage("Cutting models into bricks")
    granularity, strategy = cut_options.granularity, cut_options.strategy
    brickset = BrickSet.of(
        models, granularity, strategy, rewrites.graphs, rereading=composer.rereading
    )
    if store is not None and rewrites_now:
        keep_rewrites(rewrites, brickset.models, request, store)
    for position, reason in rewrites.refused.items():
        refused = note("cut-as-it-is", backend=request.backend.name, reason=reason)
        brickset.models[position] = replace(brickset.models[position], notes=(refused,))
    for position, layers in rewrites.shortened.items():
        cut = brickset.models[position]
        shortened = note(
            "blocks-repeat",
            backend=request.backend.name,
            layers=layers,
            of_layers=len(cut.model.layers),
        )
        brickset.models[position] = replace(cut, notes=(shortened,))
    for position, cut in enumerate(brickset.models):
        values = *_of_weights(cut.model), *_of_loops(cut.model, request), *_of_inputs(cut.model)
        brickset.models[position] = replace(cut, notes=(*cut.notes, *values))
    calibration = None
    if store is not None and calibrated:
        calibration = store.calibration(request.calibration_key(cut_options))
    fitted = composer.calibrated(calibration.values) if calibration else composer

    def planned() -> Plan:
        found = fitted.plan(brickset.bricks, request.setup, request.target)
        if not isinstance(found, Plan):
            raise TypeError(f"plan() returned {found!r} instead of a plan")
        if lacking := brickset.bricks.keys() - found.recipes.keys():
            raise ValueError(f"the plan has no recipe for {len(lacking)} bricks")
        return found

    plan = use(plugin, planned)
    if request.metric and plan.timed.keys() != brickset.bricks.keys():
        raise DLBricksError(
            f"the composer {composer.name!r} is not for {request.quantity.name}: it derives "
            "latencies of bricks from those of others",
            hint=f"Leave {argument('composer')} out.",
        )
    footprints = _footprints(brickset, request)
    blocks = request.backend.traits.blocks_only
    return Cutting(cut_options, brickset, plan, calibration, rewrites.seconds, footprints, blocks)


def _of_weights(model: CanonicalModel) -> tuple[Note, ...]:
    """A warning of denormal weights in the model's file."""
    return (warning("denormal-weights", share=model.denormal_share),) if model.is_slowed else ()


def _of_loops(model: CanonicalModel, request: Request) -> tuple[Note, ...]:
    """A note on loops that the backend runs as loops, and whose bricks are the steps."""
    as_loops = model.loop_steps and request.backend.opens(model.source)
    return (note("loops-written-out", steps=model.loop_steps),) if as_loops else ()


def _of_inputs(model: CanonicalModel) -> Iterator[Note]:
    """Notes on values of inputs that decide how long the model takes; they are drawn."""
    found = ByValues.of(model)
    if found.operators:
        yield note("values-decide-branches", operators=list(found.operators))
    if found.tables:
        yield note("indices-decide-look-ups", tables=found.tables, table_bytes=found.table_bytes)


def _footprints(brickset: BrickSet, request: Request) -> Mapping[str, Footprint]:
    available = available_to(request)
    traits = request.backend.traits
    found = {c.whole.signature: Footprint.of(c.model, traits, available) for c in brickset.models}
    return {signature: each for signature, each in found.items() if each is not None}
