"""Fitted numbers in the store."""

import dataclasses
from datetime import UTC, datetime

import pytest

from dlbricks_core.facts import (
    LATENCY,
    Calibration,
    CalibrationKey,
    CalibrationModel,
    Quantity,
    Setup,
)
from dlbricks_core.store import ResultStore

KEY = CalibrationKey(
    "similar",
    "segments",
    128,
    LATENCY,
    Setup("mxnet", "1.9.1", "{}", 2, "interleaved/8", "0.1.0"),
    "sys",
)
FOUND = Calibration(
    KEY,
    {"composing_error": 1 / 3, "computing_share": 0.5},
    (CalibrationModel("net", "onnx:net", "abc", -0.01, 0.002),),
    17,
    "0.1.0",
    datetime(2026, 11, 23, 12, 30, tzinfo=UTC),
)


def test_a_calibration_comes_back_exactly(store, place):
    assert store.calibration(KEY) is None
    store.keep_calibration(FOUND)
    with ResultStore.open(place) as other:
        assert other.calibration(KEY) == FOUND
    assert FOUND.signatures == {"abc"}


def test_a_newer_calibration_replaces_the_older_one(store):
    store.keep_calibration(FOUND)
    newer = dataclasses.replace(FOUND, values={"composing_error": 0.01})
    store.keep_calibration(newer)
    assert store.calibration(KEY) == newer


def _others():
    """The key with another value in one field each, also of its setup."""
    for whole, field in [(KEY, f) for f in dataclasses.fields(KEY)] + [
        (KEY.setup, f) for f in dataclasses.fields(KEY.setup)
    ]:
        value = getattr(whole, field.name)
        if whole is KEY.setup:
            changed = dataclasses.replace(KEY.setup, **{field.name: _other(value)})
            yield dataclasses.replace(KEY, setup=changed)
        elif field.name != "setup":
            yield dataclasses.replace(KEY, **{field.name: _other(value)})


def _other(value):
    if isinstance(value, Quantity):
        return dataclasses.replace(value, name=f"{value.name}x")
    return value + (1 if isinstance(value, int) else "x")


@pytest.mark.parametrize("other", list(_others()), ids=str)
def test_a_calibration_holds_for_its_own_question_only(store, other):
    store.keep_calibration(FOUND)
    assert store.calibration(other) is None
    assert store.forget_calibration(other) is False
    assert store.calibration(KEY) == FOUND


def test_a_calibration_can_be_forgotten(store):
    store.keep_calibration(FOUND)
    assert store.forget_calibration(KEY) is True
    assert store.calibration(KEY) is None
    assert store.forget_calibration(KEY) is False
