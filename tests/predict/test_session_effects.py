"""Differences between sessions are taken off: from sessions that are slower by a known factor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from dlbricks_prediction.atlas import Contribution, Provenance
from dlbricks_prediction.baseline import expected_ms
from dlbricks_prediction.from_contribution import processor_of
from dlbricks_survey.session_effects import session_corrected
from scipy import sparse

CALL_MS = 0.01
EACH = 60


@pytest.fixture
def three(system, setup, layers):
    """Layers that were measured one by one in each of three sessions, as the baseline expects."""
    size = 3 * EACH
    nothing = Contribution(
        system=system(),
        setup=setup(),
        provenance=Provenance("0.1.0", "", "", (), "synthetic"),
        features=layers(EACH),
        counts=sparse.csr_array(np.tile(np.eye(EACH), (3, 1))),
        log_ms=np.zeros(size),
        noise=np.full(size, 1e-4),
        call_ms=np.full(size, CALL_MS),
        signatures=tuple(map(str, range(size))),
        groups=("resnet",) * size,
        sessions=np.repeat(range(3), EACH),
    )
    ms = np.tile(expected_ms(nothing.features, processor_of(nothing)), 3)
    return replace(nothing, log_ms=np.log(ms + CALL_MS))


def slower(contribution, factors):
    """The contribution with sessions that took so many times as long, but for the call."""
    own_ms = np.exp(contribution.log_ms) - CALL_MS
    return replace(
        contribution, log_ms=np.log(own_ms * np.array(factors)[contribution.sessions] + CALL_MS)
    )


def ratios(found, truth):
    """What each session takes longer than in truth, without the call: the median of its layers."""
    own_ms = (np.exp(each.log_ms) - CALL_MS for each in (found, truth))
    ratio = np.divide(*own_ms).reshape(3, EACH)
    return np.median(ratio, axis=1)


def test_sessions_that_are_slower_are_levelled_and_most_stays(three, kernel):
    found = session_corrected(slower(three, [1.0, 1.0, 1.25]), kernel)
    assert ratios(found, three) == pytest.approx(1.0, abs=0.04)
    assert not found.sessions.size
    assert session_corrected(found, kernel) is found  # nothing is left to take off


def test_sessions_of_models_stay_where_drawn_networks_took_longer(three, kernel):
    groups = ("resnet",) * EACH + ("survey:grouped",) * 2 * EACH
    found = session_corrected(replace(slower(three, [1.0, 1.25, 1.25]), groups=groups), kernel)
    assert ratios(found, three) == pytest.approx(1.0, abs=0.04)


def test_what_sessions_measured_alike_stays_as_it_is(three, kernel):
    assert session_corrected(three, kernel).log_ms == pytest.approx(three.log_ms, abs=0.02)
    together = replace(slower(three, [1.3, 1.3, 1.3]), sessions=np.zeros(3 * EACH, dtype=int))
    assert session_corrected(together, kernel).log_ms == pytest.approx(together.log_ms, abs=1e-12)


def test_a_network_that_takes_no_longer_than_a_call_is_left_alone(three, kernel):
    log_ms = three.log_ms.copy()
    log_ms[-1] = np.log(CALL_MS)
    found = session_corrected(slower(replace(three, log_ms=log_ms), [1.0, 1.0, 1.25]), kernel)
    assert found.log_ms[-1] == log_ms[-1]


def test_whole_models_stay_as_they_were_measured(three, kernel):
    measured = slower(three, [1.0, 1.0, 1.25])
    of_last = measured.signatures[-1]
    found = session_corrected(measured, kernel, {of_last})
    assert found.log_ms[-1] == pytest.approx(measured.log_ms[-1], abs=1e-12)
    assert ratios(found, three) == pytest.approx(1.0, abs=0.04)


def test_a_session_that_is_too_far_off_is_taken_for_another_kind_of_network(three, kernel):
    measured = slower(three, [1.0, 1.0, 1.6])
    assert ratios(session_corrected(measured, kernel), three) == pytest.approx(
        [1.0, 1.0, 1.6], abs=0.04
    )
