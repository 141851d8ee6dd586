"""Measurements as a JSON file, to carry them from one machine to another."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlbricks_core.errors import StoreError
from dlbricks_core.facts import Measurement
from dlbricks_core.facts.checks import checked
from dlbricks_core.store.rows import (
    columns_of,
    observation_columns,
    observation_of,
    question_of,
)
from dlbricks_core.store.schema import KEY_COLUMNS
from dlbricks_core.store.store import ResultStore

#: Version of the file's form.
VERSION = 1
_KEY_KINDS: dict[str, type[Any]] = dict.fromkeys(KEY_COLUMNS, str) | {"threads": int}


def export_measurements(store: ResultStore, path: Path) -> int:
    """Writes all measurements, with the systems they were made on.

    Returns:
        How many measurements were written.

    Raises:
        StoreError: If the file cannot be written.
    """
    found = [_to_dict(measurement) for measurement in store.measurements()]
    content = {"measurements_version": VERSION, "systems": store.systems(), "measurements": found}
    try:
        path.write_text(json.dumps(content, indent=1) + "\n")
    except OSError as error:
        raise StoreError(
            f"{path}: {error.strerror}", "choose a file that can be written"
        ) from error
    return len(found)


def import_measurements(store: ResultStore, path: Path) -> int:
    """Adds the measurements of such a file; those that the store has are not doubled.

    Returns:
        How many sample sets were new.

    Raises:
        StoreError: If the file cannot be read or does not hold measurements; the store
            is left as it was.
    """
    if path.exists() and not path.is_file():
        raise StoreError(f"{path} is no regular file", "give a file that DLBricks exported")
    try:
        content = json.loads(path.read_bytes())
        version = content["measurements_version"]
        if version != VERSION:
            raise StoreError(
                f"{path}: measurements of version {version}, this DLBricks reads {VERSION}",
                "use the same version of DLBricks on both machines",
            )
        systems = {str(name): dict(facts) for name, facts in content["systems"].items()}
        measurements = [_from_dict(data) for data in content["measurements"]]
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", "check the path") from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise StoreError(
            f"{path} does not hold exported measurements", "give a file that DLBricks exported"
        ) from error
    known = store.systems()
    for fingerprint, facts in systems.items():
        if fingerprint not in known:
            store.remember_system(fingerprint, facts)
    return store.merge(measurements)


def _to_dict(measurement: Measurement) -> dict[str, Any]:
    return {
        "key": columns_of(measurement.question),
        "layers": list(measurement.layers),
        "failure": measurement.failure,
        "samples": [observation_columns(each) for each in measurement.observations],
    }


def _from_dict(data: Mapping[str, Any]) -> Measurement:
    key = {name: checked(data["key"][name], kind, name) for name, kind in _KEY_KINDS.items()}
    return Measurement(
        question=question_of(key),
        layers=tuple(checked(name, str) for name in checked(data["layers"], list)),
        observations=tuple(observation_of(taken) for taken in data["samples"]),
        failure=None if data["failure"] is None else checked(data["failure"], str, "failure"),
    )
