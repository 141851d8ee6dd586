"""Errors of whole models whose bricks were predicted, as found on models that were left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from dlbricks_core import fitted
from dlbricks_core.facts import Setup, System
from dlbricks_core.figures.predicted import Discrepancy, SpreadFactor
from dlbricks_prediction.atlas import Contribution


@cache
def discrepancy_of(backend: str, *, stranger: bool = False) -> Discrepancy:
    """Errors that the bricks of one model share on a backend, beside the error of composing.

    They were found on systems that were left out (benchmarks/predictor/discrepancy.py). An unknown
    backend gets the errors of all backends together.

    Args:
        backend: Name of the backend.
        stranger: Whether reference data of other systems predict. How layers combine differs more
            between systems than between models of one (benchmarks/predictor/strangers.py).
    """
    found = Discrepancy(**fitted.of_backend(__file__, "discrepancy", backend))
    if not stranger:
        return found
    return replace(found, **fitted.of_backend(__file__, "strangers", backend))


def is_stranger(setup: Setup, system: System, atlas: Sequence[Contribution]) -> bool:
    """Whether the atlas lacks reference data of the system and setup themselves.

    Args:
        setup: How the models run.
        system: System on which they run.
        atlas: Contributions behind the prediction.
    """
    here = system.fingerprint
    # Counting pulls reads a file, so systems come first.
    own = (each for each in atlas if each.system.fingerprint == here and each.pulls.size)
    return not any(replace(each.setup, plugin=setup.plugin) == setup for each in own)


def spread_of_wholes(setup: Setup, system: System, atlas: Sequence[Contribution]) -> SpreadFactor:
    """Factor of the spread of whole models that the system's own reference data predict.

    It was fitted to models whose families were left out of these data
    (benchmarks/predictor/spread.py). Where reference data of other systems predict, it is 1.

    Args:
        setup: How the models run.
        system: System on which they run.
        atlas: Contributions behind the prediction.
    """
    if is_stranger(setup, system, atlas):
        return SpreadFactor()
    return spread_factor(f"{system.fingerprint[:8]}-{setup.backend}-{setup.threads}")


@cache
def spread_factor(contribution: str) -> SpreadFactor:
    """The fitted factor, corrected for the models of a contribution.

    Args:
        contribution: Fingerprint, backend and threads, as in the name of the contribution's file.
            A contribution without whole models gets the factor of all others.
    """
    values = fitted.values(__file__, "spread")
    own = values["own"].get(contribution, 1.0)
    return SpreadFactor(values["usual"] * own, values["exponent"])
