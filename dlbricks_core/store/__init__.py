"""The result database and the records that it keeps."""

from dlbricks_core.store.calibration import Calibration, CalibrationKey, CalibrationModel
from dlbricks_core.store.database import locate
from dlbricks_core.store.portable import export_measurements, import_measurements
from dlbricks_core.store.records import (
    Kind,
    Measurement,
    MeasurementKey,
    SampleSet,
    canonical_json,
)
from dlbricks_core.store.store import ResultStore, StoreInfo

__all__ = [
    "Calibration",
    "CalibrationKey",
    "CalibrationModel",
    "Kind",
    "Measurement",
    "MeasurementKey",
    "ResultStore",
    "SampleSet",
    "StoreInfo",
    "canonical_json",
    "export_measurements",
    "import_measurements",
    "locate",
]
