"""Times the networks of a contribution again, all in one session.

    python benchmarks/predictor/again.py CONTRIBUTION MODEL...

A contribution whose networks were timed in several sessions is only as good as the worst of these,
and its segments and whole models may contradict each other. Timed again are the networks that
surveys draw, the layers and segments of MODELs (models or collections), and MODELs as a whole, as
far as the contribution has them. The machine must be of the contribution's kind, quiet, and have
its version of the framework. The file is written anew.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import numpy as np
from dlbricks_prediction import Contribution
from dlbricks_prediction.atlas import SURVEYED
from dlbricks_prediction.from_contribution import with_pulls
from dlbricks_prediction.kernel import kernel_of
from dlbricks_prediction.training_data import contributions
from dlbricks_survey.networks import draw
from dlbricks_survey.packing import write
from dlbricks_survey.surveying import GRANULARITIES, RUNS

from dlbricks_core.bricks import BrickSet
from dlbricks_core.bricks.families import family_of
from dlbricks_core.importers.lookup import expand
from dlbricks_core.importers.models import ModelLoader
from dlbricks_core.ir import CanonicalModel
from dlbricks_core.measure.cutting import Target
from dlbricks_core.measure.measuring import measure
from dlbricks_core.measure.request import Request
from dlbricks_core.progress import Observer
from dlbricks_core.report.notes import text
from dlbricks_core.store import ResultStore

MOST_DRAWN = 2500
"""Number of networks that are drawn to find those of the contribution."""


def drawn() -> Iterator[Target]:
    """Networks that surveys draw."""
    for each in islice(draw(), MOST_DRAWN):
        yield Target(each.brick, "brick", f"{SURVEYED}{each.family}")


def pieces(models: Sequence[CanonicalModel]) -> Iterator[Target]:
    """Layers and segments of the models, and the models as a whole."""
    for model in models:
        group = family_of(model)
        for granularity, strategy in GRANULARITIES:
            brickset = BrickSet.of([model], granularity, strategy)
            for brick in brickset.bricks.values():
                yield Target(brick, "brick", group)
            yield Target(brickset.models[0].whole, "model", group)


def timed(contribution: Contribution, models: Sequence[CanonicalModel]) -> Contribution:
    """New latencies of the contribution's networks."""
    setup = contribution.setup
    request = Request.of(setup.backend, threads=setup.threads, runs=RUNS)
    here = request.fingerprint, request.setup.version
    if here != (contribution.system.fingerprint, setup.version):
        sys.exit(f"this is another machine or version: {request.system.cpu}, {here[1]}")
    wanted = set(contribution.signatures)
    targets: dict[str, Target] = {}
    for target in chain(drawn(), pieces(models)):
        if target.brick.signature in wanted:
            targets.setdefault(target.brick.signature, target)
    with (
        tempfile.TemporaryDirectory() as folder,
        ResultStore.open(Path(folder) / "again.sqlite") as store,
    ):
        outcome = measure([*targets.values()], request, store, Observer())
        for warning in outcome.warnings:
            print(f"Warning: {text(warning)}")
        for reason in outcome.failures.values():
            print(f"Failed: {reason}")
        (found,) = contributions(store, setup.backend)
    return found


def replaced(old: Contribution, new: Contribution) -> Contribution:
    """The old contribution with the new latencies of the networks that both have."""
    places = {signature: i for i, signature in enumerate(new.signatures)}
    both = [i for i, signature in enumerate(old.signatures) if signature in places]
    fresh = [places[old.signatures[i]] for i in both]
    numbers = {}
    for name in ("log_ms", "noise", "call_ms"):
        numbers[name] = getattr(old, name).copy()
        numbers[name][both] = getattr(new, name)[fresh]
    changed = np.exp(old.log_ms[both] - numbers["log_ms"][both])
    print(f"{len(both)} of {len(old)} networks; before, they took {np.median(changed):.2f} times")
    provenance = replace(
        old.provenance,
        end=max(old.provenance.end, new.provenance.end),
        sessions=(*old.provenance.sessions, *new.provenance.sessions),
    )
    return replace(old, **numbers, provenance=provenance, pulls=np.zeros(0), kernel="")


def main(path: str, *names: str) -> None:
    """Writes the contribution anew."""
    old = Contribution.read(Path(path))
    with ModelLoader() as loader:
        models = [loader.load_one(name) for name in expand(names)]
    found = replaced(old, timed(old, models))
    write(with_pulls(found, kernel_of(old.setup.backend)), Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
