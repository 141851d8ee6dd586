"""Scenarios of MLPerf Inference: their rules, and queueing models of several instances.

The room is plain arithmetic and runs no network.
"""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_serving.scenarios.answering import (
        Run,
        answer,
        answer_of,
        most_qps_under,
        served_at,
        simulate,
    )
    from dlbricks_serving.scenarios.queueing import poisson_arrivals
    from dlbricks_serving.scenarios.records import (
        LOAD_S,
        MINIMUM_DURATION_S,
        OFFLINE_SAMPLES,
        PATTERNS,
        Interval,
        LoadPattern,
        Scenario,
        ScenarioAnswer,
        ServiceTimes,
    )
    from dlbricks_serving.scenarios.stopping import (
        early_stopping_estimate,
        meets_bound,
        overlatency_allowed,
        percentile,
        percentile_interval,
        queries_needed,
    )

__all__ = [
    "LOAD_S",
    "MINIMUM_DURATION_S",
    "OFFLINE_SAMPLES",
    "PATTERNS",
    "Interval",
    "LoadPattern",
    "Run",
    "Scenario",
    "ScenarioAnswer",
    "ServiceTimes",
    "answer",
    "answer_of",
    "early_stopping_estimate",
    "meets_bound",
    "most_qps_under",
    "overlatency_allowed",
    "percentile",
    "percentile_interval",
    "poisson_arrivals",
    "queries_needed",
    "served_at",
    "simulate",
]

lazy(__name__)
