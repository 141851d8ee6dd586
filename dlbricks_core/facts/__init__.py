"""Records that all rooms share: plain, frozen data."""

from typing import TYPE_CHECKING

from dlbricks_core.lazy import lazy

if TYPE_CHECKING:
    from dlbricks_core.facts.calibration import Calibration, CalibrationKey, CalibrationModel
    from dlbricks_core.facts.checks import canonical_json
    from dlbricks_core.facts.note import Note
    from dlbricks_core.facts.observation import (
        LATENCY,
        SCENARIO_LATENCY,
        SCENARIO_THROUGHPUT,
        Composition,
        Failure,
        Kind,
        Measurement,
        NetworkFeatures,
        Observation,
        Quantity,
        Question,
        Rewrite,
        Sampled,
        Setup,
        Subject,
    )
    from dlbricks_core.facts.system import Cache, Machine, MachineName, Pulse, Session, System

__all__ = [
    "LATENCY",
    "SCENARIO_LATENCY",
    "SCENARIO_THROUGHPUT",
    "Cache",
    "Calibration",
    "CalibrationKey",
    "CalibrationModel",
    "Composition",
    "Failure",
    "Kind",
    "Machine",
    "MachineName",
    "Measurement",
    "NetworkFeatures",
    "Note",
    "Observation",
    "Pulse",
    "Quantity",
    "Question",
    "Rewrite",
    "Sampled",
    "Session",
    "Setup",
    "Subject",
    "System",
    "canonical_json",
]

lazy(__name__)
