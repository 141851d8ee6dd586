"""Cuts models as a composer requires, and lists the networks to measure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from dlbricks_core.analysis.values import ByValues
from dlbricks_core.backends import Backend
from dlbricks_core.bricks import Brick, BrickSet, CutModel
from dlbricks_core.compose import Composer, Plan
from dlbricks_core.compose.options import CutOptions
from dlbricks_core.errors import DLBricksError
from dlbricks_core.facts import Calibration, Kind, Note, Question
from dlbricks_core.facts.note import note, warning
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.footprint import CHOSEN_SHARE, Footprint, available_to
from dlbricks_core.measure.request import Request
from dlbricks_core.measure.rewrites import Rewrites, rewrite_models, unfolded
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

    @property
    def memory_notes(self) -> tuple[Note, ...]:
        """Notes on whole models that fit, but do not run because of the memory that they take."""
        return tuple(
            note(
                "whole-takes-much-memory",
                cut.model.name,
                needed_bytes=each.needed_bytes,
                available_bytes=each.available_bytes,
                most_share=CHOSEN_SHARE,
            )
            for cut in self.brickset.models
            if (each := self.footprints.get(cut.whole.signature)) is not None
            and each.fits
            and not each.is_modest
        )

    def only(self, positions: Sequence[int]) -> Cutting:
        """The part for some models, with their bricks.

        Args:
            positions: Positions of the models that stay, in order.
        """
        models = [self.brickset.models[i] for i in positions]
        kept = dict.fromkeys(signature for cut in models for signature in cut.counts)
        bricks = {signature: self.brickset.bricks[signature] for signature in kept}
        return replace(self, brickset=replace(self.brickset, bricks=bricks, models=models))

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
        models = [unfolded(model) for model in models]
    plugin = find("composer", cut_options.composer, Composer)
    composer: Composer = use(plugin, plugin.loaded)
    if not composer.cuts_rewritten:
        rewrites = Rewrites()
    elif rewrites is None:
        rewrites = rewrite_models(models, request, observer, store=store)
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
    cuts = [
        replace(cut, notes=(*rewrites.notes.get(position, ()), *_notes(cut.model, request.backend)))
        for position, cut in enumerate(brickset.models)
    ]
    return Cutting(
        cut_options,
        replace(brickset, models=cuts),
        plan,
        calibration,
        rewrites.seconds,
        footprints,
        runs_graphs=request.backend.traits.blocks_only,
    )


def _notes(model: CanonicalModel, backend: Backend) -> Iterator[Note]:
    """Notes on what decides how long a model takes."""
    if model.is_slowed:
        yield warning("denormal-weights", share=model.denormal_share)
    source = Path(model.source)
    absent = [file for file in model.weight_files if not (source.parent / file).exists()]
    if absent and source.is_file():  # elsewhere, none of its files are there
        yield note("weights-absent", files=absent)
    # The bricks of loops that the backend runs as loops are their steps.
    if model.loop_steps and backend.opens(model.source):
        yield note("loops-written-out", steps=model.loop_steps)
    # Values of inputs are drawn.
    found = ByValues.of(model)
    if found.operators:
        yield note("values-decide-branches", operators=list(found.operators))
    if found.tables:
        yield note("indices-decide-look-ups", tables=found.tables, table_bytes=found.table_bytes)


def _footprints(brickset: BrickSet, request: Request) -> Mapping[str, Footprint]:
    available, traits = available_to(request), request.backend.traits
    found = {c.whole.signature: Footprint.of(c.model, traits, available) for c in brickset.models}
    return {signature: each for signature, each in found.items() if each is not None}


# Networks to measure, in the order in which they are timed.


@dataclass(frozen=True)
class Target:
    """A network to measure: a brick, or a whole model as one brick.

    Attributes:
        brick: The network.
        kind: Kind of the network: brick, model or native form.
        group: Family for the evaluation of predictors; empty for the families of the models from
            which the network is cut.
    """

    brick: Brick
    kind: Kind
    group: str = ""

    def key(self, request: Request) -> Question:
        """Key of the network's samples under a request."""
        return request.key(self.brick.signature, self.kind)


def run_targets(cutting: Cutting, *, end_to_end: bool, backend: Backend | None) -> list[Target]:
    """Targets in order: each model, followed by its bricks that no earlier model has.

    If a backend is given, a model of its own framework is also timed in its native form.
    """
    targets = [t for sweep in sweeps_of(cutting, end_to_end=end_to_end) for t in sweep]
    natives = {
        cut.whole.signature: Target(Brick(cut.whole.signature, cut.model), "native")
        for cut in cutting.brickset.models
        if backend is not None and backend.native(cut.model.source)
    }
    return [
        each
        for target in targets
        for each in (target, natives.get(target.brick.signature))
        if each is target or (each is not None and target.kind == "model")
    ]


def sweeps_of(*cuttings: Cutting, end_to_end: bool) -> list[list[Target]]:
    """Groups of targets, one for each model: the model itself, then networks for its new bricks.

    Models that share bricks follow each other. If the networks do not fit into memory together,
    they are timed in groups in this order, and a brick should share a group with all of its models.

    Args:
        cuttings: The same models, cut in one or several ways.
        end_to_end: Whether whole models are timed as well.
    """
    models = list(zip(*(cutting.brickset.models for cutting in cuttings), strict=True))
    return _sweeps(cuttings, list(_kin_together(models)), end_to_end)


def sweeps_side_by_side(cuttings: Sequence[Cutting]) -> list[list[list[Target]]]:
    """Sweeps of each cutting, including whole models; the order of models is the same in all.

    Args:
        cuttings: Cuttings of the same models, one for each backend.
    """
    models = zip(*(cutting.brickset.models for cutting in cuttings), strict=True)
    order = list(_kin_together(list(models)))
    return [
        _sweeps([cutting], [(cuts[i],) for cuts in order], end_to_end=True)
        for i, cutting in enumerate(cuttings)
    ]


def alike_together(targets: Iterable[Target]) -> list[Target]:
    """Targets ordered by family.

    Networks of a family share operators, so the code of a network's operators is in the caches, as
    in the middle of a model.
    """
    return sorted(targets, key=lambda each: each.group)


def _sweeps(
    cuttings: Sequence[Cutting], models: Iterable[tuple[CutModel, ...]], end_to_end: bool
) -> list[list[Target]]:
    """Sweeps of models in a given order; each model is cut once for each cutting."""
    seen: set[tuple[str, Kind]] = set()
    sweeps = []
    for cuts in models:
        bricks = {
            source: cutting.plan.timed[source]
            for cutting, cut in zip(cuttings, cuts, strict=True)
            for signature in cut.counts
            for source in cutting.plan.sources(signature)
        }
        targets = [Target(brick, "brick") for brick in bricks.values()]
        if end_to_end and not any(brick.opaque for brick in bricks.values()):
            targets.insert(0, Target(cuttings[0].whole(cuts[0]), "model"))
        sweeps.append([t for t in targets if (t.brick.signature, t.kind) not in seen])
        seen.update((t.brick.signature, t.kind) for t in targets)
    return sweeps


def _kin_together(models: Sequence[tuple[CutModel, ...]]) -> Iterator[tuple[CutModel, ...]]:
    """The models; each is followed by the model that shares most bricks with an earlier model.

    Args:
        models: Models, each cut in one or several ways.
    """
    own = [set(chain.from_iterable(cut.counts for cut in cuts)) for cuts in models]
    left = list(range(len(models)))
    last: set[str] = set()
    before: set[str] = set()
    while left:
        shared = {i: (len(own[i] & last), len(own[i] & before)) for i in left}
        nearest = max(left, key=shared.__getitem__)
        left.remove(nearest)
        last = own[nearest]
        before |= last
        yield models[nearest]
