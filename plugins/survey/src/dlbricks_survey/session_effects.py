"""Levelling: removes differences between sessions from the latencies of a contribution."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from dlbricks_prediction.atlas import SURVEYED, Contribution
from dlbricks_prediction.fitting import ObservedNetworks, fitted_pulls
from dlbricks_prediction.from_contribution import prior_of, processor_of
from dlbricks_prediction.kernel import Kernel
from dlbricks_prediction.layer_posterior import Sessions

from dlbricks_core import fitted
from dlbricks_core.figures.statistics import FloatArray

_MOST_DEVIATIONS = 3
"""Largest error of a session, in standard deviations. Networks that seem to share more are of a
kind that the expectation does not fit.
"""

_LEAST_MS = 1e-9
"""Least latency whose logarithm is taken, in milliseconds."""


@dataclass(frozen=True)
class SessionError:
    """Error that networks of one session share, on a machine with neighbours.

    Attributes:
        deviation: Standard deviation of the relative error.
    """

    deviation: float


@cache
def session_error() -> SessionError:
    """The error that was fitted."""
    return SessionError(**fitted.values(__file__, "session"))


def session_corrected(
    contribution: Contribution, kernel: Kernel, wholes: Set[str] = frozenset()
) -> Contribution:
    """The contribution with latencies that are corrected for the differences between sessions.

    Its pulls are close to the pulls of the corrected latencies.

    Differences between sessions are computed from similar layers that were measured in several
    sessions. The session with most networks of models is the reference and is not corrected,
    because drawn networks take longer in some sessions than layers of models do.

    Whole models are not corrected. A session often has one model and its layers, and a model may
    always take longer than its layers.

    Args:
        contribution: Measured networks, with their sessions.
        kernel: Covariance of the baseline's errors.
        wholes: Signatures of networks that are whole models.
    """
    if not contribution.sessions.size:
        return contribution
    errors, pulls = _session_errors(contribution, kernel)
    of_models = np.array([SURVEYED not in group for group in contribution.groups])
    errors -= np.median(errors[of_models] if of_models.any() else errors)
    whole = np.array([signature in wholes for signature in contribution.signatures])
    errors[whole | (np.abs(errors) > _MOST_DEVIATIONS * session_error().deviation)] = 0.0
    own_ms = np.maximum(np.exp(contribution.log_ms) - contribution.call_ms, 0.0)
    ms = contribution.call_ms + own_ms * np.exp(-errors)
    log_ms = np.where(own_ms > 0, np.log(np.maximum(ms, _LEAST_MS)), contribution.log_ms)
    none = np.zeros(0, dtype=np.intp)
    return replace(contribution, log_ms=log_ms, sessions=none, pulls=pulls)


def _session_errors(contribution: Contribution, kernel: Kernel) -> tuple[FloatArray, FloatArray]:
    """Error of each network's session, in logarithms of latencies, and pull of each layer."""
    prior = prior_of(contribution.features, kernel, processor_of(contribution))
    noise = contribution.noise + kernel.noise
    sessions = Sessions(contribution.sessions, session_error().deviation ** 2)
    observed = ObservedNetworks(
        contribution.counts, contribution.log_ms, noise, contribution.call_ms, sessions
    )
    pulls = fitted_pulls(prior, observed)
    apart = observed.apart(prior.mean + prior.spread.times(pulls))
    return sessions.shared(apart, noise), pulls
