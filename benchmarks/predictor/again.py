"""Times networks that surveys draw again, and puts their latencies into a contribution.

    python benchmarks/predictor/again.py CONTRIBUTION FIRST LAST

A contribution whose networks were timed in several sessions is only as good as the worst of these.
Networks FIRST to LAST of the survey, in the order in which they are drawn, are timed on a quiet
machine of the contribution's own kind and with the same version of the framework. The file is
written anew.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from dlbricks_core.predict import Contribution
from dlbricks_core.predict.from_atlas import kernel_of, with_pulls
from dlbricks_core.store import ResultStore
from dlbricks_core.survey import draw
from dlbricks_core.workflows import Observer, Request
from dlbricks_core.workflows.knowledge import SURVEYED, contributions
from dlbricks_core.workflows.measuring import Target, measure
from dlbricks_core.workflows.survey import RUNS


def timed(contribution: Contribution, first: int, last: int) -> Contribution:
    """New latencies of these networks."""
    setup = contribution.setup
    request = Request.of(setup.backend, threads=setup.threads, runs=RUNS)
    here = request.fingerprint, request.setup.version
    if here != (contribution.system.fingerprint, setup.version):
        sys.exit(f"this is another machine or version: {request.system.cpu}, {here[1]}")
    targets = [
        Target(each.brick, "brick", f"{SURVEYED}{each.family}")
        for each in islice(draw(), first, last)
    ]
    with (
        tempfile.TemporaryDirectory() as folder,
        ResultStore.open(Path(folder) / "again.sqlite") as store,
    ):
        outcome = measure(targets, request, store, Observer())
        for warning in outcome.warnings:
            print(f"Warning: {warning}")
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
    print(f"{len(both)} networks; before, they took {np.median(changed):.2f} times as long")
    provenance = replace(
        old.provenance,
        end=max(old.provenance.end, new.provenance.end),
        sessions=(*old.provenance.sessions, *new.provenance.sessions),
    )
    return replace(old, **numbers, provenance=provenance, pulls=np.zeros(0), kernel="")


def main(path: str, first: str, last: str) -> None:
    """Writes the contribution anew."""
    old = Contribution.read(Path(path))
    found = replaced(old, timed(old, int(first), int(last)))
    with_pulls(found, kernel_of(old.setup.backend)).write(Path(path))


if __name__ == "__main__":
    main(*sys.argv[1:])
