"""Records that all rooms share: plain, frozen data."""

from dlbricks_core.facts.calibration import Calibration, CalibrationKey, CalibrationModel
from dlbricks_core.facts.checks import canonical_json
from dlbricks_core.facts.failure import Failure
from dlbricks_core.facts.observation import Measurement, Observation
from dlbricks_core.facts.question import Kind, Question, Setup, Subject
from dlbricks_core.facts.system import Cache, System

__all__ = [
    "Cache",
    "Calibration",
    "CalibrationKey",
    "CalibrationModel",
    "Failure",
    "Kind",
    "Measurement",
    "Observation",
    "Question",
    "Setup",
    "Subject",
    "System",
    "canonical_json",
]
